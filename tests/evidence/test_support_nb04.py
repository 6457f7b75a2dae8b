"""Evidence of notebook 04: what heads add, and what is lost without them."""

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from chapters.nb04_many_heads_one_stream import measure
from evidence.support import nb04 as support


@torch.no_grad()
def test_added_and_lost_are_those_of_one_text_and_one_head():
    model = load_checkpoint("stories-2l").requires_grad_(False)
    tokens = model.tokenizer.encode("Then Mira Soken met Pelo. Then Mira Soken said", bos=True)
    found = support.added_and_lost(model, torch.stack([tokens.flip(0), tokens]), at_once=1)
    assert found.adds.shape == (8, 2, len(tokens) - 1)
    logits, cache = model.run_with_cache(tokens[None])
    expected = measure.direct_logit_attribution(model, cache, tokens)
    p, place = logits[0].softmax(dim=-1), len(tokens) - 3
    assert found.chance[1, place] == pytest.approx(p[place, tokens[place + 1]].item(), abs=1e-5)
    for i, name in ((3, "L0H3"), (4, "L1H0")):
        assert torch.allclose(found.adds[i, 1], expected[name], atol=1e-4)
        fall = measure.total_effects(model, tokens, place, [name])[name]
        assert found.falls[i, 1, place] == pytest.approx(fall, abs=1e-3)
        q = model(tokens[None], edits=ablate(model, [Head.parse(name)]))[0].softmax(dim=-1)
        lost = (p[place, tokens[place + 1]] / q[place, tokens[place + 1]]).log()
        assert found.needed[i, 1, place] == pytest.approx(lost.item(), abs=1e-3)


def test_the_first_of_two_rankings_is_compared_place_by_place():
    adds = torch.tensor([[3.0, 1.0, 2.0], [2.0, 4.0, 5.0]])  # [head, place]
    needed = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]])
    found = support.AddedAndLost(adds[:, None], needed[:, None], needed[:, None], torch.ones(1, 3))
    assert found.other_head("adds") == pytest.approx(1 / 3)
    assert found.other_head("falls") == 0
    few = found.at(torch.tensor([[True, False, True]]))
    assert few.adds.tolist() == [[3, 2], [2, 5]] and few.other_head("adds") == 0
