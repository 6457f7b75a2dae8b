"""The pages that stand alone: what a preview of their link shows, and where their links lead."""

from pathlib import Path

import pytest
from PIL import Image

import book_checks
from chapters.pages import standalone
from chapters.pages.playground import save_playground
from chapters.pages.training import save_training_page
from standalone_pages import Head

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
PAGES = {"playground": save_playground, "drag": save_training_page}


@pytest.fixture(scope="module", params=PAGES)
def page(request, tmp_path_factory):
    """(name, the page alone, the page in a book, the book's folder)."""
    name, folder = request.param, tmp_path_factory.mktemp("page")
    PAGES[name](folder / "alone" / f"{name}.html")
    (folder / "book").mkdir()
    (folder / "book" / "index.html").touch()
    PAGES[name](folder / "book" / f"{name}.html")
    files = (folder / where / f"{name}.html" for where in ("alone", "book"))
    return name, *(file.read_text("utf-8") for file in files), folder / "book"


def links(page: str) -> list[str]:
    """The addresses of its links, those in its script among them."""
    return book_checks.Page(
        page.replace('\\"', '"')
        .replace("\\u003c", "<")
        .replace("<script>", "")
        .replace("<style>", "")
    ).links


def test_a_link_to_it_has_a_preview(page):
    name, alone, in_book, folder = page
    book, _ = standalone.sites()
    for said in (Head(alone).said, Head(in_book).said):
        assert said["og:title"] == said["title"] and 50 < len(said["description"]) < 200
        assert said["og:description"] == said["description"]
        assert said["og:url"] == said["canonical"] == f"{book}{name}.html"
        assert said["og:image"] == f"{book}{name}.png"
        assert said["icon"].startswith("data:image/svg+xml;base64,")
        assert "can be read without" in said["noscript"]
    with Image.open(folder / f"{name}.png") as picture:
        assert min(picture.size) > 250


def test_its_links_lead_on(page):
    name, alone, in_book, _ = page
    book, source = standalone.sites()
    there = {link for link in links(in_book) if "://" not in link}
    assert set(links(alone)) == {book, source, *(book + link for link in there)}
    assert {link for link in links(in_book) if "://" in link} == {book, source}  # book: no script
    assert {"index.html", "drag.html" if name == "playground" else "playground.html"} <= there
    tours = [NOTEBOOKS / link for link in there if link.startswith("notebooks/")]
    stems = {f"{path.stem}.ipynb" for path in tours}
    assert len(stems) >= 2 and stems <= {path.name for path in NOTEBOOKS.glob("*.ipynb")}


def test_the_addresses_are_those_of_the_owner(tmp_path, monkeypatch):
    settings = tmp_path / "pyproject.toml"
    monkeypatch.setattr(standalone, "ROOT", tmp_path)
    settings.write_text('[tool.aot]\nrepository = "some-one/a-name"\n')
    book, source = "https://some-one.github.io/a-name/", "https://github.com/some-one/a-name"
    assert standalone.sites() == (book, source)
    said = Head(standalone.standalone_page("x", ("A <b>", "c"), "<main></main>", "", "")).said
    assert (said["og:image"], said["title"]) == (f"{book}x.png", "A <b>")
    settings.write_text("[tool.aot]\n")
    with pytest.raises(ValueError, match="pyproject.toml must have one line: repository"):
        standalone.sites()
