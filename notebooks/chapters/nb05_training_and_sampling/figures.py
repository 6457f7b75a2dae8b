"""Drawings of notebook 05: two loops around a model, a loss that falls, the loss ladder, texts."""

import copy
import math
from functools import partial

import torch
from IPython.display import display
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path
from torch import Tensor

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import INK, PALE
from aot_helpers.showing.plots import grids, lines
from aot_helpers.showing.texts import SURPRISE, shaded_texts, strip
from chapters.nb05_training_and_sampling.measure import TestSet

PROBABILITY, DRAWN = diagrams.KEY, diagrams.VALUE


def two_loops(model, text, came, drawn, *, title: str) -> Figure:
    """Training (left) and sampling (right) around one model, asked what follows the text.

    came, drawn: two tokens that may follow, one for each loop.
    """
    encode = model.tokenizer.encode
    with torch.no_grad():
        p = model(encode(text, bos=True)[None])[0, -1].softmax(dim=-1)
    chances = {token: p[encode(" " + token)[0]].item() for token in (came, drawn)}
    chances["others"] = 1 - sum(chances.values())
    tokens = text.split()
    figure, axis = diagrams.canvas(10, 4.75)
    say, arrow = partial(diagrams.say, axis), partial(diagrams.arrow, axis)
    middle, left, right = 5.0, 1.5, 8.6
    y_text, y_model, y_bars = 3.85, 2.82, 0.95

    # Down the middle: text, model, probabilities.
    for i, token in enumerate(tokens):
        x = middle + 0.82 * (i - (len(tokens) - 1) / 2)
        diagrams.word(axis, x, y_text, token, width=0.74, height=0.34, size=11.5)
    arrow((middle, y_text - 0.2), (middle, y_model + 0.36))
    look = {"boxstyle": "round,pad=0,rounding_size=0.12", "fc": "#F0F0F0", "ec": INK, "lw": 1.6}
    axis.add_patch(FancyBboxPatch((middle - 0.95, y_model - 0.34), 1.9, 0.68, zorder=3, **look))
    say(middle, y_model + 0.1, "model", size=13, weight="bold")
    say(middle, y_model - 0.14, "its weights decide", PALE, size=9.5)
    arrow((middle, y_model - 0.36), (middle, y_bars + 0.98), PROBABILITY)
    colors = {came: SURPRISE, drawn: DRAWN, "others": INK}
    for i, (token, p) in enumerate(chances.items()):
        at, base, tall = middle + 0.82 * (i - 1), y_bars - 0.3, 0.95 * p / max(chances.values())
        axis.add_patch(Rectangle((at - 0.24, base), 0.48, tall, color=PROBABILITY, alpha=0.85))
        say(at, base + tall + 0.1, f"{p:.2f}", PROBABILITY, size=9.5)
        say(at, base - 0.13, token, colors[token])
    say(middle, 0.28, "a probability for each of 1,024 next tokens", PROBABILITY)

    # Left: what came is known, so there is a loss, and the weights change.
    bold = {"size": 11, "weight": "bold"}
    arrow((middle - 1.28, y_bars), (left + 0.95, y_bars), SURPRISE, width=2)
    say(left, y_bars + 0.12, f"the text goes on: {came}", SURPRISE, **bold)
    loss = f"loss = −ln {chances[came]:.3f} = {-math.log(chances[came]):.2f}"
    say(left, y_bars - 0.12, loss, SURPRISE)
    _bend(axis, (left, y_bars + 0.32), (middle - 0.98, y_model), SURPRISE)
    say(left + 0.12, 2.15, "nudge each weight\nso that the loss falls", SURPRISE, ha="left")
    say(left, y_model + 0.3, "TRAINING", SURPRISE, **bold)

    # Right: what comes is not known, so one token is drawn, and the text grows.
    arrow((middle + 1.28, y_bars), (right - 0.72, y_bars), DRAWN, width=2)
    say(right, y_bars, f"drawn: {drawn}", DRAWN, **bold)
    _bend(axis, (right, y_bars + 0.2), (middle + 0.41 * len(tokens), y_text), DRAWN)
    say(right - 0.12, 2.15, "append it\nand ask again", DRAWN, ha="right")
    say(right, y_text + 0.3, "SAMPLING", DRAWN, **bold)
    return diagrams.headline(figure, title)


def steps_on_one_guess(curves):
    """The probabilities of kite and boat from step to step: {case: {word: [step]}}."""
    title = "Step by step, the probabilities become the frequencies"
    data = {
        case: {word: (range(len(p)), p.numpy()) for word, p in each.items()}
        for case, each in curves.items()
    }
    look = {"colors": {"kite": SURPRISE, "boat": DRAWN}, "marker": "", "y_range": (0, 1.03)}
    figure = lines(data, title, "step", "probability", height=2.8, **look)
    for frequency in (0.7, 0.3):  # of the two words where both come
        figure.axes[-1].axhline(frequency, color="0.6", lw=1, ls="--", zorder=0)
    return figure


class LiveLoss:
    """Draws the loss while a model trains: call it with each loss. The last frame stays.

    checkpoints: {step: a copy of the model} before training, after `checkpoint_steps`, at the end.
    """

    def __init__(self, model, baselines, steps, title, every=150, checkpoint_steps=(20, 60, 200)):
        self.model, self.steps, self.title, self.every = model, steps, title, every
        self.levels = {loss: f"{name} {loss:.2f}" for name, loss in baselines.items()}
        self.losses, self.handle, self.checkpoint_steps = [], None, checkpoint_steps
        self.checkpoints = {0: copy.deepcopy(model)}

    def __call__(self, loss):
        """Add one step's loss, and draw now and then."""
        self.losses.append(loss)
        if len(self.losses) in (*self.checkpoint_steps, self.steps):
            self.checkpoints[len(self.losses)] = copy.deepcopy(self.model)
        if len(self.losses) % self.every == 0 or len(self.losses) == self.steps:
            if self.handle is None:
                self.handle = display(self.figure(), display_id=True)
            else:
                self.handle.update(self.figure())

    def figure(self) -> Figure:
        """The losses so far."""
        last = self.losses[-30:]
        name = f"last {len(last)}: {sum(last) / len(last):.2f}"
        curve = {name: (range(1, len(self.losses) + 1), self.losses)}
        look = {"colors": {name: SURPRISE}, "levels": self.levels, "marker": ""}
        labels = "training step", "loss (nats per token)"
        return lines(curve, self.title, *labels, x_range=(1, self.steps), y_range=(0, 7.5), **look)


def ladder(
    losses: dict[str, Float[Tensor, " n_tokens"]],
    knows: dict[str, str],
    test_set: TestSet,
    passage: range,
    yours: str,
    *,
    title: str,
) -> Figure:
    """Mean losses as rungs of a ladder, the text's entropy, and beside each rung the same passage.

    losses: {name: loss of each token of the test set}. knows: {name, or "entropy": what it knows}.
    passage: places of tokens in the test set.
    """
    tokens = test_set.tokenizer.token_strings(test_set.following[list(passage)])
    means = {name: each.mean().item() for name, each in losses.items()} | {
        "entropy": test_set.entropy
    }
    step, low, rail, text = 0.72, 0.3, 0.85, 3.45
    high = step * len(means) + 0.25
    figure, axis = diagrams.canvas(10, high + 0.25)
    say = partial(diagrams.say, axis)
    say(9.9, 0.1, "orange: loss of the token, full at 6 nats", SURPRISE, size=10, ha="right")
    scale = (high - 0.5 - low) / max(means.values())
    for x in (rail, rail + 1):
        axis.plot([x, x], [low - 0.12, high - 0.38], color=INK, lw=3, solid_capstyle="round")
    for tick in range(int(max(means.values())) + 1):
        say(rail - 0.2, low + scale * tick, f"{tick} –", PALE, size=9.5)
    say(0.25, high / 2, "loss (nats per token)", PALE, size=10, rotation=90)
    for i, (name, loss) in enumerate(means.items()):
        y, y_rung = high - 0.45 - step * i, low + scale * loss
        color = {yours: SURPRISE, "entropy": DRAWN}.get(name, INK)
        axis.plot([rail, rail + 1], [y_rung, y_rung], color=color, lw=4, zorder=3)
        curve = [(rail + 1, y_rung), (2.7, y_rung), (2.5, y), (text - 0.1, y)]
        path = Path(curve, [Path.MOVETO, *[Path.CURVE4] * 3])
        axis.add_patch(PathPatch(path, fc="none", ec=color, lw=1.3))
        say(text, y, name, color, size=11.5, ha="left", weight="bold")
        say(text + 1.15, y, knows[name], PALE, size=10, ha="left")
        perplexity = math.exp(loss)
        number = f"{perplexity:,.0f}" if perplexity >= 100 else f"{perplexity:.1f}"
        say(9.9, y, f"{loss:.2f} nats, perplexity {number}", color, size=10, ha="right")
        if name in losses:
            strip(axis, text, y - 0.29, tokens, losses[name][list(passage)])
    return diagrams.headline(figure, title)


def marked_texts(tokenizer, texts, n, marked, title, key):
    """The last n tokens of each text, below what is before; the token `marked` is green.

    texts: {label: ids}, which all begin with the same BOS and prompt.
    """
    ids = {"prompt": next(iter(texts.values()))[1:-n]}
    ids |= {label: each[-n:] for label, each in texts.items()}
    rows = {label: (tokenizer.token_strings(x), x == marked) for label, x in ids.items()}
    return shaded_texts(rows, title, shade=DRAWN, most=1, key=key)


def endings_read_and_written(tables, names, title):
    """Probability of each ending (column) after half a surname, by the ending read (row)."""
    figure = grids(
        tables,
        title,
        row_names=names,
        column_names=names,
        cell=0.2,
        label="probability",
        x_label="ending of the new name",
        y_label="ending of the name in the prompt",
    )
    for axis in figure.axes[: len(tables)]:
        axis.tick_params(labelsize=9)
        axis.tick_params(axis="x", rotation=90)
    return figure


def _bend(axis, start, end, color):
    """Up from start, round the corner, and along to end."""
    (x0, y0), (x1, y1) = start, end
    turn = 0.3 if x1 > x0 else -0.3
    points = [(x0, y0), (x0, y1 - 0.3), (x0, y1), (x0 + turn, y1), (x1, y1)]
    codes = [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO]
    look = {"arrowstyle": "-|>,head_length=6,head_width=3.2", "mutation_scale": 1, "lw": 2}
    axis.add_patch(FancyArrowPatch(path=Path(points, codes), color=color, fc=color, **look))
