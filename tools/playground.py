"""Measure what the playground's page says of itself: `python tools/playground.py`.

Trains every run that the page and its six experiments speak of in Node.js, seeds 1 to 5 each and
more of the default settings, and writes measured.json in chapters/pages/static/playground, from
which the page is built. About ten minutes on one core; the names of single conditions measure only
these again.
"""

import json
import subprocess

import here
from aot_helpers.base.files import write_atomically
from aot_helpers.base.results import rounded
from chapters.pages.playground import CONDITIONS, MEASURED

ENGINE = here.ROOT / "tests" / "chapters" / "playground" / "engine.mjs"
SEEDS = (1, 2, 3, 4, 5)


def train(run: dict) -> dict:
    """What came of a run, from tests/chapters/playground/engine.mjs."""
    asked = json.dumps({"train": [run]})
    told = subprocess.run(
        ["node", ENGINE], input=asked, text=True, stdout=subprocess.PIPE, check=True
    )
    (found,) = json.loads(told.stdout)["train"]
    return found


def main(names: list[str]) -> None:
    measured = json.loads(MEASURED.read_text("utf-8")) if MEASURED.exists() else {}
    for name in names:
        asked = dict(CONDITIONS[name])
        settings, seeds = asked.pop("settings"), asked.pop("seeds", SEEDS)
        measured[name] = []
        for seed in seeds:
            run = train({**asked, "settings": {**settings, "seed": seed}})
            if "film" in run:  # of one induction head
                film, head = run.pop("film"), run["induction"][0]
                run |= {"film": [layers[1][head] for layers in film]} if seed == 1 else {}
            measured[name].append(rounded({"seed": seed, **run}, ".3f"))
            print(name, seed, "at", run["at"], "change", run["change"], flush=True)
        write_atomically(MEASURED, (json.dumps(measured, separators=(",", ":")) + "\n").encode())


if __name__ == "__main__":
    main(here.names_of_command(__doc__, CONDITIONS))
