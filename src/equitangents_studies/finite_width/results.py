"""What was measured: changes f(gx) − f(x) of every network, beside the closed form's fluctuation and bias."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.statistics import Estimate, squared_mean


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
