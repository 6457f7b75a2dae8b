"""Notebook 05: the exam that all models take, and its figures, from two loops to the ladder."""

import copy
import math

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from IPython.display import display
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path

from aot_helpers.showing import diagrams, plots
from aot_helpers.showing.diagrams import DPI, INK, PALE
from aot_helpers.showing.plots import shown
from aot_helpers.text.batches import pad_batch
from aot_helpers.training.losses import next_token_losses

SURPRISE, PROBABILITY, DRAWN = diagrams.QUERY, diagrams.KEY, diagrams.VALUE
LETTER = 9.5 * 0.602 / 72  # width of a letter of the monospaced font, in inches
RUNGS = {  # what each knows
    "uniform": "a fair die",
    "unigram": "knows frequencies",
    "bigram": "counted pairs",
    "stories-0l": "no heads: learned pairs",
    "your model": "one layer, trained here",
    "stories-1l": "one layer, 4,000 steps",
    "stories-2l": "two layers",
    "floor": "the grammar (known per story only)",
}


class Exam:
    """Unread stories, whole, on which everyone is measured: all of at most n_ctx tokens.

    now, following: the tokens of all these stories in one row, and what comes after each. BOS
    stands before each story. floor: the mean surprise of the grammar that wrote the stories.
    """

    def __init__(self, corpus, tokenizer, n_ctx=128):
        encoded = tokenizer.encode_many(corpus.texts)
        self.numbers = [i for i, ids in enumerate(encoded) if len(ids) <= n_ctx]  # in the corpus
        begun = [F.pad(encoded[i], (1, 0), value=tokenizer.bos) for i in self.numbers]
        self.tokenizer, (self.tokens, real) = tokenizer, pad_batch(begun, tokenizer.bos)
        self.real = real[:, 1:]  # not padding, and not BOS
        self.now, self.following = self.tokens[:, :-1][self.real], self.tokens[:, 1:][self.real]
        self.floor = -sum(corpus.truth.log_probs[i] for i in self.numbers) / len(self.following)

    @torch.no_grad()
    def losses_of(self, model):
        """The loss of a model at each token, [n_tokens]."""
        parts = []
        for x in self.tokens.split(32):
            logits = model(x[:, :-1]).flatten(0, 1)
            parts.append(F.cross_entropy(logits, x[:, 1:].flatten(), reduction="none"))
        return torch.cat(parts)[self.real.flatten()]

    def passage(self, number, word, n):
        """The places of n tokens: from a word on, in the story of that number in the corpus."""
        row = self.numbers.index(number)
        begin = int(self.real[:row].sum())
        story = self.following[begin : begin + int(self.real[row].sum())]
        begin += self.tokenizer.token_strings(story).index(word)
        return range(begin, begin + n)


def two_loops(model, text, came, drawn):
    """Training (left) and sampling (right) around one model, asked what follows the text.

    came, drawn: two tokens that may follow, one for each loop.
    """
    ids = model.tokenizer.encode(text, bos=True)
    with torch.no_grad():
        p = model(ids[None])[0, -1].softmax(dim=-1)
    chances = {token: p[model.tokenizer.encode(" " + token)[0]].item() for token in (came, drawn)}
    chances["others"] = 1 - sum(chances.values())
    tokens = text.split()
    figure, axis = diagrams.canvas(10, 4.75)
    title = "One model, two loops: one changes its weights, the other writes"
    diagrams.say(axis, 0.12, 4.52, title, size=12.5, ha="left")
    middle, left, right = 5.0, 1.5, 8.6
    y_text, y_model, y_bars = 3.85, 2.82, 0.95

    # Down the middle: text, model, probabilities.
    x = middle - 0.41 * (len(tokens) - 1)
    for token in tokens:
        diagrams.word(axis, x, y_text, token, width=0.74, height=0.34, size=11.5)
        x += 0.82
    diagrams.arrow(axis, (middle, y_text - 0.2), (middle, y_model + 0.36), INK)
    look = {"boxstyle": "round,pad=0,rounding_size=0.12", "fc": "#F0F0F0", "ec": INK, "lw": 1.6}
    axis.add_patch(FancyBboxPatch((middle - 0.95, y_model - 0.34), 1.9, 0.68, zorder=3, **look))
    diagrams.say(axis, middle, y_model + 0.1, "model", size=13, weight="bold")
    diagrams.say(axis, middle, y_model - 0.14, "its weights decide", PALE, size=9.5)
    diagrams.arrow(axis, (middle, y_model - 0.36), (middle, y_bars + 0.98), PROBABILITY)
    tall = 0.95 / max(chances.values())
    for i, (token, p) in enumerate(chances.items()):
        at, base = middle + 0.82 * (i - (len(chances) - 1) / 2), y_bars - 0.3
        axis.add_patch(Rectangle((at - 0.24, base), 0.48, tall * p, color=PROBABILITY, alpha=0.85))
        diagrams.say(axis, at, base + tall * p + 0.1, f"{p:.2f}", PROBABILITY, size=9.5)
        color = SURPRISE if token == came else DRAWN if token == drawn else INK
        weight = "bold" if token in (came, drawn) else "normal"
        diagrams.say(axis, at, base - 0.13, token, color, size=10.5, weight=weight)
    diagrams.say(axis, middle, 0.28, "a probability for each of 1,024 next tokens", PROBABILITY)

    # Left: what came is known, so there is a loss, and the weights change.
    edge = middle - 0.41 * len(chances) - 0.05
    diagrams.arrow(axis, (edge, y_bars), (left + 0.95, y_bars), SURPRISE, width=2)
    diagrams.say(axis, left, y_bars + 0.12, f"what came: {came}", SURPRISE, size=11, weight="bold")
    loss = f"loss = −ln {chances[came]:.3f} = {-math.log(chances[came]):.2f}"
    diagrams.say(axis, left, y_bars - 0.12, loss, SURPRISE, size=11)
    _bend(axis, (left, y_bars + 0.32), (middle - 0.98, y_model), SURPRISE)
    diagrams.say(
        axis, left + 0.12, 2.15, "nudge each weight\nso that the loss falls", SURPRISE, ha="left"
    )
    diagrams.say(axis, left, y_model + 0.3, "TRAINING", SURPRISE, size=12, weight="bold")

    # Right: what comes is not known, so one token is drawn, and the text grows.
    diagrams.arrow(axis, (2 * middle - edge, y_bars), (right - 0.72, y_bars), DRAWN, width=2)
    diagrams.say(axis, right, y_bars, f"drawn: {drawn}", DRAWN, size=11, weight="bold")
    end = middle + 0.41 * (len(tokens) - 1) + 0.4
    _bend(axis, (right, y_bars + 0.2), (end, y_text), DRAWN)
    diagrams.say(axis, right - 0.12, 2.15, "append it\nand ask again", DRAWN, ha="right")
    diagrams.say(axis, right, y_text + 0.3, "SAMPLING", DRAWN, size=12, weight="bold")
    return figure


def forty_losses(new_model, batches, rate):
    """The losses of 40 steps of the tour's loop, all at one rate, of a new model."""
    model, losses = new_model(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98))
    for batch in batches[:40]:
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


class LiveLoss:
    """Draws the loss while a model trains: call it with each loss. The last frame stays.

    photos: {step: a copy of the model} before training, after `photo_steps` and at the end.
    """

    def __init__(self, model, baselines, steps, every=150, photo_steps=(20, 60, 200)):
        self.model, self.baselines, self.steps, self.every = model, baselines, steps, every
        self.title = "Your model overtakes the counters, one after the other"
        self.losses, self.handle, self.photo_steps = [], None, photo_steps
        self.photos = {0: copy.deepcopy(model)}

    def __call__(self, loss):
        """Add one step's loss, and draw now and then."""
        self.losses.append(loss)
        if len(self.losses) in (*self.photo_steps, self.steps):
            self.photos[len(self.losses)] = copy.deepcopy(self.model)
        if len(self.losses) % self.every == 0 or len(self.losses) == self.steps:
            if self.handle is None:
                self.handle = display(self.figure(), display_id=True)
            else:
                self.handle.update(self.figure())

    def figure(self):
        """The losses so far."""
        figure, axis = plt.subplots(figsize=(9.2, 3.7), dpi=DPI, layout="constrained")
        plt.close(figure)  # the notebook shows the figure through the handle
        for name, loss in self.baselines.items():
            axis.axhline(loss, color=PALE, lw=1, ls=(0, (4, 3)))
            label = f"{name} {loss:.2f}"
            axis.text(self.steps, loss + 0.1, label, color=PALE, ha="right", fontsize=10)
        axis.plot(self.losses, color=SURPRISE, lw=1.6)
        last = self.losses[-30:]
        mean, at = sum(last) / len(last), len(self.losses) - 1
        axis.plot(at, mean, "o", color=SURPRISE, ms=6)
        axis.annotate(
            f"  {mean:.2f}", (at, mean), color=SURPRISE, size=11, weight="bold", va="center"
        )
        axis.text(
            at, mean - 0.75, f"mean of the last {len(last)}", color=SURPRISE, ha="right", size=10
        )
        axis.set(xlim=(-8, self.steps * 1.07), ylim=(0, 7.5))
        axis.set_xlabel("step", fontsize=10.5)
        axis.set_ylabel("loss (nats per token)", fontsize=10.5)
        axis.set_title(self.title, fontsize=12, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=10)
        return figure


class LossWatch:
    """Draws the loss while `train` runs: pass it as `watch`. One picture, updated in place.

    baselines: {name: loss in nats} as dashed lines. Without a front end the last frame stays.
    """

    def __init__(self, baselines: dict[str, float] | None = None, title: str = "Training loss"):
        self.baselines, self.title, self.handle = baselines or {}, title, None

    def __call__(self, history) -> None:
        """Draw the history; called by `train` at every log line."""
        curve = {"mean of last 50 steps": np.asarray(history.smoothed())}
        figure = plots.loss_curves(curve, self.baselines, self.title)
        if self.handle is None:
            self.handle = display(figure, display_id=True)
        else:
            self.handle.update(figure)


def ladder(losses, exam, yours="", passage=(3, " said", 16)):
    """Losses as rungs of a ladder, the exam's floor, and beside each rung the same passage.

    losses: {name in RUNGS: loss of each token of the exam}. passage: see Exam.passage.
    """
    places = list(exam.passage(*passage))
    tokens = exam.tokenizer.token_strings(exam.following[places])
    strips = {name: each[places] for name, each in losses.items()}
    rungs = {name: RUNGS[name] for name in (*losses, "floor")}
    losses = {name: each.mean().item() for name, each in losses.items()} | {"floor": exam.floor}
    title = "The loss ladder: each rung down is something learned"
    step, top = 0.72, 0.5
    height = top + step * len(rungs)
    figure, axis = diagrams.canvas(10, height)
    diagrams.say(axis, 0.12, height - 0.25, title, size=12.5, ha="left")
    key = "white: expected, full orange: 6 nats or more"
    diagrams.say(axis, 9.9, height - 0.25, key, SURPRISE, size=10, ha="right")
    low, high, rail, wide, text = 0.3, height - top - 0.25, 0.85, 1.0, 3.45
    highest = max(losses.values())

    def at(loss):
        return low + (high - low) * loss / highest

    for x in (rail, rail + wide):
        axis.plot([x, x], [low - 0.12, high + 0.12], color=INK, lw=3, solid_capstyle="round")
    for tick in range(int(highest) + 1):
        axis.plot([rail - 0.1, rail - 0.04], [at(tick)] * 2, color=PALE, lw=1)
        diagrams.say(axis, rail - 0.2, at(tick), f"{tick}", PALE, size=9.5)
    diagrams.say(axis, 0.25, (low + high) / 2, "loss (nats per token)", PALE, size=10, rotation=90)
    for i, (name, knows) in enumerate(rungs.items()):
        loss, y = losses[name], height - top - 0.32 - step * i
        last = i == len(rungs) - 1
        color = SURPRISE if name == yours else DRAWN if last else INK
        axis.plot([rail, rail + wide], [at(loss)] * 2, color=color, lw=4, zorder=3)
        points = [(rail + wide, at(loss)), (2.7, at(loss)), (2.5, y + 0.12), (text - 0.1, y + 0.12)]
        codes = [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4]
        axis.add_patch(PathPatch(Path(points, codes), fc="none", ec=color, lw=1.3))
        weight = "bold" if name == yours else "normal"
        diagrams.say(axis, text, y + 0.12, name, color, size=11.5, ha="left", weight="bold")
        number = f"{loss:.2f} nats, like {_choices(loss)} equal choices"
        diagrams.say(axis, 9.9, y + 0.12, number, color, size=10, ha="right", weight=weight)
        if name in strips:
            _strip(axis, text, y - 0.17, tokens, strips[name])
        diagrams.say(axis, text + 1.15, y + 0.12, knows, PALE, size=10, ha="left")
    return figure


def river(temperatures, probabilities, names, marks):
    """The next-token distribution as temperature rises: one band per token, labeled in the band.

    probabilities: [temperature, token], the likeliest first. names: tokens whose bands are drawn
    apart; the rest is one band. marks: temperatures to point out.
    """
    figure, axis = plt.subplots(figsize=(9.2, 3.6), dpi=DPI, layout="constrained")
    plt.close(figure)
    p, x = np.asarray(probabilities), np.asarray(temperatures)
    bands = np.concatenate([p[:, : len(names)].T, 1 - p[:, : len(names)].sum(1)[None]])
    blend = np.linspace(0.95, 0.25, len(names))
    colors = [_tint(PROBABILITY, b) for b in blend] + ["#ECECEC"]
    axis.stackplot(x, bands, colors=colors, edgecolor="white", lw=0.8)
    edges = np.concatenate([np.zeros((1, len(x))), bands.cumsum(0)])
    for i, name in enumerate([*map(shown, names), "all other tokens"]):
        widest = int((bands[i] * (x < 2.0)).argmax()) if i else int(np.searchsorted(x, 0.28))
        widest = min(max(widest, len(x) // 10), int(len(x) * 0.93))
        near = [mark for mark in marks if abs(x[widest] - mark) < 0.1]
        if near:  # no label on a dotted line
            widest = int(np.searchsorted(x, near[0] + 0.1))
        if bands[i][widest] > 0.045:
            y = (edges[i] + edges[i + 1])[widest] / 2
            color = "white" if i < len(names) / 2 else INK
            ha = "left" if i == 0 else "center"
            axis.text(x[widest], y, name, color=color, fontsize=10.5, ha=ha, va="center")
    for mark in marks:
        axis.axvline(max(mark, x[0]), color=INK, lw=1.6, ls=(0, (1, 1.2)))
        ha = "left" if mark == 0 else "center"
        axis.text(mark + 0.02 * (mark == 0), 1.02, f"{mark:g}", fontsize=11, ha=ha, weight="bold")
    axis.set(xlim=(x[0], x[-1]), ylim=(0, 1), xticks=[0.5, 1, 1.5, 2], yticks=[0, 0.5, 1])
    axis.set_xlabel("temperature", fontsize=10.5)
    axis.set_ylabel("probability", fontsize=10.5)
    title = "Temperature levels the preferences, and never swaps them"
    axis.set_title(title, fontsize=12, loc="left", pad=20)
    axis.spines[:].set_visible(False)
    axis.tick_params(labelsize=10, length=0)
    return figure


def shaded_texts(rows, title, shade=SURPRISE, most=6.0, key="", letters=84):
    """Texts one below the other, each token shaded. rows: {label: (tokens, a number for each)}.

    A label may have two lines. Numbers from 0 (white) to `most` (full color).
    """
    lines = {label: _wrap(*row, letters) for label, row in rows.items()}
    heights = [max(0.26 * len(row), 0.44) + 0.24 for row in lines.values()]
    height = sum(heights) + 0.55
    figure, axis = diagrams.canvas(10, height)
    diagrams.say(axis, 0.12, height - 0.22, title, size=12.5, ha="left")
    diagrams.say(axis, 9.9, height - 0.22, key, shade, size=10, ha="right")
    y = height - 0.5
    for (label, row), tall in zip(lines.items(), heights, strict=True):
        for i, part in enumerate(label.split("\n")):
            weight = "bold" if i == 0 else "normal"
            place = y - 0.16 - 0.22 * i
            diagrams.say(
                axis, 1.75, place, part, PALE if i else INK, size=10.5, ha="right", weight=weight
            )
        for i, (tokens, numbers) in enumerate(row):
            _strip(axis, 1.95, y - 0.16 - 0.26 * i, tokens, numbers, shade, most)
        y -= tall
    return figure


def judged_texts(judge, texts, n, title):
    """The last n tokens of each text, shaded by what they cost the judge. texts: {label: ids}."""
    rows = {}
    for label, ids in texts.items():
        with torch.no_grad():
            losses = next_token_losses(judge(ids[None]), ids[None])[0, -n:]
        rows[label] = judge.tokenizer.token_strings(ids[-n:]), losses
    return shaded_texts(rows, title, key="orange: surprise, full at 6 nats")


def where_heads_look(model, questions, left):
    """For each question: where the head that matters most looks from the last token.

    questions: {name: text}. left: {name: share of the answer's probability without each head}.
    """
    rows = {}
    for name, text in questions.items():
        ids, head = model.tokenizer.encode(text, bos=True), int(left[name].argmin())
        logits, cache = model.run_with_cache(ids[None])
        looks = cache["L0.pattern"][0, head, -1].tolist()
        answer = model.tokenizer.token_strings(logits[0, -1].argmax(dim=-1, keepdim=True))[0]
        bet = f" →{answer} (without this head: {left[name][head]:.0%} of its probability is left)"
        tokens = model.tokenizer.token_strings(ids)
        rows[f"{name}\nhead {head}"] = [*tokens[1:], bet], [*looks[1:], 0]
    title = "To answer, a head looks from the last word back at the word that tells"
    key = "purple: its attention"
    return shaded_texts(rows, title, diagrams.SHARE, 1.0, key, letters=62)


def _choices(loss):
    """The power e to the loss: how many equally likely tokens cost as much."""
    number = math.exp(loss)
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def _bend(axis, start, end, color):
    """Up from start, round the corner, and along to end."""
    (x0, y0), (x1, y1) = start, end
    turn = 0.3 if x1 > x0 else -0.3
    points = [(x0, y0), (x0, y1 - 0.3), (x0, y1), (x0 + turn, y1), (x1, y1)]
    codes = [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO]
    look = {"arrowstyle": "-|>,head_length=6,head_width=3.2", "mutation_scale": 1, "lw": 2}
    axis.add_patch(FancyArrowPatch(path=Path(points, codes), color=color, fc=color, **look))


def _strip(axis, x, y, tokens, numbers, shade=SURPRISE, most=6.0):
    """One line of monospaced tokens, each on a ground of its number."""
    for token, number in zip(tokens, numbers, strict=True):
        wide = LETTER * len(token)
        ground = _tint(shade, 0.85 * round(10 * min(max(float(number) / most, 0), 1)) / 10)
        axis.add_patch(Rectangle((x, y - 0.115), wide, 0.23, fc=ground, ec="white", lw=0.8))
        look = {"size": 9.5, "family": "monospace", "color": INK, "va": "center", "zorder": 6}
        axis.text(x, y - 0.01, token, **look)
        x += wide


def _tint(color, share):
    """The color mixed with white."""
    return tuple(1 - share * (1 - part) for part in to_rgb(color))


def _wrap(tokens, numbers, letters):
    """Lines of at most so many letters, as (tokens, numbers)."""
    lines, used = [([], [])], 0
    for token, number in zip(tokens, numbers, strict=True):
        if used + len(token) > letters:
            lines.append(([], []))
            used, token = 0, token.lstrip()
        lines[-1][0].append(token)
        lines[-1][1].append(float(number))
        used += len(token)
    return lines
