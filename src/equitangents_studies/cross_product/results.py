"""Violations of equivariance, in closed form and of trained members, and shares that averaging leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents.statistics import Estimate, bootstrap, surviving_share


@dataclass(frozen=True, eq=False)
class Results:
    """By group: `outputs[group][set]` (T, M, |G|, N, 3) of members, turned back: ρ_Y(g)⁻¹ f(gx), equal over g where f
    is equivariant; `mean_error[group]` and `covariance_error[group]` (T, sets), largest relative violation in closed
    form; `between[group]` (T, N), mean square violation under random rotations; `truth_error[group]` (T,);
    `worst[group]` (T, N), the largest violation of those rotations, and `bound[group]` (T, N), κ (C(x) + |μ(x)|), both
    relative to the root mean square of μ. `shift[group]` (functions,): how far functions of the kernels are from
    commuting with the group's permutations of the training set; `shuffled[group]`: with another permutation.
    """

    times: np.ndarray
    outputs: dict[str, dict[str, np.ndarray]]
    mean_error: dict[str, np.ndarray]
    covariance_error: dict[str, np.ndarray]
    between: dict[str, np.ndarray]
    truth_error: dict[str, np.ndarray]
    bound: dict[str, np.ndarray]
    worst: dict[str, np.ndarray]
    shift: dict[str, np.ndarray]
    shuffled: dict[str, np.ndarray]


def mean_share(results: Results, name: str, key: str, time: int, level: float = 0.95) -> Estimate:
    """Share of the members' mean square violation that averaging infinitely many would leave."""
    y = results.outputs[name][key][time].astype(np.float64)
    return surviving_share((y[:, 1:] - y[:, :1]).reshape(len(y), -1), confidence=level)


def covariance_share(results: Results, name: str, key: str, time: int, level: float = 0.95) -> Estimate:
    """Share of the second moments' mean square violation that averaging infinitely many would leave.

    They are f(gx) f(gx′)ᵀ, turned back, x′ = x and x′ the next input.
    """
    y = results.outputs[name][key][time].astype(np.float64)
    parts = []
    for shift in (0, 1):
        moments = np.einsum("mgni,mgnj->mgnij", y, np.roll(y, shift, axis=2))
        parts.append((moments[:, 1:] - moments[:, :1]).reshape(len(y), -1))
    return surviving_share(np.concatenate(parts, axis=1), confidence=level)


def member_violations(results: Results, name: str, key: str, time: int) -> np.ndarray:
    """Root mean square violation of every member, relative to its outputs, (M,)."""
    y = results.outputs[name][key][time].astype(np.float64)
    off = ((y[:, 1:] - y[:, :1]) ** 2).sum(axis=-1).mean(axis=(1, 2))
    return np.sqrt(off / (y**2).sum(axis=-1).mean(axis=(1, 2)))


def gain(results: Results, finer: str, coarser: str, level: float = 0.95) -> Estimate:
    """Violation under random rotations after augmentation with one group over that with another, at the last step."""
    both = np.stack([results.between[finer][-1], results.between[coarser][-1]], axis=1)
    return bootstrap(both, lambda m: np.sqrt(m[:, 0] / m[:, 1]), confidence=level)
