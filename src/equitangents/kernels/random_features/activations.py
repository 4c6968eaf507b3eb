"""The function φ of an activation kernel, for random networks.

Where φ depends on the field's own variance, as a normalisation does, that variance q is given beside the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from equitangents.errors import NetworkError
from equitangents.kernels.duals import (
    Cos,
    Erf,
    Exp,
    Gabor,
    Gaussian,
    Gelu,
    Heaviside,
    Normalised,
    NormalisedExponential,
    PiecewiseLinear,
    Polynomial,
    Quadrature,
    Rbf,
    RectifiedMonomial,
    Shifted,
    Sign,
    Sin,
    Wave,
)
from equitangents.kernels.operation import DualActivation

Function = Callable[[jax.Array, jax.Array], jax.Array]  # (values, their variance) to values


def _deviation(q: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.where(q > 0, q, 1))


def _polynomial(dual: Polynomial) -> Function:
    return lambda u, q: jnp.polyval(jnp.asarray(dual.coefficients[::-1], u.dtype), u)


def _normalised_exponential(dual: NormalisedExponential) -> Function:
    def value(u: jax.Array, q: jax.Array) -> jax.Array:
        s = _deviation(q)
        return jnp.where(q > 0, s * jnp.exp(math.sqrt(dual.gamma) * u / s - dual.gamma), 0)

    return value


def _shifted(dual: Shifted) -> Function:
    function = function_of(dual.of)
    return lambda u, q: function(u, q) + dual.offset


_MADE: dict[type, Callable[[Any], Function]] = {
    PiecewiseLinear: lambda dual: lambda u, q: jnp.where(u > 0, u, dual.slope * u),
    Erf: lambda dual: lambda u, q: jax.lax.erf(u),
    Gelu: lambda dual: lambda u, q: jax.nn.gelu(u, approximate=False),
    Sin: lambda dual: lambda u, q: jnp.sin(u),
    Cos: lambda dual: lambda u, q: jnp.cos(u),
    Wave: lambda dual: lambda u, q: jnp.sin(u + dual.phase),
    Gabor: lambda dual: lambda u, q: jnp.exp(-u * u) * jnp.sin(u),
    Exp: lambda dual: lambda u, q: dual.a * jnp.exp(dual.b * u),
    Gaussian: lambda dual: lambda u, q: dual.a * jnp.exp(dual.b * u * u),
    Rbf: lambda dual: lambda u, q: math.sqrt(2) * jnp.sin(math.sqrt(2 * dual.gamma) * u + math.pi / 4),
    NormalisedExponential: _normalised_exponential,
    Normalised: lambda dual: lambda u, q: u / jnp.sqrt(q + dual.eps),
    Polynomial: _polynomial,
    RectifiedMonomial: lambda dual: lambda u, q: jnp.maximum(u, 0) ** dual.degree,
    Quadrature: lambda dual: lambda u, q: dual.function(u),
    Sign: lambda dual: lambda u, q: jnp.sign(u),
    Heaviside: lambda dual: lambda u, q: jnp.where(u > 0, 1.0, 0.0).astype(u.dtype),
    Shifted: _shifted,
}


def function_of(dual: DualActivation) -> Function:
    """φ as a function of values and their variance, entry by entry; NetworkError where only its moments are known."""
    make = _MADE.get(type(dual))
    if make is None:
        raise NetworkError(
            "nonlinearity",
            dual,
            "one whose function is known",
            "use nn.Elementwise(function), or kernel(x1, x2) for the exact kernel",
        )
    return make(dual)
