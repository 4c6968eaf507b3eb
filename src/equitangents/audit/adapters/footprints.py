"""What a model holds while it works, in bytes: by this an audit plans how many inputs go into a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from equitangents._types import Tree


@dataclass(frozen=True)
class Footprint:
    """Bytes of the weights, and of the largest set of activations that are alive at once for one input.

    Counted, not measured: the same model gives the same numbers in every process. Scratch space of libraries is not in.
    """

    weights: int
    activations: int
    evaluated: int = 0
    """How many inputs the model was run on to count them."""


def largest_alive(sizes: dict[str, int], steps: Sequence[tuple[Sequence[str], Sequence[str]]], kept: set[str]) -> int:
    """The most bytes alive at once in a program of steps, each (names read, names made).

    A value goes after the last step that reads it, unless it is `kept`; names without a size count nothing.

    >>> largest_alive({"x": 1, "a": 4, "y": 2}, [(["x"], ["a"]), (["a"], ["y"])], {"y"})
    6
    """
    last = {name: k for k, step in enumerate(steps) for names in step for name in names}
    alive: set[str] = set()
    most = 0
    for k, (read, made) in enumerate(steps):
        alive |= {*read, *made}
        most = max(most, sum(sizes.get(name, 0) for name in alive))
        alive = {name for name in alive if last[name] > k or name in kept}
    return most


def of_program(function: Callable[[Any, Any], Any], weights: Tree, x: Tree) -> Footprint:
    """The footprint of a function of JAX, `function(weights, x)`, read off its equations.

    No equation is fused, and nothing is computed; `x` holds one input.
    """
    count = len(jax.tree.leaves(weights))
    program = jax.make_jaxpr(function)(weights, x).jaxpr
    held = {*program.constvars, *program.invars[:count]}
    return Footprint(sum(_bytes(v) for v in held), _most(program, held))


def _most(program: Any, held: set[Any]) -> int:
    """The most bytes alive at once in a program of JAX, what is `held` all along aside."""
    steps, sizes, within = [], {}, 0
    for equation in program.eqns:
        read = [v for v in equation.invars if not isinstance(v, Literal) and v not in held]
        sizes.update({str(id(v)): _bytes(v) for v in (*read, *equation.outvars)})
        steps.append(([str(id(v)) for v in read], [str(id(v)) for v in equation.outvars]))
        inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
        inner = getattr(inner, "jaxpr", inner)
        if hasattr(inner, "eqns") and len(inner.invars) == len(equation.invars):
            pairs = zip(equation.invars, inner.invars, strict=True)
            known = {b for a, b in pairs if not isinstance(a, Literal) and a in held}
            within = max(within, _most(inner, known | {*inner.constvars}))
    made = {str(id(v)) for v in program.outvars if not isinstance(v, Literal)}
    return max(largest_alive(sizes, steps, made), within)


def _bytes(variable: Any) -> int:
    shape, dtype = getattr(variable.aval, "shape", ()), getattr(variable.aval, "dtype", None)
    return int(np.prod(shape)) * int(getattr(dtype, "itemsize", 0))


def together(parts: Iterable[Footprint | None]) -> Footprint | None:
    """The footprint of several models that run one after another; None if that of any is unknown."""
    every = list(parts)
    known = [part for part in every if part is not None]
    if not known or len(known) < len(every):
        return None
    evaluated = sum(p.evaluated for p in known)
    return Footprint(sum(p.weights for p in known), max(p.activations for p in known), evaluated)
