"""Notebook 17: hundreds of prompts, attention between words, words moved about."""

from itertools import permutations
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.text.tokenization import Tokenizer

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
NOUNS = [
    *("movie", "film", "story", "plot", "actor", "character", "book", "show"),
    *("scene", "music", "script", "director", "man", "woman", "girl", "family"),
    *("house", "world", "life", "school", "comedy", "performance", "idea", "series"),
]
FOUR = ("This", "{}", "is", "really")  # the noun is the second word
AFTER = ("one", "of", "the", "best", "ever", "made")
ORDERS = list(permutations(range(4)))  # which of the four words stands at each place
AT_ONCE = 40  # texts in a batch


class Text(NamedTuple):
    """What a model reads: pieces, the word that each belongs to (BOS: -1), and the words."""

    tokens: Int[Tensor, " pos"]
    word_of: list[int]
    words: list[str]


def text_of(tokenizer: Tokenizer, tokens: Int[Tensor, " pos"]) -> Text:
    """Pieces, BOS first, with their words: a word is a run of letters, or a mark by itself."""
    words, word_of = [], [-1]
    for piece in tokenizer.token_strings(tokens[1:]):
        if words and words[-1][-1].isalpha() and piece[0].isalpha():
            words[-1] += piece
        else:
            words.append(piece)
        word_of.append(len(words) - 1)
    return Text(tokens, word_of, [word.strip(" ") or " " for word in words])


def openings(nouns=NOUNS) -> list[str]:
    """Prompts of three words whose second is the topic: every opening with every noun."""
    return [each.format(noun) for noun in nouns for each in OPENINGS]


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

    At most six pieces a word are drawn, and those after the last whole word left out. Raises
    ValueError where they make fewer words.
    """
    texts = []
    for first in range(0, len(prompts), AT_ONCE):
        some = prompts[first : first + AT_ONCE]
        starts = [model.tokenizer.encode(prompt, bos=True) for prompt in some]
        wanted = [len(text_of(model.tokenizer, start).words) + n_words for start in starts]
        seeds = [seed + first + i for i in range(len(some))]
        for n_pieces in (3 * n_words, 6 * n_words):  # longer draws begin alike
            longer = continued(model, starts, n_pieces, seeds)
            longer = [text_of(model.tokenizer, tokens) for tokens in longer]
            drawn = zip(some, longer, wanted, strict=True)
            short = [prompt for prompt, text, n in drawn if len(text.words) <= n]
            if not short:
                break
        else:
            raise ValueError(f"{short[0]!r} was continued by too few words: take another seed")
        for (tokens, word_of, words), n in zip(longer, wanted, strict=True):
            end = word_of.index(n)
            texts.append(Text(tokens[:end], word_of[:end], words[:n]))
    return texts


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
    """The attention between words of every head: head number layer · n_heads + head."""
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


def same_length(texts: list[Text]) -> Int[Tensor, "text pos"]:
    """The texts cut to the length of the shortest."""
    n = min(len(text.tokens) for text in texts)
    return torch.stack([text.tokens[:n] for text in texts])


def single_pieces(tokenizer: Tokenizer, words) -> Int[Tensor, " word"]:
    """The token of each word with a space before it. Raises ValueError for a word of more."""
    tokens = tokenizer.encode_many([f" {word}" for word in words])
    if split := [word for word, each in zip(words, tokens, strict=True) if len(each) > 1]:
        raise ValueError(f"{split} are more than one piece here: give words of one piece")
    return torch.cat(tokens)


def in_all_orders(
    tokenizer: Tokenizer, nouns, four=FOUR, after=AFTER
) -> Int[Tensor, "noun order pos"]:
    """BOS, four words in each of ORDERS, and those after; every word with a space before it."""
    rows = []
    for noun in nouns:
        words = single_pieces(tokenizer, [word.format(noun) for word in four])
        behind = single_pieces(tokenizer, after)
        bos = torch.tensor([tokenizer.bos])
        rows += [torch.cat([bos, words[list(order)], behind]) for order in ORDERS]
    return torch.stack(rows).view(len(nouns), len(ORDERS), -1)
