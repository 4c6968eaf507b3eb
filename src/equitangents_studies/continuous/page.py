"""How the study of SO(2) is shown: the change under rotations against κ and k, its bound, and the floor beside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, bootstrap
from equitangents_studies.continuous.study import (
    WAYS,
    ImageEnsembles,
    Results,
    Settings,
    bound_share,
    finite_violation,
)
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, Shown, columns, drawing, in_words


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    tables: dict[str, Columns] = {
        "violation": violation_table(settings, results),
        "angles": angles_table(settings, results),
    }
    shown: list[Shown] = [
        _against_kappa(settings, results, folder),
        _over_angles(settings, results, folder),
    ]
    if results.images is not None:
        tables |= image_tables(results.images)
        shown = [*image_sections(results.images, folder), *shown]
    return Presentation(tables, shown)


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
    with drawing.panels(
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
    with drawing.panels(
        folder,
        "change-over-angles",
        titles=[f"C{k}" for k in chosen],
        xlabel="angle, degrees",
        ylabel="relative change",
        sharey=True,
        caption=(
            "Root mean square change over test images against the angle of rotation, last step. Floor of "
            "resampling: what turning the image by this angle and back changes. Changes below 10⁻⁶ lie "
            "below the panel."
        ),
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
    return drawn.figure


_DASHED = (0, (3, 3))
_FLOOR = "floor of resampling"


def image_tables(found: ImageEnsembles) -> dict[str, Columns]:
    """Scores by k, epoch, ensemble and set; agreement at every angle; and costs."""
    scores = [
        (k, int(epoch), r, found.images.titles[name], found.agreement(k, name)[e, r].mean(),
         found.floor(k, name)[e, r].mean(), found.of_members(k, name)[e, r].mean(),
         found.change(k, name)[e, r], found.change(k, name, "floor_change")[e, r],
         found.error(k)[e, r].mean() if name == "test" else "",
         found.floor_error(k)[e, r].mean() if name == "test" else "")
        for k in found.orders
        for e, epoch in enumerate(found.epochs)
        for r in range(found.recipe.ensembles)
        for name in found.sets
    ]  # fmt: skip
    names = (
        "k", "epoch", "ensemble", "inputs", "agreement", "agreement_floor", "agreement_of_members", "relative_change",
        "relative_change_floor", "error", "error_floor",
    )  # fmt: skip
    angles = [
        (k, found.images.titles[name], 360 * g / found.order, value)
        for k in found.orders
        for name in found.sets
        for g, value in enumerate(_at_angles(found, k, name))
    ]
    costs = [
        (k, int(epoch), step, step * found.recipe.batch, step * found.multiplications, step * found.seconds)
        for k in found.orders
        for epoch, step in zip(found.epochs, found.steps(k).tolist(), strict=True)
    ]
    return {
        "image_ensembles": columns(names, scores),
        "image_angles": columns(("k", "inputs", "degrees", "agreement"), angles),
        "image_costs": columns(
            ("k", "epoch", "steps", "samples_at_most", "multiplications", "processor_seconds"), costs
        ),
    }


def image_sections(found: ImageEnsembles, folder: RunFolder) -> list[Figure | Table]:
    """Both figures and the table of the last epoch."""
    return [
        _images_over_angles(found, folder),
        _against_cost(found, folder),
        _table(found),
    ]


def _at_angles(found: ImageEnsembles, k: int, name: str) -> np.ndarray:
    """Share of inputs and ensembles, after the last epoch, whose class is that of the image as it is: (angles,)."""
    labels = found.labels(k, name)[-1]
    share: np.ndarray = (labels == labels[:, :1]).mean(axis=(0, 2))
    return share


def _images_over_angles(found: ImageEnsembles, folder: RunFolder) -> Figure:
    degrees = 360 * np.arange(found.order) / found.order
    half, last = degrees <= 180, found.orders[-1]
    titles = [found.images.titles[name] for name in found.sets]
    with drawing.panels(
        folder,
        "agreement-over-angles",
        titles=[drawing.heading(title) for title in titles],
        xlabel="angle, degrees",
        ylabel="agreement, % of inputs",
        size=(8.6, 3.2),
        sharey=True,
        caption=(
            "Share of inputs whose predicted class at an angle is that of the image as it is, after the "
            "last epoch: the mean over ensembles of CNNs. Dashed: the floor of resampling for the largest"
            " group, where images are turned by the angle and back."
        ),
        alt="Agreement of image ensembles against the angle of rotation, for every k",
    ) as drawn:
        for axes, name in zip(drawn, found.sets, strict=True):
            for k, colour in drawing.shades_of(found.orders):
                axes.plot(degrees[half], 100 * _at_angles(found, k, name)[half], color=colour, lw=1.2, label=f"C{k}")
            floor = found.answers[last][f"floor_{name}"][-1] == found.labels(last, name)[-1][:, :1]
            axes.plot(
                degrees[half],
                100 * floor.mean(axis=(0, 2))[half],
                color=palette.MUTED.light,
                lw=1,
                ls=_DASHED,
                label=_FLOOR,
            )
            axes.set_xticks([0, 45, 90, 135, 180])
            axes.set_ylim(0, 101)
    return drawn.figure


def _against_cost(found: ImageEnsembles, folder: RunFolder) -> Figure:
    foreign = found.sets[1:]
    outside = lambda of: np.concatenate([of(name) for name in foreign], axis=-1)
    test = found.images.titles["test"]
    views = [
        (f"Error, {test}", "% of angles", lambda k: found.error(k), lambda k: found.floor_error(k)),
        (f"Agreement, {test}", "", lambda k: found.agreement(k, "test"), lambda k: found.floor(k, "test")),
    ]
    if foreign:
        views.append(
            (
                "Agreement, foreign images",
                "",
                lambda k: outside(lambda name: found.agreement(k, name)),
                lambda k: outside(lambda name: found.floor(k, name)),
            )
        )
    with drawing.panels(
        folder,
        "agreement-against-cost",
        titles=[view[0] for view in views],
        xlabel="training steps",
        size=(8.6, 3.4),
        caption=(
            "Error and agreement over all angles against the training steps of every network, which are "
            "in proportion to the cost; one curve a number of orientations, through training, with 95 % "
            "intervals over ensembles. Dashed: the floor of resampling for the largest group after the "
            "last epoch."
        ),
        alt="Error and agreement of image ensembles against training steps, for every k",
    ) as drawn:
        for axes, (_, label, of, floor) in zip(drawn, views, strict=True):
            _curves(axes, found, of)
            end = 100 * floor(found.orders[-1])[-1].mean()
            axes.axhline(end, color=palette.MUTED.light, lw=1, ls=_DASHED, label=_FLOOR)
            axes.set_ylabel(label)
            drawing.logarithmic(axes, "x", [found.steps(k)[-1] for k in found.orders], base=2)
    return drawn.figure


def _curves(axes: Axes, found: ImageEnsembles, of: Callable[[int], np.ndarray]) -> None:
    for k, colour in drawing.shades_of(found.orders):
        values = [found.mean(shares).times(100) for shares in of(k)]
        drawing.estimates(axes, found.steps(k), values, colour, label=f"C{k}", ms=3.5)


def _table(found: ImageEnsembles) -> Table:
    percent = lambda shares: in_words(found.mean(shares).times(100))
    titles = [found.images.titles[name] for name in found.sets]
    header = ["", "steps", "processor seconds", "error, %", *(f"agreement, {title}, %" for title in titles)]
    rows = []
    for k in found.orders:
        step = int(found.steps(k)[-1])
        costs = [f"C{k}", f"{step:,}", f"{step * found.seconds:.3g}"]
        scores = [percent(found.error(k)[-1]), *(percent(found.agreement(k, name)[-1]) for name in found.sets)]
        floors = [found.floor_error(k)[-1], *(found.floor(k, name)[-1] for name in found.sets)]
        rows.append([*costs, *scores])
        rows.append([f"C{k}, {_FLOOR}", "", "", *(f"{100 * shares.mean():.3g}" for shares in floors)])
    return Table(
        f"After {found.epochs[-1]} epochs: cost of training, error over all angles of {titles[0]}, and agreement over "
        "all angles, each with its 95 % interval and, below, the floor of resampling.",
        header,
        rows,
    )
