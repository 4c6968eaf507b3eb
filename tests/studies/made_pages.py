"""Settings and results of studies, made for the purpose, and the numbers of the pages that they give.

Results come from the tests of claims, completed by what pages show besides. `python tests/studies/made_pages.py` writes
the numbers of all pages, or of the studies named behind it, to made_pages.json, with which tests compare them.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from equitangents import studies
from equitangents.report import Table
from equitangents.statistics import Estimate
from equitangents_studies import finite_width_vec
from equitangents_studies.framework import drawing
from equitangents_studies.framework.folder import RunFolder
from equitangents_studies.framework.study import Presentation
from equitangents_studies.ising.study import predicted_sizes
from studies import (
    test_admissible_study,
    test_augmentation_claims,
    test_augmentation_sentences,
    test_augmented_pairs,
    test_claims_of_vectors_and_molecules,
    test_exchange_rate_study,
    test_finite_width_vec,
    test_frozen_kernel,
    test_imagenet_scale,
    test_learning_studies,
    test_mean_field_study,
    test_predicted_agreement,
    test_spurious_symmetries,
    test_study_claims,
    test_study_tissue,
    test_system_studies,
)

RECORDED = Path(__file__).with_name("made_pages.json")


def _of(case, *arguments, **changes):
    """Settings and results of a class of tests of claims, the latter with `changes`."""
    made = getattr(case, "results", None) or case._results
    settings = getattr(case, "settings", None) or case.SETTINGS
    return settings, dataclasses.replace(made(*arguments), **changes)


def _images(sets):
    """Images of 4 × 4 pixels."""
    x = np.random.default_rng(0).normal(size=(6, 4, 4, 1))
    return SimpleNamespace(
        sets=dict.fromkeys(sets, x), titles={name: f"the {name} set" for name in sets}, train_x=x,
        test_y=np.zeros(200, int),
    )  # fmt: skip


def _toy():
    settings, results = _of(test_study_claims.TestToyClaims())
    rng, times = np.random.default_rng(0), [0, 0, 1]  # of those there, so that there is one between first and last

    at = lambda arrays: tuple(y[times] for y in arrays)
    maps = {of: rng.normal(size=(3, *members, 5, 5)) for of, members in _SHOWN.items()}
    augmented = dataclasses.replace(
        results.augmented, orbits=at(results.augmented.orbits), infinite_orbits=at(results.augmented.infinite_orbits),
        maps=maps,
    )  # fmt: skip
    settings = dataclasses.replace(settings, steps=(0, 2, 5))
    return settings, dataclasses.replace(
        results, times=np.array(settings.steps), truth=rng.normal(size=(5, 5)), augmented=augmented,
        plain_orbits=at(results.plain_orbits), expected_violation=at(results.expected_violation),
    )  # fmt: skip


_SHOWN = {"members": (3,), "mean": (), "infinite": ()}


def _ising():
    settings, results = _of(test_study_claims.TestIsingClaims())
    curve = np.sort(np.random.default_rng(0).random((3, len(predicted_sizes(settings)), 3)))
    return settings, dataclasses.replace(results, curve=dict.fromkeys(results.mean, curve))


def _finite_width():
    settings, results = _of(test_augmentation_claims.TestFiniteWidthClaims())
    cells = {(net, task): results.cells["mlp", "ising"] for net in ("mlp", "cnn") for task in ("ising", "digits")}
    group = {"ising": results.group["digits"], **results.group}
    return settings, dataclasses.replace(results, cells=cells, group=group)


def _exchanged():
    settings, results = test_augmentation_sentences.exchanged_results(0.01)
    return settings, dataclasses.replace(results, deep_without=results.deep_distance)


def _frozen():
    settings, results = test_frozen_kernel.SETTINGS, test_frozen_kernel.TestClaims()._results()
    loss = {kind: np.ones((*m.shape[:2], m.shape[2] + 1)) for kind, m in results.movement.items()}
    rate = {kind: np.full(m.shape[:2], 0.25) for kind, m in results.movement.items()}
    return settings, type(results)(results.widths, results.steps, results.movement, loss, rate)


def _curves():
    settings, results = test_learning_studies.TestLearningCurves().trained(0.08, 0.0, 0.01)
    return dataclasses.replace(settings, repetitions=6), results


def _groups():
    settings, results = _of(test_system_studies.TestSymmetryGroups())
    return settings, dataclasses.replace(results, right={key: right[:100] for key, right in results.right.items()})


_CLAIMS, _AUGMENTATION = test_study_claims, test_augmentation_claims
EXAMPLES = {
    "toy": _toy,
    "ising": _ising,
    "rotated-images": lambda: _of(test_predicted_agreement.TestClaimOverMembers(), 0.0),
    "kernel-convergence": lambda: _of(_CLAIMS.TestKernelConvergenceClaims()),
    "admissible": lambda: (test_admissible_study.SETTINGS, test_admissible_study.results(0.0, 2.0)),
    "mean-field": lambda: (test_mean_field_study.SETTINGS, test_mean_field_study.results()),
    "exchange-rate": lambda: (test_exchange_rate_study.SETTINGS, test_exchange_rate_study.results()),
    "continuous": lambda: _of(_AUGMENTATION.TestContinuousClaims()),
    "finite-width": _finite_width,
    "other-ensembles": lambda: _of(_AUGMENTATION.TestOtherEnsemblesClaims()),
    "sampling": lambda: _of(_AUGMENTATION.TestSamplingClaims()),
    "mlp-to-gcnn": _exchanged,
    "augmented-cnn-to-gcnn": lambda: (
        test_augmented_pairs.SETTINGS,
        test_augmented_pairs.results(lambda width: 0.4 / width),
    ),
    "cross-product": lambda: _of(test_claims_of_vectors_and_molecules.TestCrossProduct()),
    "forces": lambda: _of(test_claims_of_vectors_and_molecules.TestForces()),
    "molecules": lambda: _of(test_claims_of_vectors_and_molecules.TestMolecules()),
    "finite-width-vec": lambda: (
        finite_width_vec.Settings(widths=test_finite_width_vec.WIDTHS, runs=5, needed=4),
        test_finite_width_vec.made(),
    ),
    "frozen-kernel": _frozen,
    "imagenet-scale": lambda: _of(test_imagenet_scale.TestClaims()),
    "learning-curves": _curves,
    "partial-orbits": lambda: _of(test_learning_studies.TestPartialOrbits()),
    "predicted-agreement": lambda: _of(
        test_predicted_agreement.TestClaimsOverWidth(), (0.4, 0.6, 0.7), images=_images(("test", "noise"))
    ),
    "medical-kernels": lambda: _of(
        test_study_tissue.TestMedicalKernels(), np.random.default_rng(0), [(0, 0), (0.1, 0), (0.1, 0.1)]
    ),
    "spurious-symmetries": lambda: _of(test_spurious_symmetries.TestClaims()),
    "symmetry-groups": _groups,
    "symmetry-breaking-path": lambda: _of(test_system_studies.TestSymmetryBreakingPath(), (0.5, 2.0), (2.0, 0.5)),
    "gaussian-vs-uniform": lambda: _of(test_system_studies.TestGaussianVsUniform()),
}


@dataclasses.dataclass(frozen=True)
class Made:
    """A page, the claims beside it, and what was drawn for it: figures by name, and every estimate with a bar."""

    page: Presentation
    claims: Sequence[Any]
    figures: dict[str, Any]
    estimates: Sequence[Estimate]


def made(name: str) -> Made:
    """The page of the study `name`; its figures are drawn, but neither laid out nor saved."""
    settings, results = EXAMPLES[name]()
    info = studies.registry[name]
    study, page = (importlib.import_module(module) for module in (info.module, info.page))
    figures: dict[str, Any] = {}
    estimates: list[Estimate] = []

    def save(canvas, folder, title):
        figures[title] = canvas
        return "<svg/>"

    def noted(axes, x, values, *rest, **look):
        estimates.extend(values)
        return draw(axes, x, values, *rest, **look)

    draw = drawing.estimates
    with (
        tempfile.TemporaryDirectory() as place,
        mock.patch.object(drawing.figures, "save", save),
        mock.patch.object(drawing, "estimates", noted),
    ):
        folder = RunFolder(Path(place) / "run", {"study": name, "settings": {}})
        shown = page.present(settings, results, folder)
    return Made(shown, study.STUDY.claims(settings, results), figures, estimates)


def words(page: Presentation) -> str:
    """All text of a page, that of its tables and captions included."""
    parts = [item.caption for item in page.shown]
    tables = [item for item in page.shown if isinstance(item, Table)]
    parts += [cell for table in tables for row in (table.header, *table.rows) for cell in row]
    return "\n".join(map(str, parts))


def numbers(shown: Made) -> dict[str, Any]:
    """What a page comes to: of every table, figure and claim a few sums; and the numbers in its words."""
    return {
        "tables": {
            name: {key: _sums(values) for key, values in columns.items()} for name, columns in shown.page.tables.items()
        },
        "figures": {
            name: [_sums(_drawn(axes)) for axes in canvas.axes] for name, canvas in sorted(shown.figures.items())
        },
        "claims": [
            [c.outcome, c.repeated, c.further, *_rounded((c.number, *c.interval, *c.bound)), *_family(c)]
            for c in shown.claims
        ],
    }


def _family(claim: Any) -> list[float]:
    return _rounded(x for e in claim.numbers.values() for x in (e.value, e.low, e.high, e.confidence))


def _drawn(axes: Any) -> list[float]:
    """Heights of all lines, bars and pictures."""
    parts = [np.ravel(line.get_ydata(orig=False)) for line in axes.lines]
    parts += [[bar.get_height()] for bar in axes.patches if hasattr(bar, "get_height")]
    parts += [np.ravel(image.get_array()) for image in axes.images]
    return [float(x) for part in parts for x in part]


def _sums(values: Iterable[Any]) -> list[float]:
    """How many there are; of those that are numbers the sum, and the sum by their places."""
    every = list(values)
    found = [float(v) if isinstance(v, int | float | np.number) and np.isfinite(v) else 0.0 for v in every]
    return _rounded((len(every), sum(found), sum((i + 1) * v for i, v in enumerate(found))))


def _rounded(values: Iterable[float]) -> list[float]:
    return [float(f"{v:.6g}") for v in values]


if __name__ == "__main__":
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    known |= {name: numbers(made(name)) for name in sys.argv[1:] or EXAMPLES}
    lines = [f"{json.dumps(name)}: {json.dumps(known[name])}" for name in EXAMPLES]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
