"""Evidence of notebook 24: prompts in which the indirect object's name has just come again.

"…, John saw Mary and gave a drink to": here a text goes on with *her* rather than *Mary*. And what
the model says after the tour's examples, as it is and with heads patched. For readers without the
model.
"""

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.base.results import rounded
from aot_helpers.models.protocol import Head, Model
from chapters.nb24_who_says_mary.measure import AGAIN, NAMES, OPENING, STARTS
from chapters.nb24_who_says_mary.patches import end_outputs, give
from evidence.support.nb24.names import read_names

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


class Again(NamedTuple):
    """Prompts of one template and order, and the same with another name at one last mention."""

    tokens: Int[Tensor, "prompt pos"]
    changed: Int[Tensor, "prompt pos"]
    name: Int[Tensor, " prompt"]
    instead: Int[Tensor, " prompt"]
    pronoun: Int[Tensor, " prompt"]
    at: int  # of that mention


def prompts(model: Model, slot: str = "IO", n: int = 6, seed: int = 0) -> list[Again]:
    """So many (n, an even number) of each template and order: half with each pronoun.

    slot: whose last mention is replaced; the prompts are the same for both.
    """
    rng, encode, found = random.Random(seed), model.tokenizer.encode, []

    def ids(names: list[str]) -> Tensor:
        return torch.cat([encode(" " + name) for name in names])

    for start, end in zip(STARTS, AGAIN, strict=True):
        for first, second in (("IO", "S"), ("S", "IO")):
            rows = []
            for i in range(n):
                said, known = list(PRONOUNS)[i % 2], KNOWN
                while known == KNOWN:
                    (io, *more), s = (
                        rng.sample(names, k)
                        for names, k in zip(PRONOUNS[said], (2, 1), strict=True)
                    )
                    known = {io, *s}
                who = {"IO": io, "S": s[0]}
                begin = start.format(A=who[first], B=who[second])
                same = PRONOUNS[said][slot == "S"]  # as likely to be a man or a woman
                instead = more[0] if slot == "IO" else _another(same, s[0], i)
                texts = [begin + end.format(**who | {slot: x}) for x in (who[slot], instead)]
                rows.append((*texts, who[slot], instead, said))
            texts, changed, *names = map(list, zip(*rows, strict=True))
            both = [torch.stack([encode(x, bos=True) for x in each]) for each in (texts, changed)]
            (at,) = (both[0] != both[1]).any(dim=0).nonzero()[:, 0].tolist()
            found.append(Again(*both, *map(ids, names), at))
    return found


def _another(names: Sequence[str], name: str, i: int) -> str:
    """The i-th of the other names, over and over."""
    others = [each for each in names if each != name]
    return others[i % len(others)]


def measured(model: Model, some: Sequence[Again], sets: Mapping[str, Sequence[Head]]) -> dict:
    """Of every prompt the logits of name, name in its place and pronoun, and the first guess.

    {run: {"logits": [prompt, 3], "first": [prompt]}}; runs: "whole", and each of the sets patched.
    first: 0 for the name, 2 for the pronoun, 1 for the name in its place, -1 for anything else.
    """
    found = {who: {"logits": [], "first": []} for who in ("whole", *sets)}
    for case in some:
        outputs = end_outputs(model, case.changed)
        columns = torch.stack([case.name, case.instead, case.pronoun], dim=1)
        for who, row in found.items():
            logits = model(case.tokens, edits=give([*sets.get(who, ())], outputs))[:, -1]
            hit = columns == logits.argmax(dim=-1, keepdim=True)
            row["logits"] += logits.gather(1, columns).tolist()
            row["first"] += torch.where(hit.any(dim=1), hit.int().argmax(dim=1), -1).tolist()
    return found


def attention(model: Model, some: Sequence[Again], heads: Sequence[Head]) -> dict[str, list]:
    """From the end to the name that has come again: {head: [prompt]}."""
    found = {str(head): [] for head in heads}
    for case in some:
        _, cache = model.run_with_cache(case.tokens)
        for head in heads:
            found[str(head)] += cache[f"L{head.layer}.pattern"][:, head.head, -1, case.at].tolist()
    return found


def continuations(model: Model, sets: Mapping[str, Sequence[Head]], k: int = 5) -> dict:
    """The likeliest next tokens after each of SAID: {prompt: {run: [(token, probability)]}}."""
    encode, found = model.tokenizer.encode, {}
    for text, (name, instead) in SAID.items():
        head, _, tail = text.rpartition(name)
        tokens, donor = (encode(each, bos=True)[None] for each in (text, head + instead + tail))
        outputs, found[text] = end_outputs(model, donor), {}
        for who in ("whole", *sets):
            logits = model(tokens, edits=give([*sets.get(who, ())], outputs))[0, -1]
            best = logits.softmax(dim=-1).topk(k)
            words = model.tokenizer.token_strings(best.indices.tolist())
            found[text][who] = list(zip(words, best.values.tolist(), strict=True))
    return found


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 24-again of `make data WHAT=pretrained`; the heads are those of entry 24-names."""
    known = read_names(name)
    (late,), early = known.roles.suppress, known.roles.s_inhibition
    taken = {late, *known.roles.movers}
    beside = [Head(late.layer, h) for h in range(model.config.n_heads)]
    sets = {str(late): [late], "early": early}
    others = {str(head): [head] for head in beside if head not in taken}
    pairs = {" ".join(map(str, pair)): pair for pair in known.others["s_inhibition"][:3]}
    with torch.no_grad():
        some = prompts(model, seed=seed)
        found = {
            "examples": [model.tokenizer.decode(case.tokens[0, 1:]) for case in some],
            "beside": list(others),
            "pairs": list(pairs),
            "runs": measured(model, some, sets | others | pairs),
            "attention": attention(model, some, [late, *early]),
            "says": continuations(model, sets),
        }
        some = prompts(model, "S", seed=seed)
        found["runs, the subject"] = measured(model, some, sets | pairs)
        found["attention, the subject"] = attention(model, some, [late, *early])
    return rounded(found)
