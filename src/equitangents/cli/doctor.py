"""`equitangents doctor`: what runs here, and whether it computes what it should."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from equitangents.cli.options import stages

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "optax", "scikit-learn")
OPTIONAL = {"zarr": "scale"}  # packages, and the extras that install them


@dataclass(frozen=True)
class Check:
    """A small computation with a known result: the largest relative error found, and the largest allowed."""

    name: str
    error: float
    allowed: float

    @property
    def passed(self) -> bool:
        """Whether the error is a number no larger than allowed."""
        return self.error <= self.allowed


def doctor(
    json_path: Annotated[Path | None, typer.Option("--json", help="Write all of it as JSON.")] = None,
) -> None:
    """Show versions, devices and the kernel engine, and test this installation on small kernels.

    Exit status 1 if a number of the self-test is wrong, 2 if the engine that EQUITANGENTS_ENGINE names cannot run here.
    """
    with stages() as stage:
        stage("asking engines and devices")
        about, error = _installation()
        stage("")
        _print([*about.items()])
        stage("computing small kernels, and comparing them with closed forms")
        checks = [check() for check in CHECKS] if error is None else []
    well = error is None and all(check.passed for check in checks)
    if json_path is not None:
        error_of = lambda check: check.error if math.isfinite(check.error) else str(check.error)
        rows = [vars(check) | {"error": error_of(check), "passed": check.passed} for check in checks]
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


def _relative_error(found: Any, expected: Any) -> float:
    """Largest deviation in units of the largest expected number; NaN if any is."""
    import numpy as np

    wanted = np.asarray(expected)
    return float(np.max(np.abs(np.asarray(found) - wanted)) / np.max(np.abs(wanted)))


def _closed_form(dtype: str, allowed: float) -> Check:
    """NNGP and NTK of Dense, Relu, Dense at inputs with angle θ and norm √d by the arc-cosine formulas.

    (sin θ + (π − θ) cos θ)/2π, and (π − θ) cos θ/2π more.
    """
    import numpy as np

    from equitangents import nn

    x = np.random.default_rng(0).standard_normal((6, 5))
    x *= np.sqrt(5) / np.linalg.norm(x, axis=1, keepdims=True)
    angle = np.arccos(np.clip(x @ x.T / 5, -1, 1))
    np.fill_diagonal(angle, 0.0)
    slope = (np.pi - angle) * np.cos(angle) / (2 * np.pi)
    nngp = np.sin(angle) / (2 * np.pi) + slope
    k = nn.Sequential(nn.Dense(8), nn.Relu(), nn.Dense(1)).kernel(x.astype(dtype))
    error = _relative_error(np.stack([k.nngp, k.ntk]), np.stack([nngp, nngp + slope]))
    return Check(f"ReLU kernels against their closed form, {dtype}", error, allowed)


CHECKS: tuple[Callable[[], Check], ...] = (
    lambda: _closed_form("float64", 1e-13),
    lambda: _closed_form("float32", 2e-6),
)
