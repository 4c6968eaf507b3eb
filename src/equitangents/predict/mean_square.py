"""Gradient flow on the mean squared loss: one network, the ensemble of infinitely many, and posteriors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from equitangents import precision
from equitangents._types import Tree
from equitangents.errors import InvalidArgumentError
from equitangents.functional import Get, named, names_of
from equitangents.inference import Flow
from equitangents.inference.spectrum import Spectrum
from equitangents.predict.outputs import (
    OutputLayout,
    checked,
    decomposed,
    gaussian,
    precision_of,
    symmetric,
    targets,
    through,
)


def gradient_descent_mse(
    k_train_train: Tree,
    y_train: Tree,
    learning_rate: float = 1.0,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """Outputs of one network under gradient flow on the squared loss, from those at time 0.

    `y_train`: (N, outputs), or (N, …). `k_train_train`: (N, N) with trace_axes=(-1,), (N, N, outputs, outputs) with
    trace_axes=(); in general two of each axis of y_train that is not in `trace_axes`. Returns
    predict_fn(t=None, fx_train_0=0.0, fx_test_0=None, k_test_train=None), which gives the outputs at the training
    inputs, and with `fx_test_0` also at test inputs, with the axes of t first. t=None is infinite time.
    Works under jax.jit.
    """
    y, kernel = targets(y_train), checked("the kernel", k_train_train)
    layout = OutputLayout.of(y, trace_axes)
    layout.check("k_train_train", kernel, train=True)
    dtype = precision_of(k_train_train)
    decompose = lambda kernel: decomposed(layout.matrix(kernel), dtype, diag_reg, diag_reg_absolute_scale)
    known = None if precision.is_traced(kernel) else decompose(kernel)
    flow = Flow(learning_rate, int(np.prod(layout.shape)))

    def run(kernel: Tree, y: Tree, t: Tree, train_0: Tree, test_0: Tree, cross: Tree) -> tuple[np.ndarray, ...]:
        return _outputs(known or decompose(kernel), flow, layout, y, t, train_0, test_0, cross)

    def predict_fn(t: Tree = None, fx_train_0: Tree = 0.0, fx_test_0: Tree = None, k_test_train: Tree = None) -> Tree:
        if fx_test_0 is not None and k_test_train is None:
            raise InvalidArgumentError("k_test_train", None, "the kernel between test and training with fx_test_0")
        shapes, times = [], np.shape(t)
        cross = None if fx_test_0 is None else checked("k_test_train", k_test_train)
        if fx_train_0 is not None:
            shapes.append((*times, *layout.shape))
        if cross is not None:
            layout.check("k_test_train", cross, train=False)
            shapes.append((*times, *layout.test_shape(cross)))
        found = through(run, shapes, k_train_train, kernel, y, t, fx_train_0, fx_test_0, cross)
        return found[0] if len(found) == 1 else found

    return predict_fn


def _outputs(
    spectrum: Spectrum, flow: Flow, layout: OutputLayout, y: Tree, t: Tree, train_0: Tree, test_0: Tree, cross: Tree
) -> tuple[np.ndarray, ...]:
    """Outputs at the training inputs and at test inputs, in double precision; only those with outputs at time 0."""
    y = np.asarray(y, np.float64)
    start = np.broadcast_to(0.0 if train_0 is None else np.asarray(train_0, np.float64), layout.shape)
    rows = spectrum.vectors.T @ layout.rows(y - start)
    train, test = [], []
    matrix = None if cross is None else layout.matrix(np.asarray(cross, np.float64))
    for time in _times(t):
        if not time >= 0:
            raise InvalidArgumentError("t", time, remedy="times are ≥ 0, and None is infinite time")
        if cross is not None:  # long times need all of a singular kernel
            spectrum.check_known(flow.rate, time)
        if train_0 is not None:
            left = spectrum.vectors @ (flow.decay(spectrum.eigenvalues, time)[:, None] * rows)
            train.append(y if t is None else y - layout.outputs(left, layout.shape))
        if matrix is not None:
            shape = layout.test_shape(cross)
            moved = matrix @ (spectrum.vectors @ (flow.response(spectrum.eigenvalues, time)[:, None] * rows))
            test.append(np.asarray(test_0, np.float64) + layout.outputs(moved, shape))
    return tuple(np.reshape(v, (*np.shape(t), *v[0].shape)) for v in (train, test) if v)


def _times(t: Tree) -> Sequence[float] | np.ndarray:
    """All times as a sequence; None is infinite time."""
    return [np.inf] if t is None else np.asarray(t, np.float64).ravel()


def max_learning_rate(
    ntk_train_train: Tree, y_train_size: int | None = None, momentum: float = 0.0, eps: float = 1e-12
) -> float:
    """2 (1 + momentum) · y_train_size/(λ_max + eps): above it gradient descent on the mean squared loss diverges.

    `y_train_size`: number of targets, N · outputs; None takes it from the kernel.
    """
    kernel = np.asarray(checked("the kernel", ntk_train_train), np.float64)
    matrix = symmetric(OutputLayout((), ()).matrix(kernel), precision_of(ntk_train_train))
    size = len(matrix) if y_train_size is None else y_train_size
    largest = scipy.linalg.eigh(matrix, eigvals_only=True, subset_by_index=[len(matrix) - 1] * 2)[0]
    return float(2 * (1 + momentum) * size / (largest + eps))


def gradient_descent_mse_ensemble(
    kernel_fn: Callable[..., Any],
    x_train: Tree,
    y_train: Tree,
    learning_rate: float = 1.0,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
    **kernel_fn_train_train_kwargs: Tree,
) -> Callable[..., Any]:
    """Mean and covariance of infinitely many wide networks under gradient flow on the squared loss.

    Returns predict_fn(t=None, x_test=None, get=None, compute_cov=False): `get` is "nngp" (the last layer trains), "ntk"
    (all do), or a tuple of both; the result an array, or `Gaussian(mean, covariance)` with `compute_cov`, in a named
    tuple unless `get` is a string. t=None is infinite time; x_test=None means the training inputs, without `diag_reg`.
    Outputs and kernels are as in `gradient_descent_mse`. Works under jax.jit.
    """
    kernels: dict[str, Any] = {}
    spectra: dict[str, Spectrum] = {}
    y = targets(y_train)
    layout = OutputLayout.of(y, trace_axes)
    flow = Flow(learning_rate, int(np.prod(layout.shape)))

    def train(name: str) -> Tree:
        if name in kernels:
            return kernels[name]
        found = checked("the kernel", kernel_fn(x_train, None, name, **kernel_fn_train_train_kwargs))
        layout.check("the training kernel", found, train=True)
        if not precision.is_traced(found):  # a traced one is of one program alone
            kernels[name] = found
        return found

    def spectrum(name: str, kernel: Tree, dtype: Tree) -> Spectrum:
        if name in spectra:
            return spectra[name]
        found = decomposed(layout.matrix(np.asarray(kernel)), dtype, diag_reg, diag_reg_absolute_scale)
        if name in kernels:
            spectra[name] = found
        return found

    def predict_fn(
        t: Tree = None, x_test: Tree = None, get: Get = None, compute_cov: bool = False, **keywords: Tree
    ) -> Tree:
        names = names_of(get)
        mixed = _between(kernel_fn_train_train_kwargs, keywords)
        cross: dict[str, Any] = {}
        prior = None
        if x_test is not None:
            for name in dict.fromkeys([*names, "nngp"] if compute_cov else names):
                cross[name] = checked("the kernel", kernel_fn(x_test, x_train, name, **mixed))
            if compute_cov:
                prior = checked(
                    "the kernel", kernel_fn(x_test, None, "nngp", **{**kernel_fn_train_train_kwargs, **keywords})
                )
        outcomes = []
        for name in names:
            kernel = train(name)
            dtype = precision_of(kernel)

            def run(t: Tree, y: Tree, kernel: Tree, nngp: Tree, k: Tree, k_nngp: Tree, prior: Tree, name: str = name,
                    dtype: Tree = dtype) -> tuple[np.ndarray, ...]:  # fmt: skip
                return _moments(
                    name, spectrum(name, kernel, dtype), flow, layout, t, y, nngp, k, k_nngp, prior, compute_cov
                )

            cross_kernel = cross.get(name)
            shapes = [(*np.shape(t), *shape) for shape in layout.moments(cross_kernel, compute_cov)]
            nngp = train("nngp") if compute_cov and name == "ntk" else None
            both = cross.get("nngp") if compute_cov and name == "ntk" else None
            outcomes.append(through(run, shapes, x_train, t, y, kernel, nngp, cross_kernel, both, prior))
        return named(get, names, list(map(gaussian, outcomes)), "Gaussians")

    return predict_fn


def _between(train: dict[str, Any], test: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments of the kernel between test and training inputs; from pairs, the first of each."""
    found = {**train, **test}
    for name in set(train) & set(test):
        if all(isinstance(v, tuple) and len(v) == 2 for v in (train[name], test[name])):
            found[name] = (test[name][0], train[name][0])
    return found


def _moments(
    name: str, spectrum: Spectrum, flow: Flow, layout: OutputLayout, t: Tree, y: Tree, nngp: Tree, cross: Tree,
    cross_nngp: Tree, prior: Tree, compute_cov: bool,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Means, and covariances, at all times, of networks with mean 0 at initialisation."""
    train_0, test_0 = (0.0, None) if cross is None else (None, 0.0)
    means = _outputs(spectrum, flow, layout, y, t, train_0, test_0, cross)
    if not compute_cov:
        return means
    k, b, c, p = (
        None if v is None else layout.matrix(np.asarray(v, np.float64)) for v in (nngp, cross, cross_nngp, prior)
    )
    shape = layout.shape if cross is None else layout.test_shape(cross)
    found = [layout.covariance(_covariance(name, spectrum, flow, time, k, b, c, p), shape) for time in _times(t)]
    if cross is None and t is None:
        found = [np.zeros_like(found[0])]
    return (*means, np.reshape(found, (*np.shape(t), *found[0].shape)))


def _covariance(
    name: str, spectrum: Spectrum, flow: Flow, time: float, nngp: Tree, cross: Tree, cross_nngp: Tree, prior: Tree
) -> Any:
    """The covariance at one time, (rows, rows)."""
    vectors, values = spectrum.vectors, spectrum.eigenvalues
    decay = flow.decay(values, time)
    if cross is None:
        left = vectors * decay @ vectors.T
        return (vectors * (values * decay**2) @ vectors.T) if name == "nngp" else left @ nngp @ left
    gain = cross @ vectors * flow.response(values, time)
    if name == "nngp":
        return prior - (gain * (1 + decay)) @ (cross @ vectors).T
    through_training = gain @ vectors.T
    mixed = through_training @ cross_nngp.T
    return prior + through_training @ nngp @ through_training.T - mixed - mixed.T


def gp_inference(
    k_train_train: Tree,
    y_train: Tree,
    diag_reg: float = 0.0,
    diag_reg_absolute_scale: bool = False,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """Posteriors from kernel matrices: "nngp", "ntk" (fully trained networks) and "ntkgp" (Θ as a prior).

    `k_train_train`: an array, or an object with `nngp` and `ntk`, as returned by kernel_fn(x, None). Returns
    predict_fn(get=None, k_test_train=None, k_test_test=None), which gives means, and with `k_test_test` covariances.
    Covariances of "ntk" at test inputs need both kernels: single arrays raise InvalidArgumentError. Works under
    jax.jit.
    """
    y = targets(y_train)
    layout = OutputLayout.of(y, trace_axes)
    example = k_train_train if hasattr(k_train_train, "dtype") else getattr(k_train_train, "nngp", None)
    example = getattr(k_train_train, "ntk", None) if example is None else example

    def predict_fn(get: Get = None, k_test_train: Tree = None, k_test_test: Tree = None) -> Tree:
        names = names_of(get, "ntkgp")
        outcomes = []
        for name in names:
            kind, prior = ("ntk", "ntk") if name == "ntkgp" else (name, "nngp")
            kernel = _part("k_train_train", k_train_train, kind)
            layout.check("k_train_train", kernel, train=True)
            covariance = k_test_test is not None
            blocks: list[Any] = [None] * 4
            if k_test_train is not None:
                blocks[0] = _part("k_test_train", k_test_train, kind)
                layout.check("k_test_train", blocks[0], train=False)
            if k_test_train is not None and covariance:
                blocks[1] = _part("k_test_train", k_test_train, prior, both=name == "ntk")
                blocks[2] = _part("k_test_test", k_test_test, prior)
                blocks[3] = _part("k_train_train", k_train_train, "nngp", both=True) if name == "ntk" else None

            def run(
                kernel: Tree, y: Tree, cross: Tree, cross_prior: Tree, prior: Tree, nngp: Tree,
                law: str = "ntk" if name == "ntk" else "nngp", covariance: bool = covariance,
            ) -> tuple[np.ndarray, ...]:  # fmt: skip
                matrix = symmetric(layout.matrix(np.asarray(kernel)), precision_of(kernel))
                spectrum = decomposed(matrix, np.float64, diag_reg, diag_reg_absolute_scale)
                flow = Flow(1.0, len(matrix))
                return _moments(law, spectrum, flow, layout, None, y, nngp, cross, cross_prior, prior, covariance)

            outcomes.append(through(run, layout.moments(blocks[0], covariance), example, kernel, y, *blocks))
        return named(get, names, list(map(gaussian, outcomes)), "Gaussians")

    return predict_fn


def _part(name: str, kernels: Tree, kind: str, *, both: bool = False) -> Tree:
    """The kernel of this kind; with `both`, arrays raise, since they may be of the other kind."""
    array = hasattr(kernels, "dtype")
    if both and (array or getattr(kernels, kind, None) is None):
        raise InvalidArgumentError(
            name,
            "an array" if array else f"without {kind}",
            remedy="the covariance of 'ntk' at test inputs needs both: kernel_fn(x1, x2, ('nngp', 'ntk'))",
        )
    if array:
        return checked(name, kernels)
    if getattr(kernels, kind, None) is None:
        raise InvalidArgumentError(name, kernels, f"a named tuple with nngp and ntk, as {kind} is needed")
    return checked(name, getattr(kernels, kind))
