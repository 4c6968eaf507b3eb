"""Structured programs: masks, graphs, attention and dropout, over all pairs of positions.

In addition to the operations of field programs they have those below,
some of which read each input separately: its mask, its graph, and its kernel with itself.

Masks after windows follow one of two conventions.

"smaller": outputs are those of the smaller input itself, for masks that keep the first n' positions along each
axis. Windows without padding exist if their last position does; with zero padding and stride 1 if their centre does.
Others raise an error, since a smaller circle closes earlier, and the padding of strides depends on the size.

"neural-tangents": every window reads the padded input, with zeros at missing positions, divides by its full size, and
exists if its centre does.

Inputs have their positions in one axis, with masks and graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike, DType
from equitangents.errors import NetworkError
from equitangents.kernels.operations import Blocks, Box, FrozenArray, Operation, Pool, Standardise, by_blocks, by_matrix
from equitangents.kernels.program import ParallelBranches, Program, field_program, flat, is_structured, why_structured
from equitangents.structured import NEURAL_TANGENTS, SMALLER

if TYPE_CHECKING:
    from equitangents.kernels.operations import Moves


class Structured(Operation):
    """An operation that only structured programs have."""

    is_structured: ClassVar[bool] = True


@dataclass(frozen=True)
class Times(Structured):
    """Multiplication by a number: K ← c² K, Θ ← c² Θ."""

    label: ClassVar[str] = "scaling"
    numbers_pass: ClassVar[bool] = True
    factor: float

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        yield moves


@dataclass(frozen=True)
class BlockSums(Structured, Blocks):
    """Sums over blocks of positions, where `Pool` takes means."""

    label: ClassVar[str] = "sums over positions"


@dataclass(frozen=True)
class Normalise(Structured):
    """Subtracts the mean and divides by √(variance + eps), both over channels, or over channels and positions.

    A `centred` field already has mean 0. With `groups` each group of positions is normalised separately.
    """

    label: ClassVar[str] = "normalisation over positions"
    positions: bool
    eps: float
    centred: bool = False
    groups: FrozenArray | None = None  # int32 (positions,), the number of each position's group

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """The same moves, if groups move to groups."""
        labels = np.zeros(len(moves), np.int64) if self.groups is None else self.groups.array
        for _ in by_blocks(labels, int(labels.max()) + 1, moves):
            yield moves


@dataclass(frozen=True)
class Attend(Structured):
    """Self-attention: K' = s² A K A'ᵀ + b², A a function of c K(f, f) (see `nn.Attention`)."""

    label: ClassVar[str] = "attention"
    mechanism: str  # "softmax", "identity", "relu", "abs"
    linear: bool  # logits are divided by the number of key channels, not by its root
    logit_scale: float  # W_query_std W_key_std
    value_var: float  # (W_value_std W_out_std)²
    b_var: float

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        yield moves

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether the weights of positions grow with the field."""
        return self.mechanism != "softmax"

    def products(self, positions: int) -> int:
        return 4 * positions**3


@dataclass(frozen=True)
class Mix(Structured):
    """Sums over positions: K' = A K A'ᵀ, Θ' = A Θ A'ᵀ, with a fixed matrix A, or each input's own graph."""

    label: ClassVar[str] = "aggregation"
    matrix: FrozenArray | None  # float64 (positions_out, positions), or None: the graphs that come with the inputs

    @property
    def reads_graphs(self) -> bool:  # type: ignore[override]
        return self.matrix is None

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """Yield the permutation of rows if the matrix is mapped to itself; nothing for inputs' own graphs."""
        return iter(()) if self.matrix is None else by_matrix(self.matrix.array, moves)

    def positions_after(self, positions: int) -> int:
        return positions if self.matrix is None else len(self.matrix.array)

    def products(self, positions: int) -> int:
        """Multiply-adds of two products, skipping zeros of a fixed matrix."""
        if self.matrix is None:
            return 4 * positions**3
        return 2 * int(np.count_nonzero(self.matrix.array)) * (positions + len(self.matrix.array))


@dataclass(frozen=True)
class Drop(Structured):
    """Dropout: entries are kept with probability `keep`, so that a draw's variance is K/keep; with another draw K."""

    label: ClassVar[str] = "dropout"
    draws_noise: ClassVar[bool] = True
    keep: float

    def moves_after(self, moves: Moves, one_sided: bool = False) -> Iterator[Moves]:
        """The same moves, since noise has the same distribution at all positions."""
        yield moves


@dataclass(frozen=True)
class StructuredPositions:
    """The space of fields on a grid of `shape` that depend on each input's mask, graph and own kernel."""

    shape: tuple[int, ...]
    masks: str = "smaller"  # masks after windows, if positions are missing: see `masks`


StructuredProgram = Program[StructuredPositions]


def deciding(box: Box, convention: str) -> np.ndarray:
    """The position that decides whether each window exists, (positions_out,)."""
    centred = convention == NEURAL_TANGENTS or box.is_padded  # else a window's last position decides
    axes = []
    for n, out, w, s, low in zip(box.in_shape, box.out_shape, box.window, box.stride, box.low, strict=True):
        at = np.arange(out) * s + ((w - 1) // 2 - low if centred else w - 1)
        axes.append(at % n if box.wrap else np.clip(at, 0, n - 1))
    return np.asarray(np.ravel_multi_index(tuple(np.meshgrid(*axes, indexing="ij")), box.in_shape)).ravel()


def check_masked_windows(box: Box, padding: str) -> None:
    """Raise NetworkError if smaller inputs have other windows: for circular padding, and padding with strides."""
    if not (padding == "valid" or set(box.window) <= {1} or (padding == "zero" and set(box.stride) <= {1})):
        raise NetworkError(
            "windows with circular padding, or with zero padding and strides, are others on the smaller inputs that "
            "masks leave; use padding='valid', or 'zero' with stride 1, or Masked(x, mask, 'neural-tangents')"
        )


def check_boxes(name: str, program: StructuredProgram, mask: ArrayLike | None) -> None:
    """Raise NetworkError if the network has windows and a mask keeps other than the first positions."""
    if mask is None or program.space.masks != SMALLER or not any(op.reads_sizes for op in flat(program.ops)):
        return
    grid = np.asarray(mask).reshape((len(mask), *program.shape))
    sizes = []
    for axis in range(1, grid.ndim):
        along = grid.any(axis=tuple(i for i in range(1, grid.ndim) if i != axis)).sum(axis=1)
        place = tuple(n if i in (0, axis) else 1 for i, n in enumerate(grid.shape))
        sizes.append((np.arange(grid.shape[axis]) < along[:, None]).reshape(place))
    box: Any = np.ones(grid.shape, bool)
    for along in sizes:
        box = box & along
    wrong = np.flatnonzero((box != grid).reshape((len(grid), -1)).any(axis=1))
    if len(wrong):
        raise NetworkError(
            f"the mask of {name}[{wrong[0]}] leaves positions other than the first ones along each axis, and the "
            "network has windows or pools that such masks do not fit: there is no smaller input; "
            "Masked(x, mask, convention='neural-tangents') counts zeros there"
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class MaskedBatch:
    """x (N, P, C), mask (N, P) or None, adjacency (N, P, P) or None."""

    x: Any
    mask: Any
    graphs: Any

    def rows(self, at: slice) -> MaskedBatch:
        """Some of the inputs."""
        return MaskedBatch(*(None if part is None else part[at] for part in (self.x, self.mask, self.graphs)))


def batch_of(program: StructuredProgram, x: Any) -> MaskedBatch:
    """The batch of structured or plain inputs, with positions in one axis."""
    values, mask = getattr(x, "x", x), getattr(x, "mask", None)
    flat_values = values.reshape((len(values), -1, values.shape[-1]))
    # vectors have no positions that could be missing
    mask = None if mask is None or not program.shape else mask.reshape(flat_values.shape[:2])
    return MaskedBatch(flat_values, mask, getattr(x, "adjacency", None))


def check_alike(program: StructuredProgram, one: MaskedBatch, other: MaskedBatch) -> None:
    """Raise NetworkError unless both sets of inputs have masks, or neither, and graphs if the program reads them."""
    if (one.mask is None) != (other.mask is None):
        raise NetworkError("one of x1 and x2 has a mask, the other none; give both one (all True where all is there)")
    for name, batch in (("x1", one), ("x2", other)):
        if not precision.is_traced(batch.mask):
            check_boxes(name, program, batch.mask)
    if reads_graphs(program):
        for name, batch in (("x1", one), ("x2", other)):
            if batch.graphs is None:
                raise NetworkError(
                    f"the network aggregates over the graphs of its inputs, and {name} comes without: give "
                    "Graphs(x, adjacency), or Aggregate a matrix"
                )


def reads_graphs(program: StructuredProgram) -> bool:
    """Whether the program reads each input's graph."""
    return any(op.reads_graphs for op in flat(program.ops))


def positions(program: StructuredProgram) -> int:
    """The largest number of positions of any field."""
    first = int(np.prod(program.shape, dtype=np.int64))
    return max(first, *(op.positions_after(first) for op in flat(program.ops)))


def typed(batch: MaskedBatch, dtype: DType) -> MaskedBatch:
    """The inputs as JAX arrays of `dtype`."""
    graphs = None if batch.graphs is None else jnp.asarray(batch.graphs).astype(dtype)
    return MaskedBatch(jnp.asarray(batch.x).astype(dtype), batch.mask, graphs)


def structured_program(shape: tuple[int, ...], ops: tuple[Any, ...], lift: Any | None) -> Program[Any]:
    """The program of such operations on a grid of positions; by pair offset if layers keep it."""
    ops = _simplified(ops)
    if lift is None or not lift.on_rotations:
        fields = _in_fields(ops)
        return Program(StructuredPositions(shape), ops) if is_structured(fields) else field_program(shape, fields, lift)
    if is_structured(ops):
        held = why_structured(ops).removeprefix("it holds ")
        raise NetworkError(f"after a SphereLift there is no kernel of a network that holds {held}")
    return field_program(shape, ops, lift)


def _simplified(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """Equivalent, fewer operations for inputs without masks."""
    return _absorbed(tuple(found for op in ops for found in _inside(op)))


def _in_fields(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operations as field programs have them: joined branches, and normalisation over positions."""
    found: list[Any] = []
    for op in ops:
        if isinstance(op, Normalise) and op.positions and op.centred and op.groups is None:
            op = Standardise(op.eps)
        op = op.with_held(_in_fields)
        if op.is_branching and (before := _side_by_side(found)) is not None:
            if not op.branches:
                found[-1] = replace(op, branches=before.branches)
                continue
            if len(before.branches) == len(op.branches):
                each = zip(before.branches, op.branches, strict=True)
                found[-1] = replace(op, branches=tuple(a + b for a, b in each))
                continue
        found.append(op)
    # The operations of a branch that is joined with no other take its place.
    lone = lambda op: op.is_branching and op.is_closed and len(op.branches) == 1
    return tuple(inner for op in found for inner in (op.branches[0] if lone(op) else (op,)))


def _inside(op: Any) -> tuple[Any, ...]:
    if isinstance(op, BlockSums):
        sizes = np.bincount(op.labels.array[op.labels.array >= 0])
        if (sizes == sizes[0]).all():
            return Pool(op.labels, op.blocks, op.box), Times(float(sizes[0]))
    return (op.with_held(_simplified),)


def _side_by_side(found: list[Any]) -> ParallelBranches | None:
    """The last operation, if it leaves parallel fields."""
    last = found[-1] if found else None
    return last if last is not None and last.is_branching and last.is_open else None


def _absorbed(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operations with scalar factors merged into a linear layer, adjacent or separated by windows and pools."""
    found = list(ops)
    i = 0
    while i < len(found):
        op = found[i]
        if not isinstance(op, Times):
            i += 1
            continue
        square = op.factor**2
        after = next((j for j in range(i + 1, len(found)) if not found[j].numbers_pass), len(found))
        if i and found[i - 1].affine is not None:
            found[i - 1] = found[i - 1].affine.scaled(square, square)
            del found[i]
        elif after < len(found) and found[after].affine is not None:
            found[after] = found[after].affine.scaled(square, 1.0)
            del found[i]
        else:
            i += 1
    return tuple(found)
