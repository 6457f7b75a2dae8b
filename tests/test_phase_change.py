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

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import head_scores, induction_scores
from aot_helpers.reading.interventions import ablate
from aot_helpers.studies import phase_change, phase_change_drawings
from aot_helpers.teaching.exercises import grade
from aot_helpers.text.batches import repeated_tokens
from aot_helpers.training.losses import copy_accuracy, next_token_losses

TOUR = Path(__file__).resolve().parent.parent / "notebooks" / "09_phase_change.ipynb"
TWO, ONE = ["stories-2l", "stories-2l-seed1"], ["stories-1l"]
TOKENS = repeated_tokens(1024, 10, 4, seed=3)


@pytest.fixture(scope="module")
def model():
    return load_checkpoint("stories-2l").requires_grad_(False)


def saved(model, tokens):
    losses = next_token_losses(model(tokens), tokens)
    length = tokens.shape[1] // 2
    return 1 - losses[:, length + 1 :].mean() / losses[:, :length].mean()


def live_view(model):
    view = phase_change.LiveView(200, TOKENS, TOKENS, saved)
    view(model)
    view(model, 100)
    return view.figure


FIGURES = {
    "colored_text": lambda model: phase_change_drawings.colored_text(
        [("heading", [" a", "b", " a", "b"], {"step 1": [0, 0.2, 0.5, 1]}, "red")], "title", "note"
    ),
    "copied_text": lambda model: phase_change.copied_text(
        {"names": TOKENS[:1], "random": TOKENS[1:2]}, [300, 4000], "title"
    ),
    "two_heads": lambda model: phase_change_drawings.two_heads(),
    "two_heads, filled": lambda model: phase_change_drawings.two_heads(
        head_scores(model, TOKENS, "previous").scores[0], induction_scores(model, TOKENS)[1], 0.5
    ),
    "film_strip": lambda model: phase_change_drawings.film_strip(
        [0, 100], {"L0H0, one": [torch.eye(5)] * 2, "L0H0, two": [torch.eye(5)] * 2}
    ),
    "transplants": lambda model: phase_change_drawings.transplants(
        {"nothing": [0.0, 0.1], "both layers": [0.6, 1.0]}, ["one", "two"]
    ),
    "rescue": lambda model: phase_change.rescue(TWO, ONE, ["stories-1l-smeared"]),
    "seed_panels": lambda model: phase_change.seed_panels(TWO, ONE),
    "kinds_of_tokens": lambda model: phase_change_drawings.kinds_of_tokens(
        [300, 1200], {"names": [0, 1], "others": [0, 0.6], "never": [0, 0.9]}
    ),
    "skill_map": lambda model: phase_change.skill_map(TWO, TWO, ONE, ["docstrings-2l"]),
    "LiveView": live_view,
}


@pytest.mark.parametrize("name", FIGURES)
def test_labels_are_at_least_9_points_and_no_figure_stays_open(name, model):
    figure = FIGURES[name](model)
    sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip()]
    assert sizes and min(sizes) >= 9
    assert plt.get_fignums() == []


def test_the_filled_diagram_names_the_heads_that_do_it(model):
    shown = [text.get_text() for text in FIGURES["two_heads, filled"](model).findobj(Text)]
    assert any(text.startswith("L0H3: 0.9") for text in shown)  # the known relay of stories-2l
    assert any(re.match(r"L1H[02]: 0\.\d\d of its attention", text) for text in shown)


def test_the_live_view_shows_what_it_measures_and_the_clearest_stripe(model):
    figure = live_view(model)
    shown = [text.get_text() for text in figure.findobj(Text)]
    assert f"stories {saved(model, TOKENS):.2f}" in shown
    best = int(induction_scores(model, TOKENS)[1].argmax())
    assert f"L1H{best} on stories" in shown


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


def test_half_way_steps_are_those_of_shares_of_the_change():
    halves = phase_change.half_way_steps(TWO)
    for quantity, found in halves.items():
        steps, runs = phase_change.measured(TWO, quantity)
        for step, run in zip(found, runs, strict=True):
            start, end = run[steps.index(200)], run[steps.index(1500)]
            shares = {s: (v - start) / (end - start) for s, v in zip(steps, run, strict=True)}
            assert shares[step] >= 0.5
            assert max(share for s, share in shares.items() if 200 <= s < step) < 0.5
    seeds = ["docstrings-2l", "docstrings-2l-seed1"]  # measured at other steps
    each = [phase_change.half_way_steps([name], last=4000) for name in seeds]
    both = phase_change.half_way_steps(seeds, last=4000)
    assert both == {q: [one[q][0] for one in each] for q in both}
    with pytest.raises(ValueError, match="stories-1l has .* 0.01 .*0.4 or more"):
        phase_change.half_way_steps([*TWO, *ONE])


def test_the_table_of_skills_has_the_last_measured_numbers_of_each_run():
    groups = phase_change.skills_at(1500, {"two": TWO, "one": ONE})
    assert [len(columns["copied"]) for columns in groups.values()] == [2, 1]
    table = phase_change.skills_table(groups).data.splitlines()
    assert len(table) == 2 + 3
    last = [
        phase_change.measured(ONE, q, 1500)[1][0][-1] for q in list(phase_change.QUANTITIES)[1:]
    ]
    assert table[-1] == "| one | {:.2f} | {:.2f} | {:.2f} |".format(*last)


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
    code = re.search(r"<summary>Solution.*?```python\n(.*?)```", text, re.S)[1]
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


@pytest.mark.parametrize("number", ["09.1", "09.2", "09.3"])
def test_a_printed_solution_uses_only_names_that_the_notebook_has(number):
    solved, before = printed_solution(number)
    known = set(dir(builtins))
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


@pytest.mark.parametrize("number", ["09.1", "09.2", "09.3"])
def test_solutions_solve_and_stubs_are_not_attempted(number, model, capsys):
    given = {"model": model, "tokens": TOKENS} if number == "09.1" else {}
    told = said(capsys, number, solution(number), **given)
    assert told == "solved" or number == "09.1"
    assert said(capsys, number, lambda *arguments: None, **given) == "not attempted"


def test_a_solved_exercise_shows_the_number_that_was_guessed(model, capsys):
    told = said(capsys, "09.1", solution("09.1"), model=model, tokens=TOKENS)
    numbers = copy_accuracy(model, TOKENS), solution("09.1")(model, TOKENS)
    assert told == "solved ({:.2f} with the head, {:.2f} without)".format(*numbers)


def means_by_sum(pattern):
    far = range(1, pattern.shape[-1])
    return [max(far, key=lambda d: head.diagonal(-d).sum()) for head in pattern]


def most_frequent(pattern):
    at = torch.arange(pattern.shape[-1])
    pattern = pattern.masked_fill(torch.eye(len(at)).bool(), 0)  # 1 back or more
    return (at - pattern.argmax(dim=-1))[:, 1:].mode(dim=1).values


@pytest.mark.parametrize("answer", [means_by_sum, most_frequent])
def test_a_distance_may_be_found_by_sums_or_by_counting(answer, capsys):
    assert said(capsys, "09.3", answer) == "solved"


WRONG = {
    "all heads on": ("09.1", copy_accuracy, "as with all heads on"),
    "another head": (
        "09.1",
        lambda model, tokens: copy_accuracy(model, tokens, ablate(model, [Head(0, 0)], "zero")),
        "best previous-token head",
    ),
    "another number": ("09.1", lambda model, tokens: 5, "does not give"),
    "no number": ("09.1", lambda model, tokens: "L0H3", "Return one number"),
    "all heads": (
        "09.2",
        lambda k: torch.cat([k[:, :1], k[:, :-1]], dim=1),
        "Heads 2 and 3 should keep",
    ),
    "around the end": (
        "09.2",
        lambda k: torch.cat([k.roll(1, 1)[:, :, :2], k[:, :, 2:]], dim=2),
        "Position 0 should keep",
    ),
    "no tensor": ("09.2", lambda k: 3, "Return a tensor"),
    "one distance": ("09.3", lambda pattern: 31, "one distance for each head"),
    "itself": ("09.3", lambda pattern: [3, 1, 12, 0], "only distances of 1 or more"),
    "wrong distances": ("09.3", lambda pattern: [1, 1, 1, 1], "says [1, 1, 1, 1]"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_told_what_differs_and_not_the_answer(name, model, capsys):
    number, answer, expected = WRONG[name]
    given = {"model": model, "tokens": TOKENS} if number == "09.1" else {}
    told = said(capsys, number, answer, **given)
    assert told.startswith("not yet. ") and expected in told
    assert name == "no number" or "L0H3" not in told
