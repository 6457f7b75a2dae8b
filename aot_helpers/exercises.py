"""The notebooks' exercises: reference answers, and checks that say what is still wrong."""

from collections.abc import Callable

import torch
from torch import Tensor


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _softmax(scores, temperature):
    powers = ((scores - scores.max(-1, keepdim=True).values) / temperature).exp()
    return powers / powers.sum(-1, keepdim=True)


def _window(n_pos, window):
    return torch.tensor([[0 <= i - j < window for j in range(n_pos)] for i in range(n_pos)])


def _head(resid, W_Q, W_K, W_V, W_O):
    q, k, v = (resid @ W for W in (W_Q, W_K, W_V))
    return (
        torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[
            0
        ]
        @ W_O
    )


# exercise -> (reference answer, [arguments of each trial])
EXERCISES: dict[str, tuple[Callable, list[tuple]]] = {
    "03.1": (_softmax, [(_random(3, 5), 0.1), (_random(4), 10.0), (_random(2, 2, 6), 1.0)]),
    "03.2": (_window, [(5, 2), (6, 1), (4, 9)]),
    "03.3": (
        _head,
        [
            tuple(
                _random(*shape, seed=s)
                for s, shape in enumerate([(n, 8), (8, 4), (8, 4), (8, 4), (4, 8)])
            )
            for n in (1, 5)
        ],
    ),
}


def check(exercise: str, answer: Callable) -> bool:
    """Try the answer on a few inputs and print "not attempted", "not yet" with the first
    difference, or "solved"; True if solved. An answer that returns None is not attempted.
    """
    if exercise not in EXERCISES:
        raise ValueError(f"no exercise {exercise!r}; there are {', '.join(EXERCISES)}")
    reference, trials = EXERCISES[exercise]
    for arguments in trials:
        given, expected = answer(*arguments), reference(*arguments)
        if given is None:
            print(f"exercise {exercise}: not attempted")
            return False
        problem = _difference(given, expected)
        if problem:
            print(f"exercise {exercise}: not yet. For the arguments {_short(arguments)}: {problem}")
            return False
    print(f"exercise {exercise}: solved ({len(trials)} trials)")
    return True


def _difference(given, expected) -> str:
    if isinstance(expected, str | list | bool | int) and not isinstance(given, Tensor):
        return "" if given == expected else f"expected {expected!r}, got {given!r}"
    given, expected = torch.as_tensor(given), torch.as_tensor(expected)
    if given.shape != expected.shape:
        return f"expected shape {tuple(expected.shape)}, got {tuple(given.shape)}"
    if not torch.allclose(given.double(), expected.double(), atol=1e-5):
        return f"expected\n{expected}\ngot\n{given}"
    return ""


def _short(arguments: tuple) -> str:
    shown = [
        f"tensor of shape {tuple(a.shape)}" if isinstance(a, Tensor) else repr(a) for a in arguments
    ]
    return ", ".join(shown)
