"""What an audit found, as one record: the object of the report's JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents.audit.report.sections import (
    Checkpoint,
    ContractSection,
    Counterexample,
    DataSection,
    Doubt,
    ElementResult,
    EnsembleSection,
    FloatFloor,
    Headline,
    IrrepSection,
    LayerSection,
    LieResult,
    Missing,
    ModelSection,
    OrbitSection,
    RelativeSection,
    Remedy,
    RuleResult,
    SetResult,
    Settings,
    Spread,
    Timing,
    TransformResult,
    UndefinedPose,
    Witness,
)

FORMAT: Literal["equitangents.audit/2"] = "equitangents.audit/2"
"""2: probabilities have a unit, spreads take moved copies in, and errors of inputs are kept in every unit."""
Verdict = Literal["equivariant", "equivariant within tolerance", "broken", "stochastic", "undecided"]


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """Everything that an audit found.

    Lists and numbers of the JSON are the attributes here, under the same names. `errors` and `floors` hold the table
    behind them, one row an element, one column an input, and are not written.
    """

    format: Literal["equitangents.audit/2"]
    verdict: Verdict
    """"equivariant": every element at its floor; "equivariant within tolerance": above it, and for no element above the
    tolerance that was given; "broken": some element is above its floor, and above the tolerance, or, without a
    tolerance, a single input is, or a moved input gave NaN; "stochastic": the model is random, and not seen to fail;
    "undecided": see `doubt`."""
    sentence: str
    """The finding in one sentence."""
    contract: ContractSection
    model: ModelSection
    error: Spread
    """Relative to ‖f(x)‖, over all inputs and elements, the identity left out."""
    floor: float
    """Mean over elements of their floors, relative to ‖f(x)‖."""
    elements: list[ElementResult]
    float_floor: FloatFloor
    orbit: OrbitSection
    relative: RelativeSection
    sets: list[SetResult]
    """The data first."""
    lie: list[LieResult]
    irreps: IrrepSection | None
    layers: LayerSection | None
    ensemble: EnsembleSection | None
    data: DataSection | None
    remedies: list[Remedy]
    checkpoints: list[Checkpoint]
    witnesses: list[Witness]
    """The worst first."""
    missing: list[Missing]
    settings: Settings
    versions: dict[str, str]
    timing: Timing
    citations: list[str]
    """BibTeX of the methods that this audit used."""
    errors: Float[np.ndarray, "elements inputs"] = field(metadata={"json": False})
    floors: Float[np.ndarray, "elements floor_inputs"] = field(metadata={"json": False})
    parameters: list[Any] = field(metadata={"json": False})
    """The elements themselves, as the actions take them."""
    partial: bool = False
    """True: the audit was interrupted; the report holds what was measured until then, and `missing` says what not."""
    headline: Headline | None = None
    """The error that the sentence and the verdict use, and its unit."""
    rules: list[RuleResult] = field(default_factory=list)
    """How outputs move that are not invariant: all that were sought where the audit was asked to find them, else those
    that were found of outputs that fail."""

    transforms: list[TransformResult] = field(default_factory=list)
    """Curves of invariance over the strength of changes that form no group."""
    averaged: Callable[..., Any] | None = field(default=None, metadata={"json": False})
    """Makes the model with a remedy."""
    input_errors: list[float] = field(default_factory=list)
    """Mean error of every input over the elements, relative to ‖f(x)‖: what a later audit is compared with. Inputs that
    were left out have none (null)."""
    errors_by_unit: dict[str, list[float]] = field(default_factory=dict)
    """Mean error of every input in every unit that a headline may have ("norm", "spread", "probability", …), and
    the share of predicted classes that change ("labels")."""
    doubt: Doubt | None = None
    """Why the verdict is open, "undecided" or "stochastic"; null where it is not."""
    counterexample: Counterexample | None = None
    """A single input that is far above its floor, where no mean is."""
    undefined: list[UndefinedPose] = field(default_factory=list)
    """Elements under which the model gave NaN or infinite values; all errors are those of the other inputs."""
    unmoved: int = 0
    """Inputs that no element moves, and that were left out, unless all are such."""
    inputs_digest: str = ""
    """A hash of the inputs, the group and its elements: equal where errors of single inputs may be compared."""


def plain(value: Any) -> Any:
    """Records, mappings, lists and arrays as plain values for JSON; numbers that are not finite are None."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.metadata.get("json", True)}
    if isinstance(value, dict):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
