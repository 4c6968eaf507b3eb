"""Fields of targets, y_i(p) at every position p of the output, taken apart into N·P points for their training.

Loss: L = (1/2N) Σ_i Σ_p |f(x_i)(p) − y_i(p)|², a mean over samples and a sum over positions, as over outputs. A loss
that is a mean over positions, too, reaches at time t what is reached here at t/P.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from equitangents.actions.subset import ActionSubset, augmenting_elements, whole_action
from equitangents.ensembles.fields.action import PointAction
from equitangents.ensembles.fields.invariance import KernelSymmetry, kernel_symmetry
from equitangents.ensembles.fields.kernel import FieldKernel
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.ensembles.fields.targets import Positions, moved_outputs, moved_positions, moved_targets
from equitangents.ensembles.fields.turning import TurningField, turning_symmetry
from equitangents.ensembles.infinite import problem
from equitangents.ensembles.infinite.problem import Settings
from equitangents.ensembles.infinite.trained_kernel import TrainedKernel
from equitangents.inference.spectrum import dense_solve_bytes
from equitangents.memory import check_memory

logger = logging.getLogger("equitangents")

_SAME = 1e-12  # of the largest target: how well copies agree that are moved by nothing but their positions


@dataclass(frozen=True)
class Given:
    """What an ensemble is fitted to: inputs x (N, …), targets y (N, …), or (|G|, N, …) of every copy, and actions."""

    augmentation: Any
    label_action: Any
    x: Any
    y: np.ndarray

    @property
    def own_rank(self) -> int:
        """How many axes the samples' own targets have."""
        return 2

    @property
    def each_copy(self) -> bool:
        """Whether every augmented copy has its own target."""
        return self.y.ndim > self.own_rank


@dataclass(frozen=True)
class FieldSource(Given):
    """Signals x (N, …), targets y (N, *positions, outputs) or (|G|, N, …) of every copy, and what augments them."""

    kernel: FieldKernel
    positions: Positions

    @property
    def own_rank(self) -> int:
        """How many axes the samples' own targets have."""
        return len(self.positions.shape) + 2

    def points(self, x: Any) -> FieldPoints:
        """All positions of signals x, signal by signal."""
        return FieldPoints.of(np.asarray(x), self.positions.count)

    def orbits(self, x: Any) -> np.ndarray:
        """All ρ_X(g) x, input by input, (M·|G|, …)."""
        moved = np.moveaxis(np.asarray(self.augmentation.orbit(x)), 0, 1)
        return moved.reshape(-1, *moved.shape[2:])

    def per_sample(self, settings: Settings) -> Settings:
        """Settings whose loss is a mean over samples, not over points."""
        return replace(settings, points=self.positions.count)

    def copies(self) -> np.ndarray:
        """ρ_Y(g) y_i for every augmenting element, (|G|, N, *positions, outputs)."""
        if self.each_copy:
            return self.y
        moved = moved_outputs if self.positions.turning else moved_targets
        return moved(self.augmentation, self.label_action, self.y)

    def symmetry(self, action: PointAction, points: FieldPoints) -> KernelSymmetry:
        """What the augmentation does to the kernel; `action` is that on points."""
        if not self.positions.turning:
            return kernel_symmetry(self.kernel, action, points)
        if self.each_copy:
            return KernelSymmetry(np.inf, np.inf, 0.0)
        net, count = cast(TurningField, self.kernel.net).net, self.positions.count
        return turning_symmetry(net, self.augmentation, self.label_action, self.x, count)

    def explicit(self, settings: Settings) -> TrainedKernel:
        """Train on all copies one by one, each with all its positions."""
        elements, n, count = augmenting_elements(self.augmentation), len(self.x), self.positions.count
        points = len(elements) * n * count
        weights = getattr(self.augmentation, "weights", np.ones(len(elements)))
        remedy = (
            f"take fewer samples or fewer of the augmentation's {len(elements)} elements (equitangents.actions.subset)"
        )
        if settings.decomposes(points):
            check_memory(
                f"the explicit problem of {n}·{count}·{len(elements)} points",
                dense_solve_bytes(points),
                settings.memory_limit,
                remedy,
            )
        logger.info("solving the explicit problem, %d·%d·%d points", n, count, len(elements))
        moved = np.asarray(self.augmentation.orbit(self.x))
        moved = moved.reshape(-1, *self.x.shape[1:])
        each = None if np.ptp(weights) == 0 else np.repeat(weights / weights.mean(), n * count)
        y = self.copies().reshape(points, -1)
        return problem.dense(self.kernel, FieldPoints.of(moved, count), y, settings, each, remedy)

    def point_labels(self) -> tuple[PointAction | None, np.ndarray]:
        """(the action on points, labels (N·P, outputs), or (|G|, N·P, outputs) where they differ from copy to copy)."""
        y, positions = self.y, self.positions
        plain = (y[0] if self.each_copy else y).reshape(len(self.x) * positions.count, -1)
        if self.augmentation is None:
            return None, plain
        whole: Any = whole_action(self.augmentation)
        table = moved_positions(self.augmentation, self.label_action, positions)
        action = PointAction(whole, table)
        if positions.turning:
            return action, plain
        if isinstance(self.augmentation, ActionSubset) or not whole.exact:
            return action, plain
        if self.label_action is None and not self.each_copy:
            return action, plain
        copies = self.copies()
        fields = copies.reshape(len(copies), len(self.x), positions.count, -1)
        at = np.stack([fields[g][:, table[g]] for g in range(len(table))])  # copy g at π_g p
        same = np.abs(at - at[whole.group.identity]).max() <= _SAME * max(float(np.abs(at).max()), 1e-300)
        if same and not self.each_copy:
            return action, plain
        return action, at.reshape(len(at), len(plain), -1)
