"""Actions of finite groups on arrays: maps ρ(g) with ρ(g) ρ(h) = ρ(g·h) and ρ(e) = 1; the interface of all actions.

On signals, (ρ(g) f)(x) = f(g⁻¹ x): the signal is carried along with the positions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, Self, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equitangents import precision
from equitangents._types import ArrayLike, Element, Elements, Tree
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotAnActionError, ShapeError
from equitangents.groups import Group, SymmetryGroup
from equitangents.groups.group import GroupMap
from equitangents.memory import check_fits
from equitangents.validation import check_array

TOLERANCE = 1e-8  # by which M(g) M(h) and M(g·h) may differ, relative to the largest entry


class GroupAction(ABC):
    """An action of `group` on batches of signals x (N, …); immutable and hashable. Equal actions are the same map."""

    group: SymmetryGroup
    name: str
    exact: bool = True
    """Whether ρ(g) ρ(h) = ρ(g·h) holds to rounding; False for resampled images."""
    channels_last: bool = False
    """Whether signals are images or grids (N, *positions, C), so that a model may keep their channels elsewhere."""
    permutes_entries: bool = False
    """Whether the entries of the last axis change places, so that scores of classes stay scores."""
    needs_floats: bool = False
    """Whether whole numbers cannot be moved."""
    linear: bool = False
    """Whether ρ(g) is known to be linear, where `moves` does not say so."""
    mask: str | None = None
    """What of an image is set to zero by every element, the identity too."""

    @abstractmethod
    def __call__(self, g: Element, x: Tree) -> Tree:
        """ρ(g) x for signals x (N, …)."""

    @abstractmethod
    def orbit(self, x: Tree, elements: Elements = None) -> Tree:
        """ρ(g) x along a new first axis, for `elements`; by default for all nodes of the group."""

    def moves(self, g: Element, shape: Sequence[int]) -> tuple[np.ndarray, bool] | None:
        """(images of positions, whether values stay unchanged) of ρ(g) on signals of `shape`; None if not known.

        `shape` is (*positions, channels). If values change, all positions change by the same orthogonal matrix.
        For g = None of a compact group: what holds for every element.
        """
        return None

    def is_linear(self, shape: Sequence[int]) -> bool:
        """Whether ρ(g) is known to be linear on signals of `shape`, for every g."""
        return self.linear or self.moves(None, shape) is not None

    def is_isometry(self, g: Element, shape: Sequence[int]) -> bool:
        """Whether ρ(g) is known to keep the inner product of any two signals of `shape`."""
        return self.moves(g, shape) is not None

    @abstractmethod
    def verify(self, x: Tree) -> None:
        """Check on signals x that ρ(g) ρ(h) = ρ(g·h); raises NotAnActionError with a counterexample."""

    @abstractmethod
    def check_elements(self, elements: Elements, name: str = "elements") -> np.ndarray:
        """A non-empty list of elements as an array in the group's own format, or an error that names `name`."""

    def _key(self) -> tuple[Any, ...]:
        """A hashable value that, with type and group, identifies the map: by default all attributes but the name."""
        kept = {k: v for k, v in vars(self).items() if not k.startswith("_") and k not in ("group", "name")}
        return tuple((v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for _, v in sorted(kept.items()))

    def check_signals(self, name: str, x: np.ndarray) -> None:
        """Raise ShapeError or InvalidTypeError, naming `name`, unless the action applies to x."""
        try:
            self(self.group.identity, x[:1, None] if x.ndim == 1 else x[:1])
        except (ShapeError, InvalidTypeError) as error:
            raise type(error)(f"{name}, shape {x.shape}: {error}") from None

    def one_by_one(self, elements: Sequence[Element], x: Tree) -> Iterator[Any]:
        """Yield ρ(g) x for each element."""
        for g in elements:
            yield self(g, x)

    def angle(self, g: Element) -> float | None:
        """Rotation angle in degrees if ρ(g) is a rotation, else None."""
        return self.group.angle(g)

    def moves_exactly(self, g: Element) -> bool:
        """Whether ρ(g) moves values without resampling them."""
        return self.exact

    def more_accurate(self) -> GroupAction | None:
        """This action with a more accurate interpolation; None if there is none."""
        return None

    def in_numpy(self) -> GroupAction:
        """This action for NumPy arrays, in its fastest form for many elements."""
        return self

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, GroupAction) or type(self) is not type(other):
            return False
        return self._key() == other._key() and self.group == other.group

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, self.group, self._key()))

    def __hash__(self) -> int:
        return self._hash

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"actions are immutable; cannot set {name}")

    def __repr__(self) -> str:
        return f"<action {self.name} of {self.group.name}{'' if self.exact else ', resampled'}>"


def is_infinite(action: object) -> TypeGuard[GroupMap]:
    """Whether the group of `action` has no list of elements, so that sums over all of them are impossible."""
    group = getattr(action, "group", None)
    return isinstance(group, SymmetryGroup) and group.elements is None


_VERIFIED_PAIRS = 256


class CheckedAction(GroupAction):
    """An action that checks elements and signals; subclasses implement `_act` for one element and checked signals."""

    @abstractmethod
    def _check_signals(self, x: Tree) -> ArrayLike:
        """`x` as an array on which the action is defined, or an error that names x."""

    @abstractmethod
    def _act(self, g: Element, x: Tree) -> Tree:
        """ρ(g) x for a checked element and checked signals, NumPy or JAX."""

    @abstractmethod
    def _pairs(self) -> Iterator[tuple[Element, Element]]:
        """Pairs (g, h) for which `verify` checks ρ(g) ρ(h) = ρ(g·h)."""

    def __call__(self, g: Element, x: Tree) -> Tree:
        """ρ(g) x for signals x (N, …)."""
        if not precision.is_traced(g):
            g = self.group.check_element("g", g)
        x = self._check_signals(x)
        with scope_of(x):
            y = self._act(g, x)
        return np.array(y) if isinstance(x, np.ndarray) and not precision.is_traced(y) else y

    def orbit(self, x: Tree, elements: Elements = None) -> Tree:
        """ρ(g) x along a new first axis, (N, …) → (elements, N, …), for `elements`; by default for the group's nodes.

        The nodes are all elements of a finite group, or the quadrature nodes of a compact one. Raises MemoryLimitError
        if the copies do not fit in memory.
        """
        chosen = self._nodes() if elements is None else self.check_elements(elements)
        x = self._check_signals(x)
        check_orbit(len(chosen), x)
        with scope_of(x):
            return self._orbit(chosen, x)

    def _orbit(self, elements: np.ndarray, x: Tree) -> Tree:
        images = [self._act(g.item() if g.ndim == 0 else g, x) for g in elements]
        return np.stack(images) if isinstance(x, np.ndarray) else jnp.stack(images)

    def _nodes(self) -> np.ndarray:
        nodes = self.group.nodes
        if nodes is None:
            raise InvalidTypeError(
                "group",
                self.group,
                "a group with a quadrature",
                "give elements, or draw some: actions.sampled(action, count)",
            )
        return np.asarray(nodes)

    def verify(self, x: Tree) -> None:
        """Check on signals x that ρ(e) x = x and ρ(g) ρ(h) x = ρ(g·h) x.

        Raises NotAnActionError with the witness. For a finite group g runs over generators, which suffices for all g.
        For large groups h is sampled; for compact ones both are. Actions that declare themselves inexact are not
        checked for products.
        """
        x = self._check_signals(x)
        if not self.exact:
            return
        e = self.group.identity
        scale = max(float(np.abs(np.asarray(x)).max()), float(np.finfo(np.float32).tiny))
        tolerance = scale * (1e-8 if np.dtype(x.dtype) == np.float64 else 1e-4)
        error = _distance(self(e, x), x)
        if not error <= tolerance:
            raise NotAnActionError(
                self.name, error, "ρ(e) x = x", verb="is off by", at=e if isinstance(e, int) else None
            )
        for g, h in self._pairs():
            error = _distance(self(g, self(h, x)), self(self.group.compose(g, h), x))
            if not error <= tolerance:
                at = (g, h) if isinstance(g, int) else (self.group.label(g), self.group.label(h))
                raise NotAnActionError(self.name, error, "ρ(g) ρ(h) x = ρ(g·h) x", verb="is off by", at=at)


class Action(CheckedAction):
    """An action of a finite `group` on batches of signals. NumPy in, NumPy out; JAX in, JAX out; works under jit.

    `action(g, x)` applies element g (a Python int) to every signal of x (N, ...); `action.orbit(x)` applies all.
    Actions are immutable and hashable. Equal actions are the same map.
    """

    group: Group
    permutes_positions: bool = False
    """Whether signals are carried along by a permutation of positions."""

    @property
    def matrices(self) -> Float[np.ndarray, "order d d"] | None:
        """The representation matrices of an action on the last axis; None for other actions."""
        return None

    def position_table(self, shape: Sequence[int]) -> Int[np.ndarray, "order positions"] | None:
        """table[g, x] = index of the position g·x, for an action that permutes positions; None for others.

        `shape` is that of one signal, (*positions, channels) or (*positions,); positions count in row-major order.
        """
        return None

    def is_linear(self, shape: Sequence[int]) -> bool:
        """Whether ρ(g) is known to be linear on signals of `shape`, for all g."""
        return self.linear or all(self.moves(int(g), shape) is not None for g in self.group.generators)

    def moves(self, g: int, shape: Sequence[int]) -> tuple[Int[np.ndarray, " positions"], bool] | None:
        """(identity permutation, False) if ρ(g) is an orthogonal matrix on the last axis; None otherwise."""
        if self.matrices is None:
            return None
        M = self.matrices[g]
        if not np.abs(M @ M.T - np.eye(len(M))).max(initial=0.0) <= TOLERANCE:
            return None
        return np.arange(int(np.prod(shape[:-1], dtype=np.int64))), bool(((M == 0) | (M == 1)).all())

    def __call__(self, g: int, x: Tree) -> Tree:
        """ρ(g) x for signals x (N, ...)."""
        if precision.is_traced(g):
            raise InvalidTypeError("g", type(g), "a Python int", verb="is of type")
        return super().__call__(g, x)

    def check_elements(self, elements: Elements, name: str = "elements") -> np.ndarray:
        """A non-empty list of elements as an array of element numbers, or an error that names `name`."""
        chosen = np.asarray(elements)
        if chosen.ndim != 1 or not len(chosen):
            raise InvalidArgumentError(name, chosen.shape, "a non-empty list of elements", verb="has shape")
        return self.group._check_elements(name, chosen)

    def _pairs(self) -> Iterator[tuple[int, int]]:
        order = self.group.order
        sample = np.arange(order)
        if order > _VERIFIED_PAIRS:
            sample = np.random.default_rng(0).choice(order, _VERIFIED_PAIRS, replace=False)
        return ((g, int(h)) for h in sample for g in self.group.generators)

    def resampling_error(self, x: Tree) -> Float[np.ndarray, "order n"]:
        """‖ρ(g⁻¹) ρ(g) x − ρ(e) x‖ / ‖ρ(e) x‖ for every g and signal, (|G|, N): the loss of rotating forth and back."""
        x = self._check_signals(x)
        start = np.asarray(self(self.group.identity, x), np.float64)
        axes = tuple(range(1, start.ndim))
        norm = np.maximum(np.sqrt((start**2).sum(axes)), np.finfo(np.float64).tiny)
        values = [
            np.sqrt(((np.asarray(self(self.group.inverse(g), self(g, x)), np.float64) - start) ** 2).sum(axes)) / norm
            for g in self.group
        ]
        return np.array(values)


class PositionAction(Action):
    """An action on signals (N, *positions, C) that moves each value along with its position.

    Subclasses define the number of position axes and where each position goes.
    """

    permutes_positions = True
    channels_last = True
    positions_rank: int

    @abstractmethod
    def _position_rows(self, g: Element, positions: tuple[int, ...]) -> np.ndarray:
        """table[g] for elements g: the row-major index of each position's image; `positions` is already checked."""

    @abstractmethod
    def _check_positions(self, name: str, positions: tuple[int, ...]) -> None:
        """Raise ShapeError if the action does not fit signals of these positions."""

    def _check_signals(self, x: Tree) -> ArrayLike:
        x = check_array("x", x, rank=self.positions_rank + 2)
        try:
            self._check_positions("x", x.shape[1:-1])
        except ShapeError as error:
            raise ShapeError(f"{error}{image_hint('x', x.shape)}") from None
        return x

    def position_table(self, shape: Sequence[int]) -> Int[np.ndarray, "order positions"]:
        """table[g, x] = row-major index of the position g·x on signals of `shape` = (*positions[, channels])."""
        shape = tuple(int(n) for n in shape)
        if len(shape) not in (self.positions_rank, self.positions_rank + 1):
            raise InvalidArgumentError("shape", shape, "the position axes, then optionally the channels")
        positions = shape[: self.positions_rank]
        self._check_positions("shape", positions)
        return self._position_rows(np.arange(self.group.order), positions)

    def moves(self, g: int, shape: Sequence[int]) -> tuple[np.ndarray, bool] | None:
        """(row g of the position table, True)."""
        return self._position_rows(int(g), tuple(int(n) for n in shape[:-1])), True

    def _gather(self, sources: np.ndarray, x: Tree) -> Tree:
        """x at the positions `sources` (..., P); the batch axis comes first."""
        return x.reshape(len(x), -1, x.shape[-1])[:, sources]

    def _act(self, g: int, x: Tree) -> Tree:
        # (ρ(g) f)(p) = f(g⁻¹ p): read at g⁻¹ p
        return self._gather(self._position_rows(self.group.inverse(g), x.shape[1:-1]), x).reshape(x.shape)

    def _orbit(self, elements: np.ndarray, x: Tree) -> Tree:
        rows = self._position_rows(self.group.inverses[elements], x.shape[1:-1])
        images = self._gather(rows, x)
        xp = np if isinstance(x, np.ndarray) else jnp
        return xp.moveaxis(images, 1, 0).reshape((len(elements), *x.shape))


def check_group(name: str, group: SymmetryGroup) -> Group:
    """`group`, or an error that names `name`."""
    if isinstance(group, SymmetryGroup) and not isinstance(group, Group):
        raise InvalidTypeError(
            name, group, "a finite group, such as octahedral() or icosahedral()", "actions.rotations takes others, too"
        )
    if not isinstance(group, Group):
        raise InvalidTypeError(name, type(group), "a group from equitangents.groups", verb="is of type")
    return group


def check_orbit(copies: int, x: Tree) -> None:
    """Raise MemoryLimitError if the orbit of signals x does not fit into memory."""
    if not precision.is_traced(x):
        task = f"{copies} moved copies of {len(x)} signals"
        check_fits(task, copies * x.size * x.dtype.itemsize, "move fewer signals, or by fewer elements, at a time")


def scope_of(x: Tree) -> AbstractContextManager[None]:
    """The precision scope for moving signals x."""
    # inside a trace the precision is the tracer's already
    return precision.scope(np.float32 if isinstance(x, np.ndarray) or precision.is_traced(x) else x.dtype)


def _distance(a: ArrayLike, b: ArrayLike) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def is_jax(x: Tree) -> bool:
    """Whether `x` is a JAX array, concrete or traced."""
    return isinstance(x, jax.Array)


def check_last_axis(x: ArrayLike, ranks: tuple[int, ...] | None, d: int, name: str) -> ArrayLike:
    """`x` as an array of one of `ranks` (None: any from 2 on) whose last axis has length d."""
    x = check_array("x", x, rank=ranks, min_rank=2)
    if x.shape[-1] != d:
        raise ShapeError("x", x.shape, (..., d), name)
    return x


def multiply(subscripts: str, x: ArrayLike, M: ArrayLike) -> ArrayLike:
    """An einsum of signals x with matrices M, in the type and precision of x."""
    if isinstance(x, np.ndarray):
        return np.einsum(subscripts, x, M.astype(x.dtype), optimize=True)
    # the default precision of matrix products on GPUs would spoil a representation
    return jnp.einsum(subscripts, x, jnp.asarray(M, x.dtype), precision=jax.lax.Precision.HIGHEST)


_CHANNELS = (1, 2, 3, 4)


def image_hint(x: str, shape: tuple[int, ...]) -> str:
    """A hint if inputs `x` of `shape` look like flattened images or (N, C, H, W), else an empty text."""
    if len(shape) == 2:
        return f". If the rows of {x} are flattened images, give input_shape=(H, W, C), or reshape them to (N, H, W, C)"
    if not (len(shape) == 4 and shape[1] in _CHANNELS and min(shape[2:]) > max(_CHANNELS)):
        return ""
    return (
        f". {x} has shape {shape}, which looks like channels first, (N, C, H, W); arrays are channels last, "
        f"(N, H, W, C): numpy.moveaxis({x}, 1, -1)"
    )
