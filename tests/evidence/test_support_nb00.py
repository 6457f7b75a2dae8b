"""Evidence of notebook 00: what a pretrained model is asked."""

from aot_helpers.base import results
from aot_helpers.models.protocol import Head
from chapters.nb00_start_here import measure
from evidence.support import nb00 as support

FRIEND = "Grace Hopper"


def test_results_of_a_pretrained_model_are_of_the_same_questions(stories):
    found = support.pretrained(stories, n_names=3)
    assert found["induction"][1][0] > 0.8
    assert found["second"] < 0.2 * found["first"] < found["other"]
    assert found["removed"][2]["lost"] > 0.8 > 0.2 > max(found["removed"][2]["others"])
    assert results.read("pretrained/00-smollm2").keys() >= found.keys()


def test_nothing_is_lost_without_no_head_and_most_without_the_induction_heads(stories):
    names = measure.made_up_names(5, seed=2)
    assert support.copying_lost(stories, [], names, FRIEND) == 0
    assert support.copying_lost(stories, [Head(1, 0), Head(1, 2)], names, FRIEND) > 0.8
