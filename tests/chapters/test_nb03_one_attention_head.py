"""Notebook 03: figures of turned pairs and of biases compute their angles and shares."""

import pytest
import torch

from chapters.nb17_attention_maps import positions as attention_positions
from figure_checks import check_figures


def test_pairs_at_the_same_distance_have_the_same_angle():
    figure = attention_positions.turned([(2, 0), (9, 7), (7, 3)], 0.3, 0.5, "title")
    check_figures(figure)
    said = [text.get_text() for text in figure.axes[0].texts]
    assert sum("distance 2: 63° between them" in each for each in said) == 2
    assert sum("distance 4: 97° between them" in each for each in said) == 1


def test_all_heads_are_drawn_on_one_scale():
    shares = torch.tensor([[0.94, 0.06], [0.5, 0.5]])
    figure = attention_positions.weights_by_bias(shares, ["L0H0", "L0H1"], "title")
    check_figures(figure)
    assert [[bar.get_height() for bar in axis.patches] for axis in figure.axes] == [
        pytest.approx(row) for row in shares.tolist()
    ]
    assert len({axis.get_ylim() for axis in figure.axes}) == 1
