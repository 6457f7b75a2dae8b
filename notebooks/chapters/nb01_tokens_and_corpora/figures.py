"""Figures of notebook 01: a text cut into pieces, and what two rules get right of it."""

from jaxtyping import Bool
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import diagrams, texts
from aot_helpers.showing.diagrams import KEY, PALE, VALUE


def pieces(rows: dict[str, list[str]], title: str = "") -> Figure:
    """A text cut in several ways, {name: its pieces}, each with the number of its pieces."""
    fills = [PALE, ""]  # neighbors differ
    boxes = {
        f"{name}: {len(row)}": (row, [fills[i % 2] for i in range(len(row))])
        for name, row in rows.items()
    }
    return texts.token_rows(boxes, title, aligned=False)


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
    height = sum(0.3 * len(rows) + 0.25 for rows in lines.values()) + 0.55
    figure, axis = diagrams.canvas(10, height)
    _ruled(axis, 6.0, height - 0.22, ["first rule"], [1])
    _ruled(axis, 7.2, height - 0.22, ["second rule"], [2])
    y = height - 0.62
    for label, rows in lines.items():
        diagrams.say(axis, 1.55, y, label, size=10.5, ha="right", weight="bold")
        for strings, rules in rows:
            _ruled(axis, 1.75, y, strings, rules)
            y -= 0.3
        y -= 0.25
    return diagrams.headline(figure, title)


def _ruled(axis, x: float, y: float, strings: list[str], rules: list[float]) -> None:
    """One line of tokens, underlined where the rules are 1 or 3, filled where they are 2 or 3."""
    texts.strip(axis, x, y, strings, [rule >= 2 for rule in rules], VALUE, most=2.2)
    for string, rule in zip(strings, rules, strict=True):
        wide = texts.LETTER * len(string)
        if rule % 2:
            ends = [x + 0.02, x + wide - 0.02]
            axis.plot(ends, [y - 0.13] * 2, color=KEY, lw=2.4, solid_capstyle="butt", zorder=7)
        x += wide
