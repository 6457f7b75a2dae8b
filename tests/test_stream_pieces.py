"""Notebook 04: what each part has written, the pages that the reader writes, the drawings."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.teaching.exercises import grade, write
from chapters.nb04_many_heads_one_stream import exercises as nb04
from chapters.nb04_many_heads_one_stream import figures as stream_pieces

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "04_many_heads_one_stream.ipynb"
TERMS = {"L1H0": 7.04, "L1H3": 7.69, "L0H3": 0.4}
FALLS = {"L1H0 and L1H3": 14.74, "L0H3 and L1H0": 16.86}


@pytest.fixture(scope="module")
def model():
    return load_checkpoint("stories-2l").requires_grad_(False)


@pytest.fixture(scope="module")
def tokens(model):
    return model.tokenizer.encode("Then Mira Soken met Pelo. Then Mira Soken said", bos=True)


def folded_solutions() -> dict:
    """{name: function} of the notebook's folded solutions that define one."""
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    names = {"torch": torch, "math": math}
    for block in re.findall(r"```python\n(def .*?)```", prose, re.S):
        exec(block, names)
    return names


def test_pieces_add_up_to_the_stream_and_attributions_to_logits(model, tokens):
    logits, cache = model.run_with_cache(tokens[None])
    pieces = stream_pieces.pieces(model, cache)
    assert list(pieces)[:2] == ["direct path", "L0H0"] and len(pieces) == 9
    assert torch.allclose(sum(pieces.values()), cache["final_resid"], atol=1e-4)
    attributed = sum(stream_pieces.direct_logit_attribution(model, cache, tokens).values())
    rows = logits[0, :-1]
    expected = rows.gather(1, tokens[1:, None])[:, 0] - rows.mean(dim=1)
    assert torch.allclose(attributed, expected, atol=1e-4)


@torch.no_grad()
def test_with_mlps_positions_and_norms_the_terms_add_up_as_well():
    torch.manual_seed(0)
    model = AttentionOnlyTransformer(ModelConfig(30, positions="standard", d_mlp=16))
    model.ln_final.bias.copy_(torch.randn(128))
    tokens = torch.arange(12)
    logits, cache = model.run_with_cache(tokens[None])
    terms = stream_pieces.direct_logit_attribution(model, cache, tokens)
    rows = logits[0, :-1]
    expected = rows.gather(1, tokens[1:, None])[:, 0] - rows.mean(dim=1)
    assert torch.allclose(sum(terms.values()), expected, atol=1e-4)
    parts = stream_pieces.by_part({n: row[3].item() for n, row in terms.items()}, "L1H3")
    assert list(parts) == [
        "direct path", "heads of layer 0", "biases", "MLP of layer 0",
        "heads of layer 1", "L1H3", "MLP of layer 1",
    ]  # fmt: skip
    assert sum(parts.values()) == pytest.approx(expected[3].item(), abs=1e-4)


def blank(*arguments):
    """A page nobody has written on."""
    ...


@pytest.mark.parametrize("number", nb04.PAGES)
def test_a_page_is_the_packages_until_it_is_right_and_then_the_readers(
    model, tokens, capsys, number
):
    given = {"model": model, "tokens": tokens[None]} if number == "04.2" else {}
    assert write(number, blank, **given) is nb04.PAGES[number]
    said = capsys.readouterr().out
    assert said.startswith(f"exercise {number}: not attempted\n") and "`blank` is the" in said
    assert write(number, lambda *arguments: 3, **given) is nb04.PAGES[number]
    assert f"exercise {number}: not yet. " in capsys.readouterr().out
    own = folded_solutions()[nb04.PAGES[number].__name__]
    assert write(number, own, **given) is own
    said = capsys.readouterr().out
    assert said.startswith(f"exercise {number}: solved (") and "is yours" in said
    assert write(number, nb04.PAGES[number], **given) is nb04.PAGES[number]
    assert "solved" in capsys.readouterr().out


def test_an_unknown_page_names_those_there_are():
    with pytest.raises(ValueError, match=r"'04.9'.*04.1"):
        write("04.9", blank)


@pytest.mark.parametrize(("said", "flaw"), nb04._flaws(12, 4).items())
def test_a_common_mistake_is_named(capsys, said, flaw):
    if "root" in flaw:  # said with the sizes of the first trial
        flaw = {"root": flaw["root"]}
    grade("04.1", lambda *arguments: nb04._flawed(*arguments, **flaw))
    assert capsys.readouterr().out == f"exercise 04.1: not yet. {said}\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda *a: nb04.attention(*a[:-1], 0 * a[-1]), "not yet. The bias is missing"),
        (lambda x, *more: x, "not yet. It differs from torch.nn.MultiheadAttention"),
        (lambda x, *more: math.nan * x, "not yet. There are NaNs"),
        (lambda x, W_Q, *more: x[:, None] @ W_Q @ W_Q.mT, "not yet. For x (2, 5, 12) and W_Q"),
        (lambda x, *more: x[0], "not yet. For x (2, 5, 12)"),
    ],
)
def test_attention_that_is_something_else(capsys, answer, said):
    grade("04.1", answer)
    assert capsys.readouterr().out.startswith(f"exercise 04.1: {said}")


def replaces(tokens, W_E, layers, W_U):
    resid = W_E[tokens]
    for weights in layers:
        resid = nb04.attention(resid, *weights)
    return resid @ W_U


def side_by_side(tokens, W_E, layers, W_U):
    start = W_E[tokens]
    return (start + sum(nb04.attention(start, *weights) for weights in layers)) @ W_U


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (replaces, "not yet. Your layers replace the residual stream"),
        (side_by_side, "not yet. Every layer of yours reads the embedding"),
        (lambda tokens, W_E, layers, W_U: W_E[tokens] @ W_U, "not yet. The largest difference"),
        (lambda tokens, W_E, layers, W_U: W_E[tokens], "not yet. Logits of shape"),
    ],
)
def test_a_whole_model_that_is_something_else(model, tokens, capsys, page, said):
    grade("04.2", page, model=model, tokens=tokens[None])
    assert capsys.readouterr().out.startswith(f"exercise 04.2: {said}")


@pytest.mark.parametrize(
    ("direction", "said"),
    [
        (lambda W_U, a, b: W_U[:, b] - W_U[:, a], "The sign is turned"),
        (lambda W_U, a, b: W_U[:, a], "This is the token's logit alone"),
        (lambda W_U, a, b: W_U[:, a] - W_U.mean(dim=1), "You compare with the mean"),
        (lambda W_U, a, b: 2 * (W_U[:, a] - W_U[:, b]), "L0H0 adds"),
    ],
)
def test_an_attribution_in_another_direction(capsys, direction, said):
    def answer(written, W_U, token, rival):
        return {name: row @ direction(W_U, token, rival) for name, row in written.items()}

    grade("04.3", answer)
    assert capsys.readouterr().out.startswith(f"exercise 04.3: not yet. {said}")


@pytest.mark.parametrize(
    ("falls", "said"),
    [
        ([14.7, 16.9], "solved (effects add up within a layer"),
        ([7.7, 16.9], "not yet. L1H0 and L1H3: the two share a layer"),
        ([14.7, 23.6], "not yet. L0H3 and L1H0: without L0H3, how much"),
        ([14.7, 16.5], "not yet. L0H3 and L1H0: it is more than 16.5"),
        ([14.7, "x"], "not yet. L0H3 and L1H0: one number"),
        ([..., ...], "not attempted"),
    ],
)
def test_what_is_lost_without_two_heads(capsys, falls, said):
    grade("04.4", dict(zip(FALLS, falls, strict=True)), truth=FALLS, terms=TERMS)
    assert capsys.readouterr().out.startswith(f"exercise 04.4: {said}")


def words(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_the_drawings_say_their_numbers():
    said = words(stream_pieces.contributions({"direct path": 1.5, "L0H0": -0.7}, "title"))
    assert {"+1.5", "-0.7", "0.8", "title"} <= set(said)
    assert any("above its mean" in each for each in said)
    terms, before = {"a": 0.3, "b": 1.0}, {"a": 7.0, "b": 1.0}
    said = words(stream_pieces.contributions(terms, "title", before=before))
    assert {"+0.3 (was +7.0)", "+1.0", "1.3 (was 8.0)"} <= set(said)
    said = words(stream_pieces.one_stream(2, 4, "title"))
    assert said.count("H3") == 2 and {"layer 0", "layer 1", "W_E", "W_U", "logits"} <= set(said)
    panels = {"x": {"a": 1.0, "b": -0.01}, "y": {"a": 2.0, "b": 3.0}}
    said = words(stream_pieces.two_differences(panels, "title"))
    assert {"x", "y", "+1.0", "+0.0", "+5.0", "sum"} <= set(said) and "-0.0" not in said


def test_the_stream_filled_in_has_terms_and_who_reads_what_was_written_where():
    terms = {"direct path": 0.5} | {f"L{i}H{h}": i + h / 10 for i in range(2) for h in range(4)}
    writes = [(7, "en", " Sok", {"L1H0": 6.96}), (19, " Sok", "ira", {})]
    said = set(words(stream_pieces.one_stream(2, 4, "title", terms, writes)))
    assert {"direct +0.5", "logit 5.7", "+1.3", "'en'", "' Sok'", "7.0", "token 7"} <= said
    assert {"writes what it found at ' Sok'", "writes what it found at 'ira'"} <= said


def test_rivals_side_by_side_have_their_sums():
    table = {"L1H0": {"en": 7.0, " the": 7.6}, "L1H3": {"en": 7.7, " the": -4.25}}
    said = words(stream_pieces.by_rival(table, "title"))
    assert {"'en'", "' the'", "+7.6", "-4.2", "14.7", "3.3", "the logit"} <= set(said)


def test_falls_add_up_within_a_layer(model, tokens):
    names = ["L1H0", "L1H3", "L1H0 and L1H3", "L0H3 and L1H0"]
    one, three, both, _ = stream_pieces.falls(model, tokens, 8, names).values()
    assert both == pytest.approx(one + three, abs=1e-3)
    _, cache = model.run_with_cache(tokens[None])
    term = stream_pieces.direct_logit_attribution(model, cache, tokens)["L1H0"][8]
    assert one == pytest.approx(term.item(), abs=1e-3)


def test_a_text_once_for_each_term():
    row = torch.tensor([1.0, 2.0, 6.0])
    figure = stream_pieces.attribution_in_text({"L1H0\nsecond": row}, ["a", " b", " c"], "title")
    assert {"L1H0", "second", "+3.0", "-10", "+10"} <= set(words(figure))
