"""Energies of the two-dimensional Ising model, learned by MLP ensembles of growing width and by infinitely wide ones.

H = −J Σ⟨ij⟩ s_i s_j is invariant under rotations of the lattice by 90°. Claimed: with full augmentation the ensemble's
mean converges to the NTK's as the width grows, and the relative orbit standard deviation of M members falls as
GP(μ_t, Σ_t/M) predicts, on training, test and foreign spins, over training time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import numpy as np

from equitangents import actions, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.report.verdict import Verdict
from equitangents.studies.citations import EMERGENT_EQUIVARIANCE
from equitangents.studies.claims import judge
from equitangents.studies.folder import Arrays, RunFolder
from equitangents.studies.ising_lattice import energy, hot_spins, thermal_spins
from equitangents.studies.orbits import by_element, orbit_batch, relative_std
from equitangents.studies.progress import Task
from equitangents.studies.settings import check
from equitangents.studies.statistics import (
    Estimate,
    log_ratio,
    quotient_of_squared_means,
    second_moment_share,
    shared_level,
)
from equitangents.studies.study import Presentation, Study
from equitangents.studies.training import train_recorded

STATED = "stated in arXiv 2403.03103"
SETS = ("training", "test", "foreign")
ENOUGH_GROUPS = 30  # disjoint groups of M members that an interval for M needs


@dataclass(frozen=True)
class Settings:
    """Training and test spins are independent (infinite temperature); foreign ones have `temperature`, in units of J.

    Near the critical 2.27 foreign spins are strongly aligned. `steps` are the times that are recorded; `groups` are
    ensemble sizes M; `members_at_once` bounds memory; `rate` is a fraction of the largest stable learning rate.
    Lattice size and sample counts are our choice.
    """

    lattice: int = 6
    coupling: float = 1.0
    train_spins: int = 24
    test_spins: int = 32
    temperature: float = 2.5
    widths: tuple[int, ...] = (64, 128, 256, 512)
    hidden_layers: int = 2
    members: int = 128
    members_at_once: int = 128
    groups: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    steps: tuple[int, ...] = (0, 1, 3, 10, 30, 100)
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    gp_samples: int = 1000
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "paper": Settings(
        lattice=8,
        train_spins=128,
        test_spins=128,
        widths=(128, 256, 512, 1024, 2048),
        members=1000,
        members_at_once=125,
        groups=(1, 2, 5, 10, 20, 50, 100),
        steps=(0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
        gp_samples=5000,
    ),
}


@dataclass(frozen=True, eq=False)
class Results:
    """Predicted energies, in units of their standard deviation, on orbits, by set of spins.

    `members[w][set]` is (T, M, |G|, N); `mean[set]` is μ_t, (T, |G|, N); `std[set]` is √Σ_t, (T, N);
    `predicted[set]` (T, groups, samples) holds the relative orbit std of ensembles drawn from GP(μ_t, Σ_t/M).
    """

    times: np.ndarray
    learning_rate: float
    truth: dict[str, np.ndarray]
    mean: dict[str, np.ndarray]
    std: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray]
    members: dict[int, dict[str, np.ndarray]]

    def at(self, step: int) -> int:
        """The index of a training step."""
        return int(np.flatnonzero(self.times == step)[0])

    def errors(self, width: int, name: str, time: int) -> np.ndarray:
        """f_m − μ on every point of every orbit: (M, |G|·N)."""
        return (self.members[width][name][time].astype(np.float64) - self.mean[name][time]).reshape(
            len(self.members[width][name][time]), -1
        )


def network(settings: Settings, width: int) -> nn.Sequential:
    """The MLP that reads all spins at once."""
    hidden = [
        layer
        for _ in range(settings.hidden_layers)
        for layer in (nn.Dense(width, W_std=settings.W_std, b_std=settings.b_std), nn.Relu())
    ]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Dense(1, W_std=settings.W_std))


def _spins(settings: Settings) -> dict[str, np.ndarray]:
    """Spins of every set as images (N, L, L, 1)."""
    rng = np.random.default_rng(settings.seed)
    size = settings.lattice
    return {
        "training": hot_spins(settings.train_spins, size, rng)[..., None],
        "test": hot_spins(settings.test_spins, size, rng)[..., None],
        "foreign": thermal_spins(settings.test_spins, size, settings.temperature, rng)[..., None],
    }


def targets(settings: Settings, spins: np.ndarray) -> np.ndarray:
    """Energies in units of their standard deviation √2 |J| L at infinite temperature."""
    return energy(spins[..., 0], settings.coupling) / (np.sqrt(2) * abs(settings.coupling) * settings.lattice)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """The closed form first, then an ensemble per width, all at the same steps of full-batch gradient descent."""
    check(settings.lattice >= 3, "lattice", settings.lattice, "at least 3")
    check(settings.coupling != 0, "coupling", settings.coupling, "different from 0")
    check(max(settings.groups) <= settings.members, "groups", settings.groups, "at most the number of members each")
    check(settings.members_at_once >= 3, "members_at_once", settings.members_at_once, "at least 3")
    check(len(set(settings.widths)) >= 2, "widths", settings.widths, "at least two different widths")
    spins, times = _spins(settings), np.array(sorted({0, *settings.steps}))
    closed = folder.stage(
        "infinite", "Infinite width, closed form", lambda task: _infinite(settings, spins, times, task)
    )
    rate = float(closed["learning_rate"])
    members = {}
    for width in sorted(settings.widths):
        parts = []
        for first in range(0, settings.members, settings.members_at_once):
            count = min(settings.members_at_once, settings.members - first)
            stage = f"width-{width}-from-{first}"
            title = f"Training {count} members of width {width}"
            train = partial(_finite, settings, folder.checkpoints(stage), width, first, count, spins, times, rate)
            parts.append(folder.stage(stage, title, train))
        members[width] = {name: np.concatenate([part[name] for part in parts], axis=1) for name in SETS}
    return Results(
        times=times,
        learning_rate=rate,
        truth={name: targets(settings, s) for name, s in spins.items()},
        mean={name: closed[f"mean_{name}"] for name in SETS},
        std={name: closed[f"std_{name}"] for name in SETS},
        predicted={name: closed[f"predicted_{name}"] for name in SETS},
        members=members,
    )


def _infinite(settings: Settings, spins: dict[str, np.ndarray], times: np.ndarray, task: Task) -> Arrays:
    action, net = actions.image_rotations(4), network(settings, max(settings.widths))
    y = targets(settings, spins["training"])
    # a first fit at any rate tells the largest stable one
    trial = InfiniteEnsemble(net, augmentation=action, time=0.0).fit(spins["training"], y)
    rate = settings.rate * float(trial.max_learning_rate_)
    model = InfiniteEnsemble(net, augmentation=action, time=0.0, learning_rate=rate, dynamics="discrete")
    model.fit(spins["training"], y)
    arrays: Arrays = {"learning_rate": np.array(rate)}
    for i, name in enumerate(SETS):
        batch = orbit_batch(action, spins[name])
        mean, covariance = model.predict(batch, time=times, return_cov=True)
        arrays[f"mean_{name}"] = by_element(action, mean[..., None])[..., 0]
        arrays[f"std_{name}"] = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))[:, : len(spins[name])]
        arrays[f"predicted_{name}"] = np.stack(
            [
                _predicted_spread(settings, action, model, batch, m, int(t))
                for t, m in zip(times, arrays[f"mean_{name}"], strict=True)
            ]
        )
        task.step(i + 1, len(SETS))
    return arrays


def _predicted_spread(
    settings: Settings, action: actions.Action, model: InfiniteEnsemble, batch: np.ndarray, mean: np.ndarray, time: int
) -> np.ndarray:
    """Relative orbit std of draws from GP(μ, Σ/M), for every M of `groups`: (groups, samples)."""
    key = jax.random.key(settings.seed + 1)
    draws = model.sample(batch, settings.gp_samples, key=jax.random.fold_in(key, time), time=float(time))
    fluctuation = by_element(action, draws[..., None])[..., 0] - mean
    return np.stack([relative_std(mean + fluctuation / np.sqrt(m)) for m in settings.groups])


def _finite(
    settings: Settings,
    checkpoints: Path,
    width: int,
    first: int,
    count: int,
    spins: dict[str, np.ndarray],
    times: np.ndarray,
    rate: float,
    task: Task,
) -> Arrays:
    action = actions.image_rotations(4)
    seed = int(np.random.SeedSequence((settings.seed, width, first)).generate_state(1)[0])
    recorded = train_recorded(
        network(settings, width),
        spins["training"],
        targets(settings, spins["training"]),
        augmentation=action,
        members=count,
        optimizer="gd",
        learning_rate=rate,
        epochs=int(times[-1]),
        seed=seed,
        record={name: orbit_batch(action, spins[name]) for name in SETS},
        record_at=times,
        checkpoints=checkpoints,
        task=task,
    )
    return {name: by_element(action, recorded[name])[..., 0] for name in SETS}


def measured_spread(results: Results, width: int, name: str, time: int, size: int) -> np.ndarray:
    """Relative orbit std of the mean of each disjoint group of `size` members."""
    y = results.members[width][name][time].astype(np.float64)
    groups = y[: len(y) // size * size].reshape(-1, size, *y.shape[1:]).mean(axis=1)
    return relative_std(groups)


def spread_ratio(
    settings: Settings, results: Results, width: int, name: str, time: int, size: int, level: float = 0.95
) -> Estimate:
    """Measured over predicted relative orbit std of ensembles of `size`: geometric means over groups and draws."""
    measured = measured_spread(results, width, name, time, size)
    predicted = results.predicted[name][time, settings.groups.index(size)]
    return log_ratio(measured, predicted, level=level)


def claims(settings: Settings, results: Results) -> Sequence[Verdict]:
    """The source's two claims, the first as a decrease and as a distance left at the largest width."""
    narrow, wide = min(settings.widths), max(settings.widths)
    trained = [t for t in settings.steps if t > 0]
    late = trained[-2:]
    decrease = {
        f"after {t} steps, training spins": quotient_of_squared_means(
            results.errors(wide, "training", results.at(t)),
            results.errors(narrow, "training", results.at(t)),
            level=shared_level(len(late)),
        )
        for t in late
    }
    level = shared_level(len(SETS) * len(trained))
    left = {
        f"after {t} steps, {name} spins": second_moment_share(
            results.errors(wide, name, results.at(t)),
            results.members[wide][name][results.at(t)].reshape(settings.members, -1),
            level=level,
        ).times(100)
        for t in trained
        for name in SETS
    }
    sizes = [m for m in settings.groups if settings.members // m >= ENOUGH_GROUPS] or [min(settings.groups)]
    level = shared_level(len(SETS) * len(trained) * len(sizes))
    ratios = {
        f"M = {m}, after {t} steps, {name} spins": spread_ratio(settings, results, wide, name, results.at(t), m, level)
        for t in trained
        for name in SETS
        for m in sizes
    }
    return [
        judge(
            "The ensemble’s mean approaches the NTK’s as the width grows",
            decrease,
            measure=f"Squared distance between the two means at width {wide}, divided by that at width {narrow}; free "
            "of the bias that a finite number of members brings.",
            at_most=0.5,
            source=STATED + "; the bound is our choice",
        ),
        judge(
            f"At width {wide} the ensemble’s mean is the NTK’s",
            left,
            measure="Squared distance between the two means as a share of the mean square prediction of one network; "
            "free of the bias that a finite number of members brings, so it may come out negative.",
            at_most=5,
            unit="%",
            source=STATED + "; the bound is our choice",
        ),
        judge(
            "The orbit spread of M members is that of GP(μ, Σ/M)",
            ratios,
            measure=f"Relative orbit standard deviation at width {wide}, measured over predicted, for M = "
            f"{', '.join(map(str, sizes))}.",
            at_least=0.67,
            at_most=1.5,
            source=STATED + "; the bounds are our choice",
        ),
    ]


def _present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    from equitangents.studies.ising_page import present  # which imports from here

    return present(settings, results, verdicts, folder)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, _present, (EMERGENT_EQUIVARIANCE,))
