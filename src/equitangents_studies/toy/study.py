"""An invariant function on the plane, learned by an ensemble of MLPs with full augmentation.

f(r, φ) = cos(nφ) r²/(r² + 0.35) is invariant under turns by 360°/n. Claimed: no member of an augmented ensemble is
invariant, the ensemble's mean is, at every training time, on the training disc and beyond it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents_studies.common import networks
from equitangents_studies.common.infinite import expected_squares, largest_rate
from equitangents_studies.common.orbits import by_element, orbit_batch
from equitangents_studies.common.training import ensemble_stage
from equitangents_studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task
from equitangents_studies.toy.claims import claims
from equitangents_studies.toy.results import Results, Trained
from equitangents_studies.toy.settings import PRESETS, Settings, check_settings, training_times

SHOWN_MEMBERS = 12


def ground_truth(x: Float[np.ndarray, "n 2"], rotations: int) -> Float[np.ndarray, " n"]:
    """The function to be learned."""
    square = (x**2).sum(axis=-1)
    return np.cos(rotations * np.arctan2(x[..., 1], x[..., 0])) * square / (square + 0.35)


def plane_rotations(n: int) -> actions.Action:
    """C_n acting on the plane; element 0 is the identity."""
    angles = 2 * np.pi * np.arange(n) / n
    cos, sin = np.cos(angles), np.sin(angles)
    return actions.linear(groups.cyclic(n), np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2))


def network(settings: Settings) -> nn.Sequential:
    """The MLP."""
    return networks.mlp(settings.width, settings.hidden_layers, W_std=settings.W_std, b_std=settings.b_std)


def _points(settings: Settings) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(settings.seed)

    def ring(n: int, inner: float, outer: float) -> np.ndarray:
        radius, angle = np.sqrt(rng.uniform(inner**2, outer**2, n)), rng.uniform(0, 2 * np.pi, n)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)

    train = ring(settings.train_points, 0, 1)
    inside, outside = ring(settings.orbit_points, 0, 1), ring(settings.orbit_points, 1, settings.plane)
    axis = np.linspace(-settings.plane, settings.plane, settings.pixels)
    square = np.stack(np.meshgrid(axis, -axis), axis=-1).reshape(-1, 2)
    angles = np.linspace(0, 2 * np.pi, 121)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return {"train": train, "inside": inside, "outside": outside, "square": square, "circle": circle}


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Train the ensemble, solve the infinite one, both at the same steps of gradient descent."""
    points, times, action = _points(settings), training_times(settings), plane_rotations(settings.rotations)
    truth = {name: ground_truth(x, settings.rotations) for name, x in points.items()}
    train = points["train"], truth["train"]
    # One rate for both, so that a step means the same on the page.
    both = (action, None)
    rate = settings.rate * min(largest_rate(network(settings), *train, augmentation=a) for a in both)

    def training(suffix: str, words: str, augmentation: actions.Action | None, members: int) -> Stage:
        return ensemble_stage(
            folder,
            f"ensemble{suffix}",
            f"Training {members} members together{words}",
            network(settings),
            *train,
            augmentation=augmentation,
            members=members,
            learning_rate=rate,
            record={
                **{name: points[name] for name in ("square", "circle")},
                **{name: orbit_batch(action, points[name]) for name in ("inside", "outside")},
            },
            record_at=times,
            keep=partial(_kept, action),
            seed=settings.seed,
        )

    closed_form = lambda suffix, words, augmentation: Stage(
        f"infinite{suffix}",
        f"Infinite width, closed form{words}",
        partial(_infinite, settings, points, train, rate, augmentation),
    )
    without = ("-plain", " without augmentation", None)
    found = folder.stages(
        {
            "closed": closed_form("", "", action),
            "finite": training("", "", action, settings.members),
            "closed-plain": closed_form(*without),
            "finite-plain": training(*without, settings.plain_members),
        }
    )

    def trained(suffix: str) -> Trained:
        closed, finite = found[f"closed{suffix}"], found[f"finite{suffix}"]
        of = lambda name: {**{key: finite[f"{name}_{key}"] for key in ("members", "mean")}, "infinite": closed[name]}
        orbits = lambda arrays: (arrays["inside"], arrays["outside"])
        maps = {key: _as_map(settings, values) for key, values in of("square").items()}
        return Trained(orbits(finite), orbits(closed), maps, of("circle"))

    closed, augmented, plain = found["closed"], trained(""), trained("-plain")
    return Results(
        times=times,
        learning_rate=rate,
        train_x=points["train"],
        augmented=augmented,
        plain=plain,
        expected_violation=(closed["violation_inside"], closed["violation_outside"]),
        truth={"square": _as_map(settings, truth["square"]), "circle": truth["circle"]},
        scale=float(truth["inside"].std()),
    )


def _infinite(
    settings: Settings,
    points: dict[str, np.ndarray],
    train: tuple[np.ndarray, np.ndarray],
    rate: float,
    augmentation: actions.Action | None,
    task: Task,
) -> Arrays:
    times, action = training_times(settings), plane_rotations(settings.rotations)
    options: dict[str, Any] = {"augmentation": augmentation, "learning_rate": rate, "dynamics": "discrete"}
    model = InfiniteEnsemble(network(settings), time=0.0, **options).fit(*train)
    arrays = {name: model.predict(points[name], time=times) for name in ("square", "circle")}
    for name in ("inside", "outside"):
        mean, covariance = model.predict(orbit_batch(action, points[name]), time=times, return_cov=True)
        arrays[name] = by_element(action, mean[..., None])[..., 0]
        arrays[f"violation_{name}"] = np.sqrt(expected_squares(action, covariance, len(points[name])))
    return arrays


def _kept(action: actions.Action, recorded: Arrays) -> Arrays:
    arrays = {name: by_element(action, recorded[name])[..., 0] for name in ("inside", "outside")}
    for name in ("square", "circle"):
        outputs = recorded[name][..., 0]
        arrays |= {f"{name}_members": outputs[:, :SHOWN_MEMBERS], f"{name}_mean": outputs.mean(axis=1)}
    return arrays


def _as_map(settings: Settings, values: np.ndarray) -> np.ndarray:
    """Values on the square as an image."""
    return values.reshape(*values.shape[:-1], settings.pixels, settings.pixels)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
