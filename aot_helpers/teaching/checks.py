"""Checks that stop a notebook whose number is not what it has to be."""

import math


def check(name: str, value: float, equals=None, tol=0.0, at_least=None, at_most=None) -> None:
    """Assert a measured value and print it with what was expected.

    Give equals (with tol), at_least or at_most. NaN never passes. Raises AssertionError.
    """
    value, parts, passed = float(value), [], True
    if equals is not None:
        parts.append(f"{equals:.4g} ± {tol:.2g}" if tol else f"{equals:.4g}")
        passed &= abs(value - equals) <= tol
    if at_least is not None:
        parts.append(f"≥ {at_least:.4g}")
        passed &= value >= at_least
    if at_most is not None:
        parts.append(f"≤ {at_most:.4g}")
        passed &= value <= at_most
    bounds = [bound for bound in (equals, tol, at_least, at_most) if bound is not None]
    if not parts or not all(map(math.isfinite, bounds)):
        raise ValueError(f"check {name!r} could not fail: give finite equals, at_least or at_most")
    shown = f"{name}: {value:.4g} (expected {' and '.join(parts)})"
    if not passed:
        raise AssertionError(f"check failed: {shown}")
    print(f"check passed: {shown}")
