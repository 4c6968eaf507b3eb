"""The group Fourier transform against its definition, and the laws that the augmented dynamics rest on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import actions, groups
from equitangents.inference.augmented import find_orbits
from equitangents.inference.group_fourier import GroupFourier, fourier_irreps

GROUPS = {
    "C1": groups.cyclic(1),
    "C5": groups.cyclic(5),
    "C8": groups.cyclic(8),
    "D4": groups.dihedral(4),
    "Q8": groups.quaternion(),
    "Q8xC3": groups.direct_product(groups.quaternion(), groups.cyclic(3)),
    "T": groups.tetrahedral(),
    "S4": groups.symmetric(4),
    "p4": groups.wallpaper(4, False, (3, 3)),
    "torus": groups.translations((4, 8)),
    "odd torus": groups.translations((5, 7)),
    "line": groups.translations((40,)),
    "three axes": groups.translations((2, 3, 6)),
}
named = pytest.mark.parametrize("name", GROUPS)
any_group = st.sampled_from(sorted(GROUPS)).map(GROUPS.get)
seeds = st.integers(0, 10**6)


def convolve(group, f, h):
    """(f ∗ h)(q) = Σ_a f(a) h(a⁻¹ q), as a loop."""
    result = np.zeros(group.order)
    for q in group:
        for a in group:
            result[q] += f[a] * h[group.compose(group.inverse(a), q)]
    return result


class TestIrreps:
    @named
    def test_they_count_every_dimension_of_the_regular_representation(self, name):
        irreps = fourier_irreps(GROUPS[name])
        assert sum(irrep.count * irrep.dimension**2 for irrep in irreps) == GROUPS[name].order
        assert irreps[0].dimension == 1
        np.testing.assert_array_equal(irreps[0].matrices, np.ones((GROUPS[name].order, 1, 1)))

    def test_which_are_real_and_which_stand_for_two(self):
        kinds = lambda name: [(i.dimension, i.count, i.is_real) for i in fourier_irreps(GROUPS[name])]
        assert kinds("C5") == [(1, 1, True), (1, 2, False), (1, 2, False)]
        assert kinds("D4") == [(1, 1, True)] * 4 + [(2, 1, True)]
        assert kinds("Q8") == [(1, 1, True)] * 4 + [(2, 1, False)]
        assert sum(irrep.count == 2 for irrep in fourier_irreps(GROUPS["Q8xC3"])) == 5

    @given(any_group, seeds)
    def test_the_basis_of_what_a_subgroup_fixes(self, group, seed):
        H = group.generated_subgroup(np.random.default_rng(seed).integers(0, group.order, 1)).elements
        fixed = 0
        for irrep in fourier_irreps(group):
            basis = irrep.fixed_basis(H)
            np.testing.assert_allclose(basis.conj().T @ basis, np.eye(basis.shape[1]), atol=1e-12)
            np.testing.assert_allclose(
                irrep.matrices[H] @ basis, np.broadcast_to(basis, (len(H), *basis.shape)), atol=1e-10
            )
            fixed += irrep.count * irrep.dimension * basis.shape[1]
        assert fixed == group.order // len(H)  # functions on the cosets


class TestTransform:
    @given(any_group, seeds)
    def test_forward_is_the_sum_over_the_group_its_inverse_gives_the_function_back_and_convolutions_become_products(
        self, group, seed
    ):
        f, h = np.random.default_rng(seed).normal(size=(2, group.order))
        transform = GroupFourier(fourier_irreps(group))
        forward = transform.forward(f)
        for irrep, found in zip(transform.irreps, forward, strict=True):
            np.testing.assert_allclose(found, sum(f[q] * irrep.matrices[q] for q in group), atol=1e-12)
        both = np.stack([f, h])[:, None]
        np.testing.assert_allclose(transform.inverse(transform.forward(both)), both, atol=1e-12)
        products = [a @ b for a, b in zip(forward, transform.forward(h), strict=True)]
        np.testing.assert_allclose(transform.inverse(products), convolve(group, f, h), atol=1e-11)


class TestOrbitsOfData:
    turn = actions.image_dihedral(4)

    @given(seeds, st.sampled_from([np.float32, np.float64]), st.booleans())
    def test_samples_moved_onto_one_another(self, seed, dtype, binary):
        rng = np.random.default_rng(seed)
        base = rng.normal(size=(3, 3, 3, 1))
        base = (np.sign(base) if binary else base).astype(dtype)
        moves = rng.integers(0, 8, 6)
        source = np.array([0, 1, 2, 0, 1, 0])
        x = np.concatenate([self.turn(int(g), base[s : s + 1]) for g, s in zip(moves, source, strict=True)])
        orbits = find_orbits(self.turn, x)
        for j in range(6):
            representative = x[orbits.first[orbits.orbit[j]]][None]
            np.testing.assert_array_equal(self.turn(int(orbits.element[j]), representative)[0], x[j])
        assert len(orbits.first) <= 3
        assert orbits.copies.sum() == 6
        for o, first in enumerate(orbits.first):
            fixing = [g for g in range(8) if np.array_equal(self.turn(g, x[first][None])[0], x[first])]
            np.testing.assert_array_equal(orbits.stabilisers.get(o, [0]), fixing)

    def test_rotations_that_fix_inputs_only_to_rounding(self):
        icosahedral = actions.rotations(groups.icosahedral())
        H = groups.icosahedral().generated_subgroup([1]).elements
        x = np.random.default_rng(2).normal(size=(3, 3))
        x[1] = icosahedral.orbit(x[1:2], H)[:, 0].mean(axis=0)
        x = np.concatenate([x, icosahedral(17, x[1:2]), np.zeros((1, 3))])
        orbits = find_orbits(icosahedral, x)
        np.testing.assert_array_equal(orbits.first, [0, 1, 2, 4])
        assert {o: len(H) for o, H in orbits.stabilisers.items()} == {1: len(H), 3: 60}

    def test_maps_of_ones_own_and_large_inputs_beside_small_ones(self, rng):
        opposite = actions.from_function(groups.cyclic(2), lambda g, x: -x if g else x)
        y = rng.normal(size=(4, 3))
        y[2] = -y[0]
        assert find_orbits(opposite, y).orbit.tolist() == [0, 1, 0, 2]
        x = rng.normal(size=(9, 3, 3, 1)).astype(np.float32)
        x[0] *= 1e7
        assert find_orbits(self.turn, x).generic
        moved = np.concatenate([x, self.turn(3, x)])
        np.testing.assert_array_equal(find_orbits(self.turn, moved).orbit, [*range(9)] * 2)
