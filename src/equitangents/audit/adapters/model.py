"""What an audit asks of a model: outputs for a batch; if it can, outputs in double precision and of every layer."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from equitangents.audit.contract.trees import to_numpy
from equitangents.errors import NotFiniteError, ShapeError


@dataclass(frozen=True, eq=False)
class Answer:
    """The arrays that a model returned, each (N, …) float64, their tree, and the type they came in."""

    leaves: tuple[np.ndarray, ...]
    structure: Any
    dtype: np.dtype
    whole: tuple[bool, ...] = ()
    """Which arrays came as whole numbers (N,): class numbers, unless the audit is told that they are values."""


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """What one layer read and made."""

    name: str
    kind: str
    inputs: np.ndarray | None
    outputs: np.ndarray


class Model(ABC):
    """One model; `run(x)` takes the tree of a batch, NumPy leaves, and returns the model's own output."""

    kind: str
    name: str
    device: str = "cpu"
    states_layout: bool = False
    """Whether the layout of images must be stated, as the field has no habit for such models."""
    fixed_batch: int | None = None
    """Not None: the model takes batches of this size alone."""

    @property
    def classes(self) -> np.ndarray | None:
        """The labels that the columns of the output stand for; None: 0, 1, 2, …, or no classes."""
        return None

    @abstractmethod
    def run(self, x: Any) -> Any:
        """The model's output for one batch."""

    def double(self) -> Callable[[Any], Any] | None:
        """`run` in double precision for float64 inputs; None if the model cannot."""
        return None

    def trace(self, x: Any) -> list[LayerTrace] | None:
        """Every layer's output for one batch, in order of execution; None if the model does not show its layers."""
        return None

    @contextlib.contextmanager
    def ready(self) -> Iterator[None]:
        """Within it the model is ready to be evaluated; afterwards it is as it was."""
        yield

    def members(self) -> list[Model] | None:
        """The members of an ensemble whose mean this model is; None for single models."""
        return None


def answer(output: Any, n: int, what: str = "f(x)") -> Answer:
    """A model's output as arrays; raises if it has not one finite row an input."""
    leaves, structure = jax.tree.flatten(output)
    arrays = [to_numpy(leaf) for leaf in leaves]
    if not arrays:
        raise ShapeError(f"{what} holds no array")
    for a in arrays:
        if a.dtype.kind not in "fiub":
            raise ShapeError(f"{what} has dtype {a.dtype}; expected numbers (of a classifier: scores, not names)")
        if a.ndim == 0 or len(a) != n:
            raise ShapeError(f"{what} has shape {a.shape} for {n} inputs; expected one row an input")
        if not np.isfinite(a).all():
            raise NotFiniteError(f"{what} holds NaN or infinite values")
    floats = [a.dtype for a in arrays if a.dtype.kind == "f"]
    dtype = min(floats, key=lambda d: d.itemsize) if floats else np.dtype(np.float64)
    whole = tuple(a.ndim == 1 and a.dtype.kind in "iub" for a in arrays)
    return Answer(tuple(a.astype(np.float64) for a in arrays), structure, dtype, whole)
