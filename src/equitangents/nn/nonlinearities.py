"""Elementwise nonlinearities, each with its activation kernel: in closed form, or computed for any function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.kernels import duals
from equitangents.kernels.duals.quadrature import bound, line
from equitangents.kernels.operations import DualActivation
from equitangents.kernels.program import Op
from equitangents.nn.layer import Nonlinearity, ParameterFree, Signal
from equitangents.validation import check_number, check_whole


@dataclass(frozen=True)
class Relu(Nonlinearity):
    """max(x, 0), without gain."""

    dual: ClassVar[DualActivation] = duals.PiecewiseLinearDual(0.0)  # arc-cosine kernels of order 1 and 0
    function = staticmethod(jax.nn.relu)


@dataclass(frozen=True)
class LeakyRelu(Nonlinearity):
    """max(x, 0) + negative_slope · min(x, 0)."""

    negative_slope: float = 0.01

    @property
    def dual(self) -> DualActivation:
        return duals.PiecewiseLinearDual(float(self.negative_slope))

    def function(self, x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, x, self.negative_slope * x)


@dataclass(frozen=True)
class Abs(Nonlinearity):
    """The absolute value |x|, without gain."""

    dual: ClassVar[DualActivation] = duals.PiecewiseLinearDual(-1.0)  # arc-cosine kernels, for a slope of -1 below zero
    function = staticmethod(jnp.abs)


@dataclass(frozen=True)
class Erf(Nonlinearity):
    """The error function erf(x), a sigmoid from −1 to 1."""

    dual: ClassVar[DualActivation] = duals.ErfDual()  # the arcsine kernel, in closed form
    function = staticmethod(jax.lax.erf)


@dataclass(frozen=True)
class Gelu(Nonlinearity):
    """x Φ(x), exact (no tanh approximation)."""

    dual: ClassVar[DualActivation] = duals.GeluDual()  # moments of Gelu in closed form
    function = staticmethod(partial(jax.nn.gelu, approximate=False))


@dataclass(frozen=True)
class Sin(Nonlinearity):
    """The sine sin(x), for signals that oscillate."""

    dual: ClassVar[DualActivation] = duals.SinDual()  # moments of the sine in closed form
    function = staticmethod(jnp.sin)


@dataclass(frozen=True)
class Cos(Nonlinearity):
    """The cosine cos(x), for signals that oscillate."""

    dual: ClassVar[DualActivation] = duals.CosDual()  # moments of the cosine in closed form
    function = staticmethod(jnp.cos)


@dataclass(frozen=True)
class Sign(Nonlinearity):
    """The sign of x: K' = 1 - 2θ/π, θ the angle between the fields. There is no NTK: the derivative is infinite."""

    dual: ClassVar[DualActivation] = duals.SignDual()  # moments of the sign, which has no derivative
    function = staticmethod(jnp.sign)


@dataclass(frozen=True)
class Heaviside(Nonlinearity):
    """1 where x > 0, else 0: K' = (1 - θ/π)/2. There is no NTK: the derivative is infinite."""

    dual: ClassVar[DualActivation] = duals.HeavisideDual()  # moments of the step, which has no derivative

    def function(self, x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, 1, 0).astype(x.dtype)


@dataclass(frozen=True)
class Identity(ParameterFree):
    """A layer that changes nothing, such as an empty residual branch."""

    steers: ClassVar[bool] = True  # it passes on steerable features, too
    follows_moves: ClassVar[bool | None] = True

    def signal(self, signal: Signal) -> Signal:
        return signal

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        return x

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        return ()


_WANTED = "a function of JAX arrays, entry by entry, such as jax.numpy.tanh"
_VARIANCES = np.array([1e-2, 1e-1, 0.5, 1.0, 2.0, 4.0])  # at which a function is tried when it is given


@dataclass(frozen=True)
class Elementwise(Nonlinearity):
    """Any differentiable elementwise function; its kernel keeps to a tolerance, which is checked at run time.

    E[φ²], E[φ'²], E[φ'φ'] and E[(φ(u)-φ(v))²] have a relative error of at most about `tolerance` (or some hundred
    rounding errors) at every variance and angle that occurs. If that is impossible, as with kinks away from zero, the
    kernel raises NotFiniteError; in traced programs it is NaN. Functions that miss the tolerance at variances from 0.01
    to 4, or have a jump, raise an error at once.

    The C++ engine tabulates smooth functions, once per function object. Outside of the tables, and for other functions,
    it sums Hermite series if at most 256 terms suffice (tanh: up to variances of about 20). Otherwise each pair is an
    integral over the plane, correct at any variance and thousands of times slower.
    """

    fn: Callable[[jax.Array], jax.Array]
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise InvalidTypeError("fn", self.fn, "a function of one array, applied elementwise")
        with jax.enable_x64(True):
            self._check_fn()
            self._check_error()

    def _check_fn(self) -> None:
        """Raise, with a remedy, for a function that JAX cannot differentiate entry by entry on all real numbers."""
        where = jnp.asarray([[-2.0, -0.3], [0.4, 1.5]])
        both = jax.jit(lambda z: (self.fn(z), jax.grad(lambda u: jnp.sum(self.fn(u)))(z)))
        try:
            values, slopes = both(where)
        except Exception as error:
            message = next(iter(str(error).splitlines()), "")
            raise InvalidArgumentError(
                "fn", self.fn, _WANTED, f"JAX cannot differentiate it: {type(error).__name__}: {message[:120]}"
            ) from error
        if values.shape != where.shape:
            raise InvalidArgumentError("fn", values.shape, where.shape, _WANTED, verb="gives values of shape")
        bad = ~(jnp.isfinite(values) & jnp.isfinite(slopes))
        if bad.any():
            at = float(where[bad][0])
            wanted = "finite values and derivatives at all real numbers"
            raise InvalidArgumentError("fn", at, wanted, verb="has no finite value or derivative at")

    def _check_error(self) -> None:
        """Raise InvalidArgumentError if integrals miss the tolerance at variances from 0.01 to 4."""
        errors = np.asarray(jax.jit(lambda q: line(self.fn, q, 1).error)(jnp.asarray(_VARIANCES)))
        at = int(np.argmax(errors))  # of NaN, if there is any
        if not errors[at] <= bound(self.tolerance, np.float64):
            remedy = "give a function without kinks away from zero, or a larger tolerance"
            verb = "is integrated with an error of"
            raise InvalidArgumentError("fn", float(errors[at]), "at most the tolerance", remedy, verb=verb)

    @property
    def dual(self) -> DualActivation:
        return duals.Quadrature(self.fn, self.tolerance)

    def function(self, x: jax.Array) -> jax.Array:
        return self.fn(x)


_FINITE = "a finite number"
_HIGHEST = 20  # degrees, beyond which factorials leave the digits of float64


class _Polynomial(Nonlinearity):
    """Σ_j c_j x^j with the coefficients `powers` of a subclass."""

    def powers(self) -> tuple[float, ...]:
        """Coefficients c_0, c_1, …"""
        raise NotImplementedError

    @property
    def dual(self) -> DualActivation:
        """Activation kernel with moments as finite sums (Mehler's formula)."""
        return duals.PolynomialDual(self.powers())

    def function(self, x: jax.Array) -> jax.Array:
        """The polynomial of every entry, by Horner's rule."""
        value = jnp.zeros_like(x)
        for c in reversed(self.powers()):
            value = value * x + c
        return value


@dataclass(frozen=True)
class Polynomial(_Polynomial):
    """Σ_j c_j x^j with coefficients (c_0, c_1, …), lowest power first."""

    coefficients: Sequence[float]

    def __post_init__(self) -> None:
        values = tuple(self.coefficients)
        for i, c in enumerate(values):
            check_number("coefficients", c, _FINITE, math.isfinite, at=i)
        if not 1 <= len(values) <= _HIGHEST + 1:
            raise InvalidArgumentError("coefficients", len(values), range(1, _HIGHEST + 2), verb="has length")
        object.__setattr__(self, "coefficients", tuple(map(float, values)))

    def powers(self) -> tuple[float, ...]:
        return tuple(self.coefficients)


@dataclass(frozen=True)
class Monomial(_Polynomial):
    """φ(x) = x^degree, a single power of the field."""

    degree: int

    def __post_init__(self) -> None:
        check_whole("degree", self.degree, 0, _HIGHEST)

    def powers(self) -> tuple[float, ...]:
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
        """Activation kernel with moments in closed form, by a recursion over degrees."""
        if self.degree == 0:
            return duals.HeavisideDual()
        return duals.PiecewiseLinearDual(0.0) if self.degree == 1 else duals.RectifiedMonomialDual(self.degree)

    def function(self, x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, jnp.where(x > 0, x, 1) ** self.degree, 0).astype(x.dtype)


@dataclass(frozen=True)
class Exp(Nonlinearity):
    """a·exp(b x): K' = a² exp(b² (q + q' + 2K)/2)."""

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        check_number("a", self.a, _FINITE, math.isfinite)
        check_number("b", self.b, _FINITE, math.isfinite)

    @property
    def dual(self) -> DualActivation:
        return duals.ExpDual(float(self.a), float(self.b))

    def function(self, x: jax.Array) -> jax.Array:
        return self.a * jnp.exp(self.b * x)


@dataclass(frozen=True)
class Gaussian(Nonlinearity):
    """a·exp(b x²) with b < 0: K' = a² / √((1 - 2bq)(1 - 2bq') - 4b²K²)."""

    a: float = 1.0
    b: float = -1.0

    def __post_init__(self) -> None:
        check_number("a", self.a, _FINITE, math.isfinite)
        check_number("b", self.b, "a negative number: a·exp(b x²) is to fall with |x|", lambda b: b < 0)

    @property
    def dual(self) -> DualActivation:
        return duals.GaussianDual(float(self.a), float(self.b))

    def function(self, x: jax.Array) -> jax.Array:
        return self.a * jnp.exp(self.b * x * x)


@dataclass(frozen=True)
class Rbf(Nonlinearity):
    """√2 sin(√(2γ) x + π/4): K' = exp(-γ (q + q' - 2K)), a Gaussian function of the distance."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, "a positive number", lambda v: v > 0)

    @property
    def dual(self) -> DualActivation:
        return duals.RbfDual(float(self.gamma))

    def function(self, x: jax.Array) -> jax.Array:
        return math.sqrt(2) * jnp.sin(math.sqrt(2 * self.gamma) * x + math.pi / 4)


@dataclass(frozen=True)
class Exponential(Nonlinearity):
    """The normalised exponential kernel K' = √(q q') exp(γ (cos θ - 1)), cos θ = K/√(q q').

    Source: Shankar et al. 2020, *Neural kernels without tangents* (there: the normalised Gaussian kernel, γ = 1). It is
    the limit of r exp(√γ x/r - γ), where r² is the mean of x² over a position's channels; for a·exp(b x) use `Exp`.
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, "a positive number", lambda v: v > 0)

    @property
    def dual(self) -> DualActivation:
        return duals.NormalisedExponentialDual(float(self.gamma))

    def function(self, x: jax.Array) -> jax.Array:
        square = jnp.mean(x * x, axis=-1, keepdims=True)
        r = jnp.sqrt(jnp.where(square > 0, square, 1))
        return jnp.where(square > 0, r * jnp.exp(math.sqrt(self.gamma) * x / r - self.gamma), 0)
