"""A training that can be dragged: a model at some of its steps, run in the reader's tab.

`python -m chapters.pages.training drag.html`, in the folder notebooks, writes it: a file that a
browser opens and that asks for nothing, with the shipped weights of `stories-2l` at eight steps.
Its parts lie in static/drag: the engine (model, tokenizer), the view, the style.
"""

import argparse
import json
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from aot_helpers.base import files
from aot_helpers.showing.widgets import script_data
from chapters.pages.standalone import filled, is_in_book, links, save_page, standalone_page

PARTS = Path(__file__).parent / "static" / "drag"
RUN = "stories-2l"
STEPS = (0, 300, 500, 700, 800, 900, 1200, 4000)
STORY = ("One day", ' found a red kite near the sea. "Is this your red kite?" asked')  # and a name
NAME = "Quzo Fipja"
TITLE = "When does a network learn to copy a name that it has never read?"
ABOUT = (
    "Make up a name and drag a transformer through its training: the text gets lighter where the "
    "model expects it, until two kinds of attention heads form and it copies your name."
)
PREVIEW = files.DATA / "results" / "figures" / "training.gif"
PREVIOUS, INDUCTION = ("L0H3",), ("L1H0", "L1H2")  # heads of stories-2l

# Weights become whole numbers of grains. So small that no probability changes by 0.01: at 8 bits a
# row, some change by up to 0.07. What is read of the first steps bears coarser grains.
GRAINS = {
    "W_E": 8e-4,
    "W_U": 1.8e-3,
    "W_Q": 9e-4,
    "W_K": 9e-4,
    "W_V": 7e-4,
    "W_O": 7e-4,
    "b_rel": 5e-4,
}
COARSE = {0: 4, 1: 1}  # of the first two files: so many times a grain is doubled


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Run:
    """A model at some training steps: its shape, {step: {name: array}}, and its tokenizer.json."""

    config: dict
    weights: Mapping[int, Mapping[str, np.ndarray]]
    tokenizer: dict


def read_run(steps: Sequence[int] = STEPS) -> Run:
    """The shipped model at some of its steps, without torch.

    Raises ValueError for a step that is not shipped and for a damaged file.
    """
    from safetensors.numpy import load

    folder = files.DATA / "checkpoints" / RUN
    manifest = files.read_json(folder / "checkpoint.json")
    if missing := [step for step in steps if str(step) not in manifest["steps"]]:
        there = ", ".join(manifest["steps"])
        raise ValueError(f"{RUN} has no weights of steps {missing}; there are: {there}")

    def read(file):
        what, sha256 = f"{file} of checkpoint {RUN}", manifest["sha256"].get(file)
        return files.read_verified(folder / file, sha256, what, f"data/checkpoints/{RUN}")

    def tensors(step):  # the reader of the file gives them in another order each time
        return dict(sorted(load(read(manifest["steps"][str(step)])).items()))

    weights = {step: tensors(step) for step in steps}
    return Run(manifest["config"], weights, json.loads(read("tokenizer.json")))


def packed_weights(weights: Mapping[int, Mapping[str, np.ndarray]]) -> dict:
    """All steps in few bytes: whole numbers of grains, as differences to the step before.

    A difference is folded (0, -1, 1, -2 … are 0, 1, 2, 3 …), then all low bytes stand before all
    high ones, which are mostly 0, so that deflate packs them well.
    """
    first = next(iter(weights.values()))
    grains, packed = [GRAINS[name.split(".")[-1]] for name in first], []
    before = [0.0] * len(first)
    for k, step in enumerate(weights.values()):  # their names may be in another order
        unit = 2 ** COARSE.get(k, 0)
        wanted = [step[name].astype(np.float64).ravel() for name in first]
        moved = [
            np.rint((W / grain - old) / unit).astype(np.int64)
            for W, grain, old in zip(wanted, grains, before, strict=True)
        ]
        before = [old + unit * change for old, change in zip(before, moved, strict=True)]
        change = np.concatenate(moved)
        folded = np.where(change < 0, -2 * change - 1, 2 * change)
        if folded.max() > 65535:
            raise ValueError(f"a weight moves by {folded.max() // 2} grains: make GRAINS coarser")
        planes = folded.astype("<u2").view(np.uint8).reshape(-1, 2).T
        packed.append(b64encode(zlib.compress(planes.tobytes(), 9)).decode())
    shapes = {name: list(W.shape) for name, W in first.items()}
    coarse = [COARSE.get(k, 0) for k in range(len(packed))]
    return {"shapes": shapes, "grains": grains, "coarse": coarse, "files": packed}


def packed_tokenizer(tokenizer: dict) -> dict:
    """What the page needs of a tokenizer.json of byte-pair encoding; ValueError for another."""
    kinds = tokenizer["model"]["type"], (tokenizer["pre_tokenizer"] or {}).get("type")
    if kinds != ("BPE", "ByteLevel"):
        raise ValueError(f"the page reads byte-level byte-pair encoding only, got {kinds}")
    vocabulary, bos = tokenizer["model"]["vocab"], tokenizer["added_tokens"][0]["id"]
    tokens = sorted(vocabulary, key=vocabulary.get)
    merges = [" ".join(pair) for pair in tokenizer["model"]["merges"]]
    return {"tokens": tokens, "merges": merges, "bos": bos}


def run_data(run: Run) -> dict:
    """All that the page knows, for JSON."""
    return {
        "config": run.config,
        "steps": list(run.weights),
        "story": STORY,
        "name": NAME,
        "previous": PREVIOUS,
        "induction": INDUCTION,
        "weights": packed_weights(run.weights),
        "tokenizer": packed_tokenizer(run.tokenizer),
    }


def training_page(run: Run, in_book: bool = False) -> str:
    """The whole page as HTML: under 4 MB, alive from file://, without a request to any host.

    in_book: whether its links lead to the pages beside it, and not to the published ones.
    """
    data = script_data(run_data(run))
    mount = 'mountTraining(document.getElementById("drag"), openRun(RUN, steps))'
    mount = f"unpackSteps(RUN.weights).then((steps) => {mount});"
    script = "\n".join([f"const RUN = {data};", _part("engine.js"), _part("view.js"), mount])
    main = filled(_part("main.html"), links(in_book))
    return standalone_page("drag", (TITLE, ABOUT), main, _part("style.css"), script)


def save_training_page(path: str | Path) -> int:
    """Write the page to a file; its size in bytes.

    In a book with a picture for previews, the last frame of the README's loop.
    """
    run = read_run()
    if not is_in_book(path):
        return save_page(path, training_page(run))
    with Image.open(PREVIEW) as loop:
        loop.seek(loop.n_frames - 1)
        loop.convert("RGB").quantize(256, dither=0).save(frame := BytesIO(), "png", optimize=True)
    return save_page(path, training_page(run, in_book=True), frame.getvalue())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    target = parser.parse_args().target
    print(f"{target}: {save_training_page(target) / 1e6:.2f} MB")
