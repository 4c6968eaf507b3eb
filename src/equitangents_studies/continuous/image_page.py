"""How image ensembles are shown: agreement against the angle for every k, and agreement and error against the cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from equitangents.report import Figure, Section, Table, palette, with_interval
from equitangents_studies.common.scores import covered
from equitangents_studies.continuous.image_results import ImageEnsembles
from equitangents_studies.framework.page import Columns, RunFolder, columns, drawing, panels

_DASHED = (0, (3, 3))
_FLOOR = "floor of resampling"


def image_facts(found: ImageEnsembles) -> dict[str, str]:
    """What was trained on what."""
    recipe, images = found.recipe, found.images
    foreign = ", ".join(images.titles[name] for name in found.sets[1:])
    return {
        "Image ensembles": f"{recipe.ensembles} of {recipe.members} CNNs, "
        f"{' and '.join(map(str, recipe.channels))} channels, for every k",
        "Images": f"{len(images.train_x):,} of {images.titles['test']}; tested on {len(images.test_y):,} others"
        + (f", and on {foreign}" if foreign else ""),
    }


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
        (k, found.images.titles[name], 360 * g / found.angles, value)
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


def image_sections(found: ImageEnsembles, folder: RunFolder) -> list[Section]:
    """Both figures and the table of the last epoch."""
    foreign = " and ".join(found.images.titles[name] for name in found.sets[1:])
    unlike = f" Nothing like the foreign images ({foreign}) is in the training data." if foreign else ""
    return [
        Section(
            "Ensembles of images at all angles",
            [
                f"CNNs are trained on {len(found.images.train_x):,} images ({found.images.titles['test']}) in k "
                f"orientations each, and asked at {found.angles} angles. Agreement is the share of the angles at which "
                f"the predicted class is that of the image as it is.{unlike} The floor of resampling is the agreement "
                "of images that are turned there and back: an invariant predictor would fall short of 100 % by about "
                "as much.",
            ],
            [_over_angles(found, folder)],
        ),
        Section(
            "What an orientation costs",
            [
                "Full augmentation multiplies the data by k, and with it the steps of an epoch. A step of all "
                f"{found.recipe.networks} networks takes {1000 * found.seconds:.3g} ms of processors, timed on its "
                f"own, and {found.multiplications:.2g} multiplications. Curves are drawn through training, so that "
                "more orientations and more epochs can be compared at equal cost.",
            ],
            [_against_cost(found, folder), _table(found)],
        ),
    ]


def _at_angles(found: ImageEnsembles, k: int, name: str) -> np.ndarray:
    """Share of inputs and ensembles, after the last epoch, whose class is that of the image as it is: (angles,)."""
    labels = found.labels(k, name)[-1]
    share: np.ndarray = (labels == labels[:, :1]).mean(axis=(0, 2))
    return share


def _over_angles(found: ImageEnsembles, folder: RunFolder) -> Figure:
    degrees = 360 * np.arange(found.angles) / found.angles
    half, last = degrees <= 180, found.orders[-1]
    titles = [found.images.titles[name] for name in found.sets]
    with panels(
        folder,
        "agreement-over-angles",
        titles=[drawing.heading(title) for title in titles],
        xlabel="angle, degrees",
        ylabel="agreement, % of inputs",
        size=(8.6, 3.2),
        sharey=True,
        caption=f"Share of inputs whose predicted class at an angle is that of the image as it is, after "
        f"{found.epochs[-1]} epochs: the mean over {found.recipe.ensembles} ensembles of {found.recipe.members} CNNs. "
        f"Dashed: the floor of resampling for C{last}, where images are turned by the angle and back.",
        alt="Agreement of image ensembles against the angle of rotation, for every k",
    ) as drawn:
        for axes, name in zip(drawn, found.sets, strict=True):
            for k, colour in drawing.shades_of(found.orders):
                axes.plot(degrees[half], 100 * _at_angles(found, k, name)[half], color=colour, lw=1.2, label=f"C{k}")
            floor = found.trained[last][f"floor_{name}"][-1] == found.labels(last, name)[-1][:, :1]
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
        drawn.legend()
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
    with panels(
        folder,
        "agreement-against-cost",
        titles=[view[0] for view in views],
        xlabel="training steps",
        size=(8.6, 3.4),
        caption="Error and agreement over all angles against the training steps of every network, which are in "
        f"proportion to the cost; one curve a number of orientations, through {found.epochs[-1]} epochs, with 95 % "
        f"intervals over {covered(found.recipe.ensembles, 'ensembles')}. Dashed: the floor of "
        f"resampling for C{found.orders[-1]} after the last epoch.",
        alt="Error and agreement of image ensembles against training steps, for every k",
    ) as drawn:
        for axes, (_, label, of, floor) in zip(drawn, views, strict=True):
            _curves(axes, found, of)
            end = 100 * floor(found.orders[-1])[-1].mean()
            axes.axhline(end, color=palette.MUTED.light, lw=1, ls=_DASHED, label=_FLOOR)
            axes.set_ylabel(label)
            drawing.logarithmic(axes, "x", [found.steps(k)[-1] for k in found.orders], base=2)
        drawn.legend()
    return drawn.figure


def _curves(axes: Axes, found: ImageEnsembles, of: Callable[[int], np.ndarray]) -> None:
    for k, colour in drawing.shades_of(found.orders):
        values = [found.mean(shares).times(100) for shares in of(k)]
        drawing.estimates(axes, found.steps(k), values, colour, label=f"C{k}", ms=3.5)


def _table(found: ImageEnsembles) -> Table:
    percent = lambda shares: with_interval(found.mean(shares).times(100).value, found.mean(shares).times(100).interval)
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
