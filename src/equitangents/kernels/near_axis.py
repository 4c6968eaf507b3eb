"""Parallel and opposite vectors of unequal norm where a kink follows a smooth nonlinearity, which has no units.

A smooth nonlinearity leaves these vectors a small angle θ, which the kink reads. D and the variances hold θ² to the
rounding ε D/√(q1 q2), so that θ is off by that over θ. Pairs of dense networks for which this may be above `TARGET` are
computed again, from the covariance, in numbers of 106 bits. Convolutions and other networks keep the root of ε.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from equitangents._types import DType
from equitangents.kernels.duals import precise
from equitangents.kernels.duals.traits import traits_of
from equitangents.kernels.plans.plan import FibrePlan, plan
from equitangents.kernels.program import Affine, Dual, Program
from equitangents.kernels.twofold import Twofold, twofold
from equitangents.kernels.units import unit_bias

TARGET = {"float32": 2e-6, "float64": 3e-14}  # of angles
_ERRORS = 3  # roundings that D has gathered
_ROWS = 1 << 18  # entries of a block of cosines
_PAIRS = 1 << 20  # products of entries at a time
_ROUGH = 1e-5  # of cosines in single precision
_RANGE = 1e-60, 1e60  # of mean squares: beyond, their products leave the range of doubles


def mend(program: Program, x1: np.ndarray, x2: np.ndarray | None, nngp: Any, ntk: Any) -> tuple[Any, Any, int]:
    """(NNGP, NTK, pairs) with the kernels of such pairs computed again, and how many these are."""
    steps = bent_steps(program)
    if steps is None or not len(x1) or (x2 is not None and not len(x2)):
        return nngp, ntk, 0
    found = 0
    for i, j in _near(x1, x2):
        if not len(i):
            continue
        if not found:
            nngp, ntk = np.array(nngp), np.array(ntk)
        found += len(i)
        k, theta = kernels(steps, x1[i], (x1 if x2 is None else x2)[j])
        known = np.isfinite(k) & np.isfinite(theta)
        for out, values in ((nngp, k), (ntk, theta)):
            out[i[known], j[known]] = values[known]
            if x2 is None:
                out[j[known], i[known]] = values[known]
    return nngp, ntk, found


@lru_cache(maxsize=256)
def bent_steps(program: Program) -> tuple[Any, ...] | None:
    """The layers of a dense network in which a kink follows a smooth nonlinearity, or None."""
    steps = plan(program)
    if not isinstance(steps, FibrePlan) or steps.field or not steps.single or len(set(steps.labels.array)) != 1:
        return None
    ops = steps.vector
    if not all(isinstance(op, Affine) or (isinstance(op, Dual) and precise.is_known(op.activation)) for op in ops):
        return None
    kinks = [n for n, op in enumerate(ops) if isinstance(op, Dual) and traits_of(op.activation).bent]
    smooth = any(isinstance(op, Dual) and traits_of(op.activation).curved for op in ops[: max(kinks, default=0)])
    return ops if kinks and smooth and unit_bias(ops) is None else None


def kernels(steps: tuple[Any, ...], f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) of the pairs of inputs f and g, each (P, …), through dense layers, in double precision."""
    f, g = (np.asarray(x, np.float64).reshape((len(x), -1)) for x in (f, g))
    k, q1, q2 = _mean_product(f, g), _mean_product(f, f), _mean_product(g, g)
    theta = 0.0 * k
    for op in steps:
        if isinstance(op, Affine):
            before, W = k, float(op.W_var)
            k, q1, q2 = (W * q + float(op.b_var) for q in (k, q1, q2))
            gain = k if op.rates is None else float(op.rates[0]) * before + float(op.rates[1])
            theta = gain + W * theta
        else:
            of = op.activation
            (k, slope), (q1, _), (q2, _) = (
                precise.covariance(of, *z) for z in ((k, q1, q2), (q1, q1, q1), (q2, q2, q2))
            )
            theta = slope * theta
    return k.high + k.low, theta.high + theta.low


def _mean_product(f: np.ndarray, g: np.ndarray) -> Twofold:
    total = twofold(f) * twofold(g)
    while (n := total.high.shape[1]) > 1:
        half = n // 2
        high, low = total.high, total.low
        sums = Twofold(high[:, :half], low[:, :half]) + Twofold(high[:, half : 2 * half], low[:, half : 2 * half])
        total = Twofold(
            *(np.concatenate([a, b[:, 2 * half :]], axis=1) for a, b in ((sums.high, high), (sums.low, low)))
        )
    return Twofold(total.high[:, 0], total.low[:, 0]) / float(f.shape[1])


def _near(x1: np.ndarray, x2: np.ndarray | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The numbers of both inputs of such pairs, some at a time; of x1 with itself those with i < j."""
    f, norms1 = _directions(x1)
    g, norms2 = (f, norms1) if x2 is None else _directions(x2)
    if not norms1.any() or not norms2.any():
        return
    ratio = min(norms1[norms1 > 0].min() / norms2.max(), norms2[norms2 > 0].min() / norms1.max())
    widest = _angle(ratio, -1, x1.dtype)
    bound = 1 - widest**2 / 2 - _ROUGH
    rough1, rough2 = f.astype(np.float32), g.astype(np.float32).T
    rows, most = max(1, _ROWS // len(g)), max(1, _PAIRS // f.shape[1])
    for at in range(0, len(f), rows):
        after = at if x2 is None else 0
        i, j = np.nonzero(np.abs(rough1[at : at + rows] @ rough2[:, after:]) >= bound)
        i, j = i + at, j + after
        if x2 is None:
            i, j = i[i < j], j[i < j]
        for part in range(0, len(i), most):
            yield _nearest(f, norms1, i[part : part + most], g, norms2, j[part : part + most], x1.dtype)


def _nearest(
    f: np.ndarray, norms1: np.ndarray, i: np.ndarray, g: np.ndarray, norms2: np.ndarray, j: np.ndarray, dtype: DType
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs among (i, j) for which rounding of D over the angle is more than the target."""
    sign = np.where(np.einsum("pc,pc->p", f[i], g[j]) < 0, -1.0, 1.0)
    angle = np.linalg.norm(f[i] - sign[:, None] * g[j], axis=1)
    both = (norms1[i] > 0) & (norms2[j] > 0)
    ratio = np.where(both, norms1[i], 1) / np.where(both, norms2[j], 1)
    near = both & (angle <= _angle(ratio, sign, dtype))
    return i[near], j[near]


def _directions(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors and norms; those of inputs that are out of range are 0."""
    flat = np.asarray(x, np.float64).reshape((len(x), -1))
    square = np.einsum("nc,nc->n", flat, flat)
    usable = (square > _RANGE[0]) & (square < _RANGE[1])
    norms = np.where(usable, np.sqrt(np.where(usable, square, 1)), 0)
    return np.where(usable[:, None], flat, 0) / np.where(usable, norms, 1)[:, None], norms


def _angle(ratio: Any, sign: Any, dtype: DType) -> Any:
    """Below which angle rounding matters, of vectors of this ratio of norms, parallel (`sign` 1) or opposite (-1)."""
    size = ratio + 1 / ratio - 2 * sign  # D/√(q1 q2)
    return _ERRORS * float(np.finfo(dtype).eps) / TARGET[np.dtype(dtype).name] * size / 4
