"""A report of a potential in words: one line for each row, the finding in one sentence, and what it means for somebody
who chooses a potential for molecular dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from equitangents.audit.potentials.results import BrokenPose, Row
from equitangents.audit.report.numbers import FACTOR, Estimate
from equitangents.audit.report.words import listed
from equitangents.audit.report.words import number as share
from equitangents.report.numbers import format_number

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
    if not FACTOR * row.floor <= row.tolerance:
        return f"the floor hides up to {digits(FACTOR * row.floor)} {row.unit}, more than {digits(row.tolerance)}; "
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
        worst = sorted(failing, key=lambda r: -r.error.mean / max(r.tolerance, FACTOR * r.floor))
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


_ORIENTATION = ("rotation", "reflection")


def advice(
    rows: Sequence[Row], broken: Sequence[BrokenPose] = (), noise: Mapping[str, tuple[float, str]] | None = None
) -> list[str]:
    """What follows for molecular dynamics, the worst first; what holds is said, too.

    `noise` is by how much quantities differ from call to call, and in which unit.
    """
    by = {(r.test, r.quantity): r for r in rows}
    fails = lambda *tests: [r for r in rows if r.test in tests and r.outcome == "fails"]
    held = lambda *tests: (
        bool(of := [r for r in rows if r.test in tests]) and all(r.outcome in ("holds", "within tolerance") for r in of)
    )

    def so_far(*tests: str) -> str:
        """How well that is known: within tolerance, errors were seen."""
        seen = any(r.outcome == "within tolerance" for r in rows if r.test in tests)
        return "to within the tolerance" if seen else "down to its floor"

    said = []
    if nans := [pose for pose in broken if not pose.raises]:
        said.append(f"A run ends where a result is NaN, as it is here for {_poses(nans)}.")
    if noise:
        sizes = listed([f"{name} {digits(size)} {unit}".strip() for name, (size, unit) in noise.items()])
        said.append(
            f"The same structure asked again gives other numbers ({sizes}): that is noise, which the floors hold, and "
            "no broken symmetry. Is dropout or sampling switched on?"
        )
    if fails("gradient", "asymmetry"):
        said.append(
            "Forces are not the gradient of the energy. Do not use this potential at constant energy, and not for "
            "barriers, phonons or free energies, which need a potential energy; with a thermostat short runs may do."
        )
    elif held("gradient"):
        said.append(f"Forces are the gradient of the energy, {so_far('gradient')}.")
    drift = by.get(("drift", "total energy"))
    if drift is not None and drift.outcome == "fails":
        cause = "as expected of such forces" if fails("gradient", "asymmetry") else "try a shorter time step first"
        said.append(f"The total energy drifts in a short run at constant energy ({drift.note}); {cause}.")
    elif drift is not None and drift.outcome == "holds":
        said.append("In a short run at constant energy no drift beyond its own scatter is seen.")
    if (mirrored := fails("reflection")) and not fails("rotation"):
        seen = {r.quantity for r in mirrored}
        means = ["mirror-image molecules get different energies"] if "energy" in seen else []
        means += ["flat molecules may get forces out of their plane"] if "forces" in seen else []
        said.append(
            f"{_quantities(mirrored)} of mirror images differ{_s(mirrored)}, though rotations change nothing"
            f"{': ' if means else ''}{', and '.join(means)}. Averaging over rotations does not help; the mean over a "
            "structure and its mirror image does."
        )
    elif turned := fails(*_ORIENTATION):
        said.append(
            f"{_quantities(turned)} depend{_s(turned)} on how the structure is oriented. "
            "Means over random orientations at every step lower this by the root of their number, at that many times "
            "the cost; or choose an equivariant potential."
        )
    elif held(*_ORIENTATION):
        said.append(
            f"Nothing depends on the orientation, {so_far(*_ORIENTATION)}: no averaging over rotations is needed."
        )
    if fails("translation", "lattice translation"):
        said.append(
            "Results depend on where the structure stands, or on which periodic copy of an atom is given: wrap atoms "
            "as the training data were, and do not trust runs in which they leave the cell."
        )
    if fails("permutation"):
        said.append("Results depend on the order of equal atoms: sort structures as the training data were.")
    if doubled := fails("supercell"):
        if any(r.quantity == "energy" for r in doubled):
            said.append("A doubled cell does not have twice the energy: do not compare cells of different sizes.")
        else:
            said.append(
                f"{_quantities(doubled)} of a doubled cell differ{_s(doubled)} from the cell's: do not mix sizes."
            )
    if jumps := fails("jump"):
        said.append(
            f"{' and '.join(r.quantity for r in jumps).capitalize()} jump where atoms cross a cutoff: energy is not "
            "conserved there, and optimisers may not converge; use a smooth cutoff."
        )
    elif held("jump"):
        said.append(f"Nothing jumps where atoms cross a cutoff, {so_far('jump')}.")
    if not broken and all(r.outcome in ("holds", "within tolerance") for r in rows):
        said.append("Nothing that was tested speaks against molecular dynamics with it; accuracy was not tested.")
    return said


def _quantities(rows: Sequence[Row]) -> str:
    """ "Energy and forces"."""
    return listed(sorted({r.quantity for r in rows})).capitalize()


def _s(rows: Sequence[Row]) -> str:
    """The ending of a verb: of one quantity in the singular."""
    names = {r.quantity for r in rows}
    return "s" if len(names) == 1 and not names <= {"forces", "energies", "stresses", "charges", "magmoms"} else ""


def _poses(broken: Sequence[BrokenPose]) -> str:
    """ "structure 2 under rotation", and how many more."""
    first = broken[0]
    of = first.test if first.structure is None else f"structure {first.structure} under {first.test}"
    of = of.replace("under as given", "as it is given")
    return of if len(broken) == 1 else f"{of} and {len(broken) - 1} more poses"
