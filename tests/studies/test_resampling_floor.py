"""The resampling floor: exact where the action is, lower the fewer the pixels, and its control over quarter turns."""

import dataclasses

import numpy as np
import pytest

from equitangents import actions
from equitangents_studies.common.orbits import same_predictions
from equitangents_studies.common.scores import floor_control, quarter_turns, twice_turned
from equitangents_studies.rotated_images import study as rotated_images
from equitangents_studies.rotated_images.claims import ahead_of_floor, floor_rows


def floor_labels(action, x, weights):
    """Classes (|G|, N) of the mean of a linear classifier over all turns of ρ(g)x."""
    order = action.group.order
    scores = np.tanh(twice_turned(action, x).reshape(-1, weights.shape[0]) @ weights)
    return scores.reshape(order, order, len(x), -1).mean(axis=0).argmax(axis=-1)


def smooth_images(n, side, rng):
    """Sums of three blobs well inside the square, the same scenes whatever the number of pixels."""
    p = (np.arange(side) + 0.5) / side - 0.5
    centres = rng.uniform(-0.15, 0.15, size=(n, 3, 2))
    square = lambda k: (p - centres[:, :, k, None]) ** 2
    distance = square(0)[:, :, :, None] + square(1)[:, :, None, :]
    return np.exp(-distance / (2 * 0.06**2)).sum(axis=1)[..., None]


def osp(action, labels):
    return same_predictions(action, labels)


class TestTheInvariantFunction:
    def test_it_is_invariant_where_the_group_moves_pixels_to_pixels(self, rng):
        action, x = actions.image_rotations(4), rng.normal(size=(30, 8, 8, 1))
        labels = floor_labels(action, x, rng.normal(size=(64, 5)))
        assert (osp(action, labels) == 4).all()

    @pytest.mark.parametrize("order", [8, 16])
    def test_its_control_is_exact_and_resampling_alone_takes_from_it(self, order, rng):
        action, x = actions.image_rotations(order), rng.normal(size=(30, 8, 8, 1))
        labels = floor_labels(action, x, rng.normal(size=(64, 5)))
        assert (floor_control(action, labels) == 4).all()
        assert osp(action, labels).mean() < order

    def test_finer_pixels_of_the_same_scene_lose_less(self):
        action, means = actions.image_rotations(8), []
        for side in (6, 24):
            x = smooth_images(40, side, np.random.default_rng(1))
            filters = smooth_images(5, side, np.random.default_rng(2)).reshape(5, -1).T
            means.append(osp(action, floor_labels(action, x, filters)).mean())
        assert means[0] < means[1]
        assert means[1] > 7.9

    def test_the_quarter_turns_of_a_group(self):
        assert quarter_turns(actions.image_rotations(8)) == [0, 2, 4, 6]
        labels = np.zeros((8, 2), int)
        labels[2, 1] = 1
        labels[1] = 1
        assert floor_control(actions.image_rotations(8), labels).tolist() == [4.0, 3.0]


class TestTheClaimAboutIt:
    settings = rotated_images.Settings(group="C8", members=12, train_images=20, test_images=60, foreign_images=60)

    def _results(self, wrong):
        """A floor and a mean that miss one turn of ten inputs each, and a mean that errs on the first `wrong` too."""
        images = rotated_images.load_images(self.settings, None)
        labels = {name: np.zeros((2, 8, len(x)), int) for name, x in images.sets.items()}
        floor = {name: np.zeros((8, 60), int) for name in images.sets}
        for name, y in labels.items():
            y[1, 1, 40:50] = 1
            floor[name][1, 50:60] = 1
            y[1, 1:, :wrong] = 1
        members = {name: np.repeat(y[:, None], 12, axis=1) for name, y in labels.items()}
        action = actions.image_rotations(8)
        found = rotated_images.Results(images, action, np.array([0, 1]), 1.0, members, labels, {}, {})
        return dataclasses.replace(found, floor=floor)

    @pytest.mark.parametrize(("wrong", "verdict"), [(0, "holds"), (40, "fails")])
    def test_an_ensemble_behind_its_floor_fails(self, wrong, verdict):
        judged = rotated_images.claims(self.settings, self._results(wrong))
        assert [c.outcome for c in judged if "resampled pixels allow" in c.statement] == [verdict]

    def test_what_the_ensemble_misses_is_counted_on_the_same_inputs(self):
        results = self._results(30)
        assert ahead_of_floor(results, "test").value == pytest.approx(-7 * 30 / 60)
        assert [four.value for _, _, four in floor_rows(results)] == [4] * 3
        assert [floor.value for _, floor, _ in floor_rows(results)] == pytest.approx([8 - 10 / 60] * 3)
