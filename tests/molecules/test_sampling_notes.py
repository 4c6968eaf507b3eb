"""Regressors of molecules say where the error of sampled rotations is not far below the ridge."""

from __future__ import annotations

import numpy as np
import pytest

from equitangents import groups, nn
from equitangents.molecules import MoleculeRegressor, Molecules, TensorRegressor

WATER = np.array([[0, 0, 0.12], [0, 0.76, -0.48], [0, -0.76, -0.48]])
N = 8


def waters(seed: int) -> Molecules:
    rng = np.random.default_rng(seed)
    return Molecules(np.tile([8, 1, 1], (N, 1)), WATER + 0.08 * rng.normal(size=(N, 3, 3)))


def network(resolution: int) -> nn.Sequential:
    lift = nn.SphereLift(groups.so3(3), 8, W_std=0.05, b_std=0.3, resolution=resolution)
    return nn.Sequential(lift, nn.Erf(), nn.GroupPool(), nn.Dense(1))


@pytest.mark.quick(1)
@pytest.mark.parametrize(("resolution", "noted"), [(3, True), (5, False)])
def test_turned_dipoles_are_off_where_the_notes_say_so(resolution: int, noted: bool) -> None:
    train, test = waters(0), waters(1)
    dipoles = np.einsum("a,naj->nj", [-0.8, 0.4, 0.4], train.positions)
    model = TensorRegressor(network(resolution), ridge=1e-3).fit(train, dipoles)
    R = groups.so3(1).random(1, seed=4)[0]
    still = model.predict(test).values
    turned = model.predict(test.with_positions(test.positions @ R.T)).values
    error = np.abs(turned - still @ R.T).max() / np.abs(still).max()
    assert bool(model.notes_) == noted
    assert (error > 0.02) == noted
    if noted:
        better = float(model.notes_[0].split("set ridge=")[1].split(",")[0])
        assert better > 1e-3
        assert TensorRegressor(network(resolution), ridge=better).fit(train, dipoles).notes_ == ()


def test_energies_with_a_ridge_far_above_the_error_have_no_notes(caplog: pytest.LogCaptureFixture) -> None:
    train = waters(0)
    energies = ((train.positions[:, 0] - train.positions[:, 1]) ** 2).sum(axis=1)
    assert MoleculeRegressor(network(5), ridge=1e-3).fit(train, energies).notes_ == ()
    assert "sampled" not in caplog.text
