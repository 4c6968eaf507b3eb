"""How much memory a dense problem takes, known before any of it is allocated."""

from __future__ import annotations

# Both kernels, the eigenvectors, LAPACK's workspace of two matrices and one for what is being assembled.
_DENSE_MATRICES = 6


def dense_solve_bytes(samples: int) -> int:
    """Bytes at the peak of an eigendecomposition of `samples` training samples in float64."""
    return _DENSE_MATRICES * 8 * samples**2
