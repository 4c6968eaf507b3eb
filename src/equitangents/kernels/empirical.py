"""Kernels of one finite network: Θ_ij = Σ_μ ∂_μ N(x1_i) ∂_μ N(x2_j), in tiles of inputs that memory allows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._protocols import FiniteNetwork
from equitangents._types import ArrayLike, InputShape, Params
from equitangents.errors import InvalidTypeError, NetworkError, ShapeError
from equitangents.kernels.structured_derivatives import structure
from equitangents.kernels.tangent import cheapest, parameter_count, tangent_kernel
from equitangents.memory import check_fits
from equitangents.validation import check_array

_MEMORY = 512 << 20  # bytes for the derivatives held at once


def empirical(net: FiniteNetwork, params: Params, x1: ArrayLike, x2: ArrayLike | None = None) -> ArrayLike:
    """The finite-width NTK between x1 and x2 (None: x1), averaged over outputs: (N1, N2).

    That mean is what converges to `net.kernel(...).ntk`; `empirical_matrix` keeps all outputs, as this does for a
    network that ends in a Readout. It is computed by the way of `equitangents.empirical_ntk_fn` with the least counted
    work. Raises MemoryLimitError where the result, or what is held of one input, cannot fit in memory; ShapeError for a
    network whose outputs are not (N, outputs).
    """
    return _in_tiles(net, params, x1, x2, form_of(net))


def empirical_matrix(net: FiniteNetwork, params: Params, x1: ArrayLike, x2: ArrayLike | None = None) -> ArrayLike:
    """The finite-width NTK between all outputs: (N1, N2, outputs, outputs)."""
    return _in_tiles(net, params, x1, x2, "full")


def check_finite_network(net: object) -> None:
    """Raise InvalidTypeError unless this has parameters and outputs; a layer by itself has not."""
    if not isinstance(net, FiniteNetwork) or hasattr(net, "signal"):
        raise InvalidTypeError(
            "net", net, "nn.Sequential, or a network with init(key, input_shape, dtype) and apply(params, x)"
        )


def form_of(net: object) -> str:
    """Form of a network's kernels: "full", all pairs of outputs, for equivariant outputs, else their "mean"."""
    return "mean" if getattr(net, "equivariant_outputs", None) is None else "full"


@dataclass(frozen=True)
class Plan:
    """Plan of one network's kernel: implementation, and numbers held of the outputs' derivatives.

    each: numbers held of every input; pair: of every pair of inputs; once: of none in particular.
    """

    way: str
    outputs: int
    each: int
    pair: int
    once: int


def plan(net: FiniteNetwork, params: Params, input_shape: InputShape, form: str) -> Plan:
    """The plan for inputs of a shape, without the batch axis, in the precision of the parameters (or their shapes)."""
    leaves, tree = jax.tree.flatten(params)
    if not leaves:
        raise NetworkError("params holds no parameters, so there is no tangent kernel; expected those of net.init")
    shapes = tuple((np.shape(leaf), np.dtype(leaf.dtype).name) for leaf in leaves)
    return _plan(net, tree, shapes, tuple(input_shape), form)


@lru_cache(maxsize=128)
def _plan(
    net: FiniteNetwork,
    tree: jax.tree_util.PyTreeDef,
    shapes: tuple[tuple[tuple[int, ...], str], ...],
    input_shape: InputShape,
    form: str,
) -> Plan:
    dtype = shapes[0][1]
    with precision.scope(dtype):
        params = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*shape) for shape in shapes])
        x = jax.ShapeDtypeStruct((1, *input_shape), dtype)
        found = jax.eval_shape(net.apply, params, x).shape
        if len(found) != 2:
            raise ShapeError(
                "net",
                ("N", *found[1:]),
                ("N", "outputs"),
                "end it with Flatten, GlobalAvgPool or GroupPool, and Dense",
                verb="gives shape",
            )
        known = structure(net.apply, params, x)
    outputs, numbers = known.outputs, parameter_count(params)
    way = cheapest(params, 1, 1, outputs, known, form)
    if way == "structured":
        return Plan(way, outputs, known.numbers(), known.pair_numbers(form), 0)
    if way == "jacobians":
        return Plan(way, outputs, outputs * numbers, 1, 0)
    signals = sum(p.positions * (p.inner + p.outer) for p in known.products)
    return Plan(way, outputs, 2 * signals + outputs, 1, 3 * numbers)


def _in_tiles(net: FiniteNetwork, params: Params, x1: ArrayLike, x2: ArrayLike | None, form: str) -> ArrayLike:
    check_finite_network(net)
    a = check_array("x1", x1, min_rank=2)
    b = a if x2 is None else check_array("x2", x2, min_rank=2)
    found = plan(net, params, a.shape[1:], form)
    dtype = jax.tree.leaves(params)[0].dtype
    size = dtype.itemsize
    rows = max(1, _MEMORY // (2 * size * found.each))
    results = len(a) * len(b) * (found.outputs**2 if form == "full" else 1)
    held = 2 * min(rows, max(len(a), len(b))) * found.each + found.pair + found.once
    check_fits(
        f"the empirical kernel of {len(a)} × {len(b)} inputs and {found.outputs} outputs",
        size * (2 * results + held),  # rows of tiles are joined into columns
        "compute fewer inputs at a time, or a narrower network",
    )
    tile = partial(_tile, net, form, found.way, params)
    with precision.scope(dtype):
        lines = []
        for i in range(0, len(a), rows):
            one = jnp.asarray(a[i : i + rows], dtype)
            others = (
                None if b is a and i == j else jnp.asarray(b[j : j + rows], dtype) for j in range(0, len(b), rows)
            )
            lines.append(_joined([tile(one, other) for other in others], axis=1))
        whole = _joined(lines, axis=0)
    return whole if isinstance(a, jax.Array) else np.asarray(whole)


def _joined(parts: list[jax.Array], axis: int) -> jax.Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=axis)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _tile(net: FiniteNetwork, form: str, way: str, params: Params, x1: jax.Array, x2: jax.Array | None) -> jax.Array:
    return tangent_kernel(net.apply, params, x1, x2, form, way)
