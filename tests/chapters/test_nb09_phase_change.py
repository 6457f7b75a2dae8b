"""Notebook 09: its measures, the model whose edits are always on, its exercises and pictures."""

import pytest
import torch
from matplotlib.text import Text

from aot_helpers.models.checkpoints import load_checkpoint, load_measurements
from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading import trajectories
from aot_helpers.reading.heads import induction_scores
from aot_helpers.text.batches import repeated_tokens
from chapters.nb09_phase_change import figures, measure
from figure_checks import check_figures

TWO = ["stories-2l", "stories-2l-seed1"]
TOKENS = repeated_tokens(1024, 10, 4, seed=3)


@pytest.fixture(scope="module")
def view(stories):
    first = figures.LiveView(200, {"random tokens": TOKENS, "stories": TOKENS}, copy_losses, "t")
    first(stories)
    second = figures.LiveView(200, first.texts, copy_losses, "title", beside=first)
    second(stories)
    second(stories, 100)
    return second


def test_the_live_view_keeps_what_it_measures_and_shows_the_clearest_stripe(stories, view):
    assert view.steps == [0, 100]
    assert view.losses["stories"] == [pytest.approx(copy_losses(stories, TOKENS))] * 2
    shown = " ".join(text.get_text() for text in view.figure.findobj(Text))
    scores = induction_scores(stories, TOKENS)[1]
    assert f"L1H{scores.argmax()}" in shown and f"{scores.max():.2f}" in shown


def test_an_edited_model_is_the_model_with_its_edits():
    config = ModelConfig(50, n_layers=1, n_ctx=12, positions="relative", layer_norm=False)
    edits = {"L0.k": lambda k: k.roll(1, dims=1)}
    edited, plain = measure.Edited(config, edits), AttentionOnlyTransformer(config)
    plain.load_state_dict(edited.state_dict())
    tokens = torch.arange(24).view(2, 12)
    assert torch.equal(edited(tokens), plain(tokens, edits=edits))
    both = edits | {"L0.v": torch.zeros_like}
    assert torch.equal(edited(tokens, edits={"L0.v": torch.zeros_like}), plain(tokens, edits=both))


def test_patterns_on_the_way_are_those_of_the_shipped_steps(stories):
    young, old = measure.patterns_at([0, 4000], Head(1, 0), TOKENS)
    whole = stories.run_with_cache(TOKENS)[1]["L1.pattern"][:, 0].mean(dim=0)
    assert torch.equal(old, whole) and not torch.allclose(young, whole, atol=0.1)


def test_names_are_found_in_stories_that_are_written_twice(stories):
    tokens, is_name = measure.stories_and_names(stories.tokenizer, n_stories=5, length=20)
    assert tokens.shape == (5, 41) and is_name.shape == (5, 19)
    assert torch.equal(tokens[:, 1:21], tokens[:, 21:])
    a_name = tokens[:, 2:21][is_name].tolist()
    others = set(stories.tokenizer.token_strings(tokens[:, 2:21][~is_name]))
    assert {" the", " a"} & others and not set(a_name) & set(tokens[:, 2:21][~is_name].tolist())


def test_a_middle_half_reaches_from_a_quarter_to_three_quarters():
    assert measure.middle_half(torch.arange(101), -torch.arange(101.0)) == 50
    assert measure.middle_half(torch.tensor([0, 10, 20, 30]), torch.tensor([0.0, 0, 9, 9])) == 0


@pytest.mark.parametrize("text", ["stories", "random tokens"])
def test_a_gap_is_the_first_copy_minus_the_second(text):
    steps, runs = measure.gaps(TWO, text)
    log = load_measurements(TWO[1])
    found = log["measured"][log["steps"].index(1500)]
    name = {"stories": "repeated text", "random tokens": "repeated random tokens"}[text]
    gap = found[f"{name}, first copy"] - found[f"{name}, second copy"]
    assert steps[0] == 200 and steps[-1] == 1500 and runs[1][-1].item() == pytest.approx(gap)


def test_the_middle_halves_of_claim_21_are_those_of_the_logs():
    found = measure.middle_halves(TWO)
    for what, values in found.items():
        text = what.removesuffix(" less first copies")
        steps, runs = trajectories.measured(TWO, f"second copy, {text}", 200, 1500)
        if what != text:
            _, once = trajectories.measured(TWO, f"first copy, {text}", 200, 1500)
            runs = [
                [b - a for a, b in zip(*pair, strict=True)] for pair in zip(once, runs, strict=True)
            ]
        spans = [
            [trajectories.reached(steps, run, share) for share in (0.25, 0.75)] for run in runs
        ]
        assert values == [end - begin for begin, end in spans]


def test_half_way_steps_are_those_of_shares_of_the_change():
    for quantity, found in trajectories.half_way_steps(TWO).items():
        steps, runs = trajectories.measured(TWO, quantity)
        for step, run in zip(found, runs, strict=True):
            start, end = run[steps.index(200)], run[steps.index(1500)]
            shares = {s: (v - start) / (end - start) for s, v in zip(steps, run, strict=True)}
            assert shares[step] >= 0.5
            assert max(share for s, share in shares.items() if 200 <= s < step) < 0.5
    with pytest.raises(ValueError, match="stories-1l has .* 0.01 .*0.4 or more"):
        trajectories.half_way_steps([*TWO, "stories-1l"])


def test_figures_can_be_read(view):
    steps, runs = measure.gaps(TWO, "stories")
    texts = dict.fromkeys(("random tokens", "stories"), {"two": runs, "one": runs / 3})
    models = {step: load_checkpoint("stories-2l", step) for step in (300, 4000)}
    strip = {"L0H0, one": [torch.eye(21)] * 2, "L0H0, two": [torch.eye(21)] * 2}
    check_figures(
        figures.copied_text(TOKENS[:1], models, "title", "note"),
        figures.film_strip([0, 100], strip, "title"),
        figures.gaps(steps, texts, "title"),
        figures.losses_and_gap(steps, 3 + runs, 2 * runs, "title"),
        figures.transplants(dict.fromkeys("abcdefg", [0.0, 0.1]), ["one", "two"], "title"),
        figures.kinds_of_tokens(dict.fromkeys("abc", (steps, runs[0])), "title"),
        view.figure,
    )


# ---- exercises ----


@pytest.mark.parametrize("number", ["09.1", "09.2"])
def test_a_page_is_the_readers_once_it_is_right(check_page, stories, number):
    check_page(number, **({"model": stories, "tokens": TOKENS} if number == "09.1" else {}))


def test_a_function_of_the_folded_solutions_solves(verdict, solution):
    assert verdict("09.3", solution("09.3", "shift")) == "solved"


def changed(change):
    """A wrong copy_losses: `change` of (losses, n) in place of the two means."""
    return lambda model, tokens: change(
        next_token_losses(model(tokens), tokens), tokens.shape[1] // 2
    )


ANSWERS = [
    ("09.1", changed(lambda x, n: (x[:, :n].mean(), x[:, n:].mean())), "not yet"),
    ("09.1", changed(lambda x, n: (x[:, :n].sum(), x[:, n + 1 :].sum())), "not yet"),
    ("09.1", lambda model, tokens: 5.0, "not yet"),
    ("09.2", lambda steps, values: measure.middle_span(steps, values)[0], "not yet"),
    ("09.2", lambda steps, values: measure.middle_span(steps, values)[1], "not yet"),
    ("09.3", lambda k: torch.cat([k[:, :1], k[:, :-1]], dim=1), "not yet"),
    ("09.3", lambda k: torch.cat([k.roll(1, 1)[:, :, :2], k[:, :, 2:]], dim=2), "not yet"),
    ("09.3", lambda k: 3, "not yet"),
    ("09.3", lambda k: None, "not attempted"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(stories, verdict, number, answer, expected):
    given = {"model": stories, "tokens": TOKENS} if number == "09.1" else {}
    assert verdict(number, answer, **given) == expected
