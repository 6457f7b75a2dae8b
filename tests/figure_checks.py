"""What holds of every figure that a reader sees, whatever it shows."""

import matplotlib.pyplot as plt
from matplotlib.text import Text

MARGIN = 0.5  # inches; notebooks show what stands out a little (`bbox_inches="tight"`)


def check_figures(*figures) -> None:
    """None stays open; letters have nine points or more; little leaves the canvas."""
    assert plt.get_fignums() == []
    for figure in figures:
        figure.draw_without_rendering()  # names move to their places
        shown = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]
        assert shown and min(text.get_fontsize() for text in shown) >= 9
        drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
        beyond = -drawn.x0, -drawn.y0, drawn.x1 - width, drawn.y1 - height
        assert max(beyond) < MARGIN, beyond
