"""Where fields of unequal norm inside meet: branches, pools between layers, constants, masks, graphs and attention.

The oracle computes with sixty decimal digits. Errors are in units of the inputs' own kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from equitangents import Graphs, Masked, groups, nn
from equitangents.kernels import duals
from laws.test_norms_inside import LIMITS, PHI, assert_exact, directions
from oracles import precise_fields

W, BIAS = 1.1, 0.3
RATIOS = (0.3, 1.0, 3.6)


@dataclass(frozen=True)
class Raised(nn.Nonlinearity):
    """φ + c."""

    phi: nn.Nonlinearity
    c: float

    @property
    def dual(self):
        return duals.Shifted(self.phi.dual, self.c)

    def function(self, x):
        return self.phi.function(x) + self.c


def dense(name, c=0.0):
    """A dense layer and a nonlinearity: as layers, and as operations of the oracle."""
    phi = Raised(PHI[name], c) if c else PHI[name]
    return [nn.Dense(1, W_std=W, b_std=BIAS), phi], [("affine", W, BIAS), ("phi", name, c)]


def conv(name, c=0.0, zeros=False):
    """A convolution of windows of 3 and a nonlinearity, inside the signal or with zeros around it."""
    phi = Raised(PHI[name], c) if c else PHI[name]
    layer = nn.Conv(1, 3, W_std=W, b_std=BIAS, padding="zero" if zeros else "valid")
    return [layer, phi], [("windows", 3, zeros), ("affine", W, BIAS), ("phi", name, c)]


def chain(*parts):
    layers, ops = zip(*parts, strict=True)
    return [la for each in layers for la in each], [op for each in ops for op in each]


def residual(*parts):
    layers, ops = chain(*parts)
    return [nn.Residual(*layers)], [("branches", [], ops)]


def parallel(*branches, join=nn.Sum):
    name = "branches" if join is nn.Sum else "side by side"
    return [nn.Parallel(*(la for la, _ in branches)), join()], [(name, *(ops for _, ops in branches))]


END = [nn.Dense(1, W_std=W, b_std=BIAS)], [("affine", W, BIAS)]
FLAT = [nn.Flatten()], [("flatten",)]
AVERAGE = [nn.GlobalAvgPool()], [("pool", None)]
POOL = [nn.AvgPool(2)], [("pool", 2)]
AROUND = [nn.AvgPool(3, stride=1, padding="circular")], [("around", 3)]
ATTENTION = [nn.Attention(1, b_std=0.3, W_key_std=0.1)], [("attend", "softmax", 0.1, 1.0, 0.3)]
LINEAR = [nn.Attention(1, b_std=0.3, mechanism="identity")], [("attend", "identity", 1.0, 1.0, 0.3)]
ROOTS = [nn.Attention(1, b_std=0.3, mechanism="identity", scaling="root")], [("attend by roots", 1.0, 1.0, 0.3)]

NORM = [*END[0], nn.LayerNorm(positions=True, eps=2.0)], [*END[1], ("normalise", 2.0)]

VECTORS = {
    "a residual sum": chain(dense("cube"), residual(dense("square")), END),
    "a residual sum of fields with means": chain(dense("exp"), residual(dense("square")), dense("erf"), END),
    "branches of unlike growth": chain(
        dense("erf"), parallel(dense("hermite"), dense("cube"), dense(0.0)), dense("square"), END
    ),
    "channels side by side": chain(
        dense("square"), parallel(dense("cube"), dense("gelu"), join=nn.Concatenate), dense(0.0), END
    ),
    "residuals inside each other": chain(dense("cube"), residual(dense("square"), residual(dense("cos"))), END),
    "a constant": chain(dense("cube", 0.7), dense("square", -0.4), END),
    "a constant behind a kink": chain(dense("cube"), dense(0.0, 2.0), dense("cube"), dense(0.0), END),
    "a constant and a residual sum": chain(dense("square", 1.3), residual(dense(0.0, -0.5)), dense("sin"), END),
}
SIGNALS = {
    "a pool between layers": chain(conv("cube"), POOL, conv("square"), AVERAGE),
    "two pools": chain(conv("square", zeros=True), POOL, dense("hermite"), POOL, dense("gelu"), FLAT, END),
    "a residual sum with windows": chain(
        conv("cube"), residual(dense("square"), conv("square", zeros=True)), AVERAGE, END
    ),
    "branches": chain(conv("square"), parallel(dense("cube"), dense(0.0)), dense("erf"), FLAT),
    "a residual sum around a pool": chain(dense("square"), residual(dense("cube"), AROUND), dense("square"), AVERAGE),
    "a constant before a pool": chain(conv("cube", 0.5), POOL, dense("square", 1.0), AVERAGE),
}
STRUCTURED = {
    "windows and a residual sum": chain(
        conv("cube", zeros=True), residual(dense("square", 0.3)), dense(0.0), AVERAGE, END
    ),
    "normalisation": chain(dense("cube"), NORM, dense("square"), AVERAGE, END),
    "softmax attention": chain(dense("cube"), ATTENTION, dense("hermite"), AVERAGE, END),
    "linear attention": chain(dense("square"), LINEAR, dense("erf"), AVERAGE, END),
    "attention of roots": chain(dense(0.0), ROOTS, dense("square"), AVERAGE, END),
    "branches and a pool": chain(
        dense("exp"), parallel(conv("cube", zeros=True), dense("cos"), join=nn.Concatenate), AVERAGE, dense("cube"), END
    ),
}


def check(network, x, dtype, made=lambda x: x, keep=lambda i, v: v, graphs=None, engine="cpu"):
    """Kernels of all pairs of `made(x)` against those of what `keep` leaves of each signal."""
    layers, ops = network
    x = x.astype(dtype)
    kept = [np.atleast_2d(keep(i, v)) for i, v in enumerate(x)]
    index = {id(v): i for i, v in enumerate(kept)}
    pair = lambda f, g: graphs and (graphs[index[id(f)]], graphs[index[id(g)]])
    found = nn.Sequential(*layers).kernel(made(x), engine=engine)
    assert_exact(found, lambda f, g: precise_fields.kernels(ops, f, g, pair(f, g)), kept, LIMITS[dtype])


@pytest.mark.quick(2)
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", VECTORS)
def test_of_vectors(name, dtype, rng):
    check(VECTORS[name], directions((6,), RATIOS, rng), dtype)


@pytest.mark.quick(2)
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", SIGNALS)
def test_of_signals(name, dtype, rng):
    check(SIGNALS[name], directions((8, 3), RATIOS, rng)[:6], dtype)


@pytest.mark.quick(2)
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", STRUCTURED)
def test_under_masks(name, dtype, rng):
    x = directions((5, 4), RATIOS, rng)[:6]
    sizes = np.array([5, 4, 5, 3, 5, 4])
    there = np.arange(5) < sizes[:, None]
    check(STRUCTURED[name], x, dtype, lambda x: Masked(x, there), lambda i, v: v[: sizes[i]])


@pytest.mark.parametrize("dtype", LIMITS)
def test_on_graphs(dtype, rng):
    x, graphs = directions((4, 4), RATIOS, rng)[:6], rng.integers(0, 2, (6, 4, 4)).astype(float)
    aggregate = [nn.Aggregate()], [("aggregate",)]
    network = chain(dense("cube"), aggregate, dense("square", 0.5), aggregate, residual(dense("gelu")), AVERAGE, END)
    check(network, x, dtype, lambda x: Graphs(x, graphs), graphs=list(graphs))


def lift():
    return nn.SphereLift(groups.so3(4), 3, resolution=3)


CUBE, SQUARE = nn.Monomial(3), nn.RectifiedMonomial(2)
TURNED = {
    "full windows": (6, [lift(), CUBE, nn.GroupConv(3), SQUARE, nn.GroupPool(), nn.Dense(1)]),
    "a residual sum": (3, [lift(), CUBE, nn.Residual(nn.GroupConv(3), nn.Relu()), nn.GroupPool(), nn.Dense(1)]),
    "a nonlinearity after the mean": (9, [lift(), CUBE, nn.GroupPool(), nn.Dense(1), CUBE, nn.Dense(1)]),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", TURNED)
def test_on_rotations_kernels_are_homogeneous(name, dtype, rng):
    degree, layers = TURNED[name]
    net, x, y = nn.Sequential(*layers), *rng.standard_normal((2, 2, 9, 2)).astype(dtype)
    found, scaled = (net.kernel(c * x, y, engine="cpu") for c in (1, 8))
    own = [net.kernel_diagonal(v, engine="cpu") for v in (x, y)]
    for kernel in ("nngp", "ntk"):
        one, other = (np.asarray(getattr(k, kernel), float) for k in (found, scaled))
        first, second = (np.sqrt(np.asarray(getattr(k, kernel), float)) for k in own)
        assert np.max(np.abs(other / 8.0**degree - one) / (first[:, None] * second)) <= LIMITS[dtype]


@pytest.mark.quick(1)
@pytest.mark.parametrize("wave", [nn.Sin(), nn.Cos()])
def test_waves_of_fields_far_from_one_another_in_size_stay_finite(wave, rng):
    """Rounding alone is left of the distance of a small field from one far larger: less than opposite ones have."""
    x = rng.normal(size=(3, 2, 2, 2))
    network = nn.Sequential(nn.Dense(1, W_std=8.0), nn.Exp(), nn.Dense(1), wave, nn.GlobalAvgPool(), nn.Dense(1))
    found = network.kernel(x, None, "cpu")
    np.testing.assert_allclose(found.nngp, network.kernel(x, None, "reference").nngp, rtol=1e-13, atol=1e-15)
    assert np.isfinite(found.nngp).all()
    assert np.isfinite(found.ntk).all()
