"""The exercises of notebook 08: other words for a head, codes crossed out, a score fooled."""

import torch

from aot_helpers.teaching.exercises import Solved
from aot_helpers.teaching.exercises.references import near, read_numbers

NEAR = 0.2  # of 08.2
SPARE = 0.05  # by which the two may miss what is there for both
HIGH = 0.9  # of 08.3


def _reads(answer, v, read, W_V, head):
    """W_V [d_model, d_head] of this head."""
    given = v.clone()
    try:
        found = answer(given, read.clone(), W_V.clone(), head)
    except RuntimeError as problem:
        shapes = f"read {tuple(read.shape)}, W_V {tuple(W_V.shape)}, already that of head {head}"
        return f"It stops ({problem}). The shapes are: {shapes}."
    if found is None or found is ...:
        return None
    if not isinstance(found, torch.Tensor) or found.shape != v.shape:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else found
        return f"Values of all heads, of shape {tuple(v.shape)}, are wanted; got {shape!r}."
    wanted = v.clone()
    wanted[:, :, head] = read @ W_V
    if torch.allclose(found, wanted, atol=1e-4):
        changed = not torch.equal(given, v)
        return "Right, but the `v` you were given has changed, too: copy it." if changed else ""
    if torch.allclose(found, v, atol=1e-4):
        return "Nothing has changed."
    others = [h for h in range(v.shape[2]) if h != head]
    if not torch.allclose(found[:, :, others], v[:, :, others], atol=1e-4):
        return f"The values of other heads than number {head} have changed."
    if torch.allclose(found[:, :, head], (v + wanted)[:, :, head], atol=1e-4):
        return "The old values are still there: put the new ones in their place."
    return f"The values of head {head} are not the embeddings in `read` times its W_V."


def _shares(answer, truth):
    """truth: both shares; what they leave of the attention has been printed."""
    problem = near(answer, truth, NEAR)
    if problem and isinstance(answer, dict):
        guesses = [read_numbers(each)[0] for each in answer.values()]
        if guesses and all(each is not None for each in guesses):
            both, left = float(sum(guesses)), float(sum(truth.values()))
            if abs(both - left) > SPARE:
                problem += f" Together yours are {both:.2f}; there is {left:.2f} for both."
    if problem != "":
        return problem
    return Solved(", ".join(f"{name}: {share:.2f}" for name, share in truth.items()))


def _fooled(answer):
    table, problem = read_numbers(answer, 3, 3)
    if problem:
        return problem
    sums = table.sum(dim=1)
    if sums.abs().max() > 1e-3 * table.abs().max().clamp(min=1):
        return f"Each row must sum to zero; yours sum to {[round(x, 3) for x in sums.tolist()]}."
    values = torch.linalg.eigvals(table.double())
    size = values.abs().sum().item()
    if size < 1e-9:
        return "All eigenvalues are zero: there is no score."
    score = values.real.sum().item() / size
    for i, row in enumerate(table):
        if row[i] >= row.max():
            if (row == row[i]).sum() > 1:
                tie = f"Row {i} is a tie: word {i} raises itself as much as any other"
                return f"{tie}. Another word must be raised more (score {score:+.2f})."
            return f"Word {i} raises itself most (score {score:+.2f})."
    if score < HIGH:
        return f"No word raises itself most, but the score is {score:+.2f}; {HIGH} is wanted."
    return Solved(f"score {score:+.2f}, and no word raises itself most")


CHECKS = {
    "08.1": _reads,
    "08.2": _shares,
    "08.3": _fooled,
}
