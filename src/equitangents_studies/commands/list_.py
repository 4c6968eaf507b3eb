"""`equitangents list`: every study, one line each."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def list_studies(
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON: a list of objects with name, presets, source, title and summary.")
    ] = False,
) -> None:
    """List the studies, one line each: name, presets, source, title."""
    from equitangents_studies import registry

    if as_json:
        entries = ("name", "presets", "source", "title", "summary")
        told = [{entry: getattr(info, entry) for entry in entries} for info in registry.values()]
        typer.echo(json.dumps(told, indent=1, ensure_ascii=False))
        return
    rows = [(info.name, ", ".join(info.presets), info.source, info.title) for info in registry.values()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        typer.echo("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]]))
