"""Energies of molecules from an invariant kernel of what atoms see, against kernels that know less or other symmetry.

The source reports that a kernel invariant under rotations learns QM9's energies from fewer molecules than an MLP's on
the same signals. Here both, the Coulomb matrix and SOAP get the same splits, the same baseline of one energy for each
element, and the same way of choosing widths and ridges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import molecules as molecular
from equitangents.groups import so3
from equitangents.molecules import AtomSignals, Molecules
from equitangents_studies import data
from equitangents_studies.common import molecule_kernels as kernels
from equitangents_studies.framework.citations import EQUIVARIANT_KERNELS
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check
from equitangents_studies.molecules.claims import claims
from equitangents_studies.molecules.kernel_ridge import RIDGES, best_fit, composition, cross_validation
from equitangents_studies.molecules.results import Results
from equitangents_studies.molecules.settings import PRESETS, Settings

_METRICS = {"coulomb": "cityblock", "soap": "sqeuclidean"}
_FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # times the median distance


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes that fit together, and a file that holds as many molecules."""
    check(len(settings.sizes) >= 2, "sizes", settings.sizes, "at least two training sizes")
    check(list(settings.sizes) == sorted(set(settings.sizes)), "sizes", settings.sizes, "increasing")
    check(min(settings.sizes) >= 10, "sizes", settings.sizes, "10 molecules or more each")
    at_least(settings, splits=3, turns=1)
    check(10 <= settings.tuning <= settings.sizes[-1], "tuning", settings.tuning, "from 10 to the largest size")
    check(2 <= settings.moved <= settings.test, "moved", settings.moved, "from 2 to the number of test molecules")
    check(len(settings.scales) >= 1 and min(settings.scales) > 0, "scales", settings.scales, "positive numbers")
    _molecules(settings, data_dir)


def _molecules(settings: Settings, data_dir: Path | None) -> data.MoleculeSet:
    """As many as the largest training set and the test set together."""
    return data.load_molecules(settings.data, data_dir, count=settings.sizes[-1] + settings.test, seed=settings.seed)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Widths from a few molecules; every kernel once for all of them; then splits and sizes out of these matrices."""
    problem = _Problem(settings, folder)
    names = problem.models

    def each(part: str, title: str, compute: Callable[[str, Task], Arrays]) -> dict[str, Arrays]:
        """A stage for every model."""
        titles = {name: f"{kernels.TITLES[name]}: {title}" for name in names}
        return folder.stages({name: Stage(f"{part}-{name}", titles[name], partial(compute, name)) for name in names})

    tuned = each("width", "width", partial(_tune, problem))
    models = {name: problem.model(name, tuned[name]) for name in names}
    computed = each("kernel", "kernel", lambda name, task: _gram(problem, name, models[name], folder, task))
    grams = {name: arrays["kernel"] for name, arrays in computed.items()}
    curves = folder.stage("curves", "Learning curves", partial(_curves, problem, grams))
    moved = each("moved", "moved molecules", lambda name, task: _moved(problem, models[name], grams[name], task))
    return Results(
        errors={name: curves[f"errors_{name}"] for name in (*names, "elements")},
        ridges={name: curves[f"ridges_{name}"] for name in names},
        widths={name: float(tuned[name]["width"]) for name in names},
        rotated={name: moved[name]["rotated"] for name in names},
        relabelled={name: moved[name]["relabelled"] for name in names},
        resolution=int(tuned["so3"]["resolution"]),
        kernel_error=float(tuned["so3"]["error"]),
        label=problem.set.label,
    )


class _Problem:
    """Molecules and energies, the tuning molecules first, and the splits."""

    def __init__(self, settings: Settings, folder: RunFolder) -> None:
        self.settings = settings
        self.data_dir = folder.data_dir
        self.models = ("so3", "mlp", "coulomb") + (("soap",) if kernels.soap_is_installed() else ())

    @cached_property
    def set(self) -> data.MoleculeSet:
        """Molecules with positions in single precision: the tolerance of rotations is far coarser."""
        found = _molecules(self.settings, self.data_dir)
        single = found.molecules.with_positions(found.molecules.positions.astype(np.float32))
        return replace(found, molecules=single)

    @property
    def molecules(self) -> Molecules:
        """All of them."""
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
        """(Training molecules in the order in which sizes take them, test molecules)."""
        s = self.settings
        rng = np.random.default_rng((s.seed, index))
        test = s.tuning + rng.permutation(len(self.set) - s.tuning)[: s.test]
        rest = np.setdiff1d(np.arange(len(self.set)), test)
        return rng.permutation(rest), test

    @cached_property
    def signals(self) -> AtomSignals:
        """What atoms see."""
        return AtomSignals(self.settings.bandlimit, elements=self.molecules.elements)

    def scale(self, value: float) -> float:
        """W_std of the first layer that gives signals this root mean square."""
        return value / kernels.mean_square(self.signals, self.tuning) ** 0.5

    def vectors(self, name: str) -> Callable[[Molecules], np.ndarray]:
        """What describes molecules."""
        s = self.settings
        if name == "coulomb":
            return partial(kernels.coulomb_vectors, size=int(self.molecules.sizes.max()))
        return partial(
            kernels.soap_vectors, elements=self.molecules.elements, radius=s.soap_radius, n_max=s.soap_n_max,
            l_max=s.soap_l_max,
        )  # fmt: skip

    def model(self, name: str, tuned: Arrays) -> Any:
        """The kernel with its chosen width."""
        s, width = self.settings, float(tuned["width"])
        if name == "so3":
            net = kernels.so3_network(s.bandlimit, self.scale(width), s.tolerance, int(tuned["resolution"]))
            return kernels.NetworkKernel(net, self.signals)
        if name == "mlp":
            return kernels.NetworkKernel(kernels.mlp_network(s.bandlimit, self.scale(width)), self.signals)
        return kernels.VectorKernel(self.vectors(name), _METRICS[name], width)


def _tune(problem: _Problem, name: str, task: Task) -> Arrays:
    """Cross-validated errors (widths, ridges) on the tuning molecules, and the best width."""
    s = problem.settings
    n = s.tuning
    y, counts = problem.set.energies[:n], problem.counts[:n]
    resolutions, errors, widths = [], [], list(s.scales)
    if name in _METRICS:
        median = kernels.median_distance(problem.vectors(name)(problem.tuning), _METRICS[name])
        widths = [factor * median for factor in _FACTORS]
    table = np.zeros((len(widths), len(RIDGES)))
    for i, width in enumerate(widths):
        if name == "so3":
            net = kernels.so3_network(s.bandlimit, problem.scale(width), s.tolerance)
            found = molecular.kernels(net, problem.tuning, signals=problem.signals)
            K = np.asarray(found.ntk, np.float64)
            resolutions.append(found.resolution or 0)
            errors.append(found.error_estimate or 0.0)
        else:
            K = problem.model(name, {"width": np.array(width)}).kernel(problem.tuning)
        table[i] = cross_validation(np.asarray(K, np.float64), counts, y, s.seed)
        task.step(i + 1, len(widths))
    best = int(np.argmin(table.min(axis=1)))
    found_rotations = {"resolution": np.array(resolutions[best]), "error": np.array(errors[best])} if errors else {}
    return {"errors": table, "widths": np.array(widths), "width": np.array(widths[best]), **found_rotations}


def _gram(problem: _Problem, name: str, model: Any, folder: RunFolder, task: Task) -> Arrays:
    place = folder.checkpoints(f"kernel-{name}")
    return {"kernel": kernels.blockwise(model.kernel, problem.molecules, problem.settings.block, place, task)}


def _curves(problem: _Problem, grams: dict[str, np.ndarray], task: Task) -> Arrays:
    """Absolute errors on test molecules, of every model and of the elements alone."""
    s, y, counts = problem.settings, problem.set.energies, problem.counts
    shape = (s.splits, len(s.sizes))
    errors = {name: np.zeros((*shape, s.test)) for name in (*grams, "elements")}
    ridges = {name: np.zeros(shape) for name in grams}
    for k in range(s.splits):
        order, test = problem.split(k)
        for j, size in enumerate(s.sizes):
            train = order[:size]
            for name, K in grams.items():
                here = K[np.ix_(train, train)]
                fit, ridges[name][k, j] = best_fit(here, counts[train], y[train], s.seed)
                predicted = counts[test] @ fit.elements + K[np.ix_(test, train)] @ fit.weights
                errors[name][k, j] = np.abs(predicted - y[test])
                errors["elements"][k, j] = np.abs(counts[test] @ fit.elements - y[test])
        task.step(k + 1, s.splits)
    return {f"errors_{n}": e for n, e in errors.items()} | {f"ridges_{n}": r for n, r in ridges.items()}


def _moved(problem: _Problem, model: Any, K: np.ndarray, task: Task) -> Arrays:
    """Changes of predictions when molecules are turned and shifted, or renumbered, each (molecules, turns)."""
    s, y = problem.settings, problem.set.energies
    order, test = problem.split(0)
    train = order[: s.sizes[-1]]
    fit, _ = best_fit(K[np.ix_(train, train)], problem.counts[train], y[train], s.seed)
    chosen = problem.molecules[test[: s.moved]]
    chosen = chosen.with_positions(chosen.positions.astype(np.float64))
    others = problem.molecules[train]
    predict = lambda m: np.asarray(model.kernel(m, others), np.float64) @ fit.weights
    still = predict(chosen)
    rng = np.random.default_rng((s.seed, 1))
    rotated, relabelled = np.zeros((2, s.moved, s.turns))
    for t in range(s.turns):
        turn = so3(1).random(s.moved, seed=s.seed + t)
        x = np.einsum("nij,naj->nai", turn, chosen.positions) + rng.normal(size=(s.moved, 1, 3))
        rotated[:, t] = predict(chosen.with_positions(x)) - still
        renamed = rng.permuted(np.tile(np.arange(x.shape[1]), (s.moved, 1)), axis=1)
        z = np.take_along_axis(chosen.atomic_numbers, renamed, axis=1)
        same = np.take_along_axis(chosen.positions, renamed[..., None], axis=1)
        relabelled[:, t] = predict(Molecules(z, same)) - still
        task.step(t + 1, s.turns)
    return {"rotated": rotated, "relabelled": relabelled}


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EQUIVARIANT_KERNELS,), check_settings)
