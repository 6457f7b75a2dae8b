"""Pictures of notebook 09: colored text, two heads in relay, a film strip, runs, a live view."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import display
from jaxtyping import Float, Int
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aot_helpers.models.checkpoints import load_checkpoint, load_measurements
from aot_helpers.models.protocol import Edits
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHARE, VALUE
from aot_helpers.showing.plots import shown
from aot_helpers.training.losses import next_token_losses

# Two colors of this notebook alone: stories and the names in them, and random tokens.
STORIES, RANDOM, ONE_LAYER = "#137177", "#C2255C", "0.6"
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


def colored_text(blocks: list[tuple], title: str, note: str) -> Figure:
    """Texts written twice, each token filled by a share from 0 (white) to 1 (full color).

    blocks: (heading, tokens, {row label: shares}, color); the second half is set apart.
    """
    char, line = 0.0875, 0.235  # inches of a letter and of a line
    widths = [[len(shown(t)) + 0.7 for t in tokens] for _, tokens, _, _ in blocks]
    span = max(map(sum, widths)) + 2
    n_lines = sum(len(rows) + 1.8 for _, _, rows, _ in blocks) + 2.2
    figure = plt.figure(figsize=(char * (span + 12), line * n_lines))
    axis = figure.add_axes([0, 0, 1, 1], xlim=(-11, span + 1), ylim=(n_lines, 0))
    axis.axis("off")
    axis.text(span, n_lines - 0.6, note, size=9.5, color=PALE, ha="right", va="center")
    y = 1.4
    for (heading, tokens, rows, color), wide in zip(blocks, widths, strict=True):
        half, y = len(tokens) // 2, y + 0.9
        left = np.cumsum([0, *wide[:-1]]) + 2 * (np.arange(len(wide)) >= half)
        axis.text(0, y, heading, va="center", color=color, weight="bold")
        axis.text(left[half], y, "second time", va="center", color=color)
        for label, shares in rows.items():
            y += 1
            axis.text(-1, y, label, ha="right", va="center", size=9.5)
            for x, width, token, share in zip(left, wide, tokens, map(float, shares), strict=True):
                box = {"fc": _tint(color)(share), "ec": "0.88", "lw": 0.6}
                axis.add_patch(Rectangle((x + 0.08, y - 0.45), width - 0.16, 0.9, **box))
                ink = {"color": "white" if share > 0.55 else "0.25", "family": "monospace"}
                place = {"size": 9.5, "ha": "center", "va": "center"}
                axis.text(x + width / 2, y, shown(token), **ink, **place)
        y += 0.9
    return _headline(figure, title)


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


def two_heads(
    previous: Float[Tensor, " head"] | None = None,
    induction: Float[Tensor, " head"] | None = None,
    copied: float | None = None,
) -> Figure:
    """Induction as a relay of two heads, on the tokens ·M ira ·met ·M.

    previous, induction: scores of the heads of layer 0 and of layer 1; the best of each is written
    at its arrow. copied: the share of random tokens that is copied in the end.
    """
    figure = plt.figure(figsize=(8.9, 3.15))
    axis = figure.add_axes([0, 0, 1, 1], xlim=(-3.9, 9.0), ylim=(-0.4, 4.1))
    axis.axis("off")

    def say(x, y, text, color, **style):
        axis.text(x, y, text, color=color, va="center", **{"size": 10, **style})

    def box(x, y, color="0.75", width=1.1, **words):
        face = {"fc": "white", "ec": color, "lw": 1.6}
        axis.add_patch(Rectangle((x - width / 2, y - 0.25), width, 0.5, **face))
        for ink, (text, shift) in words.items():
            code = {"family": "monospace", "ha": "center"}
            say(x + shift, y, text, {"ink": "0.2", "key": KEY, "value": VALUE}[ink], **code)

    def arrow(start, end, color, lw=2.2, **style):
        line = {"arrowstyle": "-|>", "lw": lw, "color": color, "shrinkA": 0, "shrinkB": 0, **style}
        axis.annotate("", end, start, arrowprops=line)

    def best(scores, layer):
        return f"L{layer}H{int(scores.argmax())}: {float(scores.max()):.2f}"

    for x, token in zip((0, 2.2, 4.4, 6.3), ("·M", "ira", "·met", "·M"), strict=True):
        box(x, 0, ink=(token, 0))
        arrow((x, 0.25), (x, 1.15), "0.85", 1.2)
        if token != "ira":
            box(x, 1.4, ink=(token, 0))
    box(2.2, 1.4, INK, 2.2, value=("ira", -0.7), key=("after ·M", 0.3))
    arrow((6.3, 1.65), (6.3, 2.9), "0.85", 1.2)
    box(6.3, 3.15, VALUE, value=("ira", 0))
    arrow((0.35, 0.25), (1.55, 1.15), INK)
    say(-0.3, 0.75, "1  previous-token head", INK, ha="right", weight="bold")
    look = {"linestyle": (0, (4, 3)), "connectionstyle": "arc3,rad=0.38"}
    arrow((6.0, 1.67), (3.0, 1.67), SHARE, 1.6, **look)
    if previous is None:
        say(4.5, 2.55, "attention finds the mark", SHARE, ha="center")
    say(6.55, 2.05, "“who came after ·M?”", QUERY, ha="left")
    axis.plot([1.5, 1.5], [1.65, 3.15], color=VALUE, lw=2.2)
    arrow((1.48, 3.15), (5.73, 3.15), VALUE)
    say(1.2, 2.4, "2  induction head", INK, ha="right", weight="bold")
    title = "Induction is a relay of two heads: one marks each token, the other looks for the mark"
    if previous is not None:
        title = "Your model has grown the relay"
        say(-0.65, 0.3, f"{best(previous, 0)} of its attention", SHARE, ha="right")
        say(4.5, 2.55, f"{best(induction, 1)} of its attention", SHARE, ha="center")
        say(5.4, 3.4, f"{copied:.2f} of random tokens copied", VALUE, ha="right")
    for y, name in zip((0, 1.4, 3.15), ("text", "after layer 0", "next token"), strict=True):
        say(7.15, y, name, PALE)
    return _headline(figure, title)


def film_strip(steps: list[int], rows: dict[str, list[Float[Tensor, "query key"]]]) -> Figure:
    """Attention patterns at some training steps, a row for each {"head, text": patterns}."""
    width, height = 2.5 + 0.93 * len(steps), 3.55
    figure, axes = plt.subplots(len(rows), len(steps), figsize=(width, height))
    figure.subplots_adjust(1.5 / width, 0.03, 1 - 1 / width, 1 - 0.68 / height, 0.06, 0.08)
    for line, (label, patterns) in zip(axes, rows.items(), strict=True):
        for axis, pattern in zip(line, patterns, strict=True):
            _draw_pattern(axis, pattern)
        left = {"transform": line[0].transAxes, "ha": "right", "va": "center"}
        line[0].text(-0.1, 0.5, label.replace(", ", ",\n"), size=10, **left)
        for y, text in ((0.75, "first copy"), (0.25, "second copy")):
            line[-1].text(1.06, y, text, transform=line[-1].transAxes, color=PALE, va="center")
    for axis, step in zip(axes[0], steps, strict=True):
        axis.set_title(f"step {step}", size=10)
    arrow = {"arrowprops": {"arrowstyle": "-|>", "color": INK, "lw": 1.2}, "color": INK}
    place = {"xycoords": "axes fraction", "textcoords": "axes fraction"}
    for axis in axes[1:, -1]:
        axis.annotate("stripe", (0.34, 0.3), (0.45, 0.82), size=10, **arrow, **place)
    return _headline(figure, "The birth of a stripe: first on names, then on random tokens")


def measured(names: list[str], quantity: str, last: int = 4000) -> tuple[list[int], list]:
    """Steps up to the last one, and one of QUANTITIES at each of them: [step], [run, step]."""
    runs = [load_measurements(name) for name in names]
    steps = [step for step in runs[0]["steps"] if step <= last]  # alike in all
    read = QUANTITIES[quantity]
    return steps, [[read(m) for m in run["measured"][: len(steps)]] for run in runs]


def seed_panels(two: list[str], one: list[str]) -> Figure:
    """What was measured of runs of two layers and of one layer, a line for each run."""
    figure, axes = plt.subplots(2, 2, figsize=(8.6, 5), sharex=True)
    figure.subplots_adjust(0.055, 0.1, 0.92, 0.86, 0.38, 0.25)
    for axis, quantity in zip(axes.flat, QUANTITIES, strict=True):
        stories = quantity in ("loss on stories", "in-context score")
        groups = [("2 layers", STORIES if stories else RANDOM, two), ("1 layer", ONE_LAYER, one)]
        for label, color, names in groups:
            steps, values = measured(names, quantity, last=1500)
            axis.plot(steps, np.transpose(values), color=color, lw=1.2)
            end = 1500, np.median(values, axis=0)[-1]
            beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
            axis.annotate(label, end, color=color if stories or names is two else PALE, **beside)
        where = {"loss on stories": "", "in-context score": ", stories"}
        title = quantity + where.get(quantity, ", random tokens")
        axis.set_title(title, size=10.5, loc="left")
        axis.set(xlim=(0, 1500), xlabel="" if axis in axes[0] else "training step")
    axes[0, 0].set_ylim(0.8, 3)
    title = "Five models of two layers change at the same steps; one layer does not"
    return _headline(figure, title)


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
    return _headline(figure, "One layer copies, once its keys hold the token before")


def kinds_of_tokens(steps: list[int], copied: dict[str, list[float]]) -> Figure:
    """How much is copied of three kinds of tokens. copied: {kind: accuracy at each step}."""
    figure, axis = plt.subplots(figsize=(8, 3.5))
    figure.subplots_adjust(0.08, 0.14, 0.98, 0.88)
    places = [(705, 0.62, "right"), (950, 0.27, "left"), (1000, 0.84, "left")]
    colors = (STORIES, "0.35", RANDOM)
    for (kind, y), color, (x, at, align) in zip(copied.items(), colors, places, strict=True):
        axis.plot(steps, y, color=color, lw=2.2, marker="o", ms=4)
        axis.text(x, at, kind, color=color, ha=align, va="center", weight="bold")
    axis.set(xlim=(steps[0], steps[-1]), ylim=(-0.03, 1.03))
    axis.set(xlabel="training step", ylabel="share copied")
    return _headline(figure, "Pieces of names are copied first, the other words of stories last")


def skills(name: str, last: int = 4000) -> list[list[float]]:
    """A run as a path [step, 2]: how much context helps (nats), and the best induction score."""
    pair = [measured([name], q, last)[1][0] for q in ("in-context score", "induction score")]
    return [list(both) for both in zip(*pair, strict=True)]


def skill_map(two: list[str], none: list[str], one: list[str], docstrings: list[str]) -> Figure:
    """The runs of four groups as paths through the plane of two skills; a dot where each ends."""
    figure, axis = plt.subplots(figsize=(8.6, 4.4))
    figure.subplots_adjust(0.075, 0.11, 0.99, 0.9)
    groups = [  # runs, color, line width, label, and its place
        (two, RANDOM, 7, "2 layers, 30 %\nwritten twice\n(5 runs)", (1.52, 0.8, "left")),
        (none, STORIES, 1.6, "2 layers, none written twice (3 runs)", (1.33, 0.1, "right")),
        (one, ONE_LAYER, 1.5, "1 layer (3 runs)", (0.82, -0.06, "center")),
        (docstrings, INK, 2, "2 layers on docstrings (1 run)", (0.58, 0.93, "left")),
    ]
    for names, color, width, label, (x, y, align) in groups:
        for path in map(np.array, map(skills, names)):
            faint = {"alpha": 0.25 if names is two else 0.9, "solid_joinstyle": "round"}
            axis.plot(*path.T, color=color, lw=width, **faint)
            axis.plot(*path[-1], color=color, marker="o", ms=6)
        ink = PALE if names is one else color
        axis.text(x, y, label, color=ink, ha=align, va="center", weight="bold")
    at, path = measured(two[:1], "induction score")[0], skills(two[0])  # the first run's moments
    for step, away in ((500, (1.32, -0.08)), (850, (1.58, 0.45)), (4000, (1.56, 1.0))):
        line = {"arrowprops": {"arrowstyle": "-", "color": PALE, "lw": 0.8}, "color": PALE}
        point = path[at.index(step)]
        axis.annotate(f"step {step:,}", point, away, size=9.5, va="center", **line)
        axis.plot(*point, color=RANDOM, marker="o", ms=4, mec="white")
    axis.set(xlim=(-0.05, 1.9), ylim=(-0.12, 1.05))
    axis.set_xlabel("in-context score: how much context helps (nats)")
    axis.set_ylabel("induction score on random tokens")
    return _headline(figure, "Without windows written twice, the way up is missing")


class LiveView:
    """How well a model copies two texts, drawn anew at every call; the last frame stays.

    stories, random_tokens: texts written twice; measure: (model, tokens) -> 0 to 1. On the right,
    the head of the last layer with the clearest stripe, averaged over the texts.
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
        self.lines, self.labels = {}, {}
        for name, (tokens, color) in self.probes.items():
            _draw_pattern(self.maps[name], torch.zeros(2 * [tokens.shape[1]]))
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


def _tint(color):
    """Colors from white (0) to the given one (1)."""
    return LinearSegmentedColormap.from_list("tint", ["white", color])


def _headline(figure, text):
    """The title of a figure, at its upper left corner."""
    figure.set_dpi(DPI)
    height = figure.get_size_inches()[1]
    figure.text(0.012, 1 - 0.18 / height, text, size=12, weight="bold", va="center")
    plt.close(figure)  # the notebook shows the returned figure once, not twice
    return figure


def _draw_pattern(axis, pattern):
    axis.imshow(np.asarray(pattern), cmap=_tint(SHARE), vmin=0, vmax=0.9)
    axis.axhline(len(pattern) // 2 + 0.5, color="0.6", lw=0.7)  # here the second copy begins
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set(visible=True, color="0.8")
