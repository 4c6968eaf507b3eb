"""Lifting from signals on the sphere to signals on rotations.

Filters are white noise over the sphere. On band-limited signals a filter acts only by its harmonic coefficients,
independent normals of variance 1/4π under the mean over the sphere. These coefficients are the parameters: networks
and their tangent kernels have the same distribution as with one parameter per point, whatever the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.groups import MatrixGroup
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.rotations import Accuracy, FullMean, Sphere
from equitangents.nn.layer import LinearLayer, OnGroup, Signal
from equitangents.sphere.harmonics import check_bandlimit
from equitangents.sphere.transforms import wigner
from equitangents.validation import check_number


@lru_cache(maxsize=32)
def wigner_basis(group: RotationGroup | MatrixGroup, bandlimit: int) -> np.ndarray:
    """Wigner functions D^l_mn(R) at the group's rotations, (order, Σ_l (2l + 1)²), concatenated over (l, m, n)."""
    return np.concatenate([d.reshape(group.order, -1) for d in wigner(group.matrices, bandlimit)], axis=1)


def bandlimit_of(signal: Signal, most: int | None, remedy: str) -> int:
    """B of a signal of B² harmonic coefficients; NetworkError for other signals, or for B above `most`."""
    count = signal.positions.count
    bandlimit = math.isqrt(count)
    if bandlimit**2 != count:
        raise NetworkError("signal", count, "B² coefficients, a square number", verb="has length")
    if most is not None and bandlimit > most:
        raise NetworkError("signal", bandlimit, range(1, most + 1), remedy, verb="has bandlimit")
    return bandlimit


def blocks(bandlimit: int) -> list[slice]:
    """For each degree, the slice of its entries in a row of `wigner_basis`."""
    ends = np.cumsum([0, *((2 * l + 1) ** 2 for l in range(bandlimit))])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


@dataclass(frozen=True)
class SphereLift(LinearLayer):
    """A convolution of a signal on the sphere with filters at every rotation.

    N(f)(R) = W_std/√n ∫ κ(x) f(Rx) dx/4π + b_std · b;  K'(R,R') = W_std² ∫ K(Rx, R'x) dx/4π + b_std².

    Reads harmonic coefficients (N, B², C): real, orthonormal over the sphere, at the index l² + l + m.

    Args:
        onto: `so3(bandlimit)` or `o3(bandlimit)`, sampled by finite networks, or a finite group of rotations, such
            as `octahedral()`. Kernels of SO(3) are not limited by its bandlimit.
        channels: Features of a finite network.
        W_std: Standard deviation of the weights.
        b_std: Standard deviation of the bias.
        tolerance: Error allowed in integrals over rotations, relative to √(K(x,x) K(x',x')). Each call of `kernel`
            raises the resolution until its own inputs meet the tolerance, so that calls with different inputs agree
            only to the tolerance. `Kernels.error_estimate` and `Kernels.resolution` hold the values reached.
            `InfiniteEnsemble` and `net.sampled_for(x)` fix the resolution by one set of inputs.
        resolution: Nodes in cos β for the kernel; replaces `tolerance`.
    """

    onto: RotationGroup | MatrixGroup
    channels: int
    W_std: float = 1.0
    b_std: float = 0.0
    tolerance: float = 1e-6
    resolution: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.onto, RotationGroup | MatrixGroup):
            wanted = "so3(bandlimit), o3(bandlimit) or a finite group of rotations such as octahedral()"
            raise InvalidTypeError("onto", self.onto, wanted)
        if isinstance(self.onto, MatrixGroup) and not self.onto.rotates_space:
            raise InvalidArgumentError("group", self.onto, "orthogonal 3×3 matrices")
        super().__post_init__()
        check_number("tolerance", self.tolerance, "a number between 0 and 1", lambda v: 0 < v < 1)
        if self.resolution is not None:
            check_bandlimit("resolution", self.resolution)

    @property
    def samples_rotations(self) -> bool:  # type: ignore[override]
        return self.resolution is None

    def _bandlimit(self, signal: Signal) -> int:
        if signal.axes != 1:
            raise NetworkError("signal", signal.positions, "harmonic coefficients (N, B², C)", verb="is on")
        most = self.onto.bandlimit if isinstance(self.onto, RotationGroup) else None
        return bandlimit_of(signal, most, "sample the group for more")

    def signal(self, signal: Signal) -> Signal:
        self._bandlimit(signal)
        return Signal(OnGroup(self.onto), self.channels, gaussian=True)

    def filter_shape(self, signal: Signal) -> tuple[int, ...]:
        """(B²,), one entry per harmonic."""
        return (self._bandlimit(signal) ** 2,)

    def window_mean(self, signal: Signal) -> tuple[Any, ...]:
        return (FullMean(),)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Signals on rotations (N, order, channels): Σ_lmn c_lm D^l_mn(R) g_ln, g the filter's coefficients."""
        bandlimit = self._bandlimit(signal)
        g = self.scales.scaled(params, signal.channels) / np.sqrt(4 * np.pi).astype(x.dtype)
        entries = []
        for l in range(bandlimit):
            here = slice(l * l, (l + 1) ** 2)
            product = jnp.einsum("zmc,ncd->zmnd", x[:, here], g[here])
            entries.append(product.reshape((len(x), -1, self.channels)))
        basis = jnp.asarray(wigner_basis(self.onto, bandlimit), x.dtype)
        return self.scales.add_bias(params, jnp.einsum("rk,zkd->zrd", basis, jnp.concatenate(entries, axis=1)))

    def group_moves(self, signal: Signal) -> Sphere:
        return Sphere(self._bandlimit(signal), self.onto, Accuracy(float(self.tolerance), self.resolution))
