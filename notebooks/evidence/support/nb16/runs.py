"""The faulty and mended set-ups of notebook 16, and what is measured of each."""

import itertools
import json
import os
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import cache

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.base import files
from aot_helpers.base.files import read_json, write_atomically
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.text.corpora import load_corpus
from aot_helpers.text.tokenization import Tokenizer, load_tokenizer
from chapters.nb16_too_good.report_model import (
    ReportModel,
    Rows,
    baselines,
    chance_over_time,
    floor_over_time,
    next_token_loss,
    report_rows,
    write_on,
)
from evidence.support.nb16.results import ON_REVIEWS, SEEDS
from evidence.support.nb16.set_ups import FAULTS, LEARNED, SWEEP, Setup, examine, learn

LENGTHS = (20, 50, 80)  # tokens in a row (S0, section VIII A); one less is predicted
PROMPT = "This movie is"

# The models of S0's notebooks: none of them has all of these faults.
_ALWAYS = {"loss over time", "padding counts", "no layer norm", "short tokens"}
REPORT_MODELS = {
    "one layer": {"faults": frozenset(_ALWAYS | {"no stream"}), "n_layers": 1, "d_mlp": 0},
    "two layers": {"faults": frozenset(_ALWAYS | {"no stream", "one block twice"}), "d_mlp": 0},
    "two layers, MLP": {"faults": frozenset(_ALWAYS | {"no stream", "straight MLP"})},
    "two layers, MLP, stream": {"faults": frozenset(_ALWAYS | {"straight MLP"})},
}
ALL = frozenset(ON_REVIEWS)
REVIEWS = ("imdb", "imdb-2l", 20)
SPLITS = ("train", "test")


def set_ups() -> dict[str, tuple[tuple, Setup]]:
    """Name: where its rows come from (corpus, tokenizer, max_length, n_texts), and its set-up."""
    found = {}

    def add(group, rows, seeds, **setup):
        for seed in seeds:
            one = Setup(seed=seed, **setup)
            found[name_of(group, one)] = rows, one

    # The ladder: all combinations once, the ends and what lies one step from them three times.
    for n in range(len(ON_REVIEWS) + 1):
        seeds = SEEDS if n in (0, 1, len(ON_REVIEWS) - 1, len(ON_REVIEWS)) else (0,)
        for faults in itertools.combinations(ON_REVIEWS, n):
            add("ladder", REVIEWS, seeds, faults=frozenset(faults), steps=1500)
    # More layers and an MLP, in the report's code and in code without its faults.
    for faults in (ALL, frozenset()):
        for n_layers, d_mlp in ((1, 0), (2, 0)):  # two layers with an MLP are on the ladder
            add("depth", REVIEWS, SEEDS, faults=faults, n_layers=n_layers, d_mlp=d_mlp, steps=1500)
    # Filling in the loss, where rows have some: lines of articles.
    for faults in (frozenset({"padding counts"}), frozenset()):
        add("padding", ("wikitext lines", "imdb-2l", 80), SEEDS, faults=faults, steps=400)
    # The report's vocabularies, with its loss and with the usual one; a fifth of its batches.
    small = {"n_layers": 1, "d_mlp": 0, "batch_size": 10, "steps": 250}
    for vocabulary in ("bert", "gpt2"):
        for faults in (frozenset({"loss over time"}), frozenset()):
            add(f"pieces {vocabulary}", ("imdb", vocabulary, 20), SEEDS, faults=faults, **small)
    # What other first weights change in one setting of the sweep.
    steps = SWEEP["fixed"]["steps"]
    for faults in (frozenset(LEARNED), frozenset()):
        add("sweep", REVIEWS, SEEDS, faults=faults, n_layers=1, d_mlp=0, steps=steps)
    # What a softmax over time leaves free, given afterwards; and to a model that learned nothing.
    for faults in (ALL, frozenset({"loss over time"})):
        add("constants", REVIEWS, SEEDS, faults=faults, steps=1500)
    add("constants, untrained", REVIEWS, SEEDS, faults=ALL, steps=1)
    # The models of the report's notebooks, with its 8 heads.
    for model in REPORT_MODELS.values():
        add("report", REVIEWS, SEEDS, **model, n_heads=8, steps=1500)
        add("report, untrained", REVIEWS, SEEDS, **model, n_heads=8, steps=1)
    # Two hundred reviews learned by heart.
    add("by heart", (*REVIEWS, 200), SEEDS, steps=500)
    return found


def name_of(group: str, setup: Setup) -> str:
    """The key of a run in the results."""
    faults = ", ".join(name for name in FAULTS if name in setup.faults) or "none"
    return f"{group} | {setup.n_layers} layers, d_mlp {setup.d_mlp} | {faults} | seed {setup.seed}"


@cache
def rows_of(
    corpus: str, tokenizer: str, max_length: int, n_texts: int | None = None
) -> tuple[Rows, Rows]:
    """Training rows, and 2,000 rows that nobody trains on."""
    shipped = tokenizer not in ("bert", "gpt2")
    made = load_checkpoint(tokenizer).tokenizer if shipped else load_tokenizer(tokenizer)
    train, test = (load_corpus(corpus.split()[0], each, quiet=True).texts for each in SPLITS)
    if corpus.endswith("lines"):  # as WikiText's rows are
        train, test = (
            [line for text in texts for line in text.splitlines() if line.strip()]
            for texts in (train, test)
        )
    return tuple(report_rows(each, made, max_length) for each in (train[:n_texts], test[:2000]))


def measure(group: str, source: tuple, setup: Setup) -> dict:
    """Train one set-up and say what it learned, what it reports, and what it writes."""
    torch.set_num_threads(1)
    train, test = rows_of(*source)
    learned = learn(setup, train)
    first = train[:1000]
    tokenizer = train.tokenizer
    prompt = tokenizer.encode(PROMPT)
    written = [write_on(learned.model, prompt, n=12, seed=seed) for seed in range(20)]
    new = torch.cat([tokens[len(prompt) :] for tokens in written])
    own = learned.losses
    found = {
        "rows": list(source),
        **asdict(setup) | {"faults": sorted(setup.faults)},
        "held out": examine(learned.model, test),
        "trained on": examine(learned.model, first),
        "own loss": {"first": own[0], "last": sum(own[-50:]) / len(own[-50:])},
        "filling": 1 - train.real[:, 1:].float().mean().item(),
        "pieces": {
            "written": continuation_share(new, tokenizer),
            "in the reviews": continuation_share(test.tokens[test.real], tokenizer),
            "in the vocabulary": continuation_share(torch.arange(tokenizer.d_vocab), tokenizer),
        },
        "sample": tokenizer.decode(written[0]),
        "seconds": round(learned.seconds, 1),
    }
    if group.startswith(("constants", "report")):
        fit_constants(learned.model, train)
        found["with constants"] = examine(learned.model, test)
        found["sample with constants"] = tokenizer.decode(write_on(learned.model, prompt, n=12))
    return found


def measure_all(groups: Collection[str] = (), jobs: int = 2) -> None:
    """Train what is missing, `jobs` set-ups at a time; writes data/results/autopsy.json after each.

    groups: beginnings of names, to train anew. Raises ValueError where no name begins so.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    known, path = set_ups(), files.DATA / "results" / "autopsy.json"
    kept = read_json(path)["runs"] if path.is_file() else {}
    todo = [name for name in known if name.startswith(tuple(groups))]
    if groups and not todo:
        raise ValueError(f"no set-up begins with {groups}; there are {', '.join(known)}")
    if not groups:
        todo = [n for n, (_, s) in known.items() if n not in kept or kept[n]["steps"] != s.steps]
    floors = {str(length): floors_of(length) for length in LENGTHS}
    sources = dict.fromkeys(source for source, _ in known.values())
    counted = {" ".join(map(str, source)): baselines(*rows_of(*source)) for source in sources}
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(measure, name.split(" | ")[0], *known[name]): name for name in todo}
        for n, done in enumerate(as_completed(waiting), 1):
            name = waiting[done]
            kept[name] = done.result()
            loss, seconds = kept[name]["held out"]["loss"], kept[name]["seconds"]
            print(f"{n} of {len(todo)}  {name}: {loss:.3f} nats, {seconds} s", flush=True)
            ordered = {name: kept[name] for name in known if name in kept}
            content = {"floors": floors, "counting": counted, "runs": ordered}
            write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def floors_of(length: int) -> dict:
    """What a loss over time comes to for rows of a length: by chance, at best, without repeats."""
    rows = rows_of("imdb", "gpt2", length)[1]
    targets, d_vocab = rows.tokens[:, 1:], rows.tokenizer.d_vocab
    return {
        "chance": chance_over_time(length - 1, d_vocab),
        "floor": floor_over_time(targets, d_vocab),
        "without repeats": floor_over_time(torch.arange(length - 1)[None], d_vocab),
    }


def fit_constants(model: ReportModel, rows: Rows, steps: int = 200, seed: int = 0) -> None:
    """Give a trained model what `loss_over_time` leaves free, by the usual loss on 50 texts a step.

    That is one number for each token, added to its logit everywhere, and one scale of all logits.
    The other weights stay. What the model then knows, it had learned before.
    """
    generator = torch.Generator().manual_seed(seed)
    scale, bias = torch.ones((), requires_grad=True), model.b_U
    optimizer = torch.optim.Adam([scale, bias], 0.1)
    for _ in range(steps):
        at = torch.randint(len(rows.tokens), (50,), generator=generator)
        inputs, targets, real = rows.batch(at)
        with torch.no_grad():
            logits = model.transformer(inputs)
        loss = next_token_loss(scale * logits + bias, targets, real)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.transformer.W_U.data *= scale.detach()


def continuation_share(tokens: Int[Tensor, " _"], tokenizer: Tokenizer) -> float:
    """The share of tokens that go on a word: ##ing in BERT's vocabulary, ing in a BPE.

    In a BPE the tokens that begin a word begin with a space; in BERT's vocabulary none does.
    """
    strings = tokenizer.token_strings(tokens)
    spaced = any(s[0] == " " for s in tokenizer.token_strings([*range(tokenizer.d_vocab)]) if s)
    return sum(s[:1].isalpha() if spaced else s[:2] == "##" for s in strings) / len(strings)
