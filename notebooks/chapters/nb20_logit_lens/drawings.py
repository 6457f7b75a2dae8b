"""Drawings of the evidence of notebook 20: words shared, words lost, answers settled."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, VALUE, headline
from aot_helpers.showing.plots import SMALL
from chapters.nb20_logit_lens.results import OTHER


def by_depth(results: Mapping[str, Mapping], title: str, target: str = "attention output"):
    """I_k by layer of heads through W_O and without it, one panel a model.

    Bands: the middle 95 % of resampled prompts. Gray and dashed: with another prompt's. Dotted: k
    over the vocabulary.
    """
    lines = {
        f"head | {target}": ("through W_O", VALUE),
        f"head | {target}{OTHER}": ("(another prompt's)", PALE),
        f"head without W_O | {target}": ("z naked", QUERY),
        f"head without W_O | {target}{OTHER}": ("", QUERY),
    }
    figure, axes = _panels(results, 3.3, 3.2)
    for axis, (name, r) in zip(axes, results.items(), strict=True):
        for key, (_, color) in lines.items():
            table, style = r["shares"]["right"][key], "--" if key.endswith(OTHER) else "-"
            if style == "-":
                axis.fill_between(r["layers"], table["low"], table["high"], color=color, alpha=0.2)
            axis.plot(r["layers"], table["layers"], style, color=color, marker="o", ms=3.5)
        axis.axhline(r["k"] / r["d_vocab"], color=INK, ls=":", lw=1)
        axis.set(title=name, xlabel="layer", ylim=(0, None))
        axis.set_xticks(r["layers"] if len(r["layers"]) < 6 else [2, 11, 20, 29])
    axes[0].set_ylabel("share of the k words")
    for x, (said, color) in zip((0.02, 0.15, 0.32), list(lines.values())[:3], strict=True):
        figure.text(x, 0.035, said, color=color, size=10, weight="bold")
    said = "dashed: with another prompt's output; dotted: k / vocabulary"
    figure.text(0.41, 0.035, said, color=INK, size=10)
    return headline(figure, title)


def by_rank(results: Mapping[str, Mapping], title: str) -> Figure:
    """I_k of a head and its attention output, by norm: as it is, and of sums that are made up."""
    lines = {
        "head | attention output": ("the heads", VALUE, "-"),
        "heads by lot": ("random vectors of the same norms", PALE, "--"),
        "heads by lot, of equal norm": ("the same, of equal norm", KEY, ":"),
    }
    figure, axes = _panels(results, 3.3, 3.2)
    for axis, (name, r) in zip(axes, results.items(), strict=True):
        for key, (_, color, style) in lines.items():
            rows = np.asarray(r["shares"]["right"][f"by norm: {key}"]["more"], dtype=float)
            ranks = range(1, rows.shape[1] + 1)
            axis.plot(ranks, rows.mean(axis=0), style, color=color, marker="o", ms=4)
        axis.set(title=name, xlabel="head, by norm (1: the largest)", ylim=(0, None))
        axis.set_xticks(list(ranks))
    axes[0].set_ylabel("share of the k words")
    for x, (said, color, _) in zip((0.02, 0.17, 0.6), lines.values(), strict=True):
        figure.text(x, 0.035, said, color=color, size=10, weight="bold")
    return headline(figure, title)


def dots(
    results: Mapping[str, Mapping],
    rows: Mapping[str, Mapping[str, str]],
    colors: Mapping[str, str],
    title: str,
    label: str,
) -> Figure:
    """Numbers of the causal tests as dots, with the middle 95 % of resampled prompts.

    rows: {row: {what: key of the test}}; colors: {what: color}, named above.
    """

    def found(tests, key):
        low, high = tests[key]["interval"]
        return forms.Interval(low, tests[key]["mean"], high)

    data = {
        name: {
            row: {what: found(r["tests"], key) for what, key in several.items()}
            for row, several in rows.items()
        }
        for name, r in results.items()
    }
    width = 3.1 * len(results) + 1.2
    return forms.dots(data, title, label, colors=colors, apart=True, levels={0: ""}, width=width)


def settled(results: Mapping[str, Mapping], title: str) -> Figure:
    """The probability of what the model says in the end, read at each layer: right and wrong."""
    figure, axes = _panels(results, 3.3, 3.1)
    for axis, (name, r) in zip(axes, results.items(), strict=True):
        for kind, color in (("right", VALUE), ("wrong", QUERY)):
            table = r["shares"][kind]["p of the prediction"]
            axis.fill_between(r["layers"], table["low"], table["high"], color=color, alpha=0.2)
            axis.plot(r["layers"], table["layers"], color=color, marker="o", ms=3.5)
        axis.set(title=name, xlabel="layer", ylim=(0, None))
        axis.set_xticks(r["layers"] if len(r["layers"]) < 6 else [2, 11, 20, 29])
    axes[0].set_ylabel("probability in the lens")
    figure.text(0.02, 0.035, "answered rightly", color=VALUE, size=10, weight="bold")
    figure.text(0.25, 0.035, "answered wrongly", color=QUERY, size=10, weight="bold")
    return headline(figure, title)


def _panels(results: Mapping, width: float, height: float, left: float = 0.65, below: float = 0.8):
    """A panel for each model, with room for a headline above and names of lines below."""
    n, across = len(results), width * len(results) + left
    figure, axes = plt.subplots(1, n, figsize=(across, height), dpi=DPI, squeeze=False)
    figure.subplots_adjust(
        left / across, below / height, 1 - 0.15 / across, 1 - 0.7 / height, wspace=0.22
    )
    for axis in axes[0]:
        axis.tick_params(labelsize=SMALL)
        axis.title.set_size(10.5)
    return figure, list(axes[0])
