"""The playground: gradients are PyTorch's, seeds copy, saved weights are a model of the package."""

import base64
import json
import math
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.optimizers import make_optimizer
from chapters.pages import playground
from chapters.pages.playground import CONDITIONS, EARLY
from chapters.pages.standalone import filled
from chapters.pages.weights import SETTINGS, load_playground
from standalone_pages import assert_asks_for_nothing

ENGINE = Path(__file__).parent / "playground" / "engine.mjs"
WORKER = ENGINE.with_name("worker.mjs")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="the engine runs in Node.js")
CASES = {  # layers, positions, smeared keys
    "two layers, relative": (2, "relative", False),
    "two layers, learned, smeared": (2, "standard", True),
    "one layer, relative, smeared": (1, "relative", True),
    "one layer, no positions": (1, "none", False),
    "two layers, no positions, smeared": (2, "none", True),
    "no layers": (0, "none", False),
}
SHAPE = {"d_model": 24, "n_heads": 3, "d_head": 12, "n_ctx": 19}


def engine(kernels=playground.PARTS / "kernels.wasm", **asked) -> dict:
    run = subprocess.run(
        ["node", str(ENGINE)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"KERNELS": str(kernels)},
    )
    return json.loads(run.stdout)


def saved(tmp_path, limit=0, **settings):
    """The model that a run saves after some steps, and the run."""
    (run,) = engine(train=[{"settings": settings, "limit": limit, "file": True}])["train"]
    path = tmp_path / "saved.safetensors"
    path.write_bytes(base64.b64decode(run["file"]))
    return load_playground(path), run


def side_by_side(name, W):
    """Weights as the engine has them, the heads of a layer next to each other."""
    if W.ndim == 3:
        W = W.flatten(0, 1) if name.endswith("W_O") else W.transpose(0, 1).flatten(1)
    return W.detach().double().flatten()


def named(model, of):
    named = model.named_parameters()
    return {
        name.replace("blocks.", "L").replace("attn.", ""): side_by_side(name, of(p))
        for name, p in named
    }


def a_model(n_layers, positions, smeared):
    torch.manual_seed(n_layers)
    shape = ModelConfig(
        64, n_layers, **SHAPE, positions=positions, layer_norm=False, smeared_keys=smeared
    )
    model = AttentionOnlyTransformer(shape)
    for name, p in model.named_parameters():
        if name.endswith(("b_rel", "smear")):
            p.data.normal_()
    return model, torch.randint(64, (5, 20))


def case(model, tokens, **rates) -> dict:
    """What the engine is asked: a model's settings and weights, and tokens."""
    return {
        "settings": rates | {name: getattr(model.config, ours) for name, ours in SETTINGS.items()},
        "tokens": tokens.tolist(),
        "weights": {name: W.tolist() for name, W in named(model, lambda p: p).items()},
    }


def gradient(p):
    return torch.zeros_like(p) if p.grad is None else p.grad


def loss_of(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def assert_close(found, wanted, share):
    for name, each in wanted.items():
        error = (torch.tensor(found[name], dtype=torch.float64) - each).norm()
        assert error <= share * each.norm() + 1e-12, name


@needs_node
@pytest.mark.parametrize("kernels", ["wasm", "plain"])
def test_loss_gradients_and_updates_are_those_of_pytorch(kernels):
    made = {case: a_model(*settings) for case, settings in CASES.items()}
    rates = {"rate": 0.01, "rateHeads": 0.02, "rateRelative": 0.1, "warmup": 20}
    sent = [case(*each, **rates) | {"kernels": kernels} for each in made.values()]
    answers = engine(gradients=sent)["gradients"]
    for (model, tokens), found in zip(made.values(), answers, strict=True):
        exact = AttentionOnlyTransformer(model.config).double()
        exact.load_state_dict(model.state_dict())
        loss = loss_of(exact, tokens)
        loss.backward()
        assert found["loss"] == pytest.approx(loss.item(), rel=1e-5)
        probabilities = exact(tokens[:, :-1]).softmax(dim=-1).flatten()
        torch.testing.assert_close(
            torch.tensor(found["probabilities"]), probabilities.float(), rtol=1e-4, atol=1e-6
        )
        gradients = named(exact, gradient)
        assert_close(found["gradients"], gradients, 1e-4)
        factors = {"learning_rate_heads": 0.02, "learning_rate_relative": 10.0}
        config = TrainConfig(10, 0.01, weight_decay=0.0, optimizer="muon", **factors)
        start = named(exact, lambda p: p.detach().clone())
        exact.zero_grad()
        optimizer = make_optimizer(exact, config)
        for step in range(3):
            for group in optimizer.param_groups:
                group["lr"] = 0.01 * group["factor"] * (step + 1) / 20
            loss_of(exact, tokens).backward()
            torch.nn.utils.clip_grad_norm_(exact.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        moved = {name: after - start[name] for name, after in named(exact, lambda p: p).items()}
        of_engine = {
            name: (torch.tensor(found["after"][name], dtype=torch.float64) - start[name]).tolist()
            for name in moved
        }
        assert_close(of_engine, moved, 1e-3)


@needs_node
@pytest.mark.parametrize(
    "settings",
    [{}, {"nLayers": 1, "smearedKeys": True, "nHeads": 2}, {"positions": "standard"}],
)
def test_saved_weights_are_a_model_of_the_package(tmp_path, settings):
    model, run = saved(tmp_path, limit=20, **settings)
    tokens = torch.tensor(run["tokens"]).view(run["rows"], -1)
    logits = model(tokens).log_softmax(dim=-1).flatten()  # up to a constant for each position
    found = torch.tensor(run["probabilities"], dtype=torch.float64).log().float()
    torch.testing.assert_close(found, logits, rtol=0, atol=1e-4)
    assert model.tokenizer.encode("aZ§", bos=True).tolist() == [0, 1, 52, 53]  # § is a space


@needs_node
def test_nothing_is_given_at_the_start_unless_it_is_asked_for(tmp_path):
    plain, _ = saved(tmp_path)
    assert all((block.attn.b_rel == 0).all() for block in plain.blocks)
    likeness = torch.corrcoef(torch.stack([plain.W_U.T.flatten(), plain.W_E.flatten()]))[0, 1]
    assert abs(likeness) < 0.05
    given, _ = saved(tmp_path, tiedStart=True, looksBackStart=True)
    torch.testing.assert_close(given.W_U, given.W_E.T / 0.3 / 8)
    bias = given.blocks[0].attn.b_rel
    assert bias.nonzero().tolist() == [[h, h] for h in range(4)] and bias.sum() == 12
    assert (given.blocks[1].attn.b_rel == 0).all()


@needs_node
def test_two_seeds_copy_when_it_was_measured_and_one_layer_does_not():
    runs = [{"settings": {"seed": seed}, "limit": 300} for seed in (1, 2)]
    runs += [{"settings": {"nLayers": 1}, "limit": 300}]
    *two, one = engine(train=runs)["train"]
    published = playground.measured()["two_layers"][:2]
    assert [run["at"] for run in two] == [run["at"] for run in published]  # the same on any machine
    assert all(run["at"] <= 300 for run in two)
    assert one["at"] is None and one["copied"] < 0.3


def worker(*talk) -> list[dict]:
    """What the worker posts; talk: (run, command, more) and the steps that are awaited."""
    sent = [
        {"run": each[0], "command": each[1], **dict(each[2:])} if isinstance(each, tuple) else each
        for each in talk
    ]
    asked = json.dumps({"script": playground.worker_script(), "talk": sent})
    run = subprocess.run(
        ["node", str(WORKER)], input=asked, capture_output=True, text=True, check=True, timeout=300
    )
    return json.loads(run.stdout)


@needs_node
def test_every_message_names_its_run_and_a_run_ends_where_it_should():
    one = (1, "reset", ("settings", {}), ("until", 40))
    two = (2, "reset", ("settings", {"seed": 2}), ("until", 20))
    said = worker(
        (1, "speed", ("stepsPerSecond", 1e9)),
        one,
        (1, "play"),
        5,
        two,
        (2, "play"),
        20,
        (2, "ablate", ("heads", [["L1H0", "zero"]])),
        (2, "play"),
        23,
        (2, "pause"),
    )
    assert sorted(each["run"] for each in said) == [each["run"] for each in said]
    first, second = ([each for each in said if each["run"] == run] for run in (1, 2))
    assert 5 <= first[-1]["step"] < 40 and not any(each["ended"] for each in first)
    assert second[0]["step"] == 0 and second[-1]["step"] >= 23  # it goes on when it is asked to
    assert [each["step"] for each in second if each["ended"] is not None] == [20]
    assert {tuple(each["ablated"]) for each in second} == {(), ("L1H0",)}
    before, after = (next(e for e in second if bool(e["ablated"]) == off) for off in (False, True))
    at_20 = [each for each in second if each["step"] == 20]
    assert len({each["whole"] for each in at_20}) == 1  # with an ablation or without
    assert before["copied"] == before["whole"] and after["step"] == 20


@needs_node
def test_training_ends_60_steps_after_it_copies_and_says_what_each_head_is_needed_for():
    known = next(run for run in playground.measured()["two_layers"] if run["seed"] == 4)
    reset = (1, "reset", ("settings", {"seed": 4}), ("until", 2000))
    speed = (1, "speed", ("stepsPerSecond", 1e9))
    (last,) = [e for e in worker(speed, reset, (1, "play"), known["at"] + 60) if e["ended"]]
    assert last["step"] == known["at"] + 60 and last["whole"] == pytest.approx(
        known["copied"], abs=1e-3
    )
    left = {head["name"]: head["left"] for head in last["ended"]["each"]}
    layer_1 = [left[f"L1H{head}"] for head in range(4)]
    assert layer_1 == pytest.approx(known["withoutEach"], abs=1e-3)
    assert last["ended"]["induction"] == [f"L1H{head}" for head in known["induction"]]
    assert last["ended"]["together"] == pytest.approx(known["withoutInduction"], abs=1e-3)


@needs_node
@pytest.mark.skipif(
    not all(map(shutil.which, ("clang", "wasm-ld", "wasm-opt"))),
    reason="the kernels are made by clang, lld and binaryen",
)
def test_the_kernels_are_those_of_their_source(tmp_path):
    """Made anew from kernels.c they compute what those in the package do, and plain JavaScript."""
    made = tmp_path / "kernels.wasm"
    subprocess.run(["sh", playground.PARTS / "build_kernels.sh", made], check=True)
    sent = case(*a_model(2, "relative", True))

    def found(kernels, how):
        return engine(kernels, gradients=[{**sent, "kernels": how}])["gradients"][0]

    ours, anew = found(playground.PARTS / "kernels.wasm", "wasm"), found(made, "wasm")
    plain = found(made, "plain")
    for other, share in ((anew, 1e-6), (plain, 1e-5)):
        wanted = {name: torch.tensor(each).double() for name, each in other["gradients"].items()}
        assert_close(ours["gradients"], wanted, share)


def test_what_the_page_says_of_its_runs_is_what_was_measured():
    runs = playground.measured()
    seeds = {name: list(c.get("seeds", range(1, 6))) for name, c in CONDITIONS.items()}
    assert {name: [run["seed"] for run in found] for name, found in runs.items()} == seeds
    came = {name: [run["at"] is not None for run in found] for name, found in runs.items()}
    never = {"one_layer", "few", "none", "slow_heads"}
    assert {name for name, copied in came.items() if not any(copied)} == never
    assert sum(came.pop("ninety")) >= 3
    assert all(all(copied) for name, copied in came.items() if name not in never)
    assert len(runs["seeds"]) >= 30 and max(run["at"] for run in runs["seeds"]) <= 300
    assert max(run["copied"] for run in runs["one_layer"]) < 0.3  # "few"
    assert max(run["copied"] for run in runs["few"]) < 0.9
    for run in runs["two_layers"]:
        assert run["withoutInduction"] < 0.1 and run["withoutPrevious"] < 0.2
        others = [c for h, c in enumerate(run["withoutEach"]) if h not in run["induction"]]
        assert min(others) > 0.9
        assert run["names"] > 0.7 > 0.4 > max(run["namesEarly"], run["namesWithout"])
        assert run["cooled"] < run["first"] > 4.3 > math.log(63)
        assert run["wasted"] > sum(i / 63 for i in range(23)) / 23  # the share of even guesses
    means = [sum(r["first"] for r in runs[name]) / 5 for name in ("no_stories", "two_layers")]
    assert math.log(63) < means[0] < means[1]
    words = playground.phrases()
    assert filled("by step {{early}}", words) == f"by step {EARLY}"


def test_a_file_that_the_playground_has_not_saved_is_refused(tmp_path):
    with pytest.raises(OSError, match="save the weights in the playground first"):
        load_playground(tmp_path / "none.safetensors")
    (tmp_path / "other.safetensors").write_bytes(b"12345678")
    with pytest.raises(ValueError, match="is not a file that the playground has saved"):
        load_playground(tmp_path / "other.safetensors")


def test_the_page_is_small_whole_and_asks_for_nothing(tmp_path):
    size = playground.save_playground(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert size == len(page.encode()) <= 150_000
    assert_asks_for_nothing(page)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
