"""Notebook 11: heads taken out in several ways, and its exercises."""

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import copy_losses
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from aot_helpers.text.batches import repeated_tokens
from chapters.nb11_causal_tests import figures as causal_drawings
from chapters.nb11_causal_tests import measure as causal_tests
from chapters.nb11_causal_tests.exercises import PAGES
from figure_checks import check_figures


@pytest.fixture
def model(stories):
    return stories


@pytest.fixture
def texts(model):
    return [repeated_tokens(1024, 15, 6, model.tokenizer.bos, seed=seed) for seed in (1, 2)]


def test_a_factor_of_zero_is_zero_ablation(model, texts):
    head = Head(0, 2)
    scaled = [model(texts[0], edits=causal_tests.scaled(head, factor)) for factor in (0, 1)]
    assert torch.allclose(scaled[0], model(texts[0], edits=ablate(model, [head])), atol=1e-4)
    assert torch.allclose(scaled[1], model(texts[0]), atol=1e-4)
    later = model.run_with_cache(texts[0], edits=causal_tests.scaled(head, 0.5, first=1))[1]["L0.z"]
    whole = model.run_with_cache(texts[0])[1]["L0.z"]
    assert torch.equal(later[:, 0], whole[:, 0])
    assert torch.allclose(later[:, 1:, 2], whole[:, 1:, 2] / 2)
    assert torch.equal(later[:, :, [0, 1, 3]], whole[:, :, [0, 1, 3]])


def loss(logits, right):
    return -logits.log_softmax(dim=-1).gather(-1, right[..., None]).mean()


WEIGHTS = {0.5: 0.99, 1.5: 0.33, 2: 0.03}
LIES = {"zero": "mean", "mean": "zero", "resample": "resample"}


def by_lies(box):
    """The page of 11.2, the other question first."""
    if box([Head(1, 0), Head(1, 2)])[1] > 9:
        return "resample"
    return "zero" if box([Head(0, 2)])[0] > 0.4 else "mean"


GIVEN = {
    "11.1": lambda: {"truth": WEIGHTS},
    "11.2": lambda: {"model": load_checkpoint("stories-2l").requires_grad_(False)},
}
ANSWERS = [
    ("11.1", dict(zip(WEIGHTS, (0.98, 0.27, 0.01), strict=True)), "solved"),
    ("11.1", dict(zip(WEIGHTS, (0.98, 0.5, 0.01), strict=True)), "1.5: less"),
    ("11.1", dict(zip(WEIGHTS, (0.82, 0.99, 1.0), strict=True)), "the 8 alone"),
    ("11.1", dict(zip(WEIGHTS, (0.45, 1.0, 1.0), strict=True)), "not proportional"),
    ("11.1", dict(zip(WEIGHTS, (0.01, 0.67, 0.97), strict=True)), "weights of BOS"),
    ("11.1", dict.fromkeys(WEIGHTS, ...), "not attempted"),
    ("11.2", by_lies, "solved (at most 2 experiments"),
    ("11.2", lambda box: LIES[PAGES["11.2"](box)], "The mean leaves that"),
    ("11.2", lambda box: "mean" if PAGES["11.2"](box) != "zero" else "zero", "something false"),
    ("11.2", lambda box: 7, "for every box, got 7"),
    ("11.3", lambda w, a, b, right: loss(a + b - w, right), "solved"),
    ("11.3", lambda w, a, b, right: loss(a, right) + loss(b, right) - loss(w, right), "add losses"),
    ("11.3", lambda w, a, b, right: loss(a + b, right), "counted twice"),
    ("11.3", lambda w, a, b, right: loss((a + b) / 2, right), "by half"),
    ("11.3", lambda w, a, b, right: loss(a, right), "not yet"),
]


def test_boxes_replace_heads_as_ablate_does(model, texts):
    tokens, others = texts
    whole, heads = copy_losses(model, tokens), [Head(0, 1)]
    boxes = causal_tests.boxes(model, tokens, others, seed=3)
    assert {box.keywords["way"] for box in boxes.values()} == {"zero", "mean", "resample"}
    for box in boxes.values():
        edits = ablate(model, heads, box.keywords["way"], others)
        expected = [a - b for a, b in zip(copy_losses(model, tokens, edits), whole, strict=True)]
        assert box(heads) == pytest.approx(expected, abs=1e-4)


def test_the_lift_of_a_note_is_what_it_adds_to_scores(model, texts):
    cache = model.run_with_cache(texts[0])[1]
    found = causal_tests.lifts(model, cache, Head(0, 2), Head(1, 0))
    weights, reads = model.head_weights(Head(0, 2)), model.head_weights(Head(1, 0))
    token, k = 77, cache["L1.k"][:, :, 0]
    query = model.W_E[token] @ weights.W_V @ weights.W_O @ reads.W_Q
    scores = k @ query / k.shape[-1] ** 0.5
    expected = scores[:, 0].mean() - scores[:, 1:].mean()
    assert found[token].item() == pytest.approx(expected.item(), abs=1e-3)


def test_the_head_of_the_threshold_is_found(model, texts):
    readers, writers, previous, lift = causal_tests.threshold_heads(model, texts[0])
    assert (readers, writers, previous) == ([Head(1, 0), Head(1, 2)], [Head(0, 2)], Head(0, 3))
    assert lift.shape == (2, 1024) and 7 < lift.mean() < 8
    found = list(causal_tests.thresholds(model, *texts).values())
    assert found[0] == "L0H2"
    by_zero, by_mean, no_match = map(float, found[1:])
    assert by_zero > 0.5 > 0.3 > max(by_mean, no_match)


def test_random_vectors_are_as_long_as_those_given():
    given = torch.tensor([[3.0, 4, 0], [0, 0, 1]])
    drawn = causal_tests.as_long_as(given, torch.Generator().manual_seed(0))
    assert drawn.norm(dim=-1).tolist() == pytest.approx([5, 1])
    assert not torch.allclose(drawn, given)


def test_docstrings_are_written_twice(shipped):
    docs = causal_tests.docstrings_twice(shipped, n=3, length=7)
    assert docs.shape == (3, 15) and torch.equal(docs[:, 1:8], docs[:, 8:])
    assert (docs[:, 0] == shipped.tokenizer.bos).all()


def test_figures_can_be_read(model, texts):
    drawings, rise = causal_drawings, torch.tensor([0.0] * 5 + [7.0] + [1.5] * 4)
    said = dict.fromkeys(("the text", "it says", "the other text"), texts[0])
    m = torch.tensor([3.0, 2.0])
    notes = {f"L0H{h}": torch.linspace(h, h + 3, 40) for h in range(4)}
    leads = {f"run {i}": torch.randn(6, 20) for i in range(3)}
    check_figures(
        drawings.loss_by_place(
            {w: {"L0H3": rise, "L0H2": rise / 4} for w in ("zero", "mean")}, "title"
        ),
        drawings.two_texts(model.tokenizer, said, "title"),
        drawings.lifts(notes, "title"),
        drawings.leads(leads, 10, "title"),
        drawings.losses_by_difference({"nothing out": (m, 1 / m)}, "title"),
    )
