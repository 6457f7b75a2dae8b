"""Pages that stand alone: one HTML file that a browser opens from the disk, and asks no host."""

import json
from pathlib import Path

from aot_helpers.base.files import check_writable, write_atomically

SHELL = Path(__file__).parent / "static" / "standalone.html"


def script_data(data, **options) -> str:
    """Data as JSON that can stand in a script of a page, whatever its texts hold.

    Without any "<" no text can end the script, as </script> would, or begin what swallows the
    page, as <!-- before <script> would. options: of json.dumps.
    """
    return json.dumps(data, **options).replace("<", "\\u003c")


def standalone_page(title: str, main: str, style: str, script: str) -> str:
    """The page as HTML. main: its element that the script fills, <main id="…"></main>."""
    page = SHELL.read_text(encoding="utf-8")
    for mark, part in {"TITLE": title, "MAIN": main, "STYLE": style, "SCRIPT": script}.items():
        before, after = page.split(f"/*{mark}*/")
        page = f"{before}{part}{after}"
    return page


def save_page(path: str | Path, page: str) -> int:
    """Write a page to a file, and its folder if there is none; its size in bytes."""
    path, content = Path(path), page.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    check_writable(path.parent)
    write_atomically(path, content)
    return len(content)
