"""Files that are whole or not there: hashes, atomic writing, JSON and safetensors."""

import hashlib
import json
import os
import shutil
import tempfile
import uuid
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib  # noqa: F401, for who reads TOML

DATA = Path(os.environ.get("AOT_DATA", Path(__file__).resolve().parents[2] / "data"))


def read_json(path: Path) -> dict:
    """The object in a JSON file. Raises ValueError naming the file and the remedy."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        content = error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} is damaged ({content}): restore it with `git checkout -- {path}`, "
            "or delete it if it is below runs/"
        )
    return content


def read_verified(path: Path, sha256: str | None, what: str, shipped_in: str) -> bytes:
    """The bytes of a file, called `what`. Raises ValueError if their sha256 is another.

    shipped_in: where git has it, from the project's root.
    """
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(
            f"{what} is missing, truncated or damaged (its sha256 differs): "
            f"restore it with `git checkout -- {shipped_in}`"
        )
    return content


def write_safetensors(path: Path, tensors: dict, facts: dict | None = None) -> None:
    """Tensors and a JSON-able dict of facts as one file, whole or not at all."""
    from safetensors.torch import save as save_safetensors  # JSON alone needs no torch

    tensors = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    write_atomically(path, save_safetensors(tensors, {"aot": json.dumps(facts)} if facts else None))


def write_atomically(path: Path, content: bytes) -> None:
    """Write under a temporary name, then rename: a crash leaves the old file whole.

    The file keeps its mode, and a link leads to the new content.
    """
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(folder: Path) -> None:
    """Make the folder and try a file in it, so that a wrong path fails before any training."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        what = f"cannot write in {folder} ({error.strerror})"
        raise OSError(f"{what}: choose another folder") from error
