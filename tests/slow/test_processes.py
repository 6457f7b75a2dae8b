"""Two processes of torchrun train as one does. This file is also the script that torchrun runs."""

import contextlib
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import aot_helpers
import recipes
import train as train_tool
from aot_helpers import parallel
from aot_helpers.base import files
from aot_helpers.models import checkpoints
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.text.corpora import load_corpus
from aot_helpers.training import precision
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.train import NonFiniteLoss, train

ROOT = Path(__file__).resolve().parents[2]
OPTIMIZERS = ("adamw", "muon")
TORCHRUN = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
NEAR = dict(rel=0, abs=1e-4)
pytestmark = pytest.mark.skipif(os.name == "nt", reason="not tried on Windows")


class Batches:
    """Random tokens that depend on the step alone; `before(step)` runs before each batch."""

    def __init__(self, rows=4, before=lambda step: None):
        self.rows, self.before = rows, before

    def __getitem__(self, step):
        self.before(step)
        generator = torch.Generator().manual_seed(step)
        return torch.randint(11, (self.rows, 9), generator=generator)


def tiny(seed=0):
    torch.manual_seed(seed)
    shape = dict(d_vocab=11, n_layers=2, d_model=8, n_heads=2, d_head=4, n_ctx=10)
    return AttentionOnlyTransformer(ModelConfig(**shape, positions="relative"))


def trained(batches=None, seed=0, watch=None, quiet=True, **changes):
    """(model, history) of a run of 8 steps."""
    plain = dict(steps=8, warmup_steps=3, log_every=3, checkpoint_every=100, bf16=False)
    model, config = tiny(seed), TrainConfig(**{**plain, **changes})
    return model, train(model, batches or Batches(), config, watch=watch, quiet=quiet)


def few_texts(name, split="train"):
    return load_corpus(name, "test")


def tiny_runs():
    shape = dict(d_vocab=98, d_model=16, n_heads=2, d_head=8, n_ctx=24, batch_size=8)
    return {"tiny": recipes.Run("planted", 1, steps=50, kept=(0,), repeat_share=0, **shape)}


# ---- what the processes do ----


def press_stop():
    os.kill(os.getpid(), signal.SIGINT)


def message_of(error, run):
    """What the error says that a training run raises."""
    try:
        run()
    except error as caught:
        return str(caught)
    return "nothing was raised"


def one_optimizer(folder, rank, optimizer):
    """What a straight run, a stopped one and the one that goes on are seen to do."""
    drawn, printed = [], io.StringIO()
    with contextlib.redirect_stdout(printed):  # the weights are those of process 0
        watch = dict(watch=lambda h: drawn.append(h.steps), quiet=False)
        model, history = trained(seed=rank, optimizer=optimizer, **watch)
    named = {name: p.detach() for name, p in model.named_parameters()}
    save_file(named, folder / f"{optimizer}-{rank}.safetensors")
    path = folder / f"{optimizer}.safetensors"
    kept = dict(optimizer=optimizer, checkpoint=str(path))
    stop = Batches(before=lambda step: press_stop() if (step, rank) == (4, 1) else None)
    _, stopped = trained(stop, **kept)
    if rank == 0:
        shutil.copy(path, folder / f"{optimizer}-stopped.safetensors")
    parallel.wait()
    return {
        "losses": history.losses,
        "tokens": history.tokens_per_step,
        "drawn": drawn,
        "printed": printed.getvalue(),
        "stopped": [stopped.ended, stopped.steps],
        "resumed": trained(seed=5, **kept)[1].losses,
    }


def everything(folder):
    """All that is compared, in one start: each process writes what it saw to <rank>.json."""
    rank = parallel.rank()
    saw = {name: one_optimizer(folder, rank, name) for name in OPTIMIZERS}
    saw["processes"] = parallel.size()
    saw["odd"] = message_of(ValueError, lambda: trained(Batches(rows=5)))
    saw["other"] = message_of(ValueError, lambda: trained(learning_rate=0.01 + 0.01 * rank))
    saw["nan"] = message_of(NonFiniteLoss, poisoned)
    saw["gradients"] = gradients_of(parallel.share(Batches()[0]), parallel.average_gradients)
    precision.has_fast_bf16 = lambda device: True
    precision.measured_seconds = lambda *_: {"fp32": 2.0, "bf16": 1.0 + 2 * rank}
    _, history = trained(bf16=None)
    saw["bf16"] = [history.bf16, history.losses]
    (folder / f"{rank}.json").write_text(json.dumps(saw))


def gradients_of(tokens, finish=lambda model: None):
    """The gradients of the mean loss, as one list of numbers."""
    model = tiny()
    F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
    finish(model)
    return torch.cat([p.grad.flatten() for p in model.parameters()]).tolist()


def poisoned():
    """Train a model of which process 1 alone gets a weight that is not a number, at step 2."""
    model, config = tiny(), TrainConfig(steps=8, bf16=False)

    def poison(step):
        if (step, parallel.rank()) == (2, 1):
            model.W_U.data[0, 0] = math.nan

    train(model, Batches(before=poison), config, quiet=True)


def endless(folder):
    """Run until the stop button, as someone presses it in a terminal; then say so."""
    begun = Batches(before=lambda step: (folder / "begun").touch() if step == 20 else None)
    _, history = trained(begun, steps=10**6, checkpoint=str(folder / "endless.safetensors"))
    (folder / f"{parallel.rank()}.json").write_text(json.dumps([history.ended, history.steps]))


def tool(folder):
    """The tool that trains the shipped checkpoints, on a tiny run."""
    files.DATA, recipes.RUNS = folder, tiny_runs()
    train_tool.load_corpus = few_texts
    train_tool.make("tiny")


JOBS = {
    "everything": everything,
    "endless": endless,
    "tool": tool,
    "odd": lambda _: trained(Batches(rows=5)),
    "nan": lambda _: poisoned(),
}


# ---- what is asked of them ----


def start(job, folder, launcher=(sys.executable, "-m", *TORCHRUN)):
    """Start this file in two processes, in a group of their own that a time-out can end."""
    paths = [ROOT, ROOT / "tools", os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(map(str, paths))
    return subprocess.Popen(
        [*launcher, __file__, job, str(folder)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def end(started, seconds=120):
    """The exit code and the output; a hang fails."""
    with started:
        try:
            return started.communicate(timeout=seconds)[0], started.returncode
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            pytest.fail(f"not done after {seconds} s: {started.communicate()[0]}")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The folder that two processes wrote, and what each of them saw."""
    folder = tmp_path_factory.mktemp("pair")
    output, code = end(start("everything", folder))
    assert code == 0, output
    return folder, [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_two_processes_take_the_steps_of_one(pair, optimizer):
    folder, saw = pair
    model, history = trained(optimizer=optimizer)
    for rank in (0, 1):
        assert saw[rank]["processes"] == 2
        assert saw[rank][optimizer]["losses"] == pytest.approx(history.losses, **NEAR)
        assert saw[rank][optimizer]["tokens"] == history.tokens_per_step == 4 * 8
        weights = load_file(folder / f"{optimizer}-{rank}.safetensors")
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(weights[name], parameter.detach(), rtol=0, atol=1e-4)
    assert saw[0][optimizer]["losses"] == saw[1][optimizer]["losses"]


def test_gradients_are_those_of_the_whole_batch(pair):
    """Also in size, to which AdamW and Muon are blind where every step is clipped."""
    for saw in pair[1]:
        assert saw["gradients"] == pytest.approx(gradients_of(Batches()[0]), rel=0, abs=1e-6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_process_0_alone_prints_and_draws(pair, optimizer):
    first, second = (saw[optimizer] for saw in pair[1])
    assert second["printed"] == "" and second["drawn"] == [] and first["drawn"] == [3, 6, 8]
    words = [line.split()[0] for line in first["printed"].splitlines()]
    assert words == ["learning", "step", "step", "step"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_stop_in_one_process_stops_both_and_any_number_goes_on(pair, optimizer, capsys):
    folder, saw = pair
    straight = saw[0][optimizer]["losses"]
    for rank in (0, 1):
        assert saw[rank][optimizer]["stopped"] == ["interrupted", 4]
        assert saw[rank][optimizer]["resumed"] == pytest.approx(straight, **NEAR)
    path = folder / f"{optimizer}-stopped.safetensors"
    _, history = trained(seed=6, optimizer=optimizer, checkpoint=str(path))
    assert "resumed from" in capsys.readouterr().out
    assert history.losses == pytest.approx(straight, **NEAR)
    assert history.losses[:4] == straight[:4]


def test_process_0_decides_whether_bf16_is_faster(pair):
    first, second = pair[1]
    assert first["bf16"] == second["bf16"] and first["bf16"][0]
    assert first["bf16"][1] != first["adamw"]["losses"]


def test_errors_reach_both_processes(pair):
    for saw in pair[1]:
        assert "a batch of 5 rows" in saw["odd"] and "by 2 processes" in saw["odd"]
        assert "batch_size a multiple" in saw["odd"]
        assert "learning_rate [0.01, 0.02]: give all of them the same settings" in saw["other"]
        assert "the loss is nan at step 2," in saw["nan"]


@pytest.mark.parametrize(
    ("job", "message"), [("odd", "a batch of 5 rows"), ("nan", "NonFiniteLoss: the loss is nan")]
)
def test_an_error_ends_the_launcher_promptly(tmp_path, job, message):
    started = time.perf_counter()
    output, code = end(start(job, tmp_path))
    assert code != 0 and message in output
    assert time.perf_counter() - started < 60  # of which most is the start; a hang takes minutes


def test_the_stop_button_of_a_terminal_saves_and_one_process_goes_on(tmp_path):
    """Ctrl-C reaches the launcher and both processes, and the launcher passes on its own."""
    started = start("endless", tmp_path)
    until = time.perf_counter() + 60
    while not (tmp_path / "begun").exists() and time.perf_counter() < until:
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    output, _ = end(started, 60)
    path = tmp_path / "endless.safetensors"
    assert path.exists(), output
    steps = int(load_file(path)["optimizer.step.W_E"])
    assert steps >= 20
    for rank in (0, 1):
        told = tmp_path / f"{rank}.json"  # unless the launcher was quicker
        assert not told.exists() or json.loads(told.read_text()) == ["interrupted", steps]

    def stop(step):
        assert step < steps + 20, "the stop was ignored: is SIGINT blocked in this terminal?"
        if step == steps + 2:
            press_stop()

    _, history = trained(Batches(before=stop), seed=7, steps=10**6, checkpoint=str(path))
    assert (history.ended, history.steps) == ("interrupted", steps + 2)


def test_the_tool_writes_one_checkpoint_from_two_processes(tmp_path, monkeypatch):
    output, code = end(start("tool", tmp_path))
    assert code == 0, output
    assert output.count("step    50 of 50") == 1
    monkeypatch.setattr(recipes, "RUNS", tiny_runs())
    monkeypatch.setattr(train_tool, "load_corpus", few_texts)
    found = {}
    for n_processes, folder in {2: tmp_path, 1: tmp_path / "alone"}.items():
        monkeypatch.setattr(files, "DATA", folder)
        if n_processes == 1:
            train_tool.make("tiny")
        assert checkpoints.checkpoint_steps("tiny") == [0, 50]
        found[n_processes] = checkpoints.load_measurements("tiny")
        found[n_processes]["model"] = checkpoints.load_checkpoint("tiny").W_U
        assert found[n_processes]["provenance"]["processes"] == n_processes
    assert "torchrun --nproc-per-node 2" in found[2]["provenance"]["command"]
    for one, other in zip(*(found[n]["measured"] for n in found), strict=True):
        assert one["text"] == pytest.approx(other["text"], abs=2e-4)  # rounded to 4 digits
    torch.testing.assert_close(found[2]["model"], found[1]["model"], rtol=0, atol=1e-3)


def test_accelerate_launch_starts_the_same_run(tmp_path):
    pytest.importorskip("accelerate", reason="not needed: it sets the variables of torchrun")
    launch = ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    output, code = end(start("everything", tmp_path, (sys.executable, "-m", *launch)))
    assert code == 0, output
    saw = json.loads((tmp_path / "1.json").read_text())
    assert saw["adamw"]["losses"] == pytest.approx(trained()[1].losses, **NEAR)


if __name__ == "__main__":
    aot_helpers.setup()
    JOBS[sys.argv[1]](Path(sys.argv[2]))
