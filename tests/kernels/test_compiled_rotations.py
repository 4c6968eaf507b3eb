"""The CPU engine computes the kernels of networks on rotations as the reference engine does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equitangents import groups, nn
from equitangents.errors import MemoryLimitError
from equitangents.kernels.engines.cpu import rotations as compiled
from equitangents.kernels.engines.cpu import run
from equitangents.kernels.result import Kernels
from equitangents.kernels.rotations import sections

NONLINEARITIES = (nn.Relu(), nn.LeakyRelu(0.2), nn.Abs(), nn.Erf(), nn.Gelu(), nn.Sin(), nn.Cos())
GROUPS = (groups.so3(5), groups.o3(5), groups.octahedral(), groups.tetrahedral())
# Distances are differences of the signals' squares, so their rounding is that of a square root near equal rotations.
DOUBLE, SINGLE = 1e-11, 2e-5


def signals(rng, n, bandlimit, channels):
    return rng.normal(size=(n, bandlimit**2, channels)) * np.sqrt(4 * np.pi) / bandlimit


ERF, POOL, DENSE = nn.Erf(), nn.GroupPool(), nn.Dense(1, b_std=0.1)


def two_layers(phi=ERF, group=GROUPS[0], readout=POOL, end=(DENSE,), resolution=3):
    lift = nn.SphereLift(group, 4, b_std=0.2, resolution=resolution)
    return nn.Sequential(lift, phi, nn.GroupConv(4, W_std=1.2, b_std=0.1), phi, readout, *end)


def one_layer(phi=ERF, group=GROUPS[0], readout=POOL, resolution=3):
    return nn.Sequential(nn.SphereLift(group, 4, b_std=0.2, resolution=resolution), phi, readout, DENSE)


@st.composite
def networks(draw):
    """Networks of every kind that the engine runs; a finite group samples nothing."""
    weights = lambda: {"W_std": draw(st.sampled_from([0.7, 1.5])), "b_std": draw(st.sampled_from([0.0, 0.3]))}
    phi = lambda: draw(st.sampled_from(NONLINEARITIES))
    group = draw(st.sampled_from(GROUPS))
    layers = [nn.SphereLift(group, 3, resolution=draw(st.integers(1, 5)), **weights()), phi()]
    if draw(st.booleans()):
        inner = nn.Residual(nn.GroupConv(3, **weights()), phi())
        layers += [nn.Residual(nn.GroupConv(3, **weights()), phi(), *([inner] if draw(st.booleans()) else []))]
    for _ in range(draw(st.integers(0, 2))):
        layers += [nn.GroupConv(3, **weights()), phi()]
    layers += [draw(st.sampled_from([nn.GroupPool(), nn.GroupPool(), nn.Flatten()])), nn.Dense(3, **weights())]
    if draw(st.booleans()):
        layers += [phi(), nn.Residual(nn.Dense(3, **weights()), phi()), nn.Dense(1)]
    return nn.Sequential(*layers)


def close(net, x, y, found, expected, tolerance):
    """Relative to √(K(x,x) K(y,y)), since a kernel itself may vanish."""
    own = [net.kernel_diagonal(v, engine="cpu") for v in (x, y)]
    for name in ("nngp", "ntk"):
        a, b = (np.asarray(getattr(k, name), np.float64) for k in (found, expected))
        root1, root2 = (np.sqrt(getattr(k, name).max()) for k in own)
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= tolerance * root1 * root2


SIGNALS = (st.integers(1, 5), st.integers(1, 3), st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32 - 1))
CASES = st.tuples(networks(), *SIGNALS)


@pytest.mark.slow
@settings(max_examples=25)
@given(CASES)
def test_many_random_networks_have_the_kernels_of_the_reference(case):
    check_against_the_reference(*case)


def check_against_the_reference(net, bandlimit, channels, n1, n2, seed):
    rng = np.random.default_rng(seed)
    x, y = (signals(rng, n, bandlimit, channels) for n in (n1, n2))
    expected = net.kernel(x, y, engine="reference")
    found = net.kernel(x, y)
    assert (found.engine, found.form, found.resolution) == ("cpu", expected.form, expected.resolution)
    close(net, x, y, found, expected, DOUBLE)
    a, b = x.astype(np.float32), y.astype(np.float32)
    single = net.kernel(a, b)
    assert single.ntk.dtype == np.float32
    a, b = a.astype(float), b.astype(float)
    close(net, a, b, single, net.kernel(a, b), SINGLE)


@settings(max_examples=4)
@given(networks(), st.integers(1, 4), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_signals_with_themselves_are_entries_of_the_matrix(net, bandlimit, n, seed):
    check_entries(net, bandlimit, n, seed)


def check_entries(net, bandlimit, n, seed):
    rng = np.random.default_rng(seed)
    x = signals(rng, n, bandlimit, 2)
    # With itself: what is above the diagonal stands below it, too.
    own, matrix, diagonal = net.kernel(x), net.kernel(x, x), net.kernel_diagonal(x)
    np.testing.assert_array_equal(own.ntk, own.ntk.T)
    upper = lambda k: Kernels(np.triu(k.nngp), np.triu(k.ntk))
    close(net, x, x, upper(own), upper(matrix), DOUBLE)
    close(net, x, x, diagonal, Kernels(np.diag(matrix.nngp), np.diag(matrix.ntk)), DOUBLE)


def test_every_instruction_set_computes_the_same(rng):
    net = two_layers(nn.Gelu(), end=(nn.Dense(1), nn.Relu(), nn.Dense(1)))
    x = signals(rng, 21, 4, 3)
    plan = compiled.plan_of(sections(net.lower(x.shape[1:])[1]), 3, 8)
    expected = net.kernel(x, x)  # which the tests above compare with the reference
    assert expected.engine == "cpu"
    for number in range(len(run.instruction_sets())):
        found = run.kernels(plan, compiled.vectors(x), None, number)
        for a, b in zip(found, (expected.nngp, expected.ntk), strict=True):
            np.testing.assert_allclose(np.triu(a), np.triu(b), rtol=0, atol=DOUBLE * np.abs(b).max())


def all_pairs(net, engine):
    return lambda a, b: net.kernel(a, b, engine=engine).ntk


def each_alone(net, engine):
    return lambda a, b: net.kernel_diagonal(a, engine=engine).ntk


def derivatives(f):
    """(f, its slope along two tangents, the gradient of its sum in the first argument)."""

    def all_of(x, y, tangent1, tangent2):
        value, slope = jax.jvp(f, (x, y), (tangent1, tangent2))
        return value, slope, jax.grad(lambda a: f(a, y).sum())(x)

    return all_of


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("of", "make", "readout"),
    [
        (all_pairs, one_layer, nn.Flatten()),
        (each_alone, one_layer, POOL),
        (all_pairs, two_layers, nn.Flatten()),
        (each_alone, two_layers, POOL),
        (all_pairs, two_layers, POOL),
    ],
)
def test_inside_jax_programs_it_runs_with_the_derivatives_of_the_reference(of, make, readout, rng):
    net = make(readout=readout, group=groups.so3(3))
    x, y = (signals(rng, n, 3, 2) for n in (3, 2))
    run, reference = of(net, "cpu"), of(net, "reference")
    with jax.enable_x64(True):
        tangents = tuple(jnp.asarray(rng.normal(size=v.shape)) for v in (x, y))
        of_both = [jax.jit(derivatives(f))(x, y, *tangents) for f in (run, reference)]
        value, slope, _ = of_both[0]
        np.testing.assert_allclose(value, run(x, y), rtol=1e-11)
        for found, expected in zip(*of_both, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-10)
        h = 1e-5
        moved = [run(*(np.asarray(v + s * h * t) for v, t in zip((x, y), tangents, strict=True))) for s in (1, -1)]
        np.testing.assert_allclose(slope, (moved[0] - moved[1]) / (2 * h), rtol=1e-5, atol=1e-8)


def test_what_it_can_run_has_the_notes_of_the_reference(rng):
    x = signals(rng, 2, 2, 1)
    net = one_layer(group=groups.so3(2), resolution=2)
    assert net.kernel(x, engine="reference").notes == net.kernel(x).notes


def test_memory_is_checked_before_anything_is_computed(rng, monkeypatch):
    from equitangents.kernels.engines.reference import rotations

    monkeypatch.setattr(rotations, "_MEMORY_LIMIT", 1 << 10)
    with pytest.raises(MemoryLimitError, match="one pair of signals needs about"):
        two_layers(nn.Abs()).kernel(signals(rng, 2, 3, 1))


def test_signals_without_directions_and_lists_without_pairs(rng):
    net = two_layers(group=groups.so3(3))
    x = np.zeros((3, 9, 2))
    x[:2, 0] = rng.normal(size=(2, 2))  # the last one vanishes
    close(net, x, x, net.kernel(x), net.kernel(x, engine="reference"), 1e-13)
