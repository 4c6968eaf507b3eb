"""Records of the audit of a potential, each one object of its JSON.

Means of errors have intervals over structures, moves or both, whichever are enough. Error, noise floor and tolerance
decide the outcome.
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
"""Structures needed for an interval over structures; with fewer the mean is for these structures only."""


class Sampling(BootstrapSettings):
    """Bootstrap intervals over structures, moves, or both."""

    def mean(self, table: Float[np.ndarray, "moves structures"]) -> MeanEstimate:
        """The mean with its interval over structures (at least 10), moves (at least 5), or both."""
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
    """One structure of the input."""

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
    """The error by rounding, chance and finite steps."""
    tolerance: float
    """The error allowed, in `unit`."""
    relative: MeanEstimate | None
    """The error over the size of the quantity, of structures that are not at rest; of energies over their standard
    deviation between structures; null where there is no such size."""
    structures: int
    moves: int
    outcome: Outcome
    """"holds": at most twice the noise floor; "within tolerance": above it, but small; "fails": the interval is above
    both; "undecided": the interval contains the limit, twice the floor is above the tolerance, or no structure could
    show a violation; `decide` says what would decide it."""
    note: str = ""
    decide: str = ""
    """What would decide an undecided row."""
    blind: bool = False
    """Whether no structure could show a violation."""
    given: int = 0
    """Structures that were tested; if `structures` is smaller, `note` says why."""


@dataclass(frozen=True)
class BrokenPose:
    """One pose for which the calculator gives no finite result, or raises."""

    test: str
    """A test, or "as given"."""
    structure: int | None
    """None if the test does not report it."""
    move: str
    result: str
    raises: bool
    """Whether it raises or lacks a value; else it gives NaN or infinity."""


def outcome(error: MeanEstimate, worst: float, floor: float, tolerance: float) -> Outcome:
    """The outcome of an error, given its noise floor and the tolerance; without an interval the worst case decides.

    If twice the floor is above the tolerance, smaller errors are undecided.
    """
    high = worst if math.isnan(error.high) else error.high
    stands = standing(MeanEstimate(error.mean, error.low, high), floor, tolerance)
    if stands != "within":
        return "fails" if stands == "above" else "undecided"
    return "holds" if error.mean <= FACTOR * floor else "within tolerance"


def row_of(error: MeanEstimate, worst: float, floor: float, tolerance: float, **fields: Any) -> Row:
    """A row with its outcome."""
    outcome_ = outcome(error, worst, floor, tolerance)
    return Row(error=error, worst=worst, floor=floor, tolerance=tolerance, outcome=outcome_, **fields)


def single(size: float, floor: float, tolerance: float, **fields: Any) -> Row:
    """The row of a single number, without an interval."""
    error = MeanEstimate(size, math.nan, math.nan)
    return row_of(error, size, floor, tolerance, relative=None, **fields)


_SINGLE = 10.0
"""Tolerances above which one structure fails the row, whatever the mean over the others is."""
NO_FORCES = "forces vanish, as in a perfect or relaxed crystal"
_OTHERS = "without other structures"
_REMEDY = "rattled structures (atoms.rattle(0.1))"


@dataclass(frozen=True, eq=False)
class Trial:
    """One test of one quantity on some structures, columns of `errors`; makes the row of all or some of them."""

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
    """Divisors of relative errors by structure; structures at rest have none."""
    floor: Callable[[np.ndarray], Any] = np.mean
    """The floor of a row from those of its columns."""
    note: str = ""
    blind: Sequence[str | bool] = ()
    """Why each structure cannot show a violation, false if it can; empty: all can."""

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
        """The row of all structures, or of those that can show a violation; undecided if none can.

        `blind` structures do not count, unless they show an error.
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
        """The row of all structures, or of some that fail although the mean of all does not.

        These are the structures whose noise floor is within the tolerance, and single ones whose worst error is far
        above it.
        """
        floors, tolerance, every = self.floors, self.tolerance, list(range(len(self.floors)))
        row = self.row(every)
        if row.outcome == "fails":
            return row
        clear = [c for c in every if FACTOR * floors[c] <= tolerance]
        beyond = [c for c in clear if self.worst[c][1] > _SINGLE * tolerance]
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
    """What would decide an undecided row; "" for other rows."""
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
    return "results that cancel less, as the error is rounding"


def worst_row(rows: Sequence[Row]) -> Row:
    """The row that decides: worst outcome, then largest error relative to what is allowed."""
    order = ("fails", "undecided", "within tolerance", "holds")
    above = lambda row: row.error.mean / max(row.tolerance, FACTOR * row.floor, 1e-300)
    return min(rows, key=lambda row: (order.index(row.outcome), -above(row)))
