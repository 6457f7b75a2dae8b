"""Facts with one-token answers, random tokens, and prompts by how a model answers them.

VISIT, section 3 and appendix D.1, reads at the last position of 100 prompts of CounterFact that the
model answers rightly, and of random ones. CounterFact comes from the hub; elsewhere facts are ours.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch

from aot_helpers.models.protocol import Model
from aot_helpers.offline import network
from chapters.nb20_logit_lens.measure import Prompts, gather, predictions, subset

_CAPITALS = """\
Norway Oslo,France Paris,Japan Tokyo,Germany Berlin,Italy Rome,Spain Madrid,Portugal Lisbon,\
Russia Moscow,China Beijing,Egypt Cairo,Greece Athens,Poland Warsaw,Austria Vienna,\
Hungary Budapest,Ireland Dublin,Sweden Stockholm,Finland Helsinki,Denmark Copenhagen,\
England London,Scotland Edinburgh,Belgium Brussels,Switzerland Bern,Turkey Ankara,Iran Tehran,\
Iraq Baghdad,Syria Damascus,Israel Jerusalem,Cuba Havana,Peru Lima,Chile Santiago,Canada Ottawa,\
Kenya Nairobi,Thailand Bangkok,Vietnam Hanoi,Indonesia Jakarta,Nepal Kathmandu,\
Afghanistan Kabul,Ukraine Kiev,Romania Bucharest,Bulgaria Sofia,Colombia Bogota,\
Australia Canberra,Ghana Accra,Nigeria Abuja,Lebanon Beirut,Jordan Amman,Libya Tripoli,\
Tunisia Tunis,Morocco Rabat,Iceland Reykjavik,Croatia Zagreb,Serbia Belgrade"""
_LANGUAGES = """\
France French,Germany German,Spain Spanish,Italy Italian,Russia Russian,Japan Japanese,\
China Chinese,Portugal Portuguese,Brazil Portuguese,Mexico Spanish,Argentina Spanish,Egypt Arabic,\
Greece Greek,Poland Polish,Sweden Swedish,Norway Norwegian,Denmark Danish,Finland Finnish,\
Turkey Turkish,Hungary Hungarian,Iran Persian,Israel Hebrew,Thailand Thai,Cuba Spanish,\
Austria German,Australia English,Ukraine Ukrainian,Netherlands Dutch,Korea Korean,\
Vietnam Vietnamese,Peru Spanish,Chile Spanish"""
_OPPOSITES = """\
hot cold,big small,day night,up down,left right,black white,good bad,love hate,rich poor,young old,\
war peace,fast slow,open closed,true false,happy sad,strong weak,light dark,high low,hard soft,\
early late"""
FACTS = {
    "The capital of {} is": _CAPITALS,
    "The capital of {} is the city of": _CAPITALS,
    "The official language of {} is": _LANGUAGES,
    "People in {} speak": _LANGUAGES,
    "The opposite of {} is": _OPPOSITES,
}
COUNTERFACT = "NeelNanda/counterfact-tracing"  # Meng et al. 2022, with one prompt a row
N_FACTS = 1500  # of its 21,919 prompts: more than 100 of them are answered by a small GPT-2


class Fact(NamedTuple):
    """What a fact is about, the prompt that asks for it, and how it goes on: "Oslo"."""

    subject: str
    prompt: str
    answer: str


def our_facts(templates: Iterable[str] = FACTS) -> list[Fact]:
    """Every thing of FACTS in these templates."""
    pairs = [(t, pair.split(" ")) for t in templates for pair in FACTS[t].split(",")]
    return [Fact(thing, t.format(thing), answer) for t, (thing, answer) in pairs]


def counterfact(n: int = N_FACTS, seed: int = 0) -> list[Fact]:
    """Draw n prompts of CounterFact. Raises OSError where the hub does not give it."""

    def read_hub(repository: str) -> list[Fact]:
        from datasets import load_dataset

        rows = load_dataset(repository, split="train")
        return [Fact(r["subject"], r["prompt"].strip(), r["target_true"].strip()) for r in rows]

    found, _ = network.fetch("CounterFact", (COUNTERFACT, None, None), read_hub, None)
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed)).tolist()
    return [found[i] for i in order[:n]]


def facts(model: Model, known: list[Fact], seed: int = 0) -> Prompts:
    """All known facts whose answer is one token of this model, in a random order.

    No token stands before the text, as in the source.
    """
    encode, texts, answers = model.tokenizer.encode, [], []
    for _, prompt, answer in known:
        if len(ids := encode(" " + answer)) == 1:
            texts.append(encode(prompt))
            answers.append(int(ids[0]))
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed)).tolist()
    return gather([texts[i] for i in order], [answers[i] for i in order])


def random_tokens(model: Model, like: Prompts, seed: int = 0) -> Prompts:
    """Prompts of the same lengths, of tokens drawn at random; the first token stays."""
    draw = torch.Generator().manual_seed(seed)
    drawn = torch.randint(model.config.d_vocab, like.tokens.shape, generator=draw)
    drawn[:, 0] = like.tokens[:, 0]
    return like._replace(tokens=drawn)


def by_kind(
    model: Model, prompts: Prompts, n: int, n_others: int, seed: int = 0
) -> dict[str, Prompts]:
    """At most n prompts that this model answers "right", at most n_others of each other kind.

    "wrong": answered otherwise; "random tokens": as long as the right ones. Raises ValueError for a
    model that answers fewer than 4 rightly, or fewer than 2 wrongly.
    """
    right = predictions(model, prompts) == prompts.answers
    if right.sum() < 4 or (~right).sum() < 2:
        raise ValueError(
            f"of {len(right)} prompts this model answers {right.sum()} as they go on: at least 4, "
            "and at least 2 others, are needed; give texts of the kind that it was trained on"
        )
    answered = subset(prompts, right)
    return {
        "right": subset(answered, slice(n)),
        "wrong": subset(prompts, (~right).nonzero()[:n_others, 0]),
        "random tokens": subset(random_tokens(model, answered, seed), slice(n_others)),
    }


def apart(prompts: Prompts) -> Prompts:
    """The same prompts in an order in which the next one begins with other words, where it can.

    The next prompt is what a reading is compared with: it must not be about the same thing.
    """
    order = sorted(range(len(prompts.last)), key=lambda row: prompts.tokens[row, :2].tolist())
    half = (len(order) + 1) // 2  # of two halves in turn: neighbors are half of all apart
    woven = [row for at in range(half) for row in order[at::half]]
    return subset(prompts, torch.tensor(woven))
