"""The exercises of notebook 17: a rival name, a text that wakes a head, a guess.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import near, read_numbers

NEAR = 0.15  # how far a guess of a share may be off
BETTER = 0.5  # the rate of hits that a rival name has to reach
AWAKE = 0.5  # a head is awake where BOS gets less


def hits(maps, named):
    """How many of the rows 3 to 9 attend most to the word named: [prompt]."""
    return (maps.argmax(dim=-1) == named)[..., 3:].double().mean(dim=-1)


def rival(words):
    """[row]: the number of the word that is named in each row of a text of these words."""
    liked = ["house", "movie", "performance", "actor", "story", "family", "idea"]
    named = []
    for row in range(len(words)):
        found = [i for i in range(row + 1) if words[i] in liked]
        named.append(found[-1] if found else 0)
    return named


PAGES = {"17.1": rival}


def _rival(answer, one, texts, maps):
    def named_in(words):
        try:
            named = torch.as_tensor(attempted(answer(words)))
        except (TypeError, ValueError, RuntimeError):
            named = torch.zeros(0)  # no numbers
        if named.shape != (len(words),):
            raise NotYet(f"{words}: one number for each row, {len(words)} in all, please.")
        late = named[3:] > torch.arange(3, len(words))
        if late.any():
            row = 3 + int(late.nonzero()[0])
            raise NotYet(
                f"{words}: row {row} cannot attend to word {int(named[row])}, a later one."
            )
        return named

    on_one = named_in(one)
    if (wrong := (on_one[3:] != 1).nonzero()[:, 0] + 3).numel():
        row = int(wrong[0])
        word = one[int(on_one[row])]
        raise NotYet(f"In the first picture, row {row} has to name {one[1]!r}, not {word!r}.")
    named = torch.stack([named_in(text.words) for text in texts])
    topic = hits(maps, torch.ones(named.shape[-1])).mean().item()
    found = hits(maps, named).mean().item()
    if torch.equal(named[:, 3:], torch.ones_like(named[:, 3:])):
        raise NotYet(f"This is *topic* itself, with {topic:.0%} of the rows.")
    if found < BETTER:
        first = hits(maps, torch.zeros(named.shape[-1])).mean().item()
        said = f"Held out, it names {found:.0%} of the rows (*topic* {topic:.0%}, *the first "
        raise NotYet(f"{said}word* {first:.0%}); at least {BETTER:.0%} are wanted.")
    return f"{found:.0%} of the rows, *topic* {topic:.0%}, and on the first picture they are alike"


def _wakes(text, model, head):
    if not isinstance(attempted(text), str) or not text:
        raise NotYet("A text is wanted, in quotation marks.")
    tokens = model.tokenizer.encode(text, bos=True)
    if len(tokens) > model.config.n_ctx:
        raise NotYet(f"These are {len(tokens)} tokens; the model reads {model.config.n_ctx}.")
    with torch.no_grad():
        pattern = model.run_with_cache(tokens[None])[1][f"L{head.layer}.pattern"]
    on_bos = pattern[0, head.head, 1:, 0]
    least, token = on_bos.min(), model.tokenizer.token_strings(tokens[1:])[int(on_bos.argmin())]
    if least >= AWAKE:
        hint = "it sleeps all through" if least > 0.99 else "it stirs, but sleeps on"
        raise NotYet(f"At no token does BOS get less than {least:.3f} (at {token!r}): {hint}.")
    said = f"at {token!r} BOS gets {least:.3f}"
    if "\n" not in token:
        said += "; but the prompts hold another token at which it always wakes"
    return said


def _number(guess) -> float:
    return read_numbers(guess).item()


def _rests(first, second, model, head, text):
    half = (text.shape[1] - 1) // 2
    with torch.no_grad():
        _, cache = model.run_with_cache(text)
    on_bos = cache[f"L{head.layer}.pattern"][:, head.head, :, 0].mean(dim=0)
    first_true, second_true = on_bos[1 : half + 1].mean().item(), on_bos[half + 2 :].mean().item()
    if first_true - NEAR <= _number(second) and _number(first) <= second_true + NEAR:
        raise NotYet("The other way round: in which copy has a token already been there?")
    near({"first": first, "second": second}, {"first": first_true, "second": second_true}, NEAR)
    found = f"measured {first_true:.2f} in the first copy, {second_true:.2f} in the second"
    return f"{found}: it is an induction head, which waits for a token that returns"


CHECKS = {
    "17.1": _rival,
    "17.2": _wakes,
    "17.3": _rests,
}
