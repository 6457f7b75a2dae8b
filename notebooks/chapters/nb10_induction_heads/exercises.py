"""The exercises of notebook 10: a key matrix, a path that is cut, a choice that one token turns.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.models.handmade import induction_model
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, read_tensor

FACTOR = 3  # by which one token has to change the odds between two places
LONGEST = 30  # tokens of a text without BOS


def key_matrix(d_vocab):
    """W_K [3 * d_vocab, d_vocab] of a hand-set induction head: keys name the token before."""
    W_K = torch.zeros(3 * d_vocab, d_vocab)
    W_K[d_vocab : 2 * d_vocab] = torch.eye(d_vocab)
    return W_K


def cut_key(k, z, W_O, W_K, head):
    """Keys [text, pos, head, d_head] in which one head's keys do not read what the writer wrote.

    z: the writer's, [text, pos, d_head]; its part's mean over texts and positions stays.
    """
    part = z @ W_O @ W_K  # [text, pos, d_head]
    k = k.clone()
    k[:, :, head] -= part - part.mean(dim=(0, 1))
    return k


PAGES = {"10.1": key_matrix, "10.2": cut_key}


def _key_check(answer):
    size, text = 10, [0, 7, 3, 9, 4, 7]
    wanted = key_matrix(size)
    given = read_tensor(answer(size), *wanted.shape, name=f"For d_vocab = {size}")
    for block, named in ((0, "token"), (2, "output")):
        if torch.equal(given[block * size : (block + 1) * size], torch.eye(size)):
            raise NotYet(
                f"Your keys read the block *{named}*; the previous token has its own block."
            )
    model = induction_model(size, n_ctx=8)
    with torch.no_grad():
        model.blocks[1].attn.W_K[0] = given
        model.blocks[1].attn.W_K[0, 0, 0] = 1  # BOS
        predicted = model(torch.tensor([text]))[0, -1].argmax().item()
    if predicted != 3:
        raise NotYet(
            f"With your W_K the model says {predicted} after {text}; 3 followed the first 7."
        )
    if not torch.equal(given, wanted):
        raise NotYet("It works; but some entries that should be 0 are not, or ones are missing.")
    return "the query says I am A, the key says before me: A, and they match at B"


def _cut_key(answer, k, z, W_O, W_K, head):
    part, wanted = z @ W_O @ W_K, cut_key(k, z, W_O, W_K, head)
    given = answer(k.clone(), z.clone(), W_O.clone(), W_K.clone(), head)
    given = read_tensor(given, *k.shape, name="Keys")
    others = torch.arange(k.shape[2]) != head
    if not torch.allclose(given[:, :, others], k[:, :, others], atol=1e-4):
        raise NotYet(f"The keys of other heads than number {head} have changed.")
    known = {
        "Nothing has changed.": k[:, :, head],
        "The writer's mean is gone, too: leave it in.": k[:, :, head] - part,
        "This is the writer's mean alone: the rest of the reader's keys has to stay.": (
            part.mean(dim=(0, 1)).expand_as(part)
        ),
        "The mean runs over positions alone; take it over texts, too.": (
            k[:, :, head] - part + part.mean(dim=1, keepdim=True)
        ),
        "The mean runs over texts alone; take it over positions, too.": (
            k[:, :, head] - part + part.mean(dim=0)
        ),
        "The sign is wrong: subtract the writer's part and add its mean.": (
            k[:, :, head] + part - part.mean(dim=(0, 1))
        ),
        "Your mean is one number: average over texts and positions, not over d_head.": (
            k[:, :, head] - part + part.mean()
        ),
        "You take off the writer's mean, and its part is still there.": (
            k[:, :, head] - part.mean(dim=(0, 1))
        ),
        "The mean is added, but the writer's part is still there.": (
            k[:, :, head] + part.mean(dim=(0, 1))
        ),
    }
    compared(given[:, :, head], wanted[:, :, head], known)
    return "queries and values still read what the writer wrote; only the keys do not"


def _one_token_turns(first, second, model):
    """Two texts, lists of tokens, whose last token stood at two places before: see the tour."""
    first, second = attempted(first), attempted(second)
    for text in (first, second):
        if not isinstance(text, list) or not all(
            isinstance(token, int) and 1 <= token < model.config.d_vocab for token in text
        ):
            raise NotYet(f"A text is a list of whole numbers from 1 to {model.config.d_vocab - 1}.")
        if len(text) > LONGEST:
            raise NotYet(f"A text has {len(text)} tokens; at most {LONGEST} are wanted.")
    if len(first) != len(second):
        raise NotYet(f"The texts have {len(first)} and {len(second)} tokens: write them as long.")
    differ = [i for i, pair in enumerate(zip(first, second, strict=True)) if len(set(pair)) > 1]
    if len(differ) != 1:
        raise NotYet(f"The texts differ at {len(differ)} places; one token should differ.")
    A = first[-1]
    if second[-1] != A:
        raise NotYet("The texts end in different tokens: exchange another one.")
    places = [i for i, token in enumerate(first[:-1]) if token == A]
    if len(places) != 2 or [i for i, token in enumerate(second[:-1]) if token == A] != places:
        raise NotYet(f"The last token, {A}, should stand at two earlier places, in both texts.")
    b, c = (place + 1 for place in places)
    if c == len(first) - 1 or first[b] == first[c]:
        raise NotYet("Let two different tokens follow the two earlier places.")
    tokens = torch.tensor([[model.tokenizer.bos, *text] for text in (first, second)])
    with torch.no_grad():
        last = model.run_with_cache(tokens)[1]["L1.pattern"][:, 0, -1]
    (b1, c1), (b2, c2) = ((row[b + 1].item(), row[c + 1].item()) for row in last)
    odds = (b1 / c1) / (b2 / c2)
    weights = (
        f"the earlier place gets {b1:.2f}, then {b2:.2f}, the later one {c1:.2f}, then {c2:.2f}"
    )
    if 1 / odds >= FACTOR:
        raise NotYet(f"The other way round: {weights}.")
    if odds < FACTOR:
        before = [first[places[0] - 1], second[places[1] - 1]]
        hint = "try other numbers, since not all tokens match equally well."
        if before != [first[-2], second[-2]]:
            hint = "what do the notes say of the token before A, here and at both places?"
        raise NotYet(f"The odds change by a factor of {odds:.1f} ({weights}): {hint}")
    return f"the odds change by a factor of {odds:.0f}: {weights}"


CHECKS = {
    "10.1": _key_check,
    "10.2": _cut_key,
    "10.3": _one_token_turns,
}
