"""Full augmentation solved irrep by irrep: kernel entries Θ(x_i, ρ(q) x_j), their transforms, and queries.

The problem is the explicit one of N|G| samples, exactly (see `equitangents.inference.irrep_process`), at the cost of
N²|G|/2 kernel entries and one eigendecomposition of size N·d for each irrep of dimension d.

F_ij(q) = Θ(x_i, ρ(q) x_j) is a function of q for each pair. Kernels between inputs and whole orbits are computed tile
by tile, and only their transforms Σ_q F_ij(q) ρ(q) are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from equitangents._types import DataRows, KernelName
from equitangents.actions import Action
from equitangents.ensembles.fields.points import PointAction
from equitangents.ensembles.infinite.predictor import Decomposed
from equitangents.ensembles.infinite.problem import Settings, spectral_report
from equitangents.ensembles.infinite.rows import kernel_diagonal, row_blocks
from equitangents.inference.data_orbits import DataOrbits, find_orbits
from equitangents.inference.draws import sample_on_orbits
from equitangents.inference.group_fourier import FourierIrrep, GroupFourier
from equitangents.inference.irrep_process import Augmented, IrrepProcess, IrrepProjection, holds_labels
from equitangents.inference.spectrum import Spectrum
from equitangents.kernels import KernelFunction
from equitangents.memory import check_memory
from equitangents.solvers.solution import Report

_ROW_ENTRIES = 2**24  # of a block of test rows against the orbits of the training data
_TILE_ENTRIES = 2**21  # kernel entries of one tile
_INPUT_ENTRIES = 2**22  # of the orbits that kernels are computed with at once
_TILE_COPIES = 8  # kernels and their transforms alive at once, as many numbers each
_SMALLEST_TILE = 24
_TILES = 8  # along one side: diagonal tiles are computed in full, off-diagonal ones once for both triangles


@dataclass(frozen=True)
class IrrepProblem(Decomposed):
    """A solved problem: `inputs` are the orbits' representatives, `irreps` all that were asked for.

    The process has a block for each irrep that is not empty of data. Orbits are those of its own action.
    """

    kernel: KernelFunction
    action: Action
    field: KernelName
    inputs: DataRows
    irreps: tuple[FourierIrrep, ...]
    process: IrrepProcess
    self_kernels: np.ndarray  # the training kernel of every representative with itself

    @property
    def name(self) -> str:
        """How `solver_` calls it."""
        return name_of(self.action, [block.irrep for block in self.process.blocks])

    def report(self, time: float) -> Report:
        """How it was solved: one decomposition for each irrep."""
        spectra = [block.process.spectrum for block in self.process.blocks]
        return spectral_report(spectra, time, math.nan, math.nan)

    @property
    def transform(self) -> GroupFourier:
        """To the irreps of the problem."""
        return GroupFourier(tuple(block.irrep for block in self.process.blocks))

    def weights(self, time: float) -> None:
        """None: the mean takes the kernels with whole orbits."""

    def orbit_means(self, action: Action, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t on the orbit of each input at every time: (T, M, |G|, outputs)."""
        blocks = [self._project(rows, prior=False) for rows in self._blocks(x)]
        return np.concatenate([self._orbit_means(at, times) for at in blocks], axis=1)

    def sample_orbits(
        self, action: Action, x: DataRows, draws: int, time: float, *, key: jax.Array, limit: int | None
    ) -> np.ndarray:
        """Draws of one network jointly over the orbits of all inputs: (draws, M, |G|, outputs).

        By irreps, without the covariance of all M|G| points.
        """
        check_memory(
            f"{draws} draws on the orbits of {len(x)} inputs",
            self._orbit_sample_bytes(len(x), draws),
            limit,
            "ask for fewer inputs or draws at once",
        )
        at = self._project(x, prior=True)
        blocks = gram_transforms(self.kernel, self.action, x, self.irreps, ("nngp",))[0]
        where = {id(irrep): i for i, irrep in enumerate(self.irreps)}
        for irrep, change in zip(self.transform.irreps, at.joint_orbit_covariance(time), strict=True):
            block = blocks[where[id(irrep)]]
            block += change.transpose(0, 2, 1, 3).reshape(block.shape)
        mean = self._orbit_means(at, np.array([time]))[0]
        return mean + sample_on_orbits(self.irreps, blocks, draws, mean.shape[-1], key=key)

    def _orbit_sample_bytes(self, m: int, draws: int) -> int:
        """Bytes that `sample_orbits` takes."""
        order, outputs = self.action.group.order, self.process.outputs
        return self.query_bytes(m, 1) + 8 * (6 * m * m * order + 4 * draws * m * order * outputs)

    def query_bytes(self, m: int, times: int) -> int:
        """Bytes that the joint covariance of m inputs takes at so many times: rows in all irreps, four times over."""
        irreps = self.transform.irreps
        rows = sum(len(self.inputs) * i.dimension**2 * (8 if i.is_real else 16) for i in irreps)
        return 4 * m * rows + 8 * (times + 3) * m * m

    def _project(self, x: DataRows, *, prior: bool) -> IrrepProjection:
        """Transforms of the kernels between x and the orbits of the training data."""
        fields, irreps = _fields(self.field, prior), self.transform.irreps
        found = cross_transforms(self.kernel, self.action, x, self.inputs, irreps, fields)
        return self.process.project(found[0], found[-1] if prior else None)

    def _orbit_means(self, at: IrrepProjection, times: np.ndarray) -> np.ndarray:
        means = np.stack([self.transform.inverse(at.orbit_mean(t)) for t in times])
        return means.transpose(0, 1, 3, 2)

    def _blocks(self, x: DataRows) -> Iterator[DataRows]:
        return row_blocks(x, max(1, _ROW_ENTRIES // (len(self.inputs) * self.action.group.order)))


def solve(
    kernel: KernelFunction,
    action: Action,
    x: DataRows,
    labels: np.ndarray,
    settings: Settings,
    irreps: Sequence[FourierIrrep],
    *,
    labelled_only: bool,
    solved: IrrepProblem | None = None,
) -> IrrepProblem:
    """Solve the augmented problem in those of `irreps` that hold labels (enough for the mean), or in all (with K).

    labels (|G|, N, outputs): that of ρ(g) x_i. solved: the problem in some of the irreps, whose spectra are taken.
    """
    settings.ridge.check_one(f"{name_of(action, irreps)} take one: give a number, or invariant labels and means alone")
    orbits = action.data_orbits(x) if isinstance(action, PointAction) else find_orbits(action, x)
    mean_labels, consistent = orbits.mean_labels(labels)
    by_irrep = GroupFourier(tuple(irreps)).forward(np.ascontiguousarray(np.moveaxis(mean_labels, 0, -1)))
    # of the labels as given: means over equal inputs may cancel, and leave nothing but rounding
    label_size = float(np.abs(labels).sum(axis=0).max())
    places = [i for i, irrep in enumerate(irreps) if block_size(orbits, irrep)]
    if labelled_only:
        places = [i for i in places if holds_labels(by_irrep[i], label_size)] or [0]
    blocks_of = [irreps[i] for i in places]
    # the trivial irrep, where kernels ≥ 0 have their largest eigenvalue, decides which steps are stable
    bounding = [] if 0 in places else [irreps[0]]
    prior = not labelled_only and settings.field == "ntk"
    needed = solve_bytes([*blocks_of, *bounding], len(orbits.first), prior=prior)
    remedy = "take fewer samples or a subgroup of the augmentation"
    check_memory(
        f"the augmented problem of {len(x)}·{action.group.order} samples, irrep by irrep,",
        needed,
        settings.memory_limit,
        remedy if labelled_only else f"{remedy}, or ask for the mean alone",
    )
    inputs = x[orbits.first]
    self_kernels = kernel_diagonal(kernel, inputs, settings.field)
    shared = Augmented(
        orbits=orbits,
        dynamics=settings.dynamics_of(len(x) * action.group.order),
        ridge=settings.ridge.least,
        mean_diagonal=float(orbits.copies @ self_kernels) / len(x),
        precision=inputs.dtype,
    )
    grams = gram_transforms(kernel, action, inputs, [*blocks_of, *bounding], _fields(settings.field, prior))
    process = IrrepProcess(
        shared,
        blocks_of,
        _spectra(shared, blocks_of, grams[0], solved),
        grams[1] if prior else None,
        [by_irrep[i] for i in places],
        consistent=consistent,
        label_size=label_size,
        bound=shared.largest_eigenvalue(bounding[0], grams[0][-1]) if bounding else 0.0,
    )
    return IrrepProblem(kernel, action, settings.field, inputs, tuple(irreps), process, self_kernels)


def _spectra(
    shared: Augmented, irreps: Sequence[FourierIrrep], grams: list[np.ndarray], solved: IrrepProblem | None
) -> list[Spectrum]:
    """Every irrep's spectrum: taken from `solved` where it is there, else from its matrix, which is then let go."""
    there = {} if solved is None else {id(block.irrep): block.process.spectrum for block in solved.process.blocks}
    spectra = []
    for i, irrep in enumerate(irreps):
        spectra.append(there[id(irrep)] if id(irrep) in there else shared.spectrum(irrep, grams[i]))
        grams[i] = np.empty((0, 0))
    return spectra


def block_size(orbits: DataOrbits, irrep: FourierIrrep) -> int:
    """Unknowns of an irrep's block: d for each orbit, less where inputs are fixed by more than the identity."""
    full = irrep.dimension * (len(orbits.first) - len(orbits.stabilisers))
    return full + sum(irrep.fixed_basis(H).shape[1] for H in orbits.stabilisers.values())


def solve_bytes(irreps: Sequence[FourierIrrep], n: int, *, prior: bool) -> int:
    """Bytes at the peak of solving n orbits: all blocks of one or both kernels, and LAPACK's copies of the largest."""
    sizes = [(n * i.dimension) ** 2 * (8 if i.is_real else 16) for i in irreps]
    tiles = _TILE_COPIES * 8 * min(_TILE_ENTRIES, n * n * len(irreps[0].matrices))
    return sum(sizes) * (2 if prior else 1) + 5 * max(sizes) + tiles


def name_of(action: Action, irreps: Sequence[FourierIrrep]) -> str:
    """Such as "irreps of D4: 5 blocks, largest 2N"."""
    largest = max(irrep.dimension for irrep in irreps)
    blocks = f"{len(irreps)} block{'s' if len(irreps) > 1 else ''}"
    return f"irreps of {action.group.name}: {blocks}, largest {largest if largest > 1 else ''}N"


def _fields(field: KernelName, prior: bool) -> tuple[KernelName, ...]:
    """The kernel that trains, then K if variances are wanted and it is another."""
    return (field, "nngp") if prior and field == "ntk" else (field,)


def gram_transforms(
    kernel: KernelFunction, action: Action, x: DataRows, irreps: Sequence[FourierIrrep], fields: Sequence[KernelName]
) -> list[list[np.ndarray]]:
    """For each field and irrep the block Σ_q F_ij(q) ρ(q)_cb at row (i, c) and column (j, b), Hermitian."""
    n, order, transform = len(x), action.group.order, GroupFourier(tuple(irreps))
    grams = [[np.empty((n, i.dimension, n, i.dimension), _dtype(i)) for i in irreps] for _ in fields]
    width = min(_orbit_inputs(action, x), max(_SMALLEST_TILE, -(-n // _TILES)))
    height = max(1, _TILE_ENTRIES // (width * order))
    for columns in slices(0, n, width):
        orbit = action.orbit(x[columns])
        above = [(rows, True) for rows in slices(0, columns.start, height)]
        for rows, mirrored in [*above, *((rows, False) for rows in slices(columns.start, columns.stop, height))]:
            for into, parts in zip(grams, _transformed(kernel, x[rows], orbit, transform, fields), strict=True):
                for block, part in zip(into, parts, strict=True):
                    block[rows, :, columns] = part.transpose(0, 2, 1, 3)
                    if mirrored:
                        block[columns, :, rows] = part.conj().transpose(1, 3, 0, 2)
    return [[block.reshape(n * block.shape[1], -1) for block in blocks] for blocks in grams]


def _transformed(
    kernel: KernelFunction, x: DataRows, orbit: DataRows, transform: GroupFourier, fields: Sequence[KernelName]
) -> Iterator[list[np.ndarray]]:
    """For each field the transforms of Θ(x_m, ρ(q) x_j), `orbit` (|G|, N, …) all ρ(q) x_j: (M, N, d, d) by irrep."""
    kernels = kernel.kernel(x, orbit.reshape(-1, *orbit.shape[2:]))
    for field in fields:
        values = np.asarray(getattr(kernels, field), np.float64).reshape(len(x), *orbit.shape[:2])
        yield transform.forward(np.ascontiguousarray(values.transpose(0, 2, 1)))


def cross_transforms(
    kernel: KernelFunction,
    action: Action,
    x: DataRows,
    inputs: DataRows,
    irreps: Sequence[FourierIrrep],
    fields: Sequence[KernelName],
) -> list[list[np.ndarray]]:
    """For each field and irrep Σ_q Θ(x_m, ρ(q) x_j) ρ(q) over all `inputs` x_j: (M, N, d, d)."""
    n, transform = len(inputs), GroupFourier(tuple(irreps))
    found = [[np.empty((len(x), n, i.dimension, i.dimension), _dtype(i)) for i in irreps] for _ in fields]
    step = max(1, _TILE_ENTRIES // (len(x) * action.group.order))
    for columns in slices(0, n, min(step, _orbit_inputs(action, inputs))):
        orbit = action.orbit(inputs[columns])
        for into, parts in zip(found, _transformed(kernel, x, orbit, transform, fields), strict=True):
            for block, part in zip(into, parts, strict=True):
                block[:, columns] = part
    return found


def slices(begin: int, end: int, step: int) -> Iterator[slice]:
    """begin … end in parts of at most `step`."""
    return (slice(start, min(start + step, end)) for start in range(begin, end, step))


def _orbit_inputs(action: Action, x: DataRows) -> int:
    """How many inputs may have their whole orbits in memory at once."""
    return max(1, _INPUT_ENTRIES // (action.group.order * int(np.prod(x.shape[1:]))))


def _dtype(irrep: FourierIrrep) -> type[np.float64] | type[np.complex128]:
    return np.float64 if irrep.is_real else np.complex128
