"""A quantized Llama in a GGUF file (llama.cpp's format) as configuration, weights and tokenizer."""

import math
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor

# Hugging Face's name for each of GGUF's: in a layer, elsewhere, in the configuration.
LAYER = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
REST = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
CONFIG = {
    "llama.vocab_size": "vocab_size", "llama.embedding_length": "hidden_size",
    "llama.block_count": "num_hidden_layers", "llama.feed_forward_length": "intermediate_size",
    "llama.attention.head_count": "num_attention_heads",
    "llama.attention.head_count_kv": "num_key_value_heads",
    "llama.context_length": "max_position_embeddings", "llama.rope.freq_base": "rope_theta",
    "llama.attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "tokenizer.ggml.bos_token_id": "bos_token_id", "tokenizer.ggml.eos_token_id": "eos_token_id",
    "tokenizer.ggml.padding_token_id": "pad_token_id",
}  # fmt: skip
# The struct format of each kind of fact; 8 is a string and 9 a list. The kind of a special token.
KINDS, STRING, LIST, SPECIAL = "BbHhIif?  Qqd", 8, 9, 3
# How numbers are stored: (bytes, numbers) of a block.
F32, Q4_1, Q8_0 = 0, 3, 8
BLOCKS = {F32: (4, 1), Q4_1: (20, 32), Q8_0: (34, 32)}


def read_llama(path: Path) -> tuple[dict, dict[str, Tensor], Backend]:
    """LlamaConfig's arguments, float32 weights by Hugging Face's names, and the tokenizer.

    In a second, where transformers' reader takes half a minute and twice the memory. Raises
    ValueError unless it is a Llama with SmolLM2's kind of vocabulary in float32, Q4_1 or Q8_0.
    """
    facts, tensors = _parse(path)
    kind = facts.get("general.architecture"), facts.get("tokenizer.ggml.pre")
    if kind != ("llama", "smollm"):
        raise ValueError(
            f"{path.name} has the architecture {kind[0]!r} and the vocabulary {kind[1]!r}: "
            "only 'llama' with 'smollm' is read; take the model in Hugging Face format"
        )
    config, weights = {theirs: facts[name] for name, theirs in CONFIG.items()}, {}
    n_heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for name, W in tensors:  # blk.3.attn_q.weight, token_embd.weight …
        *block, part, _ = name.split(".")
        if part in n_heads:  # the pairs that rotate together stand side by side there
            W = W.unflatten(0, (n_heads[part], -1, 2)).transpose(1, 2).flatten(0, 2)
        name = f"model.layers.{block[1]}.{LAYER[part]}" if block else REST[part]
        weights[f"{name}.weight"] = W
    config["tie_word_embeddings"] = "lm_head.weight" not in weights
    return config, weights, _tokenizer(facts)


def _parse(path: Path) -> tuple[dict, Iterator[tuple[str, Tensor]]]:
    """The facts at the head of the file, and its tensors by name, one at a time."""
    file, at = numpy.memmap(path, mode="c"), 0
    head = memoryview(file)

    def number(code: str):
        nonlocal at
        (found,) = struct.unpack_from(f"<{code}", head, at)
        at += struct.calcsize(f"<{code}")
        return found

    def value(kind: int):
        nonlocal at
        if kind == LIST:
            kind, n = number("I"), number("Q")
            return [value(kind) for _ in range(n)]
        if kind != STRING:
            return number(KINDS[kind])
        n = number("Q")
        at += n
        return str(head[at - n : at], "utf-8")

    if number("4s") != b"GGUF" or number("I") != 3:
        raise ValueError(f"{path} is no GGUF file of version 3")
    n_tensors, n_facts = number("Q"), number("Q")
    facts = {value(STRING): value(number("I")) for _ in range(n_facts)}
    tensors = []
    for _ in range(n_tensors):
        name, shape = value(STRING), [number("Q") for _ in range(number("I"))][::-1]
        tensors.append((name, shape, number("I"), number("Q")))
    at += -at % facts.get("general.alignment", 32)
    return facts, ((name, _floats(file[at + i :], kind, shape)) for name, shape, kind, i in tensors)


def _floats(stored: numpy.ndarray, kind: int, shape: list[int]) -> Tensor:
    """The numbers at the beginning of what is stored, which are 32 with one scale, or plain."""
    if kind not in BLOCKS:
        raise ValueError(f"weights of type {kind} are not read, only float32, Q4_1 and Q8_0")
    size, numbers = BLOCKS[kind]
    n_bytes = math.prod(shape) // numbers * size
    if len(stored) < n_bytes:
        raise ValueError("the GGUF file ends in the middle of its weights: install it again")
    blocks = torch.from_numpy(stored[:n_bytes]).view(-1, size)
    if kind == F32:
        return blocks.view(torch.float32).view(shape).clone()  # lets go of the file
    if kind == Q8_0:
        scale, W = blocks[:, :2].view(torch.float16).float(), blocks[:, 2:].view(torch.int8)
        return W.float().mul_(scale).view(shape)
    scale, low = blocks[:, :4].view(torch.float16).float().split(1, dim=1)
    halves = blocks[:, 4:]  # the first 16 numbers in the low four bits, the others in the high
    W = torch.cat([halves & 15, halves >> 4], dim=1)
    return W.float().mul_(scale).add_(low).view(shape)


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
