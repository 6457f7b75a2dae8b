"""Formulas as pictures of text, drawn while the book is built: no page loads a script for them.

Each is an SVG in the text's color and size, with MathML beside it that is read aloud, not seen.
"""

import functools
import re

import latex2mathml.converter
import ziamath
from docutils import nodes

SIZE = 30  # units of the picture per em; a tenth of one is the finest that is drawn
ziamath.config.svg2, ziamath.config.precision = False, 1


@functools.cache
def drawn(tex: str, inline: bool) -> str:
    """A formula in LaTeX as HTML. Raises ValueError, with the formula, where it cannot be read."""
    try:
        spoken = latex2mathml.converter.convert(tex)
        formula = ziamath.Latex(tex, inline=inline, size=SIZE, color="currentColor")
    except Exception as error:  # the reader of LaTeX has errors of many kinds
        raise ValueError(f"this formula cannot be drawn: {tex!r} ({error})") from error
    if unknown := re.search(r"\\[a-zA-Z]+", spoken):  # it is left as it stands
        raise ValueError(f"this formula cannot be drawn: {tex!r} has {unknown[0]}")
    picture = formula.svg()
    _, top, wide, high = map(float, re.search(r'viewBox="([^"]+)"', picture)[1].split())
    style = f"width:{wide / SIZE:.2f}em;height:{high / SIZE:.2f}em"
    style += f";vertical-align:{-(top + high) / SIZE:.2f}em" if inline else ""  # its line is at 0
    picture = re.sub(
        r'<svg .*? width="[\d.]+" height="[\d.]+"',
        f'<svg aria-hidden="true" style="{style}"',
        picture,
        count=1,
    )
    return f'{picture}<span class="spoken" data-pagefind-ignore>{spoken}</span>'


def inline_math(writer, node: nodes.math) -> None:
    """What Sphinx calls for a formula in a line."""
    writer.body.append(f'<span class="math">{drawn(node.astext(), True)}</span>')
    raise nodes.SkipNode


def display_math(writer, node: nodes.math_block) -> None:
    """What Sphinx calls for a formula that stands by itself."""
    writer.body.append(f'<div class="math">{drawn(node.astext(), False)}</div>')
    raise nodes.SkipNode
