"""ResNets and MLP-Mixers, built of the layers of Flax, which itself comes with neither.

ResNet-18 to -101 of He et al. 2016 (arXiv 1512.03385), strides in the 3×3 convolutions; MLP-Mixer of Tolstikhin et al.
2021 (arXiv 2105.01601). `shrink` divides all widths. Images of less than 65 pixels a side meet a 3×3 convolution of
stride 1 where larger ones meet 7×7 of stride 2 and a pool of stride 2.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

_SMALL = 64
RESNETS = {
    "ResNet-18": ((2, 2, 2, 2), False),
    "ResNet-34": ((3, 4, 6, 3), False),
    "ResNet-50": ((3, 4, 6, 3), True),
    "ResNet-101": ((3, 4, 23, 3), True),
}  # blocks of each stage, and whether they are bottlenecks
MIXERS = {"Mixer-S": (8, 512, 256, 2048), "Mixer-B": (12, 768, 384, 3072)}  # blocks, width, token and channel MLPs
NETWORKS = (*RESNETS, *MIXERS)


class Block(nn.Module):
    """A residual block of two 3×3 convolutions, or of 1×1, 3×3, 1×1 with four times the channels at its end."""

    channels: int
    stride: int
    bottleneck: bool

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """x (n, height, width, channels) to the block's output."""
        conv = partial(nn.Conv, use_bias=False)
        norm = partial(nn.BatchNorm, use_running_average=not train, momentum=0.9)
        strides = (self.stride, self.stride)
        if self.bottleneck:
            y = nn.relu(norm()(conv(self.channels, (1, 1))(x)))
            y = nn.relu(norm()(conv(self.channels, (3, 3), strides)(y)))
            y = conv(4 * self.channels, (1, 1))(y)
        else:
            y = nn.relu(norm()(conv(self.channels, (3, 3), strides)(x)))
            y = conv(self.channels, (3, 3))(y)
        y = norm(scale_init=nn.initializers.zeros)(y)
        if x.shape != y.shape:
            x = norm()(conv(y.shape[-1], (1, 1), strides)(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    """Four stages of residual blocks, a global average, one linear layer."""

    blocks: tuple[int, ...]
    bottleneck: bool
    width: int
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """Logits (n, classes) of images (n, height, width, 3)."""
        small = x.shape[1] <= _SMALL
        size, stride = (3, 1) if small else (7, 2)
        x = nn.Conv(self.width, (size, size), (stride, stride), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(x))
        if not small:
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for stage, count in enumerate(self.blocks):
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                x = Block(self.width * 2**stage, stride, self.bottleneck)(x, train)
        return nn.Dense(self.classes)(x.mean(axis=(1, 2)))


class Mixer(nn.Module):
    """Patches through one linear layer, blocks that mix tokens, then channels, their mean, a linear layer."""

    blocks: int
    width: int
    token_width: int
    channel_width: int
    patch: int
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """Logits (n, classes) of images (n, height, width, 3); training and prediction are alike."""
        p = (self.patch, self.patch)
        x = nn.Conv(self.width, p, p, padding="VALID")(x)
        x = x.reshape(len(x), -1, self.width)
        for _ in range(self.blocks):
            y = nn.LayerNorm()(x).swapaxes(1, 2)
            x = x + self._mlp(y, self.token_width).swapaxes(1, 2)
            x = x + self._mlp(nn.LayerNorm()(x), self.channel_width)
        return nn.Dense(self.classes, kernel_init=nn.initializers.zeros)(nn.LayerNorm()(x).mean(axis=1))

    def _mlp(self, x: jax.Array, width: int) -> jax.Array:
        return nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(width)(x)))


def network(name: str, classes: int, *, shrink: int = 1, patch: int = 16) -> nn.Module:
    """The network called `name`, one of NETWORKS."""
    if name in RESNETS:
        blocks, bottleneck = RESNETS[name]
        return ResNet(blocks=blocks, bottleneck=bottleneck, width=max(64 // shrink, 1), classes=classes)
    count, *widths = MIXERS[name]
    width, tokens, channels = (max(w // shrink, 1) for w in widths)
    return Mixer(blocks=count, width=width, token_width=tokens, channel_width=channels, patch=patch, classes=classes)


def parameters(module: nn.Module, pixels: int) -> int:
    """How many parameters it has for images of `pixels` × `pixels`; none are made."""
    init = partial(module.init, train=False)
    shapes: Any = jax.eval_shape(init, jax.random.key(0), jnp.zeros((1, pixels, pixels, 3)))
    return sum(int(leaf.size) for leaf in jax.tree.leaves(shapes["params"]))
