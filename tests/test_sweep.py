"""Sweeps without kernels: what is refused, who may claim a trial, and a storage that goes away."""

import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy
from optuna.trial import TrialState

from chapters.sweep import run as engine
from chapters.sweep.run import Sweep, results, run_sweep
from chapters.sweep.storage import (
    CONNECTION,
    Patience,
    check_storage,
    duration,
    fail_stale_trials,
)
from chapters.sweep.study import claim, enqueue, id_of, opened, tell
from sweeps import ASK, assert_every_point_is_complete_exactly_once, crowd, sweep_in

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools" / "sweep.py"


@pytest.fixture
def make(tmp_path):
    """Sweeps of a notebook in a folder of the test."""
    return partial(sweep_in, tmp_path)


# Bad input, before any work


@pytest.mark.parametrize("url", ["mysql://u:secret@h/d", "sqlite://", "runs/x.db", "postgresql:/"])
def test_unknown_storages_are_refused_without_their_password(url, make):
    with pytest.raises(ValueError, match=r"sqlite:///path.*postgresql://") as told:
        check_storage(url)
    assert "secret" not in str(told.value)
    with pytest.raises(ValueError, match="sqlite:///path"):
        run_sweep(make(storage=url))


def test_a_server_that_is_not_there_is_named_without_its_password(make):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"postgresql://me:se%40cret@127.0.0.1:{nobody.getsockname()[1]}/db"
        with pytest.raises(ConnectionError, match=r"me:\*\*\*@127.*start the server") as told:
            run_sweep(make(storage=url))
    assert "cret" not in str(told.value)
    with pytest.raises(ValueError, match=r"me:\*\*\*@host.*%40") as told:
        run_sweep(make(storage="postgresql://me:se@cret@host/db"))
    assert "cret" not in str(told.value)


def test_a_file_that_is_no_database_is_named(make, tmp_path):
    (tmp_path / "notes.db").write_text("not a database, but long enough to have a header" * 9)
    with pytest.raises(ConnectionError, match="notes.db.*not a database"):
        run_sweep(make(storage=f"sqlite:///{tmp_path / 'notes.db'}"))


def test_a_study_of_other_settings_is_refused(make, tmp_path):
    notebook = tmp_path / "trial.ipynb"
    with opened(make(), print):
        pass
    for other in (make({"x": [0, 1]}), make(fixed={"wait": 1.0})):
        with pytest.raises(ValueError, match=r"'sweep'.*now.*another --name"):
            run_sweep(other)
    with pytest.raises(ValueError, match=r"values of x: \[0, 1, 2\], now \[0, 1\]"):
        run_sweep(make({"x": [0, 1]}))
    notebook.write_text(notebook.read_text().replace("no such luck", "changed"))
    with pytest.raises(ValueError, match=r"code of the notebook.*another --name"):
        run_sweep(make())
    with opened(make(name="another"), print):
        pass


@pytest.mark.parametrize(
    "grid, told",
    [
        ({"x": []}, "'x'.*different"),
        ({"x": [1, 1.0]}, "'x'.*different"),
        ({"x": 3}, "'x'.*list"),
        ({"x": [float("nan")]}, "'x'"),
        ({"x": [[1]]}, "'x'"),
        ({"wait": [1.0], "x": [0]}, "'wait'.*fixed"),
    ],
)
def test_a_grid_must_be_lists_of_different_values(make, grid, told):
    with pytest.raises(ValueError, match=told):
        make(grid, fixed={"wait": 2.0})


def test_wrong_names_and_numbers_are_told_before_any_work(make, tmp_path):
    with pytest.raises(ValueError, match="'y'.*there are: cure, output"):
        run_sweep(make({"y": [1]}))
    with pytest.raises(ValueError, match="workers.*0"):
        run_sweep(make(), workers=0)
    with pytest.raises(ValueError, match="grace.*two heartbeats.*got 1"):
        make(grace=1)
    with pytest.raises(ValueError, match="a name with"):
        make(name="a name with/slash")
    with pytest.raises(FileNotFoundError, match="gone.ipynb"):
        run_sweep(Sweep(tmp_path / "gone.ipynb", {"x": [1]}))
    with pytest.raises(FileNotFoundError, match=r"gone.db.*run one"):
        results(f"sqlite:///{tmp_path / 'gone.db'}", "sweep")
    assert not (tmp_path / "runs").exists() and not (tmp_path / "gone.db").exists()
    with opened(make(folder=tmp_path), print):
        pass
    with pytest.raises(ValueError, match="'sweeep'.*'sweep'"):
        results(make(folder=tmp_path).url, "sweeep")


def test_without_optuna_the_error_names_the_remedy():
    code = "import sys; sys.modules['optuna'] = None; import chapters.sweep.run"
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "notebooks")])}
    done = subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, text=True)
    assert "optuna, which is not installed: pip install 'optuna>=5'" in done.stderr


def test_the_command_shows_what_it_would_do(make, tmp_path, capsys, monkeypatch):
    import importlib.util

    monkeypatch.setenv("STORAGE", "")
    spec = importlib.util.spec_from_file_location("sweep_command", TOOL)
    command = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(command)
    monkeypatch.setattr(command.engine, "stop_like_ctrl_c", lambda: None)
    (tmp_path / "grid.json").write_text('{"x": [4, 6]}')
    notebook = make().notebook
    where = ["--notebook", str(notebook), "--folder", str(tmp_path / "runs")]
    where += ["--grid", str(tmp_path / "grid.json")]
    assert command.main([*where, "--dry-run"]) == 0
    assert "x=4: to do" in capsys.readouterr().out and not (tmp_path / "runs").exists()
    monkeypatch.setattr(engine, "_run", lambda sweep, trial, folder: {"loss": trial.params["x"]})
    assert command.main(where) == 0
    assert command.main([*where, "--dry-run"]) == 0
    assert "x=6: complete loss 6" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="grid is no JSON.*give"):
        command.main(["--notebook", str(notebook), "--grid", "{x}"])
    with pytest.raises(SystemExit):
        command.main(["--grid", "{}"])


# What workers do to each other, without kernels


def test_a_sweep_whose_first_trials_all_fail_alike_stops_and_names_why(make, monkeypatch):
    sweep, lines, ran = make({"x": list(range(6))}), [], []

    def fail(sweep, trial, folder):
        ran.append(trial.params["x"])
        raise ValueError("no such luck")

    monkeypatch.setattr(engine, "_run", fail)
    for times in (1, 2):  # what failed before this run does not count
        with pytest.raises(ValueError, match="first trials all failed, with ValueError: no such"):
            run_sweep(sweep, log=lines.append)
        assert len(ran) == 3 * times
    assert not any("about 0 s" in line for line in lines) and "time left unknown" in lines[0]
    monkeypatch.setattr(engine, "_run", lambda sweep, trial, folder: {"loss": 1.0})
    run_sweep(sweep, log=lines.append)
    assert_every_point_is_complete_exactly_once(sweep)


def test_a_trial_taken_for_dead_counts_once_and_its_result_is_kept(make, monkeypatch):
    """As when the storage was away from one worker only, and another called the trial dead."""
    sweep, lines, run = make(), [], []

    def run_and_lose_once(sweep, trial, folder):
        run.append(trial.params["x"])
        if len(run) == 1:
            with opened(sweep, print) as (storage, study):
                assert tell(storage, study, trial, TrialState.FAIL)
        return {"loss": 1.0}

    monkeypatch.setattr(engine, "_run", run_and_lose_once)
    run_sweep(sweep, log=lines.append)
    assert sorted(run) == [0, 1, 2]  # none of them twice
    assert any("taken for dead" in line for line in lines)
    assert_every_point_is_complete_exactly_once(sweep)
    assert not list((sweep.folder / sweep.name).glob("untold-*"))


def test_results_outlive_a_storage_that_is_away(make, monkeypatch):
    """A locked file: too long for the patience of the first run, a second for that of the next."""
    monkeypatch.setitem(CONNECTION, "sqlite", {"timeout": 0.1})
    sweep, lines, ran = make({"x": [0, 1]}, patience=1), [], []
    with opened(sweep, print):
        file = sweep.folder / "sweep.db"
    lock = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    free = threading.Timer(1.5, lock.execute, ["ROLLBACK"])

    def run_and_lock(sweep, trial, folder):
        ran.append(trial.params["x"])
        lock.execute("BEGIN EXCLUSIVE")
        if len(ran) == 2:
            free.start()
        return {"loss": 1.0}

    monkeypatch.setattr(engine, "_run", run_and_lock)
    with pytest.raises(ConnectionError, match="not answered for 1 s.*locked.*same command goes on"):
        run_sweep(sweep, log=lines.append)
    lock.execute("ROLLBACK")
    assert len(ran) == 1 and any("locked); waiting up to 1 s" in line for line in lines)
    run_sweep(make({"x": [0, 1]}), log=lines.append)
    assert sorted(ran) == [0, 1]  # the first result was on disk, the second in hand
    assert any("answers again after" in line for line in lines)
    assert_every_point_is_complete_exactly_once(sweep)
    free.join()
    lock.close()


def test_a_worker_that_keeps_dying_ends_its_trial_after_three_more(make):
    with opened(make({"x": [0]}), print) as (storage, study):
        for times in range(5):
            enqueue(study, make({"x": [0]}))
            waiting = study.get_trials(states=(TrialState.WAITING,))
            assert len(waiting) == (1 if times < 4 else 0)
            for trial in waiting:
                assert claim(storage, study, trial, ASK)
                assert tell(storage, study, trial, TrialState.FAIL)
        enqueue(study, make({"x": [0]}), failed=True)
        assert len(study.get_trials(states=(TrialState.WAITING,))) == 1


def test_a_trial_without_signs_of_life_is_ended_and_a_living_one_is_not(make):
    lines, sweep = [], make()
    with opened(sweep, lines.append) as (storage, study):
        enqueue(study, sweep)
        dead, alive = study.get_trials()[:2]
        assert claim(storage, study, dead, ASK) and claim(storage, study, alive, ASK)
        with Patience(9, print).heartbeat(storage, id_of(storage, study, alive)):
            time.sleep(sweep.grace + 1.5)
            fail_stale_trials(study)
        states = [trial.state.name for trial in study.get_trials()]
        assert states == ["FAIL", "RUNNING", "WAITING"]
        assert lines == ["trial 0 will be tried again: no sign of life for 3 s"]
        assert not tell(storage, study, dead, TrialState.COMPLETE, [1.0], metrics={"loss": 1.0})
        assert tell(storage, study, alive, TrialState.COMPLETE, [1.0], metrics={"loss": 1.0})
        assert tell(storage, study, alive, TrialState.COMPLETE, [1.0])  # the answer had been lost


def test_workers_that_start_at_once_claim_every_point_once(make):
    assert sorted(crowd(make({"x": list(range(8))}))) == list(range(8))


def test_patience_tells_an_absence_from_a_mistake_of_ours(monkeypatch):
    """Optuna asks again in the broken transaction, and SQLAlchemy then complains of that."""
    lines, answers = [], ["late", None]
    monkeypatch.setattr(time, "sleep", lambda seconds: None)

    def ask():
        if answer := answers.pop():
            return answer
        try:
            raise sqlalchemy.exc.OperationalError("SELECT", {}, OSError("server closed"))
        except sqlalchemy.exc.OperationalError:
            raise sqlalchemy.exc.PendingRollbackError("roll back first")  # noqa: B904

    def mistake():
        raise sqlalchemy.exc.ProgrammingError("", {}, OSError())

    assert Patience(60, lines.append)(ask) == "late"
    assert "server closed" in lines[0] and "answers again" in lines[1]
    with pytest.raises(sqlalchemy.exc.ProgrammingError):
        Patience(60, print)(mistake)


def test_lengths_of_time():
    assert [duration(s) for s in (31, 1080, 9000)] == ["31 s", "18 min", "2.5 h"]
