"""Figures of notebook 10: three steps, attention with cut paths, heads read through an MLP."""

import numpy as np
from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.showing.diagrams import (
    INK,
    KEY,
    PALE,
    QUERY,
    SHADES,
    SHARE,
    VALUE,
    arrow,
    canvas,
    headline,
    say,
    word,
)
from aot_helpers.showing.forms import grids, panels

BLUES, GREENS = (
    LinearSegmentedColormap.from_list("tint", ["white", color]) for color in (KEY, VALUE)
)
STEPS = (  # name, its color, what rows and columns are
    ("1  previous-token head", SHARE, "row: position that attends\ncolumn: position attended to"),
    ("2  query meets key", QUERY, "row: I am a (query)\ncolumn: before me stands b (key)"),
    ("3  copying", VALUE, "row: token attended to\ncolumn: token raised"),
)


def three_steps(
    title: str,
    note: Float[Tensor, "query key"],
    match: Float[Tensor, "token before"],
    copy: Float[Tensor, "token raised"],
) -> Figure:
    """Induction in three steps, each a small map.

    note: where the earlier head attends. match: how well a token's query fits a key before which
    each token stood. copy: what a token raises when it is attended to.
    """
    figure, axes = panels(1, 3, 9.4, 3.2, title=title)
    maps = zip((note, match, copy), (SHADES, BLUES, GREENS), strict=True)
    for i, (axis, (values, colors)) in enumerate(zip(axes[0], maps, strict=True)):
        name, color, said = STEPS[i]
        axis.set(xticks=[], yticks=[], box_aspect=1)
        axis.spines[:].set(visible=True, color="0.75")
        axis.set_title(name, size=11, color=color, weight="bold")
        axis.set_xlabel(said, color=INK)
        values = np.asarray(values).clip(min=0)
        axis.imshow(values / values.max(), cmap=colors, vmin=0, vmax=1)
        if i:
            middle = {"transform": axis.transAxes, "ha": "center", "va": "center"}
            axis.text(-0.25, 0.5, "→", size=22, color=PALE, **middle)
    return figure


def cut_patterns(
    rows: dict[str, dict[str, Float[Tensor, "query key"]]], whole: float, title: str
) -> Figure:
    """A head's attention on a segment written twice, with paths cut: {put in its place: {cut: …}}.

    Above each: the share lost of the induction score `whole`, and the attention of the second copy
    to BOS.
    """
    named = {}
    for replace, cuts in rows.items():
        named[f"{replace} in its place"] = {}
        for cut, pattern in cuts.items():
            n = (len(pattern) - 1) // 2
            lost = 1 - pattern.diagonal(1 - n)[2:].mean() / whole
            said = f"{cut}:\n{lost:.2f} of the score lost, {pattern[n + 1 :, 0].mean():.2f} on BOS"
            named[f"{replace} in its place"][said] = pattern
    note = "Rows are queries, columns are keys; the first column is BOS. Means over the texts."
    return grids(named, title, cell=0.05, note=note)


def query_terms(terms: dict[str, tuple[float, float]], title: str) -> Figure:
    """The scores of the right place and of BOS as sums: {part of the query: (right place, BOS)}."""
    rows = {**terms, "score": tuple(sum(both) for both in zip(*terms.values(), strict=True))}
    names = {"row_names": list(rows), "column_names": ["right place", "BOS"]}
    names |= {"x_label": "key", "y_label": "from the query's"}
    note = "Mean scores of the queries of the second copy; the first four rows add up to the last."
    look = {"number": ".1f", "cell": (1.5, 0.34), "limits": (0, 14), "note": note}
    return grids({"": {"": list(rows.values())}}, title, **look, **names)


def lost_by_parts(lost: Float[Tensor, "layer part"], title: str) -> Figure:
    """Shares of the induction score that are lost without a part: a row a layer, the MLP last."""
    heads = [f"head {h}" for h in range(lost.shape[1] - 1)]
    note = "Share of the induction score lost when a part is taken out of the keys."
    names = {"row_names": "layer {}", "column_names": [*heads, "MLP"]}
    return grids({"": {"": lost}}, title, number=".2f", cell=(0.85, 0.36), note=note, **names)


def through_mlp(
    straight: Float[Tensor, "layer part"],
    passed: list[float],
    reader: Head,
    title: str,
) -> Figure:
    """Who tells a reader's keys what: heads of layer 0 through MLP 0, and all heads straight.

    straight: shares lost of the induction score, a row a layer, the MLP last. passed: what is lost
    without what each head of layer 0 told MLP 0.
    """
    figure, axis = canvas(8.9, 3.4)
    heads, mlp, keys = 0.62, 1.72, 2.72
    at = np.linspace(0.9, 5.9, len(passed))
    middle, mlp_share = at.mean(), float(straight[0, -1])
    for h, (x, share) in enumerate(zip(at, passed, strict=True)):
        strong = share > 0.1
        color = SHARE if strong else PALE
        place = middle + (x - middle) * 0.25
        arrow(axis, (x, heads + 0.24), (place, mlp - 0.26), color, width=0.8 + 6 * max(share, 0))
        word(axis, x, heads, f"L0H{h}", INK, width=0.8, height=0.4, size=10.5)
        say(axis, x, heads - 0.36, f"{share:.2f}", color, weight="bold" if strong else "normal")
    arrow(axis, (middle, mlp + 0.24), (middle, keys - 0.27), SHARE, width=0.8 + 6 * mlp_share)
    word(axis, middle, mlp, "MLP 0", INK, width=1.6, height=0.42, size=11)
    word(axis, middle, keys, f"keys of {reader}", KEY, width=1.9, height=0.42, size=11)
    side = {"ha": "left"}
    say(
        axis,
        middle + 0.25,
        (mlp + keys) / 2,
        f"{mlp_share:.2f} lost without it",
        SHARE,
        weight="bold",
        **side,
    )
    bend = {"connectionstyle": "arc3,rad=0.35", "color": PALE, "lw": 0.9}
    ends = (at[-1] + 0.42, heads + 0.1), (middle + 0.98, keys)
    axis.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>,head_length=4,head_width=2", **bend))
    most = float(straight[:, :-1].max())
    n_heads = straight[:, :-1].numel()
    say(
        axis, 6.35, 2.15, f"straight from any of {n_heads} heads:\nat most {most:.2f}", PALE, **side
    )
    say(axis, 6.45, heads, "layer 0", PALE, **side)
    say(axis, 6.45, heads - 0.36, "lost without what it told MLP 0", PALE, size=9, **side)
    return headline(figure, title)
