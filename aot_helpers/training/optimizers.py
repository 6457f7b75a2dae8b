"""Parameters to optimizers: which weights decay, at which rate each learns, and by which rule."""

from collections import defaultdict

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from aot_helpers.training.config import TrainConfig

# Embeddings and positions, by their names here and in Hugging Face's GPT-2.
EMBEDDINGS = ("W_E", "W_pos", "wte.weight", "wpe.weight")


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.AdamW:
    """The optimizer that config names, with one group of parameters for each rate and decay.

    Embeddings, positions, gains and biases get no weight decay. A group's own rate is its "factor"
    times that of the step. Of a GPT-2 of transformers, every matrix inside a block counts as heads.
    """
    groups = defaultdict(list)
    for name, parameter in model.named_parameters():
        if name.endswith("b_rel"):
            kind = "relative"
        elif name.endswith(EMBEDDINGS) or parameter.ndim == 1:
            kind = "free"
        else:
            hidden = parameter.ndim == 3 or ".h." in name
            kind = "heads" if config.optimizer == "muon" and hidden else "decayed"
        groups[kind].append(parameter)
    settings = {  # its rate as a factor of the step's, its weight decay
        "heads": (config.learning_rate_heads / config.learning_rate, config.weight_decay),
        "decayed": (1.0, config.weight_decay),
        "free": (1.0, 0.0),
        "relative": (config.learning_rate_relative, 0.0),
    }
    options = [
        {"params": groups[kind], "kind": kind, "factor": factor, "weight_decay": decay}
        for kind, (factor, decay) in settings.items()
        if groups[kind]
    ]
    rule = Muon if config.optimizer == "muon" else torch.optim.AdamW
    return rule(options, lr=config.learning_rate, betas=config.betas, fused=True)


def rates_line(optimizer: torch.optim.Optimizer, config: TrainConfig) -> str:
    """Which rule and rate every group of parameters has, and the precision."""
    names, rates = {"heads": "heads (Muon)", "relative": "relative biases (AdamW)"}, {}
    for group in optimizer.param_groups:
        name = names.get(group["kind"], "others (AdamW)")
        rates[name] = f"{name} {config.learning_rate * group['factor']:.3g}"
    return f"learning rates: {', '.join(rates.values())}; {'bf16' if config.bf16 else 'fp32'}"


def orthogonalized(G: Float[Tensor, "head rows columns"]) -> Float[Tensor, "head rows columns"]:
    """Each matrix with its singular vectors kept and all singular values brought near 1.

    Five Newton-Schulz iterations with the coefficients of Jordan et al. 2024: the values end
    between about 0.7 and 1.2; only those much smaller than the matrix's norm stay below.
    """
    wide = G.shape[1] < G.shape[2]
    X = F.normalize(G.mT if wide else G, dim=(1, 2))
    for _ in range(5):
        A = X.mT @ X
        X = 3.4445 * X + X @ (2.0315 * A @ A - 4.7750 * A)
    return X.mT if wide else X


class Muon(torch.optim.AdamW):
    """Orthogonalized momentum for the matrices of heads, AdamW for all other parameters.

    In the group of kind "heads", weights [n_heads, rows, columns] or, of GPT-2, [rows, columns], a
    step is Nesterov momentum made orthogonal matrix by matrix, times sqrt(max(1, rows / columns)).
    So directions that few tokens ask for grow as fast as those that all ask for, and heads form in
    half the steps.
    K. Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".
    """

    @torch.no_grad()
    def step(self, closure=None):
        """One update. The heads' gradients are used up first, so that AdamW passes them by."""
        for group in self.param_groups:
            for W in group["params"] if group["kind"] == "heads" else ():
                if W.grad is None:
                    continue
                m = self.state[W].setdefault("momentum", torch.zeros_like(W))
                m.lerp_(W.grad, 0.05)  # momentum 0.95; Nesterov's step mixes it in once more
                rows, columns = W.shape[-2:]
                step = orthogonalized(W.grad.lerp(m, 0.95).view(-1, rows, columns)).view_as(W)
                W.mul_(1 - group["lr"] * group["weight_decay"])
                W.sub_(step, alpha=group["lr"] * max(1, rows / columns) ** 0.5)
                W.grad = None
        return super().step(closure)
