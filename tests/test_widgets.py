import base64
import io
import json

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from aot_helpers.showing import plots
from aot_helpers.showing.widgets import Explorer, Page, png

PNG = b"\x89PNG\r\n\x1a\n"
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture
def explorer():
    drawn = []

    def draw(height, color):
        drawn.append((height, color))
        figure, axis = plt.subplots(figsize=(1, 1))  # left open, as a reader's function may do
        axis.bar([0], [height], color=color)
        axis.set_ylim(0, 10)
        return figure

    controls = {
        "height": ipywidgets.IntSlider(3, 0, 10),
        "color": ipywidgets.Dropdown(options=["red", "blue"]),
    }
    explorer = Explorer(draw, "a bar", **controls)
    explorer.drawn = drawn
    return explorer


@pytest.fixture
def view_of(tmp_path):
    script = tmp_path / "view.js"
    script.write_text("// says its data\n(root, data) => { root.textContent = data.tokens; }")
    return lambda data: Page(script, data, plots.dots({"a": 1.0}, "title", "x"), "a dot")


@pytest.fixture
def view(view_of):
    return view_of({"tokens": ["a"]})


def test_moving_a_control_draws_the_figure_again(explorer):
    before = explorer.picture()
    assert bytes(explorer.image.value) == before
    assert before.startswith(PNG) and explorer.drawn == [(3, "red")]
    explorer.controls["height"].value = 8
    taller = explorer.picture()
    explorer.controls["color"].value = "blue"
    assert len({before, taller, explorer.picture()}) == 3
    assert explorer.drawn == [(3, "red"), (8, "red"), (8, "blue")]
    assert plt.get_fignums() == []


def test_the_controls_stand_above_the_picture(explorer):
    assert explorer.children == (*explorer.controls.values(), explorer.image)


def test_both_widgets_leave_a_picture_a_sentence_and_the_live_view(explorer, view):
    saved = {}
    for widget in (explorer, view):
        bundle = widget._repr_mimebundle_()
        data = saved[widget] = bundle[0] if isinstance(bundle, tuple) else bundle
        assert base64.b64decode(data["image/png"]) == widget.picture()
        assert widget.picture().startswith(PNG)
        assert data["text/plain"] == repr(widget)
        json.dumps(data)  # what the notebook file stores
    assert saved[explorer][VIEW]["model_id"] == explorer.model_id
    assert VIEW not in saved[view] and "<script>" in saved[view]["text/html"]  # needs no kernel
    assert repr(explorer) == "Explorer: a bar"
    assert repr(view) == "Page: a dot"


def test_the_saved_picture_is_the_present_one(explorer):
    before = explorer._repr_mimebundle_()[0]["image/png"]
    explorer.controls["height"].value = 9
    assert explorer._repr_mimebundle_()[0]["image/png"] != before


def test_a_page_shows_its_still_in_fewer_colors(view):
    drawn = png(plots.dots({"a": 1.0}, "title", "x"))
    still, drawn = (Image.open(io.BytesIO(p)).convert("RGB") for p in (view.picture(), drawn))
    assert np.abs(np.asarray(still, int) - np.asarray(drawn, int)).mean() < 2
    assert plt.get_fignums() == []


def test_no_text_of_a_page_ends_or_swallows_its_script(view_of):
    tokens = ["<!--", "<script>", "</script>"]
    page = view_of({"tokens": tokens}).html()
    script = page[page.index("<script>") + len("<script>") : page.rindex("</script>")]
    data = script[script.rindex(", {") + 2 : -1]
    assert "<" not in data and json.loads(data)["tokens"] == tokens
