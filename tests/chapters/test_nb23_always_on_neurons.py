"""Notebook 23: neurons that are always on; two derivations each."""

import pytest
import torch

from aot_helpers.base.results import read
from aot_helpers.models.losses import next_token_losses
from chapters.nb23_always_on_neurons import figures
from chapters.passages import texts
from figure_checks import check_figures


def test_ends_are_the_last_positions_of_each_text_alone(shipped):
    some = ["Return the graph", "This function computes the eigenvalues of a matrix, and so on"]
    ends = texts.read_ends(shipped, some)
    for i, text in enumerate(some):
        tokens = shipped.tokenizer.encode(text, bos=True)[None]
        logits, cache = shipped.run_with_cache(tokens)
        middle = cache["L2.resid_pre"] + cache["L2.attn_out"]
        for found, alone in (
            (ends.ln1[2, i], cache["L2.resid_pre"]),
            (ends.ln2[2, i], middle),
            (ends.hidden[3, i], cache["L3.mlp_hidden"]),
        ):
            torch.testing.assert_close(found, alone[0, -1], atol=1e-4, rtol=0)
        assert ends.guesses[i] == logits[0, -1].argmax()


def test_costs_are_the_mean_loss_and_entropy(shipped):
    tokens = texts.windows(shipped, n=4)
    assert tokens.shape == (4, 64) and tokens[:, 0].eq(0).all()
    logits = shipped(tokens)
    whole = texts.cost(shipped, tokens)
    assert whole.loss == pytest.approx(next_token_losses(logits, tokens).mean().item(), abs=1e-5)
    entropy = torch.distributions.Categorical(logits=logits[:, :-1]).entropy().mean().item()
    assert whole.entropy == pytest.approx(entropy, abs=1e-4)
    with pytest.raises(ValueError, match="texts have 64 tokens: lower n"):
        texts.windows(shipped, n=10**6)


QUIET, LOUD = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 3.0, 5.0])


def replaced(values, b, neurons, mean):
    kept = torch.ones(len(values), 1).index_fill(0, torch.tensor(neurons), 0)
    return values * kept, b + mean @ (values * (1 - kept))


GIVEN = {"23.3": lambda: {"quiet": QUIET, "loud": LOUD}}
ANSWERS = [
    ("23.1", [3, -3, 4, -4, 3, -3], "solved"),
    ("23.1", [3, 3, 3, 3, 3, 3], "takes away 100%"),
    ("23.1", [3, -3, 4, -4, 3, -1], "One of them is -1"),
    ("23.1", [3, -3, 4, -4, 3, 9], "takes away"),
    ("23.1", [3, -3], "6 numbers"),
    ("23.2", replaced, "solved"),
    ("23.2", lambda values, *given: values, "A tuple is wanted"),
    ("23.2", lambda v, b, *rest: (replaced(v, b, *rest)[0], b), "The bias is the old one"),
    ("23.2", lambda v, b, *rest: (v, replaced(v, b, *rest)[1]), "The neurons still write"),
    ("23.2", lambda v, b, *rest: replaced(v.zero_(), b, *rest), "clone it first"),
    ("23.3", 0.6, "solved"),
    ("23.3", 1.67, "louder still"),
    ("23.3", 0.4, "the part that is too much"),
    ("23.3", -0.6, "the opposite"),
    ("23.3", 1.0, "not yet"),
]


def test_figures_can_be_read():
    costs = {"on": (0.5, 0.05), "others": (0.6, 2.3)}
    found, lines = read("pretrained/23-constant-smollm2"), ["cut", "loss"]
    check_figures(
        figures.zero_and_mean(costs, "arrows", marked=["on"]),
        figures.reading_and_effect(found["tokens"], found["reading"], found["effect"], "both"),
        figures.two_readers({"layer": lines, "direct": lines}, "two readers"),
        figures.strips({"on": torch.rand(5) + 2, "off": torch.rand(5)}, "strips", marked=["on"]),
        figures.louder(found["quiet"], found["loud"], "louder"),
        figures.turned_down({1.0: 0.0, 1.3: 0.3}, {0.7: 0.1, 1.0: 0.4}, "turned down", 0.72),
        figures.costs({"cut": [0.4], "dealt": [0.3, 0.4]}, "costs", gray=["dealt"]),
    )
