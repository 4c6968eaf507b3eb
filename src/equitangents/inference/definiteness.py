"""Why a kernel matrix is not positive definite: equal inputs, float32 entries, no ridge, or no kernel at all."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.linalg

_INDEFINITE = 100.0  # times the rounding of the entries: a negative eigenvalue beyond it has another reason
_PAIRS = 64  # pairs of rows that are looked at for equal inputs
_HIDDEN = 1e-3  # (ηt/N) · rounding of eigenvalues: how far training may move along what rounding hides

NO_RIDGE = "its mean diagonal is not positive, so no ridge helps: check the inputs and the network"

Product = Callable[[np.ndarray], np.ndarray]
Distance = Callable[[int, int], tuple[float, float]]


def cause(
    *, smallest: float, blur: float, ridge: float, single: bool, equal: Callable[[], tuple[int, int] | None]
) -> str:
    """The cause, in words: λ_min, how far rounding moves eigenvalues, whether entries are float32, equal rows."""
    if smallest < -_INDEFINITE * blur:
        return "it is indefinite beyond rounding, so it is not a kernel"
    pair = equal()
    if pair is not None:
        return f"rows {pair[0]} and {pair[1]} are equal, as of equal inputs"
    if single:
        return (
            f"its entries are float32, whose rounding moves eigenvalues by about {blur:.1e}; float64 inputs give "
            "float64 kernels"
        )
    missing = "ridge is 0 and" if ridge == 0 else f"ridge={ridge:g} is too small:"
    return f"{missing} eigenvalues of the kernel fall below the rounding of float64, about {blur:.1e}"


def is_positive(smallest: float, largest: float, blur: float) -> bool:
    """Whether λ_min lies above what rounding of the entries can move it by."""
    return largest > 0 and smallest > blur


def hides(rate: float, time: float, rounding: float) -> bool:
    """Whether training for this time, at `rate` η/N, moves along eigenvectors whose eigenvalues rounding hides."""
    return rate * time * rounding > _HIDDEN


def longest_time(rate: float, rounding: float) -> str:
    """The longest time for which `hides` is not so, rounded down to two digits, so that what is said is not refused."""
    most = _HIDDEN / (rate * rounding)
    digit = 10.0 ** (math.floor(math.log10(most)) - 1)
    return f"{math.floor(most / digit * (1 - 1e-12)) * digit:.1e}"


def is_positive_row_by_row(values: np.ndarray, vectors: np.ndarray, resolution: float) -> bool:
    """Whether U Λ U* is positive definite with rows and columns scaled to a diagonal of 1.

    Entries are known relative to their own rows: inputs of a large norm hide nothing of the others.
    """
    matrix = (vectors * values) @ vectors.conj().T
    norms = np.sqrt(np.maximum(np.diagonal(matrix).real, 0.0))
    if not norms.all():
        return False
    scaled = scipy.linalg.eigvalsh(matrix / np.outer(norms, norms), check_finite=False)
    return is_positive(float(scaled[0]), float(scaled[-1]), resolution * float(scaled[-1]))


def is_semidefinite(smallest: float, largest: float, blur: float) -> bool:
    """Whether no eigenvalue is too negative to be rounding."""
    return smallest >= -_INDEFINITE * blur and largest >= 0


def advice(wanted: float) -> str:
    """The ridge that cures it, rounded up to one digit."""
    digit = 10.0 ** math.floor(math.log10(wanted))
    return f"set ridge={math.ceil(wanted / digit) * digit:.0e}"


def equal_rows(size: int, eps: float, product: Product, distance: Distance) -> tuple[int, int] | None:
    """Two rows that are the same up to rounding, if there are any: they have the same product with random numbers.

    distance: (A_ii + A_jj − 2A_ij, A_ii + A_jj) of i < j.
    """
    if size < 2:
        return None
    image = product(np.random.default_rng(0).normal(size=(size, 1)))[:, 0]
    order = np.argsort(image, kind="stable")
    gaps = np.diff(image[order])
    near = np.flatnonzero(gaps <= 1e2 * eps * math.sqrt(size) * float(np.abs(image).max()))
    for k in near[np.argsort(gaps[near], kind="stable")][:_PAIRS]:
        i, j = sorted((int(order[k]), int(order[k + 1])))
        apart, both = distance(i, j)
        if apart <= 16 * eps * both:
            return i, j
    return None
