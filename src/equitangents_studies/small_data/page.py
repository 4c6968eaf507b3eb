"""How classification with few images is shown: accuracies against size, the lead over the trained CNN, all kernels."""

from __future__ import annotations

from equitangents.report import Figure, Table, palette
from equitangents_studies.framework.page import Presentation, RunFolder, columns, drawing, section, table
from equitangents_studies.small_data.claims import BEST, LAST, LEAD, covers, headline, leads
from equitangents_studies.small_data.study import CNN, FOREST, KERNELS, MODELS, Results, Settings, kernel_name

_LINES = {
    BEST: palette.BLUE,
    kernel_name("FCN", "relu", "ntk"): palette.GREEN,
    CNN: palette.VERMILLION,
    FOREST: palette.INK,
}
_OTHERS = {
    BEST: palette.BLUE,
    kernel_name("Myrtle-5", "relu", "nngp"): palette.INK,
    kernel_name("GAP", "relu", "ntk"): palette.GREEN,
}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    s, (height, width, channels) = settings, results.shape
    tested = results.right[BEST].shape[-1]
    ahead = {model: leads(settings, results, model, CNN) for model in MODELS if model != CNN}
    rows = [
        (model, size, draw, results.right[model][i, draw].mean())
        for model in MODELS
        for i, size in enumerate(s.sizes)
        for draw in range(s.draws)
    ]
    lead_rows = [
        (model, row[0], e.value, *e.interval)
        for model, numbers in ahead.items()
        for row, e in zip(numbers.rows, numbers.estimates, strict=True)
    ]
    tables = {
        "accuracy": columns(("model", "training_images", "draw", "accuracy"), rows),
        "lead": columns(("model", "training_images", "lead_over_cnn", "low", "high"), lead_rows),
    }
    rates = ", ".join(f"{rate:g} with {size:,}" for rate, size in zip(results.rates, s.sizes, strict=True))
    sections = [
        section(
            "Accuracy against training images",
            f"Every training set is drawn from a pool of {results.pool:,} images, {s.draws} of each size, classes "
            f"in proportion; all are tested on the same {tested:,} images. Draws of the largest sizes share most "
            "of their images. Kernels are averaged over flips, the ridge is the one that gets most training images "
            "right, each left out in turn. The CNN has the form of Myrtle-5, "
            f"{s.width} channels, and takes {s.steps:,} steps of {s.batch} images by Adam at every size, on images "
            f"flipped at random: {s.passes(s.sizes[0]):,} passes over {s.sizes[0]:,} images, "
            f"{s.passes(s.sizes[-1]):,} over {s.sizes[-1]:,}. Its outputs "
            "are averaged over flips. Its learning rate is chosen on images of the pool not trained on: "
            f"{rates} images. "
            f"The random forest has {s.trees} trees, and sees both copies.",
            _accuracy(settings, results, folder),
            _lead(settings, results, folder),
        ),
        section("All models", _table(settings, results)),
    ]
    pairs = results.pool * (results.pool + 1) // 2 + results.pool * tested
    facts = {
        "Data": f"{results.data.replace('_', ' ')}, {height}×{width} pixels, {channels} channels",
        "Kernels": f"{len(KERNELS)} of {2 * pairs:,} pairs of images each, flips counted",
    }
    return Presentation(tables, sections, facts, *headline(settings, results))


def _accuracy(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        xlabel="training images",
        ylabel="percent of the test images classified rightly",
        size=(8.6, 4.0),
        caption=f"Means over {settings.draws} draws with 95 % intervals over {covers(settings)}.",
        alt="Accuracy against training images",
    ) as drawn:
        values = {model: [results.accuracy(model, i) for i in range(len(settings.sizes))] for model in _LINES}
        drawing.curves(drawn[0], settings.sizes, values, _LINES.values(), apart=1.05)
        drawing.logarithmic(drawn[0], "x", settings.sizes, base=2)
    return drawn.figure


def _lead(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "lead",
        xlabel="training images",
        ylabel="percentage points",
        size=(8.6, 3.6),
        caption=f"Accuracy minus that of the trained CNN, paired by draw and test image, with 95 % intervals over "
        f"{covers(settings)}. "
        f"Shaded: {LEAD[0]:g} to {LEAD[1]:g} points, published for up to {LAST} images of CIFAR-10 against ResNet-34.",
        alt="Lead of kernels over the trained CNN against training images",
    ) as drawn:
        axes = drawn[0]
        few = [size for size in settings.sizes if size <= LAST]
        if few:
            axes.fill_between([few[0], few[-1]], *LEAD, color=palette.MUTED.light, alpha=0.25, lw=0)
        values = {model: leads(settings, results, model, CNN).estimates for model in _OTHERS}
        drawing.curves(axes, settings.sizes, values, _OTHERS.values(), apart=1.05)
        axes.axhline(0, color=palette.MUTED.light, lw=0.8)
        drawing.logarithmic(axes, "x", settings.sizes, base=2)
    return drawn.figure


def _table(settings: Settings, results: Results) -> Table:
    rows = [[model, *(results.accuracy(model, i) for i in range(len(settings.sizes)))] for model in MODELS]
    header = ["Training images", *(f"{size:,}" for size in settings.sizes)]
    words = f"Percent of the test images classified rightly; in brackets 95 % intervals over {covers(settings)}."
    return table(words, header, rows)
