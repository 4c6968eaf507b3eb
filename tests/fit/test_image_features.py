"""Colours and edges do not change when an image is turned by quarters or mirrored, and a network of them says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equitangents as et
from equitangents.fit import auto
from equitangents.fit.candidates import of_features
from equitangents.fit.features import FeatureNetwork, block_means, colours_and_edges, features_of

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
    assert colours_and_edges(x[:0]).shape == (0, found.shape[1])


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
    assert features_of(np.ones((2, 40, 33, 1))).shape == (2, 13 * 11 + 7 + 4 + 8)
    assert np.isfinite(features_of(np.zeros((2, 1, 1, 1)))).all()
    assert block_means(np.arange(12.0).reshape(1, 4, 3, 1), 2).ravel().tolist() == [2, 8]


def test_the_network_is_known_to_be_invariant_under_symmetries_of_the_grid_alone():
    x = np.random.default_rng(1).normal(size=(6, 4, 4, 3))
    net = FeatureNetwork.of(DENSE, x)
    for name in ("C2", "C4", "D2", "D4"):
        assert net.invariant_under(et.actions.as_action("augmentation", name, x.shape), (4, 4, 3))
    shifts = et.actions.as_action("augmentation", "translations", x.shape)
    assert not net.invariant_under(shifts, (4, 4, 3))
    assert not net.invariant_under(et.actions.image_rotations(8), (4, 4, 3))
    inverted = et.actions.linear(et.groups.cyclic(2), [np.eye(3), -np.eye(3)])
    assert not net.invariant_under(inverted, (4, 4, 3))
    turned = np.rot90(x, axes=(1, 2))
    np.testing.assert_allclose(net.kernel(turned, x).ntk, net.kernel(x).ntk, rtol=1e-9)
    assert net.kernel(x.astype(np.float32)).nngp.dtype == np.float32
    assert net.kernel_cost((4, 4, 3), 6).seconds > 0


def test_textures_are_told_by_colours_and_edges_and_the_model_is_saved(tmp_path, monkeypatch):
    rng = np.random.default_rng(2)
    y = np.arange(40) % 2
    noise = rng.normal(size=(40, 8, 8, 1))
    fine = np.array([np.zeros((8, 8, 1)), 2.0 * (np.indices((8, 8)).sum(0)[..., None] % 2)])
    x = (noise + fine[y] - fine[y].mean(axis=(1, 2, 3), keepdims=True)).astype(np.float32)
    x *= rng.choice([-1, 1], size=(40, 1, 1, 1))
    monkeypatch.setattr("equitangents.fit.choosing.candidates", lambda shape: of_features(x)[:1])
    choice = auto(x, y, augmentation="C4", baselines=False, minutes=600)
    assert choice.best.name.startswith("colours and edges, ")
    assert choice.score.accuracy.value > 0.8
    choice.model.save(tmp_path / "model")
    again = et.InfiniteEnsembleClassifier.load(tmp_path / "model")
    assert again.net == choice.model.net
    new = np.rot90(x[:5], axes=(1, 2)).copy()
    np.testing.assert_allclose(again.predict_proba(new), choice.model.predict_proba(x[:5]), rtol=1e-4)
    path = et.ensembles.predict_to_file(tmp_path / "model", new, tmp_path / "p.npz", probabilities=True)
    with np.load(path) as found:
        np.testing.assert_allclose(found["probability"], again.predict_proba(new), rtol=1e-4)


@pytest.mark.slow
def test_each_candidate_has_the_features_of_the_training_images():
    x = np.random.default_rng(3).normal(size=(9, 4, 4, 1))
    for each in of_features(x):
        np.testing.assert_allclose(
            each.net.kernel(x).nngp,
            each.net.base.kernel((colours_and_edges(x) - np.array(each.net.shift)) / np.array(each.net.scale)).nngp,
        )
