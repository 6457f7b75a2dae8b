"""Micro-stories written by a known random grammar, with the probability of every choice."""

import math
import random
import re
from dataclasses import dataclass, field

# A fair choice among words, or {word: probability}.
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
PRONOUNS = {"a": "she", "o": "he"}  # by the last letter of a first name
_ROUND = "river sea hills forest mill bridge market harbour island tower garden school"
PLACES = _ROUND.split()
# skip-trigram: "from the river to the" -> "sea", with probability P_ROAD
ROADS = dict(zip(PLACES, PLACES[1:] + PLACES[:1], strict=True))
P_ROAD = 0.85
THINGS = {  # bigram: adjective -> thing
    "red": {"kite": 0.7, "boat": 0.3},
    "blue": {"lamp": 0.7, "kite": 0.3},
    "new": {"map": 0.6, "clock": 0.4},
    "small": {"drum": 0.6, "boat": 0.4},
    "silver": {"bell": 0.8, "key": 0.2},
    "golden": {"key": 0.8, "bell": 0.2},
    "wooden": {"flute": 0.7, "drum": 0.3},
    "heavy": {"book": 0.7, "clock": 0.3},
}
WORDS = {
    "time": ["morning", "evening", "afternoon", "night", "day", "winter"],
    "weather": ["rain", "snow", "wind", "sun", "fog", "thunder"],
    "feeling": ["happy", "sad", "tired", "proud", "afraid", "hungry", "curious", "calm"],
    "food": ["bread", "soup", "apples", "cheese", "honey", "fish"],
    "number": ["two", "three", "four", "five", "six", "seven"],
}
# {A} and {B} are the two people, {she} the pronoun of A, {thing} the adjective and noun of the
# story's one thing, {a_thing} the same with "a" the first time and "the" from then on.
OPENING = "{A} lived near the {place} with {number} friends."
EVENTS = {
    "One {time} {A} found {a_thing} near the {place}.": 3,
    "{She} walked from the {from} to the {to}.": 3,
    "They walked from the {from} to the {to} in the {weather}.": 2,
    "Then {A} met {B}.": 2,
    '"Is this your {thing}?" asked {A}.': 2,
    '"Yes, {A}, it is mine," said {B}.': 2,
    '"No, {B}, it is not mine," said {A}.': 2,
    "{B} gave {a_thing} to {A}.": 2,
    "{A} was {feeling}, but {B} was {feeling}.": 2,
    "{She} carried {a_thing} from the {from} to the {to}.": 3,
    "{A} and {B} ate {food} and {food}.": 2,
    "In the {time} {B} told {A} about the {new_thing}.": 2,
    '"I am {feeling}," said {B}.': 1,
    "The {weather} came, and {she} waited for {B}.": 1,
}
CLOSING = "At the end of the {time} {A} thanked {B}."
N_EVENTS = (4, 5, 6, 7, 8)


@dataclass
class StoryTruth:
    """What is known of the stories because their grammar is ours.

    log_probs: of each story, in nats. Every text has one derivation, so their mean is minus the
        exact entropy of a story, up to sampling.
    names: the full names of each story's two people.
    bigrams, skip_trigrams: {source: {next word: probability}}; the latter "from the SOURCE to the".
    """

    log_probs: list[float] = field(default_factory=list)
    names: list[tuple[str, str]] = field(default_factory=list)
    bigrams: dict = field(default_factory=lambda: THINGS)
    skip_trigrams: dict = field(default_factory=lambda: {p: road_from(p) for p in ROADS})


def road_from(place: str) -> dict[str, float]:
    """The probability of each destination after "from the PLACE to the"."""
    others = [p for p in ROADS if p not in (place, ROADS[place])]
    return {ROADS[place]: P_ROAD} | {p: (1 - P_ROAD) / len(others) for p in others}


class _Story:
    """One story in the making: draws choices and adds up their log-probabilities."""

    def __init__(self, rng: random.Random):
        self.rng, self.log_prob = rng, 0.0
        self.A, self.B = self.name(), self.name()
        self.thing = None  # drawn when it is first mentioned, so that no choice stays unseen

    def draw(self, options) -> str:
        weights = options if isinstance(options, dict) else dict.fromkeys(options, 1)
        total, at = sum(weights.values()), self.rng.random()
        for word, weight in weights.items():  # noqa: B007
            at -= weight / total
            if at < 0:
                break
        self.log_prob += math.log(weight / total)
        return word  # the last one, should rounding leave `at` at 0

    def name(self) -> str:
        """First name of two syllables ending in a or o, family name of two syllables and a stop."""
        syllables = [self.draw(CONSONANTS) + self.draw(VOWELS) for _ in range(3)]
        first = syllables[0] + self.draw(CONSONANTS) + self.draw(list(PRONOUNS))
        return first.title() + " " + (syllables[1] + syllables[2]).title() + self.draw("nrls")

    def slot(self, match: re.Match) -> str:
        slot = match[1]
        if slot in ("she", "She"):
            pronoun = PRONOUNS[self.A.split()[0][-1]]
            return pronoun if slot == "she" else pronoun.title()
        if slot in ("thing", "a_thing"):
            article = "the" if self.thing else "a"
            self.thing = self.thing or self.new_thing()
            return self.thing if slot == "thing" else f"{article} {self.thing}"
        if slot == "new_thing":
            return self.new_thing()
        if slot in ("place", "from"):
            self.place = self.draw(list(ROADS))
            return self.place
        if slot == "to":
            return self.draw(road_from(self.place))
        return self.draw(WORDS[slot]) if slot in WORDS else getattr(self, slot)

    def new_thing(self) -> str:
        """An adjective and the noun it prefers."""
        adjective = self.draw(list(THINGS))
        return f"{adjective} {self.draw(THINGS[adjective])}"

    def write(self) -> str:
        n_events = int(self.draw([str(n) for n in N_EVENTS]))
        plan = [OPENING, *(self.draw(EVENTS) for _ in range(n_events)), CLOSING]
        return " ".join(re.sub(r"\{(\w+)\}", self.slot, template) for template in plan)


def write_stories(n_stories: int, seed: int = 0) -> tuple[list[str], StoryTruth]:
    """n_stories texts and their ground truth; the same bytes for the same seed on every machine."""
    rng, texts, truth = random.Random(seed), [], StoryTruth()
    for _ in range(n_stories):
        story = _Story(rng)
        texts.append(story.write())
        truth.log_probs.append(story.log_prob)
        truth.names.append((story.A, story.B))
    return texts, truth
