"""Random models of transformers' families, and models whose last head does what is known."""

from functools import partial

import torch
import transformers

from aot_helpers.models.handmade import (
    duplicate_token_model,
    first_token_model,
    induction_model,
    previous_token_model,
)
from aot_helpers.models.pretrained import PretrainedTransformer

SIZE = dict(
    vocab_size=11,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    max_position_embeddings=10,
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
)
MLP = {"intermediate_size": 24}
FAMILIES = {  # class, configuration, settings that the family alone has
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**MLP, "num_key_value_heads": 1}),
    "bert": ("BertForMaskedLM", "BertConfig", MLP),
    "bert without a head": ("BertModel", "BertConfig", MLP),
}


def tiny_hf(family: str, noise: float = 0.3, **size):
    """The model of a family as transformers has it, frozen; size: what is not as in SIZE."""
    name, configuration, own = FAMILIES[family]
    torch.manual_seed(0)
    config = getattr(transformers, configuration)(**{**SIZE, **own, **size})
    hf = getattr(transformers, name)(config).requires_grad_(False)
    for parameter in hf.parameters():
        parameter.add_(noise * torch.randn_like(parameter))
    return hf


def tiny(family: str, tokenizer=None, noise: float = 0.3, **size) -> PretrainedTransformer:
    """The same behind our names."""
    return PretrainedTransformer(tiny_hf(family, noise, **size), tokenizer)


# Of 30 tokens and 20 positions: room for a few texts.
tiny_30 = partial(tiny, vocab_size=30, max_position_embeddings=20)


# By the behavior of the last head; all are called with (d_vocab, n_ctx).
HANDMADE = {
    "previous": previous_token_model,
    "first": first_token_model,
    "duplicate": duplicate_token_model,
    "induction": induction_model,
}
