"""Model and batches to a trained model and its history: the loop, seen whole."""

import math
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from aot_helpers import parallel
from aot_helpers.base.errors import check_token_ids
from aot_helpers.models.protocol import check_causal
from aot_helpers.text.batches import IGNORE_INDEX, MaskedWindows
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.history import History
from aot_helpers.training.optimizers import make_optimizer, rates_line
from aot_helpers.training.resume import checkpoint_path, restore_run, run_facts, save_run
from aot_helpers.training.stopping import stop_button


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
        tensors, a tensor [steps, batch, n_ctx + 1]. Or it is a pair (inputs, targets), each
        [batch, pos], for another objective than the next token, as MaskedWindows gives it; where
        several processes train, their mean losses are averaged, however many targets each has.
    resume: go on from config.checkpoint, if that file exists, with the losses of a run that was
        never stopped.
    watch: called with the history at every log line, e.g. to draw the loss.
    The stop button (KeyboardInterrupt) saves and returns what there is. Raises NonFiniteLoss, and
    ValueError for batches that cannot be used or are fewer than the steps. Processes started by
    torchrun all call this with the same arguments; each takes its rows of every batch.
    """
    first_batch, path = _first_batch(model, batches, config), checkpoint_path(config)
    optimizer, facts = make_optimizer(model, config), run_facts(model, first_batch, config)
    history = restore_run(path, model, optimizer, facts) if resume else None
    history = history or History(tokens_per_step=first_batch[0].numel())
    replica, device = parallel.replicated(model), model.W_E.device
    first, history.ended = history.steps, "running"
    parallel.print0(rates_line(optimizer, config), quiet)
    with stop_button() as presses:
        model.train()
        try:
            for step in range(first, config.steps):
                batch = inputs_and_targets(batches[step])
                inputs, targets = (parallel.shard(tokens).to(device) for tokens in batch)
                started = time.perf_counter()
                for group in optimizer.param_groups:
                    group["lr"] = config.learning_rate_at(step) * group["factor"]
                loss = mean_loss(replica, inputs, targets, config.bf16)
                loss_of_all, stop = parallel.all_reduce_mean(loss.detach(), len(presses))
                if stop:
                    raise KeyboardInterrupt
                _check_finite(loss_of_all, history, config)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
                optimizer.step()
                optimizer.zero_grad()
                history.losses.append(loss_of_all)
                history.seconds += time.perf_counter() - started
                _report(history, config, watch, quiet)
                if history.steps % config.checkpoint_every == 0 and history.steps < config.steps:
                    save_run(path, model, optimizer, facts, history)
            history.ended = "finished"
        except KeyboardInterrupt:
            history.ended, done = "interrupted", f"{history.steps} of {config.steps} steps"
            parallel.print0(f"interrupted after {done}; the model keeps them")
        model.eval()
        if history.steps > first:
            save_run(path, model, optimizer, facts, history)
        parallel.barrier()
    return history


def inputs_and_targets(batch: Tensor | tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """(inputs, targets), each [batch, pos]: of plain tokens, each token and the one after it."""
    return batch if isinstance(batch, tuple) else (batch[:, :-1], batch[:, 1:])


def mean_loss(
    model: nn.Module, inputs: Tensor, targets: Tensor, bf16: bool = False
) -> Float[Tensor, ""]:
    """The mean loss (nats) over all targets but IGNORE_INDEX. bf16: run in half precision."""
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=bf16):
        logits = model(inputs)
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten().long())


def _first_batch(model: nn.Module, batches, config: TrainConfig) -> tuple[Tensor, Tensor]:
    """The inputs and targets of step 0.

    Raises ValueError for what is no batch, for fewer batches than steps, for a model that sees the
    token it is to predict, and for masked tokens given to a causal model.
    """
    if not hasattr(batches, "__getitem__"):
        raise ValueError(f"batches[step] must work, not so for {type(batches)}: list(batches)")
    if hasattr(batches, "__len__") and len(batches) < config.steps:
        n = len(batches)
        raise ValueError(f"{n} batches for {config.steps} steps: lower steps to {n} or give more")
    first = batches[0]
    is_pair = isinstance(first, tuple)
    if not is_pair:
        check_causal(model)
    elif isinstance(batches, MaskedWindows) and model.config.causal:
        raise ValueError(
            "a causal model sees nothing right of a masked token: give MaskedWindows to a model of "
            "ModelConfig(causal=False), or train on their .windows"
        )
    for part in first if is_pair else (first,):
        if not isinstance(part, Tensor) or part.ndim != 2 or part.is_floating_point():
            got = f"{part.dtype} {list(part.shape)}" if isinstance(part, Tensor) else type(part)
            raise ValueError(
                "batches[step] must be integers [batch, n_ctx + 1], or a tuple (inputs, targets), "
                f"each [batch, pos], got {got}"
            )
        parallel.shard(part)
    if is_pair and (len(first) != 2 or first[0].shape != first[1].shape):
        shapes = [list(part.shape) for part in first]
        raise ValueError(f"batches[step] must be (inputs, targets) of one shape, got {shapes}")
    inputs, targets = inputs_and_targets(first)
    if (asked := targets[targets != IGNORE_INDEX]).numel() == 0:
        raise ValueError(f"no target of batches[0] counts: all are IGNORE_INDEX = {IGNORE_INDEX}")
    for tokens in (inputs, asked):
        check_token_ids(tokens, model.config.d_vocab)
    return inputs, targets


def _check_finite(loss: float, history: History, config: TrainConfig) -> None:
    if not math.isfinite(loss):
        raise NonFiniteLoss(
            f"the loss is {loss} at step {history.steps}, learning rate "
            f"{config.learning_rate_at(history.steps):.2g}, last finite loss "
            f"{history.losses[-1] if history.losses else 'none'}; this step changed no weight, and "
            "an earlier checkpoint is untouched. Lower learning_rate or clip_norm, or lengthen "
            "warmup_steps"
        )


def _report(history: History, config: TrainConfig, watch: Callable | None, quiet: bool) -> None:
    """At every log line and at the end: print where the run is, and show it to `watch`."""
    if history.steps % config.log_every == 0 or history.steps == config.steps:
        parallel.print0(history.line(config.steps), quiet)
        if watch is not None and parallel.rank() == 0:
            watch(history)
