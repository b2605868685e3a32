"""Selection of images: the first ones, a class, mistakes, and galleries."""

import pytest
import torch
from support.tensors import assert_close, draw

from glimpse.evaluation.classify import ClassifierOutcome
from glimpse.evaluation.select import final_confidence, likelihood, select_examples


def outcome(probabilities, targets):
    """An outcome of probabilities (I, T, classes), or of those of class 1 of two after each glimpse (I, T)."""
    probabilities = torch.as_tensor(probabilities)
    if probabilities.dim() == 2:
        probabilities = torch.stack([1 - probabilities, probabilities], -1)
    targets = torch.as_tensor(targets)
    if targets.is_floating_point():
        correct = ((probabilities > 0.5) == targets.unsqueeze(1).bool()).all(-1)
    else:
        correct = probabilities.argmax(-1) == targets.unsqueeze(1)
    return ClassifierOutcome(
        probabilities, targets, correct, torch.zeros(*probabilities.shape[:1], 1, probabilities.shape[1], 2), None
    )


ONE = outcome([[0.5, 0.9], [0.1, 0.6], [0.8, 0.7], [0.3, 0.2], [0.6, 0.1], [0.2, 0.9]], [1, 1, 1, 0, 0, 0])
# correct after the last glimpse: yes        yes         yes         yes         yes         no


def test_the_first_in_order():
    assert select_examples([ONE], count=4) == [0, 1, 2, 3]
    assert select_examples([ONE], count=100) == [0, 1, 2, 3, 4, 5]


def test_of_one_class():
    assert select_examples([ONE], count=2, label=0) == [3, 4]
    several = outcome([[[0.9, 0.9]], [[0.9, 0.1]], [[0.1, 0.9]]], [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert select_examples([several], count=9, label=1) == [0, 2]


def test_mistakes_of_any_model_after_its_last_glimpse():
    # Answers of another length: wrong about image 1 in the end, and about image 0 only at first.
    other = outcome([[0.1, 0.3, 0.9], [0.9, 0.9, 0.4], *[[0.9] * 3, [0.1] * 3, [0.1] * 3, [0.1] * 3]], ONE.targets)
    assert select_examples([ONE], count=9, mistakes=True) == [5]
    assert select_examples([ONE, other], count=9, mistakes=True) == [1, 5]
    assert select_examples([ONE, other], count=9, mistakes=True, label=1) == [1]


def test_gallery_is_ranked_by_improvement_and_alternates_between_the_classes():
    # Improvements: 0.4, 0.5, -0.1 of class 1; 0.1, 0.5, (wrong) of class 0. Of equals, 1 and 4, the first is first.
    assert select_examples([ONE], count=1, gallery=True) == [1]
    assert select_examples([ONE], count=3, gallery=True) == [1, 4, 0]
    assert select_examples([ONE], count=3, gallery=True, label=0) == [4, 3]


def test_gallery_of_four_ends_with_the_most_confident_mistake():
    assert select_examples([ONE], count=4, gallery=True) == [1, 4, 0, 5]
    assert select_examples([ONE], count=9, gallery=True) == [1, 4, 0, 3, 2, 5]
    other = outcome([[0.5, 0.9], [0.1, 0.01], [0.8, 0.7], [0.3, 0.2], [0.6, 0.1], [0.2, 0.1]], ONE.targets)
    assert select_examples([ONE, other], count=4, gallery=True)[-1] == 1  # wrong with 99%, image 5 with 90%
    assert select_examples([ONE, other], count=9, gallery=True, mistakes=True) == [1, 5]
    other.probabilities[1, 1] = torch.tensor([0.8, 0.2])  # wrong with 80%
    assert select_examples([ONE, other], count=4, gallery=True)[-1] == 5
    assert select_examples([ONE, other], count=9, gallery=True, mistakes=True) == [5, 1]


def test_gallery_sums_the_improvement_over_models_that_are_all_correct():
    flat = outcome([[0.9, 0.9], [0.9, 0.9], [0.1, 0.9], [0.1, 0.1], [0.1, 0.1], [0.2, 0.9]], ONE.targets)
    # Sums: 0.4, 0.5, 0.7 of class 1 and 0.1, 0.5 of class 0.
    assert select_examples([ONE, flat], count=3, gallery=True) == [2, 4, 1]


def test_gallery_by_brute_force():
    probabilities, targets = draw(60, 3, 4, seed=1).softmax(-1), torch.arange(60) % 4
    result = outcome(probabilities, targets)
    correct = [i for i in range(60) if int(probabilities[i, 2].argmax()) == int(targets[i])]
    improvement = {
        i: float(probabilities[i, 2, targets[i]].double() - probabilities[i, 0, targets[i]].double()) for i in correct
    }
    groups = [sorted((i for i in correct if targets[i] == label), key=lambda i: -improvement[i]) for label in range(4)]
    groups.sort(key=lambda group: -improvement[group[0]])
    expected = [group[turn] for turn in range(60) for group in groups if turn < len(group)]
    wrong = max((i for i in range(60) if i not in correct), key=lambda i: float(probabilities[i, 2].max()))
    assert select_examples([result], count=60, gallery=True) == [*expected, wrong]
    assert select_examples([result], count=6, gallery=True) == [*expected[:5], wrong]


def test_probability_of_several_labels_is_a_product():
    several = outcome([[[0.9, 0.2], [0.5, 0.25]]], [[1.0, 0.0]])
    assert_close(likelihood(several), [[0.9 * 0.8, 0.5 * 0.75]])
    assert_close(final_confidence(several), [0.5 * 0.75])
    assert_close(likelihood(ONE)[:2], [[0.5, 0.9], [0.1, 0.6]])
    assert_close(final_confidence(ONE), [0.9, 0.6, 0.7, 0.8, 0.9, 0.9])
    # Each set of labels is a class: the best of {0}, the best of {0, 1}, the second of {0}.
    rising = outcome(
        [[[0.6, 0.1], [0.9, 0.1]], [[0.6, 0.1], [0.8, 0.1]], [[0.9, 0.8], [0.9, 0.9]]],
        [[1.0, 0.0], [1.0, 0.0], [1.0, 1.0]],
    )
    assert select_examples([rising], count=3, gallery=True) == [0, 2, 1]


def test_no_image_matches():
    good = outcome([[0.9], [0.8]], [1, 1])
    with pytest.raises(ValueError, match="no model is wrong on any$"):
        select_examples([good], count=1, mistakes=True)
    with pytest.raises(ValueError, match="there is none of that class$"):
        select_examples([good], count=1, label=0)
    with pytest.raises(ValueError, match="no model is wrong on any of that class$"):
        select_examples([good], count=1, label=1, mistakes=True, gallery=True)
    with pytest.raises(ValueError, match="none is right for all models$"):
        select_examples([outcome([[0.1], [0.2]], [1, 1])], count=3, gallery=True)


def test_invalid_arguments():
    with pytest.raises(ValueError, match="at least one model, got none"):
        select_examples([], count=1)
    with pytest.raises(ValueError, match="the same images, got 6 and 1"):
        select_examples([ONE, outcome([[0.5]], [0])], count=1)
    with pytest.raises(ValueError, match="the same images, got other targets"):
        select_examples([ONE, ONE._replace(targets=1 - ONE.targets)], count=1)
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        select_examples([ONE], count=0)
    with pytest.raises(ValueError, match=r"label must be in 0..1, got 2"):
        select_examples([ONE], count=1, label=2)
