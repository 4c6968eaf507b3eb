"""How many samples a symmetry saves, and whether the kernel's spectrum predicts it.

Images are rotated at random, so that the group is a symmetry of the data. Kernels of the plain network, of the one that
is invariant under the group, under a subgroup, and under a wrong group (the same rotations of scrambled pixels) learn
from the same nested training sets. A question from the reviews of the source: does theory predict the sample
efficiency?
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float

from equitangents import nn
from equitangents.actions import Action, from_function
from equitangents.groups import Group
from equitangents.inference import fourier_irreps
from equitangents.kernels import orbit_average
from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, exactly, t_interval
from equitangents_studies import data
from equitangents_studies.common.images import standardise
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import SQUARE_GROUPS as GROUPS
from equitangents_studies.common.orbits import moved_each
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.framework.catalogue import OMNISCIENT_RISK
from equitangents_studies.framework.claims import Claim, claim, exact, identity, ours, theirs
from equitangents_studies.framework.study import (
    Arrays,
    NamedStage,
    RunFolder,
    Shown,
    Study,
    Task,
    at_least,
    check,
    presets,
)
from equitangents_studies.systems.curves import CurveData, curve_data, kernel_curve
from equitangents_studies.systems.grams import PoolKernel, Step, group_grams, irrep_blocks, symmetric_kernel
from equitangents_studies.systems.predictions import cavity_risk
from equitangents_studies.systems.sample_efficiency import jackknifed, log_factor, measured_factor

OURS = f"question in review of {THEIRS}"
KINDS = ("right", "subgroup", "wrong")
CLOSE = 1.25  # factor within which a predicted number of samples counts as right
_PARTS = 10  # of the images, each left out once for the interval of the prediction
_EXPLICIT = 6  # images whose copies are put into one matrix, to compare with


@dataclass(frozen=True)
class SpectraSettings:
    """`images` of each available one of `sets`, averaged down to `pixels`, for an MLP of `hidden_layers`. Errors at
    `sizes` are repeated `repetitions` times; spectra use `spectrum_images`; `ridge` is relative to the mean diagonal.
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
    SpectraSettings(),
    desk="sets=digits,fashion_mnist,mnist,cifar10 images=1500 pixels=14 repetitions=20 "
    "sizes=15,30,60,120,240,480,960 spectrum_images=400",
    paper="sets=digits,fashion_mnist,mnist,cifar10,histology_crc5 images=6000 pixels=28 repetitions=50 "
    "sizes=15,30,60,120,240,480,960,1920,3840 spectrum_images=2000",
)


@dataclass(frozen=True, eq=False)
class Case:
    """One data set and group. `curves[kind]` (sizes, repetitions) are squared errors, `predicted[kind]` (sizes,), kinds
    "plain" and KINDS; `measured` and `expected` sample-efficiency ratios by kind.

    `condition` numbers are those of the plain and the invariant kernel; `explicit` is the largest difference of the
    spectrum by irreps from that of all copies in one matrix.
    """

    curves: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray]
    measured: dict[str, Estimate]
    expected: dict[str, Estimate]
    condition: tuple[float, float]
    explicit: float


@dataclass(frozen=True, eq=False)
class SpectraResults:
    """Cases by (set, group)."""

    cases: dict[tuple[str, str], Case]


def chosen_sets(settings: SpectraSettings, data_dir: Path | None) -> tuple[str, ...]:
    """The available data sets of the settings."""
    return tuple(name for name in settings.sets if data.available(name, data_dir))


def check_settings(settings: SpectraSettings, data_dir: Path | None) -> None:
    """Require known groups and sets, and enough images for the sizes."""
    at_least(settings, images=40, pixels=2, repetitions=2, spectrum_images=8, hidden_layers=1)
    check(settings.ridge > 0, "ridge", settings.ridge, "positive, since rotated images may be alike")
    check(len(settings.groups) > 0 and {*settings.groups} <= {*GROUPS}, "groups", settings.groups, f"of {(*GROUPS,)}")
    for name in settings.sets:
        check(name in data.names(), "sets", name, f"data sets, {', '.join(data.names())}")
    check(len(chosen_sets(settings, data_dir)) >= 1, "sets", settings.sets, "there; digits always are")
    most = settings.images - round(0.2 * settings.images)
    sizes = settings.sizes
    check(list(sizes) == sorted(set(sizes)) and len(sizes) >= 2, "sizes", sizes, "two or more, increasing")
    check(sizes[-1] <= most, "sizes", sizes, f"at most {most}, four fifths of the images")
    check(settings.spectrum_images <= settings.images, "spectrum_images", settings.spectrum_images, "at most images")


def network(settings: SpectraSettings) -> nn.Sequential:
    """The MLP."""
    return mlp(8, settings.hidden_layers, flatten=True, output_std=1)


def load(settings: SpectraSettings, name: str, group: str, data_dir: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Grey or colour images in float64, each rotated by a random element, and their labels."""
    x, y = data.load(name, data_dir).pooled
    rows = np.random.default_rng(settings.seed).permutation(len(x))[: settings.images]
    sized = standardise(data.resize(x[rows], (settings.pixels, settings.pixels))).astype(np.float64)
    return moved_at_random(GROUPS[group](), sized, settings.seed), y[rows]


def measure(settings: SpectraSettings, folder: RunFolder) -> SpectraResults:
    """Sample-efficiency ratios and a spectrum for every set and group; each is a stage."""
    data_dir, parts = folder.data_dir, (("rates", "errors", _rates), ("spectrum", "spectrum", _spectrum))
    cases = [(name, group) for name in chosen_sets(settings, data_dir) for group in settings.groups]
    found = folder.stages(
        {
            (part, *case): NamedStage(
                "-".join((part, *case)), f"{', '.join(case)}: {title}", partial(compute, settings, *case, data_dir)
            )
            for case in cases
            for part, title, compute in parts
        }
    )
    return SpectraResults({case: _case(found["rates", *case], found["spectrum", *case]) for case in cases})


def scrambled(action: Action, shape: tuple[int, ...], seed: int = 0) -> Action:
    """ρ′(g) = π⁻¹ ρ(g) π on signals (N, *positions, channels), with a random permutation π of the positions.

    For an MLP this group is equivalent to the right one; the data are not symmetric under it.
    """
    pi = np.random.default_rng(seed).permutation(int(np.prod(shape[:-1])))
    permuted = lambda x, order: np.asarray(x).reshape(len(x), len(pi), -1)[:, order].reshape(x.shape)
    moved = lambda g, x: permuted(np.asarray(action(g, permuted(x, pi))), np.argsort(pi))
    made = from_function(action.group, moved, exact=action.exact, name=f"{action.name}, positions scrambled")
    return cast(Action, made)  # of a finite group


def moved_at_random(action: Action, x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Move every input by its own random element, so that the group is a symmetry of the data."""
    return moved_each(action, np.random.default_rng(seed).integers(action.group.order, size=len(x)), x)


def largest_subgroup(group: Group) -> list[int]:
    """Elements of a largest proper subgroup that one or two elements generate."""
    pairs = itertools.combinations_with_replacement(group.elements, 2)
    parts = [group.generated_subgroup(pair) for pair in pairs]
    return [int(g) for g in max((p for p in parts if 1 < p.order < group.order), key=lambda p: p.order).elements]


def kernels_of(net: nn.Sequential, action: Action, x: np.ndarray, seed: int, step: Step) -> dict[str, np.ndarray]:
    """Kernel matrices of the plain network, and of those with the right group, a subgroup and a wrong one built in."""
    group, other = action.group, scrambled(action, x.shape[1:], seed)
    grams = group_grams(net, action, x, "ntk", lambda a, b: step(a / b, 3))
    found = {"plain": [group.identity], "right": group.elements, "subgroup": largest_subgroup(group)}
    kernels = {kind: grams.mean(elements) for kind, elements in found.items()}
    wrong = symmetric_kernel(orbit_average(net, other), x, "ntk", lambda a, b: step(1 + a / b, 3))
    return {**kernels, "wrong": wrong}


def _rates(s: SpectraSettings, name: str, group: str, data_dir: Path | None, task: Task) -> Arrays:
    """Measured and predicted squared errors of every kernel, and sample-efficiency ratios with jackknife intervals:
    over repetitions (which draw from the same inputs) if measured, over those inputs if predicted.
    """
    x, y = load(s, name, group, data_dir)
    action, given, n = GROUPS[group](), curve_data(x, y), np.array(s.sizes)
    kernels = kernels_of(network(s), action, x, s.seed, task.step)
    splits = [given.split(r, s.seed) for r in range(s.repetitions)]
    left_out, arrays = {}, dict[str, Any]()
    for done, (kind, K) in enumerate(kernels.items(), 1):
        matrices = PoolKernel(K)
        errors, arrays[f"predicted_{kind}"] = kernel_curve(matrices, given, splits, n, s.ridge, "inputs")
        arrays[f"squared_{kind}"] = errors[1]
        left_out[kind] = _without_parts(matrices, given, n, s)
        task.step(2 + done / len(kernels), 3)
    numbers = lambda e: np.array([e.value, e.low, e.high])
    # without a tenth of the inputs there may be too few for the largest sizes
    reached, sizes = np.isfinite(left_out["plain"]).all(axis=0), n.astype(np.float64)
    for kind in KINDS:
        predicted = [arrays[f"predicted_{k}"] for k in ("plain", kind)]
        pairs = zip(left_out["plain"][:, reached], left_out[kind][:, reached], strict=True)
        parts = np.array([log_factor(sizes[reached], p, q) for p, q in pairs])
        arrays[f"measured_{kind}"] = numbers(
            measured_factor(sizes, arrays["squared_plain"], arrays[f"squared_{kind}"], 0.95)
        )
        arrays[f"expected_{kind}"] = numbers(jackknifed(log_factor(sizes, *predicted), parts, 0.95))
    return arrays


def _without_parts(matrices: PoolKernel, given: CurveData, sizes: np.ndarray, s: SpectraSettings) -> np.ndarray:
    """Predictions that leave out one tenth of the pool at a time, (parts, sizes)."""
    dealt = np.random.default_rng((s.seed, given.pool)).permutation(given.pool) % _PARTS
    found = []
    for part in range(_PARTS):
        kept = np.flatnonzero(dealt != part)
        reachable = sizes[sizes <= len(kept)]
        K = matrices.matrix[np.ix_(kept, kept)]
        risks = cavity_risk(K, given.targets[kept], reachable, ridge=s.ridge * matrices.unit)
        found.append(np.append(risks, np.full(len(sizes) - len(reachable), np.nan)))
    return np.array(found)


_ROUNDING = 1e-13  # of the largest eigenvalue


def spectrum(
    net: nn.Sequential, action: Action, x: np.ndarray, step: Step
) -> tuple[Float[np.ndarray, " copies"], Float[np.ndarray, " n"]]:
    """Eigenvalues λ = Λ/(N|G|) of the kernel on all N|G| copies of x, and of the invariant network's, descending.

    Computed irrep by irrep; the trivial irrep's eigenvalues are those of the invariant network.
    """
    grams = group_grams(net, action, x, "ntk", step)
    irreps = fourier_irreps(grams.group)
    values = [np.maximum(np.linalg.eigvalsh(b)[::-1], 0.0) / (len(x) * grams.group.order) for b in irrep_blocks(grams)]
    every = np.concatenate([np.repeat(v, i.dimension * i.count) for v, i in zip(values, irreps, strict=True)])
    return np.sort(every)[::-1], values[0]


def _spectrum(settings: SpectraSettings, name: str, group: str, data_dir: Path | None, task: Task) -> Arrays:
    x = load(settings, name, group, data_dir)[0][: settings.spectrum_images]
    net, action = network(settings), GROUPS[group]()
    found = spectrum(net, action, x, task.step)
    few, _ = spectrum(net, action, x[:_EXPLICIT], task.step)
    copies = np.concatenate([np.asarray(action(g, x[:_EXPLICIT])) for g in range(action.group.order)])
    K = np.asarray(net.kernel(copies).ntk)
    explicit = np.sort(np.linalg.eigvalsh(K))[::-1] / len(K)
    return {  # a condition is infinite where rounding hides the smallest eigenvalue
        "condition": np.array([v[0] / v[-1] if v[-1] > _ROUNDING * found[0][0] else np.inf for v in found]),
        "explicit": np.array(np.abs(few - explicit).max() / explicit[0]),
    }


def _case(rates: Arrays, found: Arrays) -> Case:
    every = ("plain", *KINDS)
    estimates = lambda what: {kind: Estimate(*map(float, rates[f"{what}_{kind}"])) for kind in KINDS}
    plain, invariant = map(float, found["condition"])
    return Case(
        curves={kind: rates[f"squared_{kind}"] for kind in every},
        predicted={kind: rates[f"predicted_{kind}"] for kind in every},
        measured=estimates("measured"),
        expected=estimates("expected"),
        condition=(plain, invariant),
        explicit=float(found["explicit"]),
    )


def mean_factor(factors: Mapping[str, Estimate]) -> Estimate:
    """Geometric mean of factors and of the ends of their intervals: valid for any dependence between the factors.

    NaN if a factor was not measured.
    """
    logs = np.log([[e.value, e.low, e.high] for e in factors.values()]).mean(axis=0)
    value, low, high = map(float, np.exp(logs))
    return Estimate(value, low, high, next(iter(factors.values())).confidence)


def claims(settings: SpectraSettings, results: SpectraResults) -> Sequence[Claim]:
    """Samples saved by groups, their prediction from the spectrum, and condition numbers of the kernels."""
    cases = {", ".join(key): case for key, case in results.cases.items()}
    of = lambda kind: {label: case.measured[kind] for label, case in cases.items()}
    close = {
        f"{label}, {kind}": case.expected[kind].over(case.measured[kind])
        for label, case in cases.items()
        for kind in KINDS
    }
    explicit = {label: exactly(case.explicit) for label, case in cases.items()}
    conditioned = {label: exactly(case.condition[1] / case.condition[0]) for label, case in cases.items()}
    each = "Samples that the plain kernel needs over those of the invariant one, for the same squared errors."
    return [
        claim(
            "The group that the data have saves samples",
            of("right"),
            aggregate=("the geometric mean over sets and groups", mean_factor(of("right"))),
            measure=each,
            covers="training sets from the same images",
            at_least=1,
            by=theirs(THEIRS, "review", "invariant kernels need fewer samples"),
        ),
        claim(
            "A wrong group of the same size saves none",
            of("wrong"),
            aggregate=("the geometric mean over sets and groups", mean_factor(of("wrong"))),
            measure=each + " The wrong group rotates pixels that were scrambled.",
            covers="training sets from the same images",
            at_most=1,
            by=ours(OURS, place="review"),
        ),
        claim(
            f"The spectra predict all these factors to within a factor of {CLOSE:g}",
            close,
            aggregate=("the geometric mean over sets and groups", mean_factor(close)),
            measure="Predicted over measured factor. The prediction is that of the squared error, from kernels and "
            "targets of the images only, without training.",
            covers="training sets, and images (jackknife)",
            at_least=1 / CLOSE,
            at_most=CLOSE,
            by=ours(OURS, place="review"),
        ),
        exact(
            "The invariant kernel is conditioned no worse than the plain one on all copies",
            conditioned,
            measure="Condition number of the invariant kernel over that of the plain one on all copies of the images.",
            at_most=1 + 1e-6,
            by=identity("theory: its eigenvalues are some of those"),
        ),
        exact(
            "Spectra by irrep are those of all copies in one matrix, to rounding",
            explicit,
            measure=f"Largest difference of eigenvalues over the largest one, {_EXPLICIT} images.",
            at_most=1e-10,
            by=identity("theory"),
        ),
    ]


_COLOURS = {"plain": palette.INK, "right": palette.BLUE, "subgroup": palette.GREEN, "wrong": palette.VERMILLION}
_NAMES = {"plain": "plain", "right": "right group", "subgroup": "subgroup", "wrong": "wrong group"}


def present(settings: SpectraSettings, results: SpectraResults, folder: RunFolder) -> list[Shown]:
    """Errors against training images."""
    return [_errors(settings, results, folder)]


def _errors(settings: SpectraSettings, results: SpectraResults, folder: RunFolder) -> Figure:
    titles = [f"{name}, {group}" for name, group in results.cases]
    rows = len(dict.fromkeys(name for name, _ in results.cases))
    with drawing.panels(
        folder,
        "errors",
        titles=titles,
        rows=rows,
        size=(8.6, 2.9 * rows + 0.4),
        xlabel="training images",
        ylabel="squared error",
        caption=(
            "Squared error on images not trained on, of the plain kernel and of kernels with a group "
            "built in: dots, means over repetitions with 95 % intervals. Lines are predictions."
        ),
        alt="Squared errors against training images",
    ) as drawn:
        for axes, case in zip(drawn, results.cases.values(), strict=True):
            for kind in case.curves:
                values = [t_interval(row) for row in case.curves[kind]]
                colour = _COLOURS[kind].light
                drawing.estimates(axes, settings.sizes, values, colour, label=_NAMES[kind], fmt="o")
                axes.plot(settings.sizes, case.predicted[kind], color=colour, lw=1)
            drawing.logarithmic(axes, "both", settings.sizes, fine=True)
    return drawn.figure


STUDY = Study(PRESETS, measure, claims, (THEIRS, OMNISCIENT_RISK), check_settings)
