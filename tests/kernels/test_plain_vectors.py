"""Kernels of plain vectors: products of most pairs, differences of near ones, a pair's own way wherever it stands."""

import numpy as np
import pytest

from equitangents import nn
from equitangents.kernels.engines.cpu import run
from equitangents.kernels.plans import plan
from oracles import precise_kernels

LAYERS = [("dense", 1.4, 0.1), ("phi", 0.0), ("dense", 1.4, 0.1), ("phi", 0.0), ("dense", 1.4, 0.1)]
DENSE = nn.Dense(1, W_std=1.4, b_std=0.1)
NET = nn.Sequential(DENSE, nn.Relu(), DENSE, nn.Relu(), DENSE)
PLAIN = nn.Dense(1, W_std=1.3)
NETS = {
    "with biases": NET,
    "without biases": nn.Sequential(PLAIN, nn.Relu(), PLAIN),
    "another slope, no last layer": nn.Sequential(DENSE, nn.LeakyRelu(0.3), PLAIN, nn.LeakyRelu(0.3)),
    "two slopes": nn.Sequential(DENSE, nn.Relu(), DENSE, nn.Abs(), DENSE),
}
COSINES = (-1.0, -0.99, -0.5, 0.0, 0.5, 0.8, 0.9, 0.96, 0.968, 0.969, 0.97, 0.98, 0.999, 1 - 1e-6, 1 - 1e-10, 1.0)
SIZES = (3, 100, 700)


def at_cosines(size, rng):
    """(x, others): vectors of equal norm at those angles from x."""
    x, aside = rng.standard_normal((2, size))
    aside -= x * (x @ aside) / (x @ x)
    aside *= np.linalg.norm(x) / np.linalg.norm(aside)
    return x, np.array([c * x + np.sqrt(1 - c * c) * aside for c in COSINES])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 1e-6), (np.float64, 1e-14)])
def test_no_digit_is_lost_between_far_pairs_and_near_ones(dtype, limit, size, rng):
    x, others = (v.astype(dtype) for v in at_cosines(size, rng))
    found = NET.kernel(x[None], others, engine="cpu")
    exact = np.array([precise_kernels.kernels(LAYERS, x, y) for y in others])
    own = precise_kernels.kernels(LAYERS, x, x)
    for i, values in enumerate((found.nngp, found.ntk)):
        assert np.max(np.abs(np.asarray(values[0], float) - exact[:, i])) <= limit * own[i]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_angle_of_near_pairs_keeps_its_digits(dtype, rng):
    """What Θ is short of that of equal inputs is the angle, the root of a distance of which products keep little."""
    x, aside = rng.standard_normal((2, 700))
    others = np.array([x + s * aside for s in (0.3, 0.1, 1e-2, 1e-3)]).astype(dtype)
    x = x.astype(dtype)
    net = nn.Sequential(nn.Dense(1), nn.Relu(), nn.Dense(1))
    found = np.asarray(net.kernel(x[None], others, engine="cpu").ntk[0], float)
    exact = np.array(
        [precise_kernels.kernels([("dense", 1.0, 0.0), ("phi", 0.0), ("dense", 1.0, 0.0)], x, y)[1] for y in others]
    )
    size = (x.astype(float) ** 2).mean()
    assert np.max(np.abs(found - exact)) <= 8 * np.finfo(dtype).eps * size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("instructions", run.instruction_sets())
@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_a_pair_has_one_kernel_wherever_it_stands(net, instructions, dtype, rng):
    """Whole vectors of pairs go through a few rows at a time, lone columns and the diagonal by operations."""
    x = rng.standard_normal((83, 150)).astype(dtype)
    x[40:60] += 3 * x[0]  # near each other, and not equally
    x[70] = x[5]
    steps, number = plan(net.lower(x.shape[1:])[1]), run.instruction_sets().index(instructions)
    whole = run.kernels(steps, x, x.copy(), number)
    for first, second in (
        (slice(41, 42), slice(0, 83)),
        (slice(3, 74), slice(38, 57)),
        (slice(30, 40), slice(1, 3)),
        (slice(40, 43), slice(44, 45)),
    ):
        parts = run.kernels(steps, x[first].copy(), x[second].copy(), number)
        for a, b in zip(whole, parts, strict=True):
            np.testing.assert_array_equal(b, a[first, second])
    for values in whole:
        np.testing.assert_array_equal(values[70], values[5])
    for values in run.kernels(steps, x, None, number):
        np.testing.assert_array_equal(values, values.T)


def test_many_threads_and_few_give_the_same_numbers(rng, monkeypatch):
    x, y = (rng.standard_normal((n, 600)).astype(np.float32) for n in (150, 210))
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append([NET.kernel(x, y, engine="cpu").ntk, NET.kernel(x, engine="cpu").ntk])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite_reach_their_own_kernels_alone(bad, rng, monkeypatch):
    x = rng.standard_normal((20, 40))
    steps = plan(NET.lower((40,))[1])
    clean = run.kernels(steps, x, x.copy())
    x[7, 3] = bad
    refused = []
    monkeypatch.setattr(run, "check_representable", lambda *given: refused.append(given))
    found = run.kernels(steps, x, x.copy())
    assert refused
    others = np.arange(20) != 7
    for a, b in zip(found, clean, strict=True):
        assert not np.isfinite(a[7]).any()
        np.testing.assert_array_equal(a[others][:, others], b[others][:, others])
