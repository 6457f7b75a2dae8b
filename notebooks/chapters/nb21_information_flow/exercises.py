"""The exercises of notebook 21: edges kept, a graph mended, prunings misled.

PAGES has the package's version of what the reader writes, which is its folded solution.
"""

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw, read_numbers
from chapters.nb21_information_flow.measure import attend_edits

ATTENTION = torch.tensor([0.7, 0.15, 0.1, 0.05])
TOWARD = torch.tensor([1.0, 0.0, 0.0])


def attend(pattern, v, kept, rest):
    """What heads collect, z [query, head, d_head], if edges are kept: True in [head, query, key].

    v, rest [key, head, d_head]: what an edge carries, and what instead where it is dropped.
    """
    z = torch.einsum("hqk,khd->qhd", pattern * kept, v)
    return z + torch.einsum("hqk,khd->qhd", pattern * ~kept, rest)


PAGES = {"21.1": attend}


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


def _mend(answer, run, rests):
    """answer: two edges (head, query, key). rests: what dropped edges carry, by name."""
    config, n, kept = run.model.config, len(run.tokens), []
    if not isinstance(answer, list | tuple) or len(answer) != 2:
        raise NotYet("Give a list of two edges: [(head, query, key), (head, query, key)].")
    if any(edge is ... for edge in answer):
        raise NotAttempted
    mask = torch.zeros(config.n_layers, config.n_heads, n, n, dtype=torch.bool)
    for edge in answer:
        try:
            (layer, number), query, key = edge
            mask[layer, number, query, key] = True
        except (TypeError, ValueError, IndexError):
            raise NotYet(f"{edge} is no edge: write (aot.Head(1, 2), query, key).") from None
        if not 0 <= key <= query:
            raise NotYet("No head attends to a later token: the key stands before the query.")
        kept.append((layer, query, key))
    target, said = int(run.cache["logits"][0, -1].argmax()), {}
    for name, rest in rests.items():
        edits = attend_edits(attend, mask, rest)
        logits = run.model(run.tokens[None], edits=edits)[0, -1]
        said[name] = int(logits.argmax()), logits.softmax(dim=-1)[target].item()
    if all(first == target for first, _ in said.values()):
        odds = ", ".join(f"{p:.2f} with {name}s" for name, (_, p) in said.items())
        return f"its probability: {odds}"
    late = [key for layer, query, key in kept if (layer, query) == (1, n - 1)]
    early = [query for layer, query, _ in kept if layer == 0]
    if not late:
        raise NotYet(
            "One edge must end at the last token: a head of layer 1 that copies from there."
        )
    if not early:
        raise NotYet(
            "Both are in layer 1. Who has written what a head of layer 1 reads as its key?"
        )
    if late[0] != early[0]:
        raise NotYet(
            f"Layer 1 reads its key at @{late[0]}, but your other edge writes at @{early[0]}."
        )
    raise NotYet("The places fit together, but the two alone do not say the word.")


def _astray(answer):
    given = read_numbers(answer, 4, 3)
    parts = ATTENTION[:, None] * given
    shares = parts @ TOWARD
    whole = shares.sum().item()
    if whole < 0.1:
        raise NotYet(f"All four together add {whole:.2f} to the logit: let them add 0.1 at least.")
    orders = {"attention": ATTENTION, "length": parts.norm(dim=-1), "contribution": shares.abs()}
    left = {by: shares[size.argmax()].item() / whole for by, size in orders.items()}
    said = ", ".join(f"by {by} {share:.2f}" for by, share in left.items())
    if left["contribution"] < 0.9 or max(left["attention"], left["length"]) > 0.1:
        if max(left["attention"], left["length"]) > 0.1:
            loud = max(("attention", "length"), key=left.get)
            most = {"attention": "the most attention", "length": "the longest vector"}[loud]
            why = f"the edge with {most} still speaks for the target"
        else:
            why = "the target is said by several edges: leave it to one"
        raise NotYet(f"Of the logit, the one edge that is kept contributes: {said}; {why}.")
    return f"of the logit, the one edge that is kept contributes: {said}"


CHECKS = {"21.1": _attend, "21.2": _mend, "21.3": _astray}
