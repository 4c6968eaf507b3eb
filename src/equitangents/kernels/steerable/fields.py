"""The kernels of one pair of inputs in a steerable program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from equitangents.steerable import Features
from equitangents.steerable.irrep import Irrep


@dataclass(frozen=True)
class Side:
    """One input: coordinates of its points (P, n), and which of them exist (P,), 1 or 0."""

    points: jax.Array
    there: jax.Array


class Field(NamedTuple):
    """K and Θ of one irrep, (P, d, P', d); Θ is None before the first weights."""

    k: Any
    theta: Any


Fields = dict[Irrep, Field]
Variances = dict[Irrep, jax.Array]  # of the components of one copy at every point of one input, (P, d, d)


def start(features: Features, coordinates: int, x1: jax.Array, x2: jax.Array) -> Fields:
    """The mean over copies of f f'ᵀ, of what is given on the points, x (P, coordinates and channels)."""
    a, b = (features.split(x[:, coordinates:]) for x in (x1, x2))
    return {
        kind: Field(jnp.einsum("ica,jcb->iajb", a[kind], b[kind], precision="highest") / n, None)
        for n, kind in features.entries
    }


def added(a: Fields, b: Fields) -> Fields:
    """The kernels of a sum of two independent fields of features."""
    return {kind: Field(k + b[kind].k, theta + b[kind].theta) for kind, (k, theta) in a.items()}


def variances(fields: Fields) -> Variances:
    """The covariances at each point of an input with itself."""
    return {kind: jnp.einsum("iaib->iab", field.k) for kind, field in fields.items()}


def restricted(fields: Fields, one: Side, other: Side) -> Fields:
    """Zero at points that do not exist."""
    both = one.there[:, None, None, None] * other.there[None, None, :, None]
    return {kind: Field(k * both, None if theta is None else theta * both) for kind, (k, theta) in fields.items()}
