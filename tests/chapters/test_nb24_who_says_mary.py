"""Notebook 24: prompts that set hypotheses apart, and what is read of the shipped measurements."""

import pytest
import torch

from aot_helpers.base.results import read
from chapters.nb24_who_says_mary import exercises, figures, measure, name_logits, patches
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
    asked, later = (measure.read_asked(later=x) for x in (False, True))
    assert {one.form for one in asked} == set(measure.ASKED) - set(measure.LATER)
    assert {one.form for one in later} == set(measure.LATER)
    assert [len(asked), len(later)] == [9, 6]
    table = measure.as_table(asked, "L23H3")
    slope = (table.attention @ table.lowered) / (table.attention @ table.attention)
    assert slope == pytest.approx(9.4, abs=0.05)


def gap(logits, one, other):
    return logits[range(len(one)), one] - logits[range(len(one)), other]


def test_the_shipped_logits_give_what_was_measured_of_every_prompt():
    two, (prompts, replaced) = read_names(), name_logits.read_logits()
    torch.testing.assert_close(
        gap(prompts.before, prompts.io, prompts.s), two.table.difference, atol=2e-3, rtol=0
    )
    for who, role in name_logits.ROLES.items():
        for donor, logits in prompts.patched[who].items():
            found = gap(logits, prompts.io, prompts.s)
            torch.testing.assert_close(found, two.patched[role][donor], atol=2e-3, rtol=0)
    for who in prompts.held:
        found = gap(prompts.held[who], prompts.io, prompts.s)
        expected = two.held[name_logits.ROLES[who]]
        torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)
    for row in measure.read_asked()[:6]:
        run = replaced[row.form][row.who]
        for who, logits in run.after.items():
            rise = gap(logits, run.name, run.instead) - gap(run.before, run.name, run.instead)
            expected = row.lowers[name_logits.ROLES.get(who, "both")]
            assert rise.mean().item() == pytest.approx(expected, abs=2e-3)


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
    found, (prompts, _) = measure.read_above(), name_logits.read_logits()
    names = torch.stack([prompts.io, prompts.s], dim=1)
    absent = prompts.before.scatter(1, names, torch.nan).nanmean(dim=1)
    for key in ("io", "s"):
        whole = prompts.before.gather(1, getattr(prompts, key)[:, None])[:, 0] - absent
        added = getattr(found, key).sum().item() + found.rest[key]
        assert added == pytest.approx(whole.mean().item(), abs=0.01)
    two = read_names()
    torch.testing.assert_close(found.io - found.s, two.table.direct, atol=1e-3, rtol=0)


def test_where_a_name_comes_again_what_heads_lower_is_a_rise_of_the_shipped_logits():
    again, shipped = measure.read_again(), read("pretrained/24-again-smollm2")
    assert [(one.name, one.prompt) for one in again.names] == [
        ("Mary", "… John saw Mary and gave a drink to"),
        ("John", "… John saw Mary and gave a drink to"),
    ]
    for one, of in zip(again.names, ("", ", the subject"), strict=True):
        runs = shipped[f"runs{of}"]
        for role, who in (("suppress", "L23H3"), ("s_inhibition", "early")):
            pairs = zip(runs["whole"]["logits"], runs[who]["logits"], strict=True)
            rises = [(b[0] - b[1]) - (a[0] - a[1]) for a, b in pairs]
            assert one.lowers[role] == pytest.approx(sum(rises) / 48, abs=1e-4)
        assert len(one.others["s_inhibition"]) == 3
    first = again.first["whole"].tolist()
    logits = torch.tensor(shipped["runs"]["whole"]["logits"])
    for place, row in zip(first, logits, strict=True):
        assert place < 0 or place == row.argmax()


def test_figures_can_be_read():
    again = measure.read_again().names
    both = {who: [2.0, -0.5] for who in measure.SETS}
    asked, later = (measure.read_asked(later=x) for x in (False, True))
    every, rings, examples = (
        measure.attention_and_effect(names) for names in ([*asked, *later], later, asked[:2])
    )
    check_figures(
        figures.roles("Mary gave John a", [("John", "S", "red")], "title", "b"),
        figures.hypotheses(asked[:6], {who: range(6) for who in measure.SETS}, "title"),
        figures.proportional(every, rings, examples, (9.4, 4.2), "title"),
        figures.hypotheses(asked[6:], {who: range(3) for who in measure.SETS}, "title"),
        figures.hypotheses(again, both, "title", {who: [3.0, 2.0] for who in measure.SETS}),
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
    monkeypatch.setattr(patches, "SETS", {"L1H1": ("late", ["L1H1"])})
    patches.try_prompt(prompt, load=lambda name: model)
    said = capsys.readouterr().out.splitlines()
    # The last mention of Mary is replaced by Anna, who then comes twice; Anna by a name not there.
    swaps = (("Mary", "Anna"), ("John", "Anna"), ("Anna", "Tom"))
    for line, (name, instead) in zip(said, swaps, strict=True):
        begin, _, end = prompt.rpartition(name)
        here, there = (
            model.run_with_cache(model.tokenizer.encode(begin + x + end, bos=True)[None])[1]["L1.z"]
            for x in (name, instead)
        )
        new = (there - here)[0, -1, 1] @ model.blocks[1].attn.W_O[1] @ model.W_U
        lowered = new[1 + words.index(name)] - new[1 + words.index(instead)]
        assert f"{name} is lowered by {lowered:.2f}; with {instead} patched in" in line
