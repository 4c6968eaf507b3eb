"""Fields on the sphere as the CPU engine runs them: the plan of a program, and its signals at the sphere's points."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents.groups.rotation_group import RotationGroup, euler_grid, from_euler_angles
from equitangents.kernels.engines.cpu import SphereMean, SpherePlan, Turns, ZonalMean
from equitangents.kernels.program import FrozenArray
from equitangents.kernels.rotations.points import sphere_resolution
from equitangents.kernels.rotations.program import RotationProgram, Zonal
from equitangents.sphere import gauss_legendre
from equitangents.sphere.harmonics import polynomials
from equitangents.sphere.wigner import wigner


@lru_cache(maxsize=16)
def sphere_plan(program: RotationProgram, resolution: int) -> SpherePlan:
    """What the engine runs for a program on fields over the sphere."""
    s = sphere_resolution(program.bandlimit, resolution)
    grid = gauss_legendre(s)
    ops = tuple(_windowed(op, s) for op in program.sphere if not _is_mean(op))
    windows = [op.coefficients.array.size for op in ops if isinstance(op, ZonalMean)]
    degrees = max([program.bandlimit, *windows])
    northern = (s + 1) // 2
    return SpherePlan(
        sphere=(*ops, SphereMean(FrozenArray(grid.weights.ravel() / (4 * np.pi)))),
        after=program.field,
        vector=program.vector,
        bandlimit=program.bandlimit,
        rings=s,
        legendre=FrozenArray(_legendre(grid.points[:northern, 0], degrees)),
        points=FrozenArray(grid.ring_weights[:northern]),
        turns=_turns(program, resolution, degrees),
        single=program.readout == "flatten",
    )


def values(program: RotationProgram, resolution: int, x: Any) -> Any:
    """Signals (N, B², C) at the sphere's points, (N, points, C)."""
    basis = _basis(program.bandlimit, sphere_resolution(program.bandlimit, resolution)).astype(x.dtype)
    if isinstance(x, jax.Array):
        return jnp.einsum("pk,nkc->npc", basis, x, precision=jax.lax.Precision.HIGHEST)
    return np.matmul(basis, x)


@lru_cache(maxsize=4)
def _basis(bandlimit: int, s: int) -> np.ndarray:
    return polynomials(gauss_legendre(s).points.reshape(-1, 3), bandlimit)


def _is_mean(op: Any) -> bool:
    return isinstance(op, Zonal) and op.is_full


def _windowed(op: Any, s: int) -> Any:
    return ZonalMean(FrozenArray(op.coefficients.array[:s])) if isinstance(op, Zonal) else op


def _legendre(x: np.ndarray, degrees: int) -> np.ndarray:
    """(degrees, degrees, points): Y_lm for 0 ≤ m ≤ l at points of azimuth 0."""
    harmonics = polynomials(x, degrees)
    found = np.zeros((degrees, degrees, len(x)))
    for l in range(degrees):
        found[l, : l + 1] = harmonics[:, l * l + l : (l + 1) ** 2].T
    return found


def _turns(program: RotationProgram, resolution: int, degrees: int) -> Turns:
    """All rotations of the quadrature; for a flattening readout the identity."""
    azimuths, cosine, weights, signs = np.zeros(1), np.ones(1), np.ones(1), 1
    if program.readout == "pool":
        assert isinstance(program.group, RotationGroup)
        signs = 2 if program.group.reflections else 1
        azimuths, cosine, weights = euler_grid(resolution)
        weights = weights / (len(azimuths) ** 2 * signs)
    back = from_euler_angles(np.stack([0 * cosine, -np.arccos(cosine), 0 * cosine], axis=-1))
    blocks = []
    for l, block in enumerate(wigner(back, degrees)):
        orders = np.arange(l + 1)
        for kept in (l + orders, l - orders[1:]):
            blocks.append(block[:, kept][:, :, kept].reshape(len(cosine), -1))
    return Turns(FrozenArray(azimuths), FrozenArray(np.concatenate(blocks, axis=1)), FrozenArray(weights), signs)
