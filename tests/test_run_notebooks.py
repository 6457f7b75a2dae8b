"""The runner: progress, summary, failures, limits, and putting notebooks back in place."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import publish
import run_notebooks

PYPROJECT = '[tool.aot]\nrepository = "someone/attention-only-transformers"\n'
BADGE = "[![Colab](badge.svg)](https://colab.research.google.com/github/OWNER/attention-only-transformers/blob/HEAD/notebooks/00_first.ipynb)"
CLONE = "url = 'https://github.com/OWNER/attention-only-transformers'"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder that looks like the project, with nothing in it yet; the environment is restored."""
    for name in ("AOT_RESULTS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    monkeypatch.delenv("AOT_RESULTS")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "README.md").write_text(
        f"# Title\n{BADGE}\n<!-- notebooks:start -->\nold\n<!-- notebooks:end -->\nThe end.\n"
    )
    return tmp_path


def write(project, name, *cells, parameters=None, floor=""):
    """Save a notebook with one code cell for each string."""
    nb = new_notebook(cells=[new_markdown_cell(f"# {name}\n{BADGE}"), new_code_cell(CLONE)])
    nb.metadata["kernelspec"] = {"display_name": "mine", "language": "python", "name": "mine"}
    nb.metadata["aot"] = {"claim": f"{name} runs", "minutes": 20}
    if parameters:
        nb.cells.append(new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    nb.cells += [new_code_cell(source) for source in cells]
    folder = project / "notebooks" / floor
    folder.mkdir(exist_ok=True)
    nbformat.write(nb, folder / f"{name}.ipynb")


def read(path):
    return nbformat.read(path, as_version=4)


def test_summary_progress_and_checks(project, capsys):
    checks = "print('check passed: a = 1')\nprint('no check passed: b')\nprint('check passed: c')"
    # Long enough for the memory to be sampled.
    large = "import time\nx = b'1' * 100_000_000\ntime.sleep(1)"
    write(project, "00_first", checks, large)
    write(project, "01_second", "print('check passed: second')")

    assert run_notebooks.main(["--jobs", "1"], root=project) == 0
    said = capsys.readouterr().out
    assert "[1/2] 00_first" in said and "2 checks passed" in said
    assert "[2/2] 01_second" in said and "1 checks passed" in said
    first, second = json.loads((project / "runs/summary.json").read_text())
    assert (first["notebook"], first["checks"], first["error"]) == ("00_first", 2, None)
    assert 100 < first["peak_mb"] < 800
    assert 0 < second["seconds"] < 60
    assert "| 00_first |" in (project / "runs/summary.md").read_text()
    copy = read(project / "runs/00_first.ipynb")
    assert [c.execution_count for c in copy.cells if c.cell_type == "code"] == [1, 2, 3]


def test_a_failure_is_named_and_the_others_run(project, capsys):
    write(project, "00_first", "y = 1", "raise ValueError('too | small')", "z = 2")
    write(project, "01_dies", "import os\nos._exit(1)")
    write(project, "02_third", "print('check passed: third')")
    (project / "notebooks/03_damaged.ipynb").write_text("{ not a notebook")

    assert run_notebooks.main([], root=project) == 1
    said = capsys.readouterr().out
    assert "FAILED 00_first: cell [3]: ValueError: too | small" in said
    assert "FAILED 01_dies: cell [2]: DeadKernelError" in said
    assert "FAILED 03_damaged: before the first cell" in said
    assert "1 of 4 notebooks ran" in said
    assert json.loads((project / "runs/summary.json").read_text())[2]["checks"] == 1


def test_too_much_memory_fails(project, monkeypatch):
    monkeypatch.setattr(run_notebooks, "MEMORY_LIMIT_MB", 20)
    write(project, "00_first", "import time\ntime.sleep(1)")
    source, copy = project / "notebooks/00_first.ipynb", project / "runs/00_first.ipynb"
    assert "more than 20 MB" in run_notebooks.run_notebook(source, copy, {})["error"]


def test_only(project):
    write(project, "00_first")
    write(project, "05_train")
    chosen = run_notebooks.select(project / "notebooks", ["05"])
    assert [path.stem for path in chosen] == ["05_train"]
    with pytest.raises(SystemExit, match="7: .*00_first, 05_train"):
        run_notebooks.select(project / "notebooks", ["05", "7"])
    with pytest.raises(SystemExit, match="no numbered notebooks"):
        run_notebooks.select(project, [])


def test_parameters(project, capsys):
    write(project, "00_first", "assert n == 5, n", parameters="n: int = 3  # steps")
    assert run_notebooks.main(["-p", "n", "5"], root=project) == 0
    assert run_notebooks.main(["-p", "m", "5"], root=project) == 1
    assert "00_first: before the first cell: ValueError: no parameter 'm'; there are n" in (
        capsys.readouterr().out
    )
    with pytest.raises(SystemExit):
        run_notebooks.main(["--in-place", "-p", "n", "5"], root=project)


def test_parameter_values():
    values = [run_notebooks.parameter_value(v) for v in ("3", "1e-3", "True", "None", "gpt2")]
    assert values == [3, 1e-3, True, None, "gpt2"]


def test_kernels_get_threads_and_results_folder(project):
    names = ("AOT_RESULTS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    write(project, "00_first", f"import os\nprint([os.environ[n] for n in {names}], os.getcwd())")
    assert run_notebooks.main([], root=project) == 0
    said = read(project / "runs/00_first.ipynb").cells[-1].outputs[0].text
    assert str(project / "runs" / "results") in said
    assert str(project / "notebooks") in said


def test_in_place(project):
    write(project, "00_first", "print('check passed: a')", parameters="n: int = 3  # steps")
    assert run_notebooks.main(["--in-place"], root=project) == 0

    nb = read(project / "notebooks/00_first.ipynb")
    assert "github/someone/attention-only-transformers" in nb.cells[0].source
    assert "github.com/someone/attention-only-transformers" in nb.cells[1].source
    assert [c.execution_count for c in nb.cells[1:]] == [1, 2, 3]
    assert nb.cells[-1].outputs[0].text == "check passed: a\n"
    assert nb.cells[2].metadata == {"tags": ["parameters"]}
    assert nb.cells[0].metadata == nb.cells[1].metadata == {}
    assert set(nb.metadata) == {"aot", "kernelspec", "language_info"}
    assert nb.metadata.kernelspec.name == "python3"
    assert run_notebooks.main(["--verify"], root=project) == 0

    readme = (project / "README.md").read_text()
    row = "| [00_first](notebooks/00_first.ipynb) | 00_first runs | 20 |"
    assert row in readme and "old" not in readme and "OWNER" not in readme
    assert readme.startswith("# Title") and readme.endswith("The end.\n")
    record = json.loads((project / "data/results/notebooks.json").read_text())
    assert record["notebooks"]["00_first"]["checks"] == 1
    assert set(record["machine"]) == {"cpu", "cores", "threads", "python", "torch", "date"}


def test_in_place_makes_pictures_small(project):
    draw = (
        "import base64, io\n"
        "from IPython.display import display\n"
        "from PIL import Image\n"
        "buffer = io.BytesIO()\n"
        "Image.linear_gradient('L').convert('RGB').save(buffer, 'png', compress_level=0)\n"
        "data = {'image/png': base64.b64encode(buffer.getvalue()).decode()}\n"
        "display(data, raw=True, metadata={'image/png': {'width': 99}})"
    )
    write(project, "00_first", draw)
    assert run_notebooks.main(["--in-place"], root=project) == 0
    path = project / "notebooks/00_first.ipynb"
    (shown,) = read(path).cells[-1].outputs
    assert shown.metadata == {"image/png": {"width": 99}}
    assert len(shown.data["image/png"]) < 5_000 < 3 * 256 * 256


def test_in_place_takes_the_figures_that_a_notebook_saved(project):
    save = (
        "import os, pathlib\n"
        "folder = pathlib.Path(os.environ['AOT_RESULTS']) / 'figures'\n"
        "folder.mkdir(exist_ok=True)\n"
        "for name in ('00-new.gif', '01-other.gif'):\n"
        "    (folder / name).write_text('new')"
    )
    write(project, "00_first", save, floor="evidence")
    kept = project / "data/results/figures"
    kept.mkdir(parents=True)
    for name in ("00-old.gif", "02-kept.gif"):
        (kept / name).write_bytes(b"old")
    assert run_notebooks.main(["--in-place", "--floor", "evidence"], root=project) == 0
    assert {path.name for path in kept.iterdir()} == {"00-new.gif", "02-kept.gif"}
    assert (kept / "00-new.gif").read_bytes() == b"new"


def test_in_place_forgets_what_older_runs_of_the_evidence_said(project):
    old = project / "runs/results/claims/evidence/00.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    write(project, "00_first", "x = 1")
    assert run_notebooks.main([], root=project) == 0 and old.is_file()
    assert run_notebooks.main(["--in-place"], root=project) == 0 and not old.exists()


def test_in_place_changes_nothing_after_a_failure(project):
    write(project, "00_first", "x = 1")
    write(project, "01_second", "1 / 0")
    paths = [project / "README.md", *(project / "notebooks").iterdir()]
    before = [path.read_bytes() for path in paths]
    assert run_notebooks.main(["--in-place"], root=project) == 1
    assert [path.read_bytes() for path in paths] == before


def test_verify_finds_widget_state(project):
    write(project, "00_first")
    path = project / "notebooks/00_first.ipynb"
    nb = read(path)
    nb.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    nbformat.write(nb, path)
    assert run_notebooks.main(["--verify"], root=project) != 0


def test_replace_repository():
    text = (
        "github.com/OWNER/attention-only-transformers.git "
        "mybinder.org/v2/gh/a-b.c/attention-only-transformers/HEAD?urlpath=lab "
        "colab.research.google.com/github/x/attention-only-transformers/blob/HEAD "
        "github.com/x/another"
    )
    assert publish.replace_repository(text, "me/attention-only-transformers") == (
        "github.com/me/attention-only-transformers.git "
        "mybinder.org/v2/gh/me/attention-only-transformers/HEAD?urlpath=lab "
        "colab.research.google.com/github/me/attention-only-transformers/blob/HEAD "
        "github.com/x/another"
    )


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_stops_the_kernel_too(project):
    write(project, "00_first", "import time\ntime.sleep(100)")
    code = "import sys, pathlib, run_notebooks\nsys.exit(run_notebooks.main([], pathlib.Path('.')))"
    tools = os.path.dirname(run_notebooks.__file__)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=project,
        env={**os.environ, "PYTHONPATH": tools},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    copy = project / "runs/00_first.ipynb"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (copy.exists() and "running" in copy.read_text()):
        time.sleep(0.2)
    kernels = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "stopped" in out and "Traceback" not in err
    deadline = time.monotonic() + 10  # multiprocessing's own helper ends after its parent
    alive = kernels
    while alive and time.monotonic() < deadline:
        alive = [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
        time.sleep(0.1)
    assert kernels and not alive


def test_both_floors_are_run_and_listed(project, capsys):
    write(project, "00_first", "print('check passed: tour')")
    write(project, "00_first", "print('check passed: evidence')", floor="evidence")
    write(project, "01_second", "x = 1", floor="evidence")
    assert run_notebooks.main(["--in-place", "--floor", "both"], root=project) == 0
    said = capsys.readouterr().out
    assert "3 of 3 notebooks ran" in said and "evidence/00_first" in said
    readme = (project / "README.md").read_text()
    both = (
        "| [00_first](notebooks/00_first.ipynb) · [evidence](notebooks/evidence/00_first.ipynb) |"
    )
    assert both in readme
    assert "| [01_second](notebooks/evidence/01_second.ipynb) · evidence | 01_second runs" in readme
    assert re.search(r"All 3 notebooks of both floors: \d+ min \d\d s, \d at a time", readme)
    copies = sorted(p.relative_to(project).as_posix() for p in project.glob("runs/**/*.ipynb"))
    assert copies == [
        f"runs/{n}.ipynb" for n in ("00_first", "evidence/00_first", "evidence/01_second")
    ]


def test_the_readme_says_how_many_rules_were_set_before_the_values_were_known(project):
    write(project, "00_first", "x = 1")
    assert "Rules set" not in publish.notebook_table(project / "notebooks", {"notebooks": {}})
    times = ["before", "before, but for the control", "after: all was known", "after a pilot"]
    (project / "data" / "claims").mkdir(parents=True)
    fields = ("statement", "source", "holds_for", "confirmed", "refuted", "control", "unit")
    known = dict.fromkeys(fields, "min > 0") | {"kind": "finding"}
    entries = [known | {"declared": time} for time in times] + [known | {"kind": "identity"}]
    lines = []
    for i, entry in enumerate(entries, 1):
        lines += [f'["00.{i}"]', *(f'{name} = "{text}"' for name, text in entry.items())]
    (project / "data" / "claims" / "00.toml").write_text("\n".join(lines))
    assert publish.notebook_table(project / "notebooks", {"notebooks": {}}).endswith(
        "\n\nRules set before the values were known: 2 of 4 findings, "
        "of which 1 in part; the others after."
    )


def test_the_evidence_of_both_floors_comes_first(project):
    write(project, "00_first", "x = 1")
    write(project, "01_second", "x = 1", floor="evidence")
    chosen = run_notebooks.select(project / "notebooks", [], "both")
    assert [path.stem for path in chosen] == ["01_second", "00_first"]


def test_the_number_of_jobs_is_checked(project):
    write(project, "00_first")
    with pytest.raises(SystemExit):
        run_notebooks.main(["--jobs", "0"], root=project)
