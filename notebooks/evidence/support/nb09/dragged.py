"""A training that is dragged: what it reads of a name, and its pictures, for the moving one.

Of `make loops` and of the test of the page in which a reader drags it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHADES, SHARE, canvas, say
from aot_helpers.showing.texts import LETTER
from chapters.pages.training import INDUCTION, PREVIOUS, STEPS, STORY

DARK = np.array([62, 56, 72]) / 255  # of a piece that was not expected
WIDTH, HEIGHT, LINE = 8.0, 4.3, 7.4  # inches: of the picture, and where a line of text ends
SIZE = 14.5  # of the letters of the text
ADVANCE = LETTER * SIZE / 9.5


@dataclass(frozen=True)
class Reading:
    """What a model at each step expected of one text with a name in it twice.

    spans: where each mention begins and ends, in tokens. p, guesses [step][state][token]: the
    probability that the token was given before it was read, and the best guess. States: all heads,
    without the previous-token head, without the induction heads, without both. previous [step][
    query, key] and induction [step][state][query, key]: attention patterns; BOS is the first key.
    """

    name: str
    steps: Sequence[int]
    tokens: Sequence[str]
    spans: Sequence[tuple[int, int]]
    p: np.ndarray
    guesses: Sequence[Sequence[Sequence[str]]]
    previous: np.ndarray
    induction: np.ndarray

    def mean(self, which: int, state: int = 0) -> np.ndarray:
        """Mean probability [step] of the pieces of a mention (0 or 1), without its first."""
        start, end = self.spans[which]
        return self.p[:, state, min(start + 1, end - 1) : end].mean(axis=1)


@torch.no_grad()
def read_name(name: str, steps: Sequence[int] = STEPS) -> Reading:
    """What stories-2l at some steps expects of a story with a name in it twice, and its patterns.

    With all heads, without its previous-token head, without its induction heads, without both.
    Raises ValueError for a name without letters, or too long for the model.
    """
    name = " ".join(name.split())
    if not name:
        raise ValueError("the name must have a letter, got only spaces: make one up")
    models = [load_checkpoint("stories-2l", step) for step in steps]
    tokenizer, n_ctx = models[0].tokenizer, models[0].config.n_ctx
    before, between = STORY
    parts = tokenizer.encode_many([before, f" {name}", between, f" {name}"])
    ends = np.cumsum([len(part) for part in parts]).tolist()
    tokens = torch.cat([torch.tensor([tokenizer.bos]), *parts])[None]
    if tokens.shape[1] > n_ctx:
        raise ValueError(
            f"with {name!r} twice the text has {tokens.shape[1]} tokens and is longer than the "
            f"model's {n_ctx} positions: take a shorter name"
        )
    previous, induction = ([Head.parse(head) for head in each] for each in (PREVIOUS, INDUCTION))
    p, guesses, patterns = [], [], []
    for model in models:
        for off in ([], previous, induction, previous + induction):
            logits, cache = model.run_with_cache(tokens, edits=ablate(model, off) if off else None)
            chances = logits[0, :-1].softmax(dim=-1)
            p.append(chances.gather(1, tokens[0, 1:, None])[:, 0])
            guesses.append(tokenizer.token_strings(chances.argmax(dim=-1)))
            patterns.append(
                [cache[f"L{h.layer}.pattern"][0, h.head] for h in (previous[0], induction[0])]
            )
    n, p = len(models), torch.stack(p).numpy()
    of_previous, of_induction = (
        torch.stack(each).unflatten(0, (n, 4)).numpy() for each in zip(*patterns, strict=True)
    )
    return Reading(
        name,
        list(steps),
        tokenizer.token_strings(tokens[0, 1:]),
        [(ends[0], ends[1]), (ends[2], ends[3])],
        p.reshape(n, 4, -1),
        [guesses[4 * k : 4 * k + 4] for k in range(n)],
        of_previous[:, 0],
        of_induction,
    )


def dragged(reading: Reading, at: float, title: str, state: int = 0) -> Figure:
    """The view at a place between the steps: 0 is the first, 1 the second; in between it is mixed.

    state: see `Reading`.
    """
    figure, axis = canvas(WIDTH, HEIGHT)
    say(axis, 0.2, HEIGHT - 0.26, title, size=14.5, ha="left", weight="bold")
    _text(axis, reading, _mixed(reading.p[:, state], at))
    _curve(axis, reading, at, state)
    patterns = (reading.previous, reading.induction[:, state])
    names = (f"previous-token head {PREVIOUS[0]}", f"induction head {INDUCTION[0]}")
    for left, name, pattern in zip((3.2, 5.66), names, patterns, strict=True):
        _map(axis, reading, _mixed(pattern, at), left, name)
    return figure


def film(reading: Reading, title: str, per_second: int = 12) -> Iterator[tuple[np.ndarray, int]]:
    """(picture [y, x, 3], milliseconds) of a loop's frames, from the first step to the last."""
    last = len(reading.steps) - 1
    pause, wide = 1000 // per_second, 7  # frames from step to step
    for k in range(last * wide + 1):
        at = min(k / wide, last)
        long = {0: 900, last * wide: 2200}.get(k, pause)
        yield pixels(dragged(reading, at, title)), long


def pixels(figure: Figure) -> np.ndarray:
    """A figure as an image [y, x, 3] of whole numbers from 0 to 255."""
    drawn = FigureCanvasAgg(figure)
    drawn.draw()
    return np.asarray(drawn.buffer_rgba())[..., :3].copy()


def _mixed(values, at: float):
    k = min(int(at), len(values) - 2) if len(values) > 1 else 0
    return values[k] if at == k else values[k] + (at - k) * (values[k + 1] - values[k])


def _text(axis, reading, p):
    """The pieces in their shades, the mentions underlined; lines break where a word begins."""
    x, y, tall = 0.2, HEIGHT - 0.74, 0.32
    for i, (token, known) in enumerate(zip(reading.tokens, p, strict=True)):
        word = token + "".join(_rest_of_word(reading.tokens, i))
        wide = ADVANCE * len(token) + 0.05
        if token.startswith(" ") and x + ADVANCE * len(word) + 0.1 > LINE:
            x, y = 0.2, y - 0.46
        shade = DARK + known * (1 - DARK)
        axis.add_patch(
            Rectangle((x, y - tall / 2), wide - 0.02, tall, fc=shade, ec="#e0dee5", lw=0.6)
        )
        for (start, end), color in zip(reading.spans, (KEY, QUERY), strict=True):
            if start <= i < end:
                axis.add_patch(Rectangle((x, y - tall / 2 - 0.045), wide - 0.02, 0.04, fc=color))
        ink = INK if shade @ (0.3, 0.6, 0.1) > 0.55 else "white"
        say(axis, x + wide / 2 - 0.01, y - 0.01, token, ink, size=SIZE, family="monospace")
        x += wide


def _rest_of_word(tokens, i):
    for token in tokens[i + 1 :]:
        if token.startswith(" "):
            return
        yield token


def _curve(axis, reading, at, state):
    """Mean probability of both mentions' pieces, by step, and where the slider stands."""
    left, right, low, high, last = 0.32, 2.1, 0.78, 2.3, len(reading.steps) - 1
    across = lambda k: left + (right - left) * np.asarray(k) / last  # noqa: E731
    down = lambda p: low + (high - low) * np.asarray(p)  # noqa: E731
    for y in (0, 0.5, 1):
        axis.plot([left, right], [down(y)] * 2, color="#e6e4ea", lw=0.8, zorder=1)
    here = across(at)
    axis.plot([here, here], [low - 0.1, high + 0.08], color=SHARE, lw=1.4, zorder=2)
    values = {}
    for which, color in ((0, KEY), (1, QUERY)):
        means = reading.mean(which, state)
        axis.plot(across(range(last + 1)), down(means), color=color, lw=2, zorder=3)
        values[which] = float(_mixed(means, at))
        axis.plot(here, down(values[which]), "o", color=color, ms=8, mec="white", zorder=4)
    heights = [down(values[0]), down(values[1])]
    if heights[1] - heights[0] < 0.2:
        heights = [heights[0] - 0.02, heights[0] + 0.18]
    for which, (name, color) in enumerate((("1st", KEY), ("2nd", QUERY))):
        words = f"{name} {100 * values[which]:.0f} %"
        say(axis, right + 0.12, heights[which], words, color, size=10.5, ha="left", weight="bold")
    axis.plot([left, right], [0.52] * 2, color="#cfccd6", lw=3, solid_capstyle="round", zorder=1)
    axis.plot([left, here], [0.52] * 2, color=SHARE, lw=3, solid_capstyle="round", zorder=2)
    axis.plot(here, 0.52, "o", color=SHARE, ms=12, mec="white", zorder=4)
    step = reading.steps[round(at)]
    say(axis, left - 0.1, 0.2, f"training step {step:,}", size=12.5, ha="left", weight="bold")
    say(axis, left - 0.1, 2.72, "how probable each mention was", PALE, size=10, ha="left")


def _map(axis, reading, pattern, left, name):
    """An attention pattern; the dotted box is where the second mention attends to the first."""
    side, low, n = 2.3, 0.14, len(pattern)
    shown = np.where(np.tri(n, dtype=bool)[..., None], SHADES(pattern.clip(0, 1))[..., :3], 1.0)
    axis.imshow(
        shown, extent=(left, left + side, low, low + side), interpolation="nearest", zorder=2
    )
    cell, top = side / n, low + side
    edge = [
        (left, top),
        *[(left + cell * (i // 2 + i % 2), top - cell * (i // 2)) for i in range(1, 2 * n)],
    ]
    edge += [(left + side, low), (left, low), (left, top)]
    axis.plot(*zip(*edge, strict=True), color="#cfccd6", lw=0.8, zorder=3)
    (a, b), (c, d) = [(start + 1, end + 1) for start, end in reading.spans]
    box = {"fc": "none", "ec": INK, "lw": 0.9, "ls": ":", "zorder": 4}
    axis.add_patch(
        Rectangle((left + cell * a, top - cell * d), cell * (b - a), cell * (d - c), **box)
    )
    axis.add_patch(Rectangle((left + cell * a, top + 0.02), cell * (b - a), 0.04, fc=KEY))
    axis.add_patch(Rectangle((left - 0.06, top - cell * d), 0.04, cell * (d - c), fc=QUERY))
    say(axis, left - 0.06, 2.72, name, SHARE, size=11, ha="left", weight="bold")
    axis.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
