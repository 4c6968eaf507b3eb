"""How partial orbits are shown: accuracies in seen and unseen orientations against the order of the group."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents_studies.framework.page import Presentation, RunFolder, columns, drawing, section, table
from equitangents_studies.partial_orbits.study import MODELS, SETS, Results, Settings, cases, headline, images

_WHAT = {
    "unseen": "training images, unseen orientations",
    "one": "one orientation of one image missing",
    "further_seen": "further images, seen orientations",
    "further_unseen": "further images, unseen orientations",
    "whole_unseen": "further images of classes seen whole",
}


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    rows = [
        (*key, draw, what, results.accuracy[key][what][draw])
        for key in cases(settings)
        for draw in range(settings.draws)
        for what in _WHAT
    ]
    names = ("data", "network", "group", "missing", "draw", "images", "accuracy")
    s = settings
    text = (
        f"Of {s.classes} classes the first half are trained on in all orientations, of the others one orientation or "
        f"half of them are missing. {s.per_class} images of each class are trained on, {s.test_per_class} further "
        f"ones are predicted; both are drawn anew in each of {s.draws} draws, with their classes. Digits are those of "
        "scikit-learn, letters are A to Z in 21 fonts. On rings of samples every C_n acts exactly."
    )
    sections = [
        section("Seen and unseen orientations", text, _curves(settings, results, folder), _table(settings, results)),
        section("The images", _images(settings, folder)),
    ]
    facts = {
        "Networks": f"{s.hidden_layers} hidden layers, ReLU, infinite width, NTK, trained to the end",
        "Images": f"{s.rings} rings of {s.angles} samples, or {s.pixels}×{s.pixels} pixels (D4)",
    }
    return Presentation({"accuracy": columns(names, rows)}, sections, facts, *headline(settings, results))


def _curves(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        titles=SETS,
        xlabel="order of the cyclic group",
        ylabel="share of right classes",
        sharey=True,
        caption="Images of partly seen classes, half of their orientations missing, MLP: further images in "
        "orientations seen and not seen; and, with the invariant CNN, those not seen. Means over "
        f"{settings.draws} draws with 95 % intervals over draws.",
        alt="Accuracy against the order of the group",
    ) as drawn:
        lines = (
            ("mlp", "further_seen", palette.BLUE, "MLP, seen"),
            ("mlp", "further_unseen", palette.VERMILLION, "MLP, unseen"),
            ("invariant", "further_unseen", palette.GREEN, "invariant CNN, unseen"),
        )
        for axes, name in zip(drawn, SETS, strict=True):
            for i, (model, what, colour, label) in enumerate(lines):
                values = [results.estimate((name, model, f"C{n}", "half"), what) for n in settings.orders]
                place = np.array(settings.orders) * 1.04 ** (i - 1)
                drawing.estimates(axes, place, values, colour.light, label=label)
            drawing.logarithmic(axes, "x", settings.orders, base=2)
        drawn.legend(drawn[0])
    return drawn.figure


def _table(settings: Settings, results: Results) -> Table:
    rows = []
    for key in cases(settings):
        name = f"{key[0]}, {MODELS[key[1]]}, {key[2]}, {key[3]} missing"
        rows.append([name, *(results.estimate(key, what) for what in _WHAT)])
    return table("Shares of right classes; in brackets 95 % intervals over draws.", ["", *_WHAT.values()], rows)


def _images(settings: Settings, folder: RunFolder) -> Figure:
    shown = [images(name, settings, 0)[0][:: settings.per_class][:3] for name in SETS]
    with drawing.panels(
        folder,
        "images",
        titles=[""] * sum(map(len, shown)),
        size=(8.6, 1.8),
        caption="One image of three classes of the first draw: digits and letters.",
        alt="Images of digits and letters",
    ) as drawn:
        for axes, x in zip(drawn, [x for part in shown for x in part], strict=True):
            axes.imshow(x[..., 0], cmap="gray", interpolation="nearest")
            axes.axis("off")
    return drawn.figure
