"""How the rotated-images study is shown: agreement over training, accuracy, ensemble size, and single images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from equitangents.report import Figure, Table, palette
from equitangents.statistics import bootstrap
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import in_words
from equitangents_studies.framework.study import RunFolder, Shown, Study
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE
from equitangents_studies.rotated_images.study import (
    ORDER,
    PRESETS,
    Results,
    Settings,
    check_settings,
    claims,
    measure,
    stated_agreement,
)


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Agreement over training, and the scores after the last epoch."""
    return [agreement_figure(settings, results, folder), _final_table(settings, results)]


def _through_training(axes: Axes, settings: Settings, results: Results, name: str, which: str) -> None:
    """Members, their mean with its interval over inputs, and infinite width, against the epochs."""
    score: Callable[[np.ndarray], np.ndarray] = getattr(results, which)
    axes.plot(
        results.epochs, score(results.members[name]).mean(axis=-1), color=palette.MEMBER.light, lw=0.8, alpha=0.75
    )
    axes.plot([], [], color=palette.MEMBER.light, label="members")
    means = [bootstrap(score(labels), resamples=1000, bounds=results.scales[which]) for labels in results.mean[name]]
    low, high = [e.low for e in means], [e.high for e in means]
    axes.fill_between(results.epochs, low, high, color=palette.BLUE.light, alpha=0.2, lw=0)
    axes.plot(results.epochs, [e.value for e in means], color=palette.BLUE.light, lw=2.2, label="their mean")
    if results.infinite:
        later = results.epochs > 0  # before training all outputs are 0, and every class is as good as another
        exact = score(results.infinite[name]).mean(axis=-1)[later]
        look: dict[str, Any] = {
            "color": palette.VERMILLION.light,
            "lw": 2.2,
            "clip_on": False,
            "label": "infinite width",
        }
        axes.plot(results.epochs[later], exact, **look)
    axes.set_xlim(0, settings.epochs)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))


def agreement_figure(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    """The study's main figure."""
    with drawing.panels(
        folder,
        "agreement-over-training",
        titles=[drawing.heading(results.images.titles[name]) for name in results.images.sets],
        ylabel=f"orbit same predictions, of {ORDER}",
        size=(8.6, 3.4),
        sharey=True,
        caption="Orbit same predictions over training: members, the mean of their outputs (band: 95 % interval over "
        "inputs), and the infinitely wide ensemble in closed form, where it was computed. At initialisation a mean of "
        "wide networks is distributed like one of them, up to scale.",
        alt="Orbit same predictions against epochs",
    ) as drawn:
        for axes, name in zip(drawn, results.images.sets, strict=True):
            _through_training(axes, settings, results, name, "agreement")
            axes.set_ylim(1, ORDER * 1.005)
    return drawn.figure


def _final_table(settings: Settings, results: Results) -> Table:
    header = ["After the last epoch", "best member", "members’ mean score", "ensemble", "infinite width"]

    def row(title: str, name: str, which: str, digits: int) -> list[str]:
        score: Callable[[np.ndarray], np.ndarray] = getattr(results, which)
        members = score(results.members[name][-1]).mean(axis=-1)
        ensemble = bootstrap(score(results.mean[name][-1]), bounds=results.scales[which])
        exact = f"{score(results.infinite[name][-1]).mean():.{digits}f}" if results.infinite else "–"
        numbers = [f"{members.max():.{digits}f}", f"{members.mean():.{digits}f}"]
        return [title, *numbers, in_words(ensemble), exact]

    titles = results.images.titles
    rows = [row(f"Agreement on {titles[name]}, of {ORDER}", name, "agreement", 2) for name in results.images.sets]
    rows.append(row(f"Accuracy on {titles['test']}", "test", "accuracy", 3))
    numbers = stated_agreement(settings)
    stated = f" The source states {numbers}." if numbers else ""
    return Table(f"After the last epoch; in brackets 95 % intervals over inputs.{stated}", header, rows)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
