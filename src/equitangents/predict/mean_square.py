"""One network under gradient flow on the mean squared loss, and the largest learning rate of gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from equitangents import precision
from equitangents._types import Tree
from equitangents.errors import InvalidArgumentError
from equitangents.inference import Flow
from equitangents.inference.spectrum import Spectrum
from equitangents.predict.outputs import Layout, checked, decomposed, precision_of, symmetric, targets, through


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
    trace_axes=(); generally two of each axis of y_train that is not in `trace_axes`. Returns
    predict_fn(t=None, fx_train_0=0.0, fx_test_0=None, k_test_train=None), which gives the outputs at the training
    inputs, and with `fx_test_0` also those at test inputs; times in front. t=None is infinite time.
    Works under jax.jit.
    """
    y, kernel = targets(y_train), checked("the kernel", k_train_train)
    layout = Layout.of(y, trace_axes)
    layout.check("k_train_train", kernel, train=True)
    dtype = precision_of(k_train_train)
    known: list[Spectrum] = []
    if not precision.is_traced(kernel):
        known.append(decomposed(layout.matrix(kernel), dtype, diag_reg, diag_reg_absolute_scale))
    flow = Flow(learning_rate, int(np.prod(layout.shape)))

    def run(kernel: Tree, y: Tree, t: Tree, train_0: Tree, test_0: Tree, cross: Tree) -> tuple[np.ndarray, ...]:
        found = known or [decomposed(layout.matrix(kernel), dtype, diag_reg, diag_reg_absolute_scale)]
        return _outputs(found[0], flow, layout, y, t, train_0, test_0, cross)

    def predict_fn(t: Tree = None, fx_train_0: Tree = 0.0, fx_test_0: Tree = None, k_test_train: Tree = None) -> Tree:
        if fx_test_0 is not None and k_test_train is None:
            raise InvalidArgumentError("fx_test_0 is given without k_test_train, the kernel between test and training")
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
    spectrum: Spectrum, flow: Flow, layout: Layout, y: Tree, t: Tree, train_0: Tree, test_0: Tree, cross: Tree
) -> tuple[np.ndarray, ...]:
    """Outputs at the training inputs and at test inputs, in double precision."""
    y = np.asarray(y, np.float64)
    start = np.broadcast_to(0.0 if train_0 is None else np.asarray(train_0, np.float64), layout.shape)
    rows = spectrum.vectors.T @ layout.rows(y - start)
    train, test = [], []
    matrix = None if cross is None else layout.matrix(np.asarray(cross, np.float64))
    for time in [np.inf] if t is None else np.asarray(t, np.float64).ravel():
        check_time(spectrum, flow.rate, time, needed=cross is not None)
        if train_0 is not None:
            left = spectrum.vectors @ (flow.decay(spectrum.eigenvalues, time)[:, None] * rows)
            train.append(y if t is None else y - layout.outputs(left, layout.shape))
        if matrix is not None:
            shape = layout.test_shape(cross)
            moved = matrix @ (spectrum.vectors @ (flow.response(spectrum.eigenvalues, time)[:, None] * rows))
            test.append(np.asarray(test_0, np.float64) + layout.outputs(moved, shape))
    return tuple(np.reshape(v, (*np.shape(t), *v[0].shape)) for v in (train, test) if v)


def check_time(spectrum: Spectrum, rate: float, time: float, *, needed: bool) -> None:
    """Raise if a time is negative, or too long for a singular kernel."""
    if not time >= 0:
        raise InvalidArgumentError("t", time, remedy="times are ≥ 0, and None is infinite time")
    if needed:
        spectrum.check_known(rate, time)


def max_learning_rate(
    ntk_train_train: Tree, y_train_size: int | None = None, momentum: float = 0.0, eps: float = 1e-12
) -> float:
    """2 (1 + momentum) · y_train_size/(λ_max + eps): above it gradient descent on the mean squared loss diverges.

    `y_train_size`: number of targets, N · outputs; None takes it from the kernel.
    """
    kernel = np.asarray(checked("the kernel", ntk_train_train), np.float64)
    matrix = symmetric(Layout((), ()).matrix(kernel), precision_of(ntk_train_train))
    size = len(matrix) if y_train_size is None else y_train_size
    largest = scipy.linalg.eigh(matrix, eigvals_only=True, subset_by_index=[len(matrix) - 1] * 2)[0]
    return float(2 * (1 + momentum) * size / (largest + eps))
