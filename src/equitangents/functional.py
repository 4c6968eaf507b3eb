"""Kernels of any finite function apply(params, x); tangent kernels by Jacobians, products or structured derivatives.

Θ(x, x') = Σ_μ ∂_μ f(x) ∂_μ f(x')ᵀ, (N1, N2, outputs, outputs), or the mean of its diagonal over outputs, (N1, N2).
Also kernels in blocks of inputs, means over random networks, linearisations and Taylor expansions.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, Params, Tree
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError, ShapeError
from equitangents.kernels import Kernels
from equitangents.kernels.tangent import METHODS, At, means, tangent_kernel
from equitangents.validation import check_array, check_whole

__all__ = [
    "EmpiricalKernel",
    "NtkImplementation",
    "batch",
    "empirical_kernel_fn",
    "empirical_nngp_fn",
    "empirical_ntk_fn",
    "linearize",
    "monte_carlo_kernel_fn",
    "taylor_expand",
]

ApplyFn = Callable[..., Tree]  # f(params, x, **keywords)
KernelFn = Callable[..., Tree]
Get = str | Sequence[str] | None  # names of kernels: one, several, or None for "nngp" and "ntk"
_NUMBERED = dict(enumerate(METHODS))  # as in neural-tangents


class NtkImplementation(IntEnum):
    """Values of `implementation` in `empirical_ntk_fn`: "auto", "jacobians", "vectors" and "structured"."""

    AUTO = 0
    JACOBIAN_CONTRACTION = 1
    NTK_VECTOR_PRODUCTS = 2
    STRUCTURED_DERIVATIVES = 3


def empirical_ntk_fn(
    f: ApplyFn,
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    vmap_axes: int | Tree | None = None,
    implementation: int | str = "auto",
) -> KernelFn:
    """ntk_fn(x1, x2, params) of f(params, x), (N, outputs): the tangent kernel of one finite network.

    trace_axes=(-1,): the mean over outputs, (N1, N2); trace_axes=(): all pairs of outputs, (N1, N2, outputs, outputs);
    diagonal_axes=(-1,) with trace_axes=(): each output with itself, (N1, N2, outputs). `implementation`: "jacobians"
    stores all derivatives of both sets; "vectors" multiplies by one output's unit vector at a time and stores none;
    "structured" stores both factors of derivatives by weights that f multiplies by once; "auto" takes the one with
    the least counted work. In neural-tangents they are 1, 2, 3 and 0. f must treat inputs one by one; if its number of
    rows differs from the number of inputs, the kernel is between all rows, with derivatives by all parameters.

    Inputs and outputs may be trees of arrays, and outputs (N, …): then there is one kernel per output array, with two
    axes for each output axis, none for those in `trace_axes` (means) and one for those in `diagonal_axes`. Such kernels
    are computed from the kernel of all outputs.

    >>> import jax.numpy as jnp
    >>> x = jnp.array([[1.0, 2.0]])
    >>> empirical_ntk_fn(lambda w, x: x @ w)(x, None, jnp.ones((2, 3))).tolist()
    [[5.0]]
    """
    axes = Axes.of(trace_axes, diagonal_axes)
    method = _NUMBERED.get(implementation, implementation) if isinstance(implementation, int) else implementation
    if method not in METHODS:
        raise NotImplementedError(f"implementation={implementation!r} is not here; use one of {', '.join(METHODS)}")
    if any(a != 0 for a in jax.tree.leaves(vmap_axes)):
        raise NotImplementedError(f"vmap_axes={vmap_axes!r} is not here; f reads inputs along the first axis")

    def ntk_fn(x1: Tree, x2: Tree | None, params: Params, **keywords: Tree) -> Tree:
        x2 = None if not jax.tree.leaves(x2) else x2
        first, second = _sides(keywords, x2 is None or x2 is x1)
        at, at_second = (lambda p, x, more=more: f(p, x, **more) for more in (first, second))
        _first_dtype(params)
        if method != "vectors":  # derivatives are along floating parameters only
            check_floating(params)
        sides = (at, x1), (at_second, x1 if x2 is None else x2)
        if any(keywords.get(name) is not None for name in _EACH_SIDE):
            return _of_batches(axes, params, *sides)
        found = jax.eval_shape(at, params, x1)
        leaves = jax.tree.leaves(found)
        for leaf in leaves:
            if len(leaf.shape) < 2:
                raise ShapeError("f", leaf.shape, "(N, outputs) or (N, …)", verb="gives outputs of shape")
        if any(leaf.shape[0] != len(jax.tree.leaves(x1)[0]) for leaf in leaves):
            return _of_batches(axes, params, *sides)
        if len(getattr(found, "shape", ())) == 2 and hasattr(x1, "shape") and axes.form is not None:
            return tangent_kernel(at, params, x1, x2, axes.form, method)
        rows = lambda p, x: [leaf.reshape((leaf.shape[0], -1)) for leaf in jax.tree.leaves(at(p, x))]
        full = tangent_kernel(lambda p, x: jnp.concatenate(rows(p, x), axis=1), params, x1, x2, "full", method)
        parts, start = [], 0
        for leaf in leaves:
            here = slice(start, start + math.prod(leaf.shape[1:]))
            parts.append(axes.of_full(full[:, :, here, here].reshape((*full.shape[:2], *leaf.shape[1:] * 2))))
            start = here.stop
        return jax.tree.unflatten(jax.tree.structure(found), parts)

    return ntk_fn


def _of_batches(axes: Axes, params: Params, *sides: tuple[At, Tree]) -> Tree:
    """The kernel of functions whose output at an input depends on its place in the batch, as with dropout.

    A side is a function and its inputs, passed as one batch.
    """

    def jacobians(at: At, x: Tree) -> Tree:
        found = jax.jacrev(lambda p: at(p, x))(params)
        shapes = jax.eval_shape(at, params, x)
        outer: Tree = jax.tree.structure(shapes)

        def flat(leaf: jax.ShapeDtypeStruct, tree: Tree) -> jax.Array:
            return jnp.concatenate([v.reshape((*leaf.shape, -1)) for v in jax.tree.leaves(tree)], axis=-1)

        parts = outer.flatten_up_to(found)
        return jax.tree.unflatten(outer, [flat(s, t) for s, t in zip(jax.tree.leaves(shapes), parts, strict=True)])

    return jax.tree.map(partial(axes.product, of_slopes=True), *(jacobians(at, x) for at, x in sides))


def empirical_nngp_fn(
    f: ApplyFn, trace_axes: int | Sequence[int] = (-1,), diagonal_axes: int | Sequence[int] = ()
) -> KernelFn:
    """nngp_fn(x1, x2, params): the product of outputs f(x1) f(x2)ᵀ; with trace_axes=(-1,) its mean over outputs."""
    axes = Axes.of(trace_axes, diagonal_axes)

    def nngp_fn(x1: Tree, x2: Tree | None, params: Params, **keywords: Tree) -> Tree:
        x2 = None if not jax.tree.leaves(x2) else x2
        first, second = _sides(keywords, x2 is None or x2 is x1)
        a = f(params, x1, **first)
        one = x2 is None and all(first[name] is second[name] for name in first)
        b = a if one else f(params, x1 if x2 is None else x2, **second)
        return jax.tree.map(axes.product, a, b)

    return nngp_fn


def empirical_kernel_fn(
    f: ApplyFn,
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    vmap_axes: int | Tree | None = None,
    implementation: int | str = "auto",
) -> KernelFn:
    """kernel_fn(x1, x2, get, params) of f(params, x): "nngp", "ntk", or a named tuple of several (get=None: both)."""
    parts = {
        "nngp": empirical_nngp_fn(f, trace_axes, diagonal_axes),
        "ntk": empirical_ntk_fn(f, trace_axes, diagonal_axes, vmap_axes, implementation),
    }

    def kernel_fn(x1: Tree, x2: Tree | None, get: Get, params: Params, **keywords: Tree) -> Tree:
        names = names_of(get)
        return named(get, names, [parts[name](x1, x2, params, **keywords) for name in names], "EmpiricalKernel")

    return kernel_fn


def names_of(get: Get, *others: str) -> tuple[str, ...]:
    """The requested names, in lower case; `others` are also allowed."""
    names = ("nngp", "ntk") if get is None else (get,) if isinstance(get, str) else tuple(get)
    known = tuple(dict.fromkeys(("nngp", "ntk", *others)))
    for name in names:
        if str(name).lower() not in known:
            raise InvalidArgumentError("get", name, list(known))
    return tuple(str(name).lower() for name in names)


def named(get: Get, names: Sequence[str], parts: Sequence[Any], title: str) -> Any:
    """The requested parts: a single one if `get` is a text, else a named tuple."""
    return parts[0] if isinstance(get, str) else _record(title, tuple(names))(*parts)


_record: Callable[..., Callable[..., tuple[Any, ...]]] = lru_cache(maxsize=64)(namedtuple)  # every call asks


class EmpiricalKernel:
    """`kernel(x1, x2=None)` of f(params, x), (N, outputs): Θ from derivatives, K from outputs, both means over outputs.

    Replaces a network in `InfiniteEnsemble` and wherever only kernels are used: the model linearised about `params`,
    trained to any time. Any JAX model has such a function: `EmpiricalKernel(net.apply, params)`, with Flax
    `EmpiricalKernel(model.apply, variables)`.

    >>> import jax, numpy as np
    >>> from equitangents import InfiniteEnsemble, nn
    >>> net, x = nn.Sequential(nn.Dense(64), nn.Relu(), nn.Dense(1)), np.eye(3)
    >>> kernel = EmpiricalKernel(net.apply, net.init(jax.random.key(0), (3,)))
    >>> kernel.kernel(x).ntk.shape, InfiniteEnsemble(kernel, time=5.0).fit(x, np.ones(3)).predict(x).shape
    ((3, 3), (3,))
    """

    def __init__(self, f: At, params: Params, implementation: int | str = "auto") -> None:
        if not callable(f):
            raise InvalidTypeError("f", f, "a function f(params, x)")
        self.f, self.params = f, params
        # Compiled once for each shape; params are an argument, so that they are no constants of the program.
        both = empirical_kernel_fn(f, implementation=implementation)
        self._run = jax.jit(lambda x1, x2, params: tuple(both(x1, x2, ("nngp", "ntk"), params)))

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """Kernels between x1 and x2 (None: x1), each (N1, N2), computed in the precision of `params`."""
        x1 = check_array("x1", x1, min_rank=2)
        x2 = None if x2 is None else check_array("x2", x2, min_rank=2)
        dtype = _first_dtype(self.params)
        with precision.scope(dtype):
            inputs = [None if x is None else np.asarray(x, dtype) if isinstance(x, np.ndarray) else x for x in (x1, x2)]
            nngp, ntk = self._run(*inputs, self.params)
        if isinstance(x1, np.ndarray):
            nngp, ntk = np.asarray(nngp), np.asarray(ntk)
        return Kernels(nngp, ntk, engine="derivatives", form="empirical")


def check_floating(params: Params) -> None:
    """Raise InvalidTypeError if a parameter is an integer, which has no derivative."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not _is_floating(leaf):
            raise InvalidTypeError(
                "params" + jax.tree_util.keystr(path),
                getattr(leaf, "dtype", type(leaf)),
                "floating numbers, by which there are derivatives",
                "convert them, or hold them in f as constants",
                verb="is of type",
            )


def _first_dtype(params: Params) -> Any:
    """The dtype of the first floating-point parameter; raises NetworkError if there is none."""
    leaves = jax.tree.leaves(params)
    if not leaves:
        raise NetworkError("params", params, "at least one parameter")
    found = [getattr(leaf, "dtype", np.dtype(float)) for leaf in leaves if _is_floating(leaf)]
    if not found:
        check_floating(params)
    return found[0]


def _is_floating(leaf: object) -> bool:
    return bool(jnp.issubdtype(getattr(leaf, "dtype", type(leaf)), jnp.inexact))


@dataclass(frozen=True)
class Axes:
    """Output axes, axis 0 being inputs: kernels are means over `trace`; both outputs share the index of `diagonal`."""

    trace: tuple[int, ...]
    diagonal: tuple[int, ...]

    @classmethod
    def of(cls, trace_axes: int | Sequence[int], diagonal_axes: int | Sequence[int]) -> Axes:
        """Axes from integers or tuples of integers."""
        found = cls(*(((a,) if isinstance(a, int) else tuple(a)) for a in (trace_axes, diagonal_axes)))
        found._check_disjoint(set(found.trace), set(found.diagonal))
        return found

    @property
    def form(self) -> str | None:
        """The kernel form for outputs (N, outputs) if an implementation supports it, else None."""
        known = {((-1,), ()): "mean", ((1,), ()): "mean", ((), ()): "full", ((), (-1,)): "each", ((), (1,)): "each"}
        return known.get((self.trace, self.diagonal))

    def _letters(self, rank: int) -> tuple[str, str, str, list[int]]:
        for name, axes in (("trace_axes", self.trace), ("diagonal_axes", self.diagonal)):
            if any(not -rank <= a < rank for a in axes):
                raise InvalidArgumentError(name, axes, range(-rank, rank), "axes of f(params, x)")
        trace, diagonal = ({a % rank for a in axes} for axes in (self.trace, self.diagonal))
        self._check_disjoint(trace, diagonal)
        first = [chr(ord("a") + i) for i in range(rank)]
        shared = trace | diagonal
        second = [first[i] if i in shared else chr(ord("A") + i) for i in range(rank)]
        out = [c for i in range(rank) if i not in trace for c in dict.fromkeys((first[i], second[i]))]
        return "".join(first), "".join(second), "".join(out), sorted(trace)

    def _check_disjoint(self, trace: set[int], diagonal: set[int]) -> None:
        if trace & diagonal:
            raise InvalidArgumentError("trace_axes", self.trace, "none of diagonal_axes", str(self.diagonal))

    def product(self, a: jax.Array, b: jax.Array, *, of_slopes: bool = False) -> jax.Array:
        """Mean over the traced axes of products of outputs, or of their derivatives with the parameters last."""
        summed = "z" if of_slopes else ""
        first, second, out, trace = self._letters(a.ndim - of_slopes)
        size = int(np.prod([a.shape[i] for i in trace], dtype=np.int64))
        return jnp.einsum(f"{first}{summed},{second}{summed}->{out}", a, b, precision="highest") / size

    def of_full(self, full: jax.Array) -> jax.Array:
        """The kernel from that of all pairs of outputs, (N1, N2, *outputs, *outputs)."""
        first, second, out, trace = self._letters(full.ndim // 2)
        size = int(np.prod([full.shape[0] if i == 0 else full.shape[1 + i] for i in trace], dtype=np.int64))
        return jnp.einsum(f"{first[0]}{second[0]}{first[1:]}{second[1:]}->{out}", full) / size


_EACH_SIDE = ("rng", "pattern")  # arguments of all inputs at a time, of which there may be two, one for each set


def _sides(keywords: dict[str, Any], same: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keyword arguments of f for the first and for the second inputs, which draw by another key unless the `same`."""
    pairs = [name for name in _EACH_SIDE if isinstance(keywords.get(name), tuple) and len(keywords[name]) == 2]
    first = {name: value[0] if name in pairs else value for name, value in keywords.items()}
    second = {name: value[1] if name in pairs else value for name, value in keywords.items()}
    second = {name: first[name] if second[name] is None else second[name] for name in second}
    if not same and (key := first.get("rng")) is not None and second["rng"] is key:
        second["rng"] = jax.random.fold_in(key, 1)
    return first, second


def linearize(f: Callable[..., Tree], params: Params) -> Callable[..., Tree]:
    """f_lin(θ, *args) = f(θ₀, *args) + ∂f/∂θ (θ - θ₀), θ₀ = `params`: the training dynamics of wide networks.

    >>> import jax.numpy as jnp
    >>> float(linearize(lambda w, x: w * w * x, jnp.array(3.0))(jnp.array(4.0), 1.0))
    15.0
    """
    return taylor_expand(f, params, 1)


def taylor_expand(f: Callable[..., Tree], params: Params, degree: int) -> Callable[..., Tree]:
    """f_n(θ, *args) = Σ_{k ≤ degree} (1/k!) ∂ᵏf (θ - θ₀)ᵏ about θ₀ = `params`.

    >>> import jax.numpy as jnp
    >>> float(taylor_expand(lambda w, x: w**3 * x, jnp.array(1.0), 2)(jnp.array(2.0), 1.0))
    7.0
    """
    degree = check_whole("degree", degree, 0)
    if degree:
        check_floating(params)

    def expanded(other: Params, *args: Tree, **keywords: Tree) -> Tree:
        step = jax.tree.map(jnp.subtract, other, params)
        derivatives: list[Callable[[Params], Tree]] = [lambda p: f(p, *args, **keywords)]
        for _ in range(degree):  # along the step
            derivatives.append(lambda p, f=derivatives[-1]: jax.jvp(f, (p,), (step,))[1])  # type: ignore[misc]
        terms = [derivative(params) for derivative in derivatives]
        return jax.tree.map(lambda *t: sum(term / math.factorial(k) for k, term in enumerate(t)), *terms)

    return expanded


def batch(
    kernel_fn: Callable[..., Tree], batch_size: int = 0, device_count: int = -1, store_on_device: bool = True
) -> Callable[..., Tree]:
    """kernel_fn computed in blocks of `batch_size` inputs on each side; 0: no blocks.

    For users' own functions; kernels of `equitangents` choose blocks themselves. All run on one device, whatever
    `device_count` and `store_on_device` are. The number of inputs need not be a multiple of `batch_size`. Inputs may be
    trees of arrays; graphs (`pattern=`) are cut, too. The `Kernel` of another kernel_fn is passed as a whole; kernel_fn
    must return kernels between inputs, as with get=("nngp", "ntk").
    """
    size = check_whole("batch_size", batch_size, 0)

    def batched(x1: Tree, x2: Tree | None = None, *args: Tree, **keywords: Tree) -> Tree:
        leaves, same = jax.tree.leaves(x1, is_leaf=_is_kernel), not jax.tree.leaves(x2)
        others = leaves if same else jax.tree.leaves(x2)
        n1, n2 = (0, 0) if _is_kernel(leaves[0]) else (len(leaves[0]), len(others[0]))
        if not size or (n1 <= size and n2 <= size):
            return kernel_fn(x1, x2, *args, **keywords)

        def block(i: int, j: int) -> Tree:
            here = slice(i, i + size), slice(j, j + size)
            other = None if same and i == j else _cut(x1 if same else x2, here[1])
            return kernel_fn(_cut(x1, here[0]), other, *args, **_cut_keywords(keywords, *here))

        return _assembled([[block(i, j) for j in range(0, n2, size)] for i in range(0, n1, size)])

    return batched


def _is_kernel(value: object) -> bool:
    return hasattr(value, "nngp") and hasattr(value, "cov1")


def _cut(x: Tree, at: slice) -> Tree:
    return jax.tree.map(lambda v: v[at], x)


def _cut_keywords(keywords: dict[str, Any], rows: slice, columns: slice) -> dict[str, Any]:
    """Keyword arguments with graphs cut to the inputs of one block."""
    pattern = keywords.get("pattern")
    if pattern is None:
        return keywords
    pair = pattern if isinstance(pattern, tuple | list) else (pattern, pattern)
    cut = tuple(None if p is None else p[at] for p, at in zip(pair, (rows, columns), strict=True))
    return {**keywords, "pattern": cut}


def _assembled(rows: list[list[Tree]]) -> Tree:
    """One kernel from its blocks; for trees and named tuples, one per entry."""
    first = rows[0][0]
    if hasattr(first, "cov1") or hasattr(first, "cov2"):
        raise InvalidArgumentError("get", "cov1 and cov2", "('nngp', 'ntk'), which batch can join")
    leaves = [[jax.tree.leaves(block) for block in row] for row in rows]
    xp = jnp if isinstance(leaves[0][0][0], jax.Array) else np
    count = len(leaves[0][0])
    parts = [xp.concatenate([xp.concatenate([b[k] for b in row], axis=1) for row in leaves]) for k in range(count)]
    return jax.tree.unflatten(jax.tree.structure(first), parts)


def monte_carlo_kernel_fn(
    init_fn: Callable[..., tuple[Tree, Params]],
    apply_fn: ApplyFn,
    key: jax.Array,
    n_samples: int,
    batch_size: int = 0,
    device_count: int = -1,
    store_on_device: bool = True,
    trace_axes: int | Sequence[int] = (-1,),
    diagonal_axes: int | Sequence[int] = (),
    vmap_axes: int | Tree | None = None,
    implementation: int | str = "auto",
) -> KernelFn:
    """kernel_fn(x1, x2=None, get=None): means of "nngp" and "ntk" over `n_samples` networks drawn by init_fn.

    For standard errors use `kernels.monte_carlo`. With `batch_size` each network's kernels are computed in blocks
    (`batch`). All run on one device, whatever `device_count` is.
    """
    n_samples = check_whole("n_samples", n_samples, 1)
    empirical = empirical_kernel_fn(apply_fn, trace_axes, diagonal_axes, vmap_axes, implementation)

    def kernel_fn(x1: Tree, x2: Tree | None = None, get: Get = None, **keywords: Tree) -> Tree:
        names = names_of(get)
        draws = getattr(apply_fn, "draws", False) and "rng" not in keywords

        @jax.jit
        def sample(one: jax.Array) -> Tree:
            _, params = init_fn(one, jax.tree.map(lambda v: v.shape, x1))
            blocks = batch(partial(empirical, get=names, params=params), batch_size)
            first, second = jax.random.split(jax.random.fold_in(one, 1))
            rng = {"rng": (first, first if x2 is None else second)} if draws else {}
            return tuple(blocks(x1, x2, **keywords, **rng))

        return named(get, names, means(sample, key, n_samples)[0], "Kernel")

    return kernel_fn
