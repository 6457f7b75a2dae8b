"""Figures of notebook 20: readings layer by layer, sums of heads, effects, patches."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from aot_helpers.models.protocol import Head
from aot_helpers.showing import forms, texts
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE, VALUE
from aot_helpers.showing.forms import Interval, shown

STREAM = LinearSegmentedColormap.from_list("stream", ["#FFFFFF", "#C8C8C8", "#4A4A4A"])
HEADS = (VALUE, KEY, QUERY, SHARE)  # of a layer of four


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
    if every > 1:
        axis.set_ylabel(f"residual stream (a row for every {every} layers)")
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


def by_norm(curves: Mapping[str, Mapping[str, Sequence[float]]], title: str) -> Figure:
    """I_k with a layer's sum, the largest head first: {model: {vectors: [rank]}}."""
    looks = {
        "real heads": (VALUE, "-"),
        "real heads, another sum": (SHARE, ":"),
        "random, same norms": (PALE, "--"),
        "random, equal norms": (KEY, "-."),
    }
    looks = {name: looks[name] for name in next(iter(curves.values()))}
    colors, styles = ({name: look[i] for name, look in looks.items()} for i in (0, 1))
    data = {
        model: {name: (range(1, len(means) + 1), means) for name, means in each.items()}
        for model, each in curves.items()
    }
    x_label, y_label = "head, by norm (1: the largest)", "I₅₀ with the sum of the layer"
    look = {"colors": colors, "styles": styles, "y_range": (0, None), "width": 11}
    figure = forms.lines(data, title, x_label, y_label, **look)
    for axis, each in zip(figure.axes, data.values(), strict=True):
        axis.set_xticks(next(iter(each.values()))[0])
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


def picks(panels: Mapping[str, Mapping[str, tuple[Interval, Interval]]], title: str) -> Figure:
    """What the lens's pick and its control bring once patched: {test: {layer: (pick, control)}}.

    The number above a pair is pick minus control.
    """
    sizes = [len(layers) for layers in panels.values()]
    figure, axes = forms.panels(
        1, len(panels), 10.5, 3.4, title=title, key={"● the lens's pick": VALUE, "● control": PALE},
        sharey=True, width_ratios=[n + 0.6 for n in sizes],
        note="numbers: pick minus control; bars: 95 % intervals over prompts",
    )  # fmt: skip
    every = [each for layers in panels.values() for pair in layers.values() for each in pair]
    low, top = min(each.low for each in every), max(each.high for each in every)
    for axis, (test, layers) in zip(axes[0], panels.items(), strict=True):
        axis.axhline(0, color="0.6", lw=1, ls="--", zorder=0)
        for x, (pick, control) in enumerate(layers.values()):
            for found, color, step in ((pick, VALUE, -0.13), (control, PALE, 0.13)):
                axis.plot([x + step] * 2, [found.low, found.high], color=color, lw=2)
                axis.plot(x + step, found.value, "o", color=color, ms=7)
            more = _signed(pick.value - control.value)
            axis.text(x, top * 1.08, more, ha="center", size=10, weight="bold")
        axis.set_title(test, **forms.TITLE)
        axis.set(xlabel="patched layer", xlim=(-0.5, len(layers) - 0.5))
        axis.set_ylim(low - 0.05 * top, top * 1.22)
        axis.set_xticks(range(len(layers)), list(layers))
    axes[0, 0].set_ylabel("logits that the other prompt's\nanswer gains on the remaining ones")
    return figure


def _signed(x: float) -> str:
    return f"{x:+.1f}".replace("+0.0", "0.0").replace("-0.0", "0.0").replace("-", "−")


def carried(
    real: Mapping[str, Sequence[float]], random: Mapping[str, Sequence[float]], title: str
) -> Figure:
    """How often a patched head brings the other prompt's name: {model: [head of layer 1]}."""
    panels = {
        "what heads wrote there": list(real.values()),
        "random vectors of their norms": list(random.values()),
    }
    heads = [f"L1H{h}" for h in range(len(next(iter(real.values()))))]
    return forms.grids(
        {"": panels}, title, number=".2f", row_names=list(real), column_names=heads,
        label="prompts in which the\nother name comes", cell=(0.75, 0.42), x_label="patched head",
    )  # fmt: skip


def ranks(example: Mapping, brought: Mapping[str, tuple[Interval, Interval]], title: str) -> Figure:
    """The rank of a model's prediction in the lens, by layer; at patched layers, what the lens's
    pick and its control brought there, as `picks` asks.
    """
    rank = [row[-1] + 1 for row in example["rank"]][1:]
    y_label = f"rank of {shown(example['said'][-1])!r} in the lens"
    figure = forms.lines(
        {"": {"": (range(len(rank)), rank)}}, title, "residual stream after layer", y_label,
        colors={"": PALE}, y_log=True, y_range=(70_000, 0.6), width=8.6,
        x_ticks={layer: f"L{layer}" for layer in range(0, len(rank), 3)},
        note="green: logits that the lens's pick brings; gray: its control (means of 40 facts)",
    )  # fmt: skip
    (axis,) = figure.axes
    axis.set_yticks([1, 10, 100, 1000, 10000], ["1 (top)", "10", "100", "1,000", "10,000"])
    for name, pair in brought.items():
        layer = int(name[1:])
        marker = {"mfc": VALUE if pair[0].low > 0.25 else "white", "mec": VALUE, "mew": 1.8}
        axis.plot(layer, rank[layer], "o", ms=11, **marker)
        for found, color, up in zip(pair, (VALUE, "0.4"), (19, 6), strict=True):
            look = {"textcoords": "offset points", "color": color, "size": 10, "weight": "bold"}
            axis.annotate(_signed(found.value), (layer, rank[layer]), (-10, up), ha="right", **look)
    return figure


def words_by_layer(
    rows: Mapping[str, Sequence[str]], tokens: Sequence[str], title: str, y_label: str = ""
) -> Figure:
    """The top token of the lens at each position, drawn from below: {"after L0": [pos]}.

    Green where it is that of the last row: what the model says in the end.
    """
    names, said = list(rows), [*rows.values()][-1]
    width, height = 0.95 * len(tokens) + 1.6, 0.34 * len(rows) + 0.75
    figure, ((axis,),) = forms.panels(1, 1, width, height, title=title)
    for y, top in enumerate(rows.values()):
        for x, (token, last) in enumerate(zip(top, said, strict=True)):
            same = token == last
            box = {"fc": VALUE if same else "#F3F3F1", "ec": "white", "lw": 2}
            axis.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, alpha=0.85, **box))
            color = "white" if same else INK
            axis.text(x, y, short(token), ha="center", va="center", size=10, color=color)
    axis.set(xlim=(-0.5, len(tokens) - 0.5), ylim=(-0.5, len(rows) - 0.5))
    axis.set_yticks(range(len(names)), names)
    axis.set_xticks(range(len(tokens)), list(map(shown, tokens)))
    axis.set_xlabel("the prompt, token by token")
    axis.set_ylabel(y_label)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return figure


READING = "what the head adds to the logit itself\n(its reading)"
EFFECT = "what the logit loses\nwithout the head (its effect)"


def readings_and_effects(
    effects: Mapping[Head, tuple[Sequence[float], Sequence[float]]],
    marked: Mapping[Head, str],
    title: str,
) -> Figure:
    """Each head's reading beside its effect, a dot a prompt, a panel a layer.

    marked: {head: color}; the other heads are gray.
    """
    layers = sorted({head.layer for head in effects})
    figure, axes = forms.panels(
        1, len(layers), 8.6, 3.7, title=title, sharex=True, sharey=True,
        note="a dot: one head in one of the prompts; dashed: reading = effect",
    )  # fmt: skip
    for axis, layer in zip(axes[0], layers, strict=True):
        axis.axline((0, 0), slope=1, color="0.6", lw=1, ls="--", zorder=0)
        for head, both in effects.items():
            if head.layer == layer:
                color, (reading, effect) = marked.get(head, PALE), map(np.asarray, both)
                axis.scatter(reading, effect, s=22, alpha=0.7, lw=0, color=color)
                if head in marked:
                    at = max(np.median(reading), 1.2), np.median(effect)
                    axis.annotate(
                        str(head), at, (9, -10 * (layer > 0)), textcoords="offset points",
                        color=color, size=10.5, weight="bold", va="center",
                    )  # fmt: skip
        axis.set_title(f"layer {layer}", **forms.TITLE)
        axis.set_xlabel(READING)
    axes[0, 0].set_ylabel(EFFECT)
    return figure


def heads_of_a_model(
    table: pandas.DataFrame, named: Mapping[str, str], title: str, n_panels: int = 3
) -> Figure:
    """Each head's "reading" beside its "effect", the layers in so many panels.

    table: a row for each head, such as "L23H4". named: {head: color}; the others are gray.
    """
    layers = [int(name[1:].split("H")[0]) for name in table.index]
    each = (max(layers) + 1) // n_panels
    figure, axes = forms.panels(
        1, n_panels, 10, 3.7, title=title, sharex=True, sharey=True,
        note="a dot: one head; dashed: reading = effect",
    )  # fmt: skip
    for i, axis in enumerate(axes[0]):
        axis.axline((0, 0), slope=1, color="0.6", lw=1, ls="--", zorder=0)
        inside = table[[layer // each == i for layer in layers]]
        colors = [named.get(name, PALE) for name in inside.index]
        axis.scatter(inside["reading"], inside["effect"], s=30, alpha=0.85, lw=0, c=colors)
        for name, *at in inside[["reading", "effect"]].itertuples():
            if name in named:
                side, step = ("left", 7) if at[0] < 2 else ("right", -7)
                axis.annotate(
                    name, at, (step, 0), textcoords="offset points", color=named[name],
                    size=10.5, weight="bold", va="center", ha=side,
                )  # fmt: skip
        axis.set_title(f"layers {i * each} to {(i + 1) * each - 1}", **forms.TITLE)
        axis.set_xlabel(READING)
    axes[0, 0].set_ylabel(EFFECT)
    return figure
