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
from chapters.nb19_induction_both_ways.repeats import (
    KINDS,
    hidden_accuracy,
    hide,
    in_copy,
    induction_map,
    keys_at,
    other_copy,
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
    model, causal = load_checkpoint("masked-2x2"), load_checkpoint("stories-2l")
    eight = repeats("in order", 8, 1023, n_texts=2, seed=4)
    eight = hide(eight.tokens, torch.full((2,), 13), 1023, 8)
    matches = [(12.0, 8.0), (8.0, 12.0)]
    check_figures(
        drawings.question(causal, eight, model.tokenizer, "title"),
        drawings.solved(model, eight, model.tokenizer, matches, "title"),
    )
