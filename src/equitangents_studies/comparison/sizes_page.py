"""How the comparison over sizes is shown: the lead of the equivariant network over sizes, a table of all cells."""

from __future__ import annotations

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate
from equitangents_studies.common.input_pictures import corners, input_pictures, why_foreign
from equitangents_studies.comparison.settings import MEASURES, covers
from equitangents_studies.comparison.sizes import Settings, SizesResults, cell_settings, title, words
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, columns, drawing, section, table
from equitangents_studies.framework.records import in_words

_LOOK = (palette.BLUE, palette.VERMILLION, palette.GREEN, palette.PURPLE)
_GCNN = "group-convolutional network"


def present(settings: Settings, results: SizesResults, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    firsts = [results.cells[task, min(settings.sizes)] for task in settings.tasks]
    over = covers(cell_settings(settings, *next(iter(results.cells))))
    sizes = ", ".join(f"{size:,}" for size in sorted(settings.sizes))
    tasks = ", ".join(title(results, task) for task in settings.tasks)
    sections = [
        section(
            "Where is which ahead?",
            f"Tasks are {tasks}, each with {sizes} training images, in "
            f"{settings.repetitions} repetitions with other training images and weights. The group-convolutional "
            "network is trained on images as they are; an ensemble of small networks on turned ones, with as many "
            f"members as cost no more multiplications, at most {settings.most_members}. All take about "
            f"{settings.steps:,} steps of {settings.batch} images, so that a small training set is seen more "
            "often, not more cheaply.",
            _lead_figure(settings, results, folder, over),
            _cells(results, over),
        ),
        section("Invariance off the data", _agreement_figure(settings, results, folder, over)),
        section(
            "The inputs as the networks see them",
            *(
                list(dict.fromkeys(line for first in firsts for line in why_foreign(first.images.titles)))
                + corners(firsts[0].problem.action)
            ),
            *(
                [
                    input_pictures(folder, r.problem.action, r.images.sets, r.images.titles, f"inputs-{i + 1}")
                    for i, r in enumerate(firsts)
                ]
            ),
        ),
    ]
    facts = {
        "Tasks": tasks,
        "Training images": sizes,
        "Group": settings.group,
        "Intervals": f"95 %, over {over}",
    }
    tables = {"lead": lead_table(results), "scores": score_table(results)}
    mean = results.mean_gain().times(100)
    return Presentation(tables, sections, facts, finding=finding(mean), sentence=sentence(mean, len(results.cells)))


def finding(points: Estimate) -> str:
    """The page's title."""
    if points.low <= 0 <= points.high:
        return (
            "At equal cost one equivariant network and averaged small ones are within "
            f"{max(-points.low, points.high):.1f} points of accuracy of each other on turned images"
        )
    return (
        "At equal cost one equivariant network classifies turned images "
        f"{abs(points.value):.1f} percentage points {'better' if points.value > 0 else 'worse'} than averaged small "
        "ones"
    )


def sentence(points: Estimate, cells: int) -> str:
    """Our number; the source leaves the question open."""
    return (
        "The source leaves open how ensembles compare in cost with equivariant networks; ours, at no more "
        f"multiplications, differ by {in_words(points)} percentage points on average over "
        f"{cells} sizes and tasks."
    )


def lead_table(results: SizesResults) -> Columns:
    """The equivariant network’s lead over the largest affordable ensemble, by cell, channels and measure."""
    rows = []
    for task, size in results.cells:
        for shrink in results.shrinks:
            curve = results.cells[task, size].curves[shrink]
            for which in ("rotated", "outside"):
                e = results.gain((task, size), shrink, 0.95, which)
                channels = " ".join(map(str, curve.channels))
                rows.append((task, size, channels, int(curve.sizes[-1]), which, e))
    return columns(("task", "training_images", "channels", "members", "measure", "lead", "low", "high"), rows)


def score_table(results: SizesResults) -> Columns:
    """Scores by cell and model."""
    rows = []
    for (task, size), r in results.cells.items():
        models = [("gcnn", 1, r.labels["gcnn"])]
        for curve in r.curves.values():
            name = " ".join(map(str, curve.channels))
            models += [(name, int(m), {s: y[j] for s, y in curve.labels.items()}) for j, m in enumerate(curve.sizes)]
        for name, members, labels in models:
            for which in MEASURES:
                rows.append((task, size, name, members, which, r.estimate(labels, which)))
    return columns(("task", "training_images", "channels", "members", "measure", "value", "low", "high"), rows)


def _lead_figure(settings: Settings, results: SizesResults, folder: RunFolder, over: str) -> Figure:
    sizes = sorted(settings.sizes)
    with drawing.panels(
        folder,
        "lead-over-sizes",
        titles=[title(results, task) for task in settings.tasks],
        xlabel="training images",
        ylabel="lead in accuracy",
        size=(8.6, 3.4),
        sharey=True,
        caption=f"Accuracy over all orientations: the {_GCNN} minus augmented ensembles of small networks of no more "
        f"cost, with 95 % intervals over {over}. Below 0 the ensemble is ahead.",
        alt="Lead of the equivariant network against the number of training images",
    ) as drawn:
        for axes, task in zip(drawn, settings.tasks, strict=True):
            axes.axhline(0, color=palette.INK.light, lw=0.8)
            for shrink, colour in zip(results.shrinks, _LOOK, strict=False):
                curve = results.cells[task, sizes[0]].curves[shrink]
                label = f"ensemble of {' and '.join(map(str, curve.channels))} channels"
                found = [results.gain((task, size), shrink, 0.95) for size in sizes]
                drawing.estimates(axes, sizes, found, colour.light, label=label)
            drawing.logarithmic(axes, "x", sizes)
    return drawn.figure


def _agreement_figure(settings: Settings, results: SizesResults, folder: RunFolder, over: str) -> Figure:
    sizes = sorted(settings.sizes)
    order = next(iter(results.cells.values())).order
    with drawing.panels(
        folder,
        "agreement-over-sizes",
        titles=[title(results, task) for task in settings.tasks],
        xlabel="training images",
        ylabel=f"OSP on foreign images, of {order}",
        size=(8.6, 3.4),
        sharey=True,
        caption=f"Orbit same predictions out of distribution of the {_GCNN} and of the ensembles, with 95 % intervals "
        f"over {over}.",
        alt="Orbit same predictions against the number of training images",
    ) as drawn:
        for axes, task in zip(drawn, settings.tasks, strict=True):
            cells = [results.cells[task, size] for size in sizes]
            found = [r.estimate(r.labels["gcnn"], "outside") for r in cells]
            drawing.estimates(axes, sizes, found, palette.INK.light, label=_GCNN, fmt="D-")
            for shrink, colour in zip(results.shrinks, _LOOK, strict=False):
                curve = cells[0].curves[shrink]
                label = f"ensemble of {' and '.join(map(str, curve.channels))} channels"
                found = [
                    r.estimate(results.largest((task, s), shrink), "outside") for r, s in zip(cells, sizes, strict=True)
                ]
                drawing.estimates(axes, sizes, found, colour.light, label=label)
            axes.set_ylim(1, order * 1.01)
            drawing.logarithmic(axes, "x", sizes)
    return drawn.figure


def _cells(results: SizesResults, over: str) -> Table:
    rows = []
    for cell, r in results.cells.items():
        gcnn = r.estimate(r.labels["gcnn"], "rotated").value
        for shrink in results.shrinks:
            e = results.gain(cell, shrink, 0.95)
            score = r.estimate(results.largest(cell, shrink), "rotated").value
            better = "equivariant network" if e.low > 0 else "ensemble" if e.high < 0 else "not told apart"
            rows.append([words(results, cell, shrink), f"{gcnn:.3f}", f"{score:.3f}", e, better])
    return table(
        f"Accuracy over all orientations; in brackets 95 % intervals over {over}, each by itself.",
        ["task, training images, ensemble", _GCNN, "ensemble", "lead", "ahead"],
        rows,
    )
