"""Evidence of notebook 02: models without positions, and heads that look back by their bias."""

import pytest
import torch

from aot_helpers.reading.heads import head_scores
from chapters.nb02_embeddings_and_positions.measure import random_model
from evidence.support import nb02 as support

pytestmark = pytest.mark.usefixtures("seeded")


@pytest.mark.parametrize(
    ("positions", "n_layers", "notices"),
    [("none", 1, False), ("none", 2, True), ("relative", 1, True), ("standard", 1, True)],
)
def test_who_notices_a_shuffled_past(positions, n_layers, notices):
    change = support.change_of_last_logits(random_model(positions, n_layers))
    assert (change > 1e-3) == notices


def test_the_bias_of_a_head_looks_one_back_more_than_its_tokens(stories):
    batch = torch.randint(1, stories.config.d_vocab, (4, 30))
    by_bias, by_tokens, head = support.one_back_by_part("stories-2l", batch)
    assert head == "L0H3"
    bias = stories.blocks[0].attn.b_rel[3].detach()  # L0H3: one number per distance
    rows = [torch.stack([bias[q - k] for k in range(q + 1)]).softmax(dim=0) for q in range(30)]
    expected = torch.stack([row[-2] for row in rows[1:]]).mean()
    assert int(head_scores(stories, batch, "previous").scores.argmax()) == 3
    assert by_bias == pytest.approx(float(expected), abs=1e-4)
    assert by_tokens < 0.3
