"""One eigendecomposition of the training kernel, Θ = U Λ Uᵀ, for every time; whether Θ + δ is positive definite.

With a ridge r the eigenvalues become λ_i + δ, δ = r · ridge_unit (ridge_unit: the mean diagonal, tr Θ/N). A ridge for
each sample, for noise that differs between them, adds unit · diag(r_1 … r_N): with r the smallest of them,
unit · diag(r_i − r) is part of the matrix and r its ridge, so that every solver handles both cases.
Rounding in Θ perturbs eigenvalues by about `resolution` · λ_max; smaller ones are not known to be positive. A Θ that
is itself a sum of larger numbers, such as the block of an irrep, is perturbed by `resolution` · `scale`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, NotPositiveDefiniteError, ShapeError
from equitangents.validation import check_array

_INDEFINITE = 100.0  # times the rounding of the entries: a negative eigenvalue beyond it has another reason
_PAIRS = 64  # pairs of rows that are looked at for equal inputs
_HIDDEN = 1e-3  # (ηt/N) · rounding of eigenvalues: how far training may move along what rounding hides
# Both kernels, the eigenvectors, LAPACK's workspace of two matrices and one for what is being assembled.
_DENSE_MATRICES = 6

NO_RIDGE = "its mean diagonal is not positive, so no ridge helps: check the inputs and the network"

Product = Callable[[np.ndarray], np.ndarray]
Entry = Callable[[int, int], float]


@dataclass(frozen=True, eq=False)
class Ridge:
    """A ridge per sample: the smallest value `least`, and `above` (N,) = r_i − least, None if all are equal.

    >>> Ridge.read([0.1, 0.3]).above.round(12).tolist(), Ridge.read([0.1, 0.1]).above
    ([0.0, 0.2], None)
    """

    least: float
    above: Float[np.ndarray, " samples"] | None = None

    @classmethod
    def read(cls, ridge: object, samples: int | None = None) -> Ridge:
        """The `Ridge` of an argument `ridge`, for `samples` samples if known.

        Raises InvalidArgumentError unless it is a finite number ≥ 0 or one per sample; ShapeError for a wrong number of
        values.
        """
        if isinstance(ridge, int | float | np.number):
            if not 0 <= ridge < math.inf:
                raise InvalidArgumentError("ridge", ridge, remedy="it must be a finite number ≥ 0")
            return cls(float(ridge))
        try:
            values = np.asarray(ridge)
        except ValueError:
            values = np.empty((0, 0))
        if values.ndim != 1 or not len(values) or values.dtype.kind not in "iuf":
            raise InvalidArgumentError("ridge", ridge, remedy="it must be a finite number ≥ 0, or one for each sample")
        values = values.astype(np.float64)
        wrong = np.flatnonzero(~((values >= 0) & (values < math.inf)))
        if len(wrong):
            raise InvalidArgumentError("ridge", values[wrong[0]], remedy="it must be a finite number ≥ 0", at=wrong[0])
        if samples is not None and len(values) != samples:
            raise ShapeError("ridge", len(values), samples, "give one for each sample", verb="has length")
        least = float(values.min())
        return cls(least, None if values.max() == least else values - least)

    @classmethod
    def number(cls, ridge: object, why: str) -> float:
        """The common ridge; InvalidArgumentError, with the reason `why`, if it differs between samples."""
        found = cls.read(ridge)
        found.check_one(why)
        return found.least

    def check_one(self, why: str) -> None:
        """Raise InvalidArgumentError, with the reason `why`, if the ridge differs between samples."""
        if self.above is not None:
            raise InvalidArgumentError("ridge", "a value for each sample", "one number", why, verb="has")

    def of_rows(self, rows: int, each: int = 1) -> np.ndarray | None:
        """`above` for the rows of a problem: `each` rows per sample, repeated for every copy; or None."""
        if self.above is None:
            return None
        once = np.repeat(self.above, each)
        return np.tile(once, rows // len(once))

    def same_above(self, other: Ridge) -> bool:
        """Whether the two differ by a constant over samples."""
        if self.above is None or other.above is None:
            return self.above is other.above
        return np.array_equal(self.above, other.above)


def is_positive(smallest: float, largest: float, blur: float) -> bool:
    """Whether λ_min exceeds the effect of rounding of the entries."""
    return largest > 0 and smallest > blur


def hides(rate: float, time: float, rounding: float) -> bool:
    """Whether training for this time, at `rate` η/N, moves along eigenvectors with eigenvalues lost in rounding."""
    return rate * time * rounding > _HIDDEN


def longest_time(rate: float, rounding: float) -> str:
    """The longest time for which `hides` is false, rounded down to two digits, as text."""
    most = _HIDDEN / (rate * rounding)
    digit = 10.0 ** (math.floor(math.log10(most)) - 1)
    return f"{math.floor(most / digit * (1 - 1e-12)) * digit:.1e}"


def equal_rows(size: int, eps: float, product: Product, entry: Entry) -> tuple[int, int] | None:
    """Two rows that are equal up to rounding, found by products with random numbers; None if there are none.

    Then A_ii + A_jj − 2A_ij is negligible against A_ii + A_jj.
    """
    if size < 2:
        return None
    image = product(np.random.default_rng(0).normal(size=(size, 1)))[:, 0]
    order = np.argsort(image, kind="stable")
    gaps = np.diff(image[order])
    near = np.flatnonzero(gaps <= 1e2 * eps * math.sqrt(size) * float(np.abs(image).max()))
    for k in near[np.argsort(gaps[near], kind="stable")][:_PAIRS]:
        i, j = sorted((int(order[k]), int(order[k + 1])))
        both = entry(i, i) + entry(j, j)
        if both - 2 * entry(i, j) <= 16 * eps * both:
            return i, j
    return None


@dataclass(frozen=True)
class Ends:
    """The ends of the spectrum of Θ + δ, and the data for errors: the cause, and the ridge that cures it.

    name: of the matrix, in errors. blur: how far rounding moves eigenvalues. unit: of the ridge. resolution:
    blur over λ_max. single: whether entries are float32. equal: finds two equal rows. factor_blur: how far rounding
    moves eigenvalues of a factor.
    """

    name: str
    smallest: float
    largest: float
    blur: float
    ridge: float
    unit: float
    resolution: float
    single: bool
    equal: Callable[[], tuple[int, int] | None]
    factor_blur: float = 0.0

    def check_semidefinite(self) -> None:
        """Raise NotPositiveDefiniteError where eigenvalues are too negative to be rounding."""
        if not (self.smallest >= -_INDEFINITE * max(self.blur, 0.0) and self.largest >= 0):
            raise self._refused("indefinite", "", "")

    def refused(self, so: str = "", other: str = ", or take a finite time") -> NotPositiveDefiniteError:
        """The error for a matrix that must be inverted; `so`: the consequence, `other`: a remedy besides the ridge."""
        return self._refused("not positive definite to working precision", so, other)

    def too_long(self, longest: str) -> NotPositiveDefiniteError:
        """The error for a time beyond the `longest` that rounding permits."""
        hidden = ", and the time is so long that training moves along what rounding hides"
        return self.refused(hidden, f", or take a time of at most {longest}")

    def _refused(self, what: str, so: str, other: str) -> NotPositiveDefiniteError:
        ends = f"smallest eigenvalue {self.smallest:.2e}, largest {self.largest:.2e}"
        text = f"the {self.name} is {what} ({ends}){so}; cause: {self.cause()}; {self.remedy()}{other}"
        return NotPositiveDefiniteError(text)

    def cause(self) -> str:
        """Why the matrix is not positive definite."""
        if self.smallest < -_INDEFINITE * self.blur:
            return "it is indefinite beyond rounding, so it is not a kernel"
        pair = self.equal()
        if pair is not None:
            return f"rows {pair[0]} and {pair[1]} are equal, as of equal inputs"
        if self.single:
            return (
                f"its entries are float32, whose rounding moves eigenvalues by about {self.blur:.1e}; float64 inputs "
                "give float64 kernels"
            )
        missing = "ridge is 0 and" if self.ridge == 0 else f"ridge={self.ridge:g} is too small:"
        return f"{missing} eigenvalues of the kernel fall below the rounding of float64, about {self.blur:.1e}"

    def remedy(self) -> str:
        """The ridge that cures it: ten times the threshold, computed for the matrix with that ridge."""
        if not self.unit > 0:
            return NO_RIDGE
        missing = 10 * max(self.blur, self.factor_blur) - self.smallest
        wanted = self.ridge + missing / (1 - 10 * self.resolution) / self.unit
        digit = 10.0 ** math.floor(math.log10(wanted))
        return f"set ridge={math.ceil(wanted / digit) * digit:.0e} or more"  # rounded up to one digit


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of Θ + δ (N,), ascending, clipped at 0; eigenvectors (N, N) in columns, real or complex."""

    eigenvalues: np.ndarray
    vectors: np.ndarray
    ridge: float
    ridge_unit: float
    resolution: float
    smallest: float  # of Θ + δ, before clipping
    scale: float = 0.0
    name: str = "kernel matrix"  # as errors call it

    @property
    def largest(self) -> float:
        """λ_max of Θ + δ."""
        return float(self.eigenvalues[-1])

    @property
    def blur(self) -> float:
        """How far rounding may have moved the eigenvalues."""
        return self.resolution * max(self.largest, self.scale)

    @property
    def delta(self) -> float:
        """δ, added to every eigenvalue by the ridge."""
        return self.ridge * self.ridge_unit

    def with_ridge(self, ridge: float) -> Spectrum:
        """This spectrum with another ridge; NotPositiveDefiniteError if that leaves the matrix clearly indefinite."""
        if ridge == self.ridge:
            return self
        more = ridge * self.ridge_unit - self.delta
        found = replace(
            self,
            eigenvalues=np.maximum(self.eigenvalues + more, 0.0),
            ridge=ridge,
            smallest=self.smallest + more,
        )
        found.ends.check_semidefinite()
        return found

    def check_invertible(self) -> None:
        """Raise NotPositiveDefiniteError, with the ridge that helps, unless Θ + δ is surely invertible."""
        if not is_positive(self.smallest, self.largest, self.blur):
            raise self.ends.refused()

    def check_known(self, rate: float, time: float) -> None:
        """Raise NotPositiveDefiniteError if rounding dominates training for this time, at `rate` η/N.

        Along an eigenvector of eigenvalue 0 the response is φ = ηt/N, which multiplies the rounding error ε λ_max in
        its component of any input's kernel: at infinite time there is no inverse, and results are wrong long before.
        """
        if math.isinf(rate * time):
            self.check_invertible()
            return
        known = is_positive(self.smallest, self.largest, self.blur) or not hides(rate, time, self.blur)
        if not known and not self._is_positive_row_by_row:
            raise self.ends.too_long(longest_time(rate, self.blur))

    @cached_property
    def _is_positive_row_by_row(self) -> bool:
        """Whether Θ + δ is positive definite after its rows and columns are scaled to one norm.

        Entries are accurate relative to their own rows, so that inputs of a large norm do not hide the others.
        """
        if self.scale > self.largest:
            return False
        matrix = (self.vectors * self.eigenvalues) @ self.vectors.conj().T
        norms = np.sqrt(np.maximum(np.diagonal(matrix).real, 0.0))
        if not norms.all():
            return False
        scaled = scipy.linalg.eigvalsh(matrix / np.outer(norms, norms), check_finite=False)
        return is_positive(float(scaled[0]), float(scaled[-1]), self.resolution * float(scaled[-1]))

    def remedy(self, smallest: float | None = None) -> str:
        """The ridge that makes Θ + δ invertible; `smallest` replaces its own smallest eigenvalue."""
        return (self.ends if smallest is None else replace(self.ends, smallest=smallest)).remedy()

    @property
    def ends(self) -> Ends:
        """The spectrum's ends, for errors."""
        single, ends = self.resolution >= float(np.finfo(np.float32).eps), (self.smallest, self.largest, self.blur)

        def equal() -> tuple[int, int] | None:
            n, values = len(self.eigenvalues), np.maximum(self.eigenvalues - self.delta, 0.0)
            matrix = ((self.vectors * values) @ self.vectors.conj().T).real
            eps = n * float(np.finfo(np.float32 if single else np.float64).eps)
            return equal_rows(n, eps, matrix.__matmul__, lambda i, j: float(matrix[i, j]))

        return Ends(self.name, *ends, self.ridge, self.ridge_unit, self.resolution, single, equal)


def decompose(
    matrix: np.ndarray,
    *,
    ridge: float = 0.0,
    ridge_unit: float | None = None,
    precision: np.dtype | type | str = np.float64,
    resolution: float | None = None,
    scale: float = 0.0,
    name: str | None = None,
) -> Spectrum:
    """Eigenvalues and eigenvectors of a kernel matrix (N, N), symmetric or Hermitian; δ = ridge · ridge_unit is added.

    `precision` is the type in which the matrix was computed: N·ε of float64, or ε of float32 if larger, is the default
    resolution; it is relative to λ_max, or to `scale` if that is larger. `name` is for errors.
    Raises NotPositiveDefiniteError if the matrix, including ridge, is clearly indefinite.
    """
    if not np.iscomplexobj(matrix):
        matrix = np.asarray(check_array("kernel matrix", matrix, rank=2), dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError("kernel matrix", matrix.shape, "a square one")
    ridge = Ridge.number(ridge, "this decomposition takes one")
    n = len(matrix)
    if resolution is None:
        resolution = relative_resolution(n, precision)
    name = name or f"kernel matrix of the {n} training inputs"
    adjoint = matrix.conj().T
    asymmetry = float(np.abs(matrix - adjoint).max())
    if not asymmetry <= 1e3 * resolution * max(float(np.abs(matrix).max()), scale):
        raise InvalidArgumentError(
            "kernel matrix", asymmetry, "a symmetric one", verb="has entries ij and ji that differ by"
        )
    unit = float(np.trace(matrix).real) / n if ridge_unit is None else ridge_unit
    values, vectors = scipy.linalg.eigh((matrix + adjoint) / 2, driver="evd", check_finite=False, overwrite_a=True)
    values = values + ridge * unit
    spectrum = Spectrum(np.maximum(values, 0.0), vectors, ridge, unit, resolution, float(values[0]), scale, name)
    spectrum.ends.check_semidefinite()
    return spectrum


def relative(vectors: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """|V|/|Y| of each column; |V| if Y is 0."""
    sizes = np.linalg.norm(targets, axis=0)
    return np.linalg.norm(vectors, axis=0) / np.where(sizes > 0, sizes, 1.0)


def relative_resolution(n: int, precision: np.dtype | type | str) -> float:
    """How far rounding moves eigenvalues of N samples, over λ_max: N·ε of float64, or ε of `precision` if larger."""
    return max(n * float(np.finfo(np.float64).eps), float(np.finfo(np.dtype(precision)).eps))


def dense_solve_bytes(samples: int) -> int:
    """Peak memory in bytes of a float64 eigendecomposition of `samples` training samples."""
    return _DENSE_MATRICES * 8 * samples**2
