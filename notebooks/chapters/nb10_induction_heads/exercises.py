"""The exercises of notebook 10: a key matrix, a wire that is cut, two places to look at."""

import torch

from aot_helpers.models.handmade import induction_model
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import near

NEAR = 0.15  # of 10.3


def _key_matrix(d_vocab):
    blocks = [torch.zeros(d_vocab, d_vocab), torch.eye(d_vocab), torch.zeros(d_vocab, d_vocab)]
    blocks[0][0, 0] = 1  # BOS, the resting place
    return torch.cat(blocks)


def _key_check(answer):
    size, text = 10, [0, 7, 3, 9, 4, 7]
    found, wanted = answer(size), _key_matrix(size)
    attempted(found)
    if not isinstance(found, torch.Tensor) or found.shape != wanted.shape:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else found
        raise NotYet(
            f"For d_vocab = {size} the shape {tuple(wanted.shape)} is wanted, got {shape!r}."
        )
    model = induction_model(size, n_ctx=8)
    with torch.no_grad():
        model.blocks[1].attn.W_K[0] = found
        said = model(torch.tensor([text]))[0, -1].argmax().item()
        rests = model.run_with_cache(torch.tensor([[0, 5, 6]]))[1]["L1.pattern"][0, 0, -1, 0]
    if said != 3:
        raise NotYet(f"With your W_K the model says {said} after {text}; 3 followed the first 7.")
    if rests < 0.9:
        raise NotYet(f"With your W_K the head gives BOS only {rests:.2f} where nothing matches.")
    if not torch.equal(found.float(), wanted):
        raise NotYet("It works; but some entries that should be 0 are not, or ones are missing.")


def _cut_key(answer, k, z, W_O, W_K, head):
    part = z @ W_O @ W_K
    varies = torch.zeros_like(k)
    varies[:, :, head] = part - part.mean(dim=(0, 1))
    found = attempted(answer(k.clone(), z.clone(), W_O.clone(), W_K.clone(), head))
    if not isinstance(found, torch.Tensor) or found.shape != k.shape:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else found
        raise NotYet(f"Keys of shape {tuple(k.shape)} are wanted, got {shape!r}.")
    others = torch.arange(k.shape[2]) != head
    if not torch.allclose(found[:, :, others], k[:, :, others], atol=1e-4):
        raise NotYet(f"The keys of other heads than number {head} have changed.")
    known = {
        "Nothing has changed.": k[:, :, head],
        "The writer's mean is gone, too: leave it in.": k[:, :, head] - part,
    }
    for said, mistake in known.items():
        if torch.allclose(found[:, :, head], mistake, atol=1e-4):
            raise NotYet(said)
    if not torch.allclose(found, k - varies, atol=1e-4):
        raise NotYet("The reader's keys differ from mine.")


def _two_places(answer, truth):
    near(answer, {name: of_heads.mean() for name, of_heads in truth.items()}, NEAR)


CHECKS = {
    "10.1": _key_check,
    "10.2": _cut_key,
    "10.3": _two_places,
}
