"""Figures of notebook 20, the tour: readings layer by layer, sums of heads, effects, patches."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHARE, VALUE, canvas, headline
from aot_helpers.showing.diagrams import say as _say
from aot_helpers.showing.plots import SMALL, shown
from chapters.nb20_logit_lens.results import OTHER

STREAM = LinearSegmentedColormap.from_list("stream", ["#FFFFFF", "#C8C8C8", "#4A4A4A"])
HEADS = (VALUE, KEY, QUERY, SHARE)  # of a layer of four


def _short(token: str) -> str:
    """A token as a label of at most ten characters; what cannot be printed by its number."""
    text = "".join(c if c.isprintable() or c == "\n" else f"‹{ord(c):02x}›" for c in shown(token))
    return text if len(text) < 11 else text[:9] + "…"


def grid(
    top: Sequence[Sequence[str]],
    values: Sequence[Sequence[float]],
    tokens: Sequence[str],
    title: str,
    marked: str = "",
    every: int = 1,
) -> Figure:
    """The top token of each layer and position; the darker, the likelier is the model's prediction.

    top, values: [layer, pos], the embedding first; drawn from below. marked: a token whose cells
    get a frame. every: a row of so many, the last one always.
    """
    rows = list(range(len(top)))[::-1][::every][::-1]
    width, height = 1.0 * len(tokens) + 2.3, 0.31 * len(rows) + 1.35
    figure, axis = plt.subplots(figsize=(width, height), dpi=DPI, layout="constrained")
    shades = np.asarray(values, dtype=float)[rows]
    image = axis.imshow(shades, cmap=STREAM, vmin=0, vmax=1, aspect="auto", origin="lower")
    for y, row in enumerate(rows):
        for x, token in enumerate(top[row]):
            color = "white" if shades[y, x] > 0.6 else INK
            if token == marked:
                frame = {"fill": False, "ec": VALUE, "lw": 2.5}
                axis.add_patch(plt.Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, **frame))
            axis.text(x, y, _short(token), ha="center", va="center", size=10, color=color)
    names = ["embedding" if row == 0 else f"after L{row - 1}" for row in rows]
    axis.set_yticks(range(len(rows)), names, fontsize=10)
    axis.set_xticks(range(len(tokens)), [shown(token) for token in tokens], fontsize=10)
    axis.set_xlabel("the prompt, token by token", fontsize=10)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    label = "probability, in the lens, of\nthe model's own prediction"
    bar = figure.colorbar(image, ax=axis, shrink=0.9, aspect=14, ticks=[0, 0.5, 1])
    bar.set_label(label, fontsize=SMALL)
    figure.suptitle(title, size=12, weight="bold", x=0.012, ha="left")
    plt.close(figure)
    return figure


def columns_of_a_sum(
    columns: Mapping[str, Sequence[tuple[str, float]]], marked: str, title: str
) -> Figure:
    """The top tokens of some vectors and, last, of their sum, with their logits.

    columns: {name: [(token, logit)]}; a plus or an equals sign stands between two columns.
    """
    rows = max(map(len, columns.values()))
    step, height = 1.86, 0.29 * rows + 1.35
    figure, axis = canvas(step * len(columns) + 0.1, height)
    for i, (name, said) in enumerate(columns.items()):
        x, y = 0.2 + step * i, height - 0.72
        last = i == len(columns) - 1
        _say(axis, x, y, name, INK if last else SHARE, 11, ha="left", weight="bold")
        if i:
            _say(axis, x - 0.17, y, "=" if last else "+", PALE, 14, weight="bold")
        for line, (token, logit) in enumerate(said):
            color, weight = (VALUE, "bold") if token == marked else (INK, "normal")
            place = y - 0.34 - 0.29 * line
            _say(axis, x, place, _short(token), color, 11, ha="left", weight=weight)
            _say(axis, x + 1.38, place, f"{logit:+.1f}", color, 10, ha="right", weight=weight)
    note = "numbers: logits above their mean over the vocabulary"
    _say(axis, 0.2, 0.14, note, PALE, SMALL, ha="left")
    return headline(figure, title)


def by_depth(result: Mapping, title: str) -> Figure:
    """Tokens of k that heads share with three vectors of a model, by layer, as in S3's figure 1b.

    Left: with the attention output, beside another prompt's. Right: of all three, what is more than
    with another prompt's.
    """
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.5), dpi=DPI, sharey=True)
    figure.subplots_adjust(0.065, 0.15, 0.985, 0.78, wspace=0.06)
    table, k, layers = result["shares"]["right"], result["k"], result["layers"]

    def tokens(name: str, line: str = "layers") -> np.ndarray:
        return k * np.asarray(table[name][line], dtype=float)

    own, other = "head | attention output", "head | attention output" + OTHER
    axes[0].fill_between(layers, tokens(own, "low"), tokens(own, "high"), color=VALUE, alpha=0.2)
    axes[0].plot(layers, tokens(own), color=VALUE, marker="o", ms=4)
    axes[0].plot(layers, tokens(other), "--", color=PALE, marker="o", ms=4)
    _label(axes[0], 8.2, 8.3, "its own layer's attention output", VALUE)
    _label(axes[0], 3.2, 13.3, "that layer's output in another prompt", PALE)
    axes[0].set_title("top tokens that a head has in common with …", size=10.5, loc="left")
    axes[0].set_ylabel(f"tokens, of {k}", fontsize=10)
    targets = {"attention output": VALUE, "block output": QUERY, "final": KEY}
    for target, color in targets.items():
        name = f"head | {target}"
        axes[1].plot(layers, tokens(name) - tokens(name + OTHER), color=color, marker="o", ms=4)
    _label(axes[1], 22.3, 7.3, "its own layer's attention output", VALUE, "right")
    _label(axes[1], 25.2, 3.4, "final output", KEY)
    _label(axes[1], 1.6, -1.1, "the residual stream after the layer", QUERY)
    axes[1].axhline(0, color=INK, lw=0.8)
    axes[1].set_title("… and by how much more than with another prompt's", size=10.5, loc="left")
    for axis in axes:
        axis.set_xlabel("layer", fontsize=10)
        axis.set_xticks(layers)
        axis.tick_params(labelsize=SMALL)
        axis.set_ylim(-2, 16)
    return headline(figure, title)


def by_norm(results: Mapping[str, Mapping], title: str) -> Figure:
    """I_k of heads and their attention output by norm (S3's figure 2a), beside random vectors."""
    lines = {
        "head | attention output": (VALUE, "-", "real heads"),
        "head | attention output" + OTHER: (VALUE, ":", "real heads, another prompt's sum"),
        "heads by lot": (PALE, "--", "random, same norms"),
        "heads by lot, of equal norm": (KEY, "-.", "random, equal norms"),
    }
    size = {"figsize": (9.6, 3.5), "squeeze": False}
    figure, (axes,) = plt.subplots(1, len(results), dpi=DPI, sharey=True, **size)
    figure.subplots_adjust(0.065, 0.24, 0.985, 0.8, wspace=0.06)
    for axis, (name, r) in zip(axes, results.items(), strict=True):
        for key, (color, style, _) in lines.items():
            rows = np.asarray(r["shares"]["right"][f"by norm: {key}"]["more"], dtype=float)
            ranks, values = range(1, rows.shape[1] + 1), rows.mean(axis=0)
            axis.plot(ranks, values, style, color=color, marker="o", ms=4.5)
        axis.set_title(name, size=10.5, loc="left")
        axis.set_xlabel("head, by norm (1: the largest)", fontsize=10)
        axis.set_xticks(list(ranks))
        axis.tick_params(labelsize=SMALL)
        axis.set_ylim(0, 0.45)
    axes[0].set_ylabel("I₅₀ with the sum of the layer", fontsize=10)
    for x, (color, style, said) in zip((0.02, 0.165, 0.5, 0.745), lines.values(), strict=True):
        marks = {"-": "—", ":": "···", "--": "- -", "-.": "- ·"}
        place = {"size": 10, "weight": "bold", "va": "center"}
        figure.text(x, 0.045, f"{marks[style]} {said}", color=color, **place)
    return headline(figure, title)


def with_and_without(
    found: Mapping[int, Mapping[str, Sequence[tuple[float, float]]]], title: str
) -> Figure:
    """What vectors share with their sum, and with the sum without them: a line for each layer.

    found: {k: {kind: [(with, without)]}}, of layers 0 and 1 in turn: I_k minus that with another
    prompt's; a panel for each k.
    """
    size = {"figsize": (9.8, 3.7), "squeeze": False}
    figure, (axes,) = plt.subplots(1, len(found), dpi=DPI, sharey=True, **size)
    figure.subplots_adjust(0.09, 0.16, 0.985, 0.8, wspace=0.05)
    for axis, (k, kinds) in zip(axes, found.items(), strict=True):
        for i, ((kind, pairs), color) in enumerate(zip(kinds.items(), (VALUE, PALE), strict=True)):
            for layer, both in enumerate(pairs):
                at, face = [0.06 * i, 1 + 0.06 * i], color if layer % 2 else "white"
                axis.plot(at, both, "-o", color=color, mfc=face, ms=5.5, lw=1, alpha=0.85)
            if axis is axes[0]:
                _label(axis, -0.33, 0.31 - 0.026 * i, kind, color)
                _label(axis, -0.33, 0.258, "open: layer 0, filled: layer 1", INK)
        axis.axhline(0, color=INK, lw=0.8)
        names = "layer's output,\nthe head is in it", "layer's output\nminus the head"
        axis.set_xticks([0.03, 1.03], names, fontsize=10)
        axis.set(xlim=(-0.4, 1.46), ylim=(-0.05, 0.33))
        said = "the top token alone (k = 1)" if k == 1 else f"the {k} top tokens (k = {k})"
        axis.set_title(said, size=10.5, loc="left")
        axis.tick_params(labelsize=SMALL, axis="y")
    axes[0].set_ylabel("shared, minus with\nanother prompt", fontsize=10)
    return headline(figure, title)


def direct_and_total(effects: Mapping, title: str) -> Figure:
    """Each head's direct effect beside its total effect, a dot a prompt; one panel a layer."""
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.9), dpi=DPI, sharex=True, sharey=True)
    figure.subplots_adjust(0.1, 0.14, 0.985, 0.83, wspace=0.06)
    low, high = -6.0, 15.0
    for layer, axis in enumerate(axes):
        axis.plot([low, high], [low, high], color=INK, lw=0.9, zorder=0)
        heads = [(at, both) for at, both in effects.items() if at.layer == layer]
        for i, ((at, (direct, total)), color) in enumerate(zip(heads, HEADS, strict=True)):
            axis.plot(direct, total, "o", color=color, ms=4, alpha=0.5, mew=0)
            _label(axis, 14.6, 3.4 - 1.9 * i, str(at), color, "right")
        axis.set_title(f"heads of layer {layer}", size=10.5, loc="left")
        axis.set(xlim=(low, high), ylim=(low, high))
        axis.set_xlabel("reading: its direct effect on the logit", fontsize=10)
        axis.tick_params(labelsize=SMALL)
    axes[0].set_ylabel("fall of the logit once\nthe head is ablated", fontsize=10)
    _label(axes[0], 14.6, 6.4, "reading = effect", INK, "right")
    return headline(figure, title)


def patched(results: Mapping[str, Mapping], title: str) -> Figure:
    """By layer: how far the other prompt's answer rises, by the lens's pick or a like head."""
    kinds = {"patch: says it, brought": (VALUE, -0.12), "patch: as large, brought": (PALE, 0.12)}
    n_layers = [len(r["tested"]) for r in results.values()]
    figure, axes = plt.subplots(
        1,
        len(results),
        figsize=(9.6, 3.4),
        dpi=DPI,
        sharey=True,
        width_ratios=[n + 1.5 for n in n_layers],
    )
    figure.subplots_adjust(0.085, 0.15, 0.985, 0.77, wspace=0.06)
    for axis, (name, r) in zip(axes, results.items(), strict=True):
        for key, (color, beside) in kinds.items():
            found = r["tests"][key]
            for x, mean in enumerate(found["layers"]):
                axis.plot([x + beside] * 2, [found["low"][x], found["high"][x]], color=color, lw=2)
                axis.plot(x + beside, mean, "o", color=color, ms=6)
        axis.axhline(0, color=INK, lw=0.8)
        axis.set_title(name, size=10.5, loc="left")
        axis.set_xticks(range(len(r["tested"])), [f"L{i}" for i in r["tested"]])
        axis.set_xlim(-0.7, len(r["tested"]) - 0.3)
        axis.tick_params(labelsize=SMALL)
    axes[0].set_ylabel("rise of the other prompt's\nanswer, in logits", fontsize=10)
    axes[1].set_xlabel("layer of the patched head", fontsize=10)
    _label(axes[2], -0.6, -1.1, "the lens's pick", VALUE)
    _label(axes[2], -0.6, -1.75, "a head of its size", PALE)
    return headline(figure, title)


def ranks(example: Mapping, result: Mapping, title: str) -> Figure:
    """The rank of a model's prediction in the lens, by layer; patched layers are marked."""
    figure, axis = plt.subplots(figsize=(8.6, 3.3), dpi=DPI)
    figure.subplots_adjust(0.115, 0.15, 0.98, 0.86)
    rank = [row[-1] + 1 for row in example["rank"]][1:]
    axis.plot(range(len(rank)), rank, color=PALE, marker="o", ms=3.5)
    for layer, gain in zip(
        result["tested"], result["tests"]["patch: brought"]["layers"], strict=True
    ):
        carries = gain > 0.25
        axis.plot(
            layer, rank[layer], "o", ms=11, mfc=VALUE if carries else "white", mec=VALUE, mew=1.8
        )
        at = (layer, rank[layer] * 0.42) if layer < 23 else (layer - 0.6, rank[layer])
        said = f"{gain:+.1f}".replace("+0.0", "0.0")
        _label(axis, *at, said, VALUE, "center" if layer < 23 else "right")
    axis.set_yscale("log")
    axis.set_ylim(70_000, 0.6)
    axis.set_yticks([1, 10, 100, 1000, 10000], ["1 (top)", "10", "100", "1,000", "10,000"])
    axis.set_xticks(range(0, 30, 3), [f"L{i}" for i in range(0, 30, 3)])
    axis.set_xlabel("residual stream after layer", fontsize=10)
    axis.set_ylabel(f"rank of {shown(example['said'][-1])!r} in the lens", fontsize=10)
    axis.tick_params(labelsize=SMALL)
    note = "green: logits that the lens's pick carries\nbeyond a head of its size (40 facts)"
    _label(axis, 0.3, 8, note, VALUE)
    return headline(figure, title)


def _label(axis, x: float, y: float, text: str, color: str, ha: str = "left") -> None:
    axis.text(x, y, text, color=color, fontsize=10, ha=ha, va="center", weight="bold")
