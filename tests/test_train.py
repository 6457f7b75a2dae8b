import errno
import math
import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.optim.optimizer import register_optimizer_step_post_hook

from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.sampling import generate
from aot_helpers.training import precision
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.history import History
from aot_helpers.training.precision import measured_seconds
from aot_helpers.training.train import NonFiniteLoss, train


class Batches:
    """Random tokens that depend on seed and step alone; `before(step)` runs before each batch."""

    def __init__(self, seed=0, before=None):
        self.seed, self.before, self.steps = seed, before, []

    def __getitem__(self, step):
        self.steps.append(step)
        if self.before is not None and len(self.steps) > 1:  # the first look is train's own
            self.before(step)
        generator = torch.Generator().manual_seed(1000 * self.seed + step)
        return torch.randint(11, (4, 9), generator=generator)


def settings(**changes):
    plain = dict(steps=12, warmup_steps=3, log_every=100, checkpoint_every=4, bf16=False)
    return TrainConfig(**{**plain, **changes})


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same_weights(a, b):
    a, b = weights(a), weights(b)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def raise_once(error, at):
    todo = [at]

    def before(step):
        if step in todo:
            todo.clear()
            raise error

    return before


# ---- the loss, the schedule, the optimizer ----


def test_losses_are_minus_log_p_of_the_next_token():
    logits = 3 * torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    tokens = torch.tensor([[0, 4, 2, 2], [1, 1, 3, 0]])
    losses = next_token_losses(logits, tokens)
    assert losses.shape == (2, 3)
    for text in range(2):
        for t in range(3):
            row = [math.exp(x) for x in logits[text, t].tolist()]
            p = row[tokens[text, t + 1]] / sum(row)
            assert losses[text, t].item() == pytest.approx(-math.log(p), abs=1e-5)


def test_uniform_logits_cost_log_of_the_vocabulary():
    losses = next_token_losses(torch.zeros(1, 3, 50), torch.tensor([[3, 7, 49]]))
    torch.testing.assert_close(losses, torch.full((1, 2), math.log(50)))


def test_train_minimizes_the_mean_of_next_token_losses(make_model):
    model, batches = make_model(), Batches()
    tokens = batches[0]
    # The loss of 9 tokens needs logits at the first 8; next_token_losses ignores the last ones.
    logits = torch.cat([model(tokens[:, :-1]), torch.zeros(4, 1, 11)], dim=1)
    expected = next_token_losses(logits, tokens).mean().item()
    history = train(model, batches, settings(steps=1), quiet=True)
    assert history.losses == pytest.approx([expected], abs=1e-6)
    assert history.tokens_per_step == 4 * 8


def test_learning_rate_warms_up_and_decays_linearly():
    config = TrainConfig(steps=100, learning_rate=2.0, warmup_steps=10, final_share=0.1)
    rates = [config.learning_rate_at(step) for step in range(100)]
    for step, rate in enumerate(rates):
        decay = 2.0 + (0.2 - 2.0) * step / 100
        assert rate == pytest.approx(decay * min(1, (step + 1) / 10))
    assert max(rates) == rates[9] and rates[-1] == pytest.approx(0.2, rel=0.1)
    assert TrainConfig(steps=10, warmup_steps=0, learning_rate=2.0).learning_rate_at(0) == 2.0


def test_the_schedule_reaches_the_optimizer(make_model):
    start, first = make_model(positions="relative"), make_model(positions="relative")
    config = settings(steps=1, learning_rate=1e-3, warmup_steps=0, weight_decay=0.0)
    train(first, Batches(), config, quiet=True)
    for name, before in weights(start).items():  # Adam's first step has the size of the rate
        moved = (weights(first)[name] - before).abs().max().item()
        factor = config.learning_rate_relative if name.endswith("b_rel") else 1
        assert moved == pytest.approx(1e-3 * factor, rel=0.05)


@pytest.mark.parametrize("seconds", [{"fp32": 3.0, "bf16": 2.0}, {"fp32": 1.1, "bf16": 1.0}])
def test_bf16_is_kept_where_it_was_measured_to_be_faster(make_model, monkeypatch, seconds):
    monkeypatch.setattr(precision, "has_fast_bf16", lambda device: True)
    monkeypatch.setattr(precision, "measured_seconds", lambda *_: seconds)
    history = train(make_model(), Batches(), settings(bf16=None), quiet=True)
    assert history.measured == seconds and history.bf16 == (seconds["fp32"] == 3.0)
    expected = train(make_model(), Batches(), settings(bf16=history.bf16), quiet=True)
    assert history.losses == expected.losses and expected.measured == {}


def test_measuring_changes_neither_weights_nor_gradients_nor_random_numbers(make_model):
    model, state = make_model(), torch.random.get_rng_state()
    before = weights(model)
    seconds = measured_seconds(model, Batches()[0], settings())
    assert set(seconds) == {"fp32", "bf16"} and min(seconds.values()) > 0
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_without_a_gpu_or_amx_nothing_is_measured(make_model, monkeypatch):
    monkeypatch.setattr(precision, "has_fast_bf16", lambda device: False)
    history = train(make_model(), Batches(), settings(bf16=None), quiet=True)
    assert history.bf16 is False and history.measured == {}


def test_a_resumed_run_keeps_its_precision(make_model, tmp_path, monkeypatch):
    config = settings(checkpoint=str(tmp_path / "run.safetensors"), bf16=None)
    monkeypatch.setattr(precision, "has_fast_bf16", lambda device: True)
    monkeypatch.setattr(precision, "measured_seconds", lambda *_: {"fp32": 2.0, "bf16": 1.0})
    stop = Batches(before=raise_once(KeyboardInterrupt(), at=5))
    assert train(make_model(), stop, config, quiet=True).bf16
    monkeypatch.setattr(precision, "has_fast_bf16", lambda device: False)
    history = train(make_model(), Batches(), config, quiet=True)
    expected = train(make_model(), Batches(), settings(bf16=True), quiet=True)
    assert history.bf16 and history.losses == expected.losses


def test_bf16_trains_to_about_the_same_loss(make_model):
    losses = {}
    for bf16 in (True, False):
        losses[bf16] = train(make_model(), Batches(), settings(bf16=bf16), quiet=True).losses
    assert losses[True] != losses[False]
    assert losses[True] == pytest.approx(losses[False], abs=0.1)


@pytest.mark.parametrize("kind", [list, torch.stack])
def test_batches_may_be_a_list_or_a_tensor(make_model, kind):
    batches = kind([Batches()[step] for step in range(12)])
    expected = train(make_model(), Batches(), settings(), quiet=True)
    assert train(make_model(), batches, settings(), quiet=True).losses == expected.losses


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([torch.zeros(2, 9, dtype=torch.long)] * 3, "3 batches for 12 steps: lower steps to 3"),
        (iter([torch.zeros(2, 9, dtype=torch.long)]), r"list_iterator.*list\(batches\)"),
        ([torch.zeros(2, 9)] * 12, r"integers.*got torch.float32 \[2, 9\]"),
        ([[[1, 2, 3]]] * 12, "got <class 'list'>"),
        (torch.zeros(12, 9, dtype=torch.long), r"got torch.int64 \[9\]"),
    ],
)
def test_batches_that_cannot_be_used_are_refused_before_training(make_model, batches, message):
    model = make_model()
    with pytest.raises(ValueError, match=message):
        train(model, batches, settings(), quiet=True)
    assert same_weights(model, make_model())


def test_a_tiny_model_learns_a_deterministic_sequence(make_model):
    model = make_model(n_layers=1, d_model=16, d_head=8)
    cycle = torch.arange(18).reshape(2, 9) % 11

    class Cycle:
        def __getitem__(self, step):
            return (cycle + step) % 11

    history = train(model, Cycle(), settings(steps=120, learning_rate=1e-2), quiet=True)
    assert history.losses[0] > 1.5 and history.losses[-1] < 0.02
    assert history.ended == "finished" and history.steps == 120
    assert generate(model, torch.tensor([3]), 6, temperature=0).tolist() == [3, 4, 5, 6, 7, 8, 9]


def test_smoothed_is_the_mean_of_the_last_n():
    losses = [5.0, 1.0, 4.0, 2.0, 8.0, 0.5]
    expected = [
        sum(losses[max(0, i - 2) : i + 1]) / len(losses[max(0, i - 2) : i + 1]) for i in range(6)
    ]
    assert History(losses).smoothed(3).tolist() == pytest.approx(expected)


def test_log_lines_and_watch_come_every_log_every_steps(make_model, capsys):
    seen = []
    config = settings(steps=7, log_every=3)
    train(make_model(), Batches(), config, watch=lambda history: seen.append(history.steps))
    rates, *lines = capsys.readouterr().out.splitlines()
    assert rates == "learning rates: others (AdamW) 0.004; fp32" and seen == [3, 6, 7]
    assert [int(line.split()[1]) for line in lines] == [3, 6, 7]
    assert "s left" in lines[0] and "tokens/s" in lines[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0), ("steps", True), ("log_every", 0), ("checkpoint_every", -1),
        ("warmup_steps", -1), ("learning_rate", 0.0), ("learning_rate", math.nan),
        ("learning_rate", math.inf), ("clip_norm", -1.0), ("learning_rate_heads", 0),
    ],
)  # fmt: skip
def test_a_bad_setting_is_named_with_its_value(name, value):
    with pytest.raises(ValueError, match=f"{name} must be .* got {value!r}"):
        TrainConfig(**{name: value})


# ---- stopping and going on ----


@pytest.mark.parametrize(
    ("positions", "optimizer"),
    [("shortformer", "adamw"), ("relative", "adamw"), ("relative", "muon")],
)
def test_an_interrupted_run_saves_and_resumes_identically(
    make_model, tmp_path, capsys, positions, optimizer
):
    path = tmp_path / "new" / "run.safetensors"
    config = settings(checkpoint=str(path), checkpoint_every=100, optimizer=optimizer)
    straight = make_model(positions=positions)
    expected = train(straight, Batches(), settings(optimizer=optimizer), quiet=True)

    model = make_model(positions=positions)
    stop = Batches(before=raise_once(KeyboardInterrupt(), at=5))
    history = train(model, stop, config, quiet=True)
    assert (history.ended, history.steps) == ("interrupted", 5)
    assert "interrupted after 5 of 12 steps" in capsys.readouterr().out
    assert not model.training

    again = make_model(seed=3, positions=positions)  # its own weights are replaced
    history = train(again, Batches(), config, quiet=True)
    assert "resumed from run.safetensors at step 5" in capsys.readouterr().out
    assert history.ended == "finished" and history.losses == expected.losses
    assert same_weights(again, straight)
    assert [p.name for p in path.parent.iterdir()] == [
        "run.safetensors"
    ]  # no temporary file is left

    third = make_model(seed=4, positions=positions)  # a finished run has nothing left to do
    batches = Batches()
    history = train(third, batches, config, quiet=True)
    assert (
        batches.steps == [0] and history.losses == expected.losses and same_weights(third, straight)
    )


def test_a_stop_during_the_update_keeps_weights_and_history_together(make_model, tmp_path):
    config = settings(checkpoint=str(tmp_path / "run.safetensors"), checkpoint_every=100)
    straight = make_model()
    expected = train(straight, Batches(), settings(), quiet=True)
    steps = []

    def press_stop(*_):
        steps.append(1)
        if len(steps) == 6:
            os.kill(os.getpid(), signal.SIGINT)

    hook = register_optimizer_step_post_hook(press_stop)
    try:
        history = train(make_model(), Batches(), config, quiet=True)
    finally:
        hook.remove()
    assert (history.ended, history.steps) == ("interrupted", 6)
    again = make_model()
    assert train(again, Batches(), config, quiet=True).losses == expected.losses
    assert same_weights(again, straight)


def test_a_run_that_dies_between_two_checkpoints_resumes_identically(make_model, tmp_path):
    path = tmp_path / "run.safetensors"
    config, straight = settings(checkpoint=str(path)), make_model()  # saves after steps 4, 8 and 12
    expected = train(straight, Batches(), settings(), quiet=True)
    with pytest.raises(MemoryError):  # like a killed process, it writes nothing more
        train(make_model(), Batches(before=raise_once(MemoryError(), at=6)), config, quiet=True)
    assert int(load_file(path)["optimizer.step.W_E"]) == 4
    resumed, batches = make_model(seed=3), Batches()
    assert train(resumed, batches, config, quiet=True).losses == expected.losses
    assert batches.steps == [0, *range(4, 12)] and same_weights(resumed, straight)


def test_resume_false_starts_anew(make_model, tmp_path):
    config = settings(checkpoint=str(tmp_path / "run.safetensors"))
    train(make_model(), Batches(), config, quiet=True)
    batches = Batches()
    history = train(make_model(), batches, config, resume=False, quiet=True)
    assert batches.steps == [0, *range(12)] and history.steps == 12


# ---- what goes wrong ----


def test_a_diverging_run_names_step_rate_and_last_loss(make_model):
    model = make_model(layer_norm=False)
    config = settings(steps=50, learning_rate=1e25, warmup_steps=0)
    before, losses = {}, []

    def remember(step):
        before.update(weights(model))

    with pytest.raises(NonFiniteLoss) as caught:
        train(
            model,
            Batches(before=remember),
            config,
            watch=lambda h: losses.extend(h.losses),
            quiet=True,
        )
    message = str(caught.value)
    assert "at step 1, learning rate 9.8e+24" in message and "Lower learning_rate" in message
    expected = train(make_model(layer_norm=False), Batches(), settings(steps=1), quiet=True).losses[
        0
    ]
    assert f"last finite loss {expected}" in message
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())


def test_a_non_finite_loss_keeps_the_earlier_checkpoint(make_model, tmp_path):
    path = tmp_path / "run.safetensors"
    config = settings(checkpoint=str(path))
    model = make_model()

    def poison(step):
        if step == 6:
            model.W_U.data[0, 0] = math.nan

    with pytest.raises(NonFiniteLoss, match="at step 6, "):
        train(model, Batches(before=poison), config, quiet=True)
    straight, resumed = make_model(), make_model()
    expected = train(straight, Batches(), settings(), quiet=True)
    assert train(resumed, Batches(), config, quiet=True).losses == expected.losses
    assert same_weights(resumed, straight)


@pytest.fixture
def saved(make_model, tmp_path):
    """The checkpoint of a finished run and its settings."""
    config = settings(checkpoint=str(tmp_path / "run.safetensors"))
    train(make_model(), Batches(), config, quiet=True)
    return Path(config.checkpoint), config


def refused(model, batches, config, match):
    """train raises a ValueError before it has touched the model or the file."""
    before, content = weights(model), Path(config.checkpoint).read_bytes()
    with pytest.raises(ValueError, match=match):
        train(model, batches, config, quiet=True)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert Path(config.checkpoint).read_bytes() == content and batches.steps == [0]


def test_resuming_with_other_settings_names_what_changed(make_model, saved):
    path, config = saved
    other = settings(checkpoint=str(path), learning_rate=1e-3)
    refused(make_model(), Batches(), other, r"changed: learning_rate 0\.004 → 0\.001.*resume=False")
    refused(make_model(n_heads=4, d_head=2), Batches(), config, r"n_heads 2 → 4, d_head 4 → 2")


def test_resuming_with_other_data_says_so(make_model, saved):
    refused(make_model(), Batches(seed=1), saved[1], "another run .changed: the data")


def test_settings_that_change_no_loss_may_change(make_model, saved):
    path, _ = saved
    train(
        make_model(),
        Batches(),
        settings(checkpoint=str(path), log_every=1, checkpoint_every=1),
        quiet=True,
    )


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, 0.999])
def test_a_truncated_checkpoint_is_refused(make_model, saved, keep):
    path, config = saved
    content = path.read_bytes()
    path.write_bytes(content[: int(keep if keep > 1 else keep * len(content))])
    refused(make_model(), Batches(), config, f"{path.name} is damaged or not a training checkpoint")


@pytest.mark.parametrize("at", [0, 7, 9, 30, 60])
def test_a_flipped_byte_in_the_header_is_refused(make_model, saved, at):
    path, config = saved
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)
    refused(make_model(), Batches(), config, f"{path.name} is damaged or not a training checkpoint")


def test_a_flipped_byte_in_the_weights_is_refused(make_model, saved):
    path, config = saved
    content = bytearray(path.read_bytes())
    content[-100] ^= 0x01
    path.write_bytes(content)
    refused(make_model(), Batches(), config, f"{path.name} is damaged .its sha256 differs")


def test_another_safetensors_file_is_refused(make_model, saved):
    path, config = saved
    save_file({"W_E": torch.zeros(3)}, path)
    refused(make_model(), Batches(), config, f"{path.name} is damaged or not a training checkpoint")


def test_a_folder_that_cannot_be_written_fails_before_the_first_step(make_model, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    model, batches = make_model(), Batches()
    config = settings(checkpoint=str(tmp_path / "file" / "below" / "run.safetensors"))
    with pytest.raises(OSError, match=r"cannot write in .*file/below.*choose another folder"):
        train(model, batches, config, quiet=True)
    assert batches.steps == [0] and same_weights(model, make_model())


def goes_on_without_space(make_model, path, fill, free):
    """Train over a disk that fills up after the first checkpoint; then resume from that one."""
    config = settings(checkpoint=str(path))  # saves after steps 4, 8 and 12
    straight, model = make_model(), make_model()
    expected = train(straight, Batches(), settings(), quiet=True)
    with pytest.warns(
        UserWarning, match=r"could not save .* at step (8|12) .*No space left"
    ) as caught:
        history = train(
            model, Batches(before=lambda step: fill() if step == 5 else None), config, quiet=True
        )
    assert len(caught) == 2
    assert history.ended == "finished" and history.losses == expected.losses
    assert same_weights(model, straight)
    assert int(load_file(path)["optimizer.step.W_E"]) == 4
    assert not list(path.parent.glob(".run*"))  # no half-written file either
    free()
    again, batches = make_model(seed=2), Batches()
    assert train(again, batches, config, quiet=True).losses == expected.losses
    assert batches.steps == [0, *range(4, 12)] and same_weights(again, straight)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_training_goes_on_when_saving_fails(make_model, tmp_path, monkeypatch, call):
    real = getattr(os, call)

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    goes_on_without_space(
        make_model,
        tmp_path / "run.safetensors",
        lambda: monkeypatch.setattr(os, call, full),
        lambda: monkeypatch.setattr(os, call, real),
    )


@pytest.mark.parametrize(
    "bad", [{"weight_decay": -1.0}, {"betas": (2.0, 3.0)}, {"final_share": -3.0}]
)
def test_impossible_shares_are_refused(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))}.* must be a number from 0 to 1"):
        TrainConfig(**bad)


def test_an_unknown_optimizer_is_refused():
    with pytest.raises(ValueError, match="no optimizer is called 'moon'; did you mean 'muon'"):
        TrainConfig(optimizer="moon")


def test_a_changed_history_is_refused(make_model, saved):
    path, config = saved
    content = path.read_bytes()
    at = content.index(b"losses") + 14
    digit = b"1" if content[at : at + 1] != b"1" else b"2"
    path.write_bytes(content[:at] + digit + content[at + 1 :])
    refused(make_model(), Batches(), config, f"{path.name} is damaged")


def test_a_folder_in_place_of_the_checkpoint_is_named(make_model, tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(ValueError, match="checkpoint must be a file, but .*run is a folder"):
        train(make_model(), Batches(), settings(checkpoint=str(tmp_path / "run")), quiet=True)
