"""Structured programs by the CPU engine: masks, graphs, attention and dropout, over all pairs of positions.

A program becomes steps on numbered fields, in three arrays of numbers (`native/src/joint.cpp` reads them): code, reals,
and tables of indices. All steps run in double precision, for one first input and a vector of second inputs at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from equitangents.formatting import memory_size
from equitangents.kernels.duals.geometry import traits_of
from equitangents.kernels.engines.codes import JOINED_SIDES, JOINT_SIDES, PANEL_BYTES, STEPS_VERSION, JointKind, Mixing
from equitangents.kernels.engines.cpu.activations import described, is_tabulated, name_of
from equitangents.kernels.engines.cpu.descriptor import Description, Numbers, affine_numbers
from equitangents.kernels.engines.cpu.run import Arrays, called, library, results, threads
from equitangents.kernels.engines.protocol import Pair, StructuredRules
from equitangents.kernels.engines.reference.windows import window_averages
from equitangents.kernels.operations import (
    Affine,
    Box,
    Decouple,
    Dual,
    Flattening,
    FrozenArray,
    IndexTable,
    Pool,
    RatedAffine,
    WindowPool,
)
from equitangents.kernels.program import ParallelBranches, flat
from equitangents.kernels.scales import changes_unit, unit_biases
from equitangents.kernels.structured import (
    Attend,
    BlockSums,
    Drop,
    MaskedBatch,
    Mix,
    Normalise,
    StructuredProgram,
    Times,
    deciding,
    reads_graphs,
)
from equitangents.structured import NEURAL_TANGENTS


@dataclass
class Slot:
    """Location of a field; `mask` is the number of its mask, -1 for none.

    `stale`: entries at missing positions are not zero and must be cleared before positions are summed.
    """

    number: int
    positions: int
    mask: int = -1
    stale: bool = False


_MECHANISMS = {
    "softmax": Mixing.SOFTMAX,
    "identity": Mixing.IDENTITY,
    "relu": Mixing.RECTIFIED,
    "abs": Mixing.MAGNITUDE,
}
_ONES = (1.0, 1.0, 1.0, 1.0)


class StepsDescription(NamedTuple):
    """The arrays, the number of simultaneous fields, the most positions of one, and the number of values per input."""

    arrays: Description
    fields: int
    widest: int
    sides: int


def why_not(program: StructuredProgram) -> str | None:
    """The operation without an implementation as steps, or None."""
    for op in flat(program.ops):
        if is_tabulated(phi := op.nonlinearity):
            return "it has no dual of Quadrature over all pairs of positions"
        if phi is not None and described(phi) is None:
            return f"it has no dual of {name_of(phi)}"
        if op.moves_no_weight:
            return "it has no weights of variance 0 but in the NTK parametrisation"
        if isinstance(op, Normalise) and op.groups is not None:
            return "it has no normalisation over some dimensions of a grid"
        if type(op) not in _STEPS and not op.is_branching:
            return f"it has no {type(op).__name__} over all pairs of positions"
    return None


def changes_units(program: StructuredProgram) -> bool:
    """Whether fields change their scaling (see `kernels.scales`): an operation grows faster than its input."""
    ops = list(flat(program.ops))
    grows = (traits_of(phi).grows for op in ops if (phi := op.nonlinearity) is not None)
    return any(grows) or any(op.grows for op in ops)


@lru_cache(maxsize=64)
def describe(program: StructuredProgram, channels: int, masked: bool) -> StepsDescription:
    """The steps of a program; raises NetworkError if masks do not fit windows."""
    writer = _Writer(program, masked)
    (end,) = writer.run(program.ops, [writer.take(writer.positions, 0 if masked else -1)])
    writer.cleared(end)
    if writer.last != end.number:
        writer.scaled(end, 1.0)
    graphs = reads_graphs(program)
    sides = writer.sides + sum(writer.masks) + (writer.positions**2 if graphs else 0) + 2
    return StepsDescription(writer.description(channels, graphs), writer.fields, writer.widest, sides)


class _MasksDifferError(Exception):
    """Branches with different masks are joined; masks of smaller inputs are equal whatever their numbers."""


class _Writer(Numbers):
    """Converts operations to steps; each takes fields, which it may overwrite, and returns the resulting fields."""

    def __init__(self, program: StructuredProgram, masked: bool) -> None:
        super().__init__()
        self.positions = int(np.prod(program.shape, dtype=np.int64))
        self.convention = program.space.masks  # masks after windows
        self.steps: list[int] = []
        self.count = 0
        self.last = -1  # the field that the last step left
        self.masks = [self.positions] if masked else []  # positions of each
        self.made: dict[tuple[Any, ...], int] = {}  # masks made of others, by what made them
        self.fields = 0
        self.widest = 0
        self.sides = 0  # numbers that the steps need per input
        self.free: list[int] = []  # places that hold no field any more
        self.changes_units = changes_units(program)
        # Biases in the units behind operations that change them, in order.
        self.units_behind = unit_biases(flat(program.ops))[1:] if self.changes_units else []

    def description(self, channels: int, graphs: bool) -> Description:
        """The description as arrays."""
        head = [STEPS_VERSION, channels, self.positions, self.fields, self.count, len(self.masks), int(graphs)]
        head += [int(self.changes_units), *self.masks]
        self.real(0.0)  # there is at least one number, and one table
        self.indices(np.zeros(1))
        return self.described(head + self.steps)

    def indices(self, values: npt.ArrayLike) -> int:
        """Index of the first entry of a table of indices."""
        return self.table(FrozenArray(np.asarray(values, np.int32).ravel()))

    def take(self, positions: int, mask: int = -1) -> Slot:
        """A free slot for another field."""
        self.widest = max(self.widest, positions)
        if not self.free:
            self.free.append(self.fields)
            self.fields += 1
        return Slot(self.free.pop(), positions, mask)

    def give_back(self, field: Slot) -> None:
        """Release a slot."""
        self.free.append(field.number)

    def step(
        self,
        kind: JointKind,
        to: Slot,
        source: Slot | None = None,
        *,
        after: int | None = None,
        masks: tuple[int, int] | None = None,
        sides: int | None = None,
        index: int = 0,
        weights: int = 0,
        size: int = 0,
        mixing: Mixing = Mixing.GIVEN,
        total: bool = False,
        dual: int = 0,
        numbers: tuple[float, ...] = (),
    ) -> None:
        """Write a step from the field or mask `source` (None: in place) to `to`, of `after` positions (None: as many).

        `sides`: number of values needed of each input separately, unless the kind of step determines it.
        """
        source = to if source is None else source
        before = source.positions
        four = self.real((*numbers, *[0.0] * (4 - len(numbers))))
        masks = (to.mask, to.mask) if masks is None else masks
        code = [kind, source.number, to.number, before, before if after is None else after, index, weights, size]
        self.steps += map(int, [*code, mixing, total, dual, four, *masks])
        self.count += 1
        joined = JOINED_SIDES if self.changes_units and kind == JointKind.COMBINE else 0
        self.sides += (JOINT_SIDES.get(kind, 0) + joined) * before if sides is None else sides
        self.sides += self.changes_units  # a unit, at most
        if kind < JointKind.CENTRES:  # else of a mask
            self.last = to.number

    def run(self, ops: tuple[Any, ...], fields: list[Slot]) -> list[Slot]:
        for op in ops:
            fields = self.parallel(op, fields) if op.is_branching else [_STEPS[type(op)](self, op, fields[0])]
        return fields

    def parallel(self, op: ParallelBranches, fields: list[Slot]) -> list[Slot]:
        if op.residual is not None:
            branch = self.run(op.residual, [self.copied(fields[0])])[0]
            self.added(fields[0], branch, _ONES, means=True)
            self.give_back(branch)
            return fields
        if op.branches and len(fields) == 1:
            fields = [self.copied(fields[0]) for _ in op.branches[1:]] + fields
        if op.branches:
            each = zip(op.branches, fields, strict=True)
            fields = [found for branch, field in each for found in self.run(branch, [field])]
        return [self.joined(op.shares, fields)] if op.joined else fields

    def joined(self, shares: tuple[float, ...] | None, fields: list[Slot]) -> Slot:
        """The sum, or with shares the concatenated channels."""
        base, own = fields[0], 1.0 if shares is None else shares[0]
        for n, field in enumerate(fields[1:], 1):
            other = 1.0 if shares is None else shares[n]
            self.added(base, field, (own, other, own, other), means=shares is None)
            own = 1.0
            self.give_back(field)
        if own != 1.0:
            self.step(JointKind.COMBINE, base, numbers=(own, 0.0, own, 0.0))
        return base

    def added(self, base: Slot, other: Slot, numbers: tuple[float, ...], *, means: bool) -> None:
        if base.mask != other.mask:
            if self.convention == NEURAL_TANGENTS:
                raise _MasksDifferError
            self.cleared(other)
        self.step(JointKind.COMBINE, base, other, numbers=numbers, total=means, masks=(base.mask, base.mask))
        base.stale = base.stale or other.stale

    def copied(self, field: Slot) -> Slot:
        copy = self.take(field.positions, field.mask)
        self.step(JointKind.COPY, copy, field)
        return replace(copy, stale=field.stale)

    def cleared(self, field: Slot) -> None:
        if field.stale and field.mask >= 0:
            self.step(JointKind.CLEAR, field)
        field.stale = False

    def affine(self, op: Affine, field: Slot) -> Slot:
        self.step(JointKind.AFFINE, field, numbers=affine_numbers(op), total=op.rates is not None)
        return _touched(field)

    def dual(self, op: Dual, field: Slot) -> Slot:
        found = described(op.activation)
        assert found is not None  # see `why_not`
        weights = self.coefficients(found)
        changes = self.changes_units and changes_unit(op)
        numbers = (found.first, found.second, found.offset, self.units_behind.pop(0) if changes else 0.0)
        self.step(
            JointKind.DUAL, field, weights=weights, size=found.count, dual=found.kind, numbers=numbers,
            total=changes, sides=found.sides(changes) * field.positions,
        )  # fmt: skip
        return _touched(field)

    def decouple(self, op: Decouple, field: Slot) -> Slot:
        self.cleared(field)
        self.step(JointKind.DECOUPLE, field)
        return field

    def scaled(self, field: Slot, factor: float) -> Slot:
        self.step(JointKind.COMBINE, field, numbers=(factor**2, 0.0, factor, 0.0))
        return field

    def normalise(self, op: Normalise, field: Slot) -> Slot:
        self.step(JointKind.NORMALISE, field, numbers=(op.eps,), total=op.positions)
        return _touched(field)

    def drop(self, op: Drop, field: Slot) -> Slot:
        self.step(JointKind.DROP, field, numbers=(1 / op.keep,))
        return field

    def box(self, op: Box, field: Slot) -> Slot:
        mask = self.mask_after(op, field)
        table = op.table
        return self.window(field, table, np.full(table.shape[1], 1 / table.shape[1]), mask)

    def listed(self, op: IndexTable, field: Slot) -> Slot:
        assert field.mask < 0  # layers refuse masks on groups
        return self.window(field, op.index.array, op.weights.array, -1)

    def window(self, field: Slot, index: np.ndarray, weights: np.ndarray, mask: int) -> Slot:
        self.cleared(field)
        out = self.take(len(index), mask)
        index_at, weights_at = self.indices(index), self.real(weights)
        self.step(
            JointKind.WINDOW, out, field, after=len(index), index=index_at, weights=weights_at, size=index.shape[1],
            masks=(field.mask, mask),
        )  # fmt: skip
        self.give_back(field)
        return _touched(out)

    def flatten(self, op: Flattening, field: Slot) -> Slot:
        self.cleared(field)
        one_block = np.zeros(field.positions, np.int64)
        mask = -1 if field.mask < 0 else self.mask_of(JointKind.PRESENT, field.mask, one_block, 1)
        out = self.take(1, mask)
        self.step(JointKind.FLATTEN, out, field, after=1, masks=(field.mask, mask))
        self.give_back(field)
        return out

    def pool(self, op: Pool | BlockSums, field: Slot) -> Slot:
        labels = op.labels.array
        member = labels == np.arange(op.blocks)[:, None]
        sums = not op.is_pool
        if field.mask < 0 or op.box is not None:
            mask = field.mask if op.box is None else self.mask_after(op.box, field)
            return self.by_matrix(field, member / (1 if sums else member.sum(axis=1, keepdims=True)), mask)
        mask = self.mask_of(JointKind.PRESENT, field.mask, labels, op.blocks)
        return self.mixed(field, op.blocks, member, mixing=Mixing.SUM if sums else Mixing.MEAN, mask=mask)

    def window_pool(self, op: WindowPool, field: Slot) -> Slot:
        return self.by_matrix(field, window_averages(op.box), self.mask_after(op.box, field))

    def mix(self, op: Mix, field: Slot) -> Slot:
        if op.matrix is None:
            return self.mixed(field, field.positions, mixing=Mixing.GRAPH, mask=field.mask)
        matrix = op.matrix.array
        return self.by_matrix(field, matrix, field.mask if matrix.shape[0] == matrix.shape[1] else -1)

    def by_matrix(self, field: Slot, matrix: np.ndarray, mask: int) -> Slot:
        weights = self.real(matrix[matrix != 0])
        return self.mixed(field, len(matrix), matrix != 0, mixing=Mixing.GIVEN, mask=mask, weights=weights)

    def attend(self, op: Attend, field: Slot) -> Slot:
        if not op.linear:
            self.cleared(field)
            self.step(JointKind.COVARIANCE, field)
            weight = op.value_var * op.logit_scale**2
            self.step(JointKind.SQUARE, field, numbers=(weight, 0.0, op.b_var), total=True)
            self.step(JointKind.DISTANCE, field)
            return _touched(field)
        numbers = (op.value_var, 2.0, op.b_var, op.logit_scale)
        how = _MECHANISMS[op.mechanism]
        return self.mixed(field, field.positions, mixing=how, mask=field.mask, numbers=numbers, centred=True)

    def mixed(
        self,
        field: Slot,
        after: int,
        pattern: np.ndarray | None = None,
        *,
        mixing: Mixing,
        mask: int,
        weights: int = 0,
        numbers: tuple[float, ...] = (1.0,),
        centred: bool = False,
    ) -> Slot:
        """Write K from D, the two products, and D from the new K, in place; A has the pattern's entries."""
        self.cleared(field)
        self.step(JointKind.COVARIANCE, field)
        index = 0 if pattern is None else self.indices(_entries(pattern))
        entries = 0 if pattern is None else int(pattern.sum())
        own = 0 if mixing in (Mixing.GIVEN, Mixing.GRAPH) else entries or field.positions**2
        spare = self.take(max(after, field.positions))
        spare.positions = field.positions
        self.step(
            JointKind.MIX, field, spare, after=after, index=index, weights=weights, size=entries,
            mixing=mixing, total=centred, numbers=numbers, masks=(field.mask, mask), sides=own,
        )  # fmt: skip
        self.give_back(spare)
        found = Slot(field.number, after, mask)
        self.widest = max(self.widest, after)
        self.step(JointKind.DISTANCE, found)
        return _touched(found)

    def mask_after(self, box: Box, field: Slot) -> int:
        """The mask of a field's windows."""
        at = deciding(box, self.convention)
        if field.mask < 0 or np.array_equal(at, np.arange(self.masks[field.mask])):
            return field.mask
        return self.mask_of(JointKind.CENTRES, field.mask, at, len(at))

    def mask_of(self, kind: JointKind, mask: int, table: np.ndarray, positions: int) -> int:
        """The number of a mask with `positions` positions, computed once from another by a table."""
        key = (mask, kind, np.asarray(table).tobytes())
        if key not in self.made:
            self.made[key] = len(self.masks)
            self.masks.append(positions)
            to, source = Slot(self.made[key], positions), Slot(mask, self.masks[mask])
            self.step(kind, to, source, after=positions, index=self.indices(table))
        return self.made[key]


_STEPS: dict[type, Callable[[_Writer, Any, Slot], Slot]] = {
    Affine: _Writer.affine, RatedAffine: _Writer.affine, Dual: _Writer.dual, Decouple: _Writer.decouple,
    Times: lambda to, op, field: to.scaled(field, op.factor), Normalise: _Writer.normalise, Drop: _Writer.drop,
    Box: _Writer.box, IndexTable: _Writer.listed, Flattening: _Writer.flatten, Pool: _Writer.pool,
    BlockSums: _Writer.pool, WindowPool: _Writer.window_pool, Mix: _Writer.mix, Attend: _Writer.attend,
}  # fmt: skip


def _touched(field: Slot) -> Slot:
    field.stale = True
    return field


def _entries(pattern: np.ndarray) -> np.ndarray:
    """Start of each row of a sparse matrix, then the columns of all entries."""
    begins = np.concatenate([[0], np.cumsum(pattern.sum(axis=1))])
    return np.concatenate([begins, np.nonzero(pattern)[1]])


_CELL = 128  # bytes of a pair of positions: two vectors, at most
_MEMORY_LIMIT = 4 << 30  # bytes for the fields of all threads
_LANES = 8  # inputs in a vector, at most


class _JointProblem(ctypes.Structure):
    """`eqt::JointProblem` of `native/src/joint.hpp`."""

    _fields_ = [
        ("x1", ctypes.c_void_p), ("masks1", ctypes.c_void_p), ("graphs1", ctypes.c_void_p), ("n1", ctypes.c_int64),
        ("x2", ctypes.c_void_p), ("masks2", ctypes.c_void_p), ("graphs2", ctypes.c_void_p), ("n2", ctypes.c_int64),
        ("nngp", ctypes.c_void_p), ("ntk", ctypes.c_void_p), ("threads", ctypes.c_int), ("cancel", ctypes.c_void_p),
        ("diagonal", ctypes.c_bool), ("instructions", ctypes.c_int),
    ]  # fmt: skip


class CompiledStructured(StructuredRules):
    """Fields over all pairs of positions in C++."""

    def obstacle(self, program: StructuredProgram) -> str | None:
        if why := why_not(program):
            return why
        try:
            each = _bytes(_sized(program))
        except _MasksDifferError:
            return "it joins no branches with different masks"
        sizes = f"{memory_size(each)} at a time, more than {memory_size(_MEMORY_LIMIT)}"
        return f"its fields over all pairs of positions take {sizes}" if each > _MEMORY_LIMIT else None

    def kernels(
        self, program: StructuredProgram, one: MaskedBatch, other: MaskedBatch | None, instruction_set: int = -1
    ) -> Pair:
        return _run(program, one, other, (len(one.x), len((other or one).x)), instruction_set)

    def diagonal(self, program: StructuredProgram, batch: MaskedBatch) -> Pair:
        return _run(program, batch, None, (len(batch.x),), -1)

    def working_bytes(self, program: StructuredProgram, channels: int, n1: int, n2: int, itemsize: int) -> int:
        """Bytes of all threads' fields, moments of each input, and inputs and results in double precision."""
        found = _sized(program)
        signal = int(np.prod(program.shape, dtype=np.int64)) * channels
        each = (2 * found.sides + signal) * 8
        panels = sum(min(PANEL_BYTES + _LANES * each, (n + _LANES) * each) for n in (n1, n2))
        converted = ((n1 + n2) * signal + 2 * n1 * n2) * 8 if itemsize < 8 else 0
        return _threads(found) * _bytes(found) + panels + converted


def _sized(program: StructuredProgram) -> StepsDescription:
    """The steps for inputs with masks, which need more memory, if the program supports masks."""
    masked = bool(program.shape) and not any(op.is_window and not op.sides for op in flat(program.ops))
    return describe(program, 1, masked)


def _bytes(found: StepsDescription) -> int:
    return found.fields * found.widest**2 * _CELL


def _threads(found: StepsDescription) -> int:
    """Number of threads, reduced if their fields would take too much memory."""
    return max(1, min(threads(), _MEMORY_LIMIT // max(1, _bytes(found))))


def _run(
    program: StructuredProgram,
    one: MaskedBatch,
    other: MaskedBatch | None,
    shape: tuple[int, ...],
    instruction_set: int,
) -> Pair:
    found = describe(program, one.x.shape[-1], one.mask is not None)
    nngp, ntk = results(shape, np.dtype(np.float64))
    if not nngp.size:
        return nngp, ntk
    held = [_numpy(batch) for batch in (one, other) if batch is not None]
    first, second = (*held, (None, None, None))[:2]
    cancel = ctypes.c_int32(0)
    problem = _JointProblem(
        *map(_address, first), shape[0], *map(_address, second), shape[-1],
        nngp.ctypes.data, ntk.ctypes.data, _threads(found), ctypes.addressof(cancel), len(shape) == 1, instruction_set,
    )  # fmt: skip
    work = float(np.prod(shape)) * found.widest**2 * len(found.arrays.code) / 14
    called(library().eqt_joint, Arrays.of(found.arrays), problem, cancel, work)
    return nngp, ntk


def _address(array: Any) -> int | None:
    return None if array is None else int(array.ctypes.data)


def _numpy(batch: MaskedBatch) -> tuple[Any, Any, Any]:
    kinds = np.float64, np.uint8, np.float64
    return tuple(  # type: ignore[return-value]
        None if part is None else np.ascontiguousarray(np.asarray(part).astype(kind, copy=False))
        for part, kind in zip((batch.x, batch.mask, batch.graphs), kinds, strict=True)
    )
