"""Sweeps whose kernels, workers and storages die: every point is done exactly once."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import psutil
import pytest
import sqlalchemy
from optuna.trial import TrialState

from chapters.sweep.run import run_sweep
from chapters.sweep.study import key_of
from sweeps import all_trials, assert_every_point_is_complete_exactly_once, crowd, sweep_in

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "sweep.py"
PASSWORD = "only@for:tests"


@pytest.fixture
def make(tmp_path):
    """Sweeps of a notebook in a folder of the test."""
    return partial(sweep_in, tmp_path)


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
    assert any("done: loss 1.5 in" in line and "1 worker;" in line for line in lines)
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


def test_ctrl_c_gives_the_trial_back_and_ends_its_kernel(make):
    sweep = make({"x": [1, 2], "wait": [30.0]}, name="trial")
    worker = start_worker(sweep, "--workers", "2")
    wait_for(lambda: running(sweep) == 2)
    time.sleep(1)
    below = psutil.Process(worker.pid).children(recursive=True)
    # What a script runs in the background ignores SIGINT, and so does all that it starts.
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    worker.send_signal(signal.SIGTERM if ignored else signal.SIGINT)
    output, _ = worker.communicate(timeout=120)
    assert worker.returncode == 130 and "stopped; the same command goes on" in output
    assert output.count("interrupted: the trial with wait") == 2 and "Traceback" not in output
    assert not psutil.wait_procs(below, timeout=20)[1]
    states = Counter((t.params["x"], t.state.name) for t in all_trials(sweep))
    assert states == {(x, state): 1 for x in (1, 2) for state in ("FAIL", "WAITING")}


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


def start_worker(sweep, *options):
    """A process of the command that works on the sweep."""
    command = [sys.executable, str(TOOL), "--notebook", str(sweep.notebook), "--name", sweep.name]
    command += ["--grid", key_of(sweep.grid), "--folder", str(sweep.folder)]
    command += ["--heartbeat", "1", "--grace", "3", *options]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "STORAGE": sweep.url, "PYTHONPATH": paths}
    return subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def two_workers(sweep):
    """Two processes of the command, each with a trial that runs."""
    workers = [start_worker(sweep) for _ in range(2)]
    wait_for(lambda: running(sweep) == 2)
    return workers


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


def test_a_killed_workers_trial_is_done_by_the_other(make, server):
    grid = {"x": [1, 2, 3, 4], "wait": [2.0]}
    sweep = make(grid, storage=server.url, name="killed")
    workers = two_workers(sweep)
    time.sleep(0.5)
    workers[0].send_signal(signal.SIGKILL)
    output, _ = workers[1].communicate(timeout=240)
    workers[0].communicate(timeout=10)
    assert workers[1].returncode == 0, output
    assert "will be tried again: no sign of life for 3 s" in output
    assert "4 of 4 points done" in output and PASSWORD not in output
    assert_every_point_is_complete_exactly_once(sweep)
    assert TrialState.FAIL in {trial.state for trial in all_trials(sweep)}


def test_workers_wait_for_a_server_that_goes_away(make, server):
    grid = {"x": [1, 2, 3, 4], "wait": [1.0]}
    sweep = make(grid, storage=server.url, name="away")
    workers = two_workers(sweep)
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
