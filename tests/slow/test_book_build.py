"""The whole book, built as `make book` does."""

import zipfile

import pytest

import book
from aot_helpers.teaching.ledger import ROOT

pytestmark = pytest.mark.skipif(bool(book.needs()), reason=book.needs() or "all is installed")


def test_the_book_is_built_and_nothing_is_wrong_with_it(tmp_path):
    target = tmp_path / "book"
    assert book.build(ROOT, target) == []  # pages, links, hosts, alternative texts, sizes
    read = lambda name: (target / name).read_text("utf-8")  # noqa: E731
    tour = read("notebooks/10_induction_heads.html")
    assert 'class="term reference internal"' in tour and "You have a prediction?" in tour
    evidence = read("notebooks/evidence/10_induction_heads.html")
    assert '<a href="../../ledger.html#claim-10-5">10.5</a>' in evidence
    assert "mybinder.org" in tour and "colab.research" in tour and "google.colab" not in tour
    assert "document.getElementById" in read("notebooks/13_torus_network.html")  # alive
    assert "<math" in read("glossary.html") and "MathJax" not in read("glossary.html")
    assert '<meta name="description"' in tour and 'rel="icon"' in tour
    assert (target / "pagefind/pagefind.js").is_file() and (target / "searchindex.js").is_file()
    with zipfile.ZipFile(target / book.ZIP) as packed:
        assert "attention-only-transformers/index.html" in packed.namelist()
        assert packed.testzip() is None
