"""Exact solutions of the Navier–Stokes equations on a torus: vortices that a uniform stream carries along.

Let v = ∇⊥ψ, ψ a sum of waves that all have the length |k|² = q. Then (v·∇)v is a gradient, and
u(x, t) = U + e^{−νqt} v(x − Ut) solves ∂u/∂t + (u·∇)u = −∇p + νΔu, ∇·u = 0 (Taylor 1923, in a moving frame).
Turns and reflections of the plane carry solutions to solutions, and so does the map from u(·, 0) to u(·, T).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

VISCOSITY = 0.3


class Flows(NamedTuple):
    """Velocities (N, H, W, 2), components along rows and columns: `before`, and `after` the time asked for."""

    before: Float[np.ndarray, "n height width 2"]
    after: Float[np.ndarray, "n height width 2"]


def waves(q: int) -> Float[np.ndarray, "waves 2"]:
    """The wave vectors with |k|² = q, one of each pair ±k.

    >>> waves(5).astype(int).tolist()
    [[1, -2], [1, 2], [2, -1], [2, 1]]
    """
    most = int(q**0.5)
    every = [(a, b) for a in range(most + 1) for b in range(-most, most + 1) if a * a + b * b == q]
    return np.array([k for k in every if k[0] > 0 or k[1] > 0], float).reshape(-1, 2)


def flows(count: int, pixels: int, q: int, time: float, stream: float, seed: tuple[int, ...]) -> Flows:
    """`count` flows on a torus of side 2π, on a grid of `pixels` × `pixels`.

    Amplitudes of waves are Gaussian, so that a vortex turns at about unit speed; streams are uniform over the disc of
    radius `stream`.
    """
    rng = np.random.default_rng(seed)
    k = waves(q)
    amplitudes = rng.standard_normal((count, len(k))) / np.sqrt(len(k) / 2)
    phases = rng.uniform(0, 2 * np.pi, (count, len(k)))
    angle, speed = rng.uniform(0, 2 * np.pi, count), stream * np.sqrt(rng.uniform(0, 1, count))
    U = speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return Flows(velocity(U, k, amplitudes, phases, pixels, 0.0), velocity(U, k, amplitudes, phases, pixels, time))


def velocity(
    U: Float[np.ndarray, "n 2"],
    k: Float[np.ndarray, "waves 2"],
    amplitudes: Float[np.ndarray, "n waves"],
    phases: Float[np.ndarray, "n waves"],
    pixels: int,
    time: float,
) -> Float[np.ndarray, "n pixels pixels 2"]:
    """u(x, time) on the grid, for streams U and waves k."""
    x = np.indices((pixels, pixels)) * 2 * np.pi / pixels
    angle = np.einsum("wa,aij->wij", k, x)[None] + (phases - time * U @ k.T)[:, :, None, None]
    q = float((k[0] ** 2).sum())
    across = np.stack([k[:, 1], -k[:, 0]], axis=-1) / np.sqrt(q)  # perpendicular to k: free of divergence
    v = np.einsum("nwij,wa->nija", amplitudes[:, :, None, None] * np.cos(angle), across)
    found: np.ndarray = U[:, None, None] + np.exp(-VISCOSITY * q * time) * v
    return found
