"""Notebook 00: two names in two sentences, what they cost a model, and what copying them needs."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.interventions import ablate


def sentence(name, friend) -> str:
    """The text of notebook 00: both names (str), each twice.

    Raises ValueError for a name that is no text of 2 to 40 characters, or part of the other one.
    """
    for value in (name, friend):
        if not isinstance(value, str) or not 2 <= len(value.strip()) <= 40:
            raise ValueError(f"a name must be text of 2 to 40 characters, got {value!r}")
    name, friend = name.strip(), friend.strip()
    if name in friend or friend in name:
        raise ValueError(f"neither name may be part of the other, got {name!r} and {friend!r}")
    return _sentence(name, name, friend)


def _sentence(earlier, name, friend):
    return f"In the morning {friend} told {earlier} about the red kite. Then {name} met {friend}."


def encode(model: Model, text: str) -> Int[Tensor, " pos"]:
    """The tokens of a text, after the token that marks a beginning.

    Raises ValueError for more tokens than the model sees.
    """
    tokens = model.tokenizer.encode(text, bos=True)
    if len(tokens) > model.config.n_ctx:
        raise ValueError(
            f"the text has {len(tokens)} tokens, but the model sees {model.config.n_ctx}: "
            "take shorter names"
        )
    return tokens


@torch.no_grad()
def losses(model: Model, tokens: Int[Tensor, " pos"], edits=None) -> Float[Tensor, " pos-1"]:
    """The loss (nats) of each token after the first; edits: of activations, see `ablate`."""
    return next_token_losses(model(tokens[None], edits=edits), tokens[None])[0]


def mentions(model: Model, tokens: Int[Tensor, " pos"], name: str, times: int = 2) -> list[Tensor]:
    """The places of a name's pieces, [piece] for each mention.

    Raises ValueError for a name that does not occur so often, or is a single token.
    """
    piece = model.tokenizer.encode(" " + name.strip())
    starts = range(len(tokens) - len(piece) + 1)
    found = [i for i in starts if torch.equal(tokens[i : i + len(piece)], piece)]
    if len(found) != times or len(piece) < 2:
        raise ValueError(
            f"{name!r} must occur {times} times, as 2 tokens or more: take another name"
        )
    return [torch.arange(start, start + len(piece)) for start in found]


def made_up_names(n: int, seed: int) -> list[str]:
    """N names of two words of six random letters."""
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(26, (n, 2, 6), generator=generator)
    words = [["".join(chr(97 + int(x)) for x in word).title() for word in pair] for pair in letters]
    return [" ".join(pair) for pair in words]


def mention_losses(
    model: Model, names: list[str], friend: str, earlier: list[str] | None = None, edits=None
) -> tuple[Float[Tensor, " name"], Float[Tensor, " name"]]:
    """Mean loss (nats) of each name's pieces after the first: (first mention, second mention).

    earlier: other names in the first place; the first mention is then the second one, too.
    """
    rows = []
    for one, before in zip(names, earlier or names, strict=True):
        tokens = encode(model, _sentence(before, one, friend))
        each = losses(model, tokens, edits)
        places = mentions(model, tokens, one, times=1 if earlier else 2)
        rows.append([each[place[1:] - 1].mean() for place in (places[0], places[-1])])
    first, second = torch.tensor(rows).T
    return first, second


@torch.no_grad()
def second_mentions(
    model: Model, names: list[str], friend: str, edits=None
) -> list[tuple[list[int], int, int]]:
    """(tokens before, the token, the model's first choice), of each piece after the first one.

    Of the second mention of every name in the sentence of notebook 00.
    """
    found = []
    for name in names:
        tokens = encode(model, sentence(name, friend))
        choices = model(tokens[None], edits=edits)[0].argmax(dim=-1).tolist()
        _, second = mentions(model, tokens, name)
        ids = tokens.tolist()
        found += [(ids[:i], ids[i], choices[i - 1]) for i in second[1:].tolist()]
    return found


def right_where(
    places: list[bool], model: Model, names: list[str], friend: str, heads: list[Head]
) -> int:
    """How many of the chosen tokens of second mentions the model gets right without some heads."""
    found = second_mentions(model, names, friend, edits=ablate(model, heads))
    return sum(
        choice == token for chosen, (_, token, choice) in zip(places, found, strict=True) if chosen
    )
