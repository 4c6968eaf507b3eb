"""One line for each row of a report of a potential, and the finding in one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from equitangents.audit.potentials.results import BrokenPose, Row
from equitangents.audit.report.sections import Estimate
from equitangents.audit.report.words import listed
from equitangents.audit.report.words import number as share
from equitangents.report.verdict import format_number

_OF = ("drift", "jump")
_TOLD = {"gradient": "the forces' distance from −∇E", "asymmetry": "the asymmetry of the force Jacobian"}


def with_unit(e: Estimate, unit: str) -> str:
    """ "5.2 [4.8, 5.6] meV/Å"."""
    if math.isnan(e.mean):
        return "not known"
    said = digits(e.mean)
    if not math.isnan(e.low):
        said += f" [{digits(e.low)}, {digits(e.high)}]"
    return f"{said} {unit}".strip()


def digits(value: float) -> str:
    """Three digits, powers of ten of small numbers, and a plain 0."""
    return "0" if value == 0 else format_number(value)


def named(row: Row) -> str:
    """What a row measures, in a few words."""
    return _TOLD.get(row.test, f"{row.test} of {row.quantity}" if row.test in _OF else f"{row.test}, {row.quantity}")


def row_said(row: Row) -> str:
    """One row: what, how much, beside which floor."""
    relative = "" if row.relative is None or row.test == "asymmetry" else f" ({share(row.relative.mean)})"
    said = f"{named(row)}: {with_unit(row.error, row.unit)}{relative}, floor {digits(row.floor)}: {row.outcome}"
    if row.structures < row.given:
        said += f", {row.note.rpartition('; of ')[2] if row.outcome != 'fails' else f'on {_some(row)} alone'}"
    if row.decide and row.outcome == "undecided":
        said += f"; {_hidden(row)}{row.decide} would decide"
    return said


def _some(row: Row) -> str:
    """Which structures a row is of, where it is not of all."""
    one = row.structures == 1
    return f"structure {row.worst_structure}" if one else f"{row.structures} of {row.given} structures"


def _hidden(row: Row) -> str:
    """Why a row says nothing: the floor, or the structures."""
    if not row.floor <= row.tolerance:
        return "the floor is above the tolerance; "
    return f"{row.note.rpartition('; ')[2]}; " if row.blind else ""


def pose_said(pose: BrokenPose) -> str:
    """One pose without a result."""
    where = "" if pose.structure is None else f", structure {pose.structure}"
    move = f", {pose.move}" if pose.move else ""
    return f"{pose.test}{where}{move}: {pose.said}"


def poses_said(broken: Sequence[BrokenPose]) -> list[str]:
    """The first few, and how many more there are."""
    more = [f"and {len(broken) - _POSES} more poses"] if len(broken) > _POSES else []
    return [pose_said(pose) for pose in broken[:_POSES]] + more


_POSES = 5


def rows_said(rows: Sequence[Row]) -> list[str]:
    """One line a row; of a test all of whose errors are at the floor one line for all."""
    said = []
    for test, run in groupby(rows, key=lambda r: r.test):
        part = list(run)
        if len(part) > 1 and all(r.outcome == "holds" for r in part):
            errors = ", ".join(f"{r.quantity} {digits(r.error.mean)} {r.unit}".strip() for r in part)
            said.append(f"{test}: {errors}: all at the floor")
        else:
            said += [row_said(r) for r in part]
    return said


def sentence(name: str, rows: Sequence[Row], structures: str, verdict: str, broken: Sequence[BrokenPose] = ()) -> str:
    """The finding in one sentence; poses without a result are told first."""
    lost = ""
    if broken:
        first, more = broken[0], f" (and in {len(broken) - 1} more poses)" if len(broken) > 1 else ""
        gives = first.said if first.raises or first.structure is None else f"{name} gives {first.said}"
        move = f", {first.move}" if first.move else ""
        where = "" if first.structure is None else f" for structure {first.structure}{move}"
        lost = f"{gives}{where} in {first.test}{more}. ".replace("in as given", "as it is given")
    return lost + _of_rows(name, rows, structures, verdict)


def _of_rows(name: str, rows: Sequence[Row], structures: str, verdict: str) -> str:
    failing = [r for r in rows if r.outcome == "fails"]
    open_ = [r for r in rows if r.outcome == "undecided"]
    small = [r for r in rows if r.outcome == "within tolerance"]
    if failing:
        worst = sorted(failing, key=lambda r: -r.error.mean / max(r.tolerance, 2 * r.floor))
        said = "; ".join(_failing_said(r) for r in worst[:3])
        more = f"; and {len(worst) - 3} more tests fail" if len(worst) > 3 else ""
        return f"{name} fails {len(failing)} of {len(rows)} tests on {structures}: {said}{more}."
    if open_:
        names = listed([f"{r.test} of {r.quantity}" for r in open_])
        why = list(dict.fromkeys(f"{_hidden(r)}{r.decide}" for r in open_ if r.decide))
        decides = f": {why[0]} would decide" if why else ""
        return f"{name} fails none of {len(rows)} tests on {structures}, but {names} cannot be decided{decides}."
    if small:
        said = "; ".join(f"{named(r)} {with_unit(r.error, r.unit)}" for r in small[:3])
        return f"{name} passes all {len(rows)} tests on {structures}, {len(small)} of them within tolerance: {said}."
    return f"{name} passes all {len(rows)} tests on {structures}: every error is at the floor."


def _failing_said(r: Row) -> str:
    relative = "" if r.relative is None or r.test == "asymmetry" else f", {share(r.relative.mean)}"
    alone = f", on {_some(r)} alone" if r.structures < r.given else ""
    measured = f"{with_unit(r.error, r.unit)}{relative} (floor {digits(r.floor)}){alone}"
    plural = r.quantity.endswith("s") and r.quantity != "stress"
    told = {
        "gradient": f"forces differ from −∇E by {measured}",
        "asymmetry": f"the force Jacobian is asymmetric by {measured}",
        "drift": f"the total energy drifts by {measured}",
        "jump": f"{r.quantity} {'jump' if plural else 'jumps'} by {measured} at a cutoff",
    }
    return told.get(r.test, f"{r.quantity} {'change' if plural else 'changes'} under {r.test} by {measured}")
