"""What the regressor and the classifier of infinitely wide networks have in common: their parameters."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast, overload

import numpy as np

from equitangents._types import FileName, KernelName, Network, Numbers, Spread, Times
from equitangents.actions.action import GroupAction
from equitangents.actions.kinds import ActionLike
from equitangents.ensembles.estimator import Estimator
from equitangents.ensembles.infinite import saving
from equitangents.ensembles.infinite.leave_one_out import target_evidence
from equitangents.ensembles.infinite.problem import Settings
from equitangents.ensembles.infinite.training import Training
from equitangents.ensembles.infinite.tuning import Tuning, tune
from equitangents.ensembles.orbits import OrbitQuestions
from equitangents.ensembles.standardisation import StandardisedInputs, check_standardise
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.inference.dynamics import DYNAMICS, as_times
from equitangents.inference.ridge import Ridge
from equitangents.kernels import KernelFunction
from equitangents.kernels.result import FieldFunction
from equitangents.keywords import named_also
from equitangents.solvers.method import Method, Report
from equitangents.solvers.solving import as_method
from equitangents.tiles.place import local
from equitangents.validation import check_choice


class TimedPredictions:
    """`predict` of regressions whose law is known in closed form at every training time."""

    @overload
    def predict(self, x: Numbers, time: Times | None = None) -> np.ndarray: ...

    @overload
    def predict(
        self, x: Numbers, time: Times | None = None, *, return_std: Literal[True], return_cov: Literal[False] = False
    ) -> Spread: ...

    @overload
    def predict(
        self, x: Numbers, time: Times | None = None, *, return_std: Literal[False] = False, return_cov: Literal[True]
    ) -> Spread: ...

    @overload
    def predict(
        self, x: Numbers, time: Times | None = None, return_std: bool = False, return_cov: bool = False
    ) -> np.ndarray | Spread: ...

    @named_also(X="x")
    def predict(
        self, x: Numbers, time: Times | None = None, return_std: bool = False, return_cov: bool = False
    ) -> np.ndarray | Spread:
        """Mean (M, outputs), or (M,) for 1-d y; with it the std (M,) or the covariance (M, M) of one output.

        `time`: None for the constructor's, a number, or an array of T times, which puts an axis T in front of every
        result. Of fields the mean is (M, *positions, outputs), the std (M, *positions), and the covariance
        (M, *positions, M, *positions), which is refused where it does not fit into memory.

        Of a `BaggedInfiniteEnsemble` the mean is one over resamples, and the spread that of one member. Outputs share
        the resample, but each has its own mean: the std has the mean's shape, and the covariance an axis of outputs
        behind, if y has one.
        """
        if return_std and return_cov:
            raise InvalidArgumentError("return_std and return_cov are both True; at most one can be")
        return self._predicted(x, time, return_std, return_cov)

    @abstractmethod
    def _predicted(self, x: Numbers, time: Times | None, return_std: bool, return_cov: bool) -> np.ndarray | Spread:
        """What `predict` returns, at most one of both flags being set."""


@dataclass(eq=False, repr=False)
class InfiniteEnsembleBase(StandardisedInputs, OrbitQuestions, Estimator):
    """Infinitely wide networks trained for a time t; InfiniteEnsemble says what the parameters are."""

    net: KernelFunction | FieldFunction
    augmentation: ActionLike | None = None
    time: float = math.inf
    learning_rate: float = 1.0
    ridge: float | Numbers = 0.0
    kernel: KernelName = "ntk"
    label_action: GroupAction | None = None
    input_shape: tuple[int, ...] | None = None
    dynamics: str = "flow"
    memory_limit: int | None = None
    store: FileName | None = None
    solver: str | Method = "auto"
    standardise: bool = False

    _data: tuple[Any, Any] = field(init=False)  # what it was fitted to
    solution_: Report = field(init=False)

    @property
    def _solved(self) -> Training:
        """What was solved: this ensemble's training, or that of the regression behind a classifier."""
        regression: Any = getattr(self, "ensemble_", self)
        return cast(Training, regression._training)

    def _check_parameters(self) -> Settings:
        if not any(callable(getattr(self.net, name, None)) for name in ("kernel", "kernel_field")):
            raise InvalidTypeError(
                "net",
                self.net,
                "a network or an object with kernel(x1, x2=None), or with kernel_field(x1, x2=None) for "
                "targets that are fields",
            )
        check_choice("kernel", self.kernel, ("ntk", "nngp"))
        check_choice("dynamics", self.dynamics, DYNAMICS)
        if not as_times(self.time)[1]:
            raise InvalidArgumentError("time", self.time, "one number (predict takes arrays of times)")
        dynamics = DYNAMICS[self.dynamics]
        dynamics(self.learning_rate, samples=1).check(0.0, float(self.time))  # what can be said before any kernel
        trained: KernelName = "ntk" if self.kernel == "ntk" else "nngp"
        as_method(self.solver)  # raises for what is none
        check_standardise(self.standardise)
        return Settings(
            trained,
            dynamics,
            self.learning_rate,
            Ridge.read(self.ridge),
            self.memory_limit,
            self.store,
            self.solver,
        )

    @named_also(X="x")
    def tune(
        self,
        grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        x: Numbers | None = None,
        y: Numbers | None = None,
    ) -> Tuning[Self]:
        """Score every combination of the grid's values and fit the best one; this ensemble stays as it is.

        Candidates that differ in ridge, time or learning rate share one decomposition, the others one each: with R
        ridges this takes about 1/(5R) of 5-fold cross-validation of refits.

        Args:
            grid: lists of values by name, or several such grids. Names are parameters of this ensemble, and `depth`,
                `W_std`, `b_std` and `nonlinearity`, which change `net` (`nn.variants.vary`). A function in `net` is
                given the values of these four and returns a network.
            x: inputs as `fit` takes them; None: what this ensemble was fitted to.
            y: targets as `fit` takes them, given with x.

        The best has the smallest mean squared error of `leave_one_out_`, of a classifier the largest accuracy (of equal
        ones the smallest mean squared error). A candidate whose kernel matrix cannot be solved has no score and never wins; if that is so of all, its error is
        raised. Of equal scores the first in the grid's order wins.

        Source: Rasmussen & Williams 2006, section 5.4.2.
        """
        return tune(self, grid, *self._given_or_fitted(x, y))

    def _given_or_fitted(self, x: Numbers | None, y: Numbers | None) -> tuple[Any, Any]:
        """x and y, or those of `fit` where neither is given."""
        if x is not None:
            return x, y
        if y is not None:
            raise InvalidArgumentError("y is given without X; give both, or neither after fit")
        self._check_fitted()
        return self._data

    @property
    def log_marginal_likelihood_(self) -> float:
        """log N(y; 0, Θ + δ) of the training targets: K in place of Θ for kernel="nngp", outputs independent.

        The density under the Gaussian process whose posterior mean is this ensemble's at time inf, with noise of
        variance δ = ridge · (mean diagonal): for "nngp" the Bayesian network's marginal likelihood, for "ntk" that of
        the process whose covariance is the NTK. `time` has no part in it. With augmentation Y are all N|G| targets, as
        in the explicit problem. Of a classifier Y are one-hot minus 1/K: the regression's, `ensemble_`. Raises
        NotPositiveDefiniteError, with the ridge that helps, where targets have no density. Source: Rasmussen & Williams
        2006, chapter 5.
        """
        self._check_fitted()
        return target_evidence(self._solved).log_density

    @property
    def log_marginal_likelihood_slope_(self) -> float:
        """The derivative of `log_marginal_likelihood_` by `ridge`, in closed form: 0 at the best ridge."""
        self._check_fitted()
        self._solved.settings.ridge.check_one("the derivative is one by a number")
        return target_evidence(self._solved).slope

    def save(self, path: FileName, *, means_only: bool = False) -> None:
        """Write the fitted ensemble to a folder `path`, all of it or nothing; one that was saved there is replaced.

        The folder holds JSON and arrays with checksums, no pickles. `means_only` leaves out the decomposition: what is
        left, N·outputs numbers beside the training inputs, gives means at this ensemble's `time`, by `equitangents
        predict` and `predict_to_file`. A network with functions of one's own is left out, and given again to `load`.
        """
        self._check_fitted()
        saving.save(self, local("path", path), means_only=means_only)

    @classmethod
    def load(cls, path: FileName, *, net: Network = None) -> Self:
        """The ensemble that `save` wrote, with `net` where the network could not be saved.

        Raises StoreError for a folder that is damaged, holds something else, or is of another version.
        """
        ensemble: Self = saving.load(cls, local("path", path), net)
        return ensemble
