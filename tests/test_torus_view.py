"""The live network of notebooks 13 and 15: what its script computes is what PyTorch computes."""

import dataclasses
import json
import shutil
import subprocess

import numpy as np
import pytest
import torch

from aot_helpers.showing.widgets import STATIC
from chapters.nb13_torus_network import strips as torus_strips
from chapters.torus import networks as torus
from chapters.torus.palette import CLASS_COLORS
from chapters.torus.training import list_runs, load_run
from chapters.torus.views import TorusView

SCRIPT = (STATIC / "torus.js").read_text(encoding="utf-8")
ASK = """
const [data, questions] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const network = SCRIPT(null, data);
process.stdout.write(JSON.stringify(questions.map(([angles, says, looks]) => {
  says.forEach((s, h) => { network.says[h] = s; });
  looks.forEach((s, h) => { network.looks[h] = s; });
  return network.answer(...angles); })));
"""
NET = load_run("heads3-dim3").nets[0]
FACTS = list_runs()["heads3-dim3"].targets()[0]


@pytest.fixture(scope="module")
def view():
    still = torus_strips.moved_and_muted(NET, FACTS, 3, [0, 25], 1, [1, 0], "a")
    return TorusView(NET, FACTS, still)


def sent(view) -> torus.TorusNets:
    """The network that the page has, in double precision."""
    names = [field.name for field in dataclasses.fields(torus.TorusNets)]
    given = {name: torch.tensor(view.data[name], dtype=torch.float64)[None] for name in names}
    return torus.TorusNets(**given)


def in_node(view, questions) -> list[dict]:
    """The script's answers to [angles, factors of what heads write, factors of their scores]."""
    if shutil.which("node") is None:
        pytest.skip("no node on this machine to run the script; `make browser` runs it, too")
    program = ASK.replace("SCRIPT", f"({SCRIPT[SCRIPT.index('(root') :].strip()})")
    given = json.dumps([view.data, questions])
    done = subprocess.run(["node", "-e", program], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_script_computes_the_network_of_pytorch(view):
    rng = np.random.default_rng(0)
    angles = view.data["theta"]
    questions = [[[t, s], [1, 1, 1], [1, 1, 1]] for t in angles for s in angles]
    questions += [
        [rng.uniform(0, 2 * np.pi, 2).tolist(), *rng.uniform(0, 3, (2, 3)).tolist()]
        for _ in range(75)
    ]
    answers, net = in_node(view, questions), sent(view)
    for (asked, says, looks), answer in zip(questions, answers, strict=True):
        factors = torch.tensor(looks, dtype=torch.float64)[:, None, None]
        changed = dataclasses.replace(net, W_Q=net.W_Q * factors)
        places = [torus.circle(torch.tensor([[t]], dtype=torch.float64)) for t in asked]
        shares = torus.attend(changed, *places).a1.flatten()
        logits = torus.logits(changed, *places, torch.tensor(says, dtype=torch.float64))[0, 0]
        assert np.allclose(answer["shares"], shares, atol=1e-6)
        assert np.allclose(answer["chances"], logits.softmax(dim=-1), atol=1e-6)
        assert answer["best"] == logits.argmax()
    assert [answer["best"] for answer in answers[:25]] == FACTS.tolist()


def test_what_is_sent_is_the_network_to_five_digits(view):
    for name, W in sent(view).tensors().items():
        assert torch.allclose(W, NET.tensors()[name].double(), atol=6e-6), name
    assert np.allclose(view.data["theta"], torus.angles(NET)[0])


def test_the_page_is_light(view, tmp_path):
    assert view.save(tmp_path / "torus.html") < 30_000
    assert len(view.html()) < 95_000


def test_flat_maps_have_the_colors_of_the_answers():
    def ask(theta1, theta2):
        east = torch.broadcast_tensors(theta1 < torch.pi, theta2)[0]
        return torch.stack([east, ~east], dim=-1).float()

    colors = torus_strips.flat(ask, cells=4)
    expected = (255 * CLASS_COLORS[:2]).round()
    assert colors.dtype == np.uint8
    assert np.array_equal(colors, np.broadcast_to(expected[[0, 0, 1, 1]], (4, 4, 3)))
