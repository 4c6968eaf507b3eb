"""What the rows of a report mean for somebody who chooses a potential for molecular dynamics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equitangents.audit.potentials.lines import digits
from equitangents.audit.potentials.results import BrokenPose, Row
from equitangents.audit.report.words import listed

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
