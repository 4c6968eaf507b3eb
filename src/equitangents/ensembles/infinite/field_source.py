"""Fields of targets, y_i(p) at every position p of the output, taken apart into N·P points for their training.

Loss: L = (1/2N) Σ_i Σ_p |f(x_i)(p) − y_i(p)|², a mean over samples and a sum over positions, as over outputs. A loss
that is a mean over positions, too, reaches at time t what is reached here at t/P.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from equitangents._types import AnyAction, ArrayLike, DataRows
from equitangents.actions import Action
from equitangents.actions.subset import ActionSubset, augmenting_elements, whole_action
from equitangents.ensembles.fields.kernel import (
    FieldKernel,
    KernelSymmetry,
    TurningField,
    kernel_symmetry,
    turning_symmetry,
)
from equitangents.ensembles.fields.points import FieldPoints, PointAction
from equitangents.ensembles.fields.targets import Positions, moved_positions, moved_targets
from equitangents.ensembles.infinite import problem
from equitangents.ensembles.infinite.problem import Settings
from equitangents.ensembles.infinite.trained_kernel import TrainedKernel
from equitangents.inference.augmented import augment_targets
from equitangents.inference.spectrum import dense_solve_bytes
from equitangents.kernels import KernelFunction
from equitangents.memory import check_memory

logger = logging.getLogger("equitangents")

_SAME = 1e-12  # of the largest target: how well copies agree that are moved by nothing but their positions


@dataclass(frozen=True)
class Given:
    """What an ensemble is fitted to: inputs x (N, …), targets y (N, …), or (|G|, N, …) of every copy, and actions.

    Here rows of a problem are the inputs themselves.
    """

    augmentation: AnyAction
    label_action: AnyAction
    x: DataRows
    y: np.ndarray

    remedy: ClassVar[str] = "train on fewer samples"
    """What to do where the dense problem does not fit into memory."""

    @property
    def size(self) -> str:
        """How many rows there are, in words."""
        return "N"

    @property
    def grid(self) -> tuple[int, ...]:
        """The positions of outputs, () for one a sample."""
        return ()

    @property
    def turning(self) -> bool:
        """Whether outputs turn: no copies are rows of others, and orbits are inputs like any."""
        return False

    @property
    def own_rank(self) -> int:
        """How many axes the samples' own targets have."""
        return 2

    @property
    def each_copy(self) -> bool:
        """Whether every augmented copy has its own target."""
        return self.y.ndim > self.own_rank

    @property
    def weights(self) -> np.ndarray:
        """How often each augmented copy counts."""
        found = getattr(self.augmentation, "weights", None)
        return np.ones(len(augmenting_elements(self.augmentation))) if found is None else found

    def rows(self, x: ArrayLike) -> DataRows:
        """The rows of inputs x (M, …)."""
        return x

    def per_sample(self, settings: Settings) -> Settings:
        """Settings whose loss is a mean over samples."""
        return settings

    def copies(self) -> np.ndarray:
        """ρ_Y(g) y_i for every augmenting element, (|G|, N, …)."""
        if self.each_copy:
            return self.y
        elements = augmenting_elements(self.augmentation)
        if self.label_action is None:
            return np.broadcast_to(self.y, (len(elements), *self.y.shape))
        flat = self.y.reshape(self.y.shape[:2])
        return augment_targets(self.label_action, flat, elements).reshape(len(elements), *self.y.shape)

    def orbits(self, x: ArrayLike) -> np.ndarray:
        """All ρ_X(g) x, input by input, (M·|G|, …)."""
        moved = np.moveaxis(np.asarray(self.augmentation.orbit(x)), 0, 1)
        return moved.reshape(-1, *moved.shape[2:])

    def by_element(self, action: Action, values: np.ndarray) -> np.ndarray:
        """Values at g z for rows z, (·, rows, |G|, outputs), as those at ρ_X(g) x, (·, M, |G|, *positions, outputs)."""
        return values

    def explicit(self, kernel: KernelFunction, settings: Settings) -> TrainedKernel:
        """Train on all copies one by one, each with all its rows."""
        weights = self.weights
        remedy = (
            f"take fewer samples or fewer of the augmentation's {len(weights)} elements (equitangents.actions.subset)"
        )
        self._check_explicit(len(weights), settings, remedy)
        moved = self.augmentation.orbit(self.x)
        rows = self.rows(moved.reshape(-1, *self.x.shape[1:]))
        y = self.copies().reshape(len(rows), -1)
        each = None if np.ptp(weights) == 0 else np.repeat(weights / weights.mean(), len(rows) // len(weights))
        return problem.dense(kernel, rows, y, settings, each, remedy)

    def _check_explicit(self, copies: int, settings: Settings, remedy: str) -> None:
        n = len(self.x)
        needed = 2 * copies * np.asarray(self.x[:1]).nbytes * n
        if settings.decomposes(n * copies):
            needed += dense_solve_bytes(n * copies)
        task = f"the explicit problem of {n}·{copies} augmented samples"
        check_memory(task, needed, settings.memory_limit, remedy)
        logger.info("solving the explicit N|G| problem, %d·%d samples", n, copies)


@dataclass(frozen=True)
class FieldSource(Given):
    """Signals x (N, …), targets y (N, *positions, outputs) or (|G|, N, …) of every copy, and what augments them.

    Rows are points, NP of them, or Nd of d outputs that turn.
    """

    kernel: FieldKernel
    positions: Positions

    remedy: ClassVar[str] = "train on fewer samples, or take solver='pcg' or 'nystrom'"

    @property
    def size(self) -> str:
        """How many rows there are, in words."""
        return "Nd" if self.turning else "NP"

    @property
    def grid(self) -> tuple[int, ...]:
        """The positions of outputs."""
        return self.positions.shape

    @property
    def turning(self) -> bool:
        """Whether the d outputs, (N, d), turn into one another."""
        return self.positions.turning

    @property
    def own_rank(self) -> int:
        """How many axes the samples' own targets have."""
        return len(self.positions.shape) + 2

    def rows(self, x: ArrayLike) -> FieldPoints:
        """All positions of signals x, signal by signal."""
        return FieldPoints.of(np.asarray(x), self.positions.count)

    def by_element(self, action: Action, values: np.ndarray) -> np.ndarray:
        """Values at g (x, p) = (ρ_X(g) x, π_g p) as those at (ρ_X(g) x, p)."""
        first, _, order, outputs = values.shape
        values = values.reshape(first, -1, self.positions.count, order, outputs).swapaxes(2, 3).copy()
        moved = cast(PointAction, action).at_positions(values, 2)
        return moved.reshape(first, -1, order, *self.grid, outputs)

    def per_sample(self, settings: Settings) -> Settings:
        """Settings whose loss is a mean over samples, not over points."""
        return replace(settings, points=self.positions.count)

    def copies(self) -> np.ndarray:
        """ρ_Y(g) y_i for every augmenting element, (|G|, N, *positions, outputs)."""
        if self.each_copy or self.turning:
            return super().copies()
        return moved_targets(self.augmentation, self.label_action, self.y)

    def symmetry(self, action: PointAction, points: FieldPoints) -> KernelSymmetry:
        """What the augmentation does to the kernel; `action` is that on points."""
        if not self.positions.turning:
            return kernel_symmetry(self.kernel, action, points)
        if self.each_copy:
            return KernelSymmetry(invariant=False, equivariant=False)
        net, count = cast(TurningField, self.kernel.net).net, self.positions.count
        return turning_symmetry(net, self.augmentation, self.label_action, self.x, count)

    def _check_explicit(self, copies: int, settings: Settings, remedy: str) -> None:
        n, count = len(self.x), self.positions.count
        points = copies * n * count
        if settings.decomposes(points):
            task = f"the explicit problem of {n}·{count}·{copies} points"
            check_memory(task, dense_solve_bytes(points), settings.memory_limit, remedy)
        logger.info("solving the explicit problem, %d·%d·%d points", n, count, copies)

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
