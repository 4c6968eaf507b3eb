"""`equitangents audit --atoms FILE --calculator module:object`: an interatomic potential on structures of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from equitangents.audit.potentials.report import AtomsReport

ABOVE = 3
"""The exit status of a model whose error is above --fail-above."""


def audit_atoms(
    atoms: str | None,
    calculator: str | None,
    tests: str | None,
    *,
    tolerances: dict[str, float] | None,
    elements: int | None,
    limit: int | None,
    seed: int,
    fail_above: float | dict[str, float] | None,
    html: Path | None,
    json: Path | None,
    markdown: Path | None,
) -> None:
    """Run the audit, print its summary, write its files, and end with status 3 if it is above `fail_above`."""
    if atoms is None or calculator is None:
        missing = "--atoms" if atoms is None else "--calculator"
        raise typer.BadParameter("is missing; --atoms and --calculator go together", param_hint=missing)
    from equitangents.audit.adapters.files import load_calculator
    from equitangents.audit.adapters.optional import require
    from equitangents.audit.potentials.files import read_structures
    from equitangents.audit.potentials.run import atoms as run

    require("ase", "atoms")
    structures = read_structures(atoms, limit, seed)
    asked = None if tests is None else [test.strip() for test in tests.split(",")]
    report = run(
        load_calculator(calculator),
        structures,
        asked,
        elements=8 if elements is None else elements,
        tolerances=tolerances,
        seed=seed,
    )
    typer.echo(report.summary())
    for path, write in ((html, report.to_html), (json, report.to_json), (markdown, report.to_markdown)):
        if path is not None:
            write(path)
            typer.echo(f"written: {path}")
    if fail_above is not None:
        _fail(report, fail_above)


def _fail(report: AtomsReport, limits: float | dict[str, float]) -> None:
    """End with status ABOVE if some relative error is above the limit, or above its quantity's or test's."""
    above = []
    for r in report.rows:
        limit = limits if isinstance(limits, float) else limits.get(r.quantity, limits.get(r.test))
        if r.relative is not None and limit is not None and not r.relative.mean <= limit:
            above.append(f"{r.test} of {r.quantity} {r.relative.mean:.3g} > {limit:g}")
    if above:
        typer.echo(f"above: relative errors: {', '.join(above)}", err=True)
        raise typer.Exit(ABOVE)
