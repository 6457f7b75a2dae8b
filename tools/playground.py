"""Measure what the playground's page says of itself: `python tools/playground.py`.

Trains every run that the page and its six experiments speak of in Node.js, seeds 1 to 5 each and
more of the default settings, and writes measured.json in chapters/pages/static/playground, from
which the page is built. About ten minutes on one core; the names of single conditions measure only
these again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import here  # noqa: F401
from aot_helpers.base.files import write_atomically
from chapters.pages.playground import CONDITIONS, MEASURED

ENGINE = Path(__file__).resolve().parent.parent / "tests" / "chapters" / "playground" / "engine.mjs"
SEEDS = (1, 2, 3, 4, 5)


def train(runs: list[dict]) -> list[dict]:
    """What came of each run, from tests/chapters/playground/engine.mjs."""
    asked = json.dumps({"train": runs})
    done = subprocess.run(
        ["node", ENGINE], input=asked, text=True, capture_output=True, check=False
    )
    if done.returncode:
        sys.exit(f"the engine stopped: {done.stderr[-2000:]}")
    return json.loads(done.stdout)["train"]


def rounded(value):
    """Numbers of three decimals, in lists and dicts as well."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return round(value, 3) if isinstance(value, float) else value


def main(names: list[str]) -> None:
    measured = json.loads(MEASURED.read_text("utf-8")) if MEASURED.exists() else {}
    for name in names or CONDITIONS:
        asked = dict(CONDITIONS[name])
        settings, seeds = asked.pop("settings"), asked.pop("seeds", SEEDS)
        measured[name] = []
        for seed in seeds:
            (run,) = train([{**asked, "settings": {**settings, "seed": seed}}])
            if "film" in run:  # of one induction head
                film, head = run.pop("film"), run["induction"][0]
                run |= {"film": [layers[1][head] for layers in film]} if seed == 1 else {}
            measured[name].append(rounded({"seed": seed, **run}))
            print(name, seed, "at", run["at"], "change", run["change"], flush=True)
        write_atomically(MEASURED, (json.dumps(measured, separators=(",", ":")) + "\n").encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(CONDITIONS))
    names = parser.parse_args().names
    if unknown := set(names) - set(CONDITIONS):
        parser.error(f"no condition is called {', '.join(sorted(unknown))}")
    main(names)
