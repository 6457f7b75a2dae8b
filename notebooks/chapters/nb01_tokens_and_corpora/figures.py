"""Figures of notebook 01: a text cut into pieces, what they cost, and what rules get right."""

from collections.abc import Mapping, Sequence

from jaxtyping import Bool
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import diagrams, texts
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, VALUE
from aot_helpers.showing.forms import TITLE, dots, panels

PARTS = {  # who is right: (fill, text on it)
    "pairs only": (KEY, "white"),
    "both": ("#2B8C8C", "white"),
    "last match only": (VALUE, "white"),
    "neither": ("0.94", PALE),
}
RULES = "pairs only", "last match only"


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
    floor.annotate(said, (sizes[-1], entropy), (0, 7), textcoords="offset points", ha="right",
                   size=9.5, color=PALE)  # fmt: skip
    return figure


def shares(rows: Mapping[str, Mapping[str, float]], title: str) -> Figure:
    """Who is right about which share of a text's tokens: {text: {one of PARTS: share}}."""
    key = {f"■ {name}": color for name, (color, _) in PARTS.items() if name != "neither"}
    figure, axes = panels(1, 1, 9.2, 0.42 * len(rows) + 0.6, title=title, key=key)
    (axis,) = axes[0]
    for y, found in enumerate(rows.values()):
        left = 0.0
        for name, (color, ink) in PARTS.items():
            axis.barh(y, found[name], left=left, height=0.62, color=color, edgecolor="white")
            if found[name] >= 0.035:
                said = f"{found[name]:.2f}" + " neither" * (name == "neither")
                axis.text(left + found[name] / 2, y, said, color=ink, size=9.5,
                          ha="center", va="center")  # fmt: skip
            left += found[name]
    axis.set_yticks(range(len(rows)), list(rows), color=INK)
    axis.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5), xlabel="share of tokens predicted")
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    return figure


def colored(
    blocks: dict[str, tuple[list[str], Bool[Tensor, " pos"], Bool[Tensor, " pos"]]],
    title: str,
    letters: int = 84,
) -> Figure:
    """Texts with what two rules get right: underlined by one token back, filled by the last match.

    blocks: {label: (tokens as strings, right by one token back, right by the last match)}.
    """
    lines = {}
    for label, (strings, back, match) in blocks.items():
        lines[label] = texts.wrap(strings, back.int() + 2 * match.int(), letters)
    height = sum(0.3 * len(rows) + 0.25 for rows in lines.values()) + 0.75
    figure, axis = diagrams.canvas(10, height)
    x = 1.75
    for name, rule in {"pairs are right": 1, "the last match is": 2, "both are": 3}.items():
        _ruled(axis, x, height - 0.52, [name], [rule])
        x += texts.LETTER * len(name) + 0.35
    y = height - 0.95
    for label, rows in lines.items():
        diagrams.say(axis, 1.55, y, label, size=10.5, ha="right", weight="bold")
        for strings, rules in rows:
            _ruled(axis, 1.75, y, strings, rules)
            y -= 0.3
        y -= 0.25
    return diagrams.headline(figure, title)


def ladder(columns: Mapping[str, Mapping[str, float]], title: str) -> Figure:
    """What each predictor costs, one below the other: {text: {predictor: nats per letter}}."""
    data = {text: {row: {"": cost} for row, cost in each.items()} for text, each in columns.items()}
    most = 1.15 * max(cost for each in columns.values() for cost in each.values())
    look = {"number": ".2f", "stems": True, "x_range": (0, most), "width": 9.5}
    return dots(data, title, "loss (nats per letter)", **look)


def _ruled(axis, x: float, y: float, strings: list[str], rules: list[float]) -> None:
    """One line of tokens, underlined where the rules are 1 or 3, filled where they are 2 or 3."""
    texts.strip(axis, x, y, strings, [rule >= 2 for rule in rules], VALUE, most=2.2)
    for string, rule in zip(strings, rules, strict=True):
        wide = texts.LETTER * len(string)
        if rule % 2:
            ends = [x + 0.02, x + wide - 0.02]
            axis.plot(ends, [y - 0.13] * 2, color=KEY, lw=2.4, solid_capstyle="butt", zorder=7)
        x += wide
