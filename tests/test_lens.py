"""The lens: the model's own logits at the last layer, ranks, probabilities, clear errors."""

import pytest
import torch

from aot_helpers.reading.logit_lens import lens, probability, rank, target_token, top_tokens


@pytest.mark.parametrize(
    "changes", [{}, {"layer_norm": True, "d_mlp": 16, "positions": "standard"}]
)
def test_the_last_stream_gives_the_models_own_logits(make_model, some_tokens, changes):
    model = make_model(**changes)
    logits, cache = model.run_with_cache(some_tokens)
    torch.testing.assert_close(lens(model, cache["final_resid"]), logits)


def test_rank_and_probability():
    logits = torch.tensor([[3.0, 1.0, 2.0, 0.0], [0.0, 1.0, 2.0, 3.0]])
    assert rank(logits, 2).tolist() == [1, 1] and rank(logits, torch.tensor([0, 3])).tolist() == [
        0,
        0,
    ]
    torch.testing.assert_close(probability(logits, 1), logits.softmax(-1)[:, 1])
    assert top_tokens(logits, 2).tolist() == [[0, 2], [3, 2]]


def test_errors_name_the_value_and_the_remedy(make_model):
    model, logits = make_model(), torch.zeros(2, 11)
    for what, message in {
        lambda: lens(model, torch.zeros(3, 5)): "width 5.*W_O",
        lambda: lens(model, torch.full((8,), float("nan"))): "finite",
        lambda: top_tokens(logits, 12): "k must be .* from 1 to 11, got 12",
        lambda: rank(logits, 11): "no token 11: ids are 0 … 10",
        lambda: probability(logits, -1): "no token -1",
        lambda: model.mlp_values(0): "d_mlp = 0",
    }.items():
        with pytest.raises(ValueError, match=message):
            what()


def test_mlp_values_times_activations_are_the_mlps_output(make_model, some_tokens):
    model = make_model(layer_norm=True, d_mlp=16)
    _, cache = model.run_with_cache(some_tokens)
    written = cache["L1.mlp_hidden"] @ model.mlp_values(1) + model.blocks[1].mlp_out.bias
    torch.testing.assert_close(written, cache["L1.mlp_out"])


def test_a_target_is_one_token(stories, make_model):
    assert stories.tokenizer.token_strings([target_token(stories, " Bal")]) == [" Bal"]
    with pytest.raises(ValueError, match="' Trondheim' is . tokens, .*give the first"):
        target_token(stories, " Trondheim")
    with pytest.raises(ValueError, match="no tokenizer: give the id of ' Bal'"):
        target_token(make_model(), " Bal")


def test_logits_that_are_not_finite_have_no_rank(unchecked):
    logits = torch.tensor([[1.0, float("nan"), 3.0]])
    for read in (rank, probability, lambda logits, _: top_tokens(logits, 1)):
        with pytest.raises(ValueError, match="logits must be finite"):
            read(logits, 0)
