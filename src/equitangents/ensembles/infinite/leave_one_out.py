"""Model selection from one fit: leave-one-out predictions, and the marginal likelihood of the targets.

A sample whose target is a field or an equivariant output is left out with all its positions, rows of one problem.
The results equal those of fits to the other N − 1 samples, including ridge (relative to their mean diagonal) and
learning rate (over their number), and come from one decomposition (`equitangents.inference.choosing`).

The likelihood is that of the Gaussian process whose posterior mean is the ensemble's at time inf: prior covariance is
the training kernel, noise is δ = ridge · (mean diagonal); training time does not enter.
Source: Rasmussen & Williams 2006, chapter 5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
from jaxtyping import Float

from equitangents.actions.subset import augmenting_elements, whole_action
from equitangents.ensembles.infinite.irrep_problem import IrrepProblem, orbit_bases
from equitangents.ensembles.infinite.predictor import MatrixProblem
from equitangents.ensembles.infinite.training import Training
from equitangents.errors import InvalidArgumentError
from equitangents.inference import Flow
from equitangents.inference.choosing import Evidence, errors_of_samples, evidence, noise


@dataclass(frozen=True)
class LeaveOneOut:
    """Each sample predicted by the ensemble trained on the others, without the sample's augmented copies.

    predictions: (N,) or (N, outputs), for fields (N, *positions, outputs), in the form of targets. residuals: targets −
    predictions. time: the training time. predictor: the process that predicts. standardised_by: the samples that
    standardise inputs: "nothing", or "all samples", including the left-out one.
    """

    predictions: Float[np.ndarray, "n ..."]
    residuals: Float[np.ndarray, "n ..."]
    time: float
    predictor: str
    standardised_by: str = "nothing"

    @property
    def squared_errors(self) -> Float[np.ndarray, " n"]:
        """Each sample's squared error, averaged over outputs and positions."""
        return (self.residuals.reshape(len(self.residuals), -1) ** 2).mean(axis=1)

    @property
    def mean_squared_error(self) -> float:
        """Mean of squared residuals over samples and outputs."""
        return float(self.squared_errors.mean())

    def __repr__(self) -> str:
        return f"<LeaveOneOut of {len(self.residuals)} samples: mean squared error {self.mean_squared_error:.4g}>"


@dataclass(frozen=True)
class LabelsLeftOut:
    """Each sample's label predicted by the classifier trained on the others, with the classes of all samples.

    predictions, labels: (N,), in the form of the training labels. outputs: the K outputs behind the predictions.
    """

    predictions: np.ndarray
    labels: np.ndarray
    outputs: LeaveOneOut

    @property
    def hits(self) -> np.ndarray:
        """Whether each sample's prediction is correct, (N,)."""
        return np.asarray(self.predictions == self.labels)

    @property
    def accuracy(self) -> float:
        """The fraction of correct predictions."""
        return float(self.hits.mean())

    def __repr__(self) -> str:
        return f"<LabelsLeftOut of {len(self.labels)} samples: accuracy {self.accuracy:.4g}>"


def held_out_predictions(training: Training, time: float) -> np.ndarray:
    """Prediction at x_i after training for `time` without sample i and its augmented copies: (N, *positions, outputs).

    Raises InvalidArgumentError if there is no closed form, NotPositiveDefiniteError as a fit does.
    """
    n = len(training.x)
    if n < 2:
        raise InvalidArgumentError("X", n, "at least 2 samples for leaving one out", verb="has length")
    if training.settings.dynamics is not Flow and 0 < time < math.inf:
        expected = "inf or 0 for leaving samples out of gradient descent"
        raise InvalidArgumentError("time", time, expected, "take dynamics='flow' or time=inf")
    training.settings.ridge.check_one("leaving one out has a closed form for one: give a number, or hold samples back")
    labels, training = training.y, training.decomposed
    training.mean_problem.check(time)
    if time == 0:
        return np.zeros(labels.shape)
    if training.formulation != "irreps":
        count, rows = len(training.rows) // n, cast(MatrixProblem, training.mean_problem)
        return labels - _errors_of_rows(rows, n, count, _original(training), time).reshape(labels.shape)
    if training.positions is not None:
        expected = "one whole decomposition, for leaving fields out"
        other = "hold samples back, or compare by log_marginal_likelihood_"
        raise InvalidArgumentError("solver", training.solver, expected, other)
    problem = cast(IrrepProblem, training.mean_problem)
    if not problem.consistent:
        expected = "one label where augmented inputs are equal"
        raise InvalidArgumentError("y", "labels that differ", expected, "hold samples back", verb="has")
    return _by_irreps(problem, labels, time)


def _original(training: Training) -> int:
    """Index of the augmenting element that is the identity."""
    augmentation = training.augmentation
    if augmentation is None:
        return 0
    identity = whole_action(augmentation).group.identity
    for i, g in enumerate(augmenting_elements(augmentation)):
        if np.ndim(g) == np.ndim(identity) and np.allclose(g, identity, rtol=0, atol=1e-9):
            return i
    remedy = "add it to its elements; leaving one out predicts at the sample itself"
    raise InvalidArgumentError("augmentation", augmentation, "one with the identity", remedy)


def _errors_of_rows(problem: MatrixProblem, n: int, count: int, original: int, time: float) -> np.ndarray:
    """y_i − prediction without sample i and its `count` points: (N, count, outputs)."""
    process, copies = problem.process, len(problem.row) // (n * count)
    original = min(original, copies - 1)  # of orbits that are one row, that row
    row, weight, trace = (
        a.reshape(copies, n, count).swapaxes(0, 1).reshape(n, copies * count)
        for a in (problem.row, problem.weight, problem.trace)
    )
    totals = np.ones(len(process.targets)) if process.scale is None else process.scale**2
    without = errors_of_samples(process, trace.sum(axis=1), copies, time, count)
    errors = np.empty((n, count, process.targets.shape[1]))
    for at, rows, removed in _groups(row, weight):
        found = without(at, rows, totals[rows], totals[rows] - removed)
        wanted = row[at, original * count : (original + 1) * count]
        own = (rows[:, :, None] == wanted[:, None]).argmax(axis=1)
        errors[at] = found[np.arange(len(at))[:, None], own]
    return errors


def _groups(row: np.ndarray, weight: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield (samples, their rows, the removed weights), grouped by the number of different rows."""
    if row.shape[1] == 1:
        yield np.arange(len(row)), row, weight
        return
    different = [np.unique(r, return_inverse=True) for r in row]
    sizes = np.array([len(rows) for rows, _ in different])
    for size in np.unique(sizes):
        at = np.flatnonzero(sizes == size)
        removed = [np.bincount(different[i][1], weights=weight[i]) for i in at]
        yield at, np.stack([different[i][0] for i in at]), np.stack(removed)


def _by_irreps(problem: IrrepProblem, labels: np.ndarray, time: float) -> np.ndarray:
    """The predictions (N, outputs): errors on whole orbits, summed over irreps, evaluated at each sample."""
    transform, orbits, n = problem.transform, problem.orbits, len(labels)
    outputs, order = problem.outputs, orbits.group.order
    traces = order * problem.self_kernels[orbits.orbit]
    transformed = []
    for block in problem.blocks:
        d = block.irrep.dimension
        without = errors_of_samples(block.process, traces, order, time)
        bases = orbit_bases(orbits, block.irrep)
        ranks = np.array([basis.shape[1] for basis in bases])
        starts = np.cumsum(ranks) - ranks
        errors = np.zeros((n, d, d * outputs), block.process.targets.dtype)
        for rank in np.unique(ranks[ranks > 0]) if block.labelled else ():
            at = np.flatnonzero(ranks[orbits.orbit] == rank)
            own = orbits.orbit[at]
            B = np.stack([bases[o] for o in own])
            rows = starts[own, None] + np.arange(rank)
            weights = np.repeat(orbits.copies[own, None].astype(np.float64), rank, axis=1)
            errors[at] = B @ without(at, rows, weights, weights - 1)
        transformed.append(errors.reshape(n, d, d, outputs).conj().transpose(0, 3, 2, 1))
    return labels - transform.inverse(transformed)[np.arange(n), :, orbits.element]


def target_evidence(training: Training) -> Evidence:
    """The density N(Y; 0, Θ + δ) of all training targets, including augmented copies."""
    training = training.decomposed
    if not training.by_irreps:
        return _of_rows(cast(MatrixProblem, training.covariance_problem))
    problem, targets = cast(IrrepProblem, training.covariance_problem), training.augmented_labels()
    total, squares = Evidence(), 0.0
    for block in problem.blocks:
        irrep, of_block = block.irrep, block.process.targets
        repeats = irrep.count * irrep.dimension * problem.outputs
        total += evidence(block.process.spectrum, of_block, weight=irrep.weight, repeats=repeats)
        squares += irrep.weight * float((np.abs(of_block) ** 2).sum())
    spectrum = max(problem.spectra, key=lambda s: s.blur)
    left = 0.0 if problem.consistent else float((targets**2).sum()) - squares
    return total + noise(spectrum, targets.size - total.numbers, left)


def _of_rows(problem: MatrixProblem) -> Evidence:
    """The density from merged rows: weights ω make the noise δ/ω, and equal samples add directions of pure noise."""
    process = problem.process
    outputs = process.targets.shape[1]
    found = evidence(process.spectrum, process.targets, repeats=outputs)
    found += Evidence(log_determinant=-outputs * float(np.log(problem.weight).sum()))
    equal = np.bincount(problem.row, minlength=len(process.targets)) - 1
    above = np.zeros(len(equal)) if problem.above is None else problem.above
    for each in np.unique(above[equal > 0]):
        found += noise(process.spectrum, int(equal[above == each].sum()) * outputs, above=float(each))
    return found
