"""A training run to a file and back: weights, optimizer, random state, history and settings."""

import hashlib
import json
import warnings
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from aot_helpers import parallel
from aot_helpers.base.files import check_writable, write_safetensors
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.history import History

# Settings that change neither the losses nor their order, so a resumed run may change them.
_FREE = ("checkpoint", "checkpoint_every", "log_every")


def checkpoint_path(config: TrainConfig) -> Path | None:
    """Where a run is kept. Raises OSError or ValueError where nothing could be written."""
    if not config.checkpoint:
        return None
    path = Path(config.checkpoint)
    check_writable(path.parent)
    if path.is_dir():
        raise ValueError(f"checkpoint must be a file, but {path} is a folder: add a file name")
    return path


def run_facts(model: nn.Module, first_batch: tuple[Tensor, Tensor], config: TrainConfig) -> dict:
    """What a run to be resumed must have in common with the one that was stopped."""
    settings = {name: value for name, value in asdict(config).items() if name not in _FREE}
    data = hashlib.sha256(torch.cat(first_batch).cpu().numpy().tobytes()).hexdigest()
    facts = {**asdict(model.config), **settings, "the data": data}
    return json.loads(json.dumps(facts))  # as it will be read: tuples are lists


def save_run(path: Path | None, model, optimizer, facts: dict, history: History) -> None:
    """Write the run, in process 0 alone. What cannot be written is a warning, and no file is lost.

    The file has model.NAME for every weight and optimizer.KEY.NAME for what is kept about it.
    """
    if path is None or parallel.rank() > 0:
        return
    tensors = {"random state": torch.get_rng_state()}
    for name, weight in model.named_parameters():
        tensors[f"model.{name}"] = weight
        for key, value in optimizer.state[weight].items():
            tensors[f"optimizer.{key}.{name}"] = value
    try:
        write_safetensors(path, tensors, {"run": facts, "history": asdict(history)})
    except OSError as error:  # the model is still in memory, and the old file is whole
        warnings.warn(
            f"could not save {path} at step {history.steps} ({error}); training goes on, an "
            "earlier checkpoint is intact: free space or change `checkpoint`",
            stacklevel=3,
        )


def restore_run(path: Path | None, model, optimizer, facts: dict) -> History | None:
    """Put a run back as it was saved, and return its history; None where no file is.

    Raises ValueError, before anything is changed, for a damaged file and for another run's.
    """
    if path is None or not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            saved = json.loads(file.metadata()["aot"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        before, history = saved["run"], History(**saved["history"])
        random_state = tensors.pop("random state")
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        what = f"{path} is damaged or not a training checkpoint ({error})"
        raise ValueError(f"{what}: delete it") from error
    changed = [
        name if name == "the data" else f"{name} {before.get(name)} → {now}"
        for name, now in facts.items()
        if before.get(name) != now
    ]
    if changed:
        raise ValueError(
            f"{path} belongs to another run (changed: {', '.join(changed)}); "
            "go back to its settings, name another file, or pass resume=False to start anew"
        )
    weights = dict(model.named_parameters())
    for full_name, value in tensors.items():
        part, name = full_name.split(".", 1)
        if part == "model":
            weights[name].data.copy_(value)
        else:
            key, name = name.split(".", 1)
            optimizer.state[weights[name]][key] = value.to(weights[name].device)
    torch.set_rng_state(random_state)
    parallel.print0(f"resumed from {path.name} at step {history.steps}")
    return history
