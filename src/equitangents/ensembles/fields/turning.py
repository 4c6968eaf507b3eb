"""Outputs that turn with the input, (N, d), as fields on d places: what covaries is treated alike, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from equitangents.actions import Action
from equitangents.actions.group_action import GroupAction
from equitangents.ensembles.fields.invariance import KernelSymmetry
from equitangents.kernels import KernelFunction
from equitangents.kernels.invariance import moving_sample, sampled_elements, tolerance
from equitangents.kernels.result import Kernels, NngpKernels


class TurningField:
    """The field of a network whose kernels are (N1, N2, d, d): `kernel_field` (N1, d, N2, d)."""

    def __init__(self, net: KernelFunction) -> None:
        self.net = net

    def kernel_field(self, x1: Any, x2: Any = None) -> Any:
        """Kernels between all outputs at all inputs."""
        return _each(self.net.kernel(x1, x2), lambda k: k.transpose(0, 2, 1, 3))

    def kernel_field_diagonal(self, x: Any, positions: str = "same") -> Any:
        """The kernel of every output at every input with itself, (N, d)."""
        return _each(cast(Any, self.net).kernel_diagonal(x), lambda k: np.einsum("naa->na", k))


def turning_outputs(net: object) -> int | None:
    """How many outputs turn into one another; None for networks whose outputs are alike."""
    found: int | None = getattr(net, "turning_outputs", None)
    return found


def _each(kernels: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    nngp = change(np.asarray(kernels.nngp))
    if isinstance(kernels, NngpKernels):
        return NngpKernels(nngp, kernels.reason)
    return Kernels(nngp, change(np.asarray(kernels.ntk)))


def turning_symmetry(
    net: KernelFunction, augmentation: Action, label_action: GroupAction | None, x: Any, outputs: int
) -> KernelSymmetry:
    """Whether K(gx, x') = ρ_Y(g) K(x, x'): then copies (gx_i, ρ_Y(g)y_i) say nothing new. On a sample of x and of g."""
    sample = np.asarray(moving_sample(augmentation, x))
    base, errors = _values(net.kernel(sample, sample)), [0.0]
    for g in sampled_elements(augmentation):
        turned = np.eye(outputs)
        if label_action is not None:
            turned = np.asarray(label_action(g, turned), np.float64).T  # its rows are what becomes of unit vectors
        moved = _values(net.kernel(np.asarray(augmentation(g, sample)), sample))
        errors += [float(np.abs(m - turned @ b).max() / np.abs(b).max()) for b, m in zip(base, moved, strict=True)]
    worst = float(np.max(errors))
    return KernelSymmetry(worst, worst, tolerance(sample))


def _values(kernels: Any) -> list[np.ndarray]:
    names = ("nngp",) if isinstance(kernels, NngpKernels) else ("nngp", "ntk")
    return [np.asarray(getattr(kernels, name), np.float64) for name in names]
