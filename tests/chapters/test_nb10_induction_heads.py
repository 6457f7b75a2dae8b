"""Notebook 10: wires between heads, two places to look at, and its exercises."""

import itertools

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.handmade import induction_model
from aot_helpers.models.protocol import Head
from aot_helpers.reading.circuits import k_composition_circuit
from aot_helpers.reading.heads import induction_scores
from aot_helpers.text.batches import repeated_tokens
from chapters.nb10_induction_heads import figures
from chapters.nb10_induction_heads import measure as induction_circuit
from figure_checks import check_figures


@pytest.fixture(scope="module")
def hand():
    return induction_model(d_vocab=30, n_ctx=64)


def test_the_hand_set_model_has_one_wire_that_carries_the_stripe(hand):
    torch.manual_seed(0)
    segment = 1 + torch.randperm(29)[:10]
    tokens = torch.cat([torch.zeros(1, dtype=torch.long), segment, segment])[None]
    lost = induction_circuit.score_lost_by_path(hand, tokens, Head(1, 0))
    assert lost.shape == (1, 3)
    assert lost[0, 1] > 0.9  # by the key
    assert lost[0, [0, 2]].abs().max() < 1e-4  # neither by query nor by value


def test_the_score_without_edits_is_the_packages():
    model = load_checkpoint("stories-2l")
    tokens = repeated_tokens(1024, 12, 4, model.tokenizer.bos, seed=3)
    score = induction_circuit.edited_score(model, tokens, Head(1, 2), {})
    assert score == pytest.approx(float(induction_scores(model, tokens)[1, 2]), abs=0.01)


def test_two_places_stand_where_they_are_said_to_stand():
    torch.manual_seed(1)
    tokens, b, c = induction_circuit.two_places(40, 6)
    assert (tokens[:, 0] == 0).all() and (b.sum(dim=1) == 1).all() and (c.sum(dim=1) == 1).all()
    for row, at_b, at_c in zip(tokens, b, c, strict=True):
        i, j = int(at_b.nonzero()), int(at_c.nonzero())
        assert row[i - 1] == row[j - 1] == row[-1]  # A
        assert row[i - 2] == row[-2] != row[j - 2]  # x, and y
    assert (b.int().argmax(dim=1) < c.int().argmax(dim=1)).tolist() == [True, False] * 3


def test_a_hand_set_head_does_not_prefer_either_place(hand):
    torch.manual_seed(2)
    text = induction_circuit.two_places(30, 20)
    found = induction_circuit.attention_to_places(hand, [0], text)[0]
    assert found[:2].tolist() == pytest.approx([0.5, 0.5], abs=0.01)


def key_matrix(d_vocab, block=1, rest=1.0, more=0.0):
    W_K = torch.zeros(3 * d_vocab, d_vocab)
    W_K[block * d_vocab : (block + 1) * d_vocab] = torch.eye(d_vocab)
    W_K[0, 0], W_K[-1, -1] = rest, more
    return W_K


def cut(k, z, W_O, W_K, head, mean=True, where=None):
    part = z @ W_O @ W_K
    k = k.clone()
    k[:, :, head if where is None else where] -= part - part.mean(dim=(0, 1)) * mean
    return k


def constant(written, W_Q, k):
    """Another way: the mean of the scores that each place's writing gives to every key."""
    scores = torch.einsum("spm,md,tkd->tksp", written, W_Q, k) / k.shape[-1] ** 0.5
    return scores.mean(dim=(2, 3))


ANSWERS = [
    ("10.1", key_matrix, "solved"),
    ("10.1", lambda n: key_matrix(n, block=0), "not yet"),
    ("10.1", lambda n: key_matrix(n, block=2), "not yet"),
    ("10.1", lambda n: key_matrix(n, rest=0.0), "not yet"),
    ("10.1", lambda n: key_matrix(n, more=0.1), "not yet"),
    ("10.1", lambda n: None, "not attempted"),
    ("10.2", cut, "solved"),
    ("10.2", lambda *given: cut(*given, mean=False), "not yet"),
    ("10.2", lambda *given: cut(*given, where=0), "not yet"),
    ("10.2", lambda k, *given: k, "not yet"),
    ("10.2", lambda k, z, *more: cut(k, 2 * z, *more), "not yet"),
    ("10.2", lambda *given: None, "not attempted"),
    ("10.3", constant, "solved"),
    ("10.3", lambda written, W_Q, k: constant(written, W_Q, k) * 3**0.5, "not yet"),
    ("10.3", lambda written, W_Q, k: constant(written, W_Q, k)[:, 0], "not yet"),
    ("10.3", lambda written, W_Q, k: constant(written[:1], W_Q, k), "not yet"),
    ("10.3", lambda *given: None, "not attempted"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(verdict, number, answer, expected):
    torch.manual_seed(3)
    wire = {"k": torch.randn(2, 5, 4, 3), "z": torch.randn(2, 5, 3)}
    wire |= {"W_O": torch.randn(3, 8), "W_K": torch.randn(8, 3), "head": 2}
    read = {"written": torch.randn(2, 5, 8), "W_Q": torch.randn(8, 3), "k": torch.randn(2, 5, 3)}
    given = {"10.2": wire, "10.3": read}
    assert verdict(number, answer, **given.get(number, {})) == expected


def test_figures_can_be_read():
    maps = {
        "zero": {"one cut": torch.eye(9), "another": torch.eye(9)},
        "mean": {"one cut": -torch.eye(9)},
    }
    check_figures(
        figures.three_steps("title", *[torch.eye(4)] * 3),
        figures.cut_patterns(maps, 0.5, "title"),
        figures.query_terms({"embedding": (8.0, 1.0), "a constant": (-0.1, 9.0)}, "title"),
        figures.lost_by_parts(torch.eye(3, 7), "title"),
        figures.through_mlp(
            torch.full((3, 7), 0.02), [0.0, 0.6, 0, 0, 0, -0.02], Head(3, 3), "title"
        ),
    )


def test_the_terms_of_a_query_add_up_to_the_scores():
    model = load_checkpoint("stories-2l")
    tokens = repeated_tokens(1024, 12, 4, model.tokenizer.bos, seed=3)
    _, cache = model.run_with_cache(tokens)
    terms = induction_circuit.query_terms(model, cache, Head(1, 2))
    scores = cache["L1.scores"][:, 2]
    right = torch.stack([scores[:, 13 + i, 2 + i] for i in range(12)]).mean().item()
    found = [sum(column) for column in zip(*terms.values(), strict=True)]
    assert found == pytest.approx([right, scores[:, 13:, 0].mean().item()], abs=1e-4)
    k, W_Q = cache["L1.k"][:, :, 2], model.head_weights(Head(1, 2)).W_Q
    constant = induction_circuit.constant_scores(cache["L0.attn_out"], W_Q, k)
    assert constant[:, 0].mean().item() == pytest.approx(
        terms["layer 0, its constant"][1], abs=1e-4
    )


@pytest.mark.parametrize("positions", ["standard", "shortformer", "relative", "none"])
@pytest.mark.parametrize("layer", [0, 2])
def test_score_terms_add_up_to_the_scores(linear, some_tokens, positions, layer):
    model = linear(positions=positions, n_layers=3)
    _, cache = model.run_with_cache(some_tokens)
    terms = induction_circuit.score_terms(model, some_tokens, Head(layer, 1))
    torch.testing.assert_close(
        sum(terms.values()), cache[f"L{layer}.scores"][:, 1].detach(), atol=1e-4, rtol=1e-4
    )
    parts = {"embed", *(f"L{i}H{h}" for i in range(layer) for h in range(2))}
    parts |= {"position"} if positions in ("standard", "shortformer") else set()
    bias = {("position", "position")} if positions == "relative" else set()
    assert set(terms) == set(itertools.product(parts, parts)) | bias


def test_scores_that_are_no_sum_are_refused(make_model, linear, some_tokens):
    for model, head, said in (
        (make_model(layer_norm=False, d_mlp=4), Head(1, 0), "d_mlp = 4.*d_mlp=0"),
        (make_model(), Head(1, 0), "layer_norm = True.* layer_norm=False"),
        (linear(smeared_keys=True), Head(1, 0), "smeared_keys = True.*smeared_keys=False"),
        (linear(), Head(2, 0), "L2H0.* 2 layers"),
    ):
        with pytest.raises(ValueError, match=said):
            induction_circuit.score_terms(model, some_tokens, head)


def test_k_composition_is_a_term_of_the_scores(linear, some_tokens):
    model = linear()
    _, cache = model.run_with_cache(some_tokens)
    circuit = k_composition_circuit(model, Head(0, 1), Head(1, 0)).dense()
    by_token = circuit[some_tokens[:, :, None], some_tokens[:, None]]  # [batch, query, moved]
    moved = by_token @ cache["L0.pattern"][:, 1].transpose(1, 2)
    terms = induction_circuit.score_terms(model, some_tokens, Head(1, 0))
    torch.testing.assert_close(moved.detach(), terms["embed", "L0H1"])
