"""How torus networks learn their facts: with all heads at once, or one head after the other."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from chapters.torus.networks import (
    HEAD_WEIGHTS,
    TorusNets,
    attend,
    init_nets,
    is_correct,
    logits,
    pairs,
)
from chapters.torus.runs import TorusRun, Trained


@torch.enable_grad()  # also where a notebook has switched gradients off
def train_nets(
    nets: TorusNets,
    targets: Int[Tensor, "net pair"],
    steps: int = 3000,
    *,
    owners: Int[Tensor, "net pair"] | None = None,
    frozen_heads: int = 0,
    train_words: bool = True,
    every: int = 50,
) -> Trained:
    """Networks after Adam on the mean cross entropy over all pairs, for all networks at once.

    The networks do not influence each other. The learning rate falls from 0.02 along half a cosine
    to a hundredth of itself.

    **Arguments:**

    - `owners`: adds, for each pair, the cross entropy of what its owner alone says, without the
      other heads and the residual.
    - `frozen_heads`: so many of the first heads stay as they are.
    - `train_words`: whether W_E, W_pos and W_U are trained as well.
    - `every`: how many steps there are from one measurement to the next.

    Raises ValueError for targets and owners of another shape, before training.
    """
    _check_pairs("targets", targets, nets, n=nets.W_E.shape[1])
    if owners is not None:
        _check_pairs("owners", owners, nets, n=nets.W_Q.shape[1])
    weights = {name: W.detach().clone() for name, W in nets.tensors().items()}
    trained = [
        W.requires_grad_() for name, W in weights.items() if train_words or name in HEAD_WEIGHTS
    ]
    optimizer = torch.optim.Adam(trained, lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, 0.02 / 100)
    at, accuracy, losses, now = [], [], [], TorusNets(**weights)
    for step in range(steps + 1):
        guess = logits(now, *pairs(now))
        loss = _mean_loss(guess, targets)
        if step % every == 0 or step == steps:
            at.append(step)
            accuracy.append(is_correct(guess, targets).float().mean(dim=1))
            losses.append(loss.detach())
        if step == steps:
            break
        if owners is not None:
            loss = loss + _owners_loss(now, owners, targets)
        optimizer.zero_grad()
        loss.sum().backward()  # the gradient of a sum: each network gets that of its own loss
        for name in HEAD_WEIGHTS:
            weights[name].grad[:, :frozen_heads] = 0  # Adam does not move what never has a gradient
        optimizer.step()
        schedule.step()
    found = TorusNets(**{name: W.detach() for name, W in weights.items()})
    return Trained(found, at, torch.stack(accuracy), torch.stack(losses))


def _mean_loss(
    logits: Float[Tensor, "net pair d_vocab"], targets: Int[Tensor, "net pair"]
) -> Float[Tensor, " net"]:
    return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(dim=1)


def _owners_loss(nets: TorusNets, owners, targets) -> Float[Tensor, " net"]:
    """The mean cross entropy of what owners say alone."""
    out = attend(nets, *pairs(nets)).out
    chosen = owners[:, None, :, None].expand(-1, 1, -1, 3)
    return _mean_loss(out.gather(1, chosen)[:, 0] @ nets.W_U, targets)


def _check_pairs(name: str, values: Int[Tensor, "*shape"], nets: TorusNets, n: int) -> None:
    shape = (len(nets.W_E), nets.W_E.shape[1] ** 2)
    if values.shape != shape or not 0 <= values.min() <= values.max() < n:
        raise ValueError(
            f"{name} must be whole numbers 0 … {n - 1} of shape {shape}, "
            f"got {values.min()} … {values.max()} of shape {tuple(values.shape)}"
        )


def boost(
    nets: TorusNets,
    targets: Int[Tensor, "net pair"],
    steps: list[int],
    train_words: bool = True,
    every: int = 50,
) -> Trained:
    """Networks trained head after head: each stage adds one, and those before it stay as they are.

    steps: how many for each head, in order. train_words: whether W_E, W_pos and W_U are trained in
    every stage; otherwise, as in the code behind S2, in the first stage only. Each stage is
    measured at its beginning and at its end: a step between two stages stands twice, before and
    after the next, untrained head comes in. Raises ValueError unless there is one number of steps
    for each head.
    """
    n_heads = nets.W_Q.shape[1]
    if len(steps) != n_heads:
        raise ValueError(f"steps must have one number for each of {n_heads} heads, got {steps}")
    at, stages = [], []
    for head, n_steps in enumerate(steps):
        stage = train_nets(
            nets.first_heads(head + 1),
            targets,
            n_steps,
            frozen_heads=head,
            train_words=train_words or head == 0,
            every=every,
        )
        at += [sum(steps[:head]) + step for step in stage.steps]
        stages.append(stage)
        later = {name: getattr(nets, name)[:, head + 1 :] for name in HEAD_WEIGHTS}
        trained = {name: getattr(stage.nets, name) for name in HEAD_WEIGHTS}
        joined = {name: torch.cat([trained[name], later[name]], dim=1) for name in HEAD_WEIGHTS}
        nets = replace(stage.nets, **joined)
    accuracy, loss = (
        torch.cat([getattr(s, name) for s in stages]) for name in ("accuracy", "loss")
    )
    return Trained(nets, at, accuracy, loss)


def train_run(run: TorusRun) -> Trained:
    """The networks of a shipped run, trained again."""
    nets = init_nets(run.seeds, run.d_vocab, run.n_heads, run.d_head)
    if len(run.steps) > 1:
        return boost(nets, run.targets(), list(run.steps), run.train_words)
    return train_nets(nets, run.targets(), run.steps[0], owners=run.owners())
