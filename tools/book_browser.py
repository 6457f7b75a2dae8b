"""Read the built book in a real browser, wide and narrow: `make browser`, after `make book`.

Opens the start page, three tours, the ledger, the glossary and the search from the disk, and the
search from a server; drags every live view; filters the ledger; lets a term explain itself. Fails
where a view does not follow, a page is wider than its window, a script fails, or another host is
asked. The screenshots go to runs/.
"""

import functools
import http.server
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import Error, expect, sync_playwright

from browser import FLAGS

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "build" / "book"
WIDTHS = (1280, 390)
SHOWN = ("index", "notebooks/00_start_here", "notebooks/10_induction_heads")
SHOWN += ("notebooks/13_torus_network", "ledger", "glossary", "evidence")
LIVE = "div[id^='page-']"


def shot(page, name: str, width: int) -> None:
    page.screenshot(path=ROOT / "runs" / f"book_{name.split('/')[-1]}_{width}.png")


def open_page(page, name: str) -> list[str]:
    """Open a page of the book; whether it is wider than the window."""
    page.goto(f"file://{BOOK}/{name}.html")
    page.wait_for_timeout(500)
    wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [f"{name} is {wide} px wide in a window of {window}"] * (wide > window)


def moves(page, view) -> str:
    """The first way in which a live view answers: a drag, another choice, …; "" if in none."""
    view.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    before = view.screenshot()

    def drag(canvas):
        box = canvas.bounding_box()
        x, y = box["x"] + 0.45 * box["width"], box["y"] + min(0.45 * box["height"], 300)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 40, y + 30, steps=6)
        page.mouse.up()

    ways = {
        "canvas, svg": drag,
        "input[type=range]": lambda slider: slider.press("ArrowRight"),
        "select": lambda choice: choice.select_option(index=1),
        "button": lambda button: button.click(no_wait_after=True),
    }
    for kind, act in ways.items():
        for part in view.locator(kind).all():
            act(part)
            page.wait_for_timeout(1000)
            if view.screenshot() != before:
                return kind.split(",")[0]
    return ""


def try_views(page, width: int) -> list[str]:
    """Drag each live view of the book once; those that do not follow."""
    wrong, count = [], 0
    for path in sorted(BOOK.glob("notebooks/**/*.html")):
        if "<div id='page-" not in path.read_text("utf-8"):
            continue
        name = path.relative_to(BOOK).with_suffix("").as_posix()
        wrong += open_page(page, name)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        for number in range(page.locator(LIVE).count()):
            view, count = page.locator(LIVE).nth(number), count + 1
            way = moves(page, view)
            print(f"{width} px: {name}, view {number}: {way or 'nothing moves'}")
            wrong += [] if way else [f"{name}: view {number} does not follow"]
            view.screenshot(path=ROOT / "runs" / f"book_view_{path.stem}_{number}_{width}.png")
    return wrong + ["the book has no live view"] * (count == 0)


def try_ledger(page, width: int) -> list[str]:
    """Filter the ledger, follow a permalink, and come to the cell that makes the claim."""
    page.goto(f"file://{BOOK}/ledger.html")
    total = page.locator("#claims > .claim").count()
    page.select_option("[name=verdict]", "fails")
    shown = page.locator("#claims > .claim:visible").count()
    wrong = [f"{shown} of {total} claims fail"] * (not 0 < shown < total)
    wrong += ["the choice is not in the address"] * ("verdict=fails" not in page.url)
    page.goto(f"file://{BOOK}/ledger.html#claim-10-5")
    expect(page.locator("#claim-10-5")).to_have_attribute("open", "", timeout=60_000)
    shot(page, "ledger_claim", width)
    page.locator("#claim-10-5 a[href^='notebooks/evidence']").first.click()
    page.wait_for_load_state()
    here = page.evaluate("location.hash && document.querySelector(location.hash) !== null")
    return wrong + ["the ledger's link finds no cell"] * (not here)


def try_term(page, width: int) -> list[str]:
    """Point at the first term of a tour, and read what it means."""
    page.goto(f"file://{BOOK}/notebooks/10_induction_heads.html")
    term = page.locator("a.term").first
    term.scroll_into_view_if_needed()
    term.hover()
    said = page.locator("#tip").inner_text()
    shot(page, "term", width)
    return [f"a term says only {said!r}"] * (len(said.split()) < 5)


def try_search(page, width: int, server: str) -> list[str]:
    """Search from the disk, by the theme's index, and from a server, by Pagefind."""
    wrong = []
    for name, base, found in (
        ("disk", f"file://{BOOK}", "#search-results li"),
        ("server", server, "#found h3"),
    ):
        page.goto(f"{base}/search.html?q=induction")
        try:
            page.locator(found).first.wait_for(timeout=60_000)
        except Error:
            wrong.append(f"the search from the {name} finds nothing")
        shot(page, f"search_{name}", width)
    return wrong


def try_order(page, server: str) -> list[str]:
    """Search for terms: the first answer is the glossary's, the first notebook is a tour."""
    wrong = []
    for term in ("induction head", "K-composition", "residual stream"):
        for base, found in (
            (server, "#found h3 a"),
            (f"file://{BOOK}", "#search-results li > a"),
        ):
            page.goto(f"{base}/search.html?q={term}")
            page.locator(found).nth(5).wait_for(timeout=60_000)
            links = [link.get_attribute("href") for link in page.locator(found).all()]
            first = next((link for link in links if "notebooks/" in link), "")
            if "glossary.html" not in links[0] or not first or "/evidence/" in first:
                wrong.append(f"{base}: {term!r} finds {links[:6]}")
    return wrong


def main() -> int:
    names = ("chromium", "chromium-browser", "chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None or not (BOOK / "index.html").is_file():
        lacking = "no Chromium on this machine" if chromium is None else "no book: `make book`"
        print(f"skipped: {lacking}")
        return 0
    (ROOT / "runs").mkdir(exist_ok=True)
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=BOOK)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base, problems = f"http://127.0.0.1:{server.server_port}", []
    own = (base, "file:", "data:", "blob:")
    with sync_playwright() as play, tempfile.TemporaryDirectory() as profile:
        browser = play.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=FLAGS
        )
        browser.on("weberror", lambda event: problems.append(f"page error: {event.error}"))
        browser.on(
            "request",
            lambda r: None if r.url.startswith(own) else problems.append(f"request to {r.url}"),
        )
        for width in WIDTHS:
            page = browser.new_page()
            page.set_viewport_size({"width": width, "height": 900})
            page.set_default_timeout(120_000)  # both cores may be busy
            for name in SHOWN:
                problems += open_page(page, name)
                shot(page, name, width)
            problems += try_views(page, width) + try_ledger(page, width)
            problems += try_term(page, width) + try_search(page, width, base)
            problems += try_order(page, base)
            page.close()
        browser.close()
    server.shutdown()
    print(*problems, sep="\n")
    print(f"{len(problems)} problems; screenshots: runs/book_*.png")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
