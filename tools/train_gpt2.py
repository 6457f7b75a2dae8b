"""Train the shipped GPT-2 again: `make checkpoints`. Layer norm, MLPs, tied embeddings; our text.

It is saved in Hugging Face's format, data/pretrained/docstrings-gpt2/, weights as float16, with
provenance.json beside them: how it was made, what it can do, and the sha256 of every file. One
thread; forward and backward passes in bf16.
"""

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from aot_helpers import setup
from aot_helpers.base import files
from aot_helpers.base.files import check_writable, write_atomically
from aot_helpers.models.losses import count_losses
from aot_helpers.models.pretrained import PretrainedTransformer
from aot_helpers.text.batches import token_stream
from aot_helpers.text.corpora import load_corpus
from aot_helpers.text.tokenization import train_bpe
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.train import train
from checkpoint_runs import Run, held_out, training_windows
from train_checkpoints import measure

NAME = "docstrings-gpt2"
RUN = Run(
    "docstrings", n_layers=4, steps=2000, d_vocab=4096, d_model=192, n_heads=6, d_head=32,
    learning_rate=0.01, optimizer="muon", repeat_share=((0, 0.8), (500, 0.25)),
    repeat_lengths=(8, 60),
)  # fmt: skip


def fresh(run: Run) -> GPT2LMHeadModel:
    """A GPT-2 of the run's shape, without dropout, started as GPT-2 was."""
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=run.d_vocab, n_positions=run.n_ctx, n_embd=run.d_model, n_layer=run.n_layers,
            n_head=run.n_heads, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=0, eos_token_id=0,
        )
    )  # fmt: skip


def save(hf: GPT2LMHeadModel, tokenizer, provenance: dict, folder: Path) -> None:
    """Write config.json, model.safetensors (float16), tokenizer.json and provenance.json."""
    check_writable(folder)
    hf.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(folder / "tokenizer.json")
    names = ("config.json", "model.safetensors", "tokenizer.json")
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    content = json.dumps({**provenance, "sha256": hashes}, indent=1) + "\n"
    write_atomically(folder / "provenance.json", content.encode())


def make(run: Run = RUN, folder: Path | None = None) -> dict:
    """Train, measure and write the model; gives its provenance.

    What is measured is what is shipped: the weights rounded to float16.
    """
    setup(seed=run.seed)
    corpus, test = load_corpus(run.corpus), load_corpus(run.corpus, "test")
    tokenizer = train_bpe(corpus.texts, run.d_vocab)
    stream = token_stream(tokenizer.encode_many(corpus.texts), tokenizer.bos)
    texts = held_out(test.texts, tokenizer, run)
    model = PretrainedTransformer(fresh(run), tokenizer)
    training = TrainConfig(
        steps=run.steps, learning_rate=run.learning_rate, optimizer=run.optimizer, log_every=50,
        bf16=True,
    )  # fmt: skip
    history = train(model, training_windows(stream, tokenizer.bos, run), training)
    with torch.no_grad():
        exact = model(texts["text"])
        for parameter in model.parameters():
            parameter.copy_(parameter.half())
        rounding = (model(texts["text"]) - exact).abs().max().item()
    provenance = {
        "command": "python tools/train_gpt2.py",
        "corpus": f"{run.corpus}, {len(stream):,} tokens; segments of {run.repeat_lengths[0]} to "
        f"{run.repeat_lengths[1]} tokens written twice, half of them random, in shares of the "
        f"windows by step: {run.repeat_share}",
        "source": corpus.source,
        "corpus_sha256": corpus.sha256,
        "seed": run.seed,
        "training": {
            "steps": run.steps,
            "batch_size": run.batch_size,
            "optimizer": run.optimizer,
            "learning_rate": run.learning_rate,
            "learning_rate_heads": training.learning_rate_heads,
        },
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "transformers", "tokenizers")},
        },
        "seconds": round(history.seconds),
        "loss_of_the_last_50_steps": round(history.smoothed()[-1].item(), 4),
        "largest_change_of_a_logit_by_float16": round(rounding, 5),
        "measured": measure(model, texts, tokenizer.bos),
        "counting": count_losses(stream[None], texts["text"], run.d_vocab),
        "made_up": "nothing",
    }
    save(model.hf, tokenizer, provenance, folder or files.DATA / "pretrained" / NAME)
    return provenance


if __name__ == "__main__":
    print(json.dumps(make(), indent=1))
