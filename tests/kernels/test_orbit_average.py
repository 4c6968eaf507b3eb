"""Orbit averages are invariant: by one orbit where the kernel is known to be so by what it is, else by both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents.errors import EquitangentsError
from equitangents.kernels import projected
from equitangents.kernels.invariance import is_invariant
from equitangents.kernels.result import Kernels
from equitangents.nn import Conv, Dense, Dropout, Flatten, GlobalAvgPool, Relu, Sequential

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


def test_a_symmetric_average_needs_half_the_pairs(rng, monkeypatch):
    pairs = []
    run = Sequential.kernel
    monkeypatch.setattr(projected, "BLOCK", 1)
    monkeypatch.setattr(Sequential, "kernel", lambda net, a, b: pairs.append(len(a) * len(b)) or run(net, a, b))
    x = rng.standard_normal((8, 4, 4, 1))
    average = et.kernels.orbit_average(MLP, et.actions.image_dihedral(4))
    found = average.kernel(x)
    assert sum(pairs) == 8 * (8 * 9 // 2)
    expected = average.kernel(x, x)
    np.testing.assert_allclose(found.nngp, expected.nngp, rtol=1e-12)
    np.testing.assert_allclose(found.ntk, expected.ntk, rtol=1e-12)


def test_inputs_that_rotations_fix_do_not_hide_what_rotations_change(rng):
    average = et.kernels.orbit_average(UPRIGHT, ROTATIONS)
    average.kernel(np.ones((2, 4, 4, 1)))  # the first inputs that it meets
    x = rng.standard_normal((3, 4, 4, 1))
    np.testing.assert_allclose(average.kernel(ROTATIONS(1, x), x).ntk, average.kernel(x).ntk, rtol=1e-12)


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


PLAIN = Sequential(Flatten(), Dense(8), Relu(), Dense(1))
EVEN = Sequential(Conv(16, (2, 2), padding="zero"), Relu(), GlobalAvgPool(), Dense(1))


class OfSums:
    """Products of sums over all pixels, of a result of its own; it says of itself what `says` is, if anything."""

    def __init__(self, says=None):
        if says is not None:
            self.invariant_under = lambda action, input_shape: says

    def kernel(self, x1, x2=None):
        a, b = (x.sum(axis=(1, 2, 3)) for x in (x1, x1 if x2 is None else x2))
        return Result(np.outer(a, b) + 1)


class Result:
    def __init__(self, k):
        self.nngp, self.ntk = k, 2 * k


def bordered(rng, n):
    x = np.zeros((n, 6, 6, 1))
    x[:, 1:-1, 1:-1] = rng.standard_normal((n, 4, 4, 1))
    return x


def test_actions_that_are_none_take_both_orbits_whatever_the_data(rng):
    masked = et.actions.image_rotations(4, mask="circle")
    x = masked(0, rng.standard_normal((4, 5, 5, 1)))
    assert is_invariant(PLAIN, ROTATIONS, x)
    assert not is_invariant(PLAIN, masked, x)


def test_images_with_empty_borders_do_not_hide_what_windows_do_at_borders(rng):
    x = bordered(rng, 5)
    assert not is_invariant(EVEN, ROTATIONS, x)
    y, x_test = rng.standard_normal(5), np.concatenate([bordered(rng, 2), rng.standard_normal((2, 6, 6, 1))])
    model = et.InfiniteEnsemble(EVEN, augmentation=ROTATIONS, ridge=0.1).fit(x, y)
    assert model.solver_.startswith("explicit")
    copies, labels = np.concatenate([ROTATIONS(g, x) for g in range(4)]), np.tile(y, 4)
    literal = et.InfiniteEnsemble(EVEN, ridge=0.1).fit(copies, labels)
    found = model.predict(x_test)
    np.testing.assert_allclose(found, literal.predict(x_test), rtol=1e-8, atol=1e-10)
    alone = np.concatenate([model.predict(x_test[i : i + 1]) for i in range(4)])
    np.testing.assert_allclose(alone, found, rtol=1e-9, atol=1e-12)
    moved = [literal.predict(ROTATIONS(g, x_test)) for g in range(4)]
    assert np.ptp(moved, axis=0).max() > 1e-3
    orbit = [model.predict(ROTATIONS(g, x_test)) for g in range(4)]
    np.testing.assert_allclose(orbit, moved, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("says", [None, False, True])
def test_an_object_says_of_itself_whether_it_is_invariant_and_its_results_are_its_own(rng, says):
    net, x, x_test = OfSums(says), rng.uniform(1, 2, (4, 3, 3, 1)), rng.uniform(1, 2, (2, 3, 3, 1))
    assert is_invariant(net, ROTATIONS, x) == bool(says)
    k = et.kernels.orbit_average(net, ROTATIONS).kernel(x)
    assert isinstance(k, Kernels)
    assert ("one orbit" if says else "both orbits") in k.notes[-1]
    np.testing.assert_allclose(k.ntk, net.kernel(x).ntk, rtol=1e-12)
    model = et.InfiniteEnsemble(net, augmentation=ROTATIONS, ridge=0.1).fit(x, np.arange(4.0))
    plain = et.InfiniteEnsemble(net, ridge=0.1 / 4).fit(x, np.arange(4.0))
    np.testing.assert_allclose(model.predict(x_test), plain.predict(x_test), rtol=1e-8)


def test_orthogonal_maps_are_known_to_be_kept_and_others_are_not(rng):
    x = rng.standard_normal((3, 2, 5, 1))
    assert is_invariant(PLAIN, et.actions.ring_rotations(3), x)
    assert not is_invariant(EVEN, et.actions.ring_rotations(3), x)
    shear = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 3.0], [0.0, -1.0]]])
    stretched = et.actions.linear(et.groups.cyclic(2), shear)
    dense = Sequential(Dense(8), Relu(), Dense(1))
    assert not is_invariant(dense, stretched, x[:, 0, :2, 0])
    flipped = et.actions.linear(et.groups.cyclic(2), [np.eye(2), -np.eye(2)])
    assert is_invariant(dense, flipped, x[:, 0, :2, 0])
    assert not is_invariant(Sequential(Relu(), Dense(8)), flipped, x[:, 0, :2, 0]), "a function of the inputs first"


def test_dropout_takes_the_copies_themselves(rng):
    net = Sequential(Flatten(), Dense(8), Relu(), Dropout(0.5), Dense(1))
    assert net.draws_noise
    assert not Sequential(Dropout(0.5, mode="test"), Dense(1)).draws_noise
    x, x_test = rng.standard_normal((3, 3, 3, 1)), rng.standard_normal((2, 3, 3, 1))
    y = rng.standard_normal((3, 1))
    model = et.InfiniteEnsemble(net, augmentation=ROTATIONS, ridge=0.1).fit(x, y)
    copies = np.concatenate([ROTATIONS(g, x) for g in range(4)])
    literal = et.InfiniteEnsemble(net, ridge=0.1).fit(copies, np.tile(y, (4, 1)))
    for found, expected in zip(
        model.predict(x_test, return_std=True), literal.predict(x_test, return_std=True), strict=True
    ):
        np.testing.assert_allclose(np.ravel(found), np.ravel(expected), rtol=1e-8, atol=1e-10)


def test_equal_rows_under_dropout_are_not_one(rng):
    net = Sequential(Dense(8), Relu(), Dropout(0.5), Dense(1))
    x, y, x_test = rng.standard_normal((3, 2)), rng.standard_normal(3), rng.standard_normal((2, 2))
    x, y = np.concatenate([x, x[:1]]), np.append(y, y[0])
    k = net.kernel(x).ntk
    expected = net.kernel(x_test, x).ntk @ np.linalg.solve(k + 0.1 * np.trace(k) / 4 * np.eye(4), y)
    for solver in ("eigh", "cholesky"):
        found = et.InfiniteEnsemble(net, ridge=0.1, solver=solver).fit(x, y).predict(x_test)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    with pytest.raises(et.errors.InvalidArgumentError, match="draws noise"):
        et.InfiniteEnsemble(net, ridge=0.1, solver="nystrom").fit(x, y)


def test_orbit_means_of_a_subgroup_come_in_the_order_of_its_elements(rng):
    x, y = rng.standard_normal((3, 3, 3, 1)), rng.standard_normal((3, 1))
    chosen = et.actions.subset(ROTATIONS, [2, 0])
    model = et.InfiniteEnsemble(PLAIN, augmentation=chosen, ridge=0.1).fit(x, y)
    copies = np.concatenate([ROTATIONS(2, x), x])
    literal = et.InfiniteEnsemble(PLAIN, ridge=0.1).fit(copies, np.tile(y, (2, 1)))
    found = model.predict_orbit_means(x)
    for i, g in enumerate([2, 0]):
        np.testing.assert_allclose(found[:, i], literal.predict(ROTATIONS(g, x)), rtol=1e-7, atol=1e-9)
