"""Where in a model the violation starts, and which part of the outputs it is."""

from __future__ import annotations

from dataclasses import dataclass

from equitangents.audit.report.sections.errors import Estimate


@dataclass(frozen=True)
class IrrepShare:
    """How much of the violation's power one irreducible representation carries."""

    name: str
    dimension: int
    share: Estimate
    """Share of the power of g ↦ ρ(g)⁻¹f(ρ(g)x) outside the trivial irrep."""


@dataclass(frozen=True)
class IrrepSection:
    """Decomposition of the orbit signal g ↦ ρ(g)⁻¹f(ρ(g)x), which is constant for an equivariant f."""

    method: str
    violation_share: float
    """Power outside the trivial irrep over the total power."""
    shares: list[IrrepShare]


@dataclass(frozen=True)
class LayerResult:
    """The error after one layer, in order of execution."""

    name: str
    kind: str
    shape: list[int]
    """Shape of its output for one input."""
    error: float
    """Smallest error that any orthogonal action on its output could have."""
    floor: float
    broken: bool
    noise: float
    """Relative difference of two evaluations; above 0 in layers that are random."""
    growth: float | None = None
    """How much larger the error is than that of the layer's input, or of the layer before where that is not seen."""


@dataclass(frozen=True)
class SweepResult:
    """The error after one change: another input size, or one layer with another padding or stride."""

    change: str
    layer: str | None
    """The layer changed; null: the input was."""
    first_broken: str | None
    """Where the violation starts after the change; null: nowhere."""
    error: float | None
    """Error of the model's output; null: the changed model does not run."""
    note: str


@dataclass(frozen=True)
class LayerSection:
    """Where the violation starts."""

    layers: list[LayerResult]
    guilty: str | None
    """Name of the layer where it starts; null if no layer breaks the symmetry."""
    reason: str
    sweep: list[SweepResult]
    steepest: str | None = None
    """Name of the layer where the error grows most; null if no layer breaks the symmetry."""
    expected: bool = False
    """True: the first layer with weights breaks the symmetry already, whatever its padding or stride, as expected of a
    network that is not built to be equivariant."""
