"""Evidence of notebook 01: rules without a network, and what simple models pay."""

import math

import pytest
import torch

from aot_helpers.text import corpora, tokenization
from evidence.support import nb01 as support

TEXTS = ["the cat saw the dog. the dog saw the cat. " * 3, "a bird sang to a cat. " * 4]
TOKENIZER = tokenization.train_bpe(TEXTS, 300)
TOKENS = TOKENIZER.encode_many(TEXTS)
LEARNED = support.learn(TEXTS * 5, 300)


def test_what_is_learned_is_counted_by_a_plain_loop():
    counts = torch.zeros(300, 300)
    for tokens in LEARNED.tokenizer.encode_many(TEXTS * 5):
        begun = [LEARNED.tokenizer.bos, *tokens.tolist()]
        for a, b in zip(begun, begun[1:], strict=False):
            counts[a, b] += 1
    occurs = counts.sum(dim=1) > 0
    most = counts[occurs].amax(dim=1)
    assert torch.equal(counts[occurs, LEARNED.successor[occurs]], most)
    assert counts.sum(dim=0)[LEARNED.favorite] == counts.sum(dim=0).max()


def test_the_last_guess_is_found_by_searching_backwards():
    for tokens in TOKENS:
        listed, guesses = tokens.tolist(), support.last_guess(tokens)
        for i, guess in enumerate(guesses.tolist()):
            earlier = [j for j in range(i) if listed[j] == listed[i]]
            assert guess == (listed[earlier[-1] + 1] if earlier else -1)
        assert torch.equal(support.last_match(tokens), guesses == tokens[1:])


def test_shares_lie_between_nothing_and_all_and_only_excludes_the_table():
    shares = support.measure(LEARNED, TEXTS * 5)
    assert all(0 <= each <= 1 for values in shares.values() for each in values)
    for values, only in zip(shares["last match"], shares["last match only"], strict=True):
        assert only <= values
    given = support.against_chance({"a": shares}, "last match only")
    for into, rule in (("values", "last match only"), ("control", "last match only, shuffled")):
        pairs = zip(shares[rule], shares["favorite only"], strict=True)
        assert given[into] == {"a": [share - least for share, least in pairs]}
    assert len(given["of"]["a"]) == support.N_GROUPS


def test_the_last_match_is_trusted_where_it_has_a_guess():
    texts = [torch.tensor([1, 2, 1, 2, 1, 3]), torch.tensor([4, 4])]
    assert support.last_guesses(texts).tolist() == [-1, -1, 2, 1, 2, -1]
    assert support.trust(texts) == pytest.approx(2 / 3)


def test_losses_of_simple_models_by_a_plain_loop():
    losses = support.simple_losses(TOKENIZER, TEXTS, TEXTS)
    assert losses["uniform"] == pytest.approx(math.log(TOKENIZER.d_vocab))
    stream = [t for tokens in TOKENS for t in (TOKENIZER.bos, *tokens.tolist())]
    n, sums = TOKENIZER.d_vocab, [0.0, 0.0]
    for tokens in TOKENS:
        begun = [TOKENIZER.bos, *tokens.tolist()]
        for a, b in zip(begun, begun[1:], strict=False):
            once = (stream[1:].count(b) + 1) / (len(stream) - 1 + n)
            pairs = list(zip(stream, stream[1:], strict=False))
            pair = (pairs.count((a, b)) + 10 * once) / (stream[:-1].count(a) + 10)
            sums = [sums[0] - math.log(once), sums[1] - math.log(pair)]
    for name, each in zip(("unigram", "bigram"), sums, strict=True):
        assert losses[name] == pytest.approx(each / sum(map(len, TOKENS)), rel=1e-6)
    assert losses["bigram + last match"] < losses["bigram"]  # everything comes again


def test_short_texts_are_those_of_at_most_n_ctx_tokens_and_their_truth():
    corpus = corpora.load_corpus("stories", "test", quiet=True)
    few = corpora.Corpus("some", "test", corpus.texts[:6], "here", "MIT", True, corpus.truth)
    lengths = [len(TOKENIZER.encode(text)) for text in few.texts]
    bound = sorted(lengths)[2]
    texts, nats = support.short_texts(few, TOKENIZER, bound)
    assert texts == [text for text, n in zip(few.texts, lengths, strict=True) if n <= bound]
    chosen = [i for i, n in enumerate(lengths) if n <= bound]
    expected = -sum(corpus.truth.log_probs[i] for i in chosen) / sum(lengths[i] for i in chosen)
    assert nats == pytest.approx(expected)
    assert math.isnan(support.short_texts(corpora.load_corpus(TEXTS, quiet=True), TOKENIZER)[1])
