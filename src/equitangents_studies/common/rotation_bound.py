"""Distance κ of a finite subgroup from SO(2) or SO(3), and the bound on the change of predictions between its elements.

Lemma 6.2 of arXiv 2403.03103: |f̄(ρ(g)x) − f̄(x)| ≤ κ C(x) for augmentation by a subgroup B, with κ = max_g min_{b ∈ B}
‖ρ(g) − ρ(b)‖ (operator norm). As f̄(ρ(b)x) = f̄(x), the mean value theorem on the chord from ρ(b)x to ρ(g)x gives C(x)
= |x| · max ‖∇f̄‖, the maximum over all chords. Where outputs rotate by ρ_Y with the same κ, |f̄(ρ(g)x) − ρ_Y(g) f̄(x)|
≤ κ (C(x) + |f̄(x)|).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from equitangents.actions import Action

_STEP = 1e-5  # of the central differences, relative to |x|


def representation(action: Action, shape: tuple[int, ...]) -> Float[np.ndarray, "order d d"]:
    """Matrices of a linear action on signals of `shape`."""
    d = int(np.prod(shape))
    images = np.asarray(action.orbit(np.eye(d).reshape(d, *shape)))
    return np.swapaxes(images.reshape(action.group.order, d, d), 1, 2)


def coarseness(matrices: Float[np.ndarray, "order d d"], subgroup: int) -> float:
    """κ of the subgroup C_`subgroup` in the cyclic group of all `matrices`."""
    order = len(matrices)
    step = order // subgroup
    distances = [0.0]
    for g in range(order):
        below = g // step * step
        near = [np.linalg.norm(matrices[g] - matrices[b % order], ord=2) for b in (below, below + step)]
        distances.append(float(np.min(near)))
    return float(np.max(distances))  # NaN if any is


def gradient_norms(f: Callable[[np.ndarray], np.ndarray], x: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "... n"]:
    """Largest singular value of f's Jacobian at every x, by central differences; f gives (..., n, outputs)."""
    d, n = int(np.prod(x.shape[1:])), len(x)
    size = _STEP * np.sqrt((x.reshape(n, d) ** 2).sum(axis=1))
    moves = np.eye(d)[None] * size[:, None, None]
    ends = [f((x.reshape(n, 1, d) + sign * moves).reshape(n * d, *x.shape[1:])) for sign in (1, -1)]
    difference = (ends[0] - ends[1]).reshape(*ends[0].shape[:-2], n, d, ends[0].shape[-1])
    return np.linalg.norm(difference, ord=2, axis=(-2, -1)) / (2 * size)


def largest_gradients(
    f: Callable[[np.ndarray], np.ndarray],
    rotate: Callable[[np.ndarray, float], np.ndarray],
    x: Float[np.ndarray, "n ..."],
    subgroup: int,
    points: int,
) -> Float[np.ndarray, "... n"]:
    """Largest ‖∇f̄‖ on a grid of `points`² places on the chords from x to ρ(α)x, |α| ≤ π/`subgroup`.

    f̄ is invariant under the subgroup, so these chords suffice.
    """
    angles = np.pi / subgroup * np.linspace(-1, 1, points)
    return np.max([gradients_on_chords(f, x, rotate(x, angle), points) for angle in angles], axis=0)


def gradients_on_chords(
    f: Callable[[np.ndarray], np.ndarray], x: Float[np.ndarray, "n ..."], y: Float[np.ndarray, "n ..."], points: int
) -> Float[np.ndarray, "... n"]:
    """Largest ‖∇f̄‖ at `points` places on the chord from every x to its y."""
    return np.max([gradient_norms(f, (1 - part) * x + part * y) for part in np.linspace(0, 1, points)], axis=0)


def covering_angle(rotations: Float[np.ndarray, "order 3 3"]) -> float:
    """The largest angle that any rotation is from the nearest of a finite group's; the group spans all directions.

    On the sphere of unit quaternions, the largest cap that holds none of ±q lies over a facet of their convex hull, at
    whose distance d from the centre its angle is arccos d; the rotation angle is twice that.
    """
    quaternions = Rotation.from_matrix(rotations).as_quat()
    distances = -ConvexHull(np.concatenate([quaternions, -quaternions])).equations[:, -1]
    return float(2 * np.arccos(distances.min()))


def to_nearest(
    group: Float[np.ndarray, "order 3 3"], rotations: Float[np.ndarray, "rotations 3 3"]
) -> Float[np.ndarray, "rotations 3 3"]:
    """b⁻¹R, where b is the element of the group nearest to R."""
    nearest = np.einsum("bij,rij->rb", group, rotations).argmax(axis=1)
    return np.einsum("rji,rjk->rik", group[nearest], rotations)
