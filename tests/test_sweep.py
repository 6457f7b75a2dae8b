"""Sweeps: kernels, workers and storages die in the middle, and every point is done exactly once."""

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import nbformat
import psutil
import pytest
import sqlalchemy
from nbformat.v4 import new_code_cell, new_notebook
from optuna.trial import TrialState

from aot_helpers.sweep import run as engine
from aot_helpers.sweep.run import Sweep, results, run_sweep
from aot_helpers.sweep.storage import (
    CONNECTION,
    Patience,
    check_storage,
    duration,
    fail_stale_trials,
)
from aot_helpers.sweep.study import claim, enqueue, key_of, opened, tell

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools" / "sweep.py"
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
PASSWORD = "only@for:tests"
ASK = Patience(60, print)


@pytest.fixture
def notebook(tmp_path):
    cells = [new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]}), new_code_cell(CODE)]
    nb = new_notebook(cells=cells)
    nb.metadata["kernelspec"] = {"display_name": "mine", "language": "python", "name": "python3"}
    nbformat.write(nb, tmp_path / "trial.ipynb")
    return tmp_path / "trial.ipynb"


@pytest.fixture
def make(notebook, tmp_path):
    """Sweeps of the notebook in a folder of the test, with a fast heartbeat."""

    def make(grid=None, **options):
        options = {"folder": tmp_path / "runs", "heartbeat": 1, "grace": 3, **options}
        return Sweep(notebook, grid or {"x": [0, 1, 2]}, **options)

    return make


def all_trials(sweep):
    with opened(sweep, print) as (_, study):
        return study.get_trials(deepcopy=False)


def assert_every_point_is_complete_exactly_once(sweep):
    trials = all_trials(sweep)
    complete = Counter(key_of(t.params) for t in trials if t.state == TrialState.COMPLETE)
    assert complete == {key_of(point): 1 for point in sweep.points()}
    assert all(trial.state.is_finished() for trial in trials)
    assert list(results(sweep.url, sweep.name).x) == [point["x"] for point in sweep.points()]


# One process, SQLite


def test_faults_fail_their_trial_only_and_are_tried_again_by_the_next_run(make, tmp_path):
    kinds = ["plain", "dies", "raises", "nan", "hangs"]
    fixed = {"x": 3, "cure": str(tmp_path / "cured")}
    sweep, lines = make({"what": kinds}, fixed=fixed, timeout=4), []
    table = run_sweep(sweep, log=lines.append).set_index("what")
    assert list(table.index) == kinds
    assert dict(table.state) == dict.fromkeys(kinds, "failed") | {"plain": "complete"}
    assert table.loss["plain"] == 1.5 and table.threads["plain"] >= 1
    assert "died" in table.reason["dies"] and "'loss'" in table.reason["nan"]
    assert table.reason["raises"] == "ValueError: no such luck"
    assert "Timeout" in table.reason["hangs"]
    assert any("trial 1 of 5 done: loss 1.5 in" in line and "1 worker;" in line for line in lines)
    assert "1 of 5 points done; the same command tries the others again" in lines
    assert any("4 failed" in line and "about 0 s left" in line for line in lines)

    (tmp_path / "cured").touch()
    lines.clear()
    again = run_sweep(sweep, log=lines.append).set_index("what")
    assert set(again.state) == {"complete"} and set(again.reason) == {""}
    assert "1 of 5 points done" in lines[0] and lines[-1] == "5 of 5 points done"
    states = Counter((t.params["what"], t.state.name) for t in all_trials(sweep))
    assert states["plain", "COMPLETE"] == 1 and states["dies", "FAIL"] == 1
    assert set(states.values()) == {1}


def test_ctrl_c_gives_the_trial_back_and_ends_its_kernel(make, notebook, tmp_path):
    grid = '{"x": [1, 2], "wait": [30.0]}'
    worker = start_worker(make().url, notebook, tmp_path, grid, "--workers", "2")
    sweep = make({"x": [1, 2], "wait": [30.0]}, name="trial")
    wait_for(lambda: running(sweep) == 2)
    time.sleep(1)
    below = psutil.Process(worker.pid).children(recursive=True)
    # What a script runs in the background ignores SIGINT, and so does all that it starts.
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    worker.send_signal(signal.SIGTERM if ignored else signal.SIGINT)
    output, _ = worker.communicate(timeout=120)
    assert worker.returncode == 130 and "stopped; the same command goes on" in output
    assert output.count("interrupted: the trial with x=") == 2 and "Traceback" not in output
    assert not psutil.wait_procs(below, timeout=20)[1]
    states = Counter((t.params["x"], t.state.name) for t in all_trials(sweep))
    assert states == {(x, state): 1 for x in (1, 2) for state in ("FAIL", "WAITING")}


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


def test_a_study_of_other_settings_is_refused(make, notebook):
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
    code = "import sys; sys.modules['optuna'] = None; import aot_helpers.sweep.run"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "optuna, which is not installed: pip install 'optuna>=5'" in done.stderr


def test_the_command_shows_what_it_would_do(make, notebook, tmp_path, capsys, monkeypatch):
    import importlib.util

    monkeypatch.setenv("STORAGE", "")
    spec = importlib.util.spec_from_file_location("sweep_command", TOOL)
    command = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(command)
    monkeypatch.setattr(command.engine, "stop_like_ctrl_c", lambda: None)
    (tmp_path / "grid.json").write_text('{"x": [4, 6]}')
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


def test_a_trial_taken_for_dead_counts_once_and_its_result_is_kept(make, monkeypatch):
    """As when the storage was away from one worker only, and another called the trial dead."""
    sweep, lines, run = make(), [], []

    def run_and_lose_once(sweep, trial, folder):
        run.append(trial.params["x"])
        if len(run) == 1:
            with opened(sweep, print) as (storage, _):
                storage.set_trial_state_values(trial._trial_id, TrialState.FAIL)
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
                assert tell(storage, trial, TrialState.FAIL)
        enqueue(study, make({"x": [0]}), failed=True)
        assert len(study.get_trials(states=(TrialState.WAITING,))) == 1


def test_a_trial_without_signs_of_life_is_ended_and_a_living_one_is_not(make):
    lines, sweep = [], make()
    with opened(sweep, lines.append) as (storage, study):
        enqueue(study, sweep)
        dead, alive = study.get_trials()[:2]
        assert claim(storage, study, dead, ASK) and claim(storage, study, alive, ASK)
        with Patience(9, print).heartbeat(storage, alive._trial_id):
            time.sleep(sweep.grace + 1.5)
            fail_stale_trials(study)
        states = [trial.state.name for trial in study.get_trials()]
        assert states == ["FAIL", "RUNNING", "WAITING"]
        assert lines == ["trial 0 will be tried again: no sign of life for 3 s"]
        assert not tell(storage, dead, TrialState.COMPLETE, [1.0], metrics={"loss": 1.0})
        assert tell(storage, alive, TrialState.COMPLETE, [1.0], metrics={"loss": 1.0})
        assert tell(storage, alive, TrialState.COMPLETE, [1.0])  # the answer had been lost


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


def test_workers_that_start_at_once_claim_every_point_once(make):
    assert sorted(crowd(make({"x": list(range(8))}))) == list(range(8))


def test_patience_waits_and_says_so_and_ends(monkeypatch):
    lines, pauses, answers = [], [], ["late", None, None, None]
    monkeypatch.setattr(time, "sleep", pauses.append)

    def ask(word):
        if answer := answers.pop():
            return answer + word
        raise sqlalchemy.exc.OperationalError("SELECT", {}, OSError("connection refused"))

    assert Patience(60, lines.append)(ask, "!") == "late!"
    assert "connection refused" in lines[0] and "waiting up to 60 s" in lines[0]
    assert "answers again" in lines[1] and len(lines) == 2
    assert len(pauses) == 3 and pauses == sorted(pauses)
    answers += [None] * 3
    with pytest.raises(ConnectionError, match="0 s.*same command goes on"):
        Patience(0, lines.append)(ask, "!")
    with pytest.raises(sqlalchemy.exc.ProgrammingError):  # our mistake, not an absence
        Patience(60, print)(
            lambda: (_ for _ in ()).throw(sqlalchemy.exc.ProgrammingError("", {}, OSError()))
        )


def test_an_absence_is_seen_behind_the_errors_that_it_causes(monkeypatch):
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

    assert Patience(60, lines.append)(ask) == "late"
    assert "server closed" in lines[0] and "answers again" in lines[1]


def test_lengths_of_time():
    assert [duration(s) for s in (31, 1080, 9000)] == ["31 s", "18 min", "2.5 h"]


# Several processes, PostgreSQL


def find_postgres():
    """The folder of initdb and pg_ctl, and the user to run them as; or why there is none."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        return None, None, "no PostgreSQL here (Debian: apt install postgresql)"
    if os.getuid() != 0:
        return folders[-1], None, None
    import pwd

    with contextlib.suppress(KeyError):
        if shutil.which("setpriv"):
            return folders[-1], pwd.getpwnam("postgres"), None
    return None, None, "PostgreSQL refuses root, and there is no user postgres or no setpriv"


class Server:
    """A PostgreSQL server of the test's own, on a free port."""

    def __init__(self):
        self.bin, self.user, reason = find_postgres()
        if reason:
            pytest.skip(reason)
        self.folder = Path(tempfile.mkdtemp(prefix="aot-postgres-"))
        (self.folder / "password").write_text(PASSWORD)
        if self.user:
            for path in (self.folder, self.folder / "password"):
                os.chown(path, self.user.pw_uid, self.user.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        secret = ["--auth=scram-sha-256", f"--pwfile={self.folder / 'password'}"]
        self.call("initdb", "-U", "sweeper", "--no-locale", "-E", "UTF8", "--no-sync", *secret)
        quoted = PASSWORD.replace("@", "%40").replace(":", "%3A")
        self.url = f"postgresql://sweeper:{quoted}@127.0.0.1:{self.port}/postgres"

    def call(self, program, *arguments):
        who = []
        if self.user:
            who = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}"]
            who += ["--clear-groups"]
        command = [*who, str(self.bin / program), "-D", str(self.folder / "data"), *arguments]
        with open(self.folder / "calls.log", "ab") as log:
            subprocess.run(command, cwd=self.folder, check=True, stdout=log, stderr=log)

    def start(self):
        options = f"-F -p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        self.call("pg_ctl", "-w", "-l", str(self.folder / "server.log"), "-o", options, "start")

    def stop(self):
        self.call("pg_ctl", "-w", "-m", "immediate", "stop")


@pytest.fixture(scope="module")
def server():
    server = Server()
    try:
        server.start()
        yield server
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            server.stop()
        shutil.rmtree(server.folder)


def start_worker(url, notebook, folder, grid, *options):
    command = [sys.executable, str(TOOL), "--notebook", str(notebook), "--grid", grid]
    command += ["--folder", str(folder / "runs"), "--heartbeat", "1", "--grace", "3", *options]
    environment = {**os.environ, "STORAGE": url, "PYTHONPATH": path_of_imports()}
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def two_workers(sweep, notebook, tmp_path):
    """Two processes of the command, each with a trial that runs."""
    command = sweep.url, notebook, tmp_path, key_of(sweep.grid), "--name", sweep.name
    workers = [start_worker(*command) for _ in range(2)]
    wait_for(lambda: running(sweep) == 2)
    return workers


def path_of_imports():
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])


def running(sweep):
    """How many trials run; 0 where the study is not there yet."""
    query = "SELECT count(*) FROM trials JOIN studies USING (study_id)"
    query += f" WHERE study_name = '{sweep.name}' AND state = 'RUNNING'"
    url = sweep.url.replace("postgresql:", "postgresql+psycopg:")
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with contextlib.suppress(sqlalchemy.exc.SQLAlchemyError), engine.connect() as connection:
        return connection.execute(sqlalchemy.text(query)).scalar()
    return 0


def wait_for(condition, seconds=150):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.2)


def raised_in(output, *packages):
    """Lines of tracebacks in these packages; a kernel that is shut down may print one of zmq's."""
    frames = [line for line in output.splitlines() if line.lstrip().startswith('File "')]
    return [line for line in frames if any(f"/{package}/" in line for package in packages)]


def test_workers_that_start_at_once_claim_every_point_once_on_postgres(make, server):
    sweep = make({"x": list(range(8))}, storage=server.url, name="crowd")
    assert sorted(crowd(sweep)) == list(range(8))


def test_a_killed_workers_trial_is_done_by_the_other(make, server, notebook, tmp_path):
    grid = {"x": [1, 2, 3, 4], "wait": [2.0]}
    sweep = make(grid, storage=server.url, name="killed")
    workers = two_workers(sweep, notebook, tmp_path)
    time.sleep(0.5)
    workers[0].send_signal(signal.SIGKILL)
    output, _ = workers[1].communicate(timeout=240)
    workers[0].communicate(timeout=10)
    assert workers[1].returncode == 0, output
    assert "will be tried again: no sign of life for 3 s" in output
    assert "4 of 4 points done" in output and PASSWORD not in output
    assert_every_point_is_complete_exactly_once(sweep)
    assert TrialState.FAIL in {trial.state for trial in all_trials(sweep)}


def test_workers_wait_for_a_server_that_goes_away(make, server, notebook, tmp_path):
    grid = {"x": [1, 2, 3, 4], "wait": [1.0]}
    sweep = make(grid, storage=server.url, name="away")
    workers = two_workers(sweep, notebook, tmp_path)
    server.stop()
    time.sleep(6)  # longer than a trial, and than the grace
    server.start()
    outputs = [worker.communicate(timeout=240)[0] for worker in workers]
    for worker, output in zip(workers, outputs, strict=True):
        assert worker.returncode == 0, output
        assert "the storage does not answer" in output and "no result is lost" in output
        assert "the storage answers again after" in output
        assert not raised_in(output, "aot_helpers", "optuna", "sqlalchemy", "psycopg"), output
    assert_every_point_is_complete_exactly_once(sweep)
    # Nobody called the other dead for the time in which nobody could show signs of life.
    assert TrialState.FAIL not in {trial.state for trial in all_trials(sweep)}, outputs
