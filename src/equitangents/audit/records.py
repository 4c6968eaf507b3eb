"""Arguments of `audit`: how actions may be given, and records of those that belong together.

The records say how the model is read, what is looked at, and how it is judged; `audit` takes them, and their entries
can also be given to it by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypedDict, get_args

import numpy as np

from equitangents.actions.action import GroupAction
from equitangents.audit.contract.changes import Transform
from equitangents.audit.contract.kinds import Boxes, Custom, Keypoints, Labels
from equitangents.audit.contract.trees import Batch, Layout
from equitangents.audit.contract.unordered import Unordered
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.representations import RepresentationLike
from equitangents.keywords import CheckedKeywords, given_twice, meant
from equitangents.metrics.measure import Bootstrap

AuditedAction = str | GroupAction | Transform | Sequence[Any] | Mapping[str, Any]
"""The name of a group, an action, or a change; of several inputs a tuple or dictionary of actions and None."""

OutputAction = (
    str
    | GroupAction
    | RepresentationLike
    | Labels
    | Boxes
    | Keypoints
    | Unordered
    | Custom
    | Batch
    | Sequence[Any]
    | Mapping[str, Any]
    | None
)
"""What a group does to outputs: an action, a representation, a kind ("vectors"), a rule; of several outputs a tree."""


Effort = Literal["quick", "full"]
OutputKind = Literal["auto", "values", "logits", "probabilities"]
RelativeTo = Literal["larger", "norm", "spread"]


@dataclass(frozen=True)
class InputSpec(CheckedKeywords):
    """How an audit reads inputs and outputs.

    Args:
        inputs: with a named group, what each input is to it: "images", "vectors", "points", …, None for not moved.
        layout: where images keep channels, "channels_last" or "channels_first". None: of PyTorch and ONNX models it is
            read off the ONNX file or the shape of x, and must be given where these leave a doubt, (N, 8, 8, 8); of
            others channels are last, unless x looks like channels first, which is an error.
        output_layout: the same for outputs that are images, if different.
        outputs: what the model returns; "auto" recognises probabilities and takes everything else as values.
        method: which method of an estimator gives its outputs; None: predict_proba, decision_function or predict.
        select: which output is audited, of a model that returns several: its name ("logits"; "a.b" within another), or
            its position; None: all of them. Dictionaries of any class, dataclasses and named tuples have names.
    """

    inputs: str | Custom | Sequence[Any] | Mapping[str, Any] | None = None
    layout: Layout | None = None
    output_layout: Layout | None = None
    outputs: OutputKind = "auto"
    method: str | None = None
    select: str | int | None = None

    def __post_init__(self) -> None:
        kinds = get_args(OutputKind)
        if self.outputs not in kinds:
            raise InvalidArgumentError("outputs", self.outputs, ", ".join(map(repr, kinds)))
        for name, value in (("layout", self.layout), ("output_layout", self.output_layout)):
            if value not in (None, "channels_last", "channels_first"):
                raise InvalidArgumentError(name, value, "'channels_last' or 'channels_first'")


@dataclass(frozen=True)
class Parts(CheckedKeywords):
    """What an audit looks at besides the error on the data.

    Args:
        off_data: True: also noise and shuffled inputs; or other sets by name; False: the data alone.
        layers: False: do not look inside; or functions that make up the model when they are applied one after another.
        train: (x, y) to refit an estimator on, with augmentation, to measure what that would bring.
        data_test: how the data's own symmetry is tested; None: not at all.
    """

    off_data: bool | Mapping[str, Any] = True
    layers: Sequence[Any] | bool = True
    train: tuple[Any, Any] | None = None
    data_test: Literal["kernel"] | None = "kernel"

    def __post_init__(self) -> None:
        if self.data_test not in (None, "kernel"):
            raise InvalidArgumentError("data_test", self.data_test, "'kernel' or None")


@dataclass(frozen=True)
class Tolerances(CheckedKeywords):
    """What an audit's verdict goes by.

    Args:
        relative_to: what the headline's error and the verdict are relative to: "norm", ‖f(x)‖; "spread", the root mean
            square distance of f(x) from its mean over the inputs; "larger", that of both that gives the larger error.
        tolerance: the mean error that is acceptable under every element, 0.01 for 1 %; None: none above the floor.
        output_scale: the size of outputs that counts as 100 %, in their own unit, in place of both; a number for all
            outputs, or numbers by the names of some. For outputs that vanish, as forces of a relaxed crystal do.
    """

    relative_to: RelativeTo = "larger"
    tolerance: float | None = None
    output_scale: float | Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        kinds = get_args(RelativeTo)
        if self.relative_to not in kinds:
            raise InvalidArgumentError("relative_to", self.relative_to, ", ".join(map(repr, kinds)))
        values = {"tolerance": self.tolerance, "output_scale": self.output_scale}
        if isinstance(self.output_scale, Mapping):
            values |= {"output_scale": None} | {f"output_scale[{k!r}]": v for k, v in self.output_scale.items()}
        for name, value in values.items():
            if value is None and name in ("tolerance", "output_scale"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise InvalidTypeError(name, value, "a number above 0")
            if not (value > 0 and math.isfinite(value)):
                raise InvalidArgumentError(name, value, "a number above 0")


class Shorthands(TypedDict, total=False):
    """Entries of the records by themselves."""

    inputs: str | Custom | Sequence[Any] | Mapping[str, Any] | None
    layout: Layout | None
    output_layout: Layout | None
    outputs: OutputKind
    method: str | None
    select: str | int | None
    off_data: bool | Mapping[str, Any]
    layers: Sequence[Any] | bool
    train: tuple[Any, Any] | None
    data_test: Literal["kernel"] | None
    relative_to: RelativeTo
    tolerance: float | None
    output_scale: float | Mapping[str, float] | None
    confidence: float
    resamples: int
    seed: int


_KINDS: dict[str, Any] = {"input_spec": InputSpec, "parts": Parts, "tolerances": Tolerances, "bootstrap": Bootstrap}
_ENTRIES = {field.name: record for record, kind in _KINDS.items() for field in fields(kind)}
_OTHERS = ("y", "elements", "batch_size", "progress", "effort", *_KINDS)
_QUICK: dict[str, Any] = {"off_data": False, "layers": False, "data_test": None, "resamples": 200}
"""What entries are in a quick audit that are not given."""


def gather(
    records: Mapping[str, Any], entries: Mapping[str, Any], effort: Effort = "full"
) -> tuple[InputSpec, Parts, Tolerances, Bootstrap]:
    """The four records, each as it is or made of its entries; with quick effort other parts are left out by default.

    Raises InvalidTypeError for unknown names and for anything but such a record, InvalidArgumentError for an
    entry that is given along with its record, and for values that cannot be used.
    """
    if effort not in get_args(Effort):
        raise InvalidArgumentError("effort", effort, "'quick' or 'full'")
    for name in entries:
        if name not in _ENTRIES:
            known = [*_OTHERS, *_ENTRIES]
            said = meant(name, [*known, "output_action"])
            raise InvalidTypeError("audit", name, known, said, verb="has no argument")
    made: list[Any] = []
    for name, kind in _KINDS.items():
        record = records.get(name)
        if record is not None and not isinstance(record, kind):
            raise InvalidTypeError(name, record, f"None or equitangents.audit.{kind.__name__}(...)")
        own = {entry: value for entry, value in entries.items() if _ENTRIES[entry] == name}
        if record is not None and own:
            entry, value = next(iter(own.items()))
            raise given_twice(name, kind, entry, entry, value)
        usual = {k: v for k, v in _QUICK.items() if effort == "quick" and _ENTRIES[k] == name}
        made.append(kind(**{**usual, **own}) if record is None else record)
    return tuple(made)
