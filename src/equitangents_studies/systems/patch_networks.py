"""Networks that cut images into patches: which of them stay the same algorithm when patches change places?

ResNet   Conv 3×3, then residual blocks of two convolutions, a mean over positions
Mixer    patches to tokens, then blocks: t ← t + MLP over tokens, t ← t + MLP over channels; a mean over tokens
ViT      patches to tokens, plus a Gaussian vector for each place; blocks of attention and an MLP; a mean over tokens

A Mixer's weights over tokens and a transformer's vectors of places are Gaussian and independent, so permuted ones have
the same law: both algorithms are symmetric under permutations of patches. A ResNet is not: its windows cross patches.

Source: Xiao & Pennington 2022, arXiv 2207.04612, on wider classes of architectures; sizes are this library's choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.extending import ArrayLike, DType, Params, check_whole, precision, standard_normal
from equitangents.nn import Conv, Dense, GlobalAvgPool, Relu, Residual, Sequential
from equitangents_studies.systems.data_groups import DataGroup
from equitangents_studies.systems.transformations import ChannelRotations, Transformation, like

_TOKEN_AXIS = {"mix_in": -2, "mix_out": -1, "places": -2}  # of the parameters that have one


@final
@dataclass(frozen=True)
class PatchNetwork:
    """A Mixer or a vision transformer on images (N, H, W, c), in NTK parametrisation; hashable, with init and apply.

    Args:
        kind: "Mixer" or "ViT".
        patch: pixels on a side of a patch.
        depth: blocks.
        width: channels of a token.
        outputs: of the readout.
    """

    kind: str
    patch: int = 2
    depth: int = 1
    width: int = 16
    outputs: int = 1

    def with_outputs(self, outputs: int) -> PatchNetwork:
        """The network with so many outputs."""
        return replace(self, outputs=outputs)

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: DType = "float32") -> Params:
        """Standard normal parameters by name; those of block i are in `blocks[i]`."""
        tokens, width = math.prod(self._grid(input_shape)), self.width
        shapes = {"embed": (self.patch**2 * input_shape[-1], width), "readout": (width, self.outputs)}
        block = {"up": (width, 2 * width), "down": (2 * width, width)}
        if self.kind == "Mixer":
            block |= {"mix_in": (tokens, 2 * tokens), "mix_out": (2 * tokens, tokens)}
        else:
            shapes |= {"places": (tokens, width)}
            block |= {name: (width, width) for name in ("query", "keys", "value", "join")}
        keys = iter(jax.random.split(key, len(shapes) + self.depth * len(block)))
        with precision.scope(dtype):
            draw = lambda shape: standard_normal(next(keys), shape, jnp.dtype(dtype))
            drawn = lambda of: {name: draw(shape) for name, shape in of.items()}
            return drawn(shapes) | {"blocks": tuple(drawn(block) for _ in range(self.depth))}

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """Outputs of the network, (N, outputs)."""
        dtype = params["embed"].dtype
        with precision.scope(dtype):
            t = _times(self._cut(jnp.asarray(x, dtype)), params["embed"])
            if self.kind == "ViT":
                t = t + params["places"]
            for block in params["blocks"]:
                t = t + (self._mixed(block, t) if self.kind == "Mixer" else self._attended(block, t))
                t = t + _times(jax.nn.relu(_times(t, block["up"])), block["down"])
            return _times(t.mean(axis=1), params["readout"])

    def why_uncoupled(self, group: DataGroup) -> str | None:
        """None for permutations of its patches, and for matrices of the channels that are the same everywhere."""
        if group.reach == "same" or (group.reach == "patches" and group.patch == self.patch):
            return None
        return f"{self.kind} reads all patches of {self.patch} × {self.patch} pixels by the same weights"

    def coupled(self, params: Params, tau: Transformation) -> Params:
        """Parameters, stacked over members or not, that make of τx what `params` make of x."""
        if tau.group.reach == "same":
            w = np.asarray(params["embed"], np.float64)
            assert isinstance(tau, ChannelRotations)
            pixels = w.reshape(*w.shape[:-2], self.patch**2, -1, w.shape[-1])
            turned = np.einsum("ij,...pjn->...pin", tau.matrices[0], pixels).reshape(w.shape)
            return params | {"embed": like(params["embed"], turned)}
        order = self._order(tau)
        take = lambda name, a: like(a, np.take(np.asarray(a), order, axis=_TOKEN_AXIS[name]))
        moved = lambda held: {name: take(name, a) if name in _TOKEN_AXIS else a for name, a in held.items()}
        blocks = tuple(moved(block) for block in params["blocks"])
        return moved({name: a for name, a in params.items() if name != "blocks"}) | {"blocks": blocks}

    def _order(self, tau: Transformation) -> np.ndarray:
        """Which patch of x each patch of τx is."""
        numbers = np.arange(math.prod(self._grid(tau.shape)), dtype=np.float64).reshape(self._grid(tau.shape))
        image = np.kron(numbers, np.ones((self.patch, self.patch)))
        full = np.broadcast_to(image[None, :, :, None], (1, *tau.shape))
        return np.asarray(self._cut(tau.moved(full)))[0, :, 0].astype(int)

    def _mixed(self, block: Params, t: jax.Array) -> jax.Array:
        return _times(jax.nn.relu(_times(t.swapaxes(1, 2), block["mix_in"])), block["mix_out"]).swapaxes(1, 2)

    def _attended(self, block: Params, t: jax.Array) -> jax.Array:
        query, keys, value = (_times(t, block[name]) for name in ("query", "keys", "value"))
        weights = jax.nn.softmax(query @ keys.swapaxes(1, 2) / math.sqrt(self.width), axis=-1)
        return _times(weights @ value, block["join"])

    def _grid(self, shape: tuple[int, ...]) -> tuple[int, int]:
        if len(shape) != 3 or shape[0] % self.patch or shape[1] % self.patch:
            raise ShapeError(f"inputs have shape {shape}; expected (H, W, c), H and W multiples of {self.patch}")
        return shape[0] // self.patch, shape[1] // self.patch

    def _cut(self, x: jax.Array) -> jax.Array:
        """(N, patches, p·p·c)."""
        rows, across = self._grid(x.shape[1:])
        p, c = self.patch, x.shape[-1]
        return x.reshape(-1, rows, p, across, p, c).swapaxes(2, 3).reshape(-1, rows * across, p * p * c)


def patch_network(
    name: str, *, patch: int = 2, depth: int = 1, width: int = 16, outputs: int = 1
) -> PatchNetwork | Sequential:
    """A small "ResNet", "Mixer" or "ViT" for `System`; a ResNet has no patches, and kernels of infinite width.

    >>> import jax, numpy as np
    >>> net = patch_network("ViT", patch=2)
    >>> net.apply(net.init(jax.random.key(0), (4, 4, 3)), np.ones((5, 4, 4, 3), np.float32)).shape
    (5, 1)
    """
    for argument, value in (("patch", patch), ("depth", depth), ("width", width), ("outputs", outputs)):
        check_whole(argument, value, 1)
    if name == "ResNet":
        conv = Conv(width, 3, W_std=2**0.5)
        blocks = [Residual(conv, Relu(), conv) for _ in range(depth)]
        return Sequential(conv, *blocks, Relu(), GlobalAvgPool(), Dense(outputs))
    if name not in ("Mixer", "ViT"):
        raise InvalidArgumentError("name", name, "'ResNet', 'Mixer' or 'ViT'")
    return PatchNetwork(name, patch, depth, width, outputs)


def _times(x: jax.Array, w: jax.Array) -> jax.Array:
    """x W/√fan-in."""
    return x @ w / math.sqrt(w.shape[-2])
