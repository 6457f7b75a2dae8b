"""The reader's progress: what is kept of a try, the boxes, a damaged file; and where it is off."""

import json
import re
import subprocess
import sys

import pytest

import aot_helpers as aot
from answers import graded
from aot_helpers.teaching import progress


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The path of a reader's file that is not there yet."""
    path = tmp_path / "my" / "progress.json"
    monkeypatch.setenv("AOT_PROGRESS", str(path))
    return path


def copies(tokens):
    """A right answer to exercise 00.1: what came after the last earlier copy, or -1."""
    before = [i for i in range(len(tokens) - 1) if tokens[i] == tokens[-1]]
    return tokens[before[-1] + 1] if before else -1


def test_tries_are_counted_and_what_was_solved_stays_solved(kept):
    assert graded("00.1", ...) == "not attempted" and not kept.exists()
    for answer, status, tries in ((len, "tried", 1), (copies, "solved", 2), (len, "solved", 3)):
        graded("00.1", answer)
        found = json.loads(kept.read_text())["00.1"]
        assert (found["status"], found["tries"]) == (status, tries)
    assert list(kept.parent.iterdir()) == [kept]  # no temporary file stays


def test_boxes_show_every_exercise_of_every_tour(kept):
    from test_notebooks import TOUR

    code = "".join(path.read_text(encoding="utf-8") for path in TOUR)
    asked = set(re.findall(r'\b(?:grade|write)\(\\"(\d\d\.\d)', code))
    graded("00.1", copies)
    graded("00.3", "", model=None, names=[])
    found = aot.progress()
    assert {each.number for tour in found.tours.values() for each in tour} == asked
    assert len(found.tours) == len(TOUR)
    first = str(found).splitlines()[3]
    assert first.startswith("■ □ ◪ □ ") and "00 · " in first
    assert str(found).startswith(f"1 of {len(asked)} exercises solved, 1 tried (in {kept})")
    html = found._repr_html_()
    assert html.count("<tr>") == len(TOUR) and html.count("<span title=") == len(asked) + 3
    assert "00.1 (write, 6 minutes): solved" in html


def test_a_title_is_text_in_html(tmp_path):
    cell = {"cell_type": "markdown", "source": ["# 77 · Is a < b?\n", "**Exercise 77.1 (write, 5 "]}
    cell["source"].append("minutes).** Write it.")
    (tmp_path / "77_a.ipynb").write_text(json.dumps({"cells": [cell]}))
    found = progress.Progress(progress.tours(tmp_path), {}, None)
    assert "Is a &lt; b?" in found._repr_html_() and "AOT_PROGRESS is off" in str(found)
    with pytest.raises(ValueError, match="no tours in .*none"):
        progress.tours(tmp_path / "none")


def test_a_notebook_without_a_title_goes_by_its_name(tmp_path):
    (tmp_path / "26_mine.ipynb").write_text('{"cells": []}')
    assert progress.tours(tmp_path) == {"26_mine": []}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"00.1"',
        '{"00.1": "solved"}',
        '{"00.1": {"status": "done", "tries": 1, "last": ""}}',
        '{"00.1": {"status": "tried"}}',
        "\xff",
    ],
)
def test_a_damaged_file_is_named_and_left_alone(kept, text, capsys):
    kept.parent.mkdir()
    kept.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match="progress.json is damaged .*delete it"):
        aot.progress()
    yours = aot.write("00.1", copies)  # judged all the same
    assert yours is copies and "progress is not kept" in capsys.readouterr().out
    assert kept.read_bytes() == text.encode("latin-1")


def test_a_folder_that_cannot_be_written_does_not_stop_an_exercise(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("AOT_PROGRESS", str(tmp_path / "file" / "progress.json"))
    assert graded("00.1", copies).startswith("solved")


def test_runs_that_no_reader_does_keep_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "ROOT", tmp_path)
    monkeypatch.setenv("AOT_PROGRESS", "off")
    graded("00.1", copies)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.delenv("AOT_PROGRESS")
    graded("00.1", copies)
    assert (tmp_path / "my" / "progress.json").exists()


def test_two_notebooks_at_once_lose_no_try(kept):
    code = "from aot_helpers.teaching import progress\n"
    code += "for i in range(30):\n    progress.keep('{}', i == 29)"
    commands = [[sys.executable, "-c", code.format(number)] for number in ("00.1", "00.2")]
    running = [subprocess.Popen(command) for command in commands]
    assert [each.wait() for each in running] == [0, 0]
    found = json.loads(kept.read_text())
    assert {number: each["tries"] for number, each in found.items()} == {"00.1": 30, "00.2": 30}


def test_a_link_leads_to_the_kept_progress(kept, tmp_path):
    kept.parent.mkdir()
    (tmp_path / "elsewhere.json").write_text("{}")
    kept.symlink_to(tmp_path / "elsewhere.json")
    assert progress.keep("00.1", True) and not progress.keep("00.2", True)
    assert kept.is_symlink()
    assert list(json.loads((tmp_path / "elsewhere.json").read_text())) == ["00.1", "00.2"]
