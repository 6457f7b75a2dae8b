"""The look of every figure: few spines, and fonts for the scripts that matplotlib's own lacks."""

import warnings

import matplotlib
from matplotlib import font_manager

# Those of them that are installed are asked in turn.
FONTS = """\
Noto Sans CJK SC
Noto Sans CJK JP
Droid Sans Fallback
WenQuanYi Micro Hei
PingFang SC
Hiragino Sans GB
Microsoft YaHei
Malgun Gothic
Arial Unicode MS
Noto Sans Devanagari
Nirmala UI
Noto Sans Thai
Leelawadee UI
Noto Sans Hebrew
Noto Sans Bengali
Noto Sans Tamil
Noto Emoji
Segoe UI Emoji""".splitlines()


def use_style() -> None:
    """Set the look of all figures from now on; a second call changes nothing."""
    there = set(font_manager.get_font_names())
    families = [*matplotlib.rcParams["font.family"], *(name for name in FONTS if name in there)]
    matplotlib.rcParams.update(
        {
            "figure.dpi": 90,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.family": list(dict.fromkeys(families)),
        }
    )
    warnings.filterwarnings("ignore", "Glyph .* missing from font")  # labels say so, and once
