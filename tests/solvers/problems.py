"""What tests of solvers share: random positive matrices, a kernel in NumPy, and dense float64 answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equitangents import solvers
from equitangents.kernels.result import Kernels
from equitangents.solvers.method import Method, Solution


def positive(n: int, condition: float, seed: int = 0) -> np.ndarray:
    """A random positive definite matrix with eigenvalues spread evenly in their logarithms."""
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    matrix = (q * np.geomspace(1, 1 / condition, n)) @ q.T
    return (matrix + matrix.T) / 2


def targets(n: int, outputs: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, outputs))


def factorise(folder: Path) -> Solution:
    """(Θ + δ)⁻¹ Y by a factor in `folder`, of 21 tiles."""
    how = solvers.OutOfCore(path=folder, tile=4)
    return solvers.solve(positive(22, 1e3), targets(22, 2), ridge=1e-3, solver=how)


def shifted(matrix: np.ndarray, ridge: float) -> np.ndarray:
    return matrix.astype(np.float64) + ridge * np.trace(matrix.astype(np.float64)) / len(matrix) * np.eye(len(matrix))


class Gaussian:
    """NNGP exp(−|x − x′|²/2), NTK that plus exp(−|x − x′|²)."""

    def kernel(self, x1, x2=None):
        x2 = x1 if x2 is None else x2
        a, b = (np.asarray(x, np.float64).reshape(len(x), -1) for x in (x1, x2))
        nngp = np.exp(-np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T, 0) / 2)
        return Kernels(nngp.astype(x1.dtype), (nngp + nngp**2).astype(x1.dtype))


def exact_methods(folder) -> dict[str, str | Method]:
    """Every solver that is not an approximation, in every precision."""
    return {
        "eigh": "eigh",
        "cholesky": "cholesky",
        "cholesky float32": solvers.Cholesky(precision="float32"),
        "out-of-core": solvers.OutOfCore(path=folder, tile=9),
        "lanczos": "lanczos",
        "pcg": "pcg",
        "auto": "auto",
    }
