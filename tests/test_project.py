"""The files around the package agree with each other and with what is there."""

import json
import os
import re
import statistics
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import aot_helpers
import publish

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "data/README.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
PYPROJECT = publish.tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
JOBS = [
    job
    for path in WORKFLOWS
    for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
]


def read_pins(name):
    """The requirement lines of a pinned file, without comments and options."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "-"))]


def test_root_and_binder_pins_agree_and_bring_no_cuda():
    pins = read_pins("requirements.txt")
    assert pins == read_pins("binder/requirements.txt")
    assert "--extra-index-url" not in (ROOT / "requirements.txt").read_text()
    assert "torch==2.13.0" in pins
    assert not [pin for pin in pins if re.match(r"(nvidia|cuda|triton)\b", pin)]


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_every_dependency_has_one_pin_inside_its_range(version):
    here = {"python_version": version, "python_full_version": f"{version}.9", "os_name": "posix"}
    pins = {}
    for requirement in map(Requirement, read_pins("requirements.txt")):
        if requirement.marker is None or requirement.marker.evaluate(here):
            assert requirement.name not in pins, f"two pins for {requirement.name}"
            pins[requirement.name] = str(requirement.specifier).removeprefix("==")
    told = PYPROJECT["project"]
    for line in [*told["dependencies"], *told["optional-dependencies"]["dev"]]:
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


def test_links_name_the_repository_of_pyproject():
    """README and tours link to one repository; `make notebooks` rewrites them."""
    repository = publish.repository_name(ROOT)
    for path in [ROOT / "README.md", *sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]:
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


def test_the_readme_is_short_and_maps_every_folder():
    assert len(README.splitlines()) <= 150
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
def test_code_of_the_pages_runs_and_prints_what_is_shown(page, capsys):
    text = page.read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(.*?)```", text, flags=re.S):
        names = re.findall(r"\baot\.(\w+)", code)
        assert [name for name in names if not hasattr(aot_helpers, name)] == []
        if "mytext.txt" not in code and "chapters" not in code:
            exec(code, {"aot": aot_helpers})
        printed = capsys.readouterr().out.split()
        assert "print(" not in code or " ".join(printed) in " ".join(text.split())


def test_every_part_of_a_page_is_installed_with_the_package():
    package = ROOT / "aot_helpers" / "showing"
    patterns = PYPROJECT["tool"]["setuptools"]["package-data"]["aot_helpers.showing"]
    installed = {path for pattern in patterns for path in package.glob(pattern)}
    parts = {path for path in (package / "static").rglob("*") if path.is_file()}
    assert parts and parts <= installed
