"""What an audit tested, as small records: the group's actions on inputs and outputs, and the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from equitangents.audit.report.numbers import Estimate, Shown, Unit


@dataclass(frozen=True)
class InputContract:
    """One array that the model reads, and how the group acts on it."""

    name: str
    shape: list[int]
    """Shape of the sample, batch axis first."""
    dtype: str
    action: str
    """What the group does to it; "none": it does not transform."""
    exact: bool
    """False: the action resamples, and is one only approximately."""


@dataclass(frozen=True)
class Matching:
    """How items of f(ρ(g)x) were matched with those of ρ(g)f(x); means over elements and inputs."""

    iou: Estimate | None
    """Mean IoU of the matched boxes; null where items are no boxes, or none was matched."""
    missed: Estimate | None
    """Share of the items of ρ(g)f(x) without a partner; null where there are none."""
    extra: Estimate | None
    """Share of the items of f(ρ(g)x) without a partner; null where there are none."""


@dataclass(frozen=True)
class OutputContract(Shown[Estimate]):
    """One array that the model returns, how it should transform, and the error of that array alone."""

    name: str
    shape: list[int]
    """Shape for one input."""
    action: str
    """How it should transform; "invariant": not at all."""
    error: Estimate
    judged: Estimate | None = None
    """The error in the headline's unit, or in the output's own, `unit`."""
    floor: float | None = None
    """Mean over elements of its floors, in the same unit."""
    rms: float | None = None
    """Root mean square of its norm over the inputs."""
    spread: float | None = None
    """Root mean square distance of this output from its mean over the inputs and their moved copies; null: of a single
    input, of class numbers, and where that is no more than rounding."""
    scale: float | None = None
    """The output_scale that was given for it."""
    vanishes: bool = False
    """Whether it is no larger than its rounding for all inputs, moved or not."""
    fails_under: list[str] = field(default_factory=list)
    """Labels of the elements under which it fails: its interval lies above twice the floor, and above the tolerance."""
    compared: str | None = None
    """What its error is, of masks of classes and of sets; null: the norm of a difference."""
    matching: Matching | None = None
    """What was matched, missed and extra, where the output is a set."""
    unit: Unit | None = None
    """What `judged` is relative to: that of the headline, but for class numbers, masks and sets, outputs with an
    output_scale, and outputs without a spread."""


@dataclass(frozen=True)
class ContractSection:
    """What was tested: the group, and its actions on inputs and outputs."""

    group: str
    order: int | None
    """Number of elements; null: infinitely many."""
    complete: bool
    """True: every element was tried; false: elements were drawn at random (Haar measure)."""
    elements: int
    """How many elements were tried, the identity left out."""
    layout: Literal["channels_last", "channels_first"] | None
    """Where images keep their channels; null: no input is an image."""
    inputs: list[InputContract]
    outputs: list[OutputContract]
    law: bool = True
    """False: transforms, which form no group; their strengths stand where elements do."""

    @property
    def noun(self) -> str:
        """What is tried: "element" or "strength"."""
        return "element" if self.law else "strength"


@dataclass(frozen=True)
class ModelSection:
    """What was audited, and whether it answers alike each time."""

    name: str
    kind: str
    """"callable", "torch", "onnx", "scikit-learn", "network", "deep ensemble", "infinite ensemble", "members"."""
    dtype: str
    """Floating-point type of the outputs."""
    device: str
    deterministic: bool
    """False: the same batch gave two different answers."""
    batch_independent: bool
    """False: an input's output depends on what else is in its batch."""
    noise: float
    """Relative difference of two evaluations of the same inputs; 0 for deterministic models."""
