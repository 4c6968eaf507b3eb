"""Compiled products with windows against literal sums in double precision, forth and back, and where they are used."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.kernels.engines.cpu.run import instruction_sets
from equitangents.nn import compiled_windows
from equitangents.nn.compiled_windows import window_product
from equitangents.nn.conv import window_box
from oracles.literal_kernels import grid_reads

CASES = [  # grid, window, stride, padding, channels, outputs: whole vectors and parts, windows past borders
    ((5, 7), (3, 3), 1, "circular", 3, 5),
    ((8, 8), (2, 2), 2, "zero", 1, 16),
    ((6, 9), (3, 2), (1, 2), "valid", 16, 17),
    ((4, 4), (5, 5), 1, "circular", 2, 33),
    ((13, 3), (4, 1), (3, 1), "zero", 33, 3),
    ((10,), (3,), 2, "circular", 4, 9),
    # channels of one vector of AVX-512, in single precision, then in double: rows shorter and longer than its registers
    ((6, 19), (3, 3), 1, "zero", 16, 5),
    ((3, 17), (4, 2), 1, "circular", 16, 1),
    ((2, 35), (2, 5), 1, "valid", 16, 3),
    ((6, 19), (3, 3), 1, "circular", 8, 5),
    ((3, 17), (5, 2), 1, "zero", 8, 1),
    ((2, 35), (2, 5), 1, "valid", 8, 3),
]


def literal(x, w, reads):
    """Σ_u x(stride·p − low + u) w(u), the window at p being of the positions reads[p]."""
    padded = np.concatenate([x.reshape(len(x), -1, x.shape[-1]), np.zeros((len(x), 1, x.shape[-1]))], axis=1)
    return padded[:, reads].reshape(len(x), len(reads), -1) @ w


@pytest.mark.quick(2)
@pytest.mark.parametrize(("grid", "window", "stride", "padding", "channels", "outputs"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_and_their_transposes_are_literal_sums(grid, window, stride, padding, channels, outputs, dtype, rng):
    box = window_box(window, stride, padding, grid)
    out, reads = grid_reads(grid, window, stride if isinstance(stride, tuple) else (stride,) * len(grid), padding)
    assert out == box.out_shape
    x = rng.normal(size=(2, 3, *grid, channels))
    w = rng.normal(size=(2, np.prod(window) * channels, outputs))
    y = rng.normal(size=(2, 3, *out, outputs))
    given = [a.astype(dtype) for a in (x, w, y)]
    x, w, y = (a.astype(np.float64) for a in given)
    exact = np.stack([literal(*pair, reads) for pair in zip(x, w, strict=True)]).reshape(y.shape)
    tolerance = {"float32": 2e-6, "float64": 1e-14}[dtype]
    with jax.enable_x64(dtype == "float64"):

        @jax.jit
        def run(x, w, y):
            def one(x, w, y, variant):
                found, back = jax.vjp(lambda x, w: window_product(x, w, box, variant), x, w)
                return found, *back(y)

            shared = jax.vmap(lambda w: window_product(x[0], w, box))(w)
            return [jax.vmap(lambda *a, v=v: one(*a, v))(x, w, y) for v in range(len(instruction_sets()))], shared

        found, shared = jax.tree.map(np.asarray, run(*given))
    # ⟨y, x ∗ w⟩ is linear in x and in w: transposes are known from products alone
    v, u = rng.normal(size=x.shape), rng.normal(size=w.shape)
    along_x = sum(np.vdot(c, literal(*pair, reads)) for c, pair in zip(y, zip(v, w, strict=True), strict=True))
    along_w = sum(np.vdot(c, literal(*pair, reads)) for c, pair in zip(y, zip(x, u, strict=True), strict=True))
    for product, to_x, to_w in found:
        assert product.dtype == dtype
        assert np.abs(product - exact).max() <= tolerance * np.abs(exact).max()
        for back, direction, slope in ((to_x, v, along_x), (to_w, u, along_w)):
            size = np.linalg.norm(back) * np.linalg.norm(direction)
            assert abs(np.vdot(back, direction) - slope) <= tolerance * size
    first = np.stack([literal(x[0], member, reads) for member in w]).reshape(y.shape)
    assert np.abs(shared - first).max() <= tolerance * np.abs(first).max()


@pytest.mark.quick(2)
@pytest.mark.parametrize(("dtype", "channels"), [("float32", 16), ("float64", 8)])
@pytest.mark.parametrize("padding", ["valid", "zero", "circular"])
@pytest.mark.parametrize("long", [0, 1])
def test_inputs_have_the_same_bits_however_their_sums_are_held(long, padding, dtype, channels, rng):
    """Strides of 1 may hold them in registers, others do not; one row of outputs, or one column, is at any stride."""
    grid, window, strides = [3, 3], [3, 3], [1, 1]
    grid[long], window[long], strides[1 - long] = 21, 4, 3
    if padding != "valid":
        grid[1 - long] = window[1 - long] = 1
    boxes = [window_box(tuple(window), tuple(stride), padding, tuple(grid)) for stride in ([1, 1], strides)]
    assert {box.out_shape for box in boxes} == {boxes[0].out_shape}
    w = rng.normal(size=(np.prod(window) * channels, 7)).astype(dtype)
    y = rng.normal(size=(2, *boxes[0].out_shape, 7)).astype(dtype)
    found = []
    with jax.enable_x64(dtype == "float64"):
        for box in boxes:
            product = lambda x, box=box: window_product(x, w, box)
            (back,) = jax.jit(jax.vjp(product, np.zeros((2, *grid, channels), dtype))[1])(y)
            found.append(np.asarray(back))
    assert np.abs(found[0]).min() > 0
    np.testing.assert_array_equal(*found)


def ensemble(members, convolutions=1):
    first = (nn.Conv(4, (3, 3), padding="zero", b_std=0.1), nn.Relu())[: 2 * convolutions - 2]
    net = nn.Sequential(*first, nn.Conv(3, (2, 2), stride=2), nn.Erf(), nn.Flatten(), nn.Dense(2))
    return et.DeepEnsemble(net, members, learning_rate=0.05, epochs=3, batch_size=4, dtype="float64")


@pytest.mark.slow
@pytest.mark.parametrize("convolutions", [1, 2])
def test_trained_members_are_those_of_patches(convolutions, rng, monkeypatch):
    x, y = rng.normal(size=(10, 6, 6, 2)), rng.normal(size=(10, 2))
    fast = ensemble(3, convolutions).fit(x, y).predict_members(x)
    untrained = ensemble(3, convolutions).set_params(epochs=0).fit(x, y).predict_members(x)
    jax.clear_caches()
    calls = []
    monkeypatch.setattr("equitangents.nn.conv.why_not", lambda *a: calls.append(a) or "not here")
    slow = ensemble(3, convolutions).fit(x, y).predict_members(x)
    jax.clear_caches()
    assert calls
    assert np.abs(fast - slow).max() <= 1e-12
    assert np.abs(fast - untrained).max() > 1e-3


@pytest.mark.slow
def test_a_member_does_not_depend_on_the_others(rng):
    x, y = rng.normal(size=(10, 6, 6, 2)), rng.normal(size=(10, 2))
    assert np.array_equal(ensemble(1).fit(x, y).predict_members(x)[0], ensemble(5).fit(x, y).predict_members(x)[0])


@pytest.mark.slow
def test_networks_outside_training_keep_all_their_derivatives():
    net = nn.Sequential(nn.Conv(2, (3, 3)), nn.Erf(), nn.Flatten(), nn.Dense(1))
    params = net.init(jax.random.key(0), (4, 4, 1))
    x = jnp.ones((1, 4, 4, 1))
    _, slope = jax.jvp(lambda x: net.apply(params, x), (x,), (x,))
    assert np.isfinite(slope).all()


@pytest.mark.parametrize(
    ("box", "dtype", "why"),
    [
        (window_box((3, 3, 3), 1, "zero", (4, 4, 4)), np.float32, "one and two dimensions"),
        (window_box((3, 3), 1, "zero", (4, 4)), np.float16, "float16"),
    ],
)
def test_what_the_loops_do_not_know_is_said(box, dtype, why):
    assert "training" in compiled_windows.why_not(box, dtype)
    with compiled_windows.compiled_windows():
        assert why in compiled_windows.why_not(box, dtype)
        assert compiled_windows.why_not(window_box((3, 3), 1, "zero", (4, 4)), np.float32) is None
