"""Train the shipped checkpoints again: `make checkpoints`, or this file with names of runs.

Each run is measured while it trains: data/results/training/<name>.json. Runs that are shipped also
write data/checkpoints/<name>/ with weights, tokenizer, hashes and provenance. One thread each, on
the CPU; under torchrun or accelerate launch the processes share every batch, on GPUs if there are.
"""

import argparse
import copy
import hashlib
import json
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import here  # noqa: F401
from aot_helpers import parallel, setup
from aot_helpers.base import files
from aot_helpers.base.files import check_writable, write_atomically, write_safetensors
from aot_helpers.models import checkpoints
from aot_helpers.models.losses import (
    copy_accuracy,
    copy_losses,
    count_losses,
    in_context_score,
    next_token_losses,
)
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import head_scores, induction_scores
from aot_helpers.text.batches import MaskedWindows, repeated_tokens, token_stream
from aot_helpers.text.corpora import load_corpus
from aot_helpers.text.tokenization import Tokenizer
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.copying import copying_start, two_sided_start
from aot_helpers.training.objectives import OBJECTIVES
from aot_helpers.training.train import History, train
from chapters.nb19_induction_both_ways.repeats import KINDS, hidden_accuracy, induction_map, repeats
from checkpoint_runs import (
    RUNS,
    held_out,
    measured_at,
    model_config,
    tokenizer_of,
    training_windows,
)


def measure(model: AttentionOnlyTransformer, texts: dict[str, Tensor], bos: int) -> dict:
    """Losses (nats per token), copying of random tokens by length, and scores of every head."""
    n_ctx, found = model.config.n_ctx, {}
    with torch.no_grad():
        losses = next_token_losses(model(texts["text"]), texts["text"])
    score = in_context_score(losses, (4, 12), (n_ctx * 3 // 4, n_ctx - 1))
    found["text"], found["in-context score"] = losses.mean().item(), score.mean().item()
    for name in ("repeated text", "repeated random tokens"):
        first, second = copy_losses(model, texts[name])
        found[f"{name}, first copy"], found[f"{name}, second copy"] = first, second
    found = {name: round(value, 4) for name, value in found.items()}
    found["copy accuracy"] = {
        str(length): round(copy_accuracy(model, repeated), 4)
        for length in (8, 16, 24, 32, 40, 60)
        if 1 + 2 * length <= n_ctx
        for repeated in [repeated_tokens(model.config.d_vocab, length, 50, bos, seed=2)]
    }
    if model.config.n_layers:
        repeated = texts["repeated random tokens"]
        for name, scores in {
            "induction": induction_scores(model, repeated),
            "induction on the corpus": induction_scores(model, texts["repeated text"]),
            "previous": head_scores(model, repeated, "previous").scores,
        }.items():
            found[name] = [[round(s, 3) for s in row] for row in scores.tolist()]
    return found


@torch.no_grad()
def measure_masked(model: AttentionOnlyTransformer, texts: dict[str, Tensor], bos: int) -> dict:
    """Loss of hidden tokens of text, and of repeated random tokens: how many are found, by whom."""
    mask, length = model.config.d_vocab - 1, (model.config.n_ctx - 1) // 3
    seen, targets = OBJECTIVES["masked token"](texts["masked text"])
    loss = F.cross_entropy(model(seen).flatten(0, 1), targets.flatten())
    found = {"masked text": round(loss.item(), 4), "found": {}}
    for kind in KINDS:
        hidden = repeats(kind, length, mask, bos, n_texts=200, seed=1)
        found["found"][kind] = round(hidden_accuracy(model, hidden), 4)
        if kind == "in order":
            scores = induction_map(model, hidden).scores
            found["earlier instance"] = [[round(s, 3) for s in row] for row in scores.tolist()]
    return found


def make(name: str) -> None:
    """Train and measure one run, and write it."""
    run = RUNS[name]
    device = setup(seed=run.seed)
    corpus, test = load_corpus(run.corpus), load_corpus(run.corpus, "test")
    tokenizer = tokenizer_of(run, corpus.texts)
    stream = token_stream(tokenizer.encode_many(corpus.texts), tokenizer.bos)
    texts = held_out(test.texts, tokenizer, run)
    windows, config = training_windows(stream, tokenizer.bos, run), model_config(run)
    batches, measured = windows, measure
    if run.masked:
        batches, measured = MaskedWindows(windows, mask=run.d_vocab), measure_masked
    model = AttentionOnlyTransformer(config)
    if run.gpt2_init:
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.02)
    if run.copying_start:
        copying_start(model)
    if run.two_sided_start:
        two_sided_start(model)
    if parallel.size() > 1:
        model.to(device)
    weights, curve = {}, {}

    def look(history):
        if history.steps in (*(run.kept or ()), run.steps):
            named = model.named_parameters()
            weights[history.steps] = {n: p.detach().to("cpu", copy=True) for n, p in named}
        if history.steps in measured_at(run):
            curve[history.steps] = measured(copy.deepcopy(model).cpu(), texts, tokenizer.bos)

    training = TrainConfig(
        steps=run.steps,
        learning_rate=run.learning_rate,
        final_share=run.final_share,
        optimizer=run.optimizer,
        log_every=50,
        bf16=False,
        objective="masked token" if run.masked else "next token",
    )
    if parallel.rank() == 0:
        look(History())
    history = train(model, batches, training, watch=look)
    if parallel.rank() > 0:  # process 0 has measured, and writes
        return parallel.wait()
    lowest, highest = run.repeat_lengths
    random = {0.5: "half", 1.0: "all"}.get(run.random_share, f"{run.random_share:.0%}")
    twice = f"segments of {lowest} to {highest} tokens written twice, {random} of them random"
    shares = f"{windows.repeat_share_at(0):.0%}"
    if isinstance(run.repeat_share, tuple):
        shares += "".join(f", from step {at} on {share:.0%}" for at, share in run.repeat_share[1:])
    launcher = f"torchrun --nproc-per-node {n}" if (n := parallel.size()) > 1 else "python"
    provenance = {
        "command": f"{launcher} tools/train_checkpoints.py {name}",
        "processes": parallel.size(),
        "corpus": f"{run.corpus}, {len(stream):,} tokens; {shares} of the windows are {twice}",
        "source": corpus.source,
        "corpus_sha256": corpus.sha256,
        "seed": run.seed,
        "gpt2_init": run.gpt2_init,
        "copying_start": run.copying_start,
        **({"two_sided_start": True} if run.two_sided_start else {}),
        "training": {
            "steps": run.steps,
            "learning_rate": training.learning_rate,
            "optimizer": training.optimizer,
            "objective": training.objective,
            "batch_size": windows.batch_size,
        },
        "versions": {"python": platform.python_version(), "torch": version("torch")},
        "seconds": round(history.seconds),
        "measured": curve[run.steps],
        "counting": count_losses(stream[None], texts["text"], run.d_vocab),
        "made_up": f"synthetic text of {corpus.source}" if corpus.synthetic else "nothing",
    }
    print(name, curve[run.steps])
    if run.kept is not None:
        save_checkpoint(name, weights, config, tokenizer, provenance)
    folder = files.DATA / "results" / "training"
    check_writable(folder)
    content = {"provenance": provenance, "steps": list(curve), "measured": list(curve.values())}
    write_atomically(folder / f"{name}.json", (json.dumps(content) + "\n").encode())
    parallel.wait()


def save_checkpoint(
    name: str,
    trajectory: dict[int, dict[str, Tensor]],
    config: ModelConfig,
    tokenizer: Tokenizer,
    provenance: dict,
    folder: Path | None = None,
) -> Path:
    """Write {step: weights} as data/checkpoints/<name>/, rounded to float16."""
    where = (folder or files.DATA / "checkpoints") / name
    check_writable(where)
    tokenizer.save(where / "tokenizer.json")
    weights_of = {}
    for step, weights in trajectory.items():
        weights_of[str(step)] = f"step-{step:05d}.safetensors"
        write_safetensors(where / weights_of[str(step)], {k: w.half() for k, w in weights.items()})
    names = [*weights_of.values(), "tokenizer.json"]
    manifest = {
        "config": asdict(config),
        "steps": weights_of,
        "sha256": {file: hashlib.sha256((where / file).read_bytes()).hexdigest() for file in names},
        "provenance": provenance,
    }
    write_atomically(where / "checkpoint.json", (json.dumps(manifest, indent=1) + "\n").encode())
    return where


def names_to_make(runs: dict, description: str) -> list[str]:
    """The names of runs on the command line; without any, all of them, in their order."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(runs)}; none: all, in this order"
    )
    names = parser.parse_args().names
    unknown = set(names) - set(runs)
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(runs)}")
    return names or list(runs)


if __name__ == "__main__":
    made = names_to_make(RUNS, __doc__)
    for each in made:
        make(each)
    seconds = [checkpoints.load_measurements(name)["provenance"]["seconds"] for name in made]
    if parallel.rank() == 0:
        print(f"{len(made)} runs: {sum(seconds) / 60:.0f} minutes of training")
