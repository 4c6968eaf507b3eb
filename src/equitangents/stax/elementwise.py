"""Nonlinearities under their names in neural-tangents, with its defaults."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax

from equitangents import nn
from equitangents.nn.layer import Layer
from equitangents.stax import closed_forms
from equitangents.stax.layers import StaxLayer, triple

_SIGMOID = 2.4020563531719796  # 0.5 erf(x / _SIGMOID) + 0.5 is near to the logistic sigmoid


def Relu(do_stabilize: bool = False) -> StaxLayer:
    """`nn.Relu`, which is stable in any case."""
    return triple("Relu", nn.Relu())


def LeakyRelu(alpha: float, do_stabilize: bool = False) -> StaxLayer:
    """`nn.LeakyRelu`: slope alpha for negative numbers."""
    return triple("LeakyRelu", nn.LeakyRelu(alpha))


def ABRelu(a: float, b: float, do_stabilize: bool = False) -> StaxLayer:
    """a·min(x, 0) + b·max(x, 0): `nn.LeakyRelu` times b, of -x where b is 0."""
    if b:
        return triple("ABRelu", *_times(1.0, nn.LeakyRelu(a / b), b))
    return triple("ABRelu", nn.Scale(-1.0), nn.Relu(), nn.Scale(-a))


def Abs(do_stabilize: bool = False) -> StaxLayer:
    """`nn.Abs`: the absolute value."""
    return triple("Abs", nn.Abs())


def Erf(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> StaxLayer:
    """a·erf(b x) + c: `nn.Erf`, with `nn.Scale` before and after, and the constant c."""
    if not c:
        return triple("Erf", *_times(b, nn.Erf(), a))
    return (
        triple("Erf", *_times(b, closed_forms.Raised(nn.Erf(), c / a), a)) if a else triple("Erf", nn.Polynomial((c,)))
    )


def Sigmoid_like() -> StaxLayer:
    """0.5 erf(x/2.402) + 0.5, near to the logistic sigmoid, whose own dual is `nn.Elementwise(jax.nn.sigmoid)`."""
    return triple("Sigmoid_like", *_times(1 / _SIGMOID, closed_forms.Raised(nn.Erf(), 1.0), 0.5))


def Gelu(approximate: bool = False) -> StaxLayer:
    """`nn.Gelu`, exact; approximate=True by quadrature."""
    if approximate:
        return triple("Gelu", nn.Elementwise(lambda x: jax.nn.gelu(x, approximate=True)))
    return triple("Gelu", nn.Gelu())


def Sin(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> StaxLayer:
    """a·sin(b x + c): `nn.Sin`, with `nn.Scale` before and after, and the phase c."""
    return triple("Sin", *_times(b, closed_forms.Wave(c) if c else nn.Sin(), a))


def Cos(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> StaxLayer:
    """a·cos(b x + c): `nn.Cos`, with `nn.Scale` before and after, and the phase c."""
    if c:
        return triple("Cos", *_times(b, closed_forms.Wave(c + math.pi / 2), a))
    return triple("Cos", *_times(b, nn.Cos(), a))


def Rbf(gamma: float = 1.0) -> StaxLayer:
    """`nn.Rbf`: the kernel exp(-gamma |x - x'|²)."""
    return triple("Rbf", nn.Rbf(gamma))


def Sign() -> StaxLayer:
    """`nn.Sign`: the NNGP alone. Asking for "ntk" raises NetworkError, where neural-tangents returns zeros."""
    return triple("Sign", nn.Sign())


def Exp(a: float = 1, b: float = 1) -> StaxLayer:
    """The exponential a·exp(b x): `nn.Exp`."""
    return triple("Exp", nn.Exp(a, b))


def Gaussian(a: float = 1, b: float = -1) -> StaxLayer:
    """The Gaussian bump a·exp(b x²): `nn.Gaussian`."""
    return triple("Gaussian", nn.Gaussian(a, b))


def ExpNormalized(gamma: float = 1, shift: float = -1, do_clip: bool = False) -> StaxLayer:
    """`nn.Exponential` with the kernel √(q q') exp(gamma (cos θ + shift)); here it has a finite form, too."""
    layers: tuple[Layer, ...] = (nn.Exponential(gamma),)
    if shift != -1:
        layers += (nn.Scale(math.exp(gamma * (shift + 1) / 2)),)
    return triple("ExpNormalized", *layers)


def Hermite(degree: int) -> StaxLayer:
    """`nn.Hermite`, exact for every variance.

    Kernels of neural-tangents are K^degree whatever the variance, which is the function's own for variance 1 alone.
    """
    return triple("Hermite", nn.Hermite(degree))


def Monomial(degree: int) -> StaxLayer:
    """`nn.Monomial`: x to this power."""
    return triple("Monomial", nn.Monomial(degree))


def Polynomial(coef: Sequence[float]) -> StaxLayer:
    """`nn.Polynomial`: coefficients from the lowest power on."""
    return triple("Polynomial", nn.Polynomial(tuple(float(c) for c in coef)))


def Elementwise(
    fn: Callable[[jax.Array], jax.Array] | None = None, nngp_fn: object = None, d_nngp_fn: object = None
) -> StaxLayer:
    """`nn.Elementwise`: the dual of any smooth function, by quadrature; a dual of one's own is a class in `nn`."""
    if fn is None or nngp_fn is not None or d_nngp_fn is not None:
        raise NotImplementedError(
            "Elementwise takes a function fn alone, and integrates its dual; a dual in closed form is the property "
            "`dual` of a class derived from equitangents.nn.Nonlinearity"
        )
    return triple("Elementwise", nn.Elementwise(fn))


def ElementwiseNumerical(
    fn: Callable[[jax.Array], jax.Array], deg: int, df: object = None, do_backprop: bool = False
) -> StaxLayer:
    """`nn.Elementwise` with `deg` Gauss-Hermite nodes in each direction, the same for (x, x') as for (x', x).

    The sums of neural-tangents, of as many nodes, depend on the order of the inputs: the two differ by the rules'
    errors, and both converge to the integral as `deg` grows.
    """
    return triple("ElementwiseNumerical", nn.Elementwise(fn, order=deg))


def Gabor() -> StaxLayer:
    """exp(-x²) sin(x), a wave under a bump."""
    return triple("Gabor", closed_forms.Gabor())


def RectifiedMonomial(degree: int) -> StaxLayer:
    """max(x, 0) to a power: `nn.RectifiedMonomial`, of degree 1 `nn.Relu`, of degree 0 `nn.Heaviside`.

    Kernels of neural-tangents are NaN between an input and itself; here they are finite.
    """
    return triple(
        "RectifiedMonomial", nn.RectifiedMonomial(degree) if degree > 1 else nn.Relu() if degree else nn.Heaviside()
    )


def _times(before: float, phi: Layer, after: float) -> tuple[Layer, ...]:
    """φ with scales around it where they are not 1."""
    first = () if before == 1 else (nn.Scale(before),)
    last = () if after == 1 else (nn.Scale(after),)
    return (*first, phi, *last)
