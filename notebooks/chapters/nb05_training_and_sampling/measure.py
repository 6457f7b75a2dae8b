"""Notebook 05: the exam that all models take, and its figures, from two loops to the ladder."""

import copy

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from IPython.display import display
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from aot_helpers.models.losses import next_token_losses
from aot_helpers.showing import diagrams, plots
from aot_helpers.showing.diagrams import DPI, INK, PALE
from aot_helpers.showing.texts import SURPRISE, shaded_texts, strip
from aot_helpers.text.batches import pad_batch
from chapters.nb05_training_and_sampling.figures import DRAWN, choices

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
        axis.plot(range(1, len(self.losses) + 1), self.losses, color=SURPRISE, lw=1.6)
        last = self.losses[-30:]
        mean, at = sum(last) / len(last), len(self.losses)
        axis.plot(at, mean, "o", color=SURPRISE, ms=6)
        axis.annotate(
            f"  {mean:.2f}", (at, mean), color=SURPRISE, size=11, weight="bold", va="center"
        )
        axis.text(
            at, mean - 0.75, f"mean of the last {len(last)}", color=SURPRISE, ha="right", size=10
        )
        axis.set(xscale="log", xlim=(0.95, self.steps * 1.7), ylim=(0, 7.5))
        ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000, 3000) if tick <= self.steps]
        axis.set_xticks([*ticks, self.steps], [*map(str, ticks), str(self.steps)])
        axis.minorticks_off()
        axis.set_xlabel("step (logarithmic)", fontsize=10.5)
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


def ladder(losses, exam, yours="", passage=(3, " said", 16), *, title: str) -> Figure:
    """Losses as rungs of a ladder, the exam's floor, and beside each rung the same passage.

    losses: {name in RUNGS: loss of each token of the exam}. passage: see Exam.passage.
    """
    places = list(exam.passage(*passage))
    tokens = exam.tokenizer.token_strings(exam.following[places])
    strips = {name: each[places] for name, each in losses.items()}
    rungs = {name: RUNGS[name] for name in (*losses, "floor")}
    losses = {name: each.mean().item() for name, each in losses.items()} | {"floor": exam.floor}
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
        number = f"{loss:.2f} nats, like {choices(loss)} equal choices"
        diagrams.say(axis, 9.9, y + 0.12, number, color, size=10, ha="right", weight=weight)
        if name in strips:
            strip(axis, text, y - 0.17, tokens, strips[name])
        diagrams.say(axis, text + 1.15, y + 0.12, knows, PALE, size=10, ha="left")
    return figure


def judged_texts(judge, texts, n, title):
    """The last n tokens of each text, shaded by what they cost the judge. texts: {label: ids}."""
    rows = {}
    for label, ids in texts.items():
        with torch.no_grad():
            losses = next_token_losses(judge(ids[None]), ids[None])[0, -n:]
        rows[label] = judge.tokenizer.token_strings(ids[-n:]), losses
    return shaded_texts(rows, title, key="orange: surprise, full at 6 nats")


def where_heads_look(model, questions, left, *, title: str) -> Figure:
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
    key = "purple: its attention"
    return shaded_texts(rows, title, diagrams.SHARE, 1.0, key, letters=62)
