"""Kernels on rotations by brute force: points of the sphere turned by matrices, kernels summed over quadratures.

Harmonics are built from SciPy's Legendre functions; there are no Wigner matrices and no transforms.
"""

from __future__ import annotations

import numpy as np
from scipy.special import lpmv, poch

from oracles import literal_duals


def harmonics(x, bandlimit):
    """Real orthonormal harmonics at unit vectors (..., 3), index l² + l + m."""
    theta, phi = np.arccos(np.clip(x[..., 2], -1, 1)), np.arctan2(x[..., 1], x[..., 0])
    out = np.empty((*theta.shape, bandlimit**2))
    for l in range(bandlimit):
        for m in range(l + 1):
            norm = np.sqrt((2 * l + 1) / (4 * np.pi * poch(l - m + 1, 2 * m)))
            y = (-1) ** m * norm * lpmv(m, l, np.cos(theta)) * np.exp(1j * m * phi)
            out[..., l * l + l + m] = y.real * (np.sqrt(2) if m else 1)
            if m:
                out[..., l * l + l - m] = np.sqrt(2) * y.imag
    return out


def sphere_rule(n):
    """Points (S, 3) and weights that sum to 1: n Gauss–Legendre rings of 2n azimuths, exact to degree 2n - 1."""
    z, w = np.polynomial.legendre.leggauss(n)
    phi = (np.arange(2 * n) + 0.3) * np.pi / n
    s = np.sqrt(1 - z**2)
    points = np.stack([np.outer(s, np.cos(phi)), np.outer(s, np.sin(phi)), np.repeat(z[:, None], 2 * n, 1)], -1)
    return points.reshape(-1, 3), np.repeat(w / (4 * n), 2 * n)


def rotation_rule(n):
    """Matrices and weights that sum to 1: turns about the pole, then tilts to the points of a sphere rule."""
    points, weights = sphere_rule(n)
    phi, theta = np.arctan2(points[:, 1], points[:, 0]), np.arccos(points[:, 2])
    turns = (np.arange(2 * n) + 0.7) * np.pi / n

    def about_z(t):
        c, s, o = np.cos(t), np.sin(t), 0 * t
        return np.array([[c, -s, o], [s, c, o], [o, o, o + 1]]).transpose(2, 0, 1)

    c, s, o = np.cos(theta), np.sin(theta), 0 * theta
    tilt = np.array([[c, o, s], [o, o + 1, o], [-s, o, c]]).transpose(2, 0, 1)
    R = (about_z(phi) @ tilt)[:, None] @ about_z(turns)[None]
    return R.reshape(-1, 3, 3), np.repeat(weights / len(turns), len(turns))


def kernels(c1, c2, layers, rotations, weights, last):
    """(NNGP, NTK) of two signals (B², C), pooled over `rotations`: one number for each, all of them at once.

    layers: (W_std, b_std, nonlinearity); last: (W_std, b_std) of the dense layer after pooling.
    """
    bandlimit = round(len(c1) ** 0.5)
    points, point_weights = sphere_rule(bandlimit)
    f = harmonics(points, bandlimit) @ c1
    d = np.concatenate(
        [
            np.einsum(
                "s,rs->r", point_weights, ((f - harmonics(points @ R.transpose(0, 2, 1), bandlimit) @ c2) ** 2).mean(-1)
            )
            for R in np.array_split(rotations, -(-len(rotations) // 512))
        ]
    )
    q1 = point_weights @ (f * f).mean(1)
    q2 = point_weights @ ((harmonics(points, bandlimit) @ c2) ** 2).mean(1)
    k, t = (q1 + q2 - d) / 2, 0 * d
    for W, b, name in layers:
        q1, q2, k, d = W**2 * q1 + b**2, W**2 * q2 + b**2, W**2 * k + b**2, W**2 * d
        t = k + W**2 * t
        k, slope, d = literal_duals.dual(name, q1, q2, k, d)
        t = t * slope
        q1, q2 = (literal_duals.dual(name, q, q, q, 0.0)[0] for q in (q1, q2))
    W, b = last
    nngp = W**2 * (weights @ k) + b**2
    return nngp, nngp + W**2 * (weights @ t)
