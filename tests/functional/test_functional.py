"""Law: kernels of any function of parameters are products of its derivatives, whichever way they are computed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.functional import EmpiricalKernel, batch
from equitangents.kernels.tangent import cheapest, structure

RNG = np.random.default_rng(0)
X, OTHER = RNG.normal(size=(4, 3)).astype(np.float32), RNG.normal(size=(2, 3)).astype(np.float32)
PARAMS = {"w": RNG.normal(size=(3, 5)).astype(np.float32), "v": RNG.normal(size=(5, 2)).astype(np.float32)}


def f(params, x):
    """Not a network of this package."""
    return jnp.tanh(x @ params["w"]) @ params["v"]


def literal(x1, x2):
    """∂f/∂w and ∂f/∂v by hand, (N, outputs, parameters)."""

    def jacobian(x):
        h = np.tanh(x @ PARAMS["w"])
        dw = np.einsum("na,nh,ho->noah", x, 1 - h**2, PARAMS["v"]).reshape(len(x), 2, -1)
        dv = np.einsum("nh,op->nohp", h, np.eye(2)).reshape(len(x), 2, -1)
        return np.concatenate([dw, dv], axis=2)

    return np.einsum("iou,jpu->ijop", jacobian(x1), jacobian(x2))


@pytest.mark.quick(1)
@pytest.mark.parametrize("implementation", ["jacobians", "vectors", "structured"])
def test_all_ways_give_the_product_of_derivatives(implementation):
    full = literal(X, OTHER)
    forms = {
        (): (full, ()),
        (-1,): (np.einsum("ijoo->ij", full) / 2, ()),
        "each": (np.einsum("ijoo->ijo", full), (-1,)),
    }
    for trace, (expected, diagonal) in forms.items():
        fn = jax.jit(et.empirical_ntk_fn(f, () if trace == "each" else trace, diagonal, implementation=implementation))
        assert np.allclose(fn(X, OTHER, PARAMS), expected, rtol=1e-5, atol=1e-5)


def test_functions_with_another_number_of_rows_have_kernels_of_their_rows():
    def mixed(params, x):
        return (x.sum(axis=0) @ params["w"])[None]

    found = et.empirical_ntk_fn(mixed, ())(X, OTHER, PARAMS)
    expected = np.einsum("i,i,op->op", X.sum(axis=0), OTHER.sum(axis=0), np.eye(5))
    assert found.shape == (1, 1, 5, 5)
    assert np.allclose(found[0, 0], expected, rtol=1e-5, atol=1e-5)


def test_a_linearisation_and_expansions_are_taylors():
    moved = {name: value + 0.1 for name, value in PARAMS.items()}
    step = jnp.float32(1e-2)

    def along(t):
        return f({n: p + t * (moved[n] - p) for n, p in PARAMS.items()}, X)

    slope = (along(step) - along(-step)) / (2 * step)
    assert np.allclose(et.linearize(f, PARAMS)(moved, X), f(PARAMS, X) + slope, atol=2e-3)
    errors = [np.abs(et.taylor_expand(f, PARAMS, n)(moved, X) - f(moved, X)).max() for n in range(4)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2] > 32 * errors[3]


def test_monte_carlo_of_stax_triples_comes_near_the_kernel():
    init_fn, apply_fn, kernel_fn = et.stax.serial(et.stax.Dense(256), et.stax.Relu(), et.stax.Dense(16))
    estimate = et.monte_carlo_kernel_fn(init_fn, apply_fn, jax.random.key(0), 8)(X, None, ("nngp", "ntk"))
    exact = kernel_fn(X, None, ("nngp", "ntk"))
    for name in ("nngp", "ntk"):
        error = np.abs(getattr(estimate, name) - getattr(exact, name)).max()
        assert error <= 0.15 * np.abs(getattr(exact, name)).max()


def test_blocks_join_to_the_whole():
    _, _, kernel_fn = et.stax.serial(et.stax.Dense(4), et.stax.Relu(), et.stax.Dense(1))
    whole, parts = kernel_fn(X, OTHER, ("nngp", "ntk")), batch(kernel_fn, 3)(X, OTHER, ("nngp", "ntk"))
    assert np.allclose(parts.ntk, whole.ntk, rtol=1e-6)
    assert np.allclose(parts.nngp, whole.nngp, rtol=1e-6)


def test_each_input_draws_noise_of_its_own_in_blocks_too():
    def noise(params, x, rng):
        return params + jax.random.normal(rng, (len(x), 1))

    noise.draws = True
    init = lambda key, shape: (shape, jnp.zeros(1))
    found = et.monte_carlo_kernel_fn(init, noise, jax.random.key(0), 500, batch_size=2)(X, None, "nngp")
    assert np.max(np.abs(found - np.eye(4))) <= 0.3
    both = et.empirical_nngp_fn(noise)(X, OTHER, jnp.zeros(1), rng=jax.random.key(0))
    own = et.empirical_nngp_fn(noise)(X, None, jnp.zeros(1), rng=jax.random.key(0))
    assert not np.isclose(both[0, 0], own[0, 0])


def test_outputs_of_another_shape_are_refused():
    with pytest.raises(et.errors.ShapeError, match="outputs"):
        et.empirical_ntk_fn(lambda p, x: f(p, x)[:, 0])(X, None, PARAMS)
    with pytest.raises(NotImplementedError, match="implementation"):
        et.empirical_ntk_fn(f, implementation=4)


@pytest.mark.slow
@pytest.mark.parametrize("fn", [et.empirical_ntk_fn, et.empirical_nngp_fn])
def test_axes_that_outputs_do_not_have_are_refused_and_names_of_one_axis_are_one(fn):
    for axes in ((2,), 5, (-3,)):
        with pytest.raises(InvalidArgumentError, match=r"trace_axes is .*; expected -2 to 1; axes of f"):
            fn(f, axes)(X, None, PARAMS)
        with pytest.raises(InvalidArgumentError, match=r"diagonal_axes is .*; expected -2 to 1; axes of f"):
            fn(f, (), axes)(X, None, PARAMS)
    with pytest.raises(InvalidArgumentError, match="none of diagonal_axes"):
        fn(f, (1,), (-1,))(X, None, PARAMS)


def test_parameters_are_floating_numbers():
    counted = {**PARAMS, "count": np.array(3)}
    for refused in (
        lambda: EmpiricalKernel(f, counted).kernel(X),
        lambda: et.empirical_ntk_fn(f)(X, None, counted),
        lambda: et.taylor_expand(lambda p, x: f(p, x), counted, 2),
        lambda: et.linearize(f, counted),
    ):
        with pytest.raises(InvalidTypeError, match=r"params\['count'\] is of type int(32|64); expected floating"):
            refused()
    with pytest.raises(NetworkError, match="at least one parameter"):
        EmpiricalKernel(lambda p, x: x, {}).kernel(X)
    assert et.taylor_expand(f, counted, 0)(counted, X).shape == (4, 2)


@pytest.mark.parametrize(
    ("n_samples", "error"),
    [*((n, InvalidArgumentError) for n in (0, -1)), *((n, InvalidTypeError) for n in (1.5, True, [1, 2]))],
)
def test_numbers_of_networks_are_whole_numbers(n_samples, error):
    init_fn, apply_fn, _ = et.stax.Dense(2)
    with pytest.raises(error, match="n_samples is"):
        et.monte_carlo_kernel_fn(init_fn, apply_fn, jax.random.key(0), n_samples)


def test_ways_have_the_numbers_of_neural_tangents():
    assert [way.value for way in et.NtkImplementation] == [0, 1, 2, 3]
    x, w = np.array([[1.0, 2.0], [0.0, 1.0]], np.float32), np.ones((2, 3), np.float32)
    for way in et.NtkImplementation:
        assert np.allclose(et.empirical_ntk_fn(lambda w, x: x @ w, implementation=way)(x, None, w), x @ x.T)


def test_a_linearised_model_trains_as_an_ensembles_kernel():
    net = et.nn.Sequential(et.nn.Dense(8), et.nn.Erf(), et.nn.Dense(2))
    params = net.init(jax.random.key(0), (3,), dtype=np.float64)
    x, y = X.astype(float), RNG.normal(size=4)
    kernel = EmpiricalKernel(net.apply, params)
    model = et.InfiniteEnsemble(kernel, time=3.0).fit(x, y)
    theta = et.kernels.empirical(net, params, x)
    values, vectors = np.linalg.eigh(theta)
    expected = y - vectors @ (np.exp(-3.0 * values / 4) * (vectors.T @ y))
    assert np.allclose(model.predict(x), expected, rtol=1e-10)


def mixed(params, x):
    """Weights shared by positions, one on the left, one scaled, one used twice, a bias, and one used by itself."""
    jnp.multiply(3.0, params["left"])  # nothing reads it
    h = jnp.tanh(jnp.einsum("npc,cw->npw", x[:, :, None] * jnp.ones((1, 1, 2)), params["shared"]) + params["bias"])
    h = jnp.tanh(params["left"] @ h.transpose(1, 2, 0).reshape(3, -1)).reshape(2, 4, len(x)).transpose(2, 0, 1)
    h = h.reshape(len(x), -1) @ (0.7 * params["scaled"])
    return jnp.sin(h @ params["twice"]) @ params["twice"] + params["alone"] ** 2


SHAPES = {"shared": (2, 4), "bias": (4,), "left": (2, 3), "scaled": (8, 2), "twice": (2, 2), "alone": (2,)}


@pytest.mark.slow
@pytest.mark.parametrize("form", [((), ()), *(f for f in (((), (-1,)), ((-1,), ())))])
def test_structured_derivatives_are_those_of_jacobians_for_whatever_is_done_with_parameters(form):
    params = {name: RNG.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    known = structure(mixed, params, X)
    assert {sorted(params)[p.leaf]: (p.positions, p.inner, p.outer) for p in known.products} == {
        "shared": (3, 2, 4), "left": (4, 3, 2), "scaled": (1, 8, 2),
    }  # fmt: skip
    assert known.others == 4 + 4 + 2
    fns = [et.empirical_ntk_fn(mixed, *form, implementation=way) for way in ("jacobians", 3)]
    ways = jax.jit(lambda p: [fn(X, OTHER, p) for fn in fns])(params)
    assert ways[0].shape == ways[1].shape
    assert np.max(np.abs(ways[0] - ways[1])) <= 1e-5 * np.max(np.abs(ways[0]))


def test_the_way_that_counts_the_least_work_is_taken():
    wide = {"w": np.zeros((3, 500), np.float32), "v": np.zeros((500, 2), np.float32)}
    known = structure(f, wide, X)
    assert cheapest(4, 4, known, "mean") == known
    assert cheapest(10**6, 10**6, known, "mean") is None
    scaled = structure(lambda p, x: f({name: 0.5 * v for name, v in p.items()}, x), wide, X)
    assert scaled.products == known.products

    def convolved(params, x):
        return jnp.einsum("nij,jo->no", jnp.tanh(x[:, :, None] * jnp.ones((1, 1, 2)) @ params["w"]), params["v"])

    many = {"w": np.zeros((2, 2), np.float32), "v": np.zeros((2, 2), np.float32)}
    images = np.zeros((4, 64), np.float32)  # 64 positions share 4 weights: their Jacobian is smaller than its factors
    known = structure(convolved, many, images)
    assert cheapest(4, 4, known, "mean") == known.plain() != known
