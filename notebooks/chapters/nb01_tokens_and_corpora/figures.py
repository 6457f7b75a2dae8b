"""Figures of notebook 01: a text cut into pieces, and what they cost."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from aot_helpers.showing import texts
from aot_helpers.showing.diagrams import KEY, PALE, QUERY
from aot_helpers.showing.plots import TITLE, panels


def pieces(rows: dict[str, list[str]], title: str = "") -> Figure:
    """A text cut in several ways, {name: its pieces}, each with the number of its pieces."""
    fills = [PALE, ""]  # neighbors differ
    boxes = {
        f"{name}: {len(row)}": (row, [fills[i % 2] for i in range(len(row))])
        for name, row in rows.items()
    }
    return texts.token_rows(boxes, title, aligned=False)


def two_cuts(texts_: Mapping[str, Mapping[str, list[str]]], title: str = "") -> Figure:
    """Texts, each cut by several tokenizers: {heading: {tokenizer: pieces}}, with their numbers."""
    boxes = {}
    for i, (heading, cuts) in enumerate(texts_.items()):
        boxes[heading] = ([], [])
        for name, row in cuts.items():
            label = f"{name}: {len(row)}" + " " * i  # every label is a key of its own
            boxes[label] = (row, [("", PALE)[j % 2] for j in range(len(row))])
    return texts.token_rows(boxes, title, aligned=False)


def costs(
    sizes: Sequence[int], per_token: Sequence, per_letter: Sequence, entropy: float, title: str
) -> Figure:
    """What a bigram model pays per token and per letter, by the size of its vocabulary.

    entropy: in nats per letter, drawn as a floor.
    """
    figure, axes = panels(1, 2, 9.5, 3.0, title=title)
    drawn = {"per token": (per_token, QUERY, (0, 8)), "per letter": (per_letter, KEY, (12, 8))}
    for axis, (name, (values, color, away)) in zip(axes[0], drawn.items(), strict=True):
        axis.plot(sizes, values, "o-", color=color, lw=2, ms=5)
        for x, y in zip(sizes, values, strict=True):
            look = {"textcoords": "offset points", "ha": "center", "size": 9.5, "color": color}
            axis.annotate(f"{float(y):.2f}", (x, float(y)), away, **look)
        axis.set_xscale("log")
        axis.set_xticks(list(sizes), [f"{n:,}" for n in sizes])
        axis.set_xticks([], minor=True)
        axis.set(xlabel="tokens in the vocabulary", ylabel=f"loss (nats {name})", ylim=(0, 3.7))
        axis.margins(x=0.08)
        axis.set_title(name, **TITLE)
    floor = axes[0, 1]
    floor.axhline(entropy, color="0.6", lw=1, ls="--", zorder=0)
    said = f"entropy: {entropy:.2f}, however the text is cut"
    floor.annotate(
        said,
        (sizes[-1], entropy),
        (0, 7),
        textcoords="offset points",
        ha="right",
        size=9.5,
        color=PALE,
    )
    return figure
