"""What the study of tangent kernels in training may be told, and its presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from equitangents import nn

NONLINEARITIES: dict[str, type[nn.Layer]] = {"erf": nn.Erf, "gelu": nn.Gelu, "relu": nn.Relu}
NAMES = {"erf": "Erf", "gelu": "GELU", "relu": "ReLU"}


@dataclass(frozen=True)
class Settings:
    """Networks of `hidden_layers` layers of each of `widths`, with the `smooth` nonlinearity and with ReLU, learn
    whether a class is odd or even (labels ±1) by full-batch gradient descent.

    `data` is "digits" or a data set in the data folder, averaged down to `pixels` (None: as it is); the kernel is that
    of `kernel_images` training images and as many test images. `rate` is a fraction of the largest stable learning
    rate of each network's own kernel at initialisation; `steps` say when kernels are measured. Sizes are our choice.
    """

    data: str = "digits"
    pixels: int | None = None
    train_images: int = 40
    kernel_images: int = 20
    smooth: Literal["erf", "gelu"] = "erf"
    hidden_layers: int = 2
    widths: tuple[int, ...] = (16, 32, 64, 128, 256)
    networks: int = 24
    steps: tuple[int, ...] = (1, 10, 100, 1000)
    rate: float = 0.25
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0

    @property
    def nonlinearities(self) -> tuple[str, str]:
        """The smooth one, then ReLU."""
        return (self.smooth, "relu")

    @property
    def test_images(self) -> int:
        """As many as the kernel is of."""
        return self.kernel_images

    @property
    def foreign(self) -> tuple[str, ...]:
        """None: the kernel is that of images of one kind."""
        return ()

    @property
    def foreign_images(self) -> int:
        """None."""
        return 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        data="fashion_mnist",
        pixels=14,
        train_images=100,
        widths=(32, 64, 128, 256, 512, 1024),
        networks=20,
        steps=(1, 10, 100, 1000),
    ),
    "paper": Settings(
        data="fashion_mnist",
        train_images=200,
        kernel_images=25,
        hidden_layers=3,
        widths=(64, 128, 256, 512, 1024, 2048),
        networks=20,
        steps=(1, 10, 100, 1000, 10000),
    ),
}
