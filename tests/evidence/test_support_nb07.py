"""Evidence of notebook 07: frames, raises and prices; skip-trigrams are those of brute force."""

import copy

import pytest
import torch

from aot_helpers.base import results
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.handmade import STRENGTH
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Head
from aot_helpers.reading.circuits import full_ov, full_qk
from aot_helpers.text.batches import pad_batch
from aot_helpers.text.planted import FILLERS, write_planted
from aot_helpers.text.tokenization import word_ids
from chapters.nb07_one_layer_skip_trigrams import measure
from evidence.support import nb07 as support

close = torch.testing.assert_close

pytestmark = pytest.mark.usefixtures("seeded")

N_TOKENS = 40
# keep … in → mind, keep … at → bay, keep … up → bay: one source; turn … on → light; tie … in → knot
KEEP, TURN, TIE, IN, AT, ON, UP, MIND, BAY, LIGHT, KNOT = range(1, 12)
TRIPLES = [
    (KEEP, IN, MIND),
    (KEEP, AT, BAY),
    (TURN, ON, LIGHT),
    (TIE, IN, KNOT),
    (KEEP, UP, BAY),
]


@pytest.fixture(scope="session")
def model():
    return load_checkpoint("planted-1l-2heads-seed1").requires_grad_(False)


@pytest.fixture(scope="session")
def written(model):
    texts, truth = write_planted(6, seed=3)
    encode = model.tokenizer.encode
    tokens, _ = pad_batch([encode(text, bos=True) for text in texts], model.tokenizer.pad)
    return tokens[:, :96], truth


def test_frames_are_all_pairs_of_fillers_between_source_and_destination(model):
    tokens = support.frames(model.tokenizer, ["put", "keep"], ["of", "in"])
    n = sum(map(len, FILLERS.values()))
    assert tokens.shape == (4 * n, 5) and (tokens[:, 0] == model.tokenizer.bos).all()
    said = [model.tokenizer.token_strings(row)[1:] for row in tokens]
    assert [row[0] for row in said] == ["put"] * 2 * n + ["keep"] * 2 * n
    assert [row[3] for row in said] == 2 * (["of"] * n + ["in"] * n)
    assert all(row[2] in FILLERS[row[1]] for row in said)
    assert len({tuple(row) for row in said}) == len(said)


def test_raises_are_above_the_mean_of_all_sources():
    n = sum(map(len, FILLERS.values()))
    logits = torch.randn(3 * 2 * n, 7)
    raised = support.raises(logits, n_destinations=2)
    by_hand = torch.stack(
        [logits.softmax(-1)[(2 * s + 1) * n : (2 * s + 2) * n].mean(dim=0) for s in range(3)]
    )
    assert torch.allclose(raised[:, 1], by_hand - by_hand.mean(dim=0), atol=1e-6)


def test_the_price_is_the_loss_above_the_floor(model, written):
    tokens, truth = written
    shape = (len(tokens), tokens.shape[1] - 1)
    floor, here = measure.floors(truth, shape), measure.of_kind(truth, "repeat", shape)
    by_hand = next_token_losses(model(tokens), tokens)[here].mean() - floor[here].mean()
    assert support.excess_loss(model, here, tokens, floor) == pytest.approx(
        float(by_hand), abs=1e-5
    )
    swapped = support.excess_loss(model, here, tokens, floor, on=tokens.flip(0))
    assert swapped != pytest.approx(float(by_hand), abs=1e-3)


def test_a_head_looks_afresh_and_takes_over_the_words_of_another(model):
    young, again, other = (
        support.with_new_attention(model, 1, draw, like=0, sign=-1) for draw in (3, 3, 4)
    )
    attn, before = young.blocks[0].attn, model.blocks[0].attn
    for name, expected in (("W_V", before.W_V[0]), ("W_O", -before.W_O[0])):
        assert torch.equal(getattr(attn, name)[1], expected)
        assert torch.equal(getattr(attn, name)[0], getattr(before, name)[0])
    assert (attn.W_Q[1] - before.W_Q[1]).abs().max() > 0.2
    assert torch.equal(attn.W_Q[0], before.W_Q[0])
    assert attn.b_rel[1].abs().max() < 0.1 < before.b_rel[1].abs().max()
    assert torch.equal(attn.W_Q, again.blocks[0].attn.W_Q)
    assert not torch.equal(attn.W_Q[1], other.blocks[0].attn.W_Q[1])
    assert torch.equal(support.with_new_attention(model, 1, 3).blocks[0].attn.W_V[1], before.W_V[1])


def test_a_head_looks_from_one_word_as_another_does_from_another(model):
    number = word_ids(model.tokenizer)
    young = support.attending_like(model, 1, 0, number["at"], number["in"])
    at, within = (
        model.tokenizer.encode(f"ada keep so then {word}", bos=True)[None] for word in ("at", "in")
    )
    (now, was), (_, before) = (
        [each.run_with_cache(text)[1]["L0.pattern"][0] for text in (at, within)]
        for each in (young, model)
    )
    close(now[1, -1, :-1], before[0, -1, :-1], atol=0.05, rtol=0)  # but of the word itself
    close(was[0], before[0])
    assert torch.equal(young.blocks[0].attn.W_V, model.blocks[0].attn.W_V)


def test_training_on_leaves_the_model_as_it_is(model):
    before = copy.deepcopy(model.state_dict())
    young = support.trained_on(model, torch.randint(98, (1, 2, 9)), steps=1)
    assert not torch.equal(young.W_E, model.W_E) and not young.W_E.requires_grad
    assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())


def test_fillers_are_counted_back_to_the_first_other_word(model):
    texts = model.tokenizer.encode("ada keep so then at bay . so", bos=True)[None]
    assert support.fillers_before(model.tokenizer, texts).tolist() == [[0, 0, 0, 0, 1, 2, 0, 0, 0]]


def test_a_head_looks_at_its_own_verb_and_at_others(model):
    text = "ada keep so then at bay . bela put now at mind ."
    texts = model.tokenizer.encode(text, bos=True)[None]
    number = word_ids(model.tokenizer)
    here = texts[:, :-1] == number["at"]
    own, others = support.looks_at_verbs(model, 0, texts, here)
    first, second = model.run_with_cache(texts)[1]["L0.pattern"][0, 0, [5, 11]]
    assert own == pytest.approx((first[2] + second[9]).item() / 2, abs=1e-6)
    assert others == pytest.approx(second[2].item() / 2, abs=1e-6)


def brute_force(qk, ov, k, context):
    """Every triple, [destination, source, out]: its value, and the k largest above 0."""
    scores, logits = qk.double(), ov.double()
    rivals = scores[:, context].exp().sum(dim=1, keepdim=True)
    attention = scores.exp() / (scores.exp() + rivals)
    boost = logits - logits.mean(dim=1, keepdim=True)
    value = attention[:, :, None] * boost[None]
    largest = value.flatten().sort(descending=True).values
    return attention, boost, value, largest[largest > 0][:k].float()


@pytest.mark.parametrize("k", [1, 2, 5, 30, 200, 5000])
def test_top_triples_are_those_of_brute_force(k):
    qk, ov = torch.randn(2, 13, 13)
    context = torch.tensor([3, 1, 3, 8])
    attention, boost, value, largest = brute_force(qk, ov, k, context)
    found = support.top_triples(qk, ov, k, context)
    source, destination, out = found[:3]
    close(found.value, largest, atol=1e-5, rtol=1e-5)
    close(found.value, value[destination, source, out].float(), atol=1e-5, rtol=1e-5)
    close(found.attention, attention[destination, source].float(), atol=1e-5, rtol=1e-5)
    close(found.boost, boost[source, out].float(), atol=1e-5, rtol=1e-5)
    triples = set(zip(source.tolist(), destination.tolist(), out.tolist(), strict=True))
    assert len(triples) == len(largest)


@pytest.mark.parametrize("k", [3, 20, 400])
def test_ties_and_heads_that_do_little_are_counted_right(k):
    context = torch.tensor([0])
    same = torch.zeros(6, 6)  # equal scores everywhere
    some = torch.tensor([[1.0, 1.0, 0.0, 0.0, -1.0, -1.0]]).repeat(6, 1)
    one = some * torch.eye(6)[:, 2:3]  # only one source raises anything
    for ov in (some, one):
        close(support.top_triples(same, ov, k, context).value, brute_force(same, ov, k, context)[3])
    assert len(support.top_triples(same, same, k, context).value) == 0


def test_skip_trigrams_of_a_model_are_those_of_its_full_circuits(make_model):
    model, context = make_model(n_layers=1), torch.tensor([1, 2, 3, 4])
    found = support.skip_trigrams(model, Head(0, 1), 7, context)
    qk, ov = (circuit(model, Head(0, 1)).dense() for circuit in (full_qk, full_ov))
    close(found.value, brute_force(qk, ov, 7, context)[3], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("k", "context", "message"),
    [
        (0, [1], "k must be .*>= 1, got 0"),
        (1, [], "context .*got none"),
        (1, [13], "no token 13: ids are 0 … 12"),
    ],
)
def test_what_gives_no_triples_is_refused(k, context, message):
    with pytest.raises(ValueError, match=message):
        support.top_triples(*torch.randn(2, 13, 13), k, torch.tensor(context, dtype=torch.long))


def test_smollm2_is_asked_for_both_prepositions_with_eight_controls_each():
    after = results.read("pretrained/07-smollm2")["after"]
    assert list(after) == list(support.RIGHT)
    for preposition, nouns in after.items():
        assert len(nouns) == 10 and next(iter(nouns)) == support.RIGHT[preposition]
        assert not set(nouns) & set(support.NOUNS[preposition])


def around(*words, seed=0):
    """BOS and the words with tokens between them that stand in no triple: [1, pos]."""
    draw = torch.Generator().manual_seed(seed)
    text = [0]
    for word in words:
        gap = torch.randint(1, 6, (1,), generator=draw).item()
        text += torch.randint(KNOT + 1, N_TOKENS, (gap,), generator=draw).tolist() + [word]
    return torch.tensor([text])


def test_a_head_for_each_destination_knows_every_triple_and_nothing_more():
    model = support.skip_trigram_model(TRIPLES, N_TOKENS)
    outs = {(source, destination): out for source, destination, out in TRIPLES}
    for source in (KEEP, TURN, TIE):
        for destination in (IN, AT, ON, UP):
            logits = model(around(source, destination))[0, -1]
            expected = torch.zeros(N_TOKENS)
            if (source, destination) in outs:
                expected[outs[source, destination]] = STRENGTH
            torch.testing.assert_close(logits, expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize("n_heads", [1, 2, 3])
def test_bugs_are_exactly_where_triples_of_one_head_share_a_source(n_heads):
    model = support.skip_trigram_model(TRIPLES, N_TOKENS, n_heads=n_heads)
    head_of = {d: i % n_heads for i, d in enumerate([IN, AT, ON, UP])}
    n_bugs = 0
    for source, destination, out in TRIPLES:
        logits = model(around(source, destination))[0, -1]
        raised = set((logits > STRENGTH / 2).nonzero().flatten().tolist())
        expected = {o for s, d, o in TRIPLES if s == source and head_of[d] == head_of[destination]}
        assert raised == expected
        assert out in raised
        n_bugs += len(raised) > 1
    # One head: keep … in / at / up all raise mind and bay. Two: in | at, up. Three: in, up | at.
    assert n_bugs == {1: 3, 2: 0, 3: 2}[n_heads]


def test_a_source_stands_before_its_destination():
    model = support.skip_trigram_model([(5, 5, 6)], N_TOKENS)
    assert model(around(5))[0, -1].abs().max() < 1e-3
    assert model(around(5, 5))[0, -1].argmax() == 6
    assert support.skip_trigram_model(TRIPLES, N_TOKENS)(around(IN, KEEP))[0, -1].abs().max() < 1e-3


def test_bigrams_take_the_direct_path_and_yield_to_skip_trigrams():
    bigrams = {IN: KEEP, TURN: IN, 0: TURN}
    model = support.skip_trigram_model(TRIPLES, N_TOKENS, bigrams=bigrams)
    direct = model.W_E @ model.W_U
    expected = torch.zeros(N_TOKENS, N_TOKENS)
    expected[list(bigrams), list(bigrams.values())] = STRENGTH / 2
    torch.testing.assert_close(direct, expected)
    assert model(torch.tensor([[0]]))[0, -1].argmax() == TURN
    assert model(around(IN))[0, -1].argmax() == KEEP
    assert model(around(KEEP, IN))[0, -1].argmax() == MIND
