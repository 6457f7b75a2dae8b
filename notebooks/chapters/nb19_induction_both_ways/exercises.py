"""The exercises of notebook 19: mislead a model, and set by hand a head that finds a hidden token.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import copy

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import read_tensors
from chapters.nb19_induction_both_ways.repeats import repeats

ENOUGH = 0.8  # of the texts that have to be misled
FOUND = 0.6  # of its attention that a head set by hand has to give to the copy
STILL = 0.25  # of its attention, with a neighbor of the mask hidden as well


def finding_head(first, second):
    """W_O of L0H0 and L0H1, [d_head, d_model] -> W_Q and W_K, [d_model, d_head], of a finder."""
    reads = first.T + second.T
    return reads, reads


PAGES = {"19.2": finding_head}


def _misleads(answer, model, mask):
    length = 20
    hidden = repeats("in order", length, mask, model.tokenizer.bos, n_texts=20, seed=77)
    changed, wanted, n_changed = [], [], 0
    for seen, at, own in zip(hidden.seen.tolist(), hidden.at.tolist(), hidden.answers, strict=True):
        near, further = (seen[1 + (at + step) % (length - 2)] for step in (6, 8))
        wanted.append(further if near == own else near)
        given = [int(token) for token in attempted(answer(list(seen), at, wanted[-1]))]
        places = [i for i, pair in enumerate(zip(given, seen, strict=False)) if len({*pair}) > 1]
        wrong = [place for place in places if place <= length or place == at]
        if len(given) != len(seen) or not 1 <= len(places) <= 2 or wrong:
            said = f"of the second copy (positions {length + 1} to {2 * length})"
            raise NotYet(
                f"Change one or two tokens, {said}, and not the mask; you changed {places}."
            )
        changed.append(given)
        n_changed = max(n_changed, len(places))
    with torch.no_grad():
        logits = model(torch.tensor(changed))
    guesses = logits[torch.arange(len(changed)), hidden.at].argmax(dim=-1)
    share = (guesses == torch.tensor(wanted)).float().mean().item()
    kept = (guesses == hidden.answers).float().mean().item()
    said = f"the model says the wanted token in {share:.0%} of 20 texts"
    if share < ENOUGH:
        still = f" and still the hidden one in {kept:.0%}"
        why = "; one changed token leaves another that speaks for it" if n_changed == 1 else ""
        raise NotYet(f"{said}{still}{why}. {ENOUGH:.0%} are enough.")
    return f"{said}: it believes what stands beside the mask"


def _to_copy(model, W_Q, W_K, mask) -> list[float]:
    """Attention of L1H1 to the copy with these weights: as it is, no token before, none after."""
    made = copy.deepcopy(model)
    text = repeats("in order", 42, mask, model.tokenizer.bos, n_texts=30, seed=78)
    rows, shares = torch.arange(len(text.at)), []
    with torch.no_grad():
        made.blocks[1].attn.W_Q[1], made.blocks[1].attn.W_K[1] = W_Q, W_K
        for step in (0, -1, 1):
            seen = text.seen.scatter(1, text.at[:, None] + step, mask)
            pattern = made.run_with_cache(seen)[1]["L1.pattern"]
            shares.append(pattern[rows, 1, text.at, text.at - text.length].mean().item())
    return shares


def _finds(answer, model, mask):
    attn = model.blocks[0].attn
    first, second = (attn.W_O[h].detach().clone() for h in (0, 1))
    shape = tuple(first.T.shape)
    given = read_tensors(answer(first, second), W_Q=shape, W_K=shape)
    whole, no_before, no_after = _to_copy(model, *given, mask)
    if whole < FOUND:
        raise NotYet(
            f"Your head gives {whole:.0%} of its attention to the copy. Does it compare the note "
            "of each head with a note of the same head?"
        )
    if min(no_before, no_after) < STILL:
        side = "before" if no_before < no_after else "after"
        raise NotYet(
            f"It finds the copy, but only {min(no_before, no_after):.0%} of its attention is left "
            f"there when the token {side} the mask is hidden: your head reads one of the two notes."
        )
    return f"{whole:.0%} of its attention goes to the copy, and one neighbor is enough"


CHECKS = {"19.1": _misleads, "19.2": _finds}
