"""The spectrum of a kernel on data that a group leaves alone, by isotypic component.

On the N|G| copies ρ(g) x_i the matrix Θ_{g⁻¹h}(x_i, x_j) falls apart into one block Σ_q Θ_q ⊗ ρ(q) for each irrep ρ,
of size N d, whose eigenvalues count d times. Targets that the group leaves alone live in the trivial irrep, whose block
is |G| times the kernel of the invariant network: what the other irreps hold, that network has not to learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from equitangents.extending import ActionLike, Numbers, check_array
from equitangents.groups import Group
from equitangents.inference import FourierIrrep, GroupFourier, fourier_irreps
from equitangents.kernels import KernelFunction
from equitangents_studies.systems.conventions import Step, lines_of, model_name, steps
from equitangents_studies.systems.grams import GroupGrams, KernelName, finite_action, group_grams

_MIDDLE = (0.05, 0.5)  # ranks between which eigenvalues are fitted by a power law, as shares of all
_POSITIVE = 1e-7, 1e-13  # of the largest eigenvalue: smaller ones are rounding, in float32 and float64


@dataclass(frozen=True, eq=False)
class Component:
    """One irrep's part: `eigenvalues` λ = Λ/(N|G|) of the kernel as an operator, descending, each `multiplicity` times.

    `trace` is the share that these have in the trace of the kernel.
    """

    name: str
    dimension: int
    multiplicity: int
    eigenvalues: Float[np.ndarray, " n"]
    trace: float

    @property
    def decay(self) -> float:
        """a of λ_k ∝ k^−a, by least squares on logarithms in the middle of the spectrum; NaN where it is too short."""
        return _decay(self.eigenvalues)


@dataclass(frozen=True, eq=False, repr=False)
class KernelSpectrum:
    """A kernel's spectrum by irrep, the trivial one first; `resolution`: smaller eigenvalues are rounding."""

    model: str
    group: str
    inputs: int
    order: int
    components: tuple[Component, ...]
    resolution: float

    @property
    def eigenvalues(self) -> Float[np.ndarray, " copies"]:
        """All N|G| eigenvalues, descending."""
        return np.sort(np.concatenate([np.repeat(c.eigenvalues, c.multiplicity) for c in self.components]))[::-1]

    @property
    def invariant(self) -> Component:
        """The trivial irrep's: the spectrum of the invariant network, on the same data."""
        return self.components[0]

    def condition(self, of: Literal["plain", "invariant"]) -> float:
        """Largest over smallest eigenvalue, of the plain kernel on all copies or of the invariant network.

        Infinite where rounding hides the smallest.
        """
        values = self.eigenvalues if of == "plain" else self.invariant.eigenvalues
        return float(values[0] / values[-1]) if values[-1] > self.resolution else float("inf")

    @property
    def table(self) -> dict[str, list[Any]]:
        """One row an irrep."""
        return {
            "irrep": [c.name for c in self.components],
            "dimension": [c.dimension for c in self.components],
            "multiplicity": [c.multiplicity for c in self.components],
            "eigenvalues": [len(c.eigenvalues) for c in self.components],
            "largest": [float(c.eigenvalues[0]) for c in self.components],
            "smallest": [float(c.eigenvalues[-1]) for c in self.components],
            "share_of_trace": [c.trace for c in self.components],
            "decay": [c.decay for c in self.components],
        }

    def __repr__(self) -> str:
        return lines_of(self.table)


def spectrum(
    net: KernelFunction,
    group: Group | ActionLike,
    x: Numbers,
    *,
    kernel: KernelName = "ntk",
    progress: bool | Step = False,
) -> KernelSpectrum:
    """Eigenvalues of an infinite network's kernel on all copies of x, one isotypic component after another.

    net: anything with `kernel` that the group leaves invariant (checked on a sample); group: an exact action of a
    finite group, or its name ("C4"); x: inputs (N, …). An irrep and its conjugate are one component.

    Raises InvalidArgumentError where the kernel is not invariant, or the action resamples.

    >>> import equitangents as et
    >>> net = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(8), et.nn.Relu(), et.nn.Dense(1))
    >>> found = spectrum(net, "C4", np.random.default_rng(0).normal(size=(5, 4, 4, 1)))
    >>> [(c.name, c.multiplicity, len(c.eigenvalues)) for c in found.components]
    [('trivial', 1, 5), ('irrep 2', 2, 5), ('irrep 3', 1, 5)]
    """
    x = np.asarray(check_array("x", x, min_rank=2))
    action = finite_action(group, x)
    with steps("Kernels of all copies", progress) as step:
        grams = group_grams(net, action, x, kernel, step)
    return spectrum_of(grams, model_name(net))


def spectrum_of(grams: GroupGrams, model: str) -> KernelSpectrum:
    """The spectrum of kernels that are there already."""
    n, order = len(grams.of(grams.group.identity)), grams.group.order
    irreps = fourier_irreps(grams.group)
    total = order * float(np.trace(grams.of(grams.group.identity), dtype=np.float64))
    components = []
    for number, (irrep, block) in enumerate(zip(irreps, irrep_blocks(grams, irreps), strict=True), 1):
        values = np.maximum(np.linalg.eigvalsh(block)[::-1], 0.0)
        times = irrep.dimension * irrep.count
        components.append(
            Component(
                name="trivial" if number == 1 else f"irrep {number}",
                dimension=irrep.dimension,
                multiplicity=times,
                eigenvalues=values / (n * order),
                trace=times * float(values.sum()) / total,
            )
        )
    single = grams.of(grams.group.identity).dtype == np.float32
    largest = max(float(c.eigenvalues[0]) for c in components)
    return KernelSpectrum(model, grams.group.name, n, order, tuple(components), _POSITIVE[0 if single else 1] * largest)


def irrep_blocks(grams: GroupGrams, irreps: tuple[FourierIrrep, ...]) -> list[np.ndarray]:
    """Σ_q Θ_q(x_i, x_j) ρ(q), Hermitian, rows (i, a) and columns (j, b): one block an irrep, in float64."""
    stacked = np.stack([grams.of(g) for g in range(grams.group.order)], axis=-1).astype(np.float64)
    blocks = []
    for part in GroupFourier(irreps).forward(stacked):
        n, m, d, _ = part.shape
        block = part.transpose(0, 2, 1, 3).reshape(n * d, m * d)
        blocks.append((block + block.conj().T) / 2 if n == m else block)
    return blocks


def _decay(values: np.ndarray) -> float:
    rank = np.arange(1, len(values) + 1)
    middle = (rank >= max(_MIDDLE[0] * len(values), 2)) & (rank <= _MIDDLE[1] * len(values)) & (values > 0)
    if middle.sum() < 3:
        return float("nan")
    return -float(np.polyfit(np.log(rank[middle]), np.log(values[middle]), 1)[0])
