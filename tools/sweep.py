"""Sweep a notebook over a grid, on as many machines as wished: `make sweep`.

The same command goes on where it stopped, on this machine or, with STORAGE=postgresql://…, on any
number of them. When all trials of the autopsy are done, data/results/sweep.json has them.
"""

import argparse
import json
import os
import sys
from pathlib import Path

import pandas

import here
from aot_helpers.base import results
from aot_helpers.base.files import read_json
from chapters.sweep import run as engine
from chapters.sweep.storage import check_storage, database_file, shown

ROOT = here.ROOT


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    default = os.environ.get("STORAGE") or None
    parser.add_argument(
        "--storage",
        default=default,
        metavar="URL",
        help="postgresql://user:password@host/database or sqlite:///file.db; default: $STORAGE, "
        "else sweep.db in the folder",
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="on this machine")
    parser.add_argument("--name", help="of the study; default: the notebook's")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "sweep")
    parser.add_argument("--notebook", type=Path, help="default: the one of the autopsy")
    parser.add_argument("--grid", help="JSON of lists, or a file with it; default: the autopsy's")
    for name, seconds, what in (
        ("timeout", 3600, "a cell may take"),
        ("heartbeat", 30, "between signs of life"),
        ("grace", 120, "without one, then a trial is tried again"),
        ("patience", 600, "to wait for a storage that went away"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=seconds, metavar="S", help=f"seconds {what}"
        )
    parser.add_argument("--dry-run", action="store_true", help="print the grid and what is done")
    options = parser.parse_args(arguments)
    if (options.notebook is None) != (options.grid is None):
        parser.error("--notebook and --grid belong together: give both, or neither")
    return options


def read_grid(text: str) -> dict[str, list]:
    """A grid from JSON, or from a file of JSON."""
    if text.lstrip()[:1] != "{":
        return read_json(Path(text))
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"--grid is no JSON ({error}): give '{{\"seed\": [0, 1]}}'") from None


def make_sweep(options: argparse.Namespace) -> engine.Sweep:
    if options.notebook is None:
        from evidence.support.nb16.set_ups import SWEEP

        notebook, grid, fixed = ROOT / SWEEP["notebook"], SWEEP["grid"], SWEEP["fixed"]
    else:
        notebook, grid, fixed = options.notebook, read_grid(options.grid), {}
    names = ("folder", "storage", "timeout", "heartbeat", "grace", "patience")
    return engine.Sweep(
        Path(notebook).resolve(),
        grid,
        options.name or Path(notebook).stem,
        fixed=fixed,
        **{name: getattr(options, name) for name in names},
    )


def dry_run(sweep: engine.Sweep) -> None:
    """Print every point and what became of it, and run nothing."""
    engine.check_sweep(sweep)
    file, done = database_file(sweep.url), {}
    if file is None or file.is_file():
        check_storage(sweep.url)
        try:
            table = engine.results(sweep.url, sweep.name)
            done = {tuple(row[name] for name in sweep.grid): row for _, row in table.iterrows()}
        except ValueError:  # no study of this name yet
            pass
    for number, point in enumerate(sweep.points(), 1):
        row = done.get(tuple(point.values()))
        what = "to do" if row is None else f"{row.state} {row.reason or f'loss {row.loss:.4g}'}"
        print(f"{number:3}  {', '.join(f'{k}={v}' for k, v in point.items())}: {what}")
    print(f"{len(done)} of {len(sweep.points())} finished; {sweep.name!r} in {shown(sweep.url)}")


def keep(sweep: engine.Sweep, table: pandas.DataFrame) -> None:
    """Write what the autopsy's sweep measured to data/results/sweep.json."""
    trials = table.drop(columns=["state", "reason"]).to_dict("records")
    measured = {"grid": sweep.grid, "fixed": sweep.fixed, "trials": trials}
    results.write("sweep", results.rounded(measured, ".6g"), rows="trials")


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    engine.stop_like_ctrl_c()
    try:
        sweep = make_sweep(options)
        if options.dry_run:
            dry_run(sweep)
            return 0
        table = engine.run_sweep(sweep, options.workers)
    except KeyboardInterrupt:
        print("stopped; the same command goes on where this one stopped")
        return 130
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"make sweep: {error}")
    if (table.state == "complete").sum() < len(sweep.points()):
        return 1
    if options.notebook is None:
        keep(sweep, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
