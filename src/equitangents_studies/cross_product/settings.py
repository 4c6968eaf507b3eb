"""What the cross-product study may be told, its presets and checks.

The permutation shift of arXiv 2403.03103: turning a fully augmented training set X only permutes it.

ρ(g)X = Π(g)X, so that kernels with Θ(ρ(g)x, ρ(g)x′) = Θ(x, x′) have Π(g)F = FΠ(g) for every F made of Θ, K and their
inverses on X; the mean and the covariance of the infinitely wide ensemble are such F between kernels to X.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from equitangents import groups
from equitangents.groups import Group
from equitangents.statistics import Estimate, bootstrap, surviving_share
from equitangents_studies.framework.measured import Keyed, Measured, by
from equitangents_studies.framework.settings import at_least, check, presets

SETS = ("training", "test", "far")
SOLIDS = {"T": groups.tetrahedral, "O": groups.octahedral, "I": groups.icosahedral}
TITLES = {"none": "no augmentation", "T": "tetrahedral", "O": "octahedral", "I": "icosahedral"}


@dataclass(frozen=True)
class Settings:
    """`groups` are solved at infinite width, `trained_groups` trained too: T, O or I. Vectors have independent normal
    components, those of the far set `stretch` times as large. `rotations` random ones test what lies between the
    group's, and `points` places on the way to each are searched for the largest gradient. `rate` is a fraction of the
    largest stable learning rate. Sizes are our choice.
    """

    groups: tuple[str, ...] = ("T", "O", "I")
    trained_groups: tuple[str, ...] = ("T", "O")
    train_pairs: int = 16
    test_pairs: int = 12
    stretch: float = 3.0
    rotations: int = 64
    points: int = 4
    members: int = 300
    width: int = 64
    hidden_layers: int = 2
    steps: tuple[int, ...] = (0, 1, 3, 10, 30, 100)
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.3
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="trained_groups=T,O,I train_pairs=24 test_pairs=24 members=400 width=128 steps=0,1,3,10,30,100,300",
    paper="trained_groups=T,O,I train_pairs=64 test_pairs=64 members=1000 width=512 steps=0,1,3,10,30,100,300,1000",
)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Groups that are known, members and pairs enough for an interval; the study reads no data."""
    for name, chosen in (("groups", settings.groups), ("trained_groups", settings.trained_groups)):
        check(set(chosen) <= set(SOLIDS) and len(chosen) > 0, name, chosen, "some of T, O, I")
    check(set(settings.trained_groups) <= set(settings.groups), "trained_groups", settings.trained_groups, "in groups")
    at_least(settings, members=3, train_pairs=2, test_pairs=2)


FUNCTIONS = ("(1 − ηΘ/N)^t", "Θ⁻¹(1 − (1 − ηΘ/N)^t)", "Θ⁻¹K", "K⁻¹Θ", "ΘK⁻¹Θ⁻¹", "middle of Σ_t")


def functions_of_kernels(
    ntk: Float[np.ndarray, "n n"], nngp: Float[np.ndarray, "n n"], rate: float, step: int
) -> dict[str, Float[np.ndarray, "n n"]]:
    """F(Θ, Θ⁻¹, K, K⁻¹) of six kinds, after `step` of gradient descent; AKAᵀ with A the second of them is Σ_t's."""
    one = np.eye(len(ntk))
    decay = np.linalg.matrix_power(one - rate / len(ntk) * ntk, step)
    learnt = np.linalg.solve(ntk, one - decay)
    mixed = ntk @ np.linalg.solve(nngp, np.linalg.inv(ntk))
    found = (decay, learnt, np.linalg.solve(ntk, nngp), np.linalg.solve(nngp, ntk), mixed, learnt @ nngp @ learnt.T)
    return dict(zip(FUNCTIONS, found, strict=True))


def shifts(group: Group, inputs: int) -> Int[np.ndarray, "order order_n"]:
    """Π(g) as where each of the |G|·N inputs of an `orbit_batch` goes, for every g."""
    return (np.asarray(group.table)[:, :, None] * inputs + np.arange(inputs)).reshape(group.order, -1)


def largest_change(
    matrices: Mapping[str, Float[np.ndarray, "n n"]], permutations: Int[np.ndarray, "count n"]
) -> Float[np.ndarray, " matrices"]:
    """max |ΠFΠᵀ − F| / max |F| over permutations, of every F; of F = 0 it is 0."""
    off = lambda f: np.max([np.abs(f[np.ix_(p, p)] - f).max() for p in permutations])
    size = lambda f: np.abs(f).max() or 1.0
    return np.array([off(f) / size(f) for f in matrices.values()])


class Results(Measured):
    """`outputs` of members, turned back: ρ_Y(g)⁻¹ f(gx), equal over g where f is equivariant; `mean_error` and
    `covariance_error`, largest relative violation in closed form; `between`, mean square violation under random
    rotations; `truth_error`; `worst`, the largest violation of those rotations, and `bound`, κ (C(x) + |μ(x)|), both
    relative to the root mean square of μ. `shift`: how far functions of the kernels are from commuting with the group's
    permutations of the training set; `shuffled`: with another permutation.
    """

    times: np.ndarray
    outputs: Keyed[np.ndarray] = by("trained inputs", "step member element pair axis", of="ensemble.{inputs}")
    mean_error: Keyed[np.ndarray] = by("group", "step inputs")
    covariance_error: Keyed[np.ndarray] = by("group", "step inputs")
    between: Keyed[np.ndarray] = by("group", "step pair")
    truth_error: Keyed[np.ndarray] = by("group", "step")
    bound: Keyed[np.ndarray] = by("group", "step pair")
    worst: Keyed[np.ndarray] = by("group", "step pair")
    shift: Keyed[np.ndarray] = by("moved", "function")
    shuffled: Keyed[np.ndarray] = by("moved", "function")


def mean_share(results: Results, name: str, key: str, time: int, level: float = 0.95) -> Estimate:
    """Share of the members' mean square violation that averaging infinitely many would leave."""
    y = results.outputs[name, key][time].astype(np.float64)
    return surviving_share((y[:, 1:] - y[:, :1]).reshape(len(y), -1), confidence=level)


def covariance_share(results: Results, name: str, key: str, time: int, level: float = 0.95) -> Estimate:
    """Share of the second moments' mean square violation that averaging infinitely many would leave.

    They are f(gx) f(gx′)ᵀ, turned back, x′ = x and x′ the next input.
    """
    y = results.outputs[name, key][time].astype(np.float64)
    parts = []
    for shift in (0, 1):
        moments = np.einsum("mgni,mgnj->mgnij", y, np.roll(y, shift, axis=2))
        parts.append((moments[:, 1:] - moments[:, :1]).reshape(len(y), -1))
    return surviving_share(np.concatenate(parts, axis=1), confidence=level)


def member_violations(results: Results, name: str, key: str, time: int) -> np.ndarray:
    """Root mean square violation of every member, relative to its outputs, (M,)."""
    y = results.outputs[name, key][time].astype(np.float64)
    off = ((y[:, 1:] - y[:, :1]) ** 2).sum(axis=-1).mean(axis=(1, 2))
    return np.sqrt(off / (y**2).sum(axis=-1).mean(axis=(1, 2)))


def gain(results: Results, finer: str, coarser: str, level: float = 0.95) -> Estimate:
    """Violation under random rotations after augmentation with one group over that with another, at the last step."""
    both = np.stack([results.between[finer][-1], results.between[coarser][-1]], axis=1)
    return bootstrap(both, lambda m: np.sqrt(m[:, 0] / m[:, 1]), confidence=level)
