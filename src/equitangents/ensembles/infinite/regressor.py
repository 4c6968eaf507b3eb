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

from equitangents._types import FileName, KernelName, Key, Network, Numbers, Spread, Times
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
from equitangents.ensembles.infinite.predictor import Settings
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
from equitangents.solvers.method import Method, Report
from equitangents.solvers.solving import as_method
from equitangents.validation import check_choice

logger = logging.getLogger("equitangents")

_TOLERATED = 0.05  # of the targets' size: estimated errors of approximations beyond that are warned of
_SAMPLE = 256  # training inputs whose exact kernel is computed
_TRAINED = 0.75  # of them; the others are predicted


@dataclass(frozen=True)
class Approximation:
    """Features against the exact kernel, on `samples` random training inputs, of which `predicted` are held out.

    difference: root mean square of the difference between both predictions at the held-out inputs, over that of the
    exact ones; both trained on the other inputs, with the ensemble's time, ridge and dynamics. It is of the sample:
    with more inputs at the same ridge, more features are needed.
    """

    difference: float
    samples: int
    predicted: int


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
        return cast(Training, getattr(self, "ensemble_", self)._training)

    def _check_parameters(self) -> Settings:
        if not any(callable(getattr(self.net, name, None)) for name in ("kernel", "kernel_field")):
            expected = "a network or an object with kernel(x1, x2=None), or kernel_field(x1, x2=None) for fields"
            raise InvalidTypeError("net", self.net, expected)
        check_choice("kernel", self.kernel, ("ntk", "nngp"))
        check_choice("dynamics", self.dynamics, DYNAMICS)
        if not as_times(self.time)[1]:
            raise InvalidArgumentError("time", self.time, "one number (predict takes arrays of times)")
        dynamics = DYNAMICS[self.dynamics]
        dynamics(self.learning_rate, samples=1).check(0.0, float(self.time))  # what can be said before any kernel
        method, ridge = as_method(self.solver), Ridge.read(self.ridge)
        return Settings(self.kernel, dynamics, self.learning_rate, ridge, self.memory_limit, self.store, method)

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
        ones the smallest mean squared error). A candidate whose kernel matrix cannot be solved has no score and never
        wins; if that is so of all, its error is raised. Of equal scores the first in the grid's order wins.

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

    def save(self, path: FileName) -> None:
        """Write the fitted ensemble to a folder `path`, all of it or nothing; one that was saved there is replaced.

        The folder holds JSON and arrays with checksums, no pickles. A network with functions of one's own is left out,
        and given again to `load`.
        """
        self._check_fitted()
        saving.save(self, local("path", path))

    @classmethod
    def load(cls, path: FileName, *, net: Network = None) -> Self:
        """The ensemble that `save` wrote, with `net` where the network could not be saved.

        Raises StoreError for a folder that is damaged, holds something else, or is of another version.
        """
        return cast(Self, saving.load(cls, local("path", path), net))


class InfiniteEnsemble(FieldRegressorMixin, InfiniteEnsembleBase):
    """Regression by infinitely wide networks trained for a time t, following scikit-learn's conventions.

    Results are float64 NumPy arrays. Training samples that are equal in input and target are merged, which changes
    nothing but makes the kernel matrix invertible; likewise augmented copies of an input that some g fixes.

    A network that ends on positions is fitted to fields, y (N, *positions, outputs): a sample is then a whole field,
    |f − y|² a sum over positions and outputs, and whatever has an axis of outputs has the positions before it.

    Args:
        net: a network, or anything with `kernel(x1, x2=None)` that returns an object with `.nngp` and `.ntk`; for
            fields anything with `kernel_field(x1, x2=None)`.
        augmentation: the action ρ_X of full data augmentation, the name of a group ("C4": `actions.as_action`), some
            of an action's elements with or without weights (`equitangents.actions.subset`), or None.
        time: training time t ≥ 0, inf allowed; in steps if dynamics="discrete". `predict` takes any other time.
        learning_rate: η of the loss (1/2N) Σ_i |f(x_i) − y_i|², N counting augmented copies; not divided by the
            number of outputs.
        ridge: r ≥ 0 adds δ = r · (mean diagonal of the training kernel) to the kernel that trains: weight decay
            towards the initial weights for kernel="ntk", noise of variance δ on the targets for kernel="nngp". One
            value a sample, (N,), adds diag(δ_i): noise that differs between samples, in the same unit; a sample's
            copies share it.
        kernel: "ntk", all layers are trained; "nngp", the last layer alone: at time inf the Bayesian posterior.
        label_action: the action ρ_Y of the same group on targets (N, outputs); None: labels are invariant. Of fields it
            acts on (N, *positions, outputs), as `actions.tensor_product` makes one of positions and values; None:
            values are invariant, and go with their positions as those of the input do.
        input_shape: (*positions, channels) if x may come flattened, (N, prod(input_shape)).
        dynamics: "flow", gradient flow; "discrete", full-batch gradient descent in steps.
        memory_limit: bytes that a fit may take; None: half of the memory there is.
        store: a folder in which the kernel of the training set is kept tile by tile (`scale.GramStore`): a fit that was
            killed goes on, and the next one reads it; for the dense, explicit and orbit-averaged problems, not of
            fields.
        solver: what solves them: "eigh", "cholesky", "out-of-core", "lanczos", "pcg", "nystrom", or settings
            of one, such as `solvers.PCG(rank=500)`. "auto": "eigh" up to 3,000 samples, else by memory and time; never
            an approximation. Of `kernels.random_features` it solves for the features' weights, linear in N ("primal").
            "nystrom" reads a `store` if one is given, which computes all of it first.
            `solution_` says what was used, and why.
        standardise: train on (x − m)/s, with the training set's mean m and deviation s of each channel (the last axis,
            over samples and positions; constant channels are only shifted), and predict so: the unit of X has no part
            in what is predicted. Where the augmentation mixes channels, or fills with zeros, m and s are those that
            it commutes with (`ensembles.standardisation`), so that what is equivariant stays so.

    Attributes:
        solver_: which problem gives the mean, exactly in each case: "dense N×N" (of random features "primal N×m");
            "orbit-averaged N×N" for invariant labels, "irreps of D4: 5 blocks, largest 2N" for others, if the
            augmentation is by an exact action under which the kernel is invariant (checked on a sample); or
            "explicit N|G| (why)". Of fields on P positions the same with NP; and "dense NP×NP (the network is
            equivariant under …)" where each copy is its sample.
        solution_: how the mean was solved at the constructor's time (a `Report`): solver and reason, residual,
            condition, iterations, seconds, and for "nystrom" the estimated error.
        approximation_: of `kernels.random_features`, how far predictions are from exact ones on a small sample.
        covariance_solver_: which gives covariances, stds and samples; solved when first asked for.
        max_learning_rate_: 2N/λ_max of that problem, of irreps always with the trivial one: the largest learning rate
            at which steps are stable.
        augmentation_: the action itself, where `augmentation` is the name of a group.
        standardisation_: `shift`, `scale` and `how` they were taken, where `standardise`; None else.
        n_features_in_: numbers in one input.
        sample_shape_: shape of one input.
        n_outputs_: number of outputs, of fields at each position.
        positions_: the grid that fields are on, () for other targets.

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
        """Decompose the training kernel: x (N, features) or (N, *positions, channels), y (N,) or (N, outputs).

        Of a network that ends on positions y is (N, *positions) or (N, *positions, outputs).
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
        """Which problem gives covariances, stds and samples, named as in `solver_`."""
        self._check_fitted()
        return self._training.covariance_solver

    @property
    def approximation_(self) -> Approximation | None:
        """How far predictions from `kernels.random_features` are from exact ones, measured when it is asked for.

        Both are computed on at most 256 of the training inputs: see `Approximation`. None where the kernel is exact.
        """
        self._check_fitted()
        training = self._training
        if not isinstance(training.kernel, RandomFeatures):
            return None
        chosen = np.random.default_rng(0).permutation(len(training.x))[:_SAMPLE]
        x, y, trained = np.asarray(training.x)[chosen], training.y[chosen], max(1, int(_TRAINED * len(chosen)))
        settings = replace(training.settings, held=None, store=None, method=None)
        solved = (
            predictor.dense(kernel, x[:trained], y[:trained], settings)
            for kernel in (training.kernel.net, training.kernel)
        )
        exact, ours = (each.means(x[trained:], np.array([float(self.time)]))[0] for each in solved)
        difference = float(np.linalg.norm(ours - exact) / (np.linalg.norm(exact) or np.inf))
        return Approximation(difference, len(x), len(x) - trained)

    @property
    def leave_one_out_(self) -> LeaveOneOut:
        """Each training sample, its augmented copies included, predicted by this ensemble trained without it.

        At `time`, from the decomposition that `fit` made; equal to N fits to inputs in the units of this one. With
        `standardise` these are the mean and deviation of all samples, the left-out one included, which the result says
        (`standardised_by`). A field is left out with all its positions. Of an approximating solver it is what exact
        training predicts. Raises InvalidArgumentError for a finite number of steps (dynamics="discrete"), for ridges
        that differ between samples, where the augmentation's elements leave out the identity, and for fields whose
        `solver_` is that of irreps: scikit-learn's `cross_val_predict(ensemble, x, y, cv=LeaveOneOut())` fits N times.
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
        """
        if return_std and return_cov:
            raise InvalidArgumentError("return_cov", return_cov, "False with return_std=True")
        x, times, single = self._check_query(x, time)
        # the covariance first: what is too large is refused before anything is computed
        spread = self._training.covariances(x, times, diagonal=return_std) if return_std or return_cov else None
        mean = self._training.means(x, times)
        mean = mean[..., 0] if self._squeeze else mean
        if spread is None:
            return mean[0] if single else mean
        spread = np.sqrt(spread) if return_std else spread
        return (mean[0], spread[0]) if single else (mean, spread)

    def predict_orbit_means(self, x: Numbers, time: Times | None = None) -> np.ndarray:
        """Mean (M, |G|, outputs) on each orbit {ρ_X(g) x_i} of the augmentation's group; for 1-d y (M, |G|, 1).

        `time`: one number, or None for the constructor's. Hardly more work than the M inputs alone. Of fields
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

        Of the augmentation's group. Where the irreps are solved, the covariance of all M|G| points is not formed.
        """
        x, times, _ = self._check_query(x, time, "samples are drawn at one time")
        check_sample("count", count, key)
        return self._training.sample_orbits(x, count, float(times[0]), key=cast(jax.Array, key))

    def _orbit_question(self, x: Numbers, y: Numbers | None) -> tuple[InfiniteEnsemble, np.ndarray, np.ndarray | None]:
        """(the ensemble whose outputs are measured, x, targets (n, outputs) or None), checked."""
        self._check_fitted()
        if getattr(self.net, "equivariant_outputs", None) is not None:
            raise InvalidArgumentError(
                "orbit statistics compare outputs that stay the same along an orbit, and those of this network turn; "
                "metrics.equivariance_error(ensemble.predict, action, x, output_action) measures these"
            )
        inputs = check_inputs(self, x, self.input_shape, reset=False)
        return self, inputs, target_rows(self, inputs, y)

    def _check_query(
        self, x: Numbers, time: Times | None, once: str | None = None
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """(x as it is trained on, times, whether that is one time), checked; it has to be one if `once` says so."""
        self._check_fitted()
        x = check_inputs(self, x, self.input_shape, reset=False)
        times, single = as_times(self.time if time is None else time)
        for t in times:
            self._training.mean_problem.check(t)
        if once is not None and not single:
            raise InvalidArgumentError("time", times.shape, once, verb="has shape")
        return self._as_trained(x), times, single
