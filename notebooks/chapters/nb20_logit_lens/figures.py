"""Figures of notebook 20: readings layer by layer, sums of heads, effects, patches."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from aot_helpers.models.protocol import Head
from aot_helpers.showing import forms, texts
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE, VALUE
from aot_helpers.showing.forms import Interval, shown
from chapters.nb20_logit_lens.results import OTHER, beyond_size

STREAM = LinearSegmentedColormap.from_list("stream", ["#FFFFFF", "#C8C8C8", "#4A4A4A"])
HEADS = (VALUE, KEY, QUERY, SHARE)  # of a layer of four
OUTPUT = "head | attention output"


def short(token: str) -> str:
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
    width, height = 1.0 * len(tokens) + 2.3, 0.31 * len(rows) + 0.8
    figure, ((axis,),) = forms.panels(1, 1, width, height, title=title)
    shades = np.asarray(values, dtype=float)[rows]
    image = axis.imshow(shades, cmap=STREAM, vmin=0, vmax=1, aspect="auto", origin="lower")
    for (y, x), shade in np.ndenumerate(shades):
        token, color = top[rows[y]][x], "white" if shade > 0.6 else INK
        axis.text(x, y, short(token), ha="center", va="center", size=10, color=color)
        if token == marked:
            frame = {"fill": False, "ec": VALUE, "lw": 2.5}
            axis.add_patch(plt.Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, **frame))
    names = ["embedding" if row == 0 else f"after L{row - 1}" for row in rows]
    axis.set_yticks(range(len(rows)), names)
    axis.set_xticks(range(len(tokens)), list(map(shown, tokens)))
    axis.set_xlabel("the prompt, token by token")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    label = "probability of the\nmodel's prediction"
    figure.colorbar(image, ax=axis, aspect=14, ticks=[0, 0.5, 1], label=label)
    return figure


def sum_of_heads(tops: Mapping[str, tuple[Sequence[str], Sequence[float]]], title: str) -> Figure:
    """The top tokens of heads and, last, of their sum: what `measure.top_of_sum` gives."""
    signs = ["", *["+ "] * (len(tops) - 2), "= "]
    rows = {
        sign + name: ([short(token) for token in tokens], logits)
        for sign, (name, (tokens, logits)) in zip(signs, tops.items(), strict=True)
    }
    most = max(logits[0] for _, logits in tops.values())
    note = "numbers: logits above their mean; ‹ce›: part of a character"
    return texts.token_rows(rows, title, shade=VALUE, most=most, number="+.1f", note=note)


def by_layer(result: Mapping, name: str, kind: str = "right") -> tuple[list[int], Interval]:
    """(layers, the means over prompts with their intervals) of a share, as `forms.lines` asks."""
    table = result["shares"][kind][name]
    return result["layers"], Interval(table["low"], table["layers"], table["high"])


def by_norm(results: Mapping[str, Mapping], title: str, only: Sequence[str] = ()) -> Figure:
    """I_k of heads and their attention output by norm (S3's figure 2a), beside random vectors.

    only: the names of the lines to draw; without any, all four.
    """
    lines = {
        "real heads": (OUTPUT, VALUE, "-"),
        "real heads, another sum": (OUTPUT + OTHER, VALUE, ":"),
        "random, same norms": ("heads by lot", PALE, "--"),
        "random, equal norms": ("heads by lot, of equal norm", KEY, "-."),
    }
    lines = {name: lines[name] for name in only or lines}
    data = {}
    for model, r in results.items():
        data[model] = {}
        for name, (key, *_) in lines.items():
            means = np.mean(r["shares"]["right"][f"by norm: {key}"]["more"], axis=0)
            data[model][name] = range(1, len(means) + 1), means
    colors = {name: color for name, (_, color, _) in lines.items()}
    styles = {name: style for name, (*_, style) in lines.items()}
    x_label, y_label = "head, by norm (1: the largest)", "I₅₀ with the sum of the layer"
    look = {"colors": colors, "styles": styles, "y_range": (0, None), "width": 10.5}
    figure = forms.lines(data, title, x_label, y_label, **look)
    for axis, r in zip(figure.axes, results.values(), strict=True):
        axis.set_xticks(range(1, r["n_heads"] + 1))
    return figure


def with_and_without(
    found: Mapping[int, Mapping[str, Sequence[tuple[float, float]]]], title: str
) -> Figure:
    """What vectors share with their sum, and with the sum without them: a line for each model.

    found: {k: {kind: [(with, without)]}}: I_k minus that with another prompt's; a panel for each k.
    """
    data = {
        f"the {k} top tokens" if k > 1 else "the top token alone": {
            kind: ([0, 1], np.asarray(pairs)) for kind, pairs in kinds.items()
        }
        for k, kinds in found.items()
    }
    ticks = {0: "with the head", 1: "without it"}
    colors = dict(zip(next(iter(found.values())), (VALUE, PALE), strict=True))
    look = {"colors": colors, "x_ticks": ticks, "levels": {0: ""}, "width": 9.6}
    y_label = "shared with the sum, minus\nwith another prompt's"
    figure = forms.lines(data, title, "the sum of the layer", y_label, runs=True, **look)
    for axis in figure.axes:
        axis.set_xlim(-0.2, 1.2)
    return figure


def direct_and_total(
    effects: Mapping[Head, tuple[Sequence[float], Sequence[float]]], title: str
) -> Figure:
    """Each head's direct effect beside its total effect, a dot a prompt; one panel a layer."""
    data = {f"heads of layer {layer}": {} for layer in sorted({head.layer for head in effects})}
    for head, both in effects.items():
        data[f"heads of layer {head.layer}"][f"head {head.head}"] = both
    colors = {f"head {i}": color for i, color in enumerate(HEADS)}
    labels = (
        "reading: its direct effect on the logit",
        "fall of the logit once\nthe head is ablated",
    )
    note = "dashed: reading = effect"
    return forms.points(data, title, *labels, colors=colors, diagonal=True, note=note)


def picks(results: Mapping[str, Mapping], title: str) -> Figure:
    """What the lens's pick and a head of its norm bring once patched, by layer; a panel a model."""
    kinds = {"the lens's pick": ("says it", VALUE), "control": ("as large", PALE)}
    data = {}
    for model, r in results.items():
        found = {kind: r["tests"][f"patch: {name}, brought"] for kind, (name, _) in kinds.items()}
        data[model] = {
            kind: (
                r["tested"],
                Interval(*(np.asarray(each[end]) for end in ("low", "layers", "high"))),
            )
            for kind, each in found.items()
        }
    y_label = "logits that the other prompt's\nanswer gains on the remaining ones"
    look = {"colors": {kind: color for kind, (_, color) in kinds.items()}, "levels": {0: ""}}
    figure = forms.lines(data, title, "patched layer", y_label, width=10.5, **look)
    for axis, r in zip(figure.axes, results.values(), strict=True):
        axis.set_xticks(r["tested"], [f"L{layer}" for layer in r["tested"]])
        axis.set_xlim(r["tested"][0] - 0.3, None)
    return figure


def carried(
    real: Mapping[str, Mapping[str, Sequence[float]]],
    random: Mapping[str, Mapping[str, Sequence[float]]],
    title: str,
) -> Figure:
    """How often a patched head brings the other prompt's name: a row for each model, a cell for
    each head of the last layer. real, random: {model: what `patching.names_patched` gives}.
    """
    heads = [name for name in next(iter(real.values())) if name.startswith("L")]
    panels = {
        said: [[np.asarray(found[head]).mean() for head in heads] for found in each.values()]
        for said, each in {
            "what heads wrote there": real,
            "random vectors of their norms": random,
        }.items()
    }
    return forms.grids(
        {"": panels}, title, number=".2f", row_names=list(real), column_names=heads,
        label="prompts in which the\nother name comes", cell=(0.75, 0.42), x_label="patched head",
    )  # fmt: skip


def ranks(example: Mapping, result: Mapping, title: str) -> Figure:
    """The rank of a model's prediction in the lens, by layer; patched layers are marked."""
    rank = [row[-1] + 1 for row in example["rank"]][1:]
    y_label = f"rank of {shown(example['said'][-1])!r} in the lens"
    figure = forms.lines(
        {"": {"": (range(len(rank)), rank)}}, title, "residual stream after layer", y_label,
        colors={"": PALE}, y_log=True, y_range=(70_000, 0.6), width=8.6,
        x_ticks={layer: f"L{layer}" for layer in range(0, len(rank), 3)},
        note="green: logits that the lens's pick brings beyond its control (40 facts)",
    )  # fmt: skip
    (axis,) = figure.axes
    axis.set_yticks([1, 10, 100, 1000, 10000], ["1 (top)", "10", "100", "1,000", "10,000"])
    for layer, gain in beyond_size(result).items():
        look = {"mfc": VALUE if gain > 0.25 else "white", "mec": VALUE, "mew": 1.8}
        axis.plot(layer, rank[layer], "o", ms=11, **look)
        said = f"{gain:+.1f}".replace("+0.0", "0.0")
        axis.annotate(said, (layer, rank[layer]), (-10, 6), textcoords="offset points",
                      ha="right", color=VALUE, size=10, weight="bold")  # fmt: skip
    return figure
