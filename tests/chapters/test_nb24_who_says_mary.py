"""Notebook 24: prompts that set hypotheses apart, and what is read of the shipped measurements."""

import json

import pytest
import torch

import aot_helpers as aot
from answers import NOTEBOOKS
from aot_helpers.base.results import read
from aot_helpers.models.protocol import Head
from chapters.nb24_who_says_mary import exercises, figures, measure
from evidence.support.nb24 import name_logits
from evidence.support.nb24.names import read_names
from figure_checks import check_figures

PROMPT = "When Mary and John went to the store, John was tired, and Anna gave Tom's drink to"
TIED = "When Mary and John went to the store, Anna gave a drink to"


@pytest.mark.parametrize("form", measure.ENDS)
@pytest.mark.parametrize("start", range(len(measure.STARTS)))
def test_each_form_has_the_properties_that_it_is_asked_for(form, start):
    names = {"A": "Mary", "B": "John", "S": "John", "IO": "Mary", "C": "Anna", "D": "Tom"}
    text = measure.STARTS[start].format(**names) + measure.ENDS[form][start].format(**names)
    found = exercises.people(text)
    for slot, true in measure.ASKED[form].items():
        if form not in measure.LATER:
            assert {what for what, name in found.items() if name == names[slot]} == set(true)


def test_the_shipped_measurements_name_every_form_and_head():
    names = measure.lowered_names()
    for stage, forms in (
        ("first", set(measure.ASKED) - set(measure.LATER)),
        ("later", measure.LATER),
    ):
        assert set(names.form[names.stage == stage]) == set(forms)
    counts = names.groupby(["heads", "stage"]).size()
    assert [*counts["L23H3"][["first", "later", "again"]]] == [9, 6, 2]
    assert counts["L23H3"].equals(counts[measure.PAIR])


def gap(logits, one, other):
    return logits[range(len(one)), one] - logits[range(len(one)), other]


def test_the_shipped_logits_give_what_was_measured_of_every_prompt():
    two, kept = read_names(), measure.read_logits()
    pair = kept["two/io"], kept["two/s"]
    expected = {"two/before": two["table"].difference}
    for who, role in name_logits.ROLES.items():
        expected |= {f"two/patched/{who}/{x}": d for x, d in two["patched"][role].items()}
        if f"two/held/{who}" in kept:
            expected[f"two/held/{who}"] = two["held"][role]
    for key in (key for key in kept if key.startswith("two/") and kept[key].ndim == 2):
        torch.testing.assert_close(gap(kept[key], *pair), expected[key], atol=2e-3, rtol=0)
    for row in measure.lowered_names().itertuples():
        of = f"{row.form}/{row.who}/"
        if of + "before" in kept:
            pair = kept[of + "name"], kept[of + "instead"]
            rise = gap(kept[f"{of}after/{row.heads}"], *pair) - gap(kept[of + "before"], *pair)
            assert rise.mean().item() == pytest.approx(row.lowered, abs=2e-3)


def costs(same, other, swapped):
    return {"same names": same, "other names": other, "roles swapped": swapped}


GIVEN = {"24.1": lambda: {"truth": costs(0.05, 2.33, 4.08), "writes": 2.19}}
ANSWERS = [
    ("24.1", costs(0, 2.2, 4.4), "solved"),
    ("24.1", costs(2.2, 2.2, 4.4), "same names: whom"),
    ("24.1", costs(0, 4.4, 4.4), "Tom is lowered"),
    ("24.1", costs(0, 2.2, 2.2), "half of it"),
    ("24.1", costs(0, 2.2, 0), "whom not"),
    ("24.1", costs(..., ..., ...), "not attempted"),
    ("24.2", PROMPT, "solved"),
    ("24.2", TIED, "not yet"),
    ("24.2", TIED.replace("Anna", "John"), "not yet"),
    ("24.2", "Mary and John met, and John met Anna. It was given to", "no subject"),
    ("24.2", "nobody gave a drink to", "no name that is one token"),
]


def test_parts_above_a_name_that_is_absent_add_up_to_the_logits_of_the_names():
    found, kept = read("pretrained/24-above-smollm2"), measure.read_logits()
    before, names = kept["two/before"], torch.stack([kept["two/io"], kept["two/s"]], dim=1)
    absent = before.scatter(1, names, torch.nan).nanmean(dim=1)
    heads = {key: torch.tensor(found[key]) for key in ("io", "s")}
    for key, column in zip(heads, names.T, strict=True):
        whole = before.gather(1, column[:, None])[:, 0] - absent
        added = heads[key].sum().item() + found["rest"][key]
        assert added == pytest.approx(whole.mean().item(), abs=0.01)
    direct = read_names()["table"].direct
    torch.testing.assert_close(heads["io"] - heads["s"], direct, atol=1e-3, rtol=0)


def test_where_a_name_comes_again_what_heads_lower_is_a_rise_of_the_shipped_logits():
    shipped, names = read("pretrained/24-again-smollm2"), measure.lowered_names()
    names = names[names.stage == "again"]
    assert set(names.prompt) == {"… John saw Mary and gave a drink to"}
    assert [*names.name] == ["Mary", "Mary", "John", "John"]
    files = {"L23H3": "L23H3", measure.PAIR: "early"}
    for row in names.itertuples():
        runs = shipped["runs" if row.who == "IO" else "runs, the subject"]
        pairs = zip(runs["whole"]["logits"], runs[files[row.heads]]["logits"], strict=True)
        rises = [(b[0] - b[1]) - (a[0] - a[1]) for a, b in pairs]
        assert row.lowered == pytest.approx(sum(rises) / 48, abs=1e-4)
    first, logits = shipped["runs"]["whole"]["first"], shipped["runs"]["whole"]["logits"]
    for place, row in zip(first, torch.tensor(logits), strict=True):
        assert place < 0 or place == row.argmax()


def test_figures_can_be_read():
    names = measure.lowered_names()
    slopes = dict.fromkeys(measure.HEADS, 5.0)
    stages = {stage: names[names.stage == stage] for stage in ("first", "later", "again")}
    check_figures(
        figures.roles("Mary gave John a", [("John", "S", "red")], "title", "b"),
        figures.hypotheses(stages["first"], "title"),
        figures.hypotheses(stages["again"].assign(predicted=2.0), "title"),
        figures.proportional(names[names.stage != "again"], slopes, "title"),
        figures.raised({"L0H1": (1.0, -2.0), "all": (1.0, -2.0)}, "title"),
        figures.filled(
            measure.OPENING,
            [("Mary", "IO", "g"), ("John", "S1", "r"), ("John", "S2", "r"), ("to", "end", "k")],
            dict.fromkeys(("movers", "late", "early", "turn"), "L0H1: does this"),
            "title",
        ),
    )


@torch.no_grad()
def test_a_readers_prompt_is_patched_name_by_name(make_model, monkeypatch, capsys):
    """In a last layer without norm, a patch adds the difference of what the head writes."""
    prompt = "Mary met John and John gave Mary and Anna a drink to"
    words = sorted({*prompt.split(), *measure.NAMES})

    class Words:
        def encode(self, text, bos=False):
            return torch.tensor([0] * bos + [1 + words.index(each) for each in text.split()])

        def decode(self, ids):
            return " ".join(words[int(i) - 1] for i in ids)

    model = make_model(d_vocab=len(words) + 1, n_ctx=16, layer_norm=False)
    model.tokenizer = Words()
    monkeypatch.setattr(measure, "HEADS", {"L1H1": [Head(1, 1)]})
    monkeypatch.setattr(aot, "load_pretrained", lambda name: model)
    (tour,) = NOTEBOOKS.glob("24_*.ipynb")
    cells = ("".join(each["source"]) for each in json.loads(tour.read_text("utf-8"))["cells"])
    (cell,) = (each for each in cells if each.startswith("if live and"))
    exec(cell, {"live": True, "prompt": prompt, "aot": aot, "measure": measure})
    said = capsys.readouterr().out.splitlines()
    # The last mention of Mary is replaced by Anna, who then comes twice; Anna by a name not there.
    swaps = [("Mary", "Anna"), ("John", "Anna"), ("Anna", "Tom")]
    assert measure.replacements(prompt) == swaps
    for line, (name, instead) in zip(said, swaps, strict=True):
        begin, _, end = prompt.rpartition(name)
        here, there = (
            model.run_with_cache(model.tokenizer.encode(begin + x + end, bos=True)[None])[1]["L1.z"]
            for x in (name, instead)
        )
        new = (there - here)[0, -1, 1] @ model.blocks[1].attn.W_O[1] @ model.W_U
        lowered = new[1 + words.index(name)] - new[1 + words.index(instead)]
        assert f"{name} is lowered by {lowered:.2f}; with {instead} patched in" in line
