"""The exercises of notebook 17: a detector, a rival name, a table of places, a guess.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import near

NEAR = 0.15  # how far a guess of a share may be off
BETTER = 0.3  # what a rival name has to fit


def fit(patterns, named):
    """[prompt, head]: patterns [prompt, head, row, word], named [row]; rows 3 to 9 count."""
    hits = (patterns.argmax(dim=-1) == named)[..., 3:]
    chance = (1 / torch.arange(4, 11)).mean()  # row q has q + 1 words
    return (hits.double().mean(dim=-1) - chance) / (1 - chance)


def rival(words):
    """[row]: the number of the word that is named in each row of a text of these words."""
    liked = ["house", "movie", "performance", "actor", "story", "family", "idea"]
    named = []
    for row in range(len(words)):
        found = [i for i in range(row + 1) if words[i] in liked]
        named.append(found[-1] if found else 0)
    return named


def place_table(four, stands):
    """[stands_at, place]: four [order, query, place], stands [order], the noun's place."""
    shares = four / four.sum(dim=-1, keepdim=True)
    return torch.stack([shares[stands == place].mean(dim=(0, 1)) for place in range(4)])


PAGES = {"17.1": fit, "17.2": rival, "17.3": place_table}


def _alike(found, expected):
    return torch.allclose(found.double(), expected.double(), atol=1e-5, equal_nan=True)


def _tensor(found, shape, what):
    """The answer, if it is a tensor of this shape. Raises NotYet."""
    attempted(found)
    if not isinstance(found, torch.Tensor) or found.shape != shape:
        got = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise NotYet(f"{what} are wanted, shape {tuple(shape)}; got {got}.")
    return found


def _fit(answer):
    weights = torch.rand(4, 3, 10, 10, generator=torch.Generator().manual_seed(0)).tril()
    patterns, rows = weights / weights.sum(dim=-1, keepdim=True), torch.arange(10)
    for name, named in {"topic": torch.ones(10), "previous": rows - 1}.items():
        right = fit(patterns, named)
        found = _tensor(answer(patterns, named), right.shape, "For 4 prompts and 3 heads, 12 fits")
        hits = (patterns.argmax(dim=-1) == named).double()
        chance, rate = 1 / (rows + 1), hits[..., 3:].mean(dim=-1)
        least = (patterns.argmin(dim=-1) == named)[..., 3:].double().mean(dim=-1)
        luck = chance[3:].mean()
        mistakes = {
            "this is the rate of hits: chance is not taken off": rate,
            "divide by 1 - chance, so that a head that always hits gets 1": rate - luck,
            "row q has q + 1 words, and not always ten": (rate - 0.1) / 0.9,
            "row q has q + 1 words, not q": (rate - (1 / rows[3:]).mean())
            / (1 - (1 / rows[3:]).mean()),
            "rows 0 to 2, the prompt, are counted as well": (hits.mean(dim=-1) - chance.mean())
            / (1 - chance.mean()),
            "the smallest weight counts, not the largest": (least - luck) / (1 - luck),
        }
        if not _alike(found, right):
            said = [m for m, each in mistakes.items() if _alike(found, each)]
            hint = f": {said[0]}" if said else ""
            raise NotYet(
                f"As {name}: {right[0, 0]:.3f} for the first prompt and head, got "
                f"{found[0, 0]:.3f}{hint}."
            )
    return "0 is a head that chooses words at random, and 1 a head that always hits"


def _rival(answer, one, maps, head):
    def named_in(words):
        named = torch.as_tensor(attempted(answer(words)))
        if named.shape != (len(words),):
            raise NotYet(f"{words}: one number for each row, {len(words)} in all, please.")
        late = named[3:] > torch.arange(3, len(words))
        if late.any():
            row = 3 + int(late.nonzero()[0])
            raise NotYet(
                f"{words}: row {row} cannot attend to word {int(named[row])}, a later one."
            )
        return named

    on_one = named_in(one.text.words)
    if (wrong := (on_one[3:] != 1).nonzero()[:, 0] + 3).numel():
        row = int(wrong[0])
        word = one.text.words[int(on_one[row])]
        raise NotYet(
            f"On the one prompt, row {row} has to name {one.text.words[1]!r}, not {word!r}."
        )
    words = torch.stack([m.words for m in maps])[:, head : head + 1]
    named = torch.stack([named_in(m.text.words) for m in maps])[:, None]
    topic = fit(words, torch.ones(named.shape[-1])).mean().item()
    found = fit(words, named).mean().item()
    if found < BETTER:
        said = f"On the prompts it fits {found:.2f}, and *topic* {topic:.2f}"
        raise NotYet(f"{said}; at least {BETTER} is wanted.")
    return (
        f"it fits {found:.2f}, *topic* {topic:.2f}: two names, one picture, but one rule is better"
    )


def _places(answer):
    generator = torch.Generator().manual_seed(1)
    four = torch.rand(24, 6, 4, dtype=torch.double, generator=generator)
    four *= torch.rand(24, 6, 1, dtype=torch.double, generator=generator) ** 8
    stands = torch.arange(24) % 4
    right, wanted = place_table(four, stands), "Four rows of four shares"
    found = _tensor(answer(four, stands), right.shape, wanted)

    def over_orders(shares):
        return torch.stack([shares[stands == place].mean(dim=0) for place in range(4)])

    late = over_orders(four.mean(dim=1))
    mean = four.mean(dim=1)
    mistakes = {
        "the six queries are not divided by what they give to the four places": late,
        "divide each query by its own sum before any mean; else a query that leaves half a percent "
        "outweighs all that leave a thousandth": late / late.sum(dim=-1, keepdim=True),
        "divide each query by its sum before the mean over queries": over_orders(
            mean / mean.sum(dim=-1, keepdim=True)
        ),
        "rows are where the noun stands, columns what is attended to": right.T,
        "each row is to be a mean over the orders in which the noun stands there": (
            four / four.sum(dim=-1, keepdim=True)
        )
        .mean(dim=(0, 1))
        .expand(4, 4),
    }
    if not _alike(found, right):
        said = [m for m, each in mistakes.items() if _alike(found, each)]
        hint = f": {said[0]}" if said else ""
        raise NotYet(f"In a test the first row begins with {right[0, 0]:.3f}, got "
                     f"{found[0, 0]:.3f}{hint}.")  # fmt: skip
    return "every query counts alike now, however little BOS leaves it"


def _rests(first, second, model, head, text):
    half = (text.shape[1] - 1) // 2
    with torch.no_grad():
        _, cache = model.run_with_cache(text)
    on_bos = cache[f"L{head.layer}.pattern"][:, head.head, :, 0].mean(dim=0)
    first_true, second_true = on_bos[1 : half + 1].mean().item(), on_bos[half + 2 :].mean().item()
    near({"first": first, "second": second}, {"first": first_true, "second": second_true}, NEAR)
    found = f"measured {first_true:.2f} in the first copy, {second_true:.2f} in the second"
    return f"{found}: it is an induction head, which waits for a token that returns"


CHECKS = {
    "17.1": _fit,
    "17.2": _rival,
    "17.3": _places,
    "17.4": _rests,
}
