"""The lens: the model's own logits at the last layer, shapes of every reading, clear errors."""

import pytest
import torch

from aot_helpers.models.protocol import Head
from aot_helpers.reading.logit_lens import (
    READINGS,
    lens,
    probability,
    rank,
    read,
    target_token,
    top_tokens,
    words,
)


@pytest.mark.parametrize(
    "changes", [{}, {"layer_norm": True, "d_mlp": 16, "positions": "standard"}]
)
def test_the_last_stream_gives_the_models_own_logits(make_model, some_tokens, changes):
    model = make_model(**changes)
    logits, cache = model.run_with_cache(some_tokens)
    torch.testing.assert_close(lens(model, cache["final_resid"]), logits)
    torch.testing.assert_close(lens(model, read(model, cache, "block output", Head(1, 0))), logits)


def test_heads_and_values_add_up(make_model, some_tokens):
    model = make_model()
    _, cache = model.run_with_cache(some_tokens)
    heads = [read(model, cache, "head", Head(1, h)) for h in range(2)]
    torch.testing.assert_close(sum(heads), read(model, cache, "attention output", Head(1, 0)))
    values = read(model, cache, "value", Head(1, 1))
    torch.testing.assert_close(cache["L1.pattern"][:, 1] @ values, heads[1])


def test_queries_and_keys_give_the_scores(make_model, some_tokens):
    """q W_Kᵀ is the key asked for: times what the layer reads it is the score."""
    model = make_model(positions="standard")
    _, cache = model.run_with_cache(some_tokens)
    reads, head = cache["L1.ln1_out"], Head(1, 1)
    scores = cache["L1.scores"][:, 1] * model.config.d_head**0.5
    asked = read(model, cache, "query", head) @ reads.transpose(1, 2)
    answered = reads @ read(model, cache, "key", head).transpose(1, 2)
    torch.testing.assert_close(asked, scores)
    torch.testing.assert_close(answered, scores)
    turned = torch.einsum("bqd,de->bqe", reads, model.head_weights(head).W_K)
    with pytest.raises(AssertionError):  # the wrong axis gives something else
        torch.testing.assert_close(turned @ turned.transpose(1, 2), scores)


def test_rank_and_probability():
    logits = torch.tensor([[3.0, 1.0, 2.0, 0.0], [0.0, 1.0, 2.0, 3.0]])
    assert rank(logits, 2).tolist() == [1, 1] and rank(logits, torch.tensor([0, 3])).tolist() == [
        0,
        0,
    ]
    torch.testing.assert_close(probability(logits, 1), logits.softmax(-1)[:, 1])
    assert top_tokens(logits, 2).tolist() == [[0, 2], [3, 2]]


@pytest.mark.parametrize("reading", READINGS)
def test_every_reading_has_the_streams_width(make_model, some_tokens, reading):
    model = make_model(layer_norm=True, d_mlp=16)
    _, cache = model.run_with_cache(some_tokens)
    assert read(model, cache, reading, Head(0, 1)).shape == (3, 7, 8)


def test_padded_vectors_go_through_the_whole_w_o(make_model, some_tokens):
    """Padding a head's z and multiplying by all of W_O is what that head adds."""
    model = make_model()
    _, cache = model.run_with_cache(some_tokens)
    W_O = torch.cat([model.head_weights(Head(0, h)).W_O for h in range(2)])
    padded = read(model, cache, "head without W_O", Head(0, 1))
    torch.testing.assert_close(padded @ W_O, read(model, cache, "head", Head(0, 1)))


def test_errors_name_the_value_and_the_remedy(make_model, some_tokens):
    model = make_model()
    _, cache = model.run_with_cache(some_tokens)
    logits = torch.zeros(2, 11)
    for what, message in {
        lambda: lens(model, torch.zeros(3, 5)): "width 5.*READINGS",
        lambda: lens(model, torch.full((8,), float("nan"))): "finite",
        lambda: top_tokens(logits, 12): "k must be .* from 1 to 11, got 12",
        lambda: rank(logits, 11): "no token 11: ids are 0 … 10",
        lambda: probability(logits, -1): "no token -1",
        lambda: read(model, cache, "qery", Head(0, 0)): "query",
        lambda: read(model, cache, "head", Head(2, 0)): "no head L2H0",
        lambda: read(model, cache, "MLP output", Head(0, 0)): "no MLP",
        lambda: model.mlp_values(0): "d_mlp = 0",
    }.items():
        with pytest.raises(ValueError, match=message):
            what()


def test_mlp_values_times_activations_are_the_mlps_output(make_model, some_tokens):
    model = make_model(layer_norm=True, d_mlp=16)
    _, cache = model.run_with_cache(some_tokens)
    written = cache["L1.mlp_hidden"] @ model.mlp_values(1) + model.blocks[1].mlp_out.bias
    torch.testing.assert_close(written, cache["L1.mlp_out"])


def test_words_are_the_lens_a_few_rows_at_a_time(make_model):
    model = make_model(layer_norm=True)
    x, asked = torch.randn(3, 5, 8), torch.randint(11, (3, 5, 2))
    logits, found = lens(model, x), words(model, x, 4, asked, rows=4)
    assert torch.equal(found.ids, top_tokens(logits, 4))
    for i in range(2):
        torch.testing.assert_close(found.probability[..., i], probability(logits, asked[..., i]))
        assert torch.equal(found.rank[..., i], rank(logits, asked[..., i]))
    assert words(model, x, 4).rank.shape == (3, 5, 0)
    with pytest.raises(ValueError, match="k must be .* 11, got 50"):
        words(model, x)


def test_the_sources_contraction_gives_other_scores(make_model, some_tokens):
    model = make_model(positions="standard")
    _, cache = model.run_with_cache(some_tokens)
    reads, head = cache["L1.ln1_out"], Head(1, 1)
    scores = cache["L1.scores"][:, 1] * model.config.d_head**0.5
    theirs = read(model, cache, "query, the source's way", head)
    W_K = torch.cat([model.head_weights(Head(1, h)).W_K for h in range(2)], dim=1)
    torch.testing.assert_close(theirs, cache["L1.q"][:, :, 1] @ W_K[4:])  # rows of the input
    assert not torch.allclose(theirs @ reads.transpose(1, 2), scores, atol=1e-2)


def test_a_target_is_one_token(stories, make_model):
    assert stories.tokenizer.token_strings([target_token(stories, " Bal")]) == [" Bal"]
    with pytest.raises(ValueError, match="' Trondheim' is . tokens, .*give the first"):
        target_token(stories, " Trondheim")
    with pytest.raises(ValueError, match="no tokenizer: give the id of ' Bal'"):
        target_token(make_model(), " Bal")
