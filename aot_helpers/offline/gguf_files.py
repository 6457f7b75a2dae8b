"""A quantized Llama in a GGUF file (llama.cpp's format) as configuration, weights and tokenizer."""

from pathlib import Path

import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

# Hugging Face's name for each of GGUF's: in a layer, elsewhere, in the configuration.
LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
REST = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
CONFIG = {
    "llama.vocab_size": "vocab_size",
    "llama.embedding_length": "hidden_size",
    "llama.block_count": "num_hidden_layers",
    "llama.feed_forward_length": "intermediate_size",
    "llama.attention.head_count": "num_attention_heads",
    "llama.attention.head_count_kv": "num_key_value_heads",
    "llama.context_length": "max_position_embeddings",
    "llama.rope.freq_base": "rope_theta",
    "llama.attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "tokenizer.ggml.bos_token_id": "bos_token_id",
    "tokenizer.ggml.eos_token_id": "eos_token_id",
    "tokenizer.ggml.padding_token_id": "pad_token_id",
}
SPECIAL = 3  # the kind of a special token


def read_llama(path: Path) -> tuple[dict, dict[str, Tensor], Backend]:
    """LlamaConfig's arguments, float32 weights by Hugging Face's names, and the tokenizer.

    One tensor at a time, which takes half the memory of transformers' reader. Raises ValueError
    unless it is a Llama with SmolLM2's kind of vocabulary, ImportError without the package gguf.
    """
    try:
        from gguf import GGUFReader
        from gguf.quants import dequantize
    except ImportError:
        raise ImportError(f"{path.name} needs the package gguf: pip install gguf") from None
    try:
        file = GGUFReader(path)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path} is no whole GGUF file ({error}): install it again") from error
    facts = {name: field.contents() for name, field in file.fields.items()}
    kind = facts.get("general.architecture"), facts.get("tokenizer.ggml.pre")
    if kind != ("llama", "smollm"):
        raise ValueError(
            f"{path.name} has the architecture {kind[0]!r} and the vocabulary {kind[1]!r}: "
            "only 'llama' with 'smollm' is read; take the model in Hugging Face format"
        )
    config, weights = {theirs: facts[name] for name, theirs in CONFIG.items()}, {}
    n_heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for stored in file.tensors:  # blk.3.attn_q.weight, token_embd.weight …
        *block, part, _ = stored.name.split(".")
        W = torch.from_numpy(dequantize(stored.data, stored.tensor_type).copy())
        if part in n_heads:  # the pairs that rotate together stand side by side there
            W = W.unflatten(0, (n_heads[part], -1, 2)).transpose(1, 2).flatten(0, 2)
        name = f"model.layers.{block[1]}.{LAYER[part]}" if block else REST[part]
        weights[f"{name}.weight"] = W
    config["tie_word_embeddings"] = "lm_head.weight" not in weights
    return config, weights, _tokenizer(facts)


def _tokenizer(facts: dict) -> Backend:
    """Byte-level BPE in which every digit is a token."""
    pieces = facts["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    backend = Backend(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([digits, plain])
    backend.decoder = decoders.ByteLevel()
    kinds = zip(pieces, facts["tokenizer.ggml.token_type"], strict=True)
    backend.add_special_tokens([piece for piece, kind in kinds if kind == SPECIAL])
    return backend
