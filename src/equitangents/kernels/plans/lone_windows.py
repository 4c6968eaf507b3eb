"""Windows of one position, which read the same whatever their padding: they keep a torus, and never read around one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from equitangents.kernels.program import Box, Op, Pool, WindowPool, with_inside


def with_fitting_padding(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """Operations whose 1×…×1 windows without strides are padded like the layers before them.

    Along fibres, circular padding after zero padding is refused, since offsets no longer close; that is no reason
    against a window that reads no neighbour.
    """
    return _from(ops, True)[0]


def _from(ops: tuple[Op, ...], closed: bool) -> tuple[tuple[Op, ...], bool]:
    """(operations, whether the grid is a torus after them); `closed`: whether it is one before."""
    found: list[Op] = []
    for op in ops:
        if isinstance(op, Box):
            if op.in_shape == op.out_shape and set(op.window) <= {1}:
                op = replace(op, wrap=closed)
            closed = op.wrap and all(n % s == 0 for n, s in zip(op.in_shape, op.stride, strict=True))
        elif isinstance(op, Pool | WindowPool):
            closed = True  # after a pool all pairs of positions are there
        else:
            ends: list[bool] = []
            op = with_inside(op, partial(_inside, closed, ends))
            closed = closed and all(ends)
        found.append(op)
    return tuple(found), closed


def _inside(closed: bool, ends: list[bool], ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """A branch, which begins on a torus where the branches before it left one; `ends` gains whether this one does."""
    changed, end = _from(ops, closed and all(ends))
    ends.append(end)
    return changed
