"""The functions of `plots` under an older name."""

from aot_helpers.showing.plots import *  # noqa: F403
