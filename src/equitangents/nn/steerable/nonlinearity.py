"""Nonlinearities of steerable features: scalars as gates, functions of sampled signals, functions of the norm."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from equitangents._types import DType, Params
from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.kernels.steerable import Gate, Norm, Sampled
from equitangents.nn.layer import Nonlinearity, ParameterFree, Signal
from equitangents.nn.nonlinearities import Erf, Relu
from equitangents.nn.steerable.inputs import joined, parted, signals_on_directions, steered, with_features
from equitangents.steerable import Features, GaussianSum
from equitangents.steerable.features import SteerableIrrep, trivial
from equitangents.steerable.gaussian_sum import Fit, fitted
from equitangents.steerable.harmonics import samples
from equitangents.validation import check_number, check_whole


class SteerableNonlinearity(ParameterFree):
    """A nonlinearity that commutes with the group."""

    steers: ClassVar[bool] = True

    @abc.abstractmethod
    def after(self, features: Features) -> Features:
        """Features after the nonlinearity; NetworkError if the input does not fit."""

    @abc.abstractmethod
    def moved(self, features: Features, values: dict[SteerableIrrep, Any]) -> dict[SteerableIrrep, Any]:
        """{irrep: values (..., copies, d)} after the nonlinearity."""

    def signal(self, signal: Signal) -> Signal:
        """A field on the input's points, not Gaussian."""
        features = steered(signal).features
        if not signal.gaussian:
            raise NetworkError("a nonlinearity needs a linear layer before it, SteerableConv or SteerableDense")
        return with_features(signal, self.after(features), gaussian=False)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        features = steered(signal).features
        points, values = parted(x, signal)
        return joined(points, self.after(features), self.moved(features, values))


@dataclass(frozen=True)
class GatedNonlinearity(SteerableNonlinearity):
    """φ of scalars, and every copy of another irrep times σ of its own gate: u ↦ σ(g) u.

    The last scalars of the input are the gates, one for each copy of the other irreps in order: "10x0+4x1+2x2" becomes
    "4x0+4x1+2x2". The activation kernel is exact if those of φ and σ are: E[σ(g)σ(g')] times the kernel of u, since
    gates are independent of what they multiply.

    Args:
        scalars: φ, a nonlinearity of `equitangents.nn`.
        gate: σ, likewise, such as `Elementwise(jax.nn.sigmoid)`.
    """

    scalars: Nonlinearity = field(default_factory=Relu)
    gate: Nonlinearity = field(default_factory=Erf)

    def __post_init__(self) -> None:
        for name, value in (("scalars", self.scalars), ("gate", self.gate)):
            _check_nonlinearity(name, value)

    @property
    def no_ntk(self) -> str | None:  # type: ignore[override]
        return self.scalars.no_ntk or self.gate.no_ntk

    def after(self, features: Features) -> Features:
        """The input's features without the scalars that are gates."""
        number = trivial(features.group)
        gates = sum(n for n, kind in features.entries if kind != number)
        left = features.copies(number) - gates
        if left < 0:
            wanted = "a number for each gate, in addition to those that pass on"
            raise NetworkError("features", features, wanted, "give the layer before more copies")
        entries = tuple((left if kind == number else n, kind) for n, kind in features.entries)
        return Features.of(features.group, tuple((n, kind) for n, kind in entries if n))

    def moved(self, features: Features, values: dict[SteerableIrrep, Any]) -> dict[SteerableIrrep, Any]:
        number, start = trivial(features.group), 0
        left = self.after(features).copies(number)
        factors = self.gate.function(values[number][..., left:, :])
        for n, kind in features.entries:
            if kind != number:
                values[kind] = values[kind] * factors[..., start : start + n, :]
                start += n
        values[number] = self.scalars.function(values[number][..., :left, :])
        return values

    def lower(self, signal: Signal) -> tuple[Gate, ...]:
        into = steered(signal).features
        out = self.after(into)
        scalars = self.scalars.dual if out.copies(trivial(into.group)) else None
        return (Gate(into, out, scalars, self.gate.dual),)


@dataclass(frozen=True)
class FourierNonlinearity(SteerableNonlinearity):
    """A function of the signal s(x) = Σ_l h_l(x) · f_l on directions: to sampled directions, φ, back to coefficients.

    Features are equally many copies of the irreps 0 to L, "8x0+8x1+8x2" ("8x0e+8x1o+8x2e" for O(3)): copy c of all of
    them is one signal, on the circle or on the sphere. Harmonics h have mean square 1; degrees above L are cut off.
    The activation kernel is exact for these samples, by that of the function at every two directions.

    Sampling keeps the symmetries that map samples to samples. For a polynomial of degree p the others are exact, too,
    if `samples` is above (p + 1) L on the circle, or 2 · samples - 1 on the sphere. For other functions more samples
    reduce their error: by default rotations of a sphere's signal change kernels by 1e-3 (Erf) and 2 % (Relu) for L = 2.

    Args:
        function: A nonlinearity of `equitangents.nn`, such as Relu().
        samples: Equidistant directions of the circle; on the sphere rings, each of 2 · samples - 1 directions. None:
            4 L + 4 on the circle, 2 L + 2 on the sphere.
    """

    function: Nonlinearity = field(default_factory=Relu)
    samples: int | None = None

    def __post_init__(self) -> None:
        _check_nonlinearity("function", self.function)
        if self.samples is not None:
            check_whole("samples", self.samples, 1)

    @property
    def no_ntk(self) -> str | None:  # type: ignore[override]
        return self.function.no_ntk

    def after(self, features: Features) -> Features:
        largest = max(kind.degree for kind in features.irreps)
        wanted = signals_on_directions(features.group, features.entries[0][0], largest + 1)
        if set(wanted.entries) != set(features.entries):
            raise NetworkError("features", features, "equally many copies of each irrep", str(wanted))
        least = 2 * largest + 1 if features.space == 2 else largest + 1
        if self._resolution(features) < least:
            raise NetworkError("samples", self.samples, least, "give at least so many")
        return features

    def _resolution(self, features: Features) -> int:
        largest = max(kind.degree for kind in features.irreps)
        default = 4 * largest + 4 if features.space == 2 else 2 * largest + 2
        return default if self.samples is None else self.samples

    def moved(self, features: Features, values: dict[SteerableIrrep, Any]) -> dict[SteerableIrrep, Any]:
        """Coefficients after the function: transformed to values, mapped, transformed back."""
        grid = samples(features.space, self._resolution(features), max(kind.degree for kind in values))
        signals = [
            jnp.einsum("sa,...ca->...cs", jnp.asarray(grid.harmonics[kind.degree], v.dtype), v, precision="highest")
            for kind, v in values.items()
        ]
        moved = self.function.function(sum(signals[1:], start=signals[0]))
        analysis = {kind: jnp.asarray(grid.analysis[kind.degree], moved.dtype) for kind in values}
        return {k: jnp.einsum("as,...cs->...ca", a, moved, precision="highest") for k, a in analysis.items()}

    def lower(self, signal: Signal) -> tuple[Sampled, ...]:
        features = steered(signal).features
        return (Sampled(features.irreps, self.function.dual, self._resolution(features)),)


def _check_nonlinearity(name: str, value: object) -> None:
    if not isinstance(value, Nonlinearity):
        raise InvalidTypeError(name, value, "a nonlinearity of equitangents.nn, such as Relu()")


@dataclass(frozen=True)
class NormNonlinearity(SteerableNonlinearity):
    """Every copy of every irrep keeps its direction and gets the norm η(|u|): u ↦ η(|u|) u/|u|.

    Args:
        function: η, a `steerable.GaussianSum`, whose activation kernel has a closed form, or any smooth function of the
            norm with η(0) = 0, such as `jax.numpy.tanh`, whose kernel is that of a sum of Gaussians fitted to η.
        tolerance: The largest error of that fit, of η and of its slope, relative to the largest of each.
        largest: The largest norm of the fit. Kernels raise an error for vectors whose root mean square norm is above a
            fifth of it, or so small that the fit may be off by more than ten times the tolerance, relative to the root
            mean square of η (if η rises slowly from 0).

    `error` is the error of the fit, 0 for a GaussianSum. A function with a kink, such as a ReLU of the norm minus a
    threshold, misses the tolerance and is refused; GaussianSum() is its smooth counterpart.
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
            check_number(name, getattr(self, name), "a positive number", lambda v: v > 0)
        fit = Fit(self.function, 0.0, (0.0, 0.0)) if self._is_sum else None  # type: ignore[arg-type]
        fit = fit or fitted(self.function, float(self.largest), float(self.tolerance))
        for name, value in (("gaussians", fit.gaussians), ("error", fit.error), ("off", fit.off)):
            object.__setattr__(self, name, value)

    @property
    def _is_sum(self) -> bool:
        """Whether η is itself a sum of Gaussians, so that no fit is needed."""
        return isinstance(self.function, GaussianSum)

    def after(self, features: Features) -> Features:
        return features

    def moved(self, features: Features, values: dict[SteerableIrrep, Any]) -> dict[SteerableIrrep, Any]:
        return {kind: self._moved(v) for kind, v in values.items()}

    def _moved(self, u: jax.Array) -> jax.Array:
        square = jnp.sum(u * u, axis=-1, keepdims=True)
        if self._is_sum:
            return u * self.gaussians.factor(square)
        nonzero = square > 0
        norm = jnp.sqrt(jnp.where(nonzero, square, 1))
        return u * jnp.where(nonzero, self.function(norm) / norm, self._slope(u.dtype))

    def _slope(self, dtype: DType) -> jax.Array:
        """η'(0), the factor of vectors near zero."""
        small = jnp.asarray(1e-4, dtype)
        return self.function(small) / small

    def lower(self, signal: Signal) -> tuple[Norm, ...]:
        sums = self.gaussians
        if self._is_sum:
            return (Norm(sums.coefficients, sums.rates),)
        return (Norm(sums.coefficients, sums.rates, float(self.largest), self.off, 10 * float(self.tolerance)),)
