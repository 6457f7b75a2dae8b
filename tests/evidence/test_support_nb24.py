"""Evidence of notebook 24: heads on prompts with two names and with three; two ways each."""

import json
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from aot_helpers.base.results import plain, rounded
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate, patch_heads
from aot_helpers.reading.paths import direct_logit_attribution
from chapters.nb24_who_says_mary import measure
from evidence.support.nb24 import (
    above,
    name_logits,
    name_movers,
    named_again,
    patching,
    prompts,
    three_names,
    two_names,
)
from evidence.support.nb24.names import HeadTable, Roles, parsed, read_names
from tiny_models import tiny_30 as tiny

DONORS = {"two names": "S", "third gives": "C", "third owns": "C", "someone gives": "IO"}


def test_prompts_stand_where_they_say(shipped):
    groups = prompts.name_prompts(shipped, prompts.SCHOLARS, n=2)
    assert len(groups) == 2 * len(prompts.TEMPLATES)
    for g in groups:
        assert torch.equal(g.tokens[:, g.io_at], g.io)
        assert torch.equal(g.tokens[:, g.s1_at], g.s) and torch.equal(g.tokens[:, g.s2_at], g.s)
        differs = (g.tokens != g.other).any(dim=0).nonzero()[:, 0].tolist()
        assert differs == sorted({g.io_at, g.s1_at, g.s2_at})
        assert not torch.isin(g.other, torch.cat([g.io, g.s])).any() or len(g.io) > 1
    assert {g.io_at < g.s1_at for g in groups} == {True, False}


def test_attribution_agrees_with_the_cores(stories):
    groups = prompts.story_prompts(stories, False, n=6)
    table, g = name_movers.head_table(stories, groups), groups[0]
    ends = [torch.zeros_like(g.tokens).index_fill_(1, torch.tensor([0]), 0) for _ in range(2)]
    for target, name in zip(ends, (g.io, g.s), strict=True):
        target[:, -1] = name
    io, s = (direct_logit_attribution(stories, g.tokens, target) for target in ends)
    for head in (Head(1, 0), Head(1, 2), Head(0, 3)):
        by_core = (io[str(head)][:, -1] - s[str(head)][:, -1]).mean().item()
        assert table.direct[head].item() == pytest.approx(by_core, abs=1e-4)
    assert table.sum_error < 1e-3
    torch.testing.assert_close(table.difference, name_movers.logit_differences(stories, groups))


def test_removal_of_a_last_head_is_its_attribution_and_gradients_agree(stories):
    groups = prompts.story_prompts(stories, False, n=6)
    table, head = name_movers.head_table(stories, groups), Head(1, 2)

    def fall(edits_of):
        after = name_movers.logit_differences(stories, groups, edits_of)
        return (table.difference - after).mean().item()

    removed = fall(lambda g: ablate(stories, [head]))
    assert removed == pytest.approx(table.direct[head].item(), abs=1e-4)
    replaced = fall(lambda g: patch_heads(stories, g.other, [head]))
    estimate = name_movers.gradients(stories, groups)[head].item()
    assert estimate == pytest.approx(-replaced, abs=1e-4)  # linear from there on


def test_roles_follow_their_rules():
    to = {name: torch.zeros(2, 3) for name in ("most at IO", "most at S2", "S2 to S1")}
    to |= {name: torch.zeros(2, 3) for name in ("S2 to after S1", "after S1 to S1")}
    to["most at IO"][1] = torch.tensor([0.9, 0.6, 0.4])
    to["most at S2"][0, 1], to["S2 to S1"][0, 2] = 0.8, 0.5
    direct, estimate = torch.zeros(2, 3), torch.zeros(2, 3)
    direct[1] = torch.tensor([0.5, -0.2, 3.0])
    estimate[0, 1] = -0.3
    nothing = torch.zeros(2, 3)
    to["most at S2"][1, 2] = 0.7
    rest = (to, *[nothing] * 5, {}, torch.full((4,), 4.0), 0.0)
    table = HeadTable(direct, nothing, *rest)
    found = name_movers.roles(table, estimate)
    assert found.movers == [Head(1, 0)] and found.negative == [Head(1, 1)]
    assert found.suppress == [Head(1, 2)]
    assert found.s_inhibition == [Head(0, 1)] and found.duplicate == [Head(0, 2)]
    assert found.induction == [] == found.previous


def test_other_heads_are_the_nearest_in_size_and_leave_the_roles_out():
    size = torch.tensor([[9.0, 9.0, 9.0], [1.0, 5.0, 5.5], [4.0, 2.0, 1.2]])
    near = partial(patching.size_matched, [Head(1, 1)], size, [Head(1, 2)], first=1)
    assert near() == [Head(2, 0)] and near(draw=1) == [Head(2, 1)]
    two = patching.size_matched([Head(1, 0), Head(2, 2)], size, [], first=1)
    assert len({*two, Head(1, 0), Head(2, 2)}) == 4  # neither themselves nor one of them twice
    with pytest.raises(ValueError, match=r"only 4 other heads .*lower draw"):
        near(draw=9)


def test_patches_agree_with_the_library_and_with_a_run_on_the_swapped_prompt(shipped):
    groups, elsewhere = prompts.in_two_sentences(shipped)
    groups, elsewhere = (
        [prompts.subset(g, slice(2)) for g in each] for each in (groups, elsewhere)
    )
    sets = {"one": [Head(2, 1)], "two": [Head(3, 0), Head(1, 2)], "none": []}
    found = patching.patched(shipped, groups, elsewhere, sets)
    whole = name_movers.logit_differences(shipped, groups)
    for name, heads in sets.items():

        def by_library(g, heads=heads):
            return patch_heads(shipped, g.other, heads, [g.other.shape[1] - 1])

        after = name_movers.logit_differences(shipped, groups, by_library)
        torch.testing.assert_close(found[name]["other names"], after)
    for donor in patching.DONORS:
        torch.testing.assert_close(found["none"][donor], whole)
    swapped = patching.swapped_roles(groups[0])
    text = shipped.tokenizer.decode(swapped[0])
    assert text.count(shipped.tokenizer.decode(groups[0].io[:1]).strip()) == 2  # who came once
    with pytest.raises(ValueError, match="it has to be there twice"):
        patching.swapped_roles(groups[0]._replace(s1_at=0))
    with pytest.raises(ValueError, match="give both the same seed"):
        patching.patched(shipped, groups, groups[::-1], sets)


def test_heads_that_are_held_pass_nothing_on(shipped):
    kind = prompts.single_names(shipped.tokenizer)
    (g, *_) = prompts.name_prompts(shipped, kind, n=3)
    last = [Head(3, h) for h in range(6)]
    found = patching.held(shipped, [g], last, {"none": [], "all": last})
    sets, ways = {"last": last}, ("roles swapped",)
    swapped = patching.patched(shipped, [g], [g], sets, ways)["last"]
    torch.testing.assert_close(found["none"], swapped["roles swapped"])
    torch.testing.assert_close(found["all"], found["none"])  # who is swapped cannot be held
    before = [Head(2, h) for h in range(6)]
    held = patching.held(shipped, [g], before, {"all": last})["all"]
    whole = name_movers.logit_differences(shipped, [g])
    assert not torch.allclose(held, whole)  # the MLPs of layers 2 and 3 still read it


def test_the_share_of_sigma_is_nothing_without_a_norm(shipped, stories):
    def edits_of(model):
        return lambda g: patch_heads(model, g.other, [Head(1, 2)])

    (g,) = prompts.story_prompts(stories, False, n=4)
    assert name_movers.change_by_sigma(stories, [g], edits_of(stories)) == 0
    (g, *_) = prompts.name_prompts(shipped, prompts.single_names(shipped.tokenizer), n=2)
    streams = [
        shipped.run_with_cache(g.tokens, edits=edits)[1]["final_resid"][:, -1]
        for edits in (None, edits_of(shipped)(g))
    ]
    sigma = [x.var(dim=-1, unbiased=False).sqrt() for x in streams]
    norm, toward = shipped.final_norm(), shipped.W_U.T[g.io] - shipped.W_U.T[g.s]
    after = ((norm(streams[1]) - norm.bias) * toward).sum(dim=-1)
    by_hand = (after * (1 - sigma[1] / sigma[0])).mean().item()
    found = name_movers.change_by_sigma(shipped, [g], edits_of(shipped))
    assert found == pytest.approx(by_hand, abs=1e-3)


def test_a_change_at_random_is_as_long_and_sizes_are_lengths_of_changes(shipped):
    kind = prompts.single_names(shipped.tokenizer)
    (g, *_) = prompts.name_prompts(shipped, kind, n=3)
    own, other = (patching.end_outputs(shipped, tokens) for tokens in (g.tokens, g.other))
    far = patching.as_far(own, other, seed=1)
    for a, b, c in zip(own, other, far, strict=True):
        torch.testing.assert_close((c - a).norm(dim=-1), (b - a).norm(dim=-1))
    size = patching.sizes(shipped, [g])
    step = (other[2] - own[2])[:, 4] @ shipped.head_weights(Head(2, 4)).W_O
    assert size[2, 4].item() == pytest.approx(step.norm(dim=-1).mean().item(), rel=1e-4)


def test_all_of_it_is_measured_kept_and_read(shipped, monkeypatch):
    """`make data WHAT=pretrained`, on a random model with the vocabulary of the shipped one."""
    size = dict(vocab_size=4096, max_position_embeddings=128, num_key_value_heads=2)
    model = tiny("llama", shipped.tokenizer, noise=0, **size)
    some = Roles([Head(0, 0)], [Head(1, 1)], [Head(1, 0)], [Head(0, 1)], [], [], [])
    monkeypatch.setattr(two_names, "roles", lambda *_: some)
    monkeypatch.setattr(two_names, "size_matched", lambda *_: [Head(1, 1)])
    kept = json.loads(json.dumps(two_names.pretrained(model)))
    names = parsed(kept)
    assert rounded(plain(names, Head)) == kept
    table = names["table"]
    assert len(names["chosen_by"]) == len(table.difference) == 48
    fall = table.difference.mean() - names["patched"]["movers"]["other names"].mean()
    assert names["repair"]["fall"] == pytest.approx(fall.item(), abs=1e-3)


@pytest.mark.parametrize("form", DONORS)
def test_a_donor_differs_in_one_name_only(form, shipped):
    for case in three_names.cases(shipped, form, DONORS[form], n=1):
        places = case.tokens != case.changed
        assert places.sum() == 1
        assert case.tokens[places] == case.ids["name"]
        assert case.changed[places] == case.ids["instead"]


def test_an_output_of_its_own_changes_nothing_and_all_heads_of_the_last_layer_pass_all(shipped):
    (case, *_) = three_names.cases(shipped, "third gives", "C", n=2)
    same = case._replace(changed=case.tokens)
    last = [Head(shipped.config.n_layers - 1, h) for h in range(shipped.config.n_heads)]
    still = three_names.suppressed(shipped, [same], {"all": last})
    torch.testing.assert_close(still["all"], torch.zeros(2))
    both = three_names.suppressed(shipped, [case], {"all": last, "none": []})
    assert both["all"].abs().max() > 0
    torch.testing.assert_close(both["none"], torch.zeros(2))


def test_logits_are_measured_kept_and_read(shipped, monkeypatch, tmp_path):
    """`make data WHAT=pretrained`, on a random model with the vocabulary of the shipped one."""
    size = dict(vocab_size=4096, max_position_embeddings=128, num_key_value_heads=2)
    model = tiny("llama", shipped.tokenizer, noise=0, **size)
    some = Roles([Head(0, 0)], [Head(1, 1)], [Head(1, 0)], [Head(0, 1)], [], [], [])
    known = read_names() | {"roles": some}
    monkeypatch.setattr(name_logits, "read_names", lambda _: known)
    for module in (name_logits, measure):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    (tmp_path / "pretrained").mkdir()
    name_logits.write_logits(model, "tiny")
    found, form = measure.read_logits("tiny"), "third owns/C"
    (case, *_) = three_names.cases(model, "third owns", "C")
    rises = three_names.suppressed(model, [case], {"one": some.suppress})["one"]
    before, after = (found[f"{form}/{run}"] for run in ("before", "after/L23H3"))
    pair = [found[f"{form}/{which}"] for which in ("name", "instead")]
    rose = patching.gap(after, *pair) - patching.gap(before, *pair)
    torch.testing.assert_close(rose[: len(rises)], rises)


class Words:
    """A tokenizer with a token for each word, and that is all."""

    def __init__(self):
        self.known = []

    def encode(self, text: str, bos: bool = False):
        words = text.split()
        self.known += [word for word in words if word not in self.known]
        return torch.tensor([self.known.index(word) for word in words])


@pytest.mark.parametrize("slot", ["IO", "S"])
def test_in_a_donor_the_last_mention_of_one_name_is_another(slot):
    model = SimpleNamespace(tokenizer=Words())
    some = named_again.prompts(model, slot, n=2)
    assert len(some) == 8
    for case in some:
        places, name, instead = case.tokens != case.changed, case.ids["name"], case.ids["instead"]
        assert (places.sum(dim=1) == 1).all()
        assert places.nonzero()[:, 1].equal(case.last("name"))
        assert torch.equal(case.tokens[places], name)
        assert torch.equal(case.changed[places], instead)
        assert ((case.tokens == name[:, None]).sum(dim=1) == 2).all()
        assert not (case.tokens == instead[:, None]).any()
    said = [model.tokenizer.known[each] for case in some for each in case.ids["pronoun"]]
    assert said == ["her", "him"] * 8
    other = named_again.prompts(model, "S" if slot == "IO" else "IO", n=2)
    assert all(torch.equal(a.tokens, b.tokens) for a, b in zip(some, other, strict=True))
    texts = {
        " ".join(model.tokenizer.known[i] for i in row) for case in some for row in case.tokens
    }
    assert not any({"Mary", "John"} <= set(text.split()) for text in texts)  # known before


def test_what_follows_the_name_is_measured_as_with_three_names(shipped):
    (case, *_) = three_names.cases(shipped, "third gives", "C", n=3)
    pronoun = shipped(case.tokens)[:, -1].argmax(dim=-1).roll(1)
    again = case._replace(ids=case.ids | {"pronoun": pronoun})
    sets = {"one": [Head(2, 1)], "all": [Head(3, h) for h in range(6)]}
    runs = named_again.measured(shipped, [again], sets)
    guess = shipped(case.tokens)[:, -1].argmax(dim=-1)
    expected = three_names.suppressed(shipped, [case], sets)
    for who, rises in measure.lowered(runs).items():
        torch.testing.assert_close(rises, expected[who], atol=1e-4, rtol=0)
    columns = torch.stack([again.ids[key] for key in ("name", "instead", "pronoun")], dim=1)
    for at, row, said in zip(runs["whole"]["first"], columns, guess, strict=True):
        assert row[at] == said if at >= 0 else said not in row


def test_a_unit_of_attention_is_a_number_for_each_prompt(shipped):
    (case, *_) = three_names.cases(shipped, "third owns", "C", n=2)
    ids = torch.unique(torch.cat([*case.ids.values()]))
    head = Head(shipped.config.n_layers - 1, 2)
    ids = torch.cat([ids, torch.tensor([5, 6])])  # some that no prompt holds
    found = above.per_unit(shipped, case, head, ids)
    assert found.shape == (2,) and found.isfinite().all()
