"""What an audit finds, as small records: each class is one object of the report's JSON.

Errors are relative: ‖f(ρ_X(g)x) − ρ_Y(g)f(x)‖ / ‖f(x)‖. Those called `judged` are in the unit of the headline, which
may be the spread between inputs, or probability, instead; the verdict follows from these. A floor is the error that a
perfectly equivariant function would show all the same, because arrays are resampled, numbers rounded, or the function
is random.
"""

from equitangents.audit.report.sections.beside import Checkpoint, DataSection, EnsembleSection, EnsembleSize, Remedy
from equitangents.audit.report.sections.contract import (
    ContractSection,
    InputContract,
    Matching,
    ModelSection,
    OutputContract,
    RuleResult,
)
from equitangents.audit.report.sections.course import Missing, Settings, Timing
from equitangents.audit.report.sections.elements import (
    ElementResult,
    LieResult,
    OrbitPoint,
    OrbitSection,
    RelativeSection,
    SetResult,
    StrengthResult,
    TransformResult,
    Witness,
)
from equitangents.audit.report.sections.errors import (
    Counterexample,
    Doubt,
    Estimate,
    FloatFloor,
    Headline,
    Spread,
    UndefinedPose,
)
from equitangents.audit.report.sections.inside import IrrepSection, IrrepShare, LayerResult, LayerSection, SweepResult

__all__ = [
    "Checkpoint",
    "ContractSection",
    "Counterexample",
    "DataSection",
    "Doubt",
    "ElementResult",
    "EnsembleSection",
    "EnsembleSize",
    "Estimate",
    "FloatFloor",
    "Headline",
    "InputContract",
    "IrrepSection",
    "IrrepShare",
    "LayerResult",
    "LayerSection",
    "LieResult",
    "Matching",
    "Missing",
    "ModelSection",
    "OrbitPoint",
    "OrbitSection",
    "OutputContract",
    "RelativeSection",
    "Remedy",
    "RuleResult",
    "SetResult",
    "Settings",
    "Spread",
    "StrengthResult",
    "SweepResult",
    "Timing",
    "TransformResult",
    "UndefinedPose",
    "Witness",
]
