"""Try notebook 00, the live torus, the playground and the drag page in a browser: `make browser`.

Runs all cells, moves the explorer, hovers over the attention view; drags a word, scales heads and
turns the torus, and compares what the page says with PyTorch; trains the playground until it
copies, by keyboard, ablates its induction heads, looks back, loads its saved weights, does
experiments, also while it trains, and opens it as a slide would; drags a training. Fails on a page
error or a request to another host. The screenshots go to runs/. Says why it skips where there is
no Chromium. `python tools/browser.py notebook torus playground drag` takes any of them.
"""

import contextlib
import dataclasses
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import nbformat
import torch
from matplotlib.figure import Figure
from playwright.sync_api import expect, sync_playwright

import here  # noqa: F401
from aot_helpers.models.losses import copy_accuracy
from aot_helpers.reading.heads import induction_scores
from aot_helpers.text.batches import repeated_tokens
from chapters.pages.playground import playground_view, save_playground
from chapters.pages.training import save_training_page
from chapters.pages.weights import load_playground
from chapters.torus import networks as torus
from chapters.torus.palette import predictor
from chapters.torus.training import list_runs, load_run
from chapters.torus.views import TorusView

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "local-test"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def jupyter_lab(port: int):
    """JupyterLab at the root of the project, with settings of its own, until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        quiet = '{"fetchNews": "false", "checkForUpdates": false}'
        (settings / "notification.jupyterlab-settings").write_text(quiet)
        environment = os.environ | {
            "JUPYTER_CONFIG_DIR": f"{folder}/config",
            "JUPYTERLAB_WORKSPACES_DIR": f"{folder}/workspaces",
            "JUPYTERLAB_SETTINGS_DIR": f"{folder}/settings",
            "AOT_RESULTS": str(ROOT / "runs" / "results"),
            "AOT_PROGRESS": "off",
        }
        command = [
            *(sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root"),
            *(f"--ServerApp.root_dir={ROOT}", "--ServerApp.ip=127.0.0.1"),
            *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0"),
            *(f"--IdentityProvider.token={TOKEN}", "--LabApp.news_url=None"),
        ]
        log = ROOT / "runs" / "jupyter.log"
        with open(log, "w") as out:
            server = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
            try:
                wait_for(f"http://127.0.0.1:{port}/api?token={TOKEN}", server, log)
                yield
            finally:
                server.terminate()
                server.wait(20)


def wait_for(url: str, server: subprocess.Popen, log: Path) -> None:
    """Return when the server answers; give up after a minute or when it has ended."""
    for _ in range(120):
        try:
            urllib.request.urlopen(url, timeout=1)
            return
        except OSError:
            if server.poll() is not None:
                sys.exit(f"JupyterLab ended at once; see {log}")
            time.sleep(0.5)
    sys.exit(f"JupyterLab did not answer within a minute; see {log}")


def picture_of(page, explorer) -> str:
    """The address of the explorer's picture, which changes with every drawing."""
    return explorer.locator("img").first.get_attribute("src")


def run_all(page) -> None:
    """Run all cells of the notebook that was opened."""
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
    # Running before the kernel is there would open a "Select Kernel" dialog.
    expect(page.locator(".jp-StatusBar-Widget")).to_contain_text("| Idle", timeout=60_000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.locator("#jp-mainmenu-run").get_by_text("Run All Cells", exact=True).click()
    page.wait_for_timeout(2000)
    expect(page.locator(".jp-StatusBar-Widget")).to_contain_text("| Idle", timeout=180_000)


def try_notebook(page, base: str) -> None:
    """Run notebook 00, then use its two widgets as a reader would."""
    page.goto(f"{base}/lab/tree/notebooks/evidence/00_start_here.ipynb?token={TOKEN}&reset")
    run_all(page)
    print("all cells have run")

    view = page.locator(".aot-view").first
    view.scroll_into_view_if_needed(timeout=30_000)
    before = view.locator(".aot-out").inner_text()
    view.locator("canvas").hover(position={"x": 40, "y": 120})
    expect(view.locator(".aot-out")).not_to_have_text(before)
    print("hover:", view.locator(".aot-out").inner_text())
    view.locator("button", has_text="L0H3").click()
    expect(view.locator(".aot-out")).to_contain_text("L0H3")
    view.locator("canvas").press("ArrowDown")
    view.locator("canvas").press("]")
    expect(view.locator(".aot-out")).to_contain_text("L1H0")
    view.locator(".aot-token").nth(5).hover()
    expect(view.locator(".aot-out")).to_contain_text("query 5")
    print("head and keys:", view.locator(".aot-out").inner_text())
    page.screenshot(path=str(ROOT / "runs" / "browser_attention.png"))

    explorer = page.locator(".jp-OutputArea-output", has=page.locator("select")).last
    explorer.scroll_into_view_if_needed(timeout=30_000)
    before = picture_of(page, explorer)
    explorer.locator("select").select_option(index=1)
    page.wait_for_function(
        "([box, before]) => box.querySelector('img').src !== before",
        arg=[explorer.element_handle(), before],
        timeout=30_000,
    )
    page.wait_for_timeout(500)
    print("the explorer has drawn a new picture")
    page.screenshot(path=str(ROOT / "runs" / "browser.png"))


def try_keys(page, base: str) -> list[str]:
    """Move a live view's slider by an arrow key: JupyterLab must not take it for another cell."""
    script = "(root) => { root.innerHTML = '<input type=range max=9 value=2 aria-label=x>'; }"
    source = "from aot_helpers.showing.widgets import AttentionView\n"
    source += "view = AttentionView(['a'], [[[1.0]]], ['L0H0'])\n"
    source += f"view._script = {script!r}\nview"
    cells = [nbformat.v4.new_code_cell(source), nbformat.v4.new_markdown_cell("The next cell")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)"}}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=kernel)
    nbformat.write(notebook, ROOT / "runs" / "keys.ipynb")
    page.goto(f"{base}/lab/tree/runs/keys.ipynb?token={TOKEN}&reset")
    run_all(page)
    slider = page.locator(".jp-OutputArea input[type=range]")
    slider.focus(timeout=60_000)
    page.wait_for_timeout(1500)
    slider.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    cell = page.evaluate("document.activeElement.closest('.jp-Cell')?.innerText ?? ''")
    wrong = [f"the slider stands at {slider.input_value()}"] * (slider.input_value() != "3")
    return wrong + ["an arrow key leaves the slider"] * ("AttentionView" not in cell)


def agrees(page, net, facts, outputs=(1, 1, 1), scores=(1, 1, 1)) -> str:
    """What the page says of the pair that is asked, compared with PyTorch; "" or the difference.

    The words stand where the page has them; outputs and scores are what its sliders were set to.
    """
    page.wait_for_timeout(600)  # two frames, also on a slow machine
    shown = page.locator("div[aria-live]").inner_text()
    at = page.evaluate("() => document.querySelector('div').network.asked()")
    theta = torch.tensor(page.evaluate("() => document.querySelector('div').network.theta"))
    factors = torch.tensor(scores, dtype=torch.float32)[:, None, None]
    net = dataclasses.replace(net, W_Q=net.W_Q * factors)
    ask = predictor(net, torch.tensor(outputs, dtype=torch.float32))
    chances = ask(*torch.tensor(at))
    known = (ask(theta[:, None], theta[None]).argmax(dim=-1).flatten() == facts).sum()
    a1 = torus.attend(net, *(torus.circle(t)[None, None] for t in torch.tensor(at))).a1.flatten()
    said = [f"head {h}: {share:.2f} on 1st" for h, share in enumerate(a1)]
    said += [f"→ {'ABCDE'[chances.argmax()]} with probability {chances.max():.2f} · {known} of 25"]
    text = page.locator("div").first.inner_text()
    print(f"{shown}; {', '.join(said[:-1])}")
    return "; ".join(f"the page lacks {each!r}" for each in said if each not in text)


def drag(page, box, start, end) -> None:
    """Press at one place of an element, move in steps to another and let go; parts of its size."""
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=8)
    page.mouse.up()


def try_torus(page) -> list[str]:
    """Use the live network as a reader would, without a kernel; what differs from PyTorch."""
    net, facts = load_run("heads3-dim3").nets[0], list_runs()["heads3-dim3"].targets()[0]
    view = TorusView(net, facts, Figure(figsize=(1, 1)))
    page.set_content(view.html(still=False))
    page.wait_for_selector("canvas")
    canvas = lambda name: page.locator(f"canvas[aria-label^='{name}']")  # noqa: E731
    picture = lambda name: canvas(name).evaluate("c => c.toDataURL()")  # noqa: E731
    wrong = [agrees(page, net, facts)]
    page.screenshot(path=str(ROOT / "runs" / "browser_torus.png"))

    before, angle = picture("the words"), torus.angles(net)[0, 3]  # D, a quarter turn on
    box, turns = canvas("the words").bounding_box(), (angle, angle + math.radians(90))
    places = [(0.5 + 0.4 * math.cos(t), 0.5 - 0.4 * math.sin(t)) for t in turns]
    drag(page, box, *places)
    wrong += [agrees(page, net, facts)]
    moved = page.evaluate("() => document.querySelector('div').network.theta[3]")
    if abs(math.remainder(moved - turns[1], math.tau)) > 0.05 or picture("the words") == before:
        wrong += [f"D was dragged to {turns[1]:.2f}, and stands at {moved:.2f}"]
    canvas("the words").press("a")
    canvas("the words").press("ArrowUp")  # A, by keys
    wrong += [agrees(page, net, facts)]
    if page.evaluate("() => document.querySelector('div').network.theta[0]") == float(
        page.evaluate("() => document.querySelector('div').network.trained[0]")
    ):
        wrong += ["A did not move by the arrow key"]

    before = [picture(name) for name in ("the map", "where head 1", "the same map")]
    page.get_by_role("slider", name="head 1 score").fill("2.5")
    wrong += [agrees(page, net, facts, scores=(1, 2.5, 1))]
    page.get_by_role("slider", name="head 2 output").fill("0")
    page.get_by_role("slider", name="head 0 output").fill("1.5")
    wrong += [agrees(page, net, facts, outputs=(1.5, 1, 0), scores=(1, 2.5, 1))]
    after = [picture(name) for name in ("the map", "where head 1", "the same map")]
    wrong += [
        "a view did not follow the sliders" for a, b in zip(before, after, strict=True) if a == b
    ]

    drag(page, canvas("the map").bounding_box(), (0.3, 0.3), (0.62, 0.41))
    wrong += [agrees(page, net, facts, outputs=(1.5, 1, 0), scores=(1, 2.5, 1))]
    page.screenshot(path=str(ROOT / "runs" / "browser_torus_changed.png"))
    page.get_by_role("button", name="as trained").click()
    wrong += [agrees(page, net, facts)]
    for name in ("the same map", "the globe"):
        before = picture(name)
        drag(page, canvas(name).bounding_box(), (0.4, 0.6), (0.6, 0.4))
        page.wait_for_timeout(600)
        turned = picture(name)
        canvas(name).press("ArrowLeft")
        page.wait_for_timeout(600)
        if before == turned or turned == picture(name):
            wrong += [f"{name} did not turn"]
    canvas("the same map").click(position={"x": 186, "y": 186})  # ask where the torus is clicked
    wrong += [agrees(page, net, facts)]
    if re.match(r"B B ", page.locator("div[aria-live]").inner_text()):
        wrong += ["the click on the torus did not ask another pair"]
    return [each for each in wrong if each]


SHIFTS = """() => { window.shifted = 0; new PerformanceObserver((list) => {
  for (const e of list.getEntries()) if (!e.hadRecentInput) window.shifted += e.value;
}).observe({ type: "layout-shift", buffered: true }); }"""
NAMELESS = """() => [...document.querySelectorAll(
    "button, select, input, canvas, summary, [role=img]")]
  .filter((e) => e.checkVisibility() && !e.closest("[aria-hidden=true]"))
  .filter((e) => !(e.ariaLabel || e.labels?.length || e.innerText?.trim()))
  .map((e) => e.outerHTML)"""
STATE = "document.querySelector('#playground').playgroundState"


def too_wide(page) -> list[str]:
    """Whether the page scrolls sideways."""
    wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [f"the page is {wide} px wide in a window of {window}"] * (wide > window)


def in_sight(page, element: str) -> list[str]:
    """Whether nothing lies above an element in the window."""
    page.wait_for_timeout(1200)  # until it has scrolled
    seen = page.evaluate(f"""() => {{
      const e = document.querySelector("{element}"), box = e.getBoundingClientRect();
      return e.contains(document.elementFromPoint(box.left + 5, box.top + box.height / 2)); }}""")
    return [f"{element} is out of sight"] * (not seen)


def try_playground(page, path: Path, width: int, theme: str) -> list[str]:
    """Train in the page, look back, ablate, save the weights; what is not as it should be."""
    page.set_viewport_size({"width": width, "height": 900 if width > 500 else 844})
    page.emulate_media(color_scheme=theme)
    page.goto(f"file://{path}#seed=2")
    page.evaluate(SHIFTS)
    state = STATE

    def now(what):
        return page.evaluate(f"{state}.{what}")

    def picture(name):
        page.screenshot(path=str(ROOT / "runs" / f"browser_playground_{width}_{theme}_{name}.png"))

    picture("start")
    wrong = [f"no name for screen readers: {each}" for each in page.evaluate(NAMELESS)]
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")  # after the link to the book
    second = page.evaluate("document.activeElement.dataset.id")
    wrong += [f"the second tab stop is {second}, not the button that trains"] * (second != "play")
    started = time.perf_counter()
    page.keyboard.press("Enter")
    page.wait_for_function(f"{state}.copied !== null", timeout=240_000)
    took, frames, born = time.perf_counter() - started, now("frames"), now("copied")
    load = os.getloadavg()[0]
    print(f"{width} px, {theme}: 90 % at step {born}, {took:.1f} s after the click, ", end="")
    print(f"{frames / took:.0f} redraws a second, load {load:.0f}")
    if load <= 4:  # on two cores that are busy, but not with much else
        wrong += [f"90 % were copied after {took:.0f} s only"] * (took > 15)
        wrong += [f"only {frames / took:.0f} redraws a second"] * (frames / took < 20)
    page.wait_for_function(f"{state}.ended && !{state}.playing", timeout=60_000)
    wrong += [f"it ended at step {now('newest')}"] * (now("newest") != born + 60)
    wrong += in_sight(page, "[data-id=ways] a") + in_sight(page, "[data-id=again]")
    picture("copied")
    shifted = page.evaluate("window.shifted")
    wrong += [f"the layout shifted by {shifted:.3f}"] * (shifted > 0.02)
    wrong += too_wide(page)

    needed = re.findall(r"\d+ % without (L\dH\d)", page.inner_text("[data-id=endSays]"))
    page.click("[data-id=next]")  # which part of it copies?
    page.wait_for_timeout(1000)
    for name in needed:  # what it said of each head is so
        one = page.locator(".head", has_text=name)
        one.click()
        page.wait_for_function(f"{state}.last.ablated.length === 1", timeout=30_000)
        wrong += [f"without {name} it copies"] * (now("last.copied") > 0.5)
        one.click()
        page.wait_for_function(f"{state}.last.ablated.length === 0", timeout=30_000)
    wrong += [f"it named {needed}"] * (not any(name.startswith("L1") for name in needed))
    head = page.locator(".head[data-kind=induction]")
    for i in range(head.count()):
        head.nth(i).focus()
        page.keyboard.press("Enter")
    page.wait_for_function(f"{state}.last.copied < 0.5", timeout=30_000)
    wrong += in_sight(page, "[data-id=without]")
    picture("ablated")
    page.select_option("[data-id=how]", "mean")
    page.wait_for_timeout(500)
    wrong += ["mean ablation leaves it copying"] * (now("last.copied") > 0.5)
    for i in range(head.count()):
        head.nth(i).click()
    page.wait_for_function(f"{state}.last.copied > 0.9", timeout=30_000)
    page.focus("[data-id=text]")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(500)
    said = page.inner_text("[data-id=pointedSays]")
    wrong += [f"of the pointed letter the page says {said!r}"] * ("attended most to" not in said)
    picture("own")

    film = "const f = document.querySelector('[data-id=film]'); f.value = 0; "
    page.evaluate(f"() => {{ {film} f.dispatchEvent(new Event('input')) }}")
    page.wait_for_function(f"{state}.last.step === 0", timeout=30_000)
    wrong += ["at step 0 it copies"] * (now("last.copied") > 0.1)
    page.click("[data-id=step]")  # goes on from the newest step
    page.wait_for_function(f"{state}.last.step > {born}", timeout=30_000)
    for name, ending in (("weights", "safetensors"), ("card", "png")):
        with page.expect_download() as saved:
            page.click(f"[data-id={name}]")
        saved.value.save_as(ROOT / "runs" / f"playground_{width}.{ending}")
    model = load_playground(ROOT / "runs" / f"playground_{width}.safetensors")
    letters = repeated_tokens(64, 20, 40, model.tokenizer.bos)
    copied, score = copy_accuracy(model, letters), induction_scores(model, letters).max()
    wrong += [f"the saved weights copy {copied:.2f} of random letters"] * (copied < 0.8)
    wrong += [f"their highest induction score is {score:.2f}"] * (score < 0.5)

    page.click("summary")
    page.select_option("[data-set=nLayers]", "1")
    page.check("[data-set=smearedKeys]")
    page.wait_for_timeout(300)
    picture("settings")
    asked = page.evaluate("location.hash")
    wrong += [f"the address says {asked}"] * (asked != "#nLayers=1&smearedKeys=true&seed=2")
    return wrong + try_experiment(page, state, picture)


def try_experiment(page, state: str, picture) -> list[str]:
    """The third experiment: predict, train, ablate, read what came out; then the run again."""
    item = page.locator(".experiments li").nth(2)
    item.locator(".answers button").first.click()
    item.locator(".run").click()
    page.wait_for_function(f"{state}.experiment?.trained", timeout=240_000)
    born = page.evaluate(f"{state}.copied")
    wrong = ["the outcome is told too early"] * item.locator(".outcome").is_visible()
    wrong += in_sight(page, "[data-id=news]") + in_sight(page, "[data-id=next]")
    item.get_by_role("button", name="Now ablate").click()
    page.wait_for_timeout(1200)
    page.locator(".head[data-kind=induction]").first.click()
    expect(item.locator(".outcome")).to_contain_text("Not what you expected.")
    page.click("[data-id=next]")
    page.wait_for_timeout(1200)
    picture("experiment")
    page.click("[data-id=reset]")
    page.click("[data-id=play]")
    page.wait_for_function(f"{state}.copied !== null", timeout=240_000)
    again = page.evaluate(f"{state}.copied")
    return wrong + [f"the same run copied by step {born}, then by {again}"] * (again != born)


def try_runs(page, path: Path) -> list[str]:
    """Begin another run while one trains, and lift an ablation: the curve is that of one model."""
    page.set_viewport_size({"width": 320, "height": 640})
    page.goto(f"file://{path}#seed=4")
    page.reload()
    wrong = too_wide(page) + in_sight(page, "[data-id=sent]")
    page.select_option("[data-id=speed]", "1e9")

    def steps():
        return page.evaluate(f"{STATE}.history.map(({{ step }}) => step)")

    def is_one_run():
        found = steps()
        whole = found[:1] == [0] and found == sorted(set(found))
        return [] if whole else [f"the curve goes {found[:4]} … {found[-2:]}"]

    page.click("[data-id=play]")
    page.wait_for_function(f"{STATE}.copied !== null", timeout=240_000)
    for off in (True, False):
        page.evaluate("document.querySelectorAll('.head')[4].click()")
        page.wait_for_function(f"{STATE}.last.ablated.length === {int(off)}", timeout=30_000)
        page.wait_for_timeout(300)
    losses = page.evaluate(f"{STATE}.history.map(({{ second }}) => second)")
    jump = max(abs(a - b) for a, b in zip(losses, losses[1:], strict=False))
    wrong += [f"the loss jumps by {jump:.1f} when a head is switched"] * (jump > 1)
    page.wait_for_function(f"{STATE}.ended", timeout=60_000)
    page.click("[data-id=play]")  # goes on
    page.wait_for_function(f"{STATE}.newest > {STATE}.copied + 70", timeout=60_000)
    page.click("[data-id=reset]")
    page.wait_for_function(f"{STATE}.newest > 20", timeout=60_000)
    wrong += is_one_run()
    page.wait_for_function(f"{STATE}.copied !== null", timeout=240_000)
    item = page.locator(".experiments li").first
    item.locator(".answers button").first.click()
    item.locator(".run").click()
    wrong += in_sight(page, "[data-id=news]")
    item.locator(".outcome").wait_for(timeout=300_000)
    wrong += is_one_run() + [f"it ended at step {steps()[-1]}"] * (steps()[-1] != 600)
    page.evaluate("location.hash = '#seed=9&nLayers=1'")
    expect(page.locator("[data-set=seed]")).to_have_value("9")
    wrong += ["it does not say that a run was sent"] * (not page.is_visible("[data-id=sent]"))
    return wrong


def try_embed(page, path: Path) -> list[str]:
    """The playground in a slide: trains by itself, in the theme that is asked for, all in sight."""
    wrong = []
    page.emulate_media(color_scheme="dark")
    for width, height in ((1200, 560), (640, 400)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto(f"file://{path}?embed&autostart&theme=light&{width}#seed=4")
        page.wait_for_function(f"{STATE}.copied !== null", timeout=240_000)
        wrong += [*too_wide(page), *in_sight(page, ".whole"), *in_sight(page, "[data-id=again]")]
        edge = page.evaluate("document.querySelector('.losses').getBoundingClientRect().bottom")
        wrong += [f"the curve ends at {edge:.0f} of {height} px"] * (edge > height)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        wrong += [f"the light theme's paper is {paper}"] * (paper != "rgb(255, 255, 255)")
        page.screenshot(path=str(ROOT / "runs" / f"browser_playground_embed_{width}.png"))
    return wrong


def try_drag(page) -> list[str]:
    """A name of one's own in the drag page: it is copied, but not without the induction heads."""
    path, wrong = ROOT / "runs" / "drag.html", []
    save_training_page(path)
    for width in (1280, 390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(f"file://{path}?theme=dark&{width}#name=Tomo%20Bilka")
        ends = page.locator("[data-id=ends] span").first
        expect(ends).to_contain_text("second", timeout=60_000)
        wrong += too_wide(page)
        wrong += [f"no name for screen readers: {each}" for each in page.evaluate(NAMELESS)]
        page.screenshot(path=str(ROOT / "runs" / f"browser_drag_{width}.png"))
        page.get_by_role("switch", name="Induction heads").click()
        expect(ends).to_have_text(re.compile(r"second [0-9](\.\d)? %"), timeout=60_000)
    return wrong


def try_frame(page) -> list[str]:
    """The playground as a notebook shows it: in a frame, which has no address of its own."""
    page.set_content(playground_view("An induction head forms").html())
    frame = page.frame_locator("iframe")
    frame.locator("[data-id=step]").click(timeout=30_000)
    expect(frame.locator("[data-id=count]")).to_have_text("step 1", timeout=30_000)
    hidden = frame.locator("[data-id=link]").is_hidden()
    return [] if hidden else ["in a frame there is no link to copy"]


def main() -> int:
    chromium = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None
    )
    if chromium is None:
        print("skipped: no Chromium on this machine (on Debian and Ubuntu: apt install chromium)")
        return 0
    (ROOT / "runs").mkdir(exist_ok=True)
    port = free_port()
    base, errors, elsewhere, wrong = f"http://127.0.0.1:{port}", [], [], []
    own = (base, "data:", "blob:", "file:", f"ws://127.0.0.1:{port}")
    parts = set(sys.argv[1:]) or {"notebook", "torus", "playground", "drag"}
    server = jupyter_lab(port) if "notebook" in parts else contextlib.nullcontext()
    with server, sync_playwright() as play, tempfile.TemporaryDirectory() as profile:
        browser = play.chromium.launch_persistent_context(
            profile,
            executable_path=chromium,
            args=FLAGS,
            viewport={"width": 1280, "height": 1000},
        )
        browser.on("weberror", lambda event: errors.append(str(event.error)))
        browser.on("request", lambda r: None if r.url.startswith(own) else elsewhere.append(r.url))
        if "notebook" in parts:
            try_notebook(browser.pages[0], base)
            wrong += [f"JupyterLab: {each}" for each in try_keys(browser.new_page(), base)]
        if "torus" in parts:
            wrong += [f"torus: {each}" for each in try_torus(browser.new_page())]
        if "playground" in parts:
            save_playground(path := ROOT / "runs" / "playground.html")
            for width, theme in ((1280, "light"), (390, "dark")):
                found = try_playground(browser.new_page(), path, width, theme)
                wrong += [f"playground at {width} px: {each}" for each in found]
            for trial in (try_runs, try_embed):
                found = trial(browser.new_page(), path)
                wrong += [f"playground, {trial.__name__}: {each}" for each in found]
            wrong += [f"playground: {each}" for each in try_frame(browser.new_page())]
        if "drag" in parts:
            wrong += [f"drag: {each}" for each in try_drag(browser.new_page())]
        browser.close()
    problems = [*(f"page error: {e}" for e in errors), *(f"request to {u}" for u in elsewhere)]
    for problem in [*problems, *wrong]:
        print(problem)
    print("screenshots: runs/browser*.png")
    return 1 if problems or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
