"""Figures of notebook 01: a text cut into pieces, and what they cost."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from aot_helpers.showing import plots, texts
from aot_helpers.showing.diagrams import KEY, PALE


def pieces(texts_: Mapping, title: str) -> Figure:
    """Texts, each cut in several ways: {heading: {name: its pieces}}, or {name: its pieces}."""
    boxes = {}
    for i, (heading, cuts) in enumerate(plots.nested(texts_, 2).items()):
        if heading:
            boxes[heading] = ([], [])
        for name, row in cuts.items():
            label = f"{name}: {len(row)}" + " " * i  # every label is a key of its own
            boxes[label] = (row, [(PALE, "")[j % 2] for j in range(len(row))])  # neighbors differ
    return texts.token_rows(boxes, title, aligned=False)


def costs(
    sizes: Sequence[int], per_token: Sequence, per_letter: Sequence, entropy: float, title: str
) -> Figure:
    """What a bigram model pays per token and per letter, by the size of its vocabulary.

    entropy: in nats per letter, drawn as a floor.
    """
    losses = {"per token": per_token, "per letter": per_letter}
    figure = plots.lines(
        {panel: {"": (sizes, values)} for panel, values in losses.items()},
        title,
        "tokens in the vocabulary",
        "loss (nats)",
        x_log=True,
        x_ticks={n: f"{n:,}" for n in sizes},
        y_range=(0, 3.7),
    )
    for axis, values, right in zip(figure.axes, losses.values(), (0, 12), strict=True):
        axis.margins(x=0.08)
        for x, y in zip(sizes, map(float, values), strict=True):
            look = {"textcoords": "offset points", "ha": "center", "size": 9.5, "color": KEY}
            axis.annotate(f"{y:.2f}", (x, y), (right, 8), **look)
    floor, said = figure.axes[1], f"entropy: {entropy:.2f}, however the text is cut"
    floor.axhline(entropy, color="0.6", lw=1, ls="--", zorder=0)
    look = {"textcoords": "offset points", "ha": "right", "size": 9.5, "color": PALE}
    floor.annotate(said, (sizes[-1], entropy), (0, 7), **look)
    return figure
