"""Measure training, the phase change, skip-trigram tables and live figures: `make bench`.

About 15 minutes on a quiet machine; `tools/bench.py skip_trigrams` (or another part) runs a part.

Everything is measured in one run, in turns, on as many threads as BENCH_THREADS says (default 2).
Results go to data/results/bench.json.
"""

import contextlib
import io
import json
import multiprocessing
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from aot_helpers import setup
from aot_helpers.base import files
from aot_helpers.base.files import read_json, write_atomically, write_safetensors
from aot_helpers.models.losses import copy_accuracy, copy_losses, repeat_length
from aot_helpers.models.pretrained import load_pretrained
from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import POSITIONS, AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.circuits import full_ov, full_qk
from aot_helpers.reading.factored import FactoredMatrix
from aot_helpers.reading.skip_trigrams import top_triples
from aot_helpers.showing import widgets
from aot_helpers.text.batches import repeat_segments, repeated_tokens, token_stream
from aot_helpers.text.corpora import Corpus, load_corpus
from aot_helpers.text.tokenization import train_bpe
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.copying import copying_recipe
from aot_helpers.training.optimizers import make_optimizer
from aot_helpers.training.precision import has_fast_bf16, measured_seconds
from aot_helpers.training.train import train
from publish import describe_machine

THREADS = int(os.environ.get("BENCH_THREADS", "2"))
SHAPES = {  # d_model, heads, n_ctx, batch, d_vocab
    "small": (128, 4, 128, 16, 1024),
    "large": (256, 8, 256, 16, 4096),
}
ROUNDS, SECONDS_PER_TURN = 7, 2.0
# Skip-trigram tables at the size of GPT-2's vocabulary and of its heads.
TABLE = {"d_vocab": 50_257, "d_head": 64, "n_heads": 12, "k": 1000}
# Phase change: loss of the second copy <= RATIO x the first, share of random tokens >= COPIED.
RATIO, COPIED, SEEDS = 0.6, 0.9, (0, 1, 2)


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


class PlainGPT(nn.Module):
    """Two attention layers as nanoGPT writes them: one product for q, k, v; biases; no MLP.

    Its unembedding is not tied to its embedding, as ours is not.
    """

    def __init__(self, d_model, n_heads, n_ctx, d_vocab):
        super().__init__()
        self.n_heads = n_heads
        self.token, self.position = nn.Embedding(d_vocab, d_model), nn.Embedding(n_ctx, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.read = nn.ModuleList(nn.Linear(d_model, 3 * d_model) for _ in range(2))
        self.write = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(2))
        self.unembed = nn.Linear(d_model, d_vocab, bias=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for norm, read, write in zip(self.norms, self.read, self.write, strict=False):
            parts = read(norm(x)).chunk(3, dim=-1)
            q, k, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in parts)
            z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + write(z.transpose(1, 2).flatten(2))
        return self.unembed(self.norms[-1](x))


def contestants(d_model, n_heads, n_ctx, d_vocab):
    """{name: (model, logits of a batch, compiled)}; ours with each kind of positions."""
    gpt2 = gpt2_without_mlps(d_model, n_heads, n_ctx, d_vocab)
    plain, found = PlainGPT(d_model, n_heads, n_ctx, d_vocab), {}
    for compiled in (False, True):
        also = ", compiled" if compiled else ""
        found[f"GPT-2 class without MLPs{also}"] = (
            gpt2,
            lambda tokens: gpt2(tokens).logits,
            compiled,
        )
        found[f"as nanoGPT, without MLPs{also}"] = plain, plain, compiled
        for positions in POSITIONS if not compiled else ("shortformer", "relative"):
            config = ModelConfig(d_vocab, 2, d_model, n_heads, d_model // n_heads, n_ctx, positions)
            model = AttentionOnlyTransformer(config)
            found[f"ours, {positions}{also}"] = model, model, compiled
    return found


def training_step(model, logits_of, compiled, tokens):
    """A function that does one optimization step; the same loss and optimizer for everyone."""
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
    references = {"gpt2": "GPT-2 class without MLPs", "nanogpt": "as nanoGPT, without MLPs"}
    rows = {}
    for name, times in seconds.items():
        per_second = n_tokens / statistics.median(times)
        rows[name] = {
            "tokens_per_second": round(per_second),
            # The median over rounds of the ratio within a round: the machine's speed drifts.
            **{
                f"times_{other}": round(
                    statistics.median(r / t for r, t in zip(seconds[of], times, strict=True)), 2
                )
                for other, of in references.items()
            },
            "share_of_matmul_rate": round(per_second * flops / matmul_rate, 2),
            "seconds_before_first_step": round(warm_up[name], 1),
        }
        print(f"  {name:32s} {rows[name]}", flush=True)
    return {
        "shape": shape,
        "matmul_gflops": round(matmul_rate / 1e9),
        "contestants": rows,
        "bf16": bf16(shape, tokens),
    }


def bf16(shape, tokens) -> dict:
    """Times by which bf16 makes a step quicker, as `train` measures it before its first step."""
    d_model, n_heads, n_ctx, _, d_vocab = shape
    found = {}
    for positions in POSITIONS if has_fast_bf16(tokens.device) else ():
        config = ModelConfig(d_vocab, 2, d_model, n_heads, d_model // n_heads, n_ctx, positions)
        seconds = measured_seconds(AttentionOnlyTransformer(config), tokens, TrainConfig())
        found[positions] = round(seconds["fp32"] / seconds["bf16"], 2)
    print(f"  bf16, times faster: {found or 'no AMX here'}", flush=True)
    return found


def invented_text(letters: str, n_characters: int = 1_000_000, seed: int = 0) -> str:
    """A language that nobody speaks: 3,000 words of random syllables, each with 30 followers."""
    draw, n_words = random.Random(seed), 3000
    syllables = ["".join(draw.sample(letters, draw.choice((1, 2, 2, 3)))) for _ in range(200)]
    words = ["".join(draw.choices(syllables, k=draw.choice((1, 2, 2, 3)))) for _ in range(n_words)]
    frequency = [1 / (rank + 3) for rank in range(n_words)]
    followers = [draw.choices(range(n_words), frequency, k=30) for _ in range(n_words)]
    sentences, length, word = [], 0, 0
    while length < n_characters:
        sentence = []
        for _ in range(draw.randint(4, 15)):
            word = draw.choice(followers[word])
            sentence.append(words[word])
        sentences.append(" ".join(sentence).capitalize() + draw.choice((".", ".", "?", ";\n")))
        length += len(sentences[-1]) + 1
    return " ".join(sentences)


def reader_texts(corpus: Corpus, n_characters: int = 1_000_000) -> tuple[list[str], list[str]]:
    """About a million characters of a corpus to train on, and later ones that are held out."""
    text = "\n".join(corpus.texts)
    return [text[:n_characters]], [text[n_characters : n_characters * 11 // 10]]


def phase_texts() -> dict[str, tuple[list[str], list[str]]]:
    """{name: (texts to train on, held-out texts)}: stories, and two as a reader brings them."""
    greek = load_corpus([invented_text("αβγδεζηθικλμνξοπρστυφχψω", 1_100_000)])
    return {
        "stories": (load_corpus("stories").texts, load_corpus("stories", "test").texts),
        "docstrings, 1 MB": reader_texts(load_corpus("docstrings")),
        "invented language in Greek letters, 1 MB": reader_texts(greek),
    }


def until_it_copies(stream, tokenizer, twice, seed: int, optimizer: str, threads: int) -> dict:
    """One training run until both thresholds are met: step and seconds of each, or None."""
    torch.set_num_threads(threads)
    model, windows, config = copying_recipe(stream, tokenizer, seed=seed, optimizer=optimizer)
    length = repeat_length(twice)
    randoms = repeated_tokens(tokenizer.d_vocab, length, 100, tokenizer.bos, seed=5)
    found, looked, started = {"seed": seed}, 0.0, time.perf_counter()

    def look(history):
        nonlocal looked
        now = time.perf_counter()
        first, second = copy_losses(model, twice)
        share, at = copy_accuracy(model, randoms), [history.steps, round(now - started - looked, 1)]
        if second <= RATIO * first:
            found.setdefault("second copy", at)
        if share >= COPIED:
            found.setdefault("random tokens", at)
        found["last"] = {
            "step": at[0],
            "ratio": round(second / first, 2),
            "copied": round(share, 2),
        }
        looked += time.perf_counter() - now
        if {"second copy", "random tokens"} <= found.keys():
            raise KeyboardInterrupt  # what the stop button does

    with contextlib.redirect_stdout(io.StringIO()):
        train(model, windows, replace(config, log_every=25, bf16=False), watch=look, quiet=True)
    torch.set_num_threads(THREADS)
    return {"second copy": None, "random tokens": None, **found}


def phase_change() -> dict:
    """Steps and seconds, from random weights, until a model copies what it has read once."""
    rows = {
        "what": f"[step, seconds] at which the loss of a held-out text's second copy is <= {RATIO} "
        f"x the first, and at which >= {COPIED} of random tokens written twice are copied; looked "
        "at every 25 steps; seconds with the making of batches, without the looking"
    }
    for name, (texts, held_out_texts) in phase_texts().items():
        tokenizer = train_bpe(texts)
        stream = token_stream(tokenizer.encode_many(texts), tokenizer.bos)
        held_out = token_stream(tokenizer.encode_many(held_out_texts), tokenizer.bos)
        starts = torch.arange(100)[:, None] * ((len(held_out) - 31) // 100)
        twice = repeat_segments(held_out[starts + torch.arange(31)], tokenizer.bos)
        plan = [("muon", threads, seed) for threads in (1, 2) for seed in SEEDS]
        rows[name] = {}
        for optimizer, threads, seed in [*plan, ("adamw", THREADS, SEEDS[0])]:
            run = until_it_copies(stream, tokenizer, twice, seed, optimizer, threads)
            rows[name].setdefault(f"{optimizer}, {threads} threads", []).append(run)
            print(f"  {name}, {optimizer}, {threads} threads: {run}", flush=True)
    return rows


def random_head(seed: int) -> tuple[FactoredMatrix, FactoredMatrix]:
    """QK and OV circuits of a random head: the hardest case, nothing stands out."""
    generator = torch.Generator().manual_seed(seed)
    shape = (TABLE["d_vocab"], TABLE["d_head"])
    a, b, c, d = (torch.randn(shape, generator=generator) for _ in range(4))
    return FactoredMatrix(a / TABLE["d_head"] ** 0.5, b.T), FactoredMatrix(
        c / TABLE["d_head"] ** 0.5, d.T
    )


def streaming_table(seed: int) -> int:
    """The strongest skip-trigrams of one head, by blocks of rows; returns how many were found."""
    qk, ov = random_head(seed)
    return len(top_triples(qk, ov, TABLE["k"], torch.arange(50)).value)


def real_heads(folder: str) -> list[Path]:
    """Files with the circuits of 3 heads of SmolLM2's first layer; none if it is out of reach.

    Written by a process of its own: one that held the model would hide what a table takes, for
    Linux counts the peak of a new process from that of the old.
    """
    try:
        model = load_pretrained("smollm2")
    except OSError as error:
        print(f"  {error}")
        return []
    context = model.tokenizer.encode(load_corpus("stories", "test", quiet=True).texts[0])[:50]
    paths = []
    for head in (Head(0, 0), Head(0, 4), Head(0, 8)):
        paths.append(Path(folder) / f"{head}.safetensors")
        qk, ov = full_qk(model, head), full_ov(model, head)
        factors = {"qk.A": qk.A, "qk.B": qk.B, "ov.A": ov.A, "ov.B": ov.B, "context": context}
        write_safetensors(paths[-1], factors)
    return paths


def real_table(path: Path) -> int:
    """`streaming_table` of a head that `real_heads` wrote."""
    found = load_file(path)
    qk, ov = (FactoredMatrix(found[f"{name}.A"], found[f"{name}.B"]) for name in ("qk", "ov"))
    return len(top_triples(qk, ov, TABLE["k"], found["context"]).value)


def naive_table(seed: int) -> int:
    """The first step of a naive table: one head's whole QK circuit, the largest of each row."""
    qk, _ = random_head(seed)
    return len((qk.A @ qk.B).amax(dim=1))


def measured_in_a_process(table, head) -> dict:
    """Seconds and peak memory (GB above an idle process) of a function, in its own process."""
    return in_a_process(_measured, table, head)


def in_a_process(function, *arguments):
    """What a function returns that a new process runs."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def _measured(table, head) -> dict:
    setup(threads=THREADS)
    random_head(0)[0].rows(torch.arange(8))  # torch's own memory is there before
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    found = table(head)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"seconds": round(seconds, 1), "peak_gb": round((peak - before) / 2**20, 2), "n": found}


def skip_trigrams() -> dict:
    """Tables of every head of a layer, random and real, and the naive product for one head."""
    rows, tables = {}, {"streaming": [(streaming_table, i) for i in range(TABLE["n_heads"])]}
    with tempfile.TemporaryDirectory() as folder:
        real = in_a_process(real_heads, folder)
        tables["streaming, SmolLM2"] = [(real_table, path) for path in real]
        for name, heads in tables.items():
            measured = [measured_in_a_process(table, head) for table, head in heads]
            if not measured:
                continue
            seconds = [head["seconds"] for head in measured]
            rows[f"{name}, each head"] = {
                "seconds": [min(seconds), statistics.median(seconds), max(seconds)],
                "peak_gb": max(head["peak_gb"] for head in measured),
                "n": min(head["n"] for head in measured),
            }
            rows[f"{name}, {len(heads)} heads together"] = {"seconds": round(sum(seconds), 1)}
    rows["naive product, one head's QK alone"] = measured_in_a_process(naive_table, 0)
    for name, row in rows.items():
        print(f"  {name}: {row}", flush=True)
    return {"what": {**TABLE, "weights": "random, and SmolLM2's"}, **rows}


def moved(control) -> list:
    """Up to five other values of a control, spread over what it allows."""
    if hasattr(control, "options"):
        values = [each[1] if isinstance(each, tuple) else each for each in control.options]
    elif hasattr(control, "min"):
        steps = round((control.max - control.min) / control.step)
        values = [control.min + i * control.step for i in range(steps + 1)]
    else:
        values = [False, True]
    values = [value for value in values if value != control.value]
    return values[:: max(1, len(values) // 5)]


def explorers_of(notebook: Path) -> list[widgets.Explorer]:
    """The explorers that a notebook makes, after all its cells were run here."""
    made, initialize = [], widgets.Explorer.__init__

    def noticed(self, *args, **kwargs):
        initialize(self, *args, **kwargs)
        made.append(self)

    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    torch.set_grad_enabled(True)  # as in a new kernel
    widgets.Explorer.__init__, names = noticed, {}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in code:
            exec(cell, names)
    widgets.Explorer.__init__ = initialize
    return made


def redraws(explorer: widgets.Explorer) -> list[float]:
    """Milliseconds until the picture is drawn again, for other values of each control."""
    took = []
    for control in explorer.controls.values():
        for value in moved(control):
            start = time.perf_counter()
            control.value = value
            took.append(1000 * (time.perf_counter() - start))
    return took


def explorers() -> dict:
    """How fast the explorers of the torus notebooks are drawn again."""
    setup(threads=1)
    rows = {"what": "milliseconds from moving a control to the new picture"}
    with tempfile.TemporaryDirectory() as results:
        os.environ["AOT_RESULTS"] = results
        for path in sorted((files.DATA.parent / "notebooks").glob("1[345]_*.ipynb")):
            for explorer in explorers_of(path):
                took = redraws(explorer)
                row = {"median": round(statistics.median(took)), "most": round(max(took))}
                rows[f"{path.stem}: {explorer._description}"] = {**row, "redraws": len(took)}
                print(f"  {path.stem[:2]} {explorer._description}: {row} ms", flush=True)
    return rows


PARTS = {
    **{name: lambda name=name: speed(SHAPES[name]) for name in SHAPES},
    "phase_change": phase_change,
    "skip_trigrams": skip_trigrams,
    "explorers": explorers,
}


def main(names: list[str]):
    """Measure the parts that are named, or all, and write them beside the others' last results."""
    unknown = set(names) - set(PARTS)
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    setup(threads=THREADS)
    path = files.DATA / "results" / "bench.json"
    results = read_json(path) if names and path.is_file() else {}
    print(f"{THREADS} threads")
    machine = {**describe_machine(), "threads": THREADS}
    machine["fast_bf16"] = has_fast_bf16(torch.device("cpu"))
    for name in names or PARTS:
        print(name)
        results[name] = {"machine": machine, **PARTS[name]()}
    write_atomically(path, (json.dumps(results, indent=1) + "\n").encode())
    print("written to data/results/bench.json")


if __name__ == "__main__":
    main(sys.argv[1:])
