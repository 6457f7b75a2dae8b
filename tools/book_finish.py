"""Mend the pages that Sphinx wrote: fewer files, kinds for the search, names, sizes, links.

A page loads one style and one script, after its text; only the page that searches has the theme's
own scripts. The theme's script of icons is larger than all else together, and no page loads it.
"""

import hashlib
import os
import re
import shutil
from pathlib import Path

from PIL import Image

from book_pages import anchor

STYLE, SCRIPT = "_static/all.css", "_static/all.js"
SCRIPTS = (  # in this order; the last three are the theme's own, and the book's
    "documentation_options.js",
    "doctools.js",
    "clipboard.min.js",
    "copybutton.js",
    "scripts/sphinx-book-theme.js",
    "scripts/bootstrap.js",
    "scripts/pydata-sphinx-theme.js",
    "book.js",
)
SHEET = re.compile(
    r'[ \t]*<link(?=[^>]* rel="stylesheet")[^>]* href="(?:\.\./)*(_static/[^"?]+)[^>]*>\n?'
)
LOADED = re.compile(
    r'[ \t]*<(?:script|link)[^>]*(?:src|href)="[^"]*(?:_static/[^"]*\.js|searchindex\.js)[^"]*"'
    r"[^>]*>(?:</script>)?\n?|[ \t]*<script>DOCUMENTATION_OPTIONS\.[^<]*</script>\n?"
)
ADDRESS = re.compile(r"url\(\s*[\"']?(?!data:|#|[\"'])([^\"')]+)[\"']?\s*\)")
ICONS = re.compile(r"[ \t]*<(script|link)[^>]*fontawesome\.js[^>]*>(</script>)?\n?")
KINDS = {"glossary.html": "glossary", "notebooks/evidence/": "evidence", "notebooks/": "tour"}
NAMES = {  # names for the ear that hide the words on the thing, and a thing without a name
    '<summary aria-label="Toggle hidden content">': "<summary>",
    'title="Search" aria-label="Search"': 'title="Search"',
    '<summary><span class="toctree-toggle"': (
        '<summary aria-label="the list of the evidence"><span class="toctree-toggle"'
    ),
}


def stamp(text: str) -> str:
    """A short name of a text, so that no browser keeps an older one."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def read_style(path: Path, to: Path) -> str:
    """A style with those that it imports, its addresses relative to the folder `to`."""

    def moved(match: re.Match) -> str:
        target = os.path.relpath((path.parent / match[1]).resolve(), to.resolve())
        return f'url("{Path(target).as_posix()}")'

    useless = r"/\*# sourceMappingURL=.*?\*/|@font-face\s*\{[^}]*fontawesome[^}]*\}"
    text = re.sub(useless, "", path.read_text("utf-8"))
    imported = re.compile(r"@import\s+(?:url\()?[\"']([^\"']+)[\"']\)?;")
    parts = imported.split(text)  # every second one is an address
    parts[0::2] = [ADDRESS.sub(moved, part) for part in parts[0::2]]
    parts[1::2] = [read_style(path.parent / part, to) for part in parts[1::2]]
    return "".join(parts)


def one_style(book: Path, page: str) -> str:
    """Write all styles that a page loads as one file; its address with a stamp."""
    texts = [read_style(book / name, book / "_static") for name in SHEET.findall(page)]
    text = "\n".join(texts)
    (book / STYLE).write_text(text, "utf-8")
    return f"{STYLE}?v={stamp(text)}"


def one_script(book: Path) -> str:
    """Write the scripts of a page that does not search as one file; its address with a stamp."""
    texts = [(book / "_static" / name).read_text("utf-8") for name in SCRIPTS]
    text = "\n;\n".join(re.sub(r"(?m)^//# sourceMappingURL=.*$", "", each) for each in texts)
    (book / SCRIPT).write_text(text, "utf-8")
    return f"{SCRIPT}?v={stamp(text)}"


def kind(name: str) -> str:
    """What a page is to the search: docs/book/_static/book.js shows them by kind."""
    return next((what for start, what in KINDS.items() if name.startswith(start)), "other")


def sized(text: str, folder: Path) -> str:
    """A page whose pictures have their sizes, so that the text stands still while they load."""

    def renewed(match: re.Match) -> str:
        file = folder / match[1]
        if file.suffix != ".png" or not file.is_file():
            return match[0]
        with Image.open(file) as picture:
            wide, high = picture.size
        return f'{match[0]} width="{wide}" height="{high}"'

    return re.sub(r'<img(?![^>]*width=)[^>]*? src="([^"]+)"', renewed, text)


def with_links(text: str, up: str, ids: set[str]) -> str:
    """A page whose printed claims, "10.5 holds:" or 10.5 in a table, lead to the ledger."""

    def linked(match: re.Match) -> str:
        if match[2] not in ids:
            return match[0]
        return f'{match[1]}<a href="{up}ledger.html#{anchor(match[2])}">{match[2]}</a>'

    text = re.sub(r"(?<=[>\n])()(\d\d\.\d+)(?= [a-z ]+: )", linked, text)
    return re.sub(
        r"(<td>(?:<p>)?)<a [^>]*>(?:<span[^>]*>)?(\d\d\.\d+)(?:</span>)?</a>", linked, text
    )


def finish(book: Path, ids: set[str]) -> None:
    """Mend every page of a book; ids: of the claims in the ledger."""
    style, script = one_style(book, (book / "index.html").read_text("utf-8")), one_script(book)
    for path in sorted(book.rglob("*.html")):
        if path.is_relative_to(book / "_static"):
            path.unlink()  # fragments of the theme
            continue
        text, inside = path.read_text("utf-8"), path.relative_to(book)
        up = "../" * (len(inside.parts) - 1)
        text = SHEET.sub("", text)
        loads = f'<link rel="stylesheet" href="{up}{style}">\n'
        if inside.name == "search.html":
            text = ICONS.sub("", text)
        else:
            text = LOADED.sub("", text)
            loads += f'<script defer src="{up}{script}"></script>\n'
        text = text.replace("</head>", f"{loads}</head>", 1)
        searched = f'data-pagefind-body data-pagefind-filter="kind:{kind(inside.as_posix())}"'
        text = text.replace(
            '<article class="bd-article"', f'<article {searched} class="bd-article"'
        )
        for name, mended in NAMES.items():
            text = text.replace(name, mended)
        if inside.parts[0] == "notebooks":
            text = with_links(text, up, ids)
        path.write_text(sized(text, path.parent), "utf-8")
    for useless in [*book.rglob("*.map"), book / "_static/scripts/fontawesome.js"]:
        useless.unlink()
    shutil.rmtree(book / "_static/vendor", ignore_errors=True)  # its fonts of icons
