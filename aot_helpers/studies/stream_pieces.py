"""Notebook 04: what the embedding and each head have written, and what it adds to a logit."""

import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.models.transformer import AttentionOnlyTransformer
from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import INK, PALE, QUERY, VALUE


def pieces(model: AttentionOnlyTransformer, cache: dict) -> dict[str, Float[Tensor, "batch pos d"]]:
    """What the embedding and each head have written to the stream: {name: [batch, pos, d_model]}.

    They add up to the final stream of a model without MLPs (framework paper, "Residual stream").
    """
    found = {"direct path": cache["embed"]}
    for i, layer in enumerate(model.blocks):
        for h in range(model.config.n_heads):
            found[f"L{i}H{h}"] = cache[f"L{i}.z"][:, :, h] @ layer.attn.W_O[h]
    return found


def lifts(
    model: AttentionOnlyTransformer, cache: dict, tokens: Int[Tensor, " pos"]
) -> dict[str, Float[Tensor, " pos-1"]]:
    """What each piece adds to the logit of the token that comes, above its mean over all tokens.

    A number added to all logits changes no probability, so each piece's mean is taken off.
    """
    W_U = model.W_U - model.W_U.mean(dim=1, keepdim=True)
    columns = W_U[:, tokens[1:]].T
    return {
        name: (piece[0, :-1] * columns).sum(dim=-1) for name, piece in pieces(model, cache).items()
    }


def copy_weights(layer, attn) -> None:
    """Put the weights of a package's layer into the notebook's own class of heads, in place.

    layer: has W_Q, W_K, W_V [d_model, n_heads * d_head], W_O [n_heads * d_head, d_model] and
    bias [n_heads, n_ctx]. attn: an Attention with relative positions.
    """
    with torch.no_grad():
        for name in ("W_Q", "W_K", "W_V"):
            getattr(layer, name).copy_(getattr(attn, name).transpose(0, 1).flatten(1))
        layer.W_O.copy_(attn.W_O.flatten(0, 1))
        layer.bias.copy_(attn.b_rel)


def one_stream(n_layers: int, n_heads: int, title: str) -> Figure:
    """The model as a river: layers of heads read the stream and add to it, from left to right."""
    width = 2.6 + 2.9 * n_layers
    figure, axis = diagrams.canvas(width, 2.55)
    diagrams.say(axis, 0.12, 2.35, title, size=12, ha="left", weight="bold")
    y, gray = 0.62, "#C9CDD2"
    axis.plot([0.95, width - 1.1], [y, y], color=gray, lw=9, solid_capstyle="butt", zorder=1)
    diagrams.word(axis, 0.55, y, "W_E", width=0.8)
    diagrams.word(axis, width - 0.65, y, "W_U", width=0.8)
    diagrams.say(axis, 0.55, 0.16, "token", PALE, size=10)
    diagrams.say(axis, width - 0.65, 0.16, "scores", PALE, size=10)
    for layer in range(n_layers):
        left = 1.35 + 2.9 * layer
        diagrams.say(axis, left + 1.05, 0.16, f"layer {layer}", PALE, size=10)
        for head in range(n_heads):
            x = left + 0.3 + 1.5 * head / max(n_heads - 1, 1)
            look = {"width": 0.46, "height": 0.4, "size": 9.5}
            diagrams.word(axis, x, 1.72, f"H{head}", diagrams.SHARE, **look)
            diagrams.arrow(axis, (left, y + 0.08), (x, 1.5), "#9AA0A6", width=1.1)
            diagrams.arrow(axis, (x, 1.5), (left + 2.1, y + 0.14), VALUE, width=1.1)
        diagrams.word(axis, left + 2.1, y, "+", VALUE, width=0.3, height=0.3)
    return figure


def voices(terms: dict[str, float], title: str, before: dict[str, float] | None = None) -> Figure:
    """Terms of a sum, each beginning where the one before ended.

    before: what each term was at another time, drawn behind it as a gray band.
    """
    names, values = list(terms), list(map(float, terms.values()))
    ends = torch.tensor([0.0, *values]).cumsum(0)
    right = 1.9 if before else 1.1  # for the words beside the longest
    before = before or terms
    total, old_total = float(ends[-1]), sum(before.values())
    old_ends = [start + before[name] for name, start in zip(names, ends.tolist(), strict=False)]
    low = min([*ends.tolist(), *old_ends, old_total])
    high = max([*ends.tolist(), *old_ends, old_total])
    width, left, line = 9.0, 1.5, 0.34
    height = line * (len(names) + 1) + 0.75
    figure, axis = diagrams.canvas(width, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")

    def at(value):
        return left + (width - left - right) * (float(value) - low) / (high - low)

    def band(start, value, y, old):
        """The gray band of an old value, where it differs; what stands beside it."""
        if abs(value - old) < 0.05:
            return start + max(value, 0), ""
        line = {"color": "#DDE1E5", "lw": 9, "solid_capstyle": "butt", "zorder": 0}
        axis.plot([at(start), at(start + old)], [y, y], **line)
        return start + max(value, old, 0), f" (was {old:+.1f})"

    zero, y = at(0), height - 0.62
    axis.plot([zero, zero], [0.1, y + 0.15], color="0.8", lw=1)
    for name, value, start, end in zip(names, values, ends[:-1], ends[1:], strict=True):
        silent = name == names[0] or abs(value) < 0.05  # shown as 0.0
        color = PALE if silent else VALUE if value > 0 else QUERY
        diagrams.say(axis, left - 0.35, y, name, color, size=10.5, ha="right", weight="bold")
        diagrams.arrow(axis, (at(start), y), (at(end), y), color, width=1.7)
        axis.plot([at(end)] * 2, [y, y - line], color="0.75", lw=0.9, ls=(0, (2, 2)))
        furthest, was = band(start, value, y, before[name])
        beside = at(furthest) + 0.14
        diagrams.say(axis, beside, y, f"{value:+.1f}{was}", color, size=10.5, ha="left")
        y -= line
    diagrams.say(axis, left - 0.35, y, "the logit", INK, size=10.5, ha="right", weight="bold")
    furthest, was = band(0.0, total, y, old_total)
    axis.plot([zero, at(total)], [y, y], color=INK, lw=3.2, solid_capstyle="butt")
    said = f"{total:.1f}{was.replace('+', '')}"
    diagrams.say(axis, at(furthest) + 0.1, y, said, INK, ha="left", weight="bold")
    return figure
