"""Figures of notebook 20: readings layer by layer, sums of heads, effects, patches."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from aot_helpers.models.protocol import Head
from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE, VALUE
from aot_helpers.showing.forms import Interval, shown
from chapters.nb20_logit_lens.results import OTHER

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
    label = "probability, in the lens, of\nthe model's own prediction"
    figure.colorbar(image, ax=axis, shrink=0.9, aspect=14, ticks=[0, 0.5, 1], label=label)
    return figure


def by_layer(result: Mapping, name: str, kind: str = "right") -> tuple[list[int], Interval]:
    """(layers, the means over prompts with their intervals) of a share, as `forms.lines` asks."""
    table = result["shares"][kind][name]
    return result["layers"], Interval(table["low"], table["layers"], table["high"])


def by_depth(result: Mapping, title: str) -> Figure:
    """Tokens of k that heads share with three vectors of a model, by layer, as in S3's figure 1b.

    Left: with the attention output, beside another prompt's. Right: of all three, what is more than
    with another prompt's.
    """
    k, layers = result["k"], result["layers"]

    def tokens(name: str) -> Interval:
        return Interval(*(k * np.asarray(each) for each in by_layer(result, name)[1]))

    def more(target: str) -> tuple:
        own, other = (tokens(f"head | {target}{whose}").value for whose in ("", OTHER))
        return layers, own - other

    data = {
        "top tokens in common with its layer's output …": {
            "in its own prompt": (layers, tokens(OUTPUT)),
            "in another prompt": (layers, tokens(OUTPUT + OTHER).value),
        },
        "… and more than in another prompt, with": {
            "its layer's output": more("attention output"),
            "the stream after it": more("block output"),
            "the final output": more("final"),
        },
    }
    names = [name for panel in data.values() for name in panel]
    look = {
        "colors": dict(zip(names, (VALUE, PALE, VALUE, QUERY, KEY), strict=True)),
        "styles": {"in another prompt": "--"},
        "x_ticks": {layer: str(layer) for layer in layers},
        "levels": {0: ""},
    }
    return forms.lines(data, title, "layer", f"tokens, of {k}", width=10.5, **look)


def by_norm(results: Mapping[str, Mapping], title: str) -> Figure:
    """I_k of heads and their attention output by norm (S3's figure 2a), beside random vectors."""
    lines = {
        "real heads": (OUTPUT, VALUE, "-"),
        "real heads, another sum": (OUTPUT + OTHER, VALUE, ":"),
        "random, same norms": ("heads by lot", PALE, "--"),
        "random, equal norms": ("heads by lot, of equal norm", KEY, "-."),
    }
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
    """What vectors share with their sum, and with the sum without them: a line for each layer.

    found: {k: {kind: [(with, without)]}}, of layers 0 and 1 in turn: I_k minus that with another
    prompt's; a panel for each k.
    """
    data, colors, styles = {}, {}, {}
    for k, kinds in found.items():
        data[f"the {k} top tokens" if k > 1 else "the top token alone"] = panel = {}
        for (kind, pairs), color in zip(kinds.items(), (VALUE, PALE), strict=True):
            for layer, style in enumerate((":", "-")):
                name = f"{kind}, L{layer}"
                panel[name] = [0, 1], np.asarray(pairs[layer::2])
                colors[name], styles[name] = color, style
    ticks = {0: "with it", 1: "without it"}
    look = {"colors": colors, "styles": styles, "x_ticks": ticks, "levels": {0: ""}, "width": 11}
    y_label = "shared, minus with\nanother prompt"
    return forms.lines(data, title, "the head in the sum of its layer", y_label, runs=True, **look)


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


def patched(results: Mapping[str, Mapping], title: str) -> Figure:
    """By layer: how far the other prompt's answer rises, by the lens's pick or a like head."""
    kinds = {"the lens's pick": "says it", "a head of its size": "as large"}
    data = {}
    for model, r in results.items():
        data[model] = {}
        for name, which in kinds.items():
            found = r["tests"][f"patch: {which}, brought"]
            rise = Interval(found["low"], found["layers"], found["high"])
            data[model][name] = range(len(rise.value)), rise
    x_label, y_label = "layer of the patched head", "rise of the other prompt's\nanswer, in logits"
    look = {"colors": dict(zip(kinds, (VALUE, PALE), strict=True)), "levels": {0: ""}}
    figure = forms.lines(data, title, x_label, y_label, width=10, **look)
    for axis, r in zip(figure.axes, results.values(), strict=True):
        axis.set_xticks(range(len(r["tested"])), [f"L{layer}" for layer in r["tested"]])
    return figure


def ranks(example: Mapping, result: Mapping, title: str) -> Figure:
    """The rank of a model's prediction in the lens, by layer; patched layers are marked."""
    rank = [row[-1] + 1 for row in example["rank"]][1:]
    y_label = f"rank of {shown(example['said'][-1])!r} in the lens"
    figure = forms.lines(
        {"": {"": (range(len(rank)), rank)}}, title, "residual stream after layer", y_label,
        colors={"": PALE}, y_log=True, y_range=(70_000, 0.6), width=8.6,
        x_ticks={layer: f"L{layer}" for layer in range(0, len(rank), 3)},
        note="green: logits that the lens's pick carries beyond a head of its size (40 facts)",
    )  # fmt: skip
    (axis,) = figure.axes
    axis.set_yticks([1, 10, 100, 1000, 10000], ["1 (top)", "10", "100", "1,000", "10,000"])
    carried = result["tests"]["patch: brought"]["layers"]
    for layer, gain in zip(result["tested"], carried, strict=True):
        look = {"mfc": VALUE if gain > 0.25 else "white", "mec": VALUE, "mew": 1.8}
        axis.plot(layer, rank[layer], "o", ms=11, **look)
        said = f"{gain:+.1f}".replace("+0.0", "0.0")
        axis.annotate(said, (layer, rank[layer]), (-10, 6), textcoords="offset points",
                      ha="right", color=VALUE, size=10, weight="bold")  # fmt: skip
    return figure
