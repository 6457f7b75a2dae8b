"""Notebook 19: texts changed around a hidden token, what heads read there, and ablations."""

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import uniform_score
from aot_helpers.reading.interventions import ablate
from aot_helpers.text.batches import IGNORE_INDEX, MaskedWindows, Windows
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.train import train
from chapters.nb19_induction_both_ways import figures as drawings
from chapters.nb19_induction_both_ways import measure as heads
from chapters.nb19_induction_both_ways.repeats import (
    KINDS,
    hidden_accuracy,
    hide,
    in_copy,
    induction_map,
    keys_at,
    nested_losses,
    other_copy,
    other_ending,
    repeats,
)
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


def test_another_copy_has_nothing_of_the_text_and_leaves_the_rest(text):
    other, first = other_copy(text, seed=1), in_copy(text, 0)
    assert torch.equal(other.seen[~first], text.seen[~first])
    for seen, tokens, replaced in zip(other.seen, text.tokens, first, strict=True):
        assert not torch.isin(seen[replaced], tokens).any() and len(seen[replaced].unique()) == 9
    assert torch.equal(other.tokens, text.tokens) and torch.equal(other.answers, text.answers)


def test_later_others_are_none_of_the_heads(net):
    chosen = [Head(0, 1), Head(2, 0), Head(2, 2)]
    free = [Head(1, 0), Head(1, 1), Head(1, 2), Head(2, 1)]
    assert heads.later_others(net, chosen) == free  # none of layer 0
    draws = [heads.later_others(net, chosen, 2, seed) for seed in range(20)]
    assert {*sum(draws, [])} == {*free} and all(len({*each}) == 2 for each in draws)


def test_what_is_lost_is_that_of_a_run_without_the_writers_part(net, text):
    """By hand: the reader's query made from the stream less what the writer wrote there."""
    writer, reader = Head(0, 1), Head(2, 2)
    (lost,) = heads.attention_lost(net, text, reader, [([writer], "Q")])
    _, cache = net.run_with_cache(text.seen)
    wrote = cache["L0.z"][:, :, 1] @ net.head_weights(writer).W_O
    stream = cache["L2.resid_pre"] - (wrote - wrote.mean(dim=(0, 1)))
    q = stream @ net.head_weights(reader).W_Q
    scores = q @ cache["L2.k"][:, :, 2].mT / 8**0.5 + net.blocks[2].attn.relative_bias(19)[2]
    rows = torch.arange(12)
    share = scores.softmax(dim=-1)[rows, text.at, text.at - 9].mean()
    whole = cache["L2.pattern"][rows, 2, text.at, text.at - 9].mean()
    assert lost == pytest.approx(1 - (share / whole).item(), abs=1e-5)
    assert heads.attention_lost(net, text, reader, [([], "Q"), ([], "K")]) == [0, 0]


def test_another_ending_keeps_the_beginning():
    texts = torch.arange(12).view(3, 4)
    assert other_ending(texts, 1).tolist() == [[0, 9, 10, 11], [4, 1, 2, 3], [8, 5, 6, 7]]


# ---- bad input, and models of another kind ----


def test_a_bert_goes_the_same_way(text):
    bert = tiny("bert", **BERT)
    found = induction_map(bert, text)
    assert found.scores.shape == (2, 2) and found.null == pytest.approx(1 / 19)
    assert hidden_accuracy(bert, text, ablate(bert, [Head(1, 1)], "mean", text.seen)) <= 1


def test_a_model_that_cannot_guess_is_named(linear, text):
    bert = tiny("bert without a head", **BERT)
    assert induction_map(bert, text).scores.shape == (2, 2)
    with pytest.raises(ValueError, match="no masked-language head.*BertForMaskedLM"):
        hidden_accuracy(bert, text)
    with pytest.raises(ValueError, match="causal"):
        hidden_accuracy(linear(d_vocab=MASK + 1, n_ctx=40), text)


SMALL = 30  # the mask of the texts below


def small_model():
    torch.manual_seed(0)
    config = ModelConfig(SMALL + 1, 2, 16, 2, 8, 32, "relative", layer_norm=False, causal=False)
    return AttentionOnlyTransformer(config)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_hold_the_same_tokens_and_hide_one_of_the_second(kind):
    hidden = repeats(kind, 7, SMALL, n_texts=20)
    copies = hidden.tokens[:, 1:].unflatten(1, (-1, 7))
    assert copies.shape[1] == (3 if kind == "three times" else 2)
    assert (copies.sort().values == copies[:, :1].sort().values).all()
    assert (hidden.tokens[:, 0] == 0).all() and not (hidden.tokens == SMALL).any()
    assert all(len(row.unique()) == 7 for row in copies[:, 0])
    same = (copies[:, 1] == copies[:, 0]).float().mean()
    assert same == 1 if kind != "shuffled" else same < 0.5
    changed = (hidden.seen != hidden.tokens).nonzero()
    assert changed.tolist() == [[row, at] for row, at in enumerate(hidden.at.tolist())]
    assert (hidden.at > 8).all() and (hidden.at < 14).all()  # neither first nor last of the second


def test_places_are_where_the_tokens_of_the_first_copy_stood():
    hidden = repeats("shuffled", 7, SMALL, n_texts=20, seed=3)
    for row, at in enumerate(hidden.at.tolist()):
        first = hidden.tokens[row, 1:8].tolist()

        def where(token, first=first):
            return 1 + first.index(int(token))

        tokens = hidden.tokens[row]
        wanted = {
            "earlier instance": where(tokens[at]),
            "token before it": where(tokens[at]) - 1,
            "token after it": where(tokens[at]) + 1,
            "after the neighbor before": where(tokens[at - 1]) + 1,
            "before the neighbor after": where(tokens[at + 1]) - 1,
        }
        for place, key in wanted.items():
            keys = keys_at(hidden, place)[row]
            assert keys.nonzero().tolist() == [[at, key]], place
    thrice = repeats("three times", 7, SMALL, n_texts=20)
    assert torch.equal(keys_at(thrice, "later instance").nonzero()[:, 2], thrice.at + 7)


def test_maps_and_answers_are_those_of_the_hidden_token_alone():
    hidden, net = repeats("in order", 9, SMALL, n_texts=12), small_model()
    found = induction_map(net, hidden)
    _, cache = net.run_with_cache(hidden.seen)
    rows = torch.arange(12)
    by_hand = [cache[f"L{i}.pattern"][rows, :, hidden.at, hidden.at - 9].mean(0) for i in (0, 1)]
    torch.testing.assert_close(found.scores, torch.stack(by_hand))
    assert found.null == uniform_score(keys_at(hidden, "earlier instance"), causal=False)
    p = net(hidden.seen).softmax(dim=-1)
    right = p[rows, hidden.at].argmax(-1) == hidden.answers
    assert hidden_accuracy(net, hidden) == right.float().mean()


def test_tokens_hidden_at_once_are_those_that_are_counted():
    texts, net = torch.randint(1, SMALL, (5, 30)), small_model()
    found = nested_losses(net, texts, [8, 30], SMALL, n_hidden=3, seed=4)
    order = torch.rand(5, 7, generator=torch.Generator().manual_seed(4)).argsort(dim=1)
    for size, losses in zip((8, 30), found, strict=True):
        seen = texts[:, :size].clone()
        for row in range(5):
            seen[row, 1 + order[row, :3]] = SMALL
        assert ((seen == SMALL).sum(dim=1) == 3).all() and not (seen[:, 8:] == SMALL).any()
        p = net(seen).log_softmax(dim=-1).gather(2, texts[:, :size, None])[:, :, 0]
        by_hand = -(p * (seen == SMALL)).sum(dim=1) / 3
        torch.testing.assert_close(losses, by_hand, atol=1e-5, rtol=1e-5)


def test_bad_input_is_named(text):
    one = torch.zeros(3, 1, dtype=torch.long)
    with pytest.raises(ValueError, match="texts of 1 token.*two tokens or more"):
        hide(one, one[:, 0], MASK)
    with pytest.raises(ValueError, match="in ordre"):
        repeats("in ordre", 5, SMALL)
    with pytest.raises(ValueError, match="40 different tokens cannot be drawn from 29"):
        repeats("in order", 40, SMALL)
    with pytest.raises(ValueError, match="'three times'"):
        keys_at(repeats("in order", 5, SMALL), "later instance")
    with pytest.raises(ValueError, match="beside"):
        keys_at(repeats("in order", 5, SMALL), "beside")
    cut, normed = [([Head(0, 0)], "V")], AttentionOnlyTransformer(ModelConfig(9, causal=False))
    with pytest.raises(ValueError, match="route is called 'V'"):
        heads.attention_lost(small_model(), repeats("in order", 7, SMALL), Head(1, 0), cut)
    with pytest.raises(ValueError, match="layer norms.*cut_paths"):
        heads.attention_lost(normed, text, Head(1, 0), cut)


def masked_windows(**changes):
    stream = torch.randint(1, SMALL, (500,), generator=torch.Generator().manual_seed(0))
    windows = Windows(stream, 32, 4, 0, SMALL, repeat_fraction=0.5, repeat_lengths=(3, 9))
    return MaskedWindows(windows, **{"mask": SMALL, **changes})


def test_masked_windows_ask_for_hidden_tokens_alone():
    batches = masked_windows(fraction=0.3)
    seen, targets = batches[5]
    whole = batches.windows[5][:, :-1]
    hidden = seen == SMALL
    assert torch.equal(torch.where(hidden, targets, seen), whole)
    assert (targets[~hidden] == IGNORE_INDEX).all() and not hidden[:, 0].any()
    assert 0.15 < hidden.float().mean() < 0.45
    assert all(map(torch.equal, batches[5], masked_windows(fraction=0.3)[5]))
    assert not torch.equal(hidden, batches[6][0] == SMALL)


def test_training_on_masked_tokens_lowers_just_that_loss():
    net, batches = small_model(), masked_windows()
    seen, targets = batches[0]
    at = targets != IGNORE_INDEX
    by_hand = -net(seen).log_softmax(-1)[at].gather(-1, targets[at][:, None]).mean()
    config = TrainConfig(steps=40, log_every=100)
    history = train(net, batches, config, quiet=True)
    assert history.losses[0] == pytest.approx(by_hand.item(), abs=1e-5)
    assert history.smoothed(10)[-1] < history.losses[0] and history.tokens_per_step == 4 * 32


def test_masked_windows_refuse_what_cannot_be():
    with pytest.raises(ValueError, match=r"fraction must be between 0 and 1.*got 1\.5"):
        masked_windows(fraction=1.5)
    with pytest.raises(ValueError, match="mask = 7 stands in the text"):
        masked_windows(mask=7)


# ---- exercises and figures ----


class Mirror(AttentionOnlyTransformer):
    """Says of a mask what stood, first, before the token that now stands after the mask."""

    def forward(self, tokens, *rest, **more):
        logits = torch.zeros(*tokens.shape, MASK + 1)
        for row, line in enumerate(tokens.tolist()):
            at = line.index(MASK)
            logits[row, at, line[line.index(line[at + 1]) - 1]] = 1
        return logits


def copied_beside(step):
    def change(seen, at, wanted):
        seen[at + step] = seen[seen.index(wanted) + step]
        return seen

    return change


def copied_on_both_sides(seen, at, wanted):
    return copied_beside(1)(copied_beside(-1)(seen, at, wanted), at, wanted)


def mirror():
    model = Mirror(ModelConfig(MASK + 1, 1, 4, 1, 4, 41, "relative", causal=False))
    model.tokenizer = type("Tokenizer", (), {"bos": 0})
    return {"model": model, "mask": MASK}


def masked():
    model = load_checkpoint("masked-2x2")
    return {"model": model, "mask": model.config.d_vocab - 1}


GIVEN = {"19.1": mirror, "19.2": masked}
ANSWERS = [
    ("19.1", copied_on_both_sides, "solved"),
    ("19.1", copied_beside(-1), "not yet"),
    ("19.1", lambda seen, at, wanted: seen, "not yet"),
    ("19.1", lambda seen, at, wanted: None, "not attempted"),
    ("19.2", lambda first, second: (2 * (first + second).T,) * 2, "solved"),
    ("19.2", lambda first, second: (first.T, first.T), "not yet"),
    ("19.2", lambda first, second: (second.T, second.T), "not yet"),
    ("19.2", lambda first, second: (first.T, second.T), "not yet"),
    ("19.2", lambda first, second: (first, second), "not yet"),
]


def test_figures_can_be_read():
    words = ["one", "two", "tree"]
    one = drawings.Copies("a", words, ["one", "[?]", "tree"], 1, torch.tensor([0.0, 0.9, 0.1]))
    asked = drawings.Copies("b", words, words, 1, None, (0, 2))
    check_figures(
        drawings.two_copies([one, asked], "title"),
    )
