"""The playground: an attention-only transformer that learns to copy in the reader's tab.

`python -m aot_helpers.showing.playground_page build/playground.html` writes it: a file that a
browser opens and that asks for nothing. Its parts lie in static/playground: the engine (model,
gradients, optimizers), the worker that trains, the view, six experiments, the style, and the
engine's two kernels, kernels.c, as WebAssembly (kernels.wasm; build_kernels.sh makes it anew).
"""

import base64
import json
import sys
from pathlib import Path

from aot_helpers.base.files import check_writable, write_atomically

PARTS = Path(__file__).parent / "static" / "playground"


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def worker_script() -> str:
    """The script that trains in a Web Worker, with its kernels and the stories that it reads."""
    kernels = base64.b64encode((PARTS / "kernels.wasm").read_bytes()).decode()
    story = json.dumps(_part("story.txt").strip())
    data = f'const KERNELS = "{kernels}", STORY = {story};'
    return "\n".join(['"use strict";', data, _part("engine.js"), _part("worker.js")])


def view_script() -> str:
    """The script that draws the page: mountPlayground(root, WORKER) builds it in an element."""
    worker = json.dumps(worker_script()).replace("</", "<\\/")  # no end of a script in a string
    return "\n".join([f"const WORKER = {worker};", _part("experiments.js"), _part("view.js")])


def playground_page() -> str:
    """The whole page as HTML: under 150 kB, alive from file://, without a request to any host."""
    page = _part("page.html")
    for mark, part in (("/*STYLE*/", _part("style.css")), ("/*SCRIPT*/", view_script())):
        before, after = page.split(mark)
        page = f"{before}{part}{after}"
    return page


def save_playground(path: str | Path) -> int:
    """Write the page to a file; its size in bytes."""
    path, content = Path(path), playground_page().encode()
    check_writable(path.parent)
    write_atomically(path, content)
    return len(content)


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else "build/playground.html"
    print(f"{target}: {save_playground(target) / 1000:.0f} kB")
