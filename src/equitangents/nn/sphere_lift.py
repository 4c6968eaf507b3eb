"""Lifting from signals on the sphere to signals on rotations, with zonal windows: a weight for every angle to the pole.

v(cos ϑ) = Σ_l (2l + 1) v_l P_l(cos ϑ) ≥ 0 with v_0 = 1, so that the mean of v over the sphere is 1.

Filters are white noise, by their coefficients. A filter of independent values κ(x) with weights √v(x) has coefficients
of covariance ∫ v(x) Y_i(x) Y_j(x) dx: that is all a network of bandlimited signals sees of it. So its parameters are as
many standard normals as there are coefficients, multiplied by the symmetric root of that covariance. Networks and their
tangent kernels have the same distribution as with one parameter for each point, whatever the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from equitangents._types import ArrayLike, Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.groups import MatrixGroup, so3
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.operations import FrozenArray
from equitangents.kernels.rotations import FULL, Accuracy, Sphere, Zonal
from equitangents.nn.layer import LinearLayer, OnGroup, Signal
from equitangents.sphere import gauss_legendre
from equitangents.sphere.directions import legendre_coefficients
from equitangents.sphere.harmonics import check_bandlimit, polynomials
from equitangents.sphere.transforms import wigner
from equitangents.validation import check_number

_DEGREES = 64  # at most
_TAIL = 1e-6  # the largest coefficient beyond them that still counts as smooth
_TRIM = 1e-12  # trailing coefficients below are dropped
_NEGATIVE = 1e-4  # of the largest value, by which a truncated series may dip below zero


@dataclass(frozen=True)
class ZonalWindow:
    """A window given by its Legendre coefficients, the first of which is 1; `zonal_window` makes it."""

    coefficients: tuple[float, ...]

    @property
    def op(self) -> Zonal:
        """The window's operation on fields on the sphere."""
        return FULL if len(self.coefficients) == 1 else Zonal(FrozenArray(np.array(self.coefficients)))

    def values(self, cosine: Float[np.ndarray, " *shape"]) -> Float[np.ndarray, " *shape"]:
        """v at cosines of the polar angle; negative values of the series count as zero."""
        return np.maximum(_series(np.array(self.coefficients), cosine), 0)


FULL_WINDOW = ZonalWindow((1.0,))


ZonalWindowLike = ZonalWindow | str | Callable[[jax.Array], ArrayLike] | Sequence[float] | np.ndarray


def zonal_window(window: ZonalWindowLike) -> ZonalWindow:
    """`window` as a ZonalWindow: "full", a profile (a function of the cosine), or Legendre coefficients."""
    if isinstance(window, ZonalWindow):
        return window
    if isinstance(window, str) and window == "full":
        return FULL_WINDOW
    if callable(window):
        numbers = legendre_coefficients(window, _DEGREES + 8)
    else:
        try:
            numbers = np.asarray(window, np.float64)
        except (TypeError, ValueError):
            numbers = np.zeros((0, 0))
        if numbers.ndim != 1 or not numbers.size:
            wanted = "'full', a function of the cosine of the polar angle, or its Legendre coefficients"
            raise InvalidTypeError("window", window, wanted)
    if not np.isfinite(numbers).all() or numbers[0] <= 1e-12 * np.abs(numbers).max():
        raise InvalidArgumentError("window must have finite Legendre coefficients, and a positive mean")
    numbers = numbers / numbers[0]
    if callable(window):
        tail, numbers = float(np.abs(numbers[_DEGREES:]).max()), numbers[:_DEGREES]
        if tail > _TAIL:
            raise InvalidArgumentError(
                "window",
                tail,
                "a smooth profile, below 1e-6",
                "round its edge, or give coefficients",
                verb="has relative Legendre coefficients beyond degree 63 up to",
            )
    numbers = numbers[: int(np.flatnonzero(np.abs(numbers) > _TRIM).max()) + 1]
    values = _series(numbers, np.cos(np.linspace(0, np.pi, 1024)))
    if values.min() < -_NEGATIVE * values.max():
        raise InvalidArgumentError("window", float(values.min()), "weights of at least zero", verb="has the weight")
    return ZonalWindow(tuple(numbers.tolist()))


def _series(coefficients: Float[np.ndarray, " degrees"], cosine: np.ndarray) -> np.ndarray:
    """Σ_l (2l + 1) v_l P_l(cos ϑ)."""
    return np.polynomial.legendre.legval(cosine, (2 * np.arange(len(coefficients)) + 1) * coefficients)


@lru_cache(maxsize=32)
def wigner_basis(group: RotationGroup | MatrixGroup, bandlimit: int) -> np.ndarray:
    """Wigner functions D^l_mn(R) at the group's rotations, (order, Σ_l (2l + 1)²), all (l, m, n) side by side."""
    return np.concatenate([d.reshape(group.order, -1) for d in wigner(group.matrices, bandlimit)], axis=1)


def bandlimit_of(signal: Signal, most: int | None, remedy: str) -> int:
    """B of a signal of B² harmonic coefficients, B at most `most`; NetworkError for others."""
    count = signal.positions.count
    bandlimit = math.isqrt(count)
    if bandlimit**2 != count:
        raise NetworkError("signal", count, "B² coefficients, a square number", verb="has length")
    if most is not None and bandlimit > most:
        raise NetworkError("signal", bandlimit, range(1, most + 1), remedy, verb="has bandlimit")
    return bandlimit


def blocks(bandlimit: int) -> list[slice]:
    """Where the entries of each degree lie in a row of `wigner_basis`."""
    ends = np.cumsum([0, *((2 * l + 1) ** 2 for l in range(bandlimit))])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


@lru_cache(maxsize=32)
def sphere_root(window: ZonalWindow, bandlimit: int) -> np.ndarray:
    """The root of ∫ v Y_i Y_j dx/4π, (B², B²)."""
    degree = 2 * (bandlimit - 1) + len(window.coefficients) - 1
    grid = gauss_legendre(degree // 2 + 1)
    points = grid.points.reshape(-1, 3)
    weights = grid.weights.ravel() / (4 * np.pi) * window.values(points[:, 2])
    Y = polynomials(points, bandlimit)
    return _root(Y.T @ (weights[:, None] * Y))


@lru_cache(maxsize=32)
def rotation_root(window: ZonalWindow, bandlimit: int) -> np.ndarray:
    """The root of ∫ v(n·Sn) D_i(S) D_j(S) dS, for all entries of D^l with l < bandlimit.

    Sn, n the pole, has the polar angle of S; the integral couples entries of equal orders alone.
    """
    degree = 2 * (bandlimit - 1) + len(window.coefficients) - 1
    group = so3(degree // 2 + 1)
    D = wigner_basis(group, bandlimit)
    weights = group.weights * window.values(group.matrices[:, 2, 2])
    return _root(D.T @ (weights[:, None] * D))


def _root(covariance: Float[np.ndarray, "*stack d d"]) -> Float[np.ndarray, "*stack d d"]:
    """The symmetric root of a covariance; eigenvalues below rounding count as zero."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


@dataclass(frozen=True)
class SphereLift(LinearLayer):
    """A convolution of a signal on the sphere with filters at every rotation.

    N(f)(R) = W_std/√n ∫ √v(x) κ(x) f(Rx) dx/4π + b_std · b;  K'(R,R') = W_std² ∫ v(x) K(Rx, R'x) dx/4π + b_std².

    Reads harmonic coefficients (N, B², C): real, orthonormal over the sphere, at the index l² + l + m.

    Args:
        onto: `so3(bandlimit)` or `o3(bandlimit)`, which a finite network samples, or a finite group of rotations, such
            as `octahedral()`. Kernels of SO(3) are not limited by its bandlimit.
        channels: Features of a finite network.
        window: v, "full", or narrower: a smooth profile (a function of the cosine of the angle to the pole), or
            Legendre coefficients.
        W_std: Standard deviation of the weights.
        b_std: Standard deviation of the bias.
        tolerance: Error allowed to integrals over rotations, relative to √(K(x,x) K(x',x')). The resolution of each
            call of `kernel` is raised until it is met on the inputs of that call, and calls with other inputs agree to
            the tolerance alone. `Kernels.error_estimate` says what was reached, `Kernels.resolution` at what.
            `InfiniteEnsemble` and `net.sampled_for(x)` take the resolution of one set of inputs for all.
        resolution: Nodes in cos β for the kernel, in place of those that `tolerance` asks for.
    """

    onto: RotationGroup | MatrixGroup
    channels: int
    window: ZonalWindowLike = "full"
    W_std: float = 1.0
    b_std: float = 0.0
    tolerance: float = 1e-6
    resolution: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.onto, RotationGroup | MatrixGroup):
            wanted = "so3(bandlimit), o3(bandlimit) or a finite group of rotations such as octahedral()"
            raise InvalidTypeError("onto", self.onto, wanted)
        if isinstance(self.onto, MatrixGroup) and not self.onto.turns_space:
            raise InvalidArgumentError("group", self.onto, "orthogonal 3×3 matrices")
        super().__post_init__()
        object.__setattr__(self, "window", zonal_window(self.window))
        check_number("tolerance", self.tolerance, "a number between 0 and 1", lambda v: 0 < v < 1)
        if self.resolution is not None:
            check_bandlimit("resolution", self.resolution)

    @property
    def samples_rotations(self) -> bool:  # type: ignore[override]
        return self.resolution is None

    @property
    def _window(self) -> ZonalWindow:
        assert isinstance(self.window, ZonalWindow)
        return self.window

    def _bandlimit(self, signal: Signal) -> int:
        if signal.axes != 1:
            raise NetworkError("signal", signal.positions, "harmonic coefficients (N, B², C)", verb="is on")
        most = self.onto.bandlimit if isinstance(self.onto, RotationGroup) else None
        bandlimit = bandlimit_of(signal, most, "sample the group for more")
        if isinstance(self.onto, MatrixGroup) and self._window != FULL_WINDOW:
            raise NetworkError("windows narrower than the sphere go with so3 and o3; on finite groups use 'full'")
        return bandlimit

    def signal(self, signal: Signal) -> Signal:
        self._bandlimit(signal)
        return Signal(OnGroup(self.onto), self.channels, gaussian=True)

    def filter_shape(self, signal: Signal) -> tuple[int, ...]:
        """One entry a harmonic, (B²,)."""
        return (self._bandlimit(signal) ** 2,)

    def window_mean(self, signal: Signal) -> tuple[Any, ...]:
        return (self._window.op,)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """(N, order, channels): Σ_lmn c_lm D^l_mn(R) g_ln, g the filter's coefficients."""
        bandlimit = self._bandlimit(signal)
        root = jnp.asarray(sphere_root(self._window, bandlimit), x.dtype)
        g = jnp.einsum("kj,jcd->kcd", root, self.scales.scaled(params, signal.channels))
        entries = []
        for l in range(bandlimit):
            here = slice(l * l, (l + 1) ** 2)
            product = jnp.einsum("zmc,ncd->zmnd", x[:, here], g[here])
            entries.append(product.reshape((len(x), -1, self.channels)))
        basis = jnp.asarray(wigner_basis(self.onto, bandlimit), x.dtype)
        return self.scales.add_bias(params, jnp.einsum("rk,zkd->zrd", basis, jnp.concatenate(entries, axis=1)))

    def fibres(self, signal: Signal) -> Sphere:
        return Sphere(self._bandlimit(signal), self.onto, Accuracy(float(self.tolerance), self.resolution))
