"""The files around the package agree with each other and with what is there."""

import functools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import yaml
from packaging.requirements import Requirement

import aot_helpers
import publish
import recipes
from aot_helpers.training import copying

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "data/README.md"]
PAGES += sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "group").glob("*.md")])
PYPROJECT = recipes.files.tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
JOBS = [
    job
    for path in WORKFLOWS
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
]


PINS = ["requirements.txt", "requirements-tours.txt", "binder/requirements.txt"]
# "3.10" and "3.14", the first that is too new.
FIRST, END = re.findall(r"\d\.\d+", PYPROJECT["project"]["requires-python"])
MINORS = range(int(FIRST[2:]), int(END[2:]))


def read_pins(name):
    """The requirement lines of a pinned file, without comments and options."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "-"))]


def test_the_sets_of_pins_agree_name_no_index_and_bring_no_cuda():
    complete, tours, binder = map(read_pins, PINS)
    versions = [{pin.split(" ;")[0] for pin in pins} for pins in (complete, tours)]
    assert versions[1] < versions[0]
    assert [pin for pin in tours if pin != "torch==2.13.0"] == binder != tours
    assert not [pin for pin in complete if re.match(r"(nvidia|cuda|triton)\b", pin)]
    assert not [name for name in PINS if "--" in (ROOT / name).read_text()]


@pytest.mark.parametrize("extras", [["tours"], ["tours", "dev"]])
@pytest.mark.parametrize("version", [f"3.{minor}" for minor in MINORS])
def test_every_dependency_has_one_pin_inside_its_range(version, extras):
    here = {"python_version": version, "python_full_version": f"{version}.9", "os_name": "posix"}
    pins = {}
    for requirement in map(Requirement, read_pins(PINS[extras == ["tours"]])):
        if requirement.marker is None or requirement.marker.evaluate(here):
            assert requirement.name not in pins, f"two pins for {requirement.name}"
            pins[requirement.name] = str(requirement.specifier).removeprefix("==")
    told = PYPROJECT["project"]
    more = [line for extra in extras for line in told["optional-dependencies"][extra]]
    for line in [*told["dependencies"], *more]:
        dependency = Requirement(line)
        if dependency.marker is None or dependency.marker.evaluate(here):
            assert dependency.specifier.contains(pins[dependency.name]), dependency


def test_the_book_has_pins_of_its_own_that_leave_the_others_alone():
    name = lambda line: Requirement(line).name  # noqa: E731
    pins = set(map(name, read_pins("requirements.txt")))
    book = {name(line): Requirement(line) for line in read_pins("docs/book/requirements.txt")}
    assert not pins & book.keys()
    told = PYPROJECT["project"]
    for line in told["optional-dependencies"]["book"]:
        pinned = str(book[name(line)].specifier).removeprefix("==")
        assert Requirement(line).specifier.contains(pinned), line


def test_optional_packages_are_pinned_by_hash():
    text = (ROOT / "requirements-local.txt").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z])", re.sub(r"(?m)^#.*\n", "", text).strip())
    assert all(re.match(r"[\w-]+==[\d.]+ \\\n +--hash=sha256:", entry) for entry in entries)


@pytest.mark.parametrize("name", ["binder/postBuild", "binder/start", ".ci/run"])
@pytest.mark.skipif(os.name == "nt", reason="Windows has no executable bit")
def test_scripts_are_executable(name):
    assert os.access(ROOT / name, os.X_OK)
    assert (ROOT / name).read_text().startswith("#!/usr/bin/env bash\n")


# An interpreter of another version, and one that writes down what it is asked to install.
OTHER_PYTHON = """#!/bin/sh
[ "$1" = -V ] && echo "Python {0}.1" && exit
[ "$1" = -c ] && shift && exec {1} -c "import sys
sys.version_info = tuple(map(int, '{0}.1'.split('.')))
$1" $2 $3
"""
NOTING_PYTHON = """#!/bin/sh
[ "$1" = -c ] && exec {0} "$@"
[ "$3" = install ] && echo "$@" >> asked
case "$*" in *{1}*) exit 1 ;; esac
"""


@pytest.fixture
def copy(tmp_path):
    """What an installation by make reads, and `make` there, with variables."""
    if shutil.which("make") is None:
        pytest.skip("GNU make is not installed")
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "requirements-tours.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)

    def make(*words):
        return subprocess.run(
            ["make", *words], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )

    return tmp_path, make


def write_script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return f"PYTHON={path}"


@pytest.mark.parametrize("version", ["2.7", "3.9", END, "3.100", "4.0"])
def test_make_refuses_a_python_that_the_pins_do_not_fit(copy, version):
    folder, make = copy
    other = write_script(folder / "python", OTHER_PYTHON.format(version, sys.executable))
    done = make(other, "lab")
    assert done.returncode and "PYTHON=python3.12 lab" in done.stdout
    said = f"{FIRST} or newer is needed, but before {END}; {folder}/python is Python {version}.1"
    assert said in done.stdout and not (folder / ".venv/.tours").exists()


@pytest.mark.parametrize("version", [FIRST, f"3.{MINORS[-1]}"])
def test_make_takes_the_first_and_the_last_python_that_fit(copy, version):
    """It goes on to make the environment, which this one cannot."""
    folder, make = copy
    other = write_script(folder / "python", OTHER_PYTHON.format(version, sys.executable))
    done = make(other, "lab")
    assert "Could not make .venv" in done.stdout and "is needed" not in done.stdout


def test_make_names_a_python_that_is_missing(copy):
    assert "/no/python is missing. Install" in copy[1]("PYTHON=/no/python", "lab").stdout


def test_make_installs_torch_first_and_alone_and_what_a_target_needs(copy):
    folder, make = copy
    write_script(folder / ".venv/bin/python", NOTING_PYTHON.format(sys.executable, "refused"))
    assert make("TORCH=cpu", "environment").returncode == 0
    torch, tours, package = (folder / "asked").read_text().splitlines()
    assert re.search(r"--no-deps .*--index-url https://\S+/cpu torch==[\d.]+$", torch)
    assert tours.endswith("install -r requirements-tours.txt") and "--no-deps -e ." in package
    assert make("environment").returncode == make("run").returncode == 0
    assert "requirements.txt" in (folder / "asked").read_text().splitlines()[3]
    assert len((folder / "asked").read_text().splitlines()) == 5  # nothing was done twice


def test_make_says_what_to_do_where_torchs_index_does_not_answer(copy):
    folder, make = copy
    write_script(folder / ".venv/bin/python", NOTING_PYTHON.format(sys.executable, "--index-url"))
    done = make("TORCH=cpu", "lab")
    assert done.returncode and len((folder / "asked").read_text().splitlines()) == 1
    assert "try again later, or without TORCH=cpu, which takes it from PyPI" in done.stdout
    assert "TORCH=cu128 is not known" in make("TORCH=cu128", "lab").stderr


def test_links_name_the_repository_of_pyproject():
    """README and tours link to one repository; `make notebooks` rewrites them."""
    repository = publish.repository_name(ROOT)
    for path in [ROOT / "README.md", *sorted((ROOT / "notebooks").glob("*.ipynb"))]:
        text = path.read_text(encoding="utf-8")
        assert publish.replace_repository(text, repository) == text, path.name
        for badge in ("mybinder.org/v2/gh/{}/HEAD", "colab.research.google.com/github/{}/blob/"):
            assert badge.format(repository) in text, path.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_local_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if not re.match(r"https?://", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_docs_describe_every_make_target():
    targets = re.findall(r"^([\w-]+):.*#[#:]", MAKEFILE, flags=re.M)
    told = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert [name for name in targets if f"`make {name}" not in told] == []


def test_commands_of_ci_and_docs_exist():
    """Every make target, script and test file that CI or a block of a page calls."""
    steps = [(job, step) for job in JOBS for step in job["steps"]]
    rows = [each for job, _ in steps for each in job.get("strategy", {}).get("matrix", {}).values()]
    made = {row["target"] for each in rows for row in each if "target" in row}
    lines = "\n".join(step.get("run", "") for _, step in steps)
    assert "pytest" in lines and "make" in lines and made
    blocks = [re.findall(r"```\n(.*?)```", p.read_text(encoding="utf-8"), re.S) for p in PAGES]
    lines = "\n".join([lines, *sum(blocks, [])])
    made |= set(re.findall(r"^make (?:[A-Z]+=\S+ )*([a-z][\w-]*)", lines, flags=re.M))
    assert {name for name in made if not re.search(rf"^{name}:", MAKEFILE, re.M)} == set()
    files = re.findall(r"(?<!\S)\.?[\w./-]+\.(?:py|txt|ipynb|cfg)(?!\S)", lines)
    assert files and [name for name in files if not (ROOT / name).exists()] == []


def test_the_readme_maps_every_folder():
    drawn = re.search(r"aot_helpers/\n(.*?)notebooks/\n", README, flags=re.S)[1]
    package = ROOT / "aot_helpers"
    there = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    there |= {path.name for path in package.glob("[a-z]*.py")}
    assert set(re.findall(r"^  (\S+)", drawn, flags=re.M)) == there


def test_the_readmes_claim_is_the_ledgers():
    claim = json.loads((ROOT / "data/results/claims/10.json").read_text())["claims"]["10.5"]
    values, control = claim["values"]["loss"], claim["control"]["loss"]
    assert f"{min(values):.2f} to {max(values):.2f} of" in README
    assert f"{min(control):.2f} to {max(control):.2f}, with" in README
    assert f"a median of {statistics.median(control):.2f}." in README


@pytest.mark.parametrize("page", PAGES[:1] + PAGES[3:], ids=lambda page: page.name)
def test_code_of_the_pages_runs_and_prints_what_is_shown(page, capsys, tmp_path, monkeypatch):
    """From the first block to the last, in a folder with a text, from which little is learned."""
    text = page.read_text(encoding="utf-8")
    corpus = aot_helpers.load_corpus("stories", "test", quiet=True)
    (tmp_path / "mytext.txt").write_text("\n".join(corpus.texts), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    little = functools.partial(copying.learn_to_copy, steps=2, quiet=True)
    monkeypatch.setattr(copying, "learn_to_copy", little)
    there = {"aot": aot_helpers}
    for code in re.findall(r"```python\n(.*?)```", text, flags=re.S):
        if not re.search("run_sweep|transformer_lens", code):  # tests/slow has both
            exec(code, there)
        printed = capsys.readouterr().out.split()
        assert "print(" not in code or " ".join(printed) in " ".join(text.split())
    plt.close("all")
    named = re.findall(r"`aot\.(\w+)\.(\w+)`", text)
    assert named or page.name != "using.md"
    assert [
        name for of, name in named if not callable(getattr(getattr(aot_helpers, of), name))
    ] == []


def test_the_docs_torch_is_the_pinned_one_and_their_pythons_those_of_pyproject():
    page = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    (index,) = re.findall(r"TORCH_INDEX \?= (\S+)", MAKEFILE)
    (torch,) = [pin for pin in read_pins("requirements.txt") if pin.startswith("torch==")]
    assert f"--no-deps --index-url {index} {torch}\n" in page
    assert f"--index-url {index} " in (ROOT / "binder/postBuild").read_text()
    for text in (README, page, (ROOT / "requirements.txt").read_text()):
        assert f"Python {FIRST} to 3.{MINORS[-1]}" in text
