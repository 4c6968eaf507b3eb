"""An invariant function on the plane, learned by an ensemble of MLPs with full augmentation.

f(r, φ) = cos(nφ) r²/(r² + 0.35) is invariant under turns by 360°/n. Claimed: no member of an augmented ensemble is
invariant, the ensemble's mean is, at every training time, on the training disc and beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.statistics import Estimate, bootstrap, exactly, shared_level, surviving_share
from equitangents_studies.common import networks
from equitangents_studies.common.infinite import largest_rate
from equitangents_studies.common.orbit_spread import expected_squares
from equitangents_studies.common.orbits import by_element, orbit_batch
from equitangents_studies.common.training import ensemble_stage
from equitangents_studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.claims import EXACT, Claim, Records, after, claim
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check

STATED = "stated in arXiv 2403.03103"
REGIONS = ("on the training disc", "beyond the training disc")
SHOWN_MEMBERS = 12


@dataclass(frozen=True)
class Settings:
    """`steps` are the times of the claims; `rotations` is n; `plain_members` train without augmentation, to compare;
    points are drawn in a disc of radius 1 and a ring to `plane`, the half width of the square that is shown; `rate` is
    a fraction of the largest stable learning rate.
    """

    rotations: int = 4
    members: int = 400
    plain_members: int = 100
    width: int = 64
    hidden_layers: int = 2
    train_points: int = 24
    orbit_points: int = 48
    plane: float = 1.5
    pixels: int = 41
    steps: tuple[int, ...] = (0, 1, 2, 3, 2000)
    frames: int = 18
    rate: float = 0.5
    W_std: float = 1.5
    b_std: float = 0.3
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(members=500, plain_members=200, width=128, orbit_points=96),
    "paper": Settings(members=1000, plain_members=1000, width=512, orbit_points=128, pixels=81, frames=30),
}


@dataclass(frozen=True, eq=False)
class Trained:
    """Predictions of one ensemble, with or without augmentation, at every time: orbits by region (T, M, |G|, N), those
    of infinite width (T, |G|, N), and what the page shows on the square and along a circle.
    """

    orbits: tuple[np.ndarray, np.ndarray]
    infinite_orbits: tuple[np.ndarray, np.ndarray]
    maps: dict[str, np.ndarray]
    circles: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Results:
    """Both ensembles at every time of `times`; `expected_violation` (T,) of the augmented one, one entry per region, is
    closed-form.
    """

    times: np.ndarray
    learning_rate: float
    train_x: np.ndarray
    augmented: Trained
    plain: Trained
    expected_violation: tuple[np.ndarray, np.ndarray]
    truth: dict[str, np.ndarray]
    scale: float

    def at(self, step: int) -> int:
        """The index of a training step."""
        return int(np.flatnonzero(self.times == step)[0])


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


def training_times(settings: Settings) -> np.ndarray:
    """The claims' steps, and about `frames` steps in all, evenly spaced on a logarithmic scale."""
    last = max(settings.steps)
    spaced = np.round(np.geomspace(1, max(last, 2), settings.frames)).astype(int)
    return np.array(sorted({0, *settings.steps, *(int(t) for t in spaced if t <= last)}))


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


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes that statistics need; the study reads no data."""
    at_least(settings, rotations=2, members=3, plain_members=3)
    check(settings.plane > 1, "plane", settings.plane, "larger than 1, the radius of the training disc")


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


def violations(trained: Trained, region: int) -> np.ndarray:
    """f(gx) − f(x) for g ≠ e, element 0: (T, M, |G| − 1, N)."""
    y = trained.orbits[region].astype(np.float64)
    return y[:, :, 1:] - y[:, :, :1]


def member_violation(results: Results, region: int, time: int, level: float) -> Estimate:
    """Violation of the most nearly invariant member, relative to the truth, bootstrapped over inputs."""
    squares = (violations(results.augmented, region)[time] ** 2).mean(axis=1)
    return bootstrap(squares.T, lambda means: np.sqrt(means.min(axis=1)) / results.scale, confidence=level)


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The three claims of the source, at each step and in both regions, and a control."""
    level = shared_level(2 * len(settings.steps))
    words = lambda step, region: f"{after(step)}, {REGIONS[region]}"
    each = lambda number, steps=settings.steps: Records.over(number, words, step=steps, region=(0, 1))

    def surviving(step: int, region: int) -> Estimate:
        d = violations(results.augmented, region)[results.at(step)]
        return surviving_share(d.reshape(settings.members, -1), confidence=level).times(100)

    def largest_change(trained: Trained, step: int, region: int) -> Estimate:
        orbits = trained.infinite_orbits[region][results.at(step)]
        return exactly(np.abs(orbits - orbits[:1]).max() / results.scale)

    return [
        claim(
            "Single members are not invariant",
            each(lambda step, region: member_violation(results, region, results.at(step), level)),
            measure="Root mean square change of the most nearly invariant member when its input is turned, relative to "
            "the standard deviation of the true function.",
            covers="inputs",
            at_least=0.01,
            source=STATED + "; the bound is our choice",
            holds="Augmentation alone does not make a network invariant: do not rely on a single one where a turn "
            "must not change the answer.",
            fails="A single augmented network can be nearly invariant here; test it before training many.",
        ),
        claim(
            "The ensemble mean is invariant, at initialisation and at every later step",
            each(surviving),
            measure="Share of the members’ mean square change that averaging over ever more members would leave "
            "(unbiased, so it may come out negative).",
            covers="members",
            at_most=2,
            unit="%",
            source=STATED + "; the bound is our choice",
            holds="Average: M networks leave about 1/√M of one network’s change, on the data and away from them, "
            "whenever training is stopped.",
            fails="Averaging leaves a violation that more members do not remove: train wider networks, or use "
            "an equivariant architecture.",
            undecided="There are too few members to tell whether averaging removes the violation: train more "
            "before relying on it.",
        ),
        claim(
            "At infinite width the mean is exactly invariant",
            each(partial(largest_change, results.augmented)),
            measure="Largest change of the closed-form mean when its input is turned, relative to the standard "
            "deviation of the true function.",
            covers=EXACT,
            at_most=1e-8,
            source=STATED,
            holds="Where its kernel matrix is affordable, the closed form gives the invariant mean without "
            "training a network.",
            fails="The closed form of these networks is not invariant to rounding: do not take it for the limit.",
        ),
        claim(
            "Without augmentation the mean at infinite width is not invariant",
            each(partial(largest_change, results.plain), (max(settings.steps),)),
            measure="The same of an ensemble that saw every training point in one orientation only, after the last "
            "step.",
            covers=EXACT,
            at_least=0.01,
            source="a control of ours",
            holds="The symmetry comes from the augmentation: averaging networks trained without it does not help.",
            fails="The mean is invariant without augmentation too, so this task does not need it.",
        ),
    ]


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
