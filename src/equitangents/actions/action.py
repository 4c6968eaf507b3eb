"""Actions of finite groups on arrays: maps ρ(g) with ρ(g) ρ(h) = ρ(g·h) and ρ(e) = 1.

On signals, (ρ(g) f)(x) = f(g⁻¹ x): the signal is carried along with the positions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from equitangents import precision
from equitangents._types import ArrayLike, Element, Elements, Tree
from equitangents.actions.group_action import GroupAction
from equitangents.actions.remedies import channels_first
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotAnActionError, ShapeError
from equitangents.groups import Group, SymmetryGroup
from equitangents.memory import check_fits
from equitangents.validation import check_array

_VERIFIED_PAIRS = 256


class Action(GroupAction):
    """An action of a finite `group` on batches of signals; NumPy in, NumPy out; JAX in, JAX out; works under jit.

    `action(g, x)` applies element g (a Python int) to every signal of x (N, ...); `action.orbit(x)` applies all.
    Actions are immutable, hashable and equal if they are the same map.
    """

    group: Group
    permutes_positions: bool = False
    """Whether signals are carried along by a permutation of positions."""
    torus: tuple[int, ...] | None = None
    """The grid's shape, if element c·|grid| + t translates by t (row-major) after what element c·|grid| does."""

    @abstractmethod
    def _check_signals(self, x: Tree) -> ArrayLike:
        """`x` as an array that the action can act upon, or an error that names x."""

    @abstractmethod
    def _act(self, g: int, x: Tree) -> Tree:
        """ρ(g) x for a checked element and checked signals, NumPy or JAX."""

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
        """By orthogonal matrices on the last axis."""
        count, matrices = int(np.prod(shape[:-1], dtype=np.int64)), self.matrices
        if matrices is None or not is_orthogonal(matrices[g]):
            return None
        return np.arange(count), is_table(matrices[g])

    def __call__(self, g: int, x: Tree) -> Tree:
        """ρ(g) x for signals x (N, ...)."""
        if precision.is_traced(g):
            raise InvalidTypeError("g is traced by jax; expected a Python int (act_each takes traced elements)")
        g = self.group.check_element("g", g)
        x = self._check_signals(x)
        with scope_of(x):
            y = self._act(g, x)
        return np.array(y) if isinstance(x, np.ndarray) else y

    def orbit(self, x: Tree, elements: Elements = None) -> Tree:
        """All ρ(g) x along a new first axis: (N, ...) → (|G|, N, ...); only those of `elements` if given.

        Raises MemoryLimitError where the copies cannot fit in memory.
        """
        chosen = np.arange(self.group.order) if elements is None else self.check_elements(elements)
        x = self._check_signals(x)
        check_orbit(len(chosen), x)
        with scope_of(x):
            return self._orbit(chosen, x)

    def act_each(self, g: Element, x: Tree) -> Tree:
        """ρ(g_i) x_i for elements g (N,) and signals x (N, ...); g may be traced by jax."""
        x = self._check_signals(x)
        if not precision.is_traced(g):
            g = self.check_elements(g, "g")
        if g.shape != x.shape[:1]:
            raise InvalidArgumentError("g", g.shape, x.shape[:1], "give one element for each signal", verb="has shape")
        with scope_of(x):
            return self._act_each(g, x)

    def _orbit(self, elements: np.ndarray, x: Tree) -> Tree:
        images = [self._act(int(g), x) for g in elements]
        return np.stack(images) if isinstance(x, np.ndarray) else jnp.stack(images)

    def _act_each(self, g: Element, x: Tree) -> Tree:
        check_orbit(self.group.order, x)
        everything = self._orbit(np.arange(self.group.order), x)
        if precision.is_traced(g) and isinstance(everything, np.ndarray):
            everything = jnp.asarray(everything)
        return everything[g, np.arange(len(x))]

    def check_elements(self, elements: Elements, name: str = "elements") -> np.ndarray:
        """A non-empty list of elements as an array of numbers, or an error that names `name`."""
        chosen = np.asarray(elements)
        if chosen.ndim != 1 or not len(chosen):
            raise InvalidArgumentError(name, chosen.shape, "a non-empty list of elements", verb="has shape")
        return self.group._check_elements(name, chosen)

    def verify(self, x: Tree) -> None:
        """Check on signals x that ρ(e) x = x and ρ(g) ρ(h) x = ρ(g·h) x.

        Raises NotAnActionError with the witness. g runs over generators, which suffices for all g; of large groups
        h is sampled. An action that declares itself inexact is not held to it: see `resampling_error`.
        """
        x = self._check_signals(x)
        if not self.exact:
            return
        e, order = self.group.identity, self.group.order
        scale: float = max(float(np.abs(np.asarray(x)).max()), float(np.finfo(np.float32).tiny))
        tolerance = scale * (1e-8 if np.dtype(x.dtype) == np.float64 else 1e-4)
        error = _distance(self(e, x), x)
        if not error <= tolerance:
            raise NotAnActionError(self.name, error, "ρ(e) x = x", verb="is off by", at=e)
        h_sample = np.arange(order)
        if order > _VERIFIED_PAIRS:
            h_sample = np.random.default_rng(0).choice(order, _VERIFIED_PAIRS, replace=False)
        for h in map(int, h_sample):
            moved = self(h, x)
            for g in self.group.generators:
                error = _distance(self(g, moved), self(self.group.compose(g, h), x))
                if not error <= tolerance:
                    raise NotAnActionError(self.name, error, "ρ(g) ρ(h) x = ρ(g·h) x", verb="is off by", at=(g, h))

    def resampling_error(self, x: Tree) -> RoundTrip:
        """‖ρ(g⁻¹) ρ(g) x − ρ(e) x‖ / ‖ρ(e) x‖ for every g and signal: the loss of ρ(g) and back."""
        x = self._check_signals(x)
        start = np.asarray(self(self.group.identity, x), np.float64)
        axes = tuple(range(1, start.ndim))
        norm = np.maximum(np.sqrt((start**2).sum(axes)), np.finfo(np.float64).tiny)
        values = [
            np.sqrt(((np.asarray(self(self.group.inverse(g), self(g, x)), np.float64) - start) ** 2).sum(axes)) / norm
            for g in self.group
        ]
        return RoundTrip(np.array(values))


@dataclass(frozen=True)
class RoundTrip:
    """Relative errors of acting with g and then g⁻¹: `values` (|G|, N), their `mean`, and the `worst`."""

    values: Float[np.ndarray, "order n"]

    @property
    def mean(self) -> float:
        """Mean over elements and signals."""
        return float(self.values.mean())

    @property
    def worst(self) -> float:
        """The largest of all."""
        return float(self.values.max())


class PositionAction(Action):
    """An action on signals (N, *positions, C) that carries each value along with its position.

    Subclasses say how many axes the positions have and where each position goes.
    """

    permutes_positions = True
    channels_last = True
    positions_rank: int

    @abstractmethod
    def _position_rows(self, g: Element, positions: tuple[int, ...]) -> np.ndarray:
        """table[g] for elements g: where the positions go, row-major; `positions` was checked."""

    @abstractmethod
    def _check_positions(self, name: str, positions: tuple[int, ...]) -> None:
        """Raise ShapeError if the action does not fit signals of these positions."""

    def _check_signals(self, x: Tree) -> ArrayLike:
        x = check_array("x", x, rank=self.positions_rank + 2)
        try:
            self._check_positions("x", x.shape[1:-1])
        except ShapeError as error:
            raise ShapeError(f"{error}{channels_first('x', x.shape)}") from None
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
        """By the table of positions."""
        return self._position_rows(int(g), tuple(int(n) for n in shape[:-1])), True

    def _gather(self, sources: np.ndarray, x: Tree) -> Tree:
        """x at the positions `sources` (..., P), the batch axis first."""
        return x.reshape(len(x), -1, x.shape[-1])[:, sources]

    def _act(self, g: int, x: Tree) -> Tree:
        # (ρ(g) f)(p) = f(g⁻¹ p): read at g⁻¹ p
        return self._gather(self._position_rows(self.group.inverse(g), x.shape[1:-1]), x).reshape(x.shape)

    def _orbit(self, elements: np.ndarray, x: Tree) -> Tree:
        rows = self._position_rows(self.group.inverses[elements], x.shape[1:-1])
        images = self._gather(rows, x)
        xp = np if isinstance(x, np.ndarray) else jnp
        return xp.moveaxis(images, 1, 0).reshape((len(elements), *x.shape))

    def _act_each(self, g: Element, x: Tree) -> Tree:
        table: ArrayLike = self._position_rows(self.group.inverses, x.shape[1:-1])
        if precision.is_traced(g):
            table, x = jnp.asarray(table), jnp.asarray(x)
        flat = x.reshape(len(x), -1, x.shape[-1])
        return flat[np.arange(len(x))[:, None], table[g]].reshape(x.shape)


def is_orthogonal(matrix: np.ndarray) -> bool:
    """Whether M Mᵀ = 1, to 1e-8."""
    return bool(np.abs(matrix @ matrix.T - np.eye(len(matrix))).max(initial=0.0) <= 1e-8)


def is_table(matrix: np.ndarray) -> bool:
    """Whether an orthogonal matrix is one of ones and zeros, a permutation."""
    return bool(((matrix == 0) | (matrix == 1)).all())


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
    """The precision in which signals x are moved."""
    # inside a trace the precision is the tracer's already
    return precision.scope(np.float32 if isinstance(x, np.ndarray) or precision.is_traced(x) else x.dtype)


def _distance(a: ArrayLike, b: ArrayLike) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def is_jax(x: Tree) -> bool:
    """Whether `x` is a JAX array, concrete or traced."""
    return isinstance(x, jax.Array)
