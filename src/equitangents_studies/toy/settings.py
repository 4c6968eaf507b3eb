"""What the toy study may be told, its presets, checks and times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equitangents_studies.framework.settings import at_least, check

REGIONS = ("on the training disc", "beyond the training disc")


@dataclass(frozen=True)
class Settings:
    """`steps` are the times of the claims; `rotations` is n; `plain_members` train without augmentation, to compare;
    points are drawn in a disc of radius 1 and a ring to `plane`, the half width of the square that is shown; `rate` is
    a fraction of the largest stable learning rate.
    """

    rotations: int = 4
    members: int = 400
    plain_members: int = 100
    width: int = 64
    hidden_layers: int = 2
    train_points: int = 24
    orbit_points: int = 48
    plane: float = 1.5
    pixels: int = 41
    steps: tuple[int, ...] = (0, 1, 2, 3, 2000)
    frames: int = 18
    rate: float = 0.5
    W_std: float = 1.5
    b_std: float = 0.3
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(members=500, plain_members=200, width=128, orbit_points=96),
    "paper": Settings(members=1000, plain_members=1000, width=512, orbit_points=128, pixels=81, frames=30),
}


def training_times(settings: Settings) -> np.ndarray:
    """The claims' steps, and about `frames` steps in all, evenly spaced on a logarithmic scale."""
    last = max(settings.steps)
    spaced = np.round(np.geomspace(1, max(last, 2), settings.frames)).astype(int)
    return np.array(sorted({0, *settings.steps, *(int(t) for t in spaced if t <= last)}))


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes that statistics need; the study reads no data."""
    at_least(settings, rotations=2, members=3, plain_members=3)
    check(settings.plane > 1, "plane", settings.plane, "larger than 1, the radius of the training disc")
