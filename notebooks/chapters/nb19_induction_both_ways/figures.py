"""Drawings of notebook 19: a text written twice with its attention, and maps of heads."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.heads import induction_scores
from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import (
    KEY,
    PALE,
    QUERY,
    SHADES,
    SHARE,
    arrow,
    canvas,
    headline,
    say,
    word,
)
from aot_helpers.showing.forms import shown
from aot_helpers.text.tokenization import Tokenizer
from chapters.nb19_induction_both_ways.measure import highest
from chapters.nb19_induction_both_ways.repeats import Hidden

STEP = 1.12  # inches from token to token
FAINT = 0.1  # a path whose cut costs less is drawn so


class Path(NamedTuple):
    """A head's attention to a neighbor, and what the cut of its path to a later head costs."""

    attention: float
    cost: float


@dataclass(frozen=True)
class Copies:
    """A text written twice, as drawn: the first copy above, the second below it.

    query: the token that attends, a place in the second copy. shares: its attention to each token
    of the first copy; None draws question marks at the places in `asked`. neighbors: heads of layer
    0, {head: (step, Path from the query, Path from the query's copy)}.
    """

    name: str
    first: list[str]
    second: list[str]
    query: int
    shares: Float[Tensor, " first"] | None = None
    asked: tuple[int, ...] = ()
    neighbors: dict[str, tuple[int, Path, Path]] = field(default_factory=dict)


def two_copies(panels: list[Copies], title: str) -> Figure:
    """Each text in two rows, with arrows from the token that attends to those it attends to."""
    width = max(len(each.first) for each in panels) * STEP + 0.3
    heights = [3.5 if each.neighbors else 2.05 for each in panels]
    figure, axis = canvas(width, sum(heights) + 0.45)
    top = sum(heights) - 0.2
    for panel, height in zip(panels, heights, strict=True):
        say(axis, 0.15, top, panel.name, PALE, ha="left", size=10)
        _rows(axis, panel, top - (1.17 if panel.neighbors else 0.42))
        top -= height
    return headline(figure, title)


def _rows(axis, panel, top):
    below, box = top - 0.98, {"width": 1.02, "height": 0.4, "size": 9.5}
    x = [0.15 + STEP * (i + 0.5) for i in range(len(panel.first))]
    shares = np.zeros(len(x)) if panel.shares is None else np.asarray(panel.shares)
    start = (x[panel.query], below + 0.22)
    for i, (text, share) in enumerate(zip(panel.first, shares.tolist(), strict=True)):
        color = KEY if share >= 0.1 or i in panel.asked else "0.6"
        color = "white" if share > 0.45 else color
        word(axis, x[i], top, shown(text), color, fill=SHADES(share), **box)
        if share >= 0.1:
            say(axis, x[i] + 0.11, top - 0.36, f"{share:.2f}", SHARE, size=9.5, ha="left")
            arrow(axis, start, (x[i], top - 0.23), SHARE, width=0.8 + share)
        if i in panel.asked:
            arrow(axis, start, (x[i], top - 0.23), "0.6", width=0.9)
            middle = (x[panel.query] + x[i]) / 2 + 0.12
            say(axis, middle, (below + top) / 2, "?", QUERY, size=12, weight="bold")
    for i, text in enumerate(panel.second):
        word(axis, x[i], below, shown(text), QUERY if i == panel.query else "0.6", **box)
    for head, (step, *found) in panel.neighbors.items():
        for path, y, up, color in zip(found, (below, top), (-1, 1), (QUERY, KEY), strict=True):
            here, there = x[panel.query] + 0.15 * step, x[panel.query + step]
            bend, strong = f"arc3,rad={-0.45 * up * step / abs(step):g}", path.cost >= FAINT
            look = {"arrowstyle": "-|>", "connectionstyle": bend, "color": color}
            look |= {"lw": 0.8 + 4 * path.cost, "alpha": 1 if strong else 0.5}
            edge = y + 0.22 * up
            axis.annotate("", (there, edge), (here, edge), arrowprops=look)
            told = f"{head} attends {path.attention:.2f}\ncut costs {path.cost:.2f}"
            middle, weight = x[panel.query] + 0.95 * step, "bold" if strong else "normal"
            say(axis, middle, y + 0.7 * up, told, color, size=9.5, weight=weight)


def question(causal: Model, text: Hidden, tokenizer: Tokenizer, title: str) -> Figure:
    """Where a causal model's highest induction head attends, and the question for a mask."""
    head = highest(induction_scores(causal, text.tokens))
    pattern = causal.run_with_cache(text.tokens[:1])[1][f"L{head.layer}.pattern"][0, head.head]
    says = f"the induction head {head} attends to the word after the earlier copy"
    one_on = _drawn(f"causal model (stories-2l): {says}", text, tokenizer, pattern, hidden=False)
    asked = _drawn("masked model: the fifth word is hidden", text, tokenizer, asked=(3, 4, 5))
    return two_copies([one_on, asked], title)


def answer(
    model: Model,
    reader: Head,
    text: Hidden,
    tokenizer: Tokenizer,
    costs: dict[Head, tuple[int, float, float]],
    title: str,
) -> Figure:
    """How a mask finds the copy: heads of layer 0 bring neighbors, the reader compares them.

    costs: {head: (step to its neighbor, what its path costs the queries, what it costs the keys)}.
    """
    cache = model.run_with_cache(text.seen[:1])[1]
    at, copy, neighbors = int(text.at[0]), int(text.at[0]) - text.length, {}
    for head, (step, in_query, in_key) in costs.items():
        to = cache[f"L{head.layer}.pattern"][0, head.head]
        ends = (at, in_query), (copy, in_key)
        paths = [Path(to[here, here + step].item(), cost) for here, cost in ends]
        neighbors[str(head)] = (step, *paths)
    pattern = cache[f"L{reader.layer}.pattern"][0, reader.head]
    name = (
        f"masked-4x8; the thicker a path, the more of {reader}'s weight on the copy its cut costs"
    )
    told = _drawn(name, text, tokenizer, pattern, neighbors=neighbors)
    return two_copies([told], title)


def _drawn(name, text, tokenizer, pattern=None, hidden=True, **look) -> Copies:
    """The first of these texts, for `two_copies`; pattern: of the head, [query, key]."""
    n, at = text.length, int(text.at[0])
    names = [each.strip() for each in tokenizer.token_strings(text.tokens[0, 1:])]
    if hidden:
        names[at - 1] = "[mask]"
    shares = None if pattern is None else pattern[at, 1 : n + 1]
    return Copies(name, names[:n], names[n:], at - 1 - n, shares, **look)


def single_cuts(lost: dict[str, list[float]], title: str) -> Figure:
    """What the cut of each head of layer 0 costs, {"Q" or "K": one share for each head}.

    The heads farther than one token away share a row, which shows the largest of their costs.
    """
    names, last = (
        {"Q": "path cut from the queries", "K": "path cut from the keys"},
        len(lost["Q"]) - 1,
    )
    heads = {"L0H0 (1 before)": slice(0, 1), "L0H1 (1 after)": slice(1, 2)}
    heads[f"the most of L0H2 to L0H{last} (2 to {last // 2 + 1} away)"] = slice(2, None)
    rows = {
        row: {names[r]: round(max(each[some]), 2) + 0.0 for r, each in lost.items()}
        for row, some in heads.items()
    }
    x_label = "share of the weight on the copy that is lost"
    look = {"number": ".2f", "apart": True, "stems": True, "x_range": (-0.03, 0.8)}
    return forms.dots(
        {"": rows},
        title,
        x_label,
        colors=dict(zip(names.values(), (QUERY, KEY), strict=True)),
        **look,
    )


def head_maps(rows: dict[str, dict[str, Float[Tensor, "layer head"]]], title: str) -> Figure:
    """Layer × head maps of attention, {row of panels: {panel: scores}}; a number from 0.10 on."""
    return forms.grids(
        rows, title, number=".2f", least=0.095, row_names="L{}", column_names="{}",
        cell=(0.37, 0.29), note="columns: heads, rows: layers; a number from 0.10 on",
    )  # fmt: skip
