"""Our model in the class of GPT-2 of transformers, to compare the two."""

import torch

from aot_helpers.models.transformer import AttentionOnlyTransformer


def to_gpt2(model: AttentionOnlyTransformer):
    """The same function as a transformers GPT2LMHeadModel, of a model with "standard" positions."""
    from transformers import GPT2Config, GPT2LMHeadModel

    c = model.config
    gpt2 = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=c.d_vocab,
            n_positions=c.n_ctx,
            n_embd=c.d_model,
            n_layer=c.n_layers,
            n_head=c.n_heads,
            n_inner=c.d_mlp or 1,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
    with torch.no_grad():
        for parameter in gpt2.parameters():  # our attention has no biases, our MLP may be missing
            parameter.zero_()
        gpt2.transformer.wte.weight.copy_(model.W_E)
        gpt2.transformer.wpe.weight.copy_(model.W_pos)
        gpt2.lm_head.weight.copy_(model.W_U.T)
        gpt2.transformer.ln_f.load_state_dict(model.ln_final.state_dict())
        for ours, theirs in zip(model.blocks, gpt2.transformer.h, strict=True):
            theirs.ln_1.load_state_dict(ours.ln1.state_dict())
            W_QKV = [
                W.transpose(0, 1).flatten(1) for W in (ours.attn.W_Q, ours.attn.W_K, ours.attn.W_V)
            ]
            theirs.attn.c_attn.weight.copy_(torch.cat(W_QKV, dim=1))
            theirs.attn.c_proj.weight.copy_(ours.attn.W_O.flatten(0, 1))
            if c.d_mlp:
                theirs.ln_2.load_state_dict(ours.ln2.state_dict())
                theirs.mlp.c_fc.weight.copy_(ours.mlp_in.weight.T)
                theirs.mlp.c_fc.bias.copy_(ours.mlp_in.bias)
                theirs.mlp.c_proj.weight.copy_(ours.mlp_out.weight.T)
                theirs.mlp.c_proj.bias.copy_(ours.mlp_out.bias)
    return gpt2.eval()
