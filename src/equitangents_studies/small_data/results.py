"""Which test images were classified rightly, by model, size and draw; and how models compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from equitangents.statistics import Estimate
from equitangents_studies.common.scores import table_mean
from equitangents_studies.small_data.flips import KINDS
from equitangents_studies.small_data.networks import NETWORKS, NONLINEARITIES

CNN, FOREST = "trained CNN", "random forest"


def kernel_name(network: str, nonlinearity: str, kind: str) -> str:
    """Such as "Myrtle-5 NTK", "GAP NNGP, exponential"."""
    return f"{network} {kind.upper()}" + (", exponential" if nonlinearity == "exponential" else "")


KERNELS = {
    kernel_name(network, phi, kind): (network, phi, kind)
    for network in NETWORKS
    for phi in NONLINEARITIES
    for kind in KINDS
}
MODELS = (*KERNELS, CNN, FOREST)


@dataclass(frozen=True, eq=False)
class Results:
    """`right[model]` (sizes, draws, test images); `rates` (sizes,) of the trained CNN; `equal`, by kernel, how far
    averaged kernels are from training on both copies. `data` is what was classified, `shape` of an image, `pool` how
    many images the draws are from.
    """

    right: dict[str, Bool[np.ndarray, "sizes draws n"]]
    rates: np.ndarray
    equal: dict[str, float]
    data: str
    shape: tuple[int, ...]
    pool: int

    def accuracy(self, model: str, size: int) -> Estimate:
        """Percent of the test images, mean over draws, at the given place in the sizes."""
        return table_mean(self.right[model][size].astype(float), (0, 1)).times(100)

    def lead(self, one: str, other: str, size: int, level: float = 0.95) -> Estimate:
        """Accuracy of `one` minus that of `other` in percentage points, paired by draw and test image."""
        difference = self.right[one][size].astype(float) - self.right[other][size]
        return table_mean(difference, (-1, 1), level).times(100)

    def mean_lead(self, one: str, other: str, sizes: int) -> Estimate:
        """The same in the mean over so many of the smallest sizes."""
        difference = self.right[one][:sizes].astype(float) - self.right[other][:sizes]
        return table_mean(difference.mean(axis=0), (-1, 1)).times(100)
