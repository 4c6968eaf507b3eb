"""Tangent kernels without the Jacobians of weights that multiply: y = a W has ∂f/∂W = Σ_p a_pᵀ δ_p, δ = ∂f/∂y, and so

Θ_W(x, x') = Σ_pp' (a_p · a'_p') (δ_p · δ'_p'), which needs a and δ alone; p runs over the positions that share W.

A parameter is treated so where f uses it once, in one product with something else (and scales it by a number before);
the others by their Jacobians.
Source: Novak, Sohl-Dickstein & Schoenholz 2022, Fast finite width neural tangent kernel, arXiv 2206.08720.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params, Tree

_INLINED = ("pjit", "jit", "closed_call")  # calls whose body is read as if it stood there
_PAIRED = 1 << 26  # numbers of pairs of inputs and positions that are held at once
At = Callable[[Params, Tree], Tree]
"""Outputs at parameters and a batch of inputs."""


Shifts = dict[int, jax.Array]
"""What is added to the products of some parameters."""
Found = dict[int, tuple[jax.Array, jax.Array]]
"""Of parameters by number: a (positions, inner) and y (positions, outer)."""


@dataclass(frozen=True)
class Product:
    """One equation y = a W of a program: the parameter's number, and the sizes that work is counted by."""

    leaf: int
    positions: int  # that share W
    inner: int  # entries of a that are summed over, for each position
    outer: int  # entries of y, for each position


@dataclass(frozen=True)
class Structure:
    """f at one example as a program of (parameters, example), with the products that it consists of."""

    program: Any  # a closed jaxpr
    products: tuple[Product, ...]
    outputs: int
    others: int  # how many numbers the other parameters have

    def numbers(self) -> int:
        """Numbers held of one input: a and δ of every product, Jacobians of the rest."""
        kept = sum(p.positions * (p.inner + self.outputs * p.outer) for p in self.products)
        return kept + self.outputs * self.others

    def pair_numbers(self, form: str) -> int:
        """Numbers held of one pair of inputs: products of the a, and of the δ, of all pairs of positions."""
        pairs = {"mean": 1, "each": self.outputs, "full": self.outputs**2}[form]
        return max((p.positions**2 * (1 + pairs) for p in self.products), default=1)

    def work(self, full: bool) -> int:
        """Multiply-adds of one pair of inputs; `full`: of all pairs of outputs."""
        pairs = self.outputs**2 if full else self.outputs
        each = (p.positions**2 * (p.inner + pairs * (p.outer + 1)) for p in self.products)
        return sum(each) + pairs * self.others


def structure(at: At, params: Params, x: Tree) -> Structure:
    """How f(params, x) is made of products with its parameters, read off its program at the first input of x.

    Parameters and x are arrays, or their shapes and types alone (jax.ShapeDtypeStruct).
    """
    leaves, tree = jax.tree.flatten(params)
    batch = _shape_of(x)

    def first(values: list[jax.Array], example: jax.Array) -> jax.Array:
        outputs: jax.Array = at(jax.tree.unflatten(tree, values), example[None])[0]
        return outputs

    one = jax.ShapeDtypeStruct(batch.shape[1:], batch.dtype)
    program = jax.make_jaxpr(first)([_shape_of(leaf) for leaf in leaves], one)
    uses: Counter[int] = Counter()
    products: dict[int, Product] = {}
    names = {var: i for i, var in enumerate(program.jaxpr.invars[: len(leaves)])}
    _read(program.jaxpr, names, uses, products)
    once = tuple(product for i, product in products.items() if uses[i] == 1)
    others = sum(prod(np.shape(leaf)) for i, leaf in enumerate(leaves) if i not in {p.leaf for p in once})
    return Structure(program, once, program.out_avals[0].shape[0], others)


def _shape_of(value: Tree) -> jax.ShapeDtypeStruct:
    if isinstance(value, jax.ShapeDtypeStruct):
        return value
    array = value if isinstance(value, jax.Array) else jnp.asarray(value)
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _read(jaxpr: Any, names: dict[Any, int], uses: Counter[int], products: dict[int, Product]) -> None:
    """Count how often each parameter is used, and note the products."""
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


def _scales(eqn: Any, known: dict[int, int]) -> bool:
    """Whether the equation multiplies a parameter by a number, and does nothing else with parameters."""
    if eqn.primitive.name != "mul" or len(known) != 1:
        return False
    (side,) = known
    return eqn.invars[1 - side].aval.shape == () and eqn.outvars[0].aval == eqn.invars[side].aval


def _plain(eqn: Any) -> bool:
    """Whether the product has no axis that runs along in both factors."""
    return not any(eqn.params["dimension_numbers"][1])


def _product(eqn: Any, side: int, leaf: int) -> Product:
    contracted = eqn.params["dimension_numbers"][0]
    weight, other = eqn.invars[side].aval.shape, eqn.invars[1 - side].aval.shape
    inner = prod(weight[axis] for axis in contracted[side])
    return Product(leaf, prod(other) // max(inner, 1), inner, prod(weight) // max(inner, 1))


class Factors(NamedTuple):
    """Factors a (N, p, c) and δ (N, outputs, p, w) of each product; the rest's Jacobian (N, outputs, numbers)."""

    inner: list[jax.Array]
    outer: list[jax.Array]
    rest: jax.Array


def by_structure(known: Structure, params: Params, x1: Tree, x2: Tree | None, form: str) -> jax.Array:
    """Θ between x1 and x2 (None: x1), in one of the forms of `tangent_kernel`."""
    a = _factors(known, params, jnp.asarray(x1))
    return _contracted(known, a, a if x2 is None else _factors(known, params, jnp.asarray(x2)), form)


def _factors(known: Structure, params: Params, x: jax.Array) -> Factors:
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(params)]
    numbers = [p.leaf for p in known.products]
    rest = [i for i in range(len(leaves)) if i not in numbers]

    def one(example: jax.Array) -> Factors:
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

    return jax.vmap(one)(x)


def _run(known: Structure, leaves: list[jax.Array], example: jax.Array, shifts: Shifts) -> tuple[jax.Array, Found]:
    """f at an example with y + shift in place of y; by parameter (a as (p, c), y as (p, w)) of its product."""
    wanted = {p.leaf: p for p in known.products}
    scales: dict[int, jax.Array | float] = {}
    found: Found = {}

    def run(jaxpr: Any, consts: Any, values: list[Any], named: dict[Any, int]) -> list[Any]:
        held = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *values], strict=True))
        read = lambda v: v.val if hasattr(v, "val") else held[v]
        for eqn in jaxpr.eqns:
            inputs = [read(v) for v in eqn.invars]
            names = {k: named[v] for k, v in enumerate(eqn.invars) if not hasattr(v, "val") and v in named}
            if eqn.primitive.name in _INLINED and names:
                inner = eqn.params["jaxpr"]
                passed = {inner.jaxpr.invars[k]: leaf for k, leaf in names.items()}
                outputs = run(inner.jaxpr, inner.consts, inputs, passed)
            else:
                given = _bound(eqn, inputs)
                outputs = list(given) if eqn.primitive.multiple_results else [given]
                for side, leaf in names.items():
                    if leaf in wanted and _scales(eqn, names):
                        named = {**named, eqn.outvars[0]: leaf}
                        scales[leaf] = scales.get(leaf, 1) * inputs[1 - side]
                    elif leaf in wanted:
                        outputs = [shifted(eqn, inputs, side, wanted[leaf], outputs[0])]
            held.update(zip(eqn.outvars, outputs, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def shifted(eqn: Any, inputs: list[Any], side: int, product: Product, y: Any) -> Any:
        """Product's output, with its parts noted: positions first, whichever factor the parameter is."""
        axes = eqn.params["dimension_numbers"][0]
        other = inputs[1 - side]
        free = [k for k in range(other.ndim) if k not in axes[1 - side]]
        order = sorted(range(len(axes[side])), key=lambda k: axes[side][k])
        a = jnp.transpose(other, [*free, *(axes[1 - side][k] for k in order)])
        a = a.reshape((product.positions, product.inner)) * scales.get(product.leaf, 1)
        by_row = (product.positions, product.outer) if side else (product.outer, product.positions)
        flat = y.reshape(by_row) if side else y.reshape(by_row).T
        found[product.leaf] = (a, flat)
        if product.leaf in shifts:
            flat = flat + shifts[product.leaf]
            y = (flat if side else flat.T).reshape(y.shape)
        return y

    named = dict(zip(known.program.jaxpr.invars, range(len(leaves)), strict=False))
    (value,) = run(known.program.jaxpr, known.program.consts, [*leaves, example], named)
    return value, found


def _bound(eqn: Any, inputs: list[Any]) -> Any:
    """What the equation gives at these inputs."""
    options = eqn.primitive.get_bind_params(eqn.params)
    functions, options = options if isinstance(options, tuple) else ((), options)  # the former up to JAX 0.9
    return eqn.primitive.bind(*functions, *inputs, **options)


def _contracted(known: Structure, one: Factors, other: Factors, form: str) -> jax.Array:
    """Σ over products and the rest, in the form asked for; some rows at a time where pairs are too many to hold."""
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
