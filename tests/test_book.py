"""The book's pages, ledger and checks, without Sphinx; tests/slow/test_book.py builds it."""

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from PIL import Image

import book
import book_checks
import book_finish
import book_ledger
import book_pages
import publish
import which
from aot_helpers.teaching.ledger import ROOT, weights_of
from aot_helpers.teaching.rules import load_claims
from glossary import load_glossary

README = (ROOT / "README.md").read_text("utf-8")
TOURS, EVIDENCE = (which.numbered(ROOT / "notebooks", each) for each in ("tours", "evidence"))
NOTEBOOKS = [*EVIDENCE, *TOURS]
TITLES = {path.stem[:2]: book_pages.title_of(path) for path in TOURS}
UNTRIED_TEXT = (
    "exercise 10.1: not attempted\n→ from here on, `key_matrix` is the package's version\n"
)


@pytest.fixture(scope="module")
def pages():
    """Every notebook as a page of the book, by its path."""
    inside = {path.resolve() for path in NOTEBOOKS}
    return {path: book_pages.page_of(path, ROOT, inside) for path in NOTEBOOKS}


def is_untried(line):
    return line.endswith(": not attempted") or line.startswith("→ from here on, ")


@pytest.fixture(scope="module")
def ledger_rows():
    return book_ledger.rows()


@pytest.fixture(scope="module")
def ledger_page():
    return book_ledger.ledger_page(ROOT, {p.stem[:2]: p.stem for p in TOURS}, TITLES)


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
        (
            'print("what is printed first")\nshow(a, "the note", "Two maps of a text")',
            "Two maps of a text",
        ),
        ('if big:\n    t = f"Big {n}"\nfigures.one(x, title=t)', "Big …"),
        ('%time run()\nshow(name, "short")', ""),
        ("not python", ""),
    ],
)
def test_a_figures_title_is_read_from_its_cell(source, title):
    assert book_pages.figure_title(source) == title


def test_an_alternative_text_is_the_title_and_one_sentence():
    before = new_markdown_cell(
        "## 2 · Which key *answers*?\n\nKeys have a dot product. It is `q @ k`, no less."
    )
    after = new_markdown_cell(
        "**Rows** attend to [columns](x.html), as in a map. More.\n\n- a list"
    )
    titled, bare = drawing('f(title="Scores, by key.")'), drawing("f(x)")
    said = [book_pages.alt_text([before, cell, after], 1) for cell in (titled, bare)]
    assert said[0] == "Scores, by key. Rows attend to columns, as in a map."
    assert said[1] == "Which key answers? Rows attend to columns, as in a map."
    holed = drawing('f(title=f"{n} of the keys")')
    assert book_pages.alt_text([before, holed, after], 1) == said[1]
    formula = new_markdown_cell("The gap is $\\sqrt{d}$ at the end. Nothing else is to be seen.")
    drawn = drawing('f(title="Scores by key", x_label="key", y_label="query")')
    assert book_pages.alt_text([drawn, formula], 0) == (
        "Scores by key. Across: key. Up: query. Nothing else is to be seen."
    )
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
                if len(alt.split()) < 6 or "<Figure" in alt or "$" in alt or "L0H…" in alt:
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
        outputs = [o for c in publish.nbformat.read(path, 4).cells for o in c.get("outputs", [])]
        told = [o for o in outputs if not all(map(is_untried, o.get("text", "?").splitlines()))]
        assert sum(len(cell.outputs) for cell in code) == len(told), path.name


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
        foot = book_pages.route_line(here, ways, titles)
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
    assert "{{ " not in start and 'src="picture.webp"' in start
    assert f"all {len(load_claims())} of" in start


def test_the_start_page_shows_a_loop_that_moves(tmp_path):
    frames = [Image.new("RGB", (20, 10), color) for color in ("red", "blue")]
    loop = {"save_all": True, "append_images": frames[1:], "duration": [70, 900]}
    frames[0].save(tmp_path / "loop.gif", **loop)
    alt = "A loop in which red turns into blue, twice"
    (tmp_path / "README.md").write_text(f"# Title\n\n[![badge](b.svg)](x)\n\n![{alt}](loop.gif)\n")
    shown = book.picture(tmp_path, tmp_path)
    assert f'<img src="picture.webp" alt="{alt}" width="20" height="10">' in shown
    assert '(prefers-reduced-motion: reduce)" srcset="picture.png"' in shown
    with (
        Image.open(tmp_path / "picture.png") as still,
        Image.open(tmp_path / "picture.webp") as loop,
    ):
        assert still.convert("RGB").getpixel((5, 5)) == pytest.approx((0, 0, 255), abs=8)
        assert loop.n_frames == 2 and loop.convert("RGB").getpixel((5, 5)) == (255, 0, 0)


# ---- the ledger ----


def test_each_claim_has_its_numbers_and_its_place_in_the_evidence(ledger_rows, ledger_page, pages):
    cells = [cell.source for path in EVIDENCE for cell in pages[path].cells]
    places = set(re.findall(r'<span id="(claim-[\d-]+)">', "\n".join(cells)))
    assert [row.claim.id for row in ledger_rows] == list(load_claims())
    shown_claims = ledger_page.split('<details class="claim"')[1:]
    for row, shown in zip(ledger_rows, shown_claims, strict=True):
        assert set(re.findall(r"html#(claim-[\d-]+)", shown)) <= places
        assert f'data-verdict="{row.verdict}"' in shown
        for run in weights_of([row.entry]):
            assert run in shown


def test_sources_are_found_in_the_claims_own_words(ledger_rows, ledger_page):
    names = book_ledger.source_names((ROOT / "data/claims/README.md").read_text("utf-8"))
    assert list(names) == ["S0", "S1", "S2", "S3", "S4"] and names["S3"] == "VISIT"
    by_id = {row.claim.id: row.sources for row in ledger_rows}
    told = {id: one.source for id, one in load_claims().items()}
    for id, sources in by_id.items():
        assert sources == ("others",) or all(source in told[id] for source in sources), told[id]
    mine = next(id for id, source in told.items() if source.startswith("ours, on S1"))
    assert by_id[mine] == ("ours", "S1")
    tables = ledger_page[: ledger_page.index("<h2>How many</h2>")]
    listed = re.findall(r'href="#claim-(\d\d)-(\d+)"', tables)
    assert {".".join(each) for each in listed} == {i for i, s in by_id.items() if s[0] != "ours"}


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


@pytest.fixture
def written(tmp_path):
    """A book as Sphinx leaves it: three pages with the theme's scripts and two styles."""
    for folder in ("notebooks", "_static/scripts", "_static/styles", "_static/vendor"):
        (tmp_path / folder).mkdir(parents=True)
    for name in (*book_finish.SCRIPTS, "scripts/fontawesome.js"):
        (tmp_path / "_static" / name).write_text(f"// {name}")
    (tmp_path / "_static/base.css").write_text("p { color: red }")
    style = '@import "../base.css";@font-face{src:url(../vendor/fontawesome/a.woff2)}'
    (tmp_path / "_static/styles/theme.css").write_text(style + 'a { background: url("b.png") }')
    Image.new("RGB", (30, 20)).save(tmp_path / "a.png")
    for name in ("index.html", "search.html", "notebooks/a.html"):
        up = "../" * name.count("/")
        (tmp_path / name).write_text(
            f'<head><link href="{up}_static/styles/theme.css?d=1" rel="stylesheet" />\n'
            f'<link rel="stylesheet" type="text/css" href="{up}_static/base.css" />\n'
            f'<script defer src="{up}_static/scripts/fontawesome.js?digest=1"></script>\n'
            f'<script src="{up}searchindex.js"></script>\n'
            f'<script src="{up}_static/doctools.js"></script></head>'
            f'<article class="bd-article"><img alt="a" src="{up}a.png" />'
            "<pre>10.5 holds: of 99.9\n99.9 holds: not</pre></article>"
            '<summary aria-label="Toggle hidden content"><p>Show</p></summary>'
        )
    book_finish.finish(tmp_path, {"10.5"})
    return tmp_path


def test_pages_load_one_style_and_one_script(written):
    told = {p.name: p.read_text() for p in written.rglob("*.html")}
    style = (written / "_static/all.css").read_text()
    assert style.startswith('p { color: red }a { background: url("styles/b.png") }')
    assert not (written / "_static/vendor").exists() and "fontawesome" not in str(told)
    script = (written / "_static/all.js").read_text()
    assert [script.index(f"// {name}") for name in book_finish.SCRIPTS] == sorted(
        script.index(f"// {name}") for name in book_finish.SCRIPTS
    )
    assert re.findall(r'(?:src|href)="([^"?]+\.(?:js|css))', told["a.html"]) == [
        "../_static/all.css",
        "../_static/all.js",
    ]
    assert "searchindex.js" in told["search.html"] and "doctools.js" in told["search.html"]


def test_finished_pages_have_links_names_sizes_and_kinds(written):
    told = {p.name: p.read_text() for p in written.rglob("*.html")}
    linked = '<pre><a href="../ledger.html#claim-10-5">10.5</a> holds: of 99.9\n99.9 holds'
    assert linked in told["a.html"] and "<pre>10.5 holds" in told["index.html"]
    assert 'data-pagefind-body data-pagefind-filter="kind:tour"' in told["a.html"]
    kinds = ("glossary.html", "notebooks/evidence/10.html", "ledger.html")
    assert [book_finish.kind(name) for name in kinds] == ["glossary", "evidence", "other"]
    assert 'src="../a.png" width="30" height="20"' in told["a.html"]
    assert "<summary><p>Show" in told["a.html"]


def test_cells_of_the_ledger_are_apart_for_a_search(ledger_page):
    assert not re.findall(r"\w<(?:/dd>)?(?:dt|dd|td|th|tr)\b", ledger_page)


def test_untried_exercises_say_nothing():
    said = new_output("stream", name="stdout", text=UNTRIED_TEXT + "3 rows\n")
    only = new_output("stream", name="stdout", text=UNTRIED_TEXT)
    cells = [new_code_cell("f()", outputs=[said]), new_code_cell("g()", outputs=[only])]
    book_pages.leave_out_the_untried(cells)
    assert [[out.text for out in cell.outputs] for cell in cells] == [["3 rows\n"], []]


def test_a_page_is_described_by_its_first_statements():
    badges = "# 10 · How?\n\n[![Colab](b.svg)](https://c.org)\n\n"
    badges += "A head looks back. It copies what it finds."
    cells = [new_markdown_cell(badges), new_markdown_cell("More follows here.")]
    assert book_pages.description(cells) == "A head looks back. It copies what it finds."


def test_the_books_address_waits_for_its_owner(tmp_path):
    for owner, address in {"OWNER": "", "Me": "https://me.github.io/it/"}.items():
        (tmp_path / "pyproject.toml").write_text(f'[tool.aot]\nrepository = "{owner}/it"\n')
        assert book_pages.address(tmp_path) == address


# ---- formulas ----


def test_a_formula_is_drawn_on_its_line_and_can_be_heard():
    book_math = pytest.importorskip("book_math", reason="`make book` installs ziamath")
    picture = book_math.drawn(r"\frac{a}{\sqrt{d_\text{head}}}", True)
    assert "currentColor" in picture and "vertical-align:-" in picture
    assert "<msqrt>" in picture and "<mtext>head</mtext>" in picture and "<script" not in picture
    assert "vertical-align" not in book_math.drawn("a", False)
    with pytest.raises(ValueError, match=r"nonsense"):
        book_math.drawn(r"\nonsense{x}", True)


def test_standalone_pages_are_written_by_their_functions(tmp_path):
    for name, save in book.STANDALONE.items():
        size = save(Path(tmp_path / name))
        assert size == (tmp_path / name).stat().st_size > 10_000
