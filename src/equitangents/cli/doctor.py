"""`equitangents doctor`: what runs here, and whether it computes what it should."""

from __future__ import annotations

import platform
from importlib.metadata import version

import typer

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "optax", "orbax-checkpoint", "scikit-learn")


def doctor() -> None:
    """Show versions, devices and the kernel engine, and test this installation on small kernels.

    Exit status 1 if a number of the self-test is wrong, 2 if the engine that EQUITANGENTS_ENGINE names cannot run here.
    """
    import jax
    from rich.console import Console
    from rich.table import Table

    import equitangents
    from equitangents.cli.self_test import run_checks
    from equitangents.errors import InvalidArgumentError
    from equitangents.kernels.engines import engine_description, engines, finding

    about = Table.grid(padding=(0, 2))
    about.add_row("equitangents", equitangents.__version__)
    about.add_row("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in PACKAGES:
        about.add_row(package, version(package))
    about.add_row("devices", ", ".join(f"{d.platform}:{d.id} ({d.device_kind})" for d in jax.devices()))
    for engine in engines():
        if engine.why_unavailable() is None and (found := finding(engine, again=True)) is not None:
            about.add_row(f"test of {engine.name}", str(found))
    console = Console()
    try:
        about.add_row("kernel engine", engine_description())
    except InvalidArgumentError as error:
        about.add_row("kernel engine", f"none: {error}")
        console.print(about)
        raise
    console.print(about)

    checks = run_checks()
    table = Table("self-test", "error", "allowed", "")
    for check in checks:
        table.add_row(check.name, f"{check.error:.1e}", f"{check.allowed:.0e}", "ok" if check.passed else "WRONG")

    console.print(table)
    if not all(check.passed for check in checks):
        typer.echo("equitangents: the self-test found wrong numbers; do not trust results from here", err=True)
        raise typer.Exit(1)
