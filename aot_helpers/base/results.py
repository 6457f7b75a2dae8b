"""Results that were measured once and are kept as JSON in data/results: read, write, plain."""

import json
import math
from functools import partial
from pathlib import Path

from torch import Tensor

from aot_helpers.base.files import DATA, read_json, write_atomically

RESULTS = DATA / "results"


def read(name: str, folder: Path = RESULTS) -> dict:
    """What stands in NAME.json, such as "autopsy", "geometry/minilm", "pretrained/20-smollm2".

    Raises ValueError where it was not measured: it names what was, and the target of make.
    """
    path = folder / f"{name}.json"
    if not path.is_file():
        there = ", ".join(sorted(each.stem for each in path.parent.glob("*.json"))) or "none"
        command = "sweep" if name == "sweep" else f"data WHAT={name.split('/')[0]}"
        raise ValueError(
            f"there are no results {name!r}, but: {there}; make {command} measures them"
        )
    return read_json(path)


def write(name: str, result: dict, folder: Path = RESULTS, rows: str | None = None) -> None:
    """Keep a dict as NAME.json, whole or not at all. Raises ValueError for NaN and infinity.

    rows: the key of a list that comes last, each item on a line of its own.
    """
    as_json = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    rest = {key: value for key, value in result.items() if key != rows}
    text = as_json(rest)
    if rows:
        comma = "," if rest else ""
        text = f'{text[:-1]}{comma}"{rows}":[\n' + ",\n".join(map(as_json, result[rows])) + "\n]}"
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (text + "\n").encode())


def rounded(value, form: str = ".4g"):
    """The same with every float in it as `form` writes it, None for NaN and infinity.

    value: numbers, strings, lists and dicts in each other, as JSON has them.
    """
    if isinstance(value, dict):
        return {name: rounded(each, form) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each, form) for each in value]
    if not isinstance(value, float):
        return value
    return float(format(value, form)) if math.isfinite(value) else None


def plain(value, as_text: type | tuple = ()):
    """Results as JSON has them: tensors as lists, tuples with names as dicts.

    as_text: types that are written as str writes them, such as Head.
    """
    if isinstance(value, as_text):
        return str(value)
    if isinstance(value, Tensor):
        return value.tolist()
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: plain(each, as_text) for name, each in value.items()}
    return [plain(each, as_text) for each in value] if isinstance(value, list | tuple) else value
