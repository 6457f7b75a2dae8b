"""The exercises of notebook 08: a patch of values, a score, a diagonal, a trap."""

from functools import partial

import torch
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.teaching.exercises import NotYet
from aot_helpers.teaching.exercises.references import against, draw, read_numbers

LEFT = 0.1  # of 08.4: the probability below which a word is not said any more


def patch_values(model, texts, donors, head):
    """Logits of texts [text, pos] when one head has the values that it has in donors."""
    return _patched(model, texts, donors, head, "v")


def _patched(model, texts, donors, head, what, which=None, at=slice(None)):
    """As patch_values, of any activation [batch, pos, head, d_head], other heads or places."""
    _, cache = model.run_with_cache(donors)
    name, which = f"L{head.layer}.{what}", head.head if which is None else which

    def patch(old):
        new = old.clone()
        new[:, at, which] = cache[name][:, at, which]
        return new

    return model(texts, edits={name: patch})


def copying_score(L, R):
    """The copying score of the table L @ R, L [d_vocab, d_head], R [d_head, d_vocab]."""
    eigenvalues = torch.linalg.eigvals(R @ L)  # those of L @ R that are not 0
    return eigenvalues.real.sum() / eigenvalues.abs().sum()


WRONG_PATCHES = {
    "Nothing has changed: these are the logits of `texts`.": (
        lambda model, texts, donors, head: model(texts)
    ),
    "These are the logits of `donors`: run the model on `texts`.": (
        lambda model, texts, donors, head: model(donors)
    ),
    "You patch z, which brings the donor's attention pattern along; patch v.": (
        lambda *given: _patched(*given, "z")
    ),
    "Only the last position is patched; what is carried stands at earlier ones.": (
        lambda *given: _patched(*given, "v", at=-1)
    ),
    "You patch keys; the values are `v`.": lambda *given: _patched(*given, "k"),
    "You patch the values of all heads of the layer.": (
        lambda *given: _patched(*given, "v", slice(None))
    ),
    "You always patch layer 0: the layer is `head.layer`.": (
        lambda model, texts, donors, head: _patched(model, texts, donors, Head(0, head.head), "v")
    ),
}


def _patch_values(answer):
    with torch.random.fork_rng():
        torch.manual_seed(8)
        config = ModelConfig(11, 2, 12, 3, 4, 8, positions="relative", layer_norm=False)
        model = AttentionOnlyTransformer(config).requires_grad_(False)
        model.blocks[0].attn.b_rel.normal_()
        texts, donors = torch.randint(11, (2, 1, 6))
    model.W_E.mul_(3)  # so that no attention pattern is flat
    trials = [(texts, donors, Head(0, 1)), (texts, donors, Head(1, 2))]
    mistakes = {said: partial(wrong, model) for said, wrong in WRONG_PATCHES.items()}
    against(partial(patch_values, model), trials, mistakes)(partial(answer, model))
    return "the head still attends to the same places, and finds other words there"


WRONG_SCORES = {  # what to say: the score of eigenvalues and singular values
    "Below the line the absolute values are added up, not the real parts.": (
        lambda values, _: values.real.sum() / values.real.abs().sum()
    ),
    "This is the share of positive eigenvalues; their sizes count.": (
        lambda values, _: (values.real > 0).float().mean()
    ),
    "This is the sum above the line; divide by the sum of the sizes.": (
        lambda values, _: values.real.sum()
    ),
    "Below the line stands the size of the sum; add up the sizes.": (
        lambda values, _: values.real.sum() / values.sum().abs()
    ),
    "You divide by singular values; the formula has eigenvalues.": (
        lambda values, singular: values.real.sum() / singular.sum()
    ),
}


def _wrong_score(formula, L, R):
    return formula(torch.linalg.eigvals(R @ L), torch.linalg.svdvals(L @ R))


def _copying_score(answer):
    def real(L, R):
        given = answer(L, R)
        if isinstance(given, Tensor) and given.is_complex():
            raise NotYet("A complex number: the real parts of the eigenvalues are added up.")
        return given if given is None or given is ... else read_numbers(given)

    trials = [(draw(30, 5, seed=s), draw(5, 30, seed=s + 1)) for s in (3, 5)]
    mistakes = {said: partial(_wrong_score, formula) for said, formula in WRONG_SCORES.items()}
    against(copying_score, trials, mistakes)(real)
    return "1 if every mixture of words raises itself, −1 if every one lowers itself"


def own_logits(L, R):
    """The diagonal of the table L @ R: [d_vocab]."""
    return (L * R.T).sum(dim=1)


WRONG_DIAGONALS = {
    "These are the sums of the rows; only the entry [w, w] is wanted.": (
        lambda L, R: (L @ R).sum(dim=1)
    ),
    "This is the largest entry of each row; the entry [w, w] is wanted.": (
        lambda L, R: (L @ R).amax(dim=1)
    ),
    "This is their sum, the trace; return one number for each word.": (
        lambda L, R: (L * R.T).sum()
    ),
    "This is the diagonal of R @ L; it has one entry for each dimension of the head.": (
        lambda L, R: (R @ L).diagonal()
    ),
}


def _own_logits(answer):
    trials = [(draw(9, 4, seed=s), draw(4, 9, seed=s + 1)) for s in (2, 4)]
    against(own_logits, trials, WRONG_DIAGONALS)(answer)
    return "their sum is the numerator of the copying score, which can now be split by words"


def _donor(answer, model, text, head):
    """answer: the donor as words; text: the words that the model reads."""
    words, ids = text.split(), model.tokenizer.encode(text, bos=True)[None]
    given = answer.split() if isinstance(answer, str) else []
    if len(given) != len(words):
        raise NotYet(f"A text of {len(words)} words is wanted, got {answer!r}.")
    donor = model.tokenizer.encode(answer, bos=True)[None]
    if model.tokenizer.token_strings(donor[0, 1:]) != given:
        raise NotYet("Your donor has a word that is not of this language.")
    changed = [i for i, (a, b) in enumerate(zip(given, words, strict=True)) if a != b]
    if len(changed) != 1:
        raise NotYet(f"One word of the text is to be exchanged; you exchanged {len(changed)}.")
    due = words[words.index(words[-1]) + 1]
    logits = patch_values(model, ids, donor, head)[0, -1]
    left = logits.softmax(dim=-1)[model.tokenizer.encode(due)[0]].item()
    if left < LEFT:
        (best,) = model.tokenizer.token_strings(logits.argmax()[None])
        return f"{due} falls to {left:.2f}, the model says {best}: {head} strikes off {due}"
    pattern = model.run_with_cache(ids)[1][f"L{head.layer}.pattern"][0, head.head]
    attended = pattern[-1, changed[0] + 1]  # BOS comes first
    raise NotYet(
        f"The model still gives {due} a probability of {left:.2f}. From the last word {head} puts "
        f"{attended:.2f} of its attention where you changed the text. What does it lower there?"
    )


CHECKS = {"08.1": _patch_values, "08.2": _copying_score, "08.3": _own_logits, "08.4": _donor}
PAGES = {"08.1": patch_values, "08.2": copying_score, "08.3": own_logits}
