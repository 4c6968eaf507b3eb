"""Results: kernels, or the kernel field of a network that ends on positions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, NetworkError

if TYPE_CHECKING:
    from equitangents.kernels.fields import Part


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Kernels:
    """The NNGP and neural tangent kernels between two sets of inputs, of one output unit.

    `nngp[i, j] = E[N(x1_i) N(x2_j)]`, `ntk[i, j] = E[Σ_μ ∂_μ N(x1_i) ∂_μ N(x2_j)]`, both `(N1, N2)`.
    `engine` says what computed them, `form` how: "fibre", along fibres, "pairs", over all pairs of positions, or
    "rotations", over relative rotations; `notes` anything that a reader of the numbers should know. Integrals over
    rotations are sampled at `resolution` (nodes in cos β); `error_estimate` is the error measured there, relative to
    √(K(x,x) K(x',x')). Both are None where all is exact.
    """

    nngp: ArrayLike
    ntk: ArrayLike
    engine: str = field(default="reference", metadata={"static": True})
    form: str = field(default="fibre", metadata={"static": True})
    notes: tuple[str, ...] = field(default=(), metadata={"static": True})
    error_estimate: float | None = field(default=None, metadata={"static": True})
    resolution: int | None = field(default=None, metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NngpKernels:
    """The NNGP of a network without neural tangent kernel: `ntk` raises NetworkError with the reason.

    All else is as in `Kernels`.
    """

    nngp: ArrayLike
    reason: str = field(default="", metadata={"static": True})
    engine: str = field(default="reference", metadata={"static": True})
    form: str = field(default="fibre", metadata={"static": True})
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
    """Anything that has kernels: a network, an orbit average, a user's own object."""

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """The kernels between `x1` and `x2` (`x1` with itself if None)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KernelField:
    """NNGP and NTK between positions of two sets of inputs, of one output channel.

    `nngp[i, p, j, q] = E[N(x1_i)(p) N(x2_j)(q)]` and `ntk[i, p, j, q] = E[Σ_μ ∂_μ N(x1_i)(p) ∂_μ N(x2_j)(q)]`, where
    p and q number the positions of the output, `grid`, row by row. `positions` says which pairs there are: "all",
    (N1, P, N2, P'); "same", p = q, (N1, N2, P); "pairs", as they were given, (N1, N2, M). Of inputs with themselves
    (`kernel_field_diagonal`) the inputs have one axis, (N, P, P'), (N, P) or (N, M).
    `engine`, `form` and `notes` are as in `Kernels`; `memory` is what was planned beyond the inputs, in bytes.
    """

    nngp: ArrayLike
    ntk: ArrayLike
    positions: str = field(default="all", kw_only=True, metadata={"static": True})
    grid: tuple[int, ...] = field(default=(), kw_only=True, metadata={"static": True})
    engine: str = field(default="reference", kw_only=True, metadata={"static": True})
    form: str = field(default="fibre", kw_only=True, metadata={"static": True})
    notes: tuple[str, ...] = field(default=(), kw_only=True, metadata={"static": True})
    memory: int = field(default=0, kw_only=True, metadata={"static": True})

    @property
    def precision(self) -> str:
        """The precision of the numbers, "float32" or "float64"."""
        return np.dtype(self.nngp.dtype).name

    def matrix(self) -> Kernels:
        """Kernels between all outputs, (N1 P, N2 P'): inputs first, then positions; of a field of all positions."""
        if self.positions != "all" or self.nngp.ndim != 4:
            raise InvalidArgumentError(
                "field", self.nngp.shape, "one of positions='all', for a matrix between all outputs", verb="has shape"
            )
        n1, p, n2, q = self.nngp.shape
        nngp, ntk = (values.reshape(n1 * p, n2 * q) for values in (self.nngp, self.ntk))
        return Kernels(nngp, ntk, self.engine, self.form, self.notes)


class FieldFunction(Protocol):
    """Anything that has kernel fields: a network that ends on positions, or a user's own object."""

    def kernel_field(self, x1: ArrayLike, x2: ArrayLike | None = None) -> KernelField:
        """The kernels between all positions of the outputs at `x1` and at `x2` (at `x1` if None)."""


def result(leaves: Iterable[object], nngp: ArrayLike, ntk: ArrayLike, **facts: Any) -> Kernels:
    """`Kernels`, of JAX arrays where one of the `leaves`, the arrays of the inputs, is one."""
    return Kernels(*_as_given(leaves, nngp, ntk), **facts)


def result_at(
    leaves: Iterable[object],
    nngp: ArrayLike,
    ntk: ArrayLike,
    part: Part | None,
    memory: int,
    *,
    between: bool = False,
    **facts: Any,
) -> Kernels | KernelField:
    """`result`, or the `KernelField` at a part of the pairs of positions, which was planned to take so much memory.

    `between` two sets of inputs a field shows its axes in another order than it was computed in.
    """
    if part is None:
        return result(leaves, nngp, ntk, **facts)
    if between:
        nngp, ntk = part.layout.public(nngp), part.layout.public(ntk)
    if isinstance(nngp, np.ndarray):
        nngp, ntk = np.ascontiguousarray(nngp), np.ascontiguousarray(ntk)
    return KernelField(*_as_given(leaves, nngp, ntk), positions=part.kind, memory=memory, **facts)


def _as_given(leaves: Iterable[object], nngp: ArrayLike, ntk: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    if isinstance(nngp, np.ndarray) and any([isinstance(leaf, jax.Array) for leaf in leaves]):  # generators take longer
        with precision.scope(nngp.dtype):
            return jnp.asarray(nngp), jnp.asarray(ntk)
    return nngp, ntk
