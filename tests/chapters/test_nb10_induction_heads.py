"""Notebook 10: wires between heads, two matches, the terms of a score, and its exercises."""

import itertools

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.reading.circuits import k_composition_circuit
from aot_helpers.reading.heads import induction_scores
from aot_helpers.text.batches import repeated_tokens
from chapters.nb10_induction_heads import figures
from chapters.nb10_induction_heads import measure as induction_circuit
from figure_checks import check_figures


def test_sentences_name_two_people_whose_surnames_begin_alike():
    tokenizer = load_checkpoint("stories-2l").tokenizer
    groups = induction_circuit.name_sentences(tokenizer, 3, seed=0)
    assert sum(len(tokens) for tokens, _, _ in groups) == 6
    assert len({tokens.shape[1] for tokens, _, _ in groups}) == len(groups)
    for tokens, *places in groups:
        for row, own, other in zip(
            tokens.tolist(), *(each.tolist() for each in places), strict=True
        ):
            assert row[own - 1] == row[other - 1] == row[-1] and row[own] != row[other]
            assert row[own - 2] == row[-2] != row[other - 2]


def test_roles_are_those_of_the_heads_that_look_there():
    model = load_checkpoint("stories-2l")
    tokens = repeated_tokens(1024, 22, 10, model.tokenizer.bos, seed=5)
    one, two, readers = induction_circuit.roles(model, tokens)
    assert (one, two) == (3, 0)
    assert readers == (induction_scores(model, tokens)[1] > 0.4).nonzero()[:, 0].tolist() == [0, 2]
    pattern = model.run_with_cache(tokens)[1]["L0.pattern"].detach().mean(dim=0)
    by_hand = [[pattern[h, i, i - 2].item() for i in range(2, 45)] for h in range(4)]
    assert max(range(4), key=lambda h: sum(by_hand[h])) == two


def key_matrix(d_vocab, block=1, more=0.0):
    W_K = torch.zeros(3 * d_vocab, d_vocab)
    W_K[block * d_vocab : (block + 1) * d_vocab] = torch.eye(d_vocab)
    W_K[-1, -1] += more
    return W_K


def cut(k, z, W_O, W_K, head, mean=True, where=None):
    part = z @ W_O @ W_K
    k = k.clone()
    k[:, :, head if where is None else where] -= part - part.mean(dim=(0, 1)) * mean
    return k


def one_mean(k, z, W_O, W_K, head):
    part, k = z @ W_O @ W_K, k.clone()
    k[:, :, head] -= part - part.mean()
    return k


X_FIRST = [11, 300, 77, 412, 5, 650, 77, 88, 23, 300, 77]  # … x A b … y A c … x A
Y_LAST = [11, 300, 77, 412, 5, 650, 77, 88, 23, 650, 77]


def wire():
    """Keys and what writes into them."""
    generator = torch.Generator().manual_seed(3)
    shapes = {"k": (2, 5, 4, 3), "z": (2, 5, 3), "W_O": (3, 8), "W_K": (8, 3)}
    made = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return made | {"head": 2}


GIVEN = {"10.2": wire, "10.3": lambda: {"model": load_checkpoint("stories-2l")}}
ANSWERS = [
    ("10.1", key_matrix, "solved"),
    ("10.1", lambda n: key_matrix(n, block=0), "the block *token*"),
    ("10.1", lambda n: key_matrix(n, block=2), "the block *output*"),
    ("10.1", lambda n: key_matrix(n, more=0.1), "some entries that should be 0"),
    ("10.2", cut, "solved"),
    ("10.2", lambda *given: cut(*given, mean=False), "The writer's mean is gone"),
    ("10.2", lambda *given: cut(*given, where=0), "keys of other heads"),
    ("10.2", lambda k, *given: k, "Nothing has changed"),
    ("10.2", lambda k, z, *more: cut(k, 2 * z, *more), "not yet"),
    ("10.2", lambda k, z, *more: cut(k, -z, *more), "The sign is wrong"),
    ("10.2", one_mean, "Your mean is one number"),
    ("10.3", (X_FIRST, Y_LAST), "solved"),
    ("10.3", (Y_LAST, X_FIRST), "other way round"),
    ("10.3", (X_FIRST, X_FIRST), "differ at 0 places"),
    ("10.3", (X_FIRST, [*X_FIRST[:-1], 88]), "end in different tokens"),
    ("10.3", (X_FIRST, [12, *X_FIRST[1:]]), "factor of"),
    ("10.3", (X_FIRST, Y_LAST[1:]), "11 and 10 tokens"),
    ("10.3", (X_FIRST[4:], Y_LAST[4:]), "two earlier places"),
    ("10.3", ([*X_FIRST[:7], 412, *X_FIRST[8:]], [*Y_LAST[:7], 412, *Y_LAST[8:]]), "two different"),
    ("10.3", (["x", "A"], Y_LAST), "list of whole numbers"),
    ("10.3", (..., ...), "not attempted"),
]


def test_figures_can_be_read():
    names = ["its token", *(f"L0H{h}, here" for h in range(4))]
    sentence = ["<|bos|>", *"Riso met", " P"], torch.rand(10), "ol", 0.97
    chances = dict.fromkeys("abcd", (0.7, 0.2)) | {"none": (0.02, 0.02)}
    check_figures(
        figures.readings({"the whole model": sentence}, "ol", "title"),
        figures.five_models(dict.fromkeys(["stories-2l", *"1234"], chances), "title"),
        figures.circuit("title"),
        figures.circuit("title", A="·P", B="ol", x="iso", writers=("L0H3", "L0H0")),
        figures.three_steps("title", *[torch.eye(4)] * 3),
        figures.matches(torch.eye(5), 8 * torch.eye(5), names, "title"),
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
