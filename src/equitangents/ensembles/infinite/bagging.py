"""Bagging at infinite width: members trained on resamples of the data, each of them a Gaussian process.

With resample b the law of a member is GP(μ_b, Σ_b ⊗ 1); over resamples its mean is E_b μ_b and its covariance, of
output k, E_b Σ_b + Cov_b μ_b,k. Both are means over finitely many resamples here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from sklearn.base import clone

from equitangents._types import Key, Numbers, Spread, Times
from equitangents.actions import as_action
from equitangents.actions.kinds import ActionLike
from equitangents.ensembles.estimator import (
    Estimator,
    FieldRegressorMixin,
    check_inputs,
    check_targets,
)
from equitangents.ensembles.fields import output_positions
from equitangents.ensembles.infinite.regressor import InfiniteEnsemble, TimedPredictions
from equitangents.ensembles.orbits import OrbitQuestions
from equitangents.ensembles.standardisation import fitted_standardisation
from equitangents.ensembles.training.variations import Bootstrap, variation_key
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.inference.draws import as_key
from equitangents.inference.dynamics import as_times
from equitangents.inference.ridge import Ridge, of_samples
from equitangents.kernels.invariance import draws_noise
from equitangents.keywords import named_also
from equitangents.validation import check_whole


@dataclass(eq=False, repr=False)
class BaggedInfiniteEnsemble(FieldRegressorMixin, TimedPredictions, OrbitQuestions, Estimator):
    """`InfiniteEnsemble` with members that are trained on resamples, as `DeepEnsemble(variation=Bootstrap())` is.

    `orbit_statistics` is exact in law for M = 1. For more members the mean's first two moments are exact, and its
    distribution is taken to be that of a single member, narrowed by 1/√M. Networks that end on positions are fitted to
    fields: a resample is one of whole fields, and results have the positions before the axis of outputs.

    Args:
        ensemble: an `InfiniteEnsemble`, whose parameters all resamples share.
        resamples: how many are solved; the error of means over them falls as 1/√resamples.
        seed: resample i is that of member i of a `DeepEnsemble` with this seed.

    Attributes:
        ensembles_: the fitted ensemble of every resample.
        n_outputs_: number of outputs, of fields at each position.
        positions_: the grid that fields are on, () for other targets.
        solver_: as in `InfiniteEnsemble`.

    Source: Breiman 1996, Bagging predictors.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(1, b_std=0.3), et.nn.Relu(), et.nn.Dense(1))
    >>> x = np.linspace(-1, 1, 8)[:, None]
    >>> model = et.ensembles.BaggedInfiniteEnsemble(et.InfiniteEnsemble(net, time=10.0), resamples=5)
    >>> mean, std = model.fit(x, x[:, 0] ** 2).predict(x, return_std=True)
    >>> mean.shape, std.shape
    ((8,), (8,))
    """

    fitted_attribute = "ensembles_"

    ensemble: InfiniteEnsemble
    resamples: int = 50
    seed: int = 0

    @named_also(X="x")
    def fit(self, x: Numbers, y: Numbers) -> BaggedInfiniteEnsemble:
        """Fit the ensemble of every resample; x and y as `InfiniteEnsemble.fit` takes them."""
        self.__dict__.pop("ensembles_", None)
        if not isinstance(self.ensemble, InfiniteEnsemble):
            raise InvalidTypeError("ensemble", self.ensemble, "an InfiniteEnsemble")
        if draws_noise(self.ensemble.net):
            raise InvalidArgumentError(
                "ensemble has a net that draws noise, such as dropout's, for each input, and a resample holds equal "
                "ones; take a net without, such as Dropout(rate, mode='test')"
            )
        check_whole("resamples", self.resamples, 2)
        check_whole("seed", self.seed, 0, 2**32 - 1)
        x = check_inputs(self, x, self.ensemble.input_shape, reset=True)
        y, *_ = check_targets(x, y, output_positions(self.ensemble.net, x, y))
        action = as_action("augmentation", self.ensemble.augmentation, x.shape)
        units = fitted_standardisation(x, self.ensemble.net, action) if self.ensemble.standardise else None
        Ridge.read(self.ensemble.ridge, len(y))
        ensembles = []
        for i in range(self.resamples):
            rows = Bootstrap().rows(variation_key(self.seed, i), len(y), 1)
            member: InfiniteEnsemble = clone(self.ensemble).set_params(ridge=of_samples(self.ensemble.ridge, rows))
            ensembles.append(member._solve(member._prepare(x[rows], y[rows], units)))
        self.ensembles_ = ensembles
        self.n_outputs_ = ensembles[0].n_outputs_
        self.solver_ = ensembles[0].solver_
        self.augmentation_ = ensembles[0].augmentation_
        self.positions_ = ensembles[0].positions_
        self._one_column = ensembles[0]._squeeze
        return self

    @property
    def time(self) -> float:
        """The training time of the resamples' ensembles."""
        return self.ensemble.time

    @property
    def augmentation(self) -> ActionLike | None:
        """The action by which each resample is augmented, or None."""
        return self.ensemble.augmentation

    @property
    def memory_limit(self) -> int | None:
        """Bytes that a computation may take."""
        return self.ensemble.memory_limit

    def _predicted(self, x: Numbers, time: Times | None, return_std: bool, return_cov: bool) -> np.ndarray | Spread:
        x = self._query(x)
        times, single = as_times(self.time if time is None else time)
        how = {"return_std": return_std, "return_cov": return_cov}
        found: list[Any] = [e.predict(x, times, **how) for e in self.ensembles_]
        if not (return_std or return_cov):
            mean = np.mean(found, axis=0)
            return mean[0] if single else mean
        means, spreads = (np.stack(part) for part in zip(*found, strict=True))
        means = means[..., None] if self._one_column else means
        mean = means.mean(axis=0)
        centred = means - mean
        if return_std:
            spread = np.sqrt((spreads**2).mean(axis=0)[..., None] + (centred**2).mean(axis=0))
        else:
            rows, shape = centred.reshape(*means.shape[:2], -1, centred.shape[-1]), mean.shape[1:-1]
            between = np.einsum("btik,btjk->tijk", rows, rows, optimize=True) / len(means)
            spread = spreads.mean(axis=0)[..., None] + between.reshape(len(times), *shape, *shape, -1)
        mean, spread = (mean[..., 0], spread[..., 0]) if self._one_column else (mean, spread)
        return (mean[0], spread[0]) if single else (mean, spread)

    def sample(self, x: Numbers, count: int, *, key: Key, time: Times | None = None) -> np.ndarray:
        """Outputs of `count` members at x, each with a resample drawn at random.

        (count, M, outputs), or (count, M) for 1-d y.
        """
        x = self._query(x)
        check_whole("count", count, 1)
        key = as_key("key", key)
        choice_key, draw_key = jax.random.split(key)
        chosen = np.asarray(jax.random.randint(choice_key, (count,), 0, self.resamples))
        draws: np.ndarray | None = None
        for b in np.unique(chosen):
            mine = np.flatnonzero(chosen == b)
            part = self.ensembles_[b].sample(x, len(mine), key=jax.random.fold_in(draw_key, int(b)), time=time)
            draws = np.empty((count, *part.shape[1:])) if draws is None else draws
            draws[mine] = part
        assert draws is not None
        return draws

    def _orbit_question(
        self, x: Numbers, y: Numbers | None
    ) -> tuple[BaggedInfiniteEnsemble, np.ndarray, np.ndarray | None]:
        """(the ensemble whose outputs are measured, x, targets (n, outputs) or None), checked."""
        x = self._query(x)
        return self, *self.ensembles_[0]._orbit_question(x, y)[1:]

    def _query(self, x: Numbers) -> np.ndarray:
        self._check_fitted()
        return check_inputs(self, x, self.ensemble.input_shape, reset=False)
