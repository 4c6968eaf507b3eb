"""A ridge: one number r for all samples, or one a sample, as noise that differs between them has.

The kernel that trains is Θ + unit · diag(r_1 … r_N), unit the mean diagonal of Θ: what a sample's noise has for a
variance, over that unit, is its r_i. With r the smallest of them, unit · diag(r_i − r) is part of the matrix that is
solved and r the ridge of it, so that every way to solve takes both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, ShapeError


@dataclass(frozen=True, eq=False)
class Ridge:
    """least: the smallest r; above: (N,) r_i − least, None where all samples have the same.

    >>> Ridge.read([0.1, 0.3]).above.round(12).tolist(), Ridge.read([0.1, 0.1]).above
    ([0.0, 0.2], None)
    """

    least: float
    above: Float[np.ndarray, " samples"] | None = None

    @classmethod
    def read(cls, ridge: object, samples: int | None = None) -> Ridge:
        """The ridge that an argument `ridge` says, of so many samples where that is known.

        Raises InvalidArgumentError unless it is a finite number ≥ 0 or one a sample; ShapeError for another number of
        them.
        """
        if isinstance(ridge, int | float | np.number):
            if not 0 <= ridge < math.inf:
                raise InvalidArgumentError("ridge", ridge, remedy="it must be a finite number ≥ 0")
            return cls(float(ridge))
        try:
            values = np.asarray(ridge)
        except ValueError:
            values = np.empty((0, 0))
        if values.ndim != 1 or not len(values) or values.dtype.kind not in "iuf":
            raise InvalidArgumentError("ridge", ridge, remedy="it must be a finite number ≥ 0, or one for each sample")
        values = values.astype(np.float64)
        wrong = np.flatnonzero(~((values >= 0) & (values < math.inf)))
        if len(wrong):
            raise InvalidArgumentError("ridge", values[wrong[0]], remedy="it must be a finite number ≥ 0", at=wrong[0])
        if samples is not None and len(values) != samples:
            raise ShapeError("ridge", len(values), samples, "give one for each sample", verb="has length")
        least = float(values.min())
        return cls(least, None if values.max() == least else values - least)

    @classmethod
    def number(cls, ridge: object, why: str) -> float:
        """The number that it is; InvalidArgumentError, with the reason, where samples have their own."""
        found = cls.read(ridge)
        found.check_one(why)
        return found.least

    def check_one(self, why: str) -> None:
        """Raise InvalidArgumentError, with the reason, where samples have their own."""
        if self.above is not None:
            raise InvalidArgumentError("ridge", "a value for each sample", "one number", why, verb="has")

    def of_rows(self, rows: int, each: int = 1) -> np.ndarray | None:
        """`above` of the rows of a problem: `each` rows a sample, and all of that again for every copy; or None."""
        if self.above is None:
            return None
        once = np.repeat(self.above, each)
        return np.tile(once, rows // len(once))

    def same_above(self, other: Ridge) -> bool:
        """Whether the two differ by one number for all samples."""
        if self.above is None or other.above is None:
            return self.above is other.above
        return np.array_equal(self.above, other.above)
