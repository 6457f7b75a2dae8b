"""Six experiments for eight people: each takes one of eight settings, and gives a few numbers.

Each of them takes less than a minute on one thread. `run` is called with a setting and returns
{name: number or text}; all else stands in experiments.toml. What eight runs of each gave is in
data/results/group.json (python tools/group.py measure).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import aot_helpers as aot
from aot_helpers.base.files import tomllib
from aot_helpers.models.losses import in_context_score
from aot_helpers.text.planted import BUG, BUG_OBJECTS


@dataclass(frozen=True)
class Experiment:
    """One experiment, as the head of experiments.toml says.

    run: None where it runs in a browser, in the playground. across: "" for the setting.
    """

    line: str
    asks: str
    x: str
    y: str
    measure: str
    settings: list
    run: Callable | None
    across: str = ""
    log: bool = False


def circuits(name: str) -> dict:
    """Which head of layer 0 the best induction head of a model needs, and how much."""
    model = aot.load_checkpoint(name)
    tokens = aot.repeated_tokens(model.config.d_vocab, 32, 20, model.tokenizer.bos, seed=1)
    table = aot.head_table(model, tokens, leave_out=("eigenvalues", "evaluator"))
    reader = aot.Head(*table["induction"].idxmax())
    score, lost = float(table["induction"].max()), {}
    for head in (head for head in aot.all_heads(model) if head.layer == 0):
        edits = aot.ablate(model, [head])
        _, cache = model.run_with_cache(tokens, edits=edits)
        pattern = cache[f"L{reader.layer}.pattern"][:, reader.head]
        left = pattern.diagonal(-31, 1, 2)[:, -32:].mean().item()  # to the token after the twin
        lost[str(head)] = 1 - left / score
    writer, second = sorted(lost, key=lost.get)[:-3:-1]
    route = table.loc[tuple(reader), "route"]
    return {
        "lost": lost[writer],
        "second": lost[second],
        "score": score,
        "reader": str(reader),
        "writer": writer,
        "route": route,
    }


def rates(rate: float) -> dict:
    """The model of tour 05 at another learning rate: its loss on unread stories."""
    stories, unread = (aot.load_corpus("stories", part, quiet=True) for part in ("train", "test"))
    shipped = aot.load_checkpoint("stories-1l")
    tokenizer = shipped.tokenizer
    torch.manual_seed(0)
    model = aot.AttentionOnlyTransformer(shipped.config)
    stream = aot.token_stream(tokenizer.encode_many(stories.texts), tokenizer.bos)
    how = aot.TrainConfig(300, rate, final_fraction=0, learning_rate_relative=1)
    history = aot.train(model, aot.Windows(stream, 128, 8, d_vocab=1024), how, quiet=True)
    line = aot.token_stream(tokenizer.encode_many(unread.texts), tokenizer.bos)[: 100 * 128]
    with torch.no_grad():
        test = line.view(100, 128)
        loss = aot.next_token_losses(model(test), test).mean().item()
    return {"loss": loss, "highest": max(history.losses)}


def coins(name: str) -> dict:
    """How probable a model of the planted language finds the right noun, after "in" and "at"."""
    if name == "your own":
        corpus, like = (
            aot.load_corpus("planted", quiet=True),
            aot.load_checkpoint("planted-1l-2heads"),
        )
        torch.manual_seed(7)
        model = aot.AttentionOnlyTransformer(like.config)
        model.tokenizer = tokenizer = like.tokenizer
        stream = aot.token_stream(tokenizer.encode_many(corpus.texts), tokenizer.bos)
        batches = aot.Windows(stream, 64, 32, tokenizer.bos, d_vocab=98)
        aot.train(model, batches, aot.TrainConfig(1000), quiet=True)
    else:
        model = aot.load_checkpoint(name)
    ids, found = aot.tokenization.word_ids(model.tokenizer), {"in": [], "at": []}
    for (verb, preposition), noun in BUG.items():
        tokens = model.tokenizer.encode(f"{verb} so then {preposition}", bos=True)[None]
        with torch.no_grad():
            p = model(tokens)[0, -1].softmax(dim=-1)
        among = sum(p[ids[each]] for each in BUG_OBJECTS)
        found[preposition].append((p[ids[noun]] / among).item())
    return {f"after_{word}": sum(two) / 2 for word, two in found.items()}


def seeds(seed: int) -> dict:
    """The training of tour 09 with another seed: when copying any token is half learned."""
    tokenizer = aot.load_checkpoint("stories-2l").tokenizer
    stories = aot.load_corpus("stories", quiet=True)
    stream = aot.token_stream(tokenizer.encode_many(stories.texts), tokenizer.bos)
    batches = aot.Windows(
        stream, n_ctx=65, repeat_fraction=0.3, repeat_lengths=(8, 32), random_fraction=0.5
    )
    torch.manual_seed(seed)
    model = aot.AttentionOnlyTransformer(
        aot.ModelConfig(1024, n_layers=2, n_ctx=65, positions="relative", layer_norm=False)
    )
    random, gaps = aot.repeated_tokens(1024, 32, 16, tokenizer.bos, seed=1), {}

    def watch(now):
        first, second = aot.copy_losses(model, random)
        gaps[now.steps] = first - second

    how = aot.TrainConfig(450, 0.02, 50, 0.4, optimizer="muon", log_every=25)
    aot.train(model, batches, how, watch=watch, quiet=True)
    quarter, half, three = (
        next(step for step, gap in gaps.items() if gap >= part * gaps[450])
        for part in (0.25, 0.5, 0.75)
    )
    return {"half": half, "middle": three - quarter, "copied": aot.copy_accuracy(model, random)}


def scatter(name: str) -> dict:
    """A model's in-context score on stories, and how much of 24 random tokens it copies."""
    model = aot.load_checkpoint(name)
    tokenizer = model.tokenizer
    unread = tokenizer.encode_many(aot.load_corpus("stories", "test", quiet=True).texts)
    line = aot.token_stream(unread, tokenizer.bos)[: 300 * 127].view(300, 127)
    pieces = torch.cat([torch.full((300, 1), tokenizer.bos), line], dim=1)
    with torch.no_grad():
        losses = torch.cat([aot.next_token_losses(model(t), t) for t in pieces.split(25)])
    score = in_context_score(losses, (4, 12), (96, 127)).mean().item()
    random = aot.repeated_tokens(1024, 24, 40, tokenizer.bos, seed=1)
    return {"copied": aot.copy_accuracy(model, random), "score": score}


RUNS = {"circuits": circuits, "rates": rates, "coins": coins, "seeds": seeds, "scatter": scatter}
FACTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
EXPERIMENTS = {name: Experiment(**facts, run=RUNS.get(name)) for name, facts in FACTS.items()}
