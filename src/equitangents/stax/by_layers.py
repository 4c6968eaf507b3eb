"""Kernels of layers over all pairs of positions, by `kernels.structured` in JAX, where networks of `nn` do not suffice.

These cases are several inputs, kernels computed from other kernels, outputs on positions, and kernels of each input
with itself. Computed in double precision, or inside JAX programs in the inputs' precision.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, Tree
from equitangents.errors import NetworkError
from equitangents.kernels.engines.reference.structured import (
    Context,
    FieldKernels,
    execute,
    kernels_of_state,
    state_of_inputs,
    state_of_kernels,
    tables_of,
)
from equitangents.kernels.program import flat
from equitangents.kernels.structured import Normalise
from equitangents.memory import check_fits
from equitangents.nn.layer import Grid, Signal
from equitangents.nn.sequential import chain, lowered, why_no_ntk
from equitangents.stax.kernel import (
    Input,
    Kernel,
    Shape,
    alike,
    branches_of,
    check_convention,
    moved_shape,
    raw_inputs,
    sides,
)
from equitangents.stax.tree import Node
from equitangents.structured import NEURAL_TANGENTS

_HELD = 16  # fields over all pairs of positions that are alive at once, at most


class InputPair(NamedTuple):
    """Two sets of inputs (P, N, channels), with masks (N, P) or None."""

    xs: tuple[ArrayLike, ...]
    masks: tuple[ArrayLike | None, ...]


class Start(NamedTuple):
    """Initial state of one field: inputs or kernels, the adjacency matrices of both sets of inputs, its signal."""

    field: InputPair | FieldKernels
    graphs: tuple[ArrayLike | None, ...]
    signal: Signal


def evaluated(
    node: Node,
    x1: Tree,
    x2: Tree,
    mask_constant: float | None,
    patterns: tuple[Tree, Tree],
) -> Tree:
    """The `Kernel` of inputs or Kernels after the layers; for several outputs, several, in the inputs' container."""
    nodes, ones, twos = sides(node, x1, x2)
    kernels = [x for x in ones if isinstance(x, Kernel)]
    leaves = jax.tree.leaves((x1, x2))
    dtype = precision.working_dtype(*(leaf for leaf in leaves if hasattr(leaf, "dtype") and np.ndim(leaf) > 1))
    working = dtype if any(map(precision.is_traced, leaves)) else np.float64
    same = alike(ones, twos)
    with precision.scope(working):
        starts = [_start(*each, mask_constant, patterns) for each in zip(nodes, ones, twos, strict=True)]
        graphs = next((s.graphs for s in starts if s.graphs[0] is not None), (None, None))
        layers = node.layers(graphs=graphs[0] is not None)
        begin = branches_of([s.signal for s in starts]) if isinstance(x1, tuple | list) else starts[0].signal
        *_, last = signals = chain(layers, begin)  # type: ignore[arg-type]
        ops = lowered(layers, signals, masked=False)
        if not all(k.is_gaussian for k in kernels) and _normalises(ops):
            remedy = "a Kernel has no means, which are subtracted here: begin a kernel_fn with a layer with weights"
            raise NetworkError("x1.is_gaussian", False, True, remedy)
        typed = lambda v: jnp.asarray(v, bool if v.dtype == bool else working)
        begun = jax.tree.map(typed, (_all_masked([s.field for s in starts]), graphs))
        found = _run(ops, *begun, jnp.asarray(same))
        found = jax.tree.map(lambda v: v.astype(dtype) if v.dtype != bool else v, found)
    if not any(isinstance(leaf, jax.Array) for leaf in leaves):
        found = jax.tree.map(np.asarray, found)
    symmetric = x2 is None and all(k.cov2 is None for k in kernels)
    has_ntk = why_no_ntk(layers) is None and all(k.ntk is not None for k in kernels)
    known = ones[0] if kernels else None
    before = node.axes_before
    if known is not None:  # the last axis stays so where positions are pooled
        last_axis = known.channel_axis == len(known.shape1) - 1
        before = known.batch_axis, -1 if last_axis else known.channel_axis
    axes = node.axes_after(before) or (0, -1)

    def kernel(found: FieldKernels, signal: Signal) -> Kernel:
        grid = signal.positions.shape
        shapes = [moved_shape((n, *signal.array_shape), axes, back=True) for n in found.nngp.shape[-2:]]
        masks = [None if m is None else ~m.T.reshape((m.shape[1], *grid, 1)) for m in found.masks]
        values = [_from_positions(v, grid) for v in (found.nngp, found.ntk, *found.own)]
        return Kernel(
            values[0],
            values[1] if has_ntk else None,
            values[2],
            None if symmetric else values[-1],
            same,
            mask1=masks[0],
            mask2=None if symmetric else masks[-1],
            is_gaussian=signal.gaussian,
            shape1=shapes[0],
            shape2=shapes[1],
            batch_axis=axes[0] % len(shapes[0]),
            channel_axis=(-1 if axes[1] is None else axes[1]) % len(shapes[0]),
        )

    if not last.several:
        return kernel(found[0], last)
    kind = type(x1) if isinstance(x1, tuple | list) else tuple
    return kind(map(kernel, found, last.parts))


def _normalises(ops: tuple[Tree, ...]) -> bool:
    """Whether operations subtract means of the first field, which has passed neither weights nor nonlinearities."""
    for op in ops:
        if (isinstance(op, Normalise) and not op.centred) or any(map(_normalises, op.held)):
            return True
        branches = op.held or ((op,),)
        if all(any(o.affine is not None or o.nonlinearity is not None for o in flat(b)) for b in branches):
            return False
    return False


def _all_masked(fields: list[InputPair | FieldKernels]) -> list[InputPair | FieldKernels]:
    """The fields, all of them with masks if any of them is."""
    if all(mask is None for field in fields for mask in field.masks):
        return fields
    found = []
    for field in fields:
        shapes = (
            [x.shape[1::-1] for x in field.xs] if isinstance(field, InputPair) else [k.shape[1:] for k in field.own]
        )
        pairs = zip(field.masks, shapes, strict=True)
        found.append(field._replace(masks=tuple(jnp.ones(s, bool) if m is None else m for m, s in pairs)))
    return found


def _check_memory(n1: int, n2: int, count: int) -> None:
    """Raise MemoryLimitError where the pairs of positions of all pairs of inputs cannot fit."""
    task = f"kernels between the positions of {n1} × {n2} inputs, {count} each, layer by layer"
    needed = _HELD * 8 * count**2 * (n1 * n2 + n1 + n2)
    check_fits(task, needed, "give fewer inputs at a time (equitangents.batch), or use kernel_fn.network.kernel_field")


def _start(
    node: Node, x1: Input | Kernel, x2: Input | None, mask_constant: float | None, patterns: tuple[Tree, Tree]
) -> Start:
    """The initial state of a field."""
    if isinstance(x1, Kernel):
        return _start_of_kernel(node, x1, patterns)
    check_convention(x1, x2)
    one = raw_inputs(x1, node, mask_constant, patterns[0])
    sets = one, one if x2 is None else raw_inputs(x2, node, mask_constant, patterns[1])
    xs = tuple(g.x.reshape((len(g.x), -1, g.x.shape[-1])).swapaxes(0, 1) for g in sets)
    masks = tuple(None if g.mask is None else g.mask.reshape((len(g.x), -1)) for g in sets)
    *grid, channels = one.x.shape[1:]
    _check_memory(len(one.x), len(sets[1].x), xs[0].shape[0])
    return Start(InputPair(xs, masks), tuple(g.graphs for g in sets), Signal(Grid(tuple(grid)), channels))


def _start_of_kernel(node: Node, k: Kernel, patterns: tuple[Tree, Tree]) -> Start:
    if k.nngp is None or k.cov1 is None:
        raise NetworkError("a Kernel without nngp and cov1 does not go into another kernel_fn")
    axes = (k.batch_axis, k.channel_axis)
    _, *grid, channels = moved_shape(tuple(k.shape1), axes)
    shape = tuple(grid)
    cross = _by_positions(k.nngp, 2, len(grid))
    ntk = jnp.zeros_like(cross) if k.ntk is None else _by_positions(k.ntk, 2, len(grid))
    owns = [_by_positions(v, 1, len(grid)) for v in (k.cov1, k.cov1 if k.cov2 is None else k.cov2)]
    given_masks = (k.mask1, k.mask1 if k.mask2 is None else k.mask2)
    masks = tuple(None if m is None else ~jnp.moveaxis(jnp.asarray(m), axes, (0, -1)).reshape((own.shape[-1], -1)).T
                  for m, own in zip(given_masks, owns, strict=True))  # fmt: skip
    _check_memory(cross.shape[-2], cross.shape[-1], len(cross))
    known = FieldKernels(cross, ntk, tuple(owns), masks)
    reads = node.pattern
    graphs = tuple(None if p is None or reads is None else reads.adjacency(p, shape) for p in patterns)
    # A Kernel has no means: what is not Gaussian may have any, and is not summed with another such field.
    return Start(known, graphs, Signal(Grid(shape), channels, gaussian=k.is_gaussian, uneven=not k.is_gaussian))


def _by_positions(values: ArrayLike, batches: int, dimensions: int) -> jax.Array:
    """(N…, H, H, W, W) to (P, P, N…)."""
    values = jnp.asarray(values)
    first = [batches + 2 * d for d in range(dimensions)]
    second = [axis + 1 for axis in first]
    ordered = jnp.transpose(values, [*first, *second, *range(batches)])
    count = int(np.prod([values.shape[axis] for axis in first], dtype=np.int64))
    return ordered.reshape((count, count, *values.shape[:batches]))


def _from_positions(values: ArrayLike, grid: Shape) -> ArrayLike:
    """(P, P, N…) to (N…, H, H, W, W)."""
    xp = jnp if isinstance(values, jax.Array) else np
    batches, d = values.ndim - 2, len(grid)
    split = values.reshape((*grid, *grid, *values.shape[2:]))
    order = [*range(2 * d, 2 * d + batches)]
    for i in range(d):
        order += [i, d + i]
    return xp.transpose(split, order)


@partial(jax.jit, static_argnums=0)
def _run(ops: tuple[Tree, ...], fields: list[InputPair | FieldKernels], graphs: tuple[Tree, ...], alike: Tree) -> Tree:
    """The `FieldKernels` of each output field; `alike`: whether both sets of inputs are the same."""
    states = tuple(state_of_kernels(f) if isinstance(f, FieldKernels) else state_of_inputs(*f) for f in fields)
    n1, n2 = states[0].pairs[-1].e.shape[2:]
    same = jnp.eye(n1, n2, dtype=bool) & alike & (n1 == n2)
    adjacency = tuple(None if g is None else jnp.moveaxis(g, 0, -1) for g in graphs)
    context = Context(tables_of(ops), adjacency, same, masks=NEURAL_TANGENTS)
    return tuple(map(kernels_of_state, execute(ops, states, context)))
