"""S-Dist between two learning algorithms, from ensembles of finitely many members.

S-Dist(A, B) = E_x |E_θ A(x) − E_θ B(x)|², with |·|² summed over outputs. In place of the means over all
initialisations there are those of M members, whose noise adds tr Σ_A/M_A + tr Σ_B/M_B on average. The plain estimate
(equation S16 of the source) keeps that; the corrected one takes it out and is unbiased: it can be negative where the
algorithms agree. Its interval is cut at 0, below which no S-Dist lies: that holds the truth as often as before.

Source: Xiao & Pennington 2022, arXiv 2207.04612, equations S15 and S16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.extending import Numbers, check_array
from equitangents.statistics import Estimate, squared_mean
from equitangents_studies.systems.system import FittedSystem


@final
@dataclass(frozen=True)
class SDist:
    """`corrected`: without bias, its interval over members (NaN below 5 of the smaller ensemble). `plain`: as in S16.

    Both are means over inputs, sums over outputs. `corrected` scatters about the truth, below 0 too where algorithms
    agree; `interval` is its interval as far as it is not below 0. `members`: of either ensemble, inf for an exact mean;
    `inputs`: how many. Inputs are as given: the interval does not cover the choice of other inputs.
    """

    corrected: Estimate
    plain: float
    members: tuple[float, float]
    inputs: int

    @property
    def value(self) -> float:
        """The estimate without the bias of finite ensembles; below 0 where noise hides a distance, if there is one."""
        return self.corrected.value

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of its interval, cut at 0: S-Dist is a mean of squares."""
        low, high = (end if math.isnan(end) else max(end, 0.0) for end in self.corrected.interval)
        return low, high

    @property
    def noise_share(self) -> Estimate:
        """The share of `plain` that is noise of the members, b/(S-Dist + b) with b as estimated; 0 to 1."""
        noise = self.plain - self.value
        share = lambda distance: noise / (distance + noise) if noise > 0 else 0.0
        low, high = self.interval
        ends = (math.nan, math.nan) if math.isnan(low) else (share(high), share(low))
        return Estimate(share(max(self.value, 0.0)), *ends, self.corrected.confidence)

    def __float__(self) -> float:
        return self.value


def s_dist(
    a: FittedSystem | Numbers, b: FittedSystem | Numbers, x: Numbers | None = None, *, confidence: float = 0.95
) -> SDist:
    """S-Dist of two ensembles: fitted systems at inputs x (N, …), or their outputs.

    Args:
        a: a `FittedSystem` (then x is needed); outputs (members, N, K) of an ensemble; or (N, K), the exact mean, as
            of infinite width.
        b: likewise. At least one of the two has members.
        x: inputs, for fitted systems.
        confidence: what the interval covers, over members.

    Members of the smaller ensemble are paired with those of the other as Scheffé 1943 does: differences
    d_i = a_i − √(M_A/M_B) b_i + (the b's that make Σ d_i/M_A the difference of means), so all members count.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = s_dist(rng.normal(size=(10, 50, 2)), 3 + rng.normal(size=(20, 50, 2)))
    >>> found.plain > found.value, found.interval[0] < 18 < found.interval[1]
    (True, True)
    """
    a, b = _outputs("a", a, x), _outputs("b", b, x)
    if a.shape[-2:] != b.shape[-2:]:
        raise ShapeError(
            "b", b.shape[-2:], a.shape[-2:], "the shapes of outputs must be equal", verb="has outputs of shape"
        )
    if a.ndim == b.ndim == 2:
        raise InvalidArgumentError("a and b are both exact means; expected members of at least one")
    inputs, outputs = a.shape[-2:]
    members = tuple(float(len(v)) if v.ndim == 3 else math.inf for v in (a, b))
    if min(members) < 3:
        raise InvalidArgumentError("members", min(members), "at least 3 in the smaller ensemble", verb="number")
    few, many = (a, b) if members[0] <= members[1] else (b, a)
    flat = lambda v: v.reshape(*v.shape[:-2], inputs * outputs)
    differences = _differences(flat(few), flat(many))
    plain = float(np.sum(differences.mean(axis=0) ** 2) / inputs)
    corrected = squared_mean(differences, confidence=confidence).times(outputs)
    return SDist(corrected, plain, (members[0], members[1]), inputs)


def _differences(few: np.ndarray, many: np.ndarray) -> np.ndarray:
    """(M, values) uncorrelated vectors whose mean is the difference of the ensembles' means."""
    if many.ndim == 1:
        return few - many
    m, n = len(few), len(many)
    scale = math.sqrt(m / n)
    return few - scale * many[:m] + many[:m].sum(axis=0) / math.sqrt(m * n) - many.mean(axis=0)


def _outputs(name: str, value: FittedSystem | Numbers, x: Numbers | None) -> np.ndarray:
    if isinstance(value, FittedSystem):
        if x is None:
            raise InvalidTypeError("x", None, "inputs for a fitted system", name)
        value = value.predict_members(x) if value.system.inference.finite else value.predict(x)
    return np.asarray(check_array(name, value, rank=(2, 3)), np.float64)
