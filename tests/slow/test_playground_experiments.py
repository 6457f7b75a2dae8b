"""The playground's experiments again, the first seed of each: what its page says comes out."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from chapters.pages.playground import CONDITIONS, measured

ENGINE = Path(__file__).parents[1] / "chapters" / "playground" / "engine.mjs"
SAME = ("at", "change", "copied", "namesEarly", "names", "induction", "withoutInduction")


@pytest.mark.skipif(shutil.which("node") is None, reason="the engine runs in Node.js")
@pytest.mark.parametrize("name", [name for name in CONDITIONS if name != "seeds"])
def test_a_condition_comes_out_as_measured(name):
    """Not only alike: the engine computes the same numbers wherever it runs."""
    known = measured()[name][0]
    condition = {key: each for key, each in CONDITIONS[name].items() if key != "seeds"}
    run = {**condition, "settings": {**condition["settings"], "seed": known["seed"]}}
    done = subprocess.run(
        ["node", ENGINE],
        input=json.dumps({"train": [run]}),
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = json.loads(done.stdout)["train"]
    for each in set(SAME) & set(known):
        assert found[each] == pytest.approx(known[each], abs=1e-3), each
