"""Figures of notebook 01: a text cut into pieces, and what rules without a network get right."""

from collections.abc import Mapping

from jaxtyping import Bool
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import diagrams, texts
from aot_helpers.showing.diagrams import INK, KEY, PALE, VALUE
from aot_helpers.showing.forms import dots, panels

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
