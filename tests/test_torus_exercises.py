import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from answers import verdict
from aot_helpers.teaching.exercises import write
from chapters.nb15_heads_as_a_basis import exercises as nb15
from chapters.nb15_heads_as_a_basis import measure as torus_division
from chapters.torus import networks as torus
from chapters.torus.palette import asker
from chapters.torus.training import list_runs, load_run

NET, FACTS = load_run("heads3-dim3").nets[0], list_runs()["heads3-dim3"].targets()[0]
THETA = torus.angles(NET)[0]
TOUR_15 = Path(__file__).resolve().parent.parent / "notebooks" / "15_heads_as_a_basis.ipynb"


def opinion(theta1, theta2):
    first, second = torch.broadcast_tensors(theta1, theta2)
    points = (torus.circle(each.flatten())[None] for each in (first, second))
    return torus.logits(NET, *points)[0].view(*first.shape, 5)


def facts_lost(word=0, degrees=0, silent=None):
    angles, says = THETA.clone(), torch.ones(3)
    angles[word] += math.radians(degrees)
    if silent is not None:
        says[silent] = 0
    said = asker(NET, says)(angles[:, None], angles[None]).argmax(dim=-1).flatten()
    return [str(i) for i in range(25) if said[i] != FACTS[i]]


def wanted(theta2, Q, K, position=NET.W_pos[0, 1]):
    return (torus.circle(theta2) + position) @ Q @ K.T @ torus.PLANE.T.float()


def favorite(*given, **where):
    across, up = wanted(*given, **where).unbind(-1)
    return torch.atan2(up, across)


def searched(theta2, Q, K, n=20_000):
    angles = torch.arange(n) * 2 * math.pi / n
    scores = (torus.circle(theta2) + NET.W_pos[0, 1]) @ Q @ (torus.circle(angles) @ K).T
    return angles[scores.argmax(dim=-1)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (("AA", "B"), "solved"),
        (("a a", "yellow"), "solved"),
        ((("A", "A"), "b"), "solved"),
        ((["a", "a"], "Yellow "), "solved"),
        (("DD", "B"), "DD is not"),
        (("AA", "C"), "color is not right"),
        (("AA", "blue"), "color is not right"),
        (("A", "B"), "a pair of words, such as \"CE\", not 'A'"),
        (("AA", 7), 'such as "D" or "red", not 7'),
        (("AA", ""), 'such as "D"'),
    ],
)
def test_the_cut_torus(answer, said):
    assert said in verdict("13.1", *answer, theta=THETA, opinion=opinion)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((2, "C", 3), "solved"),
        ([2.0, "c", 3.0], "solved"),
        ((..., ..., ...), "not attempted"),
        ((..., "C", 3), "not attempted"),
        ((2, ..., ...), "Head 2 is right, it costs 15 facts. Now the word"),
        ((2, "C", ...), "Now the word"),
        ((0, "C", 3), "Head 0 costs 14 facts, another one more."),
        ((3, "C", 3), "The head is 0, 1 or 2, not 3."),
        ((True, "C", 3), "The head is"),
        (("C", 3), "Give a head, a word and degrees"),
        (2, "Give a head, a word and degrees"),
        ((2, "C", 2.5), "whole number of degrees, such as 25 or -25, not 2.5"),
        ((2, "C", math.nan), "whole number"),
        ((2, "C", "3"), "not '3'"),
        ((2, "D", 1), "still known"),
        ((2, "C", -4), "smaller turn"),
        ((2, "D", 25), "smaller turn"),
        ((2, "Z", 1), "one of A"),
    ],
)
def test_the_fact_that_hangs_by_a_thread(answer, said):
    assert said in verdict("13.2", answer, facts_lost=facts_lost)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (favorite, "solved"),
        (lambda *given: favorite(*given) + 2 * math.pi, "solved"),
        (lambda *given: None, "not attempted"),
        (lambda *given: ..., "not attempted"),
        (lambda *given: favorite(*given) + math.pi, "looks at the first word least"),
        (lambda *given: favorite(*given).rad2deg(), "give radians"),
        (searched, "as a search is"),
        (lambda *given: favorite(*given, position=0), "know its position?"),
        (lambda *given: favorite(*given, position=NET.W_pos[0, 0]), "at the second place"),
        (lambda theta2, Q, K: favorite(theta2, Q, K.T), "which way round does K stand"),
        (lambda theta2, Q, K: favorite(theta2, K, Q), "The second word asks"),
        (lambda *given: torch.atan2(*wanted(*given).unbind(-1)), "takes the height first"),
        (lambda *given: 2 * favorite(*given), "Head 0 is off by up to"),
        (lambda *given: math.nan * favorite(*given), "is off by up to nan"),
        (lambda *given: favorite(*given)[None], "shape"),
        (lambda *given: 0.5, "shape ()"),
    ],
)
def test_the_first_word_that_a_head_likes_best(answer, said):
    assert said in verdict("13.3", answer, net=NET)


def line(x2, W, E, p1):
    return x2 @ W @ E, x2 @ W @ (p1 - x2)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda *given: torch.cat([line(*given)[0], line(*given)[1][None]]), "solved"),
        (lambda *given: [*line(*given)[0], line(*given)[1]], "solved"),
        (lambda *given: None, "not attempted"),
        (line, "Three numbers in one tensor, please"),
        (lambda *given: line(*given)[0], "expected shape (3,)"),
        (lambda *given: torch.cat([line(*given)[0], -line(*given)[1][None]]), "expected"),
    ],
)
def test_the_line_of_a_second_word(answer, said):
    assert said in verdict("14.1", answer)


MOVES = {"W_Q times 2": False, "W_K times -1": False, "W_V times 2": False, "W_pos times 2": True}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (MOVES, "solved"),
        (MOVES | {"W_V times 2": ...}, "not attempted"),
        (MOVES | {"W_V times 2": True}, "yet: W_V times 2 (values are carried"),
        (MOVES | {"W_Q times 2": True}, "yet: W_Q times 2 (twice the score"),
        (MOVES | {"W_K times -1": True}, "yet: W_K times -1 (dark and white swap"),
        (MOVES | {"W_pos times 2": False}, "yet: W_pos times 2 (positions stand"),
        (dict.fromkeys(MOVES, True), "; W_K times -1 (dark"),
        ({"W_Q times 2": False}, "each of W_Q times 2"),
        (True, "A dictionary"),
    ],
)
def test_what_moves_the_frontier(answer, said):
    assert said in verdict("14.2", answer, net=NET)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([0, 0, 0, 0, 0, 0, 0, 1, 0, -1, 0], "solved"),
        (torch.tensor([0, 0, 0, 0, 0, 0, 0, 1, 2, -1, -2]), "solved"),
        (..., "not attempted"),
        ([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "at 0% of the first words"),
        ([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], "No head can have these"),
        ([1, 2], "11 numbers"),
        ("wild", "11 numbers"),
    ],
)
def test_a_wild_head(answer, said):
    assert said in verdict("14.3", answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda heads, owners, facts: F.cross_entropy(heads.sum(dim=0), facts), "sum the heads"),
        (
            lambda heads, owners, facts: sum(F.cross_entropy(each, facts) for each in heads) / 3,
            "every head for every fact",
        ),
        (
            lambda heads, owners, facts: F.cross_entropy(
                heads[owners, torch.arange(len(facts))], facts, reduction="sum"
            ),
            "sum over the facts",
        ),
        (lambda heads, owners, facts: F.cross_entropy(heads[0], facts), "expected"),
    ],
)
def test_a_wrong_penalty_is_told_what_it_asks(answer, said):
    assert said in verdict("15.4", answer)


@pytest.mark.parametrize("said", nb15.HEAD_MISTAKES)
def test_a_wrong_head_is_told_its_slip(said):
    assert verdict("15.1", nb15.HEAD_MISTAKES[said]) == f"not yet. {said}"


def test_a_head_alone_is_the_packages_head():
    net = torus.new_nets([4])
    x = torch.stack(torus.pairs(net), dim=2)[0] + net.W_pos[0]
    heads = zip(net.W_Q[0], net.W_K[0], net.W_V[0], net.W_O[0], strict=True)
    found = torch.stack([nb15.head_alone(x, *W, net.W_U[0]) for W in heads])
    assert torch.allclose(found, torus_division.terms(net)[0][0], atol=1e-5)


@pytest.mark.parametrize("said", nb15.COVERAGE_MISTAKES)
def test_a_wrong_coverage_is_told_its_slip(said):
    found = verdict("15.2", lambda alone: tuple(nb15.COVERAGE_MISTAKES[said](alone)))
    assert found == f"not yet. {said}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (nb15.coverage, "solved"),
        (lambda alone: list(nb15.coverage(alone)), "solved"),
        (lambda alone: None, "not attempted"),
        (lambda alone: nb15.coverage(alone)[0], "Two things are wanted"),
        (lambda alone: (alone.any(dim=-1).float(), alone.float()), "both should have the shape"),
        (lambda alone: [each / 2 for each in nb15.coverage(alone)], "expected"),
    ],
)
def test_coverage_is_a_pair_of_shares(answer, said):
    assert said in verdict("15.2", answer)


def solution(number):
    """The functions of the folded solution of an exercise of notebook 15."""
    cells = json.loads(TOUR_15.read_text("utf-8"))["cells"]
    prose = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    code = prose.split(f"**Exercise {number} ")[1].split("```python\n")[1].split("```")[0]
    namespace = {"torch": torch, "F": F, "math": math}
    exec(code, namespace)
    return namespace


@pytest.mark.parametrize("number", nb15.PAGES)
def test_a_blank_page_goes_on_with_the_package_until_it_is_right(number, capsys):
    name = nb15.PAGES[number].__name__

    def blank(*given): ...

    def wrong(*given):
        return -12345.0

    for page in (blank, wrong):
        page.__name__ = name
        assert write(number, page) is nb15.PAGES[number]
        assert f"`{name}` is the package's version" in capsys.readouterr().out
    own = solution(number)[name]
    assert write(number, own) is own
    said = f"exercise {number}: solved\n→ from here on, `{name}` is yours\n"
    assert capsys.readouterr().out == said
