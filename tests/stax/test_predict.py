"""Law: `predict` is gradient flow on the mean squared loss, by matrix exponentials and inverses."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import equitangents as et
from equitangents import predict
from equitangents.errors import InvalidArgumentError, NotFiniteError, ShapeError

RNG = np.random.default_rng(3)
Y = RNG.normal(size=(6, 2))


class Kernel(NamedTuple):
    nngp: np.ndarray
    ntk: np.ndarray


def kernels():
    """Of 6 training and 3 test inputs."""
    a, b = RNG.normal(size=(2, 9, 9))
    K = a @ a.T / 9
    return K, K + b @ b.T / 9


K, T = kernels()
TRAIN, TEST = slice(0, 6), slice(6, 9)
DD = Kernel(K[TRAIN, TRAIN], T[TRAIN, TRAIN])
TD = Kernel(K[TEST, TRAIN], T[TEST, TRAIN])
TT = Kernel(K[TEST, TEST], T[TEST, TEST])


def regularised(kernel, reg=0.0):
    return kernel + reg * np.trace(kernel) / len(kernel) * np.eye(len(kernel))


def operator(kernel, cross, time, rate):
    """Θ(x, X) Θ⁻¹ (1 - e^{-ηΘt/(N outputs)})."""
    moved = np.eye(len(kernel)) if time is None else np.eye(6) - scipy.linalg.expm(-rate * time * kernel / Y.size)
    return cross @ np.linalg.solve(kernel, moved)


def kernel_fn(x1, x2, get, **_):
    rows = {6: TRAIN, 3: TEST}
    part = rows[len(x1)], rows[len(x1 if x2 is None else x2)]
    return {"nngp": K, "ntk": T}[get][part]


X, X_TEST = np.zeros((6, 1)), np.zeros((3, 1))


@pytest.mark.parametrize("time", [None, 0.0, 2.5, np.array([0.5, 4.0])])
@pytest.mark.parametrize("get", ["nngp", "ntk"])
def test_an_ensembles_mean_and_covariance_follow_gradient_flow(get, time):
    run = predict.gradient_descent_mse_ensemble(kernel_fn, X, Y, learning_rate=0.7, diag_reg=1e-2)
    found = run(time, x_test=X_TEST, get=get, compute_cov=True)
    kernel = regularised(getattr(DD, get), 1e-2)
    for i, t in enumerate([time] if time is None or np.ndim(time) == 0 else time):
        A = operator(kernel, getattr(TD, get), t, 0.7)
        mean, cov = (v if np.ndim(time) == 0 else v[i] for v in found)
        assert np.max(np.abs(mean - A @ Y)) <= 1e-12
        if get == "ntk":
            expected = TT.nngp + A @ DD.nngp @ A.T - A @ TD.nngp.T - TD.nngp @ A.T
        else:
            expected = TT.nngp - operator(kernel, TD.nngp, None if t is None else 2 * t, 0.7) @ TD.nngp.T
        assert np.max(np.abs(cov - expected)) <= 1e-12


def test_one_network_follows_gradient_flow_from_where_it_starts():
    train0, test0 = RNG.normal(size=(6, 2)), RNG.normal(size=(3, 2))
    run = predict.gradient_descent_mse(DD.ntk, Y, learning_rate=0.7)
    train, test = run(3.0, train0, test0, TD.ntk)
    left = scipy.linalg.expm(-0.7 * 3.0 * DD.ntk / Y.size)
    assert np.max(np.abs(train - (Y + left @ (train0 - Y)))) <= 1e-12
    assert np.max(np.abs(test - (test0 + operator(DD.ntk, TD.ntk, 3.0, 0.7) @ (Y - train0)))) <= 1e-12
    final, last = run(None, train0, test0, TD.ntk)
    assert np.array_equal(final, Y)
    assert np.max(np.abs(last - (test0 + TD.ntk @ np.linalg.solve(DD.ntk, Y - train0)))) <= 1e-11


def test_posteriors_are_those_of_gaussian_processes():
    run = predict.gp_inference(DD, Y, diag_reg=0.1, diag_reg_absolute_scale=True)
    found = run(get=("nngp", "ntkgp", "ntk"), k_test_train=TD, k_test_test=TT)
    for name, kind, prior in (("nngp", "nngp", "nngp"), ("ntkgp", "ntk", "ntk"), ("ntk", "ntk", "nngp")):
        A = getattr(TD, kind) @ np.linalg.inv(getattr(DD, kind) + 0.1 * np.eye(6))
        cross, mean = A @ getattr(TD, prior).T, getattr(found, name).mean
        expected = getattr(TT, prior) - cross
        if name == "ntk":
            expected = expected - cross.T + A @ DD.nngp @ A.T
        assert np.max(np.abs(mean - A @ Y)) <= 1e-12
        assert np.max(np.abs(getattr(found, name).covariance - expected)) <= 1e-12


def test_training_inputs_are_fitted_and_the_largest_learning_rate_is_that_of_descent():
    run = predict.gradient_descent_mse_ensemble(kernel_fn, X, Y)
    assert np.array_equal(run(get="ntk"), Y)
    mean, cov = run(1.5, get="ntk", compute_cov=True)
    left = scipy.linalg.expm(-1.5 * DD.ntk / Y.size)
    assert np.max(np.abs(mean - (Y - left @ Y))) <= 1e-12
    assert np.max(np.abs(cov - left @ DD.nngp @ left)) <= 1e-12
    largest = np.linalg.eigvalsh(DD.ntk)[-1]
    assert predict.max_learning_rate(DD.ntk, y_train_size=12) == pytest.approx(24 / largest)
    assert predict.max_learning_rate(DD.ntk, y_train_size=12, momentum=0.9) == pytest.approx(1.9 * 24 / largest)


def test_compiled_predictions_are_those_of_their_own_inputs_and_leave_nothing_behind():
    def inverse(x1, x2, get, **_):
        return 1 / (1 + jnp.sum((x1[:, None] - (x1 if x2 is None else x2)) ** 2, axis=2))

    start = lambda x: predict.gradient_descent_mse_ensemble(inverse, x, Y)
    x, test = RNG.normal(size=(6, 3)), RNG.normal(size=(3, 3))
    compiled = jax.jit(lambda x: start(x)(2.5, x_test=test, get="ntk"))
    for train in (x, 2 * x):
        assert np.max(np.abs(compiled(train) - start(train)(2.5, x_test=test, get="ntk"))) <= 1e-6
    run = start(x)
    first = jax.jit(lambda test: run(2.5, x_test=test, get="ntk"))(test)
    assert np.max(np.abs(first - run(2.5, x_test=test, get="ntk"))) <= 1e-6


def test_what_has_no_counterpart_names_our_own_way():
    with pytest.raises(ShapeError, match=r"expected \(6, 6, 2, 2\).*trace_axes"):
        predict.gradient_descent(None, DD.ntk, Y, trace_axes=())
    with pytest.raises(et.errors.NotPositiveDefiniteError, match="ridge"):
        predict.gradient_descent_mse(np.ones((6, 6)), Y)(None, 0.0, 0.0, np.ones((3, 6)))


def softmax(f):
    powers = np.exp(f - f.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def cross_entropy(f, y):
    return -jnp.mean(jnp.sum(y * jax.nn.log_softmax(f), axis=1))


def test_cross_entropy_along_the_linearised_flow_is_its_integral_in_small_steps():
    labels, f0, g0 = np.eye(2)[[0, 1, 1, 0, 1, 0]], RNG.normal(size=(6, 2)), RNG.normal(size=(3, 2))
    run = predict.gradient_descent(cross_entropy, DD.ntk, labels, learning_rate=0.7)
    train, test = run(np.array([8.0, 0.0]), f0, g0, TD.ntk)
    f, g, steps = f0.copy(), g0.copy(), 400
    for _ in range(steps):  # Runge and Kutta's method, of fourth order
        pulls = []
        for share in (0.0, 0.5, 0.5, 1.0):
            at = f - (share * 0.7 * 8.0 / steps * DD.ntk @ pulls[-1] if pulls else 0)
            pulls.append((softmax(at) - labels) / 6)
        pull = 0.7 * 8.0 / steps * (pulls[0] + 2 * pulls[1] + 2 * pulls[2] + pulls[3]) / 6
        f, g = f - DD.ntk @ pull, g - TD.ntk @ pull
    assert np.max(np.abs(train[0] - f)) <= 1e-6
    assert np.max(np.abs(test[0] - g)) <= 1e-6
    assert np.array_equal(train[1], f0)
    with pytest.raises(et.errors.InvalidArgumentError, match="finite times"):
        run(None, f0)


def test_the_flow_with_momentum_is_a_damped_oscillator():
    run = predict.gradient_descent(lambda f, y: 0.5 * jnp.mean((f - y) ** 2), DD.ntk, Y, 0.25, momentum=0.9)
    values, vectors = np.linalg.eigh(DD.ntk)
    time, friction = 0.5 * 6.0, 0.1 / 0.5
    root = np.sqrt(friction**2 / 4 - values / Y.size + 0j)
    left = np.exp(-friction * time / 2) * (np.cosh(root * time) + friction / (2 * root) * np.sinh(root * time))
    expected = Y - vectors @ (left.real[:, None] * (vectors.T @ Y))
    assert np.max(np.abs(run(6.0, 0.0) - expected)) <= 1e-6


@pytest.mark.parametrize(
    "start",
    [
        predict.gradient_descent_mse,
        lambda k, y: predict.gp_inference(k, y)("ntk", np.ones((2, 3))),
        lambda k, y: predict.gradient_descent(np.sum, k, y),
    ],
    ids=["descent", "posterior", "any loss"],
)
@pytest.mark.parametrize(
    ("kernel", "targets", "error"),
    [
        (np.eye(3), np.full((3, 1), np.nan), NotFiniteError),
        (np.full((3, 3), np.nan), np.ones((3, 1)), NotFiniteError),
        (np.eye(3), np.ones((4, 1)), ShapeError),
        (np.eye(3), np.ones((0, 1)), ShapeError),
    ],
    ids=["targets that are NaN", "kernels that are NaN", "other rows", "no rows"],
)
def test_bad_kernels_and_targets_are_refused(start, kernel, targets, error):
    with pytest.raises(error):
        start(kernel, targets)


def test_a_kernel_that_is_nan_has_no_largest_learning_rate():
    with pytest.raises(NotFiniteError):
        predict.max_learning_rate(np.full((3, 3), np.nan))


def test_times_before_the_start_and_targets_of_other_inputs_are_refused():
    x = RNG.normal(size=(6, 3))
    kernel_fn = et.stax.serial(et.stax.Dense(1), et.stax.Relu(), et.stax.Dense(1))[2]
    one, many = predict.gradient_descent_mse(DD.ntk, Y), predict.gradient_descent_mse_ensemble(kernel_fn, x, Y)
    for t in (-1.0, np.nan):
        with pytest.raises(InvalidArgumentError, match=f"t is {t}; times are ≥ 0"):
            one(t)
        with pytest.raises(InvalidArgumentError, match=f"t is {t}; times are ≥ 0"):
            many(t, x[:2], "ntk")
    with pytest.raises(ShapeError, match="training kernel has shape"):
        predict.gradient_descent_mse_ensemble(kernel_fn, x, Y[:4])(None, x[:2], "ntk")


def test_a_tangent_kernel_is_not_taken_for_the_nngp():
    run = predict.gp_inference(DD.ntk, Y)
    assert np.max(np.abs(run("ntk", TD.ntk) - TD.ntk @ np.linalg.solve(DD.ntk, Y))) <= 1e-11
    for train, test in ((DD.ntk, TD), (DD, TD.ntk)):
        with pytest.raises(InvalidArgumentError, match="needs both"):
            predict.gp_inference(train, Y)("ntk", test, TT)
    _, covariance = predict.gp_inference(DD.nngp, Y)("nngp", TD.nngp, TT.nngp)
    assert np.max(np.abs(covariance - (TT.nngp - TD.nngp @ np.linalg.solve(DD.nngp, TD.nngp.T)))) <= 1e-12


def test_kernels_in_single_precision_may_be_asymmetric_by_rounding():
    kernel = DD.ntk.astype(np.float32)
    kernel[0, 1] = np.nextafter(kernel[1, 0], np.float32(10))
    found = predict.gradient_descent_mse(kernel, Y)(2.0)
    assert np.max(np.abs(found - predict.gradient_descent_mse(DD.ntk, Y)(2.0))) <= 1e-5
    assert predict.max_learning_rate(kernel) == pytest.approx(predict.max_learning_rate(DD.ntk), rel=1e-6)
    kernel[0, 1] += 0.1
    with pytest.raises(InvalidArgumentError, match=r"entries ij and ji that differ by 0\.1"):
        predict.gradient_descent_mse(kernel, Y)


def test_predictions_inside_of_programs_are_those_outside():
    single = [v.astype(np.float32) for v in (DD.ntk, Y, TD.ntk)]
    run = predict.gradient_descent_mse(*single[:2], learning_rate=0.7)
    start = np.ones((3, 2), np.float32)
    for t in (2.0, np.array([0.5, 3.0], np.float32)):
        for inside, outside in zip(jax.jit(run)(t, 0.0, start, single[2]), run(t, 0.0, start, single[2]), strict=True):
            assert inside.shape == outside.shape
            assert np.max(np.abs(inside - outside)) <= 1e-6
    kernels_of = jnp.stack([single[0], 2 * single[0]])
    each = jax.vmap(lambda k: predict.gradient_descent_mse(k, single[1])(1.0))(kernels_of)
    assert np.max(np.abs(each[1] - predict.gradient_descent_mse(2 * single[0], single[1])(1.0))) <= 1e-6
    both = predict.gp_inference(DD, Y)
    cross = jnp.asarray(TD.ntk, jnp.float32), jnp.asarray(TD.nngp, jnp.float32)
    inside = jax.jit(lambda k, n: both("ntk", Kernel(n, k), TT.nngp))(*cross)
    assert np.max(np.abs(inside.covariance - both("ntk", TD, TT.nngp).covariance)) <= 1e-4


@pytest.mark.parametrize("trace_axes", [(), (-1,), (1, 2), (-2,)])
def test_outputs_of_any_axes_are_those_of_one_matrix(trace_axes):
    y = RNG.normal(size=(3, 2, 2))
    kept = [a for a in range(3) if a not in {a % 3 for a in trace_axes}]
    size = int(np.prod([y.shape[a] for a in kept]))
    root = RNG.normal(size=(size, size))
    matrix = root @ root.T / size + 0.1 * np.eye(size)
    split = matrix.reshape([y.shape[a] for a in kept] * 2)
    kernel = split.transpose([axis for i in range(len(kept)) for axis in (i, len(kept) + i)])
    found = predict.gradient_descent_mse(kernel, y, trace_axes=trace_axes)(3.0)
    order = kept + [a for a in range(3) if a not in kept]
    rows = y.transpose(order).reshape(size, -1)
    expected = rows - scipy.linalg.expm(-3.0 * matrix / y.size) @ rows
    assert np.max(np.abs(found.transpose(order).reshape(size, -1) - expected)) <= 1e-12


@pytest.mark.slow
def test_states_go_on_where_they_were():
    single = [v.astype(np.float32) for v in (DD.ntk, Y, TD.ntk)]
    loss = lambda f, y: ((f - y) ** 2).mean() / 2
    start = predict.ODEState(np.ones((6, 2), np.float32), np.ones((3, 2), np.float32))
    for momentum in (None, 0.5):
        run = predict.gradient_descent(loss, *single[:2], momentum=momentum)
        half = run(1.0, start, None, single[2])
        whole, once = run(2.0, start, None, single[2]), run(1.0, half, None, single[2])
        outside = run(2.0, start.fx_train, start.fx_test, single[2])
        for a, b, c in ((whole.fx_train, once.fx_train, outside[0]), (whole.fx_test, once.fx_test, outside[1])):
            assert np.max(np.abs(a - b)) <= 1e-5
            assert np.max(np.abs(a - c)) <= 1e-5
