"""Checks of what the molecular kernels and regressors are given; each error names the argument and what it may be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equitangents._types import Numbers
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.molecules.molecules import Molecules
from equitangents.molecules.signals import AtomSignals
from equitangents.validation import check_choice

_ZERO = 1e-6  # of the largest number given: what symmetry forbids may be off by rounding and by the data's own digits


def check_molecules(name: str, value: object) -> None:
    """Raise InvalidTypeError unless these are Molecules."""
    if not isinstance(value, Molecules):
        raise InvalidTypeError(name, type(value), "equitangents.molecules.Molecules", verb="is of type")


def check_question(net: object, method: str, signals: object, pairs: object) -> None:
    """Raise unless the network has the method that is needed, and signals and pairs are such."""
    if not callable(getattr(net, method, None)):
        raise InvalidTypeError("net", net, "a network on spherical signals, with", method)
    if not (signals is None or isinstance(signals, AtomSignals)):
        raise InvalidTypeError("signals", signals, "AtomSignals or None")
    check_choice("pairs", pairs, ("same element", "all"))


def checked_targets(name: str, values: Numbers, *shapes: tuple[int, ...]) -> np.ndarray:
    """Targets as finite float64 numbers of one of these shapes."""
    try:
        values = np.asarray(values)
    except ValueError as error:
        raise ShapeError(name, "entries of unequal shape", "a rectangular array", str(error), verb="has") from None
    if values.shape not in shapes:
        raise ShapeError(name, values.shape, " or ".join(map(str, shapes)))
    if values.dtype.kind not in "fiu":
        raise InvalidTypeError(name, values.dtype, "real numbers", verb="has dtype")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        first = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InvalidArgumentError(
            name, first, remedy="remove or impute them", verb="holds NaN or infinite values, the first at index"
        )
    return values


def check_lone_atoms(
    name: str, values: np.ndarray, molecules: Molecules, symmetric: Callable[[np.ndarray], np.ndarray], rule: str
) -> None:
    """Raise where a molecule of one atom has a target that its symmetry forbids; `symmetric` is what it allows."""
    lone = np.flatnonzero(molecules.sizes == 1)
    excess = np.abs(values[lone] - symmetric(values[lone])).max(axis=tuple(range(1, values.ndim)))
    wrong = lone[excess > _ZERO * np.abs(values).max(initial=0.0)]
    if len(wrong):
        raise InvalidArgumentError(
            name, values[wrong[0]].tolist(), rule, "of a lone atom, by symmetry", at=int(wrong[0])
        )
