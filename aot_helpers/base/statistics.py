"""Spreads and correlations of measured numbers."""

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.base.errors import check_finite, check_whole


def bootstrap_interval(
    values: Float[Tensor, " n"], n_resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """(low, high) of the mean of the values: the middle 95 % of the means of resamples.

    A resample draws n of the n values with replacement. The values must be independent of each
    other: one per text or per seed, say, not one per token. Raises ValueError for fewer than 2
    values, values that are not finite and n_resamples < 1. `scipy.stats.bootstrap` draws other
    resamples.
    """
    values = torch.as_tensor(values).detach().double().cpu()
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(
            f"a spread needs a row of at least 2 values, got {values.numel()} in shape "
            f"{tuple(values.shape)}: measure more texts or seeds"
        )
    check_finite("values", values)
    check_whole("n_resamples", n_resamples, 1)
    n = len(values)
    generator = torch.Generator().manual_seed(seed)
    draws = [torch.randint(n, (n,), generator=generator) for _ in range(n_resamples)]
    means = torch.stack([values[draw].mean() for draw in draws])
    return means.quantile(0.025).item(), means.quantile(0.975).item()


def correlation(a: Float[Tensor, "*shape"], b: Float[Tensor, "*shape"]) -> float:
    """Pearson's correlation of numbers in pairs; 0 where one of the two is constant.

    Raises ValueError for fewer than 2 pairs and numbers that are not finite.
    """
    if a.numel() < 2:
        raise ValueError(f"a correlation needs at least 2 pairs, got {a.numel()}: measure more")
    both = torch.stack([a.flatten(), b.flatten()]).double()
    check_finite("correlated numbers", both)
    return torch.corrcoef(both)[0, 1].nan_to_num(0).item()
