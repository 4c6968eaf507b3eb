"""Group convolutions on sampled rotations, by the Fourier transform of SO(3).

f(R) = Σ_l (2l + 1) Σ_mn F^l_mn D^l_mn(R), with F by quadrature; N(f)(R) = ∫ κ(S) f(RS) dS has the coefficients
Σ_k F^l_mk G^l_nk, G those of the filter. Degrees from the group's bandlimit on, which nonlinearities make, are cut.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import DType, Params
from equitangents.errors import NetworkError
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.operations import Affine
from equitangents.kernels.rotations.program import RotationOp
from equitangents.nn.group_windows import ConvolutionSettings, Elements
from equitangents.nn.layer import Weights
from equitangents.nn.rotation_filters import blocks, rotation_root, wigner_basis
from equitangents.nn.zonal_window import ZonalWindowLike, zonal_window


class RotationConvolution:
    """What a GroupConv does on SO(3) and O(3)."""

    def __init__(self, layer: ConvolutionSettings, group: RotationGroup) -> None:
        if layer.rotations is not None or layer.weights is not None:
            raise NetworkError(f"on {group.name} a window is 'full' or a profile, without rotations= and weights=")
        self.group = group
        self.channels = layer.channels
        if isinstance(layer.window, tuple | Elements):
            raise NetworkError(f"window is a box or a list; on {group.name} it is 'full', a profile or a ZonalWindow")
        self.window = zonal_window(cast(ZonalWindowLike, layer.window))
        self.weights = Weights(layer.W_std, layer.b_std)

    def init(self, key: jax.Array, channels: int, dtype: DType) -> Params:
        """w (parities, Σ_l (2l + 1)², n, channels), b (channels,)."""
        entries = blocks(self.group.bandlimit)[-1].stop
        shape = (2 if self.group.reflections else 1, entries, channels, self.channels)
        return self.weights.init(key, shape, (self.channels,), dtype)

    def apply(self, params: Params, x: jax.Array) -> jax.Array:
        """Convolved signals at the group's rotations, (N, order, channels)."""
        synthesis, analysis = (jnp.asarray(t, x.dtype) for t in _transforms(self.group))
        G = self.weights.scaled(params, x.shape[-1])
        root = rotation_root(self.window, self.group.bandlimit)
        G = jnp.einsum("ij,sjcd->sicd", jnp.asarray(root, x.dtype), G)
        parts = jnp.split(x, len(G), axis=1)  # with reflections: R and -R
        if len(parts) == 2:
            parts = [(parts[0] + parts[1]) / 2, (parts[0] - parts[1]) / 2]
        outputs = [self._convolve(part, g, synthesis, analysis) for part, g in zip(parts, G, strict=True)]
        if len(outputs) == 2:
            even, odd = outputs
            outputs = [even + odd, even - odd]
        return self.weights.add_bias(params, jnp.concatenate(outputs, axis=1))

    def _convolve(self, x: jax.Array, G: jax.Array, synthesis: jax.Array, analysis: jax.Array) -> jax.Array:
        F = jnp.einsum("ir,zrc->zic", analysis, x)
        entries = []
        for l, here in enumerate(blocks(self.group.bandlimit)):
            side = 2 * l + 1
            f = F[:, here].reshape((len(x), side, side, -1))
            g = G[here].reshape((side, side, *G.shape[1:]))
            entries.append(jnp.einsum("zmkc,nkcd->zmnd", f, g).reshape((len(x), side * side, -1)))
        return jnp.einsum("ri,zid->zrd", synthesis, jnp.concatenate(entries, axis=1))

    def lower(self) -> tuple[RotationOp, ...]:
        """Mean over the window, then weights and bias."""
        return (self.window.op, Affine(self.weights.W_std**2, self.weights.b_std**2))


@lru_cache(maxsize=8)
def _transforms(group: RotationGroup) -> tuple[np.ndarray, np.ndarray]:
    """(from coefficients F to values, from values to coefficients) on the proper rotations of a group."""
    proper = RotationGroup(group.bandlimit, reflections=False)
    D = wigner_basis(proper, group.bandlimit)
    dimension = np.concatenate([np.full((2 * l + 1) ** 2, 2 * l + 1) for l in range(group.bandlimit)])
    return D * dimension, (D * proper.weights[:, None]).T
