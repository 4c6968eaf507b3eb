"""Characters that are multiples of a quarter turn are exact numbers."""

import numpy as np
import pytest

from equitangents import groups


@pytest.mark.parametrize("group", [groups.cyclic(2), groups.cyclic(4), groups.direct_product(*[groups.cyclic(4)] * 2)])
@pytest.mark.parametrize("field", ["complex", "real"])
def test_characters_of_groups_of_exponent_four_are_whole_numbers(group, field):
    for irrep in group.irreps(field):
        parts = np.stack([irrep.matrices.real, irrep.matrices.imag])
        assert np.array_equal(parts, np.round(parts))


def test_turns_of_c8_by_quarters_are_whole_numbers():
    for irrep in groups.cyclic(8).irreps("real"):
        assert np.array_equal(irrep.matrices[::2], np.round(irrep.matrices[::2]))
