import pytest
import torch
import torch.nn.functional as F

from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import uniform_score
from aot_helpers.text.batches import MaskedWindows, Windows
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.objectives import NOT_ASKED, OBJECTIVES
from aot_helpers.training.train import train
from chapters.nb19_induction_both_ways.repeats import (
    KINDS,
    PLACES,
    hidden_accuracy,
    hidden_losses,
    induction_map,
    keys_at,
    mean_over_all,
    nested,
    nested_losses,
    repeats,
)

MASK = 30


def model(n_ctx=32):
    torch.manual_seed(0)
    config = ModelConfig(MASK + 1, 2, 16, 2, 8, n_ctx, "relative", layer_norm=False, causal=False)
    return AttentionOnlyTransformer(config)


@pytest.mark.parametrize("kind", KINDS)
def test_copies_hold_the_same_tokens_and_hide_one_of_the_second(kind):
    hidden = repeats(kind, 7, MASK, n_texts=20)
    copies = hidden.tokens[:, 1:].unflatten(1, (-1, 7))
    assert copies.shape[1] == (3 if kind == "three times" else 2)
    assert (copies.sort().values == copies[:, :1].sort().values).all()
    assert (hidden.tokens[:, 0] == 0).all() and not (hidden.tokens == MASK).any()
    assert all(len(row.unique()) == 7 for row in copies[:, 0])
    same = (copies[:, 1] == copies[:, 0]).float().mean()
    assert same == 1 if kind != "shuffled" else same < 0.5
    changed = (hidden.seen != hidden.tokens).nonzero()
    assert changed.tolist() == [[row, at] for row, at in enumerate(hidden.at.tolist())]
    assert (hidden.at > 8).all() and (hidden.at < 14).all()  # neither first nor last of the second


def test_places_are_where_the_tokens_of_the_first_copy_stood():
    hidden = repeats("shuffled", 7, MASK, n_texts=20, seed=3)
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


def test_in_order_both_neighbors_lead_to_the_earlier_instance():
    hidden = repeats("three times", 7, MASK, n_texts=20)
    same = [keys_at(hidden, place) for place in PLACES if "neighbor" in place]
    assert all(torch.equal(keys, keys_at(hidden, "earlier instance")) for keys in same)
    later = keys_at(hidden, "later instance").nonzero()[:, 2]
    assert torch.equal(later, hidden.at + 7)


def test_maps_and_losses_are_those_of_the_hidden_token_alone():
    hidden, net = repeats("in order", 9, MASK, n_texts=12), model()
    found = induction_map(net, hidden)
    _, cache = net.run_with_cache(hidden.seen)
    by_hand = [
        cache[f"L{layer}.pattern"][row, :, at, at - 9]
        for layer in range(2)
        for row, at in enumerate(hidden.at.tolist())
    ]
    torch.testing.assert_close(found.scores, torch.stack(by_hand).view(2, 12, 2).mean(dim=1))
    assert found.null == pytest.approx(1 / 19)
    assert found.null == uniform_score(keys_at(hidden, "earlier instance"), causal=False)
    p = net(hidden.seen)[torch.arange(12), hidden.at].softmax(dim=-1)
    own = p[torch.arange(12), hidden.answers]
    torch.testing.assert_close(hidden_losses(net, hidden), -own.log())
    assert hidden_accuracy(net, hidden) == (p.argmax(-1) == hidden.answers).float().mean()
    wide = mean_over_all(net, hidden)
    whole = F.cross_entropy(net(hidden.seen)[3], hidden.tokens[3])
    assert wide[3].item() == pytest.approx(whole.item(), abs=1e-5)


def test_nested_windows_hide_the_same_token():
    texts = torch.randint(1, MASK, (6, 30))
    small, large = nested(texts, [8, 30], MASK)
    assert torch.equal(small.at, large.at) and torch.equal(small.answers, large.answers)
    assert torch.equal(small.seen, large.seen[:, :8])


def test_tokens_hidden_at_once_are_those_that_are_counted():
    texts, net = torch.randint(1, MASK, (5, 30)), model()
    found = nested_losses(net, texts, [8, 30], MASK, n_hidden=3, seed=4)
    order = torch.rand(5, 7, generator=torch.Generator().manual_seed(4)).argsort(dim=1)
    for size, losses in zip((8, 30), found, strict=True):
        seen = texts[:, :size].clone()
        for row in range(5):
            seen[row, 1 + order[row, :3]] = MASK
        assert ((seen == MASK).sum(dim=1) == 3).all() and not (seen[:, 8:] == MASK).any()
        p = net(seen).log_softmax(dim=-1).gather(2, texts[:, :size, None])[:, :, 0]
        by_hand = -(p * (seen == MASK)).sum(dim=1) / 3
        torch.testing.assert_close(losses, by_hand, atol=1e-5, rtol=1e-5)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="in ordre"):
        repeats("in ordre", 5, MASK)
    with pytest.raises(ValueError, match="40 different tokens cannot be drawn from 29"):
        repeats("in order", 40, MASK)
    with pytest.raises(ValueError, match="'three times'"):
        keys_at(repeats("in order", 5, MASK), "later instance")
    with pytest.raises(ValueError, match="beside"):
        keys_at(repeats("in order", 5, MASK), "beside")
    for sizes in ([8, 8], [1, 5], [5, 31]):
        with pytest.raises(ValueError, match="sizes must grow"):
            nested(torch.zeros(2, 30, dtype=torch.long), sizes, MASK)


def masked_windows(**changes):
    stream = torch.randint(1, MASK, (500,), generator=torch.Generator().manual_seed(0))
    windows = Windows(stream, 32, 4, 0, MASK, repeat_share=0.5, repeat_lengths=(3, 9))
    return MaskedWindows(windows, **{"mask": MASK, **changes})


def test_the_objective_asks_for_hidden_tokens_alone():
    batches = masked_windows(share=0.3)
    seen, targets = OBJECTIVES["masked token"](batches[5])
    whole = batches.windows[5][:, :-1]
    hidden = seen == MASK
    assert torch.equal(torch.where(hidden, targets, seen), whole)
    assert (targets[~hidden] == NOT_ASKED).all() and not hidden[:, 0].any()
    assert 0.15 < hidden.float().mean() < 0.45
    assert torch.equal(batches[5], masked_windows(share=0.3)[5])
    assert not torch.equal(batches[5] == MASK, batches[6] == MASK)


def test_training_on_masked_tokens_lowers_just_that_loss():
    net, batches = model(), masked_windows()
    seen, targets = OBJECTIVES["masked token"](batches[0])
    at = targets != NOT_ASKED
    by_hand = -net(seen).log_softmax(-1)[at].gather(-1, targets[at][:, None]).mean()
    config = TrainConfig(steps=40, log_every=100, bf16=False, objective="masked token")
    history = train(net, batches, config, quiet=True)
    assert history.losses[0] == pytest.approx(by_hand.item(), abs=1e-5)
    assert history.smoothed(10)[-1] < history.losses[0] and history.tokens_per_step == 4 * 32


def test_masked_windows_and_objectives_refuse_what_cannot_be():
    with pytest.raises(ValueError, match=r"share must be between 0 and 1.*got 1\.5"):
        masked_windows(share=1.5)
    with pytest.raises(ValueError, match="mask = 7 stands in the text"):
        masked_windows(mask=7)
    with pytest.raises(ValueError, match="masked tokens"):
        TrainConfig(objective="masked tokens")
