"""Linear actions on vectors, channels, labels and point clouds against matrix products written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equitangents import actions, groups
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotAnActionError, NotFiniteError, ShapeError


class TestLinear:
    @given(st.sampled_from([groups.symmetric(3), groups.quaternion(), groups.tetrahedral()]), st.data())
    def test_multiplies_each_vector(self, G, data):
        irrep = data.draw(st.sampled_from(G.irreps("real")))
        action, g = actions.linear(G, irrep.matrices), data.draw(st.integers(0, G.order - 1))
        x = np.random.default_rng(0).normal(size=(4, irrep.dimension))
        expected = [[sum(irrep.matrices[g, i, j] * v[j] for j in range(len(v))) for i in range(len(v))] for v in x]
        np.testing.assert_allclose(action(g, x), expected, atol=1e-14)

    def test_refuses_what_is_no_representation(self):
        S3 = groups.symmetric(3)
        backwards = np.eye(3)[[S3.element(g) for g in S3]]  # rows permuted: the product comes out reversed
        with pytest.raises(NotAnActionError, match="matrices") as error:
            actions.linear(S3, backwards)
        g, h = error.value.at
        assert not np.allclose(backwards[g] @ backwards[h], backwards[S3.compose(g, h)])
        actions.linear(S3, backwards.transpose(0, 2, 1))


class TestChannelsAndLabels:
    def test_permutation_tables_and_matrices_agree(self):
        S3 = groups.symmetric(3)
        table = [S3.element(g) for g in S3]
        matrices = np.zeros((6, 3, 3))
        for g in S3:
            for c in range(3):
                matrices[g, table[g][c], c] = 1
        x = np.random.default_rng(0).normal(size=(2, 4, 5, 3))
        by_table, by_matrices = actions.channels(S3, table), actions.channels(S3, matrices)
        assert np.array_equal(by_table.matrices, matrices)
        for g in S3:
            assert np.array_equal(by_table(g, x), by_matrices(g, x))
            for c in range(3):
                assert np.array_equal(by_table(g, x)[..., table[g][c]], x[..., c])

    def test_labels_are_rows(self):
        flip = actions.labels(groups.cyclic(2), [[0, 1], [1, 0]])
        assert flip(1, np.array([[1.0, 2.0]])).tolist() == [[2, 1]]


class TestRotations:
    @pytest.mark.parametrize("make", [groups.tetrahedral, groups.octahedral, groups.icosahedral])
    def test_vectors_and_clouds_turn_alike(self, make):
        G = make()
        action = actions.rotations(G)
        cloud = np.random.default_rng(0).normal(size=(2, 5, 3))
        for g in (1, 7, G.order - 1):
            turned = action(g, cloud)
            for b, p in np.ndindex(2, 5):
                np.testing.assert_allclose(turned[b, p], G.matrices[g] @ cloud[b, p], atol=1e-14)
                np.testing.assert_allclose(turned[b, p], action(g, cloud[b, p][None])[0], atol=1e-14)


class TestProducts:
    def test_tensor_product_of_vectors_is_of_outer_products(self):
        G = groups.symmetric(3)
        a = actions.linear(G, G.irreps("real")[2].matrices)
        b = actions.labels(G, [G.element(g) for g in G])
        u, v = np.random.default_rng(0).normal(size=(4, 2)), np.random.default_rng(1).normal(size=(4, 3))
        product = actions.tensor_product(a, b)
        for g in G:
            expected = np.einsum("ni,nj->nij", a(g, u), b(g, v)).reshape(4, 6)
            np.testing.assert_allclose(product(g, np.einsum("ni,nj->nij", u, v).reshape(4, 6)), expected, atol=1e-14)

    def test_vector_fields_turn_their_values(self):
        rot = actions.image_rotations(4)
        # in the image's own axes, (row, column) components
        turn = np.array([[0, -1], [1, 0]])
        fields = actions.tensor_product(
            rot, actions.linear(rot.group, [np.linalg.matrix_power(turn, k) for k in range(4)])
        )
        i, j = np.indices((5, 5)) - 2.0
        radial = np.stack([i, j], axis=-1)[None]
        np.testing.assert_allclose(fields.orbit(radial), np.broadcast_to(radial, (4, 1, 5, 5, 2)), atol=1e-15)
        constant = np.zeros((1, 5, 5, 2))
        constant[..., 0] = 1  # down
        np.testing.assert_allclose(fields(1, constant)[..., 1], 1)  # turned counter-clockwise: to the right

    def test_fields_of_resampled_images_are_not_exact(self):
        rot = actions.image_rotations(8)
        fields = actions.tensor_product(rot, actions.labels(rot.group, [[0]] * 8))
        assert not fields.exact
        x = np.random.default_rng(0).normal(size=(1, 5, 5, 1))
        np.testing.assert_allclose(fields(3, x), rot(3, x))

    def test_direct_sum_keeps_the_parts_apart(self):
        G = groups.octahedral()
        vectors = actions.rotations(G)
        both = actions.direct_sum(vectors, actions.labels(G, [[0]] * 24), vectors)
        x = np.random.default_rng(0).normal(size=(2, 7))
        np.testing.assert_allclose(
            both(5, x), np.concatenate([vectors(5, x[:, :3]), x[:, 3:4], vectors(5, x[:, 4:])], axis=1), atol=1e-14
        )

    def test_restriction(self):
        rot = actions.image_dihedral(4)
        H = rot.group.generated_subgroup([2, 5])
        restricted = actions.restrict(rot, H)
        x = np.random.default_rng(0).normal(size=(1, 4, 4, 1))
        for i, g in enumerate(H.elements):
            assert np.array_equal(restricted(i, x), rot(int(g), x))
        assert restricted.group.order == H.order


C2, C3 = groups.cyclic(2), groups.cyclic(3)
SIGNS, ONES = actions.linear(C2, [np.eye(2), -np.eye(2)]), actions.labels(C3, [[0]] * 3)
TRIVIAL, OF_C4 = actions.trivial(C2), groups.cyclic(4).subgroup([0])
SHEAR = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1.0]])
OBLIQUE = groups.from_matrices([np.eye(3), SHEAR @ np.diag([1, -1, 1]) @ np.linalg.inv(SHEAR)])


@pytest.mark.parametrize(
    ("make", "given", "error", "message"),
    [
        (actions.linear, (C2, np.eye(2)[None]), ShapeError, r"matrices has shape \(1, 2, 2\); expected \(2, d, d\)"),
        (actions.linear, (C2, [[[1.0]], [[-1.0, 0.0]]]), ShapeError, "matrices is not a rectangular array"),
        (actions.linear, (C2, np.full((2, 1, 1), np.nan)), NotFiniteError, "matrices holds NaN"),
        (actions.linear, (C2, [[[1.0]], [[-1.0 + 0j]]]), InvalidTypeError, "complex"),
        (actions.linear, (groups.cyclic(1), [[[2.0]]]), NotAnActionError, "the unit matrix, of the identity"),
        (SIGNS, (0, np.zeros((1, 3))), ShapeError, r"expected \(\.\.\., 2\)"),
        (SIGNS, (0, np.zeros((1, 1, 2))), ShapeError, "x has rank 3"),
        (actions.labels(C2, [[0, 1], [1, 0]]), (1, np.zeros((1, 1, 2))), ShapeError, "x has rank 3"),
        (actions.channels, (C2, [0, 1]), ShapeError, r"expected \(2, C, C\)"),
        (actions.labels, (C3, [[0, 1, 2], [1, 2, 0], [0, 1, 2]]), NotAnActionError, "representation"),
        (actions.labels, (C2, [[0, 1], [1]]), ShapeError, "rectangular"),
        (actions.rotations, (C3,), InvalidTypeError, "expected a group with 3×3 matrices"),
        (actions.rotations, (groups.from_matrices([np.eye(2)]),), InvalidTypeError, "expected a group with 3×3"),
        (actions.rotations, (OBLIQUE,), InvalidArgumentError, "expected orthogonal matrices"),
        (actions.tensor_product, (SIGNS, ONES), InvalidArgumentError, "give actions of one group"),
        (actions.tensor_product, (SIGNS, TRIVIAL), InvalidTypeError, "b is .*; expected an action on vectors"),
        (actions.tensor_product, (2, SIGNS), InvalidTypeError, "a is of type int"),
        (actions.direct_sum, (SIGNS, TRIVIAL), InvalidTypeError, "expected actions on vectors"),
        (actions.direct_sum, (), InvalidArgumentError, "actions is .*; expected at least one"),
        (actions.restrict, (ONES, OF_C4), InvalidArgumentError, "subgroup is one of <group C4"),
        (actions.restrict, (ONES, [0]), InvalidTypeError, "subgroup is of type list"),
    ],
)
def test_what_does_not_fit_is_refused(make, given, error, message):
    with pytest.raises(error, match=message):
        make(*given)
