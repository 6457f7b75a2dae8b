"""Notebook 01: two rules that predict tokens without a network, and how often each is right."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from aot_helpers.text import tokenization
from aot_helpers.text.batches import pair_counts

Tokens = Int[Tensor, " _"]  # of one text
N_GROUPS = 5  # of test texts, dealt in turn, for the spread


def about(corpus: list[str], n_characters: int) -> list[str]:
    """Every k-th text, so that about n_characters are left."""
    return corpus[:: max(1, round(sum(map(len, corpus)) / n_characters))]


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


def measure(train: list[str], test: list[str], d_vocab: int) -> dict[str, list[float]]:
    """{rule: the share of tokens that it gets right in each group of test texts}.

    The rules learn from `train`, cut by a BPE learned there. "only": right where one token back is
    wrong. "shuffled": on the tokens of each text in random order. "favorite": always the most
    frequent token.
    """
    tokenizer = tokenization.train_bpe(train, d_vocab)
    counts = pair_counts(tokenizer.encode_many(train), d_vocab)
    successor, favorite = counts.argmax(dim=1), counts.sum(dim=0).argmax()
    real = [d for d in tokenizer.encode_many(test) if len(d) > 1]
    hits = {"favorite": [d[1:] == favorite for d in real]}
    shuffled = [d[torch.randperm(len(d))] for d in real]
    for name, documents in {"": real, ", shuffled": shuffled}.items():
        hits["one token back" + name] = [one_back(d, successor) for d in documents]
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


def passage(train: list[str], text: str, d_vocab: int, n_tokens: int = 140) -> tuple:
    """The beginning of a text, for `colored`; tokens and table are learned from `train`."""
    tokenizer = tokenization.train_bpe(train, d_vocab)
    successor = pair_counts(tokenizer.encode_many(train), d_vocab).argmax(dim=1)
    tokens = tokenizer.encode(text)[:n_tokens]
    strings = [each.replace("\n", " ") for each in tokenizer.token_strings(tokens)]
    unknown = torch.tensor([False])  # nothing predicts the first token
    rules = one_back(tokens, successor), last_match(tokens)
    return strings, *(torch.cat([unknown, right]) for right in rules)


def simple_losses(
    tokenizer: tokenization.Tokenizer, train: list[str], test: list[Tokens]
) -> dict[str, float]:
    """{model: mean loss, in nats per token of the test texts} of four models without weights.

    All tokens equal; their frequencies in `train`; the table of pairs, 0.1 added to each count; and
    that table mixed with the last match: where it speaks, its guess gets the share of the
    probability by which it is right in 500 training texts.
    """
    read, bos = tokenizer.encode_many(train), tokenizer.bos
    counts = pair_counts(read, tokenizer.d_vocab, bos) + 0.1
    frequencies, table = counts.sum(0) / counts.sum(), counts / counts.sum(1, keepdim=True)
    guesses = [torch.stack([last_guess(d), d[1:]]) for d in read[:500] if len(d) > 1]
    guess, came = torch.cat(guesses, dim=1)
    trust = (guess == came)[guess >= 0].double().mean().item()
    sums = torch.zeros(4, dtype=torch.double)
    for text in test:
        tokens = torch.cat([torch.tensor([bos]), text])
        guess, came = last_guess(tokens), tokens[1:]
        by_table = table[tokens[:-1], came]
        mixed = (1 - trust) * by_table + trust * (guess == came)
        mixed = torch.where(guess >= 0, mixed, by_table)
        equal = torch.full_like(mixed, 1 / tokenizer.d_vocab)
        rows = torch.stack([equal, frequencies[came], by_table, mixed])
        sums -= rows.double().log().sum(dim=1)
    names = "all tokens equal", "token frequencies", "one token back", "one token back + last match"
    n_tokens = sum(map(len, test))
    return {name: float(each) / n_tokens for name, each in zip(names, sums, strict=True)}
