"""The exercises of notebook 02: grammar in weights, equivariance, who notices a swap or a mirror.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

from itertools import combinations

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import (
    check_mistakes,
    draw,
    read_entries,
    read_numbers,
)
from aot_helpers.text import stories
from chapters.nb02_embeddings_and_positions.measure import cosines, random_model


def order_gap(model, tokens, order):
    """The largest difference between the outputs of reordered tokens and reordered outputs.

    model: tokens [batch, pos] -> [batch, pos, d]. order: a permutation of the positions, [pos].
    """
    reordered_before = model(tokens[:, order])
    reordered_after = model(tokens)[:, order]
    return (reordered_before - reordered_after).abs().max().item()


PAGES = {"02.2": order_gap}


def _most_alike(rows, words: list[str], n: int) -> set[frozenset]:
    """The n pairs of words whose rows have the largest cosines."""
    alike = cosines(rows, rows)
    ranked = sorted(combinations(range(len(words)), 2), key=lambda pair: -alike[pair])
    return {frozenset((words[i], words[j])) for i, j in ranked[:n]}


def _pairs(answer, model):
    pairs = attempted(answer)
    sharing = {frozenset(nouns) for nouns in stories.THINGS.values()}
    things = sorted(set().union(*sharing))
    if not isinstance(pairs, list | tuple | set) or not all(
        isinstance(pair, list | tuple | set) and len(pair) == 2 for pair in pairs
    ):
        raise NotYet('A list of pairs, please, such as [("kite", "boat"), ...].')
    pairs = [[str(thing).strip() for thing in pair] for pair in pairs]
    if unknown := {thing for pair in pairs for thing in pair} - set(things):
        raise NotYet(f"{min(unknown)!r} is none of the ten things.")
    if any(a == b for a, b in pairs):
        raise NotYet("A thing is always most similar to itself: pairs of two things are wanted.")
    guessed = set(map(frozenset, pairs))
    if len(guessed) < len(pairs):
        raise NotYet("A pair is there twice: (a, b) and (b, a) are the same pair.")
    if len(guessed) != len(sharing):
        raise NotYet(f"{len(sharing)} pairs, please; yours are {len(guessed)}.")
    if guessed == sharing:
        return "the columns know all of them, because each column says what comes before"
    at = [int(model.tokenizer.encode(" " + thing)[0]) for thing in things]
    if guessed == _most_alike(model.W_E[at], things, len(sharing)):
        raise NotYet(
            "These have the most similar rows. A row says what comes next, and the adjective came "
            "before."
        )
    raise NotYet(f"{len(guessed & sharing)} of your 7 pairs share an adjective.")


def _order_gap(answer):
    table, places = draw(7, 5, seed=1), draw(5, 5, seed=2)
    models = {
        "a model that sees each token alone": lambda t: table[t],
        "a model that adds a row for the position": lambda t: table[t] - 2 * places,
        "a model that adds up what came before": lambda t: -table[t].cumsum(dim=1),
    }
    tokens, order = torch.tensor([[3, 0, 6, 1, 4]]), torch.tensor([2, 4, 1, 0, 3])
    for name, model in models.items():
        after, before = model(tokens[:, order]), model(tokens)
        changes = after - before[:, order]
        given = read_numbers(attempted(answer(model, tokens, order)), name=f"For {name}")
        if abs(given - changes.abs().max()) < 1e-4:
            continue
        mistakes = {
            "You compare with the outputs in their old places: reorder them, too.": (
                (after - before).abs().max()
            ),
            "You reorder the outputs with the inverse permutation: index them by `order` as "
            "well.": (after - before[:, order.argsort()]).abs().max(),
            "Take the absolute value first: a large negative difference counts as well.": (
                changes.max()
            ),
            "The largest difference is wanted, not the mean.": changes.abs().mean(),
        }
        check_mistakes(given, mistakes)
        raise NotYet(f"For {name} the number is {changes.abs().max():.3f}; yours is {given:.3f}.")
    return "it is 0 for a model that sees each token alone, and not for two that see order"


def _noticing(n_layers: int) -> set[int]:
    """The positions whose logits change when the first two of four tokens change places."""
    old, new = torch.tensor([[0, 1, 2, 3], [1, 0, 2, 3]])
    with torch.random.fork_rng():  # the notebook's own draws stay the same
        model = random_model("none", n_layers)
    change = (model(new[None]) - model(old[None])).abs().amax(dim=-1)[0]
    return set((change > 1e-4).nonzero().flatten().tolist())


def _places(answer):
    for n_layers, places in read_entries(answer, (1, 2)).items():
        if not isinstance(attempted(places), list | tuple | set | range) or set(places) - {
            *range(4)
        }:
            raise NotYet(f"{n_layers}: a list of positions from 0 to 3 is wanted, got {places!r}.")
        if wrong := len(_noticing(n_layers) ^ set(places)):
            hint = _hint(n_layers, set(places))
            raise NotYet(
                f"Layers: {n_layers}. Your list is wrong about {wrong} of the 4 positions. {hint}"
            )
    return "one layer sees a bag of earlier tokens; two layers see their order"


def _hint(n_layers: int, places: set[int]) -> str:
    """What a wrong list of positions forgets."""
    if not {0, 1} <= places:
        return "At positions 0 and 1 stands another token than before: can that go unnoticed?"
    if n_layers == 1:
        return (
            "From 2 on, one layer takes its average over the same tokens: does it see their order?"
        )
    return "What layer 1 wrote at positions 0 and 1 has changed: who reads it in layer 2?"


def _unnoticed(answer, model, tokens):
    order = attempted(answer)
    if not isinstance(order, list | tuple) or sorted(order) != list(range(tokens.shape[1])):
        raise NotYet(f"Each of the positions 0 to 4 once, in a list; yours is {order!r}.")
    if list(order) == sorted(order):
        raise NotYet("This is the order in which they stand.")
    if (gap := order_gap(model, tokens, torch.tensor(order))) > 1e-4:
        at = {p: i for i, p in enumerate(order)}
        a, b = next(
            (a, b) for a, b in combinations(range(len(order)), 2) if abs(at[a] - at[b]) != b - a
        )
        raise NotYet(
            f"It notices: the order gap is {gap:.2f}. Positions {a} and {b} were {b - a} apart, "
            f"and now they are {abs(at[a] - at[b])} apart."
        )
    return f"order gap {gap:.0e}: all distances are the same, so it reads both ways alike"


CHECKS = {"02.1": _pairs, "02.2": _order_gap, "02.3": _places, "02.4": _unnoticed}
