"""The training page: its engine gives PyTorch's probabilities, its tokenizer the package's ids."""

import base64
import json
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import aot_helpers as aot
from chapters.pages import training
from evidence.support.nb09.dragged import read_name
from standalone_pages import assert_asks_for_nothing

ENGINE = Path(__file__).parent / "drag" / "engine.mjs"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="the engine runs in Node.js")
NAMES = ["Quzo Fipja", "Mila Toren", "Ümit Şahin", "Bo", "R2D2 C-3PO", "O'Neil", "馬 🐎", "<|bos|>"]
READ, LONG = NAMES[::3], "馬" * 24
ALL_OFF = [*training.PREVIOUS, *training.INDUCTION]


def story(name: str) -> str:
    """The page's text with a name."""
    before, between = training.STORY
    return f"{before} {name}{between} {name}"


def texts() -> list[str]:
    """Names in the story, stories, and letters of many scripts, spaces and signs at random."""
    found = [story(name) for name in NAMES] + NAMES
    found += aot.load_corpus("stories", "test", quiet=True).texts[:40]
    found += [
        "  two  spaces ",
        "a\tb\n\n c",
        "don't we'll I'M 's",
        "x<|bos|>y<|bos|>",
        "\u00a0\u2003a\u0085b",
        "1234 ½ ²",
        "…—“quoted”",
        "\ufeffa\u200bb",
        "e\u0301",
    ]
    draw = random.Random(0)
    kinds = [
        "abcxyz ABC  ''",
        "äßçñøžığ ",
        "αβγ жшя אבג ",
        "中文字 かな ",
        "🙂👍🏽🐎 ",
        "0123 ٣٤ ",
        " \t\n\u00a0\u2003\u0085\u3000",
        ".,;:!?-_'\"()<|>",
        "\x00\x07\x1f\x7f\u200d",
    ]
    for _ in range(400):
        letters = "".join(draw.sample(kinds, 3))
        found.append("".join(draw.choices(letters, k=draw.randint(1, 30))))
    return found


@pytest.fixture(scope="module")
def run():
    return training.read_run()


@pytest.fixture(scope="module")
def tokenizer():
    return aot.load_checkpoint("stories-2l").tokenizer


@pytest.fixture(scope="module")
def cases(tokenizer):
    """(step, tokens, ablated heads): every shipped step, then float weights, marked by -1."""
    unread = aot.load_corpus("stories", "test", quiet=True).texts[:2]
    tokens = [tokenizer.encode(text, bos=True)[:80] for text in [*map(story, NAMES[:4]), *unread]]
    tokens += list(aot.repeated_tokens(1024, 24, 1, tokenizer.bos, seed=3))
    offs = [[], ["L0H3"], ["L1H0", "L1H2"], ALL_OFF]
    steps = [*range(len(training.STEPS)), -1]
    return [
        (step, each, offs[i % 4 if i < 4 else 0]) for step in steps for i, each in enumerate(tokens)
    ]


@pytest.fixture(scope="module")
def answer(tmp_path_factory, run, cases):
    folder = tmp_path_factory.mktemp("drag")
    (folder / "run.json").write_text(json.dumps(training.run_data(run)), "utf-8")
    first, last = run.weights[training.STEPS[0]], run.weights[training.STEPS[-1]]
    floats = [last[name].astype("<f4").ravel() for name in first]
    (folder / "floats").write_bytes(np.concatenate(floats).tobytes())
    asked = {
        "run": str(folder / "run.json"),
        "floats": str(folder / "floats"),
        "texts": texts(),
        "cases": [{"step": k, "ids": ids.tolist(), "off": off} for k, ids, off in cases],
        "names": [*READ, LONG],
    }
    done = subprocess.run(
        ["node", str(ENGINE)], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def numbers(text):
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), "<f4").copy())


@needs_node
def test_the_tokenizer_gives_the_packages_ids_and_strings(answer, tokenizer):
    for text, ids, shown in zip(texts(), answer["ids"], answer["shown"], strict=True):
        wanted = tokenizer.encode(text)
        assert ids == wanted.tolist(), repr(text)
        assert shown == tokenizer.token_strings(wanted), repr(text)


@needs_node
def test_probabilities_and_patterns_are_those_of_pytorch(answer, cases):
    models = [aot.load_checkpoint("stories-2l", step) for step in training.STEPS]
    worst = {"floats": 0.0, "packed": 0.0, "patterns of floats": 0.0}
    for (step, tokens, off), found in zip(cases, answer["cases"], strict=True):
        model = models[step]
        edits = aot.ablate(model, [aot.Head.parse(head) for head in off]) if off else None
        with torch.no_grad():
            logits, cache = model.run_with_cache(tokens[None], edits=edits)
        apart = numbers(found["probabilities"]) - logits[0].softmax(dim=-1).flatten()
        kind = "floats" if step < 0 else "packed"
        worst[kind] = max(worst[kind], apart.abs().max().item())
        if step < 0:
            heads = [
                cache[f"L{layer}.pattern"][0, head].flatten() for layer, head in ((0, 3), (1, 0))
            ]
            apart = (numbers(found["patterns"]) - torch.cat(heads)).abs().max().item()
            worst["patterns of floats"] = max(worst["patterns of floats"], apart)
    print(worst)
    assert worst["floats"] <= 1e-4 and worst["patterns of floats"] <= 1e-4, worst
    assert worst["packed"] <= 1e-2, worst


@needs_node
def test_a_name_is_read_as_the_notebook_reads_it(answer):
    steps = training.STEPS[-2:]
    for name, found in zip(READ, answer["names"], strict=False):
        reading = read_name(name, steps)
        assert found["tokens"] == reading.tokens and found["spans"] == [
            list(s) for s in reading.spans
        ]
        assert np.abs(np.array(found["p"]) - reading.p[-1]).max() <= 1e-2, name


@needs_node
def test_a_name_that_does_not_fit_is_cut(answer):
    (a, b), (c, d) = answer["names"][-1]["spans"]
    assert 100 < len(answer["names"][-1]["tokens"]) < 128 and b - a == d - c
    with pytest.raises(ValueError, match=r"longer than the model's 128 .*: take a shorter name"):
        read_name(LONG, (4000,))


def test_both_kinds_of_heads_are_needed_and_are_what_they_are_called():
    reading = read_name(training.NAME, training.STEPS)
    whole, *ablated = (reading.mean(1, state)[-1] for state in range(4))
    assert whole > 0.8 and max(ablated) < 0.25
    assert reading.mean(1)[0] < 0.01 and reading.mean(0)[-1] < 0.2
    model = aot.load_checkpoint("stories-2l")
    tokens = aot.repeated_tokens(1024, 32, 8, model.tokenizer.bos, seed=1)
    of = lambda kind: aot.head_scores(model, tokens, kind).scores  # noqa: E731
    named = lambda heads: {(h.layer, h.head) for h in map(aot.Head.parse, heads)}  # noqa: E731
    found = {tuple(at) for at in (of("induction") > 0.5).nonzero().tolist()}
    assert found == named(training.INDUCTION)
    assert {tuple(at) for at in (of("previous") > 0.5).nonzero().tolist()} == named(
        training.PREVIOUS
    )


def test_the_page_is_small_whole_and_asks_for_nothing(tmp_path, run):
    size = training.save_training_page(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert size == len(page.encode()) <= 4_000_000
    assert_asks_for_nothing(page)
    assert len(run.weights) <= 12


def test_what_cannot_be_packed_is_refused(run):
    with pytest.raises(ValueError, match=r"no weights of steps \[50\]; there are: 0, 100"):
        training.read_run((0, 50))
    with pytest.raises(ValueError, match="byte-level byte-pair encoding only"):
        training.packed_tokenizer({"model": {"type": "WordLevel"}, "pre_tokenizer": None})
    far = {0: {"W_E": np.zeros((1, 1))}, 1: {"W_E": np.full((1, 1), 100.0)}}
    with pytest.raises(ValueError, match="make GRAINS coarser"):
        training.packed_weights(far)
