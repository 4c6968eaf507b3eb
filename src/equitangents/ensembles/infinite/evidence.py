"""How probable the training targets are under the Gaussian process whose posterior mean is the ensemble's at time inf.

Its prior covariance is the kernel that trains, its noise δ = ridge · (mean diagonal); time has no part in it.
Source: Rasmussen & Williams 2006, chapter 5.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from equitangents.ensembles.infinite.irrep_problem import IrrepProblem
from equitangents.ensembles.infinite.problem import Problem
from equitangents.ensembles.infinite.training import Training
from equitangents.errors import InvalidArgumentError
from equitangents.inference import decompose
from equitangents.inference.evidence import Evidence, check_density, evidence, noise
from equitangents.inference.group_fourier import FourierIrrep

_ORTHOGONAL = 1e-6


def target_evidence(training: Training) -> Evidence:
    """The density N(Y; 0, Θ + δ) of all targets that are trained on, augmented copies included."""
    training = training.decomposed
    if not training.by_irreps:
        return _of_rows(cast(Problem, training.covariance_problem))
    problem = cast(IrrepProblem, training.covariance_problem)
    outputs = problem.outputs
    repeats = [block.irrep.count * block.irrep.dimension * outputs for block in problem.blocks]
    targets = training.augmented_labels()
    return _of_blocks(problem, repeats, targets, targets.size, unit=1.0)


def sample_evidence(training: Training) -> Evidence:
    """The density of the N targets as they are given, so that different augmentations compare on the same numbers.

    With augmentation: the density, under the same process, of each sample's mean over its copies, labels moved back.
    The differences between copies, which say nothing of the data, are left out. Where the kernel is invariant this is
    the marginal likelihood under the kernel of the equivariant network, with noise δ/|G|.
    """
    if training.action is None or training.labels.ndim == 3:
        return target_evidence(training)
    training = training.decomposed
    if training.reason is not None:
        return _of_means(training)
    if training.invariant_labels:
        return _of_rows(cast(Problem, training.mean_problem))
    return _of_equivariant(training)


def _of_rows(problem: Problem) -> Evidence:
    """With weights ω of samples their noise is δ/ω, and equal samples add one row and directions of noise alone."""
    process = problem.process
    outputs = process.targets.shape[1]
    rows = evidence(process.spectrum, process.targets, repeats=outputs)
    scale = Evidence(log_determinant=-outputs * float(np.log(problem.samples.weight).sum()))
    found, spectrum = rows + scale, process.spectrum
    if problem.above is None:
        return found + noise(spectrum, (len(problem.samples.row) - len(process.targets)) * outputs)
    equal = np.bincount(problem.samples.row, minlength=len(process.targets)) - 1
    for count, above in zip(equal * outputs, problem.above, strict=True):
        found += noise(spectrum, int(count), above=float(above))
    return found


def _of_blocks(problem: IrrepProblem, repeats: list[int], targets: np.ndarray, numbers: int, unit: float) -> Evidence:
    """Blocks of which each eigenvalue counts `repeats` times; the rest of the `numbers` targets is noise alone.

    targets: those of all augmented samples.
    """
    total, held = Evidence(), 0.0
    for block, times in zip(problem.blocks, repeats, strict=True):
        weight = block.irrep.weight
        if times:
            total += evidence(block.process.spectrum, block.process.targets, weight=weight, repeats=times, unit=unit)
        held += weight * float((np.abs(block.process.targets) ** 2).sum())
    spectrum = max(problem.spectra, key=lambda s: s.blur)
    left = 0.0 if problem.consistent else float((targets**2).sum()) - held
    return total + noise(spectrum, numbers - total.numbers, left, unit=unit)


def _of_equivariant(training: Training) -> Evidence:
    """N·outputs targets under (1/|G|) Σ_q Θ(x, ρ_X(q) x′) ρ_Y(q): blocks as often as ρ_Y holds their irreps."""
    problem = cast(IrrepProblem, training.mean_problem)
    n, outputs = training.labels.shape
    moved = np.stack([np.asarray(training.label_action(g, np.eye(outputs))) for g in training.action.group])
    if not np.abs(moved @ moved.swapaxes(1, 2) - np.eye(outputs)).max() <= _ORTHOGONAL:
        raise InvalidArgumentError(
            "label_action is not orthogonal, so that moving labels back changes their noise; augmentations can be "
            "compared by leave-one-out"
        )
    characters = np.trace(moved, axis1=1, axis2=2)
    if sum(_multiplicity(b.irrep, characters) * b.irrep.dimension * b.irrep.count for b in problem.blocks) < outputs:
        # labels that vanish in an irrep have a density all the same
        problem = cast(IrrepProblem, training.covariance_problem)
    repeats = [block.irrep.count * _multiplicity(block.irrep, characters) for block in problem.blocks]
    return _of_blocks(problem, repeats, training.augmented_labels(), n * outputs, unit=len(moved))


def _multiplicity(irrep: FourierIrrep, characters: np.ndarray) -> int:
    """How often a real representation with these characters holds the irrep."""
    return round(float((irrep.matrices.trace(axis1=1, axis2=2) @ characters).real) / len(characters))


def _of_means(training: Training) -> Evidence:
    """The explicit problem: means over copies have the mean kernel over both orbits, and noise δ over their number."""
    problem = cast(Problem, training.covariance_problem)
    if not training.invariant_labels:
        raise InvalidArgumentError(
            f"labels move with the inputs and the problem is solved as {training.solver}; then augmentations can be "
            "compared by leave-one-out, not by marginal likelihood"
        )
    process, samples, n = problem.process, problem.samples, len(training.rows)
    spectrum, copies = process.spectrum, len(problem.samples.row) // n
    check_density(spectrum)
    training.settings.ridge.check_one("means over copies take one: give a number, or compare by leave-one-out")
    rows = spectrum.vectors if process.scale is None else spectrum.vectors / process.scale[:, None]
    mean = (samples.weight[:, None] * rows[samples.row]).reshape(copies, n, -1).sum(axis=0) / copies
    means = decompose(
        (mean * (spectrum.eigenvalues - spectrum.delta)) @ mean.T,
        ridge=spectrum.ridge,
        ridge_unit=spectrum.ridge_unit / copies,
        resolution=spectrum.resolution,
        name=f"kernel matrix of the {n} training samples, means over copies,",
    )
    return evidence(means, means.vectors.T @ training.labels, repeats=training.labels.shape[1])
