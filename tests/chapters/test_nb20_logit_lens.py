"""Notebook 20's prompts, what its heads write, and its exercises."""

import pandas
import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head, all_heads
from aot_helpers.reading.interventions import ablate
from aot_helpers.text.corpora import load_corpus
from chapters.nb20_logit_lens import figures, measure, templates
from chapters.nb20_logit_lens.templates import Prompts
from figure_checks import check_figures


@pytest.fixture(scope="module")
def named(stories):
    return templates.some(templates.named(stories), slice(0, 40, 5))


def test_prompts_that_begin_alike_stand_apart():
    begin = torch.tensor([[1, 1], [1, 1], [1, 1], [2, 1], [2, 2], [2, 2]])
    order = templates.apart(Prompts(begin, torch.ones(6, dtype=torch.long), torch.arange(6)))
    assert sorted(order.answers.tolist()) == list(range(6))
    assert not (order.tokens == order.tokens.roll(1, dims=0)).all(dim=1).any()


def test_prompts_end_where_the_text_goes_on(stories):
    texts = load_corpus("stories", "test", quiet=True).texts[:60]
    found = templates.windows(stories, texts, 10)
    encoded = [stories.tokenizer.encode(text, bos=True) for text in texts]
    for row, last in enumerate(found.last):
        start = found.tokens[row, : last + 1]
        (whole,) = [e for e in encoded if torch.equal(e[: last + 1], start)]
        assert whole[last + 1] == found.answers[row]
    kinds = templates.by_kind(stories, texts, 12, 5)
    said = {kind: templates.predictions(stories, each) for kind, each in kinds.items()}
    assert (said["right"] == kinds["right"].answers).all()
    assert (said["wrong"] != kinds["wrong"].answers).all()
    with pytest.raises(ValueError, match="answers .* as they go on: at least 4, "):
        templates.by_kind(stories, texts[:4])
    with pytest.raises(ValueError, match="give longer texts"):
        templates.windows(stories, ["Too short."], 10)


@torch.no_grad()
def test_heads_read_beside_their_sum(stories, named):
    written = measure.head_outputs(stories, named)
    text = named.tokens[2, : named.last[2] + 1]
    _, cache = stories.run_with_cache(text[None])
    torch.testing.assert_close(written[2, 1].sum(dim=0), cache["L1.attn_out"][0, -1])
    parts = {f"L1H{h}": written[2, 1, h] for h in range(4)}
    words, logits = measure.top_of_sum(stories, parts, n=3)["sum"]
    assert words[0] == stories.tokenizer.token_strings(named.answers[2:3])[0]
    id = int(named.answers[2])
    each = [measure.centered(x @ stories.W_U)[id].item() for x in parts.values()]
    assert sum(each) == pytest.approx(logits[0], abs=1e-4)


@torch.no_grad()
def test_in_the_last_layer_the_direct_effect_is_the_total_one(stories, named):
    def answers(logits):
        return measure.centered(logits).gather(1, named.answers[:, None])[:, 0]

    written, whole = measure.head_outputs(stories, named), measure.last_logits(stories, named)
    for head in all_heads(stories):
        direct = answers(written[:, head.layer, head.head] @ stories.W_U)
        left = measure.last_logits(stories, named, ablate(stories, [head]))
        apart = (direct - answers(whole) + answers(left)).abs().max()
        assert apart < 1e-4 if head.layer == 1 else apart > 0.1, head


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
        stories.tokenizer.encode(templates.NAMED.format(a, b, a), bos=True)
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
