import math
from collections import Counter

import pytest

from aot_helpers.text import planted
from aot_helpers.text.corpora import load_corpus
from aot_helpers.text.planted import planted_triples, write_planted
from aot_helpers.text.tokenization import words

TEXTS, TRUTH = write_planted(800, seed=5)
SPLIT = [text.split() for text in TEXTS]


def test_every_word_has_a_probability_and_a_kind():
    for said, log_probs, kinds in zip(SPLIT, TRUTH.log_probs, TRUTH.kinds, strict=True):
        assert len(said) == len(log_probs) == len(kinds)
    assert write_planted(20, seed=5)[0] == TEXTS[:20] != write_planted(20, seed=6)[0]
    assert set().union(*TRUTH.kinds) == {"free", "bigram", "skip-trigram", "bug", "copy", "repeat"}


def test_planted_triples_come_as_often_as_is_said():
    clauses = [clause.split() for text in TEXTS for clause in text.split(" .") if clause]
    triples, said = planted_triples(), [c for c in clauses if c[0] != "list"]
    hits = [triples[c[1], c[-2]] == c[-1] for c in said if (c[1], c[-2]) in triples]
    assert sum(hits) / len(hits) == pytest.approx(planted.P_PLANTED, abs=0.04)


def test_probabilities_of_all_possible_next_words_add_up_to_one():
    """Texts that agree up to a word share its distribution: sum it over the words seen there."""
    seen = {}
    for seed in range(2):
        texts, truth = write_planted(1500, seed=seed)
        for text, log_probs in zip(texts, truth.log_probs, strict=True):
            said = text.split()
            for i in range(2):
                seen.setdefault(tuple(said[:i]), {})[said[i]] = math.exp(log_probs[i])
    totals = {prefix: sum(options.values()) for prefix, options in seen.items()}
    assert all(total < 1 + 1e-9 for total in totals.values())
    assert totals[()] == pytest.approx(1)
    assert totals[("ada",)] == pytest.approx(1)
    assert totals[("list",)] == pytest.approx(1)


def test_a_list_is_said_twice_and_costs_nothing_the_second_time():
    lists = [c.split() for text in TEXTS for c in text.split(" .") if c.strip().startswith("list")]
    for said in lists:
        at = said.index(";")
        assert said[1:at] == said[at + 1 :] and len(set(said[1:at])) == at - 1
    assert TRUTH.irreducible_loss("repeat") == 0


def test_irreducible_losses_are_the_exact_entropies_up_to_sampling():
    p, n = planted.P_PLANTED, len(planted.NAMES) - 1
    assert TRUTH.irreducible_loss("copy") == pytest.approx(
        -p * math.log(p) - (1 - p) * math.log((1 - p) / n), abs=0.15
    )
    assert TRUTH.irreducible_loss("bug") == pytest.approx(
        -p * math.log(p) - (1 - p) * math.log(1 - p), abs=0.15
    )
    kinds = Counter(kind for kinds in TRUTH.kinds for kind in kinds)
    parts = sum(TRUTH.irreducible_loss(kind) * n for kind, n in kinds.items())
    assert TRUTH.irreducible_loss() == pytest.approx(parts / kinds.total())
    with pytest.raises(ValueError, match="'rhyme'.*bigram"):
        TRUTH.irreducible_loss("rhyme")


def test_a_word_is_a_token_and_the_corpus_says_it_is_synthetic():
    corpus = load_corpus("planted", "test")
    tokenizer = words(corpus.texts)
    lengths = [len(tokens) for tokens in tokenizer.encode_many(corpus.texts)]
    assert lengths == [len(kinds) for kinds in corpus.truth.kinds]
    assert corpus.synthetic and max(lengths) < 64 + 40
