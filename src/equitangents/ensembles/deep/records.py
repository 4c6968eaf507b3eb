"""Parameters of deep ensembles that belong together: how members are trained, and where training is saved.

An ensemble holds the two records; their entries can also be given, read and set by names of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any, TypedDict, overload

import optax

from equitangents.errors import InvalidTypeError
from equitangents.keywords import CheckedKeywords, given_twice, unknown


@dataclass(frozen=True)
class Training(CheckedKeywords):
    """How every member of a `DeepEnsemble` is trained.

    Args:
        optimizer: "gd", full-batch gradient descent, whose k-th epoch is gradient-flow time k at this learning rate;
            "sgd", "momentum", "adam"; or an `optax.GradientTransformation`, which takes neither learning_rate nor
            momentum from here.
        learning_rate: η of the loss L = (1/2N) Σ_i |f(x_i) − y_i|² ("mse"), N the samples of a batch; not divided by
            the number of outputs.
        epochs: passes over the data; with "gd" one step each. 0 leaves the members at initialisation.
        batch_size: samples a step; None: all for "gd", else 32. The last batch of an epoch may be smaller.
        momentum: of "momentum".
        loss: "mse", or "cross_entropy" for targets that are probabilities and outputs that are logits; None: "mse" for
            regression, "cross_entropy" for classification.
        equivariance_penalty: γ; with full augmentation (γ/2|G|) Σ_g |ρ_Y(g)⁻¹ f(ρ_X(g) x) − ū(x)|² is added to the loss
            of every sample, ū the mean of the terms over g. Of "mse" down to −1, where only ū is trained.

    >>> import equitangents as et
    >>> et.ensembles.Training(optimizer="adam", learning_rate=0.01).epochs
    100
    """

    optimizer: str | optax.GradientTransformation = "sgd"
    learning_rate: float = 0.1
    epochs: int = 100
    batch_size: int | None = None
    momentum: float = 0.9
    loss: str | None = None
    equivariance_penalty: float = 0.0


@dataclass(frozen=True)
class Checkpoints(CheckedKeywords):
    """Where a `DeepEnsemble` saves its training, to go on from there with `fit(resume=True)`.

    Args:
        folder: the directory; None: nothing is saved.
        every: epochs between checkpoints; the last epoch always has one.

    >>> import equitangents as et
    >>> et.ensembles.Checkpoints("runs/digits")
    Checkpoints(folder='runs/digits', every=10)
    """

    folder: str | PathLike[str] | None = None
    every: int = 10


class Shorthands(TypedDict, total=False):
    """Entries of the records by names of their own."""

    optimizer: str | optax.GradientTransformation
    learning_rate: float
    epochs: int
    batch_size: int | None
    momentum: float
    loss: str | None
    equivariance_penalty: float
    checkpoint_dir: str | PathLike[str] | None
    checkpoint_every: int


RECORDS: dict[str, type[Training] | type[Checkpoints]] = {"training": Training, "checkpoints": Checkpoints}
ENTRIES: dict[str, tuple[str, str]] = {
    **{field.name: ("training", field.name) for field in fields(Training)},
    "checkpoint_dir": ("checkpoints", "folder"),
    "checkpoint_every": ("checkpoints", "every"),
}
"""Of every shorthand: its record, and its name there."""


class Entry:
    """An attribute that reads and sets one entry of a record."""

    def __init__(self, shorthand: str) -> None:
        self.record, self.field = ENTRIES[shorthand]

    @overload
    def __get__(self, ensemble: None, owner: type) -> Entry: ...
    @overload
    def __get__(self, ensemble: object, owner: type) -> Any: ...
    def __get__(self, ensemble: object | None, owner: type) -> Any:
        return self if ensemble is None else getattr(held(ensemble, self.record), self.field)

    def __set__(self, ensemble: object, value: Any) -> None:
        setattr(ensemble, self.record, replace(held(ensemble, self.record), **{self.field: value}))


def held(ensemble: object, name: str) -> Training | Checkpoints:
    """The record of an ensemble, the usual one where it is None; InvalidTypeError if it is something else."""
    value, kind = getattr(ensemble, name), RECORDS[name]
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise InvalidTypeError(
            name,
            value,
            f"None or equitangents.ensembles.{kind.__name__}({', '.join(f'{field.name}=' for field in fields(kind))})",
        )
    return value


def entries_of(ensemble: object) -> dict[str, Any]:
    """All entries of the records as parameters: "training__epochs" and "epochs"."""
    found = {}
    for shorthand, (name, field) in ENTRIES.items():
        given = getattr(ensemble, name)
        record = RECORDS[name]() if given is None else given
        if isinstance(record, RECORDS[name]):
            found[f"{name}__{field}"] = found[shorthand] = getattr(record, field)
    return found


def check_given_once(
    records: Mapping[str, Any], entries: Mapping[str, Any], harmless: Callable[[Any, Any], bool] = lambda *_: False
) -> None:
    """Raise InvalidArgumentError if an entry is given along with its record, unless the two values are `harmless`."""
    for shorthand, value in entries.items():
        name, field = ENTRIES[shorthand]
        record = records.get(name)
        if record is not None and not harmless(getattr(record, field, None), value):
            raise given_twice(name, RECORDS[name], shorthand, field, value)


def check_nested(names: Iterable[str]) -> None:
    """Raise InvalidArgumentError for names such as "training__epoch", which no record has."""
    for name in names:
        record, nested, field = name.partition("__")
        known = [field.name for field in fields(RECORDS[record])] if record in RECORDS else []
        if nested and known and field not in known:
            raise unknown(record, field, known)
