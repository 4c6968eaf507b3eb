"""Training on all augmented samples, one irrep after another: the group Fourier transform of TrainedProcess.

Number the augmented samples ρ_X(g) x_i by (g, i). Where the kernel is invariant their Gram matrix is
    Θ(ρ_X(g) x_i, ρ_X(h) x_j) = F_ij(g⁻¹h),   F_ij(q) = Θ(x_i, ρ_X(q) x_j).
On functions v_j(h) = ρ(h)_ab w_jb, ρ an irrep with matrices (d, d), it acts as
    (Gram v)_i(g) = Σ_qj F_ij(q) Σ_c ρ(g)_ac ρ(q)_cb w_jb = Σ_c ρ(g)_ac (Θ̂ w)_ic,   Θ̂_(ic)(jb) = F̂_ij(ρ)_cb,
whatever a: one Hermitian block of size N·d, d times. With f̂(ρ) = Σ_q f(q) ρ(q) taken of the labels, Ŷ_(jb)a =
conj ŷ_j(ρ)_ab, and of a test row C_i(h) = Θ(x, ρ_X(h) x_i), Ĉ_a(ic) = Ĉ_i(ρ)_ac, every function of the Gram matrix is
    Σ_ihj C_i(g) [φ(Gram)]_(gi)(hj) Y_j(h) = Σ_ρ (d/|G|) Σ_a Ĉ_a φ(Θ̂) Ŷ_a,
so the dynamics act inside the blocks, with the eigenvalues, ridge and learning rate of the whole. K̂ likewise.
Moving the test input, x → ρ_X(g) x, turns the rows of Ĉ by ρ(g): one transform serves a whole orbit.

Equal samples: those on an orbit of m samples act like one, times √m, with their mean label. If h ∈ H fixes x_i, the
rows and columns of i hold vectors w_i with ρ(h) w_i = w_i alone; an orthonormal basis of those replaces all w_i.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from jaxtyping import Float, Inexact

from equitangents._types import DType
from equitangents.errors import NotPositiveDefiniteError
from equitangents.inference.data_orbits import DataOrbits
from equitangents.inference.dynamics import Dynamics
from equitangents.inference.gaussian import Projection, TrainedProcess
from equitangents.inference.group_fourier import FourierIrrep
from equitangents.inference.spectrum import Spectrum, decompose, relative_resolution

Embedding: TypeAlias = "scipy.sparse.csr_array | None"  # from a block's reduced basis; None where nothing is reduced

_FEW = 50  # unknowns whose eigenvalues are computed all together
_NO_LABELS = 1e-13  # labels whose transform is smaller, relative to all labels, hold nothing of an irrep


@dataclass(frozen=True)
class Augmented:
    """What all blocks share. mean_diagonal: tr Θ/N|G| of all augmented samples; precision: of the kernels."""

    orbits: DataOrbits
    dynamics: Dynamics
    ridge: float
    mean_diagonal: float
    precision: DType

    def spectrum(self, irrep: FourierIrrep, gram: Inexact[np.ndarray, "nd nd"]) -> Spectrum:
        """The eigenvalues of one block, which are eigenvalues of the explicit problem."""
        n, order = len(self.orbits.orbit), self.orbits.group.order
        return decompose(
            embed(gram, embedding(self.orbits, irrep)),
            ridge=self.ridge,
            ridge_unit=self.mean_diagonal,
            resolution=relative_resolution(n * order, self.precision),
            scale=order * self.mean_diagonal * np.sqrt(n),
            name=f"kernel matrix of the {n}·{order} augmented training inputs",
        )

    def largest_eigenvalue(self, irrep: FourierIrrep, gram: Inexact[np.ndarray, "nd nd"]) -> float:
        """λ_max of one block, ridge included, without the others."""
        reduced = embed(gram, embedding(self.orbits, irrep))
        if len(reduced) < _FEW:
            largest = float(np.linalg.eigvalsh(reduced)[-1])
        else:
            start = np.ones(len(reduced), reduced.dtype)
            largest = float(scipy.sparse.linalg.eigsh(reduced, k=1, which="LA", v0=start, return_eigenvectors=False)[0])
        return largest + self.ridge * self.mean_diagonal


@dataclass(frozen=True)
class IrrepBlock:
    """One irrep's share of the training problem; `labelled` says whether labels have a part in it."""

    irrep: FourierIrrep
    process: TrainedProcess
    labelled: bool


class IrrepProcess:
    """The trained process of an augmented ensemble in some irreps; all that hold labels are needed for its mean.

    spectra and priors (or None) are those of the irreps' blocks; labels (|G|, orbits, outputs) the mean labels of
    ρ_X(g) x_o; consistent says whether equal samples agreed in their labels; bound is the largest eigenvalue known
    of irreps that are left out: steps have to be stable in those, too.
    """

    def __init__(
        self,
        shared: Augmented,
        irreps: Sequence[FourierIrrep],
        spectra: Sequence[Spectrum],
        priors: Sequence[np.ndarray] | None,
        labels: Sequence[Inexact[np.ndarray, "orbits outputs d d"]],
        *,
        consistent: bool,
        label_size: float,
        bound: float = 0.0,
    ) -> None:
        self.shared = shared
        self.bound = bound
        self.consistent = consistent
        blocks, embeddings = [], []
        for i, (irrep, spectrum) in enumerate(zip(irreps, spectra, strict=True)):
            E = embedding(shared.orbits, irrep)
            labelled = holds_labels(labels[i], label_size)
            targets = labels[i].conj().transpose(0, 3, 2, 1) * float(labelled)  # (orbits, b, a, outputs)
            targets = targets.reshape(targets.shape[0] * irrep.dimension, -1)
            process = TrainedProcess(
                spectrum,
                targets if E is None else E.conj().T @ targets,
                shared.dynamics,
                prior=None if priors is None else embed(priors[i], E),
            )
            blocks.append(IrrepBlock(irrep, process, labelled))
            embeddings.append(E)
        self.blocks = tuple(blocks)
        vars(self)["_embeddings"] = tuple(embeddings)

    @property
    def outputs(self) -> int:
        """Numbers in one label."""
        block = self.blocks[0]
        return block.process.targets.shape[1] // block.irrep.dimension

    @property
    def max_learning_rate(self) -> float:
        """2N|G|/λ_max: the largest learning rate at which gradient descent in steps is stable."""
        largest = max(self.bound, *(block.process.spectrum.largest for block in self.blocks))
        return self.shared.dynamics.max_learning_rate(largest)

    def check(self, time: float) -> None:
        """Raise if this training cannot be evaluated at `time`."""
        self.shared.dynamics.check(self.bound, time)
        for block in self.blocks:
            block.process.check(time)
        learns = any(block.labelled for block in self.blocks)  # else the mean stays 0 for ever, whatever the labels
        if np.isinf(time) and learns and not self.consistent:
            spectrum = max((block.process.spectrum for block in self.blocks), key=lambda s: s.blur)
            delta = self.shared.ridge * self.shared.mean_diagonal
            if delta <= spectrum.blur:
                raise NotPositiveDefiniteError(
                    "some augmented training inputs are equal and their labels are not (an input that the augmentation "
                    "fixes or repeats, with labels at odds with that), so training never ends (time=inf) at one "
                    f"function; {spectrum.remedy(delta)} or take a finite time"
                )

    @property
    def samples(self) -> int:
        """How many samples the loss is a mean over, merged ones and augmented copies one by one."""
        return self.shared.dynamics.samples

    def retuned(self, ridge: float, dynamics: Dynamics) -> IrrepProcess:
        """This process with another ridge or learning rate, from the decompositions that are there."""
        process = copy.copy(self)
        process.shared = replace(self.shared, ridge=ridge, dynamics=dynamics)
        if self.bound:
            process.bound = self.bound + (ridge - self.shared.ridge) * self.shared.mean_diagonal
        process.blocks = tuple(replace(block, process=block.process.retuned(ridge, dynamics)) for block in self.blocks)
        return process

    def project(
        self,
        cross: Sequence[Inexact[np.ndarray, "m orbits d d"]],
        prior_cross: Sequence[Inexact[np.ndarray, "m orbits d d"]] | None = None,
    ) -> IrrepProjection:
        """Ask at m inputs: the transforms Ĉ of Θ(x, ρ_X(·) x_o), and those of K if variances are wanted."""
        projections = []
        for i, (block, E) in enumerate(zip(self.blocks, self._embeddings, strict=True)):
            prior = None if prior_cross is None else _rows(prior_cross[i], E)
            projections.append(block.process.project(_rows(cross[i], E), prior))
        return IrrepProjection(self, tuple(projections))

    @cached_property
    def _embeddings(self) -> tuple[Embedding, ...]:
        """From each block's reduced basis; sparse, and made anew where a process was saved."""
        return tuple(embedding(self.shared.orbits, block.irrep) for block in self.blocks)


@dataclass(frozen=True)
class IrrepProjection:
    """The trained process at m inputs and on their orbits; each method takes the time."""

    process: IrrepProcess
    projections: tuple[Projection, ...]

    def mean(self, time: float) -> Float[np.ndarray, "m outputs"]:
        """The mean μ_t at the queries after training for this time."""
        m = len(self.projections[0].cross) // self.process.blocks[0].irrep.dimension
        total = np.zeros((m, self.process.outputs))
        for block, at in self._labelled():
            d = block.irrep.dimension
            moved = at.response(time)[:, None] * block.process.targets
            moved = moved.reshape(len(moved), d, -1).transpose(1, 0, 2)
            cross = at.cross.reshape(len(total), -1)
            total += block.irrep.weight * (cross @ moved.reshape(cross.shape[1], -1)).real
        return total

    def variance(self, prior: Float[np.ndarray, " m"], time: float) -> Float[np.ndarray, " m"]:
        """The diagonal of Σ_t of one output, clipped at 0; `prior` is K(x, x)."""
        total = np.array(prior, dtype=np.float64)
        for block, at in self._all():
            A, B = (a.reshape(len(total), -1) for a in at.covariance_factors(time))
            total += block.irrep.weight * np.einsum("mn,mn->m", A, B.conj()).real
        return np.maximum(total, 0.0)

    def covariance(self, prior: Float[np.ndarray, "m m"], time: float) -> Float[np.ndarray, "m m"]:
        """Σ_t of one output, symmetric; `prior` is K(x, x′)."""
        total = np.array(prior, dtype=np.float64)
        for block, at in self._all():
            A, B = (a.reshape(len(total), -1) for a in at.covariance_factors(time))
            change = (A @ B.conj().T).real
            total += block.irrep.weight / 2 * (change + change.T)
        return total

    def orbit_mean(self, time: float) -> list[Inexact[np.ndarray, "m outputs d d"]]:
        """μ_t(ρ_X(·) x) as its transforms, one for each block: d × d matrices for every input and output."""
        found = []
        for block, at in self._all():
            d = block.irrep.dimension
            moved = at.response(time)[:, None] * block.process.targets
            # W_ba = Ĉ_b φ Ŷ_a, μ(gx) = Σ_ρ (d/|G|) tr(ρ(g) W), the inverse transform of W*
            W = (at.cross @ moved).reshape(len(at.cross) // d, d, d, -1)
            found.append(W.conj().transpose(0, 3, 2, 1))
        return found

    def joint_orbit_covariance(self, time: float) -> list[Inexact[np.ndarray, "m m d d"]]:
        """Σ_t(x, ρ_X(·) x′) − K as its transforms, for all pairs of inputs."""
        found = []
        for block, at in self._all():
            d = block.irrep.dimension
            A, B = at.covariance_factors(time)
            change = A @ B.conj().T
            change = (change + change.conj().T) / 2
            m = len(A) // d
            found.append(change.reshape(m, d, m, d).transpose(0, 2, 1, 3))
        return found

    def _all(self) -> list[tuple[IrrepBlock, Projection]]:
        return list(zip(self.process.blocks, self.projections, strict=True))

    def _labelled(self) -> list[tuple[IrrepBlock, Projection]]:
        return [(block, at) for block, at in self._all() if block.labelled]


def holds_labels(transformed: Inexact[np.ndarray, "orbits outputs d d"], label_size: float) -> bool:
    """Whether labels, of which `transformed` is the transform to one irrep, have a part in it.

    label_size: Σ_g |y(g)|, the size that the sums of the transform come from.
    """
    return bool(np.abs(transformed).max() > _NO_LABELS * label_size)


def embedding(orbits: DataOrbits, irrep: FourierIrrep) -> Embedding:
    """The sparse map (orbits·d, n) from a block's reduced basis, √copies included; None where nothing is reduced."""
    if orbits.generic:
        return None
    d = irrep.dimension
    parts = [
        np.sqrt(m) * (irrep.fixed_basis(orbits.stabilisers[o]) if o in orbits.stabilisers else np.eye(d))
        for o, m in enumerate(orbits.copies)
    ]
    return scipy.sparse.block_diag([scipy.sparse.coo_array(part) for part in parts], format="csr")


def embed(matrix: Inexact[np.ndarray, "nd nd"], E: Embedding) -> Inexact[np.ndarray, "n n"]:
    """The matrix restricted to the columns of E, E* M E; all of it where E is None."""
    return matrix if E is None else (E.conj().T @ (matrix @ E))


def _rows(transformed: Inexact[np.ndarray, "m orbits d d"], E: Embedding) -> Inexact[np.ndarray, "m*d n"]:
    """Rows (m, a) and columns (o, c) of a test row's transform, in a block's reduced basis."""
    m, orbits, d, _ = transformed.shape
    rows = transformed.transpose(0, 2, 1, 3).reshape(m * d, orbits * d)
    return rows if E is None else rows @ E
