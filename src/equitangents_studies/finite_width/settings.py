"""What the study of finite ensembles' violations may be told, and its presets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from equitangents.statistics import Estimate, squared_mean
from equitangents_studies.common.images import load_images
from equitangents_studies.common.ising_lattice import energy_task
from equitangents_studies.framework.settings import presets

KINDS = ("complete", "partial")
TITLES = {"complete": "all four turns", "partial": "half turns alone"}
ARCHITECTURES = ("mlp", "cnn")
NOUNS = {"mlp": "MLPs", "cnn": "CNNs", "gcnn": "group-convolutional networks"}


@dataclass(frozen=True)
class Settings:
    """`tasks` are "ising" (energies of hot spins on a torus) and data sets (odd or even class, ±1, on images averaged
    down to `pixels`), under turns by 90°: `complete` augmentation shows all four, `partial` those by 0° and 180°.

    `widths` and `members` are those of MLPs, `channels` and `cnn_members` of CNNs, `group_channels` and `group_members`
    of group-convolutional networks, which see no turned copies. `sizes` are numbers of members M, powers of 2; `rate`
    is a fraction of the largest stable learning rate. Sizes are our choice.
    """

    tasks: tuple[str, ...] = ("ising", "digits")
    lattice: int = 4
    train_spins: int = 12
    test_spins: int = 24
    pixels: int = 8
    train_images: int = 12
    test_images: int = 24
    widths: tuple[int, ...] = (16, 32, 64, 128, 256)
    channels: tuple[int, ...] = (4, 8, 16)
    group_channels: tuple[int, ...] = (4, 16)
    hidden_layers: int = 2
    members: int = 512
    cnn_members: int = 96
    group_members: int = 8
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    steps: tuple[int, ...] = (1, 10, 50)
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0

    def widths_of(self, architecture: str) -> list[int]:
        """Widths or channels, in order."""
        of = {"mlp": self.widths, "cnn": self.channels, "gcnn": self.group_channels}
        return sorted(of[architecture])

    def members_of(self, architecture: str) -> int:
        """How many networks of each width."""
        return {"mlp": self.members, "cnn": self.cnn_members, "gcnn": self.group_members}[architecture]

    def sizes_of(self, architecture: str) -> tuple[int, ...]:
        """The sizes M of which there are as many disjoint ensembles as MLPs have of the largest."""
        batches = self.members // max(self.sizes)
        return tuple(m for m in self.sizes if self.members_of(architecture) // m >= batches)


PRESETS = presets(
    Settings(),
    desk="tasks=ising,fashion_mnist lattice=6 train_spins=24 test_spins=48 train_images=24 test_images=48 "
    "widths=16,32,64,128,256,512 channels=4,8,16,32 group_channels=4,8,16 members=1024 cnn_members=384 "
    "group_members=16 steps=1,10,100",
    paper="tasks=ising,fashion_mnist lattice=8 train_spins=64 test_spins=128 pixels=14 train_images=64 "
    "test_images=128 widths=16,32,64,128,256,512,1024 channels=8,16,32,64,128 group_channels=4,8,16,32 members=2048 "
    "cnn_members=1024 group_members=32 sizes=1,2,4,8,16,32,64,128 steps=1,10,100,1000",
)


def width_name(architecture: str, width: int) -> str:
    """A width in a sentence: "width 16" of an MLP, "16 channels" of networks that have those."""
    return f"width {width}" if architecture == "mlp" else f"{width} channels"


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


@dataclass(frozen=True, eq=False)
class Cell:
    """One architecture on one task. By kind of augmentation: `fluctuation[kind]` and `bias[kind]` (T,) at infinite
    width, A and B; `changes[kind][width]` (T, M, values) f(gx) − f(x) of every member.
    """

    steps: np.ndarray
    fluctuation: dict[str, np.ndarray]
    bias: dict[str, np.ndarray]
    changes: dict[str, dict[int, np.ndarray]]

    def changes_of(self, kind: str, width: int, time: int) -> Float[np.ndarray, "members values"]:
        """f(gx) − f(x) of every member."""
        return self.changes[kind][width][time].astype(np.float64)

    def fluctuations(self, kind: str, width: int, time: int) -> Float[np.ndarray, " members"]:
        """Mean square change of every member less the square of their expected change: A(n), one sample a member."""
        d = self.changes_of(kind, width, time)
        return (d**2).mean(axis=1) - squared_mean(d).value

    def bias_of(self, kind: str, width: int, time: int, level: float = 0.95) -> Estimate:
        """B(n), unbiased, with a jackknife interval over members."""
        return squared_mean(self.changes_of(kind, width, time), confidence=level)


@dataclass(frozen=True, eq=False)
class Results:
    """`cells[architecture, task]`; `group[task][width]` (T, M, values) the changes of group-convolutional networks,
    which train on no turned copies; `titles[task]` name tasks.
    """

    titles: dict[str, str]
    cells: dict[tuple[str, str], Cell]
    group: dict[str, dict[int, np.ndarray]]

    @property
    def steps(self) -> np.ndarray:
        """When changes were recorded."""
        return next(iter(self.cells.values())).steps

    def of(self, architecture: str) -> dict[str, Cell]:
        """The cells of one architecture, by task."""
        return {task: cell for (name, task), cell in self.cells.items() if name == architecture}
