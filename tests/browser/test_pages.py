"""JupyterLab, live views, playground, drag page and book in Chromium: `make browser`.

What a page says is compared with PyTorch; none may fail, or ask another host. Skipped where there
is no Chromium, and the book's tests before `make book`. The screenshots go to runs/browser.
"""

import dataclasses
import functools
import http.server
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest
import torch
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from playwright.sync_api import expect

from aot_helpers.models.losses import copy_accuracy
from aot_helpers.reading.heads import induction_scores
from aot_helpers.text.batches import repeated_tokens
from chapters.nb13_torus_network.views import TorusView
from chapters.pages.playground import playground_view, save_playground
from chapters.pages.training import save_training_page
from chapters.pages.weights import load_playground
from chapters.torus import networks as torus
from chapters.torus.figures import predictor
from chapters.torus.runs import list_runs, load_run

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "build" / "book"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt install chromium"),
    pytest.mark.filterwarnings("ignore:Session-scoped fixtures"),  # one of pytest-playwright's
]
needs_book = pytest.mark.skipif(not (BOOK / "index.html").is_file(), reason="make book")
expect.set_options(timeout=60_000)  # both cores may be busy


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {**browser_type_launch_args, "executable_path": CHROMIUM}


@pytest.fixture(autouse=True)
def sound(context):
    """After each test: no page had an error, and none asked another host."""
    problems = []
    own = ("http://127.0.0.1:", "ws://127.0.0.1:", "file:", "data:", "blob:")

    def ask(request):
        if not request.url.startswith(own):
            problems.append(f"request to {request.url}")

    context.set_default_timeout(240_000)
    context.on("weberror", lambda event: problems.append(f"page error: {event.error}"))
    context.on("request", ask)
    yield
    assert problems == []


def open_wide(page, address: str, width: int = 1280, height: int = 900) -> None:
    """Open a page in a window of this size, in which it may not scroll sideways."""
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    page.wait_for_timeout(500)
    check_width(page)


def check_width(page) -> None:
    wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window, page.url


def check_names(page) -> None:
    """Every control and picture has a name for screen readers."""
    nameless = """[...document.querySelectorAll(
        "button, select, input, canvas, summary, [role=img]")]
      .filter((e) => e.checkVisibility() && !e.closest("[aria-hidden=true]"))
      .filter((e) => !(e.ariaLabel || e.labels?.length || e.innerText?.trim()))
      .map((e) => e.outerHTML)"""
    assert page.evaluate(nameless) == []


def wait_in_sight(page, element: str) -> None:
    """Wait until an element is in the window, and nothing lies above it."""
    seen = """(element) => {
      const e = document.querySelector(element), box = e.getBoundingClientRect();
      return e.contains(document.elementFromPoint(box.left + 5, box.top + box.height / 2)); }"""
    page.wait_for_function(seen, arg=element, timeout=10_000)


def drag(page, box, start, end) -> None:
    """Press at one place of an element, move in steps to another and let go; parts of its size."""
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=8)
    page.mouse.up()


# ---- JupyterLab ----


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab at the root of the project, with settings of its own: the address of a file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("lab")
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = '{"fetchNews": "false", "checkForUpdates": false}'
    (settings / "notification.jupyterlab-settings").write_text(quiet)
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"]
    command += [f"--ServerApp.root_dir={ROOT}", f"--ServerApp.port={port}", "--ip=127.0.0.1"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token=t"]
    surroundings = os.environ | {
        "JUPYTER_CONFIG_DIR": f"{folder}/config",
        "JUPYTERLAB_WORKSPACES_DIR": f"{folder}/workspaces",
        "JUPYTERLAB_SETTINGS_DIR": f"{folder}/settings",
        "AOT_RESULTS": f"{folder}/results",
    }
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=surroundings)
    try:
        for _ in range(120):
            assert server.poll() is None, (folder / "log").read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token=t", timeout=1)
                break
            except OSError:
                time.sleep(0.5)
        yield lambda file: f"http://127.0.0.1:{port}/lab/tree/{file}?token=t&reset"
    finally:
        server.terminate()
        server.wait(20)


def run_all(page) -> None:
    """Run all cells of the notebook that was opened."""
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    # Running before the kernel is there would open a "Select Kernel" dialog.
    status = page.locator(".jp-StatusBar-Widget")
    expect(status).to_contain_text("| Idle")
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator("#jp-mainmenu-run").get_by_text("Run All Cells", exact=True).click()
    page.wait_for_timeout(2000)
    expect(status).to_contain_text("| Idle", timeout=240_000)


def test_an_explorer_draws_again_in_jupyterlab(page, lab):
    page.goto(lab("notebooks/evidence/00_start_here.ipynb"))
    run_all(page)
    explorer = page.locator(".jp-OutputArea-output", has=page.locator("select")).last
    explorer.scroll_into_view_if_needed()
    drawn = explorer.locator("img").first
    before = drawn.get_attribute("src")
    explorer.locator("select").select_option(index=1)
    expect(drawn).not_to_have_attribute("src", before)


def test_arrow_keys_move_a_slider_and_not_jupyterlabs_cells(page, lab):
    script = "(root) => { root.innerHTML = '<input type=range max=9 value=2 aria-label=x>'; }"
    source = "import matplotlib.figure\nfrom aot_helpers.showing.widgets import Page\n"
    source += "Page('keys.js', {}, matplotlib.figure.Figure(), 'a slider')"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}}
    cells = [new_code_cell(source), new_markdown_cell("The next cell")]
    (ROOT / "runs").mkdir(exist_ok=True)
    (ROOT / "runs" / "keys.js").write_text(script)
    nbformat.write(new_notebook(cells=cells, metadata=kernel), ROOT / "runs" / "keys.ipynb")
    page.goto(lab("runs/keys.ipynb"))
    run_all(page)
    slider = page.locator(".jp-OutputArea input[type=range]")
    slider.focus()
    page.wait_for_timeout(1500)
    slider.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert slider.input_value() == "3"
    assert "Page" in page.evaluate("document.activeElement.closest('.jp-Cell').innerText")


# ---- the torus network ----


def check_torus(page, net, facts, outputs=(1, 1, 1), scores=(1, 1, 1)) -> None:
    """What the page says of the pair that is asked is what PyTorch computes.

    The words stand where the page has them; outputs and scores are what its sliders were set to.
    """
    page.wait_for_timeout(600)  # two frames, also on a slow machine
    at = page.evaluate("document.querySelector('div').network.asked()")
    theta = torch.tensor(page.evaluate("document.querySelector('div').network.theta"))
    factors = torch.tensor(scores, dtype=torch.float32)[:, None, None]
    net = dataclasses.replace(net, W_Q=net.W_Q * factors)
    ask = predictor(net, torch.tensor(outputs, dtype=torch.float32))
    probabilities = ask(*torch.tensor(at))
    right = (ask(theta[:, None], theta[None]).argmax(dim=-1).flatten() == facts).sum()
    a1 = torus.attend(net, *(torus.circle(t)[None, None] for t in torch.tensor(at))).a1.flatten()
    text, top = page.locator("div").first, probabilities.argmax()
    for head, attention in enumerate(a1):
        expect(text).to_contain_text(f"head {head}: {attention:.2f} on 1st")
    answer = f"→ {'ABCDE'[top]} with probability {probabilities[top]:.2f} · {right} of 25"
    expect(text).to_contain_text(answer)


def test_the_live_torus_agrees_with_pytorch_and_all_its_views_follow(page):
    net, facts = load_run("heads3-dim3").nets[0], list_runs()["heads3-dim3"].targets()[0]
    page.set_content(TorusView(net, facts, Figure(figsize=(1, 1))).html(still=False))
    page.wait_for_selector("canvas")

    def canvas(name):
        return page.locator(f"canvas[aria-label^='{name}']")

    def picture(name):
        return canvas(name).evaluate("c => c.toDataURL()")

    def angle(name):
        return page.evaluate(f"document.querySelector('div').network.{name}")

    check_torus(page, net, facts)
    before, start = picture("the words"), float(torus.angles(net)[0, 3])
    turns = (start, start + math.radians(90))  # D, a quarter turn on
    places = [(0.5 + 0.4 * math.cos(t), 0.5 - 0.4 * math.sin(t)) for t in turns]
    drag(page, canvas("the words").bounding_box(), *places)
    check_torus(page, net, facts)
    assert abs(math.remainder(angle("theta[3]") - turns[1], math.tau)) < 0.05
    assert picture("the words") != before
    canvas("the words").press("a")
    canvas("the words").press("ArrowUp")  # A, by keys
    check_torus(page, net, facts)
    assert angle("theta[0]") != angle("trained[0]")

    names = ("the map", "where head 1", "the same map")
    before = [picture(name) for name in names]
    page.get_by_role("slider", name="head 1 score").fill("2.5")
    check_torus(page, net, facts, scores=(1, 2.5, 1))
    page.get_by_role("slider", name="head 2 output").fill("0")
    page.get_by_role("slider", name="head 0 output").fill("1.5")
    check_torus(page, net, facts, outputs=(1.5, 1, 0), scores=(1, 2.5, 1))
    assert not set(before) & {picture(name) for name in names}
    drag(page, canvas("the map").bounding_box(), (0.3, 0.3), (0.62, 0.41))
    check_torus(page, net, facts, outputs=(1.5, 1, 0), scores=(1, 2.5, 1))

    page.get_by_role("button", name="as trained").click()
    check_torus(page, net, facts)
    for name in ("the same map", "the globe"):
        seen = [picture(name)]
        drag(page, canvas(name).bounding_box(), (0.4, 0.6), (0.6, 0.4))
        page.wait_for_timeout(600)
        seen.append(picture(name))
        canvas(name).press("ArrowLeft")
        page.wait_for_timeout(600)
        assert len({*seen, picture(name)}) == 3, f"{name} did not turn"
    canvas("the same map").click(position={"x": 186, "y": 186})  # ask where the torus is clicked
    check_torus(page, net, facts)
    expect(page.locator("div[aria-live]")).not_to_have_text(re.compile(r"^B B "))


# ---- the playground ----


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    """The playground's address."""
    save_playground(path := tmp_path_factory.mktemp("playground") / "playground.html")
    return path.as_uri()


def state(page, what: str):
    """A part of what the playground knows of its run."""
    return page.evaluate(f"document.querySelector('#playground').playgroundState.{what}")


def wait_state(page, condition: str) -> None:
    """Wait until a condition holds; in it `s` is what the playground knows of its run."""
    text = f"(s => {condition})(document.querySelector('#playground').playgroundState)"
    page.wait_for_function(text)


def open_playground(page, address: str, width: int, theme: str = "light") -> None:
    page.emulate_media(color_scheme=theme)
    open_wide(page, address, width, 844)


SIZES = pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])


@SIZES
def test_the_playground_trains_by_keyboard_until_it_copies(page, playground, width, theme):
    open_playground(page, f"{playground}#seed=2", width, theme)
    page.evaluate("""() => { window.shifted = 0; new PerformanceObserver((list) => {
      for (const e of list.getEntries()) if (!e.hadRecentInput) window.shifted += e.value;
    }).observe({ type: "layout-shift", buffered: true }); }""")
    check_names(page)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # after the link to the book
    assert page.evaluate("document.activeElement.dataset.id") == "play"
    started = time.perf_counter()
    page.keyboard.press("Enter")
    wait_state(page, "s.copied !== null")
    took, born = time.perf_counter() - started, state(page, "copied")
    if os.getloadavg()[0] <= 4:  # on two cores that are busy, but not with much else
        assert took < 15 and state(page, "frames") / took > 20
    wait_state(page, "s.ended && !s.playing")
    assert state(page, "newest") == born + 60
    wait_in_sight(page, "[data-id=ways] a")
    wait_in_sight(page, "[data-id=again]")
    assert page.evaluate("window.shifted") < 0.02
    check_width(page)


@SIZES
def test_the_playgrounds_heads_are_what_it_says_they_are(page, playground, width, theme, tmp_path):
    open_playground(page, f"{playground}#seed=2", width, theme)
    page.click("[data-id=play]")
    wait_state(page, "s.ended && !s.playing")
    born = state(page, "copied")
    needed = re.findall(r"\d+ % without (L\dH\d)", page.inner_text("[data-id=endSays]"))
    assert any(name.startswith("L1") for name in needed)
    page.click("[data-id=next]")  # which part of it copies?
    page.wait_for_timeout(1000)
    for name in needed:
        one = page.locator(".head", has_text=name)
        one.click()
        wait_state(page, "s.last.ablated.length === 1 && s.last.copied < 0.5")
        one.click()
        wait_state(page, "s.last.ablated.length === 0")
    heads = page.locator(".head[data-kind=induction]").all()
    for head in heads:
        head.focus()
        page.keyboard.press("Enter")
    wait_state(page, "s.last.copied < 0.5")
    wait_in_sight(page, "[data-id=without]")
    page.select_option("[data-id=how]", "mean")
    page.wait_for_timeout(500)
    assert state(page, "last.copied") < 0.5
    for head in heads:
        head.click()
    wait_state(page, "s.last.copied > 0.9")
    page.focus("[data-id=text]")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    expect(page.locator("[data-id=pointedSays]")).to_contain_text("attended most to")

    film = "const f = document.querySelector('[data-id=film]'); f.value = 0; "
    page.evaluate(f"() => {{ {film} f.dispatchEvent(new Event('input')) }}")
    wait_state(page, "s.last.step === 0 && s.last.copied < 0.1")
    page.click("[data-id=step]")  # goes on from the newest step
    wait_state(page, f"s.last.step > {born}")
    for name, ending in (("card", "png"), ("weights", "safetensors")):
        with page.expect_download() as saved:
            page.click(f"[data-id={name}]")
        saved.value.save_as(path := tmp_path / f"saved.{ending}")
    model = load_playground(path)
    letters = repeated_tokens(64, 20, 40, model.tokenizer.bos)
    assert copy_accuracy(model, letters) > 0.8
    assert induction_scores(model, letters).max() > 0.5

    page.click("summary")
    page.select_option("[data-set=nLayers]", "1")
    page.check("[data-set=smearedKeys]")
    page.wait_for_timeout(300)
    assert page.evaluate("location.hash") == "#nLayers=1&smearedKeys=true&seed=2"


@SIZES
def test_an_experiment_tells_its_outcome_after_the_reader_did_it(page, playground, width, theme):
    """The third: predict, train, ablate, read what came out; then the run again."""
    open_playground(page, f"{playground}#seed=2", width, theme)
    item = page.locator(".experiments li").nth(2)
    item.locator(".answers button").first.click()
    item.locator(".run").click()
    wait_state(page, "s.experiment?.trained")
    born = state(page, "copied")
    assert not item.locator(".outcome").is_visible()
    wait_in_sight(page, "[data-id=news]")
    wait_in_sight(page, "[data-id=next]")
    item.get_by_role("button", name="Now ablate").click()
    page.wait_for_timeout(1200)
    page.locator(".head[data-kind=induction]").first.click()
    expect(item.locator(".outcome")).to_contain_text("Not what you expected.")
    page.click("[data-id=next]")
    page.wait_for_timeout(1200)
    page.click("[data-id=reset]")
    page.click("[data-id=play]")
    wait_state(page, "s.copied !== null")
    assert state(page, "copied") == born


def test_the_curve_is_that_of_one_run_whatever_is_clicked_while_it_trains(page, playground):
    open_playground(page, f"{playground}#seed=4", 320)
    wait_in_sight(page, "[data-id=sent]")
    page.select_option("[data-id=speed]", "1e9")

    def check_one_run():
        steps = state(page, "history.map(({ step }) => step)")
        assert steps[0] == 0 and steps == sorted(set(steps))

    page.click("[data-id=play]")
    wait_state(page, "s.copied !== null")
    for n_ablated in (1, 0):
        page.evaluate("document.querySelectorAll('.head')[4].click()")
        wait_state(page, f"s.last.ablated.length === {n_ablated}")
        page.wait_for_timeout(300)
    losses = state(page, "history.map(({ second }) => second)")
    assert max(abs(a - b) for a, b in zip(losses, losses[1:], strict=False)) < 1
    wait_state(page, "s.ended")
    page.click("[data-id=play]")  # goes on
    wait_state(page, "s.newest > s.copied + 70")
    page.click("[data-id=reset]")
    wait_state(page, "s.newest > 20")
    check_one_run()
    wait_state(page, "s.copied !== null")
    item = page.locator(".experiments li").first
    item.locator(".answers button").first.click()
    item.locator(".run").click()
    wait_in_sight(page, "[data-id=news]")
    item.locator(".outcome").wait_for()
    check_one_run()
    assert state(page, "history.at(-1).step") == 600
    page.evaluate("location.hash = '#seed=9&nLayers=1'")
    expect(page.locator("[data-set=seed]")).to_have_value("9")
    assert page.is_visible("[data-id=sent]")


@pytest.mark.parametrize(("width", "height"), [(1200, 560), (640, 400)])
def test_the_playground_in_a_slide_trains_by_itself_and_is_all_in_sight(
    page, playground, width, height
):
    page.emulate_media(color_scheme="dark")
    open_wide(page, f"{playground}?embed&autostart&theme=light#seed=4", width, height)
    wait_state(page, "s.copied !== null")
    wait_in_sight(page, ".whole")
    wait_in_sight(page, "[data-id=again]")
    assert page.evaluate(
        "document.querySelector('.losses').getBoundingClientRect().bottom < innerHeight"
    )
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_playground_in_a_notebooks_frame_has_no_link_to_copy(page):
    page.set_content(playground_view("An induction head forms").html())
    frame = page.frame_locator("iframe")
    frame.locator("[data-id=step]").click()
    expect(frame.locator("[data-id=count]")).to_have_text("step 1")
    expect(frame.locator("[data-id=link]")).to_be_hidden()


@pytest.fixture(scope="module")
def drag_page(tmp_path_factory):
    """The drag page's address."""
    save_training_page(path := tmp_path_factory.mktemp("drag") / "drag.html")
    return path.as_uri()


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_a_name_of_ones_own_is_copied_but_not_without_induction_heads(page, drag_page, width):
    open_wide(page, f"{drag_page}?theme=dark#name=Tomo%20Bilka", width)
    ends = page.locator("[data-id=ends] span").first
    expect(ends).to_contain_text("second")
    check_width(page)
    check_names(page)
    page.get_by_role("switch", name="Induction heads").click()
    expect(ends).to_have_text(re.compile(r"second [0-9](\.\d)? %"))


# ---- the book ----

SHOWN = ["index", "notebooks/00_start_here", "notebooks/10_induction_heads"]
SHOWN += ["notebooks/13_torus_network", "ledger", "glossary", "evidence"]
LIVE = [
    path.relative_to(BOOK).with_suffix("").as_posix()
    for path in sorted(BOOK.glob("notebooks/**/*.html"))
    if "<div id='page-" in path.read_text("utf-8")
]
WIDTHS = pytest.mark.parametrize("width", [1280, 390])


@pytest.fixture(scope="module")
def server():
    """The book's address where it is served: Pagefind needs a server."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=BOOK)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


@needs_book
@WIDTHS
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_of_the_book_is_no_wider_than_the_window(page, name, width):
    open_wide(page, f"{BOOK.as_uri()}/{name}.html", width)


def follows(page, view) -> bool:
    """Whether a live view's picture changes by a drag, a slider, a choice or a button."""
    view.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    before = view.screenshot()
    inside = view.frame_locator("iframe") if view.locator("iframe").count() else view

    def drag_a_little(part):
        box = part.bounding_box()
        x, y = 0.45, min(0.45, 300 / box["height"])  # in the window, however high it is
        drag(page, box, (x, y), (x + 40 / box["width"], y + 30 / box["height"]))

    ways = {
        "canvas, svg": drag_a_little,
        "input[type=range]": lambda slider: slider.press("ArrowRight"),
        "select": lambda choice: choice.select_option(index=1),
        "button": lambda button: button.click(no_wait_after=True),
    }
    for kind, act in ways.items():
        for part in filter(lambda each: each.is_visible(), inside.locator(kind).all()):
            act(part)
            page.wait_for_timeout(1000)
            if view.screenshot() != before:
                return True
    return False


@needs_book
@WIDTHS
@pytest.mark.parametrize("name", LIVE)
def test_each_live_view_of_the_book_follows(page, name, width):
    open_wide(page, f"{BOOK.as_uri()}/{name}.html", width)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    views = page.locator("div[id^='page-']").all()
    assert views and all(follows(page, view) for view in views)


@needs_book
def test_the_ledger_is_filtered_and_leads_to_the_cell_of_a_claim(page):
    page.goto(f"{BOOK.as_uri()}/ledger.html")
    total = page.locator("#claims > .claim").count()
    page.select_option("[name=verdict]", "fails")
    assert 0 < page.locator("#claims > .claim:visible").count() < total
    assert "verdict=fails" in page.url
    page.goto(f"{BOOK.as_uri()}/ledger.html#claim-10-5")
    expect(page.locator("#claim-10-5")).to_have_attribute("open", "")
    page.locator("#claim-10-5 a[href^='notebooks/evidence']").first.click()
    page.wait_for_load_state()
    assert page.evaluate("location.hash && document.querySelector(location.hash) !== null")


@needs_book
def test_a_term_says_what_it_means(page):
    page.goto(f"{BOOK.as_uri()}/notebooks/10_induction_heads.html")
    term = page.locator("a.term").first
    term.scroll_into_view_if_needed()
    term.hover()
    assert len(page.locator("#tip").inner_text().split()) >= 5


@needs_book
@pytest.mark.parametrize("term", ["induction head", "K-composition", "residual stream"])
@pytest.mark.parametrize(
    ("served", "found"), [(True, "#found h3 a"), (False, "#search-results li > a")]
)
def test_the_search_finds_the_glossary_then_tours(page, server, served, found, term):
    page.goto(f"{server if served else BOOK.as_uri()}/search.html?q={term}")
    page.locator(found).nth(5).wait_for()
    links = [link.get_attribute("href") for link in page.locator(found).all()]
    first = next(link for link in links if "notebooks/" in link)
    assert "glossary.html" in links[0] and "/evidence/" not in first
