"""A sweep of a small notebook that dies, hangs or raises on demand, and what became of it."""

import threading
from collections import Counter
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from optuna.trial import TrialState

from chapters.sweep.run import Sweep, results
from chapters.sweep.storage import Patience
from chapters.sweep.study import claim, enqueue, key_of, opened

PARAMETERS = "what = 'plain'\nx = 0\nwait = 0.0\ncure = ''\noutput = 'out.json'"
CODE = """
import json, os, time
if not os.path.exists(cure):
    if what == "dies":
        os.kill(os.getpid(), 9)
    if what == "hangs":
        time.sleep(60)
    if what == "raises":
        raise ValueError("no such luck")
time.sleep(wait)
bad = what == "nan" and not os.path.exists(cure)
with open(output, "w") as file:
    threads = int(os.environ["OMP_NUM_THREADS"])
    json.dump({"loss": float("nan") if bad else x / 2, "threads": threads}, file)
"""
ASK = Patience(60, print)


def sweep_in(place: Path, grid=None, **options) -> Sweep:
    """A sweep of the notebook, which is written to the folder, with a fast heartbeat."""
    notebook = place / "trial.ipynb"
    if not notebook.exists():
        cells = [new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}), new_code_cell(CODE)]
        kernel = {"display_name": "mine", "language": "python", "name": "python3"}
        nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), notebook)
    options = {"folder": place / "runs", "heartbeat": 1, "grace": 3, **options}
    return Sweep(notebook, grid or {"x": [0, 1, 2]}, **options)


def all_trials(sweep):
    with opened(sweep, print) as (_, study):
        return study.get_trials(deepcopy=False)


def assert_every_point_is_complete_exactly_once(sweep):
    trials = all_trials(sweep)
    complete = Counter(key_of(t.params) for t in trials if t.state == TrialState.COMPLETE)
    assert complete == {key_of(point): 1 for point in sweep.points()}
    assert all(trial.state.is_finished() for trial in trials)
    assert list(results(sweep.url, sweep.name).x) == [point["x"] for point in sweep.points()]


def crowd(sweep):
    """Four workers that open a fresh storage at once and claim what they can."""
    claimed, errors, begin = [], [], threading.Barrier(4)

    def one():
        try:
            begin.wait()
            with opened(sweep, print) as (storage, study):
                enqueue(study, sweep)
                for _ in range(2):
                    for trial in study.get_trials(states=(TrialState.WAITING,)):
                        if claim(storage, study, trial, ASK):
                            claimed.append(trial.params["x"])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return claimed
