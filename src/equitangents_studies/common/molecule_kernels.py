"""Kernels of molecules: of invariant networks, of other networks, and two from chemistry. Each has one kernel width."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist

from equitangents import molecules as molecular
from equitangents import nn
from equitangents.groups import so3
from equitangents.molecules import AtomSignals, Molecules
from equitangents_studies.framework.folder import read_stage, write_stage
from equitangents_studies.framework.progress import Task

TITLES = {
    "so3": "SO(3) kernel",
    "mlp": "MLP kernel, same signals",
    "coulomb": "Coulomb matrix",
    "soap": "SOAP",
    "elements": "sum over elements",
}
HIDDEN = 8  # channels, which kernels do not depend on
_W_STD, _B_STD = 1.5, 0.1


def mean_square(signals: AtomSignals, molecules: Molecules) -> float:
    """Mean square of the atoms' signals over the sphere, atoms and channels."""
    c = signals(molecules).signals.astype(np.float64)
    return float((c**2).sum(axis=1).mean()) / (4 * np.pi)


MoleculeKernel = Callable[..., np.ndarray]
"""`kernel(a, b)` of molecules, (N, M), b = a if None."""


def network_kernel(net: nn.Sequential, signals: AtomSignals) -> MoleculeKernel:
    """NTK of two hidden layers with Erf on each atom's signal, summed over pairs of atoms of one element."""
    return lambda a, b=None: molecular.kernel(net, a, b, signals=signals)


def so3_network(bandlimit: int, W_std: float, tolerance: float, resolution: int | None = None) -> nn.Sequential:
    """Lift, Erf, group convolution, Erf, mean over rotations, readout."""
    lift = nn.SphereLift(so3(bandlimit), HIDDEN, W_std=W_std, b_std=_B_STD, tolerance=tolerance, resolution=resolution)
    convolution = nn.GroupConv(HIDDEN, W_std=_W_STD, b_std=_B_STD)
    return nn.Sequential(lift, nn.Erf(), convolution, nn.Erf(), nn.GroupPool(), nn.Dense(1))


def mlp_network(bandlimit: int, W_std: float) -> nn.Sequential:
    """An MLP as deep as `so3_network`; its first layer is scaled to the same variance."""
    first = nn.Dense(HIDDEN, W_std=W_std * bandlimit / (4 * np.pi) ** 0.5, b_std=_B_STD)
    return nn.Sequential(
        nn.Flatten(), first, nn.Erf(), nn.Dense(HIDDEN, W_std=_W_STD, b_std=_B_STD), nn.Erf(), nn.Dense(1)
    )


def coulomb_vectors(molecules: Molecules, size: int) -> np.ndarray:
    """Coulomb matrices Z_i Z_j/|r_ij|, 0.5 Z_i^2.4 on the diagonal, rows by decreasing norm: (N, size(size + 1)/2)."""
    z, x = molecules.atomic_numbers, molecules.positions.astype(np.float64)
    out = np.zeros((len(z), size, size))
    for n, (q, r) in enumerate(zip(z, x, strict=True)):
        q, r = q[q > 0].astype(float), r[q > 0]
        distance = np.linalg.norm(r[:, None] - r, axis=-1)
        np.fill_diagonal(distance, 1)
        matrix = np.outer(q, q) / distance
        np.fill_diagonal(matrix, 0.5 * q**2.4)
        order = np.argsort(-np.linalg.norm(matrix, axis=1), kind="stable")
        out[n, : len(q), : len(q)] = matrix[np.ix_(order, order)]
    return out[:, *np.triu_indices(size)]


def soap_vectors(molecules: Molecules, elements: tuple[int, ...], radius: float, n_max: int, l_max: int) -> np.ndarray:
    """Power spectra of dscribe, summed over atoms: (N, features)."""
    from ase.data import chemical_symbols
    from dscribe.descriptors import SOAP

    descriptor = SOAP(
        species=[chemical_symbols[z] for z in elements], r_cut=radius, n_max=n_max, l_max=l_max, average="off"
    )
    return np.stack([np.asarray(descriptor.create(atoms)).sum(axis=0) for atoms in molecules.to_ase()])


def vector_kernel(vectors: Callable[[Molecules], np.ndarray], metric: str, width: float) -> MoleculeKernel:
    """exp(-|u - v|₁/σ) ("cityblock") or exp(-|u - v|²/2σ²) ("sqeuclidean") of vectors that describe molecules."""

    def kernel(a: Molecules, b: Molecules | None = None) -> np.ndarray:
        first = vectors(a)
        distance = cdist(first, first if b is None else vectors(b), metric)
        return np.exp(-distance / (width if metric == "cityblock" else 2 * width**2))

    return kernel


def median_distance(vectors: np.ndarray, metric: str) -> float:
    """Median distance over pairs; kernel widths are multiples of it."""
    distance = cdist(vectors, vectors, "cityblock" if metric == "cityblock" else "euclidean")
    return float(np.median(distance[np.triu_indices(len(vectors), 1)]))


def blockwise(
    kernel: Callable[..., np.ndarray], molecules: Molecules, block: int, folder: Path, task: Task
) -> np.ndarray:
    """The kernel of all molecules, (N, N), in stripes of `block` rows, each kept in `folder` until all are there."""
    n = len(molecules)
    total = np.zeros((n, n))
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, n, block):
        stop = min(start + block, n)
        path = folder / f"rows-{start}-{stop}.npz"
        kept = read_stage(path, path.stem)
        if kept is not None:
            stripe = kept["stripe"]
        else:
            here = molecules[start:stop]
            parts = [kernel(here)] + ([kernel(here, molecules[stop:])] if stop < n else [])
            stripe = np.concatenate(parts, axis=1, dtype=np.float64)
            write_stage(path, {"stripe": stripe}, path.stem)
        total[start:stop, start:] = stripe
        total[start:, start:stop] = stripe.T
        done = n * (n + 1) // 2 - (n - stop) * (n - stop + 1) // 2
        task.step(done, n * (n + 1) // 2)
    return total
