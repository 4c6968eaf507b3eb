"""The resolution for given signals: measured in float64, on a few of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.kernels.angular import PLAIN, angle_left, both, covariance
from equitangents.kernels.engines.reference.rotations import recursion
from equitangents.kernels.engines.reference.rotations.fields import Sphere, sphere_samples
from equitangents.kernels.engines.reference.rotations.pointwise import Variances, after, moments, run, variances
from equitangents.kernels.plans.plan import has_dual
from equitangents.kernels.rotations.program import RotationSections
from equitangents.kernels.rotations.resolution import (
    LADDER,
    LADDER_OF_FIELDS,
    Resolution,
    choose,
    from_several_sides,
    pairs_of,
    sample,
    surrogates,
    turn_between_nodes,
    turn_to_node,
)
from equitangents.kernels.rotations.rings import Rings, node_values, rings_of
from equitangents.kernels.scales import divided, law_of, norms

_CHUNK = 1 << 13  # rotations at a time

SampleValues = Callable[[RotationSections, int, np.ndarray], tuple[np.ndarray, np.ndarray]]


def resolve(program: RotationSections, x1: ArrayLike, x2: ArrayLike | None, values: SampleValues) -> Resolution:
    """The resolution for these signals; for traced ones measured on random signals, as notes say.

    `values(program, r, x)` are (NNGP, NTK) of the `turned_pairs` of a few signals x by one of the engines, in float64;
    without nonlinearities after the readout, (K, Θ) there.
    """
    if not program.is_sampled:
        return Resolution(0, None, None)
    traced = [x for x in (x1, x2) if precision.is_traced(x)]
    if traced and program.accuracy.resolution is not None:
        return Resolution(
            program.accuracy.resolution, None, "as asked for; the error is not measured on traced signals"
        )
    dtype = precision.working_dtype(x1, x2)
    least = 64 * float(np.finfo(dtype).eps)
    if traced:
        return _resolve_for_surrogates(program, x1.shape[-1], least, values)
    few = sample(*(np.asarray(x, np.float64) for x in (x1, x1 if x2 is None else x2)))
    return _measured(program, _comparable(program, few), least, values)


def _comparable(program: RotationSections, x: np.ndarray) -> np.ndarray:
    """Signals whose distances resolve their products: of unit scale, where the kernel just follows that.

    Else the smallest are raised to 1e-8 of the largest, where networks are linear in them, or do not feel them.
    """
    logarithms = norms(x)
    if not np.isfinite(logarithms).any():
        return x
    law = law_of(program)
    exponents = np.floor(np.where(np.isfinite(logarithms), logarithms, 0)).astype(np.int64)
    if law.homogeneous and not law.biased:
        return divided(x, exponents, np.float64)
    return divided(x, np.minimum(exponents - (exponents[np.isfinite(logarithms)].max() - 26), 0), np.float64)


@lru_cache(maxsize=64)
def _resolve_for_surrogates(program: RotationSections, channels: int, least: float, values: SampleValues) -> Resolution:
    found = _measured(program, surrogates(program.bandlimit, channels), least, values)
    return found._replace(note="resolution and error are those of random signals of unit variance")


def _measured(program: RotationSections, x: np.ndarray, least: float, values: SampleValues) -> Resolution:
    ladder: tuple[int, ...] = LADDER_OF_FIELDS if program.sphere else LADDER
    start = (program.bandlimit + 1) // 2
    ladder = tuple(r for r in ladder if r >= start)
    if program.readout == "pool":
        x = from_several_sides(x)
    with precision.scope(np.float64), jax.ensure_compile_time_eval():  # also while something else is traced
        return choose(program.accuracy, ladder, lambda r: values(program, r, x), len(x), least)


def _turns(program: RotationSections, r: int) -> tuple[np.ndarray, ...]:
    """Turns that leave what is computed as it is, and change the error at resolution r."""
    if program.readout == "flatten":  # which every turn changes
        return (np.eye(3),)
    return (turn_to_node(r), turn_between_nodes(r)) if has_dual(program.vector) else (turn_to_node(r),)


def turned_pairs(program: RotationSections, r: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of signals whose kernels show the error at a resolution."""
    return pairs_of(x, _turns(program, r))


def sample_values(program: RotationSections, r: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Samples for `resolve`, by the reference engine.

    Nonlinearities after the readout may magnify errors: under ReLU the angle of a signal with its turned copy is the
    root of their kernel's error.
    """
    a, b = turned_pairs(program, r, x)
    if not has_dual(program.vector):
        nngp, ntk, *_ = _sample_values(program, r, a, b)
        return nngp, ntk
    n, pairs = len(x), len(a)
    turned = b[n:-n]  # whose kernels with themselves are wanted, too
    k, theta, e, mean = _sample_values(program, r, np.concatenate([a, turned]), np.concatenate([b, turned]))
    first = (np.tile(v[:n], pairs // n) for v in (k, mean))
    second = (np.concatenate([v[:n], v[pairs:], np.roll(v[:n], 1)]) for v in (k, mean))
    nngp, ntk = _tail(program, k[:pairs], theta[:pairs], e[:pairs], tuple(first), tuple(second))
    return np.asarray(nngp), np.asarray(ntk)


@partial(jax.jit, static_argnums=0)
def _tail(
    program: RotationSections, k: ArrayLike, theta: ArrayLike, e: ArrayLike, first: ArrayLike, second: ArrayLike
) -> tuple[Any, Any]:
    return recursion.after_readout(program, k, theta, e, Variances(*first), Variances(*second))


def _sample_values(program: RotationSections, r: int, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, ...]:
    """(K, Θ, E, mean of the first) after the readout, in float64; one compiled function serves all resolutions."""
    c1, c2 = (np.array(recursion.scaled(program, x)) for x in (a, b))
    if program.sphere:
        return tuple(map(np.asarray, _readout(program, samples_of(program, r, np.dtype(np.float64)), c1, c2)))
    q1, q2 = (np.sum(c * c, axis=(0, 1)) for c in (c1, c2))
    k, weights = node_values(rings_of(program.bandlimit, program.group, r), c1, c2, program.bandlimit)
    constant = np.sum((c1[0] - c2[0]) ** 2, axis=0)
    directional = sum(np.sum(c[1:] ** 2, axis=(0, 1)) for c in (c1, c2))
    d = np.maximum(directional - 2 * k, 0) + constant
    totals = np.zeros((3, d.shape[1]))
    for start in range(0, len(d), _CHUNK):
        part = np.zeros((_CHUNK, d.shape[1]))
        part[: len(d) - start] = d[start : start + _CHUNK]
        w = np.zeros(_CHUNK)
        w[: len(d) - start] = weights[start : start + _CHUNK]
        totals += np.asarray(_weighted(program, part, w, q1, q2))
    return *totals, np.asarray(_means(program, q1))


@partial(jax.jit, static_argnums=0)
def _weighted(program: RotationSections, d: ArrayLike, weights: ArrayLike, q1: ArrayLike, q2: ArrayLike) -> ArrayLike:
    m1, m2 = (moments(program.field, Variances(q, jnp.zeros_like(q))) for q in (q1, q2))
    e = angle_left(d, both(q1, q2), PLAIN)
    e, theta = run(program.field, e, jnp.zeros_like(e), m1, m2)
    return jnp.stack([weights @ covariance(e, variances(after(m1), after(m2))), weights @ theta, weights @ e])


@partial(jax.jit, static_argnums=0)
def _means(program: RotationSections, q: ArrayLike) -> ArrayLike:
    return after(moments(program.field, Variances(q, jnp.zeros_like(q)))).mean


@partial(jax.jit, static_argnums=0)
def _readout(program: RotationSections, samples: Any, a: ArrayLike, b: ArrayLike) -> tuple[Any, ...]:
    found = recursion.readout(program, samples, a, b, False)
    return found.k, found.theta, found.e, found.first.mean


def samples_of(program: RotationSections, resolution: int, dtype: np.dtype) -> Rings | Sphere:
    """The quadrature's arrays in a precision, on the device."""
    if program.sphere:
        found: Rings | Sphere = sphere_samples(program, resolution)
    elif program.readout == "flatten":
        found = Rings({}, {})
    else:
        found = rings_of(program.bandlimit, program.group, resolution)
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), found)
