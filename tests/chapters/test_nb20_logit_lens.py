"""Notebook 20's prompts, what is kept of a run, and its exercises."""

import pandas
import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.text.corpora import load_corpus
from chapters.nb20_logit_lens import figures, measure
from figure_checks import check_figures


def test_prompts_end_where_the_text_goes_on(stories):
    texts = load_corpus("stories", "test", quiet=True).texts[:60]
    found = measure.windows(stories, texts, 10)
    encoded = [stories.tokenizer.encode(text, bos=True) for text in texts]
    for row, last in enumerate(found.last):
        start = found.tokens[row, : last + 1]
        (whole,) = [e for e in encoded if torch.equal(e[: last + 1], start)]
        assert whole[last + 1] == found.answers[row]
    with pytest.raises(ValueError, match="give longer texts"):
        measure.windows(stories, ["Too short."], 10)


def test_the_head_that_reads_as_oslo_is_missed_most():
    found, parts, kept = measure.read_oslo()
    rms = kept["writes"].sum(dim=0).square().mean().sqrt()
    reading = (kept["writes"] / rms * kept["gain"]) @ kept["column"]
    assert reading.sum().item() == pytest.approx(found["logit"], abs=0.02)
    most = max(found["effect"], key=found["effect"].get)
    assert parts[int(reading.argmax())] == "L29 MLP" and most == found["without"]["head"] == "L23H4"
    assert max(found["effect"], key=dict(zip(parts, reading, strict=True)).get) == most
    capitals = found["capitals"]
    assert len(capitals["answers"]) == 24 and capitals["reads most"].count(most) == 23
    assert {each[:2] for each in capitals["needed most"] if each != most} == {"L0", "L1"}
    assert capitals["needed most"].count(most) == 19
    related = torch.corrcoef(torch.tensor([capitals["its reading"], capitals["its effect"]]))
    assert abs(related[0, 1]) < 0.2  # the reading does not tell how much is lost
    lost = found["without"]["lost"]
    assert lost["L29 MLP"] < -2 and lost["L24 MLP"] + lost["L29H1"] > 2


BROKEN = {"loud": (Head(1, 2), 4), "quiet": (Head(0, 3), 12)}  # as the folded solution


def wrong(change):
    """A wrong `norm_matched`: `change` of (what heads wrote, what they could have written)."""

    def page(heads, W_O):
        z = torch.randn(*heads.shape[:-1], W_O.shape[1])
        return change(heads, (z[..., None, :] @ W_O)[..., 0, :])

    return page


def asked():
    stories = load_checkpoint("stories-2l").requires_grad_(False)
    tokens, other = (
        stories.tokenizer.encode(measure.NAMED.format(a, b, a), bos=True)
        for a, b in (("Deko", "Balis"), ("Tavi", "Zorin"))
    )
    return {"model": stories, "tokens": tokens, "other": other}


def asked_of_one():
    given = asked()
    return {"model": given["model"], "tokens": given["tokens"]}


GIVEN = {"20.2": asked_of_one, "20.3": asked}
ANSWERS = [
    ("20.1", lambda heads, W_O: heads, "not yet"),
    ("20.1", lambda heads, W_O: torch.randn(heads.shape), "not yet"),
    ("20.1", wrong(lambda heads, made: made), "not yet"),  # other norms
    ("20.1", wrong(lambda heads, made: made[:1].expand_as(heads)), "not yet"),
    ("20.3", lambda x, here, there, W: x - here @ W + there @ W, "solved"),
    ("20.3", lambda x, here, there, W: x + here @ W - there @ W, "not yet"),
    ("20.3", lambda x, here, there, W: x + there @ W, "not yet"),
    ("20.3", lambda x, here, there, W: x - here @ W, "not yet"),
    ("20.3", lambda x, here, there, W: there @ W, "not yet"),
    ("20.3", lambda x, here, there, W: there, "not yet"),
    ("20.2", BROKEN, "solved"),
    ("20.2", BROKEN | {"loud": (Head(1, 2), 12)}, "not yet"),
    ("20.2", BROKEN | {"loud": (Head(0, 2), 4)}, "not yet"),
    ("20.2", BROKEN | {"loud": ...}, "not yet"),
    ("20.2", BROKEN | {"quiet": (Head(1, 0), 22)}, "not yet"),
    ("20.2", BROKEN | {"quiet": (Head(0, 0), 12)}, "not yet"),
    ("20.2", BROKEN | {"quiet": (Head(0, 3), 23)}, "not yet"),
    ("20.2", BROKEN | {"quiet": 3}, "not yet"),
    ("20.2", BROKEN | {"loud": ..., "quiet": ...}, "not attempted"),
]


def test_figures_can_be_read():
    found = {"real": [(0.2, 0.0), (0.1, 0.0)], "random": [(0.2, 0.0), (0.3, 0.1)]}
    effects = {Head(i, h): (torch.zeros(3), torch.ones(3)) for i in range(2) for h in range(4)}
    some = pandas.DataFrame({"reading": [0.1, 2.0], "effect": [1.0, 2.0]}, index=["L0H0", "L2H1"])
    drawn = [
        figures.readings_and_effects(effects, {Head(0, 3): "black", Head(1, 1): "green"}, "t"),
        figures.heads_of_a_model(some, {"L2H1": "green"}, "t"),
        figures.capitals([" Rome", " Oslo"], [1.0, 2.0], [3.0, 1.0], "t"),
        figures.with_and_without(found, "t"),
        figures.sum_of_heads({n: ([" a", "b"], [2.0, 1.0]) for n in ("L1H0", "L1H1", "sum")}, "t"),
    ]
    for figure in drawn:
        figure.draw_without_rendering()
    check_figures(*drawn)
