"""`equitangents list`: every study, one line each."""

from __future__ import annotations

import typer


def list_studies() -> None:
    """List the studies, one line each: name, presets, source, title."""
    from equitangents_studies import registry

    rows = [(info.name, ", ".join(info.presets), info.source, info.title) for info in registry.values()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        typer.echo("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]]))
