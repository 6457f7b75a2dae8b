"""A process on its own: nothing of several processes changes what it does."""

import pytest
import torch
import torch.nn.functional as F

from aot_helpers import parallel
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.optimizers import make_optimizer
from aot_helpers.training.train import train


def test_a_process_on_its_own_joins_nothing(monkeypatch, capsys):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    parallel.join()
    assert (parallel.world_size(), parallel.rank()) == (1, 0)
    parallel.barrier()
    tokens, model = torch.arange(15).view(5, 3), torch.nn.Identity()
    assert torch.equal(parallel.shard(tokens), tokens) and parallel.replicated(model) is model
    assert parallel.all_reduce_mean(torch.tensor(0.1), 2) == [torch.tensor(0.1).item(), 2]
    parallel.print0("loud")
    parallel.print0("still", quiet=True)
    assert capsys.readouterr().out == "loud\n"


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_one_process_takes_the_plain_steps_to_the_last_bit(make_model, optimizer):
    batches = torch.randint(11, (8, 4, 9), generator=torch.Generator().manual_seed(0))
    config = TrainConfig(steps=8, warmup_steps=3, optimizer=optimizer)
    model, plain = make_model(positions="relative"), make_model(positions="relative")
    history = train(model, batches, config, quiet=True)
    rule, losses = make_optimizer(plain, config), []
    for step, tokens in enumerate(batches):
        for group in rule.param_groups:
            group["lr"] = config.learning_rate_at(step) * group["factor"]
        logits = plain(tokens[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits, tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), config.clip_norm)
        rule.step()
        rule.zero_grad()
        losses.append(loss.item())
    assert history.losses == losses
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
