"""What networks learn: energies of spins on a torus, or whether the class of an image is odd; of unit size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from equitangents_studies.common.images import load_images
from equitangents_studies.common.ising_lattice import energy_task
from equitangents_studies.finite_width.settings import Settings

ISING = "ising"


@dataclass(frozen=True, eq=False)
class Problem:
    """Images to learn from with their targets, which turns leave alone, and images to test on."""

    title: str
    train: Float[np.ndarray, "n size size 1"]
    y: Float[np.ndarray, " n"]
    test: Float[np.ndarray, "m size size 1"]


@dataclass(frozen=True)
class _Choice:
    """The images of one data set."""

    data: str
    train_images: int | None
    test_images: int | None
    pixels: int | None
    seed: int
    foreign: tuple[str, ...] = ()
    foreign_images: int = 0


def load_problem(settings: Settings, name: str, data_dir: Path | None) -> Problem:
    """Raises DataNotFoundError or InvalidArgumentError where images are missing or do not fit."""
    if name == ISING:
        arrays = energy_task(settings.lattice, settings.train_spins, settings.test_spins, settings.seed)
        return Problem("Ising energies", *arrays)
    chosen = _Choice(name, settings.train_images, settings.test_images, settings.pixels, settings.seed)
    images = load_images(chosen, data_dir)
    wide = lambda x: x.astype(np.float64)
    return Problem(
        images.titles["test"], wide(images.train_x), np.where(images.train_y % 2, 1.0, -1.0), wide(images.sets["test"])
    )
