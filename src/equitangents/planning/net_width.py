"""Networks of the net's own width as gradient descent leaves them, in a few long steps and not epoch by epoch.

Full-batch descent moves a network by δ' = −(η/N) J(θ)ᵀ(f(θ) − Y). With frozen J this has the closed form
δ = Jᵀ φ_s(JJᵀ)(Y − f), φ_s the response of a time s. Training is cut into stages, each an exponential midpoint step:
    a = φ_s(Θ̄) r,  r = Y − f(θ),   θ̄ = θ + ½ J(θ)ᵀ a,   Θ̂ = J(θ̄) J(θ̄)ᵀ,   θ → θ + J(θ̄)ᵀ φ_s(Θ̂) r
with Θ̄ the tangent kernel of the stage before, at first the limit's. One stage at θ̄ = θ would be the linearised network;
the midpoints hold the movement of the tangent kernel. A ridge δ pulls weights back to where they began, by
−(η/N) δ u, u = θ − θ_0. With ψ = φ_s(· + δ) and χ(λ) = (ψ(λ) − ψ(0))/λ a stage is then, with the same midpoints,
    θ → θ + Jᵀ (ψ(JJᵀ) r − δ χ(JJᵀ) J u) − δ ψ(0) u.
With momentum, v ← m v + ∇L, a stage begins with the velocity v of the one before, which goes the same way: in place of
δ ψ stands m N (φ_s − φ_{s−1}), in place of u the velocity.
Errors fall with the square of the number of stages where the
network is smooth. How many stages: twice as many, until that moves outputs of a few networks by less than 0.3 of their
standard deviation over networks, which moves spreads by a few percent at most.

Control variate: the same initial network f_0 trained with the kernel of the limit, g = f_0 + Θ(·,X) φ_t(Θ)(Y − f_0(X)).
It is linear in f_0, so that its law is known from many more initial networks than are followed; what is left to be
seen in these is the difference of f and g, which falls as one over the square root of the width.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from equitangents import precision
from equitangents._protocols import FiniteNetwork
from equitangents._types import AnyModel, Params
from equitangents.errors import InvalidArgumentError
from equitangents.inference.dynamics import Dynamics, Flow, HeavyBall
from equitangents.inference.ridge import Ridge
from equitangents.kernels.empirical import check_finite_network, empirical_matrix
from equitangents.memory import check_memory
from equitangents.planning.pilot import SETTLED, Followed, Ratio, along_orbits, check_kernel, epochs_of

NETWORKS = 64  # that are followed, unless the caller says how many
_STAGES, _TRIED = (2, 64), 8  # least and most stages; how many networks are tried
_INITIAL = 8  # times as many initial networks give the law of the control variate
_TIMES = 400  # from which stages are chosen
_FADED = 6.0  # e-folds after which what a ridge takes back is gone
_NULL = 1e-11  # of the largest eigenvalue: below, a direction is taken as one in which nothing can be learnt
_AT_ONCE = 8  # initial networks in one call


@dataclass(frozen=True, eq=False)
class NetWidth:
    """Networks followed to a time; `predict_members` gives their outputs, `controlled` corrects these.

    theory: the fitted infinite regression whose data, network and dynamics they have. x, y: its training set with all
    augmented copies, (rows, …) and (rows, outputs).
    """

    theory: AnyModel
    time: float
    x: np.ndarray
    y: np.ndarray
    params: Sequence[Params]
    key: jax.Array
    training: Followed
    _limit: _Spectrum = field(repr=False, kw_only=True)

    def predict_members(self, x: np.ndarray) -> np.ndarray:
        """Outputs of all followed networks, (networks, N, outputs)."""
        inputs = self.theory._as_trained(np.asarray(x, np.float64))
        return np.stack([_outputs(self.theory.net, p, inputs) for p in self.params])

    def controlled(self, outputs: np.ndarray, batch: np.ndarray) -> tuple[np.ndarray, Ratio]:
        """Outputs f (m, n, |G|, K) at `batch` (n·|G|, …) with the mean and spread that the control variate says.

        f̄ − β(ḡ − E g) and, along orbits, S_f − β'(S_g − E S_g) with S the members' mean squares of what is left of
        deviations when the orbit's mean is taken away. Also that S, with its interval of 95 %.
        """
        m = len(outputs)
        own = self._frozen(jax.random.split(self.key, m), batch).reshape(outputs.shape)
        others = jax.random.split(jax.random.fold_in(self.key, m), _INITIAL * m)
        many = self._frozen(others, batch).reshape((-1, *outputs.shape[1:]))
        centre = many.mean(axis=0)
        f, g = outputs - outputs.mean(axis=0), own - own.mean(axis=0)
        slope = float((f * g).sum() / (g * g).sum()) if np.any(g) else 0.0
        mean = outputs.mean(axis=0) - slope * (own.mean(axis=0) - centre)
        along = along_orbits(f)
        squares = _squares(along) * m / (m - 1)
        of_own, of_many = (_squares(along_orbits(v - centre)) for v in (own, many))
        turn = float(np.cov(squares, of_own)[0, 1] / of_own.var(ddof=1)) if of_own.std() > 0 else 0.0
        seen = float(squares.mean())
        known = seen - turn * float(of_own.mean() - of_many.mean())
        left = (squares - turn * of_own).var(ddof=2) / m + turn**2 * of_many.var(ddof=1) / len(many)
        known = max(known, seen / 4)  # a control variate of few networks must not turn a spread into none
        ratio = known / seen if seen > 0 else 1.0
        width = float(scipy.stats.t.ppf(0.975, m - 2)) * float(np.sqrt(left))
        spread = np.sqrt(ratio) * along + (f - along)
        return mean + spread, Ratio(known, max(known - width, 0.0), known + width)

    def _frozen(self, keys: jax.Array, batch: np.ndarray) -> np.ndarray:
        """Initial networks trained with the kernel of the limit, at `batch`: (networks, points, outputs)."""
        points = self.theory._as_trained(np.asarray(batch, np.float64))
        kernel = np.asarray(self.theory.net.kernel(points, self.x).ntk, np.float64)
        start = _initial(self.theory.net, keys, np.concatenate([points, self.x]))
        there, here = start[:, : len(points)], start[:, len(points) :]
        return there + np.einsum("pn,mnk->mpk", kernel, self._limit.learnt(self.y - here, self.time))


def _squares(f: np.ndarray) -> np.ndarray:
    return np.asarray((f**2).sum(axis=(1, 2, 3)))


@dataclass(frozen=True, eq=False)
class _Spectrum:
    """A tangent kernel's eigenvalues and eigenvectors, the dynamics on it, and what a ridge adds to eigenvalues.

    joint: whether it is one between outputs, of rows · outputs.
    """

    values: np.ndarray
    vectors: np.ndarray
    dynamics: Dynamics
    ridge: float
    joint: bool = False

    @classmethod
    def of(cls, kernel: np.ndarray, dynamics: Dynamics, ridge: float, joint: bool = False) -> _Spectrum:
        values, vectors = np.linalg.eigh(kernel)
        return cls(np.maximum(values, 0.0), vectors, dynamics, ridge, joint)

    def response(self, time: float) -> np.ndarray:
        """φ_t of each eigenvalue; of one too large for its steps 1/λ: trained networks move to where it is not."""
        seen = self._seen()
        largest = np.inf if isinstance(self.dynamics, Flow) else self.dynamics.max_learning_rate(1.0)
        rate = self.dynamics.learning_rate
        values = np.where(seen, self.values + self.ridge, 1.0)
        stable = rate * values < largest
        found = np.where(stable, self.dynamics.response(np.where(stable, values, largest / rate / 2), time), 1 / values)
        null = 0.0 if np.isinf(time) else float(self.dynamics.response(np.zeros(1), time)[0])
        return np.where(seen, found, null)

    def learnt(self, residuals: np.ndarray, time: float) -> np.ndarray:
        """ψ(Θ) r for residuals (…, rows, outputs)."""
        return self._filtered(self.response(time), residuals)

    @property
    def momentum(self) -> float:
        """m, 0 without momentum."""
        return self.dynamics.momentum if isinstance(self.dynamics, HeavyBall) else 0.0

    def pulled(self, away: np.ndarray, time: float) -> tuple[np.ndarray, float]:
        """(δ χ(Θ) J u for J u (rows, outputs), δ ψ(0)): what a ridge takes back."""
        return self._parts(self.ridge * self.response(time), self.ridge * self._at_null(time), away)

    def carried(self, velocity: np.ndarray, time: float) -> tuple[np.ndarray, float]:
        """(−m(χ_t − χ_(t−1))(Θ) J v, its share at Θ = 0) for J v: minus what momentum adds of a velocity v."""
        weight = self.momentum * self.dynamics.samples
        gained = self.response(time) - self.response(time - 1)
        return self._parts(weight * gained, weight * (self._at_null(time) - self._at_null(time - 1)), velocity)

    def _parts(self, factors: np.ndarray, at_null: float, changed: np.ndarray) -> tuple[np.ndarray, float]:
        with np.errstate(divide="ignore", invalid="ignore"):
            divided = np.where(self._seen(), (factors - at_null) / self.values, 0.0)
        return self._filtered(divided, changed), at_null

    def _at_null(self, time: float) -> float:
        return float(self.dynamics.response(np.array([self.ridge]), time)[0])

    def _seen(self) -> np.ndarray:
        return self.values > _NULL * self.values.max(initial=0.0)

    def _filtered(self, factors: np.ndarray, r: np.ndarray) -> np.ndarray:
        if self.joint:
            return np.asarray(self.vectors @ (factors * (self.vectors.T @ r.ravel()))).reshape(r.shape)
        turned = np.einsum("nj,...nk->...jk", self.vectors, r)
        return np.einsum("nj,...jk->...nk", self.vectors, factors[:, None] * turned)


def follow(
    theory: AnyModel,
    time: float,
    networks: int,
    seed: int,
    points: np.ndarray | None = None,
    *,
    stages: int | None = None,
) -> NetWidth:
    """Random networks of the theory's net, each trained to `time` on the theory's data.

    In so many stages, or in as many as outputs at `points` (M, …) need (the data's own inputs if not given).
    """
    begin = clock.perf_counter()
    check_kernel(theory)
    check_finite_network(theory.net)
    given = theory._training.given
    if theory.positions_ or given.turning:
        raise InvalidArgumentError('width="net" follows outputs that are plain vectors; plan from a pilot, data=(X, y)')
    x, y = _rows(given)
    check_memory(
        f"the tangent kernel of a network on {len(x)} training rows and {y.shape[1]} outputs",
        4 * 8 * y.size**2,
        theory.memory_limit,
        "plan from a pilot, data=(X, y)",
    )
    dynamics = theory._training.settings.dynamics(theory.learning_rate, len(x))
    kernel = theory.net.kernel(x)
    ntk = np.asarray(kernel.ntk, np.float64)
    ridge = Ridge.number(theory.ridge, 'width="net" follows one')
    limit = _Spectrum.of(ntk, dynamics, ridge * float(np.trace(ntk)) / len(x))
    nngp, key = np.asarray(kernel.nngp, np.float64), jax.random.key(seed)
    keys = jax.random.split(key, networks)
    times_of = lambda count: _stage_times(limit, nngp, y, time, count)
    many = lambda count, some: [_follow(theory.net, k, x, y, limit, times_of(count)) for k in some]
    moved = None
    if stages is None:
        at = x if points is None else theory._as_trained(np.asarray(points, np.float64))
        stages, moved = _enough(lambda n: np.stack([_outputs(theory.net, p, at) for p in many(n, keys[:_TRIED])]))
    params, times = many(stages, keys), times_of(stages)
    epochs = None if np.isinf(time) else epochs_of(theory, time)[0]
    training = Followed(len(times) - 1, epochs, moved, clock.perf_counter() - begin)
    return NetWidth(theory, time, x, y, params, key, training, _limit=limit)


def _enough(outputs: Callable[[int], np.ndarray]) -> tuple[int, float]:
    """(a number of stages, by how much half as many move outputs, in standard deviations over networks)."""
    stages, most = _STAGES
    before = outputs(stages)
    while True:
        stages *= 2
        found = outputs(stages)
        spread = float(((found - found.mean(axis=0)) ** 2).mean())
        moved = 0.0 if spread == 0 else float(np.sqrt(((found - before) ** 2).mean() / spread))  # NaN is not settled
        if moved <= SETTLED or stages >= most:
            return stages, moved
        before = found


def _rows(given: Any) -> tuple[np.ndarray, np.ndarray]:
    """Training inputs and targets with all augmented copies."""
    x = np.asarray(given.x, np.float64)
    if given.augmentation is None:
        return x, np.asarray(given.y, np.float64)
    if np.ptp(given.weights) != 0:
        raise InvalidArgumentError(
            'width="net" follows training in which all copies count alike; plan from a pilot, data=(X, y)'
        )
    moved = np.asarray(given.augmentation.orbit(x), np.float64)
    rows = moved.reshape(-1, *x.shape[1:])
    return rows, np.asarray(given.copies(), np.float64).reshape(len(rows), -1)


def _stage_times(limit: _Spectrum, nngp: np.ndarray, y: np.ndarray, time: float, stages: int) -> list[float]:
    """Where stages end, with 0 before: at equal parts of how far weights of infinitely wide networks move.

    That is E|δ_t|² = Σ_j λ_j φ_t(λ_j)² E r_j², with residuals r of covariance YYᵀ + K. A ridge δ goes on after that: it
    takes back, as e^(−δηt/N), what was learnt with tangents that are no longer the network's. Time then counts as well,
    twice that way until 6 N/(ηδ); longer stages would not come to rest where tangents move much. A last one ends it.
    """
    if time == 0:
        return [0.0]
    v, outputs = limit.vectors, y.shape[1]
    residuals = ((v.T @ y) ** 2).sum(axis=1) + outputs * np.maximum(np.einsum("nj,nm,mj->j", v, nngp, v), 0)
    seen = limit.values[limit.values > _NULL * limit.values.max()] + limit.ridge
    slowest, folds = (limit.ridge, _FADED) if limit.ridge > 0 else (seen.min(), 30.0)
    last = folds / (limit.dynamics.rate * slowest)
    grid = np.geomspace(1e-3 / (limit.dynamics.rate * seen.max()), last, _TIMES)
    if not isinstance(limit.dynamics, Flow):
        grid = np.unique(np.ceil(grid))
    grid = np.append(grid[grid < time], time)
    moved = np.sqrt([(limit.values * limit.response(float(t)) ** 2 * residuals).sum() for t in grid])
    passed, parts = moved, np.arange(1, stages) / stages
    if limit.ridge > 0:
        passed = moved + 2 * moved[-1] * np.minimum(grid, last) / last
        if time > last and stages > 1:
            passed, parts = passed[:-1], np.arange(1, stages) / (stages - 1)
    at = np.searchsorted(passed, passed[-1] * parts)
    return [0.0, *sorted({float(grid[i]) for i in at if grid[i] < time}), float(time)]


def _follow(
    net: FiniteNetwork, key: jax.Array, x: np.ndarray, y: np.ndarray, limit: _Spectrum, times: Sequence[float]
) -> Params:
    with precision.scope(np.float64):
        start = params = net.init(key, x.shape[1:], dtype="float64")
        velocity = jax.tree.map(jnp.zeros_like, params) if limit.momentum else None
        known = limit
        for begin, end in pairwise(times):
            residual, length = y - _outputs(net, params, x), end - begin
            stage = _Stage(net, x, params, start, velocity, residual)
            middle = stage.end(params, known, length, 0.5)
            found = np.asarray(empirical_matrix(net, middle, x), np.float64)
            kernel = found.transpose(0, 2, 1, 3).reshape((y.size, y.size))
            known = _Spectrum.of(kernel, limit.dynamics, limit.ridge, joint=True)
            params = stage.end(middle, known, length)
            if velocity is not None and np.isfinite(length):
                before = stage.end(middle, known, length - 1)
                velocity = jax.tree.map(lambda a, b: (a - b) / limit.dynamics.learning_rate, before, params)
        return params


@dataclass(frozen=True, eq=False)
class _Stage:
    """Where a stage begins: weights θ and those of the start, a velocity (None without momentum), and Y − f(θ)."""

    net: FiniteNetwork
    x: np.ndarray
    params: Params
    start: Params
    velocity: Params | None
    residual: np.ndarray

    def end(self, at: Params, kernel: _Spectrum, time: float, share: float = 1.0) -> Params:
        """θ, and a share of what the stage adds in a time with J as it is `at` some weights, whose `kernel` is JJᵀ."""
        a = share * kernel.learnt(self.residual, time)
        fading: list[tuple[Params, tuple[np.ndarray, float]]] = []
        if kernel.ridge > 0:
            away = jax.tree.map(jnp.subtract, self.params, self.start)
            fading.append((away, kernel.pulled(_changed(self.net, at, self.x, away), time)))
        if self.velocity is not None and 0 < time < np.inf:
            fading.append((self.velocity, kernel.carried(_changed(self.net, at, self.x, self.velocity), time)))
        for _, (part, _) in fading:
            a = a - share * part
        params = _moved(self.net, self.params, at, self.x, a)
        for u, (_, rest) in fading:
            params = jax.tree.map(lambda now, gone, rest=rest: now - share * rest * gone, params, u)
        return params


@partial(jax.jit, static_argnums=0)
def _moved_by(net: FiniteNetwork, params: Params, at: Params, x: jax.Array, a: jax.Array) -> Params:
    step = jax.vjp(lambda p: net.apply(p, x), at)[1](a)[0]
    return jax.tree.map(jnp.add, params, step)


@partial(jax.jit, static_argnums=0)
def _changed_by(net: FiniteNetwork, at: Params, x: jax.Array, u: Params) -> jax.Array:
    return jax.jvp(lambda p: net.apply(p, x), (at,), (u,))[1]


@partial(jax.jit, static_argnums=0)
def _applied(net: FiniteNetwork, params: Params, x: jax.Array) -> jax.Array:
    return net.apply(params, x)


@partial(jax.jit, static_argnums=0)
def _initial_outputs(net: FiniteNetwork, keys: jax.Array, x: jax.Array) -> jax.Array:
    one = lambda key: net.apply(net.init(key, x.shape[1:], dtype="float64"), x)
    return jax.lax.map(one, keys, batch_size=_AT_ONCE)


def _moved(net: FiniteNetwork, params: Params, at: Params, x: np.ndarray, a: np.ndarray) -> Params:
    """θ + J(at)ᵀ a."""
    return _moved_by(net, params, at, jnp.asarray(x), jnp.asarray(a))


def _changed(net: FiniteNetwork, at: Params, x: np.ndarray, u: Params) -> np.ndarray:
    """J(at) u."""
    return np.asarray(_changed_by(net, at, jnp.asarray(x), u))


def _outputs(net: FiniteNetwork, params: Params, x: np.ndarray) -> np.ndarray:
    with precision.scope(np.float64):
        return np.asarray(_applied(net, params, jnp.asarray(x)))


def _initial(net: FiniteNetwork, keys: jax.Array, x: np.ndarray) -> np.ndarray:
    with precision.scope(np.float64):
        return np.asarray(_initial_outputs(net, keys, jnp.asarray(x)))
