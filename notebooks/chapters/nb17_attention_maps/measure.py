"""Notebook 17: hundreds of prompts, attention between words, kinds of heads, words moved about."""

import math
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.base.errors import unknown_name
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head, Model
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import keys_back
from aot_helpers.text.tokenization import Tokenizer

PROMPT = "This movie is"  # S0, section VIII A
SEEDS = ("imdb-2l", "imdb-2l-seed1", "imdb-2l-seed2")
# Words of one piece each in the vocabulary of the imdb models; {} is the second word.
OPENINGS = (
    "This {} is",
    "The {} was",
    "That {} has",
    "My {} is",
    "Every {} has",
    "His {} was",
    "Another {} is",
    "One {} was",
    "No {} is",
    "Her {} had",
)
NOUNS, OTHERS, JUDGING = map(
    str.split,
    (
        "movie film story plot actor character book show scene music script director "
        "man woman girl family house world life school comedy performance idea series",
        "not also just now still never here about going really very so "
        "only even all there always made back out in like from because",
        "good bad great terrible awful boring funny excellent horrible stupid wonderful poor",
    ),
)


class Text(NamedTuple):
    """What a model reads: pieces, the word that each belongs to (BOS: -1), and the topic's word."""

    tokens: Int[Tensor, " pos"]
    word_of: list[int]
    words: list[str]
    topic: int = 1


def text_of(tokenizer: Tokenizer, tokens: Int[Tensor, " pos"], topic: int = 1) -> Text:
    """Pieces, BOS first, with their words: a word is a run of letters, or a mark by itself."""
    words, word_of = [], [-1]
    for piece in tokenizer.token_strings(tokens[1:]):
        if words and words[-1][-1].isalpha() and piece[0].isalpha():
            words[-1] += piece
        else:
            words.append(piece)
        word_of.append(len(words) - 1)
    return Text(tokens, word_of, [word.strip(" ") or " " for word in words], topic)


def openings(nouns=NOUNS) -> list[str]:
    """Prompts of three words whose second is the topic: every opening with every noun."""
    return [each.format(noun) for noun in nouns for each in OPENINGS]


AT_ONCE = 40  # texts in a batch


def padded(texts: list[Int[Tensor, " pos"]], more: int = 0) -> Int[Tensor, "text longest"]:
    """Texts below each other, filled up behind, where no causal model looks; `more` places more."""
    rows = torch.zeros(len(texts), max(map(len, texts)) + more, dtype=torch.long)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return rows


def continued(
    model: Model, starts: list[Int[Tensor, " pos"]], n: int, seeds: list[int], top_k: int = 10
) -> list[Int[Tensor, " longer"]]:
    """Each start with n pieces behind, drawn as `generate` draws them, but all texts at once."""
    dice = [torch.Generator().manual_seed(seed) for seed in seeds]
    rows, at = padded(starts, n), torch.tensor([len(each) for each in starts])
    every = torch.arange(len(rows))
    for _ in range(n):
        with torch.no_grad():
            logits = model(rows[:, : at.max()])[every, at - 1]
        top = logits.topk(top_k)
        p = top.values.double().softmax(dim=-1)
        pairs = zip(p, dice, strict=True)
        drawn = [torch.multinomial(each, 1, generator=die) for each, die in pairs]
        rows[every, at] = top.indices.gather(1, torch.stack(drawn))[:, 0]
        at = at + 1
    return [row[:end] for row, end in zip(rows, at, strict=True)]


def written(model: Model, prompts: list[str], n_words: int = 7, seed: int = 0) -> list[Text]:
    """Each prompt, continued by the model by n_words words: top 10, seed + the prompt's number.

    Pieces are drawn until the last word is whole, at most six a word. Raises ValueError where
    they make fewer words.
    """
    starts = [model.tokenizer.encode(prompt, bos=True) for prompt in prompts]
    wanted = [len(text_of(model.tokenizer, start).words) + n_words for start in starts]
    texts: dict[int, Text] = {}
    for n_pieces in (n_words + 3, 3 * n_words, 6 * n_words):  # longer draws begin alike
        left = [i for i in range(len(prompts)) if i not in texts]
        for some in (left[i : i + AT_ONCE] for i in range(0, len(left), AT_ONCE)):
            seeds = [seed + i for i in some]
            longer = continued(model, [starts[i] for i in some], n_pieces, seeds)
            for i, tokens in zip(some, longer, strict=True):
                text = text_of(model.tokenizer, tokens)
                if len(text.words) > wanted[i]:
                    n = text.word_of.index(wanted[i])
                    texts[i] = Text(text.tokens[:n], text.word_of[:n], text.words[: wanted[i]])
    for i, prompt in enumerate(prompts):
        if i not in texts:
            raise ValueError(f"{prompt!r} was continued by too few words: take another seed")
    return [texts[i] for i in range(len(prompts))]


def by_words(
    pattern: Float[Tensor, "head query key"], word_of: list[int]
) -> Float[Tensor, "head word seen"]:
    """Attention between words: the mean over the pieces of the query's and of the key's word.

    Clark et al. 2019 (section 4.1) add up a key's pieces; then a head that looks at all pieces
    alike seems to look at the words of many pieces. BOS (-1) is left out and each row divided by
    its sum: how a head divides what it gives to words.
    """
    n_words, numbers = max(word_of) + 1, torch.tensor(word_of)
    of = (numbers[:, None] == torch.arange(n_words)).to(pattern)  # [piece, word]
    of /= of.sum(dim=0)
    between = of.T @ pattern @ of
    return between / between.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(between.dtype).tiny)


class Maps(NamedTuple):
    """A text, attention between its words, and what each head gives to BOS."""

    text: Text
    words: Float[Tensor, "head word seen"]
    on_bos: Float[Tensor, " head"]


def read(model: Model, texts: list[Text]) -> list[Maps]:
    """The maps of every head, layer after layer: head number layer · n_heads + head."""
    maps = []
    for some in (texts[i : i + AT_ONCE] for i in range(0, len(texts), AT_ONCE)):
        with torch.no_grad():
            _, cache = model.run_with_cache(padded([text.tokens for text in some]))
        layers = [cache[f"L{i}.pattern"] for i in range(model.config.n_layers)]
        for text, pattern in zip(some, torch.cat(layers, dim=1), strict=True):
            n = len(text.tokens)
            on_bos = pattern[:, 1:n, 0].mean(dim=1)
            words = by_words(pattern[:, :n, :n].double(), text.word_of)
            maps.append(Maps(text, words, on_bos))
    return maps


def _words_back(n: int, *back: int) -> Bool[Tensor, "query key"]:
    words = torch.arange(n)[None]
    return sum(keys_back(words, each)[0] for each in back).bool()


def _columns(n: int, *words: int) -> Bool[Tensor, "query key"]:
    return torch.isin(torch.arange(n), torch.tensor(words)).expand(n, n)


# What S0 named, in its order: (number of words, the topic's place) -> the words looked at.
KINDS: dict[str, Callable[[int, int], Bool[Tensor, "query key"]]] = {
    "topic": lambda n, topic: _columns(n, topic),
    "previous": lambda n, topic: _words_back(n, 1),
    "first and third": lambda n, topic: _columns(n, 0, 2),
    "first two": lambda n, topic: _columns(n, 0, 1),
    "first": lambda n, topic: _columns(n, 0),
    "two back": lambda n, topic: _words_back(n, 2),
    "topic and present": lambda n, topic: _columns(n, topic) | _words_back(n, 0),
    "present and previous": lambda n, topic: _words_back(n, 0, 1),
}
FIRST_QUERY = 3  # the first word that the model wrote; here two back is the topic, later all differ


def targets_of(kind: str, n_words: int, topic: int = 1) -> Bool[Tensor, "query key"]:
    """True at the words that a head of this kind looks at; only at queries that count."""
    if kind not in KINDS:
        raise unknown_name("kind of head", kind, KINDS)
    targets = KINDS[kind](n_words, topic).tril().clone()
    targets[: max(FIRST_QUERY, topic + 1)] = False
    return targets


def hits(
    pattern: Float[Tensor, "*text head query key"], targets: Bool[Tensor, "query key"]
) -> tuple[Float[Tensor, "*text head counted"], Float[Tensor, " counted"]]:
    """Where the k words most looked at are the k targets, and how often by chance.

    Only for the counted queries, which have targets; chance is 1 in all choices of k of the words
    up to the query.
    """
    at = targets.any(dim=-1).nonzero()[:, 0]
    wanted = targets[at].sum(dim=-1)
    order = (
        pattern[..., at, :].argsort(dim=-1, descending=True).argsort(dim=-1)
    )  # rank of each word
    found = (order < wanted[:, None]) == targets[at]
    ways = [math.comb(q + 1, k) for q, k in zip(at.tolist(), wanted.tolist(), strict=True)]
    return found.all(dim=-1).to(pattern), 1 / torch.tensor(ways).to(pattern)


def fits(maps: list[Maps], kind: str) -> Float[Tensor, " head"]:
    """How well each head fits a kind: hits above chance, as a share of those that chance leaves.

    0 is chance, 1 is always; over all counted words of all texts.
    """
    alike = defaultdict(list)  # texts of one length have one table of targets
    for text, words, _ in maps:
        alike[len(text.words), text.topic].append(words)
    found, chance = [], []
    for (n_words, topic), patterns in alike.items():
        each, luck = hits(torch.stack(patterns), targets_of(kind, n_words, topic))
        found.append(each.transpose(0, 1).flatten(1))  # [head, text and counted word]
        chance.append(luck.repeat(len(patterns)))
    rate, luck = torch.cat(found, dim=1).mean(dim=1), torch.cat(chance).mean()
    return (rate - luck) / (1 - luck)


def best_fit(maps: list[Maps], leave_out: Collection[int] = ()) -> float:
    """The best fit of any head to any of KINDS. leave_out: numbers of heads that do not count."""
    found = torch.stack([fits(maps, kind) for kind in KINDS])
    found[:, list(leave_out)] = -1.0
    return found.max().item()


def put_there(name: str) -> list[int]:
    """The heads of a checkpoint that began as previous-word heads: head 1 of models of reviews."""
    return [1] if name.startswith("imdb") else []


def planted(texts: list[Text], kind: str, share: float = 0.6) -> list[Maps]:
    """Maps of one head made to look so: `share` on the kind's pieces, the rest on all alike."""
    maps = []
    for text in texts:
        n, numbers = len(text.tokens), torch.tensor(text.word_of)
        even = torch.ones(n, n, dtype=torch.double).tril()
        even /= even.sum(dim=-1, keepdim=True)
        wanted = targets_of(kind, len(text.words), text.topic)
        on = torch.zeros(n, n, dtype=torch.double)
        on[1:, 1:] = wanted[numbers[1:]][:, numbers[1:]].double()
        on = (on * (even > 0)) / on.sum(dim=-1, keepdim=True).clamp(min=1)
        pattern = torch.where(on.any(dim=-1, keepdim=True), share * on + (1 - share) * even, even)
        maps.append(Maps(text, by_words(pattern[None], text.word_of), pattern[None, 1:, 0].mean(1)))
    return maps


def untrained(seed: int, tokenizer: Tokenizer) -> AttentionOnlyTransformer:
    """A new model of S0's best size: one layer, 8 heads, d_model 256, no start at copying."""
    torch.manual_seed(seed)
    shape = {"d_vocab": tokenizer.d_vocab, "n_layers": 1, "d_model": 256, "n_heads": 8}
    model = AttentionOnlyTransformer(ModelConfig(**shape, positions="standard", layer_norm=False))
    model.tokenizer = tokenizer
    return model.eval()


def load(name: str) -> AttentionOnlyTransformer:
    """A checkpoint that is only read."""
    return load_checkpoint(name).requires_grad_(False)


def on_bos(maps: list[Maps]) -> Float[Tensor, " head"]:
    """What each head gives to BOS: mean over texts."""
    return torch.stack([each.on_bos for each in maps]).mean(dim=0)


def head_of(model: Model, number: int) -> Head:
    """The head of this number in `read`."""
    return Head(*divmod(int(number), model.config.n_heads))


def labels(model: Model) -> list[str]:
    """L0H0, L0H1 …, in the order of `read`."""
    c = model.config
    return [str(head_of(model, i)) for i in range(c.n_layers * c.n_heads)]


def sleepers(
    model: AttentionOnlyTransformer, texts: list[str], rests: float = 0.95, wakes: float = 1 / 3
) -> dict[str, str]:
    """Heads of a single layer that rest on BOS, but for line breaks; and those that wake there.

    rests: the least that BOS gets at other tokens; wakes: the least that words get at line breaks.
    """
    line_break = int(model.tokenizer.encode("\n"))
    elsewhere, at_breaks = [], []
    for text in texts:
        tokens = model.tokenizer.encode(text, bos=True)
        with torch.no_grad():
            on_bos = model.run_with_cache(tokens[None])[1]["L0.pattern"][0, :, 1:, 0]
        breaks = tokens[1:] == line_break
        elsewhere.append(on_bos[:, ~breaks].mean(dim=1))
        at_breaks.append(on_bos[:, breaks].mean(dim=1))
    resting = torch.stack(elsewhere).mean(dim=0) >= rests
    awake = resting & (torch.stack(at_breaks).mean(dim=0) <= 1 - wakes)
    names = {"rest on BOS": resting, "of these, wake at line breaks": awake}
    return {
        name: " ".join(str(head_of(model, i)) for i in some.nonzero()[:, 0]) or "none"
        for name, some in names.items()
    }
