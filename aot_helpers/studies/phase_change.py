"""Notebook 09: what was measured of many training runs, its figures, and a live view of one."""

import itertools
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Markdown, display
from jaxtyping import Int
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.models.checkpoints import load_checkpoint, load_measurements
from aot_helpers.models.protocol import Edits
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY
from aot_helpers.studies.phase_change_drawings import (
    RANDOM,
    STORIES,
    colored_text,
    draw_pattern,
    headline,
)
from aot_helpers.training.losses import next_token_losses

ONE_LAYER = "0.6"
FLAT = 0.1  # a skill that saves less than this share does not count yet
Texts = Int[Tensor, "batch pos"]
QUANTITIES: dict[str, Callable[[dict], float]] = {  # what was measured while a run trained
    "loss on stories": lambda m: m["text"],
    "in-context score": lambda m: -m["in-context score"],  # early minus late: higher is better
    "induction score": lambda m: max(m["induction"][-1]),  # the best head of the last layer
    "copy accuracy": lambda m: m["copy accuracy"]["32"],
}


class Edited(AttentionOnlyTransformer):
    """A model whose edits are always on, also while it is trained."""

    def __init__(self, config: ModelConfig, edits: Edits):
        super().__init__(config)
        self.edits = edits

    def forward(self, tokens, attention_mask=None, edits=None, cache=None):
        """As of any model; edits that are given come on top of its own, and win."""
        return super().forward(tokens, attention_mask, self.edits | (edits or {}), cache)


def copied_text(texts: dict[str, Int[Tensor, "1 pos"]], steps: list[int], title: str) -> Figure:
    """The chance that stories-2l gave to each token of texts written twice, a row a training step.

    texts: {heading: tokens}, of stories first and then random ones: so they are colored.
    """
    models = [load_checkpoint("stories-2l", step) for step in steps]
    blocks = []
    for (heading, tokens), color in zip(texts.items(), (STORIES, RANDOM), strict=True):
        with torch.no_grad():
            losses = [next_token_losses(model(tokens), tokens)[0] for model in models]
        chances = {f"step {n:,}": (-each).exp() for n, each in zip(steps, losses, strict=True)}
        strings = models[0].tokenizer.token_strings(tokens[0, 1:])
        blocks.append((heading, strings, chances, color))
    note = "color: the chance that the model gave to the token before it came"
    return colored_text(blocks, title, note)


def measured(names: list[str], quantity: str, last: int = 4000) -> tuple[list[int], list]:
    """Steps up to the last one, and one of QUANTITIES at each of them: [step], [run, step]."""
    runs = [load_measurements(name) for name in names]
    steps = [step for step in runs[0]["steps"] if step <= last]  # alike in all
    read = QUANTITIES[quantity]
    return steps, [[read(m) for m in run["measured"][: len(steps)]] for run in runs]


def half_way_steps(names: list[str], last: int = 1500) -> dict[str, list[int]]:
    """For each of QUANTITIES and each run: the first measured step at which half of the change is
    done that comes between step 200 and `last`, a measured step. Runs may differ in their steps.

    Raises ValueError for a run whose induction score is below 0.4 at step `last`: nothing changed.
    """
    halves = {quantity: [] for quantity in QUANTITIES}
    for quantity, name in itertools.product(QUANTITIES, names):
        steps, (values,) = measured([name], quantity, last)
        start = next(i for i, step in enumerate(steps) if step >= 200)
        begin, end = values[start], values[-1]
        if quantity == "induction score" and end < 0.4:
            said = f"{name} has an induction score of {end:.2f} at step {last}"
            raise ValueError(f"{said}, so there is no half-way step: take runs with 0.4 or more")
        half, rises = (begin + end) / 2, end > begin
        done = ((value >= half) == rises or value == half for value in values[start:])
        step = next(s for s, is_done in zip(steps[start:], done, strict=True) if is_done)
        halves[quantity].append(step)
    return halves


def steps_between(early: list[int], late: list[int]) -> list[int]:
    """In each run: the steps between the half-way steps of two quantities."""
    return [abs(b - a) for a, b in zip(early, late, strict=True)]


def seed_panels(two: list[str], one: list[str]) -> Figure:
    """What was measured of runs of two layers and of one layer, a line for each run."""
    figure, axes = plt.subplots(2, 2, figsize=(8.6, 5), sharex=True)
    figure.subplots_adjust(0.055, 0.1, 0.92, 0.86, 0.38, 0.25)
    halves = half_way_steps(two)
    for axis, quantity in zip(axes.flat, QUANTITIES, strict=True):
        stories = axis in axes[0]
        groups = [("2 layers", STORIES if stories else RANDOM, two), ("1 layer", ONE_LAYER, one)]
        for label, color, names in groups:
            steps, values = measured(names, quantity, last=1500)
            axis.plot(steps, np.transpose(values), color=color, lw=1.2)
            end = 1500, np.median(values, axis=0)[-1]
            beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
            axis.annotate(label, end, color=color if stories or names is two else PALE, **beside)
            for step, run in zip(halves[quantity] if names is two else [], values, strict=False):
                axis.plot(step, run[steps.index(step)], "o", color=color, ms=5, mec="white")
        where = {"loss on stories": "", "in-context score": ", stories"}
        title = quantity + where.get(quantity, ", random tokens")
        axis.set_title(title, size=10.5, loc="left")
        axis.set(xlim=(0, 1500), xlabel="" if stories else "training step")
    axes[0, 0].set_ylim(0.8, 3)
    axes[0, 0].text(620, 1.5, "dots: half-way", color=STORIES)
    top, bottom = list(QUANTITIES)[:2], list(QUANTITIES)[2:]
    gaps = [g for a in top for b in bottom for g in steps_between(halves[a], halves[b])]
    later = f"random tokens {min(gaps)} to {max(gaps)} steps later (bottom)"
    return headline(figure, f"In all {len(two)} runs: stories first (top), {later}")


def rescue(two: list[str], one: list[str], smeared: list[str]) -> Figure:
    """Copy accuracy of runs of two layers, of one layer, and of one layer with smeared keys."""
    figure, axis = plt.subplots(figsize=(8.6, 2.9))
    figure.subplots_adjust(0.075, 0.17, 0.99, 0.87)
    groups = [
        (two, RANDOM, f"2 layers ({len(two)} runs)", (890, 0.55, "left")),
        (one, ONE_LAYER, f"1 layer ({len(one)} runs)", (1490, 0.08, "right")),
        (smeared, KEY, f"1 layer, smeared keys ({len(smeared)} runs)", (580, 0.72, "right")),
    ]
    for names, color, label, (x, y, align) in groups:
        steps, values = measured(names, "copy accuracy", last=1500)
        axis.plot(steps, np.transpose(values), color=color, lw=1.4)
        ink = PALE if names is one else color
        axis.text(x, y, label, color=ink, ha=align, va="center", weight="bold")
    axis.set(xlim=(0, 1500), ylim=(-0.03, 1.03))
    axis.set(xlabel="training step", ylabel="random tokens copied")
    return headline(figure, "One layer copies, once its keys hold the token before")


def skills(name: str, last: int = 4000) -> list[dict[str, float]]:
    """A run, measured step by step: what context is worth, the best induction score, the copies."""
    quantities = {
        "context": "in-context score",
        "induction": "induction score",
        "copied": "copy accuracy",
    }
    columns = [measured([name], quantity, last)[1][0] for quantity in quantities.values()]
    return [dict(zip(quantities, row, strict=True)) for row in zip(*columns, strict=True)]


def skills_at(step: int, groups: dict[str, list[str]]) -> dict[str, dict[str, list[float]]]:
    """What the runs of each group can do at that step: {group: {skill: [of each run]}}."""
    ends = {group: [skills(name, step)[-1] for name in names] for group, names in groups.items()}
    return {
        group: {key: [run[key] for run in runs] for key in runs[0]} for group, runs in ends.items()
    }


def skills_table(groups: dict[str, dict[str, list[float]]]) -> Markdown:
    """What skills_at returns, as a table with a row for each run."""
    rows = ["| windows written twice | context (nats) | induction | copied |", "|---|---|---|---|"]
    for group, columns in groups.items():
        for row in zip(*columns.values(), strict=True):
            rows.append(f"| {group} | " + " | ".join(f"{number:.2f}" for number in row) + " |")
    return Markdown("\n".join(rows))


def skill_map(two: list[str], none: list[str], one: list[str], docstrings: list[str]) -> Figure:
    """The runs of four groups as paths through the plane of two skills; a dot where each ends."""
    figure, axis = plt.subplots(figsize=(8.6, 4.4))
    figure.subplots_adjust(0.075, 0.11, 0.99, 0.9)
    groups = [  # runs, color, line width, label, and its place
        (two, RANDOM, 3, "2 layers, 30 %\nwritten twice\n(5 runs)", (1.52, 0.84, "left")),
        (none, STORIES, 1.2, "2 layers, none written twice (3 runs)", (1.33, 0.15, "right")),
        (one, ONE_LAYER, 1.2, "1 layer (3 runs)", (0.8, -0.07, "center")),
        (
            docstrings,
            INK,
            1,
            f"2 layers on docstrings\n({len(docstrings)} runs)",
            (0.58, 0.93, "left"),
        ),
    ]
    for names, color, width, label, (x, y, align) in groups:
        for path in (_path(name) for name in names):
            faint = {"alpha": 0.4 if names is two else 1, "solid_joinstyle": "round"}
            axis.plot(*path.T, color=color, lw=width, **faint)
            axis.plot(*path[-1], color=color, marker="o", ms=5)
        ink = PALE if names is one else color
        axis.text(x, y, label, color=ink, ha=align, va="center", weight="bold")
    at, path = measured(two[:1], "induction score")[0], _path(two[0])  # the first run's moments
    for step, away in ((500, (1.32, -0.08)), (850, (1.58, 0.45)), (4000, (1.56, 1.02))):
        line = {"arrowprops": {"arrowstyle": "-", "color": PALE, "lw": 0.8}, "color": PALE}
        point = path[at.index(step)]
        axis.annotate(f"step {step:,}", point, away, size=9.5, va="center", **line)
        axis.plot(*point, color=RANDOM, marker="o", ms=4, mec="white")
    axis.plot(*path[0], color=INK, marker="o", ms=5)
    axis.text(-0.02, 0.07, "start", color=INK, ha="center", va="center", weight="bold")
    legs = [  # the two ways of a run, each beside its arrow
        ("1  stories: to the right", (0.86, 0.065), (1.13, 0.065)),
        ("2  any token: up", (1.34, 0.32), (1.34, 0.68)),
    ]
    for text, start, end in legs:
        axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.4})
        middle = (start[1] + end[1]) / 2
        axis.text(start[0] - 0.02, middle, text, color=INK, ha="right", va="center")
    axis.set(xlim=(-0.08, 1.9), ylim=(-0.12, 1.07))
    axis.set_xlabel("in-context score: how much context helps (nats)")
    axis.set_ylabel("induction score on random tokens")
    return headline(figure, "Without windows written twice, the way up is missing")


def _path(name):
    """A run as a path through the plane [step, 2]: context, and induction."""
    return np.array([[each["context"], each["induction"]] for each in skills(name)])


class LiveView:
    """How well a model copies two texts, drawn anew at every call; the last frame stays.

    stories, random_tokens: texts written twice; measure: (model, tokens) -> 0 to 1. On the right,
    the head of the last layer with the clearest stripe, averaged over the texts. A bar tells how
    long each text saves less than FLAT.
    """

    def __init__(self, steps: int, stories: Texts, random_tokens: Texts, measure: Callable):
        self.measure, self.handle = measure, None
        self.probes = {"stories": (stories, STORIES), "random tokens": (random_tokens, RANDOM)}
        self.figure = plt.figure(figsize=(9, 2.9), dpi=DPI)
        axis = self.figure.add_axes([0.05, 0.17, 0.43, 0.7])
        maps = [self.figure.add_axes([left, 0.1, 0.232, 0.77]) for left in (0.525, 0.765)]
        plt.close(self.figure)
        self.maps = dict(zip(self.probes, maps, strict=True))
        maps[0].set_ylabel("from this token", color=QUERY)
        axis.set(xlim=(0, 1.52 * steps), ylim=(-0.03, 1))
        axis.set_xticks(range(0, steps + 1, 100))
        axis.set_xlabel("training step", x=0.33)
        axis.spines["bottom"].set_bounds(0, steps)
        axis.set_title("share of its loss that the second copy saves", size=10.5, loc="left")
        self.lines, self.labels, self.flat = {}, {}, {}
        for row, (name, (tokens, color)) in enumerate(self.probes.items()):
            y = 0.95 - 0.09 * row
            self.flat[name] = axis.plot([0], [y], color=color, lw=11, alpha=0.2)[0]
            self.flat[name].set_solid_capstyle("butt")
            axis.text(0.015 * steps, y, "flat", color=color, size=9, va="center")
            draw_pattern(self.maps[name], torch.zeros(2 * [tokens.shape[1]]))
            self.maps[name].set_xlabel("to this token", color=KEY)
            self.lines[name] = axis.plot([], [], color=color, lw=2.2)[0]
            self.labels[name] = axis.text(0, 0, "", color=color, va="center")

    @torch.no_grad()
    def __call__(self, model: AttentionOnlyTransformer, step: int = 0) -> None:
        """Measure the model after that many steps, and draw."""
        values = {}
        for name, (tokens, _) in self.probes.items():
            values[name] = float(self.measure(model, tokens))
            self._draw_stripe(name, model.run_with_cache(tokens)[1])
        low, high = sorted(values, key=values.get)
        apart = max(0, 0.09 - values[high] + values[low]) / 2  # keeps the labels from touching
        for name, value in values.items():
            x, y = self.lines[name].get_data()
            self.lines[name].set_data([*x, step], [*y, value])
            if max([*y, value]) < FLAT:
                self.flat[name].set_data([0, step], 2 * [self.flat[name].get_ydata()[0]])
            place = (step + 8, value + (apart if name == high else -apart))
            self.labels[name].set(position=place, text=f"{name} {value:.2f}")
        if self.handle is None:
            self.handle = display(self.figure, display_id=True)
        else:
            self.handle.update(self.figure)

    def _draw_stripe(self, name, cache):
        layer = sum(key.endswith(".pattern") for key in cache) - 1
        patterns = cache[f"L{layer}.pattern"].mean(dim=0)  # [head, query, key]
        stripes = patterns.diagonal(1 - patterns.shape[-1] // 2, 1, 2)[:, 2:].mean(dim=1)
        head = int(stripes.argmax())
        self.maps[name].images[0].set_data(patterns[head].numpy())
        self.maps[name].set_title(f"L{layer}H{head} on {name}", size=10.5)
