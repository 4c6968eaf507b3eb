"""What was measured of MLPs and group-convolutional networks: distances of their predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from equitangents.statistics import Estimate, second_moment_share
from equitangents_studies.framework.claims import Records
from equitangents_studies.framework.study import Arrays
from equitangents_studies.mlp_to_gcnn.settings import SETS, Settings


@dataclass(frozen=True, eq=False)
class Results:
    """Distances between the two ensembles' predictions, and what they are distances of.

    `kernel_distance` (2,) is that of the NNGP and the NTK; `distance` and `without_augmentation` are (times, sets), at
    infinite width; `exact` (widths, times, sets) is that of frozen kernels with the same weights, `squares` (draws,
    widths) the squared distance of frozen kernels of independent networks late in training on test images;
    `trained[width]` (steps, sets) share of the mean square, as Estimates. `by_depth[theorem][depth]` are arrays of the
    same meaning at that depth, as `AugmentedPair.infinite` has them; `frozen_by_depth[depth]` (times, sets).
    """

    times: np.ndarray
    kernel_distance: np.ndarray
    distance: np.ndarray
    without_augmentation: np.ndarray
    std_ratio: np.ndarray
    exact: np.ndarray
    squares: np.ndarray
    differences: dict[int, dict[str, np.ndarray]]
    outputs: dict[int, dict[str, np.ndarray]]
    by_depth: dict[str, dict[int, Arrays]] = field(default_factory=dict)
    frozen_by_depth: dict[int, np.ndarray] = field(default_factory=dict)

    def trained(self, width: int, step: int, name: str, level: float = 0.95) -> Estimate:
        """(E f^MLP − E f^GCNN)² over E (f^MLP)², members independent and training at zero output."""
        return second_moment_share(
            self.differences[width][name][step], self.outputs[width][name][step], confidence=level
        )


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
