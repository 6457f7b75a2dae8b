"""Run a notebook at every point of a grid, by workers that may die, on a storage that may go away.

Every point has a trial in an Optuna study from the start. A worker claims one that waits, runs the
notebook (papermill, in a kernel of its own) and tells the metrics that it wrote to `output`. Any
number of workers on any number of machines may do so; what one dies over is tried again.
"""

import contextlib
import hashlib
import json
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import pandas

from aot_helpers.base.errors import check_whole, is_number, unknown_name
from aot_helpers.base.files import check_writable, read_json, write_atomically
from chapters.sweep.kernels import execute, stop_like_ctrl_c
from chapters.sweep.storage import (
    STORAGE_ERRORS,
    Patience,
    duration,
    fail_stale_trials,
    last_line,
    papermill,
    shown,
)
from chapters.sweep.study import (
    INTERRUPTED,
    FrozenTrial,
    Sweep,
    TrialState,
    check_settings,
    claim,
    enqueue,
    failing_alike,
    id_of,
    key_of,
    opened,
    progress,
    results,
    settings_of,
    tell,
)

__all__ = ["Sweep", "check_sweep", "results", "run_sweep", "stop_like_ctrl_c", "work"]
# An error in a cell; a dead kernel (RuntimeError); too late (OSError); no metrics.
FAILURES = (papermill.exceptions.PapermillException, RuntimeError, OSError, ValueError)
say = partial(print, flush=True)


def check_sweep(sweep: Sweep) -> None:
    """Raise FileNotFoundError or ValueError unless the notebook is there and has the parameters."""
    if not Path(sweep.notebook).is_file():
        raise FileNotFoundError(f"no notebook {sweep.notebook}: give the path of a notebook")
    known = papermill.inspect_notebook(str(sweep.notebook))
    for name in [*sweep.grid, *sweep.fixed, "output"]:
        if name not in known:
            raise unknown_name(f"parameter of {Path(sweep.notebook).name}", name, known)


def read_metrics(path: Path) -> dict[str, float]:
    """What a trial wrote. Raises ValueError unless it is a JSON object of finite numbers."""
    if not path.is_file():
        raise ValueError("the notebook wrote nothing to its parameter `output`")
    metrics = read_json(path)
    for name, value in {"loss": None, **metrics}.items():
        if not is_number(value) or not math.isfinite(value):
            raise ValueError(f"the metric {name!r} must be a finite number, got {value!r}")
    return metrics


def _run(sweep: Sweep, trial: FrozenTrial, folder: Path) -> dict[str, float]:
    output = folder / f"trial-{trial.number:03}.json"
    output.unlink(missing_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the kernel inherits them
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    parameters = {**sweep.fixed, **trial.params, "output": str(output)}
    execute(Path(sweep.notebook), output.with_suffix(".ipynb"), parameters, sweep.timeout)
    return read_metrics(output)


def _conduct(sweep: Sweep, storage, study, trial: FrozenTrial, ask: Patience, folder: Path) -> None:
    """Run a claimed trial and tell its result, or why it has none."""
    what = ", ".join(f"{name}={value}" for name, value in trial.params.items())
    identity = key_of(trial.params) + key_of(settings_of(sweep))
    # A result waits here until it is told; a worker that tries the point again takes it from here.
    untold = folder / f"untold-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"
    start = time.monotonic()
    try:
        try:
            if not untold.exists():
                result = {"metrics": _run(sweep, trial, folder)}
                result["seconds"] = round(time.monotonic() - start, 2)
                write_atomically(untold, json.dumps(result).encode())
            result = read_json(untold)
        except FAILURES as error:
            ask(tell, storage, study, trial, TrialState.FAIL, reason=last_line(error))
            became = f"failed: {last_line(error)}"
        else:
            loss, became = result["metrics"]["loss"], "was taken for dead; its result is kept"
            if ask(tell, storage, study, trial, TrialState.COMPLETE, [loss], **result):
                untold.unlink(missing_ok=True)
                became = f"done: loss {loss:.4g} in {duration(result['seconds'])}"
        ask.log(f"trial with {what} {became}; {ask(progress, study, sweep)}")
    except KeyboardInterrupt:
        with contextlib.suppress(*STORAGE_ERRORS):
            tell(storage, study, trial, TrialState.FAIL, reason=INTERRUPTED)
            enqueue(study, sweep)
        ask.log(f"interrupted: the trial with {what} waits again")
        raise


def work(sweep: Sweep, log: Callable[[str], None] = say) -> None:
    """Run trials until none waits and none runs, here or elsewhere.

    Raises ValueError where all that have ended since then failed alike, three or more.
    """
    folder = Path(sweep.folder).resolve() / sweep.name
    check_writable(folder)
    ask, said, begun = Patience(sweep.patience, log), False, datetime.now()
    with opened(sweep, log) as (storage, study):
        while True:
            ask(check_settings, study, sweep)
            # Where the storage was away, the others need a moment to show that they live.
            if time.monotonic() - ask.last_away > sweep.grace:
                ask(fail_stale_trials, study)
            ask(enqueue, study, sweep)
            trials = ask(study.get_trials, deepcopy=False)
            if reason := failing_alike(trials, begun):
                raise ValueError(
                    f"the first trials all failed, with {reason}: mend it; the same command goes on"
                )
            waiting = [trial for trial in trials if trial.state == TrialState.WAITING]
            running = sum(trial.state == TrialState.RUNNING for trial in trials)
            if not waiting and not running:
                break
            for trial in waiting:
                with ask.heartbeat(storage, ask(id_of, storage, study, trial)):
                    if claim(storage, study, trial, ask):
                        _conduct(sweep, storage, study, trial, ask, folder)
                        break
            if not waiting:
                if not said:
                    log(f"nothing waits; {running} run elsewhere and may yet fall to this worker")
                said = True
                time.sleep(min(sweep.heartbeat, 5))
        for left in folder.glob("untold-*.json"):
            left.unlink(missing_ok=True)


def _work_in_a_crew(sweep: Sweep) -> None:
    # Ctrl-C reaches all processes; the first one passes it on, as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop_like_ctrl_c()
    try:
        work(sweep)
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, OSError) as error:
        sys.exit(str(error))


def _crew(sweep: Sweep, workers: int) -> list[int]:
    """Let processes work together, and return their exit codes."""
    context = multiprocessing.get_context("spawn")
    crew = [context.Process(target=_work_in_a_crew, args=(sweep,)) for _ in range(workers)]
    try:
        for process in crew:
            process.start()
        for process in crew:
            process.join()
    except KeyboardInterrupt:
        for process in crew:
            process.terminate()
            process.join()
        raise
    return [process.exitcode for process in crew]


def run_sweep(sweep: Sweep, workers: int = 1, log: Callable[[str], None] = say) -> pandas.DataFrame:
    """Run what is left of a sweep and return its results; points that failed are tried once more.

    workers: processes on this machine, which print their own lines; with 1 all happens in this one.
    Raises ValueError or OSError, before any work, for a wrong notebook, storage or study, and
    ConnectionError where the storage stays away for longer than sweep.patience.
    """
    check_whole("workers", workers, 1)
    check_sweep(sweep)
    Path(sweep.folder).mkdir(parents=True, exist_ok=True)
    with opened(sweep, log) as (_, study):
        enqueue(study, sweep, failed=True)
        log(f"{progress(study, sweep)}; study {sweep.name!r} in {shown(sweep.url)}")
    if workers == 1:
        work(sweep, log)
    elif dead := [code for code in _crew(sweep, workers) if code]:
        log(f"{len(dead)} of {workers} workers ended early, with exit codes {dead}")
    table = results(sweep.url, sweep.name)
    for _, row in table[table.state == "failed"].iterrows():
        log(f"failed: {', '.join(f'{name}={row[name]}' for name in sweep.grid)}: {row.reason}")
    done = (table.state == "complete").sum()
    again = "" if done == len(sweep.points()) else "; the same command tries the others again"
    log(f"{done} of {len(sweep.points())} points done{again}")
    return table
