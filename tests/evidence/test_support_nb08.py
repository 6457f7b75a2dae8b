"""Evidence of notebook 08: guesses of a group, a part of a table, values dealt within models."""

from types import SimpleNamespace

import pytest
import torch

from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.circuits import copying_score
from aot_helpers.reading.factored import FactoredMatrix
from chapters.nb08_copying_heads import measure
from evidence.support import nb08 as support

pytestmark = pytest.mark.usefixtures("seeded")


def test_guesses_are_the_best_of_the_group():
    text, group = torch.tensor([[9, 1, 2, 1]]), torch.tensor([1, 2])
    other = measure.each_as_the_next(10, [group])
    logits = torch.zeros(1, 4, 10)
    logits[0, 0, 1] = logits[0, 1, 1] = logits[0, 2, 2] = 1
    logits[0, :, 5] = 7  # not of the group
    is_copy = torch.tensor([[True, True, True]])
    found = support.guesses(logits, text, other, is_copy, group)
    assert found == pytest.approx((1 / 3, 2 / 3))


def test_a_part_is_centered_and_shuffles_lose_the_diagonal():
    copier = FactoredMatrix(torch.eye(20), torch.eye(20))
    piece = support.part_of(copier, torch.arange(5))
    torch.testing.assert_close(piece.dense(), torch.eye(5) - 0.2)
    shuffled = support.permuted_scores(copier.centered_columns(), 40)
    assert shuffled.abs().mean() < 0.4
    null = torch.randn(500) * 0.1
    assert support.beyond_chance(copying_score(copier), null, shuffled)
    assert not support.beyond_chance(0.05, null, shuffled)
    assert not support.beyond_chance(0.9, null + 1, shuffled)  # one null is not enough


def test_heads_are_shuffled_within_their_models_only():
    values, of_model = torch.arange(9.0), torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])
    orders = support.shuffled_within_models(values, of_model, 50)
    assert torch.equal(values, torch.arange(9.0)) and len(orders.unique(dim=0)) > 20
    for group in range(3):
        sorted_ = orders[:, of_model == group].sort(dim=1)[0]
        assert torch.equal(sorted_.unique(dim=0)[0], values[of_model == group])


def test_what_a_layer_reads_of_a_token_alone_is_its_embedding_in_layer_0():
    config = ModelConfig(27, 2, 12, 3, 4, 40, positions="relative", layer_norm=False)
    small = AttentionOnlyTransformer(config).requires_grad_(False)
    small.tokenizer = SimpleNamespace(bos=0)
    torch.testing.assert_close(support.read_alone(small, 0, block=10), small.W_E.detach())
    tokens = torch.tensor([[0, 5]])
    _, cache = small.run_with_cache(tokens)
    read = support.read_alone(small, 1, block=10)
    torch.testing.assert_close(read[5], cache["L1.ln1_out"][0, 1])
