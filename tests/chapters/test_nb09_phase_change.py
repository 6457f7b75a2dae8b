"""Notebook 09: its pictures, the model whose edits are always on, and its exercises."""

import pytest
import torch
from matplotlib.text import Text

from aot_helpers.models.checkpoints import load_checkpoint, load_measurements
from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading import trajectories
from aot_helpers.reading.heads import head_scores, induction_scores
from aot_helpers.showing import diagrams
from aot_helpers.text.batches import repeated_tokens, token_stream
from aot_helpers.text.corpora import load_corpus
from chapters.nb09_phase_change import figures as phase_change_drawings
from chapters.nb09_phase_change import measure as phase_change
from figure_checks import check_figures

TWO, ONE = ["stories-2l", "stories-2l-seed1"], ["stories-1l"]
TOKENS = repeated_tokens(1024, 10, 4, seed=3)


@pytest.fixture
def model(stories):
    return stories


def live_view(model):
    first = phase_change.LiveView(
        200, {"random tokens": TOKENS, "stories": TOKENS}, copy_losses, ""
    )
    first(model)
    view = phase_change.LiveView(200, first.texts, copy_losses, "title", beside=first)
    view(model)
    view(model, 100)
    return view


def test_the_live_view_keeps_what_it_measures_and_shows_the_clearest_stripe(model):
    view = live_view(model)
    assert view.steps == [0, 100]
    assert view.losses["stories"] == [pytest.approx(copy_losses(model, TOKENS))] * 2
    shown = " ".join(text.get_text() for text in view.figure.findobj(Text))
    scores = induction_scores(model, TOKENS)[1]
    assert f"L1H{scores.argmax()}" in shown and f"{scores.max():.2f}" in shown


def test_an_edited_model_is_the_model_with_its_edits(model):
    config = ModelConfig(50, n_layers=1, n_ctx=12, positions="relative", layer_norm=False)
    edits = {"L0.k": lambda k: k.roll(1, dims=1)}
    edited, plain = phase_change.Edited(config, edits), AttentionOnlyTransformer(config)
    plain.load_state_dict(edited.state_dict())
    tokens = torch.arange(24).view(2, 12)
    assert torch.equal(edited(tokens), plain(tokens, edits=edits))
    _, cache = edited.run_with_cache(tokens, edits={"L0.v": torch.zeros_like})
    both = plain.run_with_cache(tokens, edits={**edits, "L0.v": torch.zeros_like})[1]
    assert torch.equal(cache["L0.pattern"], both["L0.pattern"])
    assert not cache["L0.z"].any()


def test_patterns_on_the_way_are_those_of_the_shipped_steps(model):
    young, old = phase_change.patterns_at([0, 4000], Head(1, 0), TOKENS)
    whole = model.run_with_cache(TOKENS)[1]["L1.pattern"][:, 0].mean(dim=0)
    assert torch.equal(old, whole) and not torch.allclose(young, whole, atol=0.1)


def test_kinds_of_tokens_share_no_token(model):
    corpus, bos = load_corpus("stories", quiet=True), model.tokenizer.bos
    stream = token_stream(model.tokenizer.encode_many(corpus.texts), bos)
    kinds = phase_change.kinds_of_tokens(corpus, model.tokenizer, stream)
    drawn = {kind: set(tokens[:, 1:].flatten().tolist()) for kind, tokens in kinds.items()}
    names, words, never = drawn.values()
    assert not names & words and not (names | words) & never and bos not in names | words | never
    assert all(tokens.shape == (40, 25) for tokens in kinds.values())
    assert not never & set(stream.tolist())


def test_the_in_context_score_has_the_sign_of_the_logs():
    """Late minus early, as in Olsson et al.: negative where context helps."""
    assert trajectories.measured(TWO, "in-context score")[1][0][-1] < -1
    logged = load_measurements(TWO[0])["measured"][-1]["in-context score"]
    assert trajectories.measured(TWO, "in-context score")[1][0][-1] == logged


def test_a_middle_half_reaches_from_a_quarter_to_three_quarters():
    assert phase_change.middle_half(list(range(101)), [-n for n in range(101)]) == 50
    assert phase_change.middle_half([0, 10, 20, 30], [0, 0, 9, 9]) == 0
    steps, runs = phase_change.second_copies(TWO, "random tokens")
    spans = phase_change.middle_spans(steps, runs)
    assert [b - a for a, b in spans] == [phase_change.middle_half(steps, run) for run in runs]
    assert (steps[0], steps[-1]) == (200, 1500)


def test_a_difference_is_the_second_copy_minus_the_first():
    steps, runs = phase_change.difference(TWO, "stories", first=200, last=1500)
    log = load_measurements(TWO[1])
    measured = log["measured"][log["steps"].index(1500)]
    gap = measured["repeated text, second copy"] - measured["repeated text, first copy"]
    assert steps[-1] == 1500 and runs[1][-1] == gap < 0


def test_half_way_steps_are_those_of_shares_of_the_change():
    halves = trajectories.half_way_steps(TWO)
    for quantity, found in halves.items():
        steps, runs = trajectories.measured(TWO, quantity)
        for step, run in zip(found, runs, strict=True):
            start, end = run[steps.index(200)], run[steps.index(1500)]
            shares = {s: (v - start) / (end - start) for s, v in zip(steps, run, strict=True)}
            assert shares[step] >= 0.5
            assert max(share for s, share in shares.items() if 200 <= s < step) < 0.5
    seeds = ["docstrings-2l", "docstrings-2l-seed1"]  # measured at other steps
    each = [trajectories.half_way_steps([name], last=4000) for name in seeds]
    both = trajectories.half_way_steps(seeds, last=4000)
    assert both == {q: [one[q][0] for one in each] for q in both}
    with pytest.raises(ValueError, match="stories-1l has .* 0.01 .*0.4 or more"):
        trajectories.half_way_steps([*TWO, *ONE])


def test_figures_can_be_read(model):
    steps, runs = phase_change.second_copies(TWO, "stories")
    spans = {"two": phase_change.middle_spans(steps, runs)}
    shares = [" a", "b", " a", "b"], {"step 1": [0, 0.2, 0.5, 1]}
    found = head_scores(model, TOKENS, "previous").scores[0], induction_scores(model, TOKENS)[1]
    texts = {"names": TOKENS[:1], "random": TOKENS[1:2]}
    kinds = {"names": [0, 1], "others": [0, 0.6], "never": [0, 0.98]}
    lengths = {name: phase_change.copied_by_length(TWO, 1500) for name in "abc"}
    strip = {"L0H0, one": [torch.eye(5)] * 2, "L0H0, two": [torch.eye(5)] * 2}
    moved = {"nothing": [0.0, 0.1], "both layers": [0.6, 1.0]}
    drawings = phase_change_drawings
    check_figures(
        drawings.colored_text([("heading", *shares, "red")], "title", "note"),
        phase_change.copied_text(
            texts, {step: load_checkpoint("stories-2l", step) for step in (300, 4000)}, "title"
        ),
        diagrams.two_heads(title="title"),
        diagrams.two_heads(*found, 0.5, title="title"),
        drawings.film_strip([0, 100], strip, "title"),
        drawings.transplants(moved, ["one", "two"], "title"),
        drawings.second_copies(steps, {"two": (runs, "red", (300, 4))}, spans, "t"),
        drawings.kinds_of_tokens([300, 1200], kinds, "title"),
        drawings.copied_by_length(lengths, "title"),
        live_view(model).figure,
    )


# ---- exercises ----


@pytest.mark.parametrize("number", ["09.1", "09.2"])
def test_a_page_is_the_readers_once_it_is_right(check_page, model, number):
    check_page(number, **({"model": model, "tokens": TOKENS} if number == "09.1" else {}))


def test_a_function_of_the_folded_solutions_solves(verdict, solution):
    assert verdict("09.3", solution("09.3", "shift")) == "solved"
    assert verdict("09.4", solution("09.4", "favorite_distances")) == "solved"


def changed(change):
    """A wrong copy_losses: `change` of (losses, n) in place of the two means."""
    return lambda model, tokens: change(
        next_token_losses(model(tokens), tokens), tokens.shape[1] // 2
    )


def quarter_of_the_value(steps, values):
    pairs = list(zip(steps, values, strict=True))
    first, last = (next((s for s, v in pairs if v <= x * values[0]), 0) for x in (0.75, 0.25))
    return last - first


def most_frequent(pattern):
    at = torch.arange(pattern.shape[-1])
    pattern = pattern.masked_fill(torch.eye(len(at)).bool(), 0)  # 1 back or more
    return (at - pattern.argmax(dim=-1))[:, 1:].mode(dim=1).values


def means_by_sum(pattern):
    far = range(1, pattern.shape[-1])
    return [max(far, key=lambda d: head.diagonal(-d).sum()) for head in pattern]


ANSWERS = [
    ("09.1", changed(lambda x, n: (x[:, :n].mean(), x[:, n:].mean())), "not yet"),
    ("09.1", changed(lambda x, n: (x[:, :n].sum(), x[:, n + 1 :].sum())), "not yet"),
    ("09.1", changed(lambda x, n: (-x[:, :n].mean(), -x[:, n + 1 :].mean())), "not yet"),
    ("09.1", changed(lambda x, n: (x[:, n + 1 :].mean(), x[:, :n].mean())), "not yet"),
    ("09.1", changed(lambda x, n: (x[:, :n].mean(), x[:, n + 1 : -1].mean())), "not yet"),
    ("09.1", lambda model, tokens: 5.0, "not yet"),
    ("09.1", lambda model, tokens: (1, 2, 3), "not yet"),
    ("09.2", quarter_of_the_value, "not yet"),
    ("09.2", lambda steps, values: trajectories.reached(steps, values, 0.5), "not yet"),
    ("09.3", lambda k: torch.cat([k[:, :1], k[:, :-1]], dim=1), "not yet"),
    ("09.3", lambda k: torch.cat([k.roll(1, 1)[:, :, :2], k[:, :, 2:]], dim=2), "not yet"),
    ("09.3", lambda k: 3, "not yet"),
    ("09.3", lambda k: None, "not attempted"),
    ("09.4", means_by_sum, "solved"),
    ("09.4", most_frequent, "solved"),
    ("09.4", lambda pattern: 31, "not yet"),
    ("09.4", lambda pattern: [3, 1, 12, 0], "not yet"),
    ("09.4", lambda pattern: [1, 1, 1, 1], "not yet"),
    ("09.4", lambda pattern: None, "not attempted"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(model, verdict, number, answer, expected):
    given = {"model": model, "tokens": TOKENS} if number == "09.1" else {}
    assert verdict(number, answer, **given) == expected
