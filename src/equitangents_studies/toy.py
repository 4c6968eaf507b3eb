"""An invariant function on the plane, learned by an ensemble of MLPs with full augmentation.

f(r, φ) = cos(nφ) r²/(r² + 0.35) is invariant under rotations by 360°/n. Claimed: no member of an augmented ensemble is
invariant, the ensemble's mean is, at every training time, on the training disc and beyond it.

A violation is f(gx) − f(x) for g ≠ e; sizes are root mean squares, in units of the true function's standard deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.report import palette
from equitangents.statistics import Estimate, bias_fraction, exactly, shared_level, t_interval
from equitangents_studies.common import networks
from equitangents_studies.common.ensembles import train_to_last
from equitangents_studies.common.infinite import largest_rate
from equitangents_studies.common.orbits import by_element, orbit_batch
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE as THEIRS
from equitangents_studies.framework.claims import Claim, Records, after, claim, exact, ours, proved, theirs, to_rounding
from equitangents_studies.framework.study import (
    Arrays,
    NamedStage,
    RunFolder,
    Shown,
    Study,
    Task,
    at_least,
    check,
    presets,
)

REGIONS = ("on the training disc", "beyond the training disc")


@dataclass(frozen=True)
class ToySettings:
    """`steps` are the times of the claims; `rotations` is n; points are drawn in a disc of radius 1 and a ring to
    `plane`, the half width of the square that is shown; `rate` is a fraction of the largest stable learning rate.
    """

    rotations: int = 4
    members: int = 400
    width: int = 64
    hidden_layers: int = 2
    train_points: int = 24
    orbit_points: int = 48
    plane: float = 1.5
    pixels: int = 41
    steps: tuple[int, ...] = (0, 1, 2, 3, 2000)
    rate: float = 0.5
    W_std: float = 1.5
    b_std: float = 0.3
    seed: int = 0


PRESETS = presets(
    ToySettings(),
    desk="members=500 width=128 orbit_points=96",
    paper="members=1000 width=512 orbit_points=128 pixels=81",
)


def check_settings(settings: ToySettings, data_dir: Path | None) -> None:
    """Require the sizes that the statistics need; the study reads no data."""
    at_least(settings, rotations=2, members=3)
    check(settings.plane > 1, "plane", settings.plane, "larger than 1, the radius of the training disc")


_GROUPS = 10  # disjoint parts of the ensemble, over which the interval of its mean's change is


@dataclass(frozen=True, eq=False)
class ToyPredictions:
    """Predictions of the augmented ensemble at every time: orbits by region (T, M, |G|, N), those of infinite width (T,
    |G|, N), and maps on the square for the page.
    """

    orbits: tuple[np.ndarray, np.ndarray]
    infinite_orbits: tuple[np.ndarray, np.ndarray]
    maps: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class ToyResults:
    """The augmented ensemble at every time of `times`, and orbits of the infinite mean without augmentation."""

    times: np.ndarray
    train_x: np.ndarray
    augmented: ToyPredictions
    plain_orbits: tuple[np.ndarray, np.ndarray]
    truth: np.ndarray
    scale: float

    def at(self, step: int) -> int:
        """The index of a training step."""
        return int(np.flatnonzero(self.times == step)[0])


def violations(trained: ToyPredictions, region: int) -> np.ndarray:
    """f(gx) − f(x) for g ≠ e, element 0: (T, M, |G| − 1, N)."""
    y = trained.orbits[region].astype(np.float64)
    return y[:, :, 1:] - y[:, :, :1]


def member_sizes(results: ToyResults, region: int, step: int) -> np.ndarray:
    """Violation of every member, (M,)."""
    return np.sqrt((violations(results.augmented, region)[results.at(step)] ** 2).mean(axis=(1, 2))) / results.scale


def parts(results: ToyResults, region: int, step: int) -> np.ndarray:
    """Violation of the mean of each tenth of the ensemble over the members' root mean square violation."""
    d = violations(results.augmented, region)[results.at(step)]
    size = len(d) // _GROUPS
    means = (
        d[: _GROUPS * size].reshape(_GROUPS, size, *d.shape[1:]).mean(axis=1) if size else np.full((1, 1, 1), np.nan)
    )
    return np.sqrt((means**2).mean(axis=(1, 2)) / (d**2).mean())


def surviving(results: ToyResults, region: int, step: int, level: float) -> Estimate:
    """Share of the members' mean square violation that remains for infinitely many members, in percent."""
    d = violations(results.augmented, region)[results.at(step)]
    return bias_fraction(d.reshape(len(d), -1), confidence=level).times(100)


def largest_change(results: ToyResults, means: tuple[np.ndarray, np.ndarray], region: int, step: int) -> Estimate:
    """Largest violation of a closed-form mean, given by region on orbits."""
    orbits = means[region][results.at(step)]
    return exactly(np.abs(orbits - orbits[:1]).max() / results.scale)


SHOWN_MEMBERS = 2


def ground_truth(x: Float[np.ndarray, "n 2"], rotations: int) -> Float[np.ndarray, " n"]:
    """The function to be learned."""
    square = (x**2).sum(axis=-1)
    return np.cos(rotations * np.arctan2(x[..., 1], x[..., 0])) * square / (square + 0.35)


def plane_rotations(n: int) -> actions.Action:
    """C_n acting on the plane; element 0 is the identity."""
    angles = 2 * np.pi * np.arange(n) / n
    cos, sin = np.cos(angles), np.sin(angles)
    return actions.linear(groups.cyclic(n), np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], -2))


def network(settings: ToySettings) -> nn.Sequential:
    """The MLP."""
    return networks.mlp(settings.width, settings.hidden_layers, W_std=settings.W_std, b_std=settings.b_std)


def _points(settings: ToySettings) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(settings.seed)

    def ring(n: int, inner: float, outer: float) -> np.ndarray:
        radius, angle = np.sqrt(rng.uniform(inner**2, outer**2, n)), rng.uniform(0, 2 * np.pi, n)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)

    train = ring(settings.train_points, 0, 1)
    inside, outside = ring(settings.orbit_points, 0, 1), ring(settings.orbit_points, 1, settings.plane)
    axis = np.linspace(-settings.plane, settings.plane, settings.pixels)
    square = np.stack(np.meshgrid(axis, -axis), axis=-1).reshape(-1, 2)
    return {"train": train, "inside": inside, "outside": outside, "square": square}


def measure(settings: ToySettings, folder: RunFolder) -> ToyResults:
    """Train the ensemble and solve the infinite one, with and without augmentation, at the same steps of descent."""
    points, times, action = (
        _points(settings),
        np.array(sorted({0, *settings.steps})),
        plane_rotations(settings.rotations),
    )
    truth = {name: ground_truth(x, settings.rotations) for name, x in points.items()}
    train = points["train"], truth["train"]
    rate = settings.rate * min(largest_rate(network(settings), *train, augmentation=a) for a in (action, None))
    training = partial(
        train_to_last,
        folder.checkpoints("ensemble"),
        network(settings),
        *train,
        augmentation=action,
        members=settings.members,
        learning_rate=rate,
        record={
            "square": points["square"],
            **{name: orbit_batch(action, points[name]) for name in ("inside", "outside")},
        },
        record_at=times,
        keep=partial(_kept, action),
        seed=settings.seed,
    )
    closed_form = lambda suffix, label, augmentation: NamedStage(
        f"infinite{suffix}",
        f"Infinite width, closed form{label}",
        partial(_infinite, settings, points, train, rate, augmentation),
    )
    found = folder.stages(
        {
            "closed": closed_form("", "", action),
            "finite": NamedStage("ensemble", f"Training {settings.members} members together", training),
            "plain": closed_form("-plain", " without augmentation", None),
        }
    )
    closed, finite = found["closed"], found["finite"]
    maps = {key: finite[f"square_{key}"] for key in ("members", "mean")} | {"infinite": closed["square"]}
    orbits = lambda arrays: (arrays["inside"], arrays["outside"])
    return ToyResults(
        times=times,
        train_x=points["train"],
        augmented=ToyPredictions(
            orbits(finite), orbits(closed), {key: _as_map(settings, values) for key, values in maps.items()}
        ),
        plain_orbits=orbits(found["plain"]),
        truth=_as_map(settings, truth["square"]),
        scale=float(truth["inside"].std()),
    )


def _infinite(
    settings: ToySettings,
    points: dict[str, np.ndarray],
    train: tuple[np.ndarray, np.ndarray],
    rate: float,
    augmentation: actions.Action | None,
    task: Task,
) -> Arrays:
    times, action = np.array(sorted({0, *settings.steps})), plane_rotations(settings.rotations)
    options: dict[str, Any] = {"augmentation": augmentation, "learning_rate": rate, "dynamics": "discrete"}
    model = InfiniteEnsemble(network(settings), time=0.0, **options).fit(*train)
    arrays = {"square": model.predict(points["square"], time=times)}
    for name in ("inside", "outside"):
        mean = model.predict(orbit_batch(action, points[name]), time=times)
        arrays[name] = by_element(action, mean[..., None])[..., 0]
    return arrays


def _kept(action: actions.Action, recorded: Arrays) -> Arrays:
    arrays = {name: by_element(action, recorded[name])[..., 0] for name in ("inside", "outside")}
    outputs = recorded["square"][..., 0]
    return arrays | {"square_members": outputs[:, :SHOWN_MEMBERS], "square_mean": outputs.mean(axis=1)}


def _as_map(settings: ToySettings, values: np.ndarray) -> np.ndarray:
    """Values on the square as an image."""
    return values.reshape(*values.shape[:-1], settings.pixels, settings.pixels)


_THEOREM = "theorem of emergent equivariance"


def claims(settings: ToySettings, results: ToyResults) -> Sequence[Claim]:
    """The four claims of the source and a control."""
    both = tuple(range(len(REGIONS)))
    level = shared_level(len(both) * len(settings.steps))
    label = lambda region, step: f"{after(step)}, {REGIONS[region]}"
    each = lambda number: Records.over(number, label, region=both, step=settings.steps)

    def averaged(values: Callable[[ToyResults, int, int], np.ndarray]) -> np.ndarray:
        return np.mean([values(results, region, step) for region in both for step in settings.steps], axis=0)

    single = t_interval(averaged(member_sizes))
    together = settings.members // 10
    return [
        claim(
            "Single members are not invariant",
            each(lambda region, step: t_interval(member_sizes(results, region, step))),
            aggregate=("the mean over steps and regions", single),
            measure="Root mean square change of a member when its input is rotated, relative to the standard deviation "
            "of the true function; mean over members.",
            covers="members",
            at_least=0.01,
            by=theirs(f"{THEIRS}; the bound is our choice", "slides, members at steps 0, 1, 2, 3 and 2000"),
        ),
        claim(
            "The ensemble mean is invariant, at initialisation and at every later step",
            each(lambda region, step: surviving(results, region, step, level)),
            measure="Share of the members’ mean square change that averaging over infinitely many members would leave "
            "(unbiased, so it may come out negative).",
            covers="members",
            at_most=2,
            unit="%",
            by=proved(f"{THEIRS}; the bound is our choice", _THEOREM + "; slides", "0 %"),
        ),
        to_rounding(
            "At infinite width the mean is exactly invariant",
            each(lambda region, step: largest_change(results, results.augmented.infinite_orbits, region, step)),
            measure="Largest change of the closed-form mean when its input is rotated, relative to the standard "
            "deviation of the true function.",
            by=proved(THEIRS, _THEOREM, "0"),
        ),
        exact(
            "Without augmentation the mean at infinite width is not invariant",
            Records.over(
                lambda region, step: largest_change(results, results.plain_orbits, region, step),
                label,
                region=both,
                step=(max(settings.steps),),
            ),
            measure="The same of an ensemble that saw every training point in one orientation only, after the last "
            "step.",
            at_least=0.01,
            by=ours("our control"),
        ),
        claim(
            f"The mean of {together} members changes at most half as much under a rotation as they do",
            each(lambda region, step: t_interval(parts(results, region, step))),
            aggregate=("the mean over steps and regions", t_interval(averaged(parts))),
            measure=f"Root mean square change of the mean of {together} members over that of single members; mean "
            "over ten disjoint parts of the ensemble. An invariant expectation leaves 1/√"
            f"{together} = {together**-0.5 if together else np.nan:.3f}.",
            covers="parts of the ensemble",
            at_most=0.5,
            by=theirs(f"{THEIRS}; the bound is our choice", "slides, members and mean at steps 0, 1, 2, 3 and 2000"),
        ),
    ]


_COLOURS = LinearSegmentedColormap.from_list("two-sided", ["#004478", "#56a0d0", "#f7f7f7", "#f09646", "#aa3c00"])


def present(settings: ToySettings, results: ToyResults, folder: RunFolder) -> list[Shown]:
    """Maps of predictions."""
    maps, p = results.augmented.maps, settings.plane
    rows = {f"Member {m + 1}": maps["members"][:, m] for m in range(min(2, maps["members"].shape[1]))}
    rows |= {f"Mean of {settings.members}": maps["mean"], "Infinite width": maps["infinite"]}
    titles = ["initialisation" if step == 0 else f"step {step:,}" for step in settings.steps] + ["true function"]
    limit, across = 1.2 * float(np.abs(results.truth).max()), len(titles)
    look: dict[str, Any] = {
        "cmap": _COLOURS,
        "vmin": -limit,
        "vmax": limit,
        "extent": (-p, p, -p, p),
        "interpolation": "bilinear",
    }
    with drawing.panels(
        folder,
        "snapshots",
        titles=titles + [""] * across * (len(rows) - 1),
        rows=len(rows),
        size=(8.2, 8.2 / across * len(rows) * 1.04),
        caption="Two members, the mean of all members and the infinitely wide ensemble at the steps of the claims. The "
        "true function carries the augmented training points (dots) on their disc (dashed). Nothing is averaged over "
        "rotations.",
        alt="Maps of members, mean and infinite width at five times",
    ) as drawn:
        for axes in drawn:
            axes.title.set_fontweight("normal")
            _bare(axes)
        for i, (name, values) in enumerate(rows.items()):
            drawn[i * across].set_ylabel(name, color=palette.INK.light, fontweight="bold")
            drawn[(i + 1) * across - 1].axis("off")
            for j, step in enumerate(settings.steps):
                drawn[i * across + j].imshow(values[results.at(step)], **look)
        truth, angles = drawn[across - 1], np.linspace(0, 2 * np.pi, 200)
        truth.imshow(results.truth, **look)
        truth.plot(np.cos(angles), np.sin(angles), color=palette.INK.light, lw=0.8, ls=(0, (4, 3)))
        orbit = np.asarray(plane_rotations(settings.rotations).orbit(results.train_x)).reshape(-1, 2)
        truth.plot(*orbit.T, ".", ms=2.2, color=palette.INK.light)
        truth.set_xlim(-p, p)
        truth.set_ylim(-p, p)
    return [drawn.figure]


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
