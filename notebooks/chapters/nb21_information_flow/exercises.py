"""The exercises of notebook 21: an edge predicted, a head unfolded, two prunings led astray."""

import torch

from aot_helpers.teaching.exercises import NotYet
from aot_helpers.teaching.exercises.references import against, draw, read_numbers
from chapters.nb21_information_flow.flow import run_of
from chapters.nb21_information_flow.flow_graph import flow_graph, prune

ATTENTION = torch.tensor([0.7, 0.15, 0.1, 0.05])
TOWARD = torch.tensor([1.0, 0.0, 0.0])


def _circuit(answer, model, tokens):
    """answer: the places of the value, of the copy before it and of the query, in any order."""
    answer = sorted(answer) if isinstance(answer, set | frozenset) else answer
    given = read_numbers(answer, 3)
    target = int(model(tokens[None])[0, -1].argmax())
    graph = prune(flow_graph(run_of(model, tokens), [target]))
    places = sorted({node.pos for node in graph.nodes})
    if sorted(given.tolist()) == places:
        return f"the graph has boxes at {places} and nowhere else"
    right = len({*given.tolist()} & {*places})
    raise NotYet(
        f"{right} of your three places are in the graph. Where did the last token stand before?"
    )


def _unfolded(streams, W_V, W_O, a):
    return torch.stack([a[:, None] * (x @ W_V @ W_O) for x in streams])


def _unfold(answer):
    try:
        against(_unfolded, TRIALS)(answer)
    except RuntimeError as error:  # of PyTorch: shapes that do not meet
        said = str(error).split("\n")[0]
        raise NotYet(
            f"{said}. Turn each key's row by W_V and W_O first; a is one number for each key."
        ) from None


def _astray(answer):
    given = read_numbers(answer, 4, 3)
    parts = ATTENTION[:, None] * given
    shares = parts @ TOWARD
    whole = shares.sum().item()
    if whole < 0.1:
        raise NotYet(f"All four together add {whole:.2f} to the logit: let them add 0.1 at least.")
    orders = {"attention": ATTENTION, "length": parts.norm(dim=-1), "share": shares.abs()}
    left = {by: shares[size.argmax()].item() / whole for by, size in orders.items()}
    said = ", ".join(f"by {by} {share:.2f}" for by, share in left.items())
    if left["share"] < 0.9 or max(left["attention"], left["length"]) > 0.1:
        raise NotYet(f"Of the logit, the one edge that is kept brings: {said}.")
    return f"of the logit, the one edge that is kept brings: {said}"


TRIALS = [  # components, keys, d_model: the first is small, to be shown
    (draw(n, keys, d, seed=d), draw(d, 2, seed=d + 10), draw(2, d, seed=d + 20),
     draw(keys, seed=d + 30).softmax(dim=0))
    for n, keys, d in ((1, 2, 3), (3, 5, 4))
]  # fmt: skip
CHECKS = {"21.1": _circuit, "21.2": _unfold, "21.3": _astray}
