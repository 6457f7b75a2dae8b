"""Evidence of notebook 11: heads taken out, facts that are moved, and paths."""

import itertools
from functools import partial

import pytest
import torch

from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate, freeze_patterns, merge
from aot_helpers.text.batches import repeated_tokens
from evidence.support import nb11 as support


@pytest.fixture
def model(stories):
    return stories


@pytest.fixture
def texts(model):
    return [repeated_tokens(1024, 15, 6, model.tokenizer.bos, seed=seed) for seed in (1, 2)]


@pytest.fixture
def pair(model):
    return support.meetings(model.tokenizer, [("Mira Soken", "Pelo Balis")])


def test_the_head_that_says_always_the_same_is_found(model, texts):
    shares = support.constant_fractions(model, texts[0], 0)
    assert shares.argmax() == 2 and ((shares >= 0) & (shares <= 1)).all()


def test_a_direction_at_random_is_as_long_as_the_mean(model, texts):
    tokens, others = texts
    head = Head(0, 2)
    rise = support.loss_rise_with_random_constants(model, tokens, others, head, n_draws=2, seed=0)
    mean = model.run_with_cache(others)[1]["L0.z"][:, :, 2].mean(dim=(0, 1))
    generator, expected = torch.Generator().manual_seed(0), []
    for _ in range(2):
        drawn = torch.randn(len(mean), generator=generator)

        def say(z, drawn=drawn):
            z = z.clone()
            z[:, :, 2] = drawn / drawn.norm() * mean.norm()
            return z

        edited, whole = (copy_losses(model, tokens, edits)[0] for edits in ({"L0.z": say}, {}))
        expected.append(edited - whole)
    assert rise == pytest.approx(sum(expected) / 2, abs=1e-4)


class OfPatterns:
    """A model whose layer 1 attends as it is told."""

    def __init__(self, patterns):
        self.patterns = patterns

    def run_with_cache(self, tokens, edits=None):
        return None, {"L1.pattern": self.patterns}


def test_how_often_a_head_leaves_the_first_token():
    tokens = torch.tensor([[0, 5, 6, 7, 5, 6, 7]])  # a segment of 3: queries 2, 3; then 4, 5
    pattern = torch.zeros(1, 2, 7, 7)
    pattern[..., 0] = 0.6
    pattern[0, :, 1, 1] = 0.9  # the first token asks nothing
    pattern[0, 1, 2, 1] = 0.7  # an accident
    pattern[0, 1, 3, 2] = 0.5  # less than BOS has
    pattern[0, 1, 4, 2] = 0.9  # the right key: what followed 5
    pattern[0, 1, 5, 4] = 0.9  # another one
    heads = [Head(1, 0), Head(1, 1)]
    found = support.leaves_first(OfPatterns(pattern), tokens, heads, {})
    assert found == ([0, 0.5], [0, 0.5])


def test_with_resampled_induction_heads_the_other_text_is_said(model, texts):
    said = partial(support.predicts_others, model, *texts)
    assert said([Head(1, 0), Head(1, 2)]) > 0.9
    assert said([Head(1, 1), Head(1, 3)]) < 0.1
    assert support.predicts_others(model, texts[0], texts[0], []) > 0.9  # its own text


def test_losses_are_a_function_of_the_lead(model, texts):
    tokens = texts[0]
    for edits in ({}, ablate(model, [Head(1, 0)], "zero")):
        above, lead, losses = support.log_odds(model, tokens, edits)
        expected = next_token_losses(model(tokens, edits=edits), tokens)[:, 16:]
        assert torch.allclose(losses, expected, atol=1e-4)
        assert (above > lead).all()


def test_one_fact_of_two_prompts_differs(model, pair):
    prompts, (right, wrong) = pair
    say = model.tokenizer.decode
    for kind, met in (
        ("clean", "Mira Soken met Pelo Balis"),
        ("what", "Mira Balis met Pelo Soken"),
        ("where", "Pelo Soken met Mira Balis"),
    ):
        assert say(prompts[kind][0, 1:]) == f"Then {met} near the river. Then Mira"
    assert [say(each[0]) for each in (right, wrong)] == [" Sok", " Bal"]


def test_names_that_do_not_fit_are_named(model):
    for couple in (("Mira Soken", "Pelo Sokan"), ("Mira Soken", "Alexandra Balis")):
        with pytest.raises(ValueError, match=couple[1]):
            support.meetings(model.tokenizer, [couple])


def test_fitting_names_make_meetings(model):
    couples = [("Duro Semin", "Busa Mobis"), ("Mira Soken", "Pelo Balis"), ("A B", "Pelo Balis")]
    fitting = support.fitting_names(model.tokenizer, couples)
    assert ("A B", "Pelo Balis") not in fitting
    support.meetings(model.tokenizer, fitting)


def test_both_ways_of_patching_agree_in_the_last_layer(model, pair):
    both = [Head(1, 0), Head(1, 2)]
    for fact in ("what", "where"):
        noising = support.patching_effect(model, *pair, fact, both)
        assert noising == pytest.approx(1, abs=0.1)
        denoising = support.patching_effect(model, *pair, fact, both, "denoising")
        assert denoising == pytest.approx(noising)
    assert abs(support.patching_effect(model, *pair, "what", [Head(0, 3)])) < 0.01
    assert support.patching_effect(model, *pair, "where", [Head(0, 3)]) > 0.5


def test_the_trajectory_agrees_with_the_packages_ablations(model, texts):
    repeats, others = texts
    torch.manual_seed(3)
    running, more = torch.randint(1, 1024, (2, 3, 128))
    given = {"repeats": others, "running": more}
    found = support.trajectory(lambda step: model, [4000], repeats, running, given)
    whole = copy_losses(model, repeats)[1]
    for by, keep in found:
        edits = ablate(model, [Head(0, 1)], by, others)
        edits = merge(freeze_patterns(model, repeats), edits) if keep else edits
        expected = copy_losses(model, repeats, edits)[1] - whole
        assert found[by, keep][0, 1, 0].item() == pytest.approx(expected, abs=1e-4)
    last = {by: found[by, True][0, 4:] - found[by, False][0, 4:] for by in ("zero", "mean")}
    assert max(each.abs().max() for each in last.values()) < 1e-6


def path_logits(model, tokens):
    """The logits' path terms of each order, as sums of products of patterns and OV matrices."""
    _, cache = model.run_with_cache(tokens)
    orders = []
    for n in range(model.config.n_layers + 1):
        term = torch.zeros_like(cache["logits"])
        for layers in itertools.combinations(range(model.config.n_layers), n):
            for path in itertools.product(*([Head(i, h) for h in range(2)] for i in layers)):
                moved = model.W_E[tokens]
                for head in path:
                    W = model.head_weights(head)
                    moved = cache[f"L{head.layer}.pattern"][:, head.head] @ moved @ W.W_V @ W.W_O
                term = term + moved @ model.W_U
        orders.append(term)
    return orders


def test_term_importance_is_the_loss_of_the_sum_of_path_terms(linear, some_tokens):
    model = linear(n_layers=3)
    with torch.no_grad():
        orders = path_logits(model, some_tokens)
        sums = [sum(orders[: n + 1]) for n in range(4)]
        expected = torch.stack([next_token_losses(each, some_tokens).mean() for each in sums])
        loss = next_token_losses(model(some_tokens), some_tokens).mean()
    found = support.term_importance(model, some_tokens)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found[-1], loss)
    assert found.diff().abs().min() > 1e-4  # no order is empty


def test_term_importance_needs_a_sum_of_paths_and_a_next_token(linear, some_tokens):
    with pytest.raises(ValueError, match="d_mlp = 4.*d_mlp=0"):
        support.term_importance(linear(d_mlp=4), some_tokens)
    with pytest.raises(ValueError, match=r"\(3, 1\) .*2 positions"):
        support.term_importance(linear(), some_tokens[:, :1])
