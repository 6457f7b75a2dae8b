"""Word sequences whose every statistic is planted: bigrams, skip-trigrams, copies, repeats."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

_NAMES = """ada bela cyra dora emil finn gita hugo ines jona kira lars mona nils olga pavo runa sven
tove ulla"""
NAMES = _NAMES.split()
CODES = [consonant + vowel for consonant in "klpt" for vowel in "aeiou"]
FILLERS = {  # planted bigrams: filler -> {next filler: probability}
    "so": {"then": 0.7, "soon": 0.3},
    "then": {"now": 0.8, "here": 0.2},
    "now": {"here": 0.6, "there": 0.4},
    "here": {"still": 0.9, "so": 0.1},
    "there": {"often": 0.7, "late": 0.3},
    "soon": {"late": 0.8, "early": 0.2},
    "late": {"early": 0.6, "well": 0.4},
    "early": {"well": 0.9, "so": 0.1},
    "still": {"often": 0.7, "well": 0.3},
    "often": {"so": 0.5, "then": 0.5},
    "well": {"there": 0.6, "soon": 0.4},
}
_OBJECTS = {  # planted skip-trigrams: "verb … preposition" -> the object at the verb's place here
    "onto": "shelf roof table boat wagon wall bed hill",
    "of": "rain gold music school winter bread silk snow",
    "with": "care joy speed force ease pride hope luck",
}
OBJECTS = {preposition: objects.split() for preposition, objects in _OBJECTS.items()}
VERBS = ["put", "speak", "walk", "dream", "sing", "read", "play", "think"]
# The bug: what follows depends on both words, and neither alone says anything about it.
BUG = {
    ("keep", "in"): "mind",
    ("keep", "at"): "bay",
    ("hold", "in"): "bay",
    ("hold", "at"): "mind",
}
BUG_VERBS, BUG_PREPOSITIONS, BUG_OBJECTS = ("keep", "hold"), ("in", "at"), ("mind", "bay")
P_VERB = dict.fromkeys(VERBS, 1 / 12) | dict.fromkeys(BUG_VERBS, 1 / 6)
P_TAIL = dict.fromkeys([*OBJECTS, *BUG_PREPOSITIONS], 0.16) | {"again": 0.2}
P_PLANTED = 0.9  # of the planted word; the others of its kind share the rest
P_GAP_GOES_ON = 0.5
P_REPEAT = 0.25  # the probability that a clause is a list, said twice
LIST_LENGTHS = (3, 4, 5, 6)
N_CLAUSES = (3, 4, 5)


def planted_triples(bugs: bool = True) -> dict[tuple[str, str], str]:
    """{(verb, preposition): object}; with the four triples of the bug or without."""
    pairs = [(verb, preposition) for preposition in OBJECTS for verb in VERBS]
    return dict(zip(pairs, chain(*OBJECTS.values()), strict=True)) | (BUG if bugs else {})


TRIPLES = planted_triples()


def planted_copies() -> dict[tuple[str, str], str]:
    """{(name, "again"): name}: after "again" comes the name of the clause."""
    return {(name, "again"): name for name in NAMES}


@dataclass
class PlantedTruth:
    """What is known of every word of a planted corpus, with BOS left out.

    log_probs: each word's log-probability (nats), given all words before it.
    kinds: what decides each word: "bigram" (fillers), "skip-trigram", "bug", "copy", "repeat"
        (the second saying of a list), "free" (nothing but how often it occurs).
    """

    log_probs: list[list[float]] = field(default_factory=list)
    kinds: list[list[str]] = field(default_factory=list)

    def irreducible_loss(self, kind: str | None = None) -> float:
        """The mean of -log p under the true distribution (nats per word), of one kind or of all.

        Over all words no model can have a lower expected loss: it is the entropy of the text, up to
        sampling. Over one kind a model can, by a little, if the kind shows only once the word has
        come: to expect fillers too often pays at them.
        """
        kinds = list(chain(*self.kinds))
        pairs = zip(chain(*self.log_probs), kinds, strict=True)
        chosen = [-p for p, k in pairs if kind in (None, k)]
        if not chosen:
            raise ValueError(f"no word is of kind {kind!r}; kinds: {sorted(set(kinds))}")
        return math.fsum(chosen) / len(chosen)


class _Text:
    """One text in the making: adds a word with its log-probability and its kind."""

    def __init__(self, rng: random.Random):
        self.rng, self.words, self.log_probs, self.kinds = rng, [], [], []

    def draw(self, options: dict[str, float]) -> str:
        return self.rng.choices(list(options), list(options.values()))[0]

    def add(self, word: str, probability: float, kind: str = "free") -> None:
        self.words.append(word)
        self.log_probs.append(math.log(probability))
        self.kinds.append(kind)

    def add_planted(self, planted: str, others: Sequence[str], kind: str) -> None:
        """The planted word with probability P_PLANTED, else any of the others."""
        others = [word for word in others if word != planted]
        options = {planted: P_PLANTED} | dict.fromkeys(others, (1 - P_PLANTED) / len(others))
        word = self.draw(options)
        self.add(word, options[word], kind)

    def sentence(self, p_start: float) -> None:
        """NAME VERB fillers PREPOSITION OBJECT . or NAME VERB fillers again NAME ."""
        name, verb, tail = self.rng.choice(NAMES), self.draw(P_VERB), self.draw(P_TAIL)
        objects = OBJECTS.get(tail, BUG_OBJECTS)
        self.add(name, p_start / len(NAMES))
        self.add(verb, P_VERB[verb])
        filler = self.rng.choice(list(FILLERS))
        self.add(filler, 1 / len(FILLERS))
        while self.rng.random() < P_GAP_GOES_ON:
            before, filler = filler, self.draw(FILLERS[filler])
            self.add(filler, P_GAP_GOES_ON * FILLERS[before][filler], "bigram")
        self.add(tail, (1 - P_GAP_GOES_ON) * P_TAIL[tail])
        if tail == "again":
            self.add_planted(name, NAMES, "copy")
        elif (verb, tail) in TRIPLES:
            kind = "bug" if (verb, tail) in BUG else "skip-trigram"
            self.add_planted(TRIPLES[verb, tail], objects, kind)
        else:  # this pair is not planted
            self.add(self.rng.choice(objects), 1 / len(objects))
        self.add(".", 1)

    def repeat(self, p_start: float) -> None:
        """List CODE … CODE ; CODE … CODE . where the second saying repeats the first."""
        codes = self.rng.sample(CODES, self.rng.choice(LIST_LENGTHS))
        self.add("list", p_start)
        for i, code in enumerate(codes):
            going_on = sum(n > i for n in LIST_LENGTHS) / sum(n >= i for n in LIST_LENGTHS)
            self.add(code, going_on / (len(CODES) - i))
        stop = 1 / sum(n >= len(codes) for n in LIST_LENGTHS)
        self.add(";", stop)
        for code in codes:
            self.add(code, 1, "repeat")
        self.add(".", 1, "repeat")


def write_planted(n_texts: int, seed: int = 0) -> tuple[list[str], PlantedTruth]:
    """n_texts texts of 3 to 5 clauses, words divided by spaces, and the truth about each word."""
    rng, texts, truth = random.Random(seed), [], PlantedTruth()
    for _ in range(n_texts):
        text, n_clauses = _Text(rng), rng.choice(N_CLAUSES)
        for i in range(n_clauses):
            p_goes_on = sum(n > i for n in N_CLAUSES) / sum(n >= max(i, 1) for n in N_CLAUSES)
            if rng.random() < P_REPEAT:
                text.repeat(p_goes_on * P_REPEAT)
            else:
                text.sentence(p_goes_on * (1 - P_REPEAT))
        texts.append(" ".join(text.words))
        truth.log_probs.append(text.log_probs)
        truth.kinds.append(text.kinds)
    return texts, truth
