"""The exercises of notebook 08: a patch of values, a score, where a head attends, a trap."""

import torch
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import near, read_guesses, read_numbers

NEAR = 0.2  # of 08.3
SPARE = 0.05  # by which the two may miss what is there for both
GONE = 0.1  # of 08.4: the probability below which a word is not said any more


def patch_values(model, texts, donors, head):
    """Logits of texts [text, pos] when one head has the values that it has in donors."""
    _, cache = model.run_with_cache(donors)
    return model(texts, edits=_exchange(cache, f"L{head.layer}.v", head.head))


def _exchange(cache: dict, name: str, which) -> dict:
    """An edit: an activation [batch, pos, head, d_head] of these heads, taken from a cache."""

    def patch(old):
        new = old.clone()
        new[:, :, which] = cache[name][:, :, which]
        return new

    return {name: patch}


def copying_score(L, R):
    """The copying score of the table L @ R, L [d_vocab, d_head], R [d_head, d_vocab]."""
    eigenvalues = torch.linalg.eigvals(R @ L)  # those of L @ R that are not 0
    return eigenvalues.real.sum() / eigenvalues.abs().sum()


PAGES = {"08.1": patch_values, "08.2": copying_score}


def _patch_values(answer):
    with torch.random.fork_rng():
        torch.manual_seed(8)
        config = ModelConfig(11, 2, 12, 3, 4, 8, positions="relative", layer_norm=False)
        model = AttentionOnlyTransformer(config).requires_grad_(False)
        model.blocks[0].attn.b_rel.normal_()
        texts, donors = torch.randint(11, (2, 3, 6))
    model.W_E.mul_(3)  # so that no attention pattern is flat
    for head in (Head(0, 1), Head(1, 2)):
        given = attempted(answer(model, texts, donors, head))
        expected = patch_values(model, texts, donors, head)
        if not isinstance(given, Tensor) or given.shape != expected.shape:
            shape = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise NotYet(f"Logits of shape {tuple(expected.shape)} are wanted, got {shape!r}.")
        if torch.allclose(given, expected, atol=1e-4):
            continue
        _, cache = model.run_with_cache(donors)
        layer, h = head
        mistakes = {
            "Nothing has changed: these are the logits of `texts`.": {},
            "You patch z, which brings the donor's attention pattern along; patch v.": _exchange(
                cache, f"L{layer}.z", h
            ),
            "You patch the values of all heads of the layer.": _exchange(
                cache, f"L{layer}.v", slice(None)
            ),
            "You patch keys; the values are `v`.": _exchange(cache, f"L{layer}.k", h),
            "You always patch layer 0: the layer is `head.layer`.": _exchange(
                cache, "L0.v", h if layer else 0
            ),
        }
        for said, edits in mistakes.items():
            if torch.allclose(given, model(texts, edits=edits), atol=1e-4):
                raise NotYet(said)
        if torch.allclose(given, model(donors), atol=1e-4):
            raise NotYet("These are the logits of `donors`: run the model on `texts`.")
        gap = (given - expected).abs().max()
        raise NotYet(f"For head {head} the largest error of a logit is {gap:.2f}.")
    return "the head still attends to the same places, and finds other words there"


def _copying_score(answer):
    draw = torch.Generator().manual_seed(3)
    rows, columns = torch.randn(30, 5, generator=draw), torch.randn(5, 30, generator=draw)
    symmetric = rows.T @ torch.diag(torch.linspace(2, -1, 30))
    for L, R in ((rows, columns), (rows, symmetric)):
        given = attempted(answer(L.clone(), R.clone()))
        if isinstance(given, Tensor) and given.is_complex():
            raise NotYet("A complex number: the real parts of the eigenvalues are added up.")
        number = read_numbers(given)
        values = torch.linalg.eigvals(R @ L)
        size, table = values.abs().sum(), L @ R
        mistakes = {
            "": values.real.sum() / size,
            "Below the line the absolute values are added up, not the real parts.": (
                values.real.sum() / values.real.abs().sum()
            ),
            "Above the line the real parts keep their signs.": values.real.abs().sum() / size,
            "This is the share of positive eigenvalues; their sizes count.": (
                (values.real > 0).float().mean()
            ),
            "This is the sum above the line; divide by the sum of the sizes.": values.real.sum(),
            "You divide by singular values; the formula has eigenvalues.": (
                values.real.sum() / torch.linalg.svdvals(table).sum()
            ),
            "eigvalsh is for symmetric matrices, and this one is not: take eigvals.": (
                torch.linalg.eigvalsh(R @ L).sum() / torch.linalg.eigvalsh(R @ L).abs().sum()
            ),
        }
        said = next((s for s, x in mistakes.items() if torch.isclose(number, x, atol=1e-4)), None)
        if said is None:
            raise NotYet(
                f"For a table of rank 5 the score is {mistakes['']:.3f}, yours {number:.3f}."
            )
        if said:
            raise NotYet(said)
    return "1 if every mixture of words raises itself, −1 if every one lowers itself"


def _shares(answer, truth):
    """truth: both shares of L0H1's attention; what they leave has been printed."""
    both, left = sum(guess for _, guess in read_guesses(answer, truth)), sum(truth.values())
    try:
        near(answer, truth, NEAR)
    except NotYet as problem:
        more = f" Together yours are {both:.2f}; there is {left:.2f} for both."
        raise NotYet(f"{problem}{more if abs(both - left) > SPARE else ''}") from None
    said = ", ".join(f"{name}: {share:.2f}" for name, share in truth.items())
    return f"{said}. It attends to what has just been said, and lowers it"


def _donor(answer, model, text, head):
    """answer: the donor as words; text: the words that the model reads."""
    words, ids = text.split(), model.tokenizer.encode(text, bos=True)[None]
    if not isinstance(answer, str):
        raise NotYet(f"A text of {len(words)} words is wanted, got {answer!r}.")
    given = answer.split()
    if len(given) != len(words):
        raise NotYet(
            f"Your donor has {len(given)} words, the text {len(words)}: place by place, please."
        )
    donor = model.tokenizer.encode(answer, bos=True)[None]
    if model.tokenizer.token_strings(donor[0, 1:]) != given:
        raise NotYet("Your donor has a word that is not of this language.")
    changed = [i for i, (a, b) in enumerate(zip(given, words, strict=True)) if a != b]
    if len(changed) != 1:
        raise NotYet(f"One word of the text is to be exchanged; you exchanged {len(changed)}.")
    due = words[words.index(words[-1]) + 1]
    logits = patch_values(model, ids, donor, head)[0, -1]
    left = logits.softmax(dim=-1)[model.tokenizer.encode(due)[0]].item()
    if left < GONE:
        (best,) = model.tokenizer.token_strings(logits.argmax()[None])
        return f"{due} falls to {left:.2f}, the model says {best}: {head} strikes off {due}"
    pattern = model.run_with_cache(ids)[1][f"L{head.layer}.pattern"][0, head.head]
    attended = pattern[-1, changed[0] + 1]  # BOS comes first
    said = f"The model still gives {due} a probability of {left:.2f}."
    if attended < 0.1:
        raise NotYet(
            f"{said} From the last word {head} hardly attends to that place ({attended:.2f})."
        )
    raise NotYet(f"{said} {head} does attend to that place ({attended:.2f}). What does it lower?")


CHECKS = {"08.1": _patch_values, "08.2": _copying_score, "08.3": _shares, "08.4": _donor}
