"""Kernels of a tree of layers, one layer after another over all pairs of positions: `kernels.structured` in JAX.

For what engines of networks do not take: several inputs, kernels that other kernels are made of, and kernels of each
input with itself beside those between them. In double precision, or inside JAX programs in that of the inputs.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, Tree
from equitangents.errors import NetworkError, ShapeError
from equitangents.kernels.engines.reference.structured import (
    Context,
    FieldKernels,
    State,
    execute,
    kernels_of_state,
    state_of_inputs,
    state_of_kernels,
    tables_of,
)
from equitangents.memory import check_fits
from equitangents.nn.signal import Grid, Signal
from equitangents.stax.kernel import (
    Inputs,
    Kernel,
    Shape,
    alike,
    check_convention,
    given,
    graphs_of,
    moved_shape,
    pieces,
)
from equitangents.stax.tree import Axes, Fan, Leaf, Node, Row, Signals, branches_of
from equitangents.structured import NEURAL_TANGENTS

_HELD = 16  # fields over all pairs of positions that are alive at once, at most


class Start(NamedTuple):
    """Start of one field: two sets of inputs with masks and graphs, or kernels; `same` (N1, N2)."""

    xs: tuple[ArrayLike, ...]
    masks: tuple[ArrayLike | None, ...]
    graphs: tuple[ArrayLike | None, ...]
    known: FieldKernels | None
    same: ArrayLike


class Carried(NamedTuple):
    """A field between layers, with the graphs of its inputs and which pairs of inputs are equal."""

    state: State
    graphs: tuple[jax.Array | None, ...]
    same: ArrayLike


Starts = Start | tuple["Starts", ...]  # of one input, or of several side by side
Fields = Carried | tuple["Fields", ...]


def evaluated(
    node: Node,
    x1: Inputs,
    x2: Inputs | None,
    mask_constant: float | None,
    patterns: tuple[Tree, Tree],
    *,
    diagonal_batch: bool,
    spatial: bool,
) -> Tree:
    """The `Kernel` of inputs or of a `Kernel`; of several a tuple, or what they came in."""
    kernels = [piece for piece in pieces(x1) if isinstance(piece, Kernel)]
    if not diagonal_batch and not kernels:
        run = partial(evaluated, node, mask_constant=mask_constant, diagonal_batch=True, spatial=spatial)
        whole = run(x1, x2, patterns=patterns)
        first = run(x1, None, patterns=(patterns[0],) * 2)
        second = None if x2 is None else run(x2, None, patterns=(patterns[1],) * 2)
        return _with_batches(whole, first, second)
    given_leaves = jax.tree.leaves((x1, x2))
    dtype = precision.working_dtype(*(leaf for leaf in given_leaves if hasattr(leaf, "dtype") and np.ndim(leaf) > 1))
    working = dtype if any(map(precision.is_traced, given_leaves)) else np.float64
    with precision.scope(working):
        starts, signal = _starts(node, x1, x2, mask_constant, patterns)
        _check_memory(starts, signal)
        starts = jax.tree.map(lambda v: _typed(v, working), starts)
        found = _run(node, signal, starts)
        found = jax.tree.map(lambda v: v.astype(dtype) if v.dtype != bool else v, found)
    if not any(isinstance(leaf, jax.Array) for leaf in given_leaves):
        found = jax.tree.map(np.asarray, found)
    alone = x2 is None and all(k.cov2 is None for k in kernels)
    axes = node.axes_after(_axes(node, pieces(x1)[0])) or (0, -1)
    no_ntk = any(layer.no_ntk is not None for leaf in node.leaves for layer in leaf.layers)
    kind = type(x1) if isinstance(x1, tuple | list) else tuple

    def kernel(found: Tree, signal: Signals) -> Tree:
        if not isinstance(found, FieldKernels):
            return kind(kernel(f, s) for f, s in zip(found, signal.parts, strict=True))  # type: ignore[union-attr]
        grid = signal.positions.shape
        shapes = [moved_shape((n, *signal.array_shape), axes, back=True) for n in found.nngp.shape[-2:]]
        masks = [None if m is None else ~m.T.reshape((m.shape[1], *grid, 1)) for m in found.masks]
        return Kernel(
            _from_positions(found.nngp, grid, spatial),
            None if no_ntk else _from_positions(found.ntk, grid, spatial),
            _from_positions(found.own[0], grid, spatial),
            None if alone else _from_positions(found.own[-1], grid, spatial),
            _all_alike(x1, x2),
            mask1=masks[0],
            mask2=None if alone else masks[-1],
            is_gaussian=signal.gaussian,
            diagonal_spatial=spatial and bool(grid),
            shape1=shapes[0],
            shape2=shapes[1],
            batch_axis=axes[0] % len(shapes[0]),
            channel_axis=(-1 if axes[1] is None else axes[1]) % len(shapes[0]),
        )

    return kernel(found, node.after(signal))


def _with_batches(whole: Tree, first: Tree, second: Tree) -> Tree:
    if isinstance(whole, Kernel):
        return whole.replace(cov1=first.nngp, cov2=None if second is None else second.nngp, diagonal_batch=False)
    seconds = (None,) * len(whole) if second is None else second
    return type(whole)(map(_with_batches, whole, first, seconds))


def _typed(value: ArrayLike, dtype: np.dtype | type) -> jax.Array:
    value = jnp.asarray(value)
    return value if value.dtype == bool else value.astype(dtype)


def _check_memory(starts: Starts, signal: Signals) -> None:
    """Raise MemoryLimitError where the pairs of positions of all pairs of inputs cannot fit."""
    if not isinstance(starts, Start):
        for start, part in zip(starts, signal.parts, strict=True):  # type: ignore[union-attr]
            _check_memory(start, part)
        return
    n1, n2 = starts.same.shape
    count, pairs = signal.positions.count, n1 * n2 + n1 + n2
    needed = _HELD * 8 * count**2 * pairs
    task = f"kernels between the positions of {n1} × {n2} inputs, {count} each, layer by layer"
    check_fits(task, needed, "give fewer inputs at a time (equitangents.batch), or use kernel_fn.network.kernel_field")


def _starts(
    node: Node, x1: Inputs, x2: Inputs | None, mask_constant: float | None, patterns: tuple[Tree, Tree]
) -> tuple[Starts, Signals]:
    """What each field begins with, and the signals."""
    if isinstance(x1, tuple | list):
        nodes = node.readers(len(x1))
        if len(nodes) != len(x1):
            raise ShapeError(
                "x1", len(x1), len(nodes), "give one input for each of the layers side by side", verb="has length"
            )
        found = [_starts(*each, mask_constant, patterns) for each in zip(nodes, x1, _seconds(x1, x2), strict=True)]
        return tuple(f[0] for f in found), branches_of([f[1] for f in found])
    if isinstance(x1, Kernel):
        return _start_of_kernel(node, x1, patterns)
    check_convention(x1, x2)
    one = given(x1, node, mask_constant, patterns[0])
    other = one if x2 is None else given(x2, node, mask_constant, patterns[1])
    if one.x.ndim < 2:
        raise ShapeError("x1", one.x.shape, "(N, channels) or (N, *positions, channels)")
    same = _same(alike(x1, x2), len(one.x), len(other.x))
    sets = one, other
    xs = tuple(g.x.reshape((len(g.x), -1, g.x.shape[-1])) for g in sets)
    masks = tuple(None if g.mask is None else g.mask.reshape((len(g.x), -1)) for g in sets)
    shape = one.x.shape[1:]
    return Start(xs, masks, tuple(g.graphs for g in sets), None, same), Signal(Grid(shape[:-1]), shape[-1])


def _seconds(x1: Inputs, x2: Inputs | None) -> tuple[Inputs | None, ...]:
    """x2 of every (x1, x2)."""
    return tuple(x2) if isinstance(x2, tuple | list) else (None,) * len(x1)  # type: ignore[arg-type]


def _same(whether: bool | jax.Array, n1: int, n2: int) -> jax.Array:
    if whether is False or n1 != n2:
        return jnp.zeros((n1, n2), bool)
    return jnp.eye(n1, dtype=bool) & whether


def _start_of_kernel(node: Node, k: Kernel, patterns: tuple[Tree, Tree]) -> tuple[Start, Signal]:
    if k.nngp is None or k.cov1 is None:
        raise NetworkError("a Kernel without nngp and cov1 does not go into another kernel_fn")
    axes = (k.batch_axis, k.channel_axis)
    (_, *shape), (_, *_) = moved_shape(tuple(k.shape1), axes), moved_shape(tuple(k.shape2), axes)
    grid = tuple(shape[:-1])
    cross = _by_positions(k.nngp, 2, len(grid), k.diagonal_spatial)
    ntk = jnp.zeros_like(cross) if k.ntk is None else _by_positions(k.ntk, 2, len(grid), k.diagonal_spatial)
    own1 = _own_of(k, k.cov1, grid)
    own2 = own1 if k.cov2 is None else _own_of(k, k.cov2, grid)
    second = k.mask1 if k.mask2 is None else k.mask2
    masks = tuple(None if m is None else ~jnp.moveaxis(jnp.asarray(m), axes, (0, -1)).reshape((n, -1)).T
                  for m, n in ((k.mask1, own1.shape[-1]), (second, own2.shape[-1])))  # fmt: skip
    n1, n2 = cross.shape[-2:]
    known = FieldKernels(cross, ntk, (own1, own2), masks)
    same = jnp.eye(n1, n2, dtype=bool) & k.x1_is_x2 if n1 == n2 else jnp.zeros((n1, n2), bool)
    start = Start((), (), tuple(graphs_of(node, p, grid) for p in patterns), known, same)
    return start, Signal(Grid(grid), shape[-1], gaussian=k.is_gaussian)


def _own_of(k: Kernel, cov: ArrayLike, grid: Shape) -> jax.Array:
    values = jnp.asarray(cov)
    if not k.diagonal_batch:
        values = jnp.moveaxis(jnp.diagonal(values, axis1=0, axis2=1), -1, 0)
    return _by_positions(values, 1, len(grid), k.diagonal_spatial)


def _by_positions(values: ArrayLike, batches: int, dimensions: int, spatial: bool) -> jax.Array:
    """(N…, H, H, W, W) to (P, P, N…); for positions with themselves only, zero elsewhere."""
    values = jnp.asarray(values)
    if spatial and dimensions:
        flat = values.reshape((*values.shape[:batches], -1))
        moved = jnp.moveaxis(flat, -1, 0)
        eye = jnp.eye(len(moved), dtype=values.dtype).reshape((len(moved), len(moved)) + (1,) * batches)
        return eye * moved[:, None]
    first = [batches + 2 * d for d in range(dimensions)]
    second = [axis + 1 for axis in first]
    ordered = jnp.transpose(values, [*first, *second, *range(batches)])
    count = int(np.prod([values.shape[axis] for axis in first], dtype=np.int64))
    return ordered.reshape((count, count, *values.shape[:batches]))


def _from_positions(values: ArrayLike, grid: Shape, spatial: bool) -> ArrayLike:
    """(P, P, N…) to (N…, H, H, W, W), or (N…, H, W)."""
    xp = jnp if isinstance(values, jax.Array) else np
    batches, d = values.ndim - 2, len(grid)
    if spatial and d:
        diagonal = xp.diagonal(values, axis1=0, axis2=1)
        return diagonal.reshape((*diagonal.shape[:-1], *grid))
    split = values.reshape((*grid, *grid, *values.shape[2:]))
    order = [*range(2 * d, 2 * d + batches)]
    for i in range(d):
        order += [i, d + i]
    return xp.transpose(split, order)


@partial(jax.jit, static_argnums=(0, 1))
def _run(node: Node, signal: Signals, starts: Starts) -> Tree:
    """The `FieldKernels` of what comes out, or a tuple of several."""
    return _ended(_through(node, signal, _begun(starts)))


def _begun(starts: Starts) -> Fields:
    if not isinstance(starts, Start):
        return tuple(map(_begun, starts))
    s = starts
    if s.known is None:
        state = state_of_inputs(tuple(jnp.swapaxes(x, 0, 1) for x in s.xs), s.masks)
    else:
        state = state_of_kernels(s.known)
    return Carried(state, tuple(None if g is None else jnp.moveaxis(g, 0, -1) for g in s.graphs), s.same)


def _ended(fields: Fields) -> Tree:
    return kernels_of_state(fields.state) if isinstance(fields, Carried) else tuple(map(_ended, fields))


def _through(node: Node, signal: Signals, fields: Fields) -> Fields:
    if isinstance(node, Row):
        for child in node.children:
            fields, signal = _through(child, signal, fields), child.after(signal)
        return fields
    if isinstance(node, Fan):
        several = (fields,) * len(node.children) if isinstance(fields, Carried) else fields
        parts = zip(node.children, node.parts(signal), several, strict=True)
        return tuple(_through(child, s, f) for child, s, f in parts)
    return _through_leaf(node, signal, fields)


def _through_leaf(leaf: Leaf, signal: Signals, fields: Fields) -> Fields:
    several: tuple[Carried, ...] = (fields,) if isinstance(fields, Carried) else fields  # type: ignore[assignment]
    one = several[0]
    if leaf.name == "Aggregate" and one.graphs[0] is None:
        return fields
    signals = leaf.signals(signal)
    ops = tuple(op for layer, s in zip(leaf.layers, signals, strict=False) for op in layer.lower(s))  # type: ignore[arg-type]
    states = tuple(f.state for f in several)
    masks = [s.sides[0].mask for s in states]
    if any(m is not None for m in masks) and any(m is None for m in masks):
        states = tuple(_with_masks(s) for s in states)
    found = execute(ops, states, Context(tables_of(ops), one.graphs, one.same, masks=NEURAL_TANGENTS))
    after = tuple(Carried(state, one.graphs, one.same) for state in found)
    return after if leaf.name == "FanOut" else after[0]


def _with_masks(state: State) -> State:
    if state.sides[0].mask is not None:
        return state
    return state._replace(sides=tuple(s._replace(mask=jnp.ones(s.q.shape, bool)) for s in state.sides))


def _axes(node: Node, x: Inputs) -> Axes | None:
    """The axes of what goes in."""
    if not isinstance(x, Kernel):
        return node.axes_before
    last = x.channel_axis == len(x.shape1) - 1  # and stays so where positions are pooled
    return x.batch_axis, -1 if last else x.channel_axis


def _all_alike(x1: Inputs, x2: Inputs | None) -> bool | jax.Array:
    if isinstance(x1, tuple | list):
        found = [_all_alike(a, b) for a, b in zip(x1, _seconds(x1, x2), strict=True)]
        return found[0] if all(f is found[0] for f in found) else jnp.all(jnp.asarray(found))
    return x1.x1_is_x2 if isinstance(x1, Kernel) else alike(x1, x2)
