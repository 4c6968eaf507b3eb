"""What the study of molecules may be told, and its presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Settings:
    """`sizes` training and `test` molecules in each of `splits` splits. `tuning` molecules choose the kernels' widths
    and are never tested on. `scales` are root mean squares of signals after the first layer. `moved` test molecules are
    turned `turns` times. Rotations are sampled to `tolerance` on the tuning molecules.
    """

    data: Literal["g2", "qm7", "qm9"] = "g2"
    sizes: tuple[int, ...] = (20, 35, 55, 80, 110)
    test: int = 30
    splits: int = 8
    tuning: int = 48
    bandlimit: int = 4
    scales: tuple[float, ...] = (0.1, 0.3, 1.0)
    tolerance: float = 1e-3
    block: int = 100
    moved: int = 8
    turns: int = 4
    soap_radius: float = 5.0
    soap_n_max: int = 4
    soap_l_max: int = 3
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        data="qm9", sizes=(50, 100, 200, 400), test=100, splits=10, tuning=60, scales=(0.3, 1.0, 3.0),
        soap_n_max=6, soap_l_max=5,
    ),
    "paper": Settings(
        data="qm9", sizes=(100, 200, 400, 700, 1000), test=200, splits=5, tuning=120, scales=(0.3, 1.0, 3.0),
        soap_n_max=6, soap_l_max=5,
    ),
}  # fmt: skip
