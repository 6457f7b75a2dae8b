"""Build the book from what is committed: `make book`. Nothing is executed, and no host is asked.

The pages go to build/book/, which opens from the disk; build/book/attention-only-transformers.zip
is the same to take along. Fails where a page is missing or empty, a link of the book is dead,
another host would be asked, or a picture has no alternative text.
"""

import argparse
import html
import importlib.util
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
from PIL import Image, ImageSequence

import book_checks
import book_finish
import book_ledger
import book_pages
import group
import here  # noqa: F401
from chapters.pages.playground import save_playground
from chapters.pages.training import save_training_page
from glossary import load_glossary
from which import numbered

ROOT = Path(__file__).resolve().parent.parent
# Pages that stand alone, without the book's frame: their file and what writes it.
STANDALONE: dict[str, Callable[[Path], int]] = {
    "playground.html": save_playground,
    "drag.html": save_training_page,
}
ALONE = STANDALONE | group.PAGES
DOCS = ("notation", "using", "install", "commands", "data", "scale")
PARTS = {  # of the tours, by their first numbers
    "Build": range(0, 6),
    "Read": range(6, 13),
    "The torus": range(13, 16),
    "Reports, tested": range(16, 100),
}
ZIP = "attention-only-transformers.zip"


def needs() -> str:
    """What has to be installed first; "" where all is there."""
    lacking = [
        name
        for name in ("sphinx", "myst_nb", "sphinx_book_theme", "pagefind", "ziamath")
        if importlib.util.find_spec(name) is None
    ]
    return f"{', '.join(lacking)} not installed: `make book` does it" if lacking else ""


def toctree(caption: str, pages: list[str]) -> str:
    """A part of the table of contents at the side."""
    return f"```{{toctree}}\n:caption: {caption}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


def contents(tours: list[str]) -> str:
    """The table of contents: the tours by part, the evidence as appendices, then the rest."""
    parts = {
        name: [f"notebooks/{stem}" for stem in tours if int(stem[:2]) in numbers]
        for name, numbers in PARTS.items()
    }
    looked_up = ["ledger", "glossary", *(f"docs/{name}" for name in DOCS)]
    parts |= {"Look up": looked_up, "Appendix: evidence": ["evidence"]}
    return "\n".join(toctree(*part) for part in parts.items())


def cards(readme: str, titles: dict[str, str]) -> str:
    """The routes of the README as cards of the start page."""
    lines = ["::::{grid} 1 1 3 3", ":gutter: 3", ""]
    for have, stops, will in book_pages.routes(readme):
        linked = [f"[{titles[stop]}](notebooks/{stop}.ipynb)" for stop in stops]
        if len(stops) == 1:
            take = f"All {len(titles)} tours, from {linked[0]} on"
        elif len(stops) <= 4:
            take = "\n".join(f"- {each}" for each in linked)
        else:
            take = " · ".join(f"[{stop[:2]}](notebooks/{stop}.ipynb)" for stop in stops)
        lines += [f":::{{grid-item-card}} {have[0].upper()}{have[1:]}", take, ""]
        lines += [f"You will have {will}.", ":::", ""]
    return "\n".join([*lines, "::::"])


def picture(root: Path, source: Path) -> str:
    """The README's first picture for the start page, as HTML; its files come to `source`.

    It is a loop: picture.webp, which is half as large; picture.png is its last frame, for readers
    whose system asks for less motion.
    """
    alt, file = re.search(
        r"!\[([^]]{30,})\]\((\S+)\)", (root / "README.md").read_text("utf-8")
    ).groups()
    with Image.open(root / file) as image:
        frames = [frame.convert("RGB") for frame in ImageSequence.Iterator(image)]
        times = [f.info.get("duration", 100) for f in ImageSequence.Iterator(image)]
    wide, high = frames[-1].size
    frames[-1].quantize(256, dither=0).save(source / "picture.png", optimize=True)
    loop = {"save_all": True, "append_images": frames[1:], "duration": times, "loop": 0}
    frames[0].save(source / "picture.webp", lossless=True, method=4, **loop)
    still = '<source media="(prefers-reduced-motion: reduce)" srcset="picture.png">'
    moving = f'<img src="picture.webp" alt="{html.escape(alt)}" width="{wide}" height="{high}">'
    return f"<picture>{still}{moving}</picture>"


def start_page(root: Path, source: Path, titles: dict[str, str]) -> str:
    """docs/book/index.md with the README's routes and picture, the counts and the contents."""
    readme, text = (
        (root / name).read_text("utf-8") for name in ("README.md", "docs/book/index.md")
    )
    found = book_ledger.counts(book_ledger.rows())
    filled = {
        "PICTURE": picture(root, source),
        "ROUTES": cards(readme, titles),
        "TOURS": str(len(titles)),
        "CLAIMS": str(found["claims"]),
        "BEFORE": str(found["rule set before its values"]),
        "FINDINGS": str(found["findings"]),
        "CONTENTS": contents(list(titles)),
    }
    return re.sub(r"\{\{ (\w+) \}\}", lambda match: filled[match[1]], text)


def evidence_page(evidence: list[Path]) -> str:
    """The list of the evidence, which stands behind the tours."""
    about = (
        "Behind each tour stands a notebook with more seeds, controls, and audits of the sources."
    )
    entries = "\n".join(f"notebooks/evidence/{path.stem}" for path in evidence)
    return f"# Evidence\n\n{about}\n\n```{{toctree}}\n:titlesonly:\n\n{entries}\n```\n"


def write_source(root: Path, source: Path) -> list[str]:
    """Write the book's source from what is committed; the pages that the book must have."""
    shutil.rmtree(source, ignore_errors=True)
    tours, evidence = (numbered(root / "notebooks", each) for each in ("tours", "evidence"))
    docs = [root / "docs" / f"{name}.md" for name in DOCS]
    inside = {path.resolve() for path in (*tours, *evidence, *docs)}
    titles = {path.stem: book_pages.title_of(path) for path in tours}
    ways = book_pages.routes((root / "README.md").read_text("utf-8"))
    for path in (*tours, *evidence):
        to = source / path.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        foot = book_pages.route_line(path.stem, ways, titles) if path in tours else ""
        nbformat.write(book_pages.page_of(path, root, inside, foot), to)
    for folder in ("notebooks/badges", "data/results/figures"):
        if (root / folder).is_dir():
            shutil.copytree(root / folder, source / folder)
    (source / "docs").mkdir()
    for path in docs:
        text = book_pages.to_repository(path.read_text("utf-8"), path.parent, root, inside)
        (source / "docs" / path.name).write_text(text, "utf-8")
    stems = {path.stem[:2]: path.stem for path in tours}
    by_number = {number: titles[stem] for number, stem in stems.items()}
    pages = {
        "index": start_page(root, source, titles),
        "evidence": evidence_page(evidence),
        "ledger": book_ledger.ledger_page(root, stems, by_number),
        "glossary": book_pages.glossary_page(load_glossary(), stems),
    }
    for name, text in pages.items():
        (source / f"{name}.md").write_text(text, "utf-8")
    built = [path.relative_to(root).with_suffix(".html").as_posix() for path in (*tours, *evidence)]
    built += [f"docs/{name}.html" for name in DOCS]
    return [*built, *(f"{name}.html" for name in pages), "search.html"]


def build(root: Path, target: Path) -> list[str]:
    """Build the book of `root` in `target`; what is wrong with it."""
    source, doctrees = (
        target.with_name(f"{target.name}-source"),
        target.with_name(f"{target.name}-trees"),
    )
    for old in (target, doctrees):
        shutil.rmtree(old, ignore_errors=True)
    wanted = write_source(root, source)
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-j", "2", "-W", "--keep-going"]
    sphinx += ["-c", str(root / "docs/book"), "-d", str(doctrees), str(source), str(target)]
    if subprocess.run(sphinx).returncode:
        return ["Sphinx found the problems above"]
    for picture in source.glob("picture.*"):
        shutil.copy(picture, target)
    book_finish.finish(target, {row.claim.id for row in book_ledger.rows()})
    for name, save in ALONE.items():
        save(target / name)
    index = [sys.executable, "-m", "pagefind", "--site", str(target), "--silent"]
    index += ["--exclude-selectors", "a.headerlink"]
    if subprocess.run(index).returncode:
        return ["Pagefind could not index the book"]
    pack(target)
    return book_checks.problems(target, [*wanted, *ALONE])


def pack(book: Path) -> None:
    """Pack the book as one file to take along, which the book itself offers."""
    with zipfile.ZipFile(book / ZIP, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(book.rglob("*")):
            if path.is_file() and path.name != ZIP:
                packed.write(path, Path("attention-only-transformers") / path.relative_to(book))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--target", type=Path, default=ROOT / "build" / "book")
    target = parser.parse_args(arguments).target.resolve()
    if lacking := needs():
        sys.exit(lacking)
    started = time.perf_counter()
    target.parent.mkdir(parents=True, exist_ok=True)
    found = build(ROOT, target)
    print(*found, sep="\n")
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file()) / 1e6
    took = time.perf_counter() - started
    print(f"{target}/index.html: {size:.0f} MB in {took:.0f} s, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
