"""Draws on whole orbits, irrep by irrep, have the covariance s(x, x′; g⁻¹h) between all their points."""

import jax
import numpy as np
import pytest

from equitangents import groups
from equitangents.inference.draws import sample_on_orbits
from equitangents.inference.group_fourier import GroupFourier, fourier_irreps

GROUPS = [groups.symmetric(3), groups.cyclic(5), groups.quaternion()]
M, DRAWS = 2, 6000


def invariant_covariance(group, rng):
    """A covariance of (input, element) pairs that moving all elements leaves alone, (M, |G|, M, |G|)."""
    features = rng.normal(size=(M, group.order, 2))
    own = np.einsum("mgk,nhk->mgnh", features, features)
    return np.mean([own[:, group.table[k]][:, :, :, group.table[k]] for k in group], axis=0)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_draws_have_the_covariance_of_the_field(group, rng):
    covariance = invariant_covariance(group, rng)
    irreps = fourier_irreps(group)
    transforms = GroupFourier(irreps).forward(np.ascontiguousarray(covariance[:, group.identity]))
    blocks = [t.transpose(0, 2, 1, 3).reshape(M * i.dimension, -1) for i, t in zip(irreps, transforms, strict=True)]
    draws = sample_on_orbits(irreps, blocks, DRAWS, 2, key=jax.random.key(0))
    assert draws.shape == (DRAWS, M, group.order, 2)
    found = np.einsum("rmgk,rnhk->mgnh", draws, draws) / (2 * DRAWS)
    variances = np.einsum("mgmg->mg", covariance)
    error = np.sqrt((np.multiply.outer(variances, variances) + covariance**2) / (2 * DRAWS))
    assert np.max(np.abs(found - covariance) / error) < 5
    between = np.einsum("rmg,rnh->mgnh", draws[..., 0], draws[..., 1]) / DRAWS
    assert np.max(np.abs(between) / (np.sqrt(2) * error)) < 5, "outputs are independent"
