"""Evidence of notebook 05: heads that answer questions."""

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.text.corpora import load_corpus
from evidence.support import nb05 as support


def test_half_of_the_questions_of_a_kind_choose_a_head_and_half_test_it():
    model = load_checkpoint("stories-1l").requires_grad_(False)
    asked = support.questions(load_corpus("stories", "test", quiet=True).truth.names)
    for choosing, testing in asked.values():
        assert len(choosing) == len(testing) and not set(choosing) & set(testing)
    place, thing = asked["which place?"][1][0], asked["which thing?"][1][0]
    assert place == ("She walked from the river to the", "sea") and thing[1] in thing[0]
    left = support.left_without_each_head(model, model.tokenizer, [place])
    ids, sea = model.tokenizer.encode(place[0], bos=True)[None], model.tokenizer.encode(" sea")[0]
    silent = model(ids, edits={"L0.z": lambda z: z * torch.tensor([0.0, 1, 1, 1])[:, None]})
    chances = [logits[0, -1].softmax(dim=-1)[sea] for logits in (silent, model(ids))]
    assert left[0] == pytest.approx((chances[0] / chances[1]).item(), rel=1e-4)


def test_the_head_is_chosen_on_one_half_and_told_of_the_other():
    left = {
        "a": [torch.tensor([0.1, 0.5, 0.9]), torch.tensor([0.3, 0.2, 1.0])],
        "b": [torch.tensor([1.0, 0.9, 0.1]), torch.tensor([0.8, 0.7, 0.25])],
    }
    values, of, control, control_of = support.one_head_each(left, "run")
    assert values["chosen head"] == pytest.approx([0.3, 0.25])
    assert values["next head"] == pytest.approx([0.2, 0.7])
    assert of["chosen head"] == ["run L0H0 a", "run L0H2 b"]
    assert control_of["chosen head"] == ["run L0H2 a", "run L0H0 b"]
    assert control["chosen head"] == pytest.approx([1.0, 0.8])
    assert control_of["next head"] == ["run L0H2 a", "run L0H0 b"]
