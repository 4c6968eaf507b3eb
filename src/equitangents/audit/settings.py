"""Arguments of `audit`: the forms of actions, and its keywords as one record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict, get_args

from equitangents.actions.action import GroupAction
from equitangents.audit.contract.changes import Transform
from equitangents.audit.contract.leaf_actions import LeafKind
from equitangents.audit.contract.trees import Batch, Layout
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.representations import RepresentationLike
from equitangents.keywords import meant
from equitangents.metrics.measure import BootstrapSettings
from equitangents.validation import check_number

AuditedAction = str | GroupAction | Transform | Sequence[Any] | Mapping[str, Any]
"""The name of a group, an action, or a change; of several inputs a tuple or dictionary of actions and None."""

OutputAction = str | GroupAction | RepresentationLike | LeafKind | Batch | Sequence[Any] | Mapping[str, Any] | None
"""The action on outputs: an action, a representation, a kind ("vectors"), a rule; for several outputs a tree."""

InputKinds = str | LeafKind | Sequence[Any] | Mapping[str, Any] | None
Effort = Literal["quick", "full"]
OutputKind = Literal["auto", "values"]
RelativeTo = Literal["larger", "norm", "spread"]


@dataclass(frozen=True)
class AuditSettings:
    """The keywords of `audit`, documented there."""

    elements: int | None = None
    batch_size: int | None = None
    effort: Effort = "full"
    inputs: InputKinds = None
    layout: Layout | None = None
    outputs: OutputKind = "auto"
    select: str | int | None = None
    off_data: bool | Mapping[str, Any] = True
    layers: Sequence[Any] | bool = True
    train: tuple[Any, Any] | None = None
    relative_to: RelativeTo = "larger"
    tolerance: float | None = None
    output_scale: float | Mapping[str, float] | None = None
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("elements", "batch_size"):
            count = getattr(self, name)
            if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
                raise InvalidArgumentError(name, count, "a whole number, at least 1")
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise InvalidArgumentError(name, getattr(self, name), list(known))
        BootstrapSettings(self.confidence, self.resamples, self.seed)
        if self.train is not None and not (isinstance(self.train, tuple | list) and len(self.train) == 2):
            raise InvalidTypeError("train", type(self.train), "a pair (x, y)", verb="is of type")
        above = lambda number: number > 0
        if self.tolerance is not None:
            check_number("tolerance", self.tolerance, "a number above 0", above)
        scale = self.output_scale
        sizes: list[tuple[str | None, Any]] = list(scale.items()) if isinstance(scale, Mapping) else [(None, scale)]
        for at, size in sizes:
            if at is not None or size is not None:
                check_number("output_scale", size, "a number above 0", above, None if at is None else repr(at))

    @property
    def quick(self) -> bool:
        """Whether only the error and its noise floor are measured."""
        return self.effort == "quick"

    @property
    def bootstrap(self) -> BootstrapSettings:
        """Settings of the bootstrap intervals."""
        return BootstrapSettings(self.confidence, self.resamples, self.seed)


class Keywords(TypedDict, total=False):
    """The fields of `AuditSettings`, for type checkers."""

    elements: int | None
    batch_size: int | None
    effort: Effort
    inputs: InputKinds
    layout: Layout | None
    outputs: OutputKind
    select: str | int | None
    off_data: bool | Mapping[str, Any]
    layers: Sequence[Any] | bool
    train: tuple[Any, Any] | None
    relative_to: RelativeTo
    tolerance: float | None
    output_scale: float | Mapping[str, float] | None
    confidence: float
    resamples: int
    seed: int


_CHOICES: dict[str, tuple[Any, ...]] = {
    "effort": get_args(Effort),
    "layout": (None, *get_args(Layout)),
    "outputs": get_args(OutputKind),
    "relative_to": get_args(RelativeTo),
}
_QUICK: dict[str, Any] = {"off_data": False, "layers": False, "resamples": 200}
"""Defaults of a quick audit."""


def settings_of(given: Mapping[str, Any]) -> AuditSettings:
    """The settings of these keywords; InvalidTypeError, with the nearest known one, for others."""
    known = [field.name for field in fields(AuditSettings)]
    for name in given:
        if name not in known:
            suggestion = meant(name, [*known, "y", "progress", "output_action"])
            raise InvalidTypeError("audit", name, [*known, "y", "progress"], suggestion, verb="has no argument")
    return AuditSettings(**{**(_QUICK if given.get("effort") == "quick" else {}), **given})
