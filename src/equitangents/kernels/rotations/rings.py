"""Correlation over all rotations at once: K(Q) = c'ᵀ D(Q) c / (4πC) at the nodes of a quadrature, ring after ring.

With Euler angles Q = R_z(α) R_y(β) R_z(γ) the azimuths separate: for each β, K is a trigonometric polynomial in α and γ
whose coefficients are sums over l of d^l(β) times products of coefficients; two small Fourier transforms evaluate it. A
ring is what shares one β. Cost per pair: about 4 B⁴ + nodes × B multiplications, for any number of channels.

Means over the group that are to keep kernels symmetric are over rotations closed under inversion (`closed_nodes`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equitangents._types import ArrayLike
from equitangents.groups import MatrixGroup
from equitangents.groups.rotation_group import RotationGroup, euler_grid, from_euler_angles
from equitangents.sphere.transforms import wigner

_HIGHEST = jax.lax.Precision.HIGHEST
_LISTED = 64  # nodes of a finite group in one ring


class Rings(NamedTuple):
    """Arrays of a quadrature; those of `scanned` have one entry a ring along their first axis.

    `values(products, part)` are the correlations at the nodes of a ring.
    """

    fixed: dict[str, Any]
    scanned: dict[str, Any]


def products(a: ArrayLike, b: ArrayLike, bandlimit: int) -> list[Any]:
    """Σ_c b_{m'c} a_{mc} for each degree l ≥ 1, (2l + 1, 2l + 1, *pairs), rows m' and columns m.

    a, b: (B², C, *pairs), where the pairs' axes broadcast.
    """
    found = []
    for l in range(1, bandlimit):
        here = slice(l * l, (l + 1) ** 2)
        found.append(jnp.sum(b[here, None] * a[None, here], axis=2))
    return found


def block_products(a: ArrayLike, b: ArrayLike, bandlimit: int) -> list[Any]:
    """Products between all of a, (B², C, N1), and all of b, (B², C, N2): (2l + 1, 2l + 1, N1·N2)."""
    found = []
    for l in range(1, bandlimit):
        here = slice(l * l, (l + 1) ** 2)
        m = jnp.einsum("ncj,mci->nmij", b[here], a[here], precision=_HIGHEST)
        found.append(m.reshape((*m.shape[:2], -1)))
    return found


@lru_cache(maxsize=32)
def euler_rings(bandlimit: int, resolution: int, reflections: bool) -> Rings:
    """Rings of SO(3) or O(3), as NumPy arrays in float64; reflections are rings of their own."""
    azimuths, cosine, weights = euler_grid(resolution)
    L = bandlimit - 1
    k = np.arange(-L, L + 1)
    trigonometric = np.where(k >= 0, np.cos(np.outer(azimuths, k)), np.sin(np.outer(azimuths, -k)))
    angles = np.stack([0 * cosine, np.arccos(cosine), 0 * cosine], axis=-1)
    d = wigner(from_euler_angles(angles), bandlimit)
    side = 2 * L + 1
    own = np.zeros((resolution, side, side, bandlimit))
    flipped = np.zeros_like(own)
    row, column = np.meshgrid(k, k, indexing="ij")
    for l in range(1, bandlimit):
        r, c = (x[(np.abs(row) <= l) & (np.abs(column) <= l)].reshape(2 * l + 1, -1) for x in (row, column))
        inner = slice(L - l, L + l + 1)
        own[:, inner, inner, l] = np.where(c >= 0, 1, -1) * d[l][:, l + np.abs(r), l + np.abs(c)]
        both = (r != 0) & (c != 0)
        flipped[:, inner, inner, l] = np.where(r > 0, 1, -1) * np.where(both, d[l][:, l - np.abs(r), l - np.abs(c)], 0)
    mixing = np.concatenate([own[..., 1:], flipped[..., 1:]], axis=-1).reshape(resolution, side * side, -1)
    weights = np.repeat(weights[:, None] / len(azimuths) ** 2, len(azimuths) ** 2, axis=1)
    if reflections:
        parity = np.tile((-1.0) ** np.arange(1, bandlimit), 2)
        mixing, weights = np.concatenate([mixing, mixing * parity]), np.concatenate([weights, weights]) / 2
    return Rings({"azimuths": trigonometric}, {"mixing": mixing, "weights": weights})


@lru_cache(maxsize=32)
def listed_rings(bandlimit: int, group: MatrixGroup) -> Rings:
    """A finite group of rotations, its elements in rings of up to 64; the last is filled up with weights of zero."""
    rings = -(-group.order // _LISTED)
    size = -(-group.order // rings)
    blocks = wigner(group.matrices, bandlimit)
    flat = np.concatenate([np.zeros((group.order, 0)), *(d.reshape(group.order, -1) for d in blocks[1:])], axis=1)
    matrices = np.zeros((rings * size, flat.shape[1]))
    matrices[: group.order] = flat
    weights = np.zeros(rings * size)
    weights[: group.order] = group.weights
    return Rings({}, {"matrices": matrices.reshape(rings, size, -1), "weights": weights.reshape(rings, size)})


def rings_of(bandlimit: int, group: RotationGroup | MatrixGroup, resolution: int) -> Rings:
    """The rings of a group; `resolution` is for those that are sampled."""
    if isinstance(group, RotationGroup):
        return euler_rings(bandlimit, resolution, group.reflections)
    return listed_rings(bandlimit, group)


def prepared(rings: Rings, m: list[Any]) -> tuple[Any, dict[str, Any]]:
    """(what all rings share, what each ring needs of the products `m`, (2l + 1, 2l + 1, P)); the latter is scanned."""
    if not m:
        return None, {"weights": rings.scanned["weights"]}
    pairs = m[0].shape[-1]
    if "matrices" in rings.scanned:
        return jnp.concatenate([x.reshape(-1, pairs) for x in m]), rings.scanned
    L = len(m)
    padded = jnp.stack([jnp.pad(x, ((L - l, L - l), (L - l, L - l), (0, 0))) for l, x in enumerate(m, start=1)], axis=2)
    both = jnp.concatenate([padded, padded[::-1, ::-1]], axis=2).reshape((2 * L + 1) ** 2, 2 * L, pairs)
    mixed = jnp.einsum("rks,ksp->rkp", rings.scanned["mixing"], both, precision=_HIGHEST)
    return None, {"mixed": mixed, "weights": rings.scanned["weights"]}


def ring_values(rings: Rings, shared: Any, ring: dict[str, Any], pairs: int) -> Any:
    """Σ_l≥1 c'ᵀ D(Q) c at the nodes of one ring, (nodes, P)."""
    if "mixed" in ring:
        t = rings.fixed["azimuths"]
        n, side = t.shape
        x = jnp.matmul(t, ring["mixed"].reshape(side, side * pairs), precision=_HIGHEST).reshape(n, side, pairs)
        return jnp.einsum("gk,akp->agp", t, x, precision=_HIGHEST).reshape(n * n, pairs)
    if "matrices" in ring:
        return jnp.matmul(ring["matrices"], shared, precision=_HIGHEST)
    return jnp.zeros((ring["weights"].shape[0], pairs), ring["weights"].dtype)


def node_values(rings: Rings, a: np.ndarray, b: np.ndarray, bandlimit: int) -> tuple[np.ndarray, np.ndarray]:
    """(Σ_l≥1 c'ᵀ D(Q) c at all nodes, (nodes, P), their weights), in NumPy: for few pairs at changing resolutions."""
    weights = rings.scanned["weights"].ravel()
    pairs = a.shape[-1]
    if bandlimit == 1:
        return np.zeros((len(weights), pairs)), weights
    parts = [slice(l * l, (l + 1) ** 2) for l in range(1, bandlimit)]
    m = [np.einsum("ncp,mcp->nmp", b[here], a[here]) for here in parts]
    if "matrices" in rings.scanned:
        flat = np.concatenate([x.reshape(-1, pairs) for x in m])
        return rings.scanned["matrices"].reshape(len(weights), -1) @ flat, weights
    L = len(m)
    padded = np.stack([np.pad(x, ((L - l, L - l), (L - l, L - l), (0, 0))) for l, x in enumerate(m, start=1)], axis=2)
    both = np.concatenate([padded, padded[::-1, ::-1]], axis=2).reshape((2 * L + 1) ** 2, 2 * L, pairs)
    mixed = np.einsum("rks,ksp->rkp", rings.scanned["mixing"], both, optimize=True)
    t = rings.fixed["azimuths"]
    mixed = mixed.reshape(-1, 2 * L + 1, 2 * L + 1, pairs)
    return np.einsum("ak,gj,rkjp->ragp", t, t, mixed, optimize=True).reshape(-1, pairs), weights


class ClosedNodes(NamedTuple):
    """Rotations, their weights, which sum to 1, and the number of each one's inverse."""

    turns: Float[np.ndarray, "nodes 3 3"]
    weights: Float[np.ndarray, " nodes"]
    inverses: Int[np.ndarray, " nodes"]


@lru_cache(maxsize=16)
def closed_nodes(group: RotationGroup | MatrixGroup, resolution: int) -> ClosedNodes:
    """All elements of a finite group; of SO(3) and O(3) the Euler grid with γ = π − α for the nodes of α."""
    if isinstance(group, MatrixGroup):
        turns, weights = np.asarray(group.matrices, np.float64), np.asarray(group.weights, np.float64)
        return ClosedNodes(turns, weights, group.inverses)
    azimuth, cosine, weight = euler_grid(resolution)
    alpha, beta, gamma = np.meshgrid(azimuth, np.arccos(cosine), np.pi - azimuth, indexing="ij")
    turns = from_euler_angles(np.stack([alpha, beta, gamma], axis=-1).reshape(-1, 3))
    weights = np.broadcast_to(weight[:, None] / len(azimuth) ** 2, alpha.shape).ravel()
    inverses = np.arange(len(turns)).reshape(alpha.shape).transpose(2, 1, 0).ravel()
    if group.reflections:
        turns, weights = np.concatenate([turns, -turns]), np.concatenate([weights, weights]) / 2
        inverses = np.concatenate([inverses, len(inverses) + inverses])
    return ClosedNodes(turns, weights, inverses)
