"""Notebook 04: what each head has written, and the exercises that rebuild the model."""

import json
import math
from pathlib import Path

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.studies import stream_pieces
from aot_helpers.teaching.exercises import grade

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "04_many_heads_one_stream.ipynb"
TERMS = {"L1H0": 7.0, "L0H3": 0.4}
WITHOUT = {"L1H0": 7.01, "L0H3": 16.5}


@pytest.fixture(scope="module")
def model():
    return load_checkpoint("stories-2l").requires_grad_(False)


@pytest.fixture(scope="module")
def tokens(model):
    return model.tokenizer.encode("Then Mira Soken met Pelo. Then Mira Soken said", bos=True)


def test_pieces_add_up_to_the_stream_and_lifts_to_logits(model, tokens):
    logits, cache = model.run_with_cache(tokens[None])
    pieces = stream_pieces.pieces(model, cache)
    assert list(pieces)[:2] == ["direct path", "L0H0"] and len(pieces) == 9
    assert torch.allclose(sum(pieces.values()), cache["final_resid"], atol=1e-4)
    lifted = sum(stream_pieces.lifts(model, cache, tokens).values())
    rows = logits[0, :-1]
    expected = rows.gather(1, tokens[1:, None])[:, 0] - rows.mean(dim=1)
    assert torch.allclose(lifted, expected, atol=1e-4)


def notebooks_classes():
    """The classes that the notebook's own cells define."""
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    given = {name: getattr(torch.nn, name) for name in ("Module", "ModuleList", "Parameter")}
    names = {"torch": torch, "math": math, "grade": lambda *a, **k: None, "model": 0, "tokens": 0}
    names |= given
    for cell in code:
        if cell.startswith(("class Heads", "class Transformer")):
            exec(cell, names)
    return names["Heads"], names["Transformer"]


def test_the_notebooks_heads_are_the_packages(model, tokens):
    heads, _ = notebooks_classes()
    own = heads()
    stream_pieces.copy_weights(own, model.blocks[0].attn)
    _, cache = model.run_with_cache(tokens[None])
    written = own(cache["embed"][0])
    assert torch.allclose(written, cache["L0.attn_out"][0], atol=1e-4)


def adds(self, tokens):
    stream = self.W_E[tokens]
    for layer in self.layers:
        stream = stream + layer(stream)
    return stream @ self.W_U


def replaces(self, tokens):
    stream = self.W_E[tokens]
    for layer in self.layers:
        stream = layer(stream)
    return stream @ self.W_U


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        (adds, "solved (the package's logits"),
        (replaces, "not yet. Your layers replace the stream"),
        (lambda self, tokens: self.W_E[tokens] @ self.W_U, "not yet. The largest difference"),
        (lambda self, tokens: self.W_E[tokens], "not yet. Logits of shape"),
        (lambda self, tokens: 3, "not yet. Logits of shape"),
        (lambda self, tokens: None, "not attempted"),
    ],
)
def test_a_whole_model(model, tokens, capsys, forward, said):
    _, transformer = notebooks_classes()
    grade("04.2", type("Own", (transformer,), {"forward": forward}), model=model, tokens=tokens)
    assert capsys.readouterr().out.startswith(f"exercise 04.2: {said}")


@pytest.mark.parametrize(
    ("fall", "said"),
    [
        ({"L1H0": 7.0, "L0H3": 15}, "solved (the logit falls by 7.0 without L1H0, 16.5"),
        ({"L1H0": 7.0, "L0H3": 20}, "solved"),
        ({"L1H0": 7.0, "L0H3": 17.9}, "solved"),  # its own number and the three loud voices
        ({"L1H0": 3.0, "L0H3": 15}, "not yet. L1H0: nothing reads it but W_U"),
        ({"L1H0": 7.0, "L0H3": 0.4}, "not yet. L0H3: more is lost"),
        ({"L1H0": 7.0, "L0H3": 10.2}, "not yet. L0H3: more than that is lost. Is there a loud"),
        ({"L1H0": 7.0, "L0H3": 100}, "not yet. L0H3: less than that is lost"),
        ({"L1H0": 7.0}, "not yet. A dict with the keys L1H0, L0H3"),
        ({"L1H0": "x", "L0H3": 1}, "not yet. L1H0:"),
        ({"L1H0": ..., "L0H3": ...}, "not attempted"),
    ],
)
def test_what_is_lost_without_a_head(capsys, fall, said):
    grade("04.3", fall, terms=TERMS, without=WITHOUT)
    assert capsys.readouterr().out.startswith(f"exercise 04.3: {said}")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda z, W_O: z.flatten(1) @ W_O.flatten(0, 1), "solved"),
        (lambda z, W_O: z.transpose(1, 2).flatten(1) @ W_O.transpose(0, 1).flatten(0, 1), "solved"),
        (
            lambda z, W_O: z.flatten(1) @ W_O.flip(0).flatten(0, 1),
            "not yet. Number 0 of head 0 meets row 0 of head 3: z and W_O are laid out",
        ),
        (
            lambda z, W_O: z.flatten(1) @ W_O.transpose(0, 1).flatten(0, 1),
            "not yet. Number 1 of head 0 meets row 0 of head 1",
        ),
        (lambda z, W_O: 2 * z.flatten(1) @ W_O.flatten(0, 1), "not yet. It is not the sum"),
        (lambda z, W_O: z.flatten(1), "not yet. For z (5, 4, 3) and W_O (4, 3, 8) the"),
        (lambda z, W_O: 3, "not yet. For z (5, 4, 3)"),
        (lambda z, W_O: ..., "not attempted"),
    ],
)
def test_heads_end_to_end(capsys, answer, said):
    grade("04.1", answer)
    assert capsys.readouterr().out.startswith(f"exercise 04.1: {said}")


def test_the_drawings_say_their_numbers():
    figure = stream_pieces.voices({"direct path": 1.5, "L0H0": -0.7}, "title")
    said = [text.get_text() for text in figure.axes[0].texts]
    assert {"+1.5", "-0.7", "0.8", "title"} <= set(said)
    figure = stream_pieces.voices({"a": 0.3, "b": 1.0}, "title", before={"a": 7.0, "b": 1.0})
    said = [text.get_text() for text in figure.axes[0].texts]
    assert {"+0.3 (was +7.0)", "+1.0", "1.3 (was 8.0)"} <= set(said)
    figure = stream_pieces.one_stream(2, 4, "title")
    said = [text.get_text() for text in figure.axes[0].texts]
    assert said.count("H3") == 2 and {"layer 0", "layer 1", "W_E", "W_U"} <= set(said)
