"""Training data of an ensemble, and the smallest exact problems for its mean and its covariance.

no augmentation                            dense N×N, for both
every member is equivariant already        dense N×N: copies only change the weight against the ridge (fields only)
the kernel is invariant under the action   mean: orbit-averaged N×N for invariant labels, else the irreps that hold
                                           labels; covariance: all irreps
anything else                              the explicit augmented samples, for both, with the reason

Of fields on P positions, and of d equivariant outputs, rows of a problem are points, NP or Nd of them. Their loss
L = (1/2N) Σ_i Σ_p |f(x_i)(p) − y_i(p)|² is a mean over samples and a sum over positions, as over outputs. A loss that
averages over positions, too, reaches at time t the state of time t/P here.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import jax
import numpy as np

from equitangents._types import AnyAction, ArrayLike, DataRows
from equitangents.actions import Action, restrict
from equitangents.actions.action import GroupAction
from equitangents.actions.subset import ActionSubset, Augmentation, augmenting_elements, whole_action
from equitangents.ensembles import fields
from equitangents.ensembles.estimator import check_actions
from equitangents.ensembles.fields import EquivariantField, FieldKernel, FieldPoints, OutputPositions, PointAction
from equitangents.ensembles.infinite import irrep_problem, predictor
from equitangents.ensembles.infinite.irrep_problem import IrrepProblem
from equitangents.ensembles.infinite.predictor import Decomposed, KernelPredictor, SolvedProblem, TrainingSettings
from equitangents.ensembles.orbits import orbit_batch
from equitangents.errors import InvalidArgumentError
from equitangents.groups import Group
from equitangents.groups.group import Subgroup
from equitangents.inference.augmented import augment_targets
from equitangents.inference.draws import sample_gaussian
from equitangents.inference.group_fourier import FourierIrrep, fourier_irreps
from equitangents.inference.spectrum import dense_solve_bytes
from equitangents.kernels import KernelFunction
from equitangents.kernels.invariance import draws_noise, is_invariant
from equitangents.kernels.random_features import RandomFeatures
from equitangents.kernels.result import FieldFunction
from equitangents.memory import check_memory
from equitangents.solvers.spectral import Eigh

logger = logging.getLogger("equitangents")

_SAME = 1e-12  # of the largest target: how well copies agree that are moved by nothing but their positions


@dataclass(frozen=True)
class Training:
    """Training data of an ensemble; its problems are solved on first use.

    augmentation, label_action, x (N, …) and y (N, *positions, outputs) are those of `fit`. kernel, action, rows and
    labels are those of the problems: of inputs, or of points if outputs are at `positions`. labels (rows, outputs),
    or (|G|, rows, outputs) if copies of a row have different labels. formulation: the problem for the mean, "dense",
    "equivariant", "averages", "irreps" or "explicit"; reason: why it is "explicit".
    """

    kernel: KernelFunction
    augmentation: AnyAction
    label_action: AnyAction
    x: DataRows
    y: np.ndarray
    positions: OutputPositions | None
    settings: TrainingSettings
    action: AnyAction
    rows: DataRows
    labels: np.ndarray
    formulation: str = "dense"
    reason: str | None = None

    @property
    def grid(self) -> tuple[int, ...]:
        """The positions of outputs; () for one output per sample."""
        return () if self.positions is None else self.positions.shape

    @property
    def equivariant(self) -> bool:
        """Whether outputs are equivariant: no copies are rows of others, and orbits need no special treatment."""
        return self.positions is not None and self.positions.equivariant

    @property
    def size(self) -> str:
        """The number of rows as a formula."""
        return "N" if self.positions is None else "Nd" if self.equivariant else "NP"

    @property
    def solver(self) -> str:
        """Description of the problem that gives the mean."""
        n, kernel = self.size, self.kernel
        if self.formulation == "irreps":
            solved = cast(IrrepProblem, self.mean_problem).transform.irreps
            return irrep_problem.name_of(self.action, solved) + n[1:]
        if self.formulation == "explicit":
            return f"explicit {n}|G| ({self.reason})"
        if self.formulation == "equivariant":
            group = self.action.group.name
            return f"dense {n}×{n} (the network is equivariant under {group}: each copy is its sample)"
        if self.formulation == "dense" and isinstance(kernel, RandomFeatures) and self.settings.method is None:
            return f"primal {n}×{kernel.features}"
        return f"{'dense' if self.formulation == 'dense' else 'orbit-averaged'} {n}×{n}"

    @property
    def covariance_solver(self) -> str:
        """Description of the covariance's problem: by irreps, or that of the mean."""
        return irrep_problem.name_of(self.action, self.irreps) + self.size[1:] if self.by_irreps else self.solver

    @property
    def by_irreps(self) -> bool:
        """Whether the covariance's problem is an `IrrepProblem`: an invariant kernel whose copies add information."""
        return self.formulation in ("averages", "irreps")

    @cached_property
    def mean_problem(self) -> KernelPredictor:
        """The problem solved for the mean."""
        settings = self.settings
        if self.formulation == "explicit":
            return self._explicit()
        if not self.by_irreps:
            copies = 1 if self.augmentation is None else self.action.group.order
            return predictor.dense(self.kernel, self.rows, self.labels, settings, copies=copies)
        if self.formulation == "averages":
            return predictor.orbit_averaged(self.kernel, self.action, self.rows, self.labels, settings)
        name = irrep_problem.name_of(self.action, self.irreps)
        if settings.store is not None:
            expected = "None for labels whose problem has several kernel matrices"
            raise InvalidArgumentError("store", str(settings.store), expected, name)
        if settings.method is not None and not settings.decomposes(len(self.rows)):
            expected = "'eigh' or 'auto', since the problem of these labels is decomposed"
            raise InvalidArgumentError("solver", settings.method.name, expected, name)
        return self._by_irreps(None, labelled_only=True)

    @cached_property
    def covariance_problem(self) -> KernelPredictor:
        """The problem solved for mean and covariance; with solver="auto" by a decomposition, if it fits into memory."""
        if self.by_irreps:
            logger.info("covariances by %s", self.covariance_solver)
            known = cast(IrrepProblem, self.mean_problem) if self.formulation == "irreps" else None
            return self._by_irreps(known, labelled_only=False)
        solved = self.mean_problem
        if (
            isinstance(solved, Decomposed)
            or self.settings.method is not None
            or isinstance(self.kernel, RandomFeatures)
        ):
            return solved
        fits = dense_solve_bytes(len(solved.inputs)) <= self.settings.limit
        return self.decomposed.covariance_problem if fits else solved

    @cached_property
    def decomposed(self) -> Training:
        """This training with problems solved by eigendecomposition, for many times and leave-one-out."""
        solved = self.mean_problem
        if isinstance(solved, Decomposed):
            return self
        logger.info("decomposing the training kernel: this result needs its eigenvalues")
        held = cast(SolvedProblem, solved).kernels
        return self.with_settings(replace(self.settings, method=Eigh(), held=held))

    def with_settings(self, settings: TrainingSettings) -> Training:
        """The same kernel and data with another ridge or learning rate; decompositions are reused."""
        assert settings.field == self.settings.field
        settings = replace(settings, points=self.settings.points)
        training = replace(self, settings=settings)
        for name in ("mean_problem", "covariance_problem"):
            solved = vars(self).get(name)
            if isinstance(solved, Decomposed) and settings.ridge.same_above(self.settings.ridge):
                vars(training)[name] = solved.retuned(settings)
        return training

    def means(self, x: ArrayLike, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, *positions, outputs)."""
        means = self.mean_problem.means(self.rows_of(x), times)
        return means.reshape(len(times), len(x), *self.grid, means.shape[-1])

    def covariances(self, x: ArrayLike, times: np.ndarray, *, diagonal: bool) -> np.ndarray:
        """Σ_t of one output at every time, (T, M, *positions, M, *positions), or its diagonal, (T, M, *positions)."""
        rows, solved, count = self.rows_of(x), self.covariance_problem, len(times)
        for t in times:
            solved.check(t)
        points = 0 if diagonal else len(rows)
        needed = solved.query_bytes(points, count) + 8 * points**2 * count
        task, remedy = f"the joint covariance of {points} inputs", "ask for fewer inputs at once, or for return_std"
        check_memory(task, needed, self.settings.memory_limit, remedy)
        found = solved.covariances(rows, times, diagonal=diagonal)
        return found.reshape(len(times), *((len(x), *self.grid) * (1 if diagonal else 2)))

    def sample(self, x: ArrayLike, draws: int, time: float, *, key: jax.Array) -> np.ndarray:
        """Draws of one network jointly over all inputs and positions: (draws, M, *positions, outputs)."""
        times, rows = np.array([time]), self.rows_of(x)
        covariance = self.covariances(x, times, diagonal=False).reshape(len(rows), len(rows))
        found = sample_gaussian(self.mean_problem.means(rows, times)[0], covariance, draws, key=key)
        return found.reshape(draws, len(x), *self.grid, found.shape[-1])

    def orbit_means(self, x: ArrayLike, times: np.ndarray) -> np.ndarray:
        """μ_t on the orbit of each input at every time: (T, M, |G|, *positions, outputs)."""
        order = self._orbit_group().order
        if self.equivariant or self.formulation == "explicit":
            found = self.means(orbit_batch(self.augmentation, x), times)
            return found.reshape(len(times), len(x), order, *found.shape[2:])
        rows, solved = self.rows_of(x), self.mean_problem
        if isinstance(solved, IrrepProblem):
            found = solved.orbit_means(rows, times)
        else:  # one value on each orbit
            found = np.repeat(solved.means(rows, times)[:, :, None], order, axis=2)
        return self._by_element(found)

    def sample_orbits(self, x: ArrayLike, draws: int, time: float, *, key: jax.Array) -> np.ndarray:
        """Draws of one network jointly over the orbits of all inputs: (draws, M, |G|, *positions, outputs)."""
        order = self._orbit_group().order
        if self.equivariant or not self.by_irreps:
            found = self.sample(orbit_batch(self.augmentation, x), draws, time, key=key)
            return found.reshape(draws, len(x), order, *found.shape[2:])
        solved, limit = cast(IrrepProblem, self.covariance_problem), self.settings.memory_limit
        solved.check(time)
        return self._by_element(solved.sample_orbits(self.rows_of(x), draws, time, key=key, limit=limit))

    def rows_of(self, x: ArrayLike) -> DataRows:
        """The rows for inputs x (M, …): x itself, or all positions, signal by signal."""
        return x if self.positions is None else FieldPoints.of(np.asarray(x), self.positions.count)

    def copies(self) -> np.ndarray:
        """ρ_Y(g) y_i for every augmenting element, (|G|, N, *positions, outputs)."""
        if self.positions is not None and not self.equivariant:
            return fields.moved_targets(self.augmentation, self.label_action, self.y)
        elements = augmenting_elements(self.augmentation)
        if self.label_action is None:
            return np.broadcast_to(self.y, (len(elements), *self.y.shape))
        flat = self.y.reshape(self.y.shape[:2])
        return augment_targets(self.label_action, flat, elements).reshape(len(elements), *self.y.shape)

    def augmented_labels(self) -> np.ndarray:
        """The label of every augmented copy, (|G|, rows, outputs)."""
        copies = () if self.labels.ndim == 3 else (self.action.group.order,)
        return np.broadcast_to(self.labels, (*copies, *self.labels.shape))

    @cached_property
    def irreps(self) -> tuple[FourierIrrep, ...]:
        """All irreps of the augmentation's group, taken from a solved problem if there is one."""
        solved = vars(self).get("mean_problem")
        return solved.irreps if isinstance(solved, IrrepProblem) else fourier_irreps(self.action.group)

    def _by_irreps(self, solved: IrrepProblem | None, *, labelled_only: bool) -> IrrepProblem:
        data = self.kernel, self.action, self.rows, self.augmented_labels(), self.settings
        return irrep_problem.solve(*data, self.irreps, solved, labelled_only=labelled_only)

    def _explicit(self) -> KernelPredictor:
        """The problem of all copies, each with all its rows."""
        n, sampled = len(self.x), getattr(self.augmentation, "weights", None)
        weights = np.ones(len(augmenting_elements(self.augmentation))) if sampled is None else sampled
        copies, total = len(weights), len(weights) * len(self.rows)
        remedy = f"take fewer samples or fewer of the augmentation's {copies} elements (equitangents.actions.subset)"
        needed = dense_solve_bytes(total) if self.settings.decomposes(total) else 0
        if self.positions is None:
            needed += 2 * copies * np.asarray(self.x[:1]).nbytes * n
        task = f"the explicit problem of {n}·{copies} augmented samples"
        check_memory(task, needed, self.settings.memory_limit, remedy)
        logger.info("solving the explicit N|G| problem, %d·%d samples", n, copies)
        rows = self.rows_of(self.augmentation.orbit(self.x).reshape(-1, *self.x.shape[1:]))
        y = self.copies().reshape(len(rows), -1)
        each = None if np.ptp(weights) == 0 else np.repeat(weights / weights.mean(), len(rows) // copies)
        return predictor.dense(self.kernel, rows, y, self.settings, each, remedy)

    def _orbit_group(self) -> Group:
        """The augmentation's group; InvalidArgumentError if there is none."""
        if not isinstance(self.augmentation, Action):
            raise InvalidArgumentError("augmentation", self.augmentation, "an action of a group, for its orbits")
        return self.augmentation.group

    def _by_element(self, values: np.ndarray) -> np.ndarray:
        """Values at g z, (·, rows, |G|, outputs), ordered as those at ρ_X(g) x, (·, M, |G|, *positions, outputs).

        g (x, p) = (ρ_X(g) x, π_g p).
        """
        if self.positions is None:
            return values
        first, _, order, outputs = values.shape
        values = values.reshape(first, -1, self.positions.count, order, outputs).swapaxes(2, 3).copy()
        moved = cast(PointAction, self.action).at_positions(values, 2)
        return moved.reshape(first, -1, order, *self.grid, outputs)


def make_training(
    net: KernelFunction | FieldFunction,
    augmentation: Augmentation | None,
    label_action: GroupAction | None,
    x: DataRows,
    y: np.ndarray,
    positions: OutputPositions | None,
    settings: TrainingSettings,
) -> Training:
    """Training on y (N, outputs), or for fields (N, *positions, outputs).

    A subset of an action that is a subgroup becomes a restricted action.
    """
    x = x if positions is None else np.asarray(x)
    equivariant = positions is not None and positions.equivariant
    if getattr(net, "samples_rotations", False):
        net = cast(Any, net).sampled_for(x)  # predictions do not depend on one another
    check_actions(augmentation, label_action, x, y[..., 0] if equivariant else y)
    if isinstance(augmentation, ActionSubset) and augmentation.is_subgroup:
        full_action: Any = augmentation.action
        subgroup = Subgroup(full_action.group, augmentation.elements)  # in the order given, as copies and orbits
        label_action = None if label_action is None else restrict(cast(Action, label_action), subgroup)
        augmentation = restrict(full_action, subgroup)
    kernel, action, rows, labels = cast(KernelFunction, net), cast(AnyAction, augmentation), x, y
    if positions is not None:
        field = cast(FieldFunction, EquivariantField(kernel) if equivariant else net)
        kernel, rows = cast(KernelFunction, FieldKernel(field)), FieldPoints.of(x, positions.count)
        labels = y.reshape(len(rows), -1)
        if augmentation is not None:
            table = fields.moved_positions(augmentation, label_action, positions)
            action = PointAction(cast(Action, whole_action(augmentation)), table)
        if settings.store is not None:
            raise InvalidArgumentError("store", str(settings.store), "None for targets that are fields")
        settings = replace(settings, points=positions.count)  # the loss is a mean over samples, not over points
    training = Training(kernel, augmentation, label_action, x, y, positions, settings, action, rows, labels)
    if label_action is not None and positions is None:
        training = replace(training, labels=training.copies())
    elif label_action is not None and not equivariant and action.exact and not isinstance(augmentation, ActionSubset):
        training = replace(training, labels=_labels_of_points(training))
    formulation, reason = _formulation(training)
    return replace(training, formulation=formulation, reason=reason)


def _labels_of_points(training: Training) -> np.ndarray:
    """Labels of points, (|G|, rows, outputs), copy g at π_g p; (rows, outputs) if all copies of a point agree."""
    table, copies = training.action.table, training.copies()
    values = copies.reshape(len(copies), len(training.x), table.shape[1], -1)
    at = np.stack([values[g][:, table[g]] for g in range(len(table))])
    difference = np.abs(at - at[training.action.group.identity]).max()
    same = difference <= _SAME * max(float(np.abs(at).max()), 1e-300)
    return training.labels if same else at.reshape(len(at), len(training.rows), -1)


def _formulation(training: Training) -> tuple[str, str | None]:
    """(the problem that gives the mean, the reason if it is the explicit one)."""
    kernel, action = training.kernel, training.augmentation
    if action is None:
        return "dense", None
    if isinstance(action, ActionSubset):
        return "explicit", action.name
    if not training.action.exact:
        return "explicit", "the augmentation is only approximately an action"
    if draws_noise(kernel):
        return "explicit", "the network draws noise for each copy"
    if training.positions is None:
        symmetry = "invariant" if is_invariant(kernel, action, training.x) else None
    elif training.equivariant:
        net = cast(EquivariantField, cast(FieldKernel, kernel).net).net
        symmetry = fields.output_symmetry(net, action, training.label_action, training.x, training.positions.count)
    else:
        symmetry = fields.kernel_symmetry(cast(FieldKernel, kernel), training.action, cast(FieldPoints, training.rows))
    if symmetry is None:
        kernels = "the kernel is not known to be invariant under the augmentation"
        return "explicit", "outputs may not transform as targets of copies do" if training.equivariant else kernels
    return "irreps" if training.labels.ndim == 3 else "equivariant" if symmetry == "equivariant" else "averages", None
