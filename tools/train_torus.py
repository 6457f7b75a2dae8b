"""Train the torus networks of notebooks 13 to 15 again: part of `make checkpoints`.

Each run writes data/torus/<name>.safetensors (weights, accuracy and loss of every network) and its
entry of data/torus/runs.json. One thread, half an hour; arguments name the runs to train.
"""

import hashlib
import json
import platform
import time
from dataclasses import asdict
from importlib.metadata import version

import here  # noqa: F401
from aot_helpers import setup
from aot_helpers.base import files
from aot_helpers.base.files import check_writable, read_json, write_atomically, write_safetensors
from chapters.torus.training import TorusRun
from train_checkpoints import names_to_make

SHAPES = [(1, 1), (1, 3), (2, 3), (3, 1), (3, 2), (3, 3), (9, 1), (9, 3)]  # heads, d_head
RUNS = {
    **{f"heads{h}-dim{d}": TorusRun(n_heads=h, d_head=d) for h, d in SHAPES},
    **{f"words{n}": TorusRun(d_vocab=n) for n in (2, 3, 4, 6, 8, 10, 12)},
    # Head after head, against heads trained at once for as many steps in all.
    "longer": TorusRun(steps=(9000,)),
    "boosted": TorusRun(steps=(1000,) * 3),
    "boosted-frozen": TorusRun(steps=(1000,) * 3, train_words=False),
    "boosted-longer": TorusRun(steps=(3000,) * 3),
    "boosted-longer-frozen": TorusRun(steps=(3000,) * 3, train_words=False),
    "boosted-first-longer": TorusRun(steps=(2000, 500, 500)),
    "boosted-first-longer-frozen": TorusRun(steps=(2000, 500, 500), train_words=False),
    "boosted-heads9": TorusRun(n_heads=9, steps=(1000,) * 9),
    "boosted-heads9-frozen": TorusRun(n_heads=9, steps=(1000,) * 9, train_words=False),
    "longer-heads9": TorusRun(n_heads=9, steps=(9000,)),
    # Heads that are made to divide the pairs among them.
    "specialists": TorusRun(division="lot"),
    "specialists-by-word": TorusRun(division="word"),
    # Targets with structure.
    "sum": TorusRun(target="sum"),
    "first": TorusRun(target="first"),
    "boosted-sum": TorusRun(target="sum", steps=(1000,) * 3),
    "boosted-first": TorusRun(target="first", steps=(1000,) * 3),
}


def make(name: str) -> None:
    """Train one run and write it."""
    setup(seed=0)
    folder = files.DATA / "torus"
    check_writable(folder)
    start = time.perf_counter()
    found = RUNS[name].train()
    seconds = time.perf_counter() - start
    path, index = folder / f"{name}.safetensors", folder / "runs.json"
    tensors = {**found.nets.tensors(), "accuracy": found.accuracy, "loss": found.loss}
    write_safetensors(path, tensors)
    runs = read_json(index) if index.is_file() else {}
    runs[name] = {
        "made": asdict(RUNS[name]),
        "measured_at": found.steps,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "seconds": round(seconds),
        "versions": {"python": platform.python_version(), "torch": version("torch")},
    }
    runs = {each: runs[each] for each in RUNS if each in runs}
    write_atomically(index, (json.dumps(runs, indent=1) + "\n").encode())
    whole = (found.accuracy[-1] == 1).float().mean().item()
    print(
        f"{name:28} all pairs right in {whole:.0%} of the networks, "
        f"mean accuracy {found.accuracy[-1].mean().item():.3f}, {seconds:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    for each in names_to_make(RUNS, __doc__):
        make(each)
