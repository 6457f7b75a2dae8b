"""The exercises of notebook 09: each answer is tried out, or compared with a reference."""

from functools import partial

import torch

from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.teaching.exercises import NotYet
from aot_helpers.teaching.exercises.references import against, draw, read_entries
from aot_helpers.text.batches import repeated_tokens

WRONG_LOSSES = {  # what to say: two numbers of the losses, of those of each own token, and n
    "Leave out the first token of the second copy: nothing tells of a repeat yet.": (
        lambda losses, _, n: (losses[:, :n].mean(), losses[:, n:].mean())
    ),
    "The signs are wrong: a loss is minus the logarithm.": (
        lambda losses, _, n: (-losses[:, :n].mean(), -losses[:, n + 1 :].mean())
    ),
    "The two are in the wrong order: first copy, second copy.": (
        lambda losses, _, n: (losses[:, n + 1 :].mean(), losses[:, :n].mean())
    ),
    "The second copy is cut short: it ends with the last token.": (
        lambda losses, _, n: (losses[:, :n].mean(), losses[:, n + 1 : -1].mean())
    ),
    "The logits at a position are about the next token, not about its own.": (
        lambda _, own, n: (own[:, :n].mean(), own[:, n + 1 :].mean())
    ),
}


def _wrong_losses(change, model, tokens):
    logits = model(tokens)
    own = -logits.log_softmax(dim=-1).gather(2, tokens[..., None])[..., 1:, 0]
    return change(next_token_losses(logits, tokens), own, tokens.shape[1] // 2)


@torch.no_grad()
def _copy_losses(answer, model, tokens):
    shorter = repeated_tokens(model.config.d_vocab, 7, 3, int(tokens[0, 0]), seed=5)
    mistakes = {message: partial(_wrong_losses, f, model) for message, f in WRONG_LOSSES.items()}
    against(partial(copy_losses, model), [(tokens,), (shorter,)], mistakes)(partial(answer, model))
    first, second = copy_losses(model, tokens)
    return f"the finished model: {first:.2f} nats, and {second:.2f} the second time"


SHIFTS = {  # what two heads of a single layer could do with it
    "keys of the token before": "copies",
    "values of the token before": "cannot",
    "queries of the token before": "cannot",
    "values of the token after": "cheats",
}
WHY = {  # of a wrong judgment
    "keys of the token before": (
        "at B the key says A, so the query of A finds it, and the value there says B."
    ),
    "values of the token before": (
        "the query of A finds the earlier A, and the value there says what came *before* it."
    ),
    "queries of the token before": (
        "the query at A asks for the token before A; what it finds says this token, which is known."
    ),
    "values of the token after": (
        "the value at the earlier A does say B; but what does the value at the *present* A say?"
    ),
}


def _shifts(answer):
    """answer: {shift: "copies", "cannot" or "cheats"}, as SHIFTS."""
    for name, judged in read_entries(answer, SHIFTS).items():
        if judged not in ("copies", "cannot", "cheats"):
            raise NotYet(f"{name}: say copies, cannot or cheats, not {judged!r:.40}.")
        if judged != SHIFTS[name]:
            raise NotYet(f"{name}, {judged}? Follow x A B … x A: {WHY[name]}")
    return "only a key can say what came before a token and leave the value free to say the token"


def descend(a, b, steps=150, rate=0.1):
    """Gradient descent on (1 - a b)² / 2 -> the product a b before each step, as a list."""
    products = []
    for _ in range(steps):
        products.append(a * b)
        missing = 1 - a * b
        a, b = a + rate * missing * b, b + rate * missing * a
    return products


def _descend_by(step, after=False):
    """A descent that makes some mistake: step(a, b, what is missing, rate) -> the new a, b."""

    def walk(a, b, steps=150, rate=0.1):
        products = []
        for _ in range(steps + after):
            products.append(a * b)
            a, b = step(a, b, 1 - a * b, rate)
        return products[after:]

    return walk


def _right(a, b, missing, rate):
    return a + rate * missing * b, b + rate * missing * a


def _in_turn(a, b, missing, rate):
    a += rate * missing * b
    return a, b + rate * (1 - a * b) * a


WRONG_DESCENTS = {  # what to say: a descent with this mistake
    "The sign is wrong: a step goes against the gradient, so the product should grow.": _descend_by(
        lambda a, b, missing, rate: (a - rate * missing * b, b - rate * missing * a)
    ),
    "The derivative by a has a factor b, and that by b a factor a: yours are exchanged.": (
        _descend_by(lambda a, b, missing, rate: (a + rate * missing * a, b + rate * missing * b))
    ),
    "A factor is missing: the derivative of 1 - a b by a is -b, not -1.": _descend_by(
        lambda a, b, missing, rate: (a + rate * missing, b + rate * missing)
    ),
    "Both numbers should step at once; yours takes the new a for the step of b.": (
        _descend_by(_in_turn)
    ),
    "Both numbers should step at once; yours takes the new a in one factor of the step of b.": (
        _descend_by(
            lambda a, b, missing, rate: (
                _right(a, b, missing, rate)[0],
                b + rate * missing * (a + rate * missing * b),
            )
        )
    ),
    "The loss has a factor 1/2, which cancels the 2 of the square; your steps are twice as long.": (
        _descend_by(lambda a, b, missing, rate: _right(a, b, missing, 2 * rate))
    ),
    "The first entry should be the product before any step.": _descend_by(_right, after=True),
}


def _as_tensor(walk):
    """The same descent, with its list of products as a tensor; what is no list stays."""

    def walked(*arguments):
        products = walk(*arguments)
        try:
            return (
                torch.tensor(products, dtype=torch.double)
                if isinstance(products, list)
                else products
            )
        except (TypeError, ValueError):
            raise NotYet(f"A list of numbers is wanted, got {products!r:.60}.") from None

    return walked


def _descend(answer):
    mistakes = {message: _as_tensor(walk) for message, walk in WRONG_DESCENTS.items()}
    trials = [(0.2, 0.5, 6, 0.1), (1.0, 0.01, 9, 0.2), (0.01, 0.01)]
    against(_as_tensor(descend), trials, mistakes)(_as_tensor(answer))
    half = next(i for i, product in enumerate(answer(0.01, 0.01)) if product >= 0.5)
    return f"from 0.01 and 0.01, half of the way is done at step {half} of 150"


def _counted(tokens, back):
    """The token `back` places back at each position, or -1."""
    return ([-1] * back + tokens)[: len(tokens)]


def _keys_after_copies(tokens):
    """[query][key], True at the keys that follow an earlier copy of the query's token."""
    at = range(len(tokens))
    rows = [[1 <= key <= query and tokens[key - 1] == tokens[query] for key in at] for query in at]
    return torch.tensor(rows)


def _honest_score(pattern, tokens, back, step=1, each=True):
    """step: -1 leaves out keys `back` *after* the query, 0 none. each: of queries with a key."""
    at = torch.arange(len(tokens))
    wanted = _keys_after_copies(tokens)
    wanted &= (at[:, None] - at != step * back) | (step == 0)
    weights = (pattern * wanted).sum(dim=1)
    return weights[wanted.any(dim=1)].mean() if each else weights.mean()


def _mean_key(pattern, tokens, back):
    at = torch.arange(len(tokens))
    return pattern[_keys_after_copies(tokens) & (at[:, None] - at != back)].mean()


CHECKS = {
    "09.1": _copy_losses,
    "09.2": _shifts,
    "09.3": _descend,
    "09.4": against(
        _counted,
        [([7, 8, 9, 7, 8, 9], 2), ([4, 5], 3), ([1, 2, 3], 0)],
        {
            "`tokens[:-back]` is empty for back = 0.": lambda tokens, back: (
                [-1] * back + tokens[:-back]
            ),
            "The first guesses come from the end of the list: an index below 0 is no place.": (
                lambda tokens, back: [tokens[(i - back) % len(tokens)] for i in range(len(tokens))]
            ),
            "You look ahead; look `back` places back.": (
                lambda tokens, back: [*tokens[back:], *[-1] * back][: len(tokens)]
            ),
            "At a position stands the guess for the *next* token, made `back` from here: yours is "
            "one place late.": lambda tokens, back: _counted(tokens, back + 1),
        },
    ),
    "09.5": against(
        _honest_score,
        [
            (draw(6, 6).softmax(-1), [3, 5, 3, 5, 3, 7], 1),
            (draw(7, 7, seed=1).softmax(-1), [1, 2, 3, 1, 2, 3, 1], 5),
            (draw(5, 5, seed=2).softmax(-1), [4, 4, 4, 9, 4], 3),  # several keys to one query
        ],
        {
            "A key that stands `back` before its query still counts.": partial(
                _honest_score, step=0
            ),
            "You leave out the wrong keys: query - key is `back`, not key - query.": partial(
                _honest_score, step=-1
            ),
            "Queries without such a key belong to no mean.": partial(_honest_score, each=False),
            "Where a query has several such keys, add up the attention to them, before the mean.": (
                _mean_key
            ),
        },
    ),
}

PAGES = {"09.1": copy_losses, "09.3": descend}
