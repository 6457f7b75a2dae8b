"""Notebook 08: values of other tokens, codes said again; its exercises, drawings."""

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.reading.circuits import copying_score
from aot_helpers.reading.factored import FactoredMatrix
from aot_helpers.text.corpora import Corpus
from aot_helpers.text.planted import PlantedTruth
from aot_helpers.text.tokenization import word_ids
from chapters.nb08_copying_heads import exercises, figures
from chapters.nb08_copying_heads import measure as copying_heads
from figure_checks import check_figures

pytestmark = pytest.mark.usefixtures("seeded")


@pytest.fixture(scope="session")
def model():
    return load_checkpoint("planted-1l-seed1").requires_grad_(False)


@pytest.fixture
def text():
    return torch.randint(1, 98, (3, 12))


def test_each_token_of_a_group_is_read_as_another_of_it():
    groups = [torch.tensor([3, 5, 8]), torch.tensor([1, 2])]
    other = copying_heads.each_as_the_next(10, groups)
    assert other.tolist() == [0, 2, 1, 8, 4, 3, 6, 7, 5, 9]
    for wrong in ([torch.tensor([4])], [torch.tensor([1, 2]), torch.tensor([2, 3])]):
        with pytest.raises(ValueError, match="another one"):
            copying_heads.each_as_the_next(10, wrong)


def test_other_values_are_those_of_a_text_of_other_tokens(model, text):
    other = torch.randperm(98)
    edits = copying_heads.other_values(model, text, other, 0, [2])
    v = model.run_with_cache(text, edits=edits)[1]["L0.v"]
    mine, others = (model.run_with_cache(t)[1]["L0.v"] for t in (text, other[text]))
    torch.testing.assert_close(v[:, :, 2], others[:, :, 2])
    assert torch.equal(v[:, :, [0, 1, 3]], mine[:, :, [0, 1, 3]])


def test_planted_copies_are_the_words_that_the_rules_repeat(model):
    corpus = Corpus("toy", "test", ["ada so again ada .", "list pe le ; pe le ."], "", "", True)
    free, again = ["free"] * 3, ["repeat", "repeat", "copy"]  # the last: no name, no copy
    corpus.truth = PlantedTruth(kinds=[[*free, "copy", "bigram"], [*free, "bigram", *again]])
    texts, tokens, copies = copying_heads.planted_copies(corpus, model.tokenizer)
    assert texts.shape == (2, 8) and texts[0, 1] == texts[0, 4] and len(tokens["codes"]) > 9
    assert copies["names"].nonzero().tolist() == [[0, 3]]
    assert copies["codes"].nonzero().tolist() == [[1, 4], [1, 5]]


def test_a_code_is_repeated_if_it_was_said_since_the_mark(model):
    text = "list pe le ki ; pe le ki ."
    texts = model.tokenizer.encode(text, bos=True)[None]
    number = word_ids(model.tokenizer)
    codes = torch.tensor([number[word] for word in ("pe", "le", "ki")])
    copies = torch.zeros(1, 9, dtype=torch.bool)
    copies[0, 5:8] = True  # pe, le and ki are due again
    logits = torch.zeros(1, 10, 98)
    logits[0, 6, number["pe"]] = logits[0, 7, number["ki"]] = 1  # said again; due, and only before
    due = copying_heads.due_codes(logits, texts, copies, codes, number[";"])
    assert due["repeated"].tolist() == [True, False]
    assert due["codes"].tolist() == [3, 3] and due["nth"].tolist() == [2, 3]
    assert copying_heads.due_codes(logits, texts, copies, codes, number["list"])["repeated"].all()
    logits[0, 7, number["pe"]] = 2  # said once more, at le; before, pe was said at pe itself
    again = copying_heads.due_codes(logits, texts, copies, codes, number[";"])
    assert (due["one_back"].tolist(), again["one_back"].tolist()) == ([False] * 2, [False, True])


def test_the_patch_of_the_tour_keeps_the_texts_pattern(model, text):
    """Values patched by hand: the donor's values under the text's own pattern."""
    donors = torch.randint(1, 98, (3, 12))
    logits = exercises._patched(model, text, donors, Head(0, 2), "v")
    mine, theirs = (model.run_with_cache(t)[1] for t in (text, donors))
    z = mine["L0.z"].clone()
    z[:, :, 2] = mine["L0.pattern"][:, 2] @ theirs["L0.v"][:, :, 2]
    torch.testing.assert_close(logits, model(text, edits={"L0.z": z}))


SENTENCE, LIST = "ada keep so then again", "list pe le ki la ; pe le ki"


def asked(text):
    return {"model": load_checkpoint("planted-1l-seed1"), "text": text, "head": Head(0, 1)}


GIVEN = {
    "08.1": lambda: asked(SENTENCE),
    "08.3": lambda: {"truth": SAID},
    "08.4": lambda: asked(LIST),
}
SAID = {3: "pe", 4: "pe", 5: "ki", 6: "ki"}
LOW = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, -9]]
HIGH = [[-1, -1, -1, 3]] * 3 + [[-3, -3, -3, 9]]
ONES = torch.eye(4).tolist()
ANSWERS = [
    ("08.1", "ada keep so then of", "solved"),
    ("08.1", "ada keep so finn again", "solved"),
    ("08.1", "finn keep so then again", "not yet"),
    ("08.1", "ada keep so now again", "not yet"),
    ("08.1", "ada keep so then", "not yet"),
    ("08.1", "ada keep so zebra again", "not yet"),
    ("08.1", 7, "not yet"),
    ("08.2", (LOW, HIGH), "solved"),
    ("08.2", (ONES, HIGH), "not yet"),
    ("08.2", (LOW, ONES), "not yet"),
    ("08.2", (LOW, torch.eye(4).roll(1, 0).tolist()), "not yet"),
    ("08.2", ((-torch.eye(4)).tolist(), HIGH), "not yet"),
    ("08.2", ([[0] * 4] * 4, HIGH), "0 of the four words raise themselves"),
    ("08.2", (LOW[:3], HIGH), "not yet"),
    ("08.2", (LOW, [[0, 0, 0, 1]] * 3 + [[0, 0, 0, 3]]), "solved"),
    ("08.2", (LOW, [[0, 0, 0, 1]] * 4), "0 / 0 is no score"),  # less its mean
    ("08.3", SAID, "solved"),
    ("08.3", SAID | {4: "ki"}, "list of 4: ki is not the farthest"),
    ("08.3", SAID | {5: "le"}, "no code follows itself"),
    ("08.3", SAID | {3: "la"}, "list of 3: how many words back does la stand"),
    ("08.3", {3: "pe"}, "not yet"),
    ("08.3", dict.fromkeys(SAID, ...), "not attempted"),
    ("08.4", "list pe le ki la ; pe la ki", "solved"),
    ("08.4", "list pe le ki la ; la le ki", "not yet"),
    ("08.4", "list pe le ki la ; pe le", "not yet"),
    ("08.4", "list pe le ki la ; pe zebra ki", "not yet"),
    ("08.4", 7, "not yet"),
]


def test_the_score_of_an_answer_is_that_of_the_tour():
    """The package's score of the table as two factors, its rows less their means."""
    for table in (LOW, HIGH, torch.randn(4, 4).tolist()):
        factored = FactoredMatrix(torch.tensor(table).double(), torch.eye(4).double())
        by_package = copying_score(factored.centered_columns())
        score = exercises._score("table", torch.tensor(table).double())
        assert score == pytest.approx(by_package, abs=1e-6)


def test_figures_can_be_read():
    words, said = ["ada", "so", "again"], {"ada": 0.9, "hugo": 0.05}
    rows = [figures.Reading("L0H1 carries finn\nscore", words, {0: "finn"}, said)]
    tables = {"names": [torch.eye(20), 3 * torch.eye(20)], "codes": [-torch.eye(20)] * 2}
    lists = [(["list", "pe", "le", "ki", ";", "pe", "le"], "ki")]
    heads = [(0.9, 0.8), (-0.5, 0.6), (0.5, 0.0), (0.0, 0.0)]
    check_figures(
        figures.diagonals(tables, "Tables"),
        figures.readings(rows, "Readings"),
        figures.looks_back({"L0H1": torch.linspace(0, 1, 7)}, lists, "Lists"),
        figures.numbers_and_patches(heads, (-0.4, 0.4), {"missed": heads[1]}, "Heads"),
        figures.two_jobs(torch.rand(2, 1), torch.rand(2, 4), ["as it is", "without"], "Jobs"),
    )
