"""Kernels of inputs of any scale: powers of two are taken out, or all is computed in a way for any two norms."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from equitangents import precision
from equitangents.kernels.fields.part import MATRIX, Layout
from equitangents.kernels.scales import (
    Law,
    are_ordinary,
    as_representable,
    check_representable,
    divided,
    scales_of,
)

logger = logging.getLogger("equitangents")

Pair = tuple[np.ndarray, np.ndarray]


class Backends(NamedTuple):
    """Ways to compute (NNGP, NTK) of arrays, in the `precision.scope` of these; x2 is None for x1 with itself."""

    engine: Callable[[np.ndarray, np.ndarray | None], Pair]  # of inputs near to each other in norm
    any_norms: Callable[[np.ndarray, np.ndarray | None, float], Pair]  # of any, in double, with biases times a factor
    by_reference: bool  # whether another engine has that way
    checked: bool = False  # `engine` refuses inputs of which it finds numbers that are not finite
    beyond: Callable[[np.ndarray, np.ndarray], Pair] | None = None  # where `engine` leaves inputs out, as NaN


def all_pairs(
    law: Law,
    backends: Backends,
    x1: np.ndarray,
    x2: np.ndarray | None,
    layout: Layout = MATRIX,
    listed: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(NNGP, NTK, notes) between x1 and x2 (None: x1 with itself), each (N1, N2, *layout.tail), by an engine.

    Of `listed` pairs, indices (P,) into both, each (P, *layout.tail). In the `precision.scope` of the inputs.
    """
    dtype, inputs = x1.dtype, (x1,) if x2 is None else (x1, x2)
    if are_ordinary(law, inputs) or not all(map(len, inputs)):
        values = backends.engine(x1, x2)
        beyond = _complete(backends, x1, x2, values, listed)
        if not backends.checked:
            check_representable(dtype, values, inputs)
        return *values, _told(beyond)
    scales = scales_of(law, dtype, x1, x2)
    a, b = x1, x2
    if scales.far or scales.moved:
        working = np.float64 if scales.far else dtype
        a = divided(x1, scales.first + scales.common, working)
        b = None if x2 is None else divided(x2, scales.second + scales.common, working)
    with precision.scope(a.dtype):
        values = backends.any_norms(a, b, 2.0**-scales.common) if scales.far else backends.engine(a, b)
        beyond = _complete(backends, a, b, values, listed)
    exponents = _pairwise(np.add, scales.first, scales.second, listed, layout) + 2 * scales.common
    zero = _pairwise(np.logical_or, scales.zero1, scales.zero2, listed, layout)
    lost, results = 0, []
    for part in values:
        found, few = as_representable(part, exponents, dtype) if scales.far or scales.moved else (part, 0)
        lost += few
        results.append(np.where(zero, found.dtype.type(0), found) if zero.any() else found)
    check_representable(dtype, (results[0], results[1]), inputs)
    notes = _told(beyond)
    if scales.far and backends.by_reference:
        notes.append("inputs of very different norm by the reference engine")
    if lost:
        notes.append(
            f"{lost} entries below {np.finfo(dtype).tiny:.1e}, the smallest normal number of {dtype.name}, lost digits"
        )
        logger.warning("kernels: %s; scale the inputs up", notes[-1])
    return results[0], results[1], notes


def _pairwise(
    join: np.ufunc, one: np.ndarray, other: np.ndarray, listed: tuple[np.ndarray, np.ndarray] | None, layout: Layout
) -> np.ndarray:
    """What numbers of both inputs make of each pair."""
    found = join(one[:, None], other) if listed is None else join(one[listed[0]], other[listed[1]])
    return layout.spread(found)


def _complete(
    backends: Backends,
    x1: np.ndarray,
    x2: np.ndarray | None,
    values: Pair,
    listed: tuple[np.ndarray, np.ndarray] | None,
) -> int:
    """How many pairs the engine left out, whose kernels are then filled in: all those of some inputs."""
    nngp = values[0]
    if backends.beyond is None or not nngp.size or not np.isnan(nngp.sum()):
        return 0
    missing = np.isnan(nngp)
    if listed is not None:
        here = np.nonzero(missing)[0]
        other = x1 if x2 is None else x2
        for out, found in zip(values, backends.beyond(x1[listed[0][here]], other[listed[1][here]]), strict=True):
            out[here] = found
        return len(here)
    rows = np.nonzero(missing.all(axis=1) if x2 is not None else missing.diagonal())[0]
    columns = rows if x2 is None else np.nonzero(missing.all(axis=0))[0]
    others = np.setdiff1d(np.arange(len(x1)), rows)
    for out, found in zip(values, _filled_up(backends.beyond, x1[rows], x1 if x2 is None else x2), strict=True):
        out[rows] = found
        if x2 is None:
            out[:, rows] = found.T
    if x2 is not None and len(others) and len(columns):
        for out, found in zip(values, _filled_up(backends.beyond, x1[others], x2[columns]), strict=True):
            out[np.ix_(others, columns)] = found
    return int(missing.sum())


def _filled_up(run: Callable[[np.ndarray, np.ndarray], Pair], a: np.ndarray, b: np.ndarray) -> Pair:
    """run(a, b), of few different numbers of inputs."""
    if not len(a):
        return np.empty((0, len(b)), a.dtype), np.empty((0, len(b)), a.dtype)
    nngp, ntk = run(_filled(a), _filled(b))
    return nngp[: len(a), : len(b)], ntk[: len(a), : len(b)]


def _filled(x: np.ndarray) -> np.ndarray:
    """With copies of the last input up to a power of two, at least 8."""
    size = max(8, 1 << (len(x) - 1).bit_length())
    return np.concatenate([x, np.repeat(x[-1:], size - len(x), axis=0)])


def _told(beyond: int) -> list[str]:
    """What a reader should know of pairs that the engine left out."""
    if not beyond:
        return []
    note = f"{beyond} pairs by the reference engine: variances beyond the tables of an Elementwise"
    logger.info("%s", note)
    return [note]
