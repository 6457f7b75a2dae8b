"""The two plots of notebook 20's evidence: what is shared by layer, and by rank of the norm."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from aot_helpers.showing import plots
from aot_helpers.showing.diagrams import KEY, PALE, SHARE, VALUE
from aot_helpers.showing.plots import Interval


def by_layer(result: Mapping, name: str, kind: str = "right") -> tuple[list[int], Interval]:
    """(layers, the means over prompts with their intervals) of a share, as `plots.lines` asks."""
    table = result["shares"][kind][name]
    return result["layers"], Interval(table["low"], table["layers"], table["high"])


def by_norm(curves: Mapping[str, Mapping[str, Sequence[float]]], title: str) -> Figure:
    """I_k with a layer's sum, the largest head first: {model: {vectors: [rank]}}."""
    looks = {
        "real heads": (VALUE, "-"),
        "real heads, another sum": (SHARE, ":"),
        "random, same norms": (PALE, "--"),
        "random, equal norms": (KEY, "-."),
    }
    looks = {name: looks[name] for name in next(iter(curves.values()))}
    colors, styles = ({name: look[i] for name, look in looks.items()} for i in (0, 1))
    data = {
        model: {name: (range(1, len(means) + 1), means) for name, means in each.items()}
        for model, each in curves.items()
    }
    x_label, y_label = "head, by norm (1: the largest)", "I₅₀ with the sum of the layer"
    look = {"colors": colors, "styles": styles, "y_range": (0, None), "width": 11}
    figure = plots.lines(data, title, x_label, y_label, **look)
    for axis, each in zip(figure.axes, data.values(), strict=True):
        axis.set_xticks(next(iter(each.values()))[0])
    return figure
