"""What is measured once: files of results, spreads and correlations."""

import json
import math

import pytest
import torch

from aot_helpers.base import results
from aot_helpers.base.files import read_json
from aot_helpers.base.statistics import bootstrap_interval


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


def test_json_nested_without_end_is_damaged(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="deep.json is damaged .*recursion"):
        read_json(tmp_path / "deep.json")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0], "at least 2 .*got 1"),
        ([[1.0, 2.0]], r"a row of at least 2 .*got 2 in shape \(1, 2\)"),
        ([1.0, float("nan")], "finite"),
    ],
)
def test_a_bootstrap_of_nothing_is_refused(unchecked, values, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(torch.tensor(values))
