"""The study behind a sweep: its settings, which trials wait, and which one counts for a point."""

import contextlib
import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pandas

from aot_helpers.base.errors import check_whole, unknown_name
from aot_helpers.base.files import read_json
from chapters.sweep.storage import connect, database_file, duration, optuna, shown

FrozenTrial, TrialState = optuna.trial.FrozenTrial, optuna.trial.TrialState
RETRIES = 3  # of a trial whose worker died
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Sweep:
    """What is swept: a notebook with a parameters cell, and the values of some of its parameters.

    The notebook must also have a parameter `output`, a path, and write there a JSON object of
    finite numbers, `loss` among them.

    fixed: other parameters, the same in every trial. folder: for executed notebooks; each name has
        a folder in it. storage: postgresql://… or sqlite:///…; None: sweep.db in the folder.
    timeout: seconds a cell may take. heartbeat: seconds between signs of life; after `grace`
        seconds without one a trial is tried again, up to 3 times. patience: how many seconds a
        worker waits for a storage that went away.
    """

    notebook: str | Path
    grid: dict[str, list]
    name: str = "sweep"
    folder: str | Path = "runs/sweep"
    storage: str | None = None
    fixed: dict = field(default_factory=dict)
    timeout: int = 3600
    heartbeat: int = 30
    grace: int = 120
    patience: float = 600.0

    def __post_init__(self):
        for name in ("timeout", "heartbeat"):
            check_whole(name, getattr(self, name), 1, unit=" of seconds")
        check_whole("grace", self.grace, 2 * self.heartbeat, unit=" of seconds (two heartbeats)")
        if not re.fullmatch(r"[\w.-]+", self.name):
            raise ValueError(f"name must be letters, digits, . _ or -, got {self.name!r}")
        if not self.grid:
            raise ValueError("grid has no parameter: give lists, such as {'seed': [0, 1]}")
        for name, values in self.grid.items():
            plain = isinstance(values, list) and all(
                value is None
                or isinstance(value, str)
                or (isinstance(value, int | float) and math.isfinite(value))
                for value in values
            )
            if not plain or not values or len(set(values)) < len(values):
                raise ValueError(
                    f"grid[{name!r}] must be a list of different numbers or strings, got {values!r}"
                )
        if twice := self.grid.keys() & self.fixed.keys():
            raise ValueError(f"{sorted(twice)} stand both in grid and in fixed: take one out")

    @property
    def url(self) -> str:
        """Where the study is kept."""
        return self.storage or f"sqlite:///{Path(self.folder).resolve() / 'sweep.db'}"

    def points(self) -> list[dict]:
        """Every point of the grid; the last parameter changes fastest."""
        return [
            dict(zip(self.grid, values, strict=True))
            for values in itertools.product(*self.grid.values())
        ]


def key_of(point: dict) -> str:
    """A point of the grid as text."""
    return json.dumps(point, sort_keys=True)


def settings_of(sweep: Sweep) -> dict[str, str]:
    """What makes two sweeps the same: grid, fixed parameters, the code of the notebook."""
    cells = read_json(Path(sweep.notebook))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return {
        **{f"values of {name}": json.dumps(values) for name, values in sweep.grid.items()},
        "fixed parameters": key_of(sweep.fixed),
        "code of the notebook": hashlib.sha256("\0".join(code).encode()).hexdigest()[:16],
    }


@contextlib.contextmanager
def opened(sweep: Sweep, log: Callable[[str], None]) -> Iterator[tuple]:
    """The storage and the study. Raises ValueError for a study of other settings."""

    def stale(study, trial):
        log(f"trial {trial.number} will be tried again: no sign of life for {sweep.grace} s")

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with connect(sweep.url, sweep.heartbeat, sweep.grace, stale) as storage:
        study = optuna.create_study(storage=storage, study_name=sweep.name, load_if_exists=True)
        if "settings" not in study.user_attrs and not study.get_trials(deepcopy=False):
            study.set_user_attr("settings", settings_of(sweep))
        check_settings(study, sweep)
        yield storage, study


def check_settings(study: optuna.Study, sweep: Sweep) -> None:
    """Raise ValueError, naming what differs, unless the study was begun with these settings."""
    here, there = settings_of(sweep), study.user_attrs.get("settings", {})
    differ = sorted(n for n in here.keys() | there.keys() if here.get(n) != there.get(n))
    if differ:
        told = "; ".join(f"{each}: {there.get(each)}, now {here.get(each)}" for each in differ)
        raise ValueError(
            f"the study {sweep.name!r} in {shown(sweep.url)} belongs to other settings ({told}): "
            "choose another --name, or go back to the settings it was begun with"
        )


def standing_trials(trials: list[FrozenTrial]) -> dict[str, FrozenTrial]:
    """The trial that counts for a point: complete, else running, else waiting, else failed last."""
    order = [TrialState.FAIL, TrialState.WAITING, TrialState.RUNNING, TrialState.COMPLETE]
    counts = {key_of(trial.params): trial for trial in trials}  # in their order
    for state in order:
        counts |= {key_of(trial.params): trial for trial in trials if trial.state == state}
    return counts


def enqueue(study: optuna.Study, sweep: Sweep, failed: bool = False) -> None:
    """Let the points wait that have no trial, or lost it with their worker; or all that failed."""
    trials = study.get_trials(deepcopy=False)
    lost = [t for t in trials if t.state == TrialState.FAIL and "reason" not in t.user_attrs]
    times_lost = Counter(key_of(trial.params) for trial in lost)
    standing = standing_trials(trials)
    kinds = {
        name: optuna.distributions.CategoricalDistribution(values)
        for name, values in sweep.grid.items()
    }
    for point in sweep.points():
        before = standing.get(key_of(point))
        if before is not None:
            reason = before.user_attrs.get("reason")
            again = reason is None and times_lost[key_of(point)] <= RETRIES
            if before.state != TrialState.FAIL or not (failed or again or reason == INTERRUPTED):
                continue
        state = TrialState.WAITING
        study.add_trial(optuna.create_trial(state=state, params=point, distributions=kinds))


def id_of(storage, study: optuna.Study, trial: FrozenTrial) -> int:
    """The number by which the storage knows a trial, among those of all its studies."""
    study_id = storage.get_study_id_from_name(study.study_name)
    return storage.get_trial_id_from_study_id_trial_number(study_id, trial.number)


def claim(storage, study: optuna.Study, trial: FrozenTrial, ask: Callable) -> bool:
    """Whether the trial is ours now: one worker gets it, and no other trial of its point counts.

    Two that start a sweep at once may both let a point wait; the lower number counts.
    ask: calls the storage, step by step, so that a trial is not dropped when the storage goes away.
    """
    trial_id = ask(id_of, storage, study, trial)
    ask(storage.record_heartbeat, trial_id)  # first: who runs without one is never missed
    try:
        if not ask(storage.set_trial_state_values, trial_id, TrialState.RUNNING):
            return False
        for other in ask(study.get_trials, deepcopy=False):
            earlier = not other.state.is_finished() and other.number < trial.number
            same = key_of(other.params) == key_of(trial.params) and other.number != trial.number
            if same and (earlier or other.state == TrialState.COMPLETE):
                ask(storage.set_trial_state_values, trial_id, TrialState.PRUNED)
                return False
    except optuna.exceptions.UpdateFinishedTrialError:
        return False
    return True


def tell(
    storage, study: optuna.Study, trial: FrozenTrial, state: TrialState, value=None, **facts
) -> bool:
    """Finish a trial; False if it was given to another worker meanwhile."""
    trial_id = id_of(storage, study, trial)
    try:
        for name, fact in facts.items():
            storage.set_trial_user_attr(trial_id, name, fact)
        storage.set_trial_state_values(trial_id, state, value)
    except optuna.exceptions.UpdateFinishedTrialError:
        # Perhaps it was finished by us, and only the answer was lost.
        return storage.get_trial(trial_id).state == state
    return True


def failing_alike(trials: list[FrozenTrial], since: datetime) -> str:
    """Why all trials that have ended since then failed, if at least three did, for one reason."""
    ended = [t for t in trials if t.datetime_complete and t.datetime_complete >= since]
    reasons = {t.user_attrs.get("reason") for t in ended if t.state == TrialState.FAIL}
    alike = len(ended) >= 3 and all(t.state == TrialState.FAIL for t in ended)
    return next(iter(reasons - {None, INTERRUPTED}), "") if alike and len(reasons) == 1 else ""


def progress(study: optuna.Study, sweep: Sweep) -> str:
    """How far the sweep is: points done, workers, time left and failures."""
    standing = standing_trials(study.get_trials(deepcopy=False)).values()
    states = Counter(trial.state for trial in standing)
    seconds = [t.user_attrs["seconds"] for t in standing if t.state == TrialState.COMPLETE]
    total, done, failed = len(sweep.points()), len(seconds), states[TrialState.FAIL]
    left, workers = total - done - failed, states[TrialState.RUNNING] + 1
    about = duration(sum(seconds) / max(done, 1) * left / min(workers, max(left, 1)))
    time_left = f"about {about} left" if done else "time left unknown"
    crew = f"{workers} worker{'s' * (workers > 1)}; {time_left}; {failed} failed"
    return f"{done} of {total} points done; {crew}"


def results(storage: str, name: str) -> pandas.DataFrame:
    """A row for every finished point: parameters, metrics, seconds, state, and why it failed.

    state: "complete" or "failed" (and nothing is trying it again). Raises FileNotFoundError for a
    SQLite file that is not there, ValueError for an unknown study.
    """
    file = database_file(storage)
    if file and not file.is_file():
        raise FileNotFoundError(f"no sweep is kept in {file}: run one, or give another storage")
    with connect(storage) as database:
        names = optuna.study.get_all_study_names(database)
        if name not in names:
            raise unknown_name("study", name, names)
        trials = optuna.load_study(study_name=name, storage=database).get_trials(deepcopy=False)
    rows = [_row(t) for t in standing_trials(trials).values() if t.state.is_finished()]
    return pandas.DataFrame(rows, columns=None if rows else ["seconds", "state", "reason"])


def _row(trial: FrozenTrial) -> dict:
    """A finished trial as a row of the results; a parameter goes before a metric of its name."""
    facts, complete = trial.user_attrs, trial.state == TrialState.COMPLETE
    return {
        **trial.params,
        **facts.get("metrics", {}),
        **trial.params,
        "seconds": facts.get("seconds", math.nan),
        "state": "complete" if complete else "failed",
        "reason": facts.get("reason", "" if complete else "its worker died"),
    }
