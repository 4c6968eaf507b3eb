"""How random features are shown: what they learn of all images, and how far they are from the exact kernel of a few."""

from __future__ import annotations

from equitangents.extending import formatting
from equitangents.report import Figure, Section, Table, palette
from equitangents_studies.framework.page import Columns, RunFolder, columns, drawing, section, table
from equitangents_studies.framework.records import in_words
from equitangents_studies.learning_curves.claims import features_less_exact
from equitangents_studies.learning_curves.largest import FULL, SOURCE, share
from equitangents_studies.learning_curves.settings import Results, Settings, compared_features, feature_sizes, left


def approximated(settings: Settings, results: Results, folder: RunFolder, model: str) -> Section:
    """The section on one model."""
    s = settings
    told = (
        f"{s.features:,} random features an image stand in for the NTK of {model}, {s.depth} hidden layers, "
        f"{s.pixels}×{s.pixels} pixels. The features of {_images(s):,} images took "
        f"{formatting.duration(results.feature_seconds[model].sum())} of a processor core, and learning from them, at "
        f"all sizes and ridges, {formatting.duration(results.learnt_seconds[model].sum())}."
    )
    beside = (
        f"What that loses shows where both can be computed: on {s.exact_images:,} of the training images, each "
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
    known = model in SOURCE and settings.whole_images == FULL
    theirs = f" (source, exact kernel: {SOURCE[model]:g} %)" if known else ""
    return (
        f"{settings.features:,} random features of infinitely wide {model} classify {reached.value:.1f} % after "
        f"{settings.whole_images:,} images{theirs}"
    )


def approximated_sentence(settings: Settings, results: Results) -> str:
    """Our numbers beside the source's, their cost, and the error of the approximation."""
    s, said = settings, []
    for model, right in results.exact_right.items():
        theirs = ""
        if model in SOURCE:
            theirs = f" (the source, with the exact kernel and {FULL:,} images: {SOURCE[model]:g} %)"
        reached = share(results.feature_right[model][-1])
        spent = results.feature_seconds[model].sum() + results.learnt_seconds[model].sum()
        lost = features_less_exact(s, right)
        taken = lost.pop(f"{s.features:,} features")
        others = "".join(f"; {label} would by {in_words(e)}" for label, e in lost.items())
        whole = formatting.duration(_for_all(s, results, model)[0])
        said.append(
            f"{s.features:,} random features of infinitely wide {model} classify {in_words(reached)} % of the test "
            f"images after {s.whole_images:,} training images{theirs}, for {formatting.duration(spent)} of a processor "
            f"core; the exact kernel would take {whole} of one. On {s.exact_images:,} images, whose exact kernel can "
            f"be computed and has {share(right[0]).value:.1f} %, they change accuracy by {in_words(taken)} percentage "
            f"points{others}."
        )
    return " ".join(said)


def approximated_rows(settings: Settings, results: Results) -> dict[str, Columns]:
    """Every number."""
    s = settings
    learnt = [
        (model, s.features, int(n), r, v, share(hit), t)
        for model, right in results.feature_right.items()
        for n, r, v, hit, t in zip(
            feature_sizes(s),
            results.feature_ridge[model],
            results.feature_validation[model],
            right,
            results.learnt_seconds[model],
            strict=True,
        )
    ]
    beside = [
        (model, m, share(hit), e, d, t)
        for model, right in results.exact_right.items()
        for m, hit, e, d, t in zip(
            ("exact", *compared_features(s)),
            right,
            (0.0, *results.kernel_error[model]),
            (0.0, *results.prediction_error[model]),
            results.exact_seconds[model],
            strict=True,
        )
    ]
    tested = ("validation_accuracy", "test_accuracy", "low", "high", "seconds")
    names = ("model", "features", "training_images", "ridge", *tested)
    others = ("model", "features", "accuracy", "low", "high", "kernel_error", "prediction_error", "seconds")
    return {"features": columns(names, learnt), "beside_exact": columns(others, beside)}


def _images(s: Settings) -> int:
    return s.whole_images + left(s) + s.whole_tested


def _for_all(s: Settings, results: Results, model: str) -> list[float]:
    """Seconds for all images, as fast as for a few, of the exact kernel and of features: of the kernel for all pairs of
    training images, and of these with all others.
    """
    n, few = s.whole_images, s.exact_images
    pairs = n * (n + 1) / 2 + n * (_images(s) - n)
    exact, *features = (float(seconds) for seconds in results.exact_seconds[model])
    return [exact / (few * (few + 1) / 2) * pairs, *(seconds / few * _images(s) for seconds in features)]


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
    exact, *costs = (
        [f"{seconds:.3g}", formatting.duration(of_all)]
        for seconds, of_all in zip(results.exact_seconds[model], _for_all(s, results, model), strict=True)
    )
    rows = [["exact kernel", share(right[0]), "–", "–", "–", *exact]]
    for i, (label, cost) in enumerate(zip(lost, costs, strict=True)):
        errors = [f"{100 * of[model][i]:.3g}" for of in (results.kernel_error, results.prediction_error)]
        rows.append([label, share(right[i + 1]), lost[label], *errors, *cost])
    caption = (
        f"{s.exact_images:,} images in four folds: accuracy in percent, and that of features minus that of the exact "
        "kernel, paired over images, with 95 % intervals over images; the error of the centred kernel in the Frobenius "
        "norm, and the root mean square by which predictions differ at the exact kernel’s best ridge, in percent of "
        "the exact ones; seconds of processors, and the time that the kernel, or the features, of "
        f"{_images(s):,} images would take at that rate."
    )
    header = ["", "accuracy", "minus exact", "kernel off, %", "predictions off, %", "s", f"{_images(s):,} images"]
    return table(caption, header, rows)
