"""Nearly parallel inputs before a kink, for which a compiled engine has no scaling.

These are networks with a smooth nonlinearity or layer normalisation, before the kink or after it, and of opposite
inputs all that have windows. A bias or a smooth nonlinearity leaves these a small angle θ, which the kink reads. D
and the variances hold θ² to the rounding ε D/√(q1 q2), so that θ is off by that over θ. Pairs of inputs for which
this may be above `TARGET` are computed again in double precision; those of which it is still above, by the reference
engine, which carries the angle. Positions that are parallel in inputs that are not keep the root of ε.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from equitangents._types import DType
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.plans import FibrePlan, PairPlan, plan
from equitangents.kernels.program import Program, flat
from equitangents.kernels.scales import has_bias, unit_bias

Pairs = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

TARGET = {"float32": 2e-6, "float64": 3e-14}  # of angles
_ERRORS = 3  # roundings that D has gathered
_ROWS = 1 << 18  # entries of a block of cosines
_PAIRS = 1 << 20  # products of entries at a time
_ROUGH = 1e-5  # of cosines in single precision
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

    Those of opposite inputs alone, unless parallel ones are in doubt, too. Vectors of norm 1 at the distance B have the
    cosine 1 - B²/2, which is looked at in single precision first.
    """
    x1 = x1.reshape((len(x1), -1))
    x2 = x1 if (alone := x2 is None) else x2.reshape((len(x2), -1))
    norms1 = _norms(x1)
    norms2 = norms1 if alone else _norms(x2)
    if not norms1.any() or not norms2.any():
        return
    ratio = min(norms1[norms1 > 0].min() / norms2.max(), norms2[norms2 > 0].min() / norms1.max())
    rounding = _rounding(x1.dtype)
    least, most = (1 - _angle(ratio, sign, rounding) ** 2 / 2 - _ROUGH for sign in (1, -1))
    units1 = _units(x1, norms1)
    units2 = units1 if alone else _units(x2, norms2)
    rows, products = max(1, _ROWS // len(x2)), max(1, _PAIRS // x1.shape[1])
    for at in range(0, len(x1), rows):
        after = at if alone else 0
        cosines = units1[at : at + rows] @ units2[after:].T
        near = cosines <= -most
        if parallel:
            near |= cosines >= least
        i, j = np.nonzero(np.triu(near, 1) if alone else near)
        for part in range(0, len(i), products):
            a, b = i[part : part + products] + at, j[part : part + products] + after
            close = _is_near(x1[a], norms1[a], x2[b], norms2[b], parallel, rounding)
            yield a[close], b[close]


def in_doubt_in_double(x1: np.ndarray, x2: np.ndarray, parallel: bool) -> np.ndarray:
    """Which pairs (x1[p], x2[p]) of single precision keep their angle to its target in double precision neither."""
    f, g = (x.reshape((len(x), -1)) for x in (x1, x2))
    return _is_near(f, _norms(f), g, _norms(g), parallel, _rounding(np.float64, np.float32))


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


def _units(x: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Vectors of norm 1 in single precision, 0 where norms are."""
    scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    return np.asarray(x * scale[:, None], np.float32)


def _angle(ratio: Any, sign: Any, rounding: float) -> Any:
    """Below which angle rounding matters, of vectors of this ratio of norms, parallel (`sign` 1) or opposite (-1)."""
    return rounding * (ratio + 1 / ratio - 2 * sign)  # times D/√(q1 q2)


@lru_cache(maxsize=4)
def _rounding(dtype: DType, of: DType | None = None) -> float:
    """Of D in `dtype`, over the target for angles in the precision `of` (None: in that)."""
    return _ERRORS * float(np.finfo(dtype).eps) / TARGET[np.dtype(of or dtype).name] / 4
