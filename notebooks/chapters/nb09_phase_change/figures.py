"""Drawings of notebook 09: texts written twice, attention patterns, and losses of runs."""

from collections.abc import Callable

import torch
from IPython.display import display
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.models.transformer import AttentionOnlyTransformer
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHADES, SHARE, VALUE
from aot_helpers.showing.plots import TITLE, grids, lines, panels
from chapters.nb09_phase_change.measure import Texts

# Two colors of this notebook alone: stories and the names in them, and random tokens.
STORIES, RANDOM = "#137177", "#C2255C"
CONTROL = "0.45"
READY = {"neither ready": INK, "looking ready": SHARE, "copying ready": VALUE}
DRAWN_EVERY = 75  # steps from one frame of the live view to the next


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


def loss_and_gap(
    steps: Int[Tensor, " step"],
    losses: dict[str, Float[Tensor, "run step"]],
    gaps: dict[str, Float[Tensor, "run step"]],
    names: tuple[list[int], list[float]],
    marks: dict[str, tuple[int, int]],
    title: str,
) -> Figure:
    """The loss on stories above the gap on random tokens, while runs train: {group: its runs}.

    The first group is in color, the others are gray. names: the steps and the gap on names of one
    run, dashed below. marks: {what is learned: (from, to)}, shaded.
    """
    figure, axes = panels(2, 1, 9.2, 4.6, title=title, sharex=True)
    rows = ("loss on unread stories", losses, STORIES), ("gap on random tokens", gaps, RANDOM)
    place = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
    for axis, (name, groups, color) in zip(axes[:, 0], rows, strict=True):
        for i, (group, runs) in enumerate(groups.items()):
            own = CONTROL if i else color
            axis.plot(steps, runs.T, color=own, lw=1.4, alpha=0.8)
            end = (steps[-1], runs[:, -1].mean().item())
            axis.annotate(group, end, color=own, weight="bold", size=9.5, **place)
        for begin, end in marks.values():
            axis.axvspan(begin, end, color="#f1eff4", lw=0, zorder=0)
        axis.set_title(name, color=color, **TITLE)
        axis.set_ylabel("nats")
        axis.margins(x=0.01)
    for what, span in marks.items():
        look = {"ha": "center", "va": "top", "size": 9.5, "color": PALE}
        axes[0, 0].text(
            sum(span) / 2, 0.97, what, transform=axes[0, 0].get_xaxis_transform(), **look
        )
    axes[1, 0].plot(*names, color=STORIES, lw=1.4, ls="--")
    end = names[0][-1], float(names[1][-1])
    axes[1, 0].annotate("names, one run", end, color=STORIES, weight="bold", size=9.5, **place)
    axes[1, 0].set_xlabel("training step")
    return figure


def waiting(toy: dict[str, list[float]], head: dict[str, list[float]], title: str) -> Figure:
    """How a product of two numbers grows, and how a head learns: {what was ready: [value]}.

    toy: a value a step; head: its gap at every tenth step.
    """
    numbers = {name.replace(" ready", " number ready"): y for name, y in toy.items()}
    kinds = {"the toy: its product a · b": (numbers, 1), "the layer: its gap (nats)": (head, 10)}
    data = {
        kind: {name: ([apart * i for i in range(len(y))], y) for name, y in curves.items()}
        for kind, (curves, apart) in kinds.items()
    }
    colors = READY | {"neither number ready": INK, "one number ready": PALE}
    look = {"colors": colors, "marker": "", "shared": False, "y_range": (0, None), "width": 10}
    return lines(data, title, "training step", "", **look)


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
        said = f"L{layer}H{head}, induction score {stripes[head]:.2f}"
        axis.set_title(said, **TITLE)
