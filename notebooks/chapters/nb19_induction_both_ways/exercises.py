"""The exercises of notebook 19: measure a head from the mask, mislead a model, read two heads.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.models.protocol import HeadWeights
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw
from chapters.nb19_induction_both_ways.repeats import repeats

ENOUGH = 0.8  # of the texts that have to be misled
TOKENS, WIDTH, D_HEAD = 50, 32, 16  # of the weights of 19.3


def copy_scores(pattern, at, copy):
    """Mean attention [head, 3] from the mask to the token before the copy, to it, and after it."""
    texts = torch.arange(len(at))
    places = [pattern[texts, :, at, copy + step] for step in (-1, 0, 1)]  # each [text, head]
    return torch.stack(places, dim=-1).mean(dim=0)


def self_match(W_E, g, h, reader):
    """Share of the tokens a whose query, made from g, scores highest with their own key, from h."""
    queries = W_E @ g.W_V @ g.W_O @ reader.W_Q
    keys = W_E @ h.W_V @ h.W_O @ reader.W_K
    best = (queries @ keys.T).argmax(dim=1)
    return (best == torch.arange(len(W_E))).float().mean()


PAGES = {"19.1": copy_scores, "19.3": self_match}


def _scores(answer):
    pattern = torch.rand(5, 3, 9, 9, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    at, copy = torch.tensor([6, 7, 5, 6, 7]), torch.tensor([2, 3, 1, 2, 3])
    texts, wanted = torch.arange(5), copy_scores(pattern, at, copy)
    found = attempted(answer(pattern.clone(), at.clone(), copy.clone()))
    if not isinstance(found, torch.Tensor) or found.shape != wanted.shape:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else found
        raise NotYet(
            f"For 5 texts and 3 heads the shape {tuple(wanted.shape)} is wanted, got {shape!r}: "
            "a row for each head, a column for each place, a mean over texts."
        )
    steps = (-1, 0, 1)
    turned = [pattern[texts, :, copy + step, at] for step in steps]
    one = [pattern[:, :, at[0], copy[0] + step] for step in steps]
    around = [pattern[texts, :, at, at + step] for step in steps]
    known = {
        "The query is the mask and the key is the copy; yours are exchanged.": turned,
        "All texts are read at the places of the first one; each has its own.": one,
        "These are the mask's own neighbors; those of the copy are wanted.": around,
    }
    known = {said: torch.stack(each, dim=-1).mean(dim=0) for said, each in known.items()}
    order = "The columns are in the wrong order: before the copy, the copy, after it."
    compared(found, wanted, known | {order: wanted.flip(1)}, within=1e-5)
    return "it measures induction in both directions: the copy may stand before or after the mask"


def _weights():
    """An embedding, two heads that write tokens much alike, and a reader that compares them."""
    W_E = torch.nn.functional.normalize(draw(TOKENS, WIDTH, seed=0), dim=1)
    W_V, W_O, W_Q = (
        draw(WIDTH, D_HEAD, seed=1),
        draw(D_HEAD, WIDTH, seed=2),
        draw(WIDTH, D_HEAD, seed=3),
    )
    other_V, other_O = 0.5 * draw(WIDTH, D_HEAD, seed=5), 0.5 * draw(D_HEAD, WIDTH, seed=6)
    g, h = HeadWeights(W_Q, W_Q, W_V, W_O), HeadWeights(W_Q, W_Q, W_V + other_V, W_O + other_O)
    return W_E, g, h, g._replace(W_K=W_Q + 0.5 * draw(WIDTH, D_HEAD, seed=7))


def _matches(answer):
    W_E, g, h, reader = _weights()
    wanted = self_match(W_E, g, h, reader)
    found = attempted(answer(W_E.clone(), g, h, reader))
    if isinstance(found, float):
        found = torch.tensor(found)
    if not isinstance(found, torch.Tensor) or found.shape != ():
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else found
        raise NotYet(f"One number is wanted, a share of the tokens; got {shape!r}.")
    queries, keys = W_E @ g.W_V @ g.W_O @ reader.W_Q, W_E @ h.W_V @ h.W_O @ reader.W_K
    back, own = (queries @ keys.T).argmax(dim=0), torch.arange(len(W_E))
    known = {
        "g makes the query and h the key; yours are exchanged.": self_match(W_E, h, g, reader),
        "Take the largest score over all keys b, for each query a; yours is over the queries.": (
            (back == own).float().mean()
        ),
        "The reader's key is made by its W_K; you read both sides by W_Q.": (
            self_match(W_E, g, h, reader._replace(W_K=reader.W_Q))
        ),
        "h writes the key's side; you take g for both.": self_match(W_E, g, g, reader),
        "The reader reads what heads wrote, W_E W_V W_O; you give it the bare embeddings.": (
            ((W_E @ reader.W_Q @ (W_E @ reader.W_K).T).argmax(dim=1) == own).float().mean()
        ),
        "This is a count; divide it by the number of tokens.": wanted * len(W_E),
    }
    compared(found.float(), wanted, known, within=1e-5)
    return (
        f"of {len(W_E)} made-up tokens, {wanted:.2f} find themselves; no text was needed, "
        "because the weights alone say what is compared"
    )


def _misleads(answer, model, mask):
    length = 20
    hidden = repeats("in order", length, mask, model.tokenizer.bos, n_texts=20, seed=77)
    changed, wanted = [], []
    for seen, at, own in zip(hidden.seen.tolist(), hidden.at.tolist(), hidden.answers, strict=True):
        near, further = (seen[1 + (at + step) % (length - 2)] for step in (6, 8))
        wanted.append(further if near == own else near)
        given = [int(token) for token in attempted(answer(list(seen), at, wanted[-1]))]
        places = [i for i, pair in enumerate(zip(given, seen, strict=False)) if len({*pair}) > 1]
        wrong = [place for place in places if place <= length or place == at]
        if len(given) != len(seen) or not 1 <= len(places) <= 2 or wrong:
            said = f"of the second copy (positions {length + 1} to {2 * length})"
            raise NotYet(
                f"Change one or two tokens, {said}, and not the mask; you changed {places}."
            )
        changed.append(given)
    with torch.no_grad():
        logits = model(torch.tensor(changed))
    guesses = logits[torch.arange(len(changed)), hidden.at].argmax(dim=-1)
    share = (guesses == torch.tensor(wanted)).float().mean().item()
    said = f"the model says the wanted token in {share:.2f} of 20 texts"
    if share < ENOUGH:
        raise NotYet(f"{said}; {ENOUGH} are enough.")
    return f"{said}: it believes the neighbors"


CHECKS = {
    "19.1": _scores,
    "19.2": _misleads,
    "19.3": _matches,
}
