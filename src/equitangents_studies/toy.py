"""An invariant function on the plane, learned by an ensemble of MLPs with full augmentation.

f(r, φ) = cos(nφ) r²/(r² + 0.35) is invariant under turns by 360°/n. Claimed: no member of an augmented ensemble is
invariant, the ensemble's mean is, at every training time, on the training disc and beyond it.

Predictions of both ensembles at every time, and how much a turn changes them.

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
from equitangents.report import Figure, figures, palette
from equitangents.statistics import Estimate, bootstrap, exactly, shared_level, surviving_share, t_interval
from equitangents_studies.common import networks
from equitangents_studies.common.infinite import expected_squares, largest_rate
from equitangents_studies.common.orbits import by_element, orbit_batch
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework.claims import Claim, Records, after, claim, exact, ours, theirs, to_rounding
from equitangents_studies.framework.page import Presentation, drawing
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check, presets
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE as THEIRS

REGIONS = ("on the training disc", "beyond the training disc")


@dataclass(frozen=True)
class Settings:
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
    frames: int = 18
    rate: float = 0.5
    W_std: float = 1.5
    b_std: float = 0.3
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="members=500 width=128 orbit_points=96",
    paper="members=1000 width=512 orbit_points=128 pixels=81 frames=30",
)


def training_times(settings: Settings) -> np.ndarray:
    """The claims' steps, and about `frames` steps in all, evenly spaced on a logarithmic scale."""
    last = max(settings.steps)
    spaced = np.round(np.geomspace(1, max(last, 2), settings.frames)).astype(int)
    return np.array(sorted({0, *settings.steps, *(int(t) for t in spaced if t <= last)}))


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes that statistics need; the study reads no data."""
    at_least(settings, rotations=2, members=3)
    check(settings.plane > 1, "plane", settings.plane, "larger than 1, the radius of the training disc")


_GROUPS = 10  # disjoint parts of the ensemble, over which the interval of its mean's change is


@dataclass(frozen=True, eq=False)
class Trained:
    """Predictions of the augmented ensemble at every time: orbits by region (T, M, |G|, N), those of infinite width
    (T, |G|, N), and what the page shows on the square.
    """

    orbits: tuple[np.ndarray, np.ndarray]
    infinite_orbits: tuple[np.ndarray, np.ndarray]
    maps: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Results:
    """The augmented ensemble at every time of `times`, and orbits of the mean of infinite width without augmentation;
    `expected_violation` (T,), one entry per region, is closed-form.
    """

    times: np.ndarray
    learning_rate: float
    train_x: np.ndarray
    augmented: Trained
    plain_orbits: tuple[np.ndarray, np.ndarray]
    expected_violation: tuple[np.ndarray, np.ndarray]
    truth: np.ndarray
    scale: float

    def at(self, step: int) -> int:
        """The index of a training step."""
        return int(np.flatnonzero(self.times == step)[0])


def violations(trained: Trained, region: int) -> np.ndarray:
    """f(gx) − f(x) for g ≠ e, element 0: (T, M, |G| − 1, N)."""
    y = trained.orbits[region].astype(np.float64)
    return y[:, :, 1:] - y[:, :, :1]


def member_sizes(results: Results, region: int, step: int) -> np.ndarray:
    """Violation of every member, (M,)."""
    return np.sqrt((violations(results.augmented, region)[results.at(step)] ** 2).mean(axis=(1, 2))) / results.scale


def parts(results: Results, region: int, step: int) -> np.ndarray:
    """Violation of the mean of each of ten disjoint parts of the ensemble, over the root mean square of members'."""
    d = violations(results.augmented, region)[results.at(step)]
    size = len(d) // _GROUPS
    means = (
        d[: _GROUPS * size].reshape(_GROUPS, size, *d.shape[1:]).mean(axis=1) if size else np.full((1, 1, 1), np.nan)
    )
    return np.sqrt((means**2).mean(axis=(1, 2)) / (d**2).mean())


def surviving(results: Results, region: int, step: int, level: float) -> Estimate:
    """Share of the members' mean square violation that averaging ever more of them would leave, in percent."""
    d = violations(results.augmented, region)[results.at(step)]
    return surviving_share(d.reshape(len(d), -1), confidence=level).times(100)


def largest_change(results: Results, means: tuple[np.ndarray, np.ndarray], region: int, step: int) -> Estimate:
    """The largest violation of a closed-form mean, of which orbits by region are given."""
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
    return {"train": train, "inside": inside, "outside": outside, "square": square}


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Train the ensemble, solve the infinite one, with augmentation and without, all at the same steps of descent."""
    points, times, action = _points(settings), training_times(settings), plane_rotations(settings.rotations)
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
    closed_form = lambda suffix, words, augmentation: Stage(
        f"infinite{suffix}",
        f"Infinite width, closed form{words}",
        partial(_infinite, settings, points, train, rate, augmentation),
    )
    found = folder.stages(
        {
            "closed": closed_form("", "", action),
            "finite": Stage("ensemble", f"Training {settings.members} members together", training),
            "plain": closed_form("-plain", " without augmentation", None),
        }
    )
    closed, finite = found["closed"], found["finite"]
    maps = {key: finite[f"square_{key}"] for key in ("members", "mean")} | {"infinite": closed["square"]}
    orbits = lambda arrays: (arrays["inside"], arrays["outside"])
    return Results(
        times=times,
        learning_rate=rate,
        train_x=points["train"],
        augmented=Trained(
            orbits(finite), orbits(closed), {key: _as_map(settings, values) for key, values in maps.items()}
        ),
        plain_orbits=orbits(found["plain"]),
        expected_violation=(closed["violation_inside"], closed["violation_outside"]),
        truth=_as_map(settings, truth["square"]),
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
    arrays = {"square": model.predict(points["square"], time=times)}
    for name in ("inside", "outside"):
        mean, covariance = model.predict(orbit_batch(action, points[name]), time=times, return_cov=True)
        arrays[name] = by_element(action, mean[..., None])[..., 0]
        arrays[f"violation_{name}"] = np.sqrt(expected_squares(action, covariance, len(points[name])))
    return arrays


def _kept(action: actions.Action, recorded: Arrays) -> Arrays:
    arrays = {name: by_element(action, recorded[name])[..., 0] for name in ("inside", "outside")}
    outputs = recorded["square"][..., 0]
    return arrays | {"square_members": outputs[:, :SHOWN_MEMBERS], "square_mean": outputs.mean(axis=1)}


def _as_map(settings: Settings, values: np.ndarray) -> np.ndarray:
    """Values on the square as an image."""
    return values.reshape(*values.shape[:-1], settings.pixels, settings.pixels)


_THEOREM = "theorem of emergent equivariance"


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The four claims of the source and a control."""
    both = tuple(range(len(REGIONS)))
    level = shared_level(len(both) * len(settings.steps))
    words = lambda region, step: f"{after(step)}, {REGIONS[region]}"
    each = lambda number: Records.over(number, words, region=both, step=settings.steps)

    def averaged(values: Callable[[Results, int, int], np.ndarray]) -> np.ndarray:
        return np.mean([values(results, region, step) for region in both for step in settings.steps], axis=0)

    single = t_interval(averaged(member_sizes))
    together = settings.members // 10
    return [
        claim(
            "Single members are not invariant",
            each(lambda region, step: t_interval(member_sizes(results, region, step))),
            aggregate=("the mean over steps and regions", single),
            measure="Root mean square change of a member when its input is turned, relative to the standard deviation "
            "of the true function; mean over members.",
            covers=("members", settings.members),
            at_least=0.01,
            by=theirs(f"{THEIRS}; the bound is our choice", "slides, members at steps 0, 1, 2, 3 and 2000"),
        ),
        claim(
            "The ensemble mean is invariant, at initialisation and at every later step",
            each(lambda region, step: surviving(results, region, step, level)),
            measure="Share of the members’ mean square change that averaging over ever more members would leave "
            "(unbiased, so it may come out negative).",
            covers=("members", settings.members),
            at_most=2,
            unit="%",
            by=theirs(f"{THEIRS}; the bound is our choice", _THEOREM + "; slides", "0 %"),
        ),
        to_rounding(
            "At infinite width the mean is exactly invariant",
            each(lambda region, step: largest_change(results, results.augmented.infinite_orbits, region, step)),
            measure="Largest change of the closed-form mean when its input is turned, relative to the standard "
            "deviation of the true function.",
            by=theirs(THEIRS, _THEOREM, "0"),
        ),
        exact(
            "Without augmentation the mean at infinite width is not invariant",
            Records.over(
                lambda region, step: largest_change(results, results.plain_orbits, region, step),
                words,
                region=both,
                step=(max(settings.steps),),
            ),
            measure="The same of an ensemble that saw every training point in one orientation only, after the last "
            "step.",
            at_least=0.01,
            by=ours("our control"),
        ),
        claim(
            f"The mean of {together} members changes at most half as much under a turn as they do",
            each(lambda region, step: t_interval(parts(results, region, step))),
            aggregate=("the mean over steps and regions", t_interval(averaged(parts))),
            measure=f"Root mean square change of the mean of {together} members over that of single members; mean "
            "over ten disjoint parts of the ensemble. An invariant expectation leaves 1/√"
            f"{together} = {together**-0.5 if together else np.nan:.3f}.",
            covers=("parts of the ensemble", 10),
            at_most=0.5,
            by=theirs(f"{THEIRS}; the bound is our choice", "slides, members and mean at steps 0, 1, 2, 3 and 2000"),
        ),
    ]


_COLOURS = LinearSegmentedColormap.from_list("two-sided", ["#004478", "#56a0d0", "#f7f7f7", "#f09646", "#aa3c00"])
_TITLES = ("On the training disc", "Beyond the training disc")


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    sizes = ensemble_sizes(settings, results)
    tables = {"ensemble_size": sizes.table("relative_change")}
    shown = [
        _snapshots(settings, results, folder),
        _over_time(settings, results, folder),
        _over_members(settings, sizes, folder),
    ]
    return Presentation(tables, shown)


def _mean_squares(trained: Trained, region: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean square change under a turn at every time: of each member, of their mean, of infinite width."""
    d, exact = violations(trained, region), trained.infinite_orbits[region]
    of_infinite = ((exact[:, 1:] - exact[:, :1]) ** 2).mean(axis=(1, 2))
    return (d**2).mean(axis=(2, 3)), (d.mean(axis=1) ** 2).mean(axis=(1, 2)), of_infinite


def ensemble_sizes(settings: Settings, results: Results) -> Records:
    """Root mean square change of the mean of M members, over all disjoint groups of M, at the claims' steps."""
    sizes = [2**k for k in range(int(np.log2(settings.members)) + 1)]
    changes = {name: violations(results.augmented, region) for region, name in enumerate(REGIONS)}

    def change(inputs: str, step: int, members: int) -> Estimate:
        now = changes[inputs][results.at(step)]
        groups = now[: len(now) // members * members].reshape(-1, members, *now.shape[1:]).mean(axis=1)
        squares = (groups**2).mean(axis=(1, 2))
        low, high = bootstrap(squares, bounds=(0.0, np.inf)).interval if len(squares) >= 10 else (np.nan, np.nan)
        return Estimate(*(float(np.sqrt(v) / results.scale) for v in (squares.mean(), low, high)))

    return Records.over(change, inputs=REGIONS, step=settings.steps, members=sizes)


def _snapshots(settings: Settings, results: Results, folder: RunFolder) -> Figure:
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
        "turns.",
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
    return drawn.figure


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _over_time(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "violation-over-time",
        titles=_TITLES,
        ylabel="relative change under a turn",
        sharey=True,
        caption=(
            "Change under a turn of members, of the mean of all of them, and what theory expects of one "
            "infinitely wide network and of the mean of all."
        ),
        alt="Change under a turn against training steps",
    ) as drawn:
        for region, axes in enumerate(drawn):
            single, mean, _ = (np.sqrt(v) / results.scale for v in _mean_squares(results.augmented, region))
            expected = results.expected_violation[region] / results.scale
            axes.plot(results.times, single[:, :40], color=palette.MEMBER.light, lw=0.6, alpha=0.55)
            axes.plot([], [], color=palette.MEMBER.light, label="members")
            axes.plot(results.times, mean, color=palette.BLUE.light, label="their mean")
            dashed, dotted = (0, (5, 3)), (0, (1.5, 2))
            look: dict[str, Any] = {"color": palette.VERMILLION.light, "lw": 1.5}
            axes.plot(results.times, expected, ls=dashed, label="expected of one", **look)
            many = f"expected of the mean of {settings.members}"
            axes.plot(results.times, expected / np.sqrt(settings.members), ls=dotted, label=many, **look)
            axes.set_yscale("log")
            drawing.steps(axes, int(results.times[-1]))
            figures.plain_log(axes, "y")
    return drawn.figure


def _over_members(settings: Settings, sizes: Records, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "violation-over-members",
        titles=_TITLES,
        xlabel="members averaged, M",
        ylabel="relative change under a turn",
        sharey=True,
        caption=(
            "Change under a turn of the mean of M members, root mean square over all disjoint groups of M"
            " members (band: 95 % interval over groups, where there are at least 10). Dotted: 1/√M, the "
            "law of an exactly invariant limit."
        ),
        alt="Change under a turn against ensemble size",
    ) as drawn:
        for region, axes in enumerate(drawn):
            for step, colour in drawing.shades_of(settings.steps):
                at = sizes.where(inputs=REGIONS[region], step=step)
                label = "initialisation" if step == 0 else f"step {step:,}"
                axes.plot(at.column("members"), at.values, "o-", color=colour, ms=3.5, label=label)
                axes.fill_between(at.column("members"), *at.interval, color=colour, alpha=0.25)
                drawing.power(axes, at.column("members"), at.values[0], -0.5)
            drawing.logarithmic(axes, base=2)
    return drawn.figure


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
