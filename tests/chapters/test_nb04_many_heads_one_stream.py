"""Notebook 04: what each part has written, the pages that the reader writes, the drawings."""

import pytest
import torch
from matplotlib.text import Text

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.teaching.exercises.attention import flawed_attention
from chapters.nb04_many_heads_one_stream import figures, measure
from chapters.nb04_many_heads_one_stream.exercises import attention, head
from figure_checks import check_figures

TERMS = {"L1H0": 7.04, "L1H3": 7.69, "L0H3": 0.4}
FALLS = {"L1H0 and L1H3": 14.74, "L0H3 and L1H0": 16.86}


@pytest.fixture
def tokens(stories):
    return stories.tokenizer.encode("Then Mira Soken met Pelo. Then Mira Soken said", bos=True)


def test_pieces_add_up_to_the_stream_and_attributions_to_logits(stories, tokens):
    logits, cache = stories.run_with_cache(tokens[None])
    pieces = measure.pieces(stories, cache)
    assert list(pieces)[:2] == ["direct path", "L0H0"] and len(pieces) == 9
    assert torch.allclose(sum(pieces.values()), cache["final_resid"], atol=1e-4)
    attributed = sum(measure.direct_logit_attribution(stories, cache, tokens).values())
    rows = logits[0, :-1]
    expected = rows.gather(1, tokens[1:, None])[:, 0] - rows.mean(dim=1)
    assert torch.allclose(attributed, expected, atol=1e-4)


@torch.no_grad()
def test_with_mlps_positions_and_norms_the_pieces_add_up_as_well():
    torch.manual_seed(0)
    model = AttentionOnlyTransformer(ModelConfig(30, positions="standard", d_mlp=16))
    _, cache = model.run_with_cache(torch.arange(12)[None])
    pieces = measure.pieces(model, cache)
    assert torch.allclose(sum(pieces.values()), cache["final_resid"], atol=1e-4)
    terms = {name: piece[0, 3].sum().item() for name, piece in pieces.items()}
    parts = measure.by_layer(terms, "L1H3")
    assert list(parts) == [
        "direct path",
        "heads of layer 0",
        "biases",
        "MLP of layer 0",
        "other heads of layer 1",
        "L1H3",
        "MLP of layer 1",
    ]
    assert sum(parts.values()) == pytest.approx(sum(terms.values()), abs=1e-4)


def test_an_ending_comes_again_only_after_the_same_piece(stories):
    strings = stories.tokenizer.token_strings(torch.arange(1024))
    text = "Mira Soken met Pelo Soker. Mira Soken"
    tokens = stories.tokenizer.encode(text)
    endings, chosen = measure.repeated_endings(tokens[None], strings)
    assert {strings[i] for i in endings} >= {"en", "er"} and len(set(endings.tolist())) == 20
    places = chosen[0].nonzero().flatten().tolist()
    assert [strings[tokens[i + 1]] for i in places] == ["en"] and places[0] > len(tokens) // 2


def test_total_effects_add_up_within_a_layer(stories, tokens):
    names = ["L1H0", "L1H3", "L1H0 and L1H3", "L0H3 and L1H0"]
    one, three, both, _ = measure.total_effects(stories, tokens, 8, names).values()
    assert both == pytest.approx(one + three, abs=1e-3)
    _, cache = stories.run_with_cache(tokens[None])
    term = measure.direct_logit_attribution(stories, cache, tokens)["L1H0"][8]
    assert one == pytest.approx(term.item(), abs=1e-3)


def replaces(tokens, W_E, layers, W_U):
    resid = W_E[tokens]
    for weights in layers:
        resid = attention(resid, *weights)
    return resid @ W_U


def read():
    """The model, and a text [1, pos] of a name that comes twice."""
    stories = load_checkpoint("stories-2l")
    text = "Then Mira Soken met Pelo. Then Mira Soken said"
    return {"model": stories, "tokens": stories.tokenizer.encode(text, bos=True)[None]}


def rivals():
    stories, names = load_checkpoint("stories-2l"), ("L1H0", "L1H3")
    strings = stories.tokenizer.token_strings(torch.arange(1024))
    text = "Then Mira Soken lived near the river with two friends. Then Mira Sok"
    tokens = stories.tokenizer.encode(text, bos=True)
    with torch.no_grad():
        pieces = measure.pieces(stories, stories.run_with_cache(tokens[None])[1])
    return {
        "model": stories,
        "wrote": {name: pieces[name][0, -1] for name in names},
        "token": strings.index("en"),
        "of_kind": [strings.index(each) for each in ("en", "es", "el")],
    }


GIVEN = {"04.2": read, "04.3": rivals, "04.4": lambda: {"truth": FALLS, "terms": TERMS}}
ANSWERS = [
    ("04.1", lambda x, *a: flawed_attention(x[:, None], *a, mask="none")[0].sum(dim=1), "mask"),
    ("04.1", lambda x, *more: torch.nan * x, "nan"),
    ("04.1", lambda x, *a: x + attention(x, *a), "not yet"),
    ("04.1", lambda x, *a: head(x, *(each[0] for each in a)), "not yet"),
    ("04.1", lambda x, W_Q, *more: x @ W_Q, "x[:, None]"),
    ("04.2", replaces, "not yet"),
    ("04.2", lambda tokens, W_E, layers, W_U: W_E[tokens], "not yet"),
    ("04.3", " the", "solved"),
    ("04.3", " said", "not yet"),
    ("04.3", "es", "just what this head can tell apart"),
    ("04.3", "the", "not yet"),
    ("04.4", dict(zip(FALLS, [14.7, 16.9], strict=True)), "solved"),
    ("04.4", dict(zip(FALLS, [7.7, 16.9], strict=True)), "share a layer"),
    ("04.4", dict(zip(FALLS, [14.7, 23.6], strict=True)), "L0H3 and L1H0"),
]


def test_figures_can_be_read_and_add_up():
    heads = {f"L{i}H{h}": i + h / 10 for i in range(2) for h in range(4)}
    writes = [figures.Write(7, "en", " Sok", {"L1H0": 6.96})]
    writes.append(figures.Write(19, " Sok", "ira", {}))
    table = torch.tensor([[7.0, 7.6], [7.7, -4.25]])
    before = {"direct path": 1.0, "L0H0": 2.0}
    drawn = {
        "0.8 (was 3.0)": figures.contributions({"direct path": 1.5, "L0H0": -0.7}, "t", before),
        "logit 5.7": figures.one_stream(2, 4, "title", {"direct path": 0.5} | heads, writes),
        "+14.7": figures.rivals(
            {"first": table, "second": table}, ["L1H0", "L1H3"], ["en", " the"], "t"
        ),
    }
    check_figures(*drawn.values(), figures.one_stream(2, 4, "title"))
    for total, figure in drawn.items():
        assert any(total in text.get_text() for text in figure.findobj(Text)), total


def test_a_head_that_is_never_first_has_no_number():
    counts = {"adds most": torch.tensor([0, 7]), "is needed most": torch.tensor([5, 2])}
    figure = figures.first_places(counts, ["L0H0", "L0H1"], "title")
    check_figures(figure)
    axis = figure.axes[0]
    assert [text.get_text() for text in axis.texts if text.get_text()] == ["7", "5", "2"]
    assert [bar.get_height() for bar in axis.patches] == [0, 7, 5, 2]
