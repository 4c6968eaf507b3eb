"""How augmented CNNs and group-convolutional networks are shown: distance against members, width, and time."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import bootstrap
from equitangents_studies.augmented_cnn_to_gcnn.study import Results, Settings, headline, shares
from equitangents_studies.framework.page import Presentation, Records, RunFolder, columns, drawing, section, table

_COLOURS = (palette.BLUE, palette.GREEN, palette.ORANGE, palette.PURPLE, palette.VERMILLION, palette.INK)


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    last = results.steps[-1]
    floor = shares(settings, results, sorted(settings.widths))
    rows = [
        (width, name, size, batch, value)
        for width in sorted(settings.widths)
        for name in results.sets
        for batch, values in enumerate(results.squares(width, name, last))
        for size, value in zip(results.sizes, values, strict=True)
    ]
    infinite = [
        (time, results.title(name), *(table[t, s] for table in (results.distance, results.without_augmentation)))
        for t, time in enumerate(settings.times)
        for s, name in enumerate(results.sets)
    ]
    tables = {
        "floor": floor.table("percent_of_mean_square_prediction"),
        "members": columns(("width", "inputs", "members", "batch", "squared_distance_share"), rows),
        "infinite": columns(("time", "inputs", "largest_relative_difference", "without_augmentation"), infinite),
    }
    side = results.images.train_x.shape[1]
    listed = ", ".join(results.title(name) for name in results.sets)
    sections = [
        section(
            "Members and width",
            f"CNNs that train on {len(results.images.train_x)} images in all orientations under {settings.group}, "
            "and group-convolutional networks (p4 for C4, p4m for D4) that train on the images alone; both start "
            "at zero output and train by the same full-batch gradient descent. The squared distance of the means "
            "of M members of each is a floor plus a part that falls as 1/M. The floor is what infinitely many "
            "members of this width would leave, estimated without bias from products of different members.",
            f"Images have {side}×{side} pixels: a group convolution costs |G|² times the multiplications of a "
            f"convolution, and there are {settings.members} networks of each kind and width. Compared on {listed}.",
            _members(settings, results, floor, folder),
            _table(settings, results, floor),
        ),
        section("Through training, and at infinite width", _times(settings, results, floor, folder)),
    ]
    facts = {
        "Data": f"{results.images.titles['test']}, {len(results.images.train_x)} training images, {side}×{side} pixels",
        "Networks": f"{settings.hidden_layers} hidden layers of 3×3 windows on a torus, ReLU, mean over positions",
        "Trained": f"{settings.members} of each kind and width, {last} steps, zero output at the start",
    }
    return Presentation(tables, sections, facts, *headline(settings, results))


def _members(settings: Settings, results: Results, floor: Records, folder: RunFolder) -> Figure:
    last, widths = results.steps[-1], sorted(settings.widths)
    with drawing.panels(
        folder,
        "members-and-width",
        titles=(f"{drawing.heading(results.title('test'))}, step {last}", f"Floor, step {last}"),
        caption="Left: distance of the means of M augmented CNNs and M group-convolutional networks, as a share of the "
        "root mean square prediction, by channels, with 95 % intervals over batches of members; dashes: the floor, "
        "where it is positive. Right: the floor against channels, squared, with 95 % intervals over members.",
        alt="Distance of means against members and width",
    ) as drawn:
        left, right = drawn
        for width, shade in drawing.shades_of(widths):
            squares = results.squares(width, "test", last)
            shares = [bootstrap(column, np.sqrt).times(100) for column in squares.T]
            drawing.estimates(left, results.sizes, shares, shade, label=f"{width} channels")
            level = results.share(width, "test", last).value
            if level > 0:
                left.axhline(100 * level**0.5, color=shade, lw=0.8, ls=(0, (3, 3)))
        top = 100 * float(np.sqrt(results.squares(widths[0], "test", last)[:, 0].mean()))
        drawing.power(left, results.sizes, top, -0.5, label="∝ 1/√M")
        drawing.logarithmic(left, "both", results.sizes, base=2, fine=True)
        left.set_xlabel("members M")
        left.set_ylabel("distance of means, %")
        values = {results.title(name): floor.where(inputs=name, step=last).estimates for name in results.sets}
        drawing.curves(right, widths, values, _COLOURS, apart=1.05, lw=1)
        right.axhline(0, color=palette.INK.light, lw=0.8)
        drawing.logarithmic(right, "x", widths)
        right.set_xlabel("channels")
        right.set_ylabel("squared distance, %")
        drawn.legend(left, right, columns=5)
    return drawn.figure


def _times(settings: Settings, results: Results, floor: Records, folder: RunFolder) -> Figure:
    widest = max(settings.widths)
    with drawing.panels(
        folder,
        "times",
        titles=(f"{widest} channels, infinitely many members", "Infinite width"),
        caption=f"Left: squared distance of the means against training steps with {widest} channels, in per cent of "
        "the mean square prediction, with 95 % intervals over members. Right: largest difference of the means at "
        "infinite width relative to the largest prediction, over training time in units of the fastest direction’s "
        "decay; dashed: CNNs without augmentation.",
        alt="Distance of means against training time",
    ) as drawn:
        left, right = drawn
        place = drawing.places(settings.times)
        values = {results.title(name): floor.where(width=widest, inputs=name).estimates for name in results.sets}
        drawing.curves(left, results.steps[1:], values, _COLOURS, apart=1.03, lw=1)
        for s, colour in enumerate(_COLOURS[: len(results.sets)]):
            right.plot(place, results.distance[:, s], "o-", color=colour.light)
            right.plot(place, results.without_augmentation[:, s], "o--", color=colour.light, lw=1)
        left.axhline(0, color=palette.INK.light, lw=0.8)
        drawing.logarithmic(left, "x", results.steps[1:])
        left.set_xlabel("training step")
        left.set_ylabel("squared distance of means, %")
        drawing.time_ticks(right, settings.times)
        drawing.logarithmic(right, "y")
        right.set_ylabel("largest relative difference")
    return drawn.figure


def _table(settings: Settings, results: Results, floor: Records) -> Table:
    last = results.steps[-1]
    header = ["Channels", *(results.title(name) for name in results.sets)]
    rows = [[str(width), *floor.where(width=width, step=last).estimates] for width in sorted(settings.widths)]
    return table(
        f"Floor after {last} steps: squared distance of the means of infinitely many members, in per cent of the mean "
        "square prediction of one CNN; in brackets 95 % intervals over members.",
        header,
        rows,
    )
