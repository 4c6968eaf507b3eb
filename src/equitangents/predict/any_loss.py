"""One network under gradient flow on any loss, with or without momentum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.ode import odeint

from equitangents import precision
from equitangents._types import Tree
from equitangents.errors import InvalidArgumentError
from equitangents.inference import pull_over_time
from equitangents.precision import scope
from equitangents.predict.outputs import OutputLayout, checked, precision_of, symmetric, targets, through

_TOLERANCE = 1.4e-8  # of the integration inside JAX programs, relative and absolute


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ODEState:
    """Outputs at training and test inputs at one time, with their velocities if there is momentum."""

    fx_train: Tree = None
    fx_test: Tree = None
    qx_train: Tree = None
    qx_test: Tree = None


def gradient_descent(
    loss: Callable[[Any, Any], Any],
    k_train_train: Tree,
    y_train: Tree,
    learning_rate: float = 1.0,
    momentum: float | None = None,
    trace_axes: int | Sequence[int] = (-1,),
) -> Callable[..., Any]:
    """Outputs of one wide network under gradient flow on any loss(outputs, y_train), such as cross entropy.

    The flow in output space is integrated with controlled error (`inference.pull_over_time`; inside JAX
    programs and from an `ODEState` by JAX's own integrator). With momentum it is of second order, in times
    √learning_rate · t. Returns predict_fn(t, fx_train_0=0.0, fx_test_0=None, k_test_train=None) as
    `gradient_descent_mse` does; times are finite. If fx_train_0 is an `ODEState`, so is the result.
    """
    y, kernel = targets(y_train), checked("the kernel", k_train_train)
    layout = OutputLayout.of(y, trace_axes)
    layout.check("k_train_train", kernel, train=True)
    rate = learning_rate if momentum is None else learning_rate**0.5
    friction = None if momentum is None else (1.0 - momentum) / rate
    dtype = precision_of(k_train_train)

    def run(kernel: Tree, y: Tree, t: Tree, train_0: Tree, test_0: Tree, cross: Tree) -> tuple[np.ndarray, ...]:
        with scope(np.float64):
            slope = jax.jit(jax.grad(lambda f: loss(f, jnp.asarray(y))))

        def gradient(rows: np.ndarray) -> np.ndarray:
            with scope(np.float64):
                return layout.rows(np.asarray(slope(jnp.asarray(layout.outputs(rows, layout.shape)))))

        start = np.broadcast_to(0.0 if train_0 is None else np.asarray(train_0, np.float64), layout.shape)
        times = rate * np.asarray(np.inf if t is None else t, np.float64)
        matrix = symmetric(layout.matrix(np.asarray(kernel)), dtype)
        pulls = pull_over_time(gradient, matrix, layout.rows(start), times.ravel(), friction=friction)
        found = []
        if train_0 is not None:
            found.append([start - layout.outputs(matrix @ pull, layout.shape) for pull in pulls])
        if test_0 is not None:
            m, shape = layout.matrix(np.asarray(cross, np.float64)), layout.test_shape(cross)
            found.append([np.asarray(test_0, np.float64) - layout.outputs(m @ pull, shape) for pull in pulls])
        return tuple(np.reshape(v, (*times.shape, *v[0].shape)) for v in found)

    def predict_fn(t: Tree, fx_train_0: Tree = 0.0, fx_test_0: Tree = None, k_test_train: Tree = None) -> Tree:
        state = fx_train_0 if isinstance(fx_train_0, ODEState) else None
        if (fx_test_0 if state is None else state.fx_test) is not None and k_test_train is None:
            raise InvalidArgumentError("k_test_train", None, "the kernel between test and training with fx_test_0")
        cross = None if k_test_train is None else checked("k_test_train", k_test_train)
        arguments = (kernel, y, t, fx_train_0, fx_test_0, None if fx_test_0 is None else cross)
        if state is None and not any(precision.is_traced(v) for v in arguments):
            found = through(run, [], k_train_train, *arguments)
            return found[0] if len(found) == 1 else found
        start = state or ODEState(0.0 if fx_train_0 is None else fx_train_0, fx_test_0)
        end = _integrated(
            loss, layout, jnp.asarray(kernel, dtype), jnp.asarray(y, dtype), cross, rate, friction, t, start
        )
        if state is not None:
            return end
        found = [v for v, wanted in ((end.fx_train, fx_train_0), (end.fx_test, fx_test_0)) if wanted is not None]
        return found[0] if len(found) == 1 else tuple(found)

    return predict_fn


def _integrated(
    loss: Tree,
    layout: OutputLayout,
    kernel: Tree,
    y: Tree,
    cross: Tree,
    rate: float,
    friction: float | None,
    t: Tree,
    state: ODEState,
) -> ODEState:
    """The flow from a state to each of the times, inside JAX programs; each time separately, in unit time."""
    kernels, shapes = {"train": kernel}, {"train": layout.shape}
    if state.fx_test is not None:
        kernels["test"], shapes["test"] = jnp.asarray(cross, y.dtype), layout.test_shape(cross)
    f, q = {}, {}
    for side, shape in shapes.items():
        f[side] = jnp.broadcast_to(jnp.asarray(getattr(state, f"fx_{side}"), y.dtype), shape)
        velocity = getattr(state, f"qx_{side}")
        q[side] = jnp.zeros_like(f[side]) if velocity is None else velocity
    slope = jax.grad(loss)

    def speed(values: Tree, _: Tree, time: Tree) -> Tree:
        f, q = values
        pull = slope(f["train"], y)
        forces = {side: -_product(layout, k, pull, f[side].shape) for side, k in kernels.items()}
        if friction is None:
            found = forces, q
        else:
            found = q, {side: force - friction * q[side] for side, force in forces.items()}
        return jax.tree.map(lambda v: time * v, found)

    def at(time: Tree) -> Tree:
        ends = odeint(speed, start, jnp.array([0.0, 1.0], y.dtype), rate * time, rtol=_TOLERANCE, atol=_TOLERANCE)
        return jax.tree.map(lambda v: v[-1], ends)

    start = (f, {} if friction is None else q)
    times = jnp.asarray(t, y.dtype)
    found = jax.vmap(at)(times.ravel())
    f, q = jax.tree.map(lambda v: v.reshape((*times.shape, *v.shape[1:])), found)
    return ODEState(f["train"], f.get("test"), q.get("train"), q.get("test"))


def _product(layout: OutputLayout, kernel: Tree, values: Tree, shape: tuple[int, ...]) -> Tree:
    """Θ v for outputs v; the layout's methods also work on JAX arrays."""
    return layout.outputs(layout.matrix(kernel) @ layout.rows(values), shape)
