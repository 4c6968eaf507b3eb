"""What an ensemble is trained on, and the problems that give its mean and its covariance: the smallest that are exact.

no augmentation                            dense N×N, for both
every member is equivariant already        dense N×N: copies count more against the ridge, and no more (fields alone)
the kernel is invariant under the action   mean: orbit-averaged N×N for invariant labels, else the irreps that hold
                                           labels; covariance: all irreps
anything else                              the explicit augmented samples, for both; it says why

Of fields on P positions, and of d outputs that turn, rows of a problem are points, NP or Nd of them. Their loss
L = (1/2N) Σ_i Σ_p |f(x_i)(p) − y_i(p)|² is a mean over samples and a sum over positions, as over outputs. A loss that
is a mean over positions, too, reaches at time t what is reached here at t/P.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import jax
import numpy as np

from equitangents._types import AnyAction, ArrayLike, DataRows
from equitangents.actions import Action, restrict
from equitangents.actions.action import GroupAction
from equitangents.actions.subset import ActionSubset, Augmentation, augmenting_elements, whole_action
from equitangents.ensembles.estimator import check_actions
from equitangents.ensembles.fields import (
    FieldKernel,
    FieldPoints,
    PointAction,
    Positions,
    TurningField,
    kernel_symmetry,
    moved_positions,
    moved_targets,
    turning_symmetry,
)
from equitangents.ensembles.infinite import irrep_problem, problem
from equitangents.ensembles.infinite.irrep_problem import IrrepProblem
from equitangents.ensembles.infinite.predictor import Decomposed, KernelPredictor, SolvedProblem
from equitangents.ensembles.infinite.problem import Settings
from equitangents.ensembles.orbits import orbit_batch
from equitangents.errors import InvalidArgumentError
from equitangents.groups import Group
from equitangents.groups.table_group import Subgroup
from equitangents.inference.augmented import augment_targets
from equitangents.inference.draws import sample_gaussian
from equitangents.inference.group_fourier import FourierIrrep, fourier_irreps
from equitangents.inference.spectrum import dense_solve_bytes
from equitangents.kernels import KernelFunction
from equitangents.kernels.invariance import draws_noise, is_invariant
from equitangents.kernels.random_features import RandomFeatures
from equitangents.kernels.result import FieldFunction
from equitangents.kernels.rotations import sampled_for
from equitangents.memory import check_memory

logger = logging.getLogger("equitangents")

_SAME = 1e-12  # of the largest target: how well copies agree that are moved by nothing but their positions
_OF_THE_DATA = ("way", "solver", "covariance_solver", "_irreps", "reason", "symmetry")
"""What settings do not change."""


@dataclass(frozen=True)
class Training:
    """What an ensemble is trained on; problems are solved when first asked for.

    augmentation, label_action, x (N, …) and y (N, *positions, outputs) are those of `fit`. kernel, action, rows and
    labels are those of the problems: of inputs, or of points where outputs are at `positions`. labels (rows, outputs),
    or (|G|, rows, outputs) where copies of a row have labels of their own.
    """

    kernel: KernelFunction
    augmentation: AnyAction
    label_action: AnyAction
    x: DataRows
    y: np.ndarray
    positions: Positions | None
    settings: Settings
    action: AnyAction
    rows: DataRows
    labels: np.ndarray

    @property
    def grid(self) -> tuple[int, ...]:
        """The positions of outputs, () for one a sample."""
        return () if self.positions is None else self.positions.shape

    @property
    def turning(self) -> bool:
        """Whether outputs turn: no copies are rows of others, and orbits are inputs like any."""
        return self.positions is not None and self.positions.turning

    @property
    def size(self) -> str:
        """How many rows there are, as formulas call it."""
        return "N" if self.positions is None else "Nd" if self.turning else "NP"

    @cached_property
    def way(self) -> str:
        """Which problem gives the mean: "dense", "equivariant", "averages", "irreps" or "explicit"."""
        if self.augmentation is None:
            return "dense"
        if self.reason is not None:
            return "explicit"
        if self.labels.ndim == 3:
            return "irreps"
        return "equivariant" if self.symmetry == "equivariant" else "averages"

    @cached_property
    def solver(self) -> str:
        """What gives the mean."""
        n = self.size
        if self.way == "dense" and isinstance(self.kernel, RandomFeatures) and self.settings.solver == "auto":
            return f"primal {n}×{self.kernel.features}"
        if self.way == "irreps":
            solved = cast(IrrepProblem, self.mean_problem).transform.irreps
            return irrep_problem.name_of(self.action, solved) + n[1:]
        if self.way == "explicit":
            return f"explicit {n}|G| ({self.reason})"
        if self.way == "averages":
            return f"orbit-averaged {n}×{n}"
        if self.way == "dense":
            return f"dense {n}×{n}"
        return f"dense {n}×{n} (the network is equivariant under {self.action.group.name}: each copy is its sample)"

    @cached_property
    def covariance_solver(self) -> str:
        """How covariances are computed: irrep by irrep, or as the mean is."""
        return irrep_problem.name_of(self.action, self._irreps) + self.size[1:] if self.by_irreps else self.solver

    @property
    def by_irreps(self) -> bool:
        """Whether the covariance's problem is an `IrrepProblem`: copies say something new to an invariant kernel."""
        return self.way in ("averages", "irreps")

    @cached_property
    def mean_problem(self) -> KernelPredictor:
        """Solved for the mean."""
        if self.way == "explicit":
            return self._explicit()
        if not self.by_irreps:
            copies = 1 if self.augmentation is None else self.action.group.order
            remedy = "train on fewer samples" + (
                "" if self.positions is None else ", or take solver='pcg' or 'nystrom'"
            )
            return problem.dense(self.kernel, self.rows, self.labels, self.settings, remedy=remedy, copies=copies)
        if self.way == "averages":
            return problem.orbit_averaged(self.kernel, self.action, self.rows, self.labels, self.settings)
        name = irrep_problem.name_of(self.action, self._irreps)
        if self.settings.store is not None:
            remedy = (
                f"it keeps one kernel matrix, and with these labels the problem is that of {name}, which has several"
            )
            raise InvalidArgumentError("store", str(self.settings.store), remedy=f"{remedy}; leave it out")
        if self.settings.solver != "auto" and not self.settings.decomposes(len(self.rows)):
            expected = "'eigh' or 'auto', since the problem of these labels is decomposed"
            raise InvalidArgumentError("solver", self.settings.solver, expected, name)
        return self._solve_irreps(labelled_only=True, solved=None)

    @cached_property
    def covariance_problem(self) -> KernelPredictor:
        """Solved for mean and covariance; with solver="auto" by a decomposition, if one fits into memory."""
        if self.by_irreps:
            logger.info("covariances by %s", self.covariance_solver)
            known = cast(IrrepProblem, self.mean_problem) if self.way == "irreps" else None
            return self._solve_irreps(labelled_only=False, solved=known)
        solved = self.mean_problem
        if isinstance(solved, Decomposed) or self.settings.solver != "auto" or isinstance(self.kernel, RandomFeatures):
            return solved
        fits = dense_solve_bytes(len(solved.inputs)) <= self.settings.limit
        return self.decomposed.covariance_problem if fits else solved

    @cached_property
    def decomposed(self) -> Training:
        """This training, its problems solved by eigendecompositions: what many times and left-out samples need."""
        solved = self.mean_problem
        if isinstance(solved, Decomposed):
            return self
        logger.info("decomposing the training kernel: what is asked for needs its eigenvalues")
        held = cast(SolvedProblem, solved).kernels
        return self.with_settings(replace(self.settings, solver="eigh", held=held))

    def with_settings(self, settings: Settings) -> Training:
        """The kernel and data of this one with another ridge or learning rate: what is decomposed already stays so."""
        assert settings.field == self.settings.field
        settings = replace(settings, points=self.settings.points)
        training = replace(self, settings=settings)
        vars(training).update({name: value for name, value in vars(self).items() if name in _OF_THE_DATA})
        dynamics = partial(settings.dynamics, settings.learning_rate)
        retuned: dict[int, KernelPredictor] = {}
        for name in ("mean_problem", "covariance_problem"):
            solved = vars(self).get(name)
            if isinstance(solved, Decomposed) and settings.ridge.same_above(self.settings.ridge):
                found = retuned.get(id(solved)) or solved.retuned(settings.ridge.least, dynamics)
                vars(training)[name] = retuned[id(solved)] = found
        return training

    def means(self, x: ArrayLike, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, *positions, outputs)."""
        means = self.mean_problem.means(self.rows_of(x), times)
        return means.reshape(len(times), len(x), *self.grid, means.shape[-1])

    def sample(self, x: ArrayLike, draws: int, time: float, *, key: jax.Array) -> np.ndarray:
        """Draws of one network jointly over all inputs and positions: (draws, M, *positions, outputs)."""
        times, rows = np.array([time]), self.rows_of(x)
        covariance = self._covariance_problem_at(times, points=len(rows)).covariances(rows, times)[0]
        found = sample_gaussian(self.mean_problem.means(rows, times)[0], covariance, draws, key=key)
        return found.reshape(draws, len(x), *self.grid, found.shape[-1])

    def variances(self, x: ArrayLike, times: np.ndarray) -> np.ndarray:
        """The diagonal of Σ_t of one output at every time: (T, M, *positions)."""
        found = self._covariance_problem_at(times, points=0).variances(self.rows_of(x), times)
        return found.reshape(len(times), len(x), *self.grid)

    def covariances(self, x: ArrayLike, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time: (T, M, *positions, M, *positions)."""
        rows = self.rows_of(x)
        found = self._covariance_problem_at(times, points=len(rows)).covariances(rows, times)
        return found.reshape(len(times), *((len(x), *self.grid) * 2))

    def orbit_means(self, x: ArrayLike, times: np.ndarray) -> np.ndarray:
        """μ_t on the orbit of each input at every time: (T, M, |G|, *positions, outputs)."""
        order = self._orbit_group().order
        if self.turning or self.way == "explicit":
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
        if self.turning or not self.by_irreps:
            found = self.sample(orbit_batch(self.augmentation, x), draws, time, key=key)
            return found.reshape(draws, len(x), order, *found.shape[2:])
        solved = cast(IrrepProblem, self._covariance_problem_at(np.array([time]), points=0))
        limit = self.settings.memory_limit
        return self._by_element(solved.sample_orbits(self.rows_of(x), draws, time, key=key, limit=limit))

    def rows_of(self, x: ArrayLike) -> DataRows:
        """The rows of inputs x (M, …): themselves, or all positions, signal by signal."""
        return x if self.positions is None else FieldPoints.of(np.asarray(x), self.positions.count)

    def copies(self) -> np.ndarray:
        """ρ_Y(g) y_i for every augmenting element, (|G|, N, *positions, outputs)."""
        if self.positions is not None and not self.turning:
            return moved_targets(self.augmentation, self.label_action, self.y)
        elements = augmenting_elements(self.augmentation)
        if self.label_action is None:
            return np.broadcast_to(self.y, (len(elements), *self.y.shape))
        flat = self.y.reshape(self.y.shape[:2])
        return augment_targets(self.label_action, flat, elements).reshape(len(elements), *self.y.shape)

    def augmented_labels(self) -> np.ndarray:
        """The label of every augmented copy, (|G|, rows, outputs)."""
        one = self.labels.ndim == 2
        return np.broadcast_to(self.labels, (self.action.group.order, *self.labels.shape)) if one else self.labels

    @cached_property
    def reason(self) -> str | None:
        """Why the explicit problem has to be solved; None if it need not."""
        if isinstance(self.augmentation, ActionSubset):
            return self.augmentation.name
        if not self.action.exact:
            return "the augmentation is only approximately an action"
        if draws_noise(self.kernel):
            return "the network draws noise for each copy"
        if self.symmetry is not None:
            return None
        if self.turning:
            return "outputs are not known to turn as the targets of copies do"
        return "the kernel is not known to be invariant under the augmentation"

    @cached_property
    def symmetry(self) -> str | None:
        """What is known of the kernel of rows under the augmentation: "invariant", "equivariant", or nothing."""
        if self.positions is None:
            return "invariant" if is_invariant(self.kernel, self.action, self.x) else None
        kernel = cast(FieldKernel, self.kernel)
        if not self.turning:
            return kernel_symmetry(kernel, self.action, self.rows)
        net = cast(TurningField, kernel.net).net
        return turning_symmetry(net, self.augmentation, self.label_action, self.x, self.positions.count)

    @cached_property
    def _irreps(self) -> tuple[FourierIrrep, ...]:
        return fourier_irreps(self.action.group)

    def _solve_irreps(self, *, labelled_only: bool, solved: IrrepProblem | None) -> IrrepProblem:
        return irrep_problem.solve(
            self.kernel,
            self.action,
            self.rows,
            self.augmented_labels(),
            self.settings,
            self._irreps,
            labelled_only=labelled_only,
            solved=solved,
        )

    def _explicit(self) -> KernelPredictor:
        """Trained on all copies one by one, each with all its rows."""
        elements, n, limit = augmenting_elements(self.augmentation), len(self.x), self.settings.memory_limit
        given = getattr(self.augmentation, "weights", None)
        weights = np.ones(len(elements)) if given is None else given
        copies, total = len(weights), len(weights) * len(self.rows)
        remedy = f"take fewer samples or fewer of the augmentation's {copies} elements (equitangents.actions.subset)"
        needed = dense_solve_bytes(total) if self.settings.decomposes(total) else 0
        if self.positions is None:
            needed += 2 * copies * np.asarray(self.x[:1]).nbytes * n
        check_memory(f"the explicit problem of {n}·{copies} augmented samples", needed, limit, remedy)
        logger.info("solving the explicit N|G| problem, %d·%d samples", n, copies)
        rows = self.rows_of(self.augmentation.orbit(self.x).reshape(-1, *self.x.shape[1:]))
        y = self.copies().reshape(len(rows), -1)
        each = None if np.ptp(weights) == 0 else np.repeat(weights / weights.mean(), len(rows) // copies)
        return problem.dense(self.kernel, rows, y, self.settings, each, remedy)

    def _orbit_group(self) -> Group:
        """The augmentation's group; InvalidArgumentError where there is none."""
        if not isinstance(self.augmentation, Action):
            raise InvalidArgumentError("orbits are those of the augmentation's group; this ensemble has no such group")
        return self.augmentation.group

    def _by_element(self, values: np.ndarray) -> np.ndarray:
        """Values at g z for rows z, (·, rows, |G|, outputs), as those at ρ_X(g) x, (·, M, |G|, *positions, outputs).

        g (x, p) = (ρ_X(g) x, π_g p).
        """
        if self.positions is None:
            return values
        first, _, order, outputs = values.shape
        values = values.reshape(first, -1, self.positions.count, order, outputs).swapaxes(2, 3).copy()
        moved = cast(PointAction, self.action).at_positions(values, 2)
        return moved.reshape(first, -1, order, *self.grid, outputs)

    def _covariance_problem_at(self, times: np.ndarray, points: int) -> KernelPredictor:
        """The problem that gives covariances; raises if it cannot be evaluated at some time, or at so many points."""
        solved = self.covariance_problem
        for t in times:
            solved.check(t)
        check_memory(
            f"the joint covariance of {points} inputs",
            solved.query_bytes(points, len(times)) + 8 * points**2 * len(times),
            self.settings.memory_limit,
            "ask for fewer inputs at once, or for return_std",
        )
        return solved

    def _labels_of_copies(self) -> np.ndarray:
        """Labels of points, (|G|, rows, outputs), copy g at π_g p; (rows, outputs) where all copies of one agree."""
        table, count = self.action.table, self.action.table.shape[1]
        copies = self.copies()
        fields = copies.reshape(len(copies), len(self.x), count, -1)
        at = np.stack([fields[g][:, table[g]] for g in range(len(table))])
        apart = np.abs(at - at[self.action.group.identity]).max()
        same = apart <= _SAME * max(float(np.abs(at).max()), 1e-300)
        return self.labels if same else at.reshape(len(at), len(self.rows), -1)


def make_training(
    net: KernelFunction | FieldFunction,
    augmentation: Augmentation | None,
    label_action: GroupAction | None,
    x: DataRows,
    y: np.ndarray,
    positions: Positions | None,
    settings: Settings,
) -> Training:
    """Training on y (N, outputs), or of fields (N, *positions, outputs).

    A subset of an action that is a subgroup becomes an action of its own.
    """
    x = x if positions is None else np.asarray(x)
    net = sampled_for(net, lambda: x)  # predictions do not depend on one another
    check_actions(augmentation, label_action, x, y[..., 0] if positions is not None and positions.turning else y)
    if isinstance(augmentation, ActionSubset) and augmentation.is_subgroup:
        whole: Any = augmentation.action
        subgroup = Subgroup(whole.group, augmentation.elements)  # in the order given, as copies and orbits
        label_action = None if label_action is None else restrict(cast(Action, label_action), subgroup)
        augmentation = restrict(whole, subgroup)
    if positions is None:
        training = Training(
            cast(KernelFunction, net), augmentation, label_action, x, y, None, settings, augmentation, x, y
        )
        return training if label_action is None else replace(training, labels=training.copies())
    field = cast(FieldFunction, TurningField(cast(KernelFunction, net)) if positions.turning else net)
    rows = FieldPoints.of(x, positions.count)
    labels = y.reshape(len(rows), -1)
    action = None
    if augmentation is not None:
        whole = whole_action(augmentation)
        action = PointAction(whole, moved_positions(augmentation, label_action, positions))
    if settings.store is not None:
        raise InvalidArgumentError("store", str(settings.store), "None for targets that are fields")
    training = Training(
        cast(KernelFunction, FieldKernel(field)),
        augmentation,
        label_action,
        x,
        y,
        positions,
        replace(settings, points=positions.count),  # the loss is a mean over samples, not over points
        action,
        rows,
        labels,
    )
    by_group = action is not None and action.exact and not isinstance(augmentation, ActionSubset)
    if by_group and not positions.turning and label_action is not None:
        return replace(training, labels=training._labels_of_copies())
    return training
