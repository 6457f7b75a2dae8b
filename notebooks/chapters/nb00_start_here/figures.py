"""Drawings of notebook 00: a text shaded by loss, eight patterns, arrows, a circuit, 270 heads."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.patches import Rectangle

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHADES, SHARE, VALUE, say
from aot_helpers.showing.plots import shown
from aot_helpers.showing.widgets import Page

SCRIPT = Path(__file__).with_name("reader.js")  # the live view, in the page itself

LOSS = LinearSegmentedColormap.from_list("loss", ["white", "#F6C9A5", "#E58A43", QUERY])
TINT = LinearSegmentedColormap.from_list("weight", ["white", SHARE])
WIDE, LETTER = 10.0, 0.602 / 72  # inches of a figure; of a letter of 1 point
LONGEST = 88  # letters of a line
HEAD = "-|>,head_width=0.35,head_length=0.6"


def shaded(rows, title, most, known="", braces=()):
    """Texts one below the other at the width of the page, each token shaded by its loss.

    rows: {label: (tokens, losses in nats)}, a line for each sentence. most: the loss of the full
    color; known says what it means. braces: of the first row, (first token, last token, words).
    """
    lines = {label: _sentences(*row) for label, row in rows.items()}
    letters = max(sum(len(t) for _, t, _ in line) for each in lines.values() for line in each)
    size = min(17.0, (WIDE - 0.4) / letters / LETTER)
    tall = max(size * 0.022, 0.3)  # inches of a line's ground
    step = tall + 0.17 + 0.27 * bool(braces)
    height = 0.95 + sum(0.34 * bool(label) + step * len(each) for label, each in lines.items())
    figure, axis = diagrams.canvas(WIDE, height)
    say(axis, 0.15, height - 0.24, title, size=13.5, ha="left", weight="bold")
    y = height - 0.62
    for number, (label, each) in enumerate(lines.items()):
        if label:
            say(axis, 0.17, y - 0.02, label, size=11, ha="left", weight="bold")
            y -= 0.34
        for line in each:
            x, edges = 0.17, {}
            for i, token, loss in line:
                wide = LETTER * size * len(token)
                look = {"fc": LOSS(min(loss / most, 1.0)), "ec": "white", "lw": 1}
                axis.add_patch(Rectangle((x, y - tall / 2), wide, tall, **look))
                color = "white" if loss > 0.8 * most else INK
                style = {"size": size, "family": "monospace", "color": color, "va": "center"}
                axis.text(x, y - 0.015, token.replace("\n", " "), zorder=6, **style)
                edges[i] = (x, x + wide)
                x += wide
            for start, end, words in braces if number == 0 else ():
                if start in edges and end in edges:
                    left, right = edges[start][0] + 0.02, edges[end][1] - 0.02
                    low = y - tall / 2 - 0.03
                    ends = [low, low - 0.05, low - 0.05, low]
                    axis.plot([left, left, right, right], ends, color=INK, lw=1)
                    say(axis, (left + right) / 2, low - 0.18, words, size=11)
            y -= step
    _color_bar(axis, most, known, 0.22)
    return figure


def _sentences(tokens, losses):
    """[(place, token, loss)] for each sentence, in lines of at most LONGEST letters."""
    lines, used, last = [[]], 0, len(tokens) - 1
    for i, (token, loss) in enumerate(zip(tokens, losses, strict=True)):
        if used + len(token) > LONGEST:
            lines.append([])
        if not lines[-1]:
            token, used = token.lstrip() if token.strip() else token, 0
        lines[-1].append((i, token, float(loss)))
        used += len(token)
        if token.strip().endswith(".") and i < last:
            lines.append([])
    return lines


def _color_bar(axis, most, known, y):
    """Loss from 0 to `most` nats, in words at both ends."""
    left, wide = 3.1, 3.0
    ramp = LOSS(np.linspace(0, 1, 200))[None]
    axis.imshow(ramp, extent=(left, left + wide, y - 0.08, y + 0.08), aspect="auto", zorder=2)
    axis.add_patch(Rectangle((left, y - 0.08), wide, 0.16, fc="none", ec="#BBBBBB", lw=0.8))
    say(axis, left - 0.1, y, "loss 0: the model was certain", size=10, ha="right")
    say(axis, left + wide + 0.1, y, f"{most:.1f} nats or more{known}", size=10, ha="left")
    axis.set(xlim=(0, WIDE), ylim=(0, axis.figure.get_size_inches()[1]))


def to_point_at(data, head, query, most, title):
    """A text to point at, alive in the page: what a head attends to, what the model expects.

    data: of `first_look.to_point_at`. head, query: what is shown at first, and what the title of
    the still says. most: the loss of the full color.
    """
    index, run = data["heads"].index(head), data["runs"][0]
    weights = dict(run["attends"][index][query])
    tokens = ["▸", *data["tokens"][1:]]
    lines = _sentences(tokens, [weights.get(i, 0) for i in range(len(tokens))])
    size = min(17.0, (WIDE - 0.4) / max(sum(len(t) for _, t, _ in x) for x in lines) / LETTER)
    y = 0.55 * len(lines) + 0.72
    figure, axis = diagrams.canvas(WIDE, y + 0.3)
    say(axis, 0.15, y, title, size=13.5, ha="left", weight="bold")
    for line in lines:
        x, y = 0.17, y - 0.52
        for i, token, weight in line:
            wide = LETTER * size * len(token)
            edge = {"ec": QUERY, "lw": 2, "zorder": 5} if i == query else {"ec": "none"}
            ground = {"fc": TINT(weight / 100) if i != query else "white"}
            axis.add_patch(Rectangle((x, y - 0.17), wide, 0.36, **ground, **edge))
            color = "white" if weight > 55 else "#AAAAAA" if i > query else INK
            style = {"size": size, "family": "monospace", "color": color, "va": "center"}
            axis.text(x, y - 0.005, token, zorder=6, **style)
            x += wide
    after, next_ = data["tokens"][query], run["expected"][query]
    expects = ", ".join(f"“{token}” {p}" for token, p in next_)
    say(axis, 0.17, 0.24, f"After “{after}” the model expects {expects}.", INK, 11, "left")
    at_first = {"head": index, "query": query, "most": most}
    return Page(
        SCRIPT,
        data | at_first,
        figure,
        f"a text to point at. {title}",
    )


def eight_patterns(patterns, heads, rows, columns, title):
    """The attention patterns of all heads, a row of panels for each layer of four.

    patterns: [head, query_pos, key_pos]. rows, columns: positions that a frame marks.
    """
    figure, axes = plt.subplots(2, 4, figsize=(WIDE, 5.75), dpi=DPI)
    plt.close(figure)
    figure.subplots_adjust(0.075, 0.085, 0.925, 0.86, 0.08, 0.16)
    figure.text(0.015, 0.965, title, size=13.5, weight="bold", va="center")
    note = "frame: from the second mention of the name (rows) to the first (columns)"
    figure.text(0.075, 0.917, note, size=10.5, color=QUERY, va="center")
    for axis, pattern, name in zip(axes.flat, patterns, heads, strict=True):
        axis.imshow(np.asarray(pattern), cmap=SHADES, vmin=0, vmax=1, interpolation="nearest")
        corner = (columns[0] - 0.5, rows[0] - 0.5)
        size = (columns[-1] - columns[0] + 2, rows[-1] - rows[0] + 1)
        axis.add_patch(Rectangle(corner, *size, fc="none", ec=QUERY, lw=1.6))
        axis.set_title(name, size=11, color=INK, pad=3)
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set(visible=True, color="#CCCCCC")
    for axis in axes[:, 0]:
        axis.set_ylabel("attends (query)", color=QUERY, size=10.5)
    for axis in axes[1]:
        axis.set_xlabel("attended to (key)", color=KEY, size=10.5)
    bar = figure.add_axes([0.94, 0.3, 0.012, 0.4])
    figure.colorbar(axes[0, 0].images[0], cax=bar, ticks=[0, 0.5, 1])
    bar.set_title("attention\nweight", size=10, pad=8)
    return figure


def arcs(pattern, tokens, first, second, title, least=0.1):
    """From each token of the second mention (below) to what it attends to in the first (above).

    pattern: [query_pos, key_pos]. first, second: the positions of the name. Weights below `least`
    are left out; what goes to tokens outside the picture is written below. Of a name that would
    need letters below 9 points only the beginning is drawn.
    """
    for n in range(len(first), 1, -1):
        keys = range(int(first[0]) - 1, int(first[n - 1]) + 2)
        letters = [max(len(shown(tokens[k])), 2) + 1.3 for k in keys]
        unit = min(0.165, (WIDE - 1.7) / sum(letters))  # inches of a letter
        if 0.9 * unit / LETTER >= 9:
            break
    first, second = first[:n], second[:n]
    queries = [int(i) for i in second]
    right = 1.55 + unit * np.cumsum(letters)
    at = dict(zip(keys, right - unit * np.array(letters) / 2, strict=True))
    figure, axis = diagrams.canvas(WIDE, 3.0)
    say(axis, 0.15, 2.76, title, size=13.5, ha="left", weight="bold")
    top, low, size = 2.2, 0.82, min(14, 0.9 * unit / LETTER)
    say(axis, 0.15, top, "first mention", KEY, ha="left", size=11)
    say(axis, 0.15, low, "second mention", QUERY, ha="left", size=11)
    say(axis, 0.15, low - 0.4, "elsewhere", PALE, ha="left", size=10)
    place = {q: at[int(k)] for q, k in zip(queries, first, strict=True)}
    for q, k in np.argwhere(np.asarray(pattern) >= least):
        if q in place and k in at:
            weight = float(pattern[q, k])
            look = {"color": SHARE, "lw": 1 + 4 * weight, "alpha": 0.25 + 0.65 * weight}
            look |= {"arrowstyle": HEAD, "shrinkA": 0, "shrinkB": 0}
            axis.annotate("", (at[k], top - 0.22), (place[q], low + 0.22), arrowprops=look)
    for k, x in at.items():
        inside = int(first[0]) <= k <= int(first[-1])
        _token(axis, x, top, shown(tokens[k]), size, KEY if inside else PALE)
    for q, x in place.items():
        _token(axis, x, low, shown(tokens[q]), size, QUERY)
        away = 1 - sum(float(pattern[q, k]) for k in keys)
        say(axis, x, low - 0.4, f"{away:.2f}", PALE, size=10)
    note = f"thickness: attention weight, from {least:g} on"
    say(axis, WIDE - 0.15, 2.76, note, SHARE, ha="right", size=10.5)
    return figure


def _token(axis, x, y, text, size, color):
    box = {"boxstyle": "round,pad=0.28", "fc": "white", "ec": color, "lw": 1.3}
    say(axis, x, y, text, INK, size=size, family="monospace", bbox=box)


def circuit(tokens, previous, induction, title):
    """The induction circuit on the tokens A, B, another one, and A again.

    previous, induction: (name of the head, its mean attention weight).
    """
    figure, axis = diagrams.canvas(WIDE, 4.35)
    say(axis, 0.15, 4.12, title, size=13.5, ha="left", weight="bold")
    a, b = shown(tokens[0]), shown(tokens[1])
    x0, x1, x2, x3 = 3.6, 5.35, 7.1, 8.45
    y0, y1, y2 = 0.45, 1.85, 3.4
    for y, text in ((y0, "the text"), (y1, "after layer 0"), (y2, "after layer 1")):
        say(axis, 0.15, y, text, PALE, size=11, ha="left")
    for x, text in ((x0, a), (x1, b), (x2, shown(tokens[2])), (x3, a)):
        _box(axis, x, y0, text)
        diagrams.arrow(axis, (x, y0 + 0.24), (x, y1 - 0.24), "#C8C8C8")
        if x != x1:
            _box(axis, x, y1, text)
    _box(axis, x1, y1, "", INK, 1.95)
    say(axis, x1 - 0.5, y1, b, VALUE, size=11.5, family="monospace")
    say(axis, x1 + 0.32, y1, f"after {a}", KEY, size=11.5, family="monospace")
    diagrams.arrow(axis, (x3, y1 + 0.24), (x3, y2 - 0.24), "#C8C8C8")
    _box(axis, x3, y2, f"next: {b}", VALUE, 1.75)
    diagrams.arrow(axis, (x0 + 0.42, y0 + 0.24), (x1 - 0.6, y1 - 0.26), SHARE, width=2.2)
    say(
        axis,
        x0 - 0.2,
        1.35,
        f"1  {previous[0]}, previous-token head",
        INK,
        11,
        "right",
        weight="bold",
    )
    say(axis, x0 - 0.2, 1.08, f"writes at {b}: “after {a}”", INK, 10.5, "right")
    say(axis, x0 - 0.75, 0.75, f"attention weight {previous[1]:.2f}", SHARE, 10.5, "right")
    curve = {"arrowstyle": HEAD, "lw": 2.4, "color": SHARE}
    curve |= {"connectionstyle": "arc3,rad=0.32", "shrinkA": 0, "shrinkB": 0}
    axis.annotate("", (x1 + 0.75, y1 + 0.26), (x3 - 0.3, y1 + 0.26), arrowprops=curve)
    say(axis, 7.0, 2.76, f"attention weight {induction[1]:.2f}", SHARE, 10.5)
    say(axis, x3 + 0.1, 2.4, f"who is “after {a}”?", QUERY, 10.5, "left")
    axis.plot([x1 - 0.6, x1 - 0.6], [y1 + 0.26, y2], color=VALUE, lw=2.4)
    diagrams.arrow(axis, (x1 - 0.62, y2), (x3 - 0.9, y2), VALUE, width=2.4)
    say(axis, x1 - 0.8, 2.75, f"2  {induction[0]}, induction head", INK, 11, "right", weight="bold")
    say(axis, x1 - 0.8, 2.48, f"finds “after {a}”, brings {b}", INK, 10.5, "right")
    return figure


def _box(axis, x, y, text, color="#9A9A9A", width=1.15):
    axis.add_patch(Rectangle((x - width / 2, y - 0.23), width, 0.46, fc="white", ec=color, lw=1.5))
    say(axis, x, y, text, INK, size=11.5, family="monospace")


def real_model(induction, removed, title):
    """All heads of a pretrained model, and what its copying loses without some of them.

    induction: scores [layer][head]. removed: {k: {"lost": share, "others": [share]}}.
    """
    scores = np.array(induction).T  # [head, layer]
    figure = plt.figure(figsize=(WIDE, 3.3), dpi=DPI)
    plt.close(figure)
    figure.text(0.015, 0.94, title, size=13.5, weight="bold", va="center")
    axis = figure.add_axes([0.055, 0.17, 0.44, 0.58])
    image = axis.imshow(scores, cmap=SHADES, norm=Normalize(0, 1), aspect="auto")
    for head, layer in np.argwhere(scores >= 0.5):
        look = {"fc": "none", "ec": QUERY, "lw": 1.6}
        axis.add_patch(Rectangle((layer - 0.5, head - 0.5), 1, 1, **look))
    axis.set_xticks(range(0, scores.shape[1], 5))
    axis.set_yticks(range(0, scores.shape[0], 2))
    axis.set_xlabel("layer", size=10.5)
    axis.set_ylabel("head", size=10.5)
    axis.set_title("induction score of each head (frame: 0.5 or more)", size=10.5, loc="left")
    bar = figure.add_axes([0.505, 0.17, 0.01, 0.58])
    figure.colorbar(image, cax=bar, ticks=[0, 0.5, 1])
    axis = figure.add_axes([0.61, 0.17, 0.375, 0.58])
    counts = list(removed)
    for i, k in enumerate(counts):
        lost, others = removed[k]["lost"], np.mean(removed[k]["others"])
        for x, share, color in ((i - 0.2, lost, SHARE), (i + 0.2, others, "#B5B5B5")):
            axis.bar(x, share, width=0.38, color=color)
            say(
                axis,
                x,
                max(share, 0) + 0.05,
                f"{share:.2f}",
                color if color == SHARE else PALE,
                9.5,
            )
    axis.set_xticks(range(len(counts)), counts)
    axis.set(ylim=(min(0, axis.get_ylim()[0]), 1.05), yticks=[0, 0.5, 1])
    axis.set_xlabel("number of heads ablated", size=10.5)
    axis.set_title("share of the copying of 30 unknown names lost", size=10.5, loc="left")
    place = {"size": 10, "transform": axis.transAxes}
    axis.text(0.03, 0.9, "heads with the highest scores", color=SHARE, **place)
    axis.text(0.03, 0.78, "as many others of the same layers", color=PALE, **place)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
