"""Pages that stand alone: one HTML file that a browser opens from the disk, and asks no host."""

import re
from base64 import b64encode
from html import escape
from pathlib import Path

from aot_helpers.base.files import check_writable, write_atomically

STATIC = Path(__file__).parent / "static"
ROOT = Path(__file__).resolve().parents[3]


def filled(text: str, words: dict[str, str]) -> str:
    """The text with every {{name}} in it replaced."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: words[found[1]], text)


def repository_name(root: Path) -> str:
    """The owner and name of the repository, from the one place where they stand.

    Raises ValueError where pyproject.toml names none.
    """
    settings = (root / "pyproject.toml").read_text("utf-8")
    found = re.search(r'(?m)^repository = "([\w.-]+/[\w.-]+)"$', settings)
    if not found:
        raise ValueError(f"{root / 'pyproject.toml'} must have one line: repository = …")
    return found[1]


def sites() -> tuple[str, str]:
    """Where the book and its source are published."""
    owner, project = repository_name(ROOT).split("/")
    return f"https://{owner}.github.io/{project}/", f"https://github.com/{owner}/{project}"


def links(in_book: bool) -> dict[str, str]:
    """What stands before a link to a page of the book, and the source's address."""
    book, source = sites()
    return {"book": "" if in_book else book, "source": source}


def standalone_page(name: str, about: tuple[str, str], main: str, style: str, script: str) -> str:
    """The page as HTML. name: of its file in the book, without .html; a picture .png is beside it.

    about: its title, and what a preview of a link says. main: its element that the script fills,
    <main id="…"></main>, and what stands beside it.
    """
    title, description = (escape(text) for text in about)
    book, _ = sites()
    icon = b64encode((STATIC / "icon.svg").read_bytes()).decode()
    without = f'A script makes this page. <a href="{book}">The book</a> can be read without one.'
    parts = {
        "TITLE": title,
        "DESCRIPTION": description,
        "ADDRESS": f"{book}{name}.html",
        "PICTURE": f"{book}{name}.png",
        "ICON": icon,
        "MAIN": main,
        "WITHOUT": without,
        "STYLE": style,
        "SCRIPT": f"{(STATIC / 'standalone.js').read_text('utf-8')}\n{script}",
    }
    pieces = re.split(r"/\*([A-Z]+)\*/", (STATIC / "standalone.html").read_text("utf-8"))
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


def is_in_book(path: str | Path) -> bool:
    """Whether a page at this path would stand among the pages of a built book."""
    return (Path(path).parent / "index.html").is_file()


def save_page(path: str | Path, page: str, picture: bytes | None = None) -> int:
    """Write a page to a file, and its folder if there is none; its size in bytes.

    picture: a PNG for previews of a link, written beside it under the same name.
    """
    path, content = Path(path), page.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    check_writable(path.parent)
    write_atomically(path, content)
    if picture:
        write_atomically(path.with_suffix(".png"), picture)
    return len(content)
