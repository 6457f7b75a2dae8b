"""Drawings of notebook 16: two losses that disagree, two softmaxes, a ruler, a ladder of faults."""

import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from aot_helpers.showing.diagrams import INK, PALE, SHADES, arrow, canvas, headline, say
from aot_helpers.showing.widgets import Page
from chapters.nb16_too_good.report_model import FAULTS
from chapters.nb16_too_good.results import ON_REVIEWS, combinations, held_out, runs

SCRIPT = Path(__file__).with_name("faults.js")  # the live view, in the page itself

# Two colors of this notebook alone: the report's loss, and the usual one.
REPORT, USUAL = "#C2255C", "#137177"
MARK = {"color": "0.6", "lw": 1, "ls": (0, (4, 3)), "zorder": 0}  # a line at what counting costs
TICKS = [4, 5, 6, 8, 10, 15, 20, 30, 50]  # of a logarithmic axis of nats


def two_runs(report, usual, samples, baselines, *, title: str) -> Figure:
    """What two runs report while they train, and what they know, with a text that each writes.

    report, usual: two `Learned`. samples: a text of each. baselines: {name: nats} of counting.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9))
    figure.subplots_adjust(0.065, 0.3, 0.985, 0.83, 0.2)
    steps = np.arange(1, len(report.losses) + 1)
    for run, color in ((report, REPORT), (usual, USUAL)):
        left.plot(steps, run.losses, color=color, lw=2)
        right.plot(steps, run.next_token, color=color, lw=2)
    left.set(yscale="log", yticks=[0.01, 0.1, 1, 10], yticklabels=["0.01", "0.1", "1", "10"])
    left.set(xlabel="training step", xlim=(1, steps[-1]), ylim=(0.008, 14))
    right.set(xlabel="training step", xlim=(1, steps[-1]), ylim=(0, None))
    left.set_title("the loss that each reports", size=11, loc="left")
    right.set_title("what the next token costs, in nats", size=11, loc="left")
    middle = len(steps) // 2
    for run, color, name in ((report, REPORT, "run A"), (usual, USUAL, "run B")):
        place = {"color": color, "weight": "bold", "size": 10.5, "ha": "center"}
        left.text(middle, run.losses[middle] * 1.5, name, va="bottom", **place)
        above = 2.2 if run is report else 0.6
        right.text(middle, run.next_token[middle] + above, name, va="bottom", **place)
    chance = baselines["chance"]
    right.axhline(chance, color="0.5", lw=1, ls=(0, (4, 3)))
    right.text(steps[-1], chance + 0.4, "knowing nothing", color=PALE, size=9.5, ha="right")
    for y, (name, color) in zip((0.115, 0.045), (("A", REPORT), ("B", USUAL)), strict=True):
        said = f"run {name} writes:  {textwrap.shorten(samples[name], 96, placeholder=' …')}"
        figure.text(0.065, y, said, color=color, size=10.5, va="center")
    return headline(figure, title)


def two_softmaxes(logits, tokens, words, *, title: str) -> Figure:
    """The softmax over words and over time of the same logits [time, word], with their sums.

    tokens: what comes at each time. words: the vocabulary.
    """
    n_time, n_words = logits.shape
    figure, axis = canvas(10, 3.75)
    cell, top = 0.62, 2.75
    for x0, dim, color, name, asks in (
        (1.35, 1, USUAL, "softmax over the words", "each row: which word comes here?"),
        (6.25, 0, REPORT, "softmax over time", "each column: where does this word come?"),
    ):
        shares = np.asarray(logits.softmax(dim=dim))
        say(axis, x0 - 0.05, top + 0.48, name, color, size=11.5, ha="left", weight="bold")
        say(axis, x0 - 0.05, 0.16, asks, color, size=10.5, ha="left")
        for j, word in enumerate(words):
            say(axis, x0 + cell * (j + 0.5), top + 0.17, word, size=10.5)
        for i in range(n_time):
            y = top - cell * (i + 1)
            say(axis, x0 - 0.12, y + cell / 2, f"time {i}", PALE, size=10, ha="right")
            for j in range(n_words):
                share, target = float(shares[i, j]), tokens[i] == j
                edge = {"ec": INK if target else "0.85", "lw": 2.4 if target else 0.6}
                corner = (x0 + cell * j, y)
                order = {"zorder": 4 if target else 2}
                axis.add_patch(Rectangle(corner, cell, cell, fc=SHADES(share), **edge, **order))
                ink = "white" if share > 0.5 else INK
                say(axis, x0 + cell * (j + 0.5), y + cell / 2, f"{share:.2f}", ink, size=10)
        if dim == 1:
            for i in range(n_time):
                y = top - cell * (i + 0.5)
                end = x0 + cell * n_words + 0.5
                arrow(axis, (x0 + cell * n_words + 0.05, y), (end, y), color, width=1.6)
                say(axis, end + 0.22, y, "1", color, size=11, weight="bold")
        else:
            for j in range(n_words):
                x, end = x0 + cell * (j + 0.5), top - cell * n_time - 0.32
                arrow(axis, (x, top - cell * n_time - 0.03), (x, end), color, width=1.6)
                say(axis, x, end - 0.13, "1", color, size=11, weight="bold")
    title += " (bold boxes: the words that come)"
    say(axis, 0.12, 3.55, title, size=12, ha="left", weight="bold")
    return figure


def ruler(floors: dict[str, dict], aim: float, *, title: str) -> Figure:
    """Chance and floor of the report's loss at each length, and the loss that it asks for."""
    figure, axis = plt.subplots(figsize=(10, 2.9))
    figure.subplots_adjust(0.11, 0.22, 0.985, 0.84)
    for y, each in enumerate(floors.values()):
        floor, chance = 1e6 * each["floor"], 1e6 * each["chance"]
        axis.plot([floor, chance], [y, y], color=REPORT, lw=7, alpha=0.3, solid_capstyle="butt")
        for x, what in ((floor, "all is known"), (chance, "nothing is known")):
            axis.plot(x, y, "o", color=REPORT, ms=8)
            name = f"{what}: {x:,.0f}" if y == 0 else f"{x:,.0f}"
            axis.text(x, y - 0.34, name, color=REPORT, size=10, ha="center", va="center")
    axis.axvline(1e6 * aim, color=INK, lw=1.6)
    axis.text(1.15e6 * aim, 1.0, "the report's aim", color=INK, size=10.5, va="center")
    ticks = [1, 10, 100, 1000, 10_000]
    axis.set(xscale="log", xlim=(0.6, 20_000), ylim=(len(floors) - 0.5, -0.7))
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axis.set(yticks=range(len(floors)), yticklabels=[f"{length} tokens" for length in floors])
    axis.set_xlabel("the report's loss, in millionths (less is to the left)", size=10.5)
    axis.tick_params(labelsize=10, length=0, which="both")
    return headline(figure, title)


def ladder(found: dict, *, title: str) -> Figure:
    """Held-out losses: of all five faults one mended, and from none one fault put in."""
    counted, names = found["counting"]["imdb imdb-2l 20"], ON_REVIEWS
    figure, axis = plt.subplots(figsize=(10, 4.1))
    figure.subplots_adjust(0.155, 0.135, 0.985, 0.79)
    rows = {"all five": ([], ON_REVIEWS), **{name: ([name], None) for name in names}}
    rows |= {"no fault": (None, [])}
    means = {"all": held_out(runs(found, "ladder", ON_REVIEWS)).mean()}
    means["none"] = held_out(runs(found, "ladder")).mean()
    for y, (name, _) in enumerate(rows.items()):
        if name in names:
            only_mended = held_out(runs(found, "ladder", set(names) - {name}))
            only_broken = held_out(runs(found, "ladder", {name}))
            _steps(axis, y + 0.13, float(means["none"]), only_broken, USUAL)
            _steps(axis, y - 0.13, float(means["all"]), only_mended, REPORT)
        else:
            x = held_out(runs(found, "ladder", names if y == 0 else []))
            axis.plot(x, [y] * len(x), "o", color=INK, ms=7)
    _marks(axis, counted, -0.75)
    axis.set(yticks=range(len(rows)), yticklabels=rows, ylim=(len(rows) - 0.5, -0.7))
    _nats(
        axis,
        "held-out loss of the next token (nats, log scale); bars begin at all five or at no fault",
    )
    key = (("● only this one put in", USUAL), ("● only this one mended", REPORT))
    for x, (text, color) in zip((0.71, 0.985), key, strict=True):
        place = {"color": color, "ha": "right", "size": 10.5, "weight": "bold", "va": "center"}
        figure.text(x, 0.85, text, **place)
    return headline(figure, title)


def _marks(axis, counted, y):
    """Dashed lines at what counting costs, and knowing nothing; their names from y upwards."""
    names = {
        "bigram": "counting\npairs",
        "unigram": "counting\ntokens",
        "chance": "knowing\nnothing",
    }
    for what, name in names.items():
        axis.axvline(counted[what], **MARK)
        axis.text(counted[what], y, name, color=PALE, size=9.5, ha="center", va="bottom")


def _nats(axis, label):
    """A logarithmic axis of nats, with plain numbers."""
    low, high = axis.get_xlim()
    low, high = max(low, 0.97 * min(min(line.get_xdata()) for line in axis.lines)), 1.03 * high
    axis.set(xscale="log", xlim=(low, high))
    axis.set_xticks([n for n in TICKS if low <= n <= high], minor=False)
    axis.set_xticks([], minor=True)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel(label, size=10.5)
    axis.tick_params(labelsize=10, length=0)


def _steps(axis, y, start, values, color):
    """A gray line from where a mend starts to where it ends, and a dot for each seed."""
    end = float(values.mean())
    axis.plot([start, end], [y, y], color=color, lw=2, alpha=0.35)
    axis.plot(values, [y] * len(values), "o", color=color, ms=5.5)


def all_combinations(found: dict, *, title: str) -> Figure:
    """The held-out loss of all combinations of faults, by how many there are."""
    figure, axis = plt.subplots(figsize=(8.6, 3.8))
    figure.subplots_adjust(0.08, 0.145, 0.985, 0.78)
    tried = list(combinations(found))
    worst = max(tried, key=lambda each: each["loss"])
    place = {"color": REPORT, "size": 9.5, "ha": "right", "va": "top"}
    axis.text(
        1.02 * worst["loss"], len(worst["faults"]) - 0.15, " + ".join(worst["faults"]), **place
    )
    _marks(axis, found["counting"]["imdb imdb-2l 20"], len(ON_REVIEWS) + 0.55)
    axis.set_ylim(-0.5, len(ON_REVIEWS) + 0.5)
    for each in tried:
        wrong = "loss over time" in each["faults"]
        color, shift = (REPORT, 0.12) if wrong else (USUAL, -0.12)
        axis.plot(each["loss"], len(each["faults"]) + shift, "o", color=color, ms=6, alpha=0.75)
    axis.set(yticks=range(len(ON_REVIEWS) + 1))
    axis.set_ylabel("how many faults", size=10.5)
    _nats(axis, "held-out loss (nats, on a log scale)")
    axis.text(0.98, 0.06, "with the loss over time", color=REPORT, **_corner(axis, "right"))
    under = {"bbox": {"fc": "white", "ec": "none", "pad": 1.5}, **_corner(axis, "left")}
    axis.text(0.02, 0.9, "with the usual loss", color=USUAL, **under)
    return headline(figure, title)


def _corner(axis, side):
    return {"transform": axis.transAxes, "ha": side, "size": 10.5, "weight": "bold"}


class FaultsView(Page):
    """Checkboxes that put faults into a working model; what it then knows and writes, at once.

    found: the results of `make data WHAT=autopsy`. All combinations were trained beforehand.
    title: of the picture for places without scripts.
    """

    def __init__(self, found: dict, *, title: str):
        table = {}
        for each in combinations(found):
            key = sum(2 ** ON_REVIEWS.index(name) for name in each["faults"])
            told = each["loss"], each["accuracy"]
            table[key] = [*(round(value, 4) for value in told), each["sample"]]
        counted = found["counting"]["imdb imdb-2l 20"]
        marks = {"counting pairs": counted["bigram"], "counting tokens": counted["unigram"]}
        marks |= {"knowing nothing": counted["chance"]}
        data = {
            "faults": [[name, FAULTS[name].code] for name in ON_REVIEWS],
            "table": table,
            "marks": marks,
            "colors": [USUAL, REPORT],
        }
        said = "five faults to put into a working model, and what it then knows and writes"
        super().__init__(SCRIPT, data, all_combinations(found, title=title), said)


def pieces_square(shares: dict[str, list[float]], *, title: str) -> Figure:
    """Word pieces written, as a multiple of the reviews' share: vocabulary × loss.

    shares: {vocabulary: (with the loss over time, with the usual loss)}, each over seeds.
    """
    figure, axis = canvas(10, 2.75)
    columns = ("softmax over time", "usual softmax")
    for j, (name, color) in enumerate(zip(columns, (REPORT, USUAL), strict=True)):
        say(axis, 4.1 + 2.9 * j, 2.12, name, color, size=11, weight="bold")
    most = max(float(np.mean(each)) for row in shares.values() for each in row)
    for i, (vocabulary, row) in enumerate(shares.items()):
        y = 1.2 - 0.9 * i
        say(axis, 2.5, y + 0.32, vocabulary, size=11, ha="right")
        for j, each in enumerate(row):
            mean, low, high = float(np.mean(each)), float(min(each)), float(max(each))
            box = {"fc": SHADES(mean / most * 0.75), "ec": "0.85", "lw": 1.2}
            axis.add_patch(Rectangle((2.65 + 2.9 * j, y - 0.08), 2.85, 0.82, **box))
            ink = "white" if mean / most > 0.55 else INK
            text = f"{mean:.1f} × the reviews' share"
            say(axis, 4.1 + 2.9 * j, y + 0.43, text, ink, size=11, weight="bold")
            seeds = f"seeds: {low:.1f} to {high:.1f}"
            say(axis, 4.1 + 2.9 * j, y + 0.17, seeds, ink, size=9.5)
    say(axis, 0.12, 2.55, title, size=12, ha="left", weight="bold")
    return figure


def sweep_map(table, chance: float, *, title: str) -> Figure:
    """Each trial of the sweep: the loss that it reports, and what it knows.

    table: its trials; chance: the held-out loss of knowing nothing, in nats.
    """
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.9), sharey=True, width_ratios=(1.6, 1)
    )
    figure.subplots_adjust(0.07, 0.14, 0.985, 0.74, wspace=0.06)
    marks = {20: "o", 50: "s", 80: "D"}
    panels = ((left, False, REPORT, "with the faults"), (right, True, USUAL, "without"))
    for axis, mended, color, name in panels:
        for _, trial in table[table.mended == mended].iterrows():
            face = color if trial.learning_rate >= 1e-3 else "white"
            look = {"mec": color, "mfc": face, "ms": 7, "mew": 1.3, "alpha": 0.75}
            axis.plot(trial["own loss, last"], trial["loss"], marks[trial.max_length], **look)
        axis.axhline(chance, **MARK)
        axis.set_title(name, color=color, size=11, weight="bold", loc="left")
        axis.set_xlabel("the loss that a trial reports", size=10.5)
        axis.tick_params(labelsize=10, length=0, which="both")
    place = {"transform": left.get_yaxis_transform(), "color": PALE, "size": 9.5, "va": "bottom"}
    left.text(0.3, chance + 0.03, "knowing nothing", **place)
    left.set_ylabel("held-out loss (nats)", size=10.5)
    left.set_ylim(None, chance + 0.3)
    key = [
        *(
            Line2D([], [], ls="", marker=mark, color="0.35", ms=7, label=f"{length} tokens")
            for length, mark in marks.items()
        ),
        Line2D([], [], ls="", label="   filled: rate 0.001, hollow: 0.0001"),
    ]
    place = {"loc": "upper right", "bbox_to_anchor": (0.99, 0.93), "frameon": False}
    figure.legend(handles=key, ncols=4, fontsize=9.5, handletextpad=0.1, columnspacing=1.2, **place)
    return headline(figure, title)
