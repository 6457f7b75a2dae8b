import base64
import io
import json

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from aot_helpers.showing.plots import attention_maps
from aot_helpers.showing.widgets import AttentionView, Explorer, png

PNG = b"\x89PNG\r\n\x1a\n"
VIEW = "application/vnd.jupyter.widget-view+json"
TOKENS = ["<|bos|>", " a", " b"]
WEIGHTS = np.stack([np.eye(3), np.tri(3) / np.arange(1, 4)[:, None]])


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
def view():
    return AttentionView(TOKENS, WEIGHTS, ["L0H0", "L1H3"], head=1)


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
    assert repr(view) == "AttentionView: L1H3 of 2 heads, 3 tokens"


def test_the_saved_picture_is_the_present_one(explorer):
    before = explorer._repr_mimebundle_()[0]["image/png"]
    explorer.controls["height"].value = 9
    assert explorer._repr_mimebundle_()[0]["image/png"] != before


def test_the_static_twin_shows_the_chosen_head(view):
    drawn = png(attention_maps(WEIGHTS[1], TOKENS, "Attention pattern of L1H3"))
    twin, drawn = (Image.open(io.BytesIO(p)).convert("RGB") for p in (view.picture(), drawn))
    assert np.abs(np.asarray(twin, int) - np.asarray(drawn, int)).mean() < 2  # fewer colors
    assert plt.get_fignums() == []


def test_the_view_carries_its_weights_as_float32(view):
    carried = np.frombuffer(base64.b64decode(view.data["weights"]), dtype=np.float32)
    assert np.array_equal(carried.reshape(2, 3, 3), WEIGHTS.astype(np.float32))
    data = view.data
    assert (data["tokens"], data["heads"], data["head"]) == (TOKENS, ["L0H0", "L1H3"], 1)
    assert len(data["ramp"]) == 256 and data["ramp"][0] != data["ramp"][-1]


@pytest.mark.parametrize(
    ("weights", "heads"),
    [
        (WEIGHTS[0], ["a"]),
        (WEIGHTS, ["a"]),
        (WEIGHTS[:, :2], ["a", "b"]),
        (WEIGHTS[:, :, :2], ["a", "b"]),
    ],
)
def test_weights_of_another_shape_are_refused(weights, heads):
    expected = rf"= \({len(heads)}, 3, 3\), got \({', '.join(map(str, weights.shape))}\)"
    with pytest.raises(ValueError, match=expected):
        AttentionView(TOKENS, weights, heads)


@pytest.mark.parametrize("head", [-1, 2])
def test_a_head_that_does_not_exist_is_refused(head):
    with pytest.raises(ValueError, match=f"head .*0 … 1.* {head}"):
        AttentionView(TOKENS, WEIGHTS, ["a", "b"], head)


def test_the_view_loads_nothing_from_the_network(view):
    text = view.html().lower()
    assert "pointermove" in text
    assert not [word for word in ("http", "//cdn", "import ", "fetch(", "url(") if word in text]


def test_no_text_of_a_page_ends_or_swallows_its_script():
    tokens = ["<!--", "<script>", "</script>"]
    page = AttentionView(tokens, np.eye(3)[None], ["L0H0"]).html()
    script = page[page.index("<script>") + len("<script>") : page.rindex("</script>")]
    data = script[script.rindex(", {") + 2 : -1]
    assert "<" not in data and json.loads(data)["tokens"] == tokens
