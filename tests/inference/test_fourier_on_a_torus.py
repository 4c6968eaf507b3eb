"""The fast transform of translations is the sum over all of them, for any shape, and for some of the waves."""

import numpy as np
import pytest

from equitangents import groups
from equitangents.inference.group_fourier import FourierIrrep, GroupFourier, fourier_irreps


@pytest.mark.parametrize("shape", [(4, 8), (5, 7), (40,), (2, 3, 6)])
def test_fast_transforms_are_the_sums_over_all_translations(shape):
    group = groups.translations(shape)
    irreps = fourier_irreps(group)
    assert len(irreps[0].matrices) == group.order
    assert np.all(irreps[0].matrices == 1)
    assert sum(irrep.count for irrep in irreps) == group.order
    for irrep in irreps[1:4]:  # they respect products
        a, b = np.random.default_rng(0).integers(group.order, size=(2, 10))
        product = irrep.matrices[group.compose(a, b)] - irrep.matrices[a] @ irrep.matrices[b]
        assert not np.abs(product).max() > 1e-12
    slow = tuple(FourierIrrep(irrep.matrices, irrep.count) for irrep in irreps)
    f = np.random.default_rng(1).normal(size=(3, 2, group.order))
    for some in (slice(None), slice(1, 18)):
        fast, literal = GroupFourier(irreps[some]), GroupFourier(slow[some])
        for a, b in zip(fast.forward(f), literal.forward(f), strict=True):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            assert not np.abs(a - b).max() > 1e-11
        back, literal_back = fast.inverse(fast.forward(f)), literal.inverse(literal.forward(f))
        assert not np.abs(back - literal_back).max() > 1e-12
        if some == slice(None):
            assert not np.abs(back - f).max() > 1e-12
