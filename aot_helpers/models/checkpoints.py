"""Trained models in files: those that come with the collection, hash-checked, and one's own."""

import json
from dataclasses import asdict, fields
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_safetensors
from tokenizers import Tokenizer as Backend

from aot_helpers.base import files
from aot_helpers.base.errors import check_finite, check_one_of, check_whole
from aot_helpers.base.files import check_writable, read_json, read_verified, write_safetensors
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.text.tokenization import Tokenizer, read_tokenizer


def list_checkpoints() -> dict[str, dict]:
    """{name: provenance} of every shipped checkpoint."""
    return {name: _manifest(name)["provenance"] for name in _names()}


def checkpoint_steps(name: str) -> list[int]:
    """The training steps of a checkpoint's trajectory; the last one is the finished model."""
    return sorted(int(step) for step in _manifest(name)["steps"])


def load_checkpoint(name: str, step: int | None = None) -> AttentionOnlyTransformer:
    """A trained model with .config and .tokenizer; the last step, or one of checkpoint_steps(name).

    Raises ValueError for an unknown name or step, a damaged file, weights that do not fit.
    """
    manifest, steps = _manifest(name), checkpoint_steps(name)
    step = steps[-1] if step is None else step
    check_whole("step", step, 0)
    if step not in steps:
        raise ValueError(f"{name} has no weights of step {step}; there are: {steps}")
    if set(manifest["config"]) != {field.name for field in fields(ModelConfig)}:
        raise ValueError(f"{name} was made by another version of ModelConfig: {manifest['config']}")
    model = AttentionOnlyTransformer(ModelConfig(**manifest["config"]))
    where, weights = files.DATA / "checkpoints" / name, manifest["steps"][str(step)]
    content = {}
    for file in (weights, "tokenizer.json"):
        what, sha256 = f"{file} of checkpoint {name}", manifest["sha256"].get(file)
        content[file] = read_verified(where / file, sha256, what, f"data/checkpoints/{name}")
    tensors = load_safetensors(content[weights])
    for weight, values in tensors.items():
        check_finite(f"{weight} of {name}, step {step},", values)
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{name}, step {step}, does not fit its config: {error}") from None
    model.tokenizer = read_tokenizer(where / "tokenizer.json")
    return model.eval()


def save_model(model: AttentionOnlyTransformer, path: str | Path) -> None:
    """Keep weights, config and tokenizer in one safetensors file, which `load_model` reads.

    Raises FileExistsError for a file that is there, OSError for a folder that cannot be written.
    """
    path, own = Path(path), model.tokenizer
    if path.exists():
        raise FileExistsError(f"{path} is there already: take another name, or delete it first")
    check_writable(path.parent)
    facts = {"config": asdict(model.config), "tokenizer": None}
    if own is not None:
        facts["tokenizer"] = {name: getattr(own, name) for name in ("name", "source", "bos", "pad")}
        facts["backend"] = own.backend.to_str()
    write_safetensors(path, dict(model.named_parameters()), facts)


def load_model(path: str | Path) -> AttentionOnlyTransformer:
    """The model that `save_model` wrote, with .config and .tokenizer.

    Raises FileNotFoundError for a missing file, ValueError for one that `save_model` did not write.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"there is no file {path}: save_model(model, {str(path)!r}) writes it"
        )
    try:
        with safe_open(path, "pt") as file:
            facts = json.loads((file.metadata() or {})["aot"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no dict)
        model = AttentionOnlyTransformer(ModelConfig(**facts["config"]))
        model.load_state_dict(weights)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{path} is damaged, or save_model has not written it: {error!r}"
        ) from None
    if facts["tokenizer"]:
        model.tokenizer = Tokenizer(Backend.from_str(facts["backend"]), **facts["tokenizer"])
    return model.eval()


def load_measurements(name: str) -> dict:
    """What was measured while a run trained: {"provenance": …, "steps": [...], "measured": [...]}.

    `make checkpoints` measures the shipped models and controls that are not shipped. Raises
    ValueError for an unknown name.
    """
    known = {p.stem: p for p in (files.DATA / "results" / "training").glob("*.json")}
    check_one_of("measured run", name, known)
    return read_json(known[name])


def _names() -> list[str]:
    return sorted(path.parent.name for path in files.DATA.glob("checkpoints/*/checkpoint.json"))


def _manifest(name: str) -> dict:
    try:
        check_one_of("checkpoint", name, _names())
    except ValueError as error:
        raise ValueError(f"{error}; load_pretrained reads GPT-2, Llama and BERT") from None
    path = files.DATA / "checkpoints" / name / "checkpoint.json"
    manifest = read_json(path)
    parts = [manifest.get(part) for part in ("config", "steps", "sha256", "provenance")]
    if not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"{path} is damaged (a part is missing): restore it with git checkout")
    return manifest
