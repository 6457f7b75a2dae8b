"""What was measured while runs trained: what is asked of it and is not there."""

import pytest

from aot_helpers.reading.trajectories import measured, reached


@pytest.mark.parametrize(
    ("names", "quantity", "first", "said"),
    [
        (["stories-2l"], "loss", 0, "quantity is called 'loss'.*copy accuracy"),
        ([], "copy accuracy", 0, r"nothing is measured of \[\]"),
        (["stories-2l"], "copy accuracy", 5000, "from step 5000 to 4000"),
        (["no such"], "copy accuracy", 0, "measured run is called 'no such'"),
    ],
)
def test_what_was_not_measured_is_named(names, quantity, first, said):
    with pytest.raises(ValueError, match=said):
        measured(names, quantity, first)


def test_a_share_of_no_way_is_refused():
    assert reached([0, 10, 20], [1.0, 2.0, 3.0], 0.5) == 10
    for values, share in ([3.0, 3.0], 0.5), ([3.0, 4.0], 5.0):
        with pytest.raises(ValueError, match=f"no step has done {share} of the way from 3.0"):
            reached([1, 2], values, share)
