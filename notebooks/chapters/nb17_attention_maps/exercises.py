"""The exercises of notebook 17: a detector, a map that fools it, and a guess."""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import near, read_numbers
from chapters.nb17_attention_maps.measure import Maps, Text, fits

N_WORDS, LITTLE = 10, 0.2
NEAR = 0.15  # how far a guess of a share may be off
WORDS = (
    ["This", "movie", "is", "bad", ".", "I", "think", ",", "so"],
    [".", ",", "a"],
    ["no", "mark"],
)


def _last_mark(words):
    wanted = torch.zeros(len(words), len(words), dtype=torch.bool)
    for query in range(len(words)):
        marks = [key for key in range(query) if words[key] in ",.!?"]
        if marks:
            wanted[query, marks[-1]] = True
    return wanted


def _marks(answer):
    for words in WORDS:
        given, expected = answer(words), _last_mark(words)
        attempted(given)
        given = torch.as_tensor(given)
        if given.dtype != torch.bool or given.shape != expected.shape:
            raise NotYet(
                f"{words}: a table of True and False, {len(words)} by {len(words)}, please."
            )
        wrong = (given != expected).any(dim=-1).nonzero()
        if len(wrong):
            query = int(wrong[0])
            yours, right = (each[query].nonzero()[:, 0].tolist() for each in (given, expected))
            raise NotYet(
                f"{words}: query {query} must look at {right or 'no word'}; yours: {yours}."
            )


def _fools(pattern):
    pattern = read_numbers(pattern, N_WORDS, N_WORDS)
    if pattern.triu(1).any() or (pattern < 0).any():
        raise NotYet("Shares are not negative, and nothing above the diagonal may be looked at.")
    if (pattern.sum(dim=-1) - 1).abs().max() > 1e-4:
        row = int((pattern.sum(dim=-1) - 1).abs().argmax())
        raise NotYet(f"Each row adds up to 1; row {row} to {pattern[row].sum():.3f}.")
    text = Text(torch.tensor([0]), [-1], [""] * N_WORDS)
    fit = fits([Maps(text, pattern[None].double(), torch.zeros(1))], "topic").item()
    if fit < 1:
        raise NotYet(f"The fit is {fit:.2f}: in rows 3 to 9, word 1 must have the largest share.")
    share = pattern[3:, 1].mean().item()
    if share > LITTLE:
        raise NotYet(f"It fits, but word 1 still gets {share:.2f} on average: give it less.")
    return f"fit 1.00 with {share:.2f} of the attention, {1 - share:.2f} elsewhere"


def _rests(first, second, model, head, text):
    half = (text.shape[1] - 1) // 2
    with torch.no_grad():
        _, cache = model.run_with_cache(text)
    on_bos = cache[f"L{head.layer}.pattern"][:, head.head, :, 0].mean(dim=0)
    first_true, second_true = on_bos[1 : half + 1].mean().item(), on_bos[half + 2 :].mean().item()
    near({"first": first, "second": second}, {"first": first_true, "second": second_true}, NEAR)
    return f"measured {first_true:.2f} in the first copy, {second_true:.2f} in the second"


CHECKS = {
    "17.1": _marks,
    "17.2": _fools,
    "17.3": _rests,
}
