"""How the study of SO(2) is shown: the change under rotations against κ and k, its bound, and the floor beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.report import Figure, Section, Verdict, figures
from equitangents.report.palette import BLUE, GREEN, INK, MUTED, VERMILLION
from equitangents.report.palette import steps as shades
from equitangents.statistics import Estimate, bootstrap
from equitangents.studies.continuous.study import WAYS, Results, Settings, bound_share, finite_violation
from equitangents.studies.framework import drawing
from equitangents.studies.framework.compatibility import Presentation, say
from equitangents.studies.framework.folder import Columns, RunFolder
from equitangents.studies.framework.tables import columns


def present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    tables = {"violation": violation_table(settings, results), "angles": angles_table(settings, results)}
    worst = 100 * results.round_trip.max()
    sections = [
        Section(
            "From finite subgroups to the circle",
            [
                f"Ensembles see {settings.train_images} images in k orientations and are tested at {settings.angles} "
                "angles. On rings an image is a function of radius and angle, sampled at "
                f"{settings.rings}×{settings.samples} places: a finite sum of harmonics, which any rotation turns "
                "exactly. Pixels are resampled by cubic splines inside the inscribed disc; turning forth and back "
                f"changes images by up to {worst:.0f} %, and what that does to a prediction is the floor under which "
                "its invariance on pixels cannot be measured.",
                "The bound is κ C(x): κ is the largest distance of a rotation from the nearest one of the subgroup, "
                "in operator norm, and C(x) the norm of the input times the largest gradient of the closed-form mean "
                "on the way. The gradient is computed from the mean, at a grid of places. Only low harmonics reach far "
                "into the kernel, so that the change falls much faster than the bound.",
            ],
            [_against_kappa(settings, results, folder)],
        ),
        Section(
            "From angle to angle",
            [
                "Between two angles of the subgroup the prediction changes and comes back. On pixels it does not come "
                "back quite, except after multiples of 90°, where no pixel is resampled."
            ],
            [_over_angles(settings, results, folder)],
        ),
    ]
    facts = {
        "Groups": ", ".join(f"C{k}" for k in settings.orders),
        "Angles tested": str(settings.angles),
        "Training": f"{settings.train_images} images, full-batch gradient descent",
        "Finite ensembles": f"{settings.members} MLPs of width {settings.width}" if settings.trained else "none",
        "Seed": str(settings.seed),
    }
    return Presentation(_summary(settings, verdicts), tables, sections, facts)


def _summary(settings: Settings, verdicts: Sequence[Verdict]) -> str:
    first = say(
        verdicts[0],
        holds="The change under arbitrary rotations stays below κ C(x)",
        fails="The change under arbitrary rotations exceeds κ C(x)",
        undecided="The bound could not be computed",
    )
    second = say(
        verdicts[2],
        holds="it falls at least in proportion to κ",
        fails="it falls more slowly than κ",
        undecided="how fast it falls cannot be told",
    )
    third = say(
        verdicts[3],
        holds=f"on pixels, C{settings.orders[-1]} leaves no more than the error of resampling.",
        fails=f"on pixels, C{settings.orders[-1]} leaves more than the error of resampling.",
        undecided="on pixels, what is left cannot be told from the error of resampling.",
    )
    return f"{first}; {second}; {third}"


def violation_table(settings: Settings, results: Results) -> Columns:
    """Relative change of every input by way, k and step, with κ, the share of the bound, and the floor on pixels."""
    share, floor = bound_share(results), np.sqrt(results.relative_floor())
    rows: list[tuple[object, ...]] = []
    for way in WAYS:
        relative = np.sqrt(results.relative(way))
        for i, k in enumerate(settings.orders):
            for t, step in enumerate(map(int, results.steps)):
                for n, value in enumerate(relative[i, t]):
                    rest = (share[i, t, n], 0.0) if way == "rings" else ("", floor[i, t, n])
                    rows.append((way, k, results.kappa[way][i], step, n, value, *rest))
    names = ("way", "k", "kappa", "step", "input", "relative_change", "share_of_bound", "resampling_floor")
    return columns(names, rows)


def angles_table(settings: Settings, results: Results) -> Columns:
    """Root mean square relative change over inputs at every angle, and what resampling contributes."""
    rows: list[tuple[object, ...]] = []
    for way in WAYS:
        for i, k in enumerate(settings.orders):
            for t, step in enumerate(map(int, results.steps)):
                rms, size = _rms(results.profile[way][i, t]), results.size[way][i, t]
                floor = _rms(results.floor[i, t])
                for g, value in enumerate(rms):
                    below = 0.0 if way == "rings" else floor[g] / size
                    rows.append((way, k, step, 360 * g / settings.angles, value / size, below))
    return columns(("way", "k", "step", "degrees", "relative_change", "resampling_floor"), rows)


def _rms(profile: np.ndarray) -> np.ndarray:
    return np.sqrt((profile**2).mean(axis=-1))


def _roots(squares: np.ndarray) -> list[Estimate]:
    return [bootstrap(row, lambda m: np.sqrt(m)) for row in squares]


def _against_kappa(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    kappa, orders = results.kappa["rings"], np.array(settings.orders)
    with figures.canvas(8.6, 3.6) as canvas:
        left, right = canvas.subplots(1, 2, sharey=True)
        for t, (step, colour) in enumerate(zip(results.steps, shades(len(results.steps)), strict=True)):
            drawing.estimates(left, kappa, _roots(results.relative("rings")[:, t]), colour, label=f"step {step:,}")
            # of the bound, the root mean square over inputs, as of the change
            bound = kappa * _rms(results.constant[:, t]) / results.size["rings"][:, t]
            left.plot(kappa, bound, color=colour, lw=1, ls=(0, (2, 2)))
        left.plot([], [], color=INK.light, lw=1, ls=(0, (2, 2)), label="bound κ C(x)")
        left.set_title("Rings, against κ")
        left.set_xlabel("κ")
        left.set_ylabel("relative change under rotations")
        left.legend(loc="lower right")
        drawing.estimates(right, orders, _roots(results.relative("rings")[:, -1]), BLUE.light, label="rings")
        drawing.estimates(right, orders, _roots(results.relative("pixels")[:, -1]), VERMILLION.light, label="pixels")
        drawing.estimates(
            right, orders, _roots(results.relative_floor()[:, -1]), MUTED.light, fmt="s--", label="floor of resampling"
        )
        if settings.trained:
            size = np.sqrt(results.relative("rings")[:, -1].mean(axis=-1))
            seen = [
                finite_violation(settings, results, k).times(size[settings.orders.index(k)]) for k in settings.trained
            ]
            look = {"fmt": "D", "mfc": "none", "ms": 6, "label": "rings, finite ensembles"}
            drawing.estimates(right, settings.trained, seen, GREEN.light, **look)
        right.set_title(f"Both ways, step {results.steps[-1]:,}")
        right.set_xlabel("k, orientations in the data")
        right.legend(loc="lower left")
        ticks = [v for v in (0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 1, 1.4, 2) if kappa.min() <= v <= kappa.max() * 1.01]
        drawing.logarithmic(left, ticks=ticks)
        drawing.logarithmic(right, "x", settings.orders, base=2)
        svg = figures.save(canvas, folder.figures, "change-against-kappa")
    caption = (
        "Root mean square change of the closed-form mean under all rotations, relative to its size, with 95 % "
        "intervals over inputs. Left: on rings, where rotations are exact, with the bound (dotted). Right: rings and "
        "pixels at the last step, the floor that resampling sets, and trained ensembles without their sampling error."
    )
    return Figure("change-against-kappa", caption, svg, alt="Change under rotations against κ and k")


def _over_angles(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    chosen = [k for k in settings.orders if k in (4, 8, 16)] or list(settings.orders[:3])
    degrees = 360 * np.arange(settings.angles) / settings.angles
    half = degrees <= 180
    with figures.canvas(8.6, 3.2) as canvas:
        panels = canvas.subplots(1, len(chosen), sharey=True, squeeze=False)[0]
        for axes, k in zip(panels, chosen, strict=True):
            i = settings.orders.index(k)
            curves = (
                ("pixels", results.profile["pixels"][i, -1], "pixels", VERMILLION.light),
                ("floor of resampling", results.floor[i, -1], "pixels", MUTED.light),
                ("rings", results.profile["rings"][i, -1], "rings", BLUE.light),
            )
            for label, profile, way, colour in curves:
                value = _rms(profile) / results.size[way][i, -1]
                axes.plot(degrees[half], np.maximum(value, 1e-7)[half], color=colour, lw=1.3, label=label)
            axes.set_title(f"C{k}")
            axes.set_xticks([0, 45, 90, 135, 180])
            axes.set_xlabel("angle, degrees")
        drawing.logarithmic(panels[0], "y")
        panels[0].set_ylim(1e-6, 3)
        panels[0].set_ylabel("relative change")
        panels[0].legend(loc="lower left")
        svg = figures.save(canvas, folder.figures, "change-over-angles")
    caption = (
        f"Root mean square change over test images against the angle of rotation, after {results.steps[-1]:,} steps. "
        "Grey: what turning the image forth and back by this angle changes."
    )
    return Figure("change-over-angles", caption, svg, alt="Change under rotations against angle")
