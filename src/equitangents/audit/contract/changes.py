"""Transforms by a strength that form no group, such as speed, gain or brightness: f(T_s x) against f(x).

Without products and inverses, only the change of outputs at every strength is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, final

import jax
import numpy as np
import numpy.typing as npt

from equitangents._types import AnyAction
from equitangents.audit.contract.kinds import unmoved
from equitangents.audit.contract.leaf_actions import Actions, LeafAction
from equitangents.audit.contract.trees import InputLeaves, Shared, to_numpy
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError


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
    >>> report.verdict, [element.parameter for element in report.elements]
    ('equivariant', [0.5, 0.9, 1.1, 2.0])
    """

    def __init__(self, fn: Callable[[Any, float], Any], strengths: npt.ArrayLike, *, name: str | None = None) -> None:
        if not callable(fn):
            raise InvalidTypeError("fn", fn, "a function fn(x, strength)")
        own = getattr(fn, "__name__", type(fn).__name__)
        self.fn, self.strengths = fn, _check_strengths(strengths)
        self.elements = self.strengths  # in place of group elements; there are no inverses
        self.name = name or ("the transform" if own == "<lambda>" else own)

    identity: Any = None
    default_draws = 0

    def inverse(self, s: float | None) -> Any:
        """The strength itself, a placeholder: there is no inverse."""
        return s

    def label(self, s: float | None) -> str:
        """The transform's name and the strength."""
        return "as given" if s is None else f"{self.name} {s:g}"

    def parameter(self, s: float | None) -> Any:
        """The strength as a plain number."""
        return s

    def __repr__(self) -> str:
        return f"equitangents.audit.Transform({self.name!r}, {self.strengths})"


class Changes(Actions):
    """T_s of inputs, in place of a group action."""

    def __new__(cls, transform: AnyAction, like: InputLeaves) -> Changes:
        """The changes of a `Transform`, for inputs like these."""
        stays = LeafAction(unmoved(transform, "stays"), title=f"changed by {transform.name}")
        made = super().__new__(cls, (None if isinstance(a, Shared) else stays for a in like.leaves))
        made.transform, made.like = transform, like
        return made

    transform: AnyAction
    """Also where a group would be."""
    like: InputLeaves

    def act(self, g: float | None, arrays: Iterable[Any]) -> list[Any]:
        """T_s of one batch; unchanged for None."""
        if g is None:
            return list(arrays)
        part = self.like.replaced(list(arrays))
        changed, structure = jax.tree.flatten(self.transform.fn(part.tree(), g))
        if structure != part.structure and len(changed) != len(part.leaves):
            raise InvalidTypeError(f"fn(x, {g:g})", f"{len(changed)} arrays", f"{len(part.leaves)}, as many as inputs")
        axes = part.axes or (0,) * len(part.leaves)
        moved: list[Any] = []
        for before, after, axis in zip(part.leaves, changed, axes, strict=True):
            if isinstance(before, Shared):
                moved.append(before)
                continue
            array = to_numpy(after, self.transform.name)
            array = np.ascontiguousarray(np.moveaxis(array, axis, 0)) if axis and array.ndim > axis else array
            if array.ndim != before.ndim or len(array) != len(before):
                raise ShapeError("fn(x, strength)", array.shape, f"{before.ndim} axes and {len(before)} inputs")
            moved.append(array.astype(before.dtype) if before.dtype.kind == array.dtype.kind == "f" else array)
        return moved

    def orbit(self, elements: Sequence[float | None], arrays: Sequence[Any]) -> Iterator[list[Any]]:
        """T_s of one batch for every strength."""
        return (self.act(s, arrays) for s in elements)


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
