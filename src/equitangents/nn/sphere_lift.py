"""Lifting from signals on the sphere to signals on rotations."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import DType, Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.groups import MatrixGroup
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.operations import Affine
from equitangents.kernels.rotations.program import Accuracy, RotationOp, Sphere
from equitangents.nn.layer import Layer, Weights, check_scale
from equitangents.nn.rotation_filters import sphere_root, wigner_basis
from equitangents.nn.signal import OnGroup, OnRotations, Signal
from equitangents.nn.zonal_window import FULL_WINDOW, ZonalWindow, ZonalWindowLike, zonal_window
from equitangents.sphere.checks import check_bandlimit
from equitangents.validation import check_whole


@dataclass(frozen=True)
class SphereLift(Layer):
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
            raise InvalidTypeError(
                "onto", self.onto, "so3(bandlimit), o3(bandlimit) or a finite group of rotations such as octahedral()"
            )
        if isinstance(self.onto, MatrixGroup):
            _check_orthogonal(self.onto)
        check_whole("channels", self.channels, 1)
        object.__setattr__(self, "window", zonal_window(self.window))
        check_scale("W_std", self.W_std)
        check_scale("b_std", self.b_std)
        if not 0 < check_scale("tolerance", self.tolerance) < 1:
            raise InvalidArgumentError("tolerance", self.tolerance, "a number between 0 and 1")
        if self.resolution is not None:
            check_bandlimit("resolution", self.resolution)

    @property
    def samples_rotations(self) -> bool:  # type: ignore[override]
        """Whether the resolution is that of the inputs of each call."""
        return self.resolution is None

    def at_resolution(self, resolution: int) -> SphereLift:
        """This layer with so many nodes in cos β."""
        return replace(self, resolution=resolution)

    @property
    def _window(self) -> ZonalWindow:
        assert isinstance(self.window, ZonalWindow)
        return self.window

    def _bandlimit(self, signal: Signal) -> int:
        positions = signal.positions
        if signal.axes != 1:
            raise NetworkError("signal", positions, "harmonic coefficients (N, B², C)", verb="is on")
        bandlimit = round(positions.count**0.5)
        if bandlimit**2 != positions.count:
            raise NetworkError("signal", positions.count, "B² coefficients, a square number", verb="has length")
        if isinstance(self.onto, RotationGroup) and bandlimit > self.onto.bandlimit:
            raise NetworkError(
                "signal",
                bandlimit,
                range(1, self.onto.bandlimit + 1),
                "sample the group for more",
                verb="has bandlimit",
            )
        if isinstance(self.onto, MatrixGroup) and self._window != FULL_WINDOW:
            raise NetworkError("windows narrower than the sphere go with so3 and o3; on finite groups use 'full'")
        return bandlimit

    def signal(self, signal: Signal) -> Signal:
        """One Gaussian field on the rotations."""
        self._bandlimit(signal)
        positions = OnRotations(self.onto) if isinstance(self.onto, RotationGroup) else OnGroup(self.onto)
        return Signal(positions, self.channels, gaussian=True)

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """w (B², n, channels), b (channels,)."""
        shape = (self._bandlimit(signal) ** 2, signal.channels, self.channels)
        return Weights(self.W_std, self.b_std).init(key, shape, (self.channels,), dtype)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """(N, order, channels): Σ_lmn c_lm D^l_mn(R) g_ln, g the filter's coefficients."""
        bandlimit = self._bandlimit(signal)
        weights = Weights(self.W_std, self.b_std)
        root = jnp.asarray(sphere_root(self._window, bandlimit), x.dtype)
        g = jnp.einsum("kj,jcd->kcd", root, weights.scaled(params, signal.channels))
        entries = []
        for l in range(bandlimit):
            here = slice(l * l, (l + 1) ** 2)
            product = jnp.einsum("zmc,ncd->zmnd", x[:, here], g[here])
            entries.append(product.reshape((len(x), -1, self.channels)))
        basis = jnp.asarray(wigner_basis(self.onto, bandlimit), x.dtype)
        return weights.add_bias(params, jnp.einsum("rk,zkd->zrd", basis, jnp.concatenate(entries, axis=1)))

    def lower(self, signal: Signal) -> tuple[RotationOp, ...]:
        """Mean over the window, then weights and bias."""
        return (self._window.op, Affine(self.W_std**2, self.b_std**2))

    def fibres(self, signal: Signal) -> Sphere:
        """Relative rotations, and how finely they are sampled."""
        return Sphere(self._bandlimit(signal), self.onto, Accuracy(float(self.tolerance), self.resolution))


def _check_orthogonal(group: MatrixGroup) -> None:
    M = group.matrices
    if M.shape[1:] != (3, 3) or not np.allclose(M @ np.swapaxes(M, 1, 2), np.eye(3), atol=1e-8):
        raise InvalidArgumentError("group", group, "orthogonal 3×3 matrices")
