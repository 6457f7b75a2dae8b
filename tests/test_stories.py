import functools
import math
import re
from collections import Counter

import pytest

from aot_helpers.text.stories import write_stories

N_STORIES = 2500

# The grammar once more, written as what a reader of the text sees: a sentence is a regular
# expression, its probability follows from the words it matched. Nothing is imported.
ROUND = "river sea hills forest mill bridge market harbour island tower garden school"
PLACES = ROUND.split(" ")
NEXT = dict(zip(PLACES, [*PLACES[1:], PLACES[0]], strict=True))
NOUNS = {
    "red": ("kite", 0.7, "boat"),
    "blue": ("lamp", 0.7, "kite"),
    "new": ("map", 0.6, "clock"),
    "small": ("drum", 0.6, "boat"),
    "silver": ("bell", 0.8, "key"),
    "golden": ("key", 0.8, "bell"),
    "wooden": ("flute", 0.7, "drum"),
    "heavy": ("book", 0.7, "clock"),
}
LISTS = {
    "TIME": "morning evening afternoon night day winter",
    "WEATHER": "rain snow wind sun fog thunder",
    "FEELING": "happy sad tired proud afraid hungry curious calm",
    "FOOD": "bread soup apples cheese honey fish",
    "NUMBER": "two three four five six seven",
}
SENTENCES = {  # the weights add up to 29
    r"One TIME A found THING near the PLACE\.": 3,
    r"SHE walked from the PLACE to the PLACE\.": 3,
    r"They walked from the PLACE to the PLACE in the WEATHER\.": 2,
    r"Then A met B\.": 2,
    r'"Is this your THING\?" asked A\.': 2,
    r'"Yes, A, it is mine," said B\.': 2,
    r'"No, B, it is not mine," said A\.': 2,
    r"B gave THING to A\.": 2,
    r"A was FEELING, but B was FEELING\.": 2,
    r"SHE carried THING from the PLACE to the PLACE\.": 3,
    r"A and B ate FOOD and FOOD\.": 2,
    r"In the TIME B told A about the ANY\.": 2,
    r'"I am FEELING," said B\.': 1,
    r"The WEATHER came, and she waited for B\.": 1,
}
NAME = r"[A-Z][a-z]+ [A-Z][a-z]+"


@functools.cache
def patterns(pronoun):
    """{regular expression: weight}; named groups say which kind of choice each matched word was."""
    return {pattern(sentence, pronoun): weight for sentence, weight in SENTENCES.items()}


def pattern(sentence, pronoun):
    numbers = iter(range(99))

    def group(match):
        word = match[0]
        if word in ("A", "B"):
            return f"<{word}>"
        if word.lower() == "she":
            return pronoun if word == "she" else pronoun.title()
        if word in ("THING", "ANY"):
            return rf"(?P<{word}{next(numbers)}>(?:(?:a|the) )?\w+ \w+)"
        words = PLACES if word == "PLACE" else LISTS[word].split()
        return f"(?P<{word}{next(numbers)}>{'|'.join(words)})"

    words = r"\b(A|B|SHE|she|THING|ANY|PLACE|" + "|".join(LISTS) + r")\b"
    return re.compile(re.sub(words, group, sentence))


def noun_log_prob(thing):
    adjective, noun = thing.split()
    likely, p, other = NOUNS[adjective]
    assert noun in (likely, other)
    return -math.log(8) + math.log(p if noun == likely else 1 - p)


def parse(text):
    """Log-probability and the (kind, words) of every choice in a story, by reading it."""
    opening = re.match(rf"({NAME}) lived near the (\w+) with (\w+) friends\.", text)
    closing = re.search(rf" At the end of the (\w+) ({NAME}) thanked ({NAME})\.$", text)
    A, B = opening[1], closing[3]
    assert closing[2] == A and opening[2] in PLACES
    assert opening[3] in LISTS["NUMBER"].split() and closing[1] in LISTS["TIME"].split()
    for name in (A, B):
        assert re.fullmatch(
            r"(?i:[bdfgklmnprstvz][aeiou][bdfgklmnprstvz][ao] ([bdfgklmnprstvz][aeiou]){2}[nrls])",
            name,
        )
    name_log_prob = -(math.log(14 * 5) * 3 + math.log(14 * 2) + math.log(4))
    log_prob = 2 * name_log_prob - math.log(12) - 2 * math.log(6)  # place, number, time

    sentences = patterns({"a": "she", "o": "he"}[A.split()[0][-1]])
    text = text[opening.end() : closing.start()].replace(A, "<A>").replace(B, "<B>")
    at, n_events, thing, choices = 0, 0, None, []
    while at < len(text):
        assert text[at] == " "
        fits = [(m, w) for rx, w in sentences.items() if (m := rx.match(text, at + 1))]
        assert len(fits) == 1, text[at:]  # the grammar is unambiguous
        match, weight = fits[0]
        at, n_events = match.end(), n_events + 1
        log_prob += math.log(weight / 29)
        places = []
        for kind, value in match.groupdict().items():
            kind = kind.rstrip("0123456789")
            choices.append((kind, value))
            if kind == "PLACE":
                places.append(value)
                if len(places) == 1:
                    log_prob -= math.log(12)
                else:
                    log_prob += math.log(0.85 if value == NEXT[places[0]] else 0.15 / 10)
                    assert value != places[0]
            elif kind == "ANY":
                log_prob += noun_log_prob(value)
            elif kind == "THING":
                *article, adjective, noun = value.split()
                if "your" not in match[0]:
                    assert article == ["the" if thing else "a"]
                if thing is None:
                    thing = f"{adjective} {noun}"
                    log_prob += noun_log_prob(thing)
                assert thing == f"{adjective} {noun}"  # a story has one thing
            else:
                log_prob -= math.log(len(LISTS[kind].split()))
    assert 4 <= n_events <= 8
    return log_prob - math.log(5), choices, (A, B)


@pytest.fixture(scope="module")
def stories():
    texts, truth = write_stories(N_STORIES, seed=3)
    return texts, truth, [parse(text) for text in texts]


def test_the_same_seed_gives_the_same_bytes():
    texts, truth = write_stories(20, seed=3)
    again, same = write_stories(30, seed=3)
    assert texts == again[:20] and truth.log_probs == same.log_probs[:20]
    assert not set(texts) & set(write_stories(20, seed=4)[0])


def test_recorded_log_probabilities_equal_those_of_the_parsed_text(stories):
    _, truth, parsed = stories
    assert truth.log_probs == pytest.approx([log_prob for log_prob, _, _ in parsed], abs=1e-9)
    assert truth.names == [names for _, _, names in parsed]


def close(count, n, p):
    """A count of n draws of probability p, within 4.5 standard deviations."""
    return abs(count - n * p) <= 4.5 * math.sqrt(n * p * (1 - p)) + 1


def test_roads_lead_where_the_truth_says(stories):
    texts, truth, _ = stories
    counts = {place: Counter() for place in PLACES}
    for text in texts:
        for source, to in re.findall(r"from the (\w+) to the (\w+)", text):
            counts[source][to] += 1
    assert set(truth.skip_trigrams) == set(PLACES)
    for adjective, (likely, p, other) in NOUNS.items():
        assert truth.bigrams[adjective] == {likely: p, other: pytest.approx(1 - p)}
    for source, p in truth.skip_trigrams.items():
        assert math.isclose(sum(p.values()), 1) and p[NEXT[source]] == 0.85
        n = counts[source].total()
        assert n > 200 and set(counts[source]) <= set(p)
        assert all(close(counts[source][to], n, p[to]) for to in p)
