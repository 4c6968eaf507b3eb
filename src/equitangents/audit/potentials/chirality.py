"""Whether a structure differs from its mirror image, by random smooth pseudoscalars: they vanish where it does not.

χ = Σ_i w(Z_i) det(a_i, b_i, c_i),  a_i = Σ_j α(Z_j) exp(−r_ij/λ) (1 − r_ij²/R²)² d_ij, and b, c likewise: no rotation,
shift or renumbering changes it, and a reflection turns its sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_CUTOFF = 6.0  # Å
_DRAWS = 3
_CANCELLED, _ROUNDING = 1e-6, 1e-15  # of the sum of |χ_i|, and of the largest that they could be


def chiral(atoms: Any) -> bool:
    """Whether some of a few random pseudoscalars does not vanish; what lies within their rounding counts as none."""
    from ase.neighborlist import neighbor_list

    if len(atoms) < 2:
        return False
    i, j, d = neighbor_list("ijD", atoms, _cutoff(atoms))
    rng, N = np.random.default_rng(0), len(atoms)
    r = np.linalg.norm(d, axis=1, keepdims=True)
    for _ in range(_DRAWS):
        weights = rng.normal(size=int(atoms.numbers.max()) + 1)[atoms.numbers]
        vectors, most = np.zeros((3, N, 3)), np.ones(N)
        for k in range(3):
            charges = rng.normal(size=int(atoms.numbers.max()) + 1)[atoms.numbers]
            term = charges[j][:, None] * np.exp(-r / rng.uniform(0.7, 3.0)) * (1 - (r / _cutoff(atoms)) ** 2) ** 2 * d
            np.add.at(vectors[k], i, term)
            most *= np.bincount(i, np.abs(term).sum(axis=1), N)
        each = weights * np.linalg.det(vectors.transpose(1, 0, 2))
        floor = _CANCELLED * np.abs(each).sum() + _ROUNDING * float((np.abs(weights) * most).sum())
        if abs(float(each.sum())) > floor:
            return True
    return False


def _cutoff(atoms: Any) -> float:
    """Molecules are seen whole."""
    if any(atoms.pbc):
        return _CUTOFF
    return max(_CUTOFF, 1.5 * float(np.linalg.norm(np.ptp(atoms.positions, axis=0))))
