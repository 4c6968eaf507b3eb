"""What convolutions and locally connected layers share: a window that slides over a grid."""

from __future__ import annotations

from dataclasses import dataclass

from equitangents._types import ArrayLike
from equitangents.kernels.program import Box
from equitangents.kernels.structured import centres
from equitangents.nn.layer import Layer, Weights, check_scale
from equitangents.nn.patches import Window, check_padding, check_sizes, grid_shape
from equitangents.nn.signal import Grid, Signal
from equitangents.validation import check_whole


@dataclass(frozen=True)
class WindowLayer(Layer):
    """A linear layer that reads a window about each position of a grid of one to three dimensions.

    `padding`: "circular" (a torus), "zero" (means still divide by the whole window at borders) or "valid". `window` and
    `stride`: a number, or one for each dimension.
    """

    channels: int
    window: tuple[int, ...] | int
    stride: tuple[int, ...] | int = 1
    padding: str = "circular"
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        check_whole("channels", self.channels, 1)
        object.__setattr__(self, "window", check_sizes("window", self.window))
        object.__setattr__(self, "stride", check_sizes("stride", self.stride))
        check_padding(self.padding)
        check_scale("W_std", self.W_std)
        check_scale("b_std", self.b_std)

    @property
    def weights(self) -> Weights:
        """The scales of weights and bias."""
        return Weights(self.W_std, self.b_std)

    def box(self, signal: Signal) -> Box:
        """Where the window reads on the signal's grid."""
        return Window(self.window, self.stride, self.padding).box(grid_shape(signal))

    def mask_after(self, mask: ArrayLike | None, signal: Signal) -> ArrayLike | None:
        """A window's output exists where the position that it is centred on does."""
        if mask is None:
            return None
        box = self.box(signal)
        return mask.reshape((len(mask), -1))[:, centres(box)].reshape((len(mask), *box.out_shape))

    def signal(self, signal: Signal) -> Signal:
        """The grid that the windows leave, Gaussian."""
        return Signal(Grid(self.box(signal).out_shape), self.channels, gaussian=True)
