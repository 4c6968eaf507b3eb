"""Changes of inputs by a strength that form no group, such as speed, gain or brightness: f(T_s x) beside f(x).

There are no products and no inverses: nothing is asked but how far outputs move at every strength.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np
import numpy.typing as npt

from equitangents._types import AnyAction
from equitangents.audit.contract.leaf_actions import Actions, LeafAction
from equitangents.audit.contract.trees import Batch, Inputs, Shared, to_numpy
from equitangents.audit.contract.unordered import PixelClasses, Stays, as_sets
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import SymmetryGroup


@final
class Transform:
    """A change of the inputs by a strength, without a group's law; takes the place of a group in an audit.

    Args:
        fn: a function of the inputs and one strength, fn(x, s), batches in and batches out, NumPy.
        strengths: the strengths to try.
        name: what it is called in reports; None: the function's own name.

    >>> import equitangents as et
    >>> x = np.random.default_rng(0).normal(size=(20, 50))
    >>> loudness = et.audit.Transform(lambda x, s: x * s, [0.5, 0.9, 1.1, 2.0], name="gain")
    >>> report = et.audit(lambda x: (x > 0).mean(1), loudness, x, off_data=False)
    >>> report.verdict, [point.strength for point in report.transforms[0].points]
    ('equivariant', [0.5, 0.9, 1.1, 2.0])
    """

    def __init__(self, fn: Callable[[Any, float], Any], strengths: npt.ArrayLike, *, name: str | None = None) -> None:
        if not callable(fn):
            raise InvalidTypeError("fn", fn, "a function fn(x, strength)")
        own = getattr(fn, "__name__", type(fn).__name__)
        self.fn, self.strengths = fn, _check_strengths(strengths)
        self.name = name or ("the transform" if own == "<lambda>" else own)

    def __repr__(self) -> str:
        return f"equitangents.audit.Transform({self.name!r}, {self.strengths})"


@final
class Strengths:
    """The strengths of a transform, in place of the elements of a group; none undoes another."""

    identity: Any = None
    default_draws = 0
    draws_are_independent = False

    def __init__(self, transform: Transform):
        self.elements, self._name = transform.strengths, transform.name
        low, high = min(self.elements), max(self.elements)
        self.name = f"{self._name} from {low:g} to {high:g}" if low < high else f"{self._name} of {low:g}"

    def inverse(self, s: float | None) -> Any:
        """There is none; the strength itself, which whoever asks must not use."""
        return s

    def label(self, s: float | None) -> str:
        """The transform's name and the strength."""
        return "as given" if s is None else f"{self._name} {s:g}"

    def parameter(self, s: float | None) -> Any:
        """The strength as a plain number."""
        return s


@dataclass(frozen=True, eq=False)
class Changes:
    """T_s of inputs, and outputs that should stay."""

    group: SymmetryGroup
    """The `Strengths`, where a group would be."""
    transform: Transform
    like: Inputs

    def move(self, s: float | None, leaves: Sequence[Any]) -> list[Any]:
        """T_s of one batch; None, as it is given."""
        if s is None:
            return list(leaves)
        name, part = self.transform.name, self.like.replaced(leaves)
        changed, structure = jax.tree.flatten(self.transform.fn(part.tree(), s))
        if structure != part.structure and len(changed) != len(part.leaves):
            raise InvalidTypeError(f"fn(x, {s:g})", f"{len(changed)} arrays", f"{len(part.leaves)}, as many as inputs")
        axes = part.axes or (0,) * len(part.leaves)
        found: list[Any] = []
        for before, after, axis in zip(part.leaves, changed, axes, strict=True):
            if isinstance(before, Shared):
                found.append(before)
                continue
            array = to_numpy(after, name)
            array = np.ascontiguousarray(np.moveaxis(array, axis, 0)) if axis and array.ndim > axis else array
            if array.ndim != before.ndim or len(array) != len(before):
                raise ShapeError("fn(x, strength)", array.shape, f"{before.ndim} axes and {len(before)} inputs")
            found.append(array.astype(before.dtype) if before.dtype.kind == array.dtype.kind == "f" else array)
        return found

    def output_actions(
        self, given: Sequence[Any], leaves: Sequence[np.ndarray], complex_pairs: Sequence[bool]
    ) -> Actions:
        """What every output should do under the transform: stay the same, with sets and masks compared as such."""
        found: list[LeafAction | None] = []
        for i, (part, y) in enumerate(zip(given, leaves, strict=True)):
            kind = part.value if isinstance(part, Batch) else part
            sets = as_sets(kind)
            if sets is not None:
                sets.check("f(x)", y)
            compared = PixelClasses() if isinstance(kind, str) and kind == "masks" else sets and sets.comparison
            action = Stays(self.group, "stays" if sets is None else "sets in any order")
            paired = bool(complex_pairs) and complex_pairs[i]
            found.append(None if compared is None else LeafAction(action, compared=compared, complex_pairs=paired))
        return Actions(found)


def changes_of(transform: AnyAction, x: Inputs) -> Changes:
    """The changes of a `Transform`, for inputs like x."""
    group: SymmetryGroup = Strengths(transform)  # type: ignore[assignment]
    return Changes(group, transform, x)


def _check_strengths(strengths: npt.ArrayLike) -> list[float]:
    try:
        values = np.atleast_1d(np.asarray(strengths, np.float64))
    except (TypeError, ValueError):
        raise InvalidTypeError("strengths", strengths, "numbers") from None
    if values.ndim != 1 or not values.size or not np.isfinite(values).all():
        raise InvalidArgumentError("strengths", strengths, "a list of finite numbers")
    if len(np.unique(values)) != len(values):
        raise InvalidArgumentError("strengths", strengths, "every strength once")
    return [float(v) for v in np.sort(values)]
