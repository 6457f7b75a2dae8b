"""The runner with real kernels: progress, summary, failures, limits, and notebooks put in place."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

import notebooks
from test_publish import project, read, write  # noqa: F401


def test_a_run_is_reported_and_a_failure_does_not_stop_the_others(project, capsys):  # noqa: F811
    names = ("AOT_RESULTS", "AOT_PROGRESS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    asks = (
        "import os\nfrom ipykernel.connect import get_connection_info\n"
        f"print([os.environ[n] for n in {names}], os.getcwd())\n"
        "print(get_connection_info(unpack=True)['transport'])"
    )
    checks = "print('check passed: a = 1')\nprint('no check passed: b')\nprint('check passed: c')"
    write(project, "00_first", checks, asks)
    write(project, "01_dies", "import os\nos._exit(1)")
    write(project, "02_third", "y = 1", "raise ValueError('too | small')", "z = 2")
    (project / "notebooks/03_damaged.ipynb").write_text("{ not a notebook")
    # Long enough for the memory to be sampled; asleep, it takes none of the processor's seconds.
    works = "while time.process_time() < 4:\n    pass\ntime.sleep(4)"
    write(project, "04_large", f"import time\nx = b'1' * 100_000_000\n{works}")

    assert notebooks.main(["--jobs", "2"], root=project) == 1
    said = capsys.readouterr().out
    assert "00_first" in said and "MB, 2 checks\n" in said and "0 checks" not in said
    assert "FAILED 01_dies: cell [2]: DeadKernelError" in said
    assert "FAILED 02_third: cell [3]: ValueError: too | small" in said
    assert "FAILED 03_damaged: before the first cell" in said
    assert "2 of 5 notebooks ran" in said
    first, *_, large = json.loads((project / "runs/summary.json").read_text())
    assert (first["notebook"], first["checks"], first["error"]) == ("00_first", 2, None)
    assert 100 < large["peak_mb"] < 800 and 3.5 < large["seconds"] < 7
    assert "| 00_first |" in (project / "runs/summary.md").read_text()
    copy = read(project / "runs/00_first.ipynb")
    assert [c.execution_count for c in copy.cells if c.cell_type == "code"] == [1, 2, 3]
    for part in (project / "runs/results", "'off'", project / "notebooks"):
        assert str(part) in copy.cells[-1].outputs[0].text
    # By files and not by ports, which two kernels may both take for free.
    if os.name == "posix":
        assert copy.cells[-1].outputs[0].text.endswith("\nipc\n")


def test_parameters_and_the_limit_of_memory(project, monkeypatch):  # noqa: F811
    monkeypatch.setenv("AOT_RESULTS", str(project / "runs/results"))
    write(project, "00_first", "assert n == 5, n\nimport time\ntime.sleep(1)", parameters="n = 3")
    files = project / "notebooks/00_first.ipynb", project / "runs/00_first.ipynb"
    assert notebooks.run_notebook(*files, {"n": 5})["error"] is None
    assert (
        "before the first cell: ValueError: no parameter 'm'; there are n"
        in (notebooks.run_notebook(*files, {"m": 5})["error"])
    )
    monkeypatch.setattr(notebooks, "MEMORY_LIMIT_MB", 20)
    assert "more than 20 MB" in notebooks.run_notebook(*files, {"n": 5})["error"]


def test_in_place(project, capsys):  # noqa: F811
    save = (
        "import os, pathlib\n"
        "folder = pathlib.Path(os.environ['AOT_RESULTS'])\n"
        "for name in ('figures/00-new.gif', 'figures/01-other.gif', 'claims/00.json'):\n"
        "    (folder / name).parent.mkdir(parents=True, exist_ok=True)\n"
        '    (folder / name).write_text(\'{"claims": {"00.1": 1}}\')'
    )
    write(project, "00_first", "n", parameters="n: int = 3")
    write(project, "00_first", save, parameters="n: int = 3", collection="evidence")
    write(project, "01_second", "1 / 0")
    kept = project / "data/results/figures"
    kept.mkdir(parents=True)
    for name in ("00-old.gif", "02-kept.gif"):
        (kept / name).write_bytes(b"old")
    only = ["--in-place", "--collection", "both", "--only", "00"]
    assert notebooks.main(only, root=project) == 0
    assert "MB, 1 claims\n" in capsys.readouterr().out

    nb = read(project / "notebooks/00_first.ipynb")
    assert [c.execution_count for c in nb.cells[1:]] == [1, 2, 3]
    assert nb.cells[2].metadata == {"tags": ["parameters"]}
    assert nb.cells[0].metadata == nb.cells[1].metadata == {}
    assert set(nb.metadata) == {"aot", "kernelspec", "language_info"}
    assert nb.metadata.kernelspec.name == "python3"
    assert notebooks.main(["--verify", "--collection", "both"], root=project) == 0
    assert {path.name for path in kept.iterdir()} == {"00-new.gif", "02-kept.gif"}
    assert json.loads((kept.parent / "claims/00.json").read_text()) == {"claims": {"00.1": 1}}
    record = json.loads((kept.parent / "notebooks.json").read_text())
    assert list(record["notebooks"]) == ["00_first", "evidence/00_first"]

    paths = [project / "README.md", *(project / "notebooks").rglob("*.ipynb")]
    before = [path.read_bytes() for path in paths]
    assert notebooks.main(["--in-place"], root=project) == 1  # 01_second fails
    assert [path.read_bytes() for path in paths] == before


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_stop_the_kernel_too(project, number):  # noqa: F811
    write(project, "00_first", "import time\ntime.sleep(100)")
    # In the background of a shell, processes ignore SIGINT unless told otherwise.
    code = "import signal, sys, pathlib, notebooks\n"
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "sys.exit(notebooks.main([], pathlib.Path('.')))"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=project,
        env={**os.environ, "PYTHONPATH": os.path.dirname(notebooks.__file__)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    copy = project / "runs/00_first.ipynb"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (copy.exists() and "running" in copy.read_text()):
        time.sleep(0.2)
    kernels = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "stopped" in out and "Traceback" not in err
    _, alive = psutil.wait_procs(kernels, timeout=10)
    alive = [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]
    assert kernels and not alive
