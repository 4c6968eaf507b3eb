"""Samples on one orbit share its representative's label, carried along by the elements that lead to them."""

import numpy as np
import pytest

from equitangents import actions, groups
from equitangents.inference.data_orbits import find_orbits

IMAGES = actions.image_rotations(4)
GROUPS = {
    "turns of images": (IMAGES, actions.labels(IMAGES.group, [np.roll(range(4), g) for g in range(4)])),
    "permutations": (
        actions.permutations(groups.symmetric(3), [list(groups.symmetric(3).element(g)) for g in range(6)]),
        actions.labels(groups.symmetric(3), [list(groups.symmetric(3).element(g)) for g in range(6)]),
    ),
}


def cases(name):
    """Four samples, of which the last two are copies of the first by elements that are not their own inverse."""
    action, on_labels = GROUPS[name]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 3, 1)) if action is IMAGES else rng.normal(size=(2, 3, 2))
    y = rng.normal(size=(2, on_labels.matrices.shape[1]))
    turning = [g for g in action.group if action.group.inverse(g) != g][:2]
    x = np.concatenate([x, *(action(g, x[:1]) for g in turning)])
    y = np.concatenate([y, *(on_labels(g, y[:1]) for g in turning)])
    return action, on_labels, x, y, turning


@pytest.mark.parametrize("name", GROUPS)
def test_elements_lead_from_the_representative_to_each_sample(name):
    action, _, x, _, turning = cases(name)
    orbits = find_orbits(action, x)
    assert orbits.first.tolist() == [0, 1]
    assert orbits.element.tolist() == [action.group.identity] * 2 + turning
    assert orbits.copies.tolist() == [3, 1]


@pytest.mark.parametrize("name", GROUPS)
def test_labels_that_move_with_their_samples_agree(name):
    action, on_labels, x, y, _ = cases(name)
    labels = np.stack([on_labels(g, y) for g in action.group])
    mean, agree = find_orbits(action, x).mean_labels(labels)
    np.testing.assert_allclose(mean, labels[:, :2], atol=1e-12)
    assert agree


@pytest.mark.parametrize("name", GROUPS)
def test_labels_that_do_not_are_averaged_over_equal_samples(name):
    action, _, x, y, _ = cases(name)
    labels = np.random.default_rng(1).normal(size=(action.group.order, *y.shape))
    mean, agree = find_orbits(action, x).mean_labels(labels)
    moved = np.stack([action(g, x) for g in action.group])
    for o, first in enumerate((0, 1)):
        for g in action.group:
            same = (
                np.abs(moved - action(g, x[first : first + 1])).reshape(action.group.order, len(x), -1).max(-1) < 1e-12
            )
            np.testing.assert_allclose(mean[g, o], labels[same].mean(axis=0), atol=1e-12)
    assert not agree
