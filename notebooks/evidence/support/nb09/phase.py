"""The trainings behind notebook 09's evidence: two layers, one, shifted keys, and new halves.

`make data WHAT=phase` trains them, ten minutes on one core, and writes data/results/phase.json.
"""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from aot_helpers import setup
from aot_helpers.base.files import DATA
from aot_helpers.base.results import read, write
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import head_scores, induction_scores
from aot_helpers.text.batches import Windows, repeated_tokens, token_stream
from aot_helpers.text.corpora import load_corpus
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.train import train
from chapters.nb09_phase_change.measure import Edited, stories_and_names

SEEDS = (0, 1, 2, 3, 4)
STEPS, AFTER = 450, 120  # of the tour's training; with new halves
TWO = ModelConfig(1024, n_layers=2, n_ctx=65, positions="relative", layer_norm=False)
ONE = ModelConfig(1024, n_layers=1, n_ctx=65, positions="relative", layer_norm=False)
PLAIN_ONE = ModelConfig(1024, n_layers=1, n_ctx=128, positions="relative", layer_norm=False)
LOOKING, COPYING = ("W_Q", "W_K", "b_rel"), ("W_V", "W_O")
# Heads 0 and 1 get new weights of these names, and those that are made smaller by this factor.
NEW = {
    "neither ready": (LOOKING + COPYING, 1.0),
    "looking ready": (COPYING, 1.0),
    "copying ready": (LOOKING, 1.0),
    "one matrix of each": (("W_Q", "W_V"), 1.0),
    "neither ready, a tenth": (LOOKING + COPYING, 0.1),
    "looking ready, a tenth": (COPYING, 0.1),
}
KINDS = ("two layers", "shifted keys", "new halves", "one layer")


def shift(k: Tensor) -> Tensor:
    """Keys [batch, pos, head, d_head] -> the same, but heads 0 and 1 hold the key before."""
    before = torch.cat([k[:, :1], k[:, :-1]], dim=1)
    return torch.cat([before[:, :, :2], k[:, :, 2:]], dim=2)


def batches(seed: int, n_ctx: int = 65, longest: int = 32) -> Windows:
    """Training windows of stories, three in ten of which hold segments written twice."""
    tokenizer = load_checkpoint("stories-2l").tokenizer
    texts = load_corpus("stories", quiet=True).texts
    stream = token_stream(tokenizer.encode_many(texts), tokenizer.bos)
    shares = {"repeat_share": 0.3, "random_share": 0.5, "repeat_lengths": (8, longest)}
    return Windows(stream, n_ctx=n_ctx, seed=seed, **shares)


def grow(model, windows: Windows, steps: int, watch: Callable, every: int, warmup: int) -> None:
    """Train as the tour does; watch(step) before the first step and after every few."""
    how = TrainConfig(
        steps, learning_rate=0.02, warmup_steps=warmup, final_share=0.4, optimizer="muon",
        log_every=every, bf16=False,
    )  # fmt: skip
    watch(0)
    train(model, windows, how, watch=lambda now: watch(now.steps), quiet=True)


def run_of(kind: str, seed: int, name: str = "") -> dict:
    """A run without measurements: what it is, and empty lists."""
    return {"kind": kind, "name": name, "seed": seed, "steps": [], "measured": []}


class Measure:
    """Called with a model: gaps (nats) on random tokens, names and other words, and head scores."""

    def __init__(self):
        tokenizer = load_checkpoint("stories-2l").tokenizer
        self.random = repeated_tokens(1024, 32, 16, tokenizer.bos, seed=1)
        self.twice, self.is_name = stories_and_names(tokenizer, n_stories=100)

    @torch.no_grad()
    def gaps(self, model) -> dict[str, float]:
        """The three gaps, and the loss on the first copy of stories."""
        first, second = copy_losses(model, self.random)
        losses = next_token_losses(model(self.twice), self.twice)
        saved = losses[:, 1:32] - losses[:, 33:]
        return {
            "random": first - second,
            "names": saved[self.is_name].mean().item(),
            "others": saved[~self.is_name].mean().item(),
            "stories": losses[:, :32].mean().item(),
        }

    def heads(self, model) -> dict[str, float]:
        """The best previous-token score of layer 0 and induction score of layer 1."""
        found = {}
        for text, tokens in {"random": self.random, "stories": self.twice}.items():
            previous = head_scores(model, tokens, "previous", first_query=2).scores
            found[f"previous, {text}"] = previous[0].max().item()
            found[f"induction, {text}"] = induction_scores(model, tokens)[-1].max().item()
        return found


def two_layers(seed: int, measure: Measure) -> Iterator[dict]:
    """The tour's two layers, measured every 25 steps."""
    setup(seed=seed)
    model, found = AttentionOnlyTransformer(TWO), run_of("two layers", seed)

    def watch(step):
        found["steps"].append(step)
        found["measured"].append(measure.gaps(model) | measure.heads(model))

    grow(model, batches(seed), STEPS, watch, 25, 50)
    yield found


def shifted_keys(seed: int, measure: Measure) -> Iterator[dict]:
    """The tour's single layer with shifted keys; then it, trained on with new weights (NEW)."""
    setup(seed=seed)
    windows, edits = batches(seed), {"L0.k": shift}
    ready, found = Edited(ONE, edits), run_of("shifted keys", seed)

    def watch(step):
        found["steps"].append(step)
        found["measured"].append(measure.gaps(ready))

    grow(ready, windows, STEPS, watch, 25, 50)
    yield found
    torch.manual_seed(100 + seed)
    fresh = dict(Edited(ONE, edits).named_parameters())
    for name, (names, factor) in NEW.items():
        young = renewed(ready, fresh, names, factor)
        yield opening(young, windows, run_of("new halves", seed, name), measure)


def renewed(ready, fresh: dict[str, Tensor], names: tuple[str, ...], factor: float):
    """A copy of the model in which heads 0 and 1 have the fresh weights of these names."""
    young = copy.deepcopy(ready)
    with torch.no_grad():
        for name, W in young.named_parameters():
            if name.endswith(names):
                W[:2] = factor * fresh[name][:2]
    return young


def opening(model, windows: Windows, found: dict, measure: Measure) -> dict:
    """Train the model on; its gap on random tokens at every tenth step."""

    def watch(step):
        first, second = copy_losses(model, measure.random)
        found["steps"].append(step)
        found["measured"].append({"random": first - second})

    grow(model, windows, AFTER, watch, 10, 10)
    return found


def one_layer(seed: int, measure: Measure) -> Iterator[dict]:
    """stories-1l (or its next seeds) to step 1,000 as it was trained: its loss by kinds of tokens.

    kinds: pieces of names whose token stood earlier in the story, other pieces of names, the rest;
    of each the sum of losses (nats) over the number of all tokens, so that they add up.
    """
    setup(seed=seed)
    found = run_of("one layer", seed)
    windows, model = batches(seed, 128, 64), AttentionOnlyTransformer(PLAIN_ONE)
    tokens, kinds = story_windows()

    @torch.no_grad()
    def watch(step):
        if 100 <= step <= 1000:
            losses = next_token_losses(model(tokens), tokens)
            sums = {kind: (losses * chosen).sum().item() for kind, chosen in kinds.items()}
            found["steps"].append(step)
            found["measured"].append({kind: each / losses.numel() for kind, each in sums.items()})
        if step == 1000:
            raise KeyboardInterrupt  # train() ends here, as by its stop button

    how = TrainConfig(4000, log_every=50, bf16=False)
    train(model, windows, how, watch=lambda now: watch(now.steps), quiet=True)
    yield found


def story_windows(n: int = 40, n_ctx: int = 128) -> tuple[Tensor, dict[str, Tensor]]:
    """Unread stories [text, n_ctx], and which of their next tokens are of each kind."""
    tokenizer = load_checkpoint("stories-2l").tokenizer
    unread = load_corpus("stories", "test", quiet=True)
    names = {name for pair in unread.truth.names for name in pair}
    written = [before + name for name in sorted(names) for before in ("", " ")]
    pieces = torch.cat(tokenizer.encode_many(written)).unique()
    stories = [s[: n_ctx - 1] for s in tokenizer.encode_many(unread.texts) if len(s) >= n_ctx - 1]
    tokens = torch.full((n, n_ctx), tokenizer.bos)
    tokens[:, 1:] = torch.stack(stories[:n])
    same = (tokens[:, 1:, None] == tokens[:, None, :]) & torch.ones(n_ctx - 1, n_ctx).tril().bool()
    seen, name = same.any(dim=-1), torch.isin(tokens[:, 1:], pieces)
    return tokens, {"names again": name & seen, "new names": name & ~seen, "others": ~name}


def measure_all(kinds: list[str] = ()) -> None:
    """Train what is asked for, by kind, and write data/results/phase.json after each run.

    Raises ValueError for an unknown kind.
    """
    ways = {"two layers": (two_layers, SEEDS), "shifted keys": (shifted_keys, SEEDS)}
    ways |= {"one layer": (one_layer, (0,))}
    if unknown := set(kinds) - set(ways):
        raise ValueError(f"no such training: {sorted(unknown)}; there are {', '.join(ways)}")
    path, measure = DATA / "results" / "phase.json", Measure()
    kept = read("phase")["runs"] if path.is_file() else []
    for kind in kinds or ways:
        train_one, seeds = ways[kind]
        for seed in seeds:
            for found in train_one(seed, measure):
                kept = [run for run in kept if key_of(run) != key_of(found)] + [in_short(found)]
                kept.sort(key=lambda run: (KINDS.index(run["kind"]), run["seed"]))
                write("phase", {"steps": STEPS, "after": AFTER, "runs": kept}, rows="runs")
                print(*key_of(found), found["measured"][-1], flush=True)


def key_of(run: dict) -> tuple[str, int, str]:
    """What tells a run from all others: its kind, its seed, and what of it is new."""
    return run["kind"], run["seed"], run["name"]


def in_short(run: dict) -> dict:
    """The run with its measurements to four decimals, a list for each quantity."""
    series = {name: [round(m[name], 4) for m in run["measured"]] for name in run["measured"][0]}
    return run | {"measured": series}
