"""Which problem gives an infinite ensemble's mean and which its covariance: the smallest that is exact.

no augmentation                            dense N×N, for both
every member is equivariant already        dense N×N: copies count more against the ridge, and no more (fields alone)
the kernel is invariant under the action   mean: orbit-averaged N×N for invariant labels, else the irreps that hold
                                           labels; covariance: all irreps
anything else                              the explicit augmented samples, for both; it says why

Of fields on P positions, and of d outputs that turn, rows of a problem are points, NP or Nd of them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import cast

import jax
import numpy as np

from equitangents._types import AnyAction, DataRows
from equitangents.actions import Action, restrict
from equitangents.actions.action import GroupAction
from equitangents.actions.subset import ActionSubset, Augmentation, augmenting_elements
from equitangents.ensembles.fields.kernel import FieldKernel, KernelSymmetry, TurningField
from equitangents.ensembles.fields.targets import Positions
from equitangents.ensembles.infinite import irrep_problem, problem
from equitangents.ensembles.infinite.field_source import FieldSource, Given
from equitangents.ensembles.infinite.irrep_problem import IrrepProblem
from equitangents.ensembles.infinite.problem import Settings
from equitangents.ensembles.infinite.trained_kernel import TrainedKernel
from equitangents.ensembles.training.settings import check_actions
from equitangents.errors import InvalidArgumentError, ShapeError
from equitangents.groups import Group
from equitangents.groups.subgroup import Subgroup
from equitangents.inference.draws import sample_gaussian
from equitangents.inference.group_fourier import FourierIrrep, fourier_irreps
from equitangents.inference.spectrum import dense_solve_bytes
from equitangents.kernels import KernelFunction
from equitangents.kernels.invariance import draws_noise, is_invariant
from equitangents.kernels.random_features import FeatureMap
from equitangents.kernels.result import FieldFunction
from equitangents.kernels.rotations.resolution import sampled_for
from equitangents.memory import check_memory

logger = logging.getLogger("equitangents")

_OF_THE_DATA = ("solver", "covariance_solver", "_irreps", "reason", "symmetry", "equivariant")
"""What settings do not change."""
_SOLVED = ("mean_problem", "covariance_problem")


@dataclass(frozen=True)
class Training:
    """What an ensemble is trained on; problems are solved when first asked for.

    kernel, augmentation, x and labels are those of the problems' rows: inputs, or points of fields. labels (rows,
    outputs), or (|G|, rows, outputs) for labels of each augmented copy; label_action moves labels (N, outputs). source:
    the fields that points are of, None for other targets.
    """

    kernel: KernelFunction
    augmentation: AnyAction
    label_action: AnyAction
    x: DataRows
    labels: np.ndarray
    settings: Settings
    source: FieldSource | None = None

    @property
    def given(self) -> Given:
        """Inputs, targets and actions as `fit` was given them."""
        return self.source or Given(self.augmentation, self.label_action, self.x, self.labels)

    @cached_property
    def solver(self) -> str:
        """What gives the mean."""
        n = self.given.size
        if self.augmentation is None:
            if self.settings.takes_features(self.kernel):
                return f"primal {n}×{cast(FeatureMap, self.kernel).features}"
            return f"dense {n}×{n}"
        if self.reason is not None:
            return f"explicit {n}|G| ({self.reason})"
        if self.equivariant:
            group = self.augmentation.group.name
            return f"dense {n}×{n} (the network is equivariant under {group}: each copy is its sample)"
        if self.invariant_labels:
            return f"orbit-averaged {n}×{n}"
        return self._of_rows(cast(IrrepProblem, self.mean_problem).name)

    @cached_property
    def covariance_solver(self) -> str:
        """How covariances are computed: irrep by irrep, or as the mean is."""
        if self.augmentation is None or self.reason is not None or self.equivariant:
            return self.solver
        return self._of_rows(irrep_problem.name_of(self.augmentation, self._irreps))

    def _of_rows(self, name: str) -> str:
        """Such as "irreps of D4: 5 blocks, largest 2NP"."""
        return name + self.given.size[1:]

    @property
    def solved_by_irreps(self) -> bool:
        """Whether the mean's problem is an `IrrepProblem`."""
        return self.covaries_by_irreps and not self.invariant_labels

    @property
    def covaries_by_irreps(self) -> bool:
        """Whether the covariance's problem is an `IrrepProblem`: copies say something new to an invariant kernel."""
        return self.augmentation is not None and self.reason is None and not self.equivariant

    @cached_property
    def mean_problem(self) -> TrainedKernel:
        """Solved for the mean."""
        if self.augmentation is None or (self.reason is None and self.equivariant):
            copies = 1 if self.augmentation is None else self.augmentation.group.order
            return problem.dense(
                self.kernel, self.x, self.labels, self.settings, remedy=self.given.remedy, copies=copies
            )
        if self.reason is not None:
            return self.given.explicit(self.kernel, self.settings)
        if self.invariant_labels:
            return problem.orbit_averaged(self.kernel, self.augmentation, self.x, self.labels, self.settings)
        if self.settings.store is not None:
            raise InvalidArgumentError(
                "store",
                str(self.settings.store),
                remedy="it keeps one kernel matrix, and with these labels the problem is that of "
                f"{irrep_problem.name_of(self.augmentation, self._irreps)}, which has several; leave it out",
            )
        if self.settings.solver != "auto" and not self.settings.decomposes(len(self.x)):
            raise InvalidArgumentError(
                "solver",
                self.settings.solver,
                "'eigh' or 'auto', since the problem of these labels is decomposed",
                irrep_problem.name_of(self.augmentation, self._irreps),
            )
        return self._solve_irreps(labelled_only=True, solved=None)

    @cached_property
    def covariance_problem(self) -> TrainedKernel:
        """Solved for mean and covariance; with solver="auto" by a decomposition, if one fits into memory."""
        if self.covaries_by_irreps:
            logger.info("covariances by %s", self.covariance_solver)
            known = None if self.invariant_labels else cast(IrrepProblem, self.mean_problem)
            return self._solve_irreps(labelled_only=False, solved=known)
        solved = self.mean_problem
        if solved.decomposed or self.settings.solver != "auto" or isinstance(self.kernel, FeatureMap):
            return solved
        fits = dense_solve_bytes(len(solved.inputs)) <= self.settings.limit
        return self.decomposed.covariance_problem if fits else solved

    @cached_property
    def decomposed(self) -> Training:
        """This training, its problems solved by eigendecompositions: what many times and left-out samples need."""
        solved = self.mean_problem
        if solved.decomposed:
            return self
        logger.info("decomposing the training kernel: what is asked for needs its eigenvalues")
        return self.with_settings(replace(self.settings, solver="eigh", held=solved.kernels))

    def with_settings(self, settings: Settings) -> Training:
        """The kernel and data of this one with another ridge or learning rate: what is decomposed already stays so."""
        assert settings.field == self.settings.field
        settings = self.given.per_sample(settings)
        training = replace(self, settings=settings)
        dynamics = partial(settings.dynamics, settings.learning_rate)
        known: dict[int, TrainedKernel] = {}
        same = settings.ridge.same_above(self.settings.ridge)
        for name, value in vars(self).items():
            if name in _SOLVED and value.decomposed and same:  # what the other solvers solved is solved anew
                value = known.setdefault(id(value), value.retuned(settings.ridge.least, dynamics))
            elif name not in _OF_THE_DATA:
                continue
            training.__dict__[name] = value
        return training

    def means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t(x) at every time: (T, M, *positions, outputs)."""
        means = self.mean_problem.means(self.given.rows(x), times)
        return means.reshape(len(times), len(x), *self.given.grid, means.shape[-1])

    def sample(self, x: DataRows, draws: int, time: float, *, key: jax.Array) -> np.ndarray:
        """Draws of one network jointly over all inputs and positions: (draws, M, *positions, outputs)."""
        times, rows = np.array([time]), self.given.rows(x)
        covariance = self._covariance_problem_at(times, points=len(rows)).covariances(rows, times)[0]
        found = sample_gaussian(self.mean_problem.means(rows, times)[0], covariance, draws, key=key)
        return found.reshape(draws, len(x), *self.given.grid, found.shape[-1])

    def variances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """The diagonal of Σ_t of one output at every time: (T, M, *positions)."""
        found = self._covariance_problem_at(times, points=0).variances(self.given.rows(x), times)
        return found.reshape(len(times), len(x), *self.given.grid)

    def covariances(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """Σ_t of one output at every time: (T, M, *positions, M, *positions)."""
        rows = self.given.rows(x)
        found = self._covariance_problem_at(times, points=len(rows)).covariances(rows, times)
        return found.reshape(len(times), *((len(x), *self.given.grid) * 2))

    def orbit_means(self, x: DataRows, times: np.ndarray) -> np.ndarray:
        """μ_t on the orbit of each input at every time: (T, M, |G|, *positions, outputs)."""
        order, given = self.orbit_group().order, self.given
        if given.turning:
            found = self.means(given.orbits(x), times)
            return found.reshape(len(times), len(x), order, *found.shape[2:])
        rows, solved = given.rows(x), self.mean_problem
        if self.reason is None and self.invariant_labels:
            found = np.repeat(solved.means(rows, times)[:, :, None], order, axis=2)
        else:
            found = solved.orbit_means(self.augmentation, rows, times)
        return given.by_element(self.augmentation, found)

    def sample_orbits(self, x: DataRows, draws: int, time: float, *, key: jax.Array) -> np.ndarray:
        """Draws of one network jointly over the orbits of all inputs: (draws, M, |G|, *positions, outputs)."""
        order, given, action = self.orbit_group().order, self.given, self.augmentation
        if given.turning:
            found = self.sample(given.orbits(x), draws, time, key=key)
            return found.reshape(draws, len(x), order, *found.shape[2:])
        solved, limit = self._covariance_problem_at(np.array([time]), points=0), self.settings.memory_limit
        return given.by_element(action, solved.sample_orbits(action, given.rows(x), draws, time, key=key, limit=limit))

    def orbit_group(self) -> Group:
        """The augmentation's group; InvalidArgumentError where there is none."""
        if not isinstance(self.given.augmentation, Action):
            raise InvalidArgumentError("orbits are those of the augmentation's group; this ensemble has no such group")
        return self.augmentation.group

    def _covariance_problem_at(self, times: np.ndarray, points: int) -> TrainedKernel:
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

    def _solve_irreps(self, *, labelled_only: bool, solved: IrrepProblem | None) -> IrrepProblem:
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
        """Whether all copies of a row have its label."""
        return self.label_action is None and self.labels.ndim == 2

    @cached_property
    def reason(self) -> str | None:
        """Why the explicit problem has to be solved; None if it need not."""
        if isinstance(self.given.augmentation, ActionSubset):
            return self.given.augmentation.name
        if not self.augmentation.exact:
            return "the augmentation is only approximately an action"
        if draws_noise(self.kernel):
            return "the network draws noise for each copy"
        source = self.source
        if is_invariant(self.kernel, self.augmentation, self.x) if source is None else self.symmetry.invariant:
            return None
        if self.given.turning:
            return "outputs are not known to turn as the targets of copies do"
        return "the kernel is not known to be invariant under the augmentation"

    @cached_property
    def symmetry(self) -> KernelSymmetry:
        """What the augmentation does to the kernel of points."""
        assert self.source is not None
        return self.source.symmetry(self.augmentation, self.x)

    @cached_property
    def equivariant(self) -> bool:
        """Whether every member is equivariant already, and targets of fields are, too."""
        return self.source is not None and self.reason is None and self.invariant_labels and self.symmetry.equivariant

    def augmented_labels(self) -> np.ndarray:
        """The label of every augmented copy, (|G|, rows, outputs)."""
        return Given(self.augmentation, self.label_action, self.x, self.labels).copies()


def make_training(
    net: KernelFunction | FieldFunction,
    augmentation: Augmentation | None,
    label_action: GroupAction | None,
    x: DataRows,
    y: np.ndarray,
    positions: Positions | None,
    settings: Settings,
) -> Training:
    """Training on y (N, outputs), or of fields (N, *positions, outputs), with an axis |G| before of every copy's own.

    A subset of an action that is a subgroup becomes an action of its own.
    """
    x = x if positions is None else np.asarray(x)
    net = sampled_for(net, lambda: x)  # predictions do not depend on one another
    each_copy = y.ndim > (2 if positions is None else len(positions.shape) + 2)
    _check_targets(each_copy, augmentation, label_action, x, y, positions)
    if isinstance(augmentation, ActionSubset) and augmentation.is_subgroup:
        whole = augmentation.action
        assert isinstance(whole, Action)
        subgroup = Subgroup(whole.group, augmentation.elements)  # in the order given, as copies and orbits
        label_action = None if label_action is None else restrict(cast(Action, label_action), subgroup)
        augmentation = restrict(whole, subgroup)
    if positions is None:
        return Training(cast(KernelFunction, net), augmentation, label_action, x, y, settings)
    field = cast(FieldFunction, TurningField(cast(KernelFunction, net)) if positions.turning else net)
    source = FieldSource(augmentation, label_action, x, y, FieldKernel(field), positions)
    action, labels = source.point_labels()
    return Training(
        cast(KernelFunction, source.kernel), action, None, source.rows(x), labels, source.per_sample(settings), source
    )


def _check_targets(
    each_copy: bool,
    augmentation: Augmentation | None,
    label_action: GroupAction | None,
    x: DataRows,
    y: np.ndarray,
    positions: Positions | None,
) -> None:
    one, shape = ("a label", "") if positions is None else ("a field", "*positions, ")
    if each_copy and (augmentation is None or label_action is not None):
        raise ShapeError(
            f"y has shape {y.shape}: {one} for every augmented copy, (|G|, N, {shape}outputs), needs an augmentation "
            "and no label_action" + ("; else expected (N,) or (N, outputs)" if positions is None else "")
        )
    check_actions(augmentation, label_action, x, y[..., 0] if positions is not None and positions.turning else y)
    if not each_copy or augmentation is None:
        return
    copies = len(augmenting_elements(augmentation))
    if y.shape[:2] != (copies, len(x)):
        told = f"({copies}, {len(x)}, outputs)" if positions is None else f"{copies} of them first"
        raise ShapeError("y", y.shape, remedy=f"with {one} for every augmented copy expected {told}")
