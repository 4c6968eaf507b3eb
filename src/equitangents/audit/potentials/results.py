"""What an audit of a potential finds, as small records: each is one object of its JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from equitangents.audit.report.sections import Estimate

_HIDES = 10.0
"""A floor of so many tolerances says nothing."""
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
    error: Estimate
    """Mean over structures and moves, in `unit`."""
    covers: str
    """What the interval is over; "" without one."""
    worst: float
    worst_structure: int
    worst_move: str
    floor: float
    """What rounding, chance and finite steps alone would show."""
    tolerance: float
    """The error that counts as small, in `unit`."""
    relative: Estimate | None
    """The error over the size of the quantity, of structures that are not at rest; of energies over their standard
    deviation between structures; null where there is no such size."""
    structures: int
    moves: int
    outcome: Outcome
    """"holds": no more than twice the floor; "within tolerance": above it, but small; "fails": larger than both, by its
    interval; "undecided": the interval holds the limit, or the floor is so high that it hides everything."""
    note: str = ""
    errors: list[list[float]] = field(default_factory=list)
    """Errors of single moves or directions, one list a structure: what a later audit is compared with."""


def outcome(error: Estimate, worst: float, floor: float, tolerance: float) -> Outcome:
    """The outcome of an error beside its floor and the tolerance; without an interval the worst case must decide."""
    limit = max(2 * floor, tolerance)
    low = error.low if error.low == error.low else error.mean
    high = error.high if error.high == error.high else worst
    if error.mean <= 2 * floor:
        return "holds" if floor <= _HIDES * tolerance else "undecided"
    if high <= limit:
        return "within tolerance"
    return "fails" if low > limit else "undecided"
