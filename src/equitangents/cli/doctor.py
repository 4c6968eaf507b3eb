"""`equitangents doctor`: versions, devices and engines, and a self-test."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from equitangents.cli import options as cli

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "optax", "scikit-learn")
OPTIONAL = {"zarr": "scale"}  # packages, and their extras
ALLOWED = {"float64": 1e-13, "float32": 2e-6}  # relative errors of the self-test


@cli.command(json=cli.JSON)
def doctor(o: Any) -> None:
    """Show versions, devices and the kernel engine, and test this installation on small kernels.

    equitangents doctor

    equitangents doctor --json installation.json

    The exit status is 1 if the self-test finds a wrong number, and 2 if the engine that EQUITANGENTS_ENGINE names
    cannot run.
    """
    with cli.stages() as stage:
        stage("looking for engines and devices")
        about, error = _installation()
        stage("")
        _print([*about.items()])
        stage("comparing small kernels with closed forms")
        checks: list[dict[str, Any]] = []
        for dtype, allowed in ALLOWED.items() if error is None else ():
            off = closed_form_error(dtype)
            checks.append(
                {"name": f"ReLU kernels, {dtype}", "error": off, "allowed": allowed, "passed": off <= allowed}
            )
    well = error is None and all(check["passed"] for check in checks)
    if o.json is not None:
        finite = [c | {"error": c["error"] if math.isfinite(c["error"]) else str(c["error"])} for c in checks]
        result = {"installation": about, "checks": finite, "well": well}
        o.json.write_text(json.dumps(result, indent=1, ensure_ascii=False), "utf-8")
    if error is not None:
        raise error
    rows = [(c["name"], f"{c['error']:.1e}", f"{c['allowed']:.0e}", ("WRONG", "ok")[c["passed"]]) for c in checks]
    _print(rows, ("self-test", "error", "allowed", ""))
    if not well:
        typer.echo("equitangents: the self-test found wrong numbers; do not trust results from here", err=True)
        raise typer.Exit(1)


def _installation() -> tuple[dict[str, str], Exception | None]:
    """(labels and values, the error if the chosen engine cannot run)."""
    import jax

    import equitangents
    from equitangents.errors import InvalidArgumentError
    from equitangents.kernels.engines import engine_description, engines

    about = {
        "equitangents": equitangents.__version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{package: _version(package) for package in (*PACKAGES, *OPTIONAL)},
        "devices": ", ".join(f"{d.platform}:{d.id} ({d.device_kind})" for d in jax.devices()),
    }
    for engine in engines():
        if why := engine.why_unavailable():
            about[f"{engine.name} engine"] = f"not available: {why}"
    try:
        return about | {"kernel engine": engine_description()}, None
    except InvalidArgumentError as error:
        return about | {"kernel engine": f"none: {error}"}, error


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return f"not installed (extra {OPTIONAL[package]})"


def _print(rows: Sequence[Sequence[str]], header: Sequence[str] = ("", "")) -> None:
    from equitangents.report.render import Table, text_of

    typer.echo(text_of(Table("", header, rows, text=True)), nl=False)


def closed_form_error(dtype: str) -> float:
    """Largest relative error of NNGP and NTK of Dense, Relu, Dense, NaN if any is, at inputs with norm √d and angles θ.

    They are (sin θ + (π − θ) cos θ)/2π, and (π − θ) cos θ/2π more, by the arc-cosine formulas.
    """
    import numpy as np

    from equitangents import nn

    x = np.random.default_rng(0).standard_normal((6, 5))
    x *= np.sqrt(5) / np.linalg.norm(x, axis=1, keepdims=True)
    angle = np.arccos(np.clip(x @ x.T / 5, -1, 1))
    np.fill_diagonal(angle, 0.0)
    slope = (np.pi - angle) * np.cos(angle) / (2 * np.pi)
    nngp = np.sin(angle) / (2 * np.pi) + slope
    expected = np.stack([nngp, nngp + slope])
    k = nn.Sequential(nn.Dense(8), nn.Relu(), nn.Dense(1)).kernel(x.astype(dtype))
    return float(np.max(np.abs(np.stack([k.nngp, k.ntk]) - expected)) / np.max(expected))
