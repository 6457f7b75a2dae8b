"""The visual language of the tours: one color for each part of a head, boxes, arrows.

Query orange, key blue, value green, attention shares purple, the stream gray.
"""

import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

QUERY, KEY, VALUE, SHARE = "#D55E00", "#0072B2", "#009E73", "#7B3F99"  # Okabe and Ito, and purple
INK, PALE = "#222222", "#7D7D7D"
SHADES = LinearSegmentedColormap.from_list("shares", ["white", "#C9A9DB", SHARE, "#3F1A57"])
DPI = 100


def canvas(width, height, units=None):
    """An empty figure, width × height inches; its lower left is (0, 0), `units` (inches) across."""
    units = units or width
    figure, axis = plt.subplots(figsize=(width, height), dpi=DPI)
    figure.subplots_adjust(0, 0, 1, 1)
    axis.set(xlim=(0, units), ylim=(0, units * height / width))
    axis.axis("off")
    plt.close(figure)
    return figure, axis


def say(axis, x, y, text, color=INK, size=10.5, ha="center", **more):
    """A line of text around (x, y); `more` goes to matplotlib's text."""
    place = {"ha": ha, "va": "center", "fontsize": size, "color": color, "zorder": 6}
    axis.text(x, y, text, **place, **more)


def word(axis, x, y, text, color=INK, alpha=1.0, fill="white", width=1.3, height=0.48, size=12.5):
    """A token in a rounded box around (x, y)."""
    look = {"boxstyle": "round,pad=0,rounding_size=0.12", "fc": fill, "ec": color, "lw": 1.4}
    corner = (x - width / 2, y - height / 2)
    axis.add_patch(FancyBboxPatch(corner, width, height, alpha=alpha, zorder=3, **look))
    say(axis, x, y - 0.02, text, color, size=size, alpha=alpha, weight="bold")


def arrow(axis, start, end, color=INK, alpha=1.0, width=1.3):
    """An arrow from start to end; its head grows with the width (points)."""
    head = f"-|>,head_length={3 * width:g},head_width={1.7 * width:g}"
    look = {"arrowstyle": head, "mutation_scale": 1, "lw": width, "shrinkA": 0, "shrinkB": 0}
    axis.add_patch(FancyArrowPatch(start, end, color=color, alpha=alpha, **look))


def headline(figure, text):
    """The title of a figure, at its upper left corner."""
    figure.set_dpi(DPI)
    height = figure.get_size_inches()[1]
    figure.text(0.012, 1 - 0.18 / height, text, size=12, weight="bold", va="center")
    plt.close(figure)  # the notebook shows the returned figure once, not twice
    return figure


def two_heads(
    previous=None,
    induction=None,
    copied: float | None = None,
    title: str = "Induction takes two heads: the second finds what the first has written",
    unit: str = "of random tokens copied",
) -> Figure:
    """An induction circuit of two heads, on the tokens ·M ira ·met ·M.

    previous, induction: scores of the heads of layer 0 and of layer 1; the best of each is written
    at its arrow. copied: how much is copied in the end, a share of `unit`.
    """
    figure = plt.figure(figsize=(8.9, 3.15))
    axis = figure.add_axes([0, 0, 1, 1], xlim=(-3.9, 9.0), ylim=(-0.4, 4.1))
    axis.axis("off")

    def put(x, y, text, color, **style):
        axis.text(x, y, text, color=color, va="center", **{"size": 10, **style})

    def token_box(x, y, color="0.75", width=1.1, **words):
        face = {"fc": "white", "ec": color, "lw": 1.6}
        axis.add_patch(Rectangle((x - width / 2, y - 0.25), width, 0.5, **face))
        for ink, (text, shift) in words.items():
            code = {"family": "monospace", "ha": "center"}
            put(x + shift, y, text, {"ink": "0.2", "key": KEY, "value": VALUE}[ink], **code)

    def draw_arrow(start, end, color, lw=2.2, **style):
        line = {"arrowstyle": "-|>", "lw": lw, "color": color, "shrinkA": 0, "shrinkB": 0, **style}
        axis.annotate("", end, start, arrowprops=line)

    def best(scores, layer):
        return f"L{layer}H{int(scores.argmax())}: {float(scores.max()):.2f}"

    for x, token in zip((0, 2.2, 4.4, 6.3), ("·M", "ira", "·met", "·M"), strict=True):
        token_box(x, 0, ink=(token, 0))
        draw_arrow((x, 0.25), (x, 1.15), "0.85", 1.2)
        if token != "ira":
            token_box(x, 1.4, ink=(token, 0))
    token_box(2.2, 1.4, INK, 2.2, value=("ira", -0.7), key=("after ·M", 0.3))
    draw_arrow((6.3, 1.65), (6.3, 2.9), "0.85", 1.2)
    token_box(6.3, 3.15, VALUE, value=("ira", 0))
    draw_arrow((0.35, 0.25), (1.55, 1.15), INK)
    put(-0.3, 0.75, "1  previous-token head", INK, ha="right", weight="bold")
    look = {"linestyle": (0, (4, 3)), "connectionstyle": "arc3,rad=0.38"}
    draw_arrow((6.0, 1.67), (3.0, 1.67), SHARE, 1.6, **look)
    if previous is None:
        put(4.5, 2.55, "attends to “after ·M”", SHARE, ha="center")
    put(6.55, 2.05, "“who came after ·M?”", QUERY, ha="left")
    axis.plot([1.5, 1.5], [1.65, 3.15], color=VALUE, lw=2.2)
    draw_arrow((1.48, 3.15), (5.73, 3.15), VALUE)
    put(1.2, 2.4, "2  induction head", INK, ha="right", weight="bold")
    if previous is not None:
        put(-0.65, 0.3, f"{best(previous, 0)} of its attention", SHARE, ha="right")
        put(4.5, 2.55, f"{best(induction, 1)} of its attention", SHARE, ha="center")
        put(5.4, 3.4, f"{copied:.2f} {unit}", VALUE, ha="right")
    for y, name in zip((0, 1.4, 3.15), ("text", "after layer 0", "next token"), strict=True):
        put(7.15, y, name, PALE)
    return headline(figure, title)
