"""The prompts of notebook 20: facts with one-token answers, windows of text, random tokens.

VISIT, section 3 and appendix D.1, reads at the last position of 100 prompts of CounterFact that the
model answers rightly, and of random ones. CounterFact comes from the hub; elsewhere facts are ours.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.offline import network
from aot_helpers.text.batches import pad_batch

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
ASKED = 1500  # of its 21,919 prompts: more than 100 of them are answered by a small GPT-2
NAMED = "Then Mila Toren met {} {}. Mila Toren gave {}"
FIRST = ("Deko", "Tavi", "Orin", "Kela", "Bruno", "Sana", "Nuri", "Palo")
LAST = ("Balis", "Zorin", "Reban", "Tomak", "Sorel", "Dunar", "Feltz", "Marov")
LOGITS = 4_000_000  # so many at a time: 16 MB
LENGTHS = (24, 72)  # tokens of a window, at least and at most


class Fact(NamedTuple):
    """What a fact is about, the prompt that asks for it, and how it goes on: "Oslo"."""

    subject: str
    prompt: str
    answer: str


def our_facts() -> list[Fact]:
    """Every thing of FACTS in every template."""
    pairs = [(t, pair.split(" ")) for t, all_ in FACTS.items() for pair in all_.split(",")]
    return [Fact(thing, t.format(thing), answer) for t, (thing, answer) in pairs]


def counterfact(n: int = ASKED, seed: int = 0) -> list[Fact]:
    """Draw n prompts of CounterFact. Raises OSError where the hub does not give it."""

    def read_hub(repository: str) -> list[Fact]:
        from datasets import load_dataset

        rows = load_dataset(repository, split="train")
        return [Fact(r["subject"], r["prompt"].strip(), r["target_true"].strip()) for r in rows]

    found, _ = network.fetch("CounterFact", (COUNTERFACT, None, None), read_hub, None)
    order = torch.randperm(len(found), generator=torch.Generator().manual_seed(seed)).tolist()
    return [found[i] for i in order[:n]]


class Prompts(NamedTuple):
    """Prompts, padded on the right: a causal model never sees the padding from `last`."""

    tokens: Int[Tensor, "prompt pos"]
    last: Int[Tensor, " prompt"]
    answers: Int[Tensor, " prompt"]  # the token that comes next: the fact's, or the text's

    def pieces(self, model: Model) -> Iterator[tuple[slice, "Prompts"]]:
        """(rows, the prompts of these rows), cut to the longest, few enough for their logits.

        At most 16, so that what is taken from other prompts of a piece costs little.
        """
        per_prompt = self.tokens.shape[1] * model.config.d_vocab
        size = min(16, max(1, LOGITS // per_prompt))
        for at in range(0, len(self.tokens), size):
            rows = slice(at, at + size)
            piece = Prompts(*(part[rows] for part in self))
            yield rows, piece._replace(tokens=piece.tokens[:, : int(piece.last.max()) + 1])


def gather(texts: list[Int[Tensor, " _"]], answers: list[int]) -> Prompts:
    """Prompts from texts of tokens and what comes next. Raises ValueError where there are none."""
    if not texts:
        raise ValueError("no prompt is left: give longer texts, or a model with these words")
    tokens, _ = pad_batch(texts, 0)
    last = torch.tensor([len(text) - 1 for text in texts])
    return Prompts(tokens, last, torch.tensor(answers))


def at_last(values: Tensor, prompts: Prompts) -> Tensor:
    """Values [prompt, pos, …] at each prompt's last position: [prompt, …]."""
    return values[torch.arange(len(prompts.last)), prompts.last]


def predictions(model: Model, prompts: Prompts) -> Int[Tensor, " prompt"]:
    """The token that the model finds most likely after each prompt."""
    with torch.no_grad():
        found = [at_last(model(p.tokens), p).argmax(dim=-1) for _, p in prompts.pieces(model)]
    return torch.cat(found)


def some(prompts: Prompts, which: Tensor | slice) -> Prompts:
    """The chosen prompts: a mask, indices or a slice."""
    return Prompts(*(part[which] for part in prompts))


def facts(model: Model, seed: int = 0, known: list[Fact] | None = None) -> Prompts:
    """All facts whose answer is one token of this model, in an order drawn by lot.

    known: which facts; None: ours. No token stands before the text, as in the source. ValueError
    for a model without a tokenizer.
    """
    if model.tokenizer is None:
        raise ValueError("this model has no tokenizer, so facts cannot be asked: give one that has")
    texts, answers = [], []
    for _, prompt, answer in our_facts() if known is None else known:
        ids = model.tokenizer.encode(" " + answer)
        if len(ids) == 1:
            texts.append(model.tokenizer.encode(prompt))
            answers.append(int(ids[0]))
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(seed)).tolist()
    return gather([texts[i] for i in order], [answers[i] for i in order])


def named(model: Model) -> Prompts:
    """Prompts that tell a made-up name and ask for its second half, as "Deko" for "Balis".

    Those that this model answers rightly: with the first token of the half that it was told.
    """
    texts, answers = [], []
    for first in FIRST:
        for last in LAST:
            texts.append(model.tokenizer.encode(NAMED.format(first, last, first), bos=True))
            answers.append(int(model.tokenizer.encode(" " + last)[0]))
    asked = gather(texts, answers)
    return some(asked, predictions(model, asked) == asked.answers)


def windows(model: Model, texts: list[str], n: int, seed: int = 0) -> Prompts:
    """One window of each of the first n texts that are long enough: its beginning, cut by lot.

    The model's token for the beginning stands first, if it has one.
    """
    draw, cut, answers = torch.Generator().manual_seed(seed), [], []
    least, most = LENGTHS
    for tokens in model.tokenizer.encode_many(texts):
        if model.tokenizer.bos is not None:
            tokens = torch.cat([torch.tensor([model.tokenizer.bos]), tokens])
        if len(tokens) <= most or len(cut) == n:
            continue
        at = int(torch.randint(least, most + 1, (1,), generator=draw))
        cut.append(tokens[:at])
        answers.append(int(tokens[at]))
    return gather(cut, answers)


def random_tokens(model: Model, like: Prompts, seed: int = 0) -> Prompts:
    """Prompts of the same lengths, of tokens drawn by lot; the first token stays."""
    draw = torch.Generator().manual_seed(seed)
    drawn = torch.randint(model.config.d_vocab, like.tokens.shape, generator=draw)
    drawn[:, 0] = like.tokens[:, 0]
    return like._replace(tokens=drawn)


def by_kind(
    model: Model,
    texts: list[str] | None = None,
    n: int = 70,
    n_others: int = 40,
    seed: int = 0,
    known: list[Fact] | None = None,
) -> dict[str, Prompts]:
    """At most n prompts that this model answers "right", at most n_others of each other kind.

    texts: windows of these; None: facts (those known, or ours), those that begin alike set `apart`.
    "wrong": answered otherwise; "random tokens": as long as the right ones. Raises ValueError for a
    model that answers fewer than 4 rightly, or fewer than 2 wrongly.
    """
    asked = facts(model, seed, known) if texts is None else windows(model, texts, len(texts), seed)
    right = predictions(model, asked) == asked.answers
    if right.sum() < 4 or (~right).sum() < 2:
        raise ValueError(
            f"of {len(right)} prompts this model answers {right.sum()} as they go on: at least 4, "
            "and at least 2 others, are needed; give texts of the kind that it was trained on"
        )
    kinds = {"right": some(asked, right), "wrong": some(asked, ~right)}
    kinds["random tokens"] = random_tokens(model, kinds["right"], seed)
    most = {"right": n}
    kinds = {kind: some(each, slice(most.get(kind, n_others))) for kind, each in kinds.items()}
    return kinds if texts is not None else {kind: apart(each) for kind, each in kinds.items()}


def apart(prompts: Prompts) -> Prompts:
    """The same prompts in an order in which the next one begins with other words, where it can.

    The next prompt is what a reading is compared with: it must not be about the same thing.
    """
    order = sorted(range(len(prompts.last)), key=lambda row: prompts.tokens[row, :2].tolist())
    half = (len(order) + 1) // 2  # of two halves in turn: neighbors are half of all apart
    woven = [row for at in range(half) for row in order[at::half]]
    return some(prompts, torch.tensor(woven))
