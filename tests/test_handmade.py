import pytest
import torch

from aot_helpers.models.handmade import (
    STRENGTH,
    attend_back_model,
    induction_model,
    previous_token_model,
    stream_block,
)
from aot_helpers.models.losses import copy_accuracy
from aot_helpers.reading.heads import HEAD_PATTERNS, head_scores, induction_scores
from tiny_models import HANDMADE

D_VOCAB = 40
BUILDERS = {**HANDMADE, "attend back 5": lambda *sizes: attend_back_model(sizes[0], 5, *sizes[1:])}


def repeated(length, batch=8, seed=0):
    """BOS, then a segment of different tokens, twice."""
    draw = torch.Generator().manual_seed(seed)
    rows = [1 + torch.randperm(D_VOCAB - 1, generator=draw)[:length] for _ in range(batch)]
    segment = torch.stack(rows)
    return torch.cat([torch.zeros(batch, 1, dtype=torch.long), segment, segment], dim=1)


def copied(model, length):
    return copy_accuracy(model, repeated(length))


def wanted_keys(name, tokens, query):
    """Where the last head of a model must look, found without it."""
    now, keys = tokens[query], range(query + 1)
    if name == "previous":
        return [max(query - 1, 0)]
    if name == "attend back 5":
        return [max(query - 5, 0)]
    if name == "duplicate":
        return [key for key in range(query) if tokens[key] == now] or [0]
    if name == "induction":
        return [key for key in keys if key and now and tokens[key - 1] == now] or [0]
    return [0]


@pytest.mark.parametrize("name", BUILDERS)
def test_the_last_head_looks_where_it_must_and_writes_what_stands_there(name):
    model = BUILDERS[name](7, 24)  # few tokens: they return often and by chance
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 7, (6, 24), generator=draw)
    tokens[:, 0] = 0
    pattern, logits = torch.zeros(6, 24, 24), torch.zeros(6, 24, 7)
    for text, row in enumerate(tokens.tolist()):
        for query in range(24):
            keys = wanted_keys(name, row, query)
            for key in keys:
                pattern[text, query, key] += 1 / len(keys)
                if row[key] != 0 and name != "first":
                    logits[text, query, row[key]] += STRENGTH / len(keys)
    found, cache = model.run_with_cache(tokens)
    torch.testing.assert_close(cache["L1.pattern"][:, 0], pattern, atol=1e-4, rtol=0)
    torch.testing.assert_close(found, logits, atol=1e-3, rtol=0)
    if name != "induction":  # the first head rests
        assert (cache["L0.pattern"][..., 0] >= 0.99).all() and not cache["L0.attn_out"].any()


def test_the_induction_model_copies_segments_of_every_length():
    model = induction_model(D_VOCAB)
    assert all(copied(model, length) == 1 for length in range(2, 31))


def test_induction_goes_through_the_keys_and_nothing_else():
    first, second = (layer.attn for layer in induction_model(9).blocks)
    written = first.W_V[0] @ first.W_O[0]
    norms = {name: (written @ getattr(second, name)[0]).norm() for name in ("W_Q", "W_K", "W_V")}
    assert (norms["W_Q"], norms["W_V"]) == (0, 0)
    assert norms["W_K"] > 1


def test_looking_a_fixed_way_back_is_induction_at_one_length_only():
    model = attend_back_model(D_VOCAB, back=9)
    scores = {length: induction_scores(model, repeated(length))[1, 0] for length in (8, 10, 12)}
    assert scores[10] > 0.99
    assert copied(model, 10) == 1
    for length in (8, 12):
        assert scores[length] < 0.01
        assert copied(model, length) == 0
    assert all(induction_scores(induction_model(D_VOCAB), repeated(n))[1, 0] > 0.99 for n in scores)
    one_back = previous_token_model(D_VOCAB)  # which is induction on pairs
    assert induction_scores(one_back, repeated(2))[1, 0] > 0.99 > copied(one_back, 3)


@pytest.mark.parametrize("length", [8, 13, 30])
@pytest.mark.parametrize("name", [*HANDMADE, "current"])
def test_every_score_finds_its_own_model_and_no_other(name, length):
    # Only the second copy is counted: an induction head rests on the first token until then.
    build = HANDMADE.get(name, lambda d_vocab: attend_back_model(d_vocab, back=0))
    model, tokens = build(D_VOCAB), repeated(length)
    for behavior in HEAD_PATTERNS:
        scores, null = head_scores(model, tokens, behavior, first_query=length + 1)
        if behavior == name:
            assert scores[1, 0] > 0.99
        else:
            assert scores[1, 0] <= null + 0.1, behavior
        look = "previous" if name == "induction" else "first"
        assert scores[0, 0] > 0.99 if behavior == look else scores[0, 0] <= null + 0.1, behavior


def test_building_draws_nothing_and_gives_the_same_model():
    torch.manual_seed(0)
    state = torch.get_rng_state()
    one, other = (induction_model(13) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, dict(other.named_parameters())[name])
        assert parameter.requires_grad
    assert not one.config.layer_norm
    assert one.config.positions == "relative"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: induction_model(1), "d_vocab .*BOS.*>= 2, got 1"),
        (lambda: induction_model(5, n_ctx=1), "n_ctx .*>= 2, got 1"),
        (lambda: attend_back_model(5, 8, n_ctx=8), "back .*n_ctx.*from 0 to 7, got 8"),
        (lambda: stream_block(9, "outputs"), "'outputs'.*'output'"),
    ],
)
def test_what_cannot_be_built_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()
