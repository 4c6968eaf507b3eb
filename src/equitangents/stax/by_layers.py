"""Kernels of a tree of layers, one layer after another over all pairs of positions: `kernels.structured` in JAX.

For what engines of networks do not take: several inputs, kernels that other kernels are made of, and kernels of each
input with itself beside those between them. In double precision, or inside JAX programs in that of the inputs.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents.errors import NetworkError, ShapeError
from equitangents.kernels.engines.reference.structured.execute import Context, execute, tables_of
from equitangents.kernels.engines.reference.structured.fields import (
    FieldKernels,
    State,
    kernels_of_state,
    state_of_inputs,
    state_of_kernels,
)
from equitangents.memory import check_fits
from equitangents.nn.signal import Grid, Signal
from equitangents.stax.finite import first_fan
from equitangents.stax.inputs import check_convention, given, graphs_of, moved_shape
from equitangents.stax.kernel import Kernel
from equitangents.stax.nodes import Fan, Leaf, Node, Row, axes_after, axes_before, leaves
from equitangents.stax.signals import after, branches_of, parts_of, signals_of_leaf
from equitangents.structured import NEURAL_TANGENTS


class Start(NamedTuple):
    """What one field begins with: inputs with masks and graphs, or kernels; `same` (N1, N2)."""

    x1: Any = None
    x2: Any = None
    mask1: Any = None
    mask2: Any = None
    graph1: Any = None
    graph2: Any = None
    known: Any = None  # FieldKernels
    same: Any = None


class Carried(NamedTuple):
    """A field on the way, with the graphs of both sides and which pairs of inputs are one."""

    state: State
    graphs: Any
    same: Any


def evaluated(
    node: Node, x1: Any, x2: Any, alike: Any, mask_constant: Any, patterns: Any, diagonal_batch: bool, spatial: bool
) -> Any:
    """The `Kernel` of inputs or of a `Kernel`; of several a tuple, or what they came in."""
    if not diagonal_batch and not _any_kernel(x1):
        run = partial(evaluated, node, diagonal_batch=True, spatial=spatial, alike=alike, mask_constant=mask_constant)
        whole = run(x1, x2, patterns=patterns)
        first = run(x1, None, patterns=(patterns[0],) * 2)
        second = None if x2 is None else run(x2, None, patterns=(patterns[1],) * 2)
        return _with_batches(whole, first, second)
    dtype = precision.working_dtype(
        *(leaf for leaf in jax.tree.leaves((x1, x2)) if hasattr(leaf, "dtype") and np.ndim(leaf) > 1)
    )
    traced = any(precision.is_traced(leaf) for leaf in jax.tree.leaves((x1, x2)))
    with precision.scope(dtype if traced else np.float64):
        starts, signal = _starts(node, x1, x2, alike, mask_constant, patterns)
        _check_memory(node, starts, signal)
        starts = jax.tree.map(lambda v: _typed(v, dtype if traced else np.float64), starts)
        found = _run(node, signal, starts)
        found = jax.tree.map(lambda v: v.astype(dtype) if v.dtype != bool else v, found)
    jaxed = any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves((x1, x2)))
    if not jaxed:
        found = jax.tree.map(np.asarray, found)
    kind = type(x1) if isinstance(x1, tuple | list) else tuple
    return _kernels(node, found, after(node, signal), _facts(node, x1, x2, alike), spatial, kind)


_HELD = 16  # fields over all pairs of positions that are alive at once, at most


def _check_memory(node: Node, starts: Any, signal: Any) -> None:
    """Raise MemoryLimitError where the pairs of positions of all pairs of inputs cannot fit."""
    if not isinstance(starts, Start):
        for start, part in zip(starts, signal.parts, strict=True):
            _check_memory(node, start, part)
        return
    n1, n2 = starts.same.shape
    pairs = n1 * n2 + n1 + n2
    needed = _HELD * 8 * signal.positions.count**2 * pairs
    task = f"kernels between the positions of {n1} × {n2} inputs, {signal.positions.count} each, layer by layer"
    check_fits(task, needed, "give fewer inputs at a time (equitangents.batch), or use kernel_fn.network.kernel_field")


def _any_kernel(x: Any) -> bool:
    return isinstance(x, Kernel) or (isinstance(x, tuple | list) and any(map(_any_kernel, x)))


def _with_batches(whole: Any, first: Any, second: Any) -> Any:
    if isinstance(whole, Kernel):
        return whole.replace(cov1=first.nngp, cov2=None if second is None else second.nngp, diagonal_batch=False)
    seconds = (None,) * len(whole) if second is None else second
    return type(whole)(map(_with_batches, whole, first, seconds))


def _typed(value: Any, dtype: Any) -> Any:
    value = jnp.asarray(value)
    return value if value.dtype == bool else value.astype(dtype)


def _starts(node: Node, x1: Any, x2: Any, alike: Any, mask_constant: Any, patterns: Any) -> tuple[Any, Any]:
    """What each field begins with, and the signals."""
    if isinstance(x1, tuple | list):
        nodes = node.children if isinstance(node, Fan) else first_fan(node, len(x1))
        if len(nodes) != len(x1):
            raise ShapeError(f"{len(x1)} inputs for {len(nodes)} layers side by side; expected one for each")
        others = x2 if isinstance(x2, tuple | list) else (None,) * len(x1)
        found = [_starts(c, a, b, alike, mask_constant, patterns) for c, a, b in zip(nodes, x1, others, strict=True)]
        return tuple(f[0] for f in found), branches_of([f[1] for f in found])
    if isinstance(x1, Kernel):
        return _start_of_kernel(node, x1, patterns)
    check_convention(x1, x2)
    one = given(x1, node, mask_constant, patterns[0])
    other = one if x2 is None else given(x2, node, mask_constant, patterns[1])
    if one.x.ndim < 2:
        raise ShapeError(f"x1 has shape {one.x.shape}; expected (N, channels) or (N, *positions, channels)")
    same = _same(alike(x1, x2), len(one.x), len(other.x))
    parts = [(_rows(g.x), None if g.mask is None else g.mask.reshape((len(g.x), -1)), g.graphs) for g in (one, other)]
    (a, mask1, graph1), (b, mask2, graph2) = parts
    shape = one.x.shape[1:]
    return Start(a, b, mask1, mask2, graph1, graph2, None, same), Signal(Grid(shape[:-1]), shape[-1])


def _rows(x: Any) -> Any:
    return x.reshape((len(x), -1, x.shape[-1]))


def _same(alike: Any, n1: int, n2: int) -> Any:
    if alike is False or n1 != n2:
        return jnp.zeros((n1, n2), bool)
    return jnp.eye(n1, dtype=bool) & alike


def _start_of_kernel(node: Node, k: Kernel, patterns: Any) -> tuple[Start, Signal]:
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
    masks = [None if m is None else ~jnp.moveaxis(jnp.asarray(m), axes, (0, -1)).reshape((n, -1)).T
             for m, n in ((k.mask1, own1.shape[-1]), (second, own2.shape[-1]))]  # fmt: skip
    n1, n2 = cross.shape[-2:]
    known = FieldKernels(cross, ntk, own1, own2, *masks)
    same = jnp.eye(n1, n2, dtype=bool) & k.x1_is_x2 if n1 == n2 else jnp.zeros((n1, n2), bool)
    graph1, graph2 = (graphs_of(node, p, grid) for p in patterns)
    start = Start(graph1=graph1, graph2=graph2, known=known, same=same)
    return start, Signal(Grid(grid), shape[-1], gaussian=k.is_gaussian)


def _own_of(k: Kernel, cov: Any, grid: tuple[int, ...]) -> Any:
    values = jnp.asarray(cov)
    if not k.diagonal_batch:
        values = jnp.moveaxis(jnp.diagonal(values, axis1=0, axis2=1), -1, 0)
    return _by_positions(values, 1, len(grid), k.diagonal_spatial)


def _by_positions(values: Any, batches: int, dimensions: int, spatial: bool) -> Any:
    """(N…, H, H, W, W) to (P, P, N…); of positions with themselves alone, zero elsewhere."""
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


def _from_positions(values: Any, grid: tuple[int, ...], spatial: bool) -> Any:
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
def _run(node: Node, signal: Any, starts: Any) -> Any:
    return _ended(_through(node, signal, _begun(starts)))


def _begun(starts: Any) -> Any:
    if not isinstance(starts, Start):
        return tuple(map(_begun, starts))
    s = starts
    state = state_of_kernels(s.known) if s.known is not None else state_of_inputs(
        jnp.swapaxes(s.x1, 0, 1), jnp.swapaxes(s.x2, 0, 1), s.mask1, s.mask2
    )  # fmt: skip
    graphs = tuple(None if g is None else jnp.moveaxis(g, 0, -1) for g in (s.graph1, s.graph2))
    return Carried(state, graphs, s.same)


def _ended(carried: Any) -> Any:
    return kernels_of_state(carried.state) if isinstance(carried, Carried) else tuple(map(_ended, carried))


def _through(node: Node, signal: Any, carried: Any) -> Any:
    if isinstance(node, Row):
        for child in node.children:
            carried = _through(child, signal, carried)
            signal = after(child, signal)
        return carried
    if isinstance(node, Fan):
        several = (carried,) * len(node.children) if isinstance(carried, Carried) else carried
        parts = zip(node.children, parts_of(node, signal), several, strict=True)
        return tuple(_through(child, s, c) for child, s, c in parts)
    return _through_leaf(node, signal, carried)


def _through_leaf(leaf: Leaf, signal: Any, carried: Any) -> Any:
    one = carried if isinstance(carried, Carried) else carried[0]
    if leaf.name == "Aggregate" and one.graphs[0] is None:
        return carried
    signals = signals_of_leaf(leaf, signal)
    ops = tuple(op for layer, s in zip(leaf.layers, signals, strict=False) for op in layer.lower(s))
    states = (carried.state,) if isinstance(carried, Carried) else tuple(c.state for c in carried)
    masks = [s.one.mask for s in states]
    if any(m is not None for m in masks) and any(m is None for m in masks):
        states = tuple(_with_masks(s) for s in states)
    found = execute(ops, states, Context(tables_of(ops), one.graphs, one.same, masks=NEURAL_TANGENTS))
    several = tuple(Carried(state, one.graphs, one.same) for state in found)
    return several if leaf.name == "FanOut" else several[0]


def _with_masks(state: State) -> State:
    if state.one.mask is not None:
        return state
    one, other = (s._replace(mask=jnp.ones(s.q.shape, bool)) for s in (state.one, state.other))
    return state._replace(one=one, other=other)


def _facts(node: Node, x1: Any, x2: Any, alike: Any) -> Any:
    """(whether both sets are one, the axes of the outputs, whether there is but one set)."""
    axes = axes_after(node, _axes(node, x1))
    return _all_alike(x1, x2, alike), axes or (0, -1), x2 is None and not _has_cov2(x1)


def _axes(node: Node, x: Any) -> Any:
    if isinstance(x, tuple | list):
        return _axes(node, x[0])
    if not isinstance(x, Kernel):
        return axes_before(node)
    last = x.channel_axis == len(x.shape1) - 1  # and stays so where positions are pooled
    return x.batch_axis, -1 if last else x.channel_axis


def _has_cov2(x: Any) -> bool:
    if isinstance(x, tuple | list):
        return any(map(_has_cov2, x))
    return isinstance(x, Kernel) and x.cov2 is not None


def _all_alike(x1: Any, x2: Any, alike: Any) -> Any:
    if isinstance(x1, tuple | list):
        others = x2 if isinstance(x2, tuple | list) else (None,) * len(x1)
        found = [_all_alike(a, b, alike) for a, b in zip(x1, others, strict=True)]
        return found[0] if all(f is found[0] for f in found) else jnp.all(jnp.asarray(found))
    return x1.x1_is_x2 if isinstance(x1, Kernel) else alike(x1, x2)


def _kernels(node: Node, found: Any, signal: Any, facts: Any, spatial: bool, kind: type) -> Any:
    if not isinstance(found, FieldKernels):
        return kind(_kernels(node, f, s, facts, spatial, kind) for f, s in zip(found, signal.parts, strict=True))
    same, axes, alone = facts
    grid = signal.positions.shape
    n1, n2 = found.nngp.shape[-2:]
    shapes = [moved_shape((n, *signal.array_shape), axes, back=True) for n in (n1, n2)]
    rank = len(shapes[0])
    no_ntk = any(layer.no_ntk is not None for leaf in leaves(node) for layer in leaf.layers)
    masks = [None if m is None else ~m.T.reshape((m.shape[1], *grid, 1)) for m in (found.mask1, found.mask2)]
    return Kernel(
        _from_positions(found.nngp, grid, spatial),
        None if no_ntk else _from_positions(found.ntk, grid, spatial),
        _from_positions(found.own1, grid, spatial),
        None if alone else _from_positions(found.own2, grid, spatial),
        same,
        mask1=masks[0],
        mask2=None if alone else masks[1],
        is_gaussian=signal.gaussian,
        diagonal_spatial=spatial and bool(grid),
        shape1=shapes[0],
        shape2=shapes[1],
        batch_axis=axes[0] % rank,
        channel_axis=(-1 if axes[1] is None else axes[1]) % rank,
    )
