"""How the study of MLPs and group-convolutional networks is shown: distances in time, and convergence in width."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equitangents.report import Figure, Section, Verdict, figures
from equitangents.report.palette import BLUE, GREEN, MUTED, ORANGE, PURPLE, VERMILLION
from equitangents.statistics import bootstrap
from equitangents.studies.framework import drawing
from equitangents.studies.framework.compatibility import Presentation, say
from equitangents.studies.framework.folder import Columns, RunFolder
from equitangents.studies.framework.tables import columns
from equitangents.studies.mlp_to_gcnn.study import SETS, Results, Settings

_COLOURS = dict(zip(SETS, (BLUE, GREEN, ORANGE, PURPLE), strict=True))


def present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    tables = {
        "distance": distance_table(settings, results),
        "independent": columns(
            ("width", "draw", "mean_square_difference"),
            [(w, i, v) for j, w in enumerate(settings.widths) for i, v in enumerate(results.squares[:, j])],
        ),
        "trained": trained_table(settings, results),
    }
    ratio = results.std_ratio[-1]
    sections = [
        Section(
            "At infinite width, and for frozen kernels",
            [
                "A group-convolutional network whose filters reach over the whole image and the whole group has the "
                "orbit average of an MLP’s kernel, so training it is training an MLP with augmentation, as far as the "
                f"mean goes. Both are solved here for {settings.train_images} digits (odd or even), the MLP on all "
                "augmented images, with no shortcut. The spread of the two ensembles is not the same: after training "
                f"the standard deviation of an augmented MLP on test images is {ratio:.2g} times that of the "
                "group-convolutional network, in the median.",
                "The same holds at any width for networks that start at zero output and move little: their kernels "
                "stay what they are at initialisation. Averaged over the copies of its weights that the group makes, "
                "the MLP’s kernel trains on augmented images to what the orbit mean of this one network becomes "
                "without. That orbit mean is a group-convolutional network of the same weights.",
            ],
            [_distances(results, folder)],
        ),
        Section(
            "Independent weights, and trained networks",
            [
                "Kernels of networks drawn independently, with full windows on the group, differ by their "
                "fluctuations, which shrink with the width. Trained networks move away from their kernels, less so "
                "the wider they are."
            ],
            [_convergence(settings, results, tables["trained"], folder)],
        ),
    ]
    facts = {
        "Group": f"{settings.group} on 8×8 digits",
        "Networks": f"{settings.hidden_layers} hidden layers, ReLU",
        "Trained": f"{settings.members} of each kind and width, full-batch gradient descent, zero output at the start",
        "Seed": str(settings.seed),
    }
    return Presentation(_summary(verdicts), tables, sections, facts)


def _summary(verdicts: Sequence[Verdict]) -> str:
    first = say(
        verdicts[0],
        holds="Infinitely wide MLPs with augmentation and group-convolutional networks without it predict the same, to "
        "rounding, at all times",
        fails="Infinitely wide MLPs with augmentation and group-convolutional networks without it predict differently",
        undecided="The two infinitely wide ensembles could not be compared",
    )
    second = say(
        verdicts[2],
        holds="frozen kernels of finite networks with the same weights do so too",
        fails="frozen kernels of finite networks do not",
        undecided="frozen kernels of finite networks could not be compared",
    )
    third = say(
        verdicts[4],
        holds="trained wide networks have the same mean.",
        fails="trained networks of the widths tried still have different means.",
        undecided="whether trained networks have the same mean cannot be told with so few members.",
    )
    return f"{first}; {second}; {third}"


def distance_table(settings: Settings, results: Results) -> Columns:
    """Relative differences by model, time and set of inputs."""
    rows: list[tuple[object, ...]] = []
    for t, time in enumerate(results.times):
        for s, name in enumerate(SETS):
            rows.append(("infinite width", "", time, name, results.distance[t, s]))
            rows.append(("infinite width, no augmentation", "", time, name, results.without_augmentation[t, s]))
            rows += [
                ("frozen kernel, same weights", w, time, name, results.exact[i, t, s])
                for i, w in enumerate(settings.widths)
            ]
    return columns(("model", "width", "time", "inputs", "largest_relative_difference"), rows)


def trained_table(settings: Settings, results: Results) -> Columns:
    """Unbiased squared distance of the means of trained networks, as a share of the mean square prediction."""
    steps = sorted({0, *settings.steps})
    rows = []
    for width in sorted(settings.trained_widths):
        for name in SETS:
            for i, step in enumerate(steps):
                if step:
                    e = results.trained(width, i, name)
                    rows.append((width, name, step, e.value, e.low, e.high))
    return columns(("width", "inputs", "step", "share", "low", "high"), rows)


def _distances(results: Results, folder: RunFolder) -> Figure:
    with figures.canvas(8.6, 3.2) as canvas:
        left, right = canvas.subplots(1, 2, sharey=True)
        place = drawing.places(results.times)
        for s, name in enumerate(SETS):
            colour = _COLOURS[name].light
            left.plot(place, results.without_augmentation[:, s], "o--", color=colour, lw=1)
            left.plot(place, results.distance[:, s], "o-", color=colour, label=name)
            right.plot(place, results.exact[:, :, s].max(axis=0), "o-", color=colour)
        for axes, title in ((left, "Infinite width"), (right, "Frozen kernels, worst of all widths")):
            axes.set_title(title)
            drawing.time_ticks(axes, results.times)
        drawing.logarithmic(left, "y")
        left.set_ylabel("largest relative difference")
        left.legend(loc="center left", ncols=2)
        svg = figures.save(canvas, folder.figures, "difference-over-time")
    caption = (
        "Largest difference between the mean predictions of augmented MLPs and of group-convolutional networks, "
        "relative to the largest prediction, over training time (in units of the fastest direction’s decay). Dashed: "
        "MLPs without augmentation. Left in closed form; right for the frozen kernels of single finite networks."
    )
    return Figure("difference-over-time", caption, svg, alt="Difference of mean predictions against training time")


def _convergence(settings: Settings, results: Results, table: Columns, folder: RunFolder) -> Figure:
    c = {key: np.array(values) for key, values in table.items()}
    last = max(settings.steps)
    with figures.canvas(8.6, 3.2) as canvas:
        left, right = canvas.subplots(1, 2)
        values = [bootstrap(column, lambda means: np.sqrt(means)) for column in results.squares.T]
        drawing.estimates(left, settings.widths, values, BLUE.light)
        reference = values[0].value * (np.array(settings.widths) / settings.widths[0]) ** -0.5
        left.plot(settings.widths, reference, color=MUTED.light, lw=0.9, ls=(0, (2, 2)))
        left.set_title("Frozen kernels, independent weights")
        left.set_ylabel("root mean square difference")
        drawing.logarithmic(left, "both", settings.widths, fine=True)
        widths = sorted(settings.trained_widths)
        for k, name in enumerate(SETS):
            rows = (c["inputs"] == name) & (c["step"] == last)
            value, low, high = (100 * c[key][rows] for key in ("share", "low", "high"))
            right.errorbar(
                np.array(widths) * 1.06 ** (k - 1.5), value, [value - low, high - value], fmt="o-", lw=1, ms=4,
                color=_COLOURS[name].light, label=name,
            )  # fmt: skip
        right.axhline(0, color=VERMILLION.light, lw=0.8)
        drawing.logarithmic(right, "x", widths)
        right.set_title(f"Trained networks, step {last}")
        right.set_ylabel("squared distance of means, %")
        right.legend(loc="upper right")
        for axes in (left, right):
            axes.set_xlabel("width")
        svg = figures.save(canvas, folder.figures, "convergence")
    caption = (
        f"Left: difference of predictions on test images by frozen kernels of independent networks, {settings.draws} "
        "pairs at every width, with 95 % intervals; dotted: 1/√width. Right: squared distance between the means of "
        f"{settings.members} trained networks of each kind, without sampling bias, as a share of the mean square "
        "prediction of one MLP."
    )
    return Figure("convergence", caption, svg, alt="Difference against width")
