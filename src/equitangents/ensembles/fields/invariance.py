"""What a group does to the kernel of points, checked on a sample: whether it leaves it alone, and whether it moves it.

invariant    Θ(g z, g z′) = Θ(z, z′): full augmentation is solved at the size of the data
equivariant  Θ(z, g z′) = Θ(z, z′): every member obeys f(ρ_X(g)x)(π_g p) = f(x)(p), and copies say nothing new
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents.ensembles.fields.action import PointAction
from equitangents.ensembles.fields.kernel import FieldKernel
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.kernels.invariance import moving_sample, sampled_elements, tolerance

_POSITIONS = 48  # of each signal of the sample


@dataclass(frozen=True)
class KernelSymmetry:
    """Largest changes of the kernel, over its largest entry, when both points are moved alike, and when one is."""

    together: float
    apart: float
    tolerance: float

    @property
    def invariant(self) -> bool:
        """Whether the kernel does not change when both points are moved alike, to rounding."""
        return self.together <= self.tolerance

    @property
    def equivariant(self) -> bool:
        """Whether it does not even change when one of them is moved."""
        return self.invariant and self.apart <= self.tolerance


def kernel_symmetry(kernel: FieldKernel, action: PointAction, x: FieldPoints) -> KernelSymmetry:
    """How NNGP and NTK of points x change under a group, on a sample of signals, positions and elements."""
    signals = np.asarray(moving_sample(action.action, np.asarray(x.signals)))
    some = np.unique(np.linspace(0, x.count - 1, min(x.count, _POSITIONS)).astype(int))
    every = FieldPoints.of(signals, x.count)
    points = every[np.isin(every.position, some)]
    base = _values(kernel.kernel(points))
    together, apart = [0.0], [0.0]
    for g in sampled_elements(action):
        moved = action(g, points)
        together.append(_change(base, _values(kernel.kernel(moved))))
        apart.append(_change(base, _values(kernel.kernel(points, moved))))
    return KernelSymmetry(float(np.max(together)), float(np.max(apart)), tolerance(signals))


def _values(kernels: Any) -> list[np.ndarray]:
    names = ("nngp",) if hasattr(kernels, "reason") else ("nngp", "ntk")
    return [np.asarray(getattr(kernels, name)) for name in names]


def _change(base: list[np.ndarray], other: list[np.ndarray]) -> float:
    return float(
        np.max([np.abs(a - b).max() / max(float(np.abs(a).max()), 1e-300) for a, b in zip(base, other, strict=True)])
    )
