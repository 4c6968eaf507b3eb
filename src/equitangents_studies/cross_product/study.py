"""Two vectors to their cross product: labels that turn with the inputs, under finite subgroups of SO(3).

MLPs learn (a, b) ↦ a × b from pairs shown in all orientations of the tetrahedron, octahedron or icosahedron, labels
turned alike. Claimed: E f(gx) = ρ_Y(g) E f(x) and Cov(f(gx), f(gx′)) = ρ_Y(g) Cov(f(x), f(x′)) ρ_Y(g)ᵀ at all times, on
and off the data; single members are not equivariant.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import numpy as np
from jaxtyping import Float
from scipy.stats import special_ortho_group

from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.groups import MatrixGroup
from equitangents_studies.common.infinite import gradient_descent, orbit_means
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import orbit_batch
from equitangents_studies.common.rotation_bound import covering_angle, gradients_on_chords, to_nearest
from equitangents_studies.common.training import train_to_last
from equitangents_studies.cross_product.claims import claims
from equitangents_studies.cross_product.settings import (
    PRESETS,
    SETS,
    SOLIDS,
    TITLES,
    Results,
    Settings,
    check_settings,
    functions_of_kernels,
    largest_change,
    shifts,
)
from equitangents_studies.framework.measured import Part, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Study, Task
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE


def pair_action(group: groups.Group) -> actions.Action:
    """Both vectors of (a, b) turn alike: (N, 6)."""
    single = actions.rotations(group)
    return actions.direct_sum(single, single)


def cross_products(x: Float[np.ndarray, "n 6"]) -> Float[np.ndarray, "n 3"]:
    """A × b."""
    return np.cross(x[:, :3], x[:, 3:])


def _pairs(settings: Settings) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(settings.seed)
    train, test, far = (rng.normal(size=(n, 6)) for n in (settings.train_pairs, *[settings.test_pairs] * 2))
    return {"training": train, "test": test, "far": settings.stretch * far}


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Closed form for every group and without augmentation, then ensembles."""
    every, steps = ("none", *settings.groups), _steps(settings)
    levels = {
        "group": every,
        "moved": settings.groups,
        "trained": settings.trained_groups,
        "step": steps,
        "inputs": SETS,
    }
    closed = Part("infinite-{group}", lambda name: f"Infinite width, {TITLES[name]}", partial(_infinite, settings))
    found = measured(folder, closed, levels=levels)
    rates = found.by("group", "rate")
    moved = Part("shift-{moved}", lambda name: f"Permutation shift, {TITLES[name]}", partial(_shift, settings, rates))
    title = lambda name: f"Training {settings.members} members, {TITLES[name]}"
    trained = Part("ensemble-{trained}", title, partial(_trained, settings, folder, rates), ensemble=True)
    found |= measured(folder, moved, trained, levels=levels)
    return Results.read(found, times=steps)


def _network(settings: Settings, width: int) -> nn.Sequential:
    return mlp(width, settings.hidden_layers, 3, W_std=settings.W_std, b_std=settings.b_std)


def _steps(settings: Settings) -> np.ndarray:
    return np.array(sorted({0, *settings.steps}))


def _actions(name: str) -> tuple[actions.Action, actions.Action]:
    """On pairs and on labels; without augmentation the violation is that of the tetrahedral group."""
    group = SOLIDS["T" if name == "none" else name]()
    return pair_action(group), actions.rotations(group)


def turned_back(label_action: actions.Action, y: Float[np.ndarray, "... order n 3"]) -> np.ndarray:
    """ρ_Y(g)⁻¹ y_g: the same for every g where y is equivariant."""
    return np.einsum("gji,...gnj->...gni", np.asarray(label_action.matrices), y)


def _infinite(settings: Settings, name: str, task: Task) -> Arrays:
    inputs, outputs = _actions(name)
    sets, times = _pairs(settings), _steps(settings)
    options: dict[str, Any] = {} if name == "none" else {"augmentation": inputs, "label_action": outputs}
    model = gradient_descent(
        _network(settings, 1), sets["training"], cross_products(sets["training"]), settings.rate, **options
    )
    mean_error, covariance_error = np.zeros((2, len(times), len(SETS)))
    for s, key in enumerate(SETS):
        means = turned_back(outputs, orbit_means(model, inputs, sets[key], times))
        scale = np.abs(means).max(axis=(1, 2, 3))
        off = np.abs(means - means[:, :1]).max(axis=(1, 2, 3))
        mean_error[:, s] = np.divide(off, scale, where=scale > 0, out=np.zeros_like(off))
        few = sets[key][:6]
        _, covariance = model.predict(orbit_batch(inputs, few), time=times, return_cov=True)
        blocks = covariance.reshape(len(times), inputs.group.order, len(few), inputs.group.order, len(few))
        same = np.einsum("tgigj->tgij", blocks)  # Σ(gx, gx′): a multiple of the unit matrix between outputs
        covariance_error[:, s] = np.abs(same - same[:, :1]).max(axis=(1, 2, 3)) / np.abs(same).max(axis=(1, 2, 3))
        task.step(s + 1, len(SETS))
    mean = model.predict(sets["test"], time=times)
    truth = cross_products(sets["test"])
    return {
        "rate": np.array(model.learning_rate),
        "mean_error": mean_error,
        "covariance_error": covariance_error,
        **_between(settings, model, cast(MatrixGroup, inputs.group), sets["test"], times),
        "truth_error": np.sqrt(((mean - truth) ** 2).sum(axis=(1, 2)) / (truth**2).sum()),
    }


def _between(
    settings: Settings, model: InfiniteEnsemble, group: MatrixGroup, x: np.ndarray, times: np.ndarray
) -> Arrays:
    """|μ(Rx) − R μ(x)| under random rotations, its mean square relative to μ's, its largest, and the bound, (T, N)."""
    rotations = special_ortho_group.rvs(3, size=settings.rotations, random_state=settings.seed)
    predict = lambda z: model.predict(z, time=times)
    turn = lambda turns: np.einsum("rij,nkj->rnki", turns, x.reshape(len(x), 2, 3)).reshape(-1, 6)
    mean = predict(x)
    found = predict(turn(rotations)).reshape(len(times), settings.rotations, *mean.shape[1:])
    off = ((found - np.einsum("rij,tnj->trni", rotations, mean)) ** 2).sum(axis=-1)
    size = (mean**2).sum(axis=-1)
    whole = np.maximum(size.mean(axis=1), np.finfo(float).tiny)[:, None]  # 0 at initialisation
    # μ is equivariant under the group, so that the chord from b x to R x is as good as that from x to b⁻¹R x
    near = turn(to_nearest(group.matrices, rotations))
    gradients = gradients_on_chords(predict, np.tile(x, (settings.rotations, 1)), near, settings.points)
    largest = gradients.reshape(len(times), settings.rotations, len(x)).max(axis=1)
    kappa = 2 * np.sin(covering_angle(group.matrices) / 2)
    return {
        "between": off.mean(axis=1) / whole,
        "worst": np.sqrt(off.max(axis=1) / whole),
        "bound": kappa * (np.linalg.norm(x, axis=1) * largest + np.sqrt(size)) / np.sqrt(whole),
    }


def _shift(settings: Settings, rates: Mapping[str, float], name: str, task: Task) -> Arrays:
    """How far functions of the kernels on the augmented pairs are from commuting with the group's permutations of
    them, after the last step; and with a permutation that belongs to no rotation, for comparison.
    """
    inputs, _ = _actions(name)
    x = _pairs(settings)["training"]
    kernels = _network(settings, 1).kernel(orbit_batch(inputs, x))
    ntk, nngp = (np.asarray(k, dtype=np.float64) for k in (kernels.ntk, kernels.nngp))
    matrices = functions_of_kernels(ntk, nngp, rates[name], int(_steps(settings)[-1]))
    task.step(1, 2)
    shuffled = np.random.default_rng(settings.seed).permutation(len(ntk))[None]
    moved = {"shift": shifts(inputs.group, len(x)), "shuffled": shuffled}
    return {key: largest_change(matrices, permutations) for key, permutations in moved.items()}


def _trained(settings: Settings, folder: RunFolder, rates: Mapping[str, float], name: str, task: Task) -> Arrays:
    inputs, outputs = _actions(name)
    sets = _pairs(settings)
    recorded = train_to_last(
        folder.checkpoints(f"ensemble-{name}"),
        _network(settings, settings.width),
        sets["training"],
        cross_products(sets["training"]),
        task,
        augmentation=inputs,
        label_action=outputs,
        members=settings.members,
        learning_rate=rates[name],
        record={key: x[: settings.test_pairs] for key, x in sets.items()},
        record_at=_steps(settings),
        orbits=inputs,
        seed=settings.seed,
    )
    return {key: turned_back(outputs, y).astype(np.float32) for key, y in recorded.items()}


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
