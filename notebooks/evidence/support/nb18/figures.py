"""Drawings of evidence 18: clouds of queries and keys."""

from collections.abc import Mapping

from jaxtyping import Float, Int
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import plots
from aot_helpers.showing.diagrams import KEY, QUERY
from chapters.nb18_queries_meet_keys.figures import KINDS, LATER, bare, draw_cloud

# Of a scale c: below 1 it makes keys large, above 1 queries, up to 0.2 and to 5.
LARGER = LinearSegmentedColormap.from_list("larger", [(0, KEY), (1 / 6, "#FFFFFF"), (1, QUERY)])


def clouds(
    panels: Mapping[str, tuple[Float[Tensor, "point 2"], Float[Tensor, "point 2"]]],
    title: str,
    pos: Int[Tensor, " point"] | None = None,
    columns: int = 4,
    side: float = 3.0,
) -> Figure:
    """Maps of queries (orange, round) and keys (blue, square), {title: (q, k)}.

    pos: positions; later is darker.
    """
    columns = min(columns, len(panels))
    n_rows, note = -(-len(panels) // columns), "" if pos is None else LATER
    figure, axes = plots.panels(
        n_rows, columns, side * columns, (side + 0.3) * n_rows, title=title, key=KINDS, note=note
    )
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (name, (q, k)) in zip(axes.flat, panels.items(), strict=False):
        dots = 9 if len(q) > 300 else 16 if len(q) > 100 else 40
        draw_cloud(axis, q, QUERY, "o", dots, pos)
        draw_cloud(axis, k, KEY, "s", dots * 0.8, pos)
        bare(axis)
        axis.set_title(name, **plots.TITLE)
    return figure
