"""Which problem gives an infinite ensemble's mean and which its covariance: the smallest that is exact.

no augmentation                            dense N×N, for both
the kernel is invariant under the action   mean: orbit-averaged N×N for invariant labels, else the irreps that hold
                                           labels; covariance: all irreps
anything else                              the explicit augmented samples, for both; it says why
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from equitangents.actions import Action, ActionSubset, restrict
from equitangents.actions.group_action import GroupAction
from equitangents.actions.subset import Augmentation, augmenting_elements
from equitangents.ensembles.infinite import irrep_problem, problem
from equitangents.ensembles.infinite.irrep_problem import IrrepProblem
from equitangents.ensembles.infinite.problem import Problem, Settings
from equitangents.ensembles.infinite.solved_problem import SolvedProblem
from equitangents.ensembles.training.settings import check_actions
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups import Group
from equitangents.inference import augment_targets, check_memory, dense_solve_bytes, sample_gaussian
from equitangents.inference.group_fourier import FourierIrrep, fourier_irreps
from equitangents.kernels import KernelFunction
from equitangents.kernels.invariance import is_invariant, kernel_invariance_error
from equitangents.kernels.random_features import FeatureMap

logger = logging.getLogger("equitangents")

_OF_THE_DATA = ("solver", "covariance_solver", "_irreps", "_weights", "reason", "symmetry", "equivariant")
"""What settings do not change."""


@dataclass(frozen=True)
class Training:
    """What an ensemble is trained on; problems are solved when first asked for.

    augmentation: an action, an `ActionSubset` of one, or None. labels (N, outputs), or (|G|, N, outputs) for labels
    of each augmented copy; label_action moves labels (N, outputs).
    """

    kernel: KernelFunction
    augmentation: Any
    label_action: Any
    x: Any
    labels: np.ndarray
    settings: Settings

    @cached_property
    def solver(self) -> str:
        """What gives the mean."""
        if self.augmentation is None:
            if isinstance(self.kernel, FeatureMap) and self.settings.solver == "auto":
                return f"primal N×{self.kernel.features}"
            return "dense N×N"
        if self.reason is not None:
            return f"explicit N|G| ({self.reason})"
        return "orbit-averaged N×N" if self.invariant_labels else self.mean_problem.name  # type: ignore[union-attr]

    @cached_property
    def covariance_solver(self) -> str:
        """How covariances are computed: irrep by irrep, or as the mean is."""
        if self.augmentation is None or self.reason is not None:
            return self.solver
        return irrep_problem.name_of(self.augmentation, self._irreps)

    @cached_property
    def mean_problem(self) -> Problem | IrrepProblem | SolvedProblem:
        """Solved for the mean."""
        return self._solve_mean()

    def _solve_mean(self) -> Problem | IrrepProblem | SolvedProblem:
        if self.augmentation is None:
            return problem.dense(self.kernel, self.x, self.labels, self.settings)
        if self.reason is not None:
            logger.info("solving the explicit N|G| problem, %d·%d samples", len(self.x), len(self._weights))
            orbit, labels = self.augmentation.orbit, self.augmented_labels()
            return problem.explicit(self.kernel, orbit, labels, self.x, self.settings, self._weights)
        if self.invariant_labels:
            return problem.orbit_averaged(self.kernel, self.augmentation, self.x, self.labels, self.settings)
        if self.settings.store is not None:
            raise InvalidArgumentError(
                f"store is {str(self.settings.store)!r}; it keeps one kernel matrix, and with these labels the problem "
                f"is that of {irrep_problem.name_of(self.augmentation, self._irreps)}, which has several; leave it out"
            )
        if self.settings.solver != "auto" and not self.settings.decomposes(len(self.x)):
            raise InvalidArgumentError(
                f"solver is {self.settings.solver!r}, and with these labels the problem is that of "
                f"{irrep_problem.name_of(self.augmentation, self._irreps)}, which are decomposed; take solver='eigh' "
                "or 'auto'"
            )
        return self._solve_irreps(labelled_only=True, solved=None)

    @cached_property
    def covariance_problem(self) -> Problem | IrrepProblem | SolvedProblem:
        """Solved for mean and covariance; with solver="auto" by a decomposition, if one fits into memory."""
        return self._solve_covariance()

    def _solve_covariance(self) -> Problem | IrrepProblem | SolvedProblem:
        if self.augmentation is not None and self.reason is None:
            logger.info("covariances by %s", self.covariance_solver)
            solved = None if self.invariant_labels else self.mean_problem
            return self._solve_irreps(labelled_only=False, solved=solved)
        return self._mean_with_covariance()

    def _mean_with_covariance(self) -> Problem | IrrepProblem | SolvedProblem:
        """The problem that gives the mean, decomposed if that was left open and fits."""
        solved = self.mean_problem
        if not isinstance(solved, SolvedProblem) or self.settings.solver != "auto" or solved.has_features:
            return solved
        fits = dense_solve_bytes(len(solved.inputs)) <= self.settings.limit
        return self.decomposed.covariance_problem if fits else solved

    @cached_property
    def decomposed(self) -> Training:
        """The same training, its problems solved by eigendecompositions: what many times and left-out samples need."""
        solved = self.mean_problem
        if not isinstance(solved, SolvedProblem):
            return self
        logger.info("decomposing the training kernel: what is asked for needs its eigenvalues")
        return self.with_settings(replace(self.settings, solver="eigh", held=solved.kernels))

    def with_settings(self, settings: Settings) -> Training:
        """The same kernel and data with another ridge or learning rate: what is decomposed already stays so."""
        assert settings.field == self.settings.field
        training = replace(self, settings=settings)
        known: dict[int, Problem | IrrepProblem] = {}  # what the other solvers solved is solved anew
        for name, value in vars(self).items():
            if isinstance(value, Problem | IrrepProblem):
                value = known.setdefault(id(value), value.retuned(settings))
            elif name not in _OF_THE_DATA:
                continue
            training.__dict__[name] = value
        return training

    def means(self, x: Any, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, outputs)."""
        return self.mean_problem.means(x, times)

    def sample(self, x: Any, draws: int, time: float, *, key: Any) -> np.ndarray:
        """Draws of one network jointly over all inputs: (draws, M, outputs)."""
        times = np.array([time])
        covariance = self.covariances(x, times)[0]
        return sample_gaussian(self.means(x, times)[0], covariance, draws, key=key)

    def variances(self, x: Any, times: np.ndarray) -> np.ndarray:
        """The diagonal of Σ_t of one output at every time: (T, M)."""
        return self._covariance_problem_at(times, points=0).variances(x, times)

    def covariances(self, x: Any, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time: (T, M, M)."""
        return self._covariance_problem_at(times, points=len(x)).covariances(x, times)

    def orbit_means(self, x: Any, times: np.ndarray) -> np.ndarray:
        """μ_t on the orbit of each input at every time: (T, M, |G|, outputs)."""
        order, solved = self._orbit_group().order, self.mean_problem
        if isinstance(solved, IrrepProblem):
            return solved.orbit_means(x, times)
        if self.reason is None:  # invariant labels
            return np.repeat(solved.means(x, times)[:, :, None], order, axis=2)
        means = solved.means(self.augmentation.orbit(x).reshape(-1, *x.shape[1:]), times)
        return means.reshape(len(times), order, len(x), -1).swapaxes(1, 2)

    def orbits(self, x: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (T, M, |G|, outputs) and covariances (T, M, |G|, |G|) along the orbit of each input."""
        group = self._orbit_group()
        solved = self._covariance_problem_at(times, points=group.order, blocks=len(x))
        if isinstance(solved, IrrepProblem):
            return solved.orbit_moments(x, times)
        orbit = self.augmentation.orbit(x).swapaxes(0, 1)
        means = solved.means(orbit.reshape(-1, *orbit.shape[2:]), times)
        covariances = np.stack([solved.covariances(orbit[m], times) for m in range(len(x))], axis=1)
        return means.reshape(len(times), len(x), group.order, -1), covariances

    def joint_orbits(self, x: Any, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `orbits`, the covariance between all of them: (T, M, |G|, M, |G|)."""
        order = self._orbit_group().order
        solved = self._covariance_problem_at(times, points=len(x) * order)
        if isinstance(solved, IrrepProblem):
            return solved.joint_orbit_moments(x, times)
        orbit = self.augmentation.orbit(x).swapaxes(0, 1)
        flat = orbit.reshape(-1, *orbit.shape[2:])
        means = solved.means(flat, times).reshape(len(times), len(x), order, -1)
        return means, solved.covariances(flat, times).reshape(len(times), len(x), order, len(x), order)

    def sample_orbits(self, x: Any, draws: int, time: float, *, key: Any) -> np.ndarray:
        """Draws of one network jointly over the orbits of all inputs: (draws, M, |G|, outputs)."""
        group, times = self._orbit_group(), np.array([time])
        solved = self._covariance_problem_at(times, points=0)
        if not isinstance(solved, IrrepProblem):
            mean, covariance = self.joint_orbits(x, times)
            points = len(x) * group.order
            flat = mean[0].reshape(points, -1), covariance[0].reshape(points, points)
            return sample_gaussian(*flat, draws, key=key).reshape(draws, *mean.shape[1:])
        check_memory(
            f"{draws} draws on the orbits of {len(x)} inputs",
            solved.orbit_sample_bytes(len(x), draws),
            self.settings.memory_limit,
            "ask for fewer inputs or draws at once",
        )
        return solved.sample_orbits(x, draws, time, key=key)

    def _orbit_group(self) -> Group:
        if not isinstance(self.augmentation, Action):
            raise InvalidArgumentError("orbits are those of the augmentation's group; this ensemble has no such group")
        return self.augmentation.group

    def _covariance_problem_at(
        self, times: np.ndarray, points: int, blocks: int = 1
    ) -> Problem | IrrepProblem | SolvedProblem:
        """The problem that gives covariances; raises if it cannot be evaluated at some time, or at so many points."""
        solved = self.covariance_problem
        for t in times:
            solved.process.check(t)
        check_memory(
            f"the joint covariance of {points} inputs" if blocks == 1 else f"the covariances on {blocks} orbits",
            solved.query_bytes(points, len(times)) + 8 * blocks * points**2 * len(times),
            self.settings.memory_limit,
            "ask for fewer inputs at once" + (", or for return_std" if blocks == 1 else ""),
        )
        return solved

    def _solve_irreps(self, *, labelled_only: bool, solved: Any) -> IrrepProblem:
        return irrep_problem.solve(
            self.kernel,
            self.augmentation,
            self.x,
            self.augmented_labels(),
            self.settings,
            self._irreps,
            labelled_only=labelled_only,
            solved=solved,
        )

    @cached_property
    def _irreps(self) -> tuple[FourierIrrep, ...]:
        return fourier_irreps(self.augmentation.group)

    @property
    def invariant_labels(self) -> bool:
        """Whether all copies of a sample have its label."""
        return self.label_action is None and self.labels.ndim == 2

    @cached_property
    def _weights(self) -> np.ndarray:
        """How often each augmented copy counts."""
        if isinstance(self.augmentation, ActionSubset):
            return self.augmentation.weights
        return np.ones(self.augmentation.group.order)

    @cached_property
    def reason(self) -> str | None:
        """Why the explicit problem has to be solved; None if it need not."""
        if isinstance(self.augmentation, ActionSubset):
            return self.augmentation.name
        if not self.augmentation.exact:
            return "the augmentation is only approximately an action"
        if not is_invariant(self.kernel, self.augmentation, self.x):
            change = kernel_invariance_error(self.kernel, self.augmentation, self.x)
            return f"the augmentation changes the kernel, by {change:.1e} of its size"
        return None

    def augmented_labels(self) -> np.ndarray:
        """The label of every augmented copy, (|G|, N, outputs)."""
        if self.labels.ndim == 3:
            return self.labels
        elements = augmenting_elements(self.augmentation)
        if self.label_action is None:
            return np.broadcast_to(self.labels, (len(elements), *self.labels.shape))
        return augment_targets(self.label_action, self.labels, elements).reshape(len(elements), *self.labels.shape)


def make_training(
    kernel: KernelFunction,
    augmentation: Augmentation | None,
    label_action: GroupAction | None,
    x: Any,
    labels: np.ndarray,
    settings: Settings,
) -> Training:
    """Check actions and labels against each other; a subset that is a subgroup becomes an action of its own."""
    each_copy = labels.ndim == 3
    if each_copy and (augmentation is None or label_action is not None):
        raise ShapeError(
            f"y has shape {labels.shape}: a label for every augmented copy, (|G|, N, outputs), needs an augmentation "
            f"and no label_action; else expected (N,) or (N, outputs)"
        )
    check_actions(augmentation, label_action, x, labels)
    if (
        each_copy
        and augmentation is not None
        and labels.shape[:2] != (copies := len(augmenting_elements(augmentation)), len(x))
    ):
        raise ShapeError(
            f"y has shape {labels.shape}; with a label for every augmented copy expected ({copies}, {len(x)}, outputs)"
        )
    if isinstance(augmentation, ActionSubset) and augmentation.is_subgroup:
        whole = augmentation.action
        assert isinstance(whole, Action)
        subgroup = whole.group.subgroup(augmentation.elements)
        if each_copy:
            labels = labels[np.argsort(augmentation.elements)]
        label_action = None if label_action is None else restrict(cast(Action, label_action), subgroup)
        augmentation = restrict(whole, subgroup)
    return Training(kernel, augmentation, label_action, x, labels, settings)
