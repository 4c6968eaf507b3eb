"""How the study of MLPs and group-convolutional networks is shown: distances in time, and convergence in width."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, palette
from equitangents.statistics import bootstrap
from equitangents_studies.framework.page import Presentation, Records, RunFolder, drawing
from equitangents_studies.mlp_to_gcnn.study import SETS, Results, Settings, trained_shares

_COLOURS = dict(zip(SETS, (palette.BLUE, palette.GREEN, palette.ORANGE, palette.PURPLE), strict=True))


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    trained = trained_shares(settings, results, sorted(settings.trained_widths))
    tables = {"trained": trained.table("share")}
    shown = [
        _distances(results, folder),
        _depths(results, folder),
        _convergence(settings, results, trained, folder),
    ]
    return Presentation(tables, shown)


def _depths(results: Results, folder: RunFolder) -> Figure:
    titles = {"5.2": "Theorem 5.2: MLPs", "5.3": "Theorem 5.3: CNNs"}
    depths = results.deep_distance.along("depth")
    with drawing.panels(
        folder,
        "difference-over-depth",
        titles=[*titles.values(), "Frozen kernels, same weights"],
        xlabel="hidden layers",
        ylabel="largest relative difference",
        sharey=True,
        caption="Largest difference between the mean predictions of augmented networks and of group-convolutional "
        "ones, relative to the largest prediction, over all times, against depth. Left and middle: infinitely wide, "
        "with networks without augmentation beside them; right: frozen kernels of one finite MLP.",
        alt="Difference of mean predictions against depth",
    ) as drawn:
        for axes, theorem in zip(drawn, titles, strict=False):
            for s, name in enumerate(SETS):
                colour = _COLOURS[name].light
                bare = [results.deep_without[theorem, depth][:, s].max() for depth in depths]
                axes.plot(depths, bare, "o--", color=colour, lw=1)
                worst = [results.deep_distance[theorem, depth][:, s].max() for depth in depths]
                axes.plot(depths, worst, "o-", color=colour, label=name)
            axes.plot([], [], "o--", color=palette.INK.light, lw=1, label="without augmentation")
        last = drawn.axes[-1]
        for s, name in enumerate(SETS):
            values = [table[:, s].max() for table in results.deep_exact.values()]
            last.plot(list(results.deep_exact), values, "o-", color=_COLOURS[name].light)
        for axes in drawn:
            axes.set_xticks(sorted({*results.deep_exact, *depths}))
        drawing.logarithmic(drawn[0], "y")
    return drawn.figure


def _distances(results: Results, folder: RunFolder) -> Figure:
    place = drawing.places(results.times)
    with drawing.panels(
        folder,
        "difference-over-time",
        titles=("Infinite width", "Frozen kernels, worst of all widths"),
        ylabel="largest relative difference",
        sharey=True,
        caption="Largest difference between the mean predictions of augmented MLPs and of group-convolutional "
        "networks, relative to the largest prediction, over training time (in units of the fastest direction’s decay). "
        "Left in closed form, for MLPs without augmentation as well; right for the frozen kernels of single finite "
        "networks. At time ∞ whatever fits the labels predicts the same on training images.",
        alt="Difference of mean predictions against training time",
    ) as drawn:
        left, right = drawn
        for s, name in enumerate(SETS):
            colour = _COLOURS[name].light
            left.plot(place, results.without_augmentation[:, s], "o--", color=colour, lw=1)
            left.plot(place, results.distance[:, s], "o-", color=colour, label=name)
            right.plot(place, results.exact[:, :, s].max(axis=0), "o-", color=colour)
        left.plot([], [], "o--", color=palette.INK.light, lw=1, label="without augmentation")
        for axes in drawn:
            drawing.time_ticks(axes, results.times)
        drawing.logarithmic(left, "y")
    return drawn.figure


def _convergence(settings: Settings, results: Results, trained: Records, folder: RunFolder) -> Figure:
    last = max(settings.steps)
    with drawing.panels(
        folder,
        "convergence",
        titles=("Frozen kernels, independent weights", f"Trained networks, step {last}"),
        xlabel="width",
        ylabel="root mean square difference",
        caption=(
            "Left: difference of predictions on test images by frozen kernels of independent networks, in"
            " pairs at every width, with 95 % intervals over pairs. Right: squared distance between the "
            "means of trained networks of each kind, without sampling bias, as a share of the mean square"
            " prediction of one MLP, with 95 % intervals over members."
        ),
        alt="Difference against width",
    ) as drawn:
        left, right = drawn
        values = [bootstrap(column, np.sqrt) for column in results.squares.T]
        drawing.estimates(left, settings.widths, values, _COLOURS["test"].light, label="test")
        drawing.power(left, settings.widths, values[0].value, -0.5, label="∝ 1/√width")
        drawing.logarithmic(left, "both", settings.widths, fine=True)
        shares = {name: trained.where(inputs=name, step=last).times(100).estimates for name in SETS}
        drawing.curves(right, sorted(settings.trained_widths), shares, _COLOURS.values(), apart=1.06, lw=1)
        right.axhline(0, color=palette.INK.light, lw=0.8, label="equal means")
        drawing.logarithmic(right, "x", sorted(settings.trained_widths))
        right.set_ylabel("squared distance of means, %")
        drawn.legend(right, left)
    return drawn.figure
