"""Notebook 04: what the embedding and each head have written, and what it adds to a logit."""

import math
from collections.abc import Iterable

from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.interventions import ablate
from aot_helpers.reading.norms import frozen_norm, norm_bias
from aot_helpers.showing import diagrams, texts
from aot_helpers.showing.diagrams import INK, PALE, QUERY, VALUE

GRAY, BAND = "#C9CDD2", "#DDE1E5"
WRITER = Head(0, 3)  # the head whose readers are drawn


def pieces(model: Model, cache: dict) -> dict[str, Float[Tensor, "batch pos d"]]:
    """What the embedding and each head have written to the stream: {name: [batch, pos, d_model]}.

    They add up to the final stream (framework paper, "Residual stream"). The direct path has the
    positions, if they are added to the stream; a model with MLPs has these and the output biases of
    its layers of heads as well.
    """
    c = model.config
    found = {"direct path": cache["embed"] + cache.get("pos_embed", 0)}
    for i in range(c.n_layers):
        heads = {f"L{i}H{h}": head_output(model, cache, Head(i, h)) for h in range(c.n_heads)}
        found |= heads
        if c.d_mlp:
            found[f"L{i} bias"] = cache[f"L{i}.attn_out"] - sum(heads.values())
            found[f"L{i} MLP"] = cache[f"L{i}.mlp_out"]
    return found


def direct_logit_attribution(
    model: Model, cache: dict, tokens: Int[Tensor, " pos"]
) -> dict[str, Float[Tensor, " pos-1"]]:
    """What each piece adds to the logit of the token that comes, above its mean over all tokens.

    The softmax ignores a constant, so each piece's mean is taken off. The last norm, if there is
    one, keeps the σ of this run, and its bias is a term of its own.
    """
    W_U = model.W_U - model.W_U.mean(dim=1, keepdim=True)
    columns, norm = W_U[:, tokens[1:]].T, model.final_norm()
    read = frozen_norm(norm, cache["final_resid"])
    rows = {name: read(piece)[0, :-1] for name, piece in pieces(model, cache).items()}
    if model.config.d_mlp:
        rows["last norm's bias"] = norm_bias(norm, model.config.d_model).expand_as(columns)
    return {name: (row * columns).sum(dim=-1) for name, row in rows.items()}


def _signed(value: float) -> str:
    """With its sign and one decimal, never -0.0."""
    return f"{round(value, 1) + 0.0:+.1f}"


def one_stream(
    n_layers: int,
    n_heads: int,
    title: str,
    terms: dict[str, float] | None = None,
    writes: list[tuple[int, str, str, dict[str, float]]] = (),
    writer: Head = WRITER,
) -> Figure:
    """The model as a river: layers of heads read the stream and add to it, from left to right.

    terms: {head: a number}, written above each head, which is shaded by its size. writes: for each
    position that matters, and last for the present one: its number, its token, the token that the
    writer attends to there, and {head of layer 1: how much less it adds without what the writer
    wrote there}. An earlier position is a short river of its own; blue arrows show who reads it.
    """
    step, rise = (3.75, 0.65) if terms else (2.9, 0.0)
    lane, earlier = 0.95, list(writes)[:-1]
    width, height = 2.6 + step * n_layers, 2.55 + rise + lane * len(earlier)
    figure, axis = diagrams.canvas(width, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    y, places, span = 0.62, {}, step - 1.4
    axis.plot([0.95, width - 1.1], [y, y], color=GRAY, lw=9, solid_capstyle="butt", zorder=1)
    diagrams.word(axis, 0.55, y, repr(writes[-1][1]) if writes else "W_E", width=0.8)
    diagrams.word(axis, width - 0.65, y, "W_U", width=0.8)
    ends = "token", "logits"
    if terms:
        ends = f"direct {_signed(terms['direct path'])}", f"logit {sum(terms.values()):.1f}"
    for x, said in zip((0.55, width - 0.65), ends, strict=True):
        look = {"size": 10, "weight": "bold" if terms else "normal"}
        diagrams.say(axis, x, 0.16, said, INK if terms else PALE, **look)
    stream = f"token {writes[-1][0]}: residual stream" if writes else "residual stream"
    diagrams.say(axis, 1.12, 0.36, stream, PALE, size=9.5, ha="left")
    most = max(map(abs, terms.values())) if terms else 1
    for layer in range(n_layers):
        left = 1.35 + step * layer
        diagrams.say(axis, left + step / 2 - 0.4, 0.16, f"layer {layer}", PALE, size=10)
        for head in range(n_heads):
            x, name = left + 0.3 + span * head / max(n_heads - 1, 1), f"L{layer}H{head}"
            value = (terms or {}).get(name, 0.0)
            fill = texts.tint(VALUE if value > 0 else QUERY, 0.5 * abs(value) / most)
            look = {"width": 0.46, "height": 0.4, "size": 9.5, "fill": fill}
            diagrams.word(axis, x, 1.72, f"H{head}", diagrams.SHARE, **look)
            diagrams.arrow(axis, (left, y + 0.08), (x, 1.5), "#9AA0A6", width=1.1)
            diagrams.arrow(axis, (x, 1.5), (left + step - 0.8, y + 0.14), VALUE, width=1.1)
            places[name] = (x, left)
            if terms:
                color = VALUE if value > 0 else QUERY
                said = {"size": 10.5, "weight": "bold"}
                diagrams.say(axis, x, 2.05, _signed(value), color, **said)
        diagrams.word(axis, left + step - 0.8, y, "+", VALUE, width=0.3, height=0.3)
    for i, (number, token, attended, readers) in enumerate(writes):
        x, left = places[str(writer)]
        if i < len(earlier):
            at = 2.95 + lane * (len(earlier) - 1 - i)
            diagrams.say(axis, 1.12, at - 0.2, f"token {number}", PALE, size=9.5, ha="left")
            end = _earlier(axis, at, x, left + step - 0.8, token, attended, writer)
        else:
            said = f"writes what it found at {attended!r}"
            diagrams.say(axis, x, 2.3, said, diagrams.SHARE, size=9)
        for reader, less in readers.items():
            to = places[reader][0]
            start, stop = (end, (to, 2.2)) if i < len(earlier) else ((left + step, y), (to, 1.5))
            diagrams.arrow(axis, start, stop, diagrams.KEY, width=1 + less / 5)
            middle = [(a + b) / 2 for a, b in zip(start, stop, strict=True)]
            diagrams.word(
                axis, *middle, f"{less:.1f}", diagrams.KEY, width=0.42, height=0.24, size=9
            )
    if writes:
        said = f"blue: what a head adds less when {writer} is zero there"
        diagrams.say(axis, width - 0.15, height - 0.6, said, diagrams.KEY, size=9.5, ha="right")
    return figure


def _earlier(axis, y: float, x: float, plus: float, token: str, attended: str, writer: Head):
    """The stream at an earlier position, with one head that writes to it; where the stream ends."""
    axis.plot([0.95, plus + 0.35], [y, y], color=GRAY, lw=9, solid_capstyle="butt", zorder=1)
    diagrams.word(axis, 0.55, y, repr(token), width=0.8)
    look = {"width": 0.46, "height": 0.32, "size": 9.5}
    diagrams.word(axis, x, y + 0.42, f"H{writer.head}", diagrams.SHARE, **look)
    diagrams.arrow(axis, (x + 0.1, y + 0.26), (plus, y + 0.1), VALUE, width=1.1)
    diagrams.word(axis, plus, y, "+", VALUE, width=0.3, height=0.3)
    said = f"writes what it found at {attended!r}"
    diagrams.say(axis, x - 0.35, y + 0.42, said, diagrams.SHARE, size=9, ha="right")
    return plus + 0.35, y


def contributions(
    terms: dict[str, float],
    title: str,
    before: dict[str, float] | None = None,
    axis_label: str = "contribution to the logit, above its mean over the vocabulary",
    total_label: str = "the logit",
) -> Figure:
    """Terms of a sum, each beginning where the one before ended.

    before: what each term was at another time, drawn behind it as a gray band.
    """
    names, values = list(terms), list(map(float, terms.values()))
    right = 1.9 if before else 1.1  # for the words beside the longest
    before = before or terms
    ends = _ends(values)
    total, old_total = ends[-1], sum(before.values())
    old_ends = [start + before[name] for name, start in zip(names, ends, strict=False)]
    low, high = min([*ends, *old_ends, old_total]), max([*ends, *old_ends, old_total])
    longest = max(map(len, [*names, total_label]))
    width, left, line = 9.0, max(1.5, 0.55 + 0.095 * longest), 0.34
    height = line * (len(names) + 1) + 1.2
    figure, axis = diagrams.canvas(width, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")

    def at(value):
        return left + (width - left - right) * (value - low) / (high - low)

    def band(start, value, y, old):
        """The gray band of an old value, where it differs; what stands beside it."""
        if abs(value - old) < 0.05:
            return start + max(value, 0), ""
        line = {"color": BAND, "lw": 9, "solid_capstyle": "butt", "zorder": 0}
        axis.plot([at(start), at(start + old)], [y, y], **line)
        return start + max(value, old, 0), f" (was {_signed(old)})"

    y = height - 0.62
    _ruler(axis, at, low, high, y + 0.15, axis_label, (left + width - right) / 2)
    for name, value, start, end in zip(names, values, ends[:-1], ends[1:], strict=True):
        gone = name == names[0] or abs(value) < 0.05  # shown as 0.0
        color = PALE if gone else VALUE if value > 0 else QUERY
        diagrams.say(axis, left - 0.35, y, name, color, size=10.5, ha="right", weight="bold")
        diagrams.arrow(axis, (at(start), y), (at(end), y), color, width=1.7)
        axis.plot([at(end)] * 2, [y, y - line], color="0.75", lw=0.9, ls=(0, (2, 2)))
        furthest, was = band(start, value, y, before[name])
        beside = at(furthest) + 0.14
        diagrams.say(axis, beside, y, f"{_signed(value)}{was}", color, size=10.5, ha="left")
        y -= line
    diagrams.say(axis, left - 0.35, y, total_label, INK, size=10.5, ha="right", weight="bold")
    furthest, was = band(0.0, total, y, old_total)
    axis.plot([at(0), at(total)], [y, y], color=INK, lw=3.2, solid_capstyle="butt")
    said = f"{total:.1f}{was.replace('+', '')}"
    diagrams.say(axis, at(furthest) + 0.1, y, said, INK, ha="left", weight="bold")
    return figure


def _ends(values: list[float]) -> list[float]:
    return [sum(values[:i]) for i in range(len(values) + 1)]


def _ruler(axis, at, low: float, high: float, top: float, label: str, middle: float) -> None:
    """A ruler below the terms, and a line at zero."""
    bottom = 0.52
    axis.plot([at(low), at(high)], [bottom, bottom], color="0.6", lw=0.9)
    every = next(n for n in (1, 2, 5, 10, 20, 50, 100) if (high - low) / n <= 8)
    for tick in range(math.ceil(low / every) * every, math.floor(high) + 1, every):
        axis.plot([at(tick)] * 2, [bottom - 0.05, bottom], color="0.6", lw=0.9)
        diagrams.say(axis, at(tick), bottom - 0.16, str(tick), PALE, size=9)
    axis.plot([at(0)] * 2, [bottom, top], color="0.8", lw=1, zorder=0)
    diagrams.say(axis, middle, 0.12, label, PALE, size=9.5)


def two_differences(panels: dict[str, dict[str, float]], title: str) -> Figure:
    """Terms of several logit differences, a panel each, on one scale: bars from zero."""
    names, width, line = list(next(iter(panels.values()))), 9.4, 0.32
    height = line * (len(names) + 1) + 1.35
    figure, axis = diagrams.canvas(width, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    most = max(abs(value) for terms in panels.values() for value in terms.values())
    room = (width - 1.4) / len(panels)
    scale, bottom = (room - 1.5) / (most * 1.25), 0.5
    for i, (said, terms) in enumerate(panels.items()):
        zero = 1.4 + room * i + 0.25 * most * scale + 0.55
        diagrams.say(axis, zero, height - 0.55, said, INK, size=10.5, ha="left", weight="bold")
        axis.plot([zero] * 2, [bottom, height - 0.7], color="0.75", lw=1, zorder=0)
        for tick in range(0, math.ceil(most) + 1, 2):
            diagrams.say(axis, zero + tick * scale, bottom - 0.14, str(tick), PALE, size=9)
        y = height - 0.88
        for name, value in [*terms.items(), ("sum", sum(terms.values()))]:
            color = PALE if abs(value) < 0.05 else VALUE if value > 0 else QUERY
            color = INK if name == "sum" else color
            if i == 0:
                look = {"size": 10.5, "ha": "right", "weight": "bold"}
                diagrams.say(axis, 1.35, y, name, INK, **look)
            end = zero + value * scale
            if name != "sum":
                axis.plot([zero, end], [y, y], color=color, lw=8, solid_capstyle="butt")
            beside = max(zero, end) + 0.1 if name != "sum" else zero + 0.1
            weight = "bold" if name == "sum" else "normal"
            diagrams.say(axis, beside, y, _signed(value), color, ha="left", weight=weight)
            y -= line
    said = "contribution to the difference of the two logits"
    diagrams.say(axis, 1.4 + (width - 1.4) / 2, 0.1, said, PALE, size=9.5)
    return figure


def attribution_in_text(
    rows: dict[str, Float[Tensor, " pos"]], tokens: list[str], title: str, most=10.0, letters=56
) -> Figure:
    """A text once for each term, every token shaded by what the term adds to its logit.

    rows: {label, of one or two lines: a number for each token}. Beside each line of the text stands
    the mean of its tokens.
    """
    lines = {label: texts.wrap(tokens, row, letters) for label, row in rows.items()}
    n_lines = len(next(iter(lines.values())))
    tall, left = 0.26 * n_lines + 0.16, 1.95
    height = tall * len(rows) + 1.0
    figure, axis = diagrams.canvas(left + texts.LETTER * letters + 1.2, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    edge = left + texts.LETTER * letters
    _scale(axis, left, height - 0.55, most)
    diagrams.say(axis, edge + 0.6, height - 0.55, "line's mean", PALE, size=9.5)
    y = height - 0.9
    for label, wrapped in lines.items():
        for i, part in enumerate(label.split("\n")):
            look = {"ha": "right", "weight": "normal" if i else "bold", "size": 10.5}
            diagrams.say(axis, left - 0.2, y - 0.26 * i, part, PALE if i else INK, **look)
        for i, (words, numbers) in enumerate(wrapped):
            texts.strip(axis, left, y - 0.26 * i, words, numbers, VALUE, most, QUERY)
            mean = sum(numbers) / len(numbers)
            color = INK if abs(mean) >= 1 else PALE
            diagrams.say(axis, edge + 0.6, y - 0.26 * i, _signed(mean), color, size=10)
        y -= tall
    return figure


def _scale(axis, x: float, y: float, most: float) -> None:
    """A legend of shades, from -most to most."""
    for i in range(-5, 6):
        ground = texts.tint(VALUE if i > 0 else QUERY, 0.85 * abs(i) / 5)
        left = x + 0.26 * (i + 5)
        axis.add_patch(Rectangle((left, y - 0.09), 0.26, 0.18, fc=ground, ec="none"))
        if i % 5 == 0:
            said = f"{most * i / 5:+.0f}" if i else "0"
            diagrams.say(axis, left + 0.13, y, said, INK, size=9)
    diagrams.say(axis, x + 2.95, y, "added to the logit", PALE, size=9.5, ha="left")


def by_part(terms: dict[str, float], alone: str) -> dict[str, float]:
    """The terms of a model with MLPs, the heads of a layer as one, but for the head `alone`."""
    parts = {}
    for name, number in terms.items():
        layer = name[1:2]
        part = f"heads of layer {layer}" if name[2:3] == "H" and name != alone else name
        part = "biases" if "bias" in name else part
        part = f"MLP of layer {layer}" if "MLP" in name else part
        parts[part] = parts.get(part, 0.0) + number
    return parts


def by_rival(
    table: dict[str, dict[str, float]], title: str, total_label: str = "the logit"
) -> Figure:
    """A table: what each part adds to the logit of each of several tokens, and the sums.

    table: {part: {token: number}}; a cell is shaded by its number.
    """
    tokens, line, wide = list(next(iter(table.values()))), 0.32, 0.86
    left, height = 1.6, 0.32 * (len(table) + 2) + 0.95
    figure, axis = diagrams.canvas(max(8.6, left + wide * len(tokens) + 0.4), height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    most = max(abs(value) for row in table.values() for value in row.values())
    sums = {token: sum(row[token] for row in table.values()) for token in tokens}
    y = height - 0.62
    for i, token in enumerate(tokens):
        look = {"size": 10.5, "weight": "bold", "family": "monospace"}
        diagrams.say(axis, left + wide * (i + 0.5), y, repr(token), INK, **look)
    for name, row in [*table.items(), (total_label, sums)]:
        y -= line
        diagrams.say(axis, left - 0.2, y, name, INK, size=10.5, ha="right", weight="bold")
        for i, value in enumerate(row.values()):
            x, total = left + wide * i, name == total_label
            ground = texts.tint(VALUE if value > 0 else QUERY, 0.6 * abs(value) / most)
            if not total:
                place, size = (x + 0.02, y - line / 2 + 0.01), (wide - 0.04, line - 0.02)
                axis.add_patch(Rectangle(place, *size, fc=ground, ec="none"))
            said = f"{value:.1f}" if total else _signed(value)
            weight = "bold" if total else "normal"
            diagrams.say(axis, x + wide / 2, y, said, INK, size=10.5, weight=weight)
    said = "contribution to the logit of each token, above its mean over the vocabulary"
    diagrams.say(axis, left + wide * len(tokens) / 2, 0.14, said, PALE, size=9.5)
    return figure


def falls(
    model: Model, tokens: Int[Tensor, " pos"], place: int, groups: Iterable[str]
) -> dict[str, float]:
    """By how much the logit of the token after `place`, above the mean, falls without some heads.

    groups: names such as "L1H0 and L1H3", of heads that are zero-ablated at once.
    """
    clean, found = model(tokens[None])[0, place], {}
    for names in groups:
        heads = [Head.parse(name) for name in names.split(" and ")]
        lost = clean - model(tokens[None], edits=ablate(model, heads))[0, place]
        found[names] = (lost[tokens[place + 1]] - lost.mean()).item()
    return found
