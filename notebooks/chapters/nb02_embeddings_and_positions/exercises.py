"""The exercises of notebook 02: cosines, a test of equivariance, who notices a swap, sinusoids.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw, read_numbers
from chapters.nb02_embeddings_and_positions.measure import cosines, random_model


def order_gap(model, tokens, order):
    """The largest difference between the outputs of reordered tokens and reordered outputs.

    model: tokens [batch, pos] -> [batch, pos, d]. order: a permutation of the positions, [pos].
    """
    reordered_before = model(tokens[:, order])
    reordered_after = model(tokens)[:, order]
    return (reordered_before - reordered_after).abs().max().item()


def sinusoids(n_ctx, d_model, base=10_000.0):
    """The sinusoidal positional encoding of Vaswani et al. 2017: [n_ctx, d_model]."""
    rates = base ** (-torch.arange(0, d_model, 2) / d_model)  # radians per step: [pair]
    angles = torch.arange(n_ctx)[:, None] * rates  # [pos, pair]
    table = torch.empty(n_ctx, d_model)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table


PAGES = {"02.1": cosines, "02.2": order_gap, "02.4": sinusoids}


def _cosines(answer):
    for n, m, d in ((4, 6, 3), (5, 5, 8)):
        rows, others = draw(n, d, seed=n), draw(m, d, seed=m + 10)
        dots = rows @ others.T
        by_columns = (rows / rows.norm(dim=0)) @ (others / others.norm(dim=0)).T
        mistakes = {
            "These are dot products: the lengths of the rows still count.": dots,
            "The rows have length 1, the others have not.": dots / rows.norm(dim=1, keepdim=True),
            "You divide by the columns' lengths: each row needs length 1 (dim=1).": by_columns,
            "These are distances.": torch.cdist(rows, others),
        }
        compared(answer(rows, others), cosines(rows, others), mistakes)
    return "a row's length no longer counts: only where it points"


def _order_gap(answer):
    table, places = draw(7, 5, seed=1), draw(5, 5, seed=2)
    models = {
        "a model that sees each token alone": lambda t: table[t],
        "a model that adds a row for the position": lambda t: table[t] - 2 * places,
        "a model that adds up what came before": lambda t: -table[t].cumsum(dim=1),
    }
    tokens, order = torch.tensor([[3, 0, 6, 1, 4]]), torch.tensor([2, 4, 1, 0, 3])
    for name, model in models.items():
        given, expected = answer(model, tokens, order), order_gap(model, tokens, order)
        number = read_numbers(attempted(given), name=f"For {name}")
        if abs(number - expected) < 1e-4:
            continue
        before, after = model(tokens[:, order]), model(tokens)[:, order]
        back = model(tokens)[:, torch.argsort(order)]
        mistakes = {
            "You compare with the outputs in their old places: reorder them, too.": (
                (before - model(tokens)).abs().max()
            ),
            "You reorder the outputs with the inverse permutation: index them by `order` as "
            "well.": (before - back).abs().max(),
            "Take the absolute value first: a large negative difference counts as well.": (
                (before - after).max()
            ),
            "The largest difference is wanted, not the mean.": (before - after).abs().mean(),
        }
        for said, mistake in mistakes.items():
            if abs(number - mistake) < 1e-4:
                raise NotYet(said)
        raise NotYet(f"For {name} the number is {expected:.3f}; yours is {number:.3f}.")
    return "it is 0 for a model that sees each token alone, and not for two that see order"


def _noticing(n_layers: int) -> set[int]:
    """The positions whose logits change when the first two of four tokens change places."""
    old, new = torch.tensor([[0, 1, 2, 3], [1, 0, 2, 3]])
    with torch.random.fork_rng():  # the notebook's own draws stay the same
        model = random_model("none", n_layers)
    change = (model(new[None]) - model(old[None])).abs().amax(dim=-1)[0]
    return set((change > 1e-4).nonzero().flatten().tolist())


def _places(answer):
    if not isinstance(answer, dict) or set(answer) != {1, 2}:
        raise NotYet(f"A dict with the keys 1 and 2 is wanted, got {answer!r}.")
    if any(each is ... for each in answer.values()):
        raise NotAttempted
    for n_layers, places in answer.items():
        if not isinstance(places, list | tuple | set | range) or not set(places) <= set(range(4)):
            raise NotYet(f"{n_layers}: a list of positions from 0 to 3 is wanted, got {places!r}.")
        if wrong := len(_noticing(n_layers) ^ set(places)):
            about = f"{wrong} of the 4 positions"
            raise NotYet(f"Layers: {n_layers}. Your list is wrong about {about}.")
    return "one layer sees a bag of earlier tokens; two layers see their order"


def _sinusoids(answer):
    for n_ctx, d_model, base in ((6, 8, 10_000.0), (5, 4, 100.0)):
        right = sinusoids(n_ctx, d_model, base)
        sines, cosines_ = right[:, 0::2], right[:, 1::2]
        own = torch.arange(n_ctx)[:, None] / base ** (torch.arange(d_model) / d_model)
        apart = torch.where(torch.arange(d_model) % 2 == 0, own.sin(), own.cos())
        mistakes = {
            "The sines and the cosines stand in two halves; in the paper they alternate: "
            "columns 0, 2, 4, … are sines.": torch.cat([sines, cosines_], dim=1),
            "The cosines are missing: columns 1, 3, 5, … are cosines of the same angles.": (
                sines.repeat_interleave(2, dim=1)
            ),
            "Sine and cosine have changed places.": torch.stack([cosines_, sines], -1).flatten(1),
            "Sine and cosine of a pair share one angle; yours has an angle for each column.": apart,
            "The exponent is 2i / d_model with i = 0, 1, 2, …: yours is half of it.": (
                sinusoids(n_ctx, d_model, base**0.5)
            ),
            "The rate grows: divide the position by base^(2i/d_model).": (
                sinusoids(n_ctx, d_model, 1 / base)
            ),
            "You use the default base; take the argument.": sinusoids(n_ctx, d_model),
            "Your positions count from 1; they count from 0.": (
                sinusoids(n_ctx + 1, d_model, base)[1:]
            ),
            "These are rows of dimensions: positions go down, dimensions across.": right.T,
        }
        compared(answer(n_ctx, d_model, base), right, mistakes)
    return "a row for every position, of any length, and nothing to train"


CHECKS = {"02.1": _cosines, "02.2": _order_gap, "02.3": _places, "02.4": _sinusoids}
