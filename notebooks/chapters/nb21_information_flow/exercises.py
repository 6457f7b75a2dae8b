"""The exercises of notebook 21: edges kept, a graph mended, prunings misled.

PAGES has the package's version of what the reader writes, which is its folded solution.
"""

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw, read_numbers

LIKELY = 0.3  # so probable a mended graph makes its token
ATTENTION = torch.tensor([0.7, 0.15, 0.1, 0.05])
TOWARD = torch.tensor([1.0, 0.0, 0.0])


def attend(pattern, v, kept, rest):
    """What heads collect, z [query, head, d_head], if edges are kept: True in [head, query, key].

    v, rest [key, head, d_head]: what an edge carries, and what instead where it is dropped.
    """
    z = torch.einsum("hqk,khd->qhd", pattern * kept, v)
    return z + torch.einsum("hqk,khd->qhd", pattern * ~kept, rest)


PAGES = {"21.2": attend}


def _attend(answer):
    pattern, v, rest = draw(2, 4, 4).softmax(dim=-1), draw(4, 2, 3, seed=1), draw(4, 2, 3, seed=2)
    kept = draw(2, 4, 4, seed=3) > 0
    try:
        found = attempted(answer(pattern, v, kept, rest))
    except RuntimeError as error:  # of PyTorch: shapes that do not meet
        raise NotYet(f"{str(error).splitlines()[0]}. Sum over the keys, head by head.") from None
    zero, none = torch.zeros_like(rest), torch.zeros_like(kept)
    again = (pattern * kept) / (pattern * kept).sum(dim=-1, keepdim=True).clamp(min=1e-9)
    mistakes = {
        "The dropped edges are missing: they carry rest.": attend(pattern, v, kept, zero),
        "You keep the edges that are dropped, and drop the kept ones.": attend(
            pattern, v, ~kept, rest
        ),
        "All edges are kept.": attend(pattern, v, ~none, rest),
        "A dropped edge keeps its attention: rest counts times the pattern.": (
            attend(pattern, v, kept, zero) + torch.einsum("hqk,khd->qhd", (~kept).float(), rest)
        ),
        "Do not divide again: the kept attention weights stay as they are.": (
            attend(again, v, ~none, rest)
        ),
        "The axes are [query, head, d_head].": attend(pattern, v, kept, rest).transpose(0, 1),
    }
    compared(found, attend(pattern, v, kept, rest), mistakes)
    return "with zeros as rest this is zero ablation, with mean values it is mean ablation"


def _mend(answer, run_alone, rests, kept, target):
    """answer: the edge (head, query, key) that is missing in kept [layer, head, query, key].

    run_alone(kept, rest): the last logits, and more, with these edges alone. rests: what dropped
    edges carry, by name.
    """
    if answer is ...:
        raise NotAttempted
    if isinstance(answer, list) and len(answer) == 1:
        (answer,) = answer
    try:
        (layer, number), query, key = answer
        known = bool(kept[layer, number, query, key])
    except (TypeError, ValueError, IndexError):
        raise NotYet(f"{answer} is no edge: write (aot.Head(1, 2), query, key).") from None
    if not 0 <= key <= query:
        raise NotYet("No head attends to a later token: the key stands before the query.")
    if known:
        raise NotYet("This line is in the picture already.")
    mended = kept.clone()
    mended[layer, number, query, key] = True
    runs = {name: run_alone(mended, rest)[0] for name, rest in rests.items()}
    p_target = {name: logits.softmax(dim=-1)[target].item() for name, logits in runs.items()}
    odds = ", ".join(f"{p:.2f} with {name}s" for name, p in p_target.items())
    first = all(logits.argmax() == target for logits in runs.values())
    if first and min(p_target.values()) >= LIKELY:
        return f"its probability: {odds}"
    if layer == len(kept) - 1:
        raise NotYet(
            f"The probability is {odds}. Who has written what a head of the last layer reads as "
            "its key? Only an earlier layer can have."
        )
    reads = sorted(set(kept[-1].nonzero()[:, 2].tolist()))
    if query not in reads:
        raise NotYet(
            f"The probability is {odds}. Your line writes at @{query}, but the last layer reads "
            f"its keys at {', '.join(f'@{at}' for at in reads)}."
        )
    raise NotYet(
        f"The probability is {odds}. The line ends at a good place; what has to be written there, "
        "and which head takes it from where?"
    )


def _astray(answer):
    given = read_numbers(answer, 4, 3)
    parts = ATTENTION[:, None] * given
    added = parts @ TOWARD
    whole = added.sum().item()
    if whole < 0.1:
        raise NotYet(f"All four together add {whole:.2f} to the logit: let them add 0.1 at least.")
    orders = {"attention": ATTENTION, "length": parts.norm(dim=-1), "contribution": added.abs()}
    left = {by: added[size.argmax()].item() / whole for by, size in orders.items()}
    each = ", ".join(f"by {by} {fraction:.2f}" for by, fraction in left.items())
    if left["contribution"] < 0.9 or max(left["attention"], left["length"]) > 0.1:
        if max(left["attention"], left["length"]) > 0.1:
            loud = max(("attention", "length"), key=left.get)
            most = {"attention": "the most attention", "length": "the longest vector"}[loud]
            why = f"the edge with {most} still speaks for the target"
        else:
            why = "the target is said by several edges: leave it to one"
        raise NotYet(f"Of the logit, the one edge that is kept contributes: {each}; {why}.")
    return f"of the logit, the one edge that is kept contributes: {each}"


CHECKS = {"21.1": _astray, "21.2": _attend, "21.3": _mend}
