"""GPT-2 and CounterFact as a connected machine has them, from the hub's caches, by the command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
import torch

from aot_helpers.models.pretrained import load_pretrained
from aot_helpers.text.tokenization import train_bpe
from chapters.nb20_logit_lens import measure
from evidence.support.nb20 import prompts

ROOT = Path(__file__).resolve().parents[2]
REVISION = "0" * 40
COMMAND = """
import sys
from pathlib import Path
import measure
measure.pretrained(["gpt2"], 0, ["20"], Path(sys.argv[1]))
"""


def in_home(home, code, *arguments, cwd=ROOT):
    """Run Python with a home of its own for the hub's caches; what it printed."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tools"), str(ROOT / "notebooks")])
    surroundings = os.environ | {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "PYTHONPATH": path}
    run = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=surroundings,
        cwd=cwd,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture
def home(tmp_path):
    """A random GPT-2 and rows of CounterFact's form, half of which it says so, in the caches."""
    from transformers import GPT2Config, GPT2LMHeadModel

    known = prompts.our_facts()
    tokenizer = train_bpe([f"{fact.prompt} {fact.answer}" for fact in known] * 3, 900)
    hub = tmp_path / "home" / "hub" / "models--openai-community--gpt2"
    snapshot = hub / "snapshots" / REVISION
    torch.manual_seed(0)
    shape = dict(n_positions=64, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(GPT2Config(vocab_size=tokenizer.d_vocab, **shape)).save_pretrained(snapshot)
    tokenizer.save(snapshot / "tokenizer.json")
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text(REVISION)

    model = load_pretrained(snapshot)
    texts = [model.tokenizer.encode(fact.prompt) for fact in known]
    said = measure.predictions(model, measure.gather(texts, [0] * len(texts))).tolist()
    words = model.tokenizer.token_strings(said)
    is_word = [word[:1] == " " and word.strip().isalpha() for word in words]
    told = [word.strip() if some else "Oslo" for word, some in zip(words, is_word, strict=True)]
    rows = [
        {"subject": fact.subject, "prompt": fact.prompt, "target_true": f" {answer}"}
        for fact, answer in zip(known, told, strict=True)
    ]
    assert sum(is_word) >= 8
    folder = tmp_path / "NeelNanda" / "counterfact-tracing"
    folder.mkdir(parents=True)
    pandas.DataFrame(rows).to_parquet(folder / "train.parquet")
    load = f"import datasets; datasets.load_dataset({prompts.COUNTERFACT!r}, split='train')"
    in_home(tmp_path / "home", load, cwd=tmp_path)  # a folder of this name: read once, then cached
    cached = tmp_path / "home" / "datasets"
    (cached / "counterfact-tracing").rename(cached / prompts.COUNTERFACT.replace("/", "___"))
    return tmp_path / "home"


def test_gpt2_is_measured_on_counterfact_from_the_hubs_caches(home, tmp_path):
    said = in_home(home, COMMAND, tmp_path / "out")
    assert "from the hub (openai-community/gpt2)" in said and "facts of ours" not in said
    found = json.loads((tmp_path / "out" / "20-gpt2.json").read_text("utf-8"))
    assert found["facts"] == "CounterFact" and found["model"] == "gpt2"
    assert found["prompts"]["right"] >= 8 and len(found["weights_sha256"]) == 64
    assert found["shares"]["right"]["head | final"]["mean"] >= 0
