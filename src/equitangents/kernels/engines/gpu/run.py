"""Runs a plan's fibres on the GPU inside JAX programs, and what comes before and after them in JAX.

Before: what is known of each input alone. After: the layers on plain vectors that follow the readout.

Many inputs are run in tiles over pairs, half of them for a symmetric problem. A tile is one launch of about half a
second on a large GPU, so that Ctrl-C stops a long run soon, and memory beyond inputs and results does not grow with
their number.
"""

from __future__ import annotations

import hashlib
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.ffi
import jax.numpy as jnp
import numpy as np

from equitangents.errors import MemoryLimitError
from equitangents.kernels.angular import PLAIN, angle_left, both
from equitangents.kernels.engines.codes import PairKind
from equitangents.kernels.engines.cpu import library
from equitangents.kernels.engines.gpu.availability import capability, device
from equitangents.kernels.engines.gpu.compiler import cubin, emulated, host_library
from equitangents.kernels.engines.gpu.sides import sides
from equitangents.kernels.engines.gpu.source import Source, source
from equitangents.kernels.engines.reference import tile as reference
from equitangents.kernels.engines.reference.execute import Moments, State, field_moments
from equitangents.kernels.plans.plan import FibrePlan
from equitangents.kernels.units import unit_bias, with_biases

BLOCKS = 2048  # blocks that keep a large GPU busy
_LARGEST_GRID = 2**31 - 1  # blocks of a launch


def kernels(
    plan: FibrePlan, tables: dict[str, jax.Array], x1: jax.Array, x2: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """(NNGP, NTK) between x1, (N1, *positions, C), and x2 (None: x1 with itself, at half the cost).

    It has no derivatives.
    """
    one = _prepare(plan, tables, x1)
    other = one if x2 is None else _prepare(plan, tables, x2)
    first, theta = _sums(plan, one, other, PairKind.TRIANGLE if x2 is None else PairKind.ALL)
    u1, u2 = one.unit[:, None], other.unit
    p1, p2 = reference.aligned(one.alone, other.alone)
    if not reference.carries_distance(plan):
        return reference.after_readout(plan, tables, u1 * u2 * first, u1 * u2 * theta, p1, p2)
    assert p1.vector is not None
    assert p2.vector is not None
    q1, q2 = p1.vector.q[0][0], p2.vector.q[0][0]
    at = both(q1 / u1**2, q2 / u2**2)  # of vectors in units, of which angles are those of the vectors
    state = State(u1 * u2 * angle_left(first, at, PLAIN), u1 * u2 * theta)
    return reference.after_flattening(plan, tables, state, p1, p2)


def diagonal(plan: FibrePlan, tables: dict[str, jax.Array], x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(NNGP, NTK) of every input of x, (N, *positions, C), with itself, each (N,)."""
    one = _prepare(plan, tables, x)
    first, theta = (one.unit**2 * sums for sums in _sums(plan, one, one, PairKind.DIAGONAL))
    return reference.own_after_readout(plan, tables, first, theta, one.alone)


class _Side(NamedTuple):
    """Inputs (N, *positions, C) in their units, the moments of their fields, the units (N,), and what is known of
    the inputs as they are: `alone.field` is not.
    """

    x: jax.Array
    moments: Moments
    unit: jax.Array
    alone: reference.Prepared


def _prepare(plan: FibrePlan, tables: dict[str, jax.Array], x: jax.Array) -> _Side:
    """Moments of the inputs; those of pooled vectors need all fibres of each input with itself, and so this engine."""
    added = unit_bias(*plan.parts)
    unit = jnp.ones(len(x), x.dtype)
    if added is not None:
        square = jnp.mean(x.reshape((len(x), -1)) ** 2, axis=1) + added
        usable = (square > 0) & (square < jnp.inf)
        unit = jnp.where(usable, jnp.sqrt(jnp.where(usable, square, 1)), 1)
    scaled = x / unit.reshape((-1,) + (1,) * (x.ndim - 1))
    by_position = scaled.reshape((len(x), -1, x.shape[-1])).swapaxes(0, 1)
    in_units = plan if added is None else with_biases(plan, 1 / unit)
    q, mean = jnp.mean(by_position**2, axis=-1), jnp.mean(by_position, axis=-1)
    moments = field_moments(in_units.field, q, mean, tables)
    side = _Side(scaled, moments, unit, reference.Prepared(moments, None))
    as_they_are = Moments([unit**2 * moments.q[-1]], [unit * moments.mean[-1]], [])
    own = lambda: unit**2 * _sums(plan, side, side, PairKind.DIAGONAL)[0]
    return side._replace(alone=reference.Prepared(moments, reference.vector_moments(plan, tables, as_they_are, own)))


def _sums(plan: FibrePlan, one: _Side, other: _Side, kind: PairKind) -> tuple[jax.Array, jax.Array]:
    """The readout's weighted sums over all fibres: (K, Θ), or (D, Θ) where a nonlinearity follows a single fibre.

    All of it is that of inputs in their units.
    """
    x1, x2, has_units = one.x, other.x, unit_bias(*plan.parts) is not None
    made = source(plan, x1.shape[-1], x1.dtype.name)
    n1, n2 = len(x1), len(x2)
    pairs = {PairKind.ALL: n1 * n2, PairKind.TRIANGLE: n1 * (n1 + 1) // 2, PairKind.DIAGONAL: n1}[kind]
    groups = max(1, -(-pairs // made.shape.pairs))
    splits = max(1, min(-(-BLOCKS // groups), -(-len(made.shape.labels) // made.shape.fibres)))
    inputs = (
        x1,
        x2,
        *(sides(made.sides, made.size, plan.field, s.moments, s.unit if has_units else None) for s in (one, other)),
        jnp.asarray(made.reals, x1.dtype),
        jnp.asarray(made.tables),
    )
    shape = (splits, n1) if kind == PairKind.DIAGONAL else (splits, n1, n2)
    if groups * splits > _LARGEST_GRID:
        raise MemoryLimitError(f"{n1} × {n2} inputs are too many for one launch; compute the kernel in parts")
    code = _library_name(made) if emulated() else cubin(made.text, capability())
    out = jax.ShapeDtypeStruct(shape, x1.dtype)
    call = jax.ffi.ffi_call(_registered(emulated()), (out, out), vmap_method="sequential")
    numbers = (n1, n2, pairs, splits, int(kind), groups * splits, made.shape.threads, made.shape.bytes)
    k, theta = call(
        *inputs,
        code=np.frombuffer(code, np.uint8),
        digest=hashlib.sha256(code).hexdigest(),
        name=made.name,
        numbers=np.array(numbers, np.int64),
    )
    return jnp.sum(k, axis=0), jnp.sum(theta, axis=0)


def _library_name(made: Source) -> bytes:
    return str(host_library(made.text)).encode()


@cache
def _registered(emulated: bool) -> str:
    """The name under which JAX knows what launches kernels."""
    symbol, platform = ("eqt_ffi_gpu_emulate", "cpu") if emulated else ("eqt_ffi_gpu_launch", "CUDA")
    name = f"equitangents_{symbol}"
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library.library(), symbol)), platform=platform)
    return name


@partial(jax.jit, static_argnums=0)
def jitted_kernels(
    plan: FibrePlan, tables: dict[str, jax.Array], x1: jax.Array, x2: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    """`kernels`, compiled once for each plan and shape."""
    return kernels(plan, tables, x1, x2)


@partial(jax.jit, static_argnums=0)
def jitted_diagonal(plan: FibrePlan, tables: dict[str, jax.Array], x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`diagonal`, compiled once for each plan and shape."""
    return diagonal(plan, tables, x)


def compiled(plan: FibrePlan, tables: dict[str, jax.Array], x: jax.Array) -> Any:
    """The compiled program of x with itself, to look into (`as_text()`, `memory_analysis()`)."""
    return jitted_kernels.lower(plan, tables, x, None).compile()


_TILE_WORK = 1e11  # element-layers in a tile
_EMULATED_WORK = 1e7
_LARGEST_SIDE = 2048


def tile_side(plan: FibrePlan) -> int:
    """How many inputs a tile has on each side."""
    work = len(plan.fibres.array) * plan.positions * max(1, len(plan.field) // 3)
    return int(min(_LARGEST_SIDE, max(1.0, ((_EMULATED_WORK if emulated() else _TILE_WORK) / work) ** 0.5)))


def working_bytes(plan: FibrePlan, channels: int, n1: int, n2: int, itemsize: int) -> int:
    """Bytes on the GPU beyond inputs and results: a tile's inputs, what is known of each alone, and its results."""
    made = source(plan, channels, np.dtype(f"float{8 * itemsize}").name)
    rows, columns = (min(n, tile_side(plan)) for n in (n1, n2))
    each = plan.levels.levels[0].positions * channels + 3 * made.size  # moments, and numbers made of them
    tables = 4 * made.tables.size
    splits = 2 * max(rows * columns, BLOCKS * made.shape.pairs)
    return tables + itemsize * ((rows + columns) * each + 2 * splits)


def tiled_kernels(
    plan: FibrePlan, tables: dict[str, np.ndarray], x1: np.ndarray, x2: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) between x1, (N1, *positions, C), and x2 (None: x1 with itself, at half the cost)."""
    on_device = jax.device_put(tables, device())
    n1, n2 = len(x1), len(x1) if x2 is None else len(x2)
    side = tile_side(plan)
    rows, columns = (min(n1, side), min(n1 if x2 is None else n2, side))
    nngp, ntk = np.empty((n1, n2), x1.dtype), np.empty((n1, n2), x1.dtype)
    for i in range(0, n1, max(rows, 1)):
        a = _block(x1, i, rows)
        for j in range(i if x2 is None else 0, n2, max(columns, 1)):
            own = x2 is None and j == i
            other = None if own else _block(x1 if x2 is None else x2, j, columns)
            r, c = slice(i, min(i + rows, n1)), slice(j, min(j + columns, n2))
            for out, values in zip((nngp, ntk), jitted_kernels(plan, on_device, a, other), strict=True):
                out[r, c] = np.asarray(values)[: r.stop - i, : c.stop - j]
                if own:  # what follows the readout is rounded in another order below the diagonal
                    out[r, c] = np.triu(out[r, c]) + np.triu(out[r, c], 1).T
                elif x2 is None:
                    out[c, r] = out[r, c].T
    return nngp, ntk


def tiled_diagonal(plan: FibrePlan, tables: dict[str, np.ndarray], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) of every input of x, (N, *positions, C), with itself, each (N,)."""
    on_device = jax.device_put(tables, device())
    size = min(len(x), tile_side(plan) ** 2, _LARGEST_SIDE)
    nngp, ntk = np.empty(len(x), x.dtype), np.empty(len(x), x.dtype)
    for i in range(0, len(x), max(size, 1)):
        for out, values in zip((nngp, ntk), jitted_diagonal(plan, on_device, _block(x, i, size)), strict=True):
            out[i : i + size] = np.asarray(values)[: len(x) - i]
    return nngp, ntk


def _block(x: np.ndarray, begin: int, size: int) -> jax.Array:
    """`size` inputs from `begin` on, filled up with zeros, so that all tiles are one compiled program."""
    block = np.zeros((size, *x.shape[1:]), x.dtype)
    part = x[begin : begin + size]
    block[: len(part)] = part
    return jax.device_put(block, device())
