"""Training on fields of targets, y_i(p) at every position p of the output: the training of N·P points.

Loss: L = (1/2N) Σ_i Σ_p |f(x_i)(p) − y_i(p)|², a mean over samples and a sum over positions, as over outputs. A loss
that is a mean over positions, too, reaches at time t what is reached here at t/P.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from equitangents.actions import Action, ActionSubset, restrict
from equitangents.actions.group_action import GroupAction
from equitangents.actions.subset import Augmentation, augmenting_elements, whole_action
from equitangents.ensembles.fields.action import PointAction
from equitangents.ensembles.fields.kernel import FieldKernel
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.ensembles.fields.targets import Positions, moved_positions
from equitangents.ensembles.fields.turning import TurningField
from equitangents.ensembles.infinite.point_training import FieldSource, PointTraining
from equitangents.ensembles.infinite.problem import Settings
from equitangents.ensembles.infinite.solvers import Training
from equitangents.ensembles.training.settings import check_actions
from equitangents.errors import ShapeError
from equitangents.inference import Dynamics
from equitangents.kernels import KernelFunction
from equitangents.kernels.fields.result import FieldFunction

_SAME = 1e-12  # of the largest target: how well copies agree that are moved by nothing but their positions


@dataclass(frozen=True)
class PerSample:
    """A kind of dynamics whose loss is a mean over samples of `count` points each, not over points."""

    kind: Callable[[float, int], Dynamics]
    count: int

    def __call__(self, learning_rate: float, samples: int) -> Dynamics:
        """The dynamics of so many points."""
        return self.kind(learning_rate, max(1, samples // self.count))


@dataclass(frozen=True)
class FieldTraining:
    """A `PointTraining` that is asked about inputs (M, …) and answers in fields, (…, M, *positions, …)."""

    points: PointTraining
    positions: Positions

    @property
    def mean_problem(self) -> Any:
        """Solved for the mean, of points."""
        return self.points.mean_problem

    @property
    def solver(self) -> str:
        """What gives the mean."""
        return self._named(self.points.solver)

    @property
    def covariance_solver(self) -> str:
        """What gives covariances, told of fields or of outputs that turn."""
        return self._named(self.points.covariance_solver)

    def _named(self, solver: str) -> str:
        return solver.replace("NP", "Nd") if self.positions.turning else solver

    @property
    def settings(self) -> Settings:
        """The settings with which points are trained: ridge, dynamics and solver."""
        return self.points.settings

    @property
    def kernel(self) -> FieldKernel:
        """The kernel of points."""
        return self.points.source.kernel

    @property
    def x(self) -> np.ndarray:
        """The signals that were given."""
        return self.points.source.x

    @property
    def labels(self) -> np.ndarray:
        """The targets that were given, (N, *positions, outputs)."""
        return self.points.source.y

    @property
    def augmentation(self) -> Any:
        """The action on signals, or None."""
        return self.points.source.augmentation

    @property
    def label_action(self) -> Any:
        """The action on fields of targets, as it was given."""
        return self.points.source.label_action

    @property
    def decomposed(self) -> FieldTraining:
        """The same training, its problems solved by eigendecompositions."""
        return replace(self, points=cast(PointTraining, self.points.decomposed))

    def with_settings(self, settings: Settings) -> FieldTraining:
        """The same kernel and data with another ridge or learning rate: what is decomposed already stays so."""
        points = self.points.with_settings(_per_sample(settings, self.positions.count))
        return replace(self, points=cast(PointTraining, points))

    def means(self, x: Any, times: np.ndarray) -> np.ndarray:
        """μ_t at every time: (T, M, *positions, outputs)."""
        means = self.points.means(self._at(x), times)
        return means.reshape(len(times), len(x), *self.positions.shape, -1)

    def variances(self, x: Any, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every position with itself: (T, M, *positions)."""
        return self.points.variances(self._at(x), times).reshape(len(times), len(x), *self.positions.shape)

    def covariances(self, x: Any, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output between all positions: (T, M, *positions, M, *positions)."""
        field = len(x), *self.positions.shape
        return self.points.covariances(self._at(x), times).reshape(len(times), *field, *field)

    def sample(self, x: Any, draws: int, time: float, *, key: Any) -> np.ndarray:
        """Networks drawn jointly over inputs and positions: (draws, M, *positions, outputs)."""
        found = self.points.sample(self._at(x), draws, time, key=key)
        return found.reshape(draws, len(x), *self.positions.shape, -1)

    def orbit_means(self, x: Any, times: np.ndarray) -> np.ndarray:
        """μ_t at all ρ_X(g) x: (T, M, |G|, *positions, outputs)."""
        if self.positions.turning:
            means = self.means(self._orbits(x), times)
            return means.reshape(len(times), len(x), -1, *means.shape[2:])
        means = self.points.orbit_means(self._at(x), times)
        return self._by_element(means.reshape(len(times), len(x), self.positions.count, *means.shape[2:]))

    def orbits(self, x: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (T, M, |G|, *positions, outputs) and covariances along orbits, over (|G|, *positions) twice."""
        parts = [self.joint_orbits(x[m : m + 1], times) for m in range(len(x))]
        shape = parts[0][0].shape[2:-1]
        covariances = [c.reshape(len(times), 1, *shape, *shape) for _, c in parts]
        return np.concatenate([m for m, _ in parts], axis=1), np.concatenate(covariances, axis=1)

    def joint_orbits(self, x: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `orbits`, between all of them: (T, M, |G|, *positions, M, |G|, *positions)."""
        if self.positions.turning:
            orbits = len(x), self.points._orbit_group().order, self.positions.count
            between = self.covariances(self._orbits(x), times)
            return self.orbit_means(x, times), between.reshape(len(times), *orbits, *orbits)
        order, at = self.points._orbit_group().order, self._at(x)
        means, covariances = self.points.joint_orbits(at, times)
        count, n = self.positions.count, len(x)
        means = self._by_element(means.reshape(len(times), n, count, order, -1))
        c = covariances.reshape(len(times), n, count, order, n, count, order)
        c = np.moveaxis(c, (3, 6), (2, 5)).copy()
        c = self._moved(c, 2, 3)
        c = self._moved(c, 5, 6)
        grid = n, order, *self.positions.shape
        return means, c.reshape(len(times), *grid, *grid)

    def sample_orbits(self, x: Any, draws: int, time: float, *, key: Any) -> np.ndarray:
        """Draws of one network jointly over the orbits of all inputs: (draws, M, |G|, *positions, outputs)."""
        if self.positions.turning:
            found = self.sample(self._orbits(x), draws, time, key=key)
            return found.reshape(draws, len(x), -1, *found.shape[2:])
        found = self.points.sample_orbits(self._at(x), draws, time, key=key)
        return self._by_element(found.reshape(draws, len(x), self.positions.count, *found.shape[2:]))

    def _orbits(self, x: Any) -> np.ndarray:
        """All ρ_X(g) x, input by input, (M·|G|, …)."""
        self.points._orbit_group()
        moved = np.moveaxis(np.asarray(self.augmentation.orbit(x)), 0, 1)
        return moved.reshape(-1, *moved.shape[2:])

    def _at(self, x: Any) -> FieldPoints:
        return FieldPoints.of(np.asarray(x), self.positions.count)

    def _by_element(self, values: np.ndarray) -> np.ndarray:
        """Values at g (x, p) = (ρ_X(g) x, π_g p), (·, M, P, |G|, outputs), as those at (ρ_X(g) x, p)."""
        values = self._moved(values.swapaxes(2, 3).copy(), 2, 3)
        return values.reshape(*values.shape[:3], *self.positions.shape, values.shape[-1])

    def _moved(self, values: np.ndarray, elements: int, positions: int) -> np.ndarray:
        """Entry (g, p) from entry (g, π_g⁻¹ p), for the axes of elements and of positions, one after the other."""
        assert positions == elements + 1
        table = self.points.augmentation.table
        back = np.argsort(table, axis=1)
        moved = np.moveaxis(values, (elements, positions), (0, 1))
        moved = moved[np.arange(len(table))[:, None], back]
        return np.moveaxis(moved, (0, 1), (elements, positions))


def make_field_training(
    net: KernelFunction | FieldFunction,
    augmentation: Augmentation | None,
    label_action: GroupAction | None,
    x: Any,
    y: np.ndarray,
    positions: Positions,
    settings: Settings,
) -> FieldTraining:
    """Check actions and targets against each other, and take the fields apart into points.

    y (N, *positions, outputs), or (|G|, N, *positions, outputs), the target of every augmented copy.
    """
    x, kernel = (
        np.asarray(x),
        FieldKernel(TurningField(cast(KernelFunction, net)) if positions.turning else cast(FieldFunction, net)),
    )
    each_copy = y.ndim > len(positions.shape) + 2
    _check_copies(each_copy, augmentation, label_action, x, y[..., 0] if positions.turning else y)
    if isinstance(augmentation, ActionSubset) and augmentation.is_subgroup:
        whole = augmentation.action
        assert isinstance(whole, Action)
        subgroup = whole.group.subgroup(augmentation.elements)
        y = y[np.argsort(augmentation.elements)] if each_copy else y
        label_action = None if label_action is None else restrict(cast(Action, label_action), subgroup)
        augmentation = restrict(whole, subgroup)
    source = FieldSource(kernel, augmentation, label_action, x, y, positions)
    moved, labels = _point_labels(source)
    points = FieldPoints.of(x, positions.count)
    settings = _per_sample(settings, positions.count)
    return FieldTraining(PointTraining(kernel, moved, None, points, labels, settings, source), positions)


def _check_copies(
    each_copy: bool, augmentation: Augmentation | None, label_action: GroupAction | None, x: np.ndarray, y: np.ndarray
) -> None:
    if each_copy and (augmentation is None or label_action is not None):
        raise ShapeError(
            f"y has shape {y.shape}: a field for every augmented copy, (|G|, N, *positions, outputs), needs an "
            "augmentation and no label_action"
        )
    check_actions(augmentation, label_action, x, y)
    if each_copy and augmentation is not None and len(y) != (count := len(augmenting_elements(augmentation))):
        raise ShapeError(f"y has shape {y.shape}; with a field for every augmented copy expected {count} of them first")


def _point_labels(source: FieldSource) -> tuple[PointAction | None, np.ndarray]:
    """(the action on points, labels (N·P, outputs), or (|G|, N·P, outputs) where they differ from copy to copy)."""
    y, positions = source.y, source.positions
    each_copy = y.ndim > len(positions.shape) + 2
    plain = (y[0] if each_copy else y).reshape(len(source.x) * positions.count, -1)
    if source.augmentation is None:
        return None, plain
    whole: Any = whole_action(source.augmentation)
    table = moved_positions(source.augmentation, source.label_action, positions)
    action = PointAction(whole, table)
    if positions.turning:
        return action, plain
    if isinstance(source.augmentation, ActionSubset) or not whole.exact:
        return action, plain
    if source.label_action is None and not each_copy:
        return action, plain
    copies = source.copies()
    fields = copies.reshape(len(copies), len(source.x), positions.count, -1)
    at = np.stack([fields[g][:, table[g]] for g in range(len(table))])  # copy g at π_g p
    same = np.abs(at - at[whole.group.identity]).max() <= _SAME * max(float(np.abs(at).max()), 1e-300)
    if same and not each_copy:
        return action, plain
    return action, at.reshape(len(at), len(plain), -1)


def _per_sample(settings: Settings, count: int) -> Settings:
    return replace(settings, dynamics=PerSample(settings.dynamics, count))


def points_of(training: Training | FieldTraining) -> Training:
    """The training of numbers, each at one point, behind a training on fields."""
    return training.points if isinstance(training, FieldTraining) else training
