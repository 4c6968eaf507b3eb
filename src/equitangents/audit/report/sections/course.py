"""How the audit went: what it was asked, how long it took, and what it left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Missing:
    """A part of the audit that was left out, and why."""

    section: str
    reason: str


@dataclass(frozen=True)
class Timing:
    """Where the time went."""

    total_seconds: float
    model_seconds: float
    """Inside the model."""
    evaluations: int
    """Inputs that the model, its members, layers, checkpoints and changed copies were given, in all parts of the audit;
    copies that fill up a batch count."""
    batches: int = 0
    """Calls in which they were given."""
    parts: dict[str, int] = field(default_factory=dict)
    """Inputs by the part of the audit that needed them; they add up to `evaluations`."""
    passes: float = 0.0
    """`evaluations` over the inputs of the audit: so often each was evaluated, on average."""
    weights: int | None = None
    """Bytes of the model's weights; None: not known, so that batches were planned by the inputs alone, or asked for."""
    activations: int | None = None
    """Bytes of the activations that are alive at once for a batch of `settings.batch_size`, counted for one input; None
    as for `weights`."""
    member_passes: int = 0
    """Inputs that single members of an ensemble were given; `model_seconds` over this is one forward pass."""


@dataclass(frozen=True)
class Settings:
    """What the audit was asked to do."""

    confidence: float
    resamples: int
    seed: int
    batch_size: int
    inputs: int
    values: dict[str, Any] = field(default_factory=dict)
