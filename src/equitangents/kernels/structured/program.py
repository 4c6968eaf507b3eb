"""Programs of networks with branches, masks, graphs, attention or dropout.

A structured program runs over all pairs of positions. Beside the operations of field programs it holds those below,
some of which read the two inputs by themselves: their masks, their graphs, and their kernels with themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from equitangents.kernels.branches import flat
from equitangents.kernels.moves import by_blocks, by_matrix
from equitangents.kernels.operation import FrozenArray, Operation
from equitangents.kernels.operations import Blocks, Box
from equitangents.kernels.program import Program

if TYPE_CHECKING:
    from equitangents.kernels.moves import Moves


class Structured(Operation):
    """An operation only of structured programs."""

    is_structured: ClassVar[bool] = True


@dataclass(frozen=True)
class Times(Structured):
    """Multiplication by a number: K ← c² K, Θ ← c² Θ."""

    said: ClassVar[str] = "scaling"
    numbers_pass: ClassVar[bool] = True
    factor: float

    def moves_after(self, moves: Moves) -> Iterator[Moves]:
        """Yield the same permutation: positions stay as they were."""
        yield moves


@dataclass(frozen=True)
class BlockSums(Structured, Blocks):
    """Sums over blocks of positions, where `Pool` takes means."""

    said: ClassVar[str] = "sums over positions"


@dataclass(frozen=True)
class Normalise(Structured):
    """Subtracts the mean and divides by √(variance + eps), both over channels, or over channels and positions.

    A `centred` field has the mean 0 anyway. With `groups` each group of positions is taken by itself.
    """

    said: ClassVar[str] = "normalisation over positions"
    positions: bool
    eps: float
    centred: bool = False
    groups: FrozenArray | None = None  # int32 (positions,), the number of each position's group

    def moves_after(self, moves: Moves) -> Iterator[Moves]:
        """As before it, if groups move to groups."""
        labels = np.zeros(len(moves), np.int64) if self.groups is None else self.groups.array
        for _ in by_blocks(labels, int(labels.max()) + 1, moves):
            yield moves


@dataclass(frozen=True)
class Attend(Structured):
    """Self-attention: K' = s² A K A'ᵀ + b², A a function of c K(f, f) (see `nn.Attention`)."""

    said: ClassVar[str] = "attention"
    mechanism: str  # "softmax", "identity", "relu", "abs"
    linear: bool  # logits are divided by the number of key channels, not by its root
    logit_scale: float  # W_query_std W_key_std
    value_var: float  # (W_value_std W_out_std)²
    b_var: float

    def moves_after(self, moves: Moves) -> Iterator[Moves]:
        """As before it, since only features distinguish positions."""
        yield moves

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether weights of positions grow with the field."""
        return self.mechanism != "softmax"

    def products(self, positions: int) -> int:
        """Multiply-adds of two products with full matrices."""
        return 4 * positions**3


@dataclass(frozen=True)
class Mix(Structured):
    """Sums over positions: K' = A K A'ᵀ, Θ' = A Θ A'ᵀ, of a given matrix A, or of each input's own graph."""

    said: ClassVar[str] = "aggregation"
    matrix: FrozenArray | None  # float64 (positions_out, positions), or None: the graphs that come with the inputs

    @property
    def reads_graphs(self) -> bool:  # type: ignore[override]
        """Whether there is no matrix for all inputs."""
        return self.matrix is None

    def moves_after(self, moves: Moves) -> Iterator[Moves]:
        """Yield the permutation of rows if the matrix is carried to itself; nothing for graphs that inputs bring."""
        return iter(()) if self.matrix is None else by_matrix(self.matrix.array, moves)

    def positions_after(self, positions: int) -> int:
        """One for each row of the matrix."""
        return positions if self.matrix is None else len(self.matrix.array)

    def products(self, positions: int) -> int:
        """Multiply-adds of two products, without zeros of a given matrix."""
        if self.matrix is None:
            return 4 * positions**3
        return 2 * int(np.count_nonzero(self.matrix.array)) * (positions + len(self.matrix.array))


@dataclass(frozen=True)
class Drop(Structured):
    """Dropout: entries are kept with this probability, so that a draw's variance is K/keep, another's covariance K."""

    said: ClassVar[str] = "dropout"
    draws_noise: ClassVar[bool] = True
    keep: float

    def moves_after(self, moves: Moves) -> Iterator[Moves]:
        """As before it, since noise is alike at all positions."""
        yield moves


@dataclass(frozen=True)
class Fitted(Structured):
    """Windows that differ from input to input, each those of the smaller input that its mask leaves (see `masks`)."""

    said: ClassVar[str] = "windows that fit each input's mask"
    reads_sizes: ClassVar[bool] = True
    box: Box  # of an input without missing positions
    padding: str  # "zero", "circular", "valid"
    pools: bool  # K over all pairs of a window's positions; or one mean, K(p + u, p' + u), as before weights

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The grid of windows."""
        return self.box.out_shape

    def positions_after(self, positions: int) -> int:
        """One for each window."""
        return self.box.positions_after(positions)


@dataclass(frozen=True)
class StructuredPositions:
    """The space of fields on a grid of `shape` whose inputs are read by themselves: their masks, graphs and kernels."""

    shape: tuple[int, ...]
    masks: str = "smaller"  # what windows make of missing positions, if any are: see `masks`


StructuredProgram = Program[StructuredPositions]


def why_structured(ops: tuple[Any, ...]) -> str:
    """Reason why a structured program does not run along fibres."""
    names = dict.fromkeys(op.said for op in flat(ops) if op.is_structured)
    held = ", ".join(names) or "masks"
    return f"it holds {held}"


def is_structured(ops: tuple[Any, ...]) -> bool:
    """Whether any operation is one of structured programs."""
    return any(op.is_structured for op in flat(ops))
