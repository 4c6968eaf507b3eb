"""Make claims: a statement, its numbers, its bound and its source; and records, estimates at named coordinates.

One record feeds both a figure and a claim.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.report import Table, with_interval
from equitangents.statistics import Estimate
from equitangents_studies.claim import (
    EXACT,
    FAILS,
    IN_ERRORS,
    KINDS,
    P_VALUE,
    SINGLE,
    UNDECIDED,
    Claim,
    Kind,
    decide,
    margin,
)

__all__ = [
    "EXACT", "IN_ERRORS", "P_VALUE", "ROUNDING", "SINGLE", "By", "Claim", "Records", "after", "agreement",
    "cell", "claim", "exact", "identity", "ours", "proved", "table", "theirs", "to_rounding",
]  # fmt: skip


@dataclass(frozen=True)
class Records:
    """Estimates at coordinates; `names` are the coordinates' names, `rows` their values.

    Example:
        >>> squares = Records.over(lambda n, sign: Estimate(sign * n**2, 0, 9), n=(1, 2), sign=(1, -1))
        >>> squares.where(sign=1).values.tolist()
        [1, 4]
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    estimates: tuple[Estimate, ...]
    label: Callable[..., str] | None = None

    @classmethod
    def over(
        cls, compute: Callable[..., Estimate], label: Callable[..., str] | None = None, **coordinates: Sequence[Any]
    ) -> Records:
        """`compute` at every combination of `coordinates`, the last fastest; `label` names each of them."""
        rows = tuple(itertools.product(*coordinates.values()))
        names = tuple(coordinates)
        return cls(names, rows, tuple(compute(**dict(zip(names, row, strict=True))) for row in rows), label)

    def where(self, **fixed: object) -> Records:
        """The records at the given coordinates."""
        at = {self.names.index(name): value for name, value in fixed.items()}
        chosen = [i for i, row in enumerate(self.rows) if all(row[k] == value for k, value in at.items())]
        kept = lambda values: tuple(values[i] for i in chosen)
        return replace(self, rows=kept(self.rows), estimates=kept(self.estimates))

    def times(self, factor: float) -> Records:
        """Every number and its interval multiplied by `factor`."""
        return replace(self, estimates=tuple(e.times(factor) for e in self.estimates))

    def column(self, name: str) -> np.ndarray:
        """A coordinate of every record."""
        return np.array([row[self.names.index(name)] for row in self.rows])

    @property
    def values(self) -> np.ndarray:
        """Values without their intervals."""
        return np.array([e.value for e in self.estimates])

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the intervals."""
        return np.array([e.low for e in self.estimates]), np.array([e.high for e in self.estimates])

    def labelled(self) -> Mapping[str, Estimate]:
        """Numbers by `label`, by default "members 3, step 10"."""
        plain = lambda **at: ", ".join(f"{name} {value}" for name, value in at.items())
        label = self.label or plain
        return {
            label(**dict(zip(self.names, row, strict=True))): e
            for row, e in zip(self.rows, self.estimates, strict=True)
        }


def cell(estimate: Estimate) -> str:
    """A number and its interval, as text."""
    return with_interval(estimate.value, estimate.interval)


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of the page; cells with an estimate show its interval."""
    shown = lambda x: cell(x) if isinstance(x, Estimate) else str(x)
    return Table(caption, header, [[shown(x) for x in row] for row in rows])


@dataclass(frozen=True)
class By:
    """Origin of a claim: `kind`, `source`, `place` in it ("Table 1"), the number `stated` there, `theorem` or not.

    Raises InvalidArgumentError for another kind, and for a source's claim without its place.
    """

    kind: Kind
    source: str
    place: str = ""
    stated: str = ""
    theorem: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidArgumentError("kind", self.kind, list(KINDS))
        if self.kind == "source" and not self.place:
            raise InvalidArgumentError("place", "", 'the place of the claim in its source ("Table 1", "review")')


theirs = partial(By, "source")
"""A claim that a `source` makes in a `place`, with the number `stated`."""
proved = partial(By, "source", theorem=True)
"""A theorem of a `source`, as `theirs`."""
ours = partial(By, "ours")
"""A question of our own; `source` says where it comes from: "theory; the bounds are our choice"."""
identity = partial(By, "check")
"""An identity that our code obeys, by `source`."""


def claim(
    statement: str,
    numbers: Mapping[str, Estimate] | Records,
    *,
    measure: str,
    covers: str,
    by: By,
    at_least: float = -math.inf,
    at_most: float = math.inf,
    unit: str = "",
    aggregate: tuple[str, Estimate] | None = None,
) -> Claim:
    """The claim `statement` about a family of numbers, each under its label ("after 3 steps, noise").

    With `aggregate`, a label and a number ("the mean over sets"), that number decides. Without it every member of the
    family must meet the bound, and the least favourable one is shown. `covers` says what the intervals are over
    ("inputs").

    Raises InvalidArgumentError for an empty family, and for empty `covers`.
    """
    numbers = numbers.labelled() if isinstance(numbers, Records) else dict(numbers)
    if not numbers:
        raise InvalidArgumentError("numbers", {}, "at least one number")
    if not covers:
        raise InvalidArgumentError("covers", covers, "what the interval is over, or EXACT, or SINGLE")
    bound = (at_least, at_most)
    label, e = aggregate or _least_favourable(numbers, bound, single=covers == SINGLE)
    return Claim(
        statement=statement,
        kind=by.kind,
        source=by.source,
        place=by.place,
        measure=measure,
        number=e.value,
        interval=e.interval,
        bound=bound,
        stated=by.stated,
        unit=unit,
        covers=covers,
        confidence=e.confidence,
        numbers=numbers,
        shown=label,
        aggregate=aggregate is not None,
        theorem=by.theorem,
    )


exact = partial(claim, covers=EXACT)
"""A claim about numbers without sampling."""

ROUNDING = 1e-8  # of the largest number, in double precision
to_rounding = partial(exact, at_most=ROUNDING)
"""A claim that two results are equal, or that a violation is 0, to rounding."""


def agreement(
    statement: str,
    ours: Estimate,
    *,
    stated_value: float,
    stated_std: float,
    measure: str,
    covers: str,
    by: By,
    unit: str = "",
    numbers: Mapping[str, Estimate] | None = None,
) -> Claim:
    """The claim that `ours` agrees with a number of the source, stated_value ± stated_std, by their difference.

    `numbers` is the family behind `ours`; the rest is as in `claim`, where `by` is always a source's.

    Raises InvalidArgumentError as `claim` does, and for a standard deviation that is negative or not finite.
    """
    if not (stated_std >= 0 and math.isfinite(stated_std) and math.isfinite(stated_value)):
        raise InvalidArgumentError(
            "stated_std", (stated_value, stated_std), "a finite value, and a standard deviation of at least 0"
        )
    stated = f"{stated_value:g} ± {stated_std:g} {unit}".replace("-", "−").strip()
    made = claim(statement, {"": ours}, measure=measure, covers=covers, by=by, unit=unit, aggregate=("", ours))
    return replace(made, stated=stated, numbers=dict(numbers or {}), reference=(stated_value, stated_std))


def _least_favourable(
    numbers: Mapping[str, Estimate], bound: tuple[float, float], *, single: bool
) -> tuple[str, Estimate]:
    """The member furthest outside the bound, among those that fail, else the undecided, else all."""
    outcomes = {label: decide(e, bound) for label, e in numbers.items()}
    order = (UNDECIDED,) if single else (FAILS, UNDECIDED)
    deciding = next((outcome for outcome in order if outcome in outcomes.values()), None)
    chosen = [label for label, outcome in outcomes.items() if deciding in (outcome, None)]
    label = min(chosen, key=lambda name: margin(numbers[name], bound))
    return label, numbers[label]


def after(step: int) -> str:
    """A number of training steps, as a label.

    Example:
        >>> after(0), after(1), after(2000)
        ('at initialisation', 'after 1 step', 'after 2,000 steps')
    """
    return "at initialisation" if step == 0 else f"after {step:,} step{'' if step == 1 else 's'}"
