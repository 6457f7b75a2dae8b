"""Drawings of notebook 19: a text written twice, with its attention."""

from matplotlib.figure import Figure

from aot_helpers.models.protocol import Model
from aot_helpers.reading.heads import induction_scores
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
from aot_helpers.showing.plots import shown
from aot_helpers.text.tokenization import Tokenizer
from chapters.nb19_induction_both_ways.measure import highest
from chapters.nb19_induction_both_ways.repeats import Hidden

STEP = 1.12  # inches from token to token


def question(causal: Model, text: Hidden, tokenizer: Tokenizer, title: str) -> Figure:
    """Where a causal model's highest induction head attends, and the question for a mask."""
    head, n, at = highest(induction_scores(causal, text.tokens)), text.length, int(text.at[0])
    pattern = causal.run_with_cache(text.tokens[:1])[1][f"L{head.layer}.pattern"][0, head.head]
    names, masked = (_names(text, tokenizer, hidden) for hidden in (False, True))
    figure, axis = canvas(n * STEP + 0.3, 4.55)
    says = f"the induction head {head} attends to the word after the earlier copy"
    say(axis, 0.15, 3.9, f"causal model (stories-2l): {says}", PALE, ha="left", size=10)
    _two_copies(axis, 3.48, names, at - 1 - n, pattern[at, 1 : n + 1].tolist())
    say(axis, 0.15, 1.85, "masked model: the fifth word is hidden", PALE, ha="left", size=10)
    _two_copies(axis, 1.43, masked, at - 1 - n, None)
    return headline(figure, title)


def _names(text: Hidden, tokenizer: Tokenizer, hidden: bool) -> list[str]:
    """The words of the first of these texts, without BOS; hidden: with a mask for its token."""
    names = [each.strip() for each in tokenizer.token_strings(text.tokens[0, 1:])]
    if hidden:
        names[int(text.at[0]) - 1] = "[mask]"
    return names


def _two_copies(axis, top, names, query, weights):
    """The first copy above the second, with arrows from the query to what it attends to.

    weights: attention to each token of the first copy; None: question marks around its copy.
    """
    n, below, box = len(names) // 2, top - 0.98, {"width": 1.02, "height": 0.4, "size": 9.5}
    x = [0.15 + STEP * (i + 0.5) for i in range(n)]
    asked = range(query - 1, query + 2) if weights is None else ()
    start = (x[query], below + 0.22)
    for i, weight in enumerate(weights or [0.0] * n):
        color = KEY if weight >= 0.1 or i in asked else "0.6"
        color = "white" if weight > 0.45 else color
        word(axis, x[i], top, shown(names[i]), color, fill=SHADES(weight), **box)
        if weight >= 0.1:
            say(axis, x[i] + 0.11, top - 0.36, f"{weight:.2f}", SHARE, size=9.5, ha="left")
            arrow(axis, start, (x[i], top - 0.23), SHARE, width=0.8 + weight)
        if i in asked:
            arrow(axis, start, (x[i], top - 0.23), "0.6", width=0.9)
            middle = (x[query] + x[i]) / 2 + 0.12
            say(axis, middle, (below + top) / 2, "?", QUERY, size=12, weight="bold")
        color = QUERY if i == query else "0.6"
        word(axis, x[i], below, shown(names[n + i]), color, **box)


def solved(
    model: Model, text: Hidden, tokenizer: Tokenizer, matches: list[tuple[float, float]], title: str
) -> Figure:
    """All four heads of a model of 2 x 2 on one text: notes beside the mask and the copy, matched.

    matches: for each head of layer 1, what before meets before and what after meets after add to
    the score of the copy.
    """
    cache = model.run_with_cache(text.seen[:1])[1]
    at = int(text.at[0])
    n, copy = text.length, at - text.length
    names = _names(text, tokenizer, hidden=True)
    figure, axis = canvas(n * STEP + 0.3, 5.0)
    x = [0.15 + STEP * (i + 0.5) for i in range(n)]
    middle, box = x[copy - 1], {"width": 1.02, "height": 0.4, "size": 9.5}
    for y, here, up, color in ((3.2, copy, 1, KEY), (1.3, at, -1, QUERY)):
        for i, name in enumerate(names[n * (here == at) :][:n]):
            own = i == copy - 1
            look = {"fill": SHADES(0.95)} if own and here == copy else {}
            ink = "white" if look else color if abs(i - copy + 1) <= 1 else "0.6"
            word(axis, x[i], y, shown(name), ink, **box, **look)
        for head, step, side in ((0, -1, "before"), (1, 1, "after")):
            share = cache["L0.pattern"][0, head, here, here + step].item()
            there = x[copy - 1 + step]
            look = {"arrowstyle": "-|>", "color": color, "lw": 0.8 + 1.8 * share}
            look["connectionstyle"] = f"arc3,rad={-0.5 * up * step:g}"
            ends = (there, y + 0.22 * up), (middle + 0.16 * step, y + 0.22 * up)
            axis.annotate("", *ends, arrowprops=look)
            note = f"L0H{head} attends {share:.2f}\nand notes “{side} me: {names[here - 1 + step]}”"
            say(
                axis,
                middle + 0.3 * step,
                y + 0.79 * up,
                note,
                color,
                size=9.5,
                ha="right" if step < 0 else "left",
            )
    arrow(axis, (middle, 1.53), (middle, 2.97), SHARE, width=2.4)
    shares = [cache["L1.pattern"][0, head, at, copy].item() for head in (0, 1)]
    for step, match, side in ((-1, 0, "before"), (1, 1, "after")):
        gains = [f"{each[match]:+.0f} in L1H{head}" for head, each in enumerate(matches)]
        told = f"“{side} me” meets “{side} me”:\n" + ", ".join(gains)
        say(
            axis,
            middle + 0.2 * step,
            2.4,
            told,
            SHARE,
            size=10,
            weight="bold",
            ha="right" if step < 0 else "left",
        )
    sources = "attention: of this text; + : what a match adds, the mean of the random texts"
    say(axis, 0.15, 0.1, sources, PALE, size=9.5, ha="left")
    attends = ", ".join(f"L1H{head} {share:.2f}" for head, share in enumerate(shares))
    say(axis, middle + 0.2, 1.93, f"attention: {attends}", SHARE, size=9.5, ha="left")
    return headline(figure, title)
