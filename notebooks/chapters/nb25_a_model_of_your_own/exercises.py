"""The exercise of notebook 25: a text on which a head passes for an induction head."""

import torch

from aot_helpers.base.errors import check_token_ids
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.reading.heads import head_scores
from aot_helpers.teaching.exercises import NotYet, attempted

STORIES, HEAD = "stories-2l", Head(0, 3)  # its previous-token head
AT_LEAST, NULL_AT_MOST = 0.8, 0.6


def _misleading(answer):
    tokens = attempted(answer)
    if isinstance(tokens, list):
        tokens = torch.as_tensor(tokens)
    if not isinstance(tokens, torch.Tensor) or tokens.dtype.is_floating_point or tokens.ndim != 1:
        raise NotYet("Give token ids in one row, such as [5, 9, 5, 9].")
    model = load_checkpoint(STORIES)
    if not 3 <= len(tokens) <= model.config.n_ctx:
        raise NotYet(f"Give 3 to {model.config.n_ctx} tokens; these are {len(tokens)}.")
    try:
        check_token_ids(tokens, model.config.d_vocab)
    except ValueError as why:
        raise NotYet(str(why)) from None
    if len(tokens.unique()) == len(tokens):
        raise NotYet("No token returns, so no key follows an earlier copy.")
    scores, null = head_scores(model, tokens[None].long(), "induction")
    score = scores[HEAD].item()
    if null > NULL_AT_MOST:
        raise NotYet(
            f"The score is {score:.2f}, but even attention gets {null:.2f} here: where one token "
            "fills the text, nearly every key follows an earlier copy. Take more than one token."
        )
    if score < AT_LEAST:
        raise NotYet(
            f"{HEAD} gets {score:.2f}, even attention {null:.2f}. It looks one back: in "
            "which texts is this also the token after an earlier copy of the present one?"
        )
    return f"{HEAD} gets {score:.2f} and even attention {null:.2f}, but it copies nothing"


CHECKS = {"25.1": _misleading}
