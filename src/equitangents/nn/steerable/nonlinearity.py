"""Nonlinearities of steerable features with numbers as gates, and of signals sampled at directions."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from equitangents._types import ArrayLike, Params
from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.kernels.steerable.program import Gate, Sampled
from equitangents.nn.layer import ParameterFree
from equitangents.nn.nonlinearities import Erf, Nonlinearity, Relu
from equitangents.nn.signal import Signal
from equitangents.nn.steerable.signal import gaussian_features, joined, parted, steerable, with_features
from equitangents.steerable import Features
from equitangents.steerable.harmonics import samples
from equitangents.steerable.irrep import Irrep, trivial
from equitangents.validation import check_whole


class SteerableNonlinearity(ParameterFree):
    """A nonlinearity that commutes with the group."""

    steers: ClassVar[bool] = True

    def mask_after(self, mask: ArrayLike | None, signal: Signal) -> ArrayLike | None:
        """The mask that comes in: no point comes or goes."""
        return mask

    @abc.abstractmethod
    def after(self, features: Features) -> Features:
        """Features after the nonlinearity; NetworkError if the input does not fit."""

    def signal(self, signal: Signal) -> Signal:
        """A field on the points that come in, no longer Gaussian."""
        return with_features(signal, self.after(gaussian_features(signal)), gaussian=False)


@dataclass(frozen=True)
class GatedNonlinearity(SteerableNonlinearity):
    """φ of numbers, and every copy of another irrep times σ of its own gate: u ↦ σ(g) u.

    The last numbers of what comes in are the gates, one for each copy of the other irreps in order: "10x0+4x1+2x2"
    becomes "4x0+4x1+2x2". Its dual is exact where those of φ and σ are: E[σ(g)σ(g')] times the kernel of u, since gates
    are independent of what they multiply.

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
        """Why there is no tangent kernel, for functions with a jump."""
        return self.scalars.no_ntk or self.gate.no_ntk

    def after(self, features: Features) -> Features:
        """Fewer numbers, by as many as there are gates."""
        number = trivial(features.group)
        gates = sum(n for n, kind in features.entries if kind != number)
        left = features.copies(number) - gates
        if left < 0:
            raise NetworkError(
                "features",
                features,
                "a number for each gate besides those that pass on",
                "give the layer before more copies",
            )
        entries = tuple((left if kind == number else n, kind) for n, kind in features.entries)
        return Features.of(features.group, tuple((n, kind) for n, kind in entries if n))

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Numbers through φ, others times their gates."""
        features = steerable(signal).features
        points, rest = parted(x, signal)
        values, number, out = features.split(rest), trivial(features.group), self.after(features)
        left = out.copies(number)
        factors = self.gate.function(values[number][..., left:, :])
        start = 0
        for n, kind in features.entries:
            if kind != number:
                values[kind] = values[kind] * factors[..., start : start + n, :]
                start += n
        values[number] = self.scalars.function(values[number][..., :left, :])
        return joined(points, out, values)

    def lower(self, signal: Signal) -> tuple[Gate, ...]:
        """One operation with the activation kernels of both functions."""
        into = steerable(signal).features
        out = self.after(into)
        scalars = self.scalars.dual if out.copies(trivial(into.group)) else None
        return (Gate(into, out, scalars, self.gate.dual),)


@dataclass(frozen=True)
class FourierNonlinearity(SteerableNonlinearity):
    """A function of the signal on directions s(x) = Σ_l h_l(x) · f_l, at sampled directions, and back to coefficients.

    Features are equally many copies of the irreps 0 to L, "8x0+8x1+8x2" ("8x0e+8x1o+8x2e" for O(3)): copy c of each
    together is one signal, on the circle or on the sphere. Harmonics h have mean square 1, and what is beyond L is
    cut off. The dual is exact for the samples taken, by that of the function at every two directions.

    Sampling keeps the symmetries that map samples to samples. For a polynomial of degree p others are exact, too, if
    `samples` is above (p + 1) L on the circle, or 2 · samples - 1 on the sphere; for other functions more samples make
    them hold better: by default turns of a sphere's signal change kernels by 1e-3 (Erf) and 2 % (Relu) for L = 2.

    Args:
        function: A nonlinearity of `equitangents.nn`, such as Relu().
        samples: Equidistant directions of the circle; on the sphere rings, each of 2 · samples - 1 directions. None:
            4 L + 4 and 2 L + 2.
    """

    function: Nonlinearity = field(default_factory=Relu)
    samples: int | None = None

    def __post_init__(self) -> None:
        _check_nonlinearity("function", self.function)
        if self.samples is not None:
            check_whole("samples", self.samples, 1)

    @property
    def no_ntk(self) -> str | None:  # type: ignore[override]
        """Why there is no tangent kernel, for functions with a jump."""
        return self.function.no_ntk

    def after(self, features: Features) -> Features:
        """The features that come in, if they are signals."""
        largest = max(kind.degree for kind in features.irreps)
        wanted = Features.of(
            features.group, tuple((features.entries[0][0], k) for k in _harmonics(features.group, largest))
        )
        if set(wanted.entries) != set(features.entries):
            raise NetworkError("features", features, "equally many copies of each irrep", str(wanted))
        resolution = self._resolution(features)
        exact = resolution > 2 * largest if features.space == 2 else resolution > largest
        if not exact:
            raise NetworkError(
                "samples",
                self.samples,
                2 * largest + 1 if features.space == 2 else largest + 1,
                "give at least so many",
            )
        return features

    def _resolution(self, features: Features) -> int:
        largest = max(kind.degree for kind in features.irreps)
        default = 4 * largest + 4 if features.space == 2 else 2 * largest + 2
        return default if self.samples is None else self.samples

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """From coefficients to values, through the function, and back."""
        features = steerable(signal).features
        points, rest = parted(x, signal)
        grid = samples(features.space, self._resolution(features), max(kind.degree for kind in features.irreps))
        values = features.split(rest)
        signals = [
            jnp.einsum("sa,...ca->...cs", jnp.asarray(grid.harmonics[kind.degree], x.dtype), v, precision="highest")
            for kind, v in values.items()
        ]
        moved = self.function.function(sum(signals[1:], start=signals[0]))
        analysis = {kind: jnp.asarray(grid.analysis[kind.degree], x.dtype) for kind in values}
        back = {k: jnp.einsum("as,...cs->...ca", a, moved, precision="highest") for k, a in analysis.items()}
        return joined(points, features, back)

    def lower(self, signal: Signal) -> tuple[Sampled, ...]:
        """One operation with the function's dual."""
        features = steerable(signal).features
        return (Sampled(features.irreps, self.function.dual, self._resolution(features)),)


def _harmonics(group: str, largest: int) -> tuple[Any, ...]:
    return tuple(Irrep(group, l, (-1) ** l if group == "O(3)" else 1) for l in range(largest + 1))


def _check_nonlinearity(name: str, value: object) -> None:
    if not isinstance(value, Nonlinearity):
        raise InvalidTypeError(name, value, "a nonlinearity of equitangents.nn, such as Relu()")
