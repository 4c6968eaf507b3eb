"""Energies of the two-dimensional Ising model, learned by MLP ensembles of growing width and by infinitely wide ones.

H = −J Σ⟨ij⟩ s_i s_j is invariant under rotations of the lattice by 90°. Claimed: with full augmentation the ensemble's
mean converges to the NTK's as the width grows, and the relative orbit standard deviation of M members falls as
GP(μ_t, Σ_t/M) predicts, on training, test and foreign spins, over training time.

Predictions of members and in closed form on whole orbits, their distance, and how far orbits spread.

The relative orbit standard deviation is ‖std_g f‖ / ‖mean_g f‖, norms over the inputs of a set.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np

from equitangents import actions, nn
from equitangents.ensembles import InfiniteEnsemble, orbit_law
from equitangents_studies.common import networks
from equitangents_studies.common.infinite import gradient_descent
from equitangents_studies.common.ising_lattice import energy, hot_spins, thermal_spins
from equitangents_studies.common.orbits import relative_std
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework.measured import Part, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Study, Task
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE as THEIRS
from equitangents_studies.ising.claims import claims
from equitangents_studies.ising.settings import (
    PRESETS,
    SETS,
    Results,
    Settings,
    check_settings,
    predicted_sizes,
)

QUANTILES = (0.025, 0.5, 0.975)


def network(settings: Settings, width: int) -> nn.Sequential:
    """The MLP that reads all spins at once."""
    return networks.mlp(width, settings.hidden_layers, W_std=settings.W_std, b_std=settings.b_std, flatten=True)


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
    spins, times = _spins(settings), np.array(sorted({0, *settings.steps}))
    firsts = range(0, settings.members, settings.members_at_once)
    levels = {"width": sorted(settings.widths), "first": firsts, "spins": SETS, "step": times, "size": settings.groups}
    closed = Part("infinite", "Infinite width, closed form", partial(_infinite, settings, spins, times))
    found = measured(folder, closed, levels=levels)
    rate = float(found.stage("infinite")["learning_rate"])
    title = lambda width, first: f"Training {_count(settings, first)} members of width {width}"
    train = partial(_members, settings, folder, spins, times, rate)
    trained = measured(folder, Part("width-{width}-from-{first}", title, train, ensemble=True), levels=levels)
    parts: dict[tuple[int, str], list[np.ndarray]] = {}
    for at, outputs in trained.arrays("{spins}"):
        parts.setdefault((at["width"], at["spins"]), []).append(outputs[..., 0])
    members = {key: np.concatenate(each, axis=1) for key, each in parts.items()}
    truth = {name: targets(settings, s) for name, s in spins.items()}
    return Results.read(found, times=times, learning_rate=rate, truth=truth, members=members)


def _infinite(settings: Settings, spins: dict[str, np.ndarray], times: np.ndarray, task: Task) -> Arrays:
    action, net = actions.image_rotations(4), network(settings, max(settings.widths))
    y = targets(settings, spins["training"])
    model = gradient_descent(net, spins["training"], y, settings.rate, augmentation=action)
    arrays: Arrays = {"learning_rate": np.array(float(model.learning_rate))}
    for i, name in enumerate(SETS):
        arrays[f"std_{name}"] = model.predict(spins[name], time=times, return_std=True)[1]
        found = [_predicted_spread(settings, action, model, spins[name], int(t)) for t in times]
        for k, key in enumerate(("mean", "predicted", "curve")):
            arrays[f"{key}_{name}"] = np.stack([parts[k] for parts in found])
        task.step(i + 1, len(SETS))
    return arrays


def _predicted_spread(
    settings: Settings, action: actions.Action, model: InfiniteEnsemble, x: np.ndarray, time: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """μ_t (|G|, N), relative orbit std of draws from GP(μ, Σ/M) for `groups`, and quantiles for every M."""
    key = jax.random.fold_in(jax.random.key(settings.seed + 1), time)
    law = orbit_law(model, action, x, draws=settings.gp_samples, key=key, time=float(time))
    spread = {int(m): relative_std(np.swapaxes(law.ensembles(int(m))[..., 0], 1, 2)) for m in predicted_sizes(settings)}
    quantiles = np.stack([np.quantile(values, QUANTILES) for values in spread.values()])
    return law.mean[..., 0].T, np.stack([spread[m] for m in settings.groups]), quantiles


def _count(settings: Settings, first: int) -> int:
    """How many members train together, from the first of them on."""
    return min(settings.members_at_once, settings.members - first)


def _members(
    settings: Settings, folder: RunFolder, spins: dict[str, np.ndarray], times: np.ndarray, rate: float, width: int,
    first: int, task: Task,
) -> Arrays:  # fmt: skip
    """Outputs of some members by set of spins, (T, members, |G|, N, 1)."""
    action = actions.image_rotations(4)
    return train_to_last(
        folder.checkpoints(f"width-{width}-from-{first}"),
        network(settings, width),
        spins["training"],
        targets(settings, spins["training"]),
        task,
        augmentation=action,
        members=_count(settings, first),
        learning_rate=rate,
        record=spins,
        record_at=times,
        orbits=action,
        seed=int(np.random.SeedSequence((settings.seed, width, first)).generate_state(1)[0]),
    )


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
