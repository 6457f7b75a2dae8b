"""Evidence of notebook 19: texts changed around a hidden token, who feeds a head, S1's score."""

import pytest
import torch
import torch.nn.functional as F

from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import head_scores, keys_back
from aot_helpers.reading.interventions import ablate, cut_paths, patch_heads
from chapters.nb19_induction_both_ways import measure as heads
from chapters.nb19_induction_both_ways.repeats import hidden_accuracy, hide, induction_map, repeats
from evidence.support import nb19 as support
from figure_checks import check_figures
from tiny_models import tiny

MASK = 60
BERT = dict(vocab_size=MASK + 1, max_position_embeddings=40)


@pytest.fixture
def net():
    """Three layers of three heads that see both sides, with biases that matter."""
    torch.manual_seed(0)
    config = ModelConfig(MASK + 1, 3, 16, 3, 8, 40, "relative", layer_norm=False, causal=False)
    model = AttentionOnlyTransformer(config)
    with torch.no_grad():
        for block in model.blocks:
            block.attn.b_rel.add_(2 * torch.randn_like(block.attn.b_rel))
    return model.eval()


@pytest.fixture
def text():
    return repeats("in order", 9, MASK, n_texts=12, seed=3)


def kept_places(changed, hidden):
    """The positions of each text that are seen as before."""
    return [(a == b).nonzero()[:, 0].tolist() for a, b in zip(changed, hidden.seen, strict=True)]


def test_one_side_and_only_neighbors_keep_just_these_of_the_second_copy(text):
    for side in support.SIDES:
        for kept, at in zip(
            kept_places(support.one_side(text, side).seen, text), text.at.tolist(), strict=True
        ):
            before, after = list(range(10, at)), list(range(at + 1, 19))
            own = {"both": before + after, "before": before, "after": after, "neither": []}[side]
            assert kept == sorted([*range(10), at, *own])
    for steps in ((-1,), (1,), (-1, 1)):
        cut = support.only_neighbors(text, steps)
        for kept, at in zip(kept_places(cut.seen, text), text.at.tolist(), strict=True):
            assert kept == sorted([*range(10), at, *(at + step for step in steps)])


def test_more_is_hidden_around_the_hidden_token(text):
    more = support.hide_more(text, 2)
    for row, at in enumerate(text.at.tolist()):
        near = list(range(at - 2, min(at + 3, 19)))
        assert (more.seen[row] == MASK).nonzero()[:, 0].tolist() == near
    assert torch.equal(support.hide_more(text, 0).seen, text.seen)


def test_attention_to_a_place_is_the_map_text_by_text(net, text):
    each = support.attention_to(net, text)
    torch.testing.assert_close(each.mean(dim=0), induction_map(net, text).scores)
    everywhere = support.attention_to_all(net, text)
    torch.testing.assert_close(everywhere.sum(dim=-1), torch.ones(12, 3, 3))
    rows = torch.arange(12)
    torch.testing.assert_close(everywhere[rows, :, :, text.at - 9], each)
    none = support.attention_to(net, text, edits=ablate(net, [Head(0, 0)], "zero"))
    assert torch.equal(none[:, 0], each[:, 0]) and not torch.equal(none[:, 1], each[:, 1])


def test_neighbor_scores_are_those_of_the_keys_near(net, text):
    scores = support.neighbor_scores(net, text.seen)
    for step, found in scores.items():
        expected = head_scores(net, text.seen, keys_back(text.seen, -step)).scores
        torch.testing.assert_close(found, expected)
    assert list(scores) == [-1, -2, -3, 1, 2, 3]
    near = support.neighbor_heads(scores, before=2)
    most = torch.stack([*scores.values()]).amax(dim=0)
    assert all(most[head] >= heads.HIGH and head.layer < 2 for head in near)
    assert len(near) == (most[:2] >= heads.HIGH).sum()


def test_one_run_gives_the_attention_and_the_answers(net, text):
    edits = ablate(net, [Head(0, 1)], "resample", support.head_outputs(net, text.seen.roll(1, 0)))
    same = ablate(net, [Head(0, 1)], "resample", text.seen.roll(1, 0))
    looks, right = support.looks_and_answers(net, text, edits)
    torch.testing.assert_close(looks, support.attention_to(net, text, edits=same).mean(dim=0))
    assert right == hidden_accuracy(net, text, same)


def test_patching_the_only_way_in_restores_all(net, text):
    broken = support.one_side(text, "neither")
    edits = patch_heads(net, text.seen, [Head(0, 1)])
    low, high, patched = (
        support.attention_to(net, hidden, edits=edit)[:, 1, 0].mean()
        for hidden, edit in ((broken, None), (text, None), (broken, edits))
    )
    back = support.restored(net, text, broken, [Head(0, 1), Head(2, 0)], Head(1, 0))
    expected = torch.stack([(patched - low) / (high - low), torch.tensor(0.0)])
    torch.testing.assert_close(back, expected)  # a later head changes nothing


def test_the_parts_of_the_sources_score_add_up_to_it(net):
    texts = torch.randint(1, MASK, (7, 30), generator=torch.Generator().manual_seed(5))
    score = support.own_score(net, texts, (10, 30), MASK, seed=2)
    generator, means = torch.Generator().manual_seed(2), []
    for size in (10, 30):
        at = torch.randint(1, size, (7,), generator=generator)
        means.append(support.all_losses(net, hide(texts[:, :size], at, MASK)).mean(dim=1))
    torch.testing.assert_close(score.total, means[0] - means[1])
    parts = torch.stack([score.hidden, score.first, score.visible]).mean(dim=1).abs()
    assert score.share() == pytest.approx((parts[0] / parts.sum()).item())


def test_later_others_are_none_of_the_heads(net):
    chosen = [Head(0, 1), Head(2, 0), Head(2, 2)]
    free = [Head(1, 0), Head(1, 1), Head(1, 2), Head(2, 1)]
    assert support.later_others(net, chosen) == free  # none of layer 0
    draws = [support.later_others(net, chosen, 2, seed) for seed in range(20)]
    assert {*sum(draws, [])} == {*free} and all(len({*each}) == 2 for each in draws)


def test_what_is_lost_is_that_of_a_run_without_the_writers_part(net, text):
    """By hand: the reader's query made from the stream less what the writer wrote there."""
    writer, reader = Head(0, 1), Head(2, 2)
    (lost,) = support.attention_lost(net, text, reader, [([writer], "Q")])
    _, cache = net.run_with_cache(text.seen)
    wrote = cache["L0.z"][:, :, 1] @ net.head_weights(writer).W_O
    stream = cache["L2.resid_pre"] - (wrote - wrote.mean(dim=(0, 1)))
    q = stream @ net.head_weights(reader).W_Q
    scores = q @ cache["L2.k"][:, :, 2].mT / 8**0.5 + net.blocks[2].attn.relative_bias(19)[2]
    rows = torch.arange(12)
    share = scores.softmax(dim=-1)[rows, text.at, text.at - 9].mean()
    whole = cache["L2.pattern"][rows, 2, text.at, text.at - 9].mean()
    assert lost == pytest.approx(1 - (share / whole).item(), abs=1e-5)
    assert support.attention_lost(net, text, reader, [([], "Q"), ([], "K")]) == [0, 0]


def test_another_ending_keeps_the_beginning():
    texts = torch.arange(12).view(3, 4)
    assert support.other_ending(texts, 1).tolist() == [[0, 9, 10, 11], [4, 1, 2, 3], [8, 5, 6, 7]]


def test_tokens_hidden_at_once_are_those_that_are_counted(net):
    texts = torch.randint(1, MASK, (5, 30))
    found = support.nested_losses(net, texts, [8, 30], MASK, n_hidden=3, seed=4)
    order = torch.rand(5, 7, generator=torch.Generator().manual_seed(4)).argsort(dim=1)
    for size, losses in zip((8, 30), found, strict=True):
        seen = texts[:, :size].clone()
        for row in range(5):
            seen[row, 1 + order[row, :3]] = MASK
        assert ((seen == MASK).sum(dim=1) == 3).all() and not (seen[:, 8:] == MASK).any()
        p = net(seen).log_softmax(dim=-1).gather(2, texts[:, :size, None])[:, :, 0]
        by_hand = -(p * (seen == MASK)).sum(dim=1) / 3
        torch.testing.assert_close(losses, by_hand, atol=1e-5, rtol=1e-5)


def test_cuts_that_are_not_linear_are_refused(net, text):
    normed = AttentionOnlyTransformer(ModelConfig(9, causal=False))
    with pytest.raises(ValueError, match="route is called 'V'"):
        support.attention_lost(net, text, Head(1, 0), [([Head(0, 0)], "V")])
    with pytest.raises(ValueError, match="layer norms.*cut_paths"):
        support.attention_lost(normed, text, Head(1, 0), [([Head(0, 0)], "Q")])


def test_what_many_cuts_lose_is_what_cut_paths_lose(net, text):
    writers, reader = [Head(0, 1), Head(1, 2)], Head(2, 0)
    found = support.attention_lost(net, text, reader, [(writers, "Q"), (writers, "K")])
    whole = support.attention_to(net, text)[:, 2, 0].mean()
    for route, lost in zip("QK", found, strict=True):
        edits = cut_paths(net, text.seen, [(w, reader, route) for w in writers], "mean")
        left = support.attention_to(net, text, edits=edits)[:, 2, 0].mean()
        assert lost == pytest.approx(1 - (left / whole).item(), abs=1e-5) and abs(lost) > 1e-3


def test_all_losses_are_those_of_every_token(net, text):
    bert = tiny("bert", **BERT)
    with torch.no_grad():
        logits = bert.hf(text.seen).logits
    expected = F.cross_entropy(logits.mT, text.tokens, reduction="none")
    torch.testing.assert_close(support.all_losses(bert, text), expected, atol=1e-5, rtol=1e-5)
    p = net(text.seen).softmax(dim=-1)
    own = p.gather(2, text.tokens[..., None])[..., 0]
    torch.testing.assert_close(support.all_losses(net, text), -own.log())


def test_an_unknown_side_is_named(text):
    with pytest.raises(ValueError, match="left"):
        support.one_side(text, "left")


def test_maps_of_heads_can_be_read():
    scores = torch.tensor([[0.0, 0.5], [1.0, 0.05]])
    check_figures(support.head_maps({"x": {"a": scores}, "y": {"b": scores, "c": scores}}, "title"))
