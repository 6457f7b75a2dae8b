"""Notebook 05: the test set of all models, names and their endings, the loop at one rate."""

import torch
import torch.nn.functional as F

from aot_helpers.text.batches import pad_batch
from chapters.nb05_training_and_sampling.exercises import train

ENDINGS = [vowel + end for vowel in "aeiou" for end in "nrls"]  # of surnames: 20, equally likely

KNOWS = {  # what each rung of the loss ladder knows
    "uniform": "nothing",
    "unigram": "frequencies",
    "bigram": "counted pairs",
    "stories-0l": "no heads: learned pairs",
    "your model": "one layer, trained here",
    "stories-1l": "one layer, 4,000 steps",
    "stories-2l": "two layers",
    "entropy": "all rules of the stories",
}


class TestSet:
    """Unread stories of at most n_ctx tokens, each as a whole, on which all models are measured.

    now, following: the tokens of all these stories in one row, and what comes after each. BOS
    stands before each story. entropy: the mean loss of the grammar that wrote the stories.
    """

    def __init__(self, corpus, tokenizer, n_ctx=128):
        encoded = tokenizer.encode_many(corpus.texts)
        self.numbers = [i for i, ids in enumerate(encoded) if len(ids) <= n_ctx]  # in the corpus
        begun = [F.pad(encoded[i], (1, 0), value=tokenizer.bos) for i in self.numbers]
        self.tokenizer, (self.tokens, real) = tokenizer, pad_batch(begun, tokenizer.bos)
        self.real = real[:, 1:]  # not padding, and not BOS
        self.now, self.following = self.tokens[:, :-1][self.real], self.tokens[:, 1:][self.real]
        self.entropy = -sum(corpus.truth.log_probs[i] for i in self.numbers) / len(self.following)

    @torch.no_grad()
    def losses_of(self, model):
        """The loss of a model at each token of the test set, [n_tokens]."""
        parts = []
        for x in self.tokens.split(32):
            logits = model(x[:, :-1]).flatten(0, 1)
            parts.append(F.cross_entropy(logits, x[:, 1:].flatten(), reduction="none"))
        return torch.cat(parts)[self.real.flatten()]

    def passage(self, number, word, n):
        """The places of n tokens: from a word on, in the story of that number in the corpus."""
        row = self.numbers.index(number)
        begin = int(self.real[:row].sum())
        story = self.following[begin : begin + int(self.real[row].sum())]
        begin += self.tokenizer.token_strings(story).index(word)
        return range(begin, begin + n)


def people(unread, tokenizer, n):
    """Full names of four tokens whose last is one of ENDINGS; neighbors share no token.

    unread: stories that no model has read.
    """
    found, before = [], set()
    for name in dict.fromkeys(name for pair in unread.truth.names for name in pair):
        pieces = tokenizer.token_strings(tokenizer.encode(f" {name}"))
        if len(pieces) == 4 and pieces[-1] in ENDINGS and before.isdisjoint(pieces):
            found.append(name)
            before = set(pieces)
    return found[:n]


def half_names(tokenizer, people):
    """Prompts with a name in them, up to the middle of another name: [ending, half name, pos]."""
    opening = "Mila Gol{} lived near the river with six friends. Then {}"
    texts = [[opening.format(end, name[:-2]) for name in people] for end in ENDINGS]
    rows = [torch.stack([tokenizer.encode(text, bos=True) for text in row]) for row in texts]
    return torch.stack(rows)


def counted(tokens, d_vocab):
    """Probabilities of a unigram model [next] and a bigram model [now, next], both counted.

    Each row of the bigram table has ten more tokens, shared out by frequency, so that no pair is
    impossible.
    """
    pairs = (d_vocab * tokens[:-1] + tokens[1:]).bincount(minlength=d_vocab**2)
    pairs = pairs.view(d_vocab, d_vocab).float()
    unigram = (pairs.sum(dim=0) + 1) / (pairs.sum() + d_vocab)
    bigram = pairs + 10 * unigram
    return unigram, bigram / bigram.sum(dim=1, keepdim=True)


def forty_losses(new_model, batches, rate):
    """The losses of 40 steps of the tour's loop, all at one rate, of a new model."""
    model, losses = new_model(), []
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98))
    train(model, optimizer, batches[:40], [rate] * 40, losses.append)
    return losses
