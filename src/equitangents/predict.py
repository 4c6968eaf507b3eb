"""Predictions of trained wide networks under their names in neural-tangents.

Its loss is the mean over samples and outputs, ½ mean |f - y|², so that residuals decay as e^{-ηΘt/(N·outputs)}; the
convention of `InfiniteEnsemble`, a mean over samples alone, is faster by the number of outputs.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.inference import Flow, Spectrum, decompose, pull_over_time
from equitangents.precision import scope
from equitangents.validation import check_array

Get = str | Sequence[str]


class Gaussian(NamedTuple):
    """Mean and covariance of outputs."""

    mean: Any
    covariance: Any


def gradient_descent_mse(
    k_train_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """Outputs of one network under gradient flow on the squared loss, from those at time 0.

    `k_train_train`: (N, N) with trace_axes=(-1,), or (N, N, outputs, outputs) with trace_axes=(). Returns
    predict_fn(t=None, fx_train_0=0.0, fx_test_0=None, k_test_train=None), which gives the outputs at the training
    inputs, and with `fx_test_0` also those at test inputs; times in front. t=None is infinite time.
    """
    traced = _traced_axes(trace_axes)
    y, kernel = _targets(y_train), _square(k_train_train, traced)
    _check_rows(kernel, y, traced)
    spectrum = _decomposed(kernel, diag_reg, diag_reg_absolute_scale)
    flow = Flow(learning_rate, y.size)

    def predict_fn(t: Any = None, fx_train_0: Any = 0.0, fx_test_0: Any = None, k_test_train: Any = None) -> Any:
        if fx_test_0 is not None and k_test_train is None:
            raise InvalidArgumentError("fx_test_0 is given without k_test_train, the kernel between test and training")
        times = [np.inf] if t is None else np.asarray(t, np.float64).ravel()
        pull = y - (0.0 if fx_train_0 is None else np.asarray(fx_train_0, np.float64))
        rows = spectrum.vectors.T @ _rows(pull, y.shape, traced)
        train, test = [], []
        for time in times:
            _check_time(spectrum, time, needed=fx_test_0 is not None)
            if fx_train_0 is not None:
                left = spectrum.vectors @ (flow.decay(spectrum.eigenvalues, time)[:, None] * rows)
                train.append(y if t is None else y - left.reshape(y.shape))
            if fx_test_0 is not None:
                cross = _square(k_test_train, traced)
                moved = cross @ (spectrum.vectors @ (flow.response(spectrum.eigenvalues, time)[:, None] * rows))
                start = np.asarray(fx_test_0, np.float64)
                test.append(start + moved.reshape((np.shape(k_test_train)[0], *y.shape[1:])))
        shape = () if t is None else np.shape(t)
        found = tuple(_like(k_train_train, np.reshape(v, (*shape, *v[0].shape))) for v in (train, test) if v)
        return found[0] if len(found) == 1 else found

    return predict_fn


def gradient_descent_mse_ensemble(
    kernel_fn: Callable[..., Any],
    x_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
    **kernel_fn_train_train_kwargs: Any,
) -> Callable[..., Any]:
    """Mean and covariance of infinitely many wide networks under gradient flow on the squared loss.

    Returns predict_fn(t=None, x_test=None, get=None, compute_cov=False): `get` is "nngp" (the last layer trains), "ntk"
    (all do), or a tuple of both; the result an array, or `Gaussian(mean, covariance)` with `compute_cov`, in a named
    tuple where `get` is no string. t=None is infinite time; x_test=None are the training inputs, without `diag_reg`.
    """
    _only_traced(trace_axes)
    kernels: dict[str, Any] = {}
    spectra: dict[str, Spectrum] = {}
    y = _targets(y_train)

    def train(name: str) -> np.ndarray:
        if name not in kernels:
            kernels[name] = _array(kernel_fn(x_train, None, name, **kernel_fn_train_train_kwargs))
            _check_rows(kernels[name], y, True)
        return kernels[name]

    def spectrum(name: str) -> Spectrum:
        if name not in spectra:
            spectra[name] = _decomposed(train(name), diag_reg, diag_reg_absolute_scale)
        return spectra[name]

    def predict_fn(
        t: Any = None, x_test: Any = None, get: Get | None = None, compute_cov: bool = False, **keywords: Any
    ) -> Any:
        names = ("nngp", "ntk") if get is None else (get,) if isinstance(get, str) else tuple(get)
        keywords = {**kernel_fn_train_train_kwargs, **keywords}
        cross, prior = {}, None
        if x_test is not None:
            wanted = dict.fromkeys([*names, "nngp"] if compute_cov else names)
            cross = {name: _array(kernel_fn(x_test, x_train, name, **keywords)) for name in wanted}
            prior = _array(kernel_fn(x_test, None, "nngp", **keywords)) if compute_cov else None
        flow = Flow(learning_rate, y.size)
        outcomes = []
        for name in names:
            _check_name(name)
            parts = [
                _ensemble_at(name, spectrum(name), flow, time, y, train, cross, prior, compute_cov, t is None)
                for time in ([np.inf] if t is None else np.asarray(t, np.float64).ravel())
            ]
            shape = () if t is None else np.shape(t)
            mean = _like(x_train, np.reshape([p[0] for p in parts], (*shape, *parts[0][0].shape)))
            if not compute_cov:
                outcomes.append(mean)
                continue
            outcomes.append(
                Gaussian(mean, _like(x_train, np.reshape([p[1] for p in parts], (*shape, *parts[0][1].shape))))
            )
        return outcomes[0] if isinstance(get, str) else namedtuple("Gaussians", names)(*outcomes)

    return predict_fn


def _ensemble_at(
    name: str,
    spectrum: Spectrum,
    flow: Flow,
    time: float,
    y: np.ndarray,
    train: Callable[[str], np.ndarray],
    cross: dict[str, np.ndarray],
    prior: np.ndarray | None,
    compute_cov: bool,
    limit: bool,
) -> tuple[np.ndarray, Any]:
    """(mean, covariance or None) at one time."""
    vectors, values = spectrum.vectors, spectrum.eigenvalues
    _check_time(spectrum, time, needed=bool(cross))
    decay = flow.decay(values, time)
    if not cross:
        mean = y if limit else y - vectors @ (decay[:, None] * (vectors.T @ y))
        if not compute_cov:
            return mean, None
        left = vectors * decay @ vectors.T
        if limit:
            return mean, np.zeros_like(left)
        return mean, (vectors * (values * decay**2) @ vectors.T) if name == "nngp" else left @ train("nngp") @ left
    gain = cross[name] @ vectors * flow.response(values, time)
    mean = gain @ (vectors.T @ y)
    if not compute_cov:
        return mean, None
    assert prior is not None
    if name == "nngp":
        return mean, prior - (gain * (1 + decay)) @ (cross[name] @ vectors).T
    through = gain @ vectors.T
    mixed = through @ cross["nngp"].T
    return mean, prior + through @ train("nngp") @ through.T - mixed - mixed.T


def gp_inference(
    k_train_train: Any,
    y_train: Any,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """Posteriors from kernel matrices alone: "nngp", "ntk" (networks trained for ever) and "ntkgp" (Θ as a prior).

    `k_train_train`: an array, or a named tuple with `nngp` and `ntk`, as kernel_fn(x, None) gives. Returns
    predict_fn(get=None, k_test_train=None, k_test_test=None), which gives means, and with `k_test_test` covariances.
    """
    _only_traced(trace_axes)
    y = _targets(y_train)
    factors: dict[str, Any] = {}

    def solve(name: str, right: np.ndarray) -> np.ndarray:
        if name not in factors:
            matrix = _part(k_train_train, name)
            _check_rows(matrix, y, True)
            unit = 1.0 if diag_reg_absolute_scale else np.trace(matrix) / len(matrix)
            factors[name] = _factor(matrix + diag_reg * unit * np.eye(len(matrix)))
        return scipy.linalg.cho_solve(factors[name], right)

    def predict_fn(get: Get | None = None, k_test_train: Any = None, k_test_test: Any = None) -> Any:
        names = ("nngp", "ntk") if get is None else (get,) if isinstance(get, str) else tuple(get)
        outcomes = []
        for name in names:
            _check_name(name, "ntkgp")
            kind, prior = ("ntk", "ntk") if name == "ntkgp" else (name, "nngp")
            if k_test_train is None:
                mean, covariance = y, np.zeros((len(y), len(y)))
            else:
                cross = _part(k_test_train, kind)
                mean, covariance = cross @ solve(kind, y), None
                if k_test_test is not None:
                    pull = solve(kind, cross.T).T
                    mixed = pull @ _part(k_test_train, prior).T
                    covariance = _part(k_test_test, prior) - (mixed + mixed.T) / (2 if name != "ntk" else 1)
                    if name == "ntk":
                        covariance = covariance + pull @ _part(k_train_train, "nngp") @ pull.T
            like = k_train_train if hasattr(k_train_train, "shape") else k_train_train[0]
            mean = _like(like, mean)
            if k_test_test is None or covariance is None:
                outcomes.append(mean)
            else:
                outcomes.append(Gaussian(mean, _like(like, covariance)))
        return outcomes[0] if isinstance(get, str) else namedtuple("Gaussians", names)(*outcomes)

    return predict_fn


def max_learning_rate(
    ntk_train_train: Any, y_train_size: int | None = None, momentum: float = 0.0, eps: float = 1e-12
) -> float:
    """2 (1 + momentum) · y_train_size/(λ_max + eps): above it gradient descent on the mean squared loss diverges.

    `y_train_size`: number of targets, N · outputs; None takes it from the kernel.
    """
    kernel = _square(ntk_train_train, np.ndim(ntk_train_train) == 2)
    size = len(kernel) if y_train_size is None else y_train_size
    largest = scipy.linalg.eigh(kernel, eigvals_only=True, subset_by_index=[len(kernel) - 1] * 2)[0]
    return float(2 * (1 + momentum) * size / (largest + eps))


def gradient_descent(
    loss: Callable[[Any, Any], Any],
    k_train_train: Any,
    y_train: Any,
    learning_rate: float = 1.0,
    momentum: float | None = None,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """Outputs of one wide network under gradient flow on any loss(outputs, y_train), such as cross entropy.

    The flow in the space of outputs is integrated with controlled error (`inference.pull_over_time`). With momentum it
    is of second order, in times √learning_rate · t. Returns predict_fn(t, fx_train_0=0.0, fx_test_0=None,
    k_test_train=None) as `gradient_descent_mse` does; times are finite.
    """
    _only_traced(trace_axes)
    y, kernel = _targets(y_train), _square(k_train_train, True)
    _check_rows(kernel, y, True)
    rate = learning_rate if momentum is None else learning_rate**0.5
    friction = None if momentum is None else (1.0 - momentum) / rate
    with scope(np.float64):
        slope = jax.jit(jax.grad(lambda f: loss(f, jnp.asarray(y))))

    def gradient(outputs: np.ndarray) -> np.ndarray:
        with scope(np.float64):
            return np.asarray(slope(jnp.asarray(outputs, np.float64)))

    def predict_fn(t: Any, fx_train_0: Any = 0.0, fx_test_0: Any = None, k_test_train: Any = None) -> Any:
        if fx_test_0 is not None and k_test_train is None:
            raise InvalidArgumentError("fx_test_0 is given without k_test_train, the kernel between test and training")
        start = np.broadcast_to(0.0 if fx_train_0 is None else np.asarray(fx_train_0, np.float64), y.shape)
        times = rate * np.asarray(np.inf if t is None else t, np.float64)
        pulls = pull_over_time(gradient, kernel, start, times.ravel(), friction=friction)
        found = []
        if fx_train_0 is not None:
            found.append(start - kernel @ pulls)
        if fx_test_0 is not None:
            found.append(np.asarray(fx_test_0, np.float64) - _square(k_test_train, True) @ pulls)
        shaped = tuple(_like(k_train_train, np.reshape(v, (*times.shape, *v.shape[1:]))) for v in found)
        return shaped[0] if len(shaped) == 1 else shaped

    return predict_fn


def _traced_axes(trace_axes: int | Sequence[int]) -> bool:
    """Whether kernels are without outputs, (N, N): the same number for each of them."""
    axes = (trace_axes,) if isinstance(trace_axes, int) else tuple(trace_axes)
    if axes not in ((-1,), (1,), ()):
        raise NotImplementedError(f"trace_axes={trace_axes!r} is not here; use (-1,) or ()")
    return axes != ()


def _only_traced(trace_axes: int | Sequence[int]) -> None:
    if not _traced_axes(trace_axes):
        raise NotImplementedError("trace_axes=() is there for gradient_descent_mse; infinite width has (-1,)")


def _check_name(name: str, *others: str) -> None:
    if name not in ("nngp", "ntk", *others):
        raise InvalidArgumentError(f"get is {name!r}; expected one of {', '.join(('nngp', 'ntk', *others))}")


def _square(kernel: Any, traced: bool) -> np.ndarray:
    """A kernel as a matrix: (N1, N2), or (N1 · outputs, N2 · outputs)."""
    kernel = _array(kernel)
    if kernel.ndim == 2 and traced:
        return kernel
    if kernel.ndim == 4 and not traced:
        return kernel.transpose(0, 2, 1, 3).reshape((kernel.shape[0] * kernel.shape[2], -1))
    expected = "(N1, N2) with trace_axes=(-1,)" if traced else "(N1, N2, outputs, outputs) with trace_axes=()"
    raise ShapeError(f"the kernel has shape {kernel.shape}; expected {expected}")


def _targets(y_train: Any) -> np.ndarray:
    return np.asarray(check_array("y_train", y_train), np.float64)


def _check_rows(kernel: np.ndarray, y: np.ndarray, traced: bool) -> None:
    """As many rows as there are targets, or with all outputs apart, numbers in them."""
    if len(kernel) != (len(y) if traced else y.size):
        raise ShapeError(f"the training kernel has {len(kernel)} rows, which y_train of shape {y.shape} does not fit")


def _rows(values: np.ndarray, shape: tuple[int, ...], traced: bool) -> np.ndarray:
    values = np.broadcast_to(values, shape)
    return values.reshape((shape[0], -1)) if traced else values.reshape((-1, 1))


def _decomposed(kernel: np.ndarray, diag_reg: float, absolute: bool) -> Spectrum:
    unit = np.trace(kernel) / len(kernel)
    return decompose(kernel, ridge=diag_reg / unit if absolute and diag_reg else diag_reg)


def _check_time(spectrum: Spectrum, time: float, *, needed: bool) -> None:
    if not time >= 0:
        raise InvalidArgumentError(f"t is {time}; times are ≥ 0, and None is infinite time")
    if np.isinf(time) and needed:
        spectrum.check_invertible()


def _factor(matrix: np.ndarray) -> Any:
    try:
        return scipy.linalg.cho_factor(matrix, lower=True)
    except np.linalg.LinAlgError:
        decompose(matrix).check_invertible()
        raise


def _part(kernels: Any, name: str) -> np.ndarray:
    if hasattr(kernels, "shape"):
        return _array(kernels)
    if getattr(kernels, name, None) is None:
        raise InvalidArgumentError(f"kernels come without {name}; give a named tuple with nngp and ntk")
    return _array(getattr(kernels, name))


def _array(kernel: Any) -> np.ndarray:
    return np.asarray(check_array("the kernel", kernel, allow_empty=True), np.float64)


def _like(example: Any, values: np.ndarray) -> Any:
    """In the type and precision of `example`."""
    example = getattr(example, "x", example)
    dtype = example.dtype if hasattr(example, "dtype") and example.dtype in (np.float32, np.float64) else np.float64
    if isinstance(example, jax.Array):
        return jnp.asarray(values.astype(dtype))
    return values.astype(dtype)
