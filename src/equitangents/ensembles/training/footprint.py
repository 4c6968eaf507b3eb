"""Working memory of a JAX function, from its jaxpr alone: nothing is compiled or allocated.

Values live from the equation that makes them to the last that reads them; the peak of their sum over the program.
XLA fuses and reuses more, so this is an upper estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax

from equitangents._types import Tree


def peak_bytes(fn: Callable[..., Any], *args: Any) -> int:
    """Bytes alive at once in `fn(*args)`, without its arguments; `args` may be jax.ShapeDtypeStruct.

    >>> import jax, jax.numpy as jnp
    >>> x = jax.ShapeDtypeStruct((1000,), jnp.float32)
    >>> peak_bytes(lambda x: jnp.sin(jnp.cos(x)), x)
    8000
    """
    return _peak(jax.make_jaxpr(fn)(*args).jaxpr)


def tree_bytes(tree: Tree) -> int:
    """Bytes of all arrays (or shapes) in a pytree."""
    return sum(_bytes(leaf) for leaf in jax.tree.leaves(tree))


def _peak(jaxpr: Any) -> int:
    last_read: dict[Any, int] = {}
    for i, equation in enumerate(jaxpr.eqns):
        for v in equation.invars:
            if _is_variable(v):
                last_read[v] = i
    for v in jaxpr.outvars:
        if _is_variable(v):
            last_read[v] = len(jaxpr.eqns)
    alive: dict[Any, int] = {}
    live = peak = 0
    for i, equation in enumerate(jaxpr.eqns):
        inside = max((_peak(sub) for sub in _sub_jaxprs(equation.params)), default=0)
        made = sum(_bytes(v.aval) for v in equation.outvars)
        peak = max(peak, live + max(made, inside))
        for v in equation.outvars:
            if v in last_read:
                alive[v] = _bytes(v.aval)
                live += alive[v]
        for v in {v for v in equation.invars if _is_variable(v)}:
            if last_read[v] == i and v in alive:
                live -= alive.pop(v)
    return peak


def _is_variable(v: Any) -> bool:
    return not hasattr(v, "val")  # a literal has a value


def _sub_jaxprs(params: dict[str, Any]) -> list[Any]:
    found = []
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            item = getattr(item, "jaxpr", item)
            if hasattr(item, "eqns"):
                found.append(item)
    return found


def _bytes(aval: Any) -> int:
    shape, dtype = getattr(aval, "shape", ()), getattr(aval, "dtype", None)
    return math.prod(shape) * getattr(dtype, "itemsize", 4)
