"""The exercises of notebook 10: a key matrix, a path that is cut, a constant in the queries.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.models.handmade import induction_model
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import compared
from chapters.nb10_induction_heads.measure import constant_scores


def key_matrix(d_vocab):
    """W_K [3 * d_vocab, d_vocab] of a hand-set induction head: keys name the token before."""
    W_K = torch.zeros(3 * d_vocab, d_vocab)
    W_K[d_vocab : 2 * d_vocab] = torch.eye(d_vocab)
    W_K[0, 0] = 1  # BOS, where the head attends if nothing matches
    return W_K


def cut_key(k, z, W_O, W_K, head):
    """Keys [text, pos, head, d_head] in which one head's keys do not read what the writer wrote.

    z: the writer's, [text, pos, d_head]; its part's mean over texts and positions stays.
    """
    part = z @ W_O @ W_K  # [text, pos, d_head]
    k = k.clone()
    k[:, :, head] -= part - part.mean(dim=(0, 1))
    return k


PAGES = {"10.1": key_matrix, "10.2": cut_key, "10.3": constant_scores}


def _key_check(answer):
    size, text = 10, [0, 7, 3, 9, 4, 7]
    found, wanted = answer(size), key_matrix(size)
    attempted(found)
    if not isinstance(found, torch.Tensor) or found.shape != wanted.shape:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else found
        raise NotYet(
            f"For d_vocab = {size} the shape {tuple(wanted.shape)} is wanted, got {shape!r}."
        )
    model = induction_model(size, n_ctx=8)
    with torch.no_grad():
        model.blocks[1].attn.W_K[0] = found
        said = model(torch.tensor([text]))[0, -1].argmax().item()
        rests = model.run_with_cache(torch.tensor([[0, 5, 6]]))[1]["L1.pattern"][0, 0, -1, 0]
    for block, named in ((0, "token"), (2, "output")):
        if torch.equal(
            found.float()[block * size : (block + 1) * size, 1:], torch.eye(size)[:, 1:]
        ):
            raise NotYet(
                f"Your keys read the block *{named}*; the previous token has its own block."
            )
    if said != 3:
        raise NotYet(f"With your W_K the model says {said} after {text}; 3 followed the first 7.")
    if rests < 0.9:
        raise NotYet(f"With your W_K the head gives BOS only {rests:.2f} where nothing matches.")
    if not torch.equal(found.float(), wanted):
        raise NotYet("It works; but some entries that should be 0 are not, or ones are missing.")
    return "the query says I am A, the key says before me stood A: they match at B"


def _cut_key(answer, k, z, W_O, W_K, head):
    part, wanted = z @ W_O @ W_K, cut_key(k, z, W_O, W_K, head)
    found = attempted(answer(k.clone(), z.clone(), W_O.clone(), W_K.clone(), head))
    if not isinstance(found, torch.Tensor) or found.shape != k.shape:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else found
        raise NotYet(f"Keys of shape {tuple(k.shape)} are wanted, got {shape!r}.")
    others = torch.arange(k.shape[2]) != head
    if not torch.allclose(found[:, :, others], k[:, :, others], atol=1e-4):
        raise NotYet(f"The keys of other heads than number {head} have changed.")
    known = {
        "Nothing has changed.": k[:, :, head],
        "The writer's mean is gone, too: leave it in.": k[:, :, head] - part,
        "This is the writer's mean alone: the rest of the reader's keys has to stay.": (
            part.mean(dim=(0, 1)).expand_as(part)
        ),
        "The mean runs over positions alone; take it over texts, too.": (
            k[:, :, head] - part + part.mean(dim=1, keepdim=True)
        ),
        "The mean runs over texts alone; take it over positions, too.": (
            k[:, :, head] - part + part.mean(dim=0)
        ),
    }
    for said, mistake in known.items():
        if torch.allclose(found[:, :, head], mistake, atol=1e-4):
            raise NotYet(said)
    if not torch.allclose(found, wanted, atol=1e-4):
        gap = (found - wanted).abs().max()
        raise NotYet(f"The reader's keys differ from those expected by up to {gap:.2f}.")
    return "queries and values still read what the writer wrote; only the keys do not"


def _constant_scores(answer, written, W_Q, k):
    wanted = constant_scores(written, W_Q, k)
    scale = k.shape[-1] ** 0.5
    by_text, by_position = (
        torch.einsum("tpd,tpd->tp", k, (written.mean(dim=dim, keepdim=True) @ W_Q).expand_as(k))
        for dim in (1, 0)
    )
    mistakes = {
        "Scores are divided by the square root of d_head.": wanted * scale,
        "Divide by the square root of d_head, not by d_head.": wanted / scale,
        "The mean runs over positions alone; take it over texts, too.": by_text / scale,
        "The mean runs over texts alone; take it over positions, too.": by_position / scale,
        "This is the sum of what was written; take its mean.": wanted * written[..., 0].numel(),
        "Each key meets what was written at its own position; take the mean first.": (
            (k * (written @ W_Q)).sum(dim=-1) / scale
        ),
    }
    compared(answer(written.clone(), W_Q.clone(), k.clone()), wanted, mistakes, within=1e-3)
    others = wanted[:, 1:].mean()
    return f"to BOS it adds {wanted[:, 0].mean():.1f}, to the other keys {others:.1f} on average"


CHECKS = {
    "10.1": _key_check,
    "10.2": _cut_key,
    "10.3": _constant_scores,
}
