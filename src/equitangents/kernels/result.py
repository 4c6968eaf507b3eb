"""Results: kernels, or the kernel field of a network that ends on positions; their axes and memory.

Internally, results are (N1, N2, *tail). A field over all pairs of positions is (N1, P, N2, P') in memory and in public,
and internally a view with its axes moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.formatting import memory_size
from equitangents.memory import check_fits


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Kernels:
    """The NNGP and neural tangent kernels between two sets of inputs, of one output unit.

    `nngp[i, j] = E[N(x1_i) N(x2_j)]`, `ntk[i, j] = E[Σ_μ ∂_μ N(x1_i) ∂_μ N(x2_j)]`, both `(N1, N2)`.
    `engine`: the engine's name; `form`: "offsets", by pair offset, "pairs", over all pairs of positions, or
    "rotations", over relative rotations; `notes`: remarks on the numbers. Integrals over
    rotations are sampled at `resolution` (nodes in cos β); `error_estimate` is the error measured there, relative to
    √(K(x,x) K(x',x')). Both are None if everything is exact.
    """

    nngp: ArrayLike
    ntk: ArrayLike
    engine: str = field(default="reference", metadata={"static": True})
    form: str = field(default="offsets", metadata={"static": True})
    notes: tuple[str, ...] = field(default=(), metadata={"static": True})
    error_estimate: float | None = field(default=None, metadata={"static": True})
    resolution: int | None = field(default=None, metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NngpKernels:
    """The NNGP of a network without neural tangent kernel: `ntk` raises NetworkError with the reason.

    Other attributes are as in `Kernels`.
    """

    nngp: ArrayLike
    reason: str = field(default="", metadata={"static": True})
    engine: str = field(default="reference", metadata={"static": True})
    form: str = field(default="offsets", metadata={"static": True})
    notes: tuple[str, ...] = field(default=(), metadata={"static": True})

    @property
    def ntk(self) -> Any:
        """Raises NetworkError with the reason why there is no tangent kernel."""
        raise NetworkError(self.reason)

    @staticmethod
    def of(found: Kernels | KernelField, reason: str) -> NngpKernels:
        """Drop the NTK of kernels, or of a kernel field."""
        return NngpKernels(found.nngp, reason, found.engine, found.form, found.notes)


class KernelFunction(Protocol):
    """An object with kernels: a network, an orbit average, a user's own object."""

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """The kernels between `x1` and `x2` (`x1` with itself if None)."""


@dataclass(frozen=True)
class Part:
    """The selected pairs of `count` positions: all, those with equal positions, or the single value after a readout."""

    kind: Literal["all", "same", "readout"]
    count: int = 1

    @property
    def crossed(self) -> bool:
        """Whether each pair of inputs has the axes (P, P') of both inputs' positions."""
        return self.kind == "all"

    @property
    def tail(self) -> tuple[int, ...]:
        """The axes of one pair of inputs: (P, P'), (P,) or ()."""
        return () if self.kind == "readout" else (self.count,) * (1 + self.crossed)

    @property
    def numbers(self) -> int:
        """Number of values per pair of inputs."""
        return math.prod(self.tail)

    def zeros(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """Zeros (N1, N2, *tail) in the memory order of the public result."""
        if not self.crossed:
            return np.zeros((*shape, *self.tail), dtype)
        return np.zeros((shape[0], self.tail[0], shape[1], self.tail[1]), dtype).transpose(0, 2, 1, 3)

    def public(self, values: Any) -> Any:
        """The public layout: (N1, P, N2, P') if `crossed`, else (N1, N2, *tail)."""
        return values.transpose(0, 2, 1, 3) if self.crossed else values

    def mirrored(self, values: Any) -> Any:
        """Kernels of x2 with x1 from those of x1 with x2."""
        return values.transpose(1, 0, 3, 2) if self.crossed else values.swapaxes(0, 1)

    def write(self, out: np.ndarray, rows: slice, columns: slice, values: Any, symmetric: bool) -> None:
        """Write a tile, cut to size; for a symmetric result also its mirror image, with a symmetric diagonal."""
        found = np.asarray(values)[: rows.stop - rows.start, : columns.stop - columns.start]
        if symmetric and rows == columns:
            found = (found + self.mirrored(found)) / 2
        out[rows, columns] = found
        if symmetric and rows != columns:
            out[columns, rows] = self.mirrored(found)

    def broadcast(self, values: np.ndarray) -> np.ndarray:
        """Values of inputs or pairs, with axes for `tail` added for broadcasting."""
        return values.reshape(values.shape + (1,) * len(self.tail))

    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """First and second positions, each of the shape `tail`."""
        here = np.arange(self.count)
        if self.kind == "same":
            return here, here
        first, second = np.broadcast_arrays(here[:, None], here)
        return first, second

    def __str__(self) -> str:
        return f"all pairs of {self.count:,} positions" if self.kind == "all" else f"{self.count:,} positions"


READOUT = Part("readout")


def part_of(positions: str, count: int) -> Part:
    """The part of a field over `count` positions for `positions`: "all" or "same"; raises InvalidArgumentError."""
    if positions not in ("all", "same"):
        raise InvalidArgumentError("positions", positions, "'all' or 'same'")
    return Part("all" if positions == "all" else "same", count)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KernelField:
    """NNGP and NTK between positions of two sets of inputs, of one output channel.

    `nngp[i, p, j, q] = E[N(x1_i)(p) N(x2_j)(q)]` and `ntk[i, p, j, q] = E[Σ_μ ∂_μ N(x1_i)(p) ∂_μ N(x2_j)(q)]`, where
    p and q number the positions of the output, `grid`, in row-major order. `positions`: "all" pairs,
    (N1, P, N2, P'), or "same", p = q, (N1, N2, P). For inputs with themselves (`kernel_field_diagonal`)
    the inputs have one axis, (N, P, P') or (N, P).
    `engine`, `form` and `notes` are as in `Kernels`.
    """

    nngp: ArrayLike
    ntk: ArrayLike
    positions: str = field(default="all", kw_only=True, metadata={"static": True})
    grid: tuple[int, ...] = field(default=(), kw_only=True, metadata={"static": True})
    engine: str = field(default="reference", kw_only=True, metadata={"static": True})
    form: str = field(default="offsets", kw_only=True, metadata={"static": True})
    notes: tuple[str, ...] = field(default=(), kw_only=True, metadata={"static": True})

    @property
    def precision(self) -> str:
        """The precision of the numbers, "float32" or "float64"."""
        return np.dtype(self.nngp.dtype).name

    def matrix(self) -> Kernels:
        """Kernels between all outputs, (N1 P, N2 P'): inputs first, then positions; only for positions "all"."""
        if self.positions != "all" or self.nngp.ndim != 4:
            raise InvalidArgumentError(
                "field", self.nngp.shape, "one of positions='all', for a matrix between all outputs", verb="has shape"
            )
        n1, p, n2, q = self.nngp.shape
        nngp, ntk = (values.reshape(n1 * p, n2 * q) for values in (self.nngp, self.ntk))
        return Kernels(nngp, ntk, self.engine, self.form, self.notes)


class FieldFunction(Protocol):
    """An object with kernel fields: a network that ends on positions, or a user's own object."""

    def kernel_field(self, x1: ArrayLike, x2: ArrayLike | None = None) -> KernelField:
        """The kernels between all positions of the outputs at `x1` and at `x2` (at `x1` if None)."""


def result(leaves: Iterable[object], nngp: ArrayLike, ntk: ArrayLike, **facts: Any) -> Kernels:
    """`Kernels`, as JAX arrays if one of the `leaves`, the arrays of the inputs, is one."""
    return Kernels(*_as_given(leaves, nngp, ntk), **facts)


def result_at(
    leaves: Iterable[object],
    nngp: ArrayLike,
    ntk: ArrayLike,
    part: Part | None,
    *,
    between: bool = False,
    **facts: Any,
) -> Kernels | KernelField:
    """`result`, or the `KernelField` at a part of the pairs of positions.

    `between`: the field is between two sets of inputs, so that its public axes differ from the internal ones.
    """
    if part is None:
        return result(leaves, nngp, ntk, **facts)
    if between:
        nngp, ntk = part.public(nngp), part.public(ntk)
    if isinstance(nngp, np.ndarray):
        nngp, ntk = np.ascontiguousarray(nngp), np.ascontiguousarray(ntk)
    return KernelField(*_as_given(leaves, nngp, ntk), positions=part.kind, **facts)


def _as_given(leaves: Iterable[object], nngp: ArrayLike, ntk: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    if isinstance(nngp, np.ndarray) and any([isinstance(leaf, jax.Array) for leaf in leaves]):  # generators take longer
        with precision.scope(nngp.dtype):
            return jnp.asarray(nngp), jnp.asarray(ntk)
    return nngp, ntk


def result_bytes(n1: int, n2: int, itemsize: int) -> int:
    """Bytes of the two matrices between n1 and n2 inputs."""
    return 2 * n1 * n2 * itemsize


def check_result(x1: Any, x2: Any, dtype: DType, working: int) -> None:
    """Raise MemoryLimitError if the kernels of x1 and x2 (None: x1 with itself) cannot fit in memory.

    `working`: bytes needed in addition to the two matrices. Traced kernels for a device other than the CPU are not
    checked.
    """
    if any(precision.is_traced(x) for x in (x1, x2)) and jax.default_backend() != "cpu":
        return
    n1, n2, dtype = len(x1), len(x1 if x2 is None else x2), np.dtype(dtype)
    results = result_bytes(n1, n2, dtype.itemsize)
    # Engines fill NumPy arrays, which are copied where JAX arrays are wanted.
    copies = 2 if any(isinstance(x, jax.Array) for x in (x1, x2)) else 1
    task = f"a kernel of {n1} × {n2} inputs (NNGP and NTK in {dtype.name}, {memory_size(results)})"
    check_fits(task, copies * results + working, "compute fewer inputs at a time, or give float32 inputs")


def field_bytes(part: Part, n1: int, n2: int, itemsize: int) -> int:
    """Bytes of NNGP and NTK between n1 and n2 inputs, at the wanted pairs of positions."""
    return 2 * n1 * n2 * part.numbers * itemsize


def check_field(part: Part, n1: int, n2: int, dtype: DType, working: int, copied: bool = False) -> None:
    """Raise MemoryLimitError if the field cannot fit in memory.

    `working`: bytes needed in addition to the results; `copied`: results are copied to JAX arrays.
    """
    dtype = np.dtype(dtype)
    results = field_bytes(part, n1, n2, dtype.itemsize)
    needed = (2 if copied else 1) * results + working
    task = f"a kernel field of {n1} × {n2} inputs at {part} (NNGP and NTK in {dtype.name}, {memory_size(results)})"
    check_fits(task, needed, "ask for positions='same', or compute fewer inputs at a time")
