"""Notebook 09: what was measured of many runs, how sudden a change is, a live view of a run."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from IPython.display import display
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.models.checkpoints import load_checkpoint, load_measurements
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Edits, Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.trajectories import measured, reached
from aot_helpers.showing.diagrams import DPI, KEY, PALE, QUERY, headline
from aot_helpers.text.batches import repeat_segments
from chapters.nb09_phase_change.figures import RANDOM, STORIES, colored_text, draw_pattern

Texts = Int[Tensor, "batch pos"]


class Edited(AttentionOnlyTransformer):
    """A model whose edits are always on, also while it is trained."""

    def __init__(self, config: ModelConfig, edits: Edits):
        super().__init__(config)
        self.edits = edits

    def forward(self, tokens, attention_mask=None, edits=None, cache=None):
        """As of any model; edits that are given come on top of its own, and win."""
        return super().forward(tokens, attention_mask, self.edits | (edits or {}), cache)


def copied_text(
    texts: dict[str, Int[Tensor, "1 pos"]], models: dict[int, AttentionOnlyTransformer], title: str
) -> Figure:
    """The chance that a model gave to each token of texts written twice, a row a training step.

    texts: {heading: tokens}, of stories first and then random ones: so they are colored.
    models: {training step: the model after it}.
    """
    blocks, some = [], next(iter(models.values()))
    for (heading, tokens), color in zip(texts.items(), (STORIES, RANDOM), strict=True):
        with torch.no_grad():
            losses = {n: next_token_losses(model(tokens), tokens)[0] for n, model in models.items()}
        chances = {f"step {n:,}": (-each).exp() for n, each in losses.items()}
        strings = some.tokenizer.token_strings(tokens[0, 1:])
        blocks.append((heading, strings, chances, color))
    note = "color: the chance that the model gave to the token before it came"
    return colored_text(blocks, title, note)


@torch.no_grad()
def patterns_at(steps: list[int], head: Head, text: Texts) -> list[Float[Tensor, "query key"]]:
    """Attention of a head of stories-2l at some training steps, averaged over the texts."""
    found = []
    for step in steps:
        _, cache = load_checkpoint("stories-2l", step).run_with_cache(text)
        found.append(cache[f"L{head.layer}.pattern"][:, head.head].mean(dim=0))
    return found


def kinds_of_tokens(corpus, tokenizer, stream: Int[Tensor, " n_tokens"]) -> dict[str, Texts]:
    """Random segments of 12 different tokens, written twice: {kind of token: 40 texts}.

    The kinds: pieces of names, other tokens of the stream, and those that it does not have.
    """
    people = [f" {name}" for pair in corpus.truth.names for name in pair]
    pieces, used = torch.cat(tokenizer.encode_many(people)).unique(), stream.unique()
    words = used[~torch.isin(used, pieces) & (used != tokenizer.bos)]
    every = torch.arange(tokenizer.d_vocab)
    kinds = {"pieces of names": pieces, "other words": words}
    kinds["in no story"] = every[~torch.isin(every, used) & (every != tokenizer.bos)]
    drawn = {
        kind: torch.stack([tokens[torch.randperm(len(tokens))[:12]] for _ in range(40)])
        for kind, tokens in kinds.items()
    }
    return {kind: repeat_segments(segments, tokenizer.bos) for kind, segments in drawn.items()}


def difference(names: list[str], corpus: str, **steps: int) -> tuple[list[int], list[list[float]]]:
    """As `measured`: the loss on the second copy of a text minus that on the first."""
    at, first = measured(names, f"first copy, {corpus}", **steps)
    pairs = zip(first, measured(names, f"second copy, {corpus}", **steps)[1], strict=True)
    return at, [[b - a for a, b in zip(*pair, strict=True)] for pair in pairs]


def second_copies(names: list[str], text: str) -> tuple[list[int], list[list[float]]]:
    """As `measured`: the loss on second copies of 63 tokens of a text, from step 200 to 1,500."""
    return measured(names, f"second copy, {text}", first=200, last=1500)


def copied_by_length(names: list[str], step: int) -> dict[int, list[float]]:
    """Copy accuracy on random tokens after that many steps: {length of the segment: [run]}."""
    runs = [load_measurements(name) for name in names]
    found = [run["measured"][run["steps"].index(step)]["copy accuracy"] for run in runs]
    return {int(length): [each[length] for each in found] for length in found[0]}


def middle_half(steps: list[int], values: list[float]) -> int:
    """How many steps lie between a quarter and three quarters of the change of the values."""
    return reached(steps, values, 0.75) - reached(steps, values, 0.25)


def middle_spans(steps: list[int], runs: list[list[float]]) -> list[tuple[int, int]]:
    """Of each run: the steps at which a quarter and three quarters of the change are done."""
    return [(reached(steps, run, 0.25), reached(steps, run, 0.75)) for run in runs]


class LiveView:
    """The losses of a model on texts written twice, drawn anew at every call; the last frame stays.

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
        self.texts, self.measure, self.handle = texts, measure, None
        self.steps, self.losses = [], {name: [] for name in texts}  # [step], {name: [(1st, 2nd)]}
        self.figure = plt.figure(figsize=(9.6, 3.3))
        self.lines, self.labels = {}, {}
        for column, (name, color) in enumerate(zip(texts, (RANDOM, STORIES), strict=True)):
            axis = self.figure.add_axes([0.05 + 0.355 * column, 0.16, 0.25, 0.62])
            axis.set(xlim=(0, n_steps), ylim=(0, 8.6), xlabel="training step")
            axis.set_xticks(range(0, n_steps + 1, 150))
            axis.set_title(f"{name}, written twice", size=10.5, loc="left", color=color)
            if beside:
                second = [pair[1] for pair in beside.losses[name]]
                axis.plot(beside.steps, second, color=color, lw=1.6, alpha=0.35)
            styles = {"first copy": (PALE, 1.4), "second copy": (color, 2.4)}
            for copy, (ink, width) in styles.items():
                self.lines[name, copy] = axis.plot([], [], color=ink, lw=width)[0]
                style = {"color": ink, "va": "center", "clip_on": False, "size": 9.5}
                self.labels[name, copy] = axis.text(0, 0, "", **style)
            if column == 0:
                axis.set_ylabel("loss (nats)")
        self.map = self.figure.add_axes([0.785, 0.16, 0.21, 0.62])
        draw_pattern(self.map, torch.zeros(2 * [next(iter(texts.values())).shape[1]]))
        self.map.set_xlabel("key (attended to)", color=KEY)
        self.map.set_ylabel("query", color=QUERY)
        headline(self.figure, title)
        self.figure.set_dpi(DPI)

    @torch.no_grad()
    def __call__(self, model: AttentionOnlyTransformer, step: int = 0) -> None:
        """Measure the model after that many steps, and draw."""
        self.steps.append(step)
        for name, tokens in self.texts.items():
            self.losses[name].append(tuple(map(float, self.measure(model, tokens))))
            both = dict(
                zip(
                    ("first copy", "second copy"), zip(*self.losses[name], strict=True), strict=True
                )
            )
            low, high = sorted(both, key=lambda copy: both[copy][-1])
            apart = max(0, 0.8 - both[high][-1] + both[low][-1]) / 2  # labels must not touch
            for copy, values in both.items():
                self.lines[name, copy].set_data(self.steps, values)
                y = values[-1] + (apart if copy == high else -apart)
                self.labels[name, copy].set(position=(step + 8, y), text=copy)
        self._draw_stripe(model)
        if self.handle is None:
            self.handle = display(self.figure, display_id=True)
        else:
            self.handle.update(self.figure)

    def _draw_stripe(self, model):
        tokens = next(iter(self.texts.values()))
        layer = model.config.n_layers - 1
        patterns = model.run_with_cache(tokens)[1][f"L{layer}.pattern"].mean(dim=0)
        stripes = patterns.diagonal(1 - patterns.shape[-1] // 2, 1, 2)[:, 2:].mean(dim=1)
        head = int(stripes.argmax())
        self.map.images[0].set_data(patterns[head].numpy())
        said = f"L{layer}H{head} on random tokens:\ninduction score {stripes[head]:.2f}"
        self.map.set_title(said, size=10, loc="left")
