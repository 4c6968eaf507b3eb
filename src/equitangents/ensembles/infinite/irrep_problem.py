"""Full augmentation solved irrep by irrep: the explicit problem of N|G| samples, in blocks of its Fourier transform.

Number the augmented samples ρ_X(g) x_i by (g, i). If the kernel is invariant their Gram matrix is
    Θ(ρ_X(g) x_i, ρ_X(h) x_j) = F_ij(g⁻¹h),   F_ij(q) = Θ(x_i, ρ_X(q) x_j).
On functions v_j(h) = ρ(h)_ab w_jb, ρ an irrep with matrices (d, d), it acts as
    (Gram v)_i(g) = Σ_qj F_ij(q) Σ_c ρ(g)_ac ρ(q)_cb w_jb = Σ_c ρ(g)_ac (Θ̂ w)_ic,   Θ̂_(ic)(jb) = F̂_ij(ρ)_cb,
for every a: one Hermitian block of size N·d, d times. With f̂(ρ) = Σ_q f(q) ρ(q) applied to the labels, Ŷ_(jb)a =
conj ŷ_j(ρ)_ab, and to a test row C_i(h) = Θ(x, ρ_X(h) x_i), Ĉ_a(ic) = Ĉ_i(ρ)_ac, every function of the Gram matrix is
    Σ_ihj C_i(g) [φ(Gram)]_(gi)(hj) Y_j(h) = Σ_ρ (d/|G|) Σ_a Ĉ_a φ(Θ̂) Ŷ_a,
so the dynamics act inside the blocks, with the eigenvalues, ridge and learning rate of the full problem. K̂ likewise.
Moving the test input, x → ρ_X(g) x, multiplies Ĉ by ρ(g): one transform serves a whole orbit.

Equal samples: those on an orbit of m samples act like one, times √m, with their mean label. If h ∈ H fixes x_i, the
rows and columns of i hold only vectors w_i with ρ(h) w_i = w_i; an orthonormal basis of those replaces all w_i.

Cost: N²|G|/2 kernel entries and one eigendecomposition of size N·d for each irrep. Kernels between inputs and whole
orbits are computed tile by tile, and only their transforms are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, TypeAlias

import jax
import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Inexact

from equitangents._types import DataRows, KernelName
from equitangents.actions import Action
from equitangents.ensembles.fields import PointAction
from equitangents.ensembles.infinite.predictor import Decomposed, TrainingSettings, kernel_diagonal
from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference import TrainedProcess, decompose
from equitangents.inference.augmented import DataOrbits, find_orbits
from equitangents.inference.draws import sample_on_orbits
from equitangents.inference.dynamics import Weighted
from equitangents.inference.group_fourier import FourierIrrep, GroupFourier
from equitangents.inference.spectrum import relative_resolution
from equitangents.kernels import KernelFunction
from equitangents.memory import check_memory
from equitangents.solvers.matrices import spans

Embedding: TypeAlias = "scipy.sparse.csr_array | None"  # from a block's reduced basis; None where nothing is reduced

_TILE_ENTRIES = 2**21  # kernel entries of one tile
_INPUT_ENTRIES = 2**22  # of the orbits that kernels are computed with at once
_TILE_COPIES = 8  # kernels and their transforms alive at once, as many numbers each
_SMALLEST_TILE = 24
_TILES = 8  # along one side: diagonal tiles are computed in full, off-diagonal ones once for both triangles
_NO_LABELS = 1e-13  # labels whose transform is smaller, relative to all labels, hold nothing of an irrep


@dataclass(frozen=True)
class IrrepBlock:
    """One irrep's block of the training problem; `labelled`: whether the labels have a component in it."""

    irrep: FourierIrrep
    process: TrainedProcess
    labelled: bool


@dataclass(frozen=True)
class IrrepProblem(Decomposed):
    """A solved problem: `inputs` represent the orbits, `irreps` are all requested ones.

    It has a block for each irrep with data; the mean needs all blocks that hold labels. `action` defines the orbits.
    consistent: whether equal samples agreed in their labels. bound: the largest known eigenvalue of omitted irreps, in
    which steps must be stable, too.
    """

    kernel: KernelFunction
    action: Action
    field: KernelName
    inputs: DataRows
    irreps: tuple[FourierIrrep, ...]
    blocks: tuple[IrrepBlock, ...]
    orbits: DataOrbits
    consistent: bool
    self_kernels: np.ndarray  # the training kernel of every representative with itself
    bound: float = 0.0

    @property
    def processes(self) -> list[TrainedProcess]:
        """One process per block, with eigenvalues of the explicit problem."""
        return [block.process for block in self.blocks]

    @property
    def outputs(self) -> int:
        """Number of values in one label."""
        block = self.blocks[0]
        return block.process.targets.shape[1] // block.irrep.dimension

    def check(self, time: float) -> None:
        """Raise if this training cannot be evaluated at `time`."""
        self.processes[0].dynamics.check(self.bound, time)
        super().check(time)
        learns = any(block.labelled for block in self.blocks)  # else the mean stays 0 for ever, whatever the labels
        if np.isinf(time) and learns and not self.consistent:
            spectrum = max(self.spectra, key=lambda s: s.blur)
            if spectrum.delta <= spectrum.blur:
                raise NotPositiveDefiniteError(
                    "some augmented training inputs are equal and their labels are not, so the time=inf solution is "
                    f"not unique; {spectrum.remedy(spectrum.delta)}, or take a finite time"
                )

    def retuned(self, settings: TrainingSettings) -> Self:
        """This problem with another ridge or learning rate, without another decomposition."""
        first, ridge = self.spectra[0], settings.ridge.least
        dynamics = settings.dynamics(settings.learning_rate, self.processes[0].samples)
        blocks = tuple(replace(block, process=block.process.retuned(ridge, dynamics)) for block in self.blocks)
        bound = self.bound + (ridge - first.ridge) * first.ridge_unit if self.bound else self.bound
        return replace(self, blocks=blocks, bound=bound)

    @cached_property
    def transform(self) -> GroupFourier:
        """The Fourier transform to the problem's irreps."""
        return GroupFourier(tuple(block.irrep for block in self.blocks))

    def means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, outputs)."""
        parts = []
        for rows in self.blocks_of(x):
            total = np.zeros((len(times), len(rows), self.outputs))
            for block, (weight, at) in zip(self.blocks, self.projected(rows, prior=False), strict=True):
                if not block.labelled:
                    continue
                cross = at.cross.reshape(len(rows), -1)
                for i, t in enumerate(times):
                    moved = at.pull(t).reshape(-1, block.irrep.dimension, self.outputs).transpose(1, 0, 2)
                    total[i] += weight * (cross @ moved.reshape(cross.shape[1], -1)).real
            parts.append(total)
        return np.concatenate(parts, axis=1)

    def orbit_means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t on the orbit of each input at every time: (T, M, |G|, outputs)."""
        blocks = [self.projected(rows, prior=False) for rows in self.blocks_of(x)]
        return np.concatenate([np.stack([self._orbit_means(at, t) for t in times]) for at in blocks], axis=1)

    def sample_orbits(self, x: DataRows, draws: int, time: float, *, key: jax.Array, limit: int | None) -> np.ndarray:
        """Draws of one network jointly over the orbits of all inputs: (draws, M, |G|, outputs).

        Computed irrep by irrep, without the covariance of all M|G| points.
        """
        m, order = len(x), self.action.group.order
        check_memory(
            f"{draws} draws on the orbits of {m} inputs",
            self.query_bytes(m, 1) + 8 * (6 * m * m * order + 4 * draws * m * order * self.outputs),
            limit,
            "ask for fewer inputs or draws at once",
        )
        projected = self.projected(x, prior=True)
        [grams] = OrbitKernels(self.kernel, self.action, GroupFourier(self.irreps), ("nngp",)).grams(x)
        blocks = dict(zip(self.irreps, grams, strict=True))
        for irrep, (_, at) in zip(self.transform.irreps, projected, strict=True):
            A, B = at.covariance_factors(time)
            change = A @ B.conj().T  # Σ_t(x, ρ_X(·) x′) − K, transformed
            blocks[irrep] += (change + change.conj().T) / 2
        mean = self._orbit_means(projected, time)
        return mean + sample_on_orbits(self.irreps, list(blocks.values()), draws, mean.shape[-1], key=key)

    def query_bytes(self, m: int, times: int) -> int:
        """Bytes for the joint covariance of m inputs at `times` times: rows in all irreps, four times."""
        irreps = self.transform.irreps
        rows = sum(len(self.inputs) * i.dimension**2 * (8 if i.is_real else 16) for i in irreps)
        return 4 * m * rows + 8 * (times + 3) * m * m

    def projected(self, x: DataRows, *, prior: bool) -> Weighted:
        """Transforms of the kernels between x and the orbits of the training data, along eigenvectors."""
        kernels = OrbitKernels(self.kernel, self.action, self.transform, _fields(self.field, prior))
        found = kernels.cross(x, self.inputs)
        of_blocks = zip(self.blocks, self._embeddings, found[0], found[-1], strict=True)
        return [
            (block.irrep.weight, block.process.project(_rows(cross, E), _rows(other, E) if prior else None))
            for block, E, cross, other in of_blocks
        ]

    def blocks_of(self, x: DataRows, copies: int = 1) -> Iterator[DataRows]:
        """Blocks of x that fit into memory; each input needs its whole orbit, and as many entries of the transforms."""
        return super().blocks_of(x, 2 * self.action.group.order)

    @cached_property
    def _embeddings(self) -> tuple[Embedding, ...]:
        """The embedding of each block's reduced basis."""
        return tuple(embedding(self.orbits, block.irrep) for block in self.blocks)

    def _orbit_means(self, projected: Weighted, time: float) -> np.ndarray:
        """μ_t on whole orbits, (M, |G|, outputs), from the transforms W_ba = Ĉ_b φ Ŷ_a: Σ_ρ (d/|G|) tr(ρ(g) W)."""
        found = []
        for block, (_, at) in zip(self.blocks, projected, strict=True):
            d = block.irrep.dimension
            W = (at.cross @ at.pull(time)).reshape(len(at.cross) // d, d, d, -1)
            found.append(W.conj().transpose(0, 3, 2, 1))
        return self.transform.inverse(found).transpose(0, 2, 1)


def solve(
    kernel: KernelFunction,
    action: Action,
    x: DataRows,
    labels: np.ndarray,
    settings: TrainingSettings,
    irreps: Sequence[FourierIrrep],
    solved: IrrepProblem | None,
    *,
    labelled_only: bool,
) -> IrrepProblem:
    """Solve the augmented problem in the `irreps` that hold labels (enough for the mean), or in all (with K).

    labels (|G|, N, outputs): that of ρ(g) x_i. solved: the problem in some of the irreps, whose spectra are reused.
    """
    settings.ridge.check_one(f"{name_of(action, irreps)} take one: give a number, or invariant labels and means only")
    n, order = len(x), action.group.order
    orbits = action.data_orbits(x) if isinstance(action, PointAction) else find_orbits(action, x)
    mean_labels, consistent = orbits.mean_labels(labels)
    transformed = GroupFourier(tuple(irreps)).forward(np.ascontiguousarray(np.moveaxis(mean_labels, 0, -1)))
    by_irrep = dict(zip(irreps, transformed, strict=True))
    # of the labels as given: means over equal inputs may cancel, and leave nothing but rounding
    label_size = float(np.abs(labels).sum(axis=0).max())
    holds_labels = lambda irrep: bool(np.abs(by_irrep[irrep]).max() > _NO_LABELS * label_size)
    chosen = [irrep for irrep in irreps if any(basis.size for basis in orbit_bases(orbits, irrep))]
    if labelled_only:
        chosen = [irrep for irrep in chosen if holds_labels(irrep)] or [irreps[0]]
    # the trivial irrep, where kernels ≥ 0 have their largest eigenvalue, decides which steps are stable
    bounding = [] if irreps[0] in chosen else [irreps[0]]
    prior = not labelled_only and settings.field == "ntk"
    remedy = "take fewer samples or a subgroup of the augmentation"
    check_memory(
        f"the augmented problem of {n}·{order} samples, irrep by irrep,",
        _solve_bytes([*chosen, *bounding], len(orbits.first), prior=prior),
        settings.memory_limit,
        remedy if labelled_only else f"{remedy}, or ask for the mean only",
    )
    inputs = x[orbits.first]
    self_kernels = kernel_diagonal(kernel, inputs, settings.field)
    ridge, mean_diagonal = settings.ridge.least, float(orbits.copies @ self_kernels) / n
    dynamics = settings.dynamics_of(n * order)
    known = {} if solved is None else {block.irrep: block.process.spectrum for block in solved.blocks}
    fields, transform = _fields(settings.field, prior), GroupFourier((*chosen, *bounding))
    grams = OrbitKernels(kernel, action, transform, fields).grams(inputs)
    blocks = []
    for i, irrep in enumerate(chosen):
        E, labelled = embedding(orbits, irrep), holds_labels(irrep)
        spectrum = known.get(irrep) or decompose(  # eigenvalues of the explicit problem
            _embed(grams[0][i], E),
            ridge=ridge,
            ridge_unit=mean_diagonal,
            resolution=relative_resolution(n * order, inputs.dtype),
            scale=order * mean_diagonal * np.sqrt(n),
            name=f"kernel matrix of the {n}·{order} augmented training inputs",
        )
        grams[0][i] = np.empty((0, 0))  # a matrix that was decomposed is let go
        targets = by_irrep[irrep].conj().transpose(0, 3, 2, 1) * float(labelled)  # (orbits, b, a, outputs)
        targets = targets.reshape(targets.shape[0] * irrep.dimension, -1)
        own = _embed(grams[1][i], E) if prior else None
        targets = targets if E is None else E.conj().T @ targets
        blocks.append(IrrepBlock(irrep, TrainedProcess(spectrum, targets, dynamics, prior=own), labelled))
    bound = 0.0
    if bounding:
        reduced = _embed(grams[0][-1], embedding(orbits, bounding[0]))
        top = len(reduced) - 1
        bound = float(scipy.linalg.eigvalsh(reduced, subset_by_index=(top, top))[0]) + ridge * mean_diagonal
    return IrrepProblem(
        kernel, action, settings.field, inputs, tuple(irreps), tuple(blocks), orbits, consistent, self_kernels, bound
    )


def orbit_bases(orbits: DataOrbits, irrep: FourierIrrep) -> list[Inexact[np.ndarray, "d rank"]]:
    """For each orbit, an orthonormal basis of the vectors fixed by its representative's stabiliser."""
    fixed, identity = orbits.stabilisers, np.eye(irrep.dimension)
    return [irrep.fixed_basis(fixed[o]) if o in fixed else identity for o in range(len(orbits.first))]


def embedding(orbits: DataOrbits, irrep: FourierIrrep) -> Embedding:
    """The sparse map (orbits·d, n) from a block's reduced basis, including √copies; None if nothing is reduced."""
    if orbits.generic:
        return None
    bases = zip(orbits.copies, orbit_bases(orbits, irrep), strict=True)
    return scipy.sparse.block_diag([scipy.sparse.coo_array(np.sqrt(m) * basis) for m, basis in bases], format="csr")


def _embed(matrix: Inexact[np.ndarray, "nd nd"], E: Embedding) -> Inexact[np.ndarray, "n n"]:
    """The matrix restricted to the columns of E, E* M E; the full matrix if E is None."""
    return matrix if E is None else (E.conj().T @ (matrix @ E))


def _rows(transformed: Inexact[np.ndarray, "m orbits d d"], E: Embedding) -> Inexact[np.ndarray, "m*d n"]:
    """Rows (m, a) and columns (o, c) of a test row's transform, in a block's reduced basis."""
    m, orbits, d, _ = transformed.shape
    rows = transformed.transpose(0, 2, 1, 3).reshape(m * d, orbits * d)
    return rows if E is None else rows @ E


def _solve_bytes(irreps: Sequence[FourierIrrep], n: int, *, prior: bool) -> int:
    """Peak memory in bytes for n orbits: all blocks of one or both kernels, and LAPACK's copies of the largest."""
    sizes = [(n * i.dimension) ** 2 * (8 if i.is_real else 16) for i in irreps]
    tiles = _TILE_COPIES * 8 * min(_TILE_ENTRIES, n * n * len(irreps[0].matrices))
    return sum(sizes) * (2 if prior else 1) + 5 * max(sizes) + tiles


def name_of(action: Action, irreps: Sequence[FourierIrrep]) -> str:
    """A name such as "irreps of D4: 5 blocks, largest 2N"."""
    largest = max(irrep.dimension for irrep in irreps)
    blocks = f"{len(irreps)} block{'s' if len(irreps) > 1 else ''}"
    return f"irreps of {action.group.name}: {blocks}, largest {largest if largest > 1 else ''}N"


def _fields(field: KernelName, prior: bool) -> tuple[KernelName, ...]:
    """The training kernel, then K if variances are needed and it is not K."""
    return (field, "nngp") if prior and field == "ntk" else (field,)


@dataclass(frozen=True)
class OrbitKernels:
    """Kernels Θ(x_m, ρ(q) x_j) between inputs and orbits, transformed over q: per kernel, one array for each irrep."""

    kernel: KernelFunction
    action: Action
    transform: GroupFourier
    fields: Sequence[KernelName]

    def grams(self, x: DataRows) -> list[list[np.ndarray]]:
        """The blocks Σ_q F_ij(q) ρ(q)_cb at row (i, c) and column (j, b), Hermitian."""
        n, order = len(x), self.action.group.order
        found = [
            [np.empty((n, i.dimension, n, i.dimension), i.matrices.dtype) for i in self.transform.irreps]
            for _ in self.fields
        ]
        width = min(self._together(x), max(_SMALLEST_TILE, -(-n // _TILES)))
        height = max(1, _TILE_ENTRIES // (width * order))
        for columns in spans(n, width):
            orbit, start = self.action.orbit(x[columns]), columns.start
            here = (slice(start + rows.start, start + rows.stop) for rows in spans(columns.stop - start, height))
            for rows in [*spans(start, height), *here]:
                for block, part in self._tiles(found, x[rows], orbit):
                    block[rows, :, columns] = part.transpose(0, 2, 1, 3)
                    if rows.stop <= start:
                        block[columns, :, rows] = part.conj().transpose(1, 3, 0, 2)
        return [[block.reshape(n * block.shape[1], -1) for block in blocks] for blocks in found]

    def cross(self, x: DataRows, inputs: DataRows) -> list[list[np.ndarray]]:
        """Σ_q Θ(x_m, ρ(q) x_j) ρ(q) for all `inputs` x_j: (M, N, d, d)."""
        n = len(inputs)
        found = [
            [np.empty((len(x), n, *i.matrices.shape[1:]), i.matrices.dtype) for i in self.transform.irreps]
            for _ in self.fields
        ]
        step = max(1, _TILE_ENTRIES // (len(x) * self.action.group.order))
        for columns in spans(n, min(step, self._together(inputs))):
            for block, part in self._tiles(found, x, self.action.orbit(inputs[columns])):
                block[:, columns] = part
        return found

    def _tiles(
        self, arrays: list[list[np.ndarray]], x: DataRows, orbit: DataRows
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield each array's tile with its transform, (M, N, d, d); `orbit` (|G|, N, …) holds all ρ(q) x_j."""
        kernels = self.kernel.kernel(x, orbit.reshape(-1, *orbit.shape[2:]))
        for field, blocks in zip(self.fields, arrays, strict=True):
            values = np.asarray(getattr(kernels, field), np.float64).reshape(len(x), *orbit.shape[:2])
            yield from zip(blocks, self.transform.forward(np.ascontiguousarray(values.transpose(0, 2, 1))), strict=True)

    def _together(self, x: DataRows) -> int:
        """Number of inputs whose orbits fit in memory at once."""
        return max(1, _INPUT_ENTRIES // (self.action.group.order * int(np.prod(x.shape[1:]))))
