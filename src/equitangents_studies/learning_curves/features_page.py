"""How random features are shown: what they learn of all images, and how far they are from the exact kernel of a few."""

from __future__ import annotations

from equitangents.extending import formatting
from equitangents.report import Figure, Section, Table, palette
from equitangents_studies.framework.page import Columns, RunFolder, columns, drawing, section, table
from equitangents_studies.framework.records import in_words
from equitangents_studies.learning_curves.claims import FULL, SOURCE, features_less_exact, share
from equitangents_studies.learning_curves.settings import Results, Settings, feature_sizes


def approximated(settings: Settings, results: Results, folder: RunFolder, model: str) -> Section:
    """The section on one model."""
    s = settings
    told = (
        f"{s.features:,} random features an image stand in for the NTK of {model}, {s.depth} hidden layers, "
        f"{s.pixels}×{s.pixels} pixels. They took {_seconds(results, model):,.0f} s of a processor for "
        f"{_images(s):,} images; the exact kernel of as many, at the rate measured below, would take "
        f"{formatting.duration(_exact_seconds(s, results, model))} of one."
    )
    beside = (
        f"What that costs shows where both can be computed: on {s.exact_images:,} of the training images, each "
        "predicted from the three quarters that it is not among. Both take the ridge that is best for them there."
    )
    return section(
        f"Random features of {model}",
        told,
        _figure(s, results, folder, model),
        _learnt(s, results, model),
        beside,
        _beside(s, results, model),
    )


def approximated_finding(settings: Settings, results: Results) -> str:
    """The page's title, where there is nothing else."""
    model = settings.approximated[0]
    reached = share(results.feature_right[model][-1])
    return (
        f"{settings.features:,} random features of infinitely wide {model} classify {reached.value:.1f} % after "
        f"{settings.whole_images:,} images"
    )


def approximated_sentence(settings: Settings, results: Results) -> str:
    """Our numbers beside the source's, and the error of the approximation."""
    s, said = settings, []
    for model, right in results.exact_right.items():
        theirs = ""
        if model in SOURCE:
            theirs = f" (the source, with the exact kernel and {FULL:,} images: {SOURCE[model]:g} %)"
        reached = share(results.feature_right[model][-1])
        lost = "; ".join(f"{label} {in_words(e)}" for label, e in features_less_exact(s, right).items())
        said.append(
            f"{s.features:,} random features of infinitely wide {model} classify {in_words(reached)} % of the test "
            f"images after {s.whole_images:,} training images{theirs}. On {s.exact_images:,} images, of which the "
            f"exact kernel can be computed, features are off its {share(right[0]).value:.1f} % by, in percentage "
            f"points: {lost}; their predictions differ from the exact ones by "
            f"{' and '.join(f'{100 * e:.0f} %' for e in results.prediction_error[model])} of these."
        )
    return " ".join(said)


def approximated_rows(settings: Settings, results: Results) -> dict[str, Columns]:
    """Every number."""
    s = settings
    learnt = [
        (model, s.features, int(n), r, v, share(hit))
        for model, right in results.feature_right.items()
        for n, r, v, hit in zip(
            feature_sizes(s), results.feature_ridge[model], results.feature_validation[model], right, strict=True
        )
    ]
    beside = [
        (model, m, share(hit), e, d, t)
        for model, right in results.exact_right.items()
        for m, hit, e, d, t in zip(
            ("exact", *s.exact_features),
            right,
            (0.0, *results.kernel_error[model]),
            (0.0, *results.prediction_error[model]),
            results.exact_seconds[model],
            strict=True,
        )
    ]
    names = ("model", "features", "training_images", "ridge", "validation_accuracy", "test_accuracy", "low", "high")
    others = ("model", "features", "accuracy", "low", "high", "kernel_error", "prediction_error", "seconds")
    return {"features": columns(names, learnt), "beside_exact": columns(others, beside)}


def _images(s: Settings) -> int:
    return s.whole_images + s.whole_images // 9 + s.whole_tested


def _seconds(results: Results, model: str) -> float:
    return float(results.feature_seconds[model].sum())


def _exact_seconds(s: Settings, results: Results, model: str) -> float:
    """Seconds for all pairs of training images, and of these with all others, as fast as the exact kernel of a few."""
    n, few = s.whole_images, s.exact_images
    pairs = n * (n + 1) / 2 + n * (_images(s) - n)
    return float(results.exact_seconds[model][0]) / (few * (few + 1) / 2) * pairs


def _figure(s: Settings, results: Results, folder: RunFolder, model: str) -> Figure:
    with drawing.panels(
        folder,
        f"features-{model}",
        size=(6.4, 3.6),
        xlabel="training images",
        ylabel="accuracy on test images, %",
        caption=f"{s.features:,} random features of {model}: accuracy with its 95 % interval over test images; the "
        f"exact kernel on {s.exact_images:,} images, in folds"
        + (f"; and the source’s number, of the exact kernel and {FULL:,} images." if model in SOURCE else "."),
        alt=f"Accuracy of random features of {model} against training images",
    ) as drawn:
        (axes,) = drawn
        reached = [share(right) for right in results.feature_right[model]]
        drawing.estimates(axes, feature_sizes(s), reached, palette.BLUE.light, label=f"{s.features:,} features")
        exact = share(results.exact_right[model][0])
        few = round(0.75 * s.exact_images)
        drawing.estimates(axes, [few], [exact], palette.GREEN.light, fmt="s", ms=6, label="exact kernel, ours")
        if model in SOURCE:
            colour = palette.MUTED.light
            axes.plot([FULL], [SOURCE[model]], "D", ms=7, color=colour, label="exact kernel, source")
        drawing.logarithmic(axes, "x")
    return drawn.figure


def _learnt(s: Settings, results: Results, model: str) -> Table:
    rows = [
        [f"{n:,}", f"{ridge:.2g}", f"{100 * validation:.1f}", share(right)]
        for n, ridge, validation, right in zip(
            feature_sizes(s),
            results.feature_ridge[model],
            results.feature_validation[model],
            results.feature_right[model],
            strict=True,
        )
    ]
    caption = (
        f"Accuracy in percent of {s.features:,} random features of {model}; in brackets 95 % intervals over test "
        "images. The ridge, of the mean of the kernel’s diagonal, is the best in validation."
    )
    return table(caption, ["training images", "ridge", "validation", "test"], rows)


def _beside(s: Settings, results: Results, model: str) -> Table:
    right, lost = results.exact_right[model], features_less_exact(s, results.exact_right[model])
    seconds = results.exact_seconds[model]
    rows = [["exact kernel", share(right[0]), "–", "–", "–", f"{seconds[0]:.3g}"]]
    for i, label in enumerate(lost):
        errors = [f"{100 * of[model][i]:.3g}" for of in (results.kernel_error, results.prediction_error)]
        rows.append([label, share(right[i + 1]), lost[label], *errors, f"{seconds[i + 1]:.3g}"])
    caption = (
        f"{s.exact_images:,} images in four folds: accuracy in percent, and that of features minus that of the exact "
        "kernel, paired over images, with 95 % intervals over images; the error of the centred kernel in the Frobenius "
        "norm, and the root mean square by which predictions differ at the exact kernel’s best ridge, in percent of "
        "the exact ones; seconds of processors."
    )
    return table(caption, ["", "accuracy", "minus exact", "kernel off, %", "predictions off, %", "s"], rows)
