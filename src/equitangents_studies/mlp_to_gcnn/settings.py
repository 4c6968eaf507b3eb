"""What the study of MLPs and group-convolutional networks may be told, and what it measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equitangents.statistics import Estimate, second_moment_share
from equitangents_studies.common.orbits import SQUARE_GROUPS as GROUPS
from equitangents_studies.framework.claims import Records
from equitangents_studies.framework.measured import Keyed, Measured, by
from equitangents_studies.framework.study import at_least, check, presets

NETWORKS = ("mlp", "gcnn")
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


PRESETS = presets(
    Settings(),
    desk="draws=16 members=200",
    paper="train_images=400 test_images=300 foreign_images=300 widths=16,32,64,128,256,512 draws=30 "
    "trained_widths=64,256,1024 members=500 steps=0,1,10,100,1000 depth_images=40 frozen_depths=1,2,3,4,5,6 "
    "depth_width=64",
)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """A group that acts on digits, networks enough for intervals; the images ship with dependencies."""
    check(settings.group in GROUPS, "group", settings.group, "C4 or D4")
    at_least(settings, hidden_layers=1, draws=3, members=3)
    check(len(set(settings.widths)) >= 2, "widths", settings.widths, "at least two different widths")
    at_least(settings, depth_images=2, depth_width=1)
    for name in ("depths", "frozen_depths"):
        depths = getattr(settings, name)
        check(len(depths) >= 1 and min(depths) >= 1, name, depths, "a list of numbers of hidden layers, at least 1")


class Results(Measured):
    """Distances between the two ensembles' predictions, and what they are distances of.

    `kernel_distance` is that of the NNGP and the NTK, `distance` and `without_augmentation` are those at infinite
    width, `std_ratio` as `AugmentedPair.infinite` has it; `exact` is that of frozen kernels with the same weights,
    `squares` the squared distance of frozen kernels of independent networks late in training on test images; `outputs`
    of trained networks. Those of the theorems at every depth begin with `deep`; `deep_exact` is `exact` at some depths.
    """

    times: np.ndarray
    kernel_distance: np.ndarray = by("", "kernel", of="infinite.kernel_distance")
    distance: np.ndarray = by("", "time inputs", of="infinite.distance")
    without_augmentation: np.ndarray = by("", "time inputs", of="infinite.without_augmentation")
    std_ratio: np.ndarray = by("", "time", of="infinite.std_ratio")
    exact: np.ndarray = by("", "width time inputs", of="same-weights.same-weights")
    squares: np.ndarray = by("", "draw width", of="independent")
    outputs: Keyed[np.ndarray] = by("network trained inputs", "step member value", of="trained.{inputs}")
    deep_distance: Keyed[np.ndarray] = by("theorem depth", "time inputs", of="theorem.distance")
    deep_without: Keyed[np.ndarray] = by("theorem depth", "time inputs", of="theorem.without_augmentation")
    deep_kernels: Keyed[np.ndarray] = by("theorem depth", "kernel", of="theorem.kernel_distance")
    deep_exact: Keyed[np.ndarray] = by("frozen", "time inputs", of="same-weights-depth.same-weights")

    def trained(self, width: int, step: int, name: str, level: float = 0.95) -> Estimate:
        """(E f^MLP − E f^GCNN)² over E (f^MLP)², members independent and training at zero output."""
        plain, equivariant = (self.outputs[network, width, name][step] for network in NETWORKS)
        return second_moment_share(plain - equivariant, plain, confidence=level)


def recorded_steps(settings: Settings) -> list[int]:
    """When trained networks are recorded, initialisation included."""
    return sorted({0, *settings.steps})


def trained_shares(settings: Settings, results: Results, widths: Sequence[int], level: float = 0.95) -> Records:
    """Unbiased squared distance of the means of trained networks, as a share of the mean square prediction."""
    steps = recorded_steps(settings)
    return Records.over(
        lambda width, inputs, step: results.trained(width, steps.index(step), inputs, level),
        lambda width, inputs, step: f"after {step} steps, {inputs}",
        width=widths,
        inputs=SETS,
        step=[step for step in steps if step > 0],
    )
