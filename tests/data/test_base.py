"""What a data set gets from its base class."""

import pytest
import torch
from support.tensors import TinyData, draw_bytes


def test_examples_are_selected_by_their_place_in_the_fixed_order():
    images = draw_bytes(4, 1, 6, 6)
    data = TinyData(images, torch.arange(4))
    batch = data.select([3, 0, 3])
    assert torch.equal(batch.images, images[[3, 0, 3]]) and batch.targets.tolist() == [3, 0, 3]
    for invalid in (-1, 4):
        with pytest.raises(IndexError, match=rf"indices must be in 0\.\.3, got {invalid}"):
            data.select([0, invalid])
