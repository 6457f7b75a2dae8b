"""Evidence of notebook 24: prompts with three names, in which hypotheses name different people.

In "…, John gave a drink to", John came twice, was mentioned last and is the subject. Here each form
of prompt sets these properties apart. A head's output at the end is patched with that of the same
prompt with one name replaced; what the replaced name gains is what the head took from it.
"""

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.base.files import write_safetensors
from aot_helpers.base.results import RESULTS, plain
from aot_helpers.models.protocol import Head, Model, all_heads
from aot_helpers.reading.heads import head_output
from chapters.nb24_who_says_mary.measure import ASKED, ENDS, LATER, OPENING, STARTS
from evidence.support.nb24.names import read_names
from evidence.support.nb24.patching import end_logits, end_outputs, gap
from evidence.support.nb24.prompts import single_names

PEOPLE = ("IO", "S", "C", "D", "E")


class Case(NamedTuple):
    """Prompts of one template and order, and the same with one name replaced at one place.

    ids: the tokens of what is replaced, "name", and of what comes "instead" (IO for S, else a new
    name); of IO, S, C, D and E, who is in no prompt; or of the "pronoun" of IO.
    """

    tokens: Int[Tensor, "prompt pos"]
    changed: Int[Tensor, "prompt pos"]
    ids: dict[str, Int[Tensor, " prompt"]]

    def last(self, who: str) -> Int[Tensor, " prompt"]:
        """Where this name stands last."""
        hits = self.tokens == self.ids[who][:, None]
        return hits.shape[1] - 1 - hits.flip(1).int().argmax(dim=1)


def as_case(model: Model, texts: list[tuple[str, str]], words: list[dict[str, str]]) -> Case:
    """Texts and what they are changed to, and words of each, as tokens."""
    encode = model.tokenizer.encode
    tokens, changed = (
        torch.stack([encode(text, bos=True) for text in each]) for each in zip(*texts, strict=True)
    )
    ids = {key: torch.tensor([int(encode(" " + row[key])[0]) for row in words]) for key in words[0]}
    return Case(tokens, changed, ids)


def cases(model: Model, form: str, slot: str, n: int = 6) -> list[Case]:
    """So many prompts (n) of each of the four templates and orders of the first two names."""
    rng, found, single = random.Random(0), [], sorted(single_names(model.tokenizer))
    for start, end in zip(STARTS, ENDS[form], strict=True):
        for first, second in (("IO", "S"), ("S", "IO")):
            texts, words = [], []
            for A, B, C, D, E in (rng.sample(single, 5) for _ in range(n)):
                who = {first: A, second: B, "C": C, "D": D, "E": E}
                other = who | {slot: who["IO"] if slot == "S" else E}
                early = who if slot == "S" else other  # S is replaced where it comes again
                texts.append(
                    tuple(
                        start.format(A=pair[first], B=pair[second]) + end.format(**names)
                        for pair, names in ((who, who), (early, other))
                    )
                )
                words.append(who | {"name": who[slot], "instead": other[slot]})
            found.append(as_case(model, texts, words))
    return found


def suppressed(model: Model, some: list[Case], sets: Mapping[str, Sequence[Head]]) -> dict:
    """How far each set of heads lowers the name that is replaced, in logits: {set: [prompt]}.

    A set's output at the end is patched with that after `changed`: the rise of logit(name) −
    logit(instead). "model": the same of the model that reads `changed` itself.
    """
    found = {name: [] for name in (*sets, "model")}
    for case in some:
        pair, outputs = (case.ids["name"], case.ids["instead"]), end_outputs(model, case.changed)
        before = gap(end_logits(model, case.tokens), *pair)
        for name, heads in sets.items():
            after = gap(end_logits(model, case.tokens, heads, outputs), *pair)
            found[name].append(after - before)
        found["model"].append(gap(end_logits(model, case.changed), *pair) - before)
    return {name: torch.cat(each) for name, each in found.items()}


def attended(model: Model, some: list[Case], heads: Sequence[Head]) -> dict[str, dict[str, float]]:
    """Mean attention from the end to each mention of each name: {head: {"S 1": weight}}."""
    found = {str(head): {} for head in heads}
    for case in some:
        with torch.no_grad():
            _, cache = model.run_with_cache(case.tokens)
        for head in heads:
            end, row = cache[f"L{head.layer}.pattern"][:, head.head, -1], found[str(head)]
            for who in PEOPLE:
                hits = case.tokens == case.ids[who][:, None]
                for i, at in enumerate(hits.all(dim=0).nonzero()[:, 0].tolist()):
                    row.setdefault(f"{who} {i + 1}", []).append(end[:, at].sum().item())
    n = sum(len(case.tokens) for case in some)
    return {head: {who: sum(x) / n for who, x in row.items()} for head, row in found.items()}


def answers(model: Model, some: list[Case]) -> dict[str, dict[str, float]]:
    """Mean logits of the people less that of E, whom no prompt names, and who is likeliest."""
    rows = []
    for case in some:
        people = torch.stack([case.ids[who] for who in PEOPLE], dim=1)
        rows.append(end_logits(model, case.tokens).gather(1, people))
    logits, case = dict(zip(PEOPLE, torch.cat(rows).T, strict=True)), some[-1]
    there = [who for who in PEOPLE if (case.tokens == case.ids[who][:, None]).any()]
    best = torch.stack([logits[who] for who in there]).argmax(dim=0)
    return {
        "logits": {who: (logits[who] - logits["E"]).mean().item() for who in there},
        "likeliest": {who: (best == i).float().mean().item() for i, who in enumerate(there)},
    }


def write_opening(model: Model, name: str) -> None:
    """Keep what each part writes at the end of OPENING, for readers without the model.

    In half precision (350 kB): writes [part, d_model]; all that reads it: the final norm's gain,
    and unembed, the rows of Mary, of John, and the mean of all tokens; and the logits of both.
    """
    tokens = model.tokenizer.encode(OPENING, bos=True)[None]
    with torch.no_grad():
        logits, cache = model.run_with_cache(tokens)
    parts = {"embedding": cache["L0.resid_pre"]}
    for head in all_heads(model):
        parts[str(head)] = head_output(model, cache, head)
        if head.head + 1 == model.config.n_heads:
            parts[f"L{head.layer} MLP"] = cache[f"L{head.layer}.mlp_out"]
    names = [int(model.tokenizer.encode(name)[0]) for name in (" Mary", " John")]
    half = {
        "writes": torch.stack([each[0, -1] for each in parts.values()]),
        "gain": model.final_norm().weight.detach(),
        "unembed": torch.stack([*model.W_U.detach()[:, names].T, model.W_U.mean(dim=1)]),
    }
    kept = {key: x.half().contiguous() for key, x in half.items()}
    kept["logits"] = logits[0, -1, names].contiguous()
    path = RESULTS / f"pretrained/24-{name}-opening.safetensors"
    write_safetensors(path, kept, {"parts": ",".join(parts)})


def pretrained(model: Model, name: str) -> dict:
    """Entry 24 of `make data WHAT=pretrained`; the heads are those of entry 24-names."""
    known = read_names(name)
    roles, few = known["roles"], ("suppress", "s_inhibition")
    sets = {role: getattr(roles, role) for role in (*few, "movers")}
    sets["both"] = roles.suppress + roles.s_inhibition
    others = {role: known["others"][role][:3] for role in few}
    look, forms = [*sets["both"], *sets["movers"]], {}
    for form, slots in ASKED.items():
        later, row = form in LATER, {"slots": {}}
        for slot, true in slots.items():
            some = cases(model, form, slot)
            tried = {role: sets[role] for role in few} if later else dict(sets)
            tried |= {(role, i): others[role][i] for role in few for i in range(3)}
            found = {
                who: [round(x, 3) for x in each.tolist()]
                for who, each in suppressed(model, some, tried).items()
            }
            row["slots"][slot] = {
                "true": list(true),
                "lowers": {who: each for who, each in found.items() if isinstance(who, str)},
                "others": {role: [found[role, i] for i in range(3)] for role in few},
            }
        row["example"] = model.tokenizer.decode(some[0].tokens[0, 1:])
        row |= answers(model, some) | {"attention": attended(model, some, look)}
        orders = (0, 1) if later else ()  # S second, S first
        row["attention_by_order"] = [attended(model, some[i::2], look) for i in orders]
        forms[form] = row
    write_opening(model, name)
    return plain({"sets": sets, "others": others, "forms": forms}, Head)
