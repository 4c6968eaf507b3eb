"""`equitangents audit --atoms FILE --calculator module:object`: an interatomic potential on structures of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from equitangents.cli.announcements import stages
from equitangents.cli.audit_ends import Files, finish
from equitangents.cli.audit_settings import check_file

if TYPE_CHECKING:
    from equitangents.audit.potentials.report import AtomsReport
    from equitangents.audit.report.checks import Check


def audit_atoms(
    atoms: str | None,
    calculator: str | None,
    tests: str | None,
    *,
    tolerances: dict[str, float] | None,
    features: dict[str, str] | None,
    elements: int | None,
    limit: int | None,
    seed: int,
    fail_above: float | dict[str, float] | None,
    files: Files,
    baseline: Path | None,
) -> None:
    """Run the audit, print its summary, write its files, and end with status 3 if a demand is not met."""
    if atoms is None or calculator is None:
        missing = "--atoms" if atoms is None else "--calculator"
        raise typer.BadParameter("is missing; --atoms and --calculator go together", param_hint=missing)
    from equitangents.model_files import check_name

    check_file("atoms", atoms)
    check_name(calculator, "calculator")
    with stages() as stage:
        stage("importing JAX and ASE")
        from equitangents.audit.adapters.files import load_calculator
        from equitangents.audit.adapters.optional import require
        from equitangents.audit.potentials.checks import read_baseline
        from equitangents.audit.potentials.files import read_structures
        from equitangents.audit.potentials.run import atoms as run

        require("ase", "atoms")
        if baseline is not None:
            read_baseline(baseline)
        stage(f"reading {atoms}")
        structures = read_structures(atoms, limit, seed)
        asked = None if tests is None else [test.strip() for test in tests.split(",")]
        stage(f"loading {calculator}")
        potential = load_calculator(calculator)
        stage(f"evaluating {calculator}")
        report = run(
            potential,
            structures,
            asked,
            elements=8 if elements is None else elements,
            tolerances=tolerances,
            features=features,
            seed=seed,
            progress=True,
        )
    finish(report, files, _checks(report, fail_above, baseline), met=False)


def irreps_of(text: str | None) -> dict[str, str] | None:
    """ "node_feats=8x0e+4x1o,hidden=2x0e" as irreps by name."""
    if text is None:
        return None
    parts = [part.partition("=") for part in text.replace(" ", "").split(",")]
    if not all(name and irreps for name, _, irreps in parts):
        raise typer.BadParameter("expected NAME=IRREPS,… such as node_feats=8x0e+4x1o", param_hint="--features")
    return {name: irreps for name, _, irreps in parts}


def _checks(report: AtomsReport, limits: float | dict[str, float] | None, baseline: Path | None) -> list[Check]:
    """Everything that was demanded of the report."""
    from equitangents.audit.potentials.checks import below, no_worse

    found = [] if limits is None else below(report, limits)
    return found + ([] if baseline is None else no_worse(report, baseline))
