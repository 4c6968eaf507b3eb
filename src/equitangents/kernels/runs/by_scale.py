"""Kernels of inputs of any scale: inputs are grouped by norm, and each pair of groups gets its precision."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from equitangents import precision
from equitangents._types import DType
from equitangents.kernels.engines import Engine
from equitangents.kernels.fields.part import MATRIX, Layout
from equitangents.kernels.scales import (
    Law,
    Scales,
    Treatment,
    are_ordinary,
    as_representable,
    check_representable,
    divided,
    scales_of,
    treatment,
)

logger = logging.getLogger("equitangents")

Pair = tuple[np.ndarray, np.ndarray]


class Backends(NamedTuple):
    """Backends for a block of pairs, in the `precision.scope` of its inputs; each returns (NNGP, NTK)."""

    engine: Callable[[np.ndarray, np.ndarray | None], Pair]
    common: Callable[[np.ndarray, np.ndarray | None, float], Pair]  # biases times a factor
    apart: Callable[[np.ndarray, np.ndarray, float], Pair]  # biases times a factor
    compiled: bool  # for each number of inputs: blocks are then filled up to few different numbers
    checked: bool = False  # `engine` refuses inputs of which it finds numbers that are not finite
    beyond: Callable[[np.ndarray, np.ndarray], Pair] | None = None  # where `engine` leaves inputs out, as NaN


def all_pairs(
    law: Law, backends: Backends, engine: Engine, x1: np.ndarray, x2: np.ndarray | None, layout: Layout = MATRIX
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(NNGP, NTK, notes) between x1 and x2 (None: x1 with itself), each (N1, N2, *layout.tail), by an engine.

    In the `precision.scope` of the inputs.
    """
    dtype = x1.dtype
    inputs = (x1,) if x2 is None else (x1, x2)
    scales = None if are_ordinary(law, inputs) else scales_of(law, dtype, x1, x2)
    if scales is None or scales.ordinary or not all(map(len, inputs)):
        nngp, ntk = backends.engine(x1, x2)
        beyond = _complete(backends, x1, x2, nngp, ntk)
        if scales is not None:
            _clear(scales, nngp, ntk)
        if not backends.checked:
            check_representable(dtype, (nngp, ntk), inputs)
        return nngp, ntk, _told(beyond)
    symmetric = x2 is None
    other = x1 if x2 is None else x2
    shape = len(x1), len(other)
    found = _Results(layout.zeros(shape, dtype), layout.zeros(shape, dtype))
    for rows, columns, how, same in scales.blocks(symmetric):
        shift1, shift2 = scales.shift1[rows], scales.shift2[columns]
        a = divided(x1[rows], shift1 + how.first, np.float64 if how.double else dtype)
        b = None if same else divided(other[columns], shift2 + how.second, a.dtype)
        values, here = _run(backends, how, a, b), np.ix_(rows, columns)
        if how.way == "engine":
            found.beyond += _complete(backends, a, b, *values) * (1 + (symmetric and not same))
        found.apart += len(rows) * len(columns) * (1 + symmetric) * (how.way == "apart" and not engine.any_norms)
        found.put(here, values, layout.spread((shift1 + how.first)[:, None] + (shift2 + how.second)))
        if symmetric and not same:
            for out in found.pair:
                out[np.ix_(columns, rows)] = layout.mirrored(out[here])
    return found.finished(inputs)


def listed(
    law: Law,
    run: Callable[..., Pair],
    engine: Engine,
    x1: np.ndarray,
    x2: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(NNGP, NTK, notes) of the pairs (x1[first[p]], x2[second[p]]), each (P,).

    `run(way, x1, x2, first, second)` computes some of them in one way: see `Treatment`.
    """
    dtype = x1.dtype
    scales = scales_of(law, dtype, x1, x2)
    if scales.ordinary or not len(first):
        nngp, ntk = run(Treatment("engine", 0, 0, False), x1, x2, first, second)
        zero = scales.zero1[first] | scales.zero2[second]
        nngp, ntk = np.where(zero, 0, nngp), np.where(zero, 0, ntk)
        check_representable(dtype, (nngp, ntk), (x1, x2))
        return nngp, ntk, []
    found = _Results(np.zeros(len(first), dtype), np.zeros(len(first), dtype))
    for rows, columns, how, _ in scales.blocks(symmetric=False):
        here = np.nonzero(np.isin(first, rows) & np.isin(second, columns))[0]
        if not len(here):
            continue
        i, j = (np.unique(index[here], return_inverse=True) for index in (first, second))
        shift1, shift2 = scales.shift1[i[0]], scales.shift2[j[0]]
        a = divided(x1[i[0]], shift1 + how.first, np.float64 if how.double else dtype)
        b = divided(x2[j[0]], shift2 + how.second, a.dtype)
        values = run(how, a, b, i[1], j[1])
        found.apart += len(here) * (how.way == "apart" and not engine.any_norms)
        found.put(here, values, (shift1 + how.first)[i[1]] + (shift2 + how.second)[j[1]])
    return found.finished((x1, x2))


def diagonal(
    law: Law,
    engine: Callable[[np.ndarray], Pair],
    common: Callable[[np.ndarray, float], Pair],
    x: np.ndarray,
    layout: Layout = MATRIX,
    beyond: Callable[[np.ndarray], Pair] | None = None,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(NNGP, NTK, notes) of each input with itself, each (N, *layout.tail); `common(x, factor)` multiplies biases.

    `beyond` computes what `engine` leaves out, as NaN.
    """
    dtype = x.dtype
    scales = scales_of(law, dtype, x, None)
    found = _Results(np.zeros((len(x), *layout.tail), dtype), np.zeros((len(x), *layout.tail), dtype))
    left = 0

    def run(y: np.ndarray) -> Pair:
        nonlocal left
        pair = engine(y)
        missing = np.nonzero(np.isnan(pair[0]))[0] if beyond is not None else ()
        if beyond is not None and len(missing):
            left += len(missing)
            for out, values in zip(pair, beyond(y[missing]), strict=True):
                out[missing] = values
        return pair

    treatments = [treatment(law, int(b), int(b), dtype) for b in np.unique(scales.bins1)]
    if scales.ordinary or not len(x):
        zero = layout.spread(scales.zero1)
        found = _Results(*(np.where(zero, 0, values) for values in run(x)))
        treatments = []
    for b, how in zip(np.unique(scales.bins1), treatments, strict=False):
        rows = np.nonzero((scales.bins1 == b) & ~scales.zero1)[0]
        if not len(rows):
            continue
        exponents = scales.shift1[rows] + how.first
        a = divided(x[rows], exponents, np.float64 if how.double else dtype)
        values = common(a, 2.0**-how.first) if how.way == "common" else run(a)
        found.put(rows, values, 2 * layout.spread(exponents))
    found.beyond = left
    return found.finished((x,))


class _Results:
    """NNGP and NTK as they are filled in, and what a reader of them should know."""

    def __init__(self, nngp: np.ndarray, ntk: np.ndarray) -> None:
        self.pair = nngp, ntk
        self.apart = 0  # pairs that another engine computed
        self.beyond = 0  # pairs that the engine left out
        self.lost = 0  # entries that lost digits

    def put(self, at: Any, values: Pair, exponents: np.ndarray) -> None:
        """Write values times 2 to the power of the exponents."""
        for out, part in zip(self.pair, values, strict=True):
            out[at], lost = as_representable(part, exponents, out.dtype)
            self.lost += lost

    def finished(self, inputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """(NNGP, NTK, notes); raises NotFiniteError where kernels of finite inputs are not."""
        check_representable(self.pair[0].dtype, self.pair, inputs)
        return *self.pair, self._notes(self.pair[0].dtype)

    def _notes(self, dtype: DType) -> list[str]:
        found = []
        if self.apart:
            found.append(f"{self.apart} pairs of inputs of very different norm by the reference engine")
            logger.info("%s", found[-1])
        found += _told(self.beyond)
        if self.lost:
            found.append(
                f"{self.lost} entries below {np.finfo(dtype).tiny:.1e}, the smallest normal number of "
                f"{np.dtype(dtype).name}, lost digits"
            )
            logger.warning("kernels: %s; scale the inputs up", found[-1])
        return found


def _complete(backends: Backends, x1: np.ndarray, x2: np.ndarray | None, nngp: np.ndarray, ntk: np.ndarray) -> int:
    """How many pairs the engine left out, whose kernels are then filled in: all those of some inputs."""
    if backends.beyond is None or not nngp.size or not np.isnan(nngp.sum()):
        return 0
    missing = np.isnan(nngp)
    rows = np.nonzero(missing.all(axis=1) if x2 is not None else missing.diagonal())[0]
    columns = rows if x2 is None else np.nonzero(missing.all(axis=0))[0]
    others = np.setdiff1d(np.arange(len(x1)), rows)
    for out, values in zip((nngp, ntk), _filled_up(backends.beyond, x1[rows], x1 if x2 is None else x2), strict=True):
        out[rows] = values
        if x2 is None:
            out[:, rows] = values.T
    if x2 is not None and len(others) and len(columns):
        for out, values in zip((nngp, ntk), _filled_up(backends.beyond, x1[others], x2[columns]), strict=True):
            out[np.ix_(others, columns)] = values
    return int(missing.sum())


def _filled_up(run: Callable[[np.ndarray, np.ndarray], Pair], a: np.ndarray, b: np.ndarray) -> Pair:
    """run(a, b), of few different numbers of inputs."""
    if not len(a):
        return np.empty((0, len(b)), a.dtype), np.empty((0, len(b)), a.dtype)
    nngp, ntk = run(_filled(a), _filled(b))
    return nngp[: len(a), : len(b)], ntk[: len(a), : len(b)]


def _told(beyond: int) -> list[str]:
    """What a reader should know of pairs that the engine left out."""
    if not beyond:
        return []
    note = f"{beyond} pairs by the reference engine: variances beyond the tables of an Elementwise"
    logger.info("%s", note)
    return [note]


_LEAST = 8  # inputs to which blocks are filled up


def _run(backends: Backends, how: Treatment, a: np.ndarray, b: np.ndarray | None) -> Pair:
    with precision.scope(a.dtype):
        if not backends.compiled:
            return _block(backends, how, a, b)
        rows, columns = len(a), len(a if b is None else b)
        nngp, ntk = _block(backends, how, _filled(a), None if b is None else _filled(b))
        return nngp[:rows, :columns], ntk[:rows, :columns]


def _filled(x: np.ndarray) -> np.ndarray:
    """With copies of the last input up to a power of two."""
    size = max(_LEAST, 1 << (len(x) - 1).bit_length())
    return np.concatenate([x, np.repeat(x[-1:], size - len(x), axis=0)])


def _block(backends: Backends, how: Treatment, a: np.ndarray, b: np.ndarray | None) -> Pair:
    if how.way == "engine":
        return backends.engine(a, b)
    if how.way == "common":
        return backends.common(a, b, 2.0**-how.first)
    assert b is not None
    return backends.apart(a, b, 2.0**-how.first)


def _clear(scales: Scales, nngp: np.ndarray, ntk: np.ndarray) -> None:
    """Kernels with inputs whose outputs are zero are zero, without rounding."""
    for out in (nngp, ntk):
        if scales.zero1.any():
            out[scales.zero1] = 0
        if scales.zero2.any():
            out[:, scales.zero2] = 0
