"""Run the numbered notebooks, two at a time, and report time, peak memory and claims.

Executed copies and the summary go to runs/. With --in-place, and only if every notebook that was
run succeeds, their copies are cleaned and replace them (publish.py); the others stay as they are.
"""

import argparse
import ast
import contextlib
import json
import math
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import nbformat
import papermill
import psutil
from papermill.exceptions import PapermillException

import here
import publish
from chapters.sweep.kernels import execute, stop_like_ctrl_c
from which import COLLECTIONS, changed, select

ROOT = here.ROOT
MEMORY_LIMIT_MB = 1200  # Binder gives about 2 GB, for JupyterLab and the kernel together
CELL_TIMEOUT_S = 900


def longest_first(notebooks: list[Path], root: Path) -> list[Path]:
    """The notebooks by the seconds they last took, so that no long one starts when others end."""
    path = root / "data" / "results" / "notebooks.json"
    known = json.loads(path.read_text())["notebooks"] if path.exists() else {}
    seconds = {name: each["seconds"] for name, each in known.items()}
    return sorted(notebooks, key=lambda each: -seconds.get(publish.key(each), math.inf))


class KernelWatch(threading.Thread):
    """Samples the memory and the processor's time of our child processes: the kernel and its own.

    Pages of files, such as PyTorch's code, are counted once, for the process that has most of them.
    The processor's seconds are, on one thread, those of a machine that does nothing else; those of
    a clock would count the neighbors too.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.peak_mb = 0.0
        self.seconds = {}  # by process
        self.stopped = threading.Event()

    def run(self):
        while not self.stopped.wait(0.1):
            own, shared = 0, [0]
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):  # it may have ended since it was listed
                    memory = process.memory_info()
                    # Other systems than Linux do not say what is shared.
                    shared.append(getattr(memory, "shared", 0))
                    own += memory.rss - shared[-1]
                    spent = process.cpu_times()
                    self.seconds[process.pid] = spent.user + spent.system
            self.peak_mb = max(self.peak_mb, (own + max(shared)) / 1e6)


def count_checks(copy: Path) -> int:
    """How many lines of an executed copy's printed output begin with `check passed:`."""
    cells = nbformat.read(copy, as_version=4).cells if copy.exists() else []
    outputs = [out for cell in cells for out in cell.get("outputs", [])]
    text = "\n".join(out.text for out in outputs if out.output_type == "stream")
    return len(re.findall(r"^check passed:", text, flags=re.M))


def count_claims(results: Path, notebook: Path) -> int:
    """How many claims a notebook has written to its ledger."""
    path = publish.claims_file(results, notebook)
    made = path is not None and path.exists()
    return len(json.loads(path.read_text(encoding="utf-8"))["claims"]) if made else 0


def failed_cell(copy: Path) -> str:
    """Where papermill stopped: the number JupyterLab shows beside the last cell it started."""
    started = []
    if copy.exists():
        cells = [c for c in nbformat.read(copy, as_version=4).cells if c.cell_type == "code"]
        states = [c.metadata.get("papermill", {}).get("status", "pending") for c in cells]
        started = [number for number, state in enumerate(states, 1) if state != "pending"]
    return f"cell [{started[-1]}]" if started else "before the first cell"


def run_notebook(source: Path, copy: Path, parameters: dict) -> dict:
    """Execute one notebook into `copy`; the result has an `error` where it failed."""
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.unlink(missing_ok=True)
    watch, error = KernelWatch(), None
    as_run = publish.sha256(source)
    watch.start()
    try:
        # papermill itself only warns of a mistyped name.
        known = papermill.inspect_notebook(source) if parameters else {}
        for name in parameters:
            if name not in known:
                raise ValueError(f"no parameter {name!r}; there are {', '.join(known) or 'none'}")
        execute(source, copy, parameters, CELL_TIMEOUT_S)
    # Dead kernels are RuntimeErrors, time-outs OSErrors, notebooks that are not JSON ValueErrors.
    except (PapermillException, RuntimeError, OSError, ValueError, LookupError) as problem:
        kind = getattr(problem, "ename", type(problem).__name__)
        error = f"{failed_cell(copy)}: {kind}: {getattr(problem, 'evalue', problem)}"
    finally:
        watch.stopped.set()
        watch.join()
    if error is None and watch.peak_mb > MEMORY_LIMIT_MB:
        error = f"its kernel took {watch.peak_mb:.0f} MB, more than {MEMORY_LIMIT_MB} MB"
    return {
        "notebook": publish.key(source),
        "source_sha256": as_run,
        "seconds": round(sum(watch.seconds.values()), 1),
        "peak_mb": round(watch.peak_mb),
        "claims": count_claims(Path(os.environ["AOT_RESULTS"]), source),
        "checks": count_checks(copy),
        "error": error,
    }


def outcome(result: dict) -> str:
    """What came of a run: failed, or how many claims and checks there were, if any."""
    counted = [f"{n} {name}" for name in ("claims", "checks") if (n := result[name])]
    return "failed" if result["error"] else ", ".join(counted) or "ran"


def write_summary(results: list[dict], runs: Path) -> None:
    """Write runs/summary.json and runs/summary.md."""
    (runs / "summary.json").write_text(json.dumps(results, indent=1) + "\n")
    lines = ["| Notebook | Seconds | Peak memory (MB) | Outcome |", "|---|--:|--:|---|"]
    for r in results:
        said = " ".join((r["error"] or outcome(r)).split()).replace("|", "\\|")
        lines.append(f"| {r['notebook']} | {r['seconds']} | {r['peak_mb']} | {said} |")
    (runs / "summary.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_all(notebooks: list[Path], parameters: dict, runs: Path, jobs: int) -> list[dict]:
    """Run the notebooks, `jobs` at a time, a line for each; a failure does not stop the others."""
    runs.mkdir(parents=True, exist_ok=True)
    results, running = {}, {}
    # Each in a process of its own, so that its memory can be told from the others'.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        for source in notebooks:
            copy = runs / f"{publish.key(source)}.ipynb"
            running[pool.submit(run_notebook, source, copy, parameters)] = source
        for number, done in enumerate(as_completed(running), 1):
            result = results[running[done]] = done.result()
            print(
                f"[{number}/{len(notebooks)}] {result['notebook']} {result['seconds']} s, "
                f"{result['peak_mb']} MB, {outcome(result)}",
                flush=True,
            )
            write_summary([results[each] for each in notebooks if each in results], runs)
    except KeyboardInterrupt:
        # The pool itself waits for its workers: if psutil did, it would take their exit codes, and
        # the pool, which then never learns that they ended, would ask for ever.
        workers, kernels = multiprocessing.active_children(), []
        for worker in workers:
            with contextlib.suppress(psutil.Error):  # it may have ended since it was listed
                kernels += psutil.Process(worker.pid).children(recursive=True)
            worker.kill()
        for kernel in kernels:
            with contextlib.suppress(psutil.Error):
                kernel.kill()
        psutil.wait_procs(kernels, timeout=5)
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    return [results[each] for each in notebooks]


def parameter_value(text: str):
    """A number, True, False, None or a quoted string as Python reads it; else plain text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="PREFIX", help="such as 00 05")
    parser.add_argument(
        "-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help="a parameter"
    )
    parser.add_argument("--collection", choices=COLLECTIONS, default="tours")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--in-place", action="store_true", help="replace the notebooks")
    parser.add_argument("--changed", action="store_true", help="those changed since the commit")
    parser.add_argument("--list", action="store_true", help="only list them, longest first")
    parser.add_argument("--verify", action="store_true", help="only check that they are stripped")
    parser.add_argument("--strip", action="store_true", help="only strip them; outputs stay")
    options = parser.parse_args(arguments)
    if options.in_place and options.p:
        parser.error("--in-place takes no -p: committed notebooks have the default parameters")
    if options.jobs < 1:
        parser.error(f"--jobs must be 1 or more, got {options.jobs}")
    notebooks = select(root / "notebooks", options.only, options.collection)
    if options.verify or options.strip:
        return publish.strip(notebooks, *["--verify"] * options.verify)
    if options.list:
        print(*(path.relative_to(root) for path in longest_first(notebooks, root)), sep="\n")
        return 0
    if options.changed:
        notebooks = changed(notebooks, root)

    parameters = {name: parameter_value(value) for name, value in options.p}
    kept = root / "runs" / "results"
    # The kernels inherit these. One waiting thread is faster than two that spin.
    os.environ["AOT_RESULTS"] = str(kept)
    os.environ["AOT_PROGRESS"] = "off"  # a run of all notebooks solves no exercise for the reader
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    kept.mkdir(parents=True, exist_ok=True)
    for path in notebooks:  # claims that a notebook no longer makes must not stay
        if ledger := publish.claims_file(kept, path):
            ledger.unlink(missing_ok=True)
    start = time.perf_counter()
    stop_like_ctrl_c()
    try:
        results = run_all(notebooks, parameters, root / "runs", options.jobs)
    except KeyboardInterrupt:
        print("\nstopped; the notebooks are unchanged")
        return 130
    failed = [r for r in results if r["error"]]
    for r in failed:
        print(f"FAILED {r['notebook']}: {r['error']}")
    took = time.perf_counter() - start
    print(
        f"{len(results) - len(failed)} of {len(results)} notebooks ran in {took:.0f} s, "
        f"{options.jobs} at a time; see runs/summary.md"
    )
    if options.in_place and not failed:
        publish.publish(notebooks, results, root)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
