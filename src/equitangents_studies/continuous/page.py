"""How the study of SO(2) is shown: the change under rotations against κ and k, its bound, and the floor beside it."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Section, palette
from equitangents.statistics import Estimate, bootstrap
from equitangents_studies.continuous.image_claims import finding, sentence
from equitangents_studies.continuous.image_page import image_facts, image_sections, image_tables
from equitangents_studies.continuous.results import WAYS, Results, bound_share, finite_violation
from equitangents_studies.continuous.settings import Settings
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, panels


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    tables: dict[str, Columns] = {
        "violation": violation_table(settings, results),
        "angles": angles_table(settings, results),
    }
    worst = 100 * results.round_trip.max()
    sections = [
        Section(
            "From finite subgroups to the circle",
            [
                f"Ensembles see {settings.train_images} images in k orientations and are tested at {settings.angles} "
                "angles. On rings an image is a function of radius and angle, sampled at "
                f"{settings.rings}×{settings.samples} places: a finite sum of harmonics, which any rotation turns "
                "exactly. Pixels are resampled by cubic splines inside the inscribed disc; turning there and back "
                f"changes images by up to {worst:.0f} %, and what that does to a prediction is the floor below which "
                "its invariance on pixels cannot be measured.",
                "The bound is κ C(x): κ is the largest distance of a rotation from the nearest one of the subgroup, "
                "in operator norm, and C(x) the norm of the input times the largest gradient of the closed-form mean "
                "on the way. The gradient is computed from the mean, at a grid of places.",
            ],
            [_against_kappa(settings, results, folder)],
        ),
        Section(
            "From angle to angle",
            [
                "The change against the angle of rotation. Rotations of rings by a multiple of 360°/k are shown in "
                "training; on pixels only those by multiples of 90° need no resampling."
            ],
            [_over_angles(settings, results, folder)],
        ),
    ]
    facts = {
        "Groups": ", ".join(f"C{k}" for k in settings.orders),
        "Angles tested": str(settings.angles),
        "Training": f"{settings.train_images} images, full-batch gradient descent",
        "Finite ensembles": f"{settings.members} MLPs of width {settings.width}" if settings.trained else "none",
    }
    if results.images is not None:
        tables |= image_tables(results.images)
        sections = [*image_sections(results.images, folder), *sections]
        facts |= image_facts(results.images)
        said = {"finding": finding(results.images), "sentence": sentence(results.images)}
        return Presentation(tables, sections, facts, **said)
    return Presentation(tables, sections, facts)


def violation_table(settings: Settings, results: Results) -> Columns:
    """Relative change of every input by way, k and step, with κ, the share of the bound, and the floor on pixels."""
    share, floor = bound_share(results), np.sqrt(results.relative_floor())
    rest = {"rings": lambda at: (share[at], 0.0), "pixels": lambda at: ("", floor[at])}
    rows = [
        (way, settings.orders[i], results.kappa[way][i], int(results.steps[t]), n, value, *rest[way]((i, t, n)))
        for way in WAYS
        for (i, t, n), value in np.ndenumerate(np.sqrt(results.relative(way)))
    ]
    names = ("way", "k", "kappa", "step", "input", "relative_change", "share_of_bound", "resampling_floor")
    return columns(names, rows)


def angles_table(settings: Settings, results: Results) -> Columns:
    """Root mean square relative change over inputs at every angle, and what resampling contributes."""
    floor = _rms(results.floor) / results.size["pixels"][..., None]
    rows = [
        (way, settings.orders[i], int(results.steps[t]), 360 * g / settings.angles,
         value / results.size[way][i, t], 0.0 if way == "rings" else floor[i, t, g])
        for way in WAYS
        for (i, t, g), value in np.ndenumerate(_rms(results.profile[way]))
    ]  # fmt: skip
    return columns(("way", "k", "step", "degrees", "relative_change", "resampling_floor"), rows)


def _rms(profile: np.ndarray) -> np.ndarray:
    return np.sqrt((profile**2).mean(axis=-1))


def _roots(squares: np.ndarray) -> list[Estimate]:
    return [bootstrap(row, np.sqrt) for row in squares]


def _against_kappa(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    kappa, orders = results.kappa["rings"], np.array(settings.orders)
    dotted = (0, (2, 2))
    with panels(
        folder,
        "change-against-kappa",
        titles=("Rings, against κ", f"Both ways, step {results.steps[-1]:,}"),
        ylabel="relative change under rotations",
        size=(8.6, 3.9),
        sharey=True,
        caption="Root mean square change of the closed-form mean under all rotations, relative to its size, with 95 % "
        "intervals over inputs. Left: on rings, where rotations are exact, with the bound in the colour of its step. "
        "Right: rings and pixels at the last step, the floor that resampling sets, and trained ensembles without their "
        "sampling error, with intervals over members.",
        alt="Change under rotations against κ and k",
    ) as drawn:
        left, right = drawn
        for t, colour in drawing.shades_of(range(len(results.steps))):
            relative = _roots(results.relative("rings")[:, t])
            drawing.estimates(left, kappa, relative, colour, label=f"step {results.steps[t]:,}")
            # of the bound, the root mean square over inputs, as of the change
            bound = kappa * _rms(results.constant[:, t]) / results.size["rings"][:, t]
            left.plot(kappa, bound, color=colour, lw=1, ls=dotted)
        left.plot([], [], color=palette.INK.light, lw=1, ls=dotted, label="bound κ C(x)")
        lines = (
            ("rings", results.relative("rings"), palette.ORANGE, "o-"),
            ("pixels", results.relative("pixels"), palette.VERMILLION, "o-"),
            ("floor of resampling", results.relative_floor(), palette.MUTED, "s--"),
        )
        for label, squares, colour_of, marks in lines:
            drawing.estimates(right, orders, _roots(squares[:, -1]), colour_of.light, fmt=marks, label=label)
        if settings.trained:
            size = np.sqrt(results.relative("rings")[:, -1].mean(axis=-1))
            seen = [
                finite_violation(settings, results, k).times(size[settings.orders.index(k)]) for k in settings.trained
            ]
            look = {"fmt": "D", "mfc": "none", "ms": 6, "label": "rings, finite ensembles"}
            drawing.estimates(right, settings.trained, seen, palette.GREEN.light, **look)
        left.set_xlabel("κ")
        right.set_xlabel("k, orientations in the data")
        ticks = [v for v in (0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 1, 1.4, 2) if kappa.min() <= v <= kappa.max() * 1.01]
        drawing.logarithmic(left, ticks=ticks)
        drawing.logarithmic(right, "x", settings.orders, base=2)
        drawn.legend(left, right, columns=4)
    return drawn.figure


def _over_angles(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    chosen = [k for k in settings.orders if k in (4, 8, 16)] or list(settings.orders[:3])
    degrees = 360 * np.arange(settings.angles) / settings.angles
    half = degrees <= 180
    with panels(
        folder,
        "change-over-angles",
        titles=[f"C{k}" for k in chosen],
        xlabel="angle, degrees",
        ylabel="relative change",
        sharey=True,
        caption=f"Root mean square change over test images against the angle of rotation, step {results.steps[-1]:,}. "
        "Floor of resampling: what turning the image by this angle and back changes. Changes below 10⁻⁶ lie "
        "below the panel.",
        alt="Change under rotations against angle",
    ) as drawn:
        for axes, k in zip(drawn, chosen, strict=True):
            i = settings.orders.index(k)
            curves = (
                ("pixels", results.profile["pixels"][i, -1], "pixels", palette.VERMILLION),
                ("floor of resampling", results.floor[i, -1], "pixels", palette.MUTED),
                ("rings", results.profile["rings"][i, -1], "rings", palette.ORANGE),
            )
            for label, profile, way, colour in curves:
                value = _rms(profile) / results.size[way][i, -1]
                axes.plot(degrees[half], np.maximum(value, 1e-7)[half], color=colour.light, lw=1.3, label=label)
            axes.set_xticks([0, 45, 90, 135, 180])
        drawing.logarithmic(drawn[0], "y")
        drawn[0].set_ylim(1e-6, 3)
        drawn.legend()
    return drawn.figure
