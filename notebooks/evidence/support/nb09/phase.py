"""The trainings behind notebook 09's evidence: a layer with shifted keys, and new halves of heads.

`make data WHAT=phase` trains the seeds that are missing, a minute each on a quiet core, and writes
data/results/phase.json.
"""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from aot_helpers import setup
from aot_helpers.base.results import RESULTS, read, write
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.models.transformer import ModelConfig
from aot_helpers.text.batches import Windows, repeated_tokens, token_stream
from aot_helpers.text.corpora import load_corpus
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.train import train
from chapters.nb09_phase_change.measure import Edited, stories_and_names

SEEDS = (0, 1, 2, 3, 4)
STEPS, STOP, AFTER = 450, 300, 120  # of the tour's training, where it ends, with new halves
OPEN = 1.5  # nats by which the gap has grown when a training with new halves ends
ONE = ModelConfig(1024, n_layers=1, n_ctx=65, positions="relative", layer_norm=False)
LOOKING, COPYING = ("W_Q", "W_K", "b_rel"), ("W_V", "W_O")
# Heads 0 and 1 get new weights of these names, made smaller by this factor.
NEW = {
    "neither ready": (LOOKING + COPYING, 1.0),
    "looking ready": (COPYING, 1.0),
    "copying ready": (LOOKING, 1.0),
    "one matrix of each": (("W_Q", "W_V"), 1.0),
    "neither ready, a tenth": (LOOKING + COPYING, 0.1),
    "looking ready, a tenth": (COPYING, 0.1),
}
Run = dict[str, object]  # kind, name, seed, steps, and measured: {what: a value a step}


def shift(k: Tensor) -> Tensor:
    """Keys [batch, pos, head, d_head] -> the same, but heads 0 and 1 hold the key before."""
    before = torch.cat([k[:, :1], k[:, :-1]], dim=1)
    return torch.cat([before[:, :, :2], k[:, :, 2:]], dim=2)


def texts() -> tuple[Tensor, Tensor, Tensor]:
    """Random tokens written twice, stories written twice, and which of their tokens are names."""
    tokenizer = load_checkpoint("stories-2l").tokenizer
    random = repeated_tokens(1024, 32, 16, tokenizer.bos, seed=1)
    return random, *stories_and_names(tokenizer, n_stories=100)


@torch.no_grad()
def gaps(model, random: Tensor, twice: Tensor, is_name: Tensor) -> dict[str, float]:
    """The gap (nats) on random tokens, names and other words, and the loss on first copies."""
    first, second = copy_losses(model, random)
    losses = next_token_losses(model(twice), twice)
    saved = losses[:, 1:32] - losses[:, 33:]
    return {
        "random": first - second,
        "names": saved[is_name].mean().item(),
        "others": saved[~is_name].mean().item(),
        "stories": losses[:, :32].mean().item(),
    }


def trainings(seed: int) -> Iterator[Run]:
    """The tour's single layer with shifted keys, to step 300; then it with each of NEW."""
    setup(seed=seed)
    tokenizer, given = load_checkpoint("stories-2l").tokenizer, texts()
    stories = tokenizer.encode_many(load_corpus("stories", quiet=True).texts)
    stream = token_stream(stories, tokenizer.bos)
    windows = Windows(
        stream,
        n_ctx=65,
        repeat_fraction=0.3,
        repeat_lengths=(8, 32),
        random_fraction=0.5,
        seed=seed,
    )
    setup(seed=seed)
    edits = {"L0.k": shift}
    ready = Edited(ONE, edits)
    yield grown(ready, windows, lambda: gaps(ready, *given), 25, seed)
    torch.manual_seed(100 + seed)
    fresh = dict(Edited(ONE, edits).named_parameters())
    for name, (names, factor) in NEW.items():
        young = renewed(ready, fresh, names, factor)

        def opened(model=young):
            first, second = copy_losses(model, given[0])
            return {"random": first - second}

        yield grown(young, windows, opened, 10, seed, name)


def grown(
    model, windows: Windows, measure: Callable[[], dict], every: int, seed: int, name: str = ""
) -> Run:
    """Train as the tour does, and measure before the first step and after every few.

    name: of NEW, trained until the first value of `measure` has grown by OPEN; without a name, the
    layer is trained for the first time.
    """
    steps, warmup, last = (AFTER, 10, AFTER) if name else (STEPS, 50, STOP)
    found, at = [], []

    def watch(step):
        at.append(step)
        found.append(measure())
        first, now = (next(iter(each.values())) for each in (found[0], found[-1]))
        if step == last or name and now - first >= OPEN:
            raise KeyboardInterrupt  # as by the stop button: the rates are those of all steps

    how = TrainConfig(
        steps,
        learning_rate=0.02,
        warmup_steps=warmup,
        final_fraction=0.4,
        optimizer="muon",
        log_every=every,
    )
    watch(0)
    train(model, windows, how, watch=lambda now: watch(now.steps), quiet=True)
    measured = {what: [round(each[what], 4) for each in found] for what in found[0]}
    kind = "new halves" if name else "shifted keys"
    return {"kind": kind, "name": name, "seed": seed, "steps": at, "measured": measured}


def renewed(ready, fresh: dict[str, Tensor], names: tuple[str, ...], factor: float):
    """A copy of the model in which heads 0 and 1 have the fresh weights of these names."""
    young = copy.deepcopy(ready)
    with torch.no_grad():
        for name, W in young.named_parameters():
            if name.endswith(names):
                W[:2] = factor * fresh[name][:2]
    return young


def measure_all() -> None:
    """Train the seeds that are missing, and write data/results/phase.json after each."""
    path = RESULTS / "phase.json"
    there = read("phase")["runs"] if path.is_file() else []
    for seed in SEEDS:
        if [*NEW] == [run["name"] for run in there if run["seed"] == seed and run["name"]]:
            continue
        there = [run for run in there if run["seed"] != seed] + list(trainings(seed))
        there.sort(key=lambda run: run["seed"])
        write("phase", {"runs": there}, rows="runs")
        print(f"seed {seed} is trained", flush=True)
