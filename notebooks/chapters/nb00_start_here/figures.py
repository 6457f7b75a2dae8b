"""Drawings of notebook 00: a text shaded by loss, eight patterns, arrows, 270 heads."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from aot_helpers.showing import diagrams, plots, texts
from aot_helpers.showing.diagrams import (
    INK,
    KEY,
    PALE,
    QUERY,
    SHADES,
    SHARE,
    VALUE,
    arrow,
    as_typed,
    say,
    word,
)
from aot_helpers.showing.plots import shown
from aot_helpers.showing.widgets import Page

SCRIPT = Path(__file__).with_name("reader.js")  # the live view, in the page itself

LOSS = LinearSegmentedColormap.from_list("loss", ["white", "#F6C9A5", "#E58A43", QUERY])
WIDE, LETTER = 10.0, 0.602 / 72  # inches of a figure; of a letter of 1 point
LONGEST = 88  # letters of a line
BYTE, SUBSCRIPTS = 0.7, "₀₁₂₃₄"  # the width of a byte of a letter, in letters; how it is numbered


def shaded(
    rows: dict[str, tuple[list[str], Float[Tensor, " token"]]],
    title: str,
    most: float,
    known: str = "",
    braces: list[tuple[int, int, str]] = (),
) -> Figure:
    """Texts one below the other at the width of the page, each token shaded by its loss.

    rows: {label: (tokens, losses in nats)}, a line for each sentence. most: the loss of the full
    color; known says what it means. braces: (first token, last token, words), below every text.
    """
    lines = {label: sentences(*row) for label, row in rows.items()}
    longest = max(sum(map(width, line)) for each in lines.values() for line in each)
    size = min(17.0, (WIDE - 0.4) / longest / LETTER)
    tall = max(size * 0.022, 0.3)  # inches of a line's ground
    step = tall + 0.17 + 0.27 * bool(braces)
    height = 0.95 + sum(0.34 * bool(label) + step * len(each) for label, each in lines.items())
    figure, axis = diagrams.canvas(WIDE, height)
    y = height - 0.62
    for label, each in lines.items():
        if label:
            say(axis, 0.17, y - 0.02, label, size=11, ha="left", weight="bold")
            y -= 0.34
        for line in each:
            x, edges = 0.17, {}
            for at, piece in enumerate(line):
                wide, color = LETTER * size * width(piece), LOSS(min(piece.loss / most, 1.0))
                corner = (x, y - tall / 2)
                edge = {"ec": "white" if piece.n_tokens == 1 else "none", "lw": 1}
                axis.add_patch(Rectangle(corner, wide, tall, fc=color, **edge))
                look = {"size": size, "family": "monospace", "ha": "left"}
                under = line[at : at + max(piece.n_tokens, 1)]  # a letter stands across its bytes
                ink = "white" if min(part.loss for part in under) > 0.8 * most else INK
                middle = 0.0
                if piece.n_tokens > 1:
                    look["ha"], middle = "center", wide * len(under) / 2
                    frame = {"fc": "none", "ec": "white", "lw": 1}
                    axis.add_patch(Rectangle(corner, 2 * middle, tall, zorder=1.5, **frame))
                say(axis, x + middle, y - 0.015, piece.text.replace("\n", " "), ink, **look)
                i = piece.place
                edges[i] = (x + 0.02, x + wide - 0.02)
                x += wide
            for start, end, words in braces:
                here = [i for i in range(start, end + 1) if i in edges]  # a name may break
                if here:
                    left, right, low = edges[here[0]][0], edges[here[-1]][1], y - tall / 2 - 0.03
                    ends = [low, low - 0.05, low - 0.05, low]
                    axis.plot([left, left, right, right], ends, color=INK, lw=1)
                    if line is max(each, key=lambda row: n_within(row, start, end)):
                        middle = min(max((left + right) / 2, 1.6), WIDE - 1.6)
                        say(axis, middle, low - 0.18, words, size=11)
            y -= step
    axis.imshow(np.linspace(0, 1, 200)[None], LOSS, aspect="auto", extent=(3.1, 6.1, 0.14, 0.3))
    axis.set(xlim=(0, WIDE), ylim=(0, height))
    say(axis, 3.0, 0.22, "loss 0: the model was certain", size=10, ha="right")
    say(axis, 6.2, 0.22, f"{most:.1f} nats or more{known}", size=10, ha="left")
    return diagrams.headline(figure, title)


class Piece(NamedTuple):
    """What is drawn of a token: a letter at the first of its bytes, and nothing at the others."""

    place: int
    text: str
    n_tokens: int  # that the text stands for; 0 of a later byte
    loss: float


def width(piece: Piece) -> float:
    """How wide a token is drawn, in letters."""
    return len(piece.text) if piece.n_tokens == 1 else BYTE


def n_within(line: list[Piece], start: int, end: int) -> int:
    """How many tokens of a line stand from one place to another."""
    return sum(start <= piece.place <= end for piece in line)


def letters(tokens: list[str], lacking: bool = False) -> list[tuple[str, int, int]]:
    """Each token as (letter, which of its bytes from 1 on, how many it has), or (token, 1, 1).

    A letter that the figures' font lacks stays as its bytes, unless lacking: a page has more fonts.
    """
    font, found, group = get_font(findfont("DejaVu Sans Mono")), [], []
    for token in tokens:
        found.append((token, 1, 1))
        hexes = re.findall(r"‹([0-9a-f]{2})›", token)
        group = [*group, hexes] if 4 * len(hexes) == len(token) else []  # bytes and nothing else
        told = bytes.fromhex("".join(sum(group, []))).decode(errors="replace")
        if told and "\ufffd" not in told:
            if lacking or all(font.get_char_index(ord(x)) for x in told):
                found[-len(group) :] = [(told, i + 1, len(group)) for i in range(len(group))]
            group = []
    return found


def in_words(tokens: list[str], lacking: bool = False) -> list[str]:
    """The tokens one by one, a letter's bytes with their numbers: Θ₁ and Θ₂."""
    return [t if n == 1 else f"{t}{SUBSCRIPTS[i]}" for t, i, n in letters(tokens, lacking)]


def in_a_row(tokens: list[str], lacking: bool = False) -> list[str]:
    """The tokens as parts of a text: Θ and ₂ for its two bytes."""
    return [t if i == 1 else SUBSCRIPTS[i] for t, i, _ in letters(tokens, lacking)]


def sentences(tokens: list[str], losses: Float[Tensor, " token"]) -> list[list[Piece]]:
    """The tokens of each sentence, in lines of at most LONGEST letters."""
    lines, used, last = [[]], 0.0, len(tokens) - 1
    for i, ((token, part, n), loss) in enumerate(zip(letters(tokens), losses, strict=True)):
        piece = Piece(i, "" if part > 1 else token, 0 if part > 1 else n, float(loss))
        if lines[-1] and part == 1 and token != "." and used + n * width(piece) > LONGEST:
            lines.append([])
        if not lines[-1]:
            used = 0.0
            piece = piece._replace(text=token.lstrip() if token.strip() else token)
        lines[-1].append(piece)
        used += width(piece)
        if token.strip().endswith(".") and i < last:
            lines.append([])
    return lines


def to_point_at(data: dict, head: str, query: int, most: float, title: str) -> Page:
    """A text to point at, alive in the page: what a head attends to, what the model expects.

    data: of `view.to_point_at`. head, query: what is shown at first, and in the still. most: the
    loss of the full color.
    """
    index, run = data["heads"].index(head), data["runs"][0]
    percents = dict(run["attends"][index][query])
    weights = [percents.get(i, 0) / 100 for i in range(len(data["tokens"]))]
    tokens = ["▸", *in_a_row(data["tokens"])[1:]]
    named = in_words(data["tokens"], lacking=True)
    row = {f"{head}\nfrom “{in_words(data['tokens'])[query]}”": (tokens, weights)}
    without = (f"without {each['name']}: " for each in data["runs"][1:])
    best = [each["expected"][query][0] for each in data["runs"]]
    said = zip(("expected next: ", *without), best, strict=True)
    note = "     ".join(f"{which}“{token}” {p}" for which, (token, p) in said)
    still = texts.shaded_texts(row, title, SHARE, most=1.0, key=note)
    at_first = {"head": index, "query": query, "most": most}
    at_first |= {"tokens": in_a_row(data["tokens"], lacking=True), "named": named}
    return Page(SCRIPT, data | at_first, still, f"a text to point at. {title}")


def eight_patterns(
    patterns: Float[Tensor, "head query_pos key_pos"],
    heads: list[str],
    rows: Int[Tensor, " row"],
    columns: Int[Tensor, " column"],
    tokens: list[str],
    title: str,
) -> Figure:
    """The attention patterns of two layers of four heads. rows, columns: what a frame marks.

    tokens: of the text; its beginning is marked at both axes.
    """
    named = dict(zip(heads, patterns, strict=True))
    layers = {
        f"layer {i}": {name: named[name] for name in heads[4 * i : 4 * i + 4]} for i in (0, 1)
    }
    figure = plots.grids(
        layers,
        title,
        x_label="attended to (key)",
        y_label="attends (query)",
        label="attention weight",
        cell=2.05 / len(patterns[0]),
    )
    size = (columns[-1] - columns[0] + 2, rows[-1] - rows[0] + 1)
    for axis in figure.axes[: len(heads)]:
        axis.add_patch(Rectangle((columns[0], rows[0]), *size, fc="none", ec=QUERY, lw=1.6))
        axis.set_xticks([0.5, float(columns[0] + size[0] / 2)], ["▸", "1st mention"])
    for axis in figure.axes[: len(heads) : 4]:
        axis.set_yticks([0.5, float(rows[0] + size[1] / 2)], ["▸", "2nd\nmention"])
    return figure


def arrows(
    pattern: Float[Tensor, "query_pos key_pos"],
    tokens: list[str],
    first: Int[Tensor, " piece"],
    second: Int[Tensor, " piece"],
    title: str,
    least: float = 0.1,
) -> Figure:
    """From each token of the second mention (below) to what it attends to in the first (above).

    first, second: the positions of the name, of which at most 12 are drawn. Weights below `least`
    are left out; below each token stands the token outside the picture with the largest weight.
    """
    pieces, tokens = len(first), [*map(shown, in_words(tokens))]
    first, second = first[:12].tolist(), second[:12].tolist()
    keys = range(first[0] - 1, first[-1] + 2)
    step = min(0.75, 8.2 / len(keys))
    figure, axis = diagrams.canvas(WIDE, 2.8)
    for y, said, color in ((2.0, "first mention", KEY), (0.8, "second mention", QUERY)):
        say(axis, 0.15, y, said, color, ha="left")
    say(axis, 0.15, 0.35, "largest elsewhere", PALE, ha="left")
    note = f"thickness: attention weight, from {least:g} on"
    if pieces > len(first):
        note = f"the first {len(first)} of the name's {pieces} tokens; {note}"
    if split := next((tokens[k] for k in first if tokens[k][-1:] == SUBSCRIPTS[2]), ""):
        note = f"{split[:-1]}{SUBSCRIPTS[1]}, {split}: bytes of a letter; {note}"
    say(axis, 9.85, 2.4, note, SHARE, ha="right")
    at = {k: 1.9 + step * i for i, k in enumerate(keys)}
    look = {"width": 0.9 * step, "height": 0.36, "size": 10}
    for k, x in at.items():
        color = KEY if k in first else PALE
        word(axis, x, 2.0, tokens[k], color, **look)
    for q, twin in zip(second, first, strict=True):
        weights = {k: float(pattern[q, k]) for k in keys}
        for k, weight in weights.items():
            if weight >= least:
                start, end = (at[twin], 1.0), (at[k], 1.8)
                arrow(axis, start, end, SHARE, 0.25 + 0.65 * weight, 1 + 2.5 * weight)
        word(axis, at[twin], 0.8, tokens[q], QUERY, **look)
        outside = {k: float(pattern[q, k]) for k in range(len(tokens)) if k not in weights}
        k = max(outside, key=outside.get)
        if outside[k] >= least:
            named = "▸" if k == 0 else tokens[k]
            low = 0.35 - 0.22 * (step < 0.7 and twin % 2)  # neighbors at two heights
            say(axis, at[twin], low, f"{named} {outside[k]:.2f}", PALE, size=10)
    return diagrams.headline(figure, title)


@as_typed
def two_heads(
    previous: list[float], induction: list[float], tokens: tuple[str, str, str, str], title: str
) -> Figure:
    """An induction circuit of two heads: the text below, after layer 0, the next token above.

    previous, induction: scores of the heads of layer 0 and of layer 1, each [head]; the best of
    each is written at its arrow.
    """
    figure, axis = diagrams.canvas(8.9, 3.3, 12.9)
    at, (text, stream, out) = (3.9, 6.1, 8.3, 10.2), (0.45, 1.85, 3.55)
    for i, (x, token) in enumerate(zip(at, tokens, strict=True)):
        word(axis, x, text, token, INK, width=1.1, size=10.5)
        arrow(axis, (x, text + 0.26), (x, stream - 0.27), "0.8", width=1)
        if i != 1:
            word(axis, x, stream, token, INK, width=1.1, size=10.5)
    word(axis, at[1], stream, "", INK, width=2.3)
    say(axis, at[1] - 1.05, stream, tokens[1], VALUE, ha="left", weight="bold")
    say(axis, at[1] + 1.05, stream, f"after {tokens[0]}", KEY, ha="right", weight="bold")
    arrow(axis, (at[0] + 0.35, text + 0.26), (at[1] - 0.65, stream - 0.27), INK, width=2)
    say(axis, 3.6, 1.2, "1  previous-token head", ha="right", weight="bold")
    line = {"connectionstyle": "arc3,rad=0.35", "linestyle": (0, (4, 3)), "lw": 1.6}
    ends = (at[3] - 0.3, stream + 0.26), (at[1] + 0.75, stream + 0.26)
    axis.add_patch(
        FancyArrowPatch(*ends, arrowstyle="-|>,head_length=6,head_width=3", color=SHARE, **line)
    )
    say(axis, 10.5, 2.4, f"“who came after {tokens[3]}?”", QUERY, ha="left")
    axis.plot([at[1] - 0.7] * 2, [stream + 0.26, out], color=VALUE, lw=2)
    arrow(axis, (at[1] - 0.7, out), (at[3] - 0.58, out), VALUE, width=2)
    arrow(axis, (at[3], stream + 0.26), (at[3], out - 0.27), "0.8", width=1)
    word(axis, at[3], out, tokens[1], VALUE, width=1.1, size=10.5)
    say(axis, 5.2, 2.7, "2  induction head", ha="right", weight="bold")
    for layer, scores, x, y, ha in (
        (0, previous, 3.25, 0.8, "right"),
        (1, induction, 8.35, 2.98, "center"),
    ):
        best = int(np.argmax(scores))
        said = f"L{layer}H{best}: {scores[best]:.2f} of its attention"
        say(axis, x, y, said, SHARE, ha=ha)
    for y, name in zip((text, stream, out), ("text", "after layer 0", "next token"), strict=True):
        say(axis, 11.0, y, name, PALE, ha="left")
    return diagrams.headline(figure, title)


def real_model(induction: list[list[float]], removed: dict[str, dict], title: str) -> Figure:
    """All heads of a pretrained model, and what its copying loses without some of them.

    induction: scores [layer][head]. removed: {k: {"lost": share, "others": [share]}}.
    """
    scores = np.array(induction).T  # [head, layer]
    key = {"heads with the highest scores": SHARE, "as many others of the same layers": PALE}
    figure, axes = plots.panels(1, 2, WIDE, 2.7, title=title, key=key)
    left, right = axes[0]
    image = left.imshow(scores, cmap=SHADES, norm=Normalize(0, 1), aspect="auto")
    for head, layer in np.argwhere(scores >= 0.5):
        frame = Rectangle((layer - 0.5, head - 0.5), 1, 1, fc="none", ec=QUERY, lw=1.6)
        left.add_patch(frame)
    figure.colorbar(image, ax=left, ticks=[0, 0.5, 1])
    left.set(xlabel="layer", ylabel="head")
    left.set_title("induction score of each head (frame: 0.5 or more)", **plots.TITLE)
    lost = [each["lost"] for each in removed.values()], SHARE
    others = [np.mean(each["others"]) for each in removed.values()], PALE
    for shift, (shares, color) in zip((-0.2, 0.2), (lost, others), strict=True):
        drawn = right.bar(np.arange(len(removed)) + shift, shares, width=0.38, color=color)
        right.bar_label(drawn, [f"{abs(share):.2f}" for share in shares], color=color, size=9.5)
    right.set_xticks(range(len(removed)), list(removed))
    right.set(xlabel="number of heads ablated", ylim=(min(0, *others[0]), 1.05))
    right.set_title("fraction of copying lost (30 unknown names)", **plots.TITLE)
    return figure
