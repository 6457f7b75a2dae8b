import pytest
import torch

from aot_helpers.corpora import repeated_tokens
from aot_helpers.heads import copy_losses, head_scores, induction_scores, offset_score, zero_heads


@pytest.fixture
def repeated():
    """BOS, then 4 different tokens, twice; [5, 9]."""
    draw = torch.Generator().manual_seed(0)
    segment = torch.stack([1 + torch.randperm(10, generator=draw)[:4] for _ in range(5)])
    return torch.cat([torch.zeros(5, 1, dtype=torch.long), segment, segment], dim=1)


def test_offset_score_is_the_mean_of_a_diagonal():
    pattern = torch.rand(3, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    for back, first in [(0, 0), (1, 1), (1, 4), (3, 5), (7, 7)]:
        diagonal = pattern.diagonal(-back, dim1=2, dim2=3)[..., first - back :]
        torch.testing.assert_close(offset_score(pattern, back, first), diagonal.mean(dim=(0, 2)))


@pytest.mark.parametrize(("back", "first"), [(-1, 2), (3, 2), (1, 8)])
def test_an_impossible_offset_is_named(back, first):
    with pytest.raises(ValueError, match=f"back = {back}, first_query = {first}, n_pos = 8"):
        offset_score(torch.rand(1, 1, 8, 8), back, first)


def test_head_scores_are_the_scores_of_each_layers_pattern(make_model, some_tokens):
    model = make_model(n_layers=3)
    _, cache = model.run_with_cache(some_tokens)
    scores = head_scores(model, some_tokens, 2, 3)
    assert scores.shape == (3, 2)
    for i in range(3):
        torch.testing.assert_close(scores[i], offset_score(cache[f"L{i}.pattern"], 2, 3))


def test_induction_score_is_attention_to_what_followed_the_same_token(make_model, repeated):
    model = make_model()
    _, cache = model.run_with_cache(repeated)
    for layer in range(2):
        for head in range(2):
            seen = []
            for text, tokens in enumerate(repeated.tolist()):
                for query in range(5, 9):  # the second copy
                    key = tokens.index(tokens[query]) + 1  # after the first occurrence
                    assert tokens[key] == (tokens + tokens[1:5])[query + 1]
                    seen.append(cache[f"L{layer}.pattern"][text, head, query, key].item())
            score = induction_scores(model, repeated)[layer, head].item()
            assert score == pytest.approx(sum(seen) / len(seen), abs=1e-6)


def test_tokens_that_are_not_repeated_are_refused(make_model, repeated):
    other = repeated.clone()
    other[0, -1] = (other[0, -1] + 1) % 11
    for tokens in (other, repeated[:, :-1], repeated_tokens(11, 1, 2)):
        with pytest.raises(ValueError, match="BOS, then a segment of at least 2 tokens, twice"):
            induction_scores(make_model(), tokens)


def test_zero_heads_equals_a_model_without_their_output(make_model, some_tokens):
    model, cut = make_model(n_heads=3), make_model(n_heads=3)
    heads = [(0, 2), (1, 0), (1, 1)]
    with torch.no_grad():
        for layer, head in heads:
            cut.layers[layer].attn.W_O[head] = 0
    edited = model(some_tokens, edits=zero_heads(model, heads))
    torch.testing.assert_close(edited, cut(some_tokens))
    assert not torch.allclose(edited, model(some_tokens), atol=1e-3)
    assert zero_heads(model, []) == {}


@pytest.mark.parametrize("head", [(2, 0), (0, 2), (-1, 0), (0, -1)])
def test_a_head_that_does_not_exist_is_named(make_model, head):
    message = rf"no head L{head[0]}H{head[1]}: layers 0 … 1, heads 0 … 1"
    with pytest.raises(ValueError, match=message):
        zero_heads(make_model(), [(0, 0), head])


def test_copy_losses_are_mean_minus_log_p_in_each_copy(make_model, repeated):
    model = make_model()
    log_p = model(repeated).log_softmax(-1)
    lost = [
        [-log_p[text, t, tokens[t + 1]].item() for t in range(8)]
        for text, tokens in enumerate(repeated.tolist())
    ]
    first = [loss for row in lost for loss in row[:4]]  # predicting the 4 tokens of the segment
    second = [loss for row in lost for loss in row[5:]]  # its last 3 tokens, the second time
    expected = (sum(first) / len(first), sum(second) / len(second))
    assert copy_losses(model, repeated) == pytest.approx(expected, abs=1e-5)


def test_copy_losses_see_the_edits(make_model, repeated):
    model = make_model()
    uniform = copy_losses(model, repeated, {"logits": lambda logits: 0 * logits})
    assert uniform == pytest.approx((torch.tensor(11.0).log().item(),) * 2)
    assert copy_losses(model, repeated) != uniform


def test_a_hand_made_induction_head_scores_one(make_model, repeated):
    model = make_model(n_layers=1, n_heads=2)
    look = torch.zeros(5, 2, 9, 9)
    look[:, 1, range(5, 9), range(2, 6)] = 1.0
    scores = offset_score(look, back=3, first_query=5)
    assert scores.tolist() == [0.0, 1.0]
    assert induction_scores(model, repeated).shape == (1, 2)


def test_a_model_without_layers_has_no_heads_to_score(make_model, some_tokens):
    with pytest.raises(ValueError, match="a model without layers has no heads"):
        head_scores(make_model(n_layers=0), some_tokens, 1, 2)


def test_copy_losses_refuse_what_is_not_repeated(make_model, repeated):
    with pytest.raises(ValueError, match="BOS, then a segment of at least 2 tokens, twice"):
        copy_losses(make_model(), repeated[:, :-1])
