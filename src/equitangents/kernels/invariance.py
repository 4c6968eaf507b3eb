"""Whether a kernel is invariant, k(ρ(g)x, ρ(g)x') = k(x, x') for all inputs, decided by its structure.

A program is invariant if every operation maps moves of the positions before it to moves of those after it (see
`moves`), down to one position. All entries of its tables are compared, for each generator of the group. Other objects
with kernels declare it by a method `invariant_under(action, input_shape)`; without it nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from equitangents.actions import Action
from equitangents.actions.action import GroupAction
from equitangents.kernels.result import KernelFunction
from equitangents.structured import is_structured

if TYPE_CHECKING:
    from equitangents.kernels.operations import Moves


def is_invariant(net: KernelFunction, action: GroupAction, *x: Any) -> bool:
    """Whether the kernel is known to be invariant for all inputs of the shape of x.

    False for inputs with masks or graphs, and if `net` declares nothing.
    """
    if any(map(is_structured, x)):
        return False
    return all(known_invariant(net, action, shape) for shape in {tuple(part.shape[1:]) for part in x})


def known_invariant(net: Any, action: GroupAction, input_shape: tuple[int, ...]) -> bool:
    """As `is_invariant`, for inputs of one shape."""
    says = getattr(net, "invariant_under", None)
    return says is not None and action.exact and bool(says(action, input_shape))


def draws_noise(net: Any) -> bool:
    """Whether `net` draws independent noise (dropout), so that x with itself differs from x with an equal input.

    Then its kernel is not a function of two inputs, and properties of such functions do not apply.
    """
    return bool(getattr(net, "draws_noise", False))


def ops_are_invariant(ops: tuple[Any, ...], action: GroupAction, shape: tuple[int, ...]) -> bool:
    """Whether operations from inputs of `shape` (*positions, channels) to one position are invariant under `action`."""
    elements = action.group.generators if isinstance(action, Action) else (None,)
    return all(_carried(ops, action, g, shape) for g in elements)


def _carried(ops: tuple[Any, ...], action: GroupAction, g: Any, shape: tuple[int, ...]) -> bool:
    if ops and ops[0].is_diagonal and action.is_isometry(g, shape):
        known = action.moves(g, shape)
        if (known is not None and known[1]) or _reads_products(ops):
            return any(len(after) == 1 for (after,) in walk(ops[1:], (np.zeros(1, int),)))
    known = action.moves(g, shape)
    if known is None or not (known[1] or _reads_products(ops)):
        return False
    return any(len(fields) == 1 and len(fields[0]) == 1 for fields in walk(ops, (known[0],)))


def outputs_move(
    ops: tuple[Any, ...], action: Action, shape: tuple[int, ...], moves: np.ndarray, *, one_sided: bool = False
) -> bool:
    """Whether operations map the moves of `action` to moves[i] of output positions, for each generator g_i.

    one_sided: only one of the two inputs moves, K(ρ(g)x, x')(m p, p') = K(x, x')(p, p').
    """
    for g, end in zip(action.group.generators, moves, strict=True):
        known = action.moves(g, shape)
        kept = action.permutes_positions if one_sided else known is not None and (known[1] or _reads_products(ops))
        if known is None or not kept:
            return False
        ends = walk(ops, (known[0],), one_sided=one_sided)
        if not any(len(fields) == 1 and np.array_equal(fields[0], end) for fields in ends):
            return False
    return True


def _reads_products(ops: tuple[Any, ...]) -> bool:
    """Whether inputs enter only by inner products, which orthogonal maps of channels preserve, not by means."""
    for op in ops:
        if op.affine is not None:
            return True
        if not (op.is_window or op.is_pool):
            return False
    return True


def walk(ops: tuple[Any, ...], fields: tuple[Moves, ...], *, one_sided: bool = False) -> Iterator[tuple[Moves, ...]]:
    """Moves of the positions of parallel fields after operations, given their moves before.

    one_sided: only one of the two inputs moves.
    """
    if not ops:
        yield fields
        return
    for after in _after(ops[0], fields, one_sided):
        yield from walk(ops[1:], after, one_sided=one_sided)


def _after(op: Any, fields: tuple[Moves, ...], one_sided: bool) -> Iterator[tuple[Moves, ...]]:
    if not op.is_branching:
        yield from product(*(op.moves_after(moves, one_sided) for moves in fields))
        return
    branches: Iterator[tuple[Moves, ...]] = iter([fields])
    if op.branches:
        each = fields * len(op.branches) if len(fields) == 1 else fields
        moves_after = (walk(ops, (moves,), one_sided=one_sided) for ops, moves in zip(op.branches, each, strict=True))
        branches = (tuple(moves for part in parts for moves in part) for parts in product(*moves_after))
    for found in branches:
        if not op.joined:
            yield found
        elif all(np.array_equal(found[0], other) for other in found[1:]):
            yield found[:1]
