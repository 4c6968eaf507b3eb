"""Polynomial nonlinearities: powers, rectified powers, Hermite polynomials, and any other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.kernels import duals
from equitangents.kernels.operation import DualActivation
from equitangents.nn.layer import check_number
from equitangents.nn.nonlinearities import Nonlinearity
from equitangents.validation import check_whole

_HIGHEST = 20  # degrees, beyond which factorials leave the digits of float64


class _Polynomial(Nonlinearity):
    """Σ_j c_j x^j with the coefficients that a subclass gives."""

    def powers(self) -> tuple[float, ...]:
        """Coefficients c_0, c_1, …"""
        raise NotImplementedError

    @property
    def dual(self) -> DualActivation:
        """Moments in finite sums (Mehler's formula)."""
        return duals.Polynomial(self.powers())

    def function(self, x: jax.Array) -> jax.Array:
        """The polynomial of every entry, by Horner's rule."""
        value = jnp.zeros_like(x)
        for c in reversed(self.powers()):
            value = value * x + c
        return value


@dataclass(frozen=True)
class Polynomial(_Polynomial):
    """Σ_j c_j x^j of coefficients (c_0, c_1, …), lowest power first."""

    coefficients: Sequence[float]

    def __post_init__(self) -> None:
        values = tuple(check_number(f"coefficients[{i}]", c) for i, c in enumerate(self.coefficients))
        if not 1 <= len(values) <= _HIGHEST + 1:
            raise InvalidArgumentError("coefficients", len(values), range(1, _HIGHEST + 2), verb="has length")
        object.__setattr__(self, "coefficients", values)

    def powers(self) -> tuple[float, ...]:
        """The coefficients of the layer, from the constant on."""
        return tuple(self.coefficients)


@dataclass(frozen=True)
class Monomial(_Polynomial):
    """φ(x) = x^degree, a single power of the field."""

    degree: int

    def __post_init__(self) -> None:
        check_whole("degree", self.degree, 0, _HIGHEST)

    def powers(self) -> tuple[float, ...]:
        """One coefficient, that of the highest power."""
        return (0.0,) * self.degree + (1.0,)


@dataclass(frozen=True)
class Hermite(_Polynomial):
    """The Hermite polynomial He_n(x)/√n!, of unit norm under N(0, 1): between fields of variance 1, K' = K^n."""

    degree: int

    def __post_init__(self) -> None:
        check_whole("degree", self.degree, 0, _HIGHEST)

    def powers(self) -> tuple[float, ...]:
        """Coefficients of the normalised polynomial."""
        unit = np.eye(self.degree + 1)[-1] / math.sqrt(math.factorial(self.degree))
        return tuple(float(c) for c in np.polynomial.hermite_e.herme2poly(unit))


@dataclass(frozen=True)
class RectifiedMonomial(Nonlinearity):
    """φ(x) = max(x, 0)^degree, whose kernels are the arc-cosine kernels of this order.

    K' = (q q')^(degree/2) J(θ)/(2π), θ the angle between the fields. Degree 1 is `Relu`, degree 0 `Heaviside`,
    without an NTK. Source: Cho & Saul 2009, *Kernel methods for deep learning*.
    """

    degree: int

    def __post_init__(self) -> None:
        check_whole("degree", self.degree, 0, _HIGHEST)

    @property
    def dual(self) -> DualActivation:
        """Moments in closed form, by a recursion over degrees."""
        if self.degree == 0:
            return duals.Heaviside()
        return duals.PiecewiseLinear(0.0) if self.degree == 1 else duals.RectifiedMonomial(self.degree)

    def function(self, x: jax.Array) -> jax.Array:
        """The power of positive entries, 0 for others."""
        return jnp.where(x > 0, jnp.where(x > 0, x, 1) ** self.degree, 0).astype(x.dtype)
