"""Costs, against counts by hand."""

import time

import pytest
import torch
from support.tensors import draw_bytes, tiny_model

from glimpse.data import Batch
from glimpse.evaluation.cost import costs, count_parameters, multiply_adds, pixels_read, throughput

SHAPE = (1, 12, 14)


def batch(size=3):
    boxes = torch.tensor([[[2.0, 2.0, 6.0, 6.0]]]).expand(size, 1, 4)
    return Batch(draw_bytes(size, *SHAPE), torch.zeros(size, dtype=torch.int64), boxes)


def make(*options):
    return tiny_model(*options, image_shape=SHAPE)


def test_pixels_read():
    assert pixels_read(make(), 12, 14) == 3 * 2 * 4 * 4  # glimpses, scales, patch
    assert pixels_read(make("--attention.places=grid"), 12, 14) == 6 * 2 * 4 * 4  # all cells
    assert pixels_read(make("--model=cnn"), 12, 14) == 12 * 14


def test_multiply_adds_of_recurrent_attention_by_hand():
    what, where, join, core = 2 * 4 * 4 * 8, 2 * 8, (8 + 8) * 12, 3 * 10 * (12 + 10)
    glimpse = what + where + join + core + 10 * 3  # with the classifier
    choice = 10 * 2
    soft = make("--read=soft")
    [hard_cost, soft_cost] = costs([make("--estimator.baseline=none"), soft], ["hard", "soft"], batch(), seconds=0)
    assert hard_cost.multiply_adds == 3 * glimpse + 2 * choice
    # Soft: (G x H) @ (H x W) @ (W x G), for each scale and glimpse, in the order that is cheaper or the other.
    reads = {3 * 2 * (4 * 12 * 14 + 4 * 14 * 4), 3 * 2 * (12 * 14 * 4 + 4 * 12 * 4)}
    assert soft_cost.multiply_adds - hard_cost.multiply_adds in reads


@pytest.mark.parametrize("read", ["hard", "soft"])
@pytest.mark.parametrize("core", ["gru", "lstm"])
def test_multiply_adds_of_a_learned_first_glimpse(read, core):
    """One more location is chosen, from the learned initial state."""
    options = [f"--network.core={core}", "--estimator.baseline=none", f"--read={read}"]
    models = [make(*options), make(*options, "--attention.first=learned")]
    center, learned = costs(models, [read, read], batch(), seconds=0)
    assert learned.multiply_adds == center.multiply_adds + 10 * 2


def test_multiply_adds_of_whole_images_by_hand():
    mlp, cnn = make("--model=mlp"), make("--model=cnn")
    results = costs([mlp, cnn], [None, None], batch(), seconds=0)
    assert results[0].multiply_adds == 12 * 14 * 10 + 10 * 10 + 10 * 3
    # Channels 2, 4, 8, 16 on maps of 6 x 7, 3 x 4, 2 x 2 and 1 x 1.
    convolutions = 9 * (42 * 1 * 2 + 12 * 2 * 4 + 4 * 4 * 8 + 1 * 8 * 16)
    assert results[1].multiply_adds == convolutions + 16 * 10 + 10 * 3
    assert [cost.share for cost in results] == [1, 1]


def test_multiply_adds_of_a_product():
    assert multiply_adds(lambda: torch.ones(3, 4) @ torch.ones(4, 5)) == 60


def test_count_parameters():
    glimpses = 2 * 4 * 4 * 8 + 8 + (2 * 8 + 8) + 2 * (8 * 12 + 12)
    core, classifier, attention = 3 * 10 * (12 + 10) + 2 * 3 * 10, 10 * 3 + 3, 10 * 2 + 2
    assert count_parameters(make()) == glimpses + core + classifier + attention  # without the baseline
    assert count_parameters(make("--attention.policy=center")) == glimpses + core + classifier
    assert count_parameters(make("--model=mlp")) == sum(weight.numel() for weight in make("--model=mlp").parameters())


def test_costs_of_the_oracle_need_the_boxes():
    [cost] = costs([make("--attention.policy=oracle")], ["hard"], batch(), seconds=0)
    assert cost.images_per_second > 0 and cost.share == pytest.approx(96 / 168)


def test_throughput_of_a_fast_and_a_slow_function():
    calls = []
    fast, slow = throughput(
        [lambda: calls.append("fast"), lambda: (calls.append("slow"), time.sleep(0.02))], 10, seconds=0
    )
    assert fast > slow and slow < 10 / 0.02
    assert calls == ["fast", "slow"] * 4  # a warm-up call each, then in turns
