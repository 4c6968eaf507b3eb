"""What a kernel computation returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import numpy as np

from equitangents import notebook, precision
from equitangents._types import ArrayLike
from equitangents.errors import NetworkError


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

    def _repr_html_(self) -> str:
        """What a notebook shows: shapes, how the kernels were computed, and both as pictures."""
        if precision.is_traced(self.ntk):
            return notebook.table("Kernels", [("shape", self.ntk.shape), ("traced", "inside a JAX program")])
        facts: list[tuple[str, object]] = [
            ("shape", self.ntk.shape),
            ("precision", self.ntk.dtype),
            ("engine", self.engine),
            ("form", self.form),
        ]
        if self.error_estimate is not None:
            facts.append(("error estimate", f"{self.error_estimate:.1e} at resolution {self.resolution}"))
        facts += [("note", note) for note in self.notes]
        return (
            notebook.table("Kernels", facts)
            + notebook.picture("NNGP", np.asarray(self.nngp))
            + notebook.picture("NTK", np.asarray(self.ntk))
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NngpKernels:
    """The NNGP of a network that has no neural tangent kernel: asking for `ntk` raises NetworkError, which says why.

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
    def of(kernels: Kernels, reason: str) -> NngpKernels:
        """The NNGP alone of what was computed."""
        return NngpKernels(kernels.nngp, reason, kernels.engine, kernels.form, kernels.notes)


class KernelFunction(Protocol):
    """Anything that has kernels: a network, an orbit average, a user's own object."""

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """The kernels between `x1` and `x2` (`x1` with itself if None)."""
