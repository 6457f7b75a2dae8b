"""The playground: its gradients are PyTorch's, its saved weights are a model of the package."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from aot_helpers.models.playground import load_playground
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.showing import playground_page
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.optimizers import make_optimizer

ENGINE = Path(__file__).parent / "playground" / "engine.mjs"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="the engine runs in Node.js")
CASES = {  # layers, positions, smeared keys
    "two layers, relative": (2, "relative", False),
    "two layers, learned, smeared": (2, "standard", True),
    "one layer, relative, smeared": (1, "relative", True),
    "one layer, no positions": (1, "none", False),
    "no layers": (0, "none", False),
}
SHAPE = {"d_model": 24, "n_heads": 3, "d_head": 12, "n_ctx": 19}


def engine(**asked) -> dict:
    run = subprocess.run(
        ["node", str(ENGINE)], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    return json.loads(run.stdout)


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
    sent = [
        {
            "settings": {
                "nLayers": model.config.n_layers, "nHeads": 3, "dModel": 24, "dHead": 12,
                "nCtx": 19, "positions": model.config.positions,
                "smearedKeys": model.config.smeared_keys, "rate": 0.01, "rateHeads": 0.02,
                "rateRelative": 0.1, "warmup": 20,
            },
            "tokens": tokens.tolist(), "kernels": kernels,
            "weights": {name: W.tolist() for name, W in named(model, lambda p: p).items()},
        }
        for model, tokens in made.values()
    ]  # fmt: skip
    for (model, tokens), found in zip(
        made.values(), engine(gradients=sent)["gradients"], strict=True
    ):
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
        config = TrainConfig(
            10, 0.01, weight_decay=0.0, optimizer="muon", learning_rate_heads=0.02,
            learning_rate_relative=10.0,
        )  # fmt: skip
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
@pytest.mark.parametrize("settings", [{}, {"nLayers": 1, "smearedKeys": True, "nHeads": 2}])
def test_saved_weights_are_a_model_of_the_package(tmp_path, settings):
    (run,) = engine(train=[{"settings": settings, "limit": 20}])["train"]
    path = tmp_path / "saved.safetensors"
    path.write_bytes(base64.b64decode(run["file"]))
    model = load_playground(path)
    tokens = torch.tensor(run["tokens"]).view(run["rows"], -1)
    probabilities = model(tokens).softmax(dim=-1).flatten()
    torch.testing.assert_close(
        torch.tensor(run["probabilities"]), probabilities, rtol=1e-4, atol=1e-6
    )
    assert model.tokenizer.encode("aZ§", bos=True).tolist() == [0, 1, 52, 53]  # § is a space


def test_a_file_that_the_playground_has_not_saved_is_refused(tmp_path):
    with pytest.raises(OSError, match="save the weights in the playground first"):
        load_playground(tmp_path / "none.safetensors")
    (tmp_path / "other.safetensors").write_bytes(b"12345678")
    with pytest.raises(ValueError, match="is not a file that the playground has saved"):
        load_playground(tmp_path / "other.safetensors")


def test_the_page_is_small_whole_and_asks_for_nothing(tmp_path):
    size = playground_page.save_playground(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert size == len(page.encode()) <= 150_000
    assert not re.search(r"https?://|src=|@import|url\(", page.replace("data:", ""))
    assert "/*STYLE*/" not in page and "/*SCRIPT*/" not in page
    assert page.count("</script>") == 1


def test_controls_and_cards_have_names_for_screen_readers():
    view = playground_page.view_script()
    unnamed = [
        tag
        for tag in re.findall(r"<(?:select|input|canvas)\b[^>]*>", view)
        if "aria-label" not in tag and "data-set" not in tag and 'id=\\"typed' not in tag
    ]
    assert all("typed" in tag or "canvas" in tag or "speed" in tag for tag in unnamed), unnamed
