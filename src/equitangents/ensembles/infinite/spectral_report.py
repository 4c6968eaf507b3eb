"""What is said of a problem that was solved by eigendecompositions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from equitangents.inference.spectrum import Spectrum
from equitangents.solvers.choosing import plan_of
from equitangents.solvers.eigh import Eigh
from equitangents.solvers.method import Task
from equitangents.solvers.solution import Report


def spectral_residual(gram: np.ndarray, spectrum: Spectrum, targets: np.ndarray) -> float:
    """The largest relative residual |Y − (Θ + δ)α|/|Y| of α = (Θ + δ)⁻¹Y, along eigenvectors above rounding."""
    values = spectrum.eigenvalues
    above = values > spectrum.blur
    modes = (spectrum.vectors.T @ targets)[above]
    vectors = spectrum.vectors[:, above]
    alpha = vectors @ (modes / values[above][:, None])
    missing = vectors @ modes - gram @ alpha - spectrum.delta * alpha
    sizes = np.linalg.norm(targets, axis=0)
    return float(np.max(np.linalg.norm(missing, axis=0) / np.where(sizes > 0, sizes, 1)))


def spectral_report(spectra: Sequence[Spectrum], time: float, seconds: float, residual: float) -> Report:
    """The report of one decomposition, or of one for each irrep, whose residual is not computed (NaN)."""
    smallest = min(spectrum.smallest for spectrum in spectra)
    largest = max(spectrum.largest for spectrum in spectra)
    sizes = [len(spectrum.eigenvalues) for spectrum in spectra]
    plans = [plan_of(Eigh(), Task(size, 1, 8, True, False, size, 0), None) for size in sizes]
    blocks = "one decomposition serves every time" if len(sizes) == 1 else f"one for each of {len(sizes)} irreps"
    return Report(
        solver="eigh",
        reason=blocks,
        size=sum(sizes),
        precision="float64",
        residual=residual,
        condition=largest / smallest if smallest > max(s.blur for s in spectra) else math.inf,
        smallest=smallest,
        largest=largest,
        iterations=0,
        seconds=seconds,
        forecast_seconds=sum(plan.seconds for plan in plans),
        forecast_memory=max(plan.memory for plan in plans),
        ridge=spectra[0].ridge,
        time=time,
    )
