"""Nonlinearities with a jump: they have an NNGP, but no neural tangent kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from equitangents.kernels import duals
from equitangents.kernels.operation import DualActivation
from equitangents.nn.nonlinearities import Nonlinearity


@dataclass(frozen=True)
class Sign(Nonlinearity):
    """The sign of x: K' = 1 - 2θ/π, θ the angle between the fields. There is no NTK: the derivative is infinite."""

    dual: ClassVar[DualActivation] = duals.Sign()  # moments of the sign, which has no derivative

    def function(self, x: jax.Array) -> jax.Array:
        """The sign of every entry, -1, 0 or 1."""
        return jnp.sign(x)


@dataclass(frozen=True)
class Heaviside(Nonlinearity):
    """1 where x > 0, else 0: K' = (1 - θ/π)/2. There is no NTK: the derivative is infinite."""

    dual: ClassVar[DualActivation] = duals.Heaviside()  # moments of the step, which has no derivative

    def function(self, x: jax.Array) -> jax.Array:
        """1 for positive entries, 0 for others."""
        return jnp.where(x > 0, 1, 0).astype(x.dtype)
