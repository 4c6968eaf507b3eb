"""The tangent kernel of any function f(params, x), (N, outputs): Θ(x, x') = Σ_μ ∂_μ f(x) ∂_μ f(x')ᵀ.

jacobians   all derivatives of both sets of inputs are held, (N, outputs, parameters)
structured  both factors of the derivatives by weights that f multiplies by once are held (structured_derivatives)
vectors     one output's unit vector at a time is pulled back to parameters and pushed forward; nothing is held

Forms: "mean" over outputs, (N1, N2); "each" output with itself, (N1, N2, outputs); "full", all pairs of outputs,
(N1, N2, outputs, outputs).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params, Tree
from equitangents.kernels.structured_derivatives import At, Structure, by_structure, structure

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
