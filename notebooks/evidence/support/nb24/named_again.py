"""Evidence of notebook 24: prompts in which the indirect object's name has just come again.

"…, John saw Mary and gave a drink to": here a text goes on with *her* rather than *Mary*. And what
the model says after the tour's examples, as it is and with heads patched. For readers without the
model.
"""

import random
from collections.abc import Mapping, Sequence

import torch

from aot_helpers.base.results import rounded
from aot_helpers.models.protocol import Head, Model
from chapters.nb24_who_says_mary.measure import AGAIN, NAMES, OPENING, STARTS
from evidence.support.nb24.names import read_names
from evidence.support.nb24.patching import end_logits, end_outputs
from evidence.support.nb24.three_names import Case, as_case

_WOMEN = "Mary Anna Sarah Emma Laura Alice Kate Jane Susan Helen"
WOMEN = tuple(_WOMEN.split())
MEN = tuple(name for name in NAMES if name not in WOMEN)
PRONOUNS = {"her": (WOMEN, MEN), "him": (MEN, WOMEN)}  # IO is one of the first, S of the second
KNOWN = {"Mary", "John"}  # the names of the one prompt that was tried before
# Of the tour's examples: a name and the one in its place, at its last mention, in the donor.
SAID = {
    OPENING: ("John", "Mary"),
    "When Mary and John went to the store, John was tired, and Anna gave Paul's drink to": (
        "Paul",
        "Tom",
    ),
    "When Mary and John went to the store, John saw Mary and gave a drink to": ("Mary", "Anna"),
}


def prompts(model: Model, slot: str, n: int = 6) -> list[Case]:
    """So many (n, an even number) of each template and order: half with each pronoun.

    slot: whose last mention is replaced; the prompts are the same for both.
    """
    rng, found = random.Random(0), []
    for start, end in zip(STARTS, AGAIN, strict=True):
        for first, second in (("IO", "S"), ("S", "IO")):
            texts, words = [], []
            for i in range(n):
                said, known = list(PRONOUNS)[i % 2], KNOWN
                of_io, of_s = PRONOUNS[said]
                while known == KNOWN:
                    (io, another), (s,) = rng.sample(of_io, 2), rng.sample(of_s, 1)
                    known = {io, s}
                who = {"IO": io, "S": s}
                if slot == "S":  # as likely to be a man or a woman as IO is
                    others = [each for each in of_s if each != s]
                    another = others[i % len(others)]
                begin = start.format(A=who[first], B=who[second])
                pair = (begin + end.format(**who | {slot: x}) for x in (who[slot], another))
                texts.append(tuple(pair))
                words.append({"name": who[slot], "instead": another, "pronoun": said})
            found.append(as_case(model, texts, words))
    return found


def measured(model: Model, some: Sequence[Case], sets: Mapping[str, Sequence[Head]]) -> dict:
    """Of every prompt the logits of name, name in its place and pronoun, and the first guess.

    {run: {"logits": [prompt, 3], "first": [prompt]}}; runs: "whole", and each of the sets patched.
    first: 0 for the name, 2 for the pronoun, 1 for the name in its place, -1 for anything else.
    """
    found = {who: {"logits": [], "first": []} for who in ("whole", *sets)}
    for case in some:
        outputs = end_outputs(model, case.changed)
        columns = torch.stack([case.ids[key] for key in ("name", "instead", "pronoun")], dim=1)
        for who, row in found.items():
            logits = end_logits(model, case.tokens, sets.get(who, ()), outputs)
            hit = columns == logits.argmax(dim=-1, keepdim=True)
            row["logits"] += logits.gather(1, columns).tolist()
            row["first"] += torch.where(hit.any(dim=1), hit.int().argmax(dim=1), -1).tolist()
    return found


def attention(model: Model, some: Sequence[Case], heads: Sequence[Head]) -> dict[str, list]:
    """From the end to the name that has come again: {head: [prompt]}."""
    found = {str(head): [] for head in heads}
    for case in some:
        _, cache = model.run_with_cache(case.tokens)
        rows, at = torch.arange(len(case.tokens)), case.last("name")
        for head in heads:
            pattern = cache[f"L{head.layer}.pattern"][:, head.head, -1]
            found[str(head)] += pattern[rows, at].tolist()
    return found


def continuations(model: Model, sets: Mapping[str, Sequence[Head]], k: int = 5) -> dict:
    """The likeliest next tokens after each of SAID: {prompt: {run: [(token, probability)]}}."""
    found = {}
    for text, pair in SAID.items():
        begin, _, end = text.rpartition(pair[0])
        tokens, donor = (model.tokenizer.encode(begin + x + end, bos=True)[None] for x in pair)
        outputs, found[text] = end_outputs(model, donor), {}
        for who in ("whole", *sets):
            logits = end_logits(model, tokens, sets.get(who, ()), outputs)[0]
            best = logits.softmax(dim=-1).topk(k)
            words = model.tokenizer.token_strings(best.indices.tolist())
            found[text][who] = list(zip(words, best.values.tolist(), strict=True))
    return found


@torch.no_grad()
def pretrained(model: Model, name: str) -> dict:
    """Entry 24-again of `make data WHAT=pretrained`; the heads are those of entry 24-names."""
    known = read_names(name)
    roles = known["roles"]
    (late,), early = roles.suppress, roles.s_inhibition
    beside = [Head(late.layer, h) for h in range(model.config.n_heads)]
    sets = {str(late): [late], "early": early}
    others = {str(head): [head] for head in beside if head not in {late, *roles.movers}}
    pairs = {" ".join(map(str, pair)): pair for pair in known["others"]["s_inhibition"][:3]}
    of_io, of_s = (prompts(model, slot) for slot in ("IO", "S"))
    return rounded(
        {
            "examples": [model.tokenizer.decode(case.tokens[0, 1:]) for case in of_io],
            "beside": list(others),
            "pairs": list(pairs),
            "runs": measured(model, of_io, sets | others | pairs),
            "attention": attention(model, of_io, [late, *early]),
            "says": continuations(model, sets),
            "runs, the subject": measured(model, of_s, sets | pairs),
            "attention, the subject": attention(model, of_s, [late, *early]),
        }
    )
