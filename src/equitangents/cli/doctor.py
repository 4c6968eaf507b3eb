"""`equitangents doctor`: what runs here, and whether it computes what it should."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "optax", "scikit-learn")
OPTIONAL = {"zarr": "scale"}  # packages, and the extras that install them


def doctor(
    json_path: Annotated[Path | None, typer.Option("--json", help="Write all of it as JSON.")] = None,
) -> None:
    """Show versions, devices and the kernel engine, and test this installation on small kernels.

    Exit status 1 if a number of the self-test is wrong, 2 if the engine that EQUITANGENTS_ENGINE names cannot run here.
    """
    from equitangents.cli.common import stages
    from equitangents.cli.self_test import run_checks

    with stages() as stage:
        stage("asking engines and devices")
        about, error = _installation()
        stage("")
        _print(about.items())
        checks: list[Any] = []
        if error is None:
            stage("computing small kernels, and comparing them with closed forms")
            checks = run_checks()
    well = error is None and all(check.passed for check in checks)
    if json_path is not None:
        rows = [
            vars(check) | {"error": check.error if math.isfinite(check.error) else str(check.error)}
            | {"passed": check.passed}
            for check in checks
        ]  # fmt: skip
        found = {"installation": about, "checks": rows, "well": well}
        json_path.write_text(json.dumps(found, indent=1, ensure_ascii=False), "utf-8")
    if error is not None:
        raise error
    _print(
        [(check.name, f"{check.error:.1e}", f"{check.allowed:.0e}", ("WRONG", "ok")[check.passed]) for check in checks],
        ("self-test", "error", "allowed", ""),
    )
    if not well:
        typer.echo("equitangents: the self-test found wrong numbers; do not trust results from here", err=True)
        raise typer.Exit(1)


def _installation() -> tuple[dict[str, str], Exception | None]:
    """(labels and values, why the engine that is asked for cannot run)."""
    import jax

    import equitangents
    from equitangents.errors import InvalidArgumentError
    from equitangents.kernels.engines import engine_description, engines

    about = {
        "equitangents": equitangents.__version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{package: version(package) for package in PACKAGES},
        **{package: _optional(package) for package in OPTIONAL},
        "devices": ", ".join(f"{d.platform}:{d.id} ({d.device_kind})" for d in jax.devices()),
    }
    for engine in engines():
        if why := engine.why_unavailable():
            about[f"{engine.name} engine"] = f"not available: {why}"
    try:
        return about | {"kernel engine": engine_description()}, None
    except InvalidArgumentError as error:
        return about | {"kernel engine": f"none: {error}"}, error


def _optional(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return f"not installed (extra {OPTIONAL[package]})"


def _print(rows: Any, header: Sequence[str] = ()) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*header) if header else Table.grid(padding=(0, 2))
    for row in rows:
        table.add_row(*row)
    Console().print(table)
