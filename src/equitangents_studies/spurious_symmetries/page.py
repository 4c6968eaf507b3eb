"""How spurious symmetries are shown: Figure 2, the images, curves with their extrapolation, and tables."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import t_interval
from equitangents_studies.common.input_pictures import picture_grid
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, Shown, columns, drawing, table
from equitangents_studies.spurious_symmetries.claims import FINITE, FULL, WIDE
from equitangents_studies.spurious_symmetries.pools import Pool, own_group, share
from equitangents_studies.spurious_symmetries.study import GROUPS, INFERENCES, Results, Settings

_COLOURS = {
    "FCN": palette.VERMILLION,
    "LCN": palette.PURPLE,
    "VEC": palette.BLUE,
    "GAP": palette.GREEN,
    "LAP4": palette.INK,
    "LAP8": palette.MUTED,
}
_STYLES = {"I": "-", "O(3)^d": "--", "P(3d)": ":", "O(3d)": "-."}
_MARKERS = {"--": "o", ":": "s", "-.": "^"}
_TITLES = {"NTK": "NTK, infinite width", "NN": "NN", "NN+": "NN+"}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    s = settings
    shown: list[Shown] = [
        _accuracies(results, folder),
        _accuracy_table(results),
        _pictures(results, folder),
        _curves(s, results, folder),
        *_moved(s, results),
        _pools(s, results),
    ]
    tables = {"accuracy": _rows(results), "pools": _pool_rows(s, results)}
    return Presentation(tables, shown)


def _rows(results: Results) -> Columns:
    """One row for every run."""
    rows = [
        (a, how, g, r, results.best[a, how][i, r], results.last[a, how][i, r], results.learnt[a, how][i, r])
        for a in results.architectures for how in INFERENCES for i, g in enumerate(GROUPS)
        for r in range(results.best[a, how].shape[1])
    ]  # fmt: skip
    return columns(
        ("architecture", "inference", "group", "repetition", "best_accuracy", "last_accuracy", "training_accuracy"),
        rows,
    )


def _every_pool(s: Settings, results: Results) -> list[tuple[str, str, int, Pool]]:
    """(model, what moved all images, pixels, pool)."""
    found = [(model, "I", s.kernel_pixels, pool) for model, pool in results.pools.items()]
    if results.beside is not None:
        found.append(("VEC", "I", s.kernel_pixels, results.beside))
    return found + [(model, group, s.small_pixels, pool) for (model, group), pool in results.small.items()]


def _pool_rows(s: Settings, results: Results) -> Columns:
    """One row for every fold and size; of moved images for the first fold and the largest size."""
    rows = []
    for model, group, pixels, pool in _every_pool(s, results):
        for i, n in enumerate(pool.sizes):
            for fold, error in enumerate(pool.errors[i]):
                rows.append((model, group, pixels, int(n), fold, error, "", ""))
        for g, error, equal, outputs in list(zip(pool.groups, pool.moved, pool.equal, pool.outputs, strict=True))[1:]:
            rows.append((model, g, pixels, pool.most, 0, error, equal, outputs))
    names = ("model", "group", "pixels", "training_images", "fold", "error", "kernel_change", "prediction_change")
    return columns(names, rows)


def _pictures(results: Results, folder: RunFolder) -> Figure:
    rows = list(results.pictures.swapaxes(0, 1))
    return picture_grid(
        folder,
        "images",
        rows,
        GROUPS,
        size=(7.5, 1.5 * len(rows) + 0.3),
        caption=(
            "The same images moved by one random element of each group, as the networks see them, at the "
            "size of the kernels’ images."
        ),
        alt="Sample images moved by each group",
    )


def _accuracies(results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        titles=[_TITLES[how] for how in INFERENCES],
        ylabel="test accuracy, %",
        sharey=True,
        caption=(
            "Mean test accuracy with 95 % intervals over those repetitions that count; all images moved "
            "by one random element of each group. Bars without a dot: one infinitely wide network, drawn "
            "from its exact law, where dots are the mean of infinitely many."
        ),
        alt="Accuracy by group, architecture and inference",
    ) as drawn:
        place = np.arange(len(GROUPS))
        for axes, how in zip(drawn, INFERENCES, strict=True):
            for i, name in enumerate(results.architectures):
                values = [results.accuracy(name, how, g) for g in GROUPS]
                there = [k for k, e in enumerate(values) if np.isfinite(e.value)]
                shown = [drawing.drawable(values[k]) for k in there]
                drawing.estimates(
                    axes, place[there] + 0.09 * (i - 2.5), shown, _COLOURS[name].light, label=name, fmt="o"
                )
            if how == "NTK":
                for i, name in enumerate(results.architectures):
                    one = 100 * results.draws[name].mean(axis=(1, 2))
                    axes.plot(place + 0.09 * (i - 2.5), one, "_", ms=6, color=_COLOURS[name].light)
            axes.set_xticks(place, GROUPS, fontsize=7.5)
    return drawn.figure


def _accuracy_table(results: Results) -> Table:
    rows = []
    for name in results.architectures:
        for how in INFERENCES:
            found = [results.accuracy(name, how, g) for g in GROUPS]
            cells = [e if np.isfinite(e.value) else "none counts" for e in found]
            learnt = 100 * float(results.learnt[name, how].mean())
            last = 100 * float(results.last[name, how].mean())
            rows.append([f"{name}, {how}", own_group(name, how), *cells, f"{last:.1f}", f"{learnt:.0f}"])
        one = [t_interval(100 * draws.mean(axis=1), bounds=(0, 100)) for draws in results.draws[name]]
        rows.append([f"{name}, one draw", own_group(name, "NTK"), *one, "", ""])
    caption = (
        "Test accuracy in percent, in brackets 95 % intervals over repetitions; then, over all runs, the mean accuracy "
        "after the last epoch on test and on training images. “one draw”: single infinitely wide networks, drawn from "
        "their exact law after training. “own group”: what Theorem 4.1 gives the algorithm."
    )
    return table(caption, ["", "own group", *GROUPS, "last, test", "last, training"], rows)


def _curves(s: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "curves",
        titles=(
            f"the largest training sets, {s.kernel_pixels}×{s.kernel_pixels} pixels",
            f"the same images for all, {s.small_pixels}×{s.small_pixels} pixels",
        ),
        xlabel="training images",
        ylabel="classification error",
        sharey=True,
        caption=(
            "Classification error of NTKs: means over folds with 95 % intervals, and fitted power laws. "
            "Dashed: moved images. Crosses: the source’s infinitely wide networks, with more images."
        ),
        alt="Classification error against training images",
    ) as drawn:
        for name, pool in results.pools.items():
            _curve(drawn[0], name, pool, name, "-", pool.most)
            if name in WIDE and results.source == "cifar10" and s.kernel_pixels == 32:
                drawn[0].plot([FULL], [1 - WIDE[name] / 100], "x", color=_COLOURS[name].light)
        for (name, group), pool in results.small.items():
            label = name if group == "I" else f"{name}, {group}"
            _curve(drawn[1], name, pool, label, _STYLES[group], pool.most)
        for axes in drawn:
            drawing.logarithmic(axes, "both", fine=True)
        drawn.legend(*drawn)
    return drawn.figure


def _curve(axes: object, name: str, pool: Pool, label: str, style: str, until: float) -> None:
    colour = _COLOURS[name].light
    values = [drawing.drawable(t_interval(row, bounds=(0, 1))) for row in pool.errors]
    look = {"fmt": "o"} if style == "-" else {"mfc": "white", "fmt": _MARKERS[style]}
    drawing.estimates(axes, pool.sizes, values, colour, label=label, **look)  # type: ignore[arg-type]
    law = pool.law()
    if law is not None:
        fine = np.geomspace(pool.sizes[0], until, 80)
        axes.plot(fine, np.minimum(law.curve(fine), 1), color=colour, lw=1, ls=style)  # type: ignore[attr-defined]


def _moved(s: Settings, results: Results) -> list[Table]:
    rows = []
    for name in s.moved:
        pool = results.pools[name]
        rows.append([f"{name}, accuracy, %", *(f"{100 - 100 * error:.1f}" for error in pool.moved)])
        rows.append([f"{name}, change of the kernel", *(_small(v) for v in pool.equal)])
        rows.append([f"{name}, change of predictions", *(_small(v) for v in pool.outputs)])
    if not rows:
        return []
    caption = (
        f"Infinite width on moved images of {s.kernel_pixels}×{s.kernel_pixels} pixels, first fold. Changes are the "
        "largest, relative to the largest value, float32."
    )
    return [table(caption, ["", *GROUPS], rows)]


def _small(value: float) -> str:
    return f"{value:.1g}".replace("-", "−")


def _pools(s: Settings, results: Results) -> Table:
    rows = []
    for model, group, pixels, pool in _every_pool(s, results):
        law, theirs = pool.law(), ""
        if results.source == "cifar10" and pixels == 32 and group == "I":
            theirs = f"{WIDE[model]:.0f}" if model in WIDE else ""
        exponent = law.exponent if law is not None else ""
        name = f"{model}, {group}, {pixels} pixels"
        rows.append([name, f"{pool.most:,}", share(pool), exponent, theirs])
    caption = (
        "Accuracy in percent with the largest training sets (in brackets 95 % intervals over folds), the last "
        f"exponent and, of CIFAR-10 at 32×32 pixels, the source’s with {FULL:,} images. Its trained networks: "
        + ", ".join(f"{name} {value:.0f} %" for name, value in FINITE.items())
        + "."
    )
    header = ["", "training images", "accuracy, %", "last exponent", f"source, {FULL:,} images, %"]
    return table(caption, header, rows)
