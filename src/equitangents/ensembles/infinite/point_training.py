"""Training on the points of fields or of outputs that turn: which problem gives means and covariances.

no augmentation                              dense NP×NP
the network is equivariant already           dense NP×NP: f(ρ_X(g)x)(π_g p) = f(x)(p) for every member, so that copies
                                             with (ρ_Y(g) y)(π_g p) = y(p) count more against the ridge, and no more
its kernel is invariant under the group      orbit-averaged NP×NP where values go with their positions, else irreps;
                                             covariance: all irreps
anything else                                the explicit copies, NP|G|; it says why
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from equitangents.actions import ActionSubset
from equitangents.actions.subset import augmenting_elements
from equitangents.ensembles.fields.invariance import KernelSymmetry, kernel_symmetry
from equitangents.ensembles.fields.kernel import FieldKernel
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.ensembles.fields.targets import Positions, moved_outputs, moved_targets
from equitangents.ensembles.fields.turning import TurningField, turning_symmetry
from equitangents.ensembles.infinite import problem
from equitangents.ensembles.infinite.irrep_problem import IrrepProblem
from equitangents.ensembles.infinite.problem import Problem, Settings
from equitangents.ensembles.infinite.solved_problem import SolvedProblem
from equitangents.ensembles.infinite.solvers import Training
from equitangents.errors import InvalidArgumentError
from equitangents.groups import Group
from equitangents.inference import check_memory, dense_solve_bytes

logger = logging.getLogger("equitangents")

_REMEDY = "train on fewer samples, or take solver='pcg' or 'nystrom'"


@dataclass(frozen=True)
class PointTraining(Training):
    """The training of points. augmentation: a `PointAction`, or None; labels (N·P, outputs) or (|G|, N·P, outputs).

    source: the signals, targets and augmentation of which it was made, for explicit copies.
    """

    source: FieldSource

    @cached_property
    def solver(self) -> str:
        """What gives the mean."""
        if self.augmentation is None:
            return "dense NP×NP"
        if self.reason is not None:
            return f"explicit NP|G| ({self.reason})"
        if self.equivariant:
            group = self.augmentation.group.name
            return f"dense NP×NP (the network is equivariant under {group}: each copy is its sample)"
        if self.invariant_labels:
            return "orbit-averaged NP×NP"
        assert isinstance(self.mean_problem, IrrepProblem)
        return _of_points(self.mean_problem.name)

    @cached_property
    def covariance_solver(self) -> str:
        """How covariances are computed: irrep by irrep, or as the mean is."""
        if self.augmentation is None or self.reason is not None or self.equivariant:
            return self.solver
        return _of_points(super().covariance_solver)

    def _solve_mean(self) -> Problem | IrrepProblem | SolvedProblem:
        if self.augmentation is not None and self.reason is not None:
            return self.source.explicit(self.settings)
        if self.augmentation is None or self.equivariant:
            copies = 1 if self.augmentation is None else self.augmentation.group.order
            return problem.dense(self.kernel, self.x, self.labels, self.settings, remedy=_REMEDY, copies=copies)
        return super()._solve_mean()

    def _solve_covariance(self) -> Problem | IrrepProblem | SolvedProblem:
        return (
            self._mean_with_covariance()
            if self.augmentation is not None and self.equivariant
            else super()._solve_covariance()
        )

    @cached_property
    def reason(self) -> str | None:
        """Why the explicit problem has to be solved; None if it need not."""
        if isinstance(self.source.augmentation, ActionSubset):
            return self.source.augmentation.name
        if not self.augmentation.exact:
            return "the augmentation is only approximately an action"
        if self.source.positions.turning and not self.symmetry.invariant:
            return "outputs do not turn as the targets of copies do"
        if not self.symmetry.invariant:
            return f"the augmentation changes the kernel, by {self.symmetry.together:.1e} of its size"
        return None

    @cached_property
    def symmetry(self) -> KernelSymmetry:
        """What the augmentation does to the kernel."""
        source = self.source
        if source.positions.turning:
            each_copy = source.y.ndim > len(source.positions.shape) + 2
            if each_copy:
                return KernelSymmetry(np.inf, np.inf, 0.0)
            net, count = cast(TurningField, source.kernel.net).net, source.positions.count
            return turning_symmetry(net, source.augmentation, source.label_action, source.x, count)
        return kernel_symmetry(source.kernel, self.augmentation, self.x)

    @cached_property
    def equivariant(self) -> bool:
        """Whether every member is equivariant already, and targets are, too."""
        return self.reason is None and self.invariant_labels and self.symmetry.equivariant

    def _orbit_group(self) -> Group:
        if isinstance(self.source.augmentation, ActionSubset):
            raise InvalidArgumentError("orbits are those of the augmentation's group; this ensemble has no such group")
        return super()._orbit_group()


@dataclass(frozen=True)
class FieldSource:
    """Signals x (N, …), targets y (N, *positions, outputs) or (|G|, N, …) of every copy, and what augments them."""

    kernel: FieldKernel
    augmentation: Any
    label_action: Any
    x: np.ndarray
    y: np.ndarray
    positions: Positions

    def copies(self) -> np.ndarray:
        """ρ_Y(g) y_i for every augmenting element, (|G|, N, *positions, outputs)."""
        if self.y.ndim > len(self.positions.shape) + 2:
            return self.y
        moved = moved_outputs if self.positions.turning else moved_targets
        return moved(self.augmentation, self.label_action, self.y)

    def explicit(self, settings: Settings) -> Problem | SolvedProblem:
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


def _of_points(name: str) -> str:
    """Such as "irreps of D4: 5 blocks, largest 2NP"."""
    return f"{name}P"
