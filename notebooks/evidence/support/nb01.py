"""Evidence of notebook 01: rules that predict without a network, and what simple models pay."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from aot_helpers.text import tokenization
from aot_helpers.text.batches import pair_counts, token_stream

Tokens = Int[Tensor, " _"]  # of one text
N_GROUPS = 5  # of test texts, dealt in turn, for the spread


def about(corpus: list[str], n_characters: int) -> list[str]:
    """Every k-th text, so that about n_characters are left."""
    return corpus[:: max(1, round(sum(map(len, corpus)) / n_characters))]


class Learned(NamedTuple):
    """What the rules know of training texts: a BPE, and for each token its usual successor."""

    tokenizer: tokenization.Tokenizer
    successor: Int[Tensor, " token"]
    favorite: int  # the most frequent token


def learn(train: list[str], d_vocab: int) -> Learned:
    """Tokens, pairs and frequencies of the training texts."""
    tokenizer = tokenization.train_bpe(train, d_vocab)
    counts = pair_counts(tokenizer.encode_many(train), d_vocab)
    return Learned(tokenizer, counts.argmax(dim=1), int(counts.sum(dim=0).argmax()))


def one_back(tokens: Tokens, successor: Int[Tensor, " token"]) -> Bool[Tensor, " _"]:
    """True where the successor of a token is what comes next."""
    return successor[tokens[:-1]] == tokens[1:]


def last_guess(tokens: Tokens) -> Int[Tensor, " _"]:
    """What followed the last earlier place of each token but the last one; -1 if it is new."""
    tokens, seen, guesses = tokens.tolist(), {}, []
    for i, token in enumerate(tokens[:-1]):
        guesses.append(tokens[seen[token] + 1] if token in seen else -1)
        seen[token] = i
    return torch.tensor(guesses)


def last_match(tokens: Tokens) -> Bool[Tensor, " _"]:
    """True where the token after the last earlier place of a token is what comes next.

    The rule of an induction head (Olsson et al. 2022); a token that is new predicts nothing.
    """
    return last_guess(tokens) == tokens[1:]


def shuffled(documents: list[Tokens]) -> list[Tokens]:
    """The tokens of each text in random order."""
    return [tokens[torch.randperm(len(tokens))] for tokens in documents]


def measure(learned: Learned, test: list[str]) -> dict[str, list[float]]:
    """{rule: the share of tokens that it gets right in each group of test texts}.

    "only": right where one token back is wrong. "shuffled": on the tokens of each text in random
    order. "favorite": always the most frequent token.
    """
    real = [d for d in learned.tokenizer.encode_many(test) if len(d) > 1]
    hits = {"favorite": [d[1:] == learned.favorite for d in real]}
    for name, documents in {"": real, ", shuffled": shuffled(real)}.items():
        hits["one token back" + name] = [one_back(d, learned.successor) for d in documents]
        hits["last match" + name] = [last_match(d) for d in documents]
    for rule, name in ("last match", ""), ("last match", ", shuffled"), ("favorite", ""):
        pairs = zip(hits[rule + name], hits["one token back" + name], strict=True)
        hits[f"{rule} only{name}"] = [right & ~back for right, back in pairs]
    groups = {rule: [right[i::N_GROUPS] for i in range(N_GROUPS)] for rule, right in hits.items()}
    return {
        rule: [torch.cat(group).double().mean().item() for group in some]
        for rule, some in groups.items()
    }


def against_chance(results: dict[str, dict], rule: str) -> dict[str, dict]:
    """What `claim` takes: how much more a rule gets right than the favorite token, by group.

    results: {corpus: what `measure` returns}. The control is the rule on shuffled texts.
    """
    favorite = "favorite only" if rule.endswith("only") else "favorite"
    given = {"values": {}, "control": {}, "of": {}}
    for name, measured in results.items():
        for into, kind in (("values", rule), ("control", f"{rule}, shuffled")):
            pairs = zip(measured[kind], measured[favorite], strict=True)
            given[into][name] = [share - least for share, least in pairs]
        given["of"][name] = [f"{name} texts {i + 1}::{N_GROUPS}" for i in range(N_GROUPS)]
    return given


def short_texts(
    corpus, tokenizer: tokenization.Tokenizer, n_ctx: int = 128
) -> tuple[list[str], float]:
    """The texts of at most n_ctx tokens, and minus the mean logarithm of their true probability.

    The second is nats per token, and NaN where the truth is not known.
    """
    encoded = tokenizer.encode_many(corpus.texts)
    chosen = [i for i, ids in enumerate(encoded) if len(ids) <= n_ctx]
    n_tokens = sum(len(encoded[i]) for i in chosen)
    known = corpus.truth.log_probs if corpus.truth else [float("nan")] * len(encoded)
    return [corpus.texts[i] for i in chosen], -sum(known[i] for i in chosen) / n_tokens


def begun(tokenizer: tokenization.Tokenizer, texts: list[str]) -> list[Tokens]:
    """The tokens of each text after BOS."""
    return [torch.cat([torch.tensor([tokenizer.bos]), ids]) for ids in tokenizer.encode_many(texts)]


def last_guesses(documents: list[Tokens]) -> Tokens:
    """`last_guess` of several texts, in one row."""
    return torch.cat([last_guess(tokens) for tokens in documents])


def trust(documents: list[Tokens]) -> float:
    """The share of the last match's guesses that are right, where it has one."""
    guess, came = last_guesses(documents), torch.cat([tokens[1:] for tokens in documents])
    return (guess == came)[guess >= 0].double().mean().item()


def simple_losses(
    tokenizer: tokenization.Tokenizer, train: list[str], test: list[str]
) -> dict[str, float]:
    """{model: mean loss, in nats per token of the test texts} of four models without weights.

    All tokens equal; their frequencies in `train` (and one more of each); the pairs, with ten
    tokens' worth of these frequencies added to each row; and these mixed with the last match: where
    it speaks, its guess gets the share of the probability by which it is right in 500 texts.
    """
    stream, d_vocab = token_stream(tokenizer.encode_many(train), tokenizer.bos), tokenizer.d_vocab
    pairs = (stream[:-1] * d_vocab + stream[1:]).bincount(minlength=d_vocab**2)
    unigram = (stream[1:].bincount(minlength=d_vocab) + 1) / (len(stream) - 1 + d_vocab)
    documents = begun(tokenizer, test)
    now, came = (torch.cat([d[part] for d in documents]) for part in (slice(-1), slice(1, None)))
    rows = stream[:-1].bincount(minlength=d_vocab)[now]  # what was counted after each token
    by_pair = (pairs[now * d_vocab + came] + 10 * unigram[came]) / (rows + 10)
    guess = last_guesses(documents)
    right = trust(begun(tokenizer, train[:500]))
    mixed = torch.where(guess >= 0, (1 - right) * by_pair + right * (guess == came), by_pair)
    equal = torch.full_like(mixed, 1 / d_vocab)
    chances = {"uniform": equal, "unigram": unigram[came], "bigram": by_pair}
    chances["bigram + last match"] = mixed
    return {name: -p.log().mean().item() for name, p in chances.items()}
