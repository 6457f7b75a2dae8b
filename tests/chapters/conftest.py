"""What several chapters' tests read."""

import pytest
import torch


@pytest.fixture
def tokens():
    """[3, 9] token ids for a model of `tiny_models.tiny_30`; a module may have its own."""
    return torch.randint(30, (3, 9), generator=torch.Generator().manual_seed(1))
