"""Filters that turn by any angle: smooth functions of the plane, sampled at the pixels of a square.

    B(r, φ) = exp(−(r − R)²/2σ²) cos(mφ) or sin(mφ),   R = 0, 1, 2, … (½, 1½, … on squares of even side),   m ≤ R.

Turned by α they are B(r, φ − α), sampled anew, so that nothing is read between pixels. No wave on a ring is shorter
than 2π pixels: with m ≤ 2R trained networks lost more of their accuracy when images turned by 45°.
Source: Weiler & Cesa 2019, arXiv 1911.08251, section 2.5.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float

_WIDTH = 0.6  # σ, in pixels


def functions(side: int) -> list[tuple[float, int, float]]:
    """Each function's ring radius, its angular frequency, and the phase by which it is turned: 0 or π/2m."""
    radii = np.arange(side / 2 - 0.5, -0.25, -1.0)[::-1]
    return [
        (float(R), m, phase)
        for R in radii
        for m in range(int(R) + 1)
        for phase in ((0.0, np.pi / (2 * m)) if m else (0.0,))
    ]


@lru_cache(maxsize=16)
def turned(side: int, order: int) -> Float[np.ndarray, "order pixels functions"]:
    """Every function turned counter-clockwise by g·360°/order, at the pixels of a square, row-major.

    Scaled so that independent weights of variance 1 answer as independent pixels do: filters have squares that sum to
    at most side² on average, and a constant image, which only m = 0 sees, gives side² times its square.
    """
    at = np.arange(side) - (side - 1) / 2
    x, y = np.meshgrid(at, -at)
    r, angle = np.hypot(x, y).ravel(), np.arctan2(y, x).ravel()
    listed = functions(side)
    found = np.empty((order, side * side, len(listed)))
    means = sum(m == 0 for _, m, _ in listed)
    for b, (R, m, phase) in enumerate(listed):
        ring = np.exp(-((r - R) ** 2) / (2 * _WIDTH**2)) * ((m == 0) | (r > 0))  # at the centre there is no angle
        for g in range(order):
            found[g, :, b] = ring * np.cos(m * (angle - phase - 2 * np.pi * g / order))
        power = means * found[0, :, b].sum() ** 2 if m == 0 else len(listed) * (found[0, :, b] ** 2).sum()
        found[:, :, b] *= side / np.sqrt(power)
    return found
