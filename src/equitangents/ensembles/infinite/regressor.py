"""The ensemble of infinitely many, infinitely wide networks: GP(μ_t, Σ_t) after training for a time t.

μ_t = Θ(x,X) Θ⁻¹(1 − e^{−ηΘt/N}) Y, without training a network. With augmentation the training set is
{(ρ_X(g)x_i, ρ_Y(g)y_i)}, and the mean is equivariant at every t and x.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, cast, overload

import jax
import numpy as np

from equitangents._types import FileName, KernelName, Key, MeanStd, Network, Numbers, Times
from equitangents.actions import as_action
from equitangents.actions.action import GroupAction
from equitangents.actions.kinds import ActionLike
from equitangents.ensembles.estimator import (
    Estimator,
    FieldRegressorMixin,
    StandardisedInputs,
    check_inputs,
    check_network,
    check_targets,
    target_rows,
)
from equitangents.ensembles.fields import output_positions
from equitangents.ensembles.infinite import predictor, saving
from equitangents.ensembles.infinite.leave_one_out import LeaveOneOut, held_out_predictions, target_evidence
from equitangents.ensembles.infinite.predictor import TrainingSettings
from equitangents.ensembles.infinite.training import Training, make_training
from equitangents.ensembles.infinite.tuning import Tuning, tune
from equitangents.ensembles.orbits import OrbitQuestions
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.inference.draws import check_sample
from equitangents.inference.dynamics import DYNAMICS, as_times
from equitangents.inference.spectrum import Ridge
from equitangents.kernels import KernelFunction
from equitangents.kernels.random_features import RandomFeatures
from equitangents.kernels.result import FieldFunction
from equitangents.keywords import named_also
from equitangents.scale.place import local
from equitangents.solvers.method import Method, SolveReport
from equitangents.solvers.solving import as_method
from equitangents.solvers.spectral import Eigh
from equitangents.validation import check_choice

logger = logging.getLogger("equitangents")

_TOLERATED = 0.05  # of the targets' size: estimated errors of approximations beyond that are warned of
_SAMPLE = 256  # training inputs whose exact kernel is computed
_TRAINED = 0.75  # of them; the others are predicted


@dataclass(frozen=True)
class Approximation:
    """Random features against the exact kernel, on `samples` random training inputs, `predicted` of them held out.

    difference: relative root mean square difference of both predictions at the held-out inputs, trained on the other
    inputs with the ensemble's time, ridge and dynamics. It holds for that sample: more inputs at the same ridge need
    more features.
    """

    difference: float
    samples: int
    predicted: int


@dataclass(eq=False, repr=False)
class InfiniteEnsembleBase(StandardisedInputs, OrbitQuestions, Estimator):
    """Infinitely wide networks trained for a time t; parameters as in InfiniteEnsemble."""

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
    solution_: SolveReport = field(init=False)

    @property
    def _solved(self) -> Training:
        """The solved training of this ensemble, or of the regression behind a classifier."""
        return cast(Training, getattr(self, "ensemble_", self)._training)

    def _check_parameters(self) -> TrainingSettings:
        if not any(callable(getattr(self.net, name, None)) for name in ("kernel", "kernel_field")):
            expected = "a network or an object with kernel(x1, x2=None), or kernel_field(x1, x2=None) for fields"
            raise InvalidTypeError("net", self.net, expected)
        check_choice("kernel", self.kernel, ("ntk", "nngp"))
        check_choice("dynamics", self.dynamics, DYNAMICS)
        if not as_times(self.time)[1]:
            raise InvalidArgumentError("time", self.time, "one number (predict takes arrays of times)")
        dynamics = DYNAMICS[self.dynamics]
        dynamics(self.learning_rate, samples=1).check(0.0, float(self.time))  # checks that need no kernel
        method, ridge = as_method(self.solver), Ridge.read(self.ridge)
        return TrainingSettings(self.kernel, dynamics, self.learning_rate, ridge, self.memory_limit, self.store, method)

    @named_also(X="x")
    def tune(
        self,
        grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        x: Numbers | None = None,
        y: Numbers | None = None,
    ) -> Tuning[Self]:
        """Score every combination of the grid's values and fit the best one; this ensemble does not change.

        Candidates that differ in ridge, time or learning rate share one decomposition; others need one each. With R
        ridges this takes about 1/(5R) of 5-fold cross-validation with refits.

        Args:
            grid: lists of values by name, or several such grids. Names are parameters of this ensemble, and `depth`,
                `W_std`, `b_std` and `nonlinearity`, which change `net` (`nn.variants.vary`). A function as a value of
                `net` is called with these four and returns a network.
            x: inputs as in `fit`; None: the inputs that this ensemble was fitted to.
            y: targets as in `fit`, passed with x.

        The best has the smallest mean squared error of `leave_one_out_`, or for classifiers the largest accuracy (ties:
        the smallest mean squared error). A candidate whose kernel matrix cannot be solved has no score and never wins;
        if none can be solved, its error is raised. Among equal scores the first in the grid's order wins.

        Source: Rasmussen & Williams 2006, section 5.4.2.
        """
        if x is None:
            if y is not None:
                raise InvalidArgumentError("X", None, "samples with y", "give both, or neither after fit")
            self._check_fitted()
            x, y = self._data
        return tune(self, grid, x, cast(Numbers, y))

    @property
    def log_marginal_likelihood_(self) -> float:
        """log N(y; 0, Θ + δ) of the training targets (K instead of Θ for kernel="nngp"), outputs independent.

        The density under the Gaussian process whose posterior mean is this ensemble's at time inf, with noise of
        variance δ = ridge · (mean diagonal): for "nngp" the Bayesian network's marginal likelihood, for "ntk" that of
        the process whose covariance is the NTK. `time` does not enter. With augmentation Y are all N|G| targets, as
        in the explicit problem. For a classifier Y are one-hot minus 1/K, those of `ensemble_`. Raises
        NotPositiveDefiniteError, with the ridge that helps, if targets have no density. Source: Rasmussen & Williams
        2006, chapter 5.
        """
        self._check_fitted()
        return target_evidence(self._solved).log_density

    @property
    def log_marginal_likelihood_slope_(self) -> float:
        """The derivative of `log_marginal_likelihood_` with respect to `ridge`, in closed form: 0 at the best ridge."""
        self._check_fitted()
        self._solved.settings.ridge.check_one("the derivative is one by a number")
        return target_evidence(self._solved).slope

    def save(self, path: FileName) -> None:
        """Write the fitted ensemble atomically to a folder `path`, replacing an ensemble saved there.

        The folder holds JSON and arrays with checksums, no pickles. A network with users' own functions is not saved:
        pass it to `load`.
        """
        self._check_fitted()
        saving.save(self, local("path", path))

    @classmethod
    def load(cls, path: FileName, *, net: Network = None) -> Self:
        """The ensemble written by `save`; `net` is the network if it could not be saved.

        Raises StoreError for a folder that is damaged, holds something else, or is of another version.
        """
        return cast(Self, saving.load(cls, local("path", path), net))


class InfiniteEnsemble(FieldRegressorMixin, InfiniteEnsembleBase):
    """Regression by infinitely wide networks trained for a time t, following scikit-learn's conventions.

    Results are float64 NumPy arrays. Training samples with equal input and target are merged, which makes the kernel
    matrix invertible and changes nothing else; likewise augmented copies of an input that some g fixes.

    A network that ends on positions is fitted to fields, y (N, *positions, outputs): a sample is then a whole field,
    |f − y|² a sum over positions and outputs, and results with an axis of outputs have the positions before it.

    Args:
        net: a network, or anything with `kernel(x1, x2=None)` that returns an object with `.nngp` and `.ntk`; for
            fields anything with `kernel_field(x1, x2=None)`.
        augmentation: the action ρ_X of full data augmentation, the name of a group ("C4": `actions.as_action`), some of
            an action's elements with or without weights (`equitangents.actions.subset`), or None.
        time: training time t ≥ 0, inf allowed; in steps if dynamics="discrete". `predict` takes any other time.
        learning_rate: η of the loss (1/2N) Σ_i |f(x_i) − y_i|², N counting augmented copies; not divided by the number
            of outputs.
        ridge: r ≥ 0 adds δ = r · (mean diagonal of the training kernel) to the training kernel: weight decay towards
            the initial weights for kernel="ntk", noise of variance δ on the targets for kernel="nngp". One value per
            sample, (N,), adds diag(δ_i): noise that differs between samples, in the same unit; a sample's copies share
            it.
        kernel: "ntk", all layers are trained; "nngp", only the last layer: at time inf the Bayesian posterior.
        label_action: the action ρ_Y of the same group on targets (N, outputs); None: labels are invariant. For fields
            it acts on (N, *positions, outputs), e.g. an `actions.tensor_product` of positions and values; None: values
            are invariant and move with their positions, as those of the input do.
        input_shape: (*positions, channels) if x may come flattened, (N, prod(input_shape)).
        dynamics: "flow", gradient flow; "discrete", full-batch gradient descent in steps.
        memory_limit: bytes that a fit may use; None: half of the available memory.
        store: a folder for the training set's kernel, stored tile by tile (`scale.GramStore`): an interrupted fit
            continues from it, and the next one reads it; for dense, explicit and orbit-averaged problems, not for
            fields.
        solver: "eigh", "cholesky", "out-of-core", "lanczos", "pcg", "nystrom", or an object with its settings, such as
            `solvers.PCG(rank=500)`. "auto": "eigh" up to 3,000 samples, else by memory and time; never an
            approximation. For `kernels.random_features` it solves for the features' weights, linear in N ("primal").
            "nystrom" reads a `store` if there is one, which first computes all of it. `solution_` holds the solver used
            and the reason.
        standardise: train and predict on standardised inputs (x − m)/s, with the training set's mean m and standard
            deviation s of each channel (the last axis, over samples and positions; constant channels are only shifted),
            so that predictions do not depend on the unit of X. If the augmentation mixes channels or fills with zeros,
            m and s are restricted to those that it commutes with (`ensembles.standardisation`).

    Attributes:
        solver_: the problem that gives the mean, exactly in each case: "dense N×N" (random features: "primal N×m");
            "orbit-averaged N×N" for invariant labels, "irreps of D4: 5 blocks, largest 2N" for others, if the
            augmentation is by an exact action under which the kernel is invariant by its structure; or
            "explicit N|G| (why)". Of fields on P positions the same with NP; and "dense NP×NP (the network is
            equivariant under …)" where each copy is its sample.
        solution_: how the mean was solved at the constructor's time (a `SolveReport`): solver and reason, residual,
            condition, iterations, seconds, and for "nystrom" the estimated error.
        approximation_: for `kernels.random_features`, the difference from exact predictions on a small sample.
        covariance_solver_: the problem that gives covariances, stds and samples; solved on first use.
        max_learning_rate_: 2N/λ_max of that problem (with irreps always including the trivial one): the largest
            learning rate at which steps are stable.
        augmentation_: the action itself, if `augmentation` is the name of a group.
        standardisation_: `shift`, `scale`, and `how` they were computed, with `standardise`; else None.
        n_features_in_: number of values in one input.
        sample_shape_: shape of one input.
        n_outputs_: number of outputs, for fields at each position.
        positions_: the grid of fields, () for other targets.

    Sources: Jacot et al. 2018 (arXiv 1806.07572); Lee et al. 2019 (arXiv 1902.06720); Gerken & Kessel 2024 (arXiv
    2403.03103).

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(512), et.nn.Relu(), et.nn.Dense(1))
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> model = et.InfiniteEnsemble(net, time=float("inf")).fit(x, np.array([1.0, 2.0, 3.0]))
    >>> model.predict(x).round(6).tolist()
    [1.0, 2.0, 3.0]
    """

    fitted_attribute = "_training"

    @named_also(X="x")
    def fit(self, x: Numbers, y: Numbers) -> InfiniteEnsemble:
        """Solve the training problem for x (N, features) or (N, *positions, channels), y (N,) or (N, outputs).

        For a network that ends on positions y is (N, *positions) or (N, *positions, outputs).
        Raises InvalidArgumentError or InvalidTypeError for bad input, NotPositiveDefiniteError (naming the ridge that
        helps) if the kernel matrix is singular and time is inf, MemoryLimitError before allocating too much.
        """
        return self._solve(self._prepare(x, y))

    def _prepare(self, X: Numbers, y: Numbers) -> Training:
        """The problem, checked and not yet solved."""
        self.__dict__.pop("_training", None)  # a fit that fails leaves no older one to predict with
        settings = self._check_parameters()
        x = check_inputs(self, X, self.input_shape, reset=True)
        positions = output_positions(self.net, x, y)
        y, targets, self._squeeze = check_targets(x, y, positions)
        self.n_outputs_ = targets.shape[-1]
        self.positions_: tuple[int, ...] = () if positions is None else positions.shape
        self.augmentation_ = as_action("augmentation", self.augmentation, x.shape)
        if positions is None:
            check_network(self.net, x)
        self._data = x, y
        Ridge.read(self.ridge, len(x))
        x = self._fit_inputs(x, self.net, self.augmentation_)
        return make_training(self.net, self.augmentation_, self.label_action, x, targets, positions, settings)

    def _solve(self, training: Training) -> InfiniteEnsemble:
        """Solve the training problem and keep it."""
        solved = training.mean_problem
        self.solver_ = training.solver
        logger.info("InfiniteEnsemble: %s, N = %d", self.solver_, len(training.x))
        solved.check(float(self.time))
        self.solution_ = solved.report(float(self.time))
        self.max_learning_rate_ = solved.max_learning_rate
        self._training = training
        if not self.solution_.error <= _TOLERATED:
            logger.warning(
                "InfiniteEnsemble: solver %r approximates; what it leaves out is estimated at %.0f %% of the targets' "
                "size: more landmarks (rank) leave out less, exact solvers nothing",
                self.solution_.solver,
                100 * self.solution_.error,
            )
        return self

    @property
    def covariance_solver_(self) -> str:
        """The problem that gives covariances, stds and samples, named as in `solver_`."""
        self._check_fitted()
        return self._training.covariance_solver

    @property
    def approximation_(self) -> Approximation | None:
        """The difference between predictions of `kernels.random_features` and exact ones, computed on access.

        Both are computed on at most 256 training inputs: see `Approximation`. None if the kernel is exact. Raises
        InvalidArgumentError for a single training input.
        """
        self._check_fitted()
        training = self._training
        if not isinstance(training.kernel, RandomFeatures):
            return None
        if len(training.x) < 2:
            raise InvalidArgumentError("X", 1, "at least 2 samples, of which one is predicted", verb="has length")
        chosen = np.random.default_rng(0).permutation(len(training.x))[:_SAMPLE]
        x, y, trained = np.asarray(training.x)[chosen], training.y[chosen], max(1, int(_TRAINED * len(chosen)))
        settings, ridge = replace(training.settings, held=None, store=None, method=None), training.settings.ridge
        if ridge.above is not None:
            settings = replace(settings, ridge=Ridge.read(ridge.least + ridge.above[chosen[:trained]]), method=Eigh())
        solved = (
            predictor.dense(kernel, x[:trained], y[:trained], settings)
            for kernel in (training.kernel.net, training.kernel)
        )
        exact, ours = (each.means(x[trained:], np.array([float(self.time)]))[0] for each in solved)
        difference = float(np.linalg.norm(ours - exact) / (np.linalg.norm(exact) or np.inf))
        return Approximation(difference, len(x), len(x) - trained)

    @property
    def leave_one_out_(self) -> LeaveOneOut:
        """Each training sample predicted by this ensemble trained without it and its augmented copies.

        At `time`, from the decomposition that `fit` made; equal to N fits, except that with `standardise` inputs are
        standardised by all samples, including the left-out one (`standardised_by`). A field is left out with all its
        positions. For an approximating solver the predictions are those of exact training. Raises InvalidArgumentError
        for a finite number of steps (dynamics="discrete"), for ridges that differ between samples, if the
        augmentation's elements lack the identity, and for fields solved by irreps; in these cases scikit-learn's
        `cross_val_predict(ensemble, x, y, cv=LeaveOneOut())` fits N times.
        """
        self._check_fitted()
        return self._left_out(self._training, float(self.time))

    def _left_out(self, training: Training, time: float) -> LeaveOneOut:
        predictions, targets = held_out_predictions(training, time), training.y
        if self._squeeze:
            predictions, targets = predictions[..., 0], targets[..., 0]
        bayesian = self.kernel == "nngp" and math.isinf(time)
        name = "posterior mean of the NNGP" if bayesian else "mean of infinitely wide networks"
        units = "all samples" if self.standardise else "nothing"
        return LeaveOneOut(predictions, targets - predictions, time, name, units)

    @overload
    def predict(self, x: Numbers, time: Times | None = None) -> np.ndarray: ...

    @overload
    def predict(
        self, x: Numbers, time: Times | None = None, *, return_std: Literal[True], return_cov: Literal[False] = False
    ) -> MeanStd: ...

    @overload
    def predict(
        self, x: Numbers, time: Times | None = None, *, return_std: Literal[False] = False, return_cov: Literal[True]
    ) -> MeanStd: ...

    @overload
    def predict(
        self, x: Numbers, time: Times | None = None, return_std: bool = False, return_cov: bool = False
    ) -> np.ndarray | MeanStd: ...

    @named_also(X="x")
    def predict(
        self, x: Numbers, time: Times | None = None, return_std: bool = False, return_cov: bool = False
    ) -> np.ndarray | MeanStd:
        """Mean (M, outputs), or (M,) for 1-d y, optionally with the std (M,) or the covariance (M, M) of one output.

        `time`: None for the constructor's, a number, or an array of T times, which puts an axis T in front of every
        result. For fields the mean is (M, *positions, outputs), the std (M, *positions), and the covariance
        (M, *positions, M, *positions); MemoryLimitError if it does not fit.
        """
        if return_std and return_cov:
            raise InvalidArgumentError("return_cov", return_cov, "False with return_std=True")
        x, times, single = self._check_query(x, time)
        # the covariance first: what is too large is refused before anything is computed
        uncertainty = self._training.covariances(x, times, diagonal=return_std) if return_std or return_cov else None
        mean = self._training.means(x, times)
        mean = mean[..., 0] if self._squeeze else mean
        if uncertainty is None:
            return mean[0] if single else mean
        uncertainty = np.sqrt(uncertainty) if return_std else uncertainty
        return (mean[0], uncertainty[0]) if single else (mean, uncertainty)

    def predict_orbit_means(self, x: Numbers, time: Times | None = None) -> np.ndarray:
        """Mean (M, |G|, outputs) on each orbit {ρ_X(g) x_i} of the augmentation's group; for 1-d y (M, |G|, 1).

        `time`: one number, or None for the constructor's. Costs little more than the means at the M inputs. For fields
        (M, |G|, *positions, outputs).
        """
        x, times, _ = self._check_query(x, time, "orbits are predicted at one time")
        return self._training.orbit_means(x, times)[0]

    def sample(self, x: Numbers, count: int, *, key: Key, time: Times | None = None) -> np.ndarray:
        """Outputs of `count` trained networks at x, drawn jointly over inputs.

        (count, M, outputs), or (count, M) for 1-d y.
        """
        x, times, _ = self._check_query(x, time, "samples are drawn at one time")
        check_sample("count", count, key)
        draws = self._training.sample(x, count, float(times[0]), key=cast(jax.Array, key))
        return draws[..., 0] if self._squeeze else draws

    def sample_orbits(self, x: Numbers, count: int, *, key: Key, time: Times | None = None) -> np.ndarray:
        """Trained networks on the orbits of x, drawn jointly over inputs and elements: (count, M, |G|, outputs).

        Orbits are those of the augmentation's group. With irreps, the covariance of all M|G| points is not formed.
        """
        x, times, _ = self._check_query(x, time, "samples are drawn at one time")
        check_sample("count", count, key)
        return self._training.sample_orbits(x, count, float(times[0]), key=cast(jax.Array, key))

    def _orbit_question(self, x: Numbers, y: Numbers | None) -> tuple[InfiniteEnsemble, np.ndarray, np.ndarray | None]:
        """(this ensemble, x, targets (n, outputs) or None), checked."""
        self._check_fitted()
        if getattr(self.net, "equivariant_outputs", None) is not None:
            raise InvalidArgumentError(
                "orbit statistics are for invariant outputs, and this network's outputs are equivariant; "
                "metrics.equivariance_error(ensemble.predict, action, x, output_action) measures these"
            )
        inputs = check_inputs(self, x, self.input_shape, reset=False)
        return self, inputs, target_rows(self, inputs, y)

    def _check_query(
        self, x: Numbers, time: Times | None, once: str | None = None
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """(standardised x, times, whether there is one time), checked; with `once` there must be one."""
        self._check_fitted()
        x = check_inputs(self, x, self.input_shape, reset=False)
        times, single = as_times(self.time if time is None else time)
        for t in times:
            self._training.mean_problem.check(t)
        if once is not None and not single:
            raise InvalidArgumentError("time", times.shape, once, verb="has shape")
        return self._as_trained(x), times, single
