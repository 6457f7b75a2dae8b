"""The figures, live: each also leaves a static picture for places without a kernel or scripts."""

import base64
import io
import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from uuid import uuid4

import ipywidgets
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

from aot_helpers.base.files import write_atomically

# Of every live view: how its buttons look, and that a key which is meant for it stays in it (in
# JupyterLab an arrow key would leave the slider for another cell). NAME: the id of its element.
LOOK = """:where(#NAME) button { font: 14px system-ui, sans-serif; color: inherit; background: #fff;
  border: 1px solid #cfccd6; border-radius: 8px; padding: 4px 11px; min-height: 34px }
:where(#NAME) button:not(:disabled) { cursor: pointer }
:where(#NAME) button[aria-pressed=true] { background: #7b3f99; border-color: #7b3f99; color: #fff }
"""
KEYS = """document.getElementById('NAME').addEventListener('keydown', event => {
  if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation(); });"""


def script_data(data, **options) -> str:
    """Data as JSON that can stand in a script of a page, whatever its texts hold.

    Without any "<" no text can end the script, as </script> would, or begin what swallows the
    page, as <!-- before <script> would. options: of json.dumps.
    """
    return json.dumps(data, **options).replace("<", "\\u003c")


def png(figure, compression: int = 6) -> bytes:
    """A matplotlib figure as PNG, closed afterwards."""
    buffer = io.BytesIO()
    # A figure whose parts have fixed places needs no second pass to find its edges.
    edges = "tight" if figure.get_layout_engine() else None
    packing = {"compress_level": compression}
    figure.savefig(buffer, format="png", dpi=90, bbox_inches=edges, pil_kwargs=packing)
    plt.close(figure)
    return buffer.getvalue()


class Explorer(ipywidgets.VBox):
    """Controls above a figure that is drawn again when one of them moves.

    draw(**values) returns a matplotlib Figure; each control is an ipywidgets control.
    """

    def __init__(self, draw: Callable, description: str, **controls):
        self._draw, self._description, self.controls = draw, description, controls
        self.image = ipywidgets.Image(format="png", value=self._redraw())
        for control in controls.values():
            control.observe(self._refresh, "value")
        super().__init__([*controls.values(), self.image])

    def _redraw(self, compression: int = 6) -> bytes:
        values = {name: control.value for name, control in self.controls.items()}
        return png(self._draw(**values), compression)

    def _refresh(self, _change):
        self.image.value = self._redraw(compression=1)  # quick to make, a little larger

    def picture(self) -> bytes:
        """The present figure as PNG."""
        return bytes(self.image.value)

    def _repr_mimebundle_(self, **kwargs):
        """What the notebook saves: the live view, and beside it the picture and a sentence."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        picture = base64.b64encode(self.picture()).decode()
        return {**(data or {}), "image/png": picture, "text/plain": repr(self)}, metadata or {}

    def __repr__(self):
        return f"Explorer: {self._description}"


class Page:
    """A live view in the page itself: alive without a kernel, a picture where scripts cannot run.

    script: a file that holds one function (root, data) => …. data: what JSON can hold. still: the
    figure that stands in the page until the script has run. said: what is shown.
    """

    def __init__(self, script: str | Path, data: dict, still: Figure, said: str):
        self._script, self.data, self.said = Path(script).read_text("utf-8"), data, said
        how = getattr(still, "quantizer", {"colors": 256})  # a figure may know which suit it
        few = Image.open(io.BytesIO(png(still))).convert("RGB").quantize(**how, dither=0)
        few.save(packed := io.BytesIO(), format="png", optimize=True)
        self._still = packed.getvalue()

    def picture(self) -> bytes:
        """The still, as PNG."""
        return self._still

    def html(self, still: bool = True) -> str:
        """The live view as a piece of a page; still: with the picture, for where no script runs."""
        name, picture = f"page-{uuid4().hex[:8]}", base64.b64encode(self._still).decode()
        call = f"({self._script[self._script.index('(root') :]})"
        call += f"(document.getElementById('{name}'), {script_data(self.data)})"
        image = f"<img src='data:image/png;base64,{picture}' alt='{escape(self.said, True)}'>"
        look, keys = (each.replace("NAME", name) for each in (LOOK, KEYS))
        place = f"<style>{look}</style><div id='{name}'>{image if still else ''}</div>"
        return f"{place}<script>{keys}{call}</script>"

    def save(self, path: str | Path) -> int:
        """Write the view as one file that a browser opens and that asks for nothing; its bytes."""
        title = f"<title>{escape(self.said)}</title>"
        content = f"<!doctype html><meta charset='utf-8'>{title}{self.html(still=False)}\n".encode()
        write_atomically(Path(path), content)
        return len(content)

    def _repr_mimebundle_(self, **kwargs):
        picture = base64.b64encode(self._still).decode()
        return {"text/html": self.html(), "image/png": picture, "text/plain": repr(self)}

    def __repr__(self):
        return f"{type(self).__name__}: {self.said}"
