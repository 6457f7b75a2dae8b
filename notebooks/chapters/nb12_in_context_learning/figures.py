"""Drawings of notebook 12: a text with more of it in sight, losses by index, equal scores."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE, VALUE, headline
from aot_helpers.showing.texts import LETTER, SURPRISE, strip

COLORS = {  # of the models, in every figure
    "no layers": "0.6",
    "1 layer": "0.45",
    "1 layer, smeared keys": KEY,
    "2 layers": "#137177",
    "stories-2l": "#137177",
    "fixed-length": "#C78A3B",
    "no-repeats": "#A23B72",
    "without induction heads": SHARE,
    "without two other heads": "#C78A3B",
}
SKILLS = {  # of an entry of a run's log; higher is better
    "score": lambda found: -found["in-context score"],
    "copying": lambda found: found["copy accuracy"]["24"],
}
EDGES = [1, 2, 3, 5, 9, 17, 33, 65, 97, 128]  # ranges of the index; the last is that of the score


def more_context(rows, title, n_last, letters=104) -> Figure:
    """A text from farther and farther back; its last tokens are shaded by their losses.

    rows: {label: (tokens in sight, losses of the last n_last of them)}. Lines end at the right,
    so that the last tokens stand one below the other.
    """
    lines = {name: _broken(tokens, letters) for name, (tokens, _) in rows.items()}
    height = 0.55 + sum(0.26 * len(each) + 0.2 for each in lines.values())
    figure, axis = diagrams.canvas(10, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12.5, ha="left", weight="bold")
    key = "orange: loss, full color at 6 nats"
    diagrams.say(axis, 9.9, height - 0.2, key, SURPRISE, size=9.5, ha="right")
    y = height - 0.62
    for name, (tokens, losses) in rows.items():
        place = y - 0.26 * (len(lines[name]) - 1)
        diagrams.say(axis, 0.12, place, name, size=10, ha="left", weight="bold")
        i, first = 0, len(tokens) - n_last
        for line in lines[name]:
            x = 9.9 - LETTER * sum(map(len, line))
            for token in line:
                if i < first:
                    look = {"size": 9.5, "family": "monospace", "color": PALE, "va": "center"}
                    axis.text(x, y - 0.01, token, **look)
                else:
                    strip(axis, x, y, [token], [losses[i - first]])
                x, i = x + LETTER * len(token), i + 1
            y -= 0.26
        y -= 0.2
    return figure


def _broken(tokens, letters):
    """The tokens in lines that break before words; all but the first are full."""
    lines, words = [[]], [[]]
    for token in tokens:
        if token.startswith(" "):
            words.append([])
        words[-1].append(token)
    for word in reversed(words):
        if sum(map(len, word + lines[0])) > letters:
            lines.insert(0, [])
        lines[0] = word + lines[0]
    return lines


def by_index(curves, title, ranges=(), score_of="") -> Figure:
    """Mean loss by the index of the token (on a log scale, from the second token on).

    curves: {name of COLORS: losses [text, index]}; a faint dot for each index, a line for means
    over ranges. ranges: the early and the late indices of the in-context score, (first, last) from
    1, as gray bands; score_of: the curve whose score is drawn as an arrow.
    """
    figure, axis = plt.subplots(figsize=(8.6, 3.7))
    figure.subplots_adjust(0.065, 0.14, 0.765, 0.9)
    _curves(axis, curves)
    _bands(axis, ranges)
    ends = {name: _ranged(losses)[1][-1] for name, losses in curves.items()}
    for name, y in zip(ends, _apart(list(ends.values()), 0.26), strict=True):
        look = {"color": COLORS[name], "weight": "bold", "va": "center", "annotation_clip": False}
        axis.annotate(name, (135, y), **look)
    if score_of:
        early, late = (curves[score_of][:, a - 1 : b].mean().item() for a, b in ranges)
        color = COLORS[score_of]
        at = np.sqrt(ranges[1][0] * ranges[1][1])  # in the middle of the late range
        axis.plot([ranges[0][0], at], [early, early], color=color, lw=1.2, ls=(0, (4, 2)))
        look = {"arrowstyle": "-|>", "color": color, "lw": 2, "shrinkA": 0, "shrinkB": 0}
        axis.annotate("", (at, late), (at, early), arrowprops=look)
        said = f"in-context score\n{_signed(late - early)} nats"
        axis.text(
            at / 1.07, 1.62, said, color=color, weight="bold", va="center", ha="right", size=10
        )
    axis.set_ylabel("loss (nats)")
    return headline(figure, title)


def _curves(axis, curves):
    """Losses by index, on an axis that begins at the second token."""
    for name, losses in curves.items():
        mean, color = np.asarray(losses.mean(dim=0)), COLORS[name]
        axis.plot(np.arange(1, len(mean) + 1), mean, ".", color=color, ms=3.5, alpha=0.35)
        axis.plot(*_ranged(losses), color=color, lw=2.2)
    ticks = [2, 4, 8, 16, 32, 64, 127]
    axis.set(xscale="log", xlim=(1.9, 130), ylim=(0, 3.4), xlabel="token index (log scale)")
    axis.set_xticks(ticks, ticks)
    axis.minorticks_off()
    axis.spines[["top", "right"]].set_visible(False)


def _ranged(losses):
    """The middles of ranges of the index, and the mean loss in each."""
    mean, ranges = np.asarray(losses.mean(dim=0)), list(itertools.pairwise(EDGES[1:]))
    means = [mean[a - 1 : b - 1].mean() for a, b in ranges]
    return [np.sqrt(a * (b - 1)) for a, b in ranges], means


def _signed(number):
    return f"{number:+.2f}".replace("-", "−")


def _bands(axis, ranges):
    for (first, last), name in zip(ranges, ("early", "late"), strict=False):
        axis.axvspan(first, last, color="0.93", zorder=0)
        axis.text(np.sqrt(first * last), 3.27, name, color=PALE, ha="center", va="center", size=10)


def _apart(heights, least):
    """The same heights, moved up where two labels would touch."""
    placed = {}
    for i in np.argsort(heights):
        placed[i] = max(heights[i], max(placed.values(), default=-9) + least)
    return [placed[i] for i in range(len(heights))]


def equal_scores(curves, copied, ranges, places, title) -> Figure:
    """Models side by side: loss by index on stories, and how much of random tokens they copy.

    curves: {name of COLORS: losses [text, index]}; copied: {name: {segment length: copy accuracy}};
    places: {name: where its name stands on the right}.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), width_ratios=(1.15, 1))
    figure.subplots_adjust(0.055, 0.145, 0.985, 0.8, 0.2)
    _curves(left, curves)
    _bands(left, ranges)
    left.set_ylabel("loss (nats)")
    left.set_title("unread stories", size=10.5, loc="left")
    for i, (name, losses) in enumerate(curves.items()):
        early, late = (losses[:, a - 1 : b].mean().item() for a, b in ranges)
        said = f"{name}: score {_signed(late - early)}"
        left.text(14.5, 2.75 - 0.27 * i, said, color=COLORS[name], weight="bold", size=10)
    for name, by_length in copied.items():
        x, y = list(by_length), list(by_length.values())
        right.plot(x, y, "o-", color=COLORS[name], lw=2, ms=4.5)
    right.set(xlim=(5, 63), ylim=(-0.04, 1.08), xlabel="length of the random segment (tokens)")
    right.set_ylabel("copy accuracy")
    right.set_xticks(list(by_length))
    right.spines[["top", "right"]].set_visible(False)
    right.set_title("random tokens written twice", size=10.5, loc="left")
    for name, (x, y) in places.items():
        right.text(x, y, name, color=COLORS[name], weight="bold", size=10.5)
    return headline(figure, title)


def scores_by_text(scores, copied, title) -> Figure:
    """In-context scores of models beside what they copy, a band for each text.

    scores: {text: {name: score}}; copied: {text: {name: share of the tokens copied}}.
    """
    height = 1.35 + 0.9 * len(scores)
    figure, axes = plt.subplots(1, 2, figsize=(9.8, height), width_ratios=(1.75, 1), sharey=True)
    figure.subplots_adjust(0.145, 0.5 / height, 0.985, 1 - 0.8 / height, 0.06)
    for axis, found in zip(axes, (scores, copied), strict=True):
        axis.axvline(0, color="0.75", lw=1)
        for y, row in enumerate(found.values()):
            axis.axhspan(y - 0.42, y + 0.42, color="0.965", zorder=0)
            for i, (name, number) in enumerate(row.items()):
                place = y + 0.72 / len(row) * (i - (len(row) - 1) / 2)
                axis.plot([0, number], [place, place], color=COLORS[name], lw=2.5, alpha=0.35)
                axis.plot(number, place, "o", ms=8, color=COLORS[name], mew=0)
                left = axis is axes[0] and number < 0
                ha, off = ("right", -7) if left else ("left", 7)
                look = {"xytext": (off, 0), "textcoords": "offset points", "ha": ha, "va": "center"}
                said = f"{name} {_signed(number)}" if axis is axes[0] else f"{number:.2f}"
                axis.annotate(said, (number, place), color=COLORS[name], size=9.5, **look)
        axis.spines[["left", "top", "right"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
    axes[0].set(xlim=(-3.3, 1.25), ylim=(len(scores) - 0.5, -0.5))
    axes[0].set_xlabel("nats: the lower, the more context helps")
    axes[0].set_xticks([-2, -1.5, -1, -0.5, 0, 0.5])
    axes[0].set_yticks(range(len(scores)), list(scores), fontsize=10.5)
    axes[1].set(xlim=(0, 1.19), xlabel="share of the tokens predicted right")
    axes[1].set_xticks([0, 0.5, 1])
    axes[0].set_title("in-context score", size=10.5, loc="left")
    axes[1].set_title("inside names that come again", size=10.5, loc="left")
    return headline(figure, title)


def ladder(losses, reached, title) -> Figure:
    """Models on a line of mean losses, and how far a copier carries each towards the next.

    losses: {model: mean loss}, from high to low; reached: {model: mean loss with the copier}.
    """
    figure, axis = diagrams.canvas(9, 2.55)
    names, values = list(losses), list(losses.values())
    at = {
        name: 0.9 + 7.2 * (values[0] - v) / (values[0] - values[-1]) for name, v in losses.items()
    }
    diagrams.say(axis, 0.12, 2.37, title, size=12.5, ha="left", weight="bold")
    axis.plot([at[names[0]], at[names[-1]]], [0.85, 0.85], color="0.8", lw=2, zorder=1)
    for name in names:
        axis.plot(at[name], 0.85, "o", color=COLORS[name], ms=10, zorder=5)
        diagrams.say(axis, at[name], 0.5, name, COLORS[name], weight="bold")
        diagrams.say(axis, at[name], 0.22, f"{losses[name]:.2f} nats", PALE, size=9.5)
    for one, two in zip(names[:-1], names[1:], strict=True):
        end = at[one] + (at[two] - at[one]) * (losses[one] - reached[one]) / (
            losses[one] - losses[two]
        )
        diagrams.arrow(axis, (at[one], 1.2), (end, 1.2), VALUE, width=2.4)
        axis.plot([at[two]] * 2, [0.95, 1.35], color="0.8", lw=1)
        share = (losses[one] - reached[one]) / (losses[one] - losses[two])
        middle = (at[one] + end) / 2
        diagrams.say(axis, middle, 1.78, f"{share:.0%} of the way", VALUE, size=11, weight="bold")
        diagrams.say(axis, middle, 1.5, f"{one} + copier", VALUE, size=9.5)
    return figure


def left(rows, title, label) -> Figure:
    """A dot for each run or set of heads, a row for each {name: values}, and their range."""
    height = 0.95 + 0.4 * len(rows)
    figure, axis = plt.subplots(figsize=(8.6, height))
    figure.subplots_adjust(0.36, 0.48 / height, 0.98, 1 - 0.42 / height)
    for y, values in enumerate(rows.values()):
        values = np.atleast_1d(np.asarray(values, dtype=float))
        axis.plot(values, [y] * len(values), "o", ms=8, alpha=0.55, color="#137177", mew=0)
        many = f"{values.min():.2f} to {values.max():.2f}" if len(values) > 1 else ""
        many = many or f"{values[0]:.2f}"
        axis.text(1.3, y, many, color=PALE, va="center", ha="left", size=9.5)
    axis.axvline(0, color="0.8", lw=1)
    axis.axvline(1, color="0.8", lw=1)
    axis.set(xlim=(-0.1, 1.55), ylim=(len(rows) - 0.5, -0.5), xlabel=label)
    axis.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axis.set_yticks(range(len(rows)), list(rows), fontsize=10)
    axis.tick_params(axis="y", length=0)
    axis.spines[["left", "top", "right"]].set_visible(False)
    return headline(figure, title)


def smeared_key(own: float, tokens, *, title: str, said: str) -> Figure:
    """How a key of the second token takes up the token before, in the proportion that was learned.

    own: the share of a key's own token, 0 to 1. tokens: four; the last one asks. said: of the key
    that its query is joined to, the second.
    """
    figure, axis = diagrams.canvas(9, 2.5)
    diagrams.say(axis, 0.12, 2.32, title, size=12.5, ha="left", weight="bold")
    at = [1.95, 3.75, 5.55, 7.2]
    diagrams.say(axis, at[0] - 0.95, 0.5, "…", INK, size=12)
    for x, token in zip(at, tokens, strict=True):
        diagrams.word(axis, x, 0.45, token, INK, width=1.1, height=0.42, size=11)
    for i, x in enumerate(at[:3]):
        before = tokens[i - 1] if i else "…"  # the text goes on to the left
        say = f"{own:.2f} {tokens[i]} + {1 - own:.2f} {before}"
        diagrams.word(axis, x, 1.35, say, KEY, width=1.65, height=0.36, size=9.5)
        diagrams.arrow(axis, (x, 0.68), (x, 1.15), KEY, alpha=0.35 + 0.3 * own, width=0.6 + 2 * own)
        start = (x - (1.5 if i else 0.95), 0.68)
        diagrams.arrow(axis, start, (x - 0.3, 1.15), KEY, width=0.6 + 2 * (1 - own))
    diagrams.word(axis, at[3], 1.35, tokens[3], QUERY, width=1.1, height=0.36, size=10.5)
    diagrams.arrow(axis, (at[3], 0.68), (at[3], 1.15), QUERY, width=1.5)
    line = {"arrowstyle": "-|>", "color": SHARE, "lw": 2, "linestyle": (0, (4, 2))}
    line["connectionstyle"] = "arc3,rad=0.16"
    axis.annotate("", (at[1], 1.56), (at[3], 1.56), arrowprops=line)
    diagrams.say(axis, at[3] + 0.7, 1.35, "query", QUERY, ha="left", weight="bold")
    diagrams.say(axis, at[0] - 1.0, 1.35, "keys", KEY, ha="right", weight="bold")
    diagrams.say(axis, at[0] - 1.15, 0.45, "tokens", INK, ha="right", weight="bold")
    diagrams.say(axis, at[3] + 0.7, 1.85, said, SHARE, ha="center", size=10)
    return figure


def growing(groups, places, title, last=1500) -> Figure:
    """What runs gained while they were trained: two skills, a line for each run.

    groups: {name of COLORS: logs of runs}; places: {name: where it stands on the right}.
    """
    titles = ["in-context score (nats)", "share of random tokens copied"]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2))
    figure.subplots_adjust(0.065, 0.15, 0.985, 0.8, 0.14)
    for axis, value_of in zip(axes, SKILLS.values(), strict=True):
        for name, logs in groups.items():
            for log in logs:
                curve = [value_of(found) for found in log["measured"]]
                axis.plot(log["steps"], curve, color=COLORS[name], lw=1.4, alpha=0.8)
        axis.set(xlim=(0, last), xlabel="training step")
        axis.spines[["top", "right"]].set_visible(False)
    for axis, said in zip(axes, titles, strict=True):
        axis.set_title(said, size=10.5, loc="left")
    for name, (x, y) in places.items():
        ha = "left" if name == "2 layers" else "right"
        axes[1].text(
            x, y, name.replace(", ", ",\n"), color=COLORS[name], weight="bold", size=10, ha=ha
        )
    return headline(figure, title)


def paths(panels, title) -> Figure:
    """Paths of losses in a plane, the paths of a null beside them, and the ends of other runs.

    panels: {heading: {"steps": [step], "path": [step, 2], "null": [step, 2], "ends": {name:
    point}, "shares": of the two axes, "marked": steps whose number is written}}.
    """
    figure, axes = plt.subplots(1, len(panels), figsize=(10.4, 4.3))
    figure.subplots_adjust(0.06, 0.12, 0.985, 0.83, 0.2)
    for axis, (heading, panel) in zip(axes, panels.items(), strict=True):
        path, null = np.asarray(panel["path"]), np.asarray(panel["null"])
        axis.plot(*null.T, color=PALE, lw=1.2, ls=(0, (4, 2)), marker=".", ms=3)
        axis.plot(*path.T, color=COLORS["2 layers"], lw=1.8, marker="o", ms=3.5)
        for step in panel["marked"]:
            at = path[panel["steps"].index(step)]
            look = {"xytext": (5, -11), "textcoords": "offset points", "size": 9.5}
            axis.annotate(f"{step:,}", at, color=COLORS["2 layers"], **look)
        for name, point in panel["ends"].items():
            color = COLORS.get(name.split(" (")[0], INK)
            axis.plot(*np.asarray(point), "D", color=color, ms=6, mec="white")
            if name in COLORS:
                place, ha = {"1 layer": ((-7, -4), "right")}.get(name, ((8, 14), "right"))
                look = {"xytext": place, "textcoords": "offset points", "size": 9.5, "ha": ha}
                axis.annotate(name, np.asarray(point), color=color, weight="bold", **look)
        axis.set_title(heading, size=10.5, loc="left")
        axis.set_aspect("equal", adjustable="datalim")  # so that angles are true
        for side, share in zip("xy", panel["shares"], strict=True):
            which = "first" if side == "x" else "second"
            getattr(axis, f"set_{side}label")(f"{which} component ({share:.0%} of the variance)")
        axis.spines[["top", "right"]].set_visible(False)
    return headline(figure, title)
