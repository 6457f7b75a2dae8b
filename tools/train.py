"""Train what is shipped again, and its controls: `make checkpoints`, or this file with names.

Each run of data/recipes.toml is measured while it trains: data/results/training/<name>.json. Those
that are shipped also write data/checkpoints/<name>/ with weights, tokenizer, hashes and provenance;
the GPT-2 and the torus networks go to data/pretrained/ and data/torus/. One thread each, on the
CPU; under torchrun or accelerate launch the processes share every batch, on GPUs if there are.
"""

import copy
import hashlib
import json
import time
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import here
import recipes
from aot_helpers import parallel, setup
from aot_helpers.base import files
from aot_helpers.base.files import check_writable, read_json, write_atomically, write_safetensors
from aot_helpers.models.losses import (
    copy_accuracy,
    copy_losses,
    count_losses,
    in_context_score,
    next_token_losses,
)
from aot_helpers.models.pretrained import PretrainedTransformer
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import head_scores, induction_scores
from aot_helpers.text.batches import MaskedWindows, repeated_tokens, token_stream
from aot_helpers.text.corpora import Corpus, load_corpus
from aot_helpers.text.tokenization import Tokenizer, train_bpe
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.copying import init_copying, init_two_sided
from aot_helpers.training.train import History, train
from chapters.nb19_induction_both_ways.repeats import KINDS, hidden_accuracy, induction_map, repeats
from chapters.torus.training import train_run
from recipes import Run


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
    inputs, targets = texts["masked text"]
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    found = {"masked text": round(loss.item(), 4), "found": {}}
    for kind in KINDS:
        hidden = repeats(kind, length, mask, bos, n_texts=200, seed=1)
        found["found"][kind] = round(hidden_accuracy(model, hidden), 4)
        if kind == "in order":
            scores = induction_map(model, hidden).scores
            found["earlier instance"] = [[round(s, 3) for s in row] for row in scores.tolist()]
    return found


def make(name: str) -> None:
    """Train and measure a run of `recipes.RUNS`, and write it."""
    run = recipes.RUNS[name]
    device = setup(seed=run.seed)
    corpus, test = load_corpus(run.corpus), load_corpus(run.corpus, "test")
    tokenizer = recipes.tokenizer_of(run, corpus.texts)
    stream = token_stream(tokenizer.encode_many(corpus.texts), tokenizer.bos)
    texts = recipes.held_out(test.texts, tokenizer, run)
    windows = recipes.training_windows(stream, tokenizer.bos, run)
    model = new_model(run)
    if parallel.world_size() > 1:
        model.to(device)
    measured = measure_masked if run.masked else measure
    weights, curve = {}, {}

    def look(history):
        if history.steps in (*run.kept, run.steps):
            named = model.named_parameters()
            weights[history.steps] = {n: p.detach().to("cpu", copy=True) for n, p in named}
        if history.steps in recipes.measured_at(run):
            curve[history.steps] = measured(copy.deepcopy(model).cpu(), texts, tokenizer.bos)

    training = TrainConfig(
        steps=run.steps,
        learning_rate=run.learning_rate,
        final_fraction=run.final_fraction,
        optimizer=run.optimizer,
        log_every=50,
    )
    if parallel.rank() == 0:
        look(History())
    batches = MaskedWindows(windows, mask=run.d_vocab) if run.masked else windows
    history = train(model, batches, training, watch=look)
    if parallel.rank() > 0:  # process 0 has measured, and writes
        return parallel.barrier()
    provenance = provenance_of(name, run, corpus, len(stream), training, history) | {
        "measured": curve[run.steps],
        "counting": count_losses(stream[None], texts["text"], run.d_vocab),
        "made_up": f"synthetic text of {corpus.source}" if corpus.synthetic else "nothing",
    }
    print(name, curve[run.steps])
    if run.shipped:
        save_checkpoint(name, weights, model.config, tokenizer, provenance)
    folder = files.DATA / "results" / "training"
    check_writable(folder)
    content = {"provenance": provenance, "steps": list(curve), "measured": list(curve.values())}
    write_atomically(folder / f"{name}.json", (json.dumps(content) + "\n").encode())
    parallel.barrier()


def new_model(run: Run) -> AttentionOnlyTransformer:
    """A run's model with its first weights."""
    model = AttentionOnlyTransformer(recipes.model_config(run))
    if run.gpt2_init:
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.02)
    if run.copying_start:
        init_copying(model)
    if run.two_sided_start:
        init_two_sided(model)
    return model


def provenance_of(
    name: str, run: Run, corpus: Corpus, n_tokens: int, training: TrainConfig, history: History
) -> dict:
    """How a run was made: command, text, windows, seed, start, settings, versions, seconds."""
    given = run.repeat_fraction
    schedule = given if isinstance(given, tuple) else ((0, given),)
    repeats = [f"from step {at} on {part:.0%}" if at else f"{part:.0%}" for at, part in schedule]
    lowest, highest = run.repeat_lengths
    random = {0.5: "half", 1.0: "all"}.get(run.random_fraction, f"{run.random_fraction:.0%}")
    twice = f"segments of {lowest} to {highest} tokens written twice, {random} of them random"
    launcher = f"torchrun --nproc-per-node {n}" if (n := parallel.world_size()) > 1 else "python"
    starts = {n: getattr(run, n) for n in ("gpt2_init", "copying_start", "two_sided_start")}
    return {
        "command": f"{launcher} tools/train.py {name}",
        "processes": parallel.world_size(),
        "corpus": f"{run.corpus}, {n_tokens:,} tokens; {', '.join(repeats)} of the windows are "
        + twice,
        "source": corpus.source,
        "corpus_sha256": corpus.sha256,
        "seed": run.seed,
        **starts,
        "training": {
            "steps": run.steps,
            "learning_rate": training.learning_rate,
            "learning_rate_heads": training.learning_rate_heads,
            "optimizer": training.optimizer,
            "objective": "masked token" if run.masked else "next token",
            "batch_size": run.batch_size,
        },
        "versions": here.versions("torch", "transformers", "tokenizers"),
        "seconds": round(history.seconds),
    }


def save_checkpoint(
    name: str,
    trajectory: dict[int, dict[str, Tensor]],
    config: ModelConfig,
    tokenizer: Tokenizer,
    provenance: dict,
    folder: Path | None = None,
) -> Path:
    """Write {step: weights} as data/checkpoints/<name>/, as float16."""
    where = (folder or files.DATA / "checkpoints") / name
    check_writable(where)
    tokenizer.save(where / "tokenizer.json")
    weights_of = {str(step): f"step-{step:05d}.safetensors" for step in trajectory}
    for file, weights in zip(weights_of.values(), trajectory.values(), strict=True):
        write_safetensors(where / file, {n: w.half() for n, w in weights.items()})
    manifest = {
        "config": asdict(config),
        "steps": weights_of,
        "sha256": hashes(where, [*weights_of.values(), "tokenizer.json"]),
        "provenance": provenance,
    }
    write_atomically(where / "checkpoint.json", (json.dumps(manifest, indent=1) + "\n").encode())
    return where


def hashes(folder: Path, names: list[str]) -> dict[str, str]:
    """The sha256 of each file."""
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def make_gpt2(name: str) -> None:
    """Train and measure a GPT-2 of `recipes.GPT2`, and write it in Hugging Face's format.

    Layer norm, MLPs, tied embeddings, no dropout; forward and backward passes in bf16. What is
    measured is what is shipped: the weights rounded to float16.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    run = recipes.GPT2[name]
    setup(seed=run.seed)
    corpus, test = load_corpus(run.corpus), load_corpus(run.corpus, "test")
    tokenizer = train_bpe(corpus.texts, run.d_vocab)
    stream = token_stream(tokenizer.encode_many(corpus.texts), tokenizer.bos)
    texts = recipes.held_out(test.texts, tokenizer, run)
    config = GPT2Config(
        vocab_size=run.d_vocab,
        n_positions=run.n_ctx,
        n_embd=run.d_model,
        n_layer=run.n_layers,
        n_head=run.n_heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = PretrainedTransformer(GPT2LMHeadModel(config), tokenizer)
    training = TrainConfig(
        steps=run.steps,
        learning_rate=run.learning_rate,
        optimizer=run.optimizer,
        log_every=50,
        bf16=True,
    )
    history = train(model, recipes.training_windows(stream, tokenizer.bos, run), training)
    with torch.no_grad():
        exact = model(texts["text"])
        for parameter in model.parameters():
            parameter.copy_(parameter.half())
        rounding = (model(texts["text"]) - exact).abs().max().item()
    provenance = provenance_of(name, run, corpus, len(stream), training, history) | {
        "loss_of_the_last_50_steps": round(history.smoothed()[-1].item(), 4),
        "largest_change_of_a_logit_by_float16": round(rounding, 5),
        "measured": measure(model, texts, tokenizer.bos),
        "counting": count_losses(stream[None], texts["text"], run.d_vocab),
        "made_up": "nothing",
    }
    folder = files.DATA / "pretrained" / name
    check_writable(folder)
    model.hf.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(folder / "tokenizer.json")
    written = hashes(folder, ["config.json", "model.safetensors", "tokenizer.json"])
    content = json.dumps({**provenance, "sha256": written}, indent=1) + "\n"
    write_atomically(folder / "provenance.json", content.encode())
    print(name, provenance["measured"])


def make_torus(name: str) -> None:
    """Train a run of `recipes.TORUS`; write its networks and its entry of data/torus/runs.json."""
    run, folder = recipes.TORUS[name], files.DATA / "torus"
    setup(seed=0)
    check_writable(folder)
    start = time.perf_counter()
    found = train_run(run)
    seconds = time.perf_counter() - start
    file, index = f"{name}.safetensors", folder / "runs.json"
    tensors = {**found.nets.tensors(), "accuracy": found.accuracy, "loss": found.loss}
    write_safetensors(folder / file, tensors)
    runs = read_json(index) if index.is_file() else {}
    runs[name] = {
        "made": asdict(run),
        "measured_at": found.steps,
        "sha256": hashes(folder, [file])[file],
        "seconds": round(seconds),
        "versions": here.versions("torch"),
    }
    runs = {each: runs[each] for each in recipes.TORUS if each in runs}
    write_atomically(index, (json.dumps(runs, indent=1) + "\n").encode())
    whole, mean = (found.accuracy[-1] == 1).float().mean(), found.accuracy[-1].mean()
    print(f"{name}: all pairs right in {whole:.0%} of the networks, mean accuracy {mean:.3f}")


def main(arguments: list[str] | None = None) -> None:
    makers = {make: recipes.RUNS, make_torus: recipes.TORUS, make_gpt2: recipes.GPT2}
    known = {name: maker for maker, runs in makers.items() for name in runs}
    names, start = here.names_of_command(__doc__, known, arguments), time.perf_counter()
    for name in names:
        known[name](name)
    if parallel.rank() == 0:
        print(f"{len(names)} runs in {(time.perf_counter() - start) / 60:.0f} minutes")


if __name__ == "__main__":
    main()
