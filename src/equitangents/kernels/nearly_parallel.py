"""Nearly parallel inputs before a kink, for which a compiled engine has no scaling.

These are networks with a smooth nonlinearity or layer normalisation, before the kink or after it, and of opposite
inputs all that have windows. A bias or a smooth nonlinearity leaves these a small angle θ, which the kink reads. D
and the variances hold θ² to the rounding ε D/√(q1 q2), so that θ is off by that over θ. Pairs of inputs for which
this may be above `TARGET` are computed again in double precision; those of which it is still above, by the reference
engine, which carries the angle. Positions that are parallel in inputs that are not keep the root of ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from equitangents._types import DType
from equitangents.kernels.branches import flat
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.plans.plan import FibrePlan, PairPlan, plan
from equitangents.kernels.program import Program
from equitangents.kernels.scales import has_bias, least_and_most, unit_bias

Pairs = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

TARGET = {"float32": 2e-6, "float64": 3e-14}  # of angles
_ERRORS = 3  # roundings that D has gathered
_ROWS = 1 << 18  # entries of a block of distances
_PAIRS = 1 << 20  # products of entries at a time
_ROUGH = 1e-5  # of squared distances and cosines in single precision
_FEW = 24  # random combinations of entries, by which pairs are sought
_STRETCH = 4.9  # how much longer squared distances may be of these: more for one pair in 1e13
_SMALL = 1 << 16  # products of entries of so few inputs that one look at all their cosines is the cheapest
_BLOCK = 64, 128, 1 << 18  # of a product, sums, columns, and multiplications in all
_RANGE = 1e-60, 1e60  # of mean squares: beyond, their products leave the range of doubles


def mend(
    parallel: bool, again: Pairs, x1: np.ndarray, x2: np.ndarray | None, nngp: Any, ntk: Any
) -> tuple[Any, Any, int]:
    """(NNGP, NTK, pairs) with the kernels of such pairs computed again, and how many these are.

    By `again(i, j)`, of the numbers (P,) of both inputs. Opposite ones, and, if so, `parallel` ones, too.
    """
    if not len(x1) or (x2 is not None and not len(x2)):
        return nngp, ntk, 0
    found = 0
    for i, j in _near(x1, x2, parallel):
        if not len(i):
            continue
        if not found:
            nngp, ntk = np.array(nngp), np.array(ntk)
        found += len(i)
        k, theta = again(i, j)
        known = np.isfinite(k) & np.isfinite(theta)
        for out, values in ((nngp, k), (ntk, theta)):
            out[i[known], j[known]] = values[known]
            if x2 is None:
                out[j[known], i[known]] = values[known]
    return nngp, ntk, found


@lru_cache(maxsize=256)
def parallel_too(program: Program) -> bool | None:
    """Whether parallel inputs are in doubt as well as opposite ones, for an engine with scaling of whole networks.

    None: none are in doubt.
    """
    steps = plan(program)
    dense = _is_dense(steps)
    ops = [op for part in steps.parts for op in flat(part)]
    kinks = [n for n, op in enumerate(ops) if op.nonlinearity is not None and traits_of(op.nonlinearity).bent]
    before = ops[: max(kinks, default=0)]
    biased, curved = any(map(has_bias, before)), any(map(_is_curved, before))
    whole = unit_bias(*steps.parts) is not None
    if (not biased and not curved) or (dense and whole):
        return None
    return (biased or dense) and not whole


def _is_dense(steps: FibrePlan | PairPlan) -> bool:
    if steps.form == "pairs" or steps.field or not steps.single:
        return False
    return len(set(steps.labels.array)) == 1


def _is_curved(op: Any) -> bool:
    return op.nonlinearity is not None and traits_of(op.nonlinearity).curved


def _near(x1: np.ndarray, x2: np.ndarray | None, parallel: bool = True) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield index arrays (i, j) of nearly parallel pairs, in blocks; i < j if x2 is None.

    Those of opposite inputs alone, unless parallel ones are in doubt, too.
    """
    x1 = x1.reshape((len(x1), -1))
    x2 = x1 if (alone := x2 is None) else x2.reshape((len(x2), -1))
    if len(x1) * len(x2) * x1.shape[1] <= _SMALL and _all_are_wide(x1, x2, alone):
        return
    norms1 = _norms(x1)
    norms2 = norms1 if alone else _norms(x2)
    if not norms1.any() or not norms2.any():
        return
    ratio = min(norms1[norms1 > 0].min() / norms2.max(), norms2[norms2 > 0].min() / norms1.max())
    few1, lengths = _few(x1, norms1)
    few2 = few1 if alone else _few(x2, norms2)[0]
    stretch = _STRETCH if x1.shape[1] > _FEW else 1.0
    least, most = (_least_cosines(lengths, _angle(ratio, sign, _rounding(x1.dtype)) ** 2 * stretch) for sign in (1, -1))
    if not parallel:
        least[:] = 2
    rows, products = max(1, _ROWS // len(x2)), max(1, _PAIRS // x1.shape[1])
    for at in range(0, len(x1), rows):
        after = at if alone else 0
        here = slice(at, at + rows)
        cosines = _product(few1[here], few2[after:].T)
        if alone:
            np.fill_diagonal(cosines, 0)  # no pairs
        i, j = _close(cosines, least[here], -most[here])
        i, j = i + at, j + after
        if alone:
            i, j = i[i < j], j[i < j]
        for part in range(0, len(i), products):
            a, b = i[part : part + products], j[part : part + products]
            near = _is_near(x1[a], norms1[a], x2[b], norms2[b], parallel, _rounding(x1.dtype))
            yield a[near], b[near]


def in_doubt_in_double(x1: np.ndarray, x2: np.ndarray, parallel: bool) -> np.ndarray:
    """Which pairs (x1[p], x2[p]) of single precision keep their angle to its target in double precision neither."""
    f, g = (x.reshape((len(x), -1)) for x in (x1, x2))
    return _is_near(f, _norms(f), g, _norms(g), parallel, _rounding(np.float64, np.float32))


def _all_are_wide(x1: np.ndarray, x2: np.ndarray, alone: bool) -> bool:
    """Whether no pair of inputs may be in doubt, as the extremes of norms and cosines say; of x1 with itself i ≠ j."""
    f = x1.astype(np.float64)
    g = f if alone else x2.astype(np.float64)
    products = f @ g.T
    q1 = products.diagonal() if alone else np.einsum("nc,nc->n", f, f)
    q2 = q1 if alone else np.einsum("nc,nc->n", g, g)
    least, most = least_and_most(q1 if alone else np.concatenate([q1, q2]))
    if not (_RANGE[0] < least and most < _RANGE[1]):
        return False
    ratio = math.sqrt(least / most)
    cosine = 1 - (_rounding(x1.dtype) * (ratio + 1 / ratio + 2)) ** 2 / 2 - _ROUGH
    bounds = q1[:, None] * (max(cosine, 0) ** 2 * q2)
    beyond = np.count_nonzero(products * products > bounds)
    return beyond == (len(f) if alone else 0)  # each is parallel to itself


def _least_cosines(lengths: np.ndarray, bound: float) -> np.ndarray:
    """The least cosine of a vector of each length with one within the root of `bound` of it: at an angle arcsin(B/a).

    Beyond 1 for vectors of no length.
    """
    usable = lengths > 0
    squares = np.where(usable, lengths, 1) ** 2
    cosines = np.sqrt(np.maximum(1 - (bound + _ROUGH) / squares, 0))
    return np.where(usable, cosines - _ROUGH, 2).astype(np.float32)


def _close(cosines: np.ndarray, least: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where cosines are at least those of their row, or at most: most rows have no such, as their extremes say."""
    rows = np.nonzero((cosines.max(axis=1) >= least) | (cosines.min(axis=1) <= most))[0]
    few = cosines[rows]
    i, j = np.nonzero((few >= least[rows, None]) | (few <= most[rows, None]))
    return rows[i], j


def _is_near(
    f: np.ndarray, norms1: np.ndarray, g: np.ndarray, norms2: np.ndarray, parallel: bool, rounding: float
) -> np.ndarray:
    """For which pairs of rows rounding of D over the angle is more than the target; not where D is 0, and its error."""
    both = (norms1 > 0) & (norms2 > 0)
    one, other = (np.where(both, norms, 1) for norms in (norms1, norms2))
    f, g = (np.asarray(x, np.float64) / norms[:, None] for x, norms in ((f, one), (g, other)))
    sign = np.where(np.einsum("pc,pc->p", f, g) < 0, -1.0, 1.0)
    angle = np.linalg.norm(f - sign[:, None] * g, axis=1)
    return both & (angle < _angle(one / other, sign, rounding)) & (parallel | (sign < 0))


def _norms(x: np.ndarray) -> np.ndarray:
    """Norms of rows; those of inputs that are out of range are 0."""
    square = np.einsum("nc,nc->n", x, x, dtype=np.float64)
    usable = (square > _RANGE[0]) & (square < _RANGE[1])
    return np.where(usable, np.sqrt(np.where(usable, square, 1)), 0)


def _few(x: np.ndarray, norms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of few numbers as unit vectors, and their lengths; of many entries random combinations, 0 where norms are.

    These keep the distances of inputs of norm 1, but for a factor.
    """
    scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)[:, None]
    if x.shape[1] > _FEW:
        x = _product(x, _combinations(x.shape[1], x.dtype.name))
        scale = scale / np.sqrt(_FEW)
    few = np.asarray(x * scale, np.float32)
    lengths = np.sqrt(np.einsum("nc,nc->n", few, few))
    return few / np.where(lengths > 0, lengths, 1)[:, None], lengths


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b, in blocks that BLAS multiplies by this thread alone.

    Others that it wakes wait for more for a tenth of a second, at full speed: beside a compiled engine in the next
    call, whose threads then share the cores with them.
    """
    sums, columns, most = _BLOCK
    inner, across = min(a.shape[1], sums), min(b.shape[1], columns)
    rows = most // (inner * across)
    out = np.zeros((len(a), b.shape[1]), a.dtype)
    for i in range(0, len(a), rows):
        for j in range(0, b.shape[1], columns):
            for k in range(0, a.shape[1], sums):
                out[i : i + rows, j : j + columns] += a[i : i + rows, k : k + sums] @ b[k : k + sums, j : j + columns]
    return out


@lru_cache(maxsize=4)
def _combinations(entries: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((entries, _FEW)).astype(dtype)


def _angle(ratio: Any, sign: Any, rounding: float) -> Any:
    """Below which angle rounding matters, of vectors of this ratio of norms, parallel (`sign` 1) or opposite (-1)."""
    return rounding * (ratio + 1 / ratio - 2 * sign)  # times D/√(q1 q2)


@lru_cache(maxsize=4)
def _rounding(dtype: DType, of: DType | None = None) -> float:
    """Of D in `dtype`, over the target for angles in the precision `of` (None: in that)."""
    return _ERRORS * float(np.finfo(dtype).eps) / TARGET[np.dtype(of or dtype).name] / 4
