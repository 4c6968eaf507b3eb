"""Functions of a norm r as sums of Gaussians: η(r) = r Σ_a c_a exp(-t_a r²).

The activation kernel of u ↦ η(|u|) u/|u| then has a closed form for Gaussian vectors of any covariance. Other functions
are fitted by such sums; if η(r)/r = ∫ exp(-t r²) dμ(t), the sum is a quadrature of that integral.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError

_TERMS = (6, 8, 12, 16, 20, 24, 32)
_POINTS = 2000
_CUT = 1e-12  # singular values below, relative to the largest, are left out of a fit


@dataclass(frozen=True)
class GaussianSum:
    """η(r) = r Σ_a c_a exp(-t_a r²), for coefficients c and rates t ≥ 0.

    The default r (1 - exp(-r²/2)) maps short vectors to almost zero and keeps long ones: a smooth
    counterpart of a ReLU of the norm with a threshold.

    >>> float(GaussianSum((1.0,), (0.0,))(2.0))
    2.0
    """

    coefficients: tuple[float, ...] = (1.0, -1.0)
    rates: tuple[float, ...] = (0.0, 0.5)

    def __post_init__(self) -> None:
        for name in ("coefficients", "rates"):
            values = getattr(self, name)
            values = values if isinstance(values, Sequence) else (values,)
            try:
                object.__setattr__(self, name, tuple(float(v) for v in values))
            except (TypeError, ValueError):
                raise InvalidTypeError(name, values, "numbers such as (1.0, -1.0)") from None
        if len(self.coefficients) != len(self.rates) or not self.rates:
            raise ShapeError(
                "rates",
                len(self.rates),
                len(self.coefficients) or "at least one",
                "as many as coefficients",
                verb="has length",
            )
        if not (np.isfinite(self.coefficients).all() and np.isfinite(self.rates).all() and min(self.rates) >= 0):
            raise InvalidArgumentError("rates", self.rates, "finite numbers, at least 0")

    def factor(self, square: ArrayLike | float) -> jax.Array:
        """Σ_a c_a exp(-t_a s) for squared norms s: the factor of a vector."""
        terms = (c * jnp.exp(-t * square) for c, t in zip(self.coefficients, self.rates, strict=True))
        return sum(terms)  # type: ignore[return-value]  # there is at least one

    def __call__(self, r: ArrayLike | float) -> jax.Array:
        """η(r) for norms r."""
        return self.factor(r * r) * r


class Fit(NamedTuple):
    """A fitted sum, its error (see `fitted`), and the largest errors of values and slopes."""

    gaussians: GaussianSum
    error: float
    off: tuple[float, float]


def mean_square(coefficients: Sequence[float], rates: Sequence[float], v: np.ndarray) -> np.ndarray:
    """E[η(|u|)²], (…), for Gaussian vectors u with covariances v, (…, d, d), in float64.

    Σ_ab c_a c_b det(1 + 2sv)^(-1/2) tr[v (1 + 2sv)⁻¹] with s = t_a + t_b.
    """
    own = np.maximum(np.linalg.eigvalsh(np.asarray(v, np.float64)), 0)
    total = np.zeros(own.shape[:-1])
    for a, (c, t) in enumerate(zip(coefficients, rates, strict=True)):
        for b in range(a + 1):
            shrunk = 1 / (1 + 2 * (t + rates[b]) * own)
            term = np.sqrt(np.prod(shrunk, axis=-1)) * np.sum(own * shrunk, axis=-1)
            total += (1 if a == b else 2) * c * coefficients[b] * term
    return total


def fitted(function: Callable[[Any], Any], largest: float, tolerance: float) -> Fit:
    """The shortest sum that meets the tolerance, for norms from 0 to `largest`, in float64.

    Its error is the larger of max |η - fit|/max |η| and max |η' - fit'|/max |η'|; derivatives enter the
    tangent kernel. Raises InvalidArgumentError if 32 terms leave an error above `tolerance`.
    """
    with jax.enable_x64(True):
        r = largest * (np.arange(_POINTS) + 0.5) / _POINTS
        r = np.concatenate([r, r[: _POINTS // 4] / 50])
        try:
            value = np.asarray(jax.vmap(function)(jnp.asarray(r)), np.float64)
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
            raise InvalidTypeError(
                "function", function, "a function of arrays of JAX, such as jax.numpy.tanh"
            ) from None
        slope = np.asarray(jax.vmap(jax.grad(lambda s: jnp.sum(function(s))))(jnp.asarray(r)), np.float64)
    if value.shape != r.shape or not (np.isfinite(value).all() and np.isfinite(slope).all()):
        raise InvalidArgumentError("function", function, "one with finite values and slopes, one for each norm")
    scales = max(np.abs(value).max(), 1e-300), max(np.abs(slope).max(), 1e-300)
    best = np.inf
    for terms in _TERMS:
        rates = np.concatenate([[0.0], np.geomspace(0.3 / largest**2, 20.0, terms - 1)])
        decays = np.exp(-np.outer(r * r, rates))
        rows = np.concatenate([r[:, None] * decays / scales[0], (1 - 2 * np.outer(r * r, rates)) * decays / scales[1]])
        wanted = np.concatenate([value / scales[0], slope / scales[1]])
        coefficients = np.linalg.lstsq(rows, wanted, rcond=_CUT)[0]
        error = float(np.abs(rows @ coefficients - wanted).max())
        best = min(best, error)
        if error <= tolerance:
            return Fit(GaussianSum(tuple(coefficients), tuple(rates)), error, (error * scales[0], error * scales[1]))
    raise InvalidArgumentError(
        "function",
        best,
        "at most the tolerance",
        "raise tolerance, take a smoother function (odd in the norm), or a GaussianSum",
        verb="of the norm is fitted with an error of",
    )
