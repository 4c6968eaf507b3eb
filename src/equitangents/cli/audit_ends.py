"""How `equitangents audit` ends: the summary, the files that were asked for, and the exit status."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from equitangents.audit.potentials.report import AtomsReport
    from equitangents.audit.report.checks import Check
    from equitangents.audit.report.result import AuditReport

ABOVE = 3
"""The exit status of a model whose error is above --fail-above."""
INTERRUPTED = 130


@dataclass(frozen=True)
class Files:
    """Where the report is to be written."""

    html: Path | None
    json: Path | None
    markdown: Path | None
    badge: Path | None
    junit: Path | None

    def check(self) -> None:
        """Raise unless every file can lie where it is to be written."""
        for option, path in vars(self).items():
            if path is not None and not path.resolve().parent.is_dir():
                raise typer.BadParameter(f"{str(path)!r}, whose folder does not exist", param_hint=f"--{option}")


def finish(report: AuditReport | AtomsReport, files: Files, checks: list[Check], met: bool = True) -> None:
    """Print the summary, write the files, and end with status ABOVE if something that was demanded is not met.

    `met`: also say what is met.
    """
    typer.echo(report.summary())
    writers = (
        (files.html, report.to_html),
        (files.json, report.to_json),
        (files.markdown, report.to_markdown),
        (files.badge, report.to_badge),
        (files.junit, lambda path: report.to_junit(path, checks)),
    )
    for path, write in writers:
        if path is not None:
            write(path)
            typer.echo(f"written: {path}")
    if report.partial:
        raise typer.Exit(INTERRUPTED)
    for check in checks:
        if check.undecided:
            typer.echo(f"undecided: {check.said}", err=True)
        elif not check.passed:
            typer.echo(f"{'below' if check.least else 'above'}: {check.said}", err=True)
        elif met:
            typer.echo(f"met: {check.name}" + f"; {check.said}" * bool(check.said))
    if not all(check.passed for check in checks):
        raise typer.Exit(ABOVE)
