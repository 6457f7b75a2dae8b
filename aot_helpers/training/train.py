"""Model and batches to a trained model, its history and its checkpoints."""

import contextlib
import hashlib
import json
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from aot_helpers import parallel
from aot_helpers.base.files import check_writable, write_safetensors
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.objectives import OBJECTIVES
from aot_helpers.training.optimizers import make_optimizer


@dataclass
class History:
    """The loss of every step (nats per token, before its update) and how training ended.

    ended: "finished" or "interrupted" (the stop button). seconds: of the training steps alone.
    measured: seconds of a step's gradients in "fp32" and "bf16", where that decided bf16.
    """

    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    ended: str = "running"
    tokens_per_step: int = 0
    bf16: bool = False
    measured: dict[str, float] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """How many steps have been taken."""
        return len(self.losses)

    def smoothed(self, n: int = 50) -> Float[Tensor, " steps"]:
        """At each step, the mean loss of the last n steps (fewer at the start)."""
        sums = F.pad(torch.tensor(self.losses, dtype=torch.float64).cumsum(0), (1, 0))
        ends = torch.arange(1, self.steps + 1)
        starts = (ends - n).clamp(min=0)
        return (sums[ends] - sums[starts]) / (ends - starts)


class NonFiniteLoss(RuntimeError):
    """The loss became NaN or infinite."""


def train(
    model: nn.Module,
    batches,
    config: TrainConfig,
    resume: bool = True,
    watch: Callable[[History], None] | None = None,
    quiet: bool = False,
) -> History:
    """Train the model in place and return the history.

    batches: batches[step] is token ids [batch, n_ctx + 1], for every step: a Windows, a list of
        tensors, a tensor [steps, batch, n_ctx + 1]; for masked tokens, a MaskedWindows.
    resume: go on from config.checkpoint, if that file exists, with the losses of a run that was
        never stopped.
    watch: called with the history at every log line, e.g. to draw the loss.
    The stop button (KeyboardInterrupt) saves and returns what there is. Raises NonFiniteLoss, and
    ValueError for batches that cannot be used or are fewer than the steps. Processes started by
    torchrun all call this with the same arguments; each takes its rows of every batch.
    """
    first_batch, history = _first_batch(batches, config), None
    own_rows = parallel.share(first_batch)
    say = print if parallel.rank() == 0 else str  # process 0 speaks, draws and writes for all
    optimizer, facts = make_optimizer(model, config), _facts(model, first_batch, config)
    if path := config.checkpoint and Path(config.checkpoint):
        check_writable(path.parent)
        if path.is_dir():
            raise ValueError(f"checkpoint must be a file, but {path} is a folder: add a file name")
        if resume and path.exists():
            history = _restore(path, model, optimizer, facts)
            say(f"resumed from {path.name} at step {history.steps}")
    model.train()
    history = history or _new_history(model, own_rows, config)
    history = parallel.start_alike(model, facts, history)
    first, history.ended = history.steps, "running"
    path, watch = (path, watch) if parallel.rank() == 0 else (None, None)
    log = str if quiet else say
    log(_rates_line(optimizer, config, history))
    loss_of = _loss_function(model, config, history.bf16)
    # A process that stopped alone would leave the others waiting: in a group they agree first.
    with _stop_waits() if parallel.size() > 1 else contextlib.nullcontext([]) as presses:
        try:
            for step in range(first, config.steps):
                _take_step(model, optimizer, loss_of, batches[step], config, history, presses)
                left = config.steps - history.steps
                if history.steps % config.log_every == 0 or left == 0:
                    log(_log_line(history, config))
                    if watch is not None:
                        watch(history)
                if path and history.steps % config.checkpoint_every == 0 < left:
                    _save(path, model, optimizer, facts, history)
            history.ended = "finished"
        except KeyboardInterrupt:
            presses.clear()
            optimizer.zero_grad()
            history.ended, done = "interrupted", f"{history.steps} of {config.steps} steps"
            say(f"interrupted after {done}; the model keeps them")
        model.eval()
        if path and history.steps > first:
            _save(path, model, optimizer, facts, history)
        parallel.wait()
    return history


def _first_batch(batches, config: TrainConfig) -> Tensor:
    """batches[0]. Raises ValueError for what is no batch, and for fewer batches than steps."""
    if not hasattr(batches, "__getitem__"):
        raise ValueError(f"batches[step] must work, not so for {type(batches)}: list(batches)")
    if hasattr(batches, "__len__") and len(batches) < config.steps:
        n = len(batches)
        raise ValueError(f"{n} batches for {config.steps} steps: lower steps to {n} or give more")
    first = batches[0]
    if not isinstance(first, Tensor) or first.ndim != 2 or first.is_floating_point():
        got = f"{first.dtype} {list(first.shape)}" if isinstance(first, Tensor) else type(first)
        raise ValueError(f"batches[step] must be integers [batch, n_ctx + 1], got {got}")
    return first


def _loss_function(model, config: TrainConfig, bf16: bool) -> Callable[[Tensor], Tensor]:
    """A batch of token ids -> mean loss; compiled where the config says so."""
    task = OBJECTIVES[config.objective]

    def loss_of(tokens):
        seen, targets = task(tokens)
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=bf16):
            logits = model(seen)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    return torch.compile(loss_of, dynamic=False) if config.compile else loss_of


def _new_history(model, tokens: Tensor, config: TrainConfig) -> History:
    """A history without steps, and whether its run is in bf16: as config says, or as measured."""
    if config.bf16 is not None or not has_fast_bf16(model.W_E.device):
        return History(bf16=bool(config.bf16))
    measured = measured_seconds(model, tokens, config)
    return History(bf16=measured["fp32"] >= 1.2 * measured["bf16"], measured=measured)


def has_fast_bf16(device: torch.device) -> bool:
    """True for a CUDA GPU that has bf16 and for a CPU with AMX: there bf16 may be faster."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return device.type == "cpu" and torch.cpu._is_amx_tile_supported()


def measured_seconds(model, tokens: Tensor, config: TrainConfig) -> dict[str, float]:
    """Seconds of a loss and its gradients in "fp32" and in "bf16": the quickest of three, in turns.

    Weights, gradients and the state of random numbers are afterwards what they were.
    """
    tokens = tokens.to(model.W_E.device)
    losses = {name: _loss_function(model, config, name == "bf16") for name in ("fp32", "bf16")}
    seconds = {name: [] for name in losses}
    with torch.random.fork_rng():
        for _ in range(4):  # the first turn warms up
            for name, loss_of in losses.items():
                started = time.perf_counter()
                loss, weights = loss_of(tokens), list(model.parameters())
                torch.autograd.grad(loss, weights, allow_unused=True)[0].sum().item()  # awaits GPUs
                seconds[name].append(time.perf_counter() - started)
    return {name: min(times[1:]) for name, times in seconds.items()}


def _take_step(model, optimizer, loss_of, tokens, config, history: History, presses: list) -> None:
    """One update of the weights, recorded in the history."""
    started, rate = time.perf_counter(), config.learning_rate_at(history.steps)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]
    tokens = tokens.to(model.W_E.device)
    loss = loss_of(parallel.share(tokens))
    mean_loss = parallel.agree(loss, presses)
    if not math.isfinite(mean_loss):
        raise NonFiniteLoss(
            f"the loss is {mean_loss} at step {history.steps}, learning rate {rate:.2g}, last "
            f"finite loss {history.losses[-1] if history.losses else 'none'}; this step changed no "
            "weight, and an earlier checkpoint is untouched. Lower learning_rate or clip_norm, or "
            "lengthen warmup_steps"
        )
    loss.backward()
    parallel.average_gradients(model)
    torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
    with _stop_waits():
        optimizer.step()
        optimizer.zero_grad()
        history.losses.append(mean_loss)
    history.tokens_per_step = OBJECTIVES[config.objective](tokens)[0].numel()
    history.seconds += time.perf_counter() - started


# Settings that change neither the losses nor their order, so a resumed run may change them.
_FREE = ("checkpoint", "checkpoint_every", "log_every")


@contextlib.contextmanager
def _stop_waits():
    """Holds the stop button back during the block, so that weights and history always agree.

    Yields the list of presses; one that is left in it at the end takes effect then.
    """
    presses = []
    if threading.current_thread() is not threading.main_thread():
        yield presses  # only the main thread is ever interrupted
        return
    handler = signal.signal(signal.SIGINT, lambda *_: presses.append(True))
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, handler)
    if presses:
        signal.raise_signal(signal.SIGINT)


def _facts(model, first_batch: Tensor, config: TrainConfig) -> dict:
    """What a run to be resumed must have in common with the one that was stopped."""
    settings = {k: v for k, v in asdict(config).items() if k not in _FREE}
    data = hashlib.sha256(first_batch.cpu().numpy().tobytes()).hexdigest()
    facts = {**asdict(model.config), **settings, "the data": data}
    return json.loads(json.dumps(facts))  # as it will be read: tuples are lists


def _save(path: Path, model, optimizer, facts: dict, history: History) -> None:
    names = {parameter: name for name, parameter in model.named_parameters()}
    tensors = {f"model.{name}": parameter.detach() for parameter, name in names.items()}
    for parameter, state in optimizer.state.items():
        tensors |= {f"optimizer.{k}.{names[parameter]}": value for k, value in state.items()}
    facts = {"run": facts, "history": asdict(history)}
    try:
        write_safetensors(path, tensors, {**facts, "sha256": _digest(tensors, facts)})
    except OSError as error:  # the model is still in memory, and the old file is whole
        warnings.warn(
            f"could not save {path} at step {history.steps} ({error}); training goes on, an "
            "earlier checkpoint is intact: free space or change `checkpoint`",
            stacklevel=3,
        )


def _digest(tensors: dict[str, Tensor], facts: dict) -> str:
    content = [tensors[name].detach().cpu().numpy().tobytes() for name in sorted(tensors)]
    content.append(json.dumps(facts, sort_keys=True).encode())
    return hashlib.sha256(b"".join(content)).hexdigest()


def _restore(path: Path, model, optimizer, facts: dict) -> History:
    try:
        with safe_open(path, "pt") as file:
            saved = json.loads(file.metadata()["aot"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError) as error:
        what = f"{path} is damaged or not a training checkpoint ({error})"
        raise ValueError(f"{what}: delete it") from error
    if saved.pop("sha256", None) != _digest(tensors, saved):
        raise ValueError(f"{path} is damaged (its sha256 differs): delete it")
    changed = [
        f"{name} {saved['run'].get(name)} → {now}" if name != "the data" else name
        for name, now in facts.items()
        if saved["run"].get(name) != now
    ]
    if changed:
        raise ValueError(
            f"{path} belongs to another run (changed: {', '.join(changed)}); "
            "go back to its settings, name another file, or pass resume=False to start anew"
        )
    parameters = dict(model.named_parameters())
    for full_name, value in tensors.items():
        part, name = full_name.split(".", 1)
        if part == "model":
            parameters[name].data.copy_(value)
        else:
            key, name = name.split(".", 1)
            optimizer.state[parameters[name]][key] = value.to(parameters[name].device)
    return History(**saved["history"])


def _rates_line(optimizer, config: TrainConfig, history: History) -> str:
    """Which rule and rate every group of parameters has, and the precision."""
    names, rates = {"heads": "heads (Muon)", "relative": "relative biases (AdamW)"}, {}
    for group in optimizer.param_groups:
        name = names.get(group["kind"], "others (AdamW)")
        rates[name] = f"{name} {config.learning_rate * group['factor']:.3g}"
    return f"learning rates: {', '.join(rates.values())}; {'bf16' if history.bf16 else 'fp32'}"


def _log_line(history: History, config: TrainConfig) -> str:
    speed = history.tokens_per_step * history.steps / history.seconds
    left = history.seconds / history.steps * (config.steps - history.steps)
    return (
        f"step {history.steps:5d} of {config.steps}   loss {history.smoothed()[-1]:.3f} nats   "
        f"{speed:,.0f} tokens/s   {left:.0f} s left"
    )
