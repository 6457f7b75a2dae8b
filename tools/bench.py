"""Measure training speed and the time to the phase change: `make bench` (about 10 minutes).

Everything is measured in one run, in turns, on as many threads as BENCH_THREADS says (default 2).
Results go to data/results/bench.json.
"""

import json
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from aot_helpers import setup
from aot_helpers.checkpoints import DATA, write_atomically
from aot_helpers.corpora import load_corpus, token_stream
from aot_helpers.heads import copy_losses
from aot_helpers.model import AttentionOnlyTransformer, ModelConfig
from aot_helpers.tokenization import train_bpe
from aot_helpers.train import TrainConfig, bf16_pays, make_optimizer, train
from publish import describe_machine
from train_checkpoints import Run, model_config, training_windows

THREADS = int(os.environ.get("BENCH_THREADS", "2"))
SHAPES = {  # d_model, heads, n_ctx, batch, d_vocab
    "small": (128, 4, 128, 16, 1024),
    "large": (256, 8, 256, 16, 4096),
}
ROUNDS, SECONDS_PER_TURN = 7, 2.0
RATIO, SEEDS = 0.6, (0, 1, 2)  # phase change: loss of the second copy <= RATIO x the first


class Nothing(nn.Module):
    """Stands in for an MLP that is taken out: adds zero to the stream."""

    def forward(self, x):
        return torch.zeros_like(x)


def gpt2_without_mlps(d_model, n_heads, n_ctx, d_vocab):
    """Transformers' GPT-2 class, two layers, attention only, no dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = {"vocab_size": d_vocab, "n_positions": n_ctx, "n_embd": d_model, "n_head": n_heads}
    config = GPT2Config(
        **shape, n_layer=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False,
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    for block in model.transformer.h:
        block.mlp, block.ln_2 = Nothing(), nn.Identity()
    return model


def contestants(d_model, n_heads, n_ctx, d_vocab):
    """{name: (model, logits of a batch)}; ours with each kind of positions, plain and compiled."""
    gpt2 = gpt2_without_mlps(d_model, n_heads, n_ctx, d_vocab)
    found = {}
    for compiled in (False, True):
        name = f"GPT-2 class without MLPs{', compiled' if compiled else ''}"
        found[name] = (gpt2, lambda tokens: gpt2(tokens).logits, compiled)
    for positions in ("keys_queries", "relative"):
        config = ModelConfig(d_vocab, 2, d_model, n_heads, d_model // n_heads, n_ctx, positions)
        for compiled in (False, True):
            model = AttentionOnlyTransformer(config)
            name = f"ours, {positions}{', compiled' if compiled else ''}"
            found[name] = (model, model, compiled)
    return found


def training_step(model, logits_of, compiled, tokens):
    """A function that does one optimisation step; the same loss and optimiser for everyone."""
    if isinstance(model, AttentionOnlyTransformer):
        optimizer = make_optimizer(model, TrainConfig())
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), fused=True)

    def loss_of(tokens):
        return F.cross_entropy(logits_of(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    loss_of = torch.compile(loss_of, dynamic=False) if compiled else loss_of

    def step():
        loss_of(tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def seconds_each(function, seconds: float) -> float:
    """Mean seconds of a call, over calls that take about `seconds` together."""
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        function()
        calls += 1
    return (time.perf_counter() - start) / calls


def flops_per_token(d_model, n_heads, n_ctx, d_vocab) -> float:
    """Multiplications and additions in matrix products; backward costs twice the forward."""
    weights = (
        2 * 4 * d_model * d_model + d_model * d_vocab
    )  # two layers of W_Q W_K W_V W_O, and W_U
    attention = 2 * 2 * n_ctx * d_model  # two layers, scores and average
    return 3 * 2 * (weights + attention)


def speed(shape) -> dict:
    """Tokens per second of every contestant at one shape, measured in turns."""
    d_model, n_heads, n_ctx, batch, d_vocab = shape
    torch.manual_seed(0)
    tokens = torch.randint(d_vocab, (batch, n_ctx + 1))
    a, b = torch.randn(batch * n_ctx, d_model), torch.randn(d_model, d_vocab)
    turns = {"matmul": lambda: a @ b}
    warm_up = {}
    for name, (model, logits_of, compiled) in contestants(d_model, n_heads, n_ctx, d_vocab).items():
        turns[name] = training_step(model, logits_of, compiled, tokens)
        start = time.perf_counter()
        turns[name]()
        turns[name]()
        warm_up[name] = time.perf_counter() - start
    seconds = {name: [] for name in turns}
    for _ in range(ROUNDS):
        for name, function in turns.items():
            seconds[name].append(seconds_each(function, SECONDS_PER_TURN))
    matmul_rate = 2 * batch * n_ctx * d_model * d_vocab / statistics.median(seconds.pop("matmul"))
    n_tokens, flops = batch * n_ctx, flops_per_token(d_model, n_heads, n_ctx, d_vocab)
    reference = seconds["GPT-2 class without MLPs"]
    rows = {}
    for name, times in seconds.items():
        per_second = n_tokens / statistics.median(times)
        rows[name] = {
            "tokens_per_second": round(per_second),
            # The median over rounds of the ratio within a round: the machine's speed drifts.
            "times_gpt2": round(
                statistics.median(r / t for r, t in zip(reference, times, strict=True)), 2
            ),
            "share_of_matmul_rate": round(per_second * flops / matmul_rate, 2),
            "seconds_before_first_step": round(warm_up[name], 1),
        }
        print(f"  {name:32s} {rows[name]}", flush=True)
    return {"shape": shape, "matmul_gflops": round(matmul_rate / 1e9), "contestants": rows}


def phase_change() -> dict:
    """Seconds of training from random weights until a repeated story's second copy is easy."""
    corpus, test = load_corpus("stories"), load_corpus("stories", "test")
    tokenizer = train_bpe(corpus.texts, Run.d_vocab)
    stream = token_stream(tokenizer.encode_many(corpus.texts), tokenizer.bos)
    starts = [t[:63] for t in tokenizer.encode_many(test.texts) if len(t) >= 63][:64]
    twice = torch.stack([torch.cat([torch.tensor([tokenizer.bos]), t, t]) for t in starts])
    seconds, steps = [], []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = AttentionOnlyTransformer(model_config(Run(seed=seed)))

        def stop_at_change(history, model=model):
            first, second = copy_losses(model, twice)
            if second <= RATIO * first:
                raise KeyboardInterrupt  # what the stop button does

        config = TrainConfig(steps=1000, learning_rate=6e-3, log_every=25)
        batches = training_windows(stream, tokenizer.bos, Run(seed=seed))
        history = train(model, batches, config, watch=stop_at_change, quiet=True)
        seconds.append(round(history.seconds, 1) if history.ended == "interrupted" else None)
        steps.append(history.steps)
        print(f"  seed {seed}: {seconds[-1]} s, {steps[-1]} steps", flush=True)
    found = (
        f"loss of a repeated story's second copy <= {RATIO} x the first, "
        "held-out stories of 63 tokens"
    )
    return {"what": found, "seeds": SEEDS, "seconds": seconds, "steps": steps}


def main():
    setup(threads=THREADS)
    print(f"{THREADS} threads")
    results = {"machine": {**describe_machine(), "threads": THREADS}}
    results["machine"]["bf16_pays"] = bf16_pays(
        AttentionOnlyTransformer(ModelConfig(4096, d_model=256))
    )
    for name, shape in SHAPES.items():
        print(f"{name}: d_model, heads, n_ctx, batch, d_vocab = {shape}")
        results[name] = speed(shape)
    print("phase change")
    results["phase_change"] = phase_change()
    text = json.dumps(results, indent=1) + "\n"
    write_atomically(DATA / "results" / "bench.json", text.encode())
    print("written to data/results/bench.json")


if __name__ == "__main__":
    main()
