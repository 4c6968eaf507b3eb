"""`equitangents audit-potential`: whether an interatomic potential respects symmetries and conserves energy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equitangents.cli.audit import ABOVE, Html, Json, Junit, Markdown, Seed, check_files, finish
from equitangents.cli.audit_words import check_counts, check_file, limits_of, named
from equitangents.cli.common import stages

if TYPE_CHECKING:
    from equitangents.audit.potentials.report import AtomsReport
    from equitangents.audit.report.checks import Check

_POTENTIAL, _MEASURE, _VERDICT = "Potential", "What to measure", "Verdict"


def audit_potential(
    structures: Annotated[
        str, typer.Argument(rich_help_panel=_POTENTIAL, help="Structures that ASE reads: .xyz, .cif, .traj, …")
    ],
    calculator: Annotated[
        str,
        typer.Option(
            rich_help_panel=_POTENTIAL, help="package.module:object, an ASE calculator, its class or a function."
        ),
    ],
    features: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_POTENTIAL,
            help="Further results, one row an atom, and their irreps: node_feats=8x0e+4x1o.",
        ),
    ] = None,
    tests: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_MEASURE,
            help="Some tests, with commas: rotation, permutation, conservation, dynamics, smoothness, …",
        ),
    ] = None,
    elements: Annotated[int, typer.Option(rich_help_panel=_MEASURE, help="Random moves of every structure.")] = 8,
    limit: Annotated[
        int | None, typer.Option(rich_help_panel=_MEASURE, help="Use this many structures, drawn at random.")
    ] = None,
    time_step: Annotated[
        float | None, typer.Option(rich_help_panel=_MEASURE, help="Femtoseconds of a step of the short run: 0.25.")
    ] = None,
    seed: Seed = 0,
    tolerances: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_VERDICT, help="Errors that count as small: forces=1,energy=0.1 (meV/Å, meV/atom)."
        ),
    ] = None,
    fail_above: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_VERDICT,
            help=f"Exit with status {ABOVE} unless relative errors are at most this: 0.05 or 5%, or forces=5%,…",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_VERDICT, help=f"An earlier --json: exit with status {ABOVE} if a test fails that did not."
        ),
    ] = None,
    html: Html = None,
    json: Json = None,
    markdown: Markdown = None,
    junit: Junit = None,
) -> None:
    """Test an interatomic potential: symmetries, forces as a gradient, conserved energy, smoothness.

    equitangents audit-potential water.xyz --calculator mine:potential --html potential.html

    equitangents audit-potential crystals.xyz --calculator mine:potential --tests rotation,dynamics --time-step 0.25
    """
    from equitangents.model_files import check_name

    limits, files = limits_of(fail_above), {"html": html, "json": json, "markdown": markdown, "junit": junit}
    check_counts({"--elements": elements, "--limit": limit})
    check_files(files)
    check_file("baseline", baseline)
    check_file("structures", structures)
    check_name(calculator, "calculator")
    tolerated, turning = named(tolerances), irreps_of(features)
    with stages() as stage:
        stage("importing JAX and ASE")
        from equitangents.audit.adapters.choose import imported
        from equitangents.audit.potentials.report import read_baseline
        from equitangents.audit.potentials.run import atoms
        from equitangents.audit.potentials.structures import read_structures
        from equitangents.extras import require

        require("ase", "atoms", "the audit of potentials")
        if baseline is not None:
            read_baseline(baseline)
        stage(f"reading {structures}")
        given = read_structures(structures, limit, seed)
        stage(f"loading {calculator}")
        potential = imported(calculator, "calculator")
        stage(f"evaluating {calculator}")
        report = atoms(
            potential,
            given,
            None if tests is None else [test.strip() for test in tests.split(",")],
            elements=elements,
            tolerances=tolerated,
            features=turning,
            time_step=time_step,
            seed=seed,
            progress=True,
        )
    finish(report, files, _checks(report, limits, baseline), met=False)


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
    from equitangents.audit.potentials.report import below, no_worse

    found = [] if limits is None else below(report, limits)
    return found + ([] if baseline is None else no_worse(report, baseline))
