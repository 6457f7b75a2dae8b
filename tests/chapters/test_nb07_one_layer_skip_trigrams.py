"""Notebook 07: tables, patches and floors of a planted corpus; its exercises and drawings."""

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.reading import circuits
from aot_helpers.text.batches import pad_batch
from aot_helpers.text.planted import BUG, BUG_OBJECTS, write_planted
from chapters.nb07_one_layer_skip_trigrams import figures
from chapters.nb07_one_layer_skip_trigrams import measure as one_layer
from figure_checks import check_figures

pytestmark = pytest.mark.usefixtures("seeded")


@pytest.fixture(scope="session")
def model():
    return load_checkpoint("planted-1l-2heads-seed1").requires_grad_(False)


@pytest.fixture(scope="session")
def written(model):
    texts, truth = write_planted(6, seed=3)
    encode = model.tokenizer.encode
    tokens, _ = pad_batch([encode(text, bos=True) for text in texts], model.tokenizer.pad)
    return tokens[:, :96], truth


def test_floors_and_kinds_are_those_of_the_truth(written):
    tokens, truth = written
    shape = (len(tokens), tokens.shape[1] - 1)
    floor = one_layer.floors(truth, shape)
    for kind in ("bigram", "skip-trigram"):
        here = one_layer.of_kind(truth, kind, shape)
        assert here.sum() == sum(row.count(kind) for row in truth.kinds)
        assert floor[here].mean() == pytest.approx(truth.irreducible_loss(kind), abs=1e-5)


def test_a_skip_trigram_table_is_what_a_head_adds_for_its_source(model):
    """With the frame's other tokens at zero, the head adds the table, up to a constant."""
    frames = one_layer.gap_frames(model.tokenizer, ["put", "keep", "sing"], ["of", "at"])
    tokens = frames.flatten(0, 1)
    _, cache = model.run_with_cache(tokens)
    for h in range(2):
        attention = cache["L0.pattern"][:, h, -1, 1]
        OV = circuits.full_ov(model, Head(0, h)).dense()[frames[0, :, 1]]
        table = one_layer.skip_trigram_table(attention.view(2, 3), OV)

        def only_the_source(v):
            alone = torch.zeros_like(v)
            alone[:, 1] = v[:, 1]
            return alone

        _, edited = model.run_with_cache(tokens, edits={"L0.v": only_the_source})
        added = edited["L0.z"][:, -1, h] @ model.blocks[0].attn.W_O[h] @ model.W_U
        added = added - added.mean(dim=-1, keepdim=True)
        assert torch.allclose(table.flatten(0, 1), added, atol=1e-4)


def test_the_strongest_entries_come_by_name_and_in_order():
    table = torch.tensor([[[0.1, 0.9], [0.3, 0.2]], [[0.0, 0.8], [-1.0, 0.5]]])
    found = one_layer.strongest(table, ["of", "at"], ["put", "sing"], ["rain", "silk"], 3)
    names = [("put", "of", "silk"), ("put", "at", "silk"), ("sing", "at", "silk")]
    assert list(found) == names and list(found.values()) == pytest.approx([0.9, 0.8, 0.5])


def test_a_patched_head_reads_the_donor_and_all_else_the_text(model):
    texts, donors = one_layer.gap_frames(model.tokenizer, ["put", "walk"], ["of"])[0, :, None]
    logits, cache = model.run_with_cache(texts)
    _, other = model.run_with_cache(donors)
    written = [run["L0.z"][:, -1, 0] @ model.blocks[0].attn.W_O[0] for run in (cache, other)]
    by_hand = logits[:, -1] + (written[1] - written[0]) @ model.W_U
    assert torch.allclose(one_layer.patched(model, texts, donors, 0), by_hand, atol=1e-4)
    assert torch.allclose(one_layer.patched(model, texts, texts, 0), logits[:, -1], atol=1e-5)


def test_a_forced_head_attends_as_in_the_other_texts(model):
    at, as_in = (
        one_layer.gap_frames(model.tokenizer, ["keep"], [word])[0] for word in ("at", "in")
    )
    _, cache = model.run_with_cache(at, edits=one_layer.attending_as_in(model, as_in, head=0))
    _, there = model.run_with_cache(as_in)
    _, before = model.run_with_cache(at)
    pattern = cache["L0.pattern"]
    assert torch.equal(pattern[:, 0, -1], there["L0.pattern"][:, 0, -1])
    assert torch.equal(pattern[:, 1], before["L0.pattern"][:, 1])
    assert torch.equal(pattern[:, 0, :-1], before["L0.pattern"][:, 0, :-1])


# ---- exercises and drawings ----


FORCED = {"keep … at": 0.21, "hold … at": 0.06}
IDENTITY, table, patched = [[1, 0], [0, 1]], one_layer.skip_trigram_table, one_layer.patched


def only_the_last(model, texts, donors, h):
    """It patches a z in another order of dimensions: other places than head h at the last."""
    theirs = model.run_with_cache(donors)[1]["L0.z"]

    def patch(z):
        z = z.clone()
        z[:, h, -1] = theirs[:, h, -1]
        return z

    return model(texts, edits={"L0.z": patch})[:, -1]


GIVEN = {"07.3": lambda: {"forced": FORCED}}
ANSWERS = [
    ("07.1", lambda A, OV: 2 * table(A, OV), "not yet"),
    ("07.1", lambda A, OV: table(A, OV)[0], "not yet"),
    ("07.1", lambda A, OV: A[:, :, None] * OV, "its mean over the outs"),
    ("07.1", lambda A, OV: A[:, :, None] * (OV - OV.mean(0)), "the last dimension"),
    ("07.1", lambda A, OV: A[:, :, None] * (OV - OV.mean()), "one mean of all"),
    ("07.1", lambda A, OV: A @ (OV - OV.mean(-1, keepdim=True)), "added the sources"),
    ("07.1", lambda A, OV: A @ OV, "added the sources up"),
    ("07.1", lambda A, OV: table(A, OV).transpose(0, 1), "[source, destination, out]"),
    ("07.2", lambda m, a, b, h: patched(m, a, b, 0), "Another head"),
    ("07.2", lambda m, a, b, h: patched(m, b, a, h), "not yet"),
    ("07.2", lambda m, a, b, h: m(a), "[:, -1]"),
    ("07.2", only_the_last, "[text, pos, head, d_head]"),
    ("07.3", {"keep … at": 0.18, "hold … at": 0.1}, "solved"),
    ("07.3", FORCED | {"keep … at": 0.79}, "which noun does L0H0 raise"),
    ("07.3", {"keep … at": 0.11, "hold … at": 0.11}, "not yet"),
    ("07.3", dict.fromkeys(FORCED, ...), "not attempted"),
    ("07.4", (IDENTITY, [6, 6], [-3, -3]), "solved"),
    ("07.4", ([[0, 1], [1, 0]], [-6, -6], [3, 3]), "solved"),
    ("07.4", ([[1, 1], [1, 1]], [6, -6], [0, 0]), "0.9 is wanted"),
    ("07.4", ([[2, 0], [0, 1]], [6, 6], [-3, -3]), "between 0 and 1"),
    ("07.4", ([1, 0], [6, 6], [-3, -3]), "not yet"),
]


def test_figures_can_be_read():
    chances = {pair: {"mind": 0.7, "bay": 0.3} for pair in BUG}
    terms = {("keep", "in"): {"direct path": 0.5, "L0H0": 1.5}}
    terms |= {("hold", "in"): {"direct path": 0.5, "L0H0": -2.5}}
    verbs, words = (["put", "walk"], torch.rand(2, 3)), (["of", "at"], torch.rand(2, 3))
    maps = {"OV circuit": verbs, "direct path": words, "model": verbs}
    check_figures(
        figures.crossed_pairs(chances, BUG, "title"),
        figures.fan("put", {"of": 1.0, "at": 0.0}, {"rain": 3.8}, "title"),
        figures.circuits_add_up(maps, ["rain", "music", "silk"], "title"),
        figures.logit_differences(terms, BUG, BUG_OBJECTS, "title"),
        figures.prices({"planted-1l-2heads-seed1": {"in": 0.0, "at": 1.1, "of": 0.1}}, "title"),
    )
