"""Figures of notebook 17: a model that writes, a detector on single prompts."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from pandas import DataFrame
from torch import Tensor

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE
from aot_helpers.showing.forms import SMALL, dots, grids, panels, points, shown


def writing(
    words: list[str], rows: dict[str, Float[Tensor, "word seen"]], step: int, title: str
) -> Figure:
    """One step of a model that writes: what each head gives to the words so far.

    words: all of the text. rows: {head: attention between words}. step: the number of words that
    are there; the last of them is the query, and the next one is what was drawn.
    """
    weights = np.zeros((len(rows), len(words)))
    weights[:, :step] = [np.asarray(pattern)[step - 1, :step] for pattern in rows.values()]
    so_far = [shown(word) if i <= step else "" for i, word in enumerate(words)]
    note = "blue: words seen   orange: the word that attends   gray: the word drawn next"
    figure = grids(
        {"": {"": weights}}, title, number=".1f", least=0.05, row_names=list(rows),
        column_names=so_far, cell=(0.1 * max(map(len, words)) + 0.05, 0.33), note=note,
    )  # fmt: skip
    for i, label in enumerate(figure.axes[0].get_xticklabels()):
        label.set(color=KEY if i < step - 1 else QUERY if i < step else PALE, weight="bold")
    return figure


def heads(pattern: Float[Tensor, "head query key"], words: list[str], title: str) -> Figure:
    """The attention patterns of eight heads with BOS, and what each gives to BOS on average."""
    by_head = {
        f"L0H{number} (BOS: {each[1:, 0].mean():.4f})": each for number, each in enumerate(pattern)
    }
    tokens = ["BOS", *words]
    names = list(by_head)
    rows = {"heads 0 to 3": names[:4], "heads 4 to 7": names[4:]}
    return grids(
        {row: {name: by_head[name] for name in some} for row, some in rows.items()}, title,
        row_names=tokens, column_names=tokens, cell=0.16,
        x_label="token attended to (key)", y_label="token that attends (query)",
    )  # fmt: skip


def rows_hit(
    fits: Float[Tensor, " prompt"], null: Float[Tensor, " prompt"], title: str, n_rows: int = 7
) -> Figure:
    """On how many prompts a name hits so many rows: measured above, a random word's below."""
    key = {"■ the name": SHARE, "■ permutation null: a random word in each row": PALE}
    figure, axes = panels(1, 1, 8.4, 2.6, title=title, key=key)
    axis, values = axes[0, 0], np.unique(np.round(np.concatenate([fits, null]), 4))
    low, step = values[0], np.diff(values).min()
    for some, color, sign in ((fits, SHARE, 1), (null, PALE, -1)):
        n_hit = np.round((np.asarray(some) - low) / step).astype(int)
        counts = np.bincount(n_hit, minlength=n_rows + 1)
        axis.bar(range(n_rows + 1), sign * counts, 0.8, color=color, alpha=0.85)
        for x, count in enumerate(counts):
            side = "bottom" if sign > 0 else "top"
            axis.text(x, sign * (count + 3), count, ha="center", va=side, size=SMALL)
    axis.axhline(0, color=INK, lw=0.8)
    axis.set_xticks(range(n_rows + 1), [f"{k}\n{low + k * step:.2f}" for k in range(n_rows + 1)])
    axis.set(xlabel=f"rows hit, of {n_rows} (below: fit)", ylabel="prompts", yticks=[])
    axis.margins(y=0.16)
    return figure


def names_fitted(held: DataFrame, groups: dict[str, list[str]], title: str) -> Figure:
    """The held-out fits of each name, a dot for each model and half of the prompts."""
    rows = {
        name: {group: each[each["model"].isin(models)]["fit"] for group, models in groups.items()}
        for name, each in held.groupby("name", sort=False)
    }
    note = "a dot for each model and half of the prompts; a head made by hand has a fit of 1"
    axis = "fit of the best head: 0 is chance, 1 is always"
    levels = {0.5: "half-way"}
    return dots({"": rows}, title, axis, apart=True, levels=levels, note=note)


def word_or_place(topic: DataFrame, levels: dict[float, str], title: str) -> Figure:
    """The index of each model's best topic heads, two dots a model."""
    rows = {
        f"{'with' if 'mlp' in model else 'no'} MLP, seed {_seed(model)}": {"": each["index"]}
        for model, each in topic.groupby("model", sort=False)
    }
    note = "two dots a model: the heads chosen on either half of the prompts; made: by hand"
    axis = "attention on the second place alone (−1) or on the noun alone (1)"
    return dots({"": rows}, title, axis, levels=levels, x_range=(-1, 1), note=note)


def costs(every: DataFrame, title: str) -> Figure:
    """What each head leaves for words on prompts, and what its ablation costs on repeated tokens.

    On a log scale, because many heads give nearly everything to BOS.
    """
    groups = {"layer 0: planted to attend 0 to 3 tokens back": 0, "layer 1": 1}
    layers = {name: every[every["layer"] == n] for name, n in groups.items()}
    data = {name: (1 - each["to BOS"], each["cost"]) for name, each in layers.items()}
    names = {}
    for head, some in every[every["cost"] > 1].groupby("head"):  # one name for all its seeds
        said = f"{head} seed{'s' * (len(some) > 1)} {', '.join(map(_seed, some['model']))}"
        names[said] = 1 - some["to BOS"].iloc[0], some["cost"].iloc[0]
    x_label = "attention to words on the prompts (the rest: to BOS)"
    y_label = "cost of ablation on the second copy (nats)"
    return points({"": data}, title, x_label, y_label, names={"": names}, x_log=True)


def _seed(run: str) -> str:
    """The seed at the end of a run's name; the first run of each kind names none."""
    return run[-1] if "seed" in run else "0"


def in_gpt2(
    fits: dict[str, Float[Tensor, " head"]], index: list[float], heads: list[str], title: str
) -> Figure:
    """The fits of names to each head, and beside them where each head goes if nouns are moved."""
    found = {f"fit of {name}": each for name, each in fits.items()} | {"moved nouns": index}
    data = {
        name: {head: {"": value} for head, value in zip(heads, each, strict=True)}
        for name, each in found.items()
    }
    axis = "0: chance, 1: always"
    figure = dots(data, title, axis, number=".2f", x_range=(-1.1, 1.6), levels={0: ""})
    figure.axes[-1].set_xlabel("−1: second place, 1: noun")
    figure.axes[-1].set_xticks([-1, 0, 1])
    return figure


def spread(single: dict[str, list[float]], over_all: dict[str, float], title: str) -> Figure:
    """Fits on single prompts, a disk for each value with its number of prompts; and over all."""
    figure, axes = panels(1, 1, 8.4, 0.95 * len(single) + 0.6, title=title)
    axis = axes[0, 0]
    for y, (name, values) in enumerate(single.items()):
        each, counts = np.unique(np.round(values, 3), return_counts=True)
        sizes = 2900 * counts / len(values) + 90
        axis.scatter(each, [y] * len(each), s=sizes, color=SHARE, alpha=0.35, lw=0)
        for x, count in zip(each, counts, strict=True):
            axis.text(x, y, count, ha="center", va="center", size=9.5)
        whole = over_all[name]
        axis.plot([whole] * 2, [y - 0.58, y - 0.46], color=INK, lw=2.2)
        side = "right" if whole > 0.18 else "left"  # so that the dotted line crosses no words
        said = f"  all prompts: {whole:.2f}  "
        axis.text(whole, y - 0.52, said, size=9.5, weight="bold", ha=side, va="center")
    axis.axvline(0.5, color=PALE, lw=1, ls=":")
    axis.set_yticks(range(len(single)), list(single))
    axis.set(xlim=(-0.35, 1.12), ylim=(len(single) - 0.5, -0.75))
    said = "fit: 0 is chance, 1 is always (in the disks: number of prompts)"
    axis.set_xlabel(f"{said}\ndotted: 0.5, from where on we would give the name")
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    return figure
