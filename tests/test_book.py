"""The book's pages, ledger and checks, without Sphinx; tests/slow/test_book.py builds it."""

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from PIL import Image

import book
import book_checks
import book_ledger
import book_pages
import publish
from aot_helpers.teaching.glossary import load_glossary
from aot_helpers.teaching.ledger import ROOT, weights_of
from aot_helpers.teaching.rules import load_claims

README = (ROOT / "README.md").read_text("utf-8")
TOURS, PROOFS = publish.floors(ROOT / "notebooks")
NOTEBOOKS = [*PROOFS, *TOURS]


@pytest.fixture(scope="module")
def pages():
    """Every notebook as a page of the book, by its path."""
    inside = {path.resolve() for path in NOTEBOOKS}
    return {path: book_pages.page_of(path, ROOT, inside) for path in NOTEBOOKS}


@pytest.fixture(scope="module")
def ledger_rows():
    return book_ledger.rows()


def drawing(source):
    """A code cell with a picture."""
    out = new_output("display_data", {"image/png": "AA==", "text/plain": "<Figure size 9x9>"})
    return new_code_cell(source, outputs=[out])


# ---- alternative texts ----


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ('figures.one(x, title="A head at work")', "A head at work"),
        ('figures.one(x, f"Of {n} heads, {k:.0%} copy");', "Of … heads, … copy"),
        ('f = figures.one(x, title="A " + f"b {c}")\nf', "A b …"),
        ('print("what is printed first")\nplots.maps(a, "the note", "Two maps of a text")',
         "Two maps of a text"),
        ('if big:\n    t = f"Big {n}"\nfigures.one(x, title=t)', "Big …"),
        ('%time run()\nshow(name, "short")', ""),
        ("not python", ""),
    ],
)  # fmt: skip
def test_a_figures_title_is_read_from_its_cell(source, title):
    assert book_pages.figure_title(source) == title


def test_an_alternative_text_is_the_title_and_one_sentence():
    before = new_markdown_cell(
        "## 2 · Which key *answers*?\n\nKeys have a dot product. It is `q @ k`, no less."
    )
    after = new_markdown_cell("**Rows** attend to [columns](x.html), as in $a$. More.\n\n- a list")
    titled, bare = drawing('f(title="Scores, by key.")'), drawing("f(x)")
    said = [book_pages.alt_text([before, cell, after], 1) for cell in (titled, bare)]
    assert said[0] == "Scores, by key. Rows attend to columns, as in $a$."
    assert said[1] == "Which key answers? Rows attend to columns, as in $a$."
    assert book_pages.alt_text([before, titled], 1) == "Scores, by key. It is q @ k, no less."
    long = book_pages.alt_text([drawing(f'f(title="{"word " * 99}")')], 0)
    assert len(long) <= book_pages.LONGEST_ALT + 2 and long.endswith(" …")


def test_every_picture_has_words_that_say_what_it_shows(pages):
    bare, alike = [], {}
    for path, page in pages.items():
        for cell in page.cells:
            if any("image/png" in out.get("data", {}) for out in cell.get("outputs", [])):
                alt = cell.metadata["mystnb"]["image"]["alt"]
                alike.setdefault((path, alt), []).append(cell)
                if len(alt.split()) < 6 or "<Figure" in alt:
                    bare.append((publish.key(path), alt))
    assert bare == [] and len(alike) > 300
    assert [
        (publish.key(path), alt) for (path, alt), cells in alike.items() if len(cells) > 2
    ] == []


# ---- pages ----


def test_a_page_folds_its_set_up_and_loses_no_output(pages):
    for path, page in pages.items():
        code = [cell for cell in page.cells if cell.cell_type == "code"]
        assert not [cell for cell in code if book_pages.SET_UP in cell.source], path.name
        assert "hide-input" in code[0].metadata.tags, path.name
        before = sum(len(c.get("outputs", [])) for c in publish.nbformat.read(path, 4).cells)
        assert sum(len(cell.outputs) for cell in code) == before, path.name


def test_what_follows_a_prediction_is_folded():
    asked = new_markdown_cell("**Before you run the next cell:** which?")
    cells = [asked, drawing("f()"), drawing("g()"), new_code_cell("h()", metadata={"tags": ["x"]})]
    book_pages.fold_answers(cells)
    assert [each.metadata.get("tags") for each in cells[1:]] == [["hide-output"], None, ["x"]]


def test_links_to_other_files_of_the_project_lead_to_the_repository(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.aot]\nrepository = "me/it"\n')
    for name in ("notebooks/00_a.ipynb", "tools/x.py", "docs/y.md", "picture.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    inside = {tmp_path / "notebooks/00_a.ipynb"}
    text = "[a](00_a.ipynb#b) [x](../tools/x.py#L3) ![p](../picture.png) [h](https://e.org) [n](#n)"
    told = book_pages.to_repository(text, tmp_path / "notebooks", tmp_path, inside)
    assert told == text.replace("../tools/x.py", "https://github.com/me/it/blob/HEAD/tools/x.py")


def test_the_routes_are_the_readmes():
    ways = book_pages.routes(README)
    stems = {path.stem for path in TOURS}
    assert len(ways) >= 3 and all(set(stops) <= stems for _, stops, _ in ways)
    titles = {path.stem: book_pages.title_of(path) for path in TOURS}
    (first, stops, will), *_ = ways
    for here, then in zip(stops, [*stops[1:], None], strict=True):
        foot = book_pages.route_line(here, ways, titles, proof=True)
        assert f'href="evidence/{here}.html"' in foot
        assert (f'{first}: <a href="{then}.html">' if then else f"{first}: you are through") in foot
    cards = book.cards(README, titles)
    assert cards.count("grid-item-card") == len(ways) and f"You will have {will}." in cards


def test_the_contents_hold_every_tour_once():
    told = re.findall(r"^notebooks/(\w+)$", book.contents([p.stem for p in TOURS]), flags=re.M)
    assert told == [path.stem for path in TOURS]


def test_the_source_of_the_book_has_every_page(tmp_path):
    wanted = book.write_source(ROOT, tmp_path / "source")
    assert len(wanted) == len(set(wanted)) > 2 * len(TOURS)
    for name in set(wanted) - {"search.html"}:
        page = tmp_path / "source" / name
        suffix = ".ipynb" if name.startswith("notebooks/") else ".md"
        assert page.with_suffix(suffix).is_file(), name
    start = (tmp_path / "source/index.md").read_text("utf-8")
    assert "{{ " not in start and "(picture.png)" in start
    assert f"all {len(load_claims())} of" in start


def test_the_start_page_shows_the_last_frame_of_a_loop(tmp_path):
    frames = [Image.new("RGB", (20, 10), color) for color in ("red", "blue")]
    frames[0].save(tmp_path / "loop.gif", save_all=True, append_images=frames[1:])
    alt = "A loop in which red turns into blue, twice"
    (tmp_path / "README.md").write_text(f"# Title\n\n[![badge](b.svg)](x)\n\n![{alt}](loop.gif)\n")
    shown = book.picture(tmp_path, tmp_path)
    assert shown == f"[![{alt}](picture.png)](loop.gif)"
    with Image.open(tmp_path / "picture.png") as still:
        assert still.convert("RGB").getpixel((5, 5)) == pytest.approx((0, 0, 255), abs=8)


# ---- the ledger ----


def test_each_claim_has_its_numbers_and_its_place_in_the_evidence(ledger_rows, pages):
    stems = {path.stem[:2]: path.stem for path in TOURS}
    cells = [cell.source for path in PROOFS for cell in pages[path].cells]
    places = set(re.findall(r'<span id="(claim-[\d-]+)">', "\n".join(cells)))
    made = set(re.findall(r'\bclaim\(\s*"(\d\d\.\d+)"', "\n".join(cells)))
    assert [row.claim.id for row in ledger_rows] == list(load_claims())
    assert {book_pages.anchor(id) for id in made} <= places
    for row in ledger_rows:
        shown = book_ledger.line(row, stems)
        assert f'data-verdict="{row.verdict}"' in shown
        for run in weights_of({row.claim.id: row.entry}):
            assert run in shown


def test_sources_are_found_in_the_claims_own_words(ledger_rows):
    names = book_ledger.source_names((ROOT / "data/claims/README.md").read_text("utf-8"))
    assert list(names) == ["S0", "S1", "S2", "S3", "S4"] and names["S3"] == "VISIT"
    by_id = {row.claim.id: row.sources for row in ledger_rows}
    told = {id: one.source for id, one in load_claims().items()}
    for id, sources in by_id.items():
        assert sources == ("others",) or all(source in told[id] for source in sources), told[id]
    mine = next(id for id, source in told.items() if source.startswith("ours, on S1"))
    assert by_id[mine] == ("ours", "S1")
    tables = book_ledger.source_tables(ledger_rows, names)
    said = re.findall(r'href="#claim-(\d\d)-(\d+)"', tables)
    assert {".".join(each) for each in said} == {i for i, s in by_id.items() if s[0] != "ours"}


# ---- the glossary ----


def test_the_glossary_page_has_a_place_for_each_term(tmp_path):
    path = tmp_path / "glossary.toml"
    path.write_text(
        '[[term]]\nname = "token"\nmeaning = "A piece of text."\nnotebook = "00"\n'
        '[[term]]\nname = "K-composition"\nalso = ["key composition"]\nmeaning = "A path."\n'
        "formula = 'W_Q W_K'\nnotebook = \"10\"\n"
    )
    page = book_pages.glossary_page(load_glossary(path), {"10": "10_heads"})
    assert page.index("(term-k-composition)=") < page.index("(term-token)=")
    assert (
        "**K-composition**, also *key composition*: A path. [Notebook 10](notebooks/10_heads"
        in page
    )
    assert "$$W_Q W_K$$" in page and "**token**: A piece of text.\n" in page


# ---- checks of a built book ----

WORDS = "word " * 60
GOOD = f'<h1 id="top">A</h1><p>{WORDS}</p><a href="#top">up</a><img src="a.png" alt="a map">'


@pytest.fixture
def built(tmp_path):
    """A small book in which nothing is wrong."""
    (tmp_path / "a.png").write_bytes(b"0" * 100)
    (tmp_path / "style.css").write_text("p { background: url(a.png) }")
    (tmp_path / "index.html").write_text(
        f'<link rel="stylesheet" href="style.css">{GOOD}<a href="https://e.org">e</a>'
        '<a href="sub/b.html#top">b</a>'
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/b.html").write_text(GOOD.replace("a.png", "../a.png"))
    return tmp_path


def test_a_good_book_has_no_problems(built):
    assert book_checks.problems(built, ["index.html", "sub/b.html"]) == []
    assert book_checks.start_bytes(built, book_checks.read_pages(built)) == sum(
        path.stat().st_size for path in built.iterdir() if path.is_file()
    )


@pytest.mark.parametrize(
    ("added", "problem"),
    [
        ('<a href="none.html">x</a>', "links to none.html, which is not there"),
        ('<a href="sub/b.html#none">x</a>', "sub/b.html#none: that page has no such place"),
        ('<a href="../../outside.html">x</a>', "links to ../../outside.html"),
        ('<img src="https://e.org/a.png" alt="a b">', "loads https://e.org/a.png"),
        ('<script src="//cdn.org/x.js"></script>', "loads //cdn.org/x.js"),
        ("<style>@import 'https://e.org/x.css';</style>", "loads https://e.org/x.css"),
        ('<p style="background: url(http://e.org/b.png)">', "loads http://e.org/b.png"),
        ('<img src="a.png" alt=" ">', "no alternative text for a.png"),
        (f"<p>{'x' * 1_000_000}</p>", "the start page loads 1.00 MB"),
    ],
)
def test_what_is_wrong_with_a_book_is_named(built, added, problem):
    page = built / "index.html"
    page.write_text(page.read_text() + added)
    found = book_checks.problems(built, ["index.html"])
    assert len(found) == 1 and problem in found[0]


def test_missing_and_empty_pages_and_an_empty_book_are_found(built, tmp_path):
    (built / "sub/b.html").write_text("<p>nothing</p>")
    wanted = ["index.html", "sub/b.html", "c.html"]
    pages = book_checks.read_pages(built)
    assert book_checks.missing(pages, wanted) == [
        "sub/b.html has 1 words only",
        "c.html is missing",
    ]
    (empty := tmp_path / "empty").mkdir()
    found = book_checks.problems(empty, ["index.html"])
    assert found == ["the book is empty", "index.html is missing"]


def test_a_style_that_asks_another_host_is_found(built):
    (built / "style.css").write_text("@font-face { src: url('https://e.org/f.woff2') }")
    assert book_checks.problems(built, []) == ["style.css loads https://e.org/f.woff2"]


def test_printed_claims_and_lighter_pages(tmp_path):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "_static/scripts").mkdir(parents=True)
    (tmp_path / "_static/scripts/fontawesome.js").touch()
    script = '<script defer src="_static/scripts/fontawesome.js?digest=1"></script>\n'
    search = '<script src="searchindex.js"></script>\n'
    page = '<article class="bd-article"><pre>10.5 holds: of 99.9\n99.9 holds: not</pre></article>'
    for name in ("index.html", "search.html", "notebooks/a.html"):
        (tmp_path / name).write_text(script + search + page)
    book.finish(tmp_path, {"10.5"})
    told = {p.name: p.read_text() for p in tmp_path.rglob("*.html")}
    assert not [name for name, text in told.items() if "fontawesome" in text]
    assert [name for name, text in told.items() if "searchindex" in text] == ["search.html"]
    linked = '<pre><a href="../ledger.html#claim-10-5">10.5</a> holds: of 99.9\n99.9 holds'
    assert linked in told["a.html"] and "<pre>10.5 holds" in told["index.html"]
    assert "data-pagefind-body" in told["index.html"]


def test_standalone_pages_are_written_by_their_functions(tmp_path):
    for name, save in book.STANDALONE.items():
        size = save(Path(tmp_path / name))
        assert size == (tmp_path / name).stat().st_size > 10_000
