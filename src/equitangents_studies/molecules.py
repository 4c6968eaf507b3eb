"""Energies of molecules: an invariant kernel on atoms' signals against kernels with fewer or other symmetries.

The source reports that a kernel invariant under rotations learns QM9's energies from fewer molecules than an MLP's on
the same signals. Here both, the Coulomb matrix and SOAP get the same splits, the same baseline of one energy for each
element, and the same way of choosing widths and ridges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from equitangents import molecules as molecular
from equitangents.groups import so3
from equitangents.molecules import AtomSignals, Molecules
from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, bootstrap, exactly, shared_level, t_interval
from equitangents_studies import data
from equitangents_studies.common import molecule_kernels as kernels
from equitangents_studies.common.molecule_kernels import TITLES
from equitangents_studies.common.scores import exp_of
from equitangents_studies.data.molecules import KCAL_PER_EV
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.framework.claims import Claim, Records, claim, exact, identity, ours, table, theirs
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets

RIDGES = tuple(10.0**p for p in range(-10, 2))  # relative to the kernel's mean diagonal
_FOLDS = 5


class MoleculeFit(NamedTuple):
    """Predictions of some molecules are `composition @ elements + kernel @ weights`."""

    elements: Float[np.ndarray, " elements"]
    weights: Float[np.ndarray, " training"]


def composition(molecules: Molecules, elements: tuple[int, ...]) -> Float[np.ndarray, "n elements"]:
    """Number of atoms of each element in each molecule."""
    return (molecules.atomic_numbers[:, :, None] == np.array(elements)).sum(axis=1).astype(float)


def fits(K: np.ndarray, counts: np.ndarray, y: np.ndarray, ridges: tuple[float, ...] = RIDGES) -> list[MoleculeFit]:
    """For every ridge: least squares on the elements, then kernel regression on the residuals."""
    base = np.linalg.lstsq(counts, y, rcond=None)[0]
    values, vectors = np.linalg.eigh(K)
    projected = vectors.T @ (y - counts @ base)
    unit = float(np.diagonal(K).mean())
    values = np.maximum(values, 0)  # a kernel known to a tolerance may be slightly negative in some directions
    return [MoleculeFit(base, vectors @ (projected / (values + ridge * unit))) for ridge in ridges]


def cross_validation(K: np.ndarray, counts: np.ndarray, y: np.ndarray, seed: int) -> Float[np.ndarray, " ridges"]:
    """Mean absolute error of every ridge over five folds."""
    fold = np.random.default_rng(seed).permutation(len(y)) % _FOLDS
    errors = np.zeros((len(RIDGES), len(y)))
    for f in range(_FOLDS):
        train, test = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        for r, fit in enumerate(fits(K[np.ix_(train, train)], counts[train], y[train])):
            predicted = counts[test] @ fit.elements + K[np.ix_(test, train)] @ fit.weights
            errors[r, test] = np.abs(predicted - y[test])
    return errors.mean(axis=1)


def best_fit(K: np.ndarray, counts: np.ndarray, y: np.ndarray, seed: int) -> MoleculeFit:
    """The fit with the ridge of the least cross-validation error on the training set."""
    ridge = RIDGES[int(np.argmin(cross_validation(K, counts, y, seed)))]
    return fits(K, counts, y, (ridge,))[0]


@dataclass(frozen=True)
class MoleculesSettings:
    """`sizes` training and `test` molecules in each of `splits` splits. `tuning` molecules choose the kernels' widths
    and are never tested on. `scales` are root mean squares of signals after the first layer. `moved` test molecules are
    rotated `rotations` times. Integrals over SO(3) are sampled to `tolerance` on the tuning molecules.
    """

    data: Literal["g2", "qm7", "qm9"] = "g2"
    sizes: tuple[int, ...] = (20, 35, 55, 80, 110)
    test: int = 30
    splits: int = 8
    tuning: int = 48
    bandlimit: int = 4
    scales: tuple[float, ...] = (0.1, 0.3, 1.0)
    tolerance: float = 1e-3
    block: int = 100
    moved: int = 8
    rotations: int = 4
    soap_radius: float = 5.0
    soap_n_max: int = 4
    soap_l_max: int = 3
    seed: int = 0


PRESETS = presets(
    MoleculesSettings(),
    desk="data=qm9 sizes=50,100,200,400,1000 test=100 splits=10 tuning=60 scales=0.3,1.0,3.0 soap_n_max=6 soap_l_max=5",
    paper="data=qm9 sizes=100,200,400,700,1000 test=200 splits=5 tuning=120 scales=0.3,1.0,3.0 soap_n_max=6 "
    "soap_l_max=5",
)


class MoleculesResults(Results):
    """`errors`, absolute, in eV, of kernels and of the element energies.

    `rotated` and `relabelled`: change of the largest fits' predictions, eV.
    """

    errors: Keyed[np.ndarray] = by("fitted", "split size molecule", of="curves.errors_{fitted}")
    rotated: Keyed[np.ndarray] = by("model", "molecule rotation")
    relabelled: Keyed[np.ndarray] = by("model", "molecule rotation")


def mean_errors(results: MoleculesResults, name: str) -> np.ndarray:
    """Mean absolute errors (splits, sizes) in eV."""
    return results.errors[name].mean(axis=-1)


def error_ratio(results: MoleculesResults, a: str, b: str, size: int, level: float = 0.95) -> Estimate:
    """Mean absolute error of one model over that of another: geometric mean over splits, paired, Student's interval."""
    return exp_of(t_interval(_logs(results, a, b)[:, size], level))


def _logs(results: MoleculesResults, a: str, b: str) -> np.ndarray:
    """ln of one model's error over another's, (splits, sizes)."""
    return np.log(mean_errors(results, a) / mean_errors(results, b))


_METRICS = {"coulomb": "cityblock", "soap": "sqeuclidean"}
_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # times the median distance


def check_settings(settings: MoleculesSettings, data_dir: Path | None) -> None:
    """Require sizes that fit together, and a file with enough molecules."""
    check(len(settings.sizes) >= 2, "sizes", settings.sizes, "at least two training sizes")
    check(list(settings.sizes) == sorted(set(settings.sizes)), "sizes", settings.sizes, "increasing")
    check(min(settings.sizes) >= 10, "sizes", settings.sizes, "10 molecules or more each")
    at_least(settings, splits=3, rotations=1)
    check(10 <= settings.tuning <= settings.sizes[-1], "tuning", settings.tuning, "from 10 to the largest size")
    check(2 <= settings.moved <= settings.test, "moved", settings.moved, "from 2 to the number of test molecules")
    check(len(settings.scales) >= 1 and min(settings.scales) > 0, "scales", settings.scales, "positive numbers")
    _molecules(settings, data_dir)


def _molecules(settings: MoleculesSettings, data_dir: Path | None) -> data.MoleculeSet:
    """Molecules for the tuning, training and test sets."""
    return data.load_molecules(settings.data, data_dir, count=settings.sizes[-1] + settings.test, seed=settings.seed)


def measure(settings: MoleculesSettings, folder: RunFolder) -> MoleculesResults:
    """Tune widths on a few molecules; compute every kernel once for all; then evaluate all splits and sizes."""
    problem = _MoleculeProblem(settings, folder)
    names = problem.models

    levels = {"model": names, "fitted": (*names, "elements"), "size": settings.sizes}
    each = lambda part, title, compute: Stages(
        f"{part}-{{model}}", lambda name: f"{kernels.TITLES[name]}: {title}", compute
    )
    found = measured(folder, each("width", "width", partial(_tune, problem)), levels=levels)
    tuned = {at["model"]: arrays for at, arrays in found.parts["width"]}
    models = {name: problem.model(name, tuned[name]) for name in names}
    computed = each("kernel", "kernel", lambda name, task: _gram(problem, name, models[name], folder, task))
    found |= measured(folder, computed, levels=levels)
    grams = {at["model"]: arrays["kernel"] for at, arrays in found.parts["kernel"]}
    curves = Stages("curves", "Learning curves", partial(_curves, problem, grams))
    moved = each("moved", "moved molecules", lambda name, task: _moved(problem, models[name], grams[name], task))
    found |= measured(folder, curves, moved, levels=levels)
    return MoleculesResults.read(found)


class _MoleculeProblem:
    """Molecules and energies, the tuning molecules first, and the splits."""

    def __init__(self, settings: MoleculesSettings, folder: RunFolder) -> None:
        self.settings = settings
        self.data_dir = folder.data_dir
        self.models = ("so3", "mlp", "coulomb") + (("soap",) if find_spec("dscribe") else ())

    @cached_property
    def set(self) -> data.MoleculeSet:
        """Molecules with positions in single precision: the tolerance of rotations is far coarser."""
        found = _molecules(self.settings, self.data_dir)
        single = found.molecules.with_positions(found.molecules.positions.astype(np.float32))
        return replace(found, molecules=single)

    @property
    def molecules(self) -> Molecules:
        """All molecules, without energies."""
        return self.set.molecules

    @cached_property
    def tuning(self) -> Molecules:
        """The molecules that choose widths."""
        return self.molecules[: self.settings.tuning]

    @cached_property
    def counts(self) -> np.ndarray:
        """Atoms of each element."""
        return composition(self.molecules, self.molecules.elements)

    def split(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """(Training molecules in random order, test molecules); the training set of size n is the first n."""
        s = self.settings
        rng = np.random.default_rng((s.seed, index))
        test = s.tuning + rng.permutation(len(self.set) - s.tuning)[: s.test]
        rest = np.setdiff1d(np.arange(len(self.set)), test)
        return rng.permutation(rest), test

    @cached_property
    def signals(self) -> AtomSignals:
        """The signals of atoms."""
        return AtomSignals(self.settings.bandlimit, elements=self.molecules.elements)

    def scale(self, value: float) -> float:
        """W_std of the first layer for a root mean square `value` of its signals."""
        return value / kernels.mean_square(self.signals, self.tuning) ** 0.5

    def vectors(self, name: str) -> Callable[[Molecules], np.ndarray]:
        """Feature vectors of molecules for the kernel `name`."""
        s = self.settings
        if name == "coulomb":
            return partial(kernels.coulomb_vectors, size=int(self.molecules.sizes.max()))
        return partial(
            kernels.soap_vectors, elements=self.molecules.elements, radius=s.soap_radius, n_max=s.soap_n_max,
            l_max=s.soap_l_max,
        )  # fmt: skip

    def model(self, name: str, tuned: Arrays) -> kernels.MoleculeKernel:
        """The kernel with its chosen width."""
        s, width = self.settings, float(tuned["width"])
        if name == "so3":
            net = kernels.so3_network(s.bandlimit, self.scale(width), s.tolerance, int(tuned["resolution"]))
            return kernels.network_kernel(net, self.signals)
        if name == "mlp":
            return kernels.network_kernel(kernels.mlp_network(s.bandlimit, self.scale(width)), self.signals)
        return kernels.vector_kernel(self.vectors(name), _METRICS[name], width)


def _tune(problem: _MoleculeProblem, name: str, task: Task) -> Arrays:
    """The `width` of the least cross-validated error on the tuning molecules; for "so3" also its `resolution`."""
    s = problem.settings
    n = s.tuning
    y, counts = problem.set.energies[:n], problem.counts[:n]
    resolutions, widths = [], list(s.scales)
    if name in _METRICS:
        median = kernels.median_distance(problem.vectors(name)(problem.tuning), _METRICS[name])
        widths = [factor * median for factor in _FACTORS]
    errors = np.zeros((len(widths), len(RIDGES)))
    for i, width in enumerate(widths):
        if name == "so3":
            net = kernels.so3_network(s.bandlimit, problem.scale(width), s.tolerance)
            found = molecular.kernels(net, problem.tuning, signals=problem.signals)
            K = np.asarray(found.ntk, np.float64)
            resolutions.append(found.resolution or 0)
        else:
            K = problem.model(name, {"width": np.array(width)})(problem.tuning)
        errors[i] = cross_validation(np.asarray(K, np.float64), counts, y, s.seed)
        task.step(i + 1, len(widths))
    best = int(np.argmin(errors.min(axis=1)))
    return {"width": np.array(widths[best])} | ({"resolution": np.array(resolutions[best])} if resolutions else {})


def _gram(problem: _MoleculeProblem, name: str, model: kernels.MoleculeKernel, folder: RunFolder, task: Task) -> Arrays:
    place = folder.checkpoints(f"kernel-{name}")
    return {"kernel": kernels.blockwise(model, problem.molecules, problem.settings.block, place, task)}


def _curves(problem: _MoleculeProblem, grams: dict[str, np.ndarray], task: Task) -> Arrays:
    """Absolute errors on test molecules, of every model and of the element energies."""
    s, y, counts = problem.settings, problem.set.energies, problem.counts
    shape = (s.splits, len(s.sizes))
    errors = {name: np.zeros((*shape, s.test)) for name in (*grams, "elements")}
    for k in range(s.splits):
        order, test = problem.split(k)
        for j, size in enumerate(s.sizes):
            train = order[:size]
            for name, K in grams.items():
                here = K[np.ix_(train, train)]
                fit = best_fit(here, counts[train], y[train], s.seed)
                predicted = counts[test] @ fit.elements + K[np.ix_(test, train)] @ fit.weights
                errors[name][k, j] = np.abs(predicted - y[test])
                errors["elements"][k, j] = np.abs(counts[test] @ fit.elements - y[test])
        task.step(k + 1, s.splits)
    return {f"errors_{n}": e for n, e in errors.items()}


def _moved(problem: _MoleculeProblem, model: kernels.MoleculeKernel, K: np.ndarray, task: Task) -> Arrays:
    """Changes of predictions when molecules are rotated and shifted, or renumbered, each (molecules, rotations)."""
    s, y = problem.settings, problem.set.energies
    order, test = problem.split(0)
    train = order[: s.sizes[-1]]
    fit = best_fit(K[np.ix_(train, train)], problem.counts[train], y[train], s.seed)
    chosen = problem.molecules[test[: s.moved]]
    chosen = chosen.with_positions(chosen.positions.astype(np.float64))
    others = problem.molecules[train]
    predict = lambda m: np.asarray(model(m, others), np.float64) @ fit.weights
    still = predict(chosen)
    rng = np.random.default_rng((s.seed, 1))
    rotated, relabelled = np.zeros((2, s.moved, s.rotations))
    for t in range(s.rotations):
        rotation = so3(1).random(s.moved, seed=s.seed + t)
        x = np.einsum("nij,naj->nai", rotation, chosen.positions) + rng.normal(size=(s.moved, 1, 3))
        rotated[:, t] = predict(chosen.with_positions(x)) - still
        renamed = rng.permuted(np.tile(np.arange(x.shape[1]), (s.moved, 1)), axis=1)
        z = np.take_along_axis(chosen.atomic_numbers, renamed, axis=1)
        same = np.take_along_axis(chosen.positions, renamed[..., None], axis=1)
        relabelled[:, t] = predict(Molecules(z, same)) - still
        task.step(t + 1, s.rotations)
    return {"rotated": rotated, "relabelled": relabelled}


OURS = "our question"
_RATIO = "Mean absolute error of the first over that of the second; geometric mean over splits, paired."


def claims(settings: MoleculesSettings, results: MoleculesResults) -> Sequence[Claim]:
    """Comparison with the MLP kernel at all sizes, with the others at the largest, and invariance."""
    most, each = settings.sizes[-1], shared_level(len(settings.sizes))
    at, overall = settings.sizes.index, _logs(results, "so3", "mlp").mean(axis=1)
    against = Records.over(
        lambda molecules: error_ratio(results, "so3", "mlp", at(molecules), each),
        lambda molecules: f"{molecules} molecules",
        molecules=settings.sizes,
    )
    judged = [
        claim(
            "The invariant kernel’s error is below that of the MLP kernel on the same signals",
            against,
            aggregate=("the geometric mean over training sizes", exp_of(t_interval(overall))),
            measure=_RATIO,
            covers="splits, which share molecules",
            at_most=1,
            by=theirs(THEIRS, "figure of errors on QM9", "lower at all training sizes")
            if settings.data == "qm9"
            else ours(f"our question; the source studies QM9 ({THEIRS})"),
        )
    ]
    judged += [_rival(settings, results, name, most) for name in ("coulomb", "soap") if name in results.errors]
    rotated = np.abs(results.rotated["so3"]).max(axis=1) / mean_errors(results, "so3")[0, -1]
    return [
        *judged,
        claim(
            "Rotating and shifting a molecule changes the invariant kernel’s prediction by less than 2 % of its error, "
            "on average over molecules",
            {"": bootstrap(100 * rotated)},
            measure=f"Largest change of a molecule’s prediction in {settings.rotations} draws, mean over "
            f"{settings.moved} molecules, over the mean absolute error.",
            covers="molecules",
            at_most=2,
            unit="%",
            by=identity("theory, up to the quadrature over rotations; the bound is our choice", stated="no change"),
        ),
        exact(
            "Renumbering a molecule’s atoms does not change the invariant kernel’s prediction, to rounding",
            {"": exactly(KCAL_PER_EV * np.abs(results.relabelled["so3"]).max())},
            measure=f"Largest change of a prediction, {settings.moved} molecules in {settings.rotations} "
            "numberings each.",
            at_most=1e-6,
            unit="kcal/mol",
            by=identity("theory; the bound is our choice"),
        ),
    ]


def _rival(settings: MoleculesSettings, results: MoleculesResults, name: str, molecules: int) -> Claim:
    """Whether the invariant kernel beats kernel ridge regression on other descriptors at the largest size."""
    rival = {"coulomb": "Coulomb matrices", "soap": "SOAP"}[name]
    ratio = error_ratio(results, "so3", name, -1)
    return claim(
        f"With {molecules} molecules the invariant kernel’s error is below that of kernel ridge regression on {rival}",
        {"": ratio},
        measure=_RATIO,
        covers="splits, which share molecules",
        at_most=1,
        by=ours(OURS),
    )


_COLOURS = {
    "so3": palette.BLUE,
    "mlp": palette.VERMILLION,
    "coulomb": palette.PURPLE,
    "soap": palette.GREEN,
    "elements": palette.MUTED,
}


def present(settings: MoleculesSettings, results: MoleculesResults, folder: RunFolder) -> list[Shown]:
    """Learning curves, and their numbers."""
    return [_curves_page(settings, results, folder), _table(settings, results)]


def _table(settings: MoleculesSettings, results: MoleculesResults) -> Table:
    rows = [
        [TITLES[name], *(t_interval(KCAL_PER_EV * column) for column in mean_errors(results, name).T)]
        for name in results.errors
    ]
    caption = "Mean absolute error in kcal/mol; in brackets 95 % intervals over splits."
    return table(caption, ("training molecules", *map(str, settings.sizes)), rows)


def _curves_page(settings: MoleculesSettings, results: MoleculesResults, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "learning-curves",
        size=(7.2, 4.2),
        xlabel="training molecules",
        ylabel="mean absolute error, kcal/mol",
        caption="Means over splits with 95 % intervals; splits share molecules, which intervals ignore.",
        alt="Error against the number of training molecules",
    ) as drawn:
        drawing.logarithmic(drawn[0], "both", settings.sizes, fine=True)
        errors = {
            TITLES[name]: [t_interval(KCAL_PER_EV * e) for e in mean_errors(results, name).T] for name in results.errors
        }
        drawing.curves(drawn[0], settings.sizes, errors, [_COLOURS[name] for name in results.errors], offset=1.015)
        drawn.legend(columns=3)
    return drawn.figure


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
