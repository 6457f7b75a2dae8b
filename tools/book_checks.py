"""What must hold of a built book: its pages, links, pictures and hosts. A line a problem."""

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {  # what a browser fetches by itself
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
}
LEADS = ("canonical", "next", "prev", "search", "index")  # kinds of <link> that load nothing
STYLE_URL = re.compile(r"""(?:url\(\s*['"]?|@import\s+['"])([^'")]+)""")


class Page(HTMLParser):
    """What one page loads, links to, names, and shows without a word."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.loads, self.links, self.ids, self.silent = [], [], set(), []
        self.style, self.words = False, 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids.update(filter(None, (given.get("id"), given.get("name") if tag == "a" else None)))
        self.style = tag == "style"
        if tag == "link" and given.get("rel") not in LEADS:
            self.loads.append(given.get("href") or "")
        if tag in LOADS and given.get(LOADS[tag]):
            self.loads.append(given[LOADS[tag]])
        self.loads += STYLE_URL.findall(given.get("style") or "")
        if tag == "a" and given.get("href") is not None:
            self.links.append(given["href"])
        if tag == "img" and not (given.get("alt") or "").strip():
            self.silent.append((given.get("src") or "")[:80])

    def handle_data(self, data):
        if self.style:
            self.loads += STYLE_URL.findall(data)
            self.style = False
        else:
            self.words += len(data.split())


def read_pages(book: Path) -> dict[str, Page]:
    """Every page of a book by its path."""
    files = sorted(book.rglob("*.html"))
    return {p.relative_to(book).as_posix(): Page(p.read_text("utf-8")) for p in files}


def is_elsewhere(address: str) -> bool:
    """Whether an address names a host."""
    return bool(urlsplit(address).netloc)


def missing(pages: dict[str, Page], wanted: Iterable[str], least_words: int = 50) -> list[str]:
    """Pages that are not there, or hardly say anything."""
    lines = [] if pages else ["the book is empty"]
    for name in wanted:
        if name not in pages:
            lines.append(f"{name} is missing")
        elif pages[name].words < least_words:
            lines.append(f"{name} has {pages[name].words} words only")
    return lines


def dead_links(book: Path, pages: dict[str, Page]) -> list[str]:
    """Links and files of the book itself that lead nowhere."""
    lines = []
    for name, page in pages.items():
        for address in dict.fromkeys([*page.links, *page.loads]):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            file = (book / name).parent / unquote(parts.path) if parts.path else book / name
            if not file.resolve().is_relative_to(book.resolve()) or not file.exists():
                lines.append(f"{name} links to {address}, which is not there")
                continue
            target = file.resolve().relative_to(book.resolve()).as_posix()
            place = unquote(parts.fragment)
            is_place = place and "=" not in place  # "#seed=2" is a setting of the playground
            if is_place and target in pages and place not in pages[target].ids:
                lines.append(f"{name} links to {address}: that page has no such place")
    return lines


def outside_requests(book: Path, pages: dict[str, Page]) -> list[str]:
    """What a page or a style would fetch from another host."""
    lines = [
        f"{name} loads {address}"
        for name, page in pages.items()
        for address in page.loads
        if is_elsewhere(address)
    ]
    for path in sorted(book.rglob("*.css")):
        found = STYLE_URL.findall(path.read_text("utf-8"))
        lines += [f"{path.relative_to(book)} loads {u}" for u in found if is_elsewhere(u)]
    return lines


def without_words(pages: dict[str, Page]) -> list[str]:
    """Pictures that have no alternative text."""
    return [
        f"{name}: no alternative text for {src}"
        for name, page in pages.items()
        for src in page.silent
    ]


def problems(book: Path, wanted: Iterable[str]) -> list[str]:
    """All that is wrong with a built book."""
    pages = read_pages(book)
    lines = missing(pages, wanted) + dead_links(book, pages) + outside_requests(book, pages)
    return lines + without_words(pages)
