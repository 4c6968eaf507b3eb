"""Theorem 4.1 in numbers: which architecture's algorithm is symmetric under which group, at infinite and finite width.

FCN        O(3d), and with it all the others
LCN        O(3)^d
VEC        O(3)^d at infinite width, O(3)xI at finite width
GAP, LAP   O(3)xI

Source: Xiao & Pennington 2022, arXiv 2207.04612, Theorem 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from equitangents.extending import Numbers, check_array
from equitangents_studies.systems.architectures import ARCHITECTURES, architecture
from equitangents_studies.systems.data_groups import NAMES, expected_symmetry
from equitangents_studies.systems.descent import GradientInference
from equitangents_studies.systems.generated import sample_data
from equitangents_studies.systems.inferences import KernelInference
from equitangents_studies.systems.symmetry_tests import SymmetryResult, algorithmic_symmetry
from equitangents_studies.systems.system import System


@final
@dataclass(frozen=True)
class SymmetryRow:
    """One entry: `expected` is what Theorem 4.1 says; `agrees`: whether the result does, None where not decided."""

    architecture: str
    group: str
    width: str
    expected: bool
    result: SymmetryResult

    @property
    def agrees(self) -> bool | None:
        """Whether theory and measurement agree."""
        return None if self.result.symmetric is None else self.result.symmetric == self.expected


@final
@dataclass(frozen=True)
class SymmetryTable:
    """Results by architecture, group and width; `str(table)` is a table to print."""

    rows: tuple[SymmetryRow, ...]

    def get(self, architecture: str, group: str, width: str = "infinite") -> SymmetryRow:
        """One entry; `width` is "infinite" or "finite"."""
        return next(r for r in self.rows if (r.architecture, r.group, r.width) == (architecture, group, width))

    @property
    def contradictions(self) -> tuple[SymmetryRow, ...]:
        """Entries that were decided otherwise than Theorem 4.1 says."""
        return tuple(row for row in self.rows if row.agrees is False)

    @property
    def undecided(self) -> tuple[SymmetryRow, ...]:
        """Entries that were not decided."""
        return tuple(row for row in self.rows if row.agrees is None)

    def __str__(self) -> str:
        names = list(dict.fromkeys(row.architecture for row in self.rows))
        groups = list(dict.fromkeys(row.group for row in self.rows))
        lines = []
        for width in dict.fromkeys(row.width for row in self.rows):
            lines += [f"{width} width".ljust(16) + "".join(f"{g:>20}" for g in groups)]
            for name in names:
                cells = [_cell(self.get(name, group, width)) for group in groups]
                lines.append(name.ljust(16) + "".join(f"{cell:>20}" for cell in cells))
        lines.append(
            "yes, no: symmetric or not, with the relative difference of predictions; p: two-sample test; ?: open"
        )
        return "\n".join(lines)


def _cell(row: SymmetryRow) -> str:
    mark = {True: "yes", False: "no", None: "?"}[row.result.symmetric]
    of = "p = " if row.result.method == "two-sample" else ""
    return f"{mark} {of}{row.result.number:.1g}"


def symmetry_table(
    x: Numbers | None = None,
    y: Numbers | None = None,
    x_test: Numbers | None = None,
    *,
    architectures: Sequence[str] = ARCHITECTURES,
    groups: Sequence[str] = NAMES,
    widths: Sequence[str] = ("infinite", "finite"),
    depth: int = 2,
    width: int = 8,
    infinite: KernelInference | None = None,
    finite: GradientInference | None = None,
    dtype: str = "float64",
    seed: int = 0,
) -> SymmetryTable:
    """Every architecture under every group: at infinite width by kernels, at finite width by coupling or two samples.

    Args:
        x: training inputs (N, *positions, channels); None: `textures` of 8 × 8 × 3.
        y: labels or targets.
        x_test: inputs that are predicted.
        architectures: names for `architecture`.
        groups: names of groups.
        widths: "infinite", "finite" or both.
        depth: hidden layers.
        width: channels at finite width, of FCN 8 times as many.
        infinite: inference at infinite width; None: the NTK at time inf.
        finite: inference at finite width; None: NN with 2 members for 30 epochs.
        dtype: precision of kernels, and of networks.
        seed: of the groups' elements and of the networks.

    >>> table = symmetry_table(architectures=("VEC", "GAP"), groups=("O(3)xI", "O(3)^d"), widths=("infinite",))
    >>> table.get("VEC", "O(3)^d").result.verdict, table.get("GAP", "O(3)^d").result.verdict, table.contradictions
    ('symmetric', 'not symmetric', ())
    """
    if x is None:
        data = sample_data()
        x, y, x_test = data.x, data.y, data.x_test
    x = np.asarray(check_array("x", x, min_rank=2))
    learn: dict[str, Any] = {
        "infinite": infinite or KernelInference(),
        "finite": finite or GradientInference(members=2, epochs=30),
    }
    rows = []
    for side in widths:
        for name in architectures:
            channels = None if side == "infinite" else width * (8 if name == "FCN" else 1)
            system = System("I", architecture(name, depth, channels), learn[side], seed)
            for group in groups:
                result = algorithmic_symmetry(system, group, x, y, x_test, seed=seed, dtype=dtype)
                expected = expected_symmetry(name, group, x.shape[1:], finite=side == "finite")
                rows.append(SymmetryRow(name, group, side, expected, result))
    return SymmetryTable(tuple(rows))
