"""The playground: an attention-only transformer that learns to copy in the reader's tab.

`python -m chapters.pages.playground playground.html`, in the folder notebooks, writes it: a file
that a browser opens and that asks for nothing. Its parts lie in static/playground: the engine
(model, gradients, optimizers), the worker that trains, the article, the view, six experiments, the
style, and the engine's two kernels, kernels.c, as WebAssembly (kernels.wasm; build_kernels.sh makes
it anew). The numbers in its text come from measured.json, which tools/playground.py measures.
"""

import argparse
import base64
import json
import math
from pathlib import Path

from matplotlib.figure import Figure

from aot_helpers.showing.diagrams import SHADES
from aot_helpers.showing.widgets import Page, png, script_data
from chapters.pages.standalone import filled, is_in_book, links, save_page, sites, standalone_page

PARTS = Path(__file__).parent / "static" / "playground"
MEASURED = PARTS / "measured.json"
FILM = (0, 50, 100, 130, 150, 200)  # training steps of the still
TITLE = "Will it learn to copy?"
ABOUT = (
    "Watch a small transformer learn to copy, in this tab and in seconds: from random numbers, "
    "until an induction head forms. Then switch off its heads one by one."
)
FEW = 0.6  # share of windows written twice in the fourth experiment
EARLY = 100  # the step at which the sixth experiment tries names early

CONDITIONS = {  # what tools/playground.py measures: settings, seeds (1 to 5), when training ends
    "seeds": {"settings": {}, "seeds": range(1, 31), "limit": 400, "brief": True},
    "slow_heads": {"settings": {"rateHeads": 0.02}, "seeds": [9], "limit": 400},
    "slow_heads_no_stories": {
        "settings": {"rateHeads": 0.02, "randomShare": 1},
        "seeds": [9],
        "limit": 400,
    },
    "two_layers": {
        "settings": {},
        "limit": 400,
        "after": 60,
        "ablate": True,
        "names": EARLY,
        "film": list(FILM),
        "cool": 100,
        "curve": True,
    },
    "no_stories": {"settings": {"randomShare": 1}, "limit": 400, "after": 60},
    "one_layer": {"settings": {"nLayers": 1}, "limit": 600},
    "smeared": {"settings": {"nLayers": 1, "smearedKeys": True}, "limit": 600},
    "few": {"settings": {"repeatShare": FEW}, "limit": 1000},
    "ninety": {"settings": {"repeatShare": 0.9}, "limit": 600},
    "none": {"settings": {"positions": "none"}, "limit": 600},
    "none_smeared": {"settings": {"positions": "none", "smearedKeys": True}, "limit": 600},
}


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def measured() -> dict:
    """What tools/playground.py has measured: for every condition, a run for each seed."""
    return json.loads(MEASURED.read_text("utf-8"))


def _between(values, unit: str = "", digits: int = 0) -> str:
    low, high = (f"{each:.{digits}f}" for each in (min(values), max(values)))
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def _percent(values) -> str:
    return _between([100 * each for each in values], " %")


def _of(runs: list[dict], name: str) -> list:
    return [run[name] for run in runs]


def _steps(runs: list[dict], limit: int) -> str:
    """When 90 % were copied; of runs that never did, how many there were."""
    steps = [at for at in _of(runs, "at") if at is not None]
    some = f"{len(steps)} of {len(runs)} runs"
    missing = "" if len(steps) == len(runs) else f" in {some} (in the others not by {limit})"
    return f"step {_between(steps)}{missing}"


def phrases() -> dict[str, str]:
    """The numbers of the page, by their names in double braces, from what was measured."""
    runs = measured()
    whole, seeds = runs["two_layers"], runs["seeds"]
    others = [
        share
        for run in whole
        for head, share in enumerate(run["withoutEach"])
        if head not in run["induction"]
    ]
    several = [run for run in whole if len(run["induction"]) > 1]
    alone = [run["withoutEach"][head] for run in several for head in run["induction"]]
    no_positions = [each for run in runs["none"] for layer in run["scores"] for each in layer]
    return {
        "two_layers": _between(_of(whole, "at")),
        "one_layer": _percent(_of(runs["one_layer"], "copied")),
        "smeared": _between(_of(runs["smeared"], "at")),
        "whole": _percent(_of(whole, "copied")),
        "no_induction": _percent(_of(whole, "withoutInduction")),
        "others": _percent(others),
        "two_induction": f"(In {len(several)} of the five, several heads are induction heads; "
        f"without one of these alone, {_percent(alone)} was left.)"
        if several
        else "",
        "no_previous": _percent(_of(whole, "withoutPrevious")),
        "few": str(FEW),
        "few_percent": f"{100 * FEW:.0f} %",
        "few_copied": _percent(_of(runs["few"], "copied")),
        "ninety": _steps(runs["ninety"], CONDITIONS["ninety"]["limit"]),
        "none_previous": f"{max(each['previous'] for each in no_positions):.2f}",
        "none_smeared": _between(_of(runs["none_smeared"], "at")),
        "names": _percent(_of(whole, "names")),
        "names_early": _percent(_of(whole, "namesEarly")),
        "names_without": _percent(_of(whole, "namesWithout")),
        "early": str(EARLY),
        "first_end": _between(_of(whole, "first"), "", 2),
        "first_cooled": _between(_of(whole, "cooled"), "", 2),
        "no_stories": _between(_of(runs["no_stories"], "first"), "", 2),
        "wasted": _percent(_of(whole, "wasted")),
        "even": f"{100 * sum(i / 63 for i in range(23)) / 23:.0f} %",
        "guess": f"{math.log(63):.2f}",
        "n_seeds": str(len(seeds)),
        "n_copied": str(sum(run["at"] is not None for run in seeds)),
        "slowest": str(max(run["at"] or 0 for run in seeds)),
        "stuck_copied": _percent(_of(runs["slow_heads"], "copied")),
        "freed": _between(_of(runs["slow_heads_no_stories"], "at")),
    }


def worker_script() -> str:
    """The script that trains in a Web Worker, with its kernels and the stories that it reads."""
    kernels = base64.b64encode((PARTS / "kernels.wasm").read_bytes()).decode()
    story = script_data(_part("story.txt").strip())
    data = f'const KERNELS = "{kernels}", STORY = {story};'
    return "\n".join(['"use strict";', data, _part("engine.js"), _part("worker.js")])


def view_script(in_book: bool = False) -> str:
    """The script that draws the page: mountPlayground(root, WORKER) builds it in an element."""
    words = phrases() | links(in_book)
    strings = {"WORKER": worker_script(), "ARTICLE": filled(_part("article.html"), words)}
    strings["PUBLIC"] = f"{sites()[0]}playground.html"
    data = [  # no end of a script in a string
        f"const {name} = {script_data(text, ensure_ascii=False)};" for name, text in strings.items()
    ]
    return "\n".join([*data, filled(_part("experiments.js"), words), _part("view.js")])


def playground_page(in_book: bool = False) -> str:
    """The whole page as HTML: under 150 kB, alive from file://, without a request to any host.

    in_book: whether its links lead to the pages beside it, and not to the published ones.
    """
    mount = 'mountPlayground(document.getElementById("playground"), WORKER);'
    main, script = '<main id="playground"></main>', f"{view_script(in_book)}\n{mount}"
    return standalone_page("playground", (TITLE, ABOUT), main, _part("style.css"), script)


def save_playground(path: str | Path) -> int:
    """Write the page to a file, in a book with the picture for previews; its size in bytes."""
    if not is_in_book(path):
        return save_page(path, playground_page())
    preview = png(film_strip(TITLE, size=(12, 6.3), columns=3))
    return save_page(path, playground_page(in_book=True), preview)


def film_strip(title: str, size: tuple = (10, 2.5), columns: int = len(FILM)) -> Figure:
    """How the induction head of the run with seed 1 formed, in six patterns."""
    run = measured()["two_layers"][0]
    curve = {step: copied for step, _, _, copied in run["curve"]}
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(FILM) // columns, columns).flat
    for axes, step, pattern in zip(grid, FILM, run["film"], strict=True):
        side = math.isqrt(len(pattern))
        rows = [pattern[i * side : (i + 1) * side] for i in range(side)]
        axes.imshow(rows, cmap=SHADES, vmin=0, vmax=255)
        axes.set(xticks=[], yticks=[], xlabel=f"{100 * curve[step]:.0f} % copied")
        axes.set_title(f"step {step}", fontsize=11)
    figure.suptitle(title, fontsize=13)
    return figure


def playground_view(title: str) -> Page:
    """The whole page in a frame of a notebook; the film strip where scripts cannot run."""
    said = f"the playground, in which a transformer is trained in the browser. {title}"
    return Page(PARTS / "frame.js", {"page": playground_page()}, film_strip(title), said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target")
    target = parser.parse_args().target
    print(f"{target}: {save_playground(target) / 1000:.0f} kB")
