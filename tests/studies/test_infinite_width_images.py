"""Infinite width on images of the studies: single draws of its law, and kernels kept on disk with flips doubled."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from equitangents.ensembles import InfiniteEnsemble
from equitangents_studies.common.system_runs import draw_accuracies, load_system_images, predicted
from equitangents_studies.learning_curves.settings import FEATURE_RIDGES, Settings, feature_sizes, load, whole_images
from equitangents_studies.learning_curves.study import beside_exact, features, learnt, out_of_fold, slices, whole
from equitangents_studies.systems import architecture, transformation


class Quiet:
    """A task that nobody follows."""

    def step(self, done, total):
        """Nothing is shown."""


def test_draws_are_those_of_the_law_of_one_network_and_their_mean_the_kernel_s_prediction():
    images = load_system_images("textures", None, train=30, test=40, pixels=4, seed=0)
    net, groups = architecture("VEC", 1), ("I", "O(3)^d")
    found = draw_accuracies(net, [images], groups, 1e-4, 3, Quiet(), draws=6)
    assert found["draws"].shape == (2, 1, 6)
    for i, group in enumerate(groups):
        tau = transformation(group, (4, 4, 3), seed=3)
        x, test = (np.asarray(tau(part), np.float32) for part in (images.train_x, images.test_x))
        outputs = predicted(np.asarray(net.kernel(x).ntk), np.asarray(net.kernel(test, x).ntk), images.targets, 1e-4)
        assert found["mean"][i, 0] == np.mean(outputs.argmax(axis=1) == images.test_y)
        drawn = InfiniteEnsemble(net, ridge=1e-4).fit(x, images.targets).sample(test, 6, key=jax.random.key(3))
        assert found["draws"][i, 0].tolist() == (drawn.argmax(axis=-1) == images.test_y).mean(axis=1).tolist()


@pytest.mark.parametrize("flips", [False, True])
def test_kernels_kept_on_disk_classify_as_in_memory_and_flips_double_the_training_set(tmp_path, flips):
    settings = Settings(data="textures", pixels=4, depth=2, whole_images=36, whole_tested=20, ridge=1e-3)
    images = whole_images(settings, None)
    found = whole("VEC", flips, settings, None, tmp_path / "kept", Quiet())
    x, targets = images.train_x[:36].astype(np.float32), images.targets[:36]
    if flips:
        x, targets = np.concatenate([x, x[:, :, ::-1]]), np.concatenate([targets, targets])
    net = architecture("VEC", 2)
    test = images.test_x.astype(np.float32)
    K, across = net.kernel(x), net.kernel(test, x)
    assert {part: right.shape for part, right in found.items()} == {"validation": (2, 4), "test": (2, 20)}
    for i, field in enumerate(("ntk", "nngp")):
        train, cross = (np.asarray(getattr(k, field), np.float64) for k in (K, across))
        # the ridge of the averaged kernel is relative to its own diagonal, and of half as many samples
        unit = np.trace(train[:36, :36] + train[:36, 36:]) / 36 if flips else np.trace(train) / 36
        weights = np.linalg.solve(train + 1e-3 * unit * np.eye(len(x)), targets)
        assert found["test"][i].tolist() == ((cross @ weights).argmax(axis=1) == images.test_y).tolist()


def test_images_are_made_as_the_settings_say():
    images = Settings(data="textures", images=60, pixels=4)
    x, _ = load(images, None)
    np.testing.assert_allclose([x.mean(axis=(1, 2, 3)), (x**2).mean(axis=(1, 2, 3))], [[0] * 60, [1] * 60], atol=1e-5)
    other, _ = load(replace(images, prepared="norm"), None)
    np.testing.assert_allclose((other**2).mean(axis=(1, 2, 3)), 1, rtol=1e-5)
    assert np.abs(other.mean(axis=(1, 2, 3))).max() > 0.1


def test_what_is_on_disk_is_gone_on_with(tmp_path):
    settings = Settings(data="textures", pixels=4, depth=1, whole_images=27, whole_tested=5)

    class Killed(Quiet):
        def step(self, done, total):
            if done >= 0.6:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whole("FCN", False, settings, None, tmp_path / "kept", Killed())
    tiles = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").rglob("c/*/*")}
    assert tiles
    found = whole("FCN", False, settings, None, tmp_path / "kept", Quiet())
    assert {path: path.stat().st_mtime_ns for path in tiles} == tiles
    other = whole("FCN", False, replace(settings), None, tmp_path / "other", Quiet())
    assert all(np.array_equal(found[part], other[part]) for part in found)


APPROXIMATED = Settings(
    data="textures", pixels=4, depth=1, features=64, whole_images=90, whole_tested=20, exact_images=24,
    exact_features=(64, 4096), models=(), approximated=("GAP",), smallest=40,
)  # fmt: skip


def test_features_learn_as_their_kernel_does_with_the_ridge_that_is_best_in_validation():
    s, images = APPROXIMATED, whole_images(APPROXIMATED, None)
    phi = np.concatenate([features(s, None, "GAP", begin, Quiet())["features"] for begin in slices(s)])
    assert phi.shape == (90 + 10 + 20, 64)
    found = learnt(phi, images, s)
    assert feature_sizes(s).tolist() == [90]
    phi = phi.astype(np.float64)
    K, across = phi[:90] @ phi[:90].T, phi[90:] @ phi[:90].T
    unit, labels = np.trace(K) / 90, np.concatenate([images.train_y[90:], images.test_y])
    right = {
        r: (across @ np.linalg.solve(K + r * unit * np.eye(90), images.targets[:90])).argmax(axis=1) == labels
        for r in FEATURE_RIDGES
    }
    chosen = found["feature_ridge"][0]
    assert right[chosen][:10].mean() == found["feature_validation"][0] == max(r[:10].mean() for r in right.values())
    assert found["feature_right"][0].tolist() == right[chosen][10:].tolist()


def test_the_exact_kernel_and_features_classify_the_same_images(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUITANGENTS_CACHE", str(tmp_path))
    found = beside_exact(APPROXIMATED, None, "GAP", Quiet())
    assert found["exact_right"].shape == (3, 24)


def test_folds_leave_as_many_images_of_every_class_to_learn_from():
    alike = out_of_fold(np.ones((40, 40)), np.eye(10)[np.arange(40) % 10] - 0.1)
    assert np.ptp(alike) < 1e-9
