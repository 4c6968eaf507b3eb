"""What the Ising study may be told, its presets, checks, and the sizes and times that are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equitangents_studies.framework.settings import at_least, check

SETS = ("training", "test", "foreign")
EVERY = 64  # up to this M a prediction is made for every M, beyond on a logarithmic scale


@dataclass(frozen=True)
class Settings:
    """Training and test spins are independent (infinite temperature); foreign ones have `temperature`, in units of J.

    Near the critical 2.27 foreign spins are strongly aligned. `steps` are the times that are recorded; `groups` are
    ensemble sizes M; `members_at_once` bounds memory; `rate` is a fraction of the largest stable learning rate.
    Lattice size and sample counts are our choice.
    """

    lattice: int = 6
    coupling: float = 1.0
    train_spins: int = 24
    test_spins: int = 32
    temperature: float = 2.5
    widths: tuple[int, ...] = (64, 128, 256, 512)
    hidden_layers: int = 2
    members: int = 128
    members_at_once: int = 128
    groups: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    steps: tuple[int, ...] = (0, 1, 3, 10, 30, 100)
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    gp_samples: int = 1000
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        train_spins=32, widths=(64, 128, 256, 512, 1024), members=768, members_at_once=96, gp_samples=2000
    ),
    "paper": Settings(
        lattice=8,
        train_spins=128,
        test_spins=128,
        widths=(128, 256, 512, 1024, 2048),
        members=1000,
        members_at_once=125,
        groups=(1, 2, 5, 10, 20, 50, 100),
        steps=(0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
        gp_samples=5000,
    ),
}


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes that statistics need; the study reads no data."""
    at_least(settings, lattice=3, members_at_once=3)
    check(settings.coupling != 0, "coupling", settings.coupling, "different from 0")
    check(max(settings.groups) <= settings.members, "groups", settings.groups, "at most the number of members each")
    check(len(set(settings.widths)) >= 2, "widths", settings.widths, "at least two different widths")
    check(max(settings.steps) > 0, "steps", settings.steps, "beyond 0")


def predicted_sizes(settings: Settings) -> np.ndarray:
    """Every M up to 64, then about eight a doubling, to the largest of `groups`, which are all among them."""
    largest = max(settings.groups)
    beyond: Sequence[float] | np.ndarray = (
        np.round(np.geomspace(EVERY, largest, max(2, int(8 * np.log2(largest / EVERY))))) if largest > EVERY else []
    )
    return np.unique([*range(1, min(largest, EVERY) + 1), *map(int, beyond), *settings.groups])


def three_times(settings: Settings) -> list[int]:
    """The first, a middle and the last recorded step of training."""
    trained = sorted(t for t in set(settings.steps) if t > 0)
    return sorted({trained[0], trained[len(trained) // 2], trained[-1]})
