"""Orbit averages are invariant, by one orbit where the kernel is and by both where it is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents.errors import EquitangentsError
from equitangents.nn import Conv, Dense, Flatten, Relu, Sequential

ROTATIONS = et.actions.image_rotations(4)
MLP = Sequential(Flatten(), Dense(8, W_std=1.3, b_std=0.2), Relu(), Dense(1))
UPRIGHT = Sequential(Conv(8, (1, 2)), Relu(), Flatten(), Dense(1))  # a window that rotations turn into another one


@pytest.mark.parametrize(("net", "note"), [(MLP, "one orbit"), (UPRIGHT, "both orbits")])
def test_orbit_averages_are_literal_means_and_invariant(net, note, rng):
    x1, x2 = rng.standard_normal((3, 4, 4, 1)), rng.standard_normal((2, 4, 4, 1))
    average = et.kernels.orbit_average(net, ROTATIONS)
    k = average.kernel(x1, x2)
    literal = np.mean([net.kernel(ROTATIONS(g, x1), ROTATIONS(h, x2)).ntk for g in range(4) for h in range(4)], axis=0)
    np.testing.assert_allclose(k.ntk, literal, rtol=1e-12)
    np.testing.assert_allclose(average.kernel(ROTATIONS(1, x1), ROTATIONS(2, x2)).nngp, k.nngp, rtol=1e-12)
    assert any(note in n for n in k.notes)
    np.testing.assert_allclose(average.kernel(x1).ntk, average.kernel(x1, x1).ntk, rtol=1e-12)


@pytest.mark.parametrize("net", [MLP, UPRIGHT])
def test_arrays_of_jax_and_numpy_of_two_precisions(net, rng):
    x1, x2 = rng.standard_normal((3, 4, 4, 1)).astype(np.float32), rng.standard_normal((2, 4, 4, 1))
    average = et.kernels.orbit_average(net, ROTATIONS)
    expected = average.kernel(x1.astype(np.float64), x2).ntk
    for a, b in ((jnp.asarray(x1), x2), (x1, x2)):
        found = average.kernel(a, b).ntk
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_symmetric_average_needs_a_term_for_each_pair_of_inverses(rng, monkeypatch):
    calls = []
    run = Sequential.kernel
    monkeypatch.setattr(Sequential, "kernel", lambda *args: calls.append(args) or run(*args))
    x = rng.standard_normal((9, 4, 4, 1))
    et.kernels.orbit_average(MLP, ROTATIONS).kernel(x)
    whole = [args for args in calls if len(args[1]) == len(x)]  # the others look at a sample, for invariance
    assert len(whole) == 3  # the identity, the quarter turns together, the half turn


def test_terms_of_involutions_are_computed_in_blocks(rng, monkeypatch):
    monkeypatch.setattr("equitangents.kernels.orbit._BLOCK", 2)
    x = rng.standard_normal((9, 4, 4, 1))
    average = et.kernels.orbit_average(MLP, et.actions.image_dihedral(4))
    found, expected = average.kernel(x), average.kernel(x, x)
    np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-12)
    np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-12)


def test_invariance_of_a_kernel_is_measured(rng):
    x = rng.standard_normal((3, 4, 4, 1))
    assert et.kernels.kernel_invariance_error(MLP, ROTATIONS, x) < 1e-13
    assert et.kernels.kernel_invariance_error(UPRIGHT, ROTATIONS, x) > 1e-3


def test_inputs_that_rotations_fix_do_not_hide_what_rotations_change(rng):
    average = et.kernels.orbit_average(UPRIGHT, ROTATIONS)
    average.kernel(np.ones((2, 4, 4, 1)))  # the first inputs that it meets
    x = rng.standard_normal((3, 4, 4, 1))
    np.testing.assert_allclose(average.kernel(ROTATIONS(1, x), x).ntk, average.kernel(x).ntk, rtol=1e-12)
    x = np.ones((300, 4, 4, 1))
    x[290] = rng.standard_normal((4, 4, 1))
    assert et.kernels.kernel_invariance_error(UPRIGHT, ROTATIONS, x) > 1e-3


def test_invariance_under_all_but_the_last_generator_is_not_enough(rng):
    flips = [et.groups.cyclic(2)] * 9
    group = flips[0]
    for flip in flips[1:]:
        group = et.groups.direct_product(group, flip)
    signs = np.array([[(-1.0) ** (g >> i & 1) for i in range(9)] for g in range(group.order)])
    action = et.actions.linear(group, signs[:, :, None] * np.eye(9))
    x = rng.standard_normal((3, 9))

    class SomeSignsMatter:
        """A function of the squares of all entries, and of the signs of some."""

        def __init__(self, weights):
            self.weights = weights

        def kernel(self, x1, x2=None):
            features = [np.exp(self.weights @ x.T) + (x**2).sum(axis=1) for x in (x1, x1 if x2 is None else x2)]
            return et.kernels.Kernels(np.outer(*features), np.outer(*features))

    for weights in np.eye(9):
        assert et.kernels.kernel_invariance_error(SomeSignsMatter(weights), action, x) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "note", "traced_first"),
    [
        (UPRIGHT, "both orbits", True),
        (MLP, "one orbit", False),
        (MLP, "one orbit", True),
        (UPRIGHT, "both orbits", False),
    ],
)
def test_traced_calls_average_as_concrete_ones_whichever_comes_first(net, note, traced_first, rng):
    x1, x2 = (jnp.asarray(rng.standard_normal((n, 4, 4, 1)), jnp.float32) for n in (3, 2))
    average = et.kernels.orbit_average(net, ROTATIONS)
    runs = [average.kernel, jax.jit(average.kernel)]
    found = [run(x1, x2) for run in (runs[::-1] if traced_first else runs)]
    for k in found:
        assert any(note in n for n in k.notes)
    np.testing.assert_allclose(found[0].ntk, found[1].ntk, rtol=2e-5)
    np.testing.assert_allclose(found[0].nngp, found[1].nngp, rtol=2e-5)


def test_a_kernel_that_is_nan_is_not_invariant():
    class Broken:
        def kernel(self, x1, x2=None):
            k = np.full((len(x1), len(x1 if x2 is None else x2)), np.nan)
            return et.kernels.Kernels(k, k)

    assert not et.kernels.kernel_invariance_error(Broken(), ROTATIONS, np.ones((2, 4, 4, 1))) <= 1e300


def test_inputs_may_be_lists_and_are_checked(rng):
    x1, x2 = rng.standard_normal((3, 4, 4, 1)), rng.standard_normal((2, 4, 4, 1))
    average = et.kernels.orbit_average(MLP, ROTATIONS)
    np.testing.assert_array_equal(average.kernel(x1.tolist(), x2.tolist()).ntk, average.kernel(x1, x2).ntk)
    with pytest.raises(EquitangentsError, match="x2 is not a rectangular array"):
        average.kernel(x1, [[1.0], [1.0, 2.0]])


def test_what_is_no_kernel_or_no_action_is_refused():
    with pytest.raises(EquitangentsError, match="net is"):
        et.kernels.orbit_average(3, ROTATIONS)
    with pytest.raises(EquitangentsError, match="action is"):
        et.kernels.orbit_average(MLP, lambda g, x: x)
