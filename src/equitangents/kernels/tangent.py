"""Kernels of finite networks: of any function, of one network in tiles of inputs, and means over random networks.

The tangent kernel of any function f(params, x), (N, outputs), is Θ(x, x') = Σ_μ ∂_μ f(x) ∂_μ f(x')ᵀ:

jacobians   stores all derivatives of both sets of inputs, (N, outputs, parameters)
structured  stores both factors of the derivatives by weights that f multiplies by once
vectors     pulls one output's unit vector at a time back to parameters and pushes it forward; stores nothing

Structured: y = a W has ∂f/∂W = Σ_p a_pᵀ δ_p, δ = ∂f/∂y, and so Θ_W(x, x') = Σ_pp' (a_p · a'_p') (δ_p · δ'_p'), which
needs only a and δ; p runs over the positions that share W. This applies to a parameter that f uses once, in one product
with something else (possibly scaled by a number first); others use their Jacobians.
Source: Novak, Sohl-Dickstein & Schoenholz 2022, Fast finite width neural tangent kernel, arXiv 2206.08720.

Forms: "mean" over outputs, (N1, N2); "each" output with itself, (N1, N2, outputs); "full", all pairs of outputs,
(N1, N2, outputs, outputs).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import DTypeLike

from equitangents import precision
from equitangents._aliases import FiniteNetwork, ShapedNetwork
from equitangents._types import ArrayLike, InputShape, Params, Tree
from equitangents.errors import InvalidTypeError, NetworkError, ShapeError
from equitangents.memory import check_fits
from equitangents.validation import check_array, check_key, check_whole

METHODS = ("auto", "jacobians", "vectors", "structured")
HELD = 1 << 26
"""Numbers of derivatives that are held at once."""
_INLINED = ("pjit", "jit", "closed_call")  # calls whose body is read as if it stood there
_PAIRED = 1 << 26  # numbers of pairs of inputs and positions that are held at once
At = Callable[[Params, Tree], Tree]
"""Outputs at parameters and a batch of inputs."""


Shifts = dict[int, jax.Array]
"""Shifts added to the products of some parameters."""
Found = dict[int, tuple[jax.Array, jax.Array]]
"""Of parameters by number: a (positions, inner) and y (positions, outer)."""


@dataclass(frozen=True)
class Product:
    """One equation y = a W of a program: the parameter's number, and the sizes that determine its work."""

    leaf: int
    positions: int  # that share W
    inner: int  # entries of a that are summed over, for each position
    outer: int  # entries of y, for each position


@dataclass(frozen=True)
class ProgramStructure:
    """f at one example as a program of (parameters, example), with its products."""

    program: Any  # a closed jaxpr
    products: tuple[Product, ...]
    outputs: int
    others: int  # how many numbers the other parameters have

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return self.others + sum(p.inner * p.outer for p in self.products)

    def plain(self) -> ProgramStructure:
        """The structure without products, so that all parameters use Jacobians."""
        return replace(self, products=(), others=self.parameters)

    def numbers(self) -> int:
        """Number of values stored per input: a and δ of every product, Jacobians of the other parameters."""
        kept = sum(p.positions * (p.inner + self.outputs * p.outer) for p in self.products)
        return kept + self.outputs * self.others

    def pair_numbers(self, form: str) -> int:
        """Number of values stored per pair of inputs: products of the a, and of the δ, for all pairs of positions."""
        pairs = {"mean": 1, "each": self.outputs, "full": self.outputs**2}[form]
        return max((p.positions**2 * (1 + pairs) for p in self.products), default=1)

    def work(self, full: bool) -> int:
        """Multiply-adds per pair of inputs; `full`: for all pairs of outputs."""
        pairs = self.outputs**2 if full else self.outputs
        each = (p.positions**2 * (p.inner + pairs * (p.outer + 1)) for p in self.products)
        return sum(each) + pairs * self.others


def structure(at: At, params: Params, x: Tree) -> ProgramStructure:
    """The products in f(params, x) with its parameters, read from its jaxpr at the first input of x.

    Parameters and x are arrays, or only their shapes and dtypes (jax.ShapeDtypeStruct); x may be a tree of them.
    """
    leaves, tree = jax.tree.flatten(params)

    def first(values: list[jax.Array], example: Tree) -> jax.Array:
        outputs: jax.Array = at(jax.tree.unflatten(tree, values), _batch_of(example))[0]
        return outputs

    shapes = jax.tree.map(_shape_of, x)
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), shapes)
    program = jax.make_jaxpr(first)([_shape_of(leaf) for leaf in leaves], one)
    uses: Counter[int] = Counter()
    products: dict[int, Product] = {}
    names = {var: i for i, var in enumerate(program.jaxpr.invars[: len(leaves)])}
    _read(program.jaxpr, names, uses, products)
    once = tuple(product for i, product in products.items() if uses[i] == 1)
    others = sum(prod(np.shape(leaf)) for i, leaf in enumerate(leaves) if i not in {p.leaf for p in once})
    return ProgramStructure(program, once, program.out_avals[0].shape[0], others)


def _batch_of(example: Tree) -> Tree:
    """One input as a batch."""
    return jax.tree.map(lambda v: v[None], example)


def _shape_of(value: Tree) -> jax.ShapeDtypeStruct:
    if isinstance(value, jax.ShapeDtypeStruct):
        return value
    array = value if isinstance(value, jax.Array) else jnp.asarray(value)
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _read(jaxpr: Any, names: dict[Any, int], uses: Counter[int], products: dict[int, Product]) -> None:
    """Count the uses of each parameter, and record the products."""
    for var in jaxpr.outvars:
        uses.update([names[var]] if not hasattr(var, "val") and var in names else [])
    for eqn in jaxpr.eqns:
        known = {k: names[v] for k, v in enumerate(eqn.invars) if not hasattr(v, "val") and v in names}
        if not known:
            continue
        if eqn.primitive.name in _INLINED:
            inner = eqn.params["jaxpr"].jaxpr
            _read(inner, {inner.invars[k]: leaf for k, leaf in known.items()}, uses, products)
            continue
        if _scales(eqn, known):
            names[eqn.outvars[0]] = next(iter(known.values()))
            continue
        uses.update(known.values())
        if eqn.primitive.name == "dot_general":
            products |= {leaf: _product(eqn, k, leaf) for k, leaf in known.items() if _plain(eqn)}


def _scales(eqn: Any, known: dict[int, Any]) -> bool:
    """Whether the equation multiplies a parameter by a number, and does nothing else with parameters."""
    if eqn.primitive.name != "mul" or len(known) != 1:
        return False
    (side,) = known
    return eqn.invars[1 - side].aval.shape == ()


def _plain(eqn: Any) -> bool:
    """Whether the product has no batch axis."""
    return not any(eqn.params["dimension_numbers"][1])


def _product(eqn: Any, side: int, leaf: int) -> Product:
    contracted = eqn.params["dimension_numbers"][0]
    weight, other = eqn.invars[side].aval.shape, eqn.invars[1 - side].aval.shape
    inner = prod(weight[axis] for axis in contracted[side])
    return Product(leaf, prod(other) // max(inner, 1), inner, prod(weight) // max(inner, 1))


class Factors(NamedTuple):
    """Factors a (N, p, c) and δ (N, outputs, p, w) of each product; others' Jacobian (N, outputs, numbers)."""

    inner: list[jax.Array]
    outer: list[jax.Array]
    rest: jax.Array


def _factors(known: ProgramStructure, params: Params, x: Tree) -> Factors:
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(params)]
    numbers = [p.leaf for p in known.products]
    rest = [i for i in range(len(leaves)) if i not in numbers]

    def one(example: Tree) -> Factors:
        def at(shifts: Shifts, values: list[jax.Array]) -> tuple[jax.Array, Found]:
            full = list(leaves)
            for i, value in zip(rest, values, strict=True):
                full[i] = value
            return _run(known, full, example, shifts)

        shapes = jax.eval_shape(lambda e: _run(known, leaves, e, {})[1], example)
        zeros = {i: jnp.zeros(shapes[i][1].shape, shapes[i][1].dtype) for i in numbers}
        (deltas, others), factors = jax.jacrev(at, argnums=(0, 1), has_aux=True)(zeros, [leaves[i] for i in rest])
        flat = [leaf.reshape((known.outputs, -1)) for leaf in others]
        jacobian = jnp.concatenate(flat, axis=1) if flat else jnp.zeros((known.outputs, 0), leaves[0].dtype)
        inner = [factors[p.leaf][0] for p in known.products]
        outer = [deltas[p.leaf].reshape((known.outputs, p.positions, p.outer)) for p in known.products]
        return Factors(inner, outer, jacobian)

    return jax.vmap(one)(jax.tree.map(jnp.asarray, x))


def _run(known: ProgramStructure, leaves: list[jax.Array], example: Tree, shifts: Shifts) -> tuple[jax.Array, Found]:
    """(f at an example with shifts added to products y, factors a (p, c) and unshifted y (p, w) by parameter)."""
    wanted = {p.leaf: p for p in known.products}
    found: Found = {}

    def run(jaxpr: Any, consts: Any, values: list[Any], named: dict[Any, tuple[int, Any]]) -> list[Any]:
        """The outputs; `named`: the parameters behind variables, and the numbers that these are multiplied by."""
        held = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *values], strict=True))
        read = lambda v: v.val if hasattr(v, "val") else held[v]
        for eqn in jaxpr.eqns:
            inputs = [read(v) for v in eqn.invars]
            names = {k: named[v] for k, v in enumerate(eqn.invars) if not hasattr(v, "val") and v in named}
            if eqn.primitive.name in _INLINED and names:
                inner = eqn.params["jaxpr"]
                passed = {inner.jaxpr.invars[k]: name for k, name in names.items()}
                outputs = run(inner.jaxpr, inner.consts, inputs, passed)
            else:
                results = _bound(eqn, inputs)
                outputs = list(results) if eqn.primitive.multiple_results else [results]
                for side, (leaf, scale) in names.items():
                    if leaf in wanted and _scales(eqn, names):
                        named = {**named, eqn.outvars[0]: (leaf, scale * inputs[1 - side])}
                    elif leaf in wanted:
                        outputs = [shifted(eqn, inputs, side, wanted[leaf], scale, outputs[0])]
            held.update(zip(eqn.outvars, outputs, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def shifted(eqn: Any, inputs: list[Any], side: int, product: Product, scale: Any, y: Any) -> Any:
        """The product's output, with its factors recorded: positions first, whichever factor the parameter is."""
        axes = eqn.params["dimension_numbers"][0]
        other = inputs[1 - side]
        free = [k for k in range(other.ndim) if k not in axes[1 - side]]
        order = sorted(range(len(axes[side])), key=lambda k: axes[side][k])
        a = jnp.transpose(other, [*free, *(axes[1 - side][k] for k in order)])
        a = a.reshape((product.positions, product.inner)) * scale
        by_row = (product.positions, product.outer) if side else (product.outer, product.positions)
        flat = y.reshape(by_row) if side else y.reshape(by_row).T
        found[product.leaf] = (a, flat)
        if product.leaf in shifts:
            flat = flat + shifts[product.leaf]
            y = (flat if side else flat.T).reshape(y.shape)
        return y

    named = {var: (leaf, 1) for var, leaf in zip(known.program.jaxpr.invars, range(len(leaves)), strict=False)}
    (value,) = run(known.program.jaxpr, known.program.consts, [*leaves, *jax.tree.leaves(example)], named)
    return value, found


def _bound(eqn: Any, inputs: list[Any]) -> Any:
    """The equation's outputs for these inputs."""
    options = eqn.primitive.get_bind_params(eqn.params)
    functions, options = options if isinstance(options, tuple) else ((), options)  # the former up to JAX 0.9
    return eqn.primitive.bind(*functions, *inputs, **options)


def _contracted(known: ProgramStructure, one: Factors, other: Factors, form: str) -> jax.Array:
    """Σ over products and other parameters, in the requested form; in blocks of rows if pairs are too many."""
    contract = partial(_contract, known.outputs, form, other)
    each = len(other.rest) * known.pair_numbers(form)
    if len(one.rest) * each <= _PAIRED:
        return contract(one)
    row = lambda a: contract(jax.tree.map(lambda v: v[None], a))[0]
    return jax.lax.map(row, one, batch_size=max(1, _PAIRED // each))


def _contract(outputs: int, form: str, other: Factors, one: Factors) -> jax.Array:
    subscripts = {"mean": "ipqj,iopw,joqw->ij", "each": "ipqj,iopw,joqw->ijo", "full": "ipqj,iopw,jrqw->ijor"}[form]
    plain = {"mean": "iou,jou->ij", "each": "iou,jou->ijo", "full": "iou,jru->ijor"}[form]
    total = jnp.einsum(plain, one.rest, other.rest, precision="highest")
    for a, d, b, e in zip(one.inner, one.outer, other.inner, other.outer, strict=True):
        near = jnp.einsum("ipc,jqc->ipqj", a, b, precision="highest")
        total = total + jnp.einsum(subscripts, near, d, e, precision="highest", optimize=True)
    return total / outputs if form == "mean" else total


def tangent_kernel(at: At, params: Params, x1: Tree, x2: Tree | None, form: str, method: str = "auto") -> jax.Array:
    """Θ between x1 and x2 (None: x1) in one of the forms; "auto" takes the method with the least counted work.

    `at(params, x)` gives (N, outputs), and treats inputs one by one. Inputs are arrays, or trees of them.
    """
    chosen = None
    if method != "vectors":
        known = structure(at, params, x1)
        n1, n2 = (len(jax.tree.leaves(x)[0]) for x in (x1, x1 if x2 is None else x2))
        structures = {"auto": cheapest(n1, n2, known, form), "structured": known, "jacobians": known.plain()}
        chosen = structures[method]
    if chosen is None:
        return _by_vectors(at, params, x1, x2, form)
    a = _factors(chosen, params, x1)
    return _contracted(chosen, a, a if x2 is None else _factors(chosen, params, x2), form)


def cheapest(n1: int, n2: int, known: ProgramStructure, form: str) -> ProgramStructure | None:
    """The choice of "auto": structured derivatives, those without products (Jacobians), or None, products with vectors.

    An evaluation of f at an input takes at least one multiply-add per parameter. Jacobians and structured derivatives
    need a backward pass per input and output, then multiply-adds for each pair of inputs: outputs · parameters, or
    those counted by `ProgramStructure.work`. Vectors need a backward pass per input and output of one side, each
    followed by a forward pass over the whole other side, which is never less work: they are used if the others would
    store more than `HELD` values.
    """
    held = [structure for structure in (known, known.plain()) if (n1 + n2) * structure.numbers() <= HELD]
    return min(held, key=lambda structure: structure.work(form == "full"), default=None)


def _by_vectors(at: At, params: Params, x1: Tree, x2: Tree | None, form: str) -> jax.Array:
    """Θ column by column: ∂f(x2_j)_p is pulled back to parameters, and pushed forward to all x1."""
    x1 = jax.tree.map(jnp.asarray, x1)
    other = x1 if x2 is None else jax.tree.map(jnp.asarray, x2)

    def column(example: Tree) -> jax.Array:
        single = _batch_of(example)
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

    That mean converges to `net.kernel(...).ntk`; for a network that ends in a Readout all outputs are kept. The
    implementation of `equitangents.empirical_ntk_fn` with the least counted work is used. Raises MemoryLimitError if
    the result, or the values stored for one input, cannot fit in memory; ShapeError for a network whose outputs are not
    (N, outputs).
    """
    check_finite_network(net)
    form = form_of(net)
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
    tile = partial(_tile, net, form, found.method, params)
    with precision.scope(dtype):
        lines = []
        for i in range(0, len(a), rows):
            one = jnp.asarray(a[i : i + rows], dtype)
            others = (
                None if b is a and i == j else jnp.asarray(b[j : j + rows], dtype) for j in range(0, len(b), rows)
            )
            lines.append(_joined([tile(one, other) for other in others], axis=1))
        total = _joined(lines, axis=0)
    return total if isinstance(a, jax.Array) else np.asarray(total)


def check_finite_network(net: object) -> None:
    """Raise InvalidTypeError unless the network has parameters and outputs; a single layer has not."""
    if not isinstance(net, FiniteNetwork) or hasattr(net, "signal"):
        raise InvalidTypeError(
            "net", net, "nn.Sequential, or a network with init(key, input_shape, dtype) and apply(params, x)"
        )


def form_of(net: object) -> str:
    """The form of a network's kernels: "full", all pairs of outputs, for equivariant outputs, else "mean"."""
    return "mean" if getattr(net, "equivariant_outputs", None) is None else "full"


@dataclass(frozen=True)
class TangentPlan:
    """Plan of one network's kernel: implementation, and numbers of values stored for derivatives.

    each: values per input; pair: per pair of inputs; once: independent of the number of inputs.
    """

    method: str
    outputs: int
    each: int
    pair: int
    once: int


def plan(net: FiniteNetwork, params: Params, input_shape: InputShape, form: str) -> TangentPlan:
    """The plan for inputs of a shape (without the batch axis), in the precision of the parameters (or their shapes)."""
    leaves, tree = jax.tree.flatten(params)
    if not leaves:
        raise NetworkError("params", params, "at least one parameter")
    shapes = tuple((np.shape(leaf), np.dtype(leaf.dtype).name) for leaf in leaves)
    return _plan(net, tree, shapes, tuple(input_shape), form)


@lru_cache(maxsize=128)
def _plan(
    net: FiniteNetwork,
    tree: jax.tree_util.PyTreeDef,
    shapes: tuple[tuple[tuple[int, ...], str], ...],
    input_shape: InputShape,
    form: str,
) -> TangentPlan:
    dtype = shapes[0][1]
    with precision.scope(dtype):
        params = jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*shape) for shape in shapes])
        x = jax.ShapeDtypeStruct((1, *input_shape), dtype)
        found = jax.eval_shape(net.apply, params, x).shape
        if len(found) != 2:
            remedy = "end it with Flatten, GlobalAvgPool or GroupPool, and Dense"
            raise ShapeError("net", ("N", *found[1:]), ("N", "outputs"), remedy, verb="gives shape")
        known = structure(net.apply, params, x)
    chosen, outputs = cheapest(1, 1, known, form), known.outputs
    if chosen is not None:
        method = "structured" if chosen.products == known.products else "jacobians"
        return TangentPlan(method, outputs, chosen.numbers(), chosen.pair_numbers(form), 0)
    signals = sum(p.positions * (p.inner + p.outer) for p in known.products)
    return TangentPlan("vectors", outputs, 2 * signals + outputs, 1, 3 * known.parameters)


def _joined(parts: list[jax.Array], axis: int) -> jax.Array:
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=axis)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _tile(net: FiniteNetwork, form: str, method: str, params: Params, x1: jax.Array, x2: jax.Array | None) -> jax.Array:
    return tangent_kernel(net.apply, params, x1, x2, form, method)


@dataclass(frozen=True)
class MonteCarlo:
    """Means over `samples` random networks of N(x1)N(x2) and of the finite-width NTK, and their standard errors.

    All are (N1, N2) and averaged over the network's outputs; for a network that ends in a Readout (N1, N2, d, d),
    between all of them. The standard error is that of the mean over networks; at finite width the mean itself has a
    bias of order 1/width.
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

    `dtype` of the networks: float32 by default. Sample i depends only on (key, i). The derivatives of all
    inputs are stored at once; raises MemoryLimitError if they cannot fit.
    """
    check_finite_network(net)
    x1 = check_array("x1", x1, min_rank=2)
    x2 = None if x2 is None else check_array("x2", x2, min_rank=2)
    check_whole("samples", samples, 2, wanted="a whole number, at least 2, for a standard error")
    check_key(key)
    dtype = np.dtype(dtype or np.float32)
    shape, n1, n2 = tuple(x1.shape[1:]), len(x1), len(x1 if x2 is None else x2)
    with precision.scope(dtype):
        shapes = jax.eval_shape(lambda key: net.init(key, shape, dtype=dtype), jax.random.key(0))
    found = plan(net, shapes, shape, form_of(net))
    derivatives = ((n1 + n2) * found.each + found.pair + found.once) * dtype.itemsize
    check_fits(
        f"a Monte Carlo estimate of the kernels of {n1} × {n2} inputs",
        derivatives + 6 * 8 * n1 * n2 * (found.outputs**2 if form_of(net) == "full" else 1),
        "estimate fewer inputs at a time, or take a narrower network or one with fewer outputs",
    )

    def sample(drawn: jax.Array) -> Tree:
        return [np.asarray(k, np.float64) for k in _sample(net, found.method, drawn, a, b)]

    with precision.scope(dtype):
        a = jnp.asarray(x1, dtype)
        b = None if x2 is None else jnp.asarray(x2, dtype)
        (nngp, ntk), (nngp_square, ntk_square) = means(sample, key, samples, powers=2)

    def error(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
        return np.sqrt(np.maximum(square - mean**2, 0) / (samples - 1))

    return MonteCarlo(nngp, ntk, error(nngp, nngp_square), error(ntk, ntk_square), samples)


def means(sample: Callable[[jax.Array], Tree], key: jax.Array, count: int, powers: int = 1) -> list[Tree]:
    """[mean of sample, of its square, …] over `count` draws, for `powers` powers.

    Draw i is `sample` of the i-th key folded into `key`; it returns a tree of arrays.
    """
    totals: list[Tree] = []
    for i in range(count):
        value = sample(jax.random.fold_in(key, i))
        parts = [value, *(jax.tree.map(lambda v, k=k: v**k, value) for k in range(2, powers + 1))]
        totals = [jax.tree.map(lambda t, v: t + v, *pair) for pair in zip(totals, parts, strict=True)] if i else parts
    return [jax.tree.map(lambda t: t / count, total) for total in totals]


@partial(jax.jit, static_argnums=(0, 1))
def _sample(
    net: ShapedNetwork, method: str, key: jax.Array, x1: jax.Array, x2: jax.Array | None
) -> tuple[jax.Array, jax.Array]:
    form, params = form_of(net), net.init(key, x1.shape[1:], dtype=x1.dtype)
    y1 = net.apply(params, x1)
    y2 = y1 if x2 is None else net.apply(params, x2)
    return product_of_outputs(y1, y2, form), tangent_kernel(net.apply, params, x1, x2, form, method)
