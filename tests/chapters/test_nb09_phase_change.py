"""Notebook 09: its measures, the model whose edits are always on, its exercises and pictures."""

import pytest
import torch
from matplotlib.text import Text

from aot_helpers.models.checkpoints import load_checkpoint, load_measurements
from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import induction_scores
from aot_helpers.text.batches import repeated_tokens
from chapters.nb09_phase_change import exercises, figures, measure
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


def test_patterns_are_those_of_each_model(stories):
    models = [load_checkpoint("stories-2l", 0), stories]
    young, old = measure.patterns_of(models, Head(1, 0), TOKENS)
    whole = stories.run_with_cache(TOKENS)[1]["L1.pattern"][:, 0].mean(dim=0)
    assert torch.equal(old, whole) and not torch.allclose(young, whole, atol=0.1)


def test_names_are_found_in_stories_that_are_written_twice(stories):
    tokens, is_name = measure.stories_and_names(stories.tokenizer, n_stories=5, length=20)
    assert tokens.shape == (5, 41) and is_name.shape == (5, 19)
    assert torch.equal(tokens[:, 1:21], tokens[:, 21:])
    a_name = tokens[:, 2:21][is_name].tolist()
    others = set(stories.tokenizer.token_strings(tokens[:, 2:21][~is_name]))
    assert {" the", " a"} & others and not set(a_name) & set(tokens[:, 2:21][~is_name].tolist())


def test_logs_are_what_was_written_down_while_runs_trained():
    steps, losses, gaps = measure.logs(TWO)
    log = load_measurements(TWO[1])
    found = log["measured"][log["steps"].index(1500)]
    gap = found["repeated random tokens, first copy"] - found["repeated random tokens, second copy"]
    assert steps[0] == 100 and steps[-1] == 1500 and gaps[1, -1].item() == pytest.approx(gap)
    assert losses.shape == gaps.shape and losses[1, -1].item() == pytest.approx(found["text"])


def test_figures_can_be_read(view):
    steps, losses, gaps = measure.logs(TWO)
    groups = [dict.fromkeys(("two layers", "one layer"), each) for each in (losses, gaps)]
    strip = {"L0H0, one": [torch.eye(21)] * 2, "L0H0, two": [torch.eye(21)] * 2}
    toy = {"neither ready": exercises.descend(0.01, 0.01), "one ready": exercises.descend(1, 0.01)}
    head = dict.fromkeys(("neither ready", "looking ready", "copying ready"), [0.0, 1.0, 7.0])
    check_figures(
        figures.film_strip([0, 100], strip, "title"),
        figures.loss_and_gap(
            steps, *groups, ([100, 1500], [0.0, 2.5]), {"names": (400, 500)}, "title"
        ),
        figures.waiting(toy, head, "title"),
        view.figure,
    )


# ---- exercises ----


def changed(change):
    """A wrong copy_losses: `change` of (losses, n) in place of the two means."""
    return lambda model, tokens: change(
        next_token_losses(model(tokens), tokens), tokens.shape[1] // 2
    )


def looked_up(moved, by):
    """What a head that finds equal tokens says with queries, keys or values of another token."""
    segment = [7, 3, 9, 4, 8]
    text = segment * 2
    said = {"queries": text, "keys": text, "values": text}
    said[moved] = [text[i + by] if 0 <= i + by < len(text) else None for i in range(len(text))]
    outcomes = set()
    for i in range(len(segment), len(text) - 1):  # of the second copy; its next token is known
        if said["values"][i] == text[i + 1]:
            return "cheats"
        places = [j for j in range(i + 1) if said["keys"][j] == said["queries"][i]]
        outcomes.add({said["values"][j] for j in places} == {text[i + 1]})
    return "copies" if outcomes == {True} else "cannot"


def test_the_shifts_do_what_a_head_that_looks_up_would_do():
    ways = {"before": -1, "after": 1}
    for name, judged in exercises.SHIFTS.items():
        moved, *_, way = name.split()
        assert looked_up(moved, ways[way]) == judged, name
    assert looked_up("values", 0) == "cannot"  # nothing shifted


SHIFTS, WHY = exercises.SHIFTS, exercises.WHY
GIVEN = {"09.1": lambda: {"model": load_checkpoint("stories-2l"), "tokens": TOKENS}}
ANSWERS = [
    ("09.1", changed(lambda x, n: (x[:, :n].mean(), x[:, n:].mean())), "Leave out the first token"),
    ("09.1", changed(lambda x, n: (x[:, :n].sum(), x[:, n + 1 :].sum())), "not yet"),
    ("09.1", lambda model, tokens: 5.0, "not yet"),
    ("09.2", SHIFTS, "solved"),
    ("09.2", SHIFTS | {"values of the token after": "works"}, "say copies, cannot or cheats"),
    *(
        ("09.2", SHIFTS | {name: "cheats" if judged == "cannot" else "cannot"}, WHY[name][:30])
        for name, judged in SHIFTS.items()
    ),
    ("09.2", dict.fromkeys(SHIFTS, "copies"), "what came *before* it"),
    ("09.2", SHIFTS | {"values of the token after": ...}, "not yet"),
    ("09.2", {"keys of the token before": "copies"}, "not yet"),
    ("09.2", dict.fromkeys(SHIFTS, ...), "not attempted"),
    ("09.3", lambda a, b, steps=150, rate=0.1: [a * b] * steps, "not yet"),
    ("09.3", lambda *start, **how: [[1, 2], [3]], "A list of numbers is wanted"),
    *(("09.3", wrong, said) for said, wrong in exercises.WRONG_DESCENTS.items()),
    ("09.4", exercises._counted, "solved"),
    ("09.5", exercises._honest_score, "solved"),
    ("09.4", lambda tokens, back: [-1] * back + tokens[:-back], "empty for back = 0"),
    ("09.4", lambda tokens, back: [tokens[i - back] for i in range(len(tokens))], "end of the"),
]
