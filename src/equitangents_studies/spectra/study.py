"""How many samples a symmetry is worth, and whether the kernel's spectrum says so beforehand.

Images are turned at random, so that the group is a symmetry of the data. Kernels of the plain network, of the one that
is invariant under the group, under a subgroup, and under a wrong group (the same turns of scrambled pixels) learn from
the same nested training sets. Asked for in the reviews of the source: does theory predict the sample efficiency?
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import nn
from equitangents.report import format_number, with_interval
from equitangents.statistics import Estimate, exactly
from equitangents_studies import data
from equitangents_studies.common.images import standardise
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import SQUARE_GROUPS as GROUPS
from equitangents_studies.framework.claims import Claim, claim, exact, identity, ours, theirs
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check, presets
from equitangents_studies.framework.works import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.framework.works import OMNISCIENT_RISK
from equitangents_studies.systems import exchange_rate, moved_at_random, spectrum

OURS = f"asked in review of {THEIRS}"
KINDS = ("right", "subgroup", "wrong")
CLOSE = 1.25  # factor within which a predicted number of samples counts as right
_EXPLICIT = 6  # images whose copies are put into one matrix, to compare with


@dataclass(frozen=True)
class Settings:
    """`images` of each of `sets` that is there ("digits" always is), averaged down to `pixels`; an MLP of
    `hidden_layers`. Errors at `sizes`, `repetitions` times; spectra of `spectrum_images`. `ridge`: relative.
    """

    sets: tuple[str, ...] = ("digits", "fashion_mnist")
    groups: tuple[str, ...] = ("C4", "D4")
    images: int = 600
    pixels: int = 8
    sizes: tuple[int, ...] = (15, 30, 60, 120, 240, 480)
    repetitions: int = 10
    spectrum_images: int = 150
    hidden_layers: int = 2
    ridge: float = 1e-4
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="sets=digits,fashion_mnist,mnist,cifar10 images=1500 pixels=14 repetitions=20 "
    "sizes=15,30,60,120,240,480,960 spectrum_images=400",
    paper="sets=digits,fashion_mnist,mnist,cifar10,histology_crc5 images=6000 pixels=28 repetitions=50 "
    "sizes=15,30,60,120,240,480,960,1920,3840 spectrum_images=2000",
)


@dataclass(frozen=True, eq=False)
class Case:
    """One data set and group. `curves[kind]` (sizes, repetitions) are squared errors, `predicted[kind]` (sizes,), kinds
    "plain" and KINDS; `measured` and `expected` the factors of samples by kind; `orders` those of the groups.

    `eigenvalues` (irreps, n) and `multiplicity`, `trace`, `decay` (irreps,) are the spectrum's; `condition` of the
    plain and the invariant kernel; `explicit` the largest difference from the spectrum of all copies in one matrix.
    """

    curves: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray]
    measured: dict[str, Estimate]
    expected: dict[str, Estimate]
    orders: dict[str, int]
    eigenvalues: tuple[np.ndarray, ...]
    multiplicity: np.ndarray
    trace: np.ndarray
    decay: np.ndarray
    condition: tuple[float, float]
    explicit: float


@dataclass(frozen=True, eq=False)
class Results:
    """Cases by (set, group)."""

    cases: dict[tuple[str, str], Case]


def chosen_sets(settings: Settings, data_dir: Path | None) -> tuple[str, ...]:
    """The data sets of the settings that are there."""
    return tuple(name for name in settings.sets if data.available(name, data_dir))


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Known groups and sets, sizes that the images suffice for."""
    at_least(settings, images=40, pixels=2, repetitions=2, spectrum_images=8, hidden_layers=1)
    check(settings.ridge > 0, "ridge", settings.ridge, "positive, since turned images may be alike")
    known = (*GROUPS,)
    check(len(settings.groups) >= 1 and set(settings.groups) <= set(known), "groups", settings.groups, f"of {known}")
    for name in settings.sets:
        check(name in data.names(), "sets", name, f"data sets, {', '.join(data.names())}")
    check(len(chosen_sets(settings, data_dir)) >= 1, "sets", settings.sets, "there; digits always are")
    most = settings.images - round(0.2 * settings.images)
    sizes = settings.sizes
    check(list(sizes) == sorted(set(sizes)) and len(sizes) >= 2, "sizes", sizes, "two or more, increasing")
    check(sizes[-1] <= most, "sizes", sizes, f"at most {most}, four fifths of the images")
    check(settings.spectrum_images <= settings.images, "spectrum_images", settings.spectrum_images, "at most images")


def network(settings: Settings) -> nn.Sequential:
    """The MLP."""
    return mlp(8, settings.hidden_layers, flatten=True, output_std=1)


def load(settings: Settings, name: str, group: str, data_dir: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Grey or colour images in float64, each turned by a random element, and their labels."""
    x, y = data.load(name, data_dir).pooled
    rows = np.random.default_rng(settings.seed).permutation(len(x))[: settings.images]
    sized = standardise(data.resize(x[rows], (settings.pixels, settings.pixels))).astype(np.float64)
    return moved_at_random(GROUPS[group](), sized, settings.seed), y[rows]


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Exchange rates and a spectrum for every set and group; each is a stage."""
    data_dir, parts = folder.data_dir, (("rates", "errors", _rates), ("spectrum", "spectrum", _spectrum))
    cases = [(name, group) for name in chosen_sets(settings, data_dir) for group in settings.groups]
    found = folder.stages(
        {
            (part, *case): Stage(
                "-".join((part, *case)), f"{', '.join(case)}: {said}", partial(compute, settings, *case, data_dir)
            )
            for case in cases
            for part, said, compute in parts
        }
    )
    return Results({case: _case(found["rates", *case], found["spectrum", *case]) for case in cases})


def _rates(settings: Settings, name: str, group: str, data_dir: Path | None, task: Task) -> Arrays:
    x, y = load(settings, name, group, data_dir)
    s = settings
    found = exchange_rate(
        network(s), GROUPS[group](), x, y, sizes=s.sizes, repetitions=s.repetitions, ridge=s.ridge, seed=s.seed,
        predict="inputs", progress=task.step,
    )  # fmt: skip
    numbers = lambda e: np.array([e.value, e.low, e.high])
    arrays: dict[str, Any] = {}
    for kind, curve in found.curves.items():
        assert curve.predicted is not None
        arrays[f"squared_{kind}"], arrays[f"predicted_{kind}"] = curve.of("squared"), curve.predicted
    for row in found.rows:
        arrays[f"measured_{row.kind}"], arrays[f"expected_{row.kind}"] = numbers(row.measured), numbers(row.predicted)
        arrays[f"order_{row.kind}"] = np.array(row.order)
    return arrays


def _spectrum(settings: Settings, name: str, group: str, data_dir: Path | None, task: Task) -> Arrays:
    x = load(settings, name, group, data_dir)[0][: settings.spectrum_images]
    net, action = network(settings), GROUPS[group]()
    found = spectrum(net, action, x, progress=task.step)
    few = spectrum(net, action, x[:_EXPLICIT])
    copies = np.concatenate([np.asarray(action(g, x[:_EXPLICIT])) for g in range(action.group.order)])
    K = np.asarray(net.kernel(copies).ntk)
    explicit = np.sort(np.linalg.eigvalsh(K))[::-1] / len(K)
    parts = found.components
    return {
        **{f"eigenvalues_{i}": part.eigenvalues for i, part in enumerate(parts)},
        "multiplicity": np.array([part.multiplicity for part in parts]),
        "trace": np.array([part.trace for part in parts]),
        "decay": np.array([part.decay for part in parts]),
        "condition": np.array([found.condition("plain"), found.condition("invariant")]),
        "explicit": np.array(np.abs(few.eigenvalues - explicit).max() / explicit[0]),
    }


def _case(rates: Arrays, found: Arrays) -> Case:
    kinds = [kind for kind in KINDS if f"measured_{kind}" in rates]
    every = ("plain", *kinds)
    estimates = lambda what: {kind: Estimate(*map(float, rates[f"{what}_{kind}"])) for kind in kinds}
    plain, invariant = map(float, found["condition"])
    return Case(
        curves={kind: rates[f"squared_{kind}"] for kind in every},
        predicted={kind: rates[f"predicted_{kind}"] for kind in every},
        measured=estimates("measured"),
        expected=estimates("expected"),
        orders={kind: int(rates[f"order_{kind}"]) for kind in kinds},
        eigenvalues=tuple(found[f"eigenvalues_{i}"] for i in range(len(found["multiplicity"]))),
        multiplicity=found["multiplicity"],
        trace=found["trace"],
        decay=found["decay"],
        condition=(plain, invariant),
        explicit=float(found["explicit"]),
    )


def mean_factor(factors: Mapping[str, Estimate]) -> Estimate:
    """Geometric mean; so are the ends of its interval, which is right however the factors depend on one another.

    Factors that were not measured leave no number.
    """
    logs = np.log([[e.value, e.low, e.high] for e in factors.values()]).mean(axis=0)
    value, low, high = map(float, np.exp(logs))
    return Estimate(value, low, high, next(iter(factors.values())).confidence)


def _shown(e: Estimate) -> tuple[float, tuple[float, float]]:
    return e.value, e.interval


def headline(settings: Settings, results: Results) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    of = lambda kind: mean_factor({str(key): case.measured[kind] for key, case in results.cases.items()})
    right, wrong = of("right"), of("wrong")
    least = min(results.cases, key=lambda key: results.cases[key].measured["right"].value)
    fewest = results.cases[least].measured["right"]
    title = f"To build in the group that images have is worth {format_number(*_shown(right))} times the samples"
    said = (
        f"The plain kernel needs {with_interval(*_shown(right))} times the samples of the invariant one in the "
        f"geometric mean over {len(results.cases)} pairs of set and group, least for {', '.join(least)}: "
        f"{with_interval(*_shown(fewest))}; with a wrong group {with_interval(*_shown(wrong))} (the source, in review: "
        "fewer samples, no number)."
    )
    return title, said


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What groups are worth, whether the spectrum says so, and how kernels are conditioned."""
    of = lambda kind: {
        f"{name}, {group}": case.measured[kind]
        for (name, group), case in results.cases.items()
        if kind in case.measured
    }
    shown = lambda value: f"{value:.3g}" if math.isfinite(value) else "none, as no error is on both curves"
    span = lambda kind: ", ".join(f"{shown(e.value)} ({label})" for label, e in of(kind).items())
    close = {
        f"{name}, {group}, {kind}": case.expected[kind].over(case.measured[kind])
        for (name, group), case in results.cases.items()
        for kind in case.measured
    }
    typical = format_number(*_shown(mean_factor(of("right"))))
    worst = max((abs(math.log(e.value)) for e in close.values() if e.value > 0), default=math.nan)
    explicit = {f"{name}, {group}": exactly(case.explicit) for (name, group), case in results.cases.items()}
    conditioned = {
        f"{name}, {group}": exactly(case.condition[1] / case.condition[0])
        for (name, group), case in results.cases.items()
    }
    each = "Samples that the plain kernel needs over those of the invariant one, for the same squared errors."
    return [
        claim(
            "The group that the data have saves samples",
            of("right"),
            aggregate=("the geometric mean over sets and groups", mean_factor(of("right"))),
            measure=each,
            covers=("training sets from the same images", settings.repetitions),
            at_least=1,
            by=theirs(THEIRS, "review", "invariant kernels need fewer samples"),
            holds=f"Build in the group that the data have: the plain kernel needs {typical} times the samples in the "
            f"mean, by set and group {span('right')}.",
            fails=f"The group does not save samples: the factors are {span('right')}.",
            undecided=f"More repetitions would decide whether it saves samples: the factors are {span('right')}.",
        ),
        claim(
            "A wrong group of the same size saves none",
            of("wrong"),
            aggregate=("the geometric mean over sets and groups", mean_factor(of("wrong"))),
            measure=each + " The wrong group turns pixels that were scrambled.",
            covers=("training sets from the same images", settings.repetitions),
            at_most=1,
            by=ours(OURS, place="review"),
            holds=f"Invariance by itself is no gain; it has to be that of the data: the factors are {span('wrong')}.",
            fails=f"Even a wrong group saves samples: the factors are {span('wrong')}.",
            undecided=f"More repetitions would decide whether a wrong group costs samples: {span('wrong')}.",
        ),
        claim(
            f"The spectra predict all these factors to within a factor of {CLOSE:g}",
            close,
            aggregate=("the geometric mean over sets and groups", mean_factor(close)),
            measure="Predicted over measured factor. The prediction is that of the squared error, from kernels and "
            "targets of the images alone, without training.",
            covers=("training sets, and images (jackknife)", settings.repetitions),
            at_least=1 / CLOSE,
            at_most=CLOSE,
            by=ours(OURS, place="review"),
            holds=f"Read off the spectrum what a symmetry is worth: at most {math.exp(worst):.3g} times off.",
            fails=f"Measure what a symmetry is worth: the prediction is up to {math.exp(worst):.3g} times off.",
            undecided=f"Predictions are at most {math.exp(worst):.3g} times off, but intervals reach beyond {CLOSE:g}.",
        ),
        exact(
            "The invariant kernel is conditioned no worse than the plain one on all copies",
            conditioned,
            measure="Condition number of the invariant kernel over that of the plain one on all copies of the images.",
            at_most=1 + 1e-6,
            by=identity("theory: its eigenvalues are some of those"),
            holds="Iterative solvers take no more steps with the symmetry built in.",
            fails="The invariant kernel is conditioned worse, which theory excludes: rounding rules here.",
        ),
        exact(
            "Spectra by irrep are those of all copies in one matrix, to rounding",
            explicit,
            measure=f"Largest difference of eigenvalues over the largest one, {_EXPLICIT} images.",
            at_most=1e-10,
            by=identity("theory"),
            holds="Diagonalise one irrep after another.",
            fails="The blocks of the irreps are not the spectrum here.",
        ),
    ]


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (THEIRS, OMNISCIENT_RISK), check_settings)
