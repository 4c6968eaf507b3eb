"""What an audit of a potential finds, as small records, each one object of its JSON.

Means of errors have intervals over whichever of structures and moves are enough; an error beside its floor and its
tolerance decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents.audit.measure.task import Resampler
from equitangents.audit.report.numbers import FACTOR, MeanEstimate, standing
from equitangents.metrics.measure import BootstrapSettings
from equitangents.statistics.bootstrap import FEWEST

ENOUGH = 10
"""Structures, from which means have an interval over these; of fewer it is for these structures alone."""


class Sampling(BootstrapSettings):
    """How intervals are found: over structures, over moves, or over both."""

    def mean(self, table: Float[np.ndarray, "moves structures"]) -> MeanEstimate:
        """The mean, its interval over structures, from 10 on, and moves, from 5 on; or over one of them."""
        table = np.asarray(table, np.float64)
        E, n = table.shape
        if n >= ENOUGH:
            return Resampler(n, E if E >= FEWEST else None, self).mean(table)
        if E >= FEWEST:
            return Resampler(E, None, self).mean(table.mean(axis=1))
        return MeanEstimate(float(table.mean()), math.nan, math.nan)

    def root_mean_square(self, squares: np.ndarray) -> MeanEstimate:
        """√ of the mean of squares, and of its ends."""
        return self.mean(squares).rooted


Outcome = Literal["holds", "within tolerance", "fails", "undecided"]


@dataclass(frozen=True)
class StructureResult:
    """One structure, as it was given."""

    index: int
    formula: str
    atoms: int
    periodic: bool
    rms_force: float | None
    """Root mean square force, meV/Å; null without forces."""
    at_rest: bool
    """Whether its forces are so small that errors relative to them mean nothing."""


@dataclass(frozen=True)
class Row:
    """One test of one quantity."""

    test: str
    """"rotation", "reflection", "translation", "lattice translation", "permutation", "supercell", "gradient",
    "asymmetry", "drift", "jump"."""
    quantity: str
    unit: str
    error: MeanEstimate
    """Mean over structures and moves, in `unit`."""
    worst: float
    worst_structure: int
    worst_move: str
    floor: float
    """What rounding, chance and finite steps alone would show."""
    tolerance: float
    """The error that counts as small, in `unit`."""
    relative: MeanEstimate | None
    """The error over the size of the quantity, of structures that are not at rest; of energies over their standard
    deviation between structures; null where there is no such size."""
    structures: int
    moves: int
    outcome: Outcome
    """"holds": no more than twice the floor; "within tolerance": above it, but small; "fails": larger than both, by its
    interval; "undecided": the interval holds the limit, twice the floor is above the tolerance and hides what matters,
    or nothing that was tested could have shown a violation; `decide` says what would decide it."""
    note: str = ""
    decide: str = ""
    """What would decide an undecided row."""
    blind: bool = False
    """Whether nothing that was tested could have shown a violation."""
    given: int = 0
    """Structures that were tested; where `structures` are fewer, the row is of these alone, and `note` says why."""


@dataclass(frozen=True)
class BrokenPose:
    """One pose for which the calculator gives no finite result, or raises."""

    test: str
    """A test, or "as given"."""
    structure: int | None
    """None where a test does not say."""
    move: str
    result: str
    raises: bool
    """Whether it raises, or lacks what it has as given; else it gives NaN or infinity."""


def outcome(error: MeanEstimate, worst: float, floor: float, tolerance: float) -> Outcome:
    """The outcome of an error beside its floor and the tolerance; without an interval the worst case must decide.

    Where twice the floor is above the tolerance it hides what matters: what is no larger is undecided.
    """
    high = worst if math.isnan(error.high) else error.high
    stands = standing(MeanEstimate(error.mean, error.low, high), floor, tolerance)
    if stands != "within":
        return "fails" if stands == "above" else "undecided"
    return "holds" if error.mean <= FACTOR * floor else "within tolerance"


def row_of(error: MeanEstimate, worst: float, floor: float, tolerance: float, **fields: Any) -> Row:
    """A row with its outcome."""
    found = outcome(error, worst, floor, tolerance)
    return Row(error=error, worst=worst, floor=floor, tolerance=tolerance, outcome=found, **fields)


def single(size: float, floor: float, tolerance: float, **fields: Any) -> Row:
    """The row of one number, which has no interval and is its own worst."""
    error = MeanEstimate(size, math.nan, math.nan)
    return row_of(error, size, floor, tolerance, relative=None, **fields)


_ALONE = 10.0
"""Floors and tolerances above which one structure disproves what holds of the others in the mean."""
NO_FORCES = "forces vanish, as in a perfect or relaxed crystal"
_OTHERS = "without other structures"
_REMEDY = "rattled structures (atoms.rattle(0.1))"


@dataclass(frozen=True, eq=False)
class Trial:
    """One test of one quantity on some structures: a row of all of them, or of those that tell. Columns are places."""

    test: str
    quantity: str
    unit: str
    structures: list[int]
    moves: int
    worst: list[tuple[str, float]]
    """The largest error of every structure with its move, of all poses."""
    floors: list[float]
    tolerance: float
    errors: Float[np.ndarray, "rows structures"]
    mean: Callable[[np.ndarray], MeanEstimate]
    """The mean error of some columns of `errors`, with its interval."""
    scales: Mapping[int, float] = field(default_factory=dict)
    """What columns of `errors` are relative to, by structure; those that are at rest have none."""
    floor: Callable[[np.ndarray], Any] = np.mean
    """Of the floors of some columns."""
    note: str = ""
    blind: Sequence[str | bool] = ()
    """Why a structure shows no violation, a false value of those that do; empty: all of them do."""

    def row(self, columns: list[int]) -> Row:
        """The row of some structures."""
        sized = [c for c in columns if self.structures[c] in self.scales]
        scales = np.array([self.scales[self.structures[c]] for c in sized])
        at = max(columns, key=lambda c: self.worst[c][1])
        label, worst = self.worst[at]
        floor = float(self.floor(np.array([self.floors[c] for c in columns])))
        return row_of(
            self.mean(self.errors[:, columns]),
            worst,
            floor,
            self.tolerance,
            test=self.test,
            quantity=self.quantity,
            unit=self.unit,
            worst_structure=self.structures[at],
            worst_move=label,
            relative=self.mean(self.errors[:, sized] / scales) if sized else None,
            structures=len(columns),
            moves=self.moves,
            note=self.note,
            given=len(self.floors),
        )

    def decided(self) -> Row:
        """The row of all structures; of those alone that can show a violation, undecided where none can, and none does.

        `blind` structures say nothing, unless they show an error all the same.
        """
        row = self._in_all()
        showing = [c for c, why in enumerate(self.blind) if not why or not self.worst[c][1] <= FACTOR * self.floors[c]]
        if row.outcome == "fails" or len(showing) == len(self.blind):
            return row
        why = next((why for why in self.blind if isinstance(why, str) and why), NO_FORCES)
        if not showing:
            return replace(row, outcome="undecided", blind=True, decide=_REMEDY, note=_noted(row, why))
        part = self.row(showing)
        return replace(part, note=_noted(part, f"{_OTHERS}: {why}"))

    def _in_all(self) -> Row:
        """The row of all structures; of some alone where these fail though the mean of all does not.

        Those are the structures whose floor hides no more than the tolerance, beside others, and single ones whose
        worst error is far above it.
        """
        floors, tolerance, every = self.floors, self.tolerance, list(range(len(self.floors)))
        row = self.row(every)
        if row.outcome == "fails":
            return row
        clear = [c for c in every if FACTOR * floors[c] <= tolerance]
        beyond = [c for c in clear if self.worst[c][1] > _ALONE * tolerance]
        for some, why in ((clear, "their floors hide more than the tolerance"), (beyond, "they hold")):
            part = self.row(some) if 0 < len(some) < len(every) else row
            if some and (part.outcome == "fails" or some is beyond):
                note = _noted(part, f"{_OTHERS}: {why}") if len(some) < len(every) else part.note
                return replace(part, outcome="fails", note=note)
        return row


def _noted(row: Row, more: str) -> str:
    """The row's note, and more."""
    return "; ".join(filter(None, (row.note, more)))


def what_decides(row: Row, single: bool, noisy: bool) -> str:
    """What would decide an undecided row, "" of others."""
    if row.outcome != "undecided" or row.decide:
        return row.decide
    if FACTOR * row.floor <= row.tolerance:
        return "more structures or moves"
    if noisy:
        return "a calculator without noise: in evaluation mode, with a fixed seed, or the mean of many calls"
    if single:
        return "the calculator in double precision"
    if row.test in ("gradient", "asymmetry"):
        return "structures without contacts as close as in the worst one, which change less in a step"
    return "results that cancel less: rounding is what is seen"


def worst_row(rows: Sequence[Row]) -> Row:
    """The row that decides: of those with the worst outcome the one whose error is furthest above what is allowed."""
    order = ("fails", "undecided", "within tolerance", "holds")
    above = lambda row: row.error.mean / max(row.tolerance, FACTOR * row.floor, 1e-300)
    return min(rows, key=lambda row: (order.index(row.outcome), -above(row)))
