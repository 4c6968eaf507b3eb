"""Tangent kernels of any function apply(params, x): by Jacobians, products with vectors or structured derivatives.

Θ(x, x') = Σ_μ ∂_μ f(x) ∂_μ f(x')ᵀ, (N1, N2, outputs, outputs), or the mean of its diagonal over outputs, (N1, N2).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params
from equitangents.errors import InvalidArgumentError, NetworkError, ShapeError
from equitangents.functional.structured_derivatives import Structure, by_structure, structure

_WAYS = ("auto", "jacobians", "vectors", "structured")
_NUMBERED = dict(enumerate(_WAYS))  # as in neural-tangents


def empirical_ntk_fn(
    f: Callable[..., Any],
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    vmap_axes: Any = None,
    implementation: int | str = "auto",
) -> Callable[..., Any]:
    """ntk_fn(x1, x2, params) of f(params, x), (N, outputs): the tangent kernel of one finite network.

    trace_axes=(-1,): the mean over outputs, (N1, N2); trace_axes=() all pairs of them, (N1, N2, outputs, outputs);
    diagonal_axes=(-1,) with trace_axes=() each output with itself, (N1, N2, outputs). `implementation`: "jacobians"
    holds all derivatives of both sets; "vectors" multiplies by one output's unit vector at a time, and holds none;
    "structured" holds both factors of the derivatives by weights that f multiplies by once; "auto" takes the one with
    the least counted work. In neural-tangents they are 1, 2, 3 and 0. f must treat inputs one by one.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[1.0, 2.0]])
    >>> empirical_ntk_fn(lambda w, x: x @ w)(x, None, jnp.ones((2, 3))).tolist()
    [[5.0]]
    """
    form = _form(trace_axes, diagonal_axes)
    way = _NUMBERED.get(implementation, implementation) if isinstance(implementation, int) else implementation
    if way not in _WAYS:
        raise NotImplementedError(f"implementation={implementation!r} is not here; use one of {', '.join(_WAYS)}")
    if vmap_axes not in (None, 0):
        raise NotImplementedError(f"vmap_axes={vmap_axes!r} is not here; f reads inputs along the first axis")

    def ntk_fn(x1: Any, x2: Any, params: Any, **keywords: Any) -> Any:
        at = partial(_outputs, f, keywords)
        other = x1 if x2 is None else x2
        outputs = _check_outputs(at, params, x1)
        known = structure(at, params, x1) if way in ("auto", "structured") else None
        chosen = cheapest(params, len(x1), len(other), outputs, known, form) if known and way == "auto" else way
        if known and chosen == "structured":
            return by_structure(known, params, x1, None if x2 is None else other, form)
        run = _by_jacobians if chosen == "jacobians" else _by_vectors
        return run(at, params, x1, None if x2 is None else other, form)

    return ntk_fn


def empirical_nngp_fn(
    f: Callable[..., Any], trace_axes: int | Sequence[int] = (-1,), diagonal_axes: int | Sequence[int] = ()
) -> Callable[..., Any]:
    """nngp_fn(x1, x2, params): the product of outputs f(x1) f(x2)ᵀ, its mean over outputs with trace_axes=(-1,)."""
    form = _form(trace_axes, diagonal_axes)

    def nngp_fn(x1: Any, x2: Any, params: Any, **keywords: Any) -> Any:
        a = _outputs(f, keywords, params, x1)
        b = a if x2 is None else _outputs(f, keywords, params, x2)
        return _contracted(a[..., None], b[..., None], form)

    return nngp_fn


def empirical_kernel_fn(
    f: Callable[..., Any],
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    vmap_axes: Any = None,
    implementation: int | str = "auto",
) -> Callable[..., Any]:
    """kernel_fn(x1, x2, get, params) of f(params, x): "nngp", "ntk", or a named tuple of several (get=None: both)."""
    parts = {
        "nngp": empirical_nngp_fn(f, trace_axes, diagonal_axes),
        "ntk": empirical_ntk_fn(f, trace_axes, diagonal_axes, vmap_axes, implementation),
    }

    def kernel_fn(x1: Any, x2: Any, get: str | Sequence[str] | None, params: Any, **keywords: Any) -> Any:
        names = ("nngp", "ntk") if get is None else (get,) if isinstance(get, str) else tuple(get)
        for name in names:
            if name not in parts:
                raise InvalidArgumentError(f"get is {name!r}; expected 'nngp' or 'ntk'")
        found = [parts[name](x1, x2, params, **keywords) for name in names]
        return found[0] if isinstance(get, str) else namedtuple("EmpiricalKernel", names)(*found)

    return kernel_fn


def ntk_vector_product(f: Callable[..., Any], params: Params, x1: Any, x2: Any, vectors: Any) -> Any:
    """The product Θ(x1, x2) v, (N1, outputs), of v (N2, outputs), by one derivative backwards and one forwards.

    No Jacobian is held.

    >>> import jax.numpy as jnp
    >>> w, x = jnp.ones((2, 1)), jnp.array([[1.0, 0.0], [0.0, 2.0]])
    >>> ntk_vector_product(lambda w, x: x @ w, w, x, x, jnp.ones((2, 1))).tolist()
    [[1.0], [4.0]]
    """
    shape = jax.eval_shape(f, params, x2).shape
    if np.shape(vectors) != shape:
        raise ShapeError(f"vectors has shape {np.shape(vectors)}; expected that of the outputs at x2, {shape}")
    _, back = jax.vjp(lambda p: f(p, x2), params)
    (pulled,) = back(jnp.asarray(vectors, jax.eval_shape(f, params, x2).dtype))
    return jax.jvp(lambda p: f(p, x1), (params,), (pulled,))[1]


def cheapest(params: Params, n1: int, n2: int, outputs: int, known: Structure, form: str) -> str:
    """The way that "auto" takes: "structured", "jacobians" or "vectors".

    An evaluation of f at an input takes at least one multiply-add a parameter. Jacobians and structured derivatives
    are a backward pass for each input and output, then multiply-adds for each pair of inputs: outputs · parameters, or
    those that `Structure.work` counts. Vectors are a backward pass for each input and output of one side, and for each
    of these a forward one over the whole other side, which is never less: they are taken where the others would hold
    more than `_HELD` numbers.
    """
    numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(params))
    full = form == "full"
    ways = {
        "structured": (known.work(full), known.numbers()),
        "jacobians": ((outputs**2 if full else outputs) * numbers, outputs * numbers),
    }
    held = [way for way, (_, kept) in ways.items() if (n1 + n2) * kept <= _HELD]
    return min(held, key=lambda way: ways[way][0], default="vectors")


_HELD = 1 << 26  # numbers of derivatives that are held at once


def _form(trace_axes: Any, diagonal_axes: Any) -> str:
    trace, diagonal = (((a,) if isinstance(a, int) else tuple(a)) for a in (trace_axes, diagonal_axes))
    found = {((-1,), ()): "mean", ((1,), ()): "mean", ((), ()): "full", ((), (-1,)): "each", ((), (1,)): "each"}
    if (trace, diagonal) not in found:
        raise NotImplementedError(
            f"trace_axes={trace_axes!r} with diagonal_axes={diagonal_axes!r} is not here; outputs are (N, outputs): "
            "use trace_axes=(-1,) or (), and with the latter diagonal_axes=(-1,) or ()"
        )
    return found[trace, diagonal]


def _outputs(f: Callable[..., Any], keywords: dict[str, Any], params: Params, x: Any) -> Any:
    return f(params, x, **keywords)


def _check_outputs(at: Callable[[Any, Any], Any], params: Params, x: Any) -> int:
    if not jax.tree.leaves(params):
        raise NetworkError("params holds no parameters, so there is no tangent kernel")
    found = jax.eval_shape(at, params, x)
    if not hasattr(found, "shape") or len(found.shape) != 2:
        raise ShapeError(f"f(params, x) gives {found}; expected one array (N, outputs)")
    return int(found.shape[1])


def _by_jacobians(at: Callable[[Any, Any], Any], params: Params, x1: Any, x2: Any, form: str) -> Any:
    a = _jacobian(at, params, x1)
    return _contracted(a, a if x2 is None else _jacobian(at, params, x2), form)


def _jacobian(at: Callable[[Any, Any], Any], params: Params, x: Any) -> Any:
    """(N, outputs, parameters)."""

    def one(example: Any) -> Any:
        found = jax.jacrev(lambda p: at(p, example[None])[0])(params)
        return jnp.concatenate([leaf.reshape((leaf.shape[0], -1)) for leaf in jax.tree.leaves(found)], axis=1)

    return jax.vmap(one)(jnp.asarray(x))


def _contracted(a: Any, b: Any, form: str) -> Any:
    if form == "mean":
        return jnp.einsum("iou,jou->ij", a, b, precision="highest") / a.shape[1]
    subscripts = "iou,jpu->ijop" if form == "full" else "iou,jou->ijo"
    return jnp.einsum(subscripts, a, b, precision="highest")


def _by_vectors(at: Callable[[Any, Any], Any], params: Params, x1: Any, x2: Any, form: str) -> Any:
    """One column after another: ∂f(x2_j)_p is pulled back to parameters, and pushed forward to all x1."""
    x1 = jnp.asarray(x1)
    other = x1 if x2 is None else jnp.asarray(x2)

    def column(example: Any) -> Any:
        value, back = jax.vjp(lambda p: at(p, example[None])[0], params)

        def one(unit: Any) -> Any:
            (pulled,) = back(unit)
            return jax.jvp(lambda p: at(p, x1), (params,), (pulled,))[1]

        found = jax.lax.map(one, jnp.eye(len(value), dtype=value.dtype))  # (p, N1, o)
        if form == "full":
            return found.transpose(1, 2, 0)
        own = jnp.diagonal(found, axis1=0, axis2=2)  # (N1, o)
        return own if form == "each" else own.mean(axis=-1)

    return jnp.moveaxis(jax.lax.map(column, other), 0, 1)
