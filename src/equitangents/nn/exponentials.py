"""Nonlinearities made of exponentials, among them those whose kernels are Gaussian functions of distance or angle."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from equitangents._types import Params
from equitangents.errors import InvalidArgumentError
from equitangents.kernels import duals
from equitangents.kernels.operation import DualActivation
from equitangents.nn.layer import check_number
from equitangents.nn.nonlinearities import Nonlinearity
from equitangents.nn.signal import Signal


@dataclass(frozen=True)
class Exp(Nonlinearity):
    """a·exp(b x): K' = a² exp(b² (q + q' + 2K)/2)."""

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        check_number("a", self.a)
        check_number("b", self.b)

    @property
    def dual(self) -> DualActivation:
        """Moments of the exponential in closed form."""
        return duals.Exp(float(self.a), float(self.b))

    def function(self, x: jax.Array) -> jax.Array:
        """The exponential a·exp(b x) of every entry."""
        return self.a * jnp.exp(self.b * x)


@dataclass(frozen=True)
class Gaussian(Nonlinearity):
    """a·exp(b x²) with b < 0: K' = a² / √((1 - 2bq)(1 - 2bq') - 4b²K²)."""

    a: float = 1.0
    b: float = -1.0

    def __post_init__(self) -> None:
        check_number("a", self.a)
        if not check_number("b", self.b) < 0:
            raise InvalidArgumentError("b", self.b, "a negative number: a·exp(b x²) is to fall with |x|")

    @property
    def dual(self) -> DualActivation:
        """Moments of the Gaussian in closed form."""
        return duals.Gaussian(float(self.a), float(self.b))

    def function(self, x: jax.Array) -> jax.Array:
        """The Gaussian a·exp(b x²) of every entry."""
        return self.a * jnp.exp(self.b * x * x)


@dataclass(frozen=True)
class Rbf(Nonlinearity):
    """√2 sin(√(2γ) x + π/4): K' = exp(-γ (q + q' - 2K)), a Gaussian function of the distance."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self.gamma)

    @property
    def dual(self) -> DualActivation:
        """The kernel of radial basis functions."""
        return duals.Rbf(float(self.gamma))

    def function(self, x: jax.Array) -> jax.Array:
        """The shifted sine √2 sin(√(2γ) x + π/4) of every entry."""
        return math.sqrt(2) * jnp.sin(math.sqrt(2 * self.gamma) * x + math.pi / 4)


@dataclass(frozen=True)
class Exponential(Nonlinearity):
    """The normalised exponential kernel K' = √(q q') exp(γ (cos θ - 1)), cos θ = K/√(q q').

    Source: Shankar et al. 2020, *Neural kernels without tangents* (there: the normalised Gaussian kernel, γ = 1). It is
    the limit of r exp(√γ x/r - γ), where r² is the mean of x² over a position's channels; `Exp` is plain, a·exp(b x).
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self.gamma)

    @property
    def dual(self) -> DualActivation:
        """The exponential of the angle's cosine."""
        return duals.NormalisedExponential(float(self.gamma))

    def function(self, x: jax.Array) -> jax.Array:
        """The normalised exponential r exp(√γ x/r - γ), r² the mean of x² over the last axis."""
        square = jnp.mean(x * x, axis=-1, keepdims=True)
        r = jnp.sqrt(jnp.where(square > 0, square, 1))
        return jnp.where(square > 0, r * jnp.exp(math.sqrt(self.gamma) * x / r - self.gamma), 0)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Each position's channels, normalised by their root mean square, then scaled back."""
        return self.function(x)


def _check_positive(gamma: object) -> None:
    if not check_number("gamma", gamma) > 0:
        raise InvalidArgumentError("gamma", gamma, "a positive number")
