"""A storage for sweeps that many workers share, and the patience to wait for it when it is away."""

import contextlib
import math
import random
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from aot_helpers.base.files import check_writable

INSTALL = "pip install 'optuna>=5' papermill, and 'psycopg[binary]' for PostgreSQL"
try:
    import optuna
    import papermill  # noqa: F401  what runs the trials; asked for before any work
    import sqlalchemy
    from optuna.exceptions import StorageInternalError
except ImportError as error:
    raise ImportError(f"a sweep needs {error.name}, which is not installed: {INSTALL}") from error

STORAGE_ERRORS = (StorageInternalError, sqlalchemy.exc.SQLAlchemyError)
AWAY = (sqlalchemy.exc.OperationalError, sqlalchemy.exc.InterfaceError, sqlalchemy.exc.TimeoutError)
# A connection that the network swallowed must not hang a worker for a quarter of an hour.
CONNECTION = {
    "sqlite": {"timeout": 30},
    "postgresql": {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000},
}


def shown(url: str) -> str:
    """A storage URL without its password."""
    return re.sub(r"(password=)[^&]*", r"\1***", re.sub(r"(://[^:/@]*):.*@", r"\1:***@", str(url)))


def last_line(error: BaseException) -> str:
    """Kind and last line of an error; of one in a notebook, not of papermill's around it."""
    kind = getattr(error, "ename", type(error).__name__)
    text = str(getattr(error, "evalue", error)).strip()
    return f"{kind}: {text.splitlines()[-1].strip()}" if text else kind


def _parsed(url: str) -> tuple[sqlalchemy.URL, dict]:
    """The URL as SQLAlchemy has it, and how to connect. Raises ValueError for other storages."""
    if url.count("@") > 1:  # the rest of the password would be taken for the host, and be printed
        raise ValueError(f"{shown(url)} has more than one @: in a password write %40 for it")
    try:
        parsed = sqlalchemy.make_url(re.sub("^postgres:", "postgresql:", url))
    except (sqlalchemy.exc.ArgumentError, ValueError):
        parsed = None
    kind = parsed.get_backend_name() if parsed else ""
    in_memory = kind == "sqlite" and parsed.database in (None, "", ":memory:")
    if kind not in CONNECTION or in_memory:
        raise ValueError(
            f"no storage is known for {shown(url)!r}: give sqlite:///path/to/file.db, or "
            "postgresql://user:password@host/database, which several machines can share"
        )
    drivers = {"postgresql": "postgresql+psycopg"}
    # A new connection for each question: none grows stale while a trial runs.
    options = {"poolclass": sqlalchemy.NullPool, "connect_args": CONNECTION[kind]}
    return parsed.set(drivername=drivers.get(kind, kind)), options


def database_file(url: str) -> Path | None:
    """The file of a SQLite storage."""
    parsed, _ = _parsed(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" else None


def check_storage(url: str) -> None:
    """Raise ValueError for a URL of an unknown kind, OSError for a storage that does not answer."""
    parsed, options = _parsed(url)
    if file := database_file(url):
        check_writable(file.parent)
    try:
        sqlalchemy.inspect(sqlalchemy.create_engine(parsed, **options)).get_table_names()
    except sqlalchemy.exc.SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise ConnectionError(
            f"the storage {shown(url)} does not answer ({last_line(cause)}): start the server, "
            "mend the URL, or leave --storage out for a SQLite file"
        ) from None


@contextlib.contextmanager
def _known_experiment():
    """Optuna calls its heartbeat experimental; its version is pinned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def fail_stale_trials(study: optuna.Study) -> None:
    """End the trials whose workers gave no sign of life for too long."""
    with _known_experiment():
        optuna.storages.fail_stale_trials(study)


@contextlib.contextmanager
def connect(
    url: str,
    heartbeat: int | None = None,
    grace: int | None = None,
    stale: Callable | None = None,
) -> Iterator[optuna.storages.RDBStorage]:
    """Optuna's tables at the URL, made where there are none, also if many make them at once.

    heartbeat, grace: seconds. stale: called with study and trial where a worker died.
    """
    check_storage(url)
    parsed, options = _parsed(url)
    text = parsed.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    for attempt in range(20):
        try:
            with _known_experiment():
                storage = optuna.storages.RDBStorage(
                    text,
                    engine_kwargs=options,
                    heartbeat_interval=heartbeat,
                    grace_period=grace,
                    heartbeat_stale_trial_callback=stale,
                )
            break
        # Whoever comes second finds tables that it was about to make, or half of them.
        except (*STORAGE_ERRORS, AssertionError):
            if attempt == 19:
                raise
            time.sleep(random.uniform(0.1, 0.5))
    if database_file(url):
        # SQLite has no row locks: without this two workers could claim one trial.
        sqlalchemy.event.listen(
            storage.engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None)
        )
        sqlalchemy.event.listen(
            storage.engine, "begin", lambda begun: begun.exec_driver_sql("BEGIN IMMEDIATE")
        )
    try:
        yield storage
    finally:
        storage.remove_session()


class Patience:
    """Asks a storage, and waits for it, in growing pauses, where it does not answer."""

    def __init__(self, seconds: float, log: Callable[[str], None]):
        self.seconds, self.log, self.last_away = seconds, log, -math.inf

    def absence(self, error: BaseException | None) -> str:
        """Why a storage does not answer, from an error or one that led to it; "" for others."""
        while error is not None:
            if isinstance(error, AWAY) or getattr(error, "connection_invalidated", False):
                self.last_away = time.monotonic()
                return last_line(getattr(error, "orig", None) or error)
            error = error.__cause__ or error.__context__
        return ""

    def __call__(self, question: Callable, *arguments, **options):
        """The answer. Raises ConnectionError when the storage stays away for too long."""
        start, pause, limit = None, 0.5, duration(self.seconds)
        while True:
            try:
                answer = question(*arguments, **options)
                break
            except STORAGE_ERRORS as error:
                if not (reason := self.absence(error)):
                    raise
            if start is None:
                start, waiting = self.last_away, f"waiting up to {limit}, no result is lost"
                self.log(f"the storage does not answer ({reason}); {waiting}")
            elif self.last_away - start > self.seconds:
                raise ConnectionError(
                    f"the storage has not answered for {limit} ({reason}): "
                    "once it does, the same command goes on where this one stopped"
                )
            time.sleep(pause * random.uniform(0.8, 1.0))
            pause = min(2 * pause, 30.0)
        if start is not None:
            self.last_away = time.monotonic()
            self.log(f"the storage answers again after {duration(self.last_away - start)}")
        return answer

    @contextlib.contextmanager
    def heartbeat(self, storage, trial_id: int):
        """Signs of life, from a thread that outlives a storage that went away (Optuna's dies)."""
        stop = threading.Event()

        def beat():
            while not stop.wait(storage.get_heartbeat_interval()):
                try:
                    storage.record_heartbeat(trial_id)
                except STORAGE_ERRORS as error:
                    if self.last_away < started:
                        self.log("the storage does not answer; the trial goes on, waiting for it")
                    self.absence(error)
            storage.remove_session()

        started, thread = time.monotonic(), threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def duration(seconds: float) -> str:
    """A length of time, such as "31 s", "18 min" or "2.5 h"."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 99.5 * 60 else f"{seconds / 3600:.1f} h"
