"""Nonlinearities of the norm of steerable features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from equitangents._types import DType, Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.kernels.steerable.program import Norm
from equitangents.nn.layer import check_number
from equitangents.nn.signal import Signal
from equitangents.nn.steerable.nonlinearity import SteerableNonlinearity
from equitangents.nn.steerable.signal import joined, parted, steerable
from equitangents.steerable import Features, GaussianSum
from equitangents.steerable.gaussian_sum import Fit, fitted


@dataclass(frozen=True)
class NormNonlinearity(SteerableNonlinearity):
    """Every copy of every irrep keeps its direction and gets the norm η(|u|): u ↦ η(|u|) u/|u|.

    Args:
        function: η, a `steerable.GaussianSum`, whose dual is in closed form, or any smooth function of the norm with
            η(0) = 0, such as `jax.numpy.tanh`. Of those the dual is that of a sum of Gaussians fitted to η.
        tolerance: The largest error of that fit, of η and of its slope, relative to the largest of each.
        largest: Up to which norm it is fitted. Kernels of vectors whose root mean square norm is above a fifth of it
            are refused. So are those of vectors so short that the fit may be off by more than ten times the tolerance,
            relative to the root mean square of η there: where η rises slowly from 0.

    `error` is the error of the fit, 0 for a GaussianSum. A function with a kink, such as a ReLU of the norm less a
    threshold, is refused at the tolerance given; GaussianSum() is its smooth counterpart.
    """

    function: Callable[[jax.Array], jax.Array] = field(default_factory=GaussianSum)
    tolerance: float = 1e-6
    largest: float = 12.0
    gaussians: GaussianSum = field(init=False, compare=False, repr=False, default_factory=GaussianSum)
    error: float = field(init=False, compare=False, default=0.0)
    off: tuple[float, float] = field(init=False, compare=False, repr=False, default=(0.0, 0.0))

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidTypeError("function", self.function, "a GaussianSum or a function of norms")
        for name in ("tolerance", "largest"):
            if not check_number(name, getattr(self, name)) > 0:
                raise InvalidArgumentError(name, getattr(self, name), "a positive number")
        fit = Fit(self.function, 0.0, (0.0, 0.0)) if self._is_sum else None  # type: ignore[arg-type]
        fit = fit or fitted(self.function, float(self.largest), float(self.tolerance))
        for name, value in (("gaussians", fit.gaussians), ("error", fit.error), ("off", fit.off)):
            object.__setattr__(self, name, value)

    @property
    def _is_sum(self) -> bool:
        """Whether η is a sum of Gaussians itself, and not fitted by one."""
        return isinstance(self.function, GaussianSum)

    def after(self, features: Features) -> Features:
        """The features that come in: only their norms change."""
        return features

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Vectors with the norms η(|u|)."""
        features = steerable(signal).features
        points, rest = parted(x, signal)
        return joined(points, features, {kind: self._moved(v) for kind, v in features.split(rest).items()})

    def _moved(self, u: jax.Array) -> jax.Array:
        square = jnp.sum(u * u, axis=-1, keepdims=True)
        if self._is_sum:
            return u * self.gaussians.factor(square)
        there = square > 0
        norm = jnp.sqrt(jnp.where(there, square, 1))
        return u * jnp.where(there, self.function(norm) / norm, self._slope(u.dtype))

    def _slope(self, dtype: DType) -> jax.Array:
        """η'(0), by which vectors near zero are multiplied."""
        small = jnp.asarray(1e-4, dtype)
        return self.function(small) / small

    def lower(self, signal: Signal) -> tuple[Norm, ...]:
        """One operation with the sum of Gaussians."""
        sums = self.gaussians
        if self._is_sum:
            return (Norm(sums.coefficients, sums.rates),)
        return (Norm(sums.coefficients, sums.rates, float(self.largest), self.off, 10 * float(self.tolerance)),)
