"""Operations at single relative rotations: no neighbours, so every pair of positions is a batch entry."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike
from equitangents.kernels.angular import Both, both
from equitangents.kernels.engines.reference.execute import Moments, State, execute, field_moments
from equitangents.kernels.program import Op


class Pointwise:
    """The geometry of pairs that stay where they are; see `engines.reference.execute`."""

    def inner(self, i: int, branch: int) -> Pointwise:
        """Branches stay there, too."""
        return self

    def first(self, i: int, values: ArrayLike) -> ArrayLike:
        """One value for each pair of inputs, at every rotation."""
        return values

    def second(self, i: int, values: ArrayLike) -> ArrayLike:
        """Values at the second input, the same at all positions."""
        return values

    def _none(self, *args: Any) -> NoReturn:
        raise AssertionError("programs on rotations have neither windows nor blocks at single rotations")

    box = table = pool = decouple = _none


class Variances(NamedTuple):
    """Second moment and mean of one input's field, (P,)."""

    q: Any
    mean: Any


def moments(ops: tuple[Op, ...], before: Variances) -> Moments:
    """Moments before and after every operation."""
    return field_moments(ops, before.q, before.mean, {})


def after(m: Moments) -> Variances:
    """The variances after the last layer."""
    return Variances(m.q[-1], m.mean[-1])


def run(ops: tuple[Op, ...], e: Any, theta: Any, m1: Moments, m2: Moments) -> tuple[Any, Any]:
    """(E, Θ) after `ops`."""
    found = execute(ops, Pointwise(), State(e, theta), m1, m2)
    return found.e, found.theta


def variances(v1: Variances, v2: Variances) -> Both:
    """The variances of pairs."""
    return both(v1.q, v2.q)


def above_rounding(d: ArrayLike, total: ArrayLike) -> ArrayLike:
    """The distance D, where it is below the rounding of `total` set to zero; derivatives pass through."""
    noise = jnp.where(d <= 16 * jnp.finfo(d.dtype).eps * total, d, 0)
    return d - jax.lax.stop_gradient(noise)
