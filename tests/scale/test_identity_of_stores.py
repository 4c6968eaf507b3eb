"""What a store knows its network, action and data by: whatever changes the numbers changes a hash."""

import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import actions, nn
from equitangents.errors import InvalidTypeError
from equitangents.kernels import orbit_average
from equitangents.scale import identity

SHAPE, F64 = (4, 4, 1), np.dtype("float64")
TURNS, DIHEDRAL = actions.image_rotations(4), actions.image_dihedral(4)


def network(*leading, **scales):
    return nn.Sequential(*leading, nn.Conv(1, (3, 3), **scales), nn.Relu(), nn.Flatten(), nn.Dense(1))


def test_networks_are_told_apart_by_all_that_their_kernels_depend_on():
    plain = network()
    different = [
        plain,
        network(W_std=1.5),
        network(nn.Relu()),
        network(nn.Erf()),
        orbit_average(plain, TURNS),
        orbit_average(plain, DIHEDRAL),
        orbit_average(orbit_average(plain, TURNS), TURNS),
    ]
    assert len({identity.network_hash(net, SHAPE) for net in different}) == len(different)
    same = nn.Sequential(nn.Conv(64, (3, 3)), nn.Relu(), nn.Flatten(), nn.Dense(3))
    assert identity.network_hash(same, SHAPE) == identity.network_hash(plain, SHAPE)


def test_actions_are_told_apart_by_what_they_do():
    found = {identity.action_hash(a, SHAPE) for a in (TURNS, DIHEDRAL, actions.image_rotations(8))}
    assert len(found) == 3
    assert identity.action_hash(actions.image_rotations(4), SHAPE) in found


def test_no_element_of_a_large_subset_goes_unseen(monkeypatch):
    monkeypatch.setattr(identity, "_MOVED", 3 * 2 * 16 * 8)
    one, other = (actions.subset(DIHEDRAL, elements) for elements in ([0, 1, 2, 5, 7], [0, 3, 2, 5, 7]))
    assert identity.action_hash(one, SHAPE) != identity.action_hash(other, SHAPE)


def test_leading_functions_are_known_by_their_content_not_by_a_probe():
    clipped = nn.Elementwise(lambda x: jnp.clip(x, -6.0, 6.0), tolerance=0.1)  # which no probe reaches
    with pytest.raises(InvalidTypeError, match="no description"):
        identity.network_hash(network(clipped), SHAPE)
    leading = [network(nn.LeakyRelu(slope)) for slope in (0.1, 0.2)]
    assert len({identity.network_hash(net, SHAPE) for net in leading}) == 2


def test_subsets_are_told_apart_by_their_elements_and_weights():
    subsets = [([0, 1], None), ([1, 0], None), ([0, 2], None), ([0, 1], [1.0, 2.0])]
    assert len({identity.action_hash(actions.subset(TURNS, *each), SHAPE) for each in subsets}) == len(subsets)


@pytest.mark.parametrize("block", [1, 3, 100])
def test_hashes_of_rows_do_not_depend_on_how_many_are_read_at_once(block, monkeypatch):
    x = np.random.default_rng(0).normal(size=(10, 3))
    hashed = lambda count, dtype=F64: identity.rows_digest("x", x, dtype, count)
    expected = [identity.rows_digest("x", x[:n], F64, n) for n in (4, 9)]
    monkeypatch.setattr(identity, "_HASHED", block * 3 * 8)
    assert [hashed(4), hashed(9)] == expected
    assert len({*expected, hashed(4, np.dtype("float32"))}) == 3
