"""Notebooks as they are committed: which are run and published, links, pictures, the README."""

import base64
import errno
import io
import json
import os
import subprocess

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

import notebooks
import publish
import which

PYPROJECT = '[tool.aot]\nrepository = "someone/attention-only-transformers"\n'
BADGE = "[![Colab](badge.svg)](https://colab.research.google.com/github/OWNER/attention-only-transformers/blob/HEAD/notebooks/00_first.ipynb)"
README = f"# Title\n{BADGE}\n\n{'| old |'.join(publish.MARKS)}\n\nMore.\n\n## End\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder that looks like the project, with nothing in it yet; the environment is restored."""
    for name in ("AOT_RESULTS", "AOT_PROGRESS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    monkeypatch.delenv("AOT_RESULTS")
    monkeypatch.delenv("AOT_PROGRESS")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "README.md").write_text(README)
    return tmp_path


def write(project, name, *cells, parameters=None, collection="", folder="notebooks"):
    """Save a notebook with one code cell for each string."""
    title = f"# {name[:2]} · What does {name} do?\n{BADGE}"
    clone = "url = 'https://github.com/OWNER/attention-only-transformers'"
    nb = new_notebook(cells=[new_markdown_cell(title), new_code_cell(clone)])
    nb.metadata["kernelspec"] = {"display_name": "mine", "language": "python", "name": "mine"}
    nb.metadata["aot"] = {"shows": f"It runs | {name}, e.g. here. It does more.", "minutes": 20}
    if parameters:
        nb.cells.append(new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    nb.cells += [new_code_cell(source) for source in cells]
    path = project / folder / collection / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, path)
    return path


def read(path):
    return nbformat.read(path, as_version=4)


def result(name):
    return {"notebook": name, "seconds": 61.5, "peak_mb": 9, "checks": 0}


def test_notebooks_are_chosen_by_number_and_collection(project):
    write(project, "00_first")
    write(project, "05_train")
    write(project, "05_train", collection="evidence")
    chosen = which.select(project / "notebooks", ["05"])
    assert list(map(publish.key, chosen)) == ["evidence/05_train", "05_train"]  # evidence first
    with pytest.raises(SystemExit, match="'7'; there are 00_first, 05_train"):
        which.select(project / "notebooks", ["05", "7"], "tours")
    with pytest.raises(SystemExit, match="no numbered notebooks"):
        which.select(project, [])
    for wrong in (["--jobs", "0"], ["--in-place", "-p", "n", "5"]):
        with pytest.raises(SystemExit):
            notebooks.main(wrong, root=project)
    (project / "data/results").mkdir(parents=True)
    known = {"notebooks": {"00_first": result("00_first"), "05_train": {"seconds": 70}}}
    (project / "data/results/notebooks.json").write_text(json.dumps(known))
    every = which.select(project / "notebooks", [])
    ordered = map(publish.key, notebooks.longest_first(every, project))
    assert list(ordered) == ["evidence/05_train", "05_train", "00_first"]  # unknown ones first


def test_what_was_printed_in_pieces_is_committed_as_one(project):
    path = write(project, "00_first", "print('a line')")
    notebook = read(path)
    pieces = [new_output("stream", name="stdout", text=text) for text in ("a li", "ne", "\n")]
    warning = new_output("stream", name="stderr", text="a warning\n")
    notebook.cells[-1].outputs = [*pieces, warning]
    nbformat.write(notebook, path)
    clean = nbformat.reads(publish.clean_copy(path, "someone/else"), as_version=4)
    outputs = clean.cells[-1].outputs
    assert [(out.name, out.text) for out in outputs] == [
        ("stdout", "a line\n"),
        ("stderr", "a warning\n"),
    ]


def test_what_changed_since_the_commit_is_a_notebook_or_code_that_it_uses(project):
    for name in ("00_first", "02_third", "03_other"):
        write(project, name)
    write(project, "13_torus", "from chapters.torus import training")
    write(project, "14_torus", "from chapters.nb14_torus.measure import f")
    for name in ("04_support", "14_torus"):
        write(project, name, "from evidence.support import nb04", collection="evidence")
    code = {
        "chapters/nb02_third/exercises.py": "",  # which no notebook imports
        "chapters/nb14_torus/measure.py": "import chapters.torus.networks",
        "chapters/torus/training.py": "",
        "chapters/sweep/run.py": "",
        "evidence/support/nb04/checks.py": "",
    }
    for file, text in code.items():
        (project / "notebooks" / file).parent.mkdir(parents=True, exist_ok=True)
        (project / "notebooks" / file).write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]

    def found():
        every = which.select(project / "notebooks", [])
        return list(map(publish.key, which.changed(every, project)))

    def commit():
        for command in (["add", "."], ["commit", "-qm", "all"]):
            subprocess.run([*git, *command], cwd=project, check=True)

    subprocess.run([*git, "init", "-q"], cwd=project, check=True)
    commit()
    assert found() == []
    write(project, "00_first", "x = 1")
    write(project, "01_new", collection="evidence")
    assert found() == ["evidence/01_new", "00_first"]
    commit()
    for file, those in (
        ("chapters/nb02_third/exercises.py", ["02_third"]),
        ("chapters/torus/training.py", ["evidence/14_torus", "13_torus", "14_torus"]),
        ("chapters/sweep/run.py", []),
        ("evidence/support/nb04/checks.py", ["evidence/04_support", "evidence/14_torus"]),
    ):
        (project / "notebooks" / file).write_text("x = 1")
        assert found() == those
        commit()


def test_parameter_values():
    values = [notebooks.parameter_value(v) for v in ("3", "1e-3", "True", "None", "gpt2")]
    assert values == [3, 1e-3, True, None, "gpt2"]


def test_only_what_was_run_is_published_and_all_links_are_renewed(project):
    first, second = (write(project, name) for name in ("00_first", "01_second"))
    write(project, "01_second", collection="evidence")
    write(project, "00_first", "x = 1", folder="runs")
    publish.publish([first], [result("00_first")], project)
    assert read(first).cells[-1].source == "x = 1"
    assert read(second).cells[-1].source == read(second).cells[1].source
    for path in (first, second):
        assert "OWNER" not in path.read_text("utf-8") and "github/someone/" in path.read_text()
    readme = (project / "README.md").read_text("utf-8")
    question = "[What does 00_first do?](notebooks/00_first.ipynb)"
    assert f"| 00 | {question} | It runs \\| 00_first, e.g. here. | 20 |" in readme
    assert "old" not in readme and "OWNER" not in readme and "\nMore.\n\n## End\n" in readme
    assert "2 tours in 2 min" in readme and "were declared before" in readme
    publish.publish([], [], project)
    assert (project / "README.md").read_text("utf-8") == readme
    (project / "README.md").write_text("# Title\n")
    with pytest.raises(SystemExit, match="README.md lacks the lines <!-- notebooks:start"):
        publish.publish([first], [], project)


def test_an_edit_that_was_saved_while_the_notebook_ran_is_kept(project):
    first, second = (write(project, name) for name in ("00_first", "01_second"))
    results = [
        result(each.stem) | {"source_sha256": publish.sha256(each)} for each in (first, second)
    ]
    for name in ("00_first", "01_second"):
        write(project, name, "x = 1", folder="runs")
    write(project, "01_second", "edited = 1")
    before = first.read_bytes(), second.read_bytes(), (project / "README.md").read_bytes()
    with pytest.raises(SystemExit, match="01_second.ipynb: edited while it ran"):
        publish.publish([first, second], results, project)
    assert before == (first.read_bytes(), second.read_bytes(), (project / "README.md").read_bytes())


def test_a_notebook_is_replaced_as_a_whole_or_not_at_all(project, monkeypatch):
    first = write(project, "00_first")
    write(project, "00_first", "x = 1", folder="runs")
    before = first.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space left"):
        publish.publish([first], [result("00_first")], project)
    assert first.read_bytes() == before
    assert [each.name for each in first.parent.glob(".*")] == []


def test_an_owner_is_named_everywhere_at_once(project):
    path, evidence = write(project, "00_first"), write(project, "00_first", collection="evidence")
    (project / "docs").mkdir()
    page = "git@github.com:OWNER/attention-only-transformers.git"
    page += " https://OWNER.github.io/attention-only-transformers/playground.html"
    (project / "docs/page.md").write_text(page)
    (project / "pyproject.toml").write_text(PYPROJECT.replace("someone", "OWNER"))
    changed = publish.set_owner(project, "made-up-name")
    files = ["pyproject.toml", "README.md", "docs/page.md", "notebooks/00_first.ipynb"]
    assert sorted(changed) == sorted([*files, "notebooks/evidence/00_first.ipynb"])
    for each in changed:
        text = (project / each).read_text("utf-8")
        assert "OWNER" not in text and "made-up-name" in text
    assert publish.repository_name(project) == "made-up-name/attention-only-transformers"
    assert "https://made-up-name.github.io/" in (project / "docs/page.md").read_text()
    assert read(path).cells[1].source.endswith("made-up-name/attention-only-transformers'")
    assert read(evidence).cells[0].source == read(path).cells[0].source
    assert publish.set_owner(project, "made-up-name") == []
    for wrong in ("", "a/b", "-a", "a b", "x" * 40):
        with pytest.raises(ValueError, match=f"owner .*got '{wrong}'"):
            publish.set_owner(project, wrong)


def test_widget_state_is_found_and_stripped(project):
    nb = read(path := write(project, "00_first"))
    nb.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    nbformat.write(nb, path)
    assert notebooks.main(["--verify"], root=project) != 0
    assert notebooks.main(["--strip"], root=project) == 0
    assert notebooks.main(["--verify"], root=project) == 0


# ---- small pictures: alike to the eye, the same bytes each time; others stay as they are ----


def png(pixels, mode="RGB", **options) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(pixels, dtype=np.uint8), mode).save(buffer, "png", **options)
    return buffer.getvalue()


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def test_a_figure_gets_small_and_looks_the_same():
    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3))
    for shift in range(5):
        left.plot(np.sin(np.linspace(0, 9, 200) + shift), label=f"line {shift}")
    right.imshow(np.add.outer(np.arange(40), np.arange(40)), cmap="viridis")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    plt.close(figure)
    drawing = buffer.getvalue()
    small = publish.small_picture(drawing)
    assert len(small) < 0.5 * len(drawing)
    assert np.abs(pixels(small) - pixels(drawing)).max() <= publish.FARTHEST
    before, after = (Image.open(io.BytesIO(each)) for each in (drawing, small))
    assert (after.mode, after.size) == ("P", before.size)
    assert after.info["dpi"] == before.info["dpi"] == pytest.approx((90, 90), abs=0.1)
    assert publish.small_picture(drawing) == small == publish.small_picture(small)

    text = base64.b64encode(drawing).decode()
    shown = new_output(
        "display_data",
        {"image/png": text, "text/plain": "<Figure>"},
        metadata={"image/png": {"width": 420}},
    )
    outputs = [new_output("stream", text="1\n"), shown]
    publish.shrink(new_notebook(cells=[new_code_cell("draw()", outputs=outputs)]))
    assert base64.b64decode(shown.data["image/png"]) == small
    assert shown.metadata == {"image/png": {"width": 420}}


def test_few_colors_stay_exact():
    canvas = np.random.default_rng(0).integers(0, 6, (50, 50, 3)) * 51
    assert np.array_equal(pixels(publish.small_picture(png(canvas))), canvas)


@pytest.mark.parametrize("what", ["noise", "soft light", "see-through", "small already"])
def test_what_would_look_different_or_larger_stays(what):
    noise = np.random.default_rng(0).integers(0, 256, (80, 80, 4))
    wide = np.linspace(0, 255, 200)
    light = np.stack([*np.meshgrid(wide, wide), np.full((200, 200), 99)], axis=-1)
    given = {
        "noise": lambda: png(noise[..., :3]),
        "soft light": lambda: png(light),
        "see-through": lambda: png(noise // 64 * 64, "RGBA"),
        "small already": lambda: png(noise[..., 0] // 255, "L", optimize=True),
    }[what]()
    assert publish.small_picture(given) == given
