"""Evidence of notebook 24: what heads add, drawn against what is read in them."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.models.protocol import Head
from aot_helpers.showing.diagrams import KEY, PALE, QUERY, SHARE
from aot_helpers.showing.plots import points


def against_reading(adds, rank, names: Sequence[str], title: str) -> Figure:
    """What each head adds, against how high the name stands in its reading: both [layer, head].

    names: heads to name, such as "L2H3".
    """
    adds, rank = np.asarray(adds), np.asarray(rank) + 1
    named = {name: (rank[at], adds[at]) for name in names for at in [Head.parse(name)]}
    raising, lowering = ([xy for xy in named.values() if (xy[1] > 0) == up] for up in (True, False))
    groups = {"all heads": (rank, adds), "named, and add": tuple(zip(*raising, strict=True))}
    groups["named, and take"] = tuple(zip(*lowering, strict=True))
    figure = points(
        groups,
        title,
        "median rank of the name in what the head writes (1: first)",
        "adds, share of the logit difference",
        names=named,
        x_log=True,
        levels={0: ""},
        colors=dict(zip(groups, (PALE, QUERY, KEY), strict=True)),
        width=7.2,
    )
    figure.axes[0].axvspan(0.8, 5.5, color=SHARE, alpha=0.12, lw=0)
    return figure
