"""Two processes of torchrun train as one does. This file is also the script that torchrun runs."""

import contextlib
import io
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import aot_helpers
import recipes
import train as train_tool
from aot_helpers import parallel
from aot_helpers.base import files
from aot_helpers.models import checkpoints
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.text.corpora import load_corpus
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.train import NonFiniteLoss, train

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
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
    """The history of a run of 8 steps."""
    plain = dict(steps=8, warmup_steps=3, log_every=3, checkpoint_every=100)
    config = TrainConfig(**{**plain, **changes})
    return train(tiny(seed), batches or Batches(), config, watch=watch, quiet=quiet)


def few_texts(name, split="train"):
    return load_corpus(name, "test")


def tiny_runs():
    shape = dict(d_vocab=98, d_model=16, n_heads=2, d_head=8, n_ctx=24, batch_size=8)
    return {"tiny": recipes.Run("planted", 1, steps=50, kept=(0,), repeat_fraction=0, **shape)}


# ---- what the processes do ----


def one_optimizer(folder, rank, optimizer):
    """What a straight run, a stopped one and the one that goes on are seen to do."""
    drawn, printed = [], io.StringIO()
    with contextlib.redirect_stdout(printed):  # the weights are those of process 0
        watch = dict(watch=lambda h: drawn.append(h.steps), quiet=False)
        straight = trained(seed=rank, optimizer=optimizer, **watch)
    kept = dict(optimizer=optimizer, checkpoint=str(folder / f"{optimizer}.safetensors"))

    def press_stop(step):
        if (step, rank) == (4, 1):
            os.kill(os.getpid(), signal.SIGINT)

    stopped = trained(Batches(before=press_stop), **kept)
    return {
        "losses": straight.losses,
        "tokens": straight.tokens_per_step,
        "drawn": drawn,
        "printed": printed.getvalue(),
        "stopped": [stopped.ended, stopped.steps],
        "resumed": trained(seed=5, **kept).losses,
    }


def odd():
    trained(Batches(rows=5))


def poisoned():
    """Train a model of which process 1 alone gets a weight that is not a number, at step 2."""
    model, config = tiny(), TrainConfig(steps=8)

    def poison(step):
        if (step, parallel.rank()) == (2, 1):
            model.W_U.data[0, 0] = math.nan

    train(model, Batches(before=poison), config, quiet=True)


def everything(folder):
    """All that is compared, in one start: each process writes what it saw to <rank>.json."""
    rank = parallel.rank()
    saw = {name: one_optimizer(folder, rank, name) for name in ("adamw", "muon")}
    for fails in (odd, poisoned):
        try:
            fails()
        except (ValueError, NonFiniteLoss) as error:
            saw[fails.__name__] = str(error)
    (folder / f"{rank}.json").write_text(json.dumps(saw))


def tool(folder):
    """The tool that trains the shipped checkpoints, on a tiny run."""
    files.DATA, recipes.RUNS = folder, tiny_runs()
    train_tool.load_corpus = few_texts
    train_tool.make("tiny")


JOBS = {"everything": everything, "tool": tool, "odd": lambda _: odd()}


# ---- what is asked of them ----


def output_of(job, folder):
    """The exit code and the output of this file in two processes; a hang fails."""
    path = os.pathsep.join(map(str, [ROOT, ROOT / "tools", os.environ.get("PYTHONPATH", "")]))
    started = subprocess.Popen(
        [*TORCHRUN, __file__, job, str(folder)],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    with started:
        try:
            return started.communicate(timeout=120)[0], started.returncode
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            pytest.fail(f"not done after 120 s: {started.communicate()[0]}")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The folder that two processes wrote, and what each of them saw."""
    folder = tmp_path_factory.mktemp("pair")
    output, code = output_of("everything", folder)
    assert code == 0, output
    return folder, [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_two_processes_take_the_steps_of_one_and_process_0_alone_prints(pair, optimizer, capsys):
    folder, (first, second) = pair[0], (saw[optimizer] for saw in pair[1])
    straight, near = trained(optimizer=optimizer), dict(rel=0, abs=1e-5)
    assert first["losses"] == second["losses"] == pytest.approx(straight.losses, **near)
    assert first["tokens"] == straight.tokens_per_step == 4 * 8
    assert [line.split()[0] for line in first["printed"].splitlines()] == ["learning"] + 3 * [
        "step"
    ]
    assert (first["drawn"], second["drawn"], second["printed"]) == ([3, 6, 8], [], "")
    for saw in (first, second):  # one process was stopped, and all went on
        assert saw["stopped"] == ["interrupted", 4]
        assert saw["resumed"] == pytest.approx(straight.losses, **near)
    path = folder / f"{optimizer}.safetensors"  # of a finished run, which one process takes up
    assert trained(seed=6, optimizer=optimizer, checkpoint=str(path)).losses == first["resumed"]
    assert "resumed from" in capsys.readouterr().out


def test_errors_reach_both_processes_and_end_the_launcher(pair, tmp_path):
    for saw in pair[1]:
        assert "a batch of 5 rows" in saw["odd"] and "batch_size a multiple" in saw["odd"]
        assert "the loss is nan at step 2," in saw["poisoned"]
    output, code = output_of("odd", tmp_path)
    assert code != 0 and "a batch of 5 rows" in output


def test_the_tool_writes_one_checkpoint_from_two_processes(tmp_path, monkeypatch):
    output, code = output_of("tool", tmp_path)
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


if __name__ == "__main__":
    aot_helpers.setup()
    JOBS[sys.argv[1]](Path(sys.argv[2]))
