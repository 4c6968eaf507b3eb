"""Kernels of finite networks: of any function, of one network in tiles of inputs, and their means over random networks.

The tangent kernel of any function f(params, x), (N, outputs), is Θ(x, x') = Σ_μ ∂_μ f(x) ∂_μ f(x')ᵀ:

jacobians   all derivatives of both sets of inputs are held, (N, outputs, parameters)
structured  both factors of the derivatives by weights that f multiplies by once are held (structured_derivatives)
vectors     one output's unit vector at a time is pulled back to parameters and pushed forward; nothing is held

Forms: "mean" over outputs, (N1, N2); "each" output with itself, (N1, N2, outputs); "full", all pairs of outputs,
(N1, N2, outputs, outputs).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from equitangents import precision
from equitangents._aliases import FiniteNetwork, ShapedNetwork
from equitangents._types import ArrayLike, InputShape, Params, Tree
from equitangents.errors import InvalidTypeError, NetworkError, ShapeError
from equitangents.kernels.structured_derivatives import At, Structure, by_structure, structure
from equitangents.memory import check_fits
from equitangents.validation import check_array, check_key, check_whole

WAYS = ("auto", "jacobians", "vectors", "structured")
HELD = 1 << 26
"""Numbers of derivatives that are held at once."""


def tangent_kernel(at: At, params: Params, x1: Tree, x2: Tree | None, form: str, way: str = "auto") -> jax.Array:
    """Θ between x1 and x2 (None: x1) in one of the forms; "auto" takes the way with the least counted work.

    `at(params, x)` gives (N, outputs), and treats inputs one by one. Inputs are arrays, or trees of them.
    """
    n1, n2 = (len(jax.tree.leaves(x)[0]) for x in (x1, x1 if x2 is None else x2))
    readable = hasattr(x1, "shape") and way in ("auto", "structured")
    known = structure(at, params, x1) if readable else None
    chosen = cheapest(params, n1, n2, known.outputs, known, form) if known and way == "auto" else way
    if known and chosen == "structured":
        return by_structure(known, params, x1, x2, form)
    run = _by_vectors if chosen == "vectors" else _by_jacobians
    return run(at, params, x1, x2, form)


def cheapest(params: Params, n1: int, n2: int, outputs: int, known: Structure, form: str) -> str:
    """The way that "auto" takes: "structured", "jacobians" or "vectors".

    An evaluation of f at an input takes at least one multiply-add a parameter. Jacobians and structured derivatives
    are a backward pass for each input and output, then multiply-adds for each pair of inputs: outputs · parameters, or
    those that `Structure.work` counts. Vectors are a backward pass for each input and output of one side, and for each
    of these a forward one over the whole other side, which is never less: they are taken where the others would hold
    more than `HELD` numbers.
    """
    numbers = parameter_count(params)
    full = form == "full"
    ways = {
        "structured": (known.work(full), known.numbers()),
        "jacobians": ((outputs**2 if full else outputs) * numbers, outputs * numbers),
    }
    held = [way for way, (_, kept) in ways.items() if (n1 + n2) * kept <= HELD]
    return min(held, key=lambda way: ways[way][0], default="vectors")


def parameter_count(params: Params) -> int:
    """The number of parameters."""
    return sum(math.prod(np.shape(leaf)) for leaf in jax.tree.leaves(params))


def _by_jacobians(at: At, params: Params, x1: Tree, x2: Tree | None, form: str) -> jax.Array:
    a = _jacobian(at, params, x1)
    b = a if x2 is None else _jacobian(at, params, x2)
    if form == "mean":
        return jnp.einsum("iou,jou->ij", a, b, precision="highest") / a.shape[1]
    subscripts = "iou,jpu->ijop" if form == "full" else "iou,jou->ijo"
    return jnp.einsum(subscripts, a, b, precision="highest")


def _jacobian(at: At, params: Params, x: Tree) -> jax.Array:
    """(N, outputs, parameters)."""

    def one(example: Tree) -> jax.Array:
        jacobian = jax.jacrev(lambda p: at(p, jax.tree.map(lambda v: v[None], example))[0])(params)
        return jnp.concatenate([leaf.reshape((leaf.shape[0], -1)) for leaf in jax.tree.leaves(jacobian)], axis=1)

    return jax.vmap(one)(jax.tree.map(jnp.asarray, x))


def _by_vectors(at: At, params: Params, x1: Tree, x2: Tree | None, form: str) -> jax.Array:
    """One column after another: ∂f(x2_j)_p is pulled back to parameters, and pushed forward to all x1."""
    x1 = jax.tree.map(jnp.asarray, x1)
    other = x1 if x2 is None else jax.tree.map(jnp.asarray, x2)

    def column(example: Tree) -> jax.Array:
        single = jax.tree.map(lambda v: v[None], example)
        value, back = jax.vjp(lambda p: at(p, single)[0], params)

        def one(unit: jax.Array) -> jax.Array:
            (pulled,) = back(unit)
            pushed: jax.Array = jax.jvp(lambda p: at(p, x1), (params,), (pulled,))[1]
            return pushed

        found = jax.lax.map(one, jnp.eye(len(value), dtype=value.dtype))  # (p, N1, o)
        if form == "full":
            return found.transpose(1, 2, 0)
        own = jnp.diagonal(found, axis1=0, axis2=2)  # (N1, o)
        return own if form == "each" else own.mean(axis=-1)

    return jnp.moveaxis(jax.lax.map(column, other), 0, 1)


def product_of_outputs(a: jax.Array, b: jax.Array, form: str) -> jax.Array:
    """f(x1) f(x2)ᵀ from outputs (N, outputs), in one of the forms."""
    if form == "mean":
        return jnp.matmul(a, b.T, precision="highest") / a.shape[-1]
    return jnp.einsum("io,jp->ijop" if form == "full" else "io,jo->ijo", a, b, precision="highest")


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


@dataclass(frozen=True)
class MonteCarlo:
    """Means over `samples` random networks of N(x1)N(x2) and of the finite-width NTK, and their standard errors.

    All are (N1, N2) and averaged over the network's outputs; of a network that ends in a Readout (N1, N2, d, d),
    between all of them. The standard error is that of the mean over networks; at finite width the mean itself is off by
    a term of order 1/width.
    """

    nngp: np.ndarray
    ntk: np.ndarray
    nngp_std_error: np.ndarray
    ntk_std_error: np.ndarray
    samples: int


def monte_carlo(
    net: ShapedNetwork,
    x1: ArrayLike,
    x2: ArrayLike | None = None,
    *,
    key: jax.Array,
    samples: int,
    dtype: DTypeLike | None = None,
) -> MonteCarlo:
    """Estimate NNGP and NTK between x1 and x2 (None: x1) from `samples` initialisations drawn from `key`.

    `dtype` of the networks: float32 unless given. Sample i depends on (key, i) alone. The derivatives of all
    inputs are held at once; raises MemoryLimitError where they cannot fit.
    """
    check_finite_network(net)
    x1 = check_array("x1", x1, min_rank=2)
    x2 = None if x2 is None else check_array("x2", x2, min_rank=2)
    check_whole("samples", samples, 2, wanted="a whole number, at least 2, for a standard error")
    check_key(key)
    dtype = np.dtype(dtype or np.float32)
    found = _planned(net, x1, x1 if x2 is None else x2, dtype)

    def sample(drawn: jax.Array) -> Tree:
        return [np.asarray(k, np.float64) for k in _sample(net, found.way, drawn, a, b)]

    with precision.scope(dtype):
        a = jnp.asarray(x1, dtype)
        b = None if x2 is None else jnp.asarray(x2, dtype)
        ((_, (nngp, ntk), (nngp_square, ntk_square)),) = means(sample, key, [samples], powers=2)

    def error(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(square - mean**2, 0) / (samples - 1))

    return MonteCarlo(nngp, ntk, error(nngp, nngp_square), error(ntk, ntk_square), samples)


def means(
    sample: Callable[[jax.Array], Tree], key: jax.Array, counts: Collection[int], powers: int = 1
) -> Iterator[tuple[Tree, ...]]:
    """(n, mean of sample, of its square, …) over the first n draws, for each n of `counts` in ascending order.

    Draw i is `sample` of the i-th key folded into `key`; it makes a tree of arrays, of which `powers` are averaged.
    """
    totals: list[Tree] = []
    for i in range(max(counts)):
        value = sample(jax.random.fold_in(key, i))
        parts = [value, *(jax.tree.map(lambda v, k=k: v**k, value) for k in range(2, powers + 1))]
        totals = [jax.tree.map(lambda t, v: t + v, *pair) for pair in zip(totals, parts, strict=True)] if i else parts
        if i + 1 in counts:
            yield (i + 1, *(jax.tree.map(lambda t, n=i + 1: t / n, total) for total in totals))


def _planned(net: ShapedNetwork, x1: ArrayLike, x2: ArrayLike, dtype: np.dtype) -> Plan:
    shape = tuple(x1.shape[1:])
    with precision.scope(dtype):
        params = jax.eval_shape(lambda key: net.init(key, shape, dtype=dtype), jax.random.key(0))
    found = plan(net, params, shape, form_of(net))
    blocks = found.outputs**2 if form_of(net) == "full" else 1
    derivatives = ((len(x1) + len(x2)) * found.each + found.pair + found.once) * dtype.itemsize
    check_fits(
        f"a Monte Carlo estimate of the kernels of {len(x1)} × {len(x2)} inputs",
        derivatives + 6 * 8 * len(x1) * len(x2) * blocks,
        "estimate fewer inputs at a time, or take a narrower network or one with fewer outputs",
    )
    return found


@partial(jax.jit, static_argnums=(0, 1))
def _sample(
    net: ShapedNetwork, way: str, key: jax.Array, x1: jax.Array, x2: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    form, params = form_of(net), net.init(key, x1.shape[1:], dtype=x1.dtype)
    y1 = net.apply(params, x1)
    y2 = y1 if x2 is None else net.apply(params, x2)
    return product_of_outputs(y1, y2, form), tangent_kernel(net.apply, params, x1, x2, form, way)
