"""What the study of MLPs and group-convolutional networks may be told, and its presets."""

from __future__ import annotations

from dataclasses import dataclass

SETS = ("training", "test", "photographs", "noise")


@dataclass(frozen=True)
class Settings:
    """`group` acts on the 8×8 digits of scikit-learn; `times` are in units of N/(η λ_max); `widths` are those of
    finite networks, `draws` how many of each; the widest `trained_widths` train for `steps` of gradient descent.
    The theorems are shown at all `depths` (hidden layers): for MLPs on all images, for CNNs on `depth_images` of each
    set, and for frozen kernels of one network of `depth_width` at `frozen_depths`. Sizes and times are our choice.
    """

    group: str = "D4"
    train_images: int = 40
    test_images: int = 40
    foreign_images: int = 20
    hidden_layers: int = 2
    times: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, float("inf"))
    widths: tuple[int, ...] = (8, 16, 32, 64, 128)
    draws: int = 8
    trained_widths: tuple[int, ...] = (16, 128)
    members: int = 64
    steps: tuple[int, ...] = (0, 1, 10, 100)
    rate: float = 0.5
    depths: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    depth_images: int = 8
    frozen_depths: tuple[int, ...] = (1, 3, 6)
    depth_width: int = 16
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        draws=16,
        members=200,
    ),
    "paper": Settings(
        train_images=400,
        test_images=300,
        foreign_images=300,
        widths=(16, 32, 64, 128, 256, 512),
        draws=30,
        trained_widths=(64, 256, 1024),
        members=500,
        steps=(0, 1, 10, 100, 1000),
        depth_images=40,
        frozen_depths=(1, 2, 3, 4, 5, 6),
        depth_width=64,
    ),
}
