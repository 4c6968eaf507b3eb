"""Networks in PyTorch that are exactly C4-invariant, the ways in which one layer may break that, and files of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import IO

import torch
from torch import nn
from torch.nn.functional import conv2d, dropout, pad


class Lifting(nn.Module):
    """One convolution with each of the four turned kernels: (N, c, H, W) to (N, 4·k, H, W), turns slowest."""

    def __init__(self, c: int, k: int, size: int, stride: int = 1, pad: tuple[int, int, int, int] | None = None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(k, c, size, size) / (c * size * size) ** 0.5)
        self.stride, self.pad = stride, pad or (size // 2,) * 4

    def kernels(self) -> torch.Tensor:
        return torch.cat([torch.rot90(self.weight, r, (2, 3)) for r in range(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return conv2d(pad(x, self.pad), self.kernels(), stride=self.stride)


class GroupConvolution(Lifting):
    """A convolution on the roto-translations: kernels turn, and the axis of turns is shifted along."""

    def __init__(self, c: int, k: int, size: int, **settings: object):
        super().__init__(4 * c, k, size, **settings)  # type: ignore[arg-type]
        self.c = c

    def kernels(self) -> torch.Tensor:
        k, _, s, _ = self.weight.shape
        by_turn = self.weight.reshape(k, 4, self.c, s, s)
        turned = [torch.rot90(by_turn.roll(r, 1), r, (3, 4)) for r in range(4)]
        return torch.cat([t.reshape(k, 4 * self.c, s, s) for t in turned])


class AsymmetricWindow(GroupConvolution):
    """The same with one entry of every kernel left out after turning: another window for every turn."""

    def kernels(self) -> torch.Tensor:
        mask = torch.ones(self.weight.shape[-2:])
        mask[0, -1] = 0
        return super().kernels() * mask


class AlwaysDropout(nn.Module):
    """Dropout that forgot about evaluation mode."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return dropout(x, 0.2, training=True)


class TurnPool(nn.Module):
    """The mean over turns and positions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(1, (4, -1)).mean((1, 3, 4))


def c4_network(channels: int = 4, depth: int = 3) -> nn.Sequential:
    """Lifting, group convolutions, pooling over turns and positions, and a head: exactly invariant on odd images."""
    layers: list[nn.Module] = [Lifting(1, channels, 3), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [GroupConvolution(channels, channels, 3), nn.ReLU()]
    return nn.Sequential(*layers, TurnPool(), nn.Linear(channels, 5))


BREAKS = ("padding", "stride", "window", "dropout")


def break_one(network: nn.Sequential, how: str, at: int) -> str:
    """Break the group convolution number `at` (from 1), and return the name of the guilty layer."""
    convolutions = [i for i, layer in enumerate(network) if isinstance(layer, GroupConvolution)]
    i = convolutions[at % len(convolutions)]
    layer = network[i]
    if how == "padding":
        layer.pad = (2, 0, 1, 1)
    elif how == "stride":
        layer.stride = 2  # on images of even size the strided grid is not symmetric
    elif how == "window":
        asymmetric = AsymmetricWindow(layer.c, len(layer.weight), 3)
        asymmetric.load_state_dict(layer.state_dict())
        network[i] = asymmetric
    else:
        network[i + 1] = AlwaysDropout()
        return str(i + 1)
    return str(i)


def export_onnx(module: nn.Module, x: tuple[torch.Tensor, ...], path: Path, dynamic: bool, names: list[str]) -> None:
    """Write an ONNX file; its batch has any size if `dynamic`."""
    shapes = tuple({0: torch.export.Dim("batch")} for _ in x) if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # exporting itself warns
        program = torch.onnx.export(
            module.eval(), x, input_names=names, dynamic_shapes=shapes, dynamo=True, verbose=False
        )
    program.save(path)


def export_program(
    module: nn.Module, x: tuple[torch.Tensor, ...], path: Path | IO[bytes], dynamic: bool = True
) -> None:
    """Write a program of torch.export; its batch has any size if `dynamic`."""
    shapes = tuple({0: torch.export.Dim("batch")} for _ in x) if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(module.eval(), x, dynamic_shapes=shapes), path)
