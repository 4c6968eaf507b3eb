"""What the study of forces may be told, and its presets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """`molecule` "methanol" has toy energies of ASE's effective medium theory at geometries displaced by `displacement`
    (Å, standard deviation of every coordinate); others are frames of rMD17. `scale` is the root mean square of signals
    after the first layer. Where there is a file, dipoles and polarisabilities of `water` ("monomer", "dimer", "zundel")
    are learnt from `water_sizes` molecules and tested on `water_test`.
    """

    molecule: str = "methanol"
    sizes: tuple[int, ...] = (2, 4, 8)
    test: int = 6
    displacement: float = 0.05
    bandlimit: int = 2
    scale: float = 0.5
    tolerance: float = 1e-6
    ridge: float = 1e-4
    turns: int = 3
    water: str = "monomer"
    water_sizes: tuple[int, ...] = (5, 10, 20, 40)
    water_test: int = 30
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        molecule="ethanol", sizes=(5, 10, 20), test=20, bandlimit=2, tolerance=1e-7, ridge=1e-4, turns=8,
        water_sizes=(10, 25, 50, 100), water_test=100,
    ),
    "paper": Settings(
        molecule="ethanol", sizes=(5, 10, 20, 50, 100), test=100, bandlimit=4, tolerance=1e-7, ridge=1e-6, turns=10,
        water_sizes=(10, 25, 50, 100, 250), water_test=200,
    ),
}  # fmt: skip
