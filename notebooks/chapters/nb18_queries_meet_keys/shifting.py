"""Keys of a head that are moved step by step onto the queries, while attention stays as it is."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from aot_helpers.models.protocol import Head
from aot_helpers.showing import plots
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE
from aot_helpers.showing.widgets import Page
from chapters.nb18_queries_meet_keys.measure import QueriesKeys

HEAD = Head(1, 9)  # of MiniLM, whose keys lie along a line in the order of their positions
DRAWN = 13  # of the first text: the query that is drawn first
TEXTS = 4  # so many texts are on the maps
NAMED = 0.1  # attention weight from which a bar is named


def vectors_of(result: Mapping, head: Head = HEAD) -> QueriesKeys:
    """A head's queries and keys [token, d_head] in a results file, at the tokens of its film."""
    found = next((e.get("vectors") for e in result["heads"] if e["head"] == str(head)), None)
    if found is None:
        raise ValueError(f"{result['model']} has no vectors of {head}: run make data WHAT=geometry")
    lengths = torch.tensor([len(tokens) for tokens in result["tokens"][:TEXTS]])
    read = lambda text: torch.from_numpy(np.frombuffer(b64decode(text), "<f2").astype(float))  # noqa: E731
    q, k = (read(found[x]).view(int(lengths.sum()), -1) for x in "qk")
    pos = torch.cat([torch.arange(n) for n in lengths])
    return QueriesKeys(q, k, torch.arange(TEXTS).repeat_interleave(lengths), pos)


class Shifted:
    """The film of a results file: maps [share, point, 2] in -1 … 1 and attention [query, key]."""

    def __init__(self, result: Mapping, head: Head = HEAD):
        film = next(
            (each.get("shift film") for each in result["heads"] if each["head"] == str(head)), None
        )
        if film is None:
            raise ValueError(
                f"{result['model']} has no film of {head}: run make data WHAT=geometry"
            )
        self.film, self.head, self.shares = film, head, film["shares"]
        self.tokens = result["tokens"][0]
        lengths = [len(tokens) for tokens in result["tokens"][: film["texts"]]]
        self.pos, self.n = np.concatenate([np.arange(n) for n in lengths]), sum(lengths)
        read = lambda text: np.frombuffer(b64decode(text), np.uint8)  # noqa: E731
        self.maps = (
            np.stack([read(each) for each in film["maps"]]).reshape(-1, 2 * self.n, 2) / 127.5 - 1
        )
        self.attention = read(film["attention"]).reshape([len(self.tokens)] * 2) / 255

    def at(self, place: float):
        """The map [point, 2] at a place between the shares; in between it is mixed."""
        k = min(int(place), len(self.maps) - 2)
        return self.maps[k] + (place - k) * (self.maps[k + 1] - self.maps[k])


class ShiftView(Page):
    """The film in the page: a slider moves the keys, and bars of attention never move."""

    def __init__(self, shifted: Shifted, query: int, still: Figure):
        film = shifted.film
        data = {name: film[name] for name in ("shares", "maps", "liked", "above", "attention")}
        data |= {"tokens": shifted.tokens, "pos": shifted.pos.tolist(), "query": query}
        data |= {"head": str(shifted.head)}
        said = f"queries and keys of {shifted.head}, whose keys are moved while attention stays"
        super().__init__(Path(__file__).with_name("shift.js"), data, still, said)


def view(shifted: Shifted, query: int, title: str) -> ShiftView:
    """The film in the page; where no script runs, three of its frames."""
    last = len(shifted.shares) - 1
    return ShiftView(shifted, query, frames(shifted, query, (0, last // 2, last), title))


def frames(shifted: Shifted, query: int, places: Sequence[float], title: str) -> Figure:
    """The map at some places, and below each the attention of one query, which stays as it is."""
    key = {"● queries": QUERY, "■ keys (framed: of [CLS])": KEY}
    name = shifted.tokens[query]
    key["- - - from each query of one text to its nearest key"] = PALE
    key[f"— from the query of {name} (circled) to the key that it attends to most"] = SHARE
    size = 3.2 * len(places), 4.5
    figure, axes = plots.panels(2, len(places), *size, title=title, key=key, height_ratios=[4.2, 1])
    for place, (above, below) in zip(places, axes.T, strict=True):
        draw(shifted, query, place, above, below)
    return figure


def draw(shifted: Shifted, query: int, place: float, above, below) -> None:
    """One frame: a map with the nearest key of each query of a text; the attention of one query."""
    at, n, length = shifted.at(place), shifted.n, len(shifted.tokens)
    later = 0.25 + 0.75 * shifted.pos / shifted.pos.max()
    for points, color, marker in ((at[:n], QUERY, "o"), (at[n:], KEY, "s")):
        rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        above.scatter(
            *points.T, c=1 - later[:, None] * (1 - rgb), s=16, marker=marker, linewidths=0
        )
    keys = at[n : n + length]  # of the first text, in which the query stands
    nearest = np.linalg.norm(keys - at[:length, None], axis=-1).argmin(axis=1)
    for i, key in enumerate(nearest):
        above.plot(*zip(at[i], keys[key], strict=True), color=PALE, lw=0.9, ls=(0, (3, 2)))
    near = keys[nearest[query]]
    above.plot(*zip(at[query], near, strict=True), color=INK, lw=1.6, ls=(0, (2, 1)), zorder=4)
    if nearest[query]:  # the key of [CLS] is framed; any other is named
        look = {"xytext": (16, -18), "textcoords": "offset points", "color": KEY, "weight": "bold"}
        arrow = {"arrowstyle": "-", "color": KEY, "lw": 1, "shrinkA": 0, "shrinkB": 2}
        above.annotate(shifted.tokens[nearest[query]], near, arrowprops=arrow, zorder=6, **look)
    most = shifted.attention[query].argmax()
    above.plot(*zip(at[query], keys[most], strict=True), color=SHARE, lw=2.4, zorder=3)
    above.scatter(*at[query], s=90, fc="none", ec=INK, lw=1.6, zorder=5)
    above.scatter(*keys[0], s=60, marker="s", fc=KEY, ec=INK, lw=1.6, zorder=5)
    above.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), xticks=[], yticks=[])
    above.set_aspect("equal")
    above.spines[:].set(visible=True, color="0.85")
    share = shifted.shares[round(place)]
    said = f"nearest key of {shifted.tokens[query]}: {shifted.tokens[nearest[query]]}"
    above.set_title(f"{100 * share:.0f}% of the shift\n{said}", **plots.TITLE)
    below.bar(range(length), shifted.attention[query], color=SHARE, width=0.8)
    below.set(ylim=(0, 1), yticks=[0, 1])
    high = [i for i, share in enumerate(shifted.attention[query]) if share >= NAMED]
    below.set_xticks(high, [shifted.tokens[i] for i in high])
    below.spines[["top", "right"]].set_visible(False)
    below.set_xlabel(
        f"attention of “{shifted.tokens[query]}” to the tokens of its text", size=9.5, color=PALE
    )
