import math

import pytest

from aot_helpers.teaching.checks import check


@pytest.mark.parametrize(
    ("value", "bounds", "passes"),
    [
        (1.0, {"equals": 1.0}, True),
        (1.05, {"equals": 1.0, "tol": 0.1}, True),
        (2, {"at_least": 1, "at_most": 3, "equals": 2}, True),
        (math.inf, {"at_least": 1}, True),
        (1.0 + 1e-9, {"equals": 1.0}, False),
        (0.8, {"equals": 1.0, "tol": 0.1}, False),
        (1.999, {"at_least": 2}, False),
        (2.001, {"at_most": 2}, False),
        (2, {"at_least": 1, "at_most": 3, "equals": 2.5}, False),
        (math.nan, {"equals": 0.0, "tol": 1.0}, False),
        (math.nan, {"at_least": -1e9}, False),
        (math.inf, {"at_most": 1e9}, False),
    ],
)
def test_a_value_within_its_bounds_passes_another_or_nan_fails(capsys, value, bounds, passes):
    if passes:
        check("loss", value, **bounds)
        assert capsys.readouterr().out.startswith(f"check passed: loss: {value:.4g} (expected ")
    else:
        with pytest.raises(AssertionError, match=r"check failed: loss: .*\(expected "):
            check("loss", value, **bounds)


@pytest.mark.parametrize("bounds", [{}, {"tol": 1.0}, {"at_most": math.inf}, {"equals": math.nan}])
def test_a_check_that_cannot_fail_is_refused(bounds):
    with pytest.raises(ValueError, match="check 'loss' could not fail"):
        check("loss", 1.0, **bounds)
