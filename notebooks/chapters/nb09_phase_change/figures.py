"""Drawings of notebook 09: texts written twice, attention patterns, and losses of runs."""

from collections.abc import Callable

import torch
from IPython.display import display
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.transformer import AttentionOnlyTransformer
from aot_helpers.showing.diagrams import KEY, PALE, QUERY, SHADES
from aot_helpers.showing.forms import TITLE, grids, panels
from aot_helpers.showing.playground_page import playground_view
from aot_helpers.showing.texts import token_rows
from aot_helpers.showing.widgets import Page
from chapters.nb09_phase_change.measure import Texts, middle_span

# Two colors of this notebook alone: stories and the names in them, and random tokens.
STORIES, RANDOM = "#137177", "#C2255C"
CONTROL = "0.45"
SURPRISE = "#3e3848"  # of a token that was not expected, as in notebook 00
DRAWN_EVERY = 75  # steps from one frame of the live view to the next


def playground(title: str) -> Page:
    """A page in which a model of the reader's own settings is trained in the browser."""
    return playground_view(title)


@torch.no_grad()
def copied_text(
    tokens: Texts, models: dict[int, AttentionOnlyTransformer], title: str, note: str = ""
) -> Figure:
    """How probable a model found each token of a text written twice, a row a step; dark: hardly.

    models: {training step: the model after it}.
    """
    strings, rows = [], {}
    for step, model in models.items():
        strings = model.tokenizer.token_strings(tokens[0, 1:])
        losses = next_token_losses(model(tokens), tokens)[0]
        rows[f"step {step:,}"] = strings, 1 - (-losses).exp()
    return token_rows(rows, title, shade=SURPRISE, gap_at=len(strings) // 2, note=note)


def film_strip(
    steps: list[int], rows: dict[str, list[Float[Tensor, "query key"]]], title: str
) -> Figure:
    """Attention patterns at some training steps, a row for each {"head, text": patterns}."""
    named = {
        label.replace(", ", ",\n"): {f"step {step}": p for step, p in zip(steps, row, strict=True)}
        for label, row in rows.items()
    }
    note = "Rows are queries, columns are keys; below the line is the second copy."
    figure = grids(named, title, limits=(0, 0.9), cell=0.042, note=note)
    patterns = [each for row in rows.values() for each in row]
    for axis, pattern in zip(figure.axes, patterns, strict=True):
        axis.axhline(len(pattern) // 2 + 1, color="0.6", lw=0.7)
    return figure


def gaps(
    steps: Int[Tensor, " step"], texts: dict[str, dict[str, Float[Tensor, "run step"]]], title: str
) -> Figure:
    """The gap between the copies while runs train: {text: {"two layers": runs, "one layer": runs}}.

    Of the first group of each text, the middle half of each run is drawn thick.
    """
    figure, axes = panels(
        1, 2, 9.2, 3.0, title=title, note="thick: the middle half of a change. The scales differ, "
        "because on stories the first copy leaves less to save."
    )  # fmt: skip
    colors = (RANDOM, STORIES)
    for axis, (text, groups), color in zip(axes[0], texts.items(), colors, strict=True):
        for i, (group, runs) in enumerate(groups.items()):
            own = CONTROL if i else color
            _runs(axis, steps, runs, own, thick=not i)
            top = runs[:, -1].max().item() if not i else runs[:, -1].mean().item()
            place = {"xytext": (0, 5), "textcoords": "offset points", "ha": "right"}
            axis.annotate(group, (steps[-1], top), color=own, weight="bold", size=9.5, **place)
        axis.set_title(text, **TITLE)
        axis.set(xlabel="training step", ylabel="gap: first − second copy (nats)")
        axis.margins(y=0.12)
    return figure


def losses_and_gap(
    steps: Int[Tensor, " step"],
    first: Float[Tensor, "run step"],
    second: Float[Tensor, "run step"],
    title: str,
) -> Figure:
    """The losses on first and on second copies while runs train, and beside them their gap."""
    figure, axes = panels(
        1, 2, 9.2, 3.0, title=title, note="thick: the middle half of a change", sharey=True
    )
    left, right = axes[0]
    _runs(left, steps, first, CONTROL, thick=False)
    _runs(left, steps, second, STORIES)
    _runs(right, steps, first - second, STORIES)
    names = (
        (left, "first copy", first, CONTROL),
        (left, "second copy", second, STORIES),
        (right, "first − second copy", first - second, STORIES),
    )
    for axis, name, runs, color in names:
        place = {"xytext": (0, 6), "textcoords": "offset points", "ha": "right"}
        end = (steps[-1], runs[:, -3:].max().item())
        axis.annotate(name, end, color=color, weight="bold", size=9.5, **place)
    left.set_title("the losses", **TITLE)
    right.set_title("their gap", **TITLE)
    left.set(ylabel="nats", ylim=(0, None))
    for axis in (left, right):
        axis.set_xlabel("training step")
    return figure


def _runs(axis, steps, runs, color, thick=True):
    """A line for each run; thick: where the middle half of its change is."""
    axis.plot(steps, runs.T, color=color, lw=1.2, alpha=0.8)
    for run in runs if thick else ():
        low, high = middle_span(steps, run)
        part = (steps >= low) & (steps <= high)
        axis.plot(steps[part], run[part], color=color, lw=3.4)


def transplants(scores: dict[str, list[float]], into: list[str], title: str) -> Figure:
    """Induction scores after transplants, a row for each {what was transplanted: [score]}."""
    labels = {"x_label": "into the model of", "y_label": "transplanted"}
    labels["note"] = "Best induction score of any head, on segments of 32 random tokens."
    names = {"row_names": list(scores), "column_names": into}
    table = {"": {"": list(scores.values())}}
    return grids(table, title, number=".2f", cell=(1.4, 0.32), **names, **labels)


def kinds_of_tokens(
    gaps: dict[str, tuple[Int[Tensor, " step"], Float[Tensor, " step"]]], title: str
) -> Figure:
    """The gap of three kinds of tokens while a run trains: {kind: (steps, gap)}, random ones last.

    The middle half of each change is drawn thick.
    """
    note = "thick: the middle half of a change. The scales differ."
    figure, axes = panels(3, 1, 9.2, 4.6, title=title, note=note, sharex=True)
    for axis, (kind, (steps, gap)), color in zip(
        axes[:, 0], gaps.items(), (STORIES, CONTROL, RANDOM), strict=True
    ):
        axis.axhline(0, color="0.85", lw=0.8)
        _runs(axis, steps, gap[None], color)
        axis.set_title(kind, color=color, **TITLE)
        axis.set_ylabel("gap (nats)")
    axes[-1, 0].set_xlabel("training step")
    return figure


class LiveView:
    """The losses of a model on texts written twice, drawn while it trains; the last frame stays.

    texts: {name: tokens}, random tokens first; measure: (model, tokens) -> loss of the first copy
    and of the second. On the right: the head of the last layer with the highest induction score on
    the first texts. beside: the view of another run, drawn faintly. Kept in `steps`, `losses`.
    """

    def __init__(
        self,
        n_steps: int,
        texts: dict[str, Texts],
        measure: Callable,
        title: str,
        beside: "LiveView | None" = None,
    ):
        self.n_steps, self.texts, self.measure, self.title = n_steps, texts, measure, title
        self.beside, self.handle = beside, None
        self.steps, self.losses = [], {name: [] for name in texts}  # [step], {name: [(1st, 2nd)]}

    @torch.no_grad()
    def __call__(self, model: AttentionOnlyTransformer, step: int = 0) -> None:
        """Measure the model after that many steps, and draw if it is time to."""
        self.steps.append(step)
        for name, tokens in self.texts.items():
            self.losses[name].append(tuple(map(float, self.measure(model, tokens))))
        if step % DRAWN_EVERY and step < self.n_steps:
            return
        self.figure = self._draw(model)
        if self.handle is None:
            self.handle = display(self.figure, display_id=True)
        else:
            self.handle.update(self.figure)

    def _draw(self, model: AttentionOnlyTransformer) -> Figure:
        colors = dict(zip(self.texts, (RANDOM, STORIES), strict=True))
        key = {"— first copy": PALE} | {f"— second copy, {n}": c for n, c in colors.items()}
        figure, axes = panels(
            1, 3, 9.6, 2.6, title=self.title, key=key, width_ratios=(1.35, 1.35, 1)
        )
        for axis, (name, color) in zip(axes[0], colors.items(), strict=False):
            if self.beside:
                other = [pair[1] for pair in self.beside.losses[name]]
                axis.plot(self.beside.steps, other, color=color, lw=1.6, alpha=0.35)
            first, second = zip(*self.losses[name], strict=True)
            axis.plot(self.steps, first, color=PALE, lw=1.4)
            axis.plot(self.steps, second, color=color, lw=2.4)
            axis.set(xlim=(0, self.n_steps), ylim=(0, 8.6), xlabel="training step")
            axis.set_title(f"{name}, written twice", color=color, **TITLE)
        axes[0, 0].set_ylabel("loss (nats)")
        self._draw_pattern(axes[0, 2], model)
        return figure

    def _draw_pattern(self, axis, model: AttentionOnlyTransformer) -> None:
        layer = model.config.n_layers - 1
        tokens = next(iter(self.texts.values()))
        patterns = model.run_with_cache(tokens)[1][f"L{layer}.pattern"].mean(dim=0)
        stripes = patterns.diagonal(1 - patterns.shape[-1] // 2, 1, 2)[:, 2:].mean(dim=1)
        head = int(stripes.argmax())
        axis.imshow(patterns[head].numpy(), cmap=SHADES, vmin=0, vmax=0.9)
        axis.axhline(tokens.shape[1] // 2 + 0.5, color="0.6", lw=0.7)  # the second copy begins
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set(visible=True, color="0.8")
        axis.set_xlabel("key (attended to)", color=KEY)
        axis.set_ylabel("query", color=QUERY)
        said = f"L{layer}H{head} on random tokens:\ninduction score {stripes[head]:.2f}"
        axis.set_title(said, **TITLE)
