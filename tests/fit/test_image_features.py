"""Colours and edges stay when an image is turned by quarters or mirrored, directions are permuted; networks say so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents.fit import auto
from equitangents.fit.candidates import (
    FeatureNetwork,
    block_means,
    colours_and_edges,
    directions,
    features_of,
    of_features,
)

DENSE = et.nn.Sequential(et.nn.Dense(1, b_std=0.1), et.nn.Relu(), et.nn.Dense(1))


@given(st.integers(0, 2**16), st.integers(1, 26), st.integers(1, 26), st.integers(1, 3))
@settings(max_examples=20)
def test_every_symmetry_of_the_grid_keeps_them(seed, height, width, channels):
    x = np.random.default_rng(seed).normal(size=(2, height, width, channels))
    found = colours_and_edges(x)
    assert np.isfinite(found).all()
    for mirrored in (x, x[:, :, ::-1]):
        for k in range(4):
            turned = colours_and_edges(np.rot90(mirrored, k, axes=(1, 2)))
            np.testing.assert_allclose(turned, found, rtol=1e-9, atol=1e-9)


def test_each_image_has_its_own_whatever_their_number():
    x = np.random.default_rng(4).normal(size=(130, 4, 6, 2)).astype(np.float32)
    found = colours_and_edges(x)
    assert found.dtype == np.float64
    for i in (0, 63, 64, 129):
        np.testing.assert_allclose(colours_and_edges(x[i : i + 1])[0], found[i], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(directions(x[i : i + 1], 2)[0], directions(x, 2)[i], rtol=1e-12, atol=1e-14)
    assert colours_and_edges(x[:0]).shape == (0, found.shape[1])
    assert directions(x[:0], 2).shape == (0, 32)


def test_colours_are_those_of_the_pixels():
    x = np.random.default_rng(0).normal(size=(3, 8, 8, 2))
    flat = x.reshape(3, 64, 2)
    first = colours_and_edges(x)[:, :7]
    expected = [flat.mean(1), flat.std(1), *np.quantile(flat, (0.1, 0.25, 0.5, 0.75, 0.9), axis=1)]
    np.testing.assert_allclose(first, np.stack(expected, axis=2)[:, 0], rtol=1e-12)
    np.testing.assert_allclose(colours_and_edges(x)[:, 14], [np.cov(each.T, bias=True)[0, 1] for each in flat])
    ramp = 3.0 * np.arange(8)[None, :, None, None] + np.zeros((1, 8, 8, 1))
    edges = colours_and_edges(ramp)[0, 7:]
    np.testing.assert_allclose(edges, [3, 0, 3, 3, 6, 0, 6, 6], atol=1e-12)
    assert features_of(np.ones((2, 40, 33, 1))).shape == (2, 13 * 11 + 7 + 4 + 128)
    assert np.isfinite(features_of(np.zeros((2, 1, 1, 1)))).all()
    assert block_means(np.arange(12.0).reshape(1, 4, 3, 1), 2).ravel().tolist() == [2, 8]


def test_an_edge_has_one_direction_where_it_is():
    x = np.zeros((1, 8, 8, 3))
    x[0, :4, 2:] = 3.0
    found = directions(x, 2).reshape(2, 2, 8)
    across, down = found[..., 0], found[..., 6]  # it grows to the right, and falls downwards
    assert across.max() == across[0, 0] > 2 * across[1].max()
    assert down[0, 1] > 0.99 * down.max()
    assert down[0, 1] > 1.3 * down[0, 0]
    assert found[..., 4].max() == found[..., 2].max() == 0
    assert not directions(np.ones((1, 5, 3, 1)), 4).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_constant_up_to_rounding_is_no_feature(dtype):
    x = np.random.default_rng(0).normal(size=(6, 8, 8, 1))
    x = (x - x.mean((1, 2), keepdims=True)) / x.std((1, 2), keepdims=True)  # of one mean and deviation
    net = FeatureNetwork.of(DENSE, x.astype(dtype))
    double, single = net.kernel(x).ntk, net.kernel(x.astype(np.float32)).ntk
    np.testing.assert_allclose(single, double, rtol=0, atol=1e-5 * np.abs(double).max())


@given(st.integers(0, 2**16), st.integers(2, 20), st.integers(1, 3), st.sampled_from([0, 1, 2, 4]), st.booleans())
@settings(max_examples=15)
def test_the_kernel_is_invariant_under_every_symmetry_of_the_grid(seed, side, channels, cells, colours):
    x = np.random.default_rng(seed).normal(size=(4, side, side, channels))
    net = FeatureNetwork.of(DENSE, x, cells, colours or not cells)
    kernel = net.kernel(x, x[::-1].copy()).ntk
    assert np.isfinite(kernel).all()
    for mirrored in (False, True):
        for k in range(4):

            def turned(each, mirrored=mirrored, k=k):
                return np.rot90(each[:, :, ::-1] if mirrored else each, k, axes=(1, 2)).copy()

            np.testing.assert_allclose(net.kernel(turned(x), turned(x[::-1])).ntk, kernel, rtol=1e-9)
            if not cells:
                np.testing.assert_allclose(net.kernel(turned(x), x[::-1].copy()).ntk, kernel, rtol=1e-9)


def test_a_flat_part_of_all_images_is_no_feature_of_rounding():
    x = np.random.default_rng(5).normal(size=(6, 12, 12, 1))
    x[:, :6] = 1.0
    net = FeatureNetwork.of(DENSE, x, 4, colours=False)
    changed = x.copy()
    changed[:, :4] += 1e-13 * np.random.default_rng(6).normal(size=(6, 4, 12, 1))
    np.testing.assert_allclose(net.kernel(changed).nngp, net.kernel(x).nngp, rtol=1e-6)


@pytest.mark.parametrize("cells", [0, 2])
def test_the_network_is_known_to_be_invariant_under_symmetries_of_the_grid_alone(cells):
    x = np.random.default_rng(1).normal(size=(6, 4, 4, 3))
    net = FeatureNetwork.of(DENSE, x, cells)
    for name in ("C2", "C4", "D2", "D4"):
        assert net.invariant_under(et.actions.as_action("augmentation", name, x.shape), (4, 4, 3))
    shifts = et.actions.as_action("augmentation", "translations", x.shape)
    assert not net.invariant_under(shifts, (4, 4, 3))
    assert not net.invariant_under(et.actions.image_rotations(8), (4, 4, 3))
    inverted = et.actions.linear(et.groups.cyclic(2), [np.eye(3), -np.eye(3)])
    assert not net.invariant_under(inverted, (4, 4, 3))
    assert net.kernel(x.astype(np.float32)).nngp.dtype == np.float32
    assert net.kernel_cost((4, 4, 3), 6).seconds > 0


def textures(rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
    """Noise, with a fine chequerboard of either sign in one class."""
    noise = rng.normal(size=(40, 8, 8, 1))
    fine = np.array([np.zeros((8, 8, 1)), 2.0 * (np.indices((8, 8)).sum(0)[..., None] % 2)])
    return (noise + fine[y] - fine[y].mean(axis=(1, 2, 3), keepdims=True)) * rng.choice([-1, 1], size=(40, 1, 1, 1))


def figures(rng: np.random.Generator, y: np.ndarray) -> np.ndarray:
    """A bar at a border across it, or along it, in any orientation."""
    x = 0.3 * rng.normal(size=(40, 8, 8, 1))
    for image, label in zip(x, y, strict=True):
        image[(slice(0, 3), slice(2, 5)) if label else (slice(2, 5), slice(0, 2))] += 2.0
    return np.stack([np.rot90(image, int(rng.integers(4))) for image in x])


@pytest.mark.parametrize(("family", "draw", "seed"), [("colours and edges", textures, 2), ("directions", figures, 8)])
def test_images_are_told_by_the_features_of_their_kind_and_the_model_is_saved(
    family, draw, seed, tmp_path, monkeypatch
):
    y = np.arange(40) % 2
    x = draw(np.random.default_rng(seed), y).astype(np.float32)
    found = of_features(x)
    tried = found[:1] if draw is textures else tuple(each for each in found if each.family == family)
    monkeypatch.setattr("equitangents.fit.choosing.candidates", lambda shape: tried)
    monkeypatch.setattr("equitangents.fit.choosing.of_features", lambda x: ())
    choice = auto(x, y, augmentation="C4", baselines=False, minutes=600)
    assert choice.best.name.startswith(f"{family}, ")
    assert draw is textures or choice.best.group == "C4"
    assert choice.score.accuracy.value > 0.8
    choice.model.save(tmp_path / "model")
    again = et.InfiniteEnsembleClassifier.load(tmp_path / "model")
    assert again.net == choice.model.net
    new = np.rot90(x[:5], axes=(1, 2)).copy()
    np.testing.assert_allclose(again.predict_proba(new), choice.model.predict_proba(x[:5]), rtol=1e-4)
    path = et.ensembles.predict_to_file(tmp_path / "model", new, tmp_path / "p.npz", probabilities=True)
    with np.load(path) as held:
        np.testing.assert_allclose(held["probability"], again.predict_proba(new), rtol=1e-4)
