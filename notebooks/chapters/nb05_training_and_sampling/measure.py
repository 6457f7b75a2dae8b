"""Notebook 05: the exam that all models take, and a loop at any learning rate."""

import torch
import torch.nn.functional as F

from aot_helpers.text.batches import pad_batch


class Exam:
    """Unread stories, whole, on which everyone is measured: all of at most n_ctx tokens.

    now, following: the tokens of all these stories in one row, and what comes after each. BOS
    stands before each story. floor: the mean surprise of the grammar that wrote the stories.
    """

    def __init__(self, corpus, tokenizer, n_ctx=128):
        encoded = tokenizer.encode_many(corpus.texts)
        self.numbers = [i for i, ids in enumerate(encoded) if len(ids) <= n_ctx]  # in the corpus
        begun = [F.pad(encoded[i], (1, 0), value=tokenizer.bos) for i in self.numbers]
        self.tokenizer, (self.tokens, real) = tokenizer, pad_batch(begun, tokenizer.bos)
        self.real = real[:, 1:]  # not padding, and not BOS
        self.now, self.following = self.tokens[:, :-1][self.real], self.tokens[:, 1:][self.real]
        self.floor = -sum(corpus.truth.log_probs[i] for i in self.numbers) / len(self.following)

    @torch.no_grad()
    def losses_of(self, model):
        """The loss of a model at each token, [n_tokens]."""
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


def forty_losses(new_model, batches, rate):
    """The losses of 40 steps of the tour's loop, all at one rate, of a new model."""
    model, losses = new_model(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98))
    for batch in batches[:40]:
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
