"""S-Dist: the mean squared distance between the mean predictions of two learning algorithms.

S-Dist(A₁, A₂) = E_x |E_θ A₁(x) − E_θ A₂(x)|²
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equitangents._types import Numbers
from equitangents.errors import ShapeError
from equitangents.metrics.measure import Bootstrap, Measure, evaluate
from equitangents.validation import check_array


def s_dist(
    f1: Callable[[Any], Any],
    f2: Callable[[Any], Any],
    x: Numbers,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Measure:
    """|f1(x) − f2(x)|² for every input, summed over outputs; f1 and f2 are the algorithms' mean predictors.

    A finite ensemble's mean carries the noise of its members, which adds the sum of both variances of the mean.

    Source: Xiao & Pennington 2022, arXiv 2207.04612, equations S15 and S16.

    >>> import numpy as np
    >>> float(s_dist(lambda x: x, lambda x: x + 1, np.zeros((4, 3))))
    3.0
    """
    bootstrap = Bootstrap(confidence, resamples, seed)
    x = check_array("x", x)
    y1, y2 = evaluate("f1", f1, x), evaluate("f2", f2, x)
    if y1.shape != y2.shape:
        raise ShapeError(f"f1(x) has shape {y1.shape} and f2(x) has shape {y2.shape}; they must be equal")
    return Measure("S-Dist", np.sum((y1 - y2).reshape(len(y1), -1) ** 2, axis=1), bootstrap)
