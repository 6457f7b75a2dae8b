import errno
import math
import os
import signal
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.optim.optimizer import register_optimizer_step_post_hook

from aot_helpers.models.losses import next_token_losses
from aot_helpers.text.batches import MaskedWindows, Windows
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.history import History
from aot_helpers.training.stopping import stop_button
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
    plain = dict(steps=12, warmup_steps=3, log_every=100, checkpoint_every=4)
    return TrainConfig(**{**plain, **changes})


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def same_weights(a, b):
    a, b = (m if isinstance(m, dict) else weights(m) for m in (a, b))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def raising(error, at):
    """Raise the error before the batch of one step, once."""
    todo = [at]

    def before(step):
        if step in todo:
            todo.clear()
            raise error

    return before


@pytest.fixture
def run(make_model):
    """(history, model) of a run of 12 steps; `model` and `batches` where they are not plain."""

    def run(model=None, batches=None, watch=None, resume=True, **changes):
        model = model or make_model()
        batches = Batches() if batches is None else batches
        return train(model, batches, settings(**changes), resume, watch, quiet=True), model

    return run


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.safetensors"


# ---- the loss, the schedule, the precision ----


def test_losses_are_minus_log_p_of_the_next_token():
    logits = 3 * torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    tokens = torch.tensor([[0, 4, 2, 2], [1, 1, 3, 0]])
    losses = next_token_losses(logits, tokens)
    for text in range(2):
        for t in range(3):
            row = [math.exp(x) for x in logits[text, t].tolist()]
            p = row[tokens[text, t + 1]] / sum(row)
            assert losses[text, t].item() == pytest.approx(-math.log(p), abs=1e-5)
    uniform = next_token_losses(torch.zeros(1, 3, 50), torch.tensor([[3, 7, 49]]))
    torch.testing.assert_close(uniform, torch.full((1, 2), math.log(50)))


def test_learning_rate_warms_up_and_decays_linearly():
    config = TrainConfig(steps=100, learning_rate=2.0, warmup_steps=10, final_fraction=0.1)
    rates = [config.learning_rate_at(step) for step in range(100)]
    for step, rate in enumerate(rates):
        decay = 2.0 + (0.2 - 2.0) * step / 100
        assert rate == pytest.approx(decay * min(1, (step + 1) / 10))
    assert TrainConfig(steps=10, warmup_steps=0, learning_rate=2.0).learning_rate_at(0) == 2.0


def test_bf16_trains_to_about_the_same_loss(run):
    half, full = run(bf16=True)[0].losses, run(bf16=False)[0].losses
    assert half != full and half == pytest.approx(full, abs=0.1)


# ---- batches, history, settings ----


@pytest.mark.parametrize("kind", [list, torch.stack])
def test_batches_may_be_a_list_or_a_tensor(run, kind):
    batches = kind([Batches()[step] for step in range(12)])
    assert run(batches=batches)[0].losses == run()[0].losses


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([torch.zeros(2, 9, dtype=torch.long)] * 3, "3 batches for 12 steps: lower steps to 3"),
        (iter([torch.zeros(2, 9, dtype=torch.long)]), r"list_iterator.*list\(batches\)"),
        ([torch.zeros(2, 9)] * 12, r"integers.*got torch.float32 \[2, 9\]"),
        ([[[1, 2, 3]]] * 12, "got <class 'list'>"),
        (torch.zeros(12, 9, dtype=torch.long), r"got torch.int64 \[9\]"),
        ([(torch.zeros(2, 9, dtype=torch.long), None)] * 12, "got <class 'NoneType'>"),
        (
            [(torch.zeros(2, 9, dtype=torch.long), torch.zeros(2, 8, dtype=torch.long))] * 12,
            r"of one shape, got \[\[2, 9\], \[2, 8\]\]",
        ),
        ([(torch.zeros(2, 9, dtype=torch.long), torch.full((2, 9), -100))] * 12, "no target"),
        ([(torch.zeros(2, 9, dtype=torch.long), torch.full((2, 9), 99))] * 12, "99"),
    ],
)
def test_batches_that_cannot_be_used_are_refused_before_training(make_model, batches, message):
    model = make_model()
    with pytest.raises(ValueError, match=message):
        train(model, batches, settings(), quiet=True)
    assert same_weights(model, make_model())


def test_smoothed_is_the_mean_of_the_last_n():
    losses = [5.0, 1.0, 4.0, 2.0, 8.0, 0.5]
    windows = [losses[max(0, i - 2) : i + 1] for i in range(6)]
    expected = [sum(window) / len(window) for window in windows]
    assert History(losses).smoothed(3).tolist() == pytest.approx(expected)


def test_log_lines_and_watch_come_every_log_every_steps(make_model, capsys):
    seen = []
    config = settings(steps=7, log_every=3)
    train(make_model(), Batches(), config, watch=lambda history: seen.append(history.steps))
    rates, *lines = capsys.readouterr().out.splitlines()
    assert rates == "learning rates: others (AdamW) 0.004; fp32" and seen == [3, 6, 7]
    assert [int(line.split()[1]) for line in lines] == [3, 6, 7]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("steps", True),
        ("checkpoint_every", -1),
        ("warmup_steps", -1),
        ("learning_rate", math.nan),
        ("learning_rate", math.inf),
        ("clip_norm", -1.0),
        ("weight_decay", -1.0),
        ("final_fraction", -3.0),
        ("optimizer", "moon"),
        ("bf16", "no"),
    ],
)
def test_a_bad_setting_is_named_with_its_value(name, value):
    with pytest.raises(ValueError, match=rf"{name}.*{value!r}"):
        TrainConfig(**{name: value})


# ---- stopping and going on ----


@pytest.mark.parametrize(
    ("positions", "optimizer"),
    [("shortformer", "adamw"), ("relative", "adamw"), ("relative", "muon")],
)
def test_an_interrupted_run_saves_and_resumes_identically(
    make_model, run, tmp_path, capsys, positions, optimizer
):
    folder, kind = tmp_path / "new", dict(optimizer=optimizer, checkpoint_every=100)
    expected, straight = run(make_model(positions=positions), **kind)
    kind["checkpoint"] = str(folder / "run.safetensors")
    stop = Batches(before=raising(KeyboardInterrupt(), at=5))
    history, model = run(make_model(positions=positions), stop, **kind)
    assert (history.ended, history.steps, model.training) == ("interrupted", 5, False)
    assert "interrupted after 5 of 12 steps" in capsys.readouterr().out
    again = make_model(seed=3, positions=positions)  # its own weights are replaced
    history, _ = run(again, **kind)
    assert "resumed from run.safetensors at step 5" in capsys.readouterr().out
    assert history.ended == "finished" and history.losses == expected.losses
    assert same_weights(again, straight)
    assert [file.name for file in folder.iterdir()] == ["run.safetensors"]  # no temporary file

    batches = Batches()  # a finished run has nothing left to do
    history, third = run(make_model(seed=4, positions=positions), batches, **kind)
    assert batches.steps == [0] and history.losses == expected.losses
    assert same_weights(third, straight)


@pytest.mark.parametrize("during", ["the update", "the forward pass"])
def test_the_stop_button_ends_no_step_in_its_middle(make_model, run, path, during):
    expected, straight = run()
    done, model, handler = [], make_model(), signal.getsignal(signal.SIGINT)
    at = 6 if during == "the update" else 7  # that pass belongs to no step

    def press_stop(*_):
        done.append(1)
        if len(done) == at:
            signal.raise_signal(signal.SIGINT)

    hooked = {"the update": register_optimizer_step_post_hook}
    hook = hooked.get(during, model.register_forward_hook)(press_stop)
    try:
        history, _ = run(model, checkpoint=str(path), checkpoint_every=100)
    finally:
        hook.remove()
    assert (history.ended, history.steps) == ("interrupted", 6)
    assert signal.getsignal(signal.SIGINT) == handler
    history, again = run(checkpoint=str(path))
    assert history.losses == expected.losses and same_weights(again, straight)


def test_a_stop_button_that_does_nothing_goes_on_doing_nothing():
    def look():
        with stop_button():
            found.append(signal.getsignal(signal.SIGINT))

    found, handler = [], signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background
    try:
        look()
    finally:
        signal.signal(signal.SIGINT, handler)
    thread = threading.Thread(target=look)  # only the main thread is ever interrupted
    thread.start()
    thread.join()
    assert found == [signal.SIG_IGN, handler]


def test_a_run_that_dies_between_two_checkpoints_resumes_identically(make_model, run, path):
    expected, straight = run()
    with pytest.raises(MemoryError):  # like a killed process, it writes nothing more
        run(batches=Batches(before=raising(MemoryError(), at=6)), checkpoint=str(path))
    assert int(load_file(path)["optimizer.step.W_E"]) == 4
    batches = Batches()
    history, resumed = run(make_model(seed=3), batches, checkpoint=str(path))
    assert history.losses == expected.losses and same_weights(resumed, straight)
    assert batches.steps == [0, *range(4, 12)]
    history, _ = run(batches=(anew := Batches()), checkpoint=str(path), resume=False)
    assert anew.steps == [0, *range(12)] and history.steps == 12


# ---- what goes wrong ----


def test_a_diverging_run_names_step_rate_and_last_loss(make_model, run):
    before, model = {}, make_model(layer_norm=False)
    batches = Batches(before=lambda step: before.update(weights(model)))
    with pytest.raises(NonFiniteLoss) as caught:
        run(model, batches, steps=50, learning_rate=1e25, warmup_steps=0)
    message = str(caught.value)
    assert "at step 1, learning rate 9.8e+24" in message and "Lower learning_rate" in message
    expected = run(make_model(layer_norm=False), steps=1)[0].losses[0]
    assert f"last finite loss {expected}" in message and same_weights(model, before)


def test_a_non_finite_loss_keeps_the_earlier_checkpoint(make_model, run, path):
    model = make_model()

    def poison(step):
        if step == 6:
            model.W_U.data[0, 0] = math.nan

    with pytest.raises(NonFiniteLoss, match="at step 6, "):
        run(model, Batches(before=poison), checkpoint=str(path))
    (expected, straight), (history, resumed) = run(), run(checkpoint=str(path))
    assert history.losses == expected.losses and same_weights(resumed, straight)


def refused(model, match, path, batches=None, **changes):
    """train raises a ValueError before it has touched the model or the file."""
    before, content, batches = weights(model), path.read_bytes(), batches or Batches()
    with pytest.raises(ValueError, match=match):
        train(model, batches, settings(checkpoint=str(path), **changes), quiet=True)
    assert same_weights(model, before) and path.read_bytes() == content and batches.steps == [0]


def test_resuming_another_run_names_what_changed(make_model, run, path):
    run(checkpoint=str(path))
    rate = r"changed: learning_rate 0\.004 → 0\.001.*resume=False"
    refused(make_model(), rate, path, learning_rate=1e-3)
    refused(make_model(n_heads=4, d_head=2), "n_heads 2 → 4, d_head 4 → 2", path)
    refused(make_model(), "another run .changed: the data", path, Batches(seed=1))
    run(checkpoint=str(path), log_every=1, checkpoint_every=1)  # these change no loss


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, 0.999])
def test_a_damaged_checkpoint_is_refused(make_model, run, path, keep):
    run(checkpoint=str(path))
    content = path.read_bytes()
    path.write_bytes(content[: int(keep if keep > 1 else keep * len(content))])
    refused(make_model(), f"{path.name} is damaged or not a training checkpoint", path)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("file/below/run.safetensors", OSError, r"cannot write in .*file/below.*another folder"),
        ("folder", ValueError, "checkpoint must be a file, but .*folder is a folder"),
    ],
)
def test_a_place_that_cannot_be_written_fails_before_the_first_step(
    make_model, run, tmp_path, name, error, message
):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "folder").mkdir()
    model, batches = make_model(), Batches()
    with pytest.raises(error, match=message):
        run(model, batches, checkpoint=str(tmp_path / name))
    assert batches.steps == [0] and same_weights(model, make_model())


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_training_goes_on_over_a_full_disk(make_model, run, path, monkeypatch, call):
    """It fills up after the first of the saves at steps 4, 8 and 12; the next run goes on there."""

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    expected, straight = run()
    with monkeypatch.context() as patch:
        fill = Batches(before=lambda step: patch.setattr(os, call, full) if step == 5 else None)
        with pytest.warns(UserWarning, match=r"could not save .* at step .*No space left") as seen:
            history, model = run(batches=fill, checkpoint=str(path))
    assert len(seen) == 2 and history.ended == "finished" and history.losses == expected.losses
    assert same_weights(model, straight)
    assert [file.name for file in Path(path.parent).iterdir()] == [path.name]  # none half-written
    batches = Batches()
    history, again = run(make_model(seed=2), batches, checkpoint=str(path))
    assert history.losses == expected.losses and same_weights(again, straight)
    assert batches.steps == [0, *range(4, 12)]


@pytest.mark.parametrize("betas", [(0.9,), (0.9, 1), (2.0, 0.9)])
def test_betas_are_two_below_one(betas):
    with pytest.raises(ValueError, match="betas.* numbers? from 0 to"):
        TrainConfig(betas=betas)


def test_a_model_that_sees_both_ways_learns_no_next_token(make_model):
    batches = torch.randint(11, (2, 3, 9))
    with pytest.raises(ValueError, match="sees both ways"):
        train(make_model(causal=False), batches, TrainConfig(steps=2))


def test_a_causal_model_learns_no_masked_tokens(make_model):
    windows = Windows(torch.randint(1, 9, (99,)), n_ctx=4, batch_size=2)
    with pytest.raises(ValueError, match=r"ModelConfig\(causal=False\)"):
        train(make_model(), MaskedWindows(windows, mask=10), TrainConfig(steps=2))
