"""What the rows of a report mean for somebody who chooses a potential for molecular dynamics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from equitangents.audit.potentials.results import Row
from equitangents.audit.report.sections import Estimate
from equitangents.audit.report.words import listed
from equitangents.audit.report.words import number as share
from equitangents.report.verdict import format_number

_ORIENTATION = ("rotation", "reflection")
_OF = ("drift", "jump")
_TOLD = {"gradient": "the forces' distance from −∇E", "asymmetry": "the asymmetry of the force Jacobian"}


def with_unit(e: Estimate, unit: str) -> str:
    """ "5.2 [4.8, 5.6] meV/Å"."""
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
    return f"{named(row)}: {with_unit(row.error, row.unit)}{relative}, floor {digits(row.floor)}: {row.outcome}"


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


def sentence(name: str, rows: Sequence[Row], structures: str, verdict: str) -> str:
    """The finding in one sentence."""
    failing = [r for r in rows if r.outcome == "fails"]
    open_ = [r for r in rows if r.outcome == "undecided"]
    if failing:
        worst = sorted(failing, key=lambda r: -r.error.mean / max(r.tolerance, 2 * r.floor))
        said = "; ".join(_failing_said(r) for r in worst[:3])
        more = f"; and {len(worst) - 3} more tests fail" if len(worst) > 3 else ""
        return f"{name} fails {len(failing)} of {len(rows)} tests on {structures}: {said}{more}."
    if verdict == "undecided":
        names = listed([f"{r.test} of {r.quantity}" for r in open_])
        return f"{name} fails none of {len(rows)} tests on {structures}, but {names} cannot be decided."
    if verdict == "within tolerance":
        small = [r for r in rows if r.outcome == "within tolerance"]
        said = "; ".join(f"{named(r)} {with_unit(r.error, r.unit)}" for r in small[:3])
        return f"{name} passes all {len(rows)} tests on {structures}, {len(small)} of them within tolerance: {said}."
    return f"{name} passes all {len(rows)} tests on {structures}: every error is at the floor."


def _failing_said(r: Row) -> str:
    relative = "" if r.relative is None or r.test == "asymmetry" else f", {share(r.relative.mean)}"
    measured = f"{with_unit(r.error, r.unit)}{relative} (floor {digits(r.floor)})"
    plural = r.quantity.endswith("s") and r.quantity != "stress"
    told = {
        "gradient": f"forces differ from −∇E by {measured}",
        "asymmetry": f"the force Jacobian is asymmetric by {measured}",
        "drift": f"the total energy drifts by {measured}",
        "jump": f"{r.quantity} {'jump' if plural else 'jumps'} by {measured} at a cutoff",
    }
    return told.get(r.test, f"{r.quantity} {'change' if plural else 'changes'} under {r.test} by {measured}")


def advice(rows: Sequence[Row]) -> list[str]:
    """What follows for molecular dynamics, the worst first; what holds is said, too."""
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
        said.append(
            f"{listed(sorted({r.quantity for r in mirrored})).capitalize()} of mirror images differ, though rotations "
            "change nothing: mirror-image molecules get different energies, and flat ones forces out of their plane. "
            "Averaging over rotations does not help; the mean over a structure and its mirror image does."
        )
    elif turned := fails(*_ORIENTATION):
        said.append(
            f"{listed(sorted({r.quantity for r in turned})).capitalize()} depend on how the structure is oriented. "
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
    if fails("supercell"):
        said.append("A doubled cell does not have twice the energy: do not compare cells of different sizes.")
    if jumps := fails("jump"):
        said.append(
            f"{' and '.join(r.quantity for r in jumps).capitalize()} jump where atoms cross a cutoff: energy is not "
            "conserved there, and optimisers may not converge; use a smooth cutoff."
        )
    elif held("jump"):
        said.append(f"Nothing jumps where atoms cross a cutoff, {so_far('jump')}.")
    if all(r.outcome in ("holds", "within tolerance") for r in rows):
        said.append("Nothing that was tested speaks against molecular dynamics with it; accuracy was not tested.")
    return said
