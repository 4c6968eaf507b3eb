"""The irreps of translations are the waves on their torus, of any shape."""

import numpy as np
import pytest

from equitangents import groups
from equitangents.inference.group_fourier import GroupFourier, fourier_irreps


@pytest.mark.parametrize("shape", [(4, 8), (5, 7), (40,), (2, 3, 6)])
def test_waves_respect_products_and_their_transform_has_an_inverse(shape):
    group = groups.translations(shape)
    irreps = fourier_irreps(group)
    assert len(irreps[0].matrices) == group.order
    assert np.all(irreps[0].matrices == 1)
    assert sum(irrep.count for irrep in irreps) == group.order
    for irrep in irreps[1:4]:  # they respect products
        a, b = np.random.default_rng(0).integers(group.order, size=(2, 10))
        product = irrep.matrices[group.compose(a, b)] - irrep.matrices[a] @ irrep.matrices[b]
        assert not np.abs(product).max() > 1e-12
    f = np.random.default_rng(1).normal(size=(3, 2, group.order))
    transform = GroupFourier(irreps)
    assert not np.abs(transform.inverse(transform.forward(f)) - f).max() > 1e-12
