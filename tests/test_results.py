"""What is measured once: files of results, spreads and correlations."""

import json
import math

import pytest
import torch

from aot_helpers.base import results
from aot_helpers.base.files import read_json
from aot_helpers.base.statistics import bootstrap_interval, correlation


def test_results_come_back_and_those_that_are_not_there_name_the_rest(tmp_path):
    found = {"model": "tiny, ü", "heads": [{"p": 0.5}, {"p": None}]}
    for rows in (None, "heads"):
        results.write("geometry/tiny", found, tmp_path, rows)
        assert results.read("geometry/tiny", tmp_path) == found
    assert len((tmp_path / "geometry/tiny.json").read_text("utf-8").splitlines()) == 4
    results.write("rows", {"rows": [1, 2]}, tmp_path, "rows")
    assert results.read("rows", tmp_path) == {"rows": [1, 2]}
    with pytest.raises(ValueError, match="'geometry/gpt5', but: tiny; make data WHAT=geometry"):
        results.read("geometry/gpt5", tmp_path)
    with pytest.raises(ValueError):
        results.write("nan", {"p": math.nan}, tmp_path)


def test_every_float_is_rounded_and_what_json_lacks_is_none():
    found = {"a": [1.23456, 7, "x", True, None], "b": {"c": (math.nan, math.inf, -0.000123456)}}
    assert results.rounded(found) == {
        "a": [1.235, 7, "x", True, None],
        "b": {"c": [None, None, -0.0001235]},
    }
    assert results.rounded([1234.56789, 1e-7], ".2f") == [1234.57, 0.0]
    json.dumps(results.rounded(found), allow_nan=False)


def test_a_bootstrap_interval_is_near_the_normal_one():
    values = 3 + 2 * torch.randn(400, generator=torch.Generator().manual_seed(0))
    low, high = bootstrap_interval(values)
    error = values.std().item() / 20
    assert low == pytest.approx(values.mean().item() - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(values.mean().item() + 1.96 * error, abs=0.15 * error)
    assert bootstrap_interval(values) == (low, high) != bootstrap_interval(values, seed=1)


def test_a_bootstrap_of_two_values_covers_what_their_resamples_can_be():
    assert bootstrap_interval(torch.tensor([0.0, 1.0])) == (0.0, 1.0)
    assert bootstrap_interval(torch.tensor([5.0, 5.0, 5.0])) == (5.0, 5.0)


def test_a_correlation_is_one_where_one_number_is_a_line_of_the_other():
    one = torch.tensor([3.0, 1.0, 2.0, 10.0])
    assert correlation(one, 2 * one + 5) == pytest.approx(1)
    assert correlation(one, -one) == pytest.approx(-1)
    assert correlation(one, torch.ones(4)) == 0
    assert correlation(one.view(2, 2), one.view(2, 2)) == pytest.approx(1)
    ranks = torch.tensor([3.0, 1.0, 2.0, 4.0])
    assert correlation(ranks, torch.tensor([3.5, 1.5, 1.5, 3.5])) == pytest.approx(2 / 5**0.5)
    for wrong in (torch.tensor([1.0]), torch.tensor([1.0, 2.0, math.nan])):
        with pytest.raises(ValueError, match="2 pairs, got 1|must be finite"):
            correlation(wrong, wrong)


def test_a_bootstrap_takes_numbers_of_any_kind(unchecked):
    wanted = bootstrap_interval(torch.tensor([1.0, 2.0, 4.0]))
    assert bootstrap_interval([1, 2, 4]) == bootstrap_interval(torch.tensor([1, 2, 4])) == wanted


def test_json_nested_without_end_is_damaged(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="deep.json is damaged .*recursion"):
        read_json(tmp_path / "deep.json")


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ([1.0], {}, "at least 2 .*got 1"),
        ([[1.0, 2.0]], {}, r"a row of at least 2 .*got 2 in shape \(1, 2\)"),
        ([1.0, float("nan")], {}, "finite"),
        ([1.0, 2.0], {"n_resamples": 0}, "n_resamples .* got 0"),
    ],
)
def test_a_bootstrap_of_nothing_is_refused(unchecked, values, settings, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(torch.tensor(values), **settings)
