"""Small molecules at random, without symmetry, for tests."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from equitangents import groups, nn
from equitangents.molecules import AtomSignals, Molecules

SIGNALS = AtomSignals(bandlimit=2, powers=(1.0, 2.0), elements=(1, 6, 8))


def network(tolerance=1e-6, resolution=None, readout=None, layers=2):
    """One or two layers on SO(3), smooth enough for few rotations; derivatives of one compile in half the time."""
    second = (nn.GroupConv(4, W_std=1.3, b_std=0.1), nn.Erf()) if layers == 2 else ()
    return nn.Sequential(
        nn.SphereLift(
            groups.so3(2), 4, W_std=0.03 if layers == 2 else 0.05, b_std=0.3, tolerance=tolerance, resolution=resolution
        ),
        nn.Erf(),
        *second,
        readout or nn.GroupPool(),
        nn.Dense(1, W_std=1.1, b_std=0.2),
    )


def molecules(count=3, atoms=3, seed=0):
    """Chains of O, H, C, H, ... with atoms about 1.2 Å apart; the last molecule has no second atom."""
    rng = np.random.default_rng(seed)
    numbers = np.tile([8, 1, 6, 1][:atoms], (count, 1))
    numbers[-1, 1] = 0
    chain = np.cumsum(rng.normal(size=(count, atoms, 3)) * 0.15 + [0.9, 0.6, -0.5], axis=1)
    return Molecules(numbers, chain)


def turned(batch, seed=0):
    """Each molecule turned and moved in its own way; with it the rotations."""
    rng = np.random.default_rng(seed)
    R = Rotation.random(len(batch), random_state=seed).as_matrix()
    moved = np.einsum("nij,naj->nai", R, batch.positions) + rng.normal(size=(len(batch), 1, 3))
    return batch.with_positions(moved), R


def renumbered(batch, seed=0):
    """Atoms in another order."""
    order = np.random.default_rng(seed).permutation(batch.atomic_numbers.shape[1])
    return Molecules(batch.atomic_numbers[:, order], batch.positions[:, order]), order
