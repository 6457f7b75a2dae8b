"""Evidence of notebook 12: what context is worth, a copying rule, and both over training."""

import pandas as pd
import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from aot_helpers.text.batches import repeated_tokens
from aot_helpers.text.corpora import load_corpus
from chapters.nb12_in_context_learning import measure as study
from evidence.support import nb12 as support


@pytest.fixture(scope="session")
def two(stories):
    return stories


@pytest.fixture(scope="session")
def unread(two):
    texts = load_corpus("stories", "test", quiet=True).texts
    return two.tokenizer.encode_many(texts)


@pytest.fixture(scope="session")
def pieces(two, unread):
    return study.cut(unread, 60, two.tokenizer.bos)


def test_with_the_whole_context_the_last_losses_are_those_of_all_places(two, pieces):
    whole = support.last_losses(two, pieces, 119)
    assert torch.allclose(whole, study.losses_of(two, pieces)[:, -8:].mean(dim=1), atol=1e-5)
    short = support.last_losses(two, pieces, 4)
    assert torch.allclose(support.gain_by_context(two, pieces), short - whole)
    with pytest.raises(ValueError, match="0 to 119, what these texts have; got 120"):
        support.last_losses(two, pieces, 120)


def test_without_layers_context_is_worth_nothing_and_foreign_context_keeps_the_last_tokens(pieces):
    blind = load_checkpoint("stories-0l")
    assert support.gain_by_context(blind, pieces).abs().max() < 1e-4
    foreign = support.with_foreign_context(pieces)
    assert torch.equal(foreign[:, -12:], pieces[:, -12:])
    assert torch.equal(foreign[:30, :-12], pieces[30:, :-12])
    assert torch.equal(foreign[30:, :-12], pieces[:30, :-12])


def rule(tokens):
    for n in (2, 1):
        for end in range(len(tokens) - 1, n - 1, -1):
            if tokens[end - n : end] == tokens[-n:]:
                return tokens[end], n
    return -1, 0


def test_guesses_are_those_of_the_rule_walked_token_by_token(pieces):
    guess, matched = support.guesses(pieces[:5])
    for i, text in enumerate(pieces[:5].tolist()):
        expected = [rule(text[: n + 1]) for n in range(127)]
        assert [(g, m) for g, m in zip(guess[i].tolist(), matched[i].tolist(), strict=True)] == [
            (g, m) for g, m in expected
        ]


def test_a_copier_brings_a_blind_model_far_and_a_rule_that_is_never_right_nothing(two, pieces):
    losses = study.losses_of(load_checkpoint("stories-0l"), pieces)
    helped = support.with_copier(losses, pieces, two.config.d_vocab)
    assert helped.mean() < losses.mean() - 0.5
    never = torch.zeros_like(losses, dtype=torch.float64)
    group = support.trust_groups(pieces, never.long(), two.config.d_vocab)
    same = support.mixed_losses((-losses.double()).exp(), never, group)
    assert torch.allclose(same, losses.double(), atol=1e-5)  # every w is 0
    assert support.fraction_of_gap(losses, losses, helped) == 0
    assert support.fraction_of_gap(helped, losses, helped) == 1


def test_roles_share_out_all_heads_and_their_removal_flattens_the_context(two, pieces):
    repeats = repeated_tokens(two.config.d_vocab, 50, 20, two.tokenizer.bos, seed=3)
    induction, previous, others = support.roles(two, repeats)
    assert (induction, previous) == ([Head(1, 0), Head(1, 2)], [Head(0, 3)])
    assert sorted(induction + previous + others) == [Head(i, h) for i in range(2) for h in range(4)]
    edits = ablate(two, induction, "mean", pieces[-20:])
    left, whole = (support.gain_by_context(two, pieces, each).mean() for each in (edits, None))
    assert left < 0.3 * whole


def test_logs_are_those_of_the_runs_by_step():
    score, induction, copied = support.logged("stories-2l").loc[1500]
    assert score < -1.3 and induction > 0.8 and copied > 0.9
    smeared = support.logged("stories-1l-smeared")["copy accuracy"]
    assert support.largest_rise(smeared)[0] > 0.5


def test_a_loss_that_falls_evenly_by_the_log_of_the_index_saves_as_much_at_each_doubling():
    middles = torch.cat([torch.full((b - a,), (a * (b - 1)) ** 0.5) for a, b in support.RANGES])
    losses = 5 - 0.3 * middles.log2().expand(2, 4, 127)  # [step, text, pos]
    assert torch.allclose(support.per_doubling(losses), torch.tensor(0.3), atol=1e-4)
    assert support.per_doubling(losses[0]).shape == (7,)


def test_the_largest_rise_is_sought_within_its_steps():
    values = pd.Series([0.0, 0.1, 0.5, 1.5, 1.4], [0, 100, 200, 500, 600])
    assert support.largest_rise(values) == (0.5, 0)
    assert support.largest_rise(values, within=300) == (1.0, 200)


def test_turns_of_paths_that_are_known():
    steps = [0, 200, 400, 600]
    path = torch.tensor([[0.0, 0], [1, 0], [1, 2], [1, 5]])
    assert support.turning_angle(steps, path, at=200) == pytest.approx(90)
    assert support.turning_angle(steps, path, at=400) == pytest.approx(0, abs=0.1)
    with pytest.raises(ValueError, match="no step 800"):
        support.turning_angle(steps, path, at=600)


def test_exponentials_are_fitted_each_at_its_own_pace_and_a_jump_is_not():
    steps = [0, 100, 200, 400, 800, 1600]
    time = torch.tensor(steps)[:, None].float()
    gradual = (
        torch.tensor([2.0, 1]) + torch.tensor([5.0, 3]) * (-time / support.PACES[[30, 55]]).exp()
    )
    assert torch.allclose(
        support.at_its_own_pace(steps, gradual.float()), gradual.float(), atol=1e-3
    )
    jump = torch.where(time < 300, 5.0, 1.0)
    assert (support.at_its_own_pace(steps, jump) - jump).abs().max() > 0.3


def test_the_plane_holds_what_lies_in_a_plane():
    axes = torch.linalg.qr(torch.randn(50, 2, generator=torch.Generator().manual_seed(0))).Q.T
    flat = torch.tensor([[0.0, 0], [4, 1], [8, -1], [12, 0]])
    mean, found, shares = support.plane(flat @ axes + 3)
    assert sum(shares) == pytest.approx(1) and shares[0] > shares[1]
    again = (flat @ axes + 3 - mean) @ found.T @ found + mean
    assert torch.allclose(again, flat @ axes + 3, atol=1e-4)


def test_where_names_go_on_is_counted_and_told_by_hand():
    follows = torch.zeros(1, 6, 6, dtype=torch.bool)
    follows[0, 4, 2] = follows[0, 5, 2] = follows[0, 5, 3] = True  # the last query asks no more
    tokens = torch.tensor([[0, 1, 2, 3, 1, 2]])
    logits = torch.nn.functional.one_hot(torch.tensor([[9, 9, 9, 9, 2, 9]]), 10).float()
    assert support.name_copy_accuracy(lambda texts, edits: logits, tokens, follows) == 1
    other = logits.roll(1, dims=-1)
    assert support.name_copy_accuracy(lambda texts, edits: other, tokens, follows) == 0
    before = torch.full((1, 2, 6, 6), 0.25)
    for back in (0, 1):
        told = support.forced_attention(follows, back)["L1.pattern"](before)
        assert torch.equal(told[:, :, :4], before[:, :, :4])
        assert told[0, 1, 4].tolist() == [1.0 if key == 2 - back else 0 for key in range(6)]
        assert told[0, 0, 5].sum() == 1 and told[0, 0, 5, 3 - back] == 0.5


def test_half_way_steps_are_those_of_fractions_of_the_change():
    names = ["stories-2l", "stories-2l-seed1"]
    for name, halves in support.half_way_steps(names).iterrows():
        for quantity, run in support.logged(name).items():
            done = {s: (v - run[200]) / (run[1500] - run[200]) for s, v in run.items()}
            assert done[halves[quantity]] >= 0.5
            assert max(done[s] for s in done if 200 <= s < halves[quantity]) < 0.5
    with pytest.raises(ValueError, match="stories-1l has .* 0.01 .*0.4 or more"):
        support.half_way_steps([*names, "stories-1l"])
