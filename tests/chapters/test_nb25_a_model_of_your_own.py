"""Notebook 25: the page of hand-set models and of tiny ones of each family; its exercise."""

import matplotlib.pyplot as plt
import pytest
import torch

from aot_helpers import AttentionOnlyTransformer, Head, save_model
from aot_helpers.models.handmade import induction_model
from chapters.nb25_a_model_of_your_own import measure
from evidence.support.nb25 import page
from tiny_models import tiny_30


@pytest.fixture(autouse=True)
def as_before():
    """The page switches gradients off and draws."""
    yield
    torch.set_grad_enabled(True)
    plt.close("all")


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "bert without a head"])
def test_the_page_of_a_folder_says_what_it_cannot_ask(family, tmp_path, capsys):
    tiny_30(family).hf.save_pretrained(tmp_path)
    found = page(pictures=True, model=str(tmp_path))
    assert found["table"]["induction"].notna().all()
    causal = family in ("gpt2", "llama")
    assert (found["targets"] is not None) == found["additive"] == causal
    assert ("costs" in found) == causal


def test_the_page_names_the_heads_that_were_put_there(tmp_path):
    known = induction_model(16)
    save_model(known, tmp_path / "known.safetensors")
    found = page(pictures=True, model=str(tmp_path / "known.safetensors"))
    assert found["named"] == [Head(1, 0), Head(0, 0)]
    of = found["lost"][Head(1, 0)].loc[Head(0, 0)]
    assert of["ablated"] == pytest.approx(of["cut"], abs=1e-3)  # nothing stands between the two
    assert found["drawn"] == []  # there are no other heads


def test_random_weights_name_no_head(tmp_path):
    torch.manual_seed(0)
    save_model(AttentionOnlyTransformer(induction_model(16).config), tmp_path / "any.safetensors")
    assert page(model=str(tmp_path / "any.safetensors"))["readers"] == []


def test_a_model_is_asked_for_the_second_copy():
    model = tiny_30("gpt2")
    twice = torch.tensor([[0, 5, 6, 7, 5, 6, 7]])
    seen, targets = measure.inputs_and_targets(model, twice, seed=0)
    assert torch.equal(seen, twice)
    assert targets.tolist() == [[-100, -100, -100, -100, 6, 7, -100]]
    assert (
        measure.inputs_and_targets(tiny_30("bert"), twice, seed=0)[1] is None
    )  # nothing hides a token


def test_a_corpus_that_is_too_short_is_named(shipped, tmp_path):
    (tmp_path / "short.txt").write_text("Once there was a dog.", "utf-8")
    with pytest.raises(ValueError, match="0 passages of 48 tokens, got '.*short.txt'"):
        measure.written_twice(shipped, str(tmp_path / "short.txt"), seed=0)
    with pytest.raises(ValueError, match="'nothing'"):
        measure.open_model("nothing")


ANSWERS = [
    ("25.1", [5, 9] * 10, "solved"),
    ("25.1", torch.tensor([5, 9] * 10), "solved"),
    ("25.1", ..., "not attempted"),
    ("25.1", [5] * 20, "Take more than one token"),
    ("25.1", [5, 9, 7] * 8, "which texts"),
    ("25.1", list(range(20)), "No token returns"),
    ("25.1", [5.0, 9.0], "token ids"),
    ("25.1", "abab", "token ids"),
    ("25.1", [5, 9], "Give 3 to"),
    ("25.1", [5000, 9, 5000, 9], "5000"),
    ("25.1", [[5, 9], [5, 9]], "token ids"),
]
