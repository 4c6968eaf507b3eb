"""What the cross-product study may be told, its presets and checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from equitangents import groups
from equitangents_studies.framework.settings import at_least, check

SETS = ("training", "test", "far")
SOLIDS = {"T": groups.tetrahedral, "O": groups.octahedral, "I": groups.icosahedral}
TITLES = {"none": "no augmentation", "T": "tetrahedral", "O": "octahedral", "I": "icosahedral"}


@dataclass(frozen=True)
class Settings:
    """`groups` are solved at infinite width, `trained_groups` trained too: T, O or I. Vectors have independent normal
    components, those of the far set `stretch` times as large. `rotations` random ones test what lies between the
    group's, and `points` places on the way to each are searched for the largest gradient. `rate` is a fraction of the
    largest stable learning rate. Sizes are our choice.
    """

    groups: tuple[str, ...] = ("T", "O", "I")
    trained_groups: tuple[str, ...] = ("T", "O")
    train_pairs: int = 16
    test_pairs: int = 12
    stretch: float = 3.0
    rotations: int = 64
    points: int = 4
    members: int = 300
    width: int = 64
    hidden_layers: int = 2
    steps: tuple[int, ...] = (0, 1, 3, 10, 30, 100)
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.3
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        trained_groups=("T", "O", "I"),
        train_pairs=24,
        test_pairs=24,
        members=400,
        width=128,
        steps=(0, 1, 3, 10, 30, 100, 300),
    ),
    "paper": Settings(
        trained_groups=("T", "O", "I"),
        train_pairs=64,
        test_pairs=64,
        members=1000,
        width=512,
        steps=(0, 1, 3, 10, 30, 100, 300, 1000),
    ),
}


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Groups that are known, members and pairs enough for an interval; the study reads no data."""
    for name, chosen in (("groups", settings.groups), ("trained_groups", settings.trained_groups)):
        check(set(chosen) <= set(SOLIDS) and len(chosen) > 0, name, chosen, "some of T, O, I")
    check(set(settings.trained_groups) <= set(settings.groups), "trained_groups", settings.trained_groups, "in groups")
    at_least(settings, members=3, train_pairs=2, test_pairs=2)
