"""Inference: how a model comes from an architecture and data.

NTK    all layers of infinitely wide networks trained for a time (inf: kernel regression)
NNGP   only the last layer is trained: at time inf the mean of the Bayesian posterior
NN     finite networks by stochastic gradient descent with momentum, η = c · 2/λ_max, c = 1
NN+    c = 8 and an L² penalty, λ = 1e-7

loss of a batch B   (1/2K|B|) Σ_{i∈B} |f(x_i) − y_i|² + (λ/2) Σ |θ|²
step                v ← m v + ∇loss,  θ ← θ − η v

A `NetworkJob` minimises K times the first term, so gradients of the second are multiplied by K and η is divided
by K. Each member has a learning rate of its own; one that is stopped goes on at 0, which changes none of its bits.

λ_max is the largest eigenvalue of the finite tangent kernel Θ̂ = J Jᵀ/N at the member's initialisation, J the Jacobian
(N·K, parameters) of all outputs on N inputs: Lanczos on v ↦ J(Jᵀv)/N, in blocks of inputs, never forming it. It does
not carry the 1/K of the loss, whose curvature is λ_max/K: momentum m is stable on a quadratic for c < (1 + m) K, which
c = 8 is for 10 classes and m = 0.9 (19), but would not be with the 1/K (1.9).

Source: Xiao & Pennington 2022, arXiv 2207.04612; it does not say whether λ_max carries 1/K.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.exceptions import ConvergenceWarning

from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import InvalidArgumentError, NetworkError, NotFiniteError
from equitangents.extending import (
    FiniteNetwork,
    Numbers,
    Params,
    check_array,
    check_choice,
    check_number,
    check_whole,
    member_outputs,
    planned_job,
    precision,
)
from equitangents.kernels import KernelFunction
from equitangents_studies.systems.architectures import coupled
from equitangents_studies.systems.transformations import Transformation

_ROWS = 32  # inputs differentiated at once


def largest_eigenvalue(net: FiniteNetwork, params: Params, x: Numbers, *, steps: int = 24) -> float:
    """Largest eigenvalue of J Jᵀ/N, the tangent kernel of all outputs on the N inputs x over N, by `steps` of Lanczos:
    a lower bound that converges.

    It does not carry 1/K: the loss (1/2KN) Σ_i |f(x_i) − y_i|² over K outputs has the curvature λ_max/K.

    >>> import jax, numpy as np
    >>> from equitangents_studies.systems import architecture
    >>> net = architecture("FCN", 1, 8, outputs=2)
    >>> x = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    >>> largest_eigenvalue(net, net.init(jax.random.key(0), (5,)), x) > 0
    True
    """
    x = np.asarray(check_array("x", x, min_rank=2))
    leaves = jax.tree.leaves(params)
    if not leaves:
        raise NetworkError("params", params, "at least one parameter")
    dtype = np.dtype(leaves[0].dtype)
    rows = min(_ROWS, len(x))
    blocks = -(-len(x) // rows)
    padded = np.zeros((blocks * rows, *x.shape[1:]), dtype)
    padded[: len(x)] = x
    with precision.scope(dtype):
        outputs = jax.eval_shape(net.apply, params, jax.ShapeDtypeStruct((1, *x.shape[1:]), dtype)).shape[-1]
        steps = min(check_whole("steps", steps, 1), len(x) * outputs)
        start = np.zeros((blocks * rows, outputs), dtype)
        start[: len(x)] = np.random.default_rng(0).standard_normal((len(x), outputs))
        mask = np.arange(blocks * rows) < len(x)
        diagonal, off_diagonal = _lanczos(
            net,
            steps,
            params,
            jnp.asarray(padded.reshape(blocks, rows, *x.shape[1:])),
            jnp.asarray(start.reshape(blocks, rows, outputs)),
            jnp.asarray(mask.reshape(blocks, rows, 1), dtype),
        )
    return _top(np.asarray(diagonal, np.float64) / len(x), np.asarray(off_diagonal, np.float64) / len(x), dtype)


def _top(diagonal: np.ndarray, off_diagonal: np.ndarray, dtype: np.dtype) -> float:
    """The largest eigenvalue of the tridiagonal matrix, up to where the Krylov space is exhausted."""
    if not (np.isfinite(diagonal).all() and np.isfinite(off_diagonal).all()):
        raise NotFiniteError(
            "the tangent kernel holds NaN or infinite values: the network's derivatives are not finite"
        )
    ended = np.flatnonzero(off_diagonal[:-1] <= 10 * np.finfo(dtype).eps * np.max(np.abs(diagonal)))
    steps = int(ended[0]) + 1 if len(ended) else len(diagonal)
    off = off_diagonal[: steps - 1]
    return float(np.linalg.eigvalsh(np.diag(diagonal[:steps]) + np.diag(off, 1) + np.diag(off, -1))[-1])


@partial(jax.jit, static_argnums=(0, 1))
def _lanczos(
    net: FiniteNetwork, steps: int, params: Params, x: jax.Array, start: jax.Array, mask: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """(diagonal, off-diagonal) of the tridiagonal matrix, with twofold full reorthogonalisation."""

    def pulled(total: Params, block: tuple[jax.Array, jax.Array]) -> tuple[Params, None]:
        inputs, v = block
        gradient = jax.vjp(lambda p: net.apply(p, inputs), params)[1](v)[0]
        return jax.tree.map(jnp.add, total, gradient), None

    def product(v: jax.Array) -> jax.Array:
        zero = jax.tree.map(jnp.zeros_like, params)
        gradient, _ = jax.lax.scan(pulled, zero, (x, v.reshape(start.shape)))
        push = lambda inputs: jax.jvp(lambda p: net.apply(p, inputs), (params,), (gradient,))[1]
        return (jax.lax.map(push, x) * mask).ravel()

    def step(basis: jax.Array, k: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        w = product(basis[k])
        alpha = basis[k] @ w
        for _ in range(2):
            w = w - basis.T @ (basis @ w)
        beta = jnp.linalg.norm(w)
        return basis.at[k + 1].set(w / jnp.where(beta > 0, beta, 1)), (alpha, beta)

    first = (start * mask).ravel()
    basis = jnp.zeros((steps + 1, first.size), first.dtype).at[0].set(first / jnp.linalg.norm(first))
    return jax.lax.scan(step, basis, jnp.arange(steps))[1]


@final
@dataclass(frozen=True)
class GradientInference:
    """Finite networks by stochastic gradient descent with momentum; the module's docstring defines η and λ.

    Args:
        c: η in units of 2/λ_max.
        weight_decay: λ of the penalty (λ/2) Σ |θ|².
        momentum: m.
        batch_size: samples a step.
        epochs: at most this many.
        members: independent networks, member i a function of (seed, i).
        learning_rate: η itself; None: c · 2/λ_max, measured for every member at its initialisation.
        eigenvalue_inputs: number of training inputs, the first ones, to measure λ_max on; None: all.
        stop_at: training accuracy at which a member stops; None: it never does.
        dtype: "float32" or "float64".
    """

    c: float = 1.0
    weight_decay: float = 0.0
    momentum: float = 0.9
    batch_size: int = 40
    epochs: int = 200
    members: int = 1
    learning_rate: float | None = None
    eigenvalue_inputs: int | None = 256
    stop_at: float | None = 1.0
    dtype: str = "float32"

    finite = True

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "members"):
            check_whole(name, getattr(self, name), 1)
        if self.eigenvalue_inputs is not None:
            check_whole("eigenvalue_inputs", self.eigenvalue_inputs, 1)
        check_number("c", self.c, "a finite number above 0", lambda c: c > 0)
        check_number("weight_decay", self.weight_decay, "a finite number, at least 0", lambda decay: decay >= 0)
        check_number("momentum", self.momentum, "a number from 0 to below 1", lambda m: 0 <= m < 1)
        if self.learning_rate is not None:
            wanted = "None, or a finite number above 0"
            check_number("learning_rate", self.learning_rate, wanted, lambda rate: rate > 0)
        if self.stop_at is not None:
            check_number("stop_at", self.stop_at, "None, or above 0 up to 1", lambda share: 0 < share <= 1)
        check_choice("dtype", self.dtype, ("float32", "float64"))

    def fit(
        self,
        net: FiniteNetwork,
        x: np.ndarray,
        y: np.ndarray,
        index: np.ndarray | None,
        *,
        seed: int,
        coupling: Transformation | None = None,
        watch: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> TrainedMembers:
        """Train members on x (N, …), targets y (N, K), classes `index` (N,).

        `coupling`: start from the coupled initialisation of this transformation. `watch`: inputs and classes whose
        accuracy is noted after every epoch.
        """
        bound = (1 + self.momentum) * y.shape[1]
        if self.learning_rate is None and self.c >= bound:
            warnings.warn(
                f"c is {self.c}; with momentum {self.momentum} and {y.shape[1]} outputs full-batch descent on a "
                f"quadratic is stable below (1 + momentum) · outputs = {bound:g}: training may diverge",
                ConvergenceWarning,
                stacklevel=3,
            )
        prepared = (lambda params: params) if coupling is None else lambda params: coupled(net, params, coupling)
        trained = train(self, net, x, y, index, seed=seed, prepared=prepared, watch=watch)
        bad = int((~np.isfinite(trained.losses)).sum())
        if bad:
            message = f"training diverged for {bad} of {self.members} members; lower c, which is {self.c}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        return trained

    def learning_rates(self, net: FiniteNetwork, params: Params, x: np.ndarray) -> np.ndarray:
        """η of members, given their stacked initial parameters and the training inputs."""
        members = len(jax.tree.leaves(params)[0])
        if self.learning_rate is not None:
            return np.full(members, self.learning_rate)
        of = lambda i: largest_eigenvalue(net, jax.tree.map(lambda a: a[i], params), x[: self.eigenvalue_inputs])
        return np.array([self.c * 2 / of(i) for i in range(members)])


@final
@dataclass(frozen=True, eq=False)
class TrainedMembers:
    """Members of finite width after training.

    Args:
        net: their network.
        dtype: the precision in which they predict.
        params: stacked over members.
        epochs: (members,), the epoch at which each was stopped, or the last.
        losses: (members,), the mean loss of each one's last epoch, without the penalty.
        accuracies: (members,), on the training data at the end; NaN where there are no classes.
        watched: (epochs, members), accuracies on other data after every epoch; a stopped member's stay.
    """

    net: FiniteNetwork
    dtype: str
    params: Params
    epochs: np.ndarray
    losses: np.ndarray
    accuracies: np.ndarray
    watched: np.ndarray

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The mean over members."""
        return self.predict_members(x).mean(axis=0, dtype=np.float64)

    def predict_members(self, x: np.ndarray) -> np.ndarray:
        """Outputs of all members one by one."""
        return member_outputs(self.net, self.params, np.asarray(x), self.dtype)


def train(
    how: GradientInference,
    net: FiniteNetwork,
    x: np.ndarray,
    y: np.ndarray,
    index: np.ndarray | None,
    *,
    seed: int,
    prepared: Callable[[Params], Params],
    watch: tuple[np.ndarray, np.ndarray] | None = None,
) -> TrainedMembers:
    """Train members 0 to `how.members` − 1 on x (N, …), targets y (N, K), classes `index` (N,) or None.

    The function `prepared` changes stacked initial parameters.
    """
    rule = _rule(how.momentum, how.weight_decay * y.shape[1])
    job = planned_job(net, rule, x, y, batch_size=how.batch_size, members=how.members, seed=seed, dtype=how.dtype)
    dtype, outputs = job.dtype, y.shape[1]

    def some(ids: range) -> tuple[Params, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Train the members `ids` in one call."""
        members, count = job.begin(ids), len(ids)
        with precision.scope(dtype):
            params = jax.tree.map(jnp.asarray, prepared(members.params()))
        rate = np.asarray(how.learning_rates(net, params, job.x), dtype) / outputs
        stopped = np.full(count, how.epochs)
        accuracy, losses = np.full(count, np.nan), np.full(count, np.nan)
        watched: list[np.ndarray] = []
        for epoch in range(how.epochs):
            state: list[Any] = [*members.state()[:-1], np.where(stopped > epoch, rate, 0)]
            members.restore(jax.tree.leaves(params), state)
            loss = np.asarray(members.advance(epoch, 1)[0], np.float64) / outputs
            losses = np.where(stopped > epoch, loss, losses)
            params = members.params()
            if watch is not None:
                watched.append(accuracies(net, params, *watch, dtype))
            if index is not None and (how.stop_at is not None or epoch + 1 == how.epochs):
                accuracy = accuracies(net, params, job.x, index, dtype)
            if index is not None and how.stop_at is not None:
                stopped = np.where((stopped > epoch) & (accuracy >= how.stop_at), epoch + 1, stopped)
                if (stopped <= epoch + 1).all():
                    break
        arrays = jax.tree.map(np.asarray, params)
        return arrays, stopped, losses, accuracy, np.reshape(watched, (len(watched), count))

    with job.workers() as workers:
        parts = workers.map(some, job.groups(), first_alone=True)
    params, *measured, watched = zip(*parts, strict=True)
    longest = max(map(len, watched))
    grown = [np.concatenate([w, np.repeat(w[-1:], longest - len(w), axis=0)]) for w in watched]
    stacked = jax.tree.map(lambda *leaves: np.concatenate(leaves)[: how.members], *params)
    cut = (np.concatenate(arrays, axis=-1)[..., : how.members] for arrays in (*measured, grown))
    return TrainedMembers(net, how.dtype, stacked, *cut)


def accuracies(net: FiniteNetwork, params: Params, x: np.ndarray, index: np.ndarray, dtype: str) -> np.ndarray:
    """Accuracy of each member, (members,); outputs that are not finite count as wrong."""
    y = member_outputs(net, params, x, dtype)
    right = (y.argmax(axis=-1) == index) & np.isfinite(y).all(axis=-1)
    return right.mean(axis=1)


class _Rate(NamedTuple):
    """A member's learning rate, as optimiser state."""

    rate: jax.Array


@lru_cache(maxsize=64)
def _rule(momentum: float, decay: float) -> optax.GradientTransformation:
    """Penalty, momentum, and the member's learning rate, which is part of the state; cached by arguments."""
    penalty = [optax.add_decayed_weights(decay)] if decay else []
    return optax.chain(*penalty, *([optax.trace(momentum)] if momentum else []), _own_rate())


def _own_rate() -> optax.GradientTransformation:
    def init(params: Params) -> _Rate:
        return _Rate(jnp.zeros((), jax.tree.leaves(params)[0].dtype))

    def update(gradient: optax.Updates, state: _Rate, params: Params = None) -> tuple[optax.Updates, _Rate]:
        return jax.tree.map(lambda g: -state.rate * g, gradient), state

    return optax.GradientTransformation(init, update)


@final
@dataclass(frozen=True)
class KernelInference:
    """Infinitely wide networks in closed form, as `InfiniteEnsemble`: `kernel`, `time`, `ridge`.

    Kernels are computed in the precision of the inputs.
    """

    kernel: Literal["ntk", "nngp"] = "ntk"
    time: float = math.inf
    ridge: float = 0.0

    finite = False

    def fit(self, net: KernelFunction, x: np.ndarray, y: np.ndarray) -> InfiniteEnsemble:
        """The ensemble of inputs x (N, …) and targets y (N, K)."""
        if not callable(getattr(net, "kernel", None)):
            raise NetworkError("net", net, "a network with a kernel of infinite width")
        return InfiniteEnsemble(net, kernel=self.kernel, time=self.time, ridge=self.ridge).fit(x, y)


Inference = KernelInference | GradientInference


def inference(name: str, **settings: Any) -> Inference:
    """One of "NTK", "NNGP", "NN" and "NN+", with `settings` of KernelInference or GradientInference.

    >>> inference("NN+", members=8).c, inference("NN+").weight_decay, inference("NNGP").kernel
    (8.0, 1e-07, 'nngp')
    """
    known: dict[str, Inference] = {
        "NTK": KernelInference(),
        "NNGP": KernelInference("nngp"),
        "NN": GradientInference(),
        "NN+": GradientInference(c=8.0, weight_decay=1e-7),
    }
    check_choice("name", name, known)
    unknown = [key for key in settings if key not in vars(known[name])]
    if unknown:
        raise InvalidArgumentError(name, unknown[0], list(vars(known[name])), verb="has no setting")
    return replace(known[name], **settings)
