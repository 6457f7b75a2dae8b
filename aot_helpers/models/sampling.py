"""A model and a prompt to more text: one sampled token after the other."""

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.base.errors import check_finite, check_whole, is_number
from aot_helpers.models.protocol import Model, check_causal


@torch.no_grad()
def generate(
    model: Model,
    prompt: str | Int[Tensor, " pos"],
    n: int,
    top_k: int | None = 10,
    temperature: float = 1.0,
    seed: int = 0,
) -> str | Int[Tensor, " longer"]:
    """The prompt followed by n sampled tokens, as text if the prompt is text.

    Each token is drawn from the top_k most probable (None: all) after dividing the logits by
    temperature; temperature 0 takes the most probable. The model sees the last n_ctx tokens.
    Raises ValueError for an empty or impossible prompt and for settings out of range.
    """
    if isinstance(prompt, str):
        if model.tokenizer is None:
            raise ValueError("this model has no tokenizer: set model.tokenizer or pass token ids")
        tokens = model.tokenizer.encode(prompt, bos=True)
        # Decoded together: many tokenizers take the space off the first token of a text.
        longer = generate(model, tokens, n, top_k, temperature, seed)
        known, text = (model.tokenizer.decode(each) for each in (tokens, longer))
        return prompt + text[len(known) :]
    if not isinstance(prompt, Tensor) or prompt.ndim != 1 or not len(prompt):
        raise ValueError(
            f"prompt must be a text or a tensor [pos] of at least one token id, got {prompt!r}: "
            "take one row of a batch, torch.tensor(…) of a list"
        )
    check_causal(model)
    check_whole("n", n, 0, unit=" of tokens")
    if not is_number(temperature) or not temperature >= 0:  # NaN is not either
        raise ValueError(f"temperature must be a number >= 0, got {temperature!r}; 0 is greedy")
    if top_k is not None:
        check_whole("top_k", top_k, 1, model.config.d_vocab, unit=" (or None)")
    generator = torch.Generator().manual_seed(seed)
    tokens = prompt.to(model.W_E.device)
    for _ in range(n):
        logits = model(tokens[None, -model.config.n_ctx :])[0, -1].float().cpu()
        check_finite("logits", logits)
        if temperature == 0:
            chosen = logits.argmax(keepdim=True)
        else:
            top = logits.topk(top_k or len(logits))
            # Taking off the largest first keeps tiny temperatures finite.
            p = ((top.values - top.values[0]).double() / temperature).softmax(dim=-1)
            chosen = top.indices[torch.multinomial(p, 1, generator=generator)]
        tokens = torch.cat([tokens, chosen.to(tokens.device)])
    return tokens
