"""Notebook 09: its pictures, the model whose edits are always on, and its exercises."""

import ast
import builtins
import json
import re
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.text import Text

from aot_helpers.models.checkpoints import load_checkpoint, load_measurements
from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading import trajectories
from aot_helpers.reading.heads import induction_scores
from aot_helpers.teaching.exercises import grade, write
from aot_helpers.text.batches import repeated_tokens, token_stream
from aot_helpers.text.corpora import load_corpus
from chapters.nb09_phase_change import figures as phase_change_drawings
from chapters.nb09_phase_change import measure as phase_change

TOUR = Path(__file__).resolve().parent.parent / "notebooks" / "09_phase_change.ipynb"
TWO, ONE = ["stories-2l", "stories-2l-seed1"], ["stories-1l"]
TOKENS = repeated_tokens(1024, 10, 4, seed=3)


@pytest.fixture(scope="module")
def model():
    return load_checkpoint("stories-2l").requires_grad_(False)


def live_view(model):
    first = phase_change.LiveView(
        200, {"random tokens": TOKENS, "stories": TOKENS}, copy_losses, ""
    )
    first(model)
    view = phase_change.LiveView(200, first.texts, copy_losses, "title", beside=first)
    view(model)
    view(model, 100)
    return view


def falls(model=None):
    steps, runs = phase_change.second_copies(TWO, "stories")
    spans = {"two": phase_change.middle_spans(steps, runs)}
    return phase_change_drawings.second_copies(steps, {"two": (runs, "red", (300, 4))}, spans, "t")


FIGURES = {
    "colored_text": lambda model: phase_change_drawings.colored_text(
        [("heading", [" a", "b", " a", "b"], {"step 1": [0, 0.2, 0.5, 1]}, "red")], "title", "note"
    ),
    "copied_text": lambda model: phase_change.copied_text(
        {"names": TOKENS[:1], "random": TOKENS[1:2]}, [300, 4000], "title"
    ),
    "film_strip": lambda model: phase_change_drawings.film_strip(
        [0, 100], {"L0H0, one": [torch.eye(5)] * 2, "L0H0, two": [torch.eye(5)] * 2}, "title"
    ),
    "transplants": lambda model: phase_change_drawings.transplants(
        {"nothing": [0.0, 0.1], "both layers": [0.6, 1.0]}, ["one", "two"], "title"
    ),
    "second_copies": falls,
    "kinds_of_tokens": lambda model: phase_change_drawings.kinds_of_tokens(
        [300, 1200], {"names": [0, 1], "others": [0, 0.6], "never": [0, 0.98]}, "title"
    ),
    "copied_by_length": lambda model: phase_change_drawings.copied_by_length(
        {name: phase_change.copied_by_length(TWO, 1500) for name in "abc"}, "title"
    ),
    "LiveView": lambda model: live_view(model).figure,
}


@pytest.mark.parametrize("name", FIGURES)
def test_labels_are_at_least_9_points_and_no_figure_stays_open(name, model):
    figure = FIGURES[name](model)
    sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip()]
    assert sizes and min(sizes) >= 9
    assert plt.get_fignums() == []


def test_names_beside_curves_keep_their_distance(model):
    figure = FIGURES["kinds_of_tokens"](model)
    names = {"names", "others", "never"}
    heights = sorted(t.get_position()[1] for t in figure.findobj(Text) if t.get_text() in names)
    assert min(b - a for a, b in zip(heights, heights[1:], strict=False)) >= 0.1


def test_the_live_view_keeps_what_it_measures_and_shows_the_clearest_stripe(model):
    view = live_view(model)
    assert view.steps == [0, 100]
    assert view.losses["stories"] == [pytest.approx(copy_losses(model, TOKENS))] * 2
    shown = " ".join(text.get_text() for text in view.figure.findobj(Text))
    scores = induction_scores(model, TOKENS)[1]
    best = int(scores.argmax())
    assert f"L1H{best} on random tokens:\ninduction score {scores[best]:.2f}" in shown


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


def cells_until(number):
    """The exercise's text, and the code of the cells before it."""
    before = []
    for cell in json.loads(TOUR.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        if f"Exercise {number}" in text:
            return text, before
        before += [text] * (cell["cell_type"] == "code")
    raise LookupError(number)


def printed_solution(number):
    text, before = cells_until(number)
    code = re.search(rf"Exercise {number}.*?<summary>Solution.*?```python\n(.*?)```", text, re.S)[1]
    return ast.parse(code), list(map(ast.parse, before))


def solution(number):
    """The function of the folded solution, where nothing is known but what the tour imports."""
    solved, before = printed_solution(number)
    imported = [
        node
        for cell in before[1:]  # the first makes the package known to Colab
        for node in cell.body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    functions = [node for node in solved.body if isinstance(node, ast.FunctionDef)]
    namespace = {}
    exec(compile(ast.Module(imported + functions, []), number, "exec"), namespace)
    return namespace[functions[0].name]


NUMBERS = ["09.1", "09.2", "09.3", "09.4"]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_printed_solution_uses_only_names_that_the_notebook_has(number):
    solved, before = printed_solution(number)
    known = set(dir(builtins)) | {"layer_1", "once"}  # the exercise's own cell
    for node in (node for tree in (*before, solved) for node in ast.walk(tree)):
        if isinstance(node, ast.alias):
            known.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.add(node.id)
    known |= {node.arg for node in ast.walk(solved) if isinstance(node, ast.arg)}
    used = {node.id for node in ast.walk(solved) if isinstance(node, ast.Name)}
    assert used - known == set()


def said(capsys, number, answer, **given):
    """What grade prints of an answer, without its first words."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grade(number, answer, **given)
    return capsys.readouterr().out.strip().removeprefix(f"exercise {number}: ")


def given_with(number, model):
    return {"model": model, "tokens": TOKENS} if number == "09.1" else {}


@pytest.mark.parametrize("number", NUMBERS)
def test_solutions_solve_and_stubs_are_not_attempted(number, model, capsys):
    given = given_with(number, model)
    assert said(capsys, number, solution(number), **given).startswith("solved")
    assert said(capsys, number, lambda *arguments: None, **given) == "not attempted"


@pytest.mark.parametrize("number", ["09.1", "09.2"])
def test_a_blank_page_goes_on_with_the_package_until_it_is_right(number, model, capsys):
    given, own = given_with(number, model), solution(number)
    packages = {"09.1": copy_losses, "09.2": phase_change.middle_half}[number]
    blank, wrong = (lambda *arguments: None), (lambda *arguments: (1.0, 2.0))
    blank.__name__ = wrong.__name__ = "page"
    for page, goes_on in ((blank, packages), (wrong, packages), (own, own)):
        assert write(number, page, **given) is goes_on
    assert "is yours" in capsys.readouterr().out


def test_a_solved_page_says_what_it_found(model, capsys):
    told = said(capsys, "09.1", solution("09.1"), model=model, tokens=TOKENS)
    numbers = copy_losses(model, TOKENS)
    assert "{:.2f} nats, and {:.2f} the second time".format(*numbers) in told


def means_by_sum(pattern):
    far = range(1, pattern.shape[-1])
    return [max(far, key=lambda d: head.diagonal(-d).sum()) for head in pattern]


def most_frequent(pattern):
    at = torch.arange(pattern.shape[-1])
    pattern = pattern.masked_fill(torch.eye(len(at)).bool(), 0)  # 1 back or more
    return (at - pattern.argmax(dim=-1))[:, 1:].mode(dim=1).values


@pytest.mark.parametrize("answer", [means_by_sum, most_frequent])
def test_a_distance_may_be_found_by_sums_or_by_counting(answer, capsys):
    assert said(capsys, "09.4", answer) == "solved"


def changed(change):
    """A wrong copy_losses: `change` of (losses, n) in place of the two means."""
    return lambda model, tokens: change(
        next_token_losses(model(tokens), tokens), tokens.shape[1] // 2
    )


WRONG = {
    "with the first token": (
        "09.1",
        changed(lambda losses, n: (losses[:, :n].mean(), losses[:, n:].mean())),
        "Leave out the first token",
    ),
    "sums": (
        "09.1",
        changed(lambda losses, n: (losses[:, :n].sum(), losses[:, n + 1 :].sum())),
        "take the means",
    ),
    "sign": (
        "09.1",
        changed(lambda losses, n: (-losses[:, :n].mean(), -losses[:, n + 1 :].mean())),
        "signs are wrong",
    ),
    "order": (
        "09.1",
        changed(lambda losses, n: (losses[:, n + 1 :].mean(), losses[:, :n].mean())),
        "wrong order",
    ),
    "cut short": (
        "09.1",
        changed(lambda losses, n: (losses[:, :n].mean(), losses[:, n + 1 : -1].mean())),
        "cut short",
    ),
    "one number": ("09.1", lambda model, tokens: 5.0, "Return two numbers"),
    "three numbers": ("09.1", lambda model, tokens: (1, 2, 3), "you return 3"),
    "other numbers": ("09.1", lambda model, tokens: (1, 2), "expected, got 1.000, 2.000"),
    "shares of the value": (
        "09.2",
        lambda steps, values: (
            next((s for s, v in zip(steps, values, strict=True) if v <= values[0] / 4), 0)
            - next((s for s, v in zip(steps, values, strict=True) if v <= 3 * values[0] / 4), 0)
        ),
        "shares of the whole change",
    ),
    "the half-way step": (
        "09.2",
        lambda steps, values: trajectories.reached(steps, values, 0.5),
        "half-way step",
    ),
    "all heads": (
        "09.3",
        lambda k: torch.cat([k[:, :1], k[:, :-1]], dim=1),
        "Heads 2 and 3 should keep",
    ),
    "around the end": (
        "09.3",
        lambda k: torch.cat([k.roll(1, 1)[:, :, :2], k[:, :, 2:]], dim=2),
        "Position 0 should keep",
    ),
    "no tensor": ("09.3", lambda k: 3, "Return a tensor"),
    "one distance": ("09.4", lambda pattern: 31, "one distance for each head"),
    "itself": ("09.4", lambda pattern: [3, 1, 12, 0], "only distances of 1 or more"),
    "wrong distances": ("09.4", lambda pattern: [1, 1, 1, 1], "says [1, 1, 1, 1]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_told_what_differs(name, model, capsys):
    number, answer, expected = WRONG[name]
    told = said(capsys, number, answer, **given_with(number, model))
    assert told.startswith("not yet. ") and expected in told
