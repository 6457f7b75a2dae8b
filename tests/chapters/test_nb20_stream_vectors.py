"""Notebook 20's vectors: each in the stream's width, and read as words a few rows at a time."""

import pytest
import torch

from aot_helpers.models.protocol import Head
from aot_helpers.reading.logit_lens import lens, probability, rank, top_tokens
from chapters.nb20_logit_lens.stream_vectors import READINGS, read, words


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


def test_the_last_block_is_read_as_the_model_reads_it(make_model, some_tokens):
    model = make_model(layer_norm=True, d_mlp=16, positions="standard")
    logits, cache = model.run_with_cache(some_tokens)
    torch.testing.assert_close(lens(model, read(model, cache, "block output", Head(1, 0))), logits)


@pytest.mark.parametrize(
    "reading, head, told",
    [
        ("qery", Head(0, 0), "query"),
        ("head", Head(2, 0), "L2H0"),
        ("MLP output", Head(0, 0), "MLP"),
    ],
)
def test_what_cannot_be_read_is_told(make_model, some_tokens, reading, head, told):
    model = make_model()
    _, cache = model.run_with_cache(some_tokens)
    with pytest.raises(ValueError, match=told):
        read(model, cache, reading, Head(*head))
