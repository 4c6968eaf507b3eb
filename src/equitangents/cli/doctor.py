"""`equitangents doctor`: what runs here, and whether it computes what it should."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "optax", "scikit-learn")
OPTIONAL = {"zarr": "scale"}  # packages, and the extras that install them


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="All of it as one object in JSON.")] = False,
) -> None:
    """Show versions, devices and the kernel engine, and test this installation on small kernels.

    Exit status 1 if a number of the self-test is wrong, 2 if the engine that EQUITANGENTS_ENGINE names cannot run here.
    """
    from equitangents.cli.common import stages

    with stages() as stage:
        _examine(as_json, stage)


def _optional(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return f"not installed (extra {OPTIONAL[package]})"


def _examine(as_json: bool, stage: Callable[[str], None]) -> None:
    """Show what is found; `stage` says what is done meanwhile."""
    stage("importing JAX")
    import jax
    from rich.table import Table

    import equitangents
    from equitangents.cli.self_test import run_checks
    from equitangents.errors import InvalidArgumentError
    from equitangents.kernels.engines import engine_description, engines, fault

    stage("asking engines and devices")
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
        elif engine.untried():
            wrong = fault(engine)
            about[f"test of {engine.name}"] = f"failed: {wrong}" if wrong else "passed"
    try:
        about["kernel engine"] = engine_description()
    except InvalidArgumentError as error:
        about["kernel engine"] = f"none: {error}"
        _print({"installation": about, "checks": [], "well": False} if as_json else _grid(about))
        raise
    if not as_json:
        stage("")
        _print(_grid(about))
    stage("computing small kernels, and comparing them with closed forms")
    checks = run_checks()
    stage("")
    well = all(check.passed for check in checks)
    if as_json:
        told = [
            {
                "name": check.name,
                "error": check.error if math.isfinite(check.error) else str(check.error),
                "allowed": check.allowed,
                "passed": check.passed,
            }
            for check in checks
        ]
        _print({"installation": about, "checks": told, "well": well})
    else:
        table = Table("self-test", "error", "allowed", "")
        for check in checks:
            table.add_row(check.name, f"{check.error:.1e}", f"{check.allowed:.0e}", "ok" if check.passed else "WRONG")
        _print(table)
    if not well:
        typer.echo("equitangents: the self-test found wrong numbers; do not trust results from here", err=True)
        raise typer.Exit(1)


def _grid(about: dict[str, str]) -> Any:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for name, value in about.items():
        grid.add_row(name, value)
    return grid


def _print(what: Any) -> None:
    """An object as JSON, a table as it is drawn."""
    from rich.console import Console

    if isinstance(what, dict):
        typer.echo(json.dumps(what, indent=1, ensure_ascii=False))
    else:
        Console().print(what)
