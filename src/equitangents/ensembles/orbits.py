"""Ensembles on orbits {ρ(g)x : g ∈ G}: their joint Gaussian distribution over elements, and its statistics.

One network:             f(ρ(g)x) ~ N(μ_g, Σ_gh), outputs independent of one another
the mean of M networks:  f̄(ρ(g)x) ~ N(μ_g, Σ_gh/M)

Ensembles are drawn jointly over all inputs and group elements, f̄ = μ + ε/√M, ε ~ N(0, Σ). The draws give every
statistic of a finite ensemble and its variation between ensembles: orbit same predictions, relative orbit std, error.
The same draws of ε serve every M, so that statistics are smooth in M.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.stats
from jaxtyping import Float

from equitangents._types import AnyAction, AnyModel, Key, Numbers, Targets, Times
from equitangents.actions import Action, as_action
from equitangents.actions.action import GroupAction
from equitangents.actions.compact import check_finite_group
from equitangents.actions.kinds import ActionLike
from equitangents.ensembles.fields import RowAction, field_shape
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.groups.group import GroupMap
from equitangents.inference.draws import as_key
from equitangents.inference.dynamics import one_time
from equitangents.memory import check_memory
from equitangents.metrics import on_orbits as orbit_measures
from equitangents.validation import check_array, check_number, check_same_length, check_whole

_NAMES = {
    "rsd": ("relative orbit std", "median"),
    "osp": ("orbit same predictions", "mean"),
    "equivariance_error": ("equivariance error", "median"),
    "error": ("error", "mean"),
}
"""By measure: its name, and its centre across ensembles."""
_BLOCK = 2**22  # numbers of a block of draws
_TEMPORARIES = 3  # arrays of all draws that sampling holds at once
_ROUNDING = 1e-12  # of a share that a whole number of draws makes


def orbit_batch(action: AnyAction, x: Numbers) -> np.ndarray:
    """All ρ(g)x_i as one batch (n·|G|, …); g varies fastest."""
    orbit = np.moveaxis(np.asarray(action.orbit(x)), 0, 1)
    return orbit.reshape(-1, *orbit.shape[2:])


@dataclass(frozen=True, eq=False)
class OrbitLaw:
    """mean (n, |G|, K) of infinitely many networks; fluctuations (draws, n, |G|, K) of single networks about it.

    offsets (draws, n, 1 or |G|, K): draws of the mean's own error; None if the mean is exact.
    """

    mean: Float[np.ndarray, "n order outputs"]
    fluctuations: Float[np.ndarray, "draws n order outputs"]
    offsets: Float[np.ndarray, "draws n points outputs"] | None = None

    @property
    def draws(self) -> int:
        """Number of drawn ensembles."""
        return len(self.fluctuations)

    def ensembles(self, members: float, draws: slice = slice(None)) -> Float[np.ndarray, "draws n order outputs"]:
        """Mean outputs of ensembles of `members` networks; for inf a single draw if the mean is exact."""
        off = 0.0 if self.offsets is None else self.offsets[draws]
        if members != math.inf:
            return self.mean + self.fluctuations[draws] / np.sqrt(members) + off
        return self.mean[None] if self.offsets is None else self.mean + off


def orbit_law(
    ensemble: AnyModel, action: ActionLike, x: Numbers, *, draws: int, key: Key, time: Times | None = None
) -> OrbitLaw:
    """`draws` networks on the orbits of x (n, …), jointly over inputs and group elements.

    ensemble: a fitted `InfiniteEnsemble`, or an object with `predict` and `sample` like it. key: a jax.random key or an
    integer. Needs the covariance of all n|G| points, unless `action` is the ensemble's own augmentation, whose
    irreps are drawn one by one; raises MemoryLimitError if it is too large. If outputs are fields, K counts all values
    of one output.
    """
    check_whole("draws", draws, 2)
    key = as_key("key", key)
    x = np.asarray(check_array("x", x), np.float64)
    chosen: Action = as_action("action", action, x.shape)
    if not (callable(chosen) and hasattr(chosen, "group") and hasattr(chosen, "orbit")):
        raise InvalidTypeError("action", chosen, "an action, e.g. equitangents.actions.image_rotations(4)")
    chosen(chosen.group.identity, x[:1])  # which raises for inputs that it cannot act on
    points, order = len(x) * chosen.group.order, chosen.group.order
    known = getattr(ensemble, "augmentation_", None)  # of whose orbits the ensemble knows a shorter way
    own = known is not None and hasattr(ensemble, "sample_orbits") and chosen == known
    grid = math.prod(getattr(ensemble, "positions_", ()))
    points, outputs = points * grid, getattr(ensemble, "n_outputs_", 1)
    needed = 8 * ((0 if own else 4 * points**2) + _TEMPORARIES * draws * points * outputs)
    check_memory(
        f"{draws} draws on {len(x)} orbits of {order} points",
        needed,
        getattr(ensemble, "memory_limit", None),
        "ask for fewer inputs or draws",
    )
    if own:
        mean, networks = ensemble.predict_orbit_means(x, time), ensemble.sample_orbits(x, draws, key=key, time=time)
        mean = mean.reshape(len(x), order, -1)
    else:
        batch = orbit_batch(chosen, x)
        mean = np.asarray(ensemble.predict(batch, time=time), np.float64).reshape(len(x), order, -1)
        networks = np.asarray(ensemble.sample(batch, draws, key=key, time=time), np.float64)
    return OrbitLaw(mean, networks.reshape(draws, *mean.shape) - mean)


@dataclass(frozen=True, eq=False)
class OrbitMeasures:
    """How to measure outputs f (draws, n, |G|, K) on orbits: the output action ρ_Y and the true targets.

    truth: targets (n, K), labels (n,) that index the outputs, or None. fields: the shape (*positions, outputs) of a
    row of K values for fields; output_action acts on such rows, and labels are (n, positions).
    """

    identity: int
    output_action: AnyAction | None = None
    truth: np.ndarray | None = None
    fields: tuple[int, ...] | None = None

    @property
    def labelled(self) -> bool:
        """Whether the truth consists of labels."""
        return self.truth is not None and (self.truth.ndim == 1 or self.truth.dtype.kind in "iu")

    def bounds(self, name: str, order: int) -> tuple[float, float]:
        """The range of possible values of a measure."""
        if name == "osp":
            return 1.0, float(order)
        return 0.0, 1.0 if name == "error" and self.labelled else math.inf

    def of(self, name: str, f: Float[np.ndarray, "draws n order outputs"]) -> Float[np.ndarray, "draws n"]:
        """A measure for every draw and input, by its name in `OrbitStatistics`, or "spread": the orbit std itself."""
        if name == "equivariance_error":
            return orbit_measures.equivariance_errors(self.output_action, f, self.identity)
        if name != "error":
            z = orbit_measures.carried_back(self.output_action, f)
            if name == "osp":
                outputs = None if self.fields is None else self.fields[-1]
                return orbit_measures.same_predictions(z, self.identity, outputs)
            return orbit_measures.relative_std(z) if name == "rsd" else orbit_measures.std_norm(z)
        assert self.truth is not None
        here = f[..., self.identity, :]
        if not self.labelled:
            return orbit_measures.squared_errors(here, self.truth)
        if self.fields is None:
            return orbit_measures.misclassified(here, self.truth)
        at_positions = here.reshape(*here.shape[:-1], -1, self.fields[-1])
        return orbit_measures.misclassified(at_positions, self.truth).mean(axis=-1)

    def of_ensembles(self, name: str, law: OrbitLaw, members: float) -> Float[np.ndarray, "draws n"]:
        """A measure of all ensembles of `members` networks drawn from the law, computed in blocks.

        For infinitely many networks a single row if the mean is exact.
        """
        if members == math.inf and law.offsets is None:
            return self.of(name, law.ensembles(members))
        step = max(1, _BLOCK // max(1, law.mean.size))
        blocks = (slice(begin, begin + step) for begin in range(0, law.draws, step))
        return np.concatenate([self.of(name, law.ensembles(members, block)) for block in blocks])


@dataclass(frozen=True, eq=False, repr=False)
class OrbitStatistic:
    """One measure of ensembles of M = members[j] networks, `values` (len(members), draws, n) for every draw and input.

    `expected` is the mean across ensembles, or the median (`centre`) for ratios, whose expectation need not exist if an
    output may be near zero. Each ensemble's values are first averaged over inputs, as `.mean` in
    `equitangents.metrics`. Confidence intervals of `expected` are clipped to `bounds`, the range of possible values.
    """

    name: str
    members: tuple[int, ...]
    values: Float[np.ndarray, "members draws n"]
    confidence: float
    centre: str
    bounds: tuple[float, float] = (0.0, math.inf)

    @cached_property
    def of_ensembles(self) -> Float[np.ndarray, "members draws"]:
        """Each drawn ensemble's mean value over inputs."""
        return self.values.mean(axis=2)

    @property
    def expected(self) -> Float[np.ndarray, " members"]:
        """The mean or median across ensembles."""
        if self.centre == "mean":
            return self.of_ensembles.mean(axis=1)
        return np.quantile(self.of_ensembles, 0.5, axis=1, method="inverted_cdf")

    @property
    def expected_interval(self) -> Float[np.ndarray, "members 2"]:
        """Confidence interval of `expected` for the finite number of draws."""
        values, centre = self.of_ensembles, self.expected
        if self.centre == "mean":
            error = scipy.stats.norm.ppf((1 + self.confidence) / 2) * scipy.stats.sem(values, axis=1)
            ends = np.stack([centre - error, centre + error], axis=1)
        else:
            ends = np.array([quantile_interval(v, 0.5, self.confidence) for v in values])
        return np.clip(ends, *self.bounds)

    @property
    def interval(self) -> Float[np.ndarray, "members 2"]:
        """Interval that contains a fraction `confidence` of the ensembles."""
        tail = (1 - self.confidence) / 2
        return sample_quantiles(self.of_ensembles, [tail, 1 - tail])

    def __repr__(self) -> str:
        lines = [f"{self.name}: mean over inputs, {self.centre} across ensembles [{self.confidence:.0%} of ensembles]"]
        for m, expected, (low, high) in zip(self.members, self.expected, self.interval, strict=True):
            lines.append(f"  M = {m:<7d} {expected:<12.4g} [{low:.4g}, {high:.4g}]")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class OrbitStatistics:
    """The measures of ensembles of M networks on the orbits of n inputs, as `OrbitStatistic`.

    rsd                 relative orbit std, ‖std_g f̄‖ / ‖mean_g f̄‖
    osp                 orbit same predictions, from 1 to |G|: argmax over outputs, or the sign of a single one
    equivariance_error  mean over g of ‖f̄(ρ_X(g)x) − ρ_Y(g)f̄(x)‖ / ‖f̄(x)‖
    error               ‖f̄(x) − y‖² summed over outputs, or the fraction of misclassified inputs; None without y
    """

    rsd: OrbitStatistic
    osp: OrbitStatistic
    equivariance_error: OrbitStatistic
    error: OrbitStatistic | None
    members: tuple[int, ...]
    order: int
    inputs: int
    draws: int
    time: float

    def __repr__(self) -> str:
        head = (
            f"OrbitStatistics: {self.inputs} inputs, {self.order} elements, time {self.time:g}, "
            f"{self.draws} ensembles drawn"
        )
        parts = [repr(s) for s in (self.rsd, self.osp, self.equivariance_error, self.error) if s is not None]
        return "\n".join([head, *parts])


def check_measures(
    action: Action | None,
    output_action: GroupMap | None,
    x: Numbers,
    truth: np.ndarray | None,
    confidence: float,
    fields: tuple[int, ...] | None = None,
) -> OrbitMeasures:
    """The requested measures; raises an error that names the invalid argument."""
    for name, value in (("action", action), ("output_action", output_action)):
        if value is not None and not (callable(value) and hasattr(value, "group")):
            raise InvalidTypeError(name, value, "an action of equitangents.actions")
        check_finite_group(name, value)
    if action is None:
        raise InvalidTypeError("action", None, "an action, e.g. equitangents.actions.image_rotations(4)")
    if output_action is not None and output_action.group != action.group:
        remedy = "the group of action"
        raise InvalidArgumentError("output_action", output_action.group, action.group, remedy, verb="is of")
    check_number("confidence", confidence, "a number between 0 and 1", lambda c: 0 < c < 1)
    if truth is not None:
        check_same_length("x", x, "y", truth)
    if fields is not None and output_action is not None:
        output_action = RowAction(output_action, fields)
    return OrbitMeasures(action.group.identity, output_action, truth, fields)


def _check_members(members: int | Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = [members] if isinstance(members, int | np.integer) else list(members)
    except TypeError:
        raise InvalidTypeError("members", members, "a list of ensemble sizes") from None
    if not sizes:
        raise InvalidArgumentError("members", members, "a list of ensemble sizes, e.g. [1, 10, 100]")
    for m in sizes:
        check_whole("members", m, 1)
    return tuple(int(m) for m in sizes)


def sample_quantiles(values: np.ndarray, q: float | Sequence[float] | np.ndarray) -> np.ndarray:
    """Empirical q-quantiles along the last axis, (…) or (…, len(q)): the k-th smallest value, k/n the smallest ≥ q.

    Rounding of q is allowed for: 1 − 0.95 is 0.050000000000000044, and the 5 % quantile of 100 values is the fifth.
    """
    shares = np.clip(np.asarray(q, np.float64) - _ROUNDING, 0, 1)
    found = np.quantile(values, shares, axis=-1, method="inverted_cdf")
    return np.moveaxis(found, 0, -1) if shares.ndim else found


def quantile_interval(values: np.ndarray, q: float, confidence: float) -> tuple[float, float]:
    """Order statistics between which the q-quantile of the values' distribution lies, at `confidence`.

    The number of draws below the true quantile is binomial, whatever the distribution. An end is infinite if no draw
    bounds the quantile at this confidence.
    """
    tail = (1 - confidence) / 2
    low, high = scipy.stats.binom.ppf([tail, 1 - tail], len(values), q).astype(int)
    ordered = np.concatenate([[-np.inf], np.sort(values), [np.inf]])
    return float(ordered[low]), float(ordered[high + 1])


class OrbitQuestions:
    """Mixin with `orbit_statistics`, for ensembles that define `_orbit_question`."""

    def orbit_statistics(
        self,
        action: ActionLike,
        x: Numbers,
        members: Sequence[int] = (1, 10, 100),
        time: Times | None = None,
        *,
        y: Numbers | None = None,
        output_action: GroupAction | None = None,
        draws: int = 1000,
        seed: Key = 0,
        confidence: float = 0.95,
    ) -> OrbitStatistics:
        """Expected statistics of ensembles of M networks on the orbits of x, from GP(μ_t, Σ_t/M).

        Args:
            action: ρ_X on inputs, of any group, or its name; it need not be the augmentation.
            x: inputs (n, …).
            members: ensemble sizes M.
            time: one training time; None: the constructor's.
            y: targets (n,) or (n, outputs), for the error at x; for classifiers labels (n,), and the error is the
                fraction of wrong classes.
            output_action: ρ_Y on outputs (n, outputs), of the same group; outputs are transformed by ρ_Y(g)⁻¹ before
                the relative orbit std and the predicted class are computed. None: outputs should be invariant. For
                fields it acts on (n, *positions, outputs), and there is a predicted class at each position.
            draws: number of ensembles drawn.
            seed: an integer or a jax.random key.
            confidence: for all intervals.

        Returns:
            relative orbit std, orbit same predictions (of the argmax, or of the sign of a single output), equivariance
            error and error, each with its distribution across ensembles. See `OrbitStatistics`.

        Source: arXiv 2403.03103, section 4: the mean of M networks has covariance Σ_t/M.
        """
        ensemble, x, truth = self._orbit_question(x, y)
        chosen: Action = as_action("action", action, np.shape(x))
        sizes = _check_members(members)
        own = getattr(ensemble, "time", math.inf) if time is None else time
        t = one_time(own, "orbit statistics are those of one time")
        measures = check_measures(chosen, output_action, x, truth, confidence, field_shape(ensemble))
        law = orbit_law(ensemble, chosen, x, draws=draws, key=seed, time=t)
        order, found = chosen.group.order, []
        for measure, (name, centre) in _NAMES.items():
            if measure != "error" or truth is not None:
                values = np.stack([measures.of_ensembles(measure, law, m) for m in sizes])
                bounds = measures.bounds(measure, order)
                found.append(OrbitStatistic(name, sizes, values, confidence, centre, bounds))
        rsd, osp, equivariance_error, *error = found
        statistics = (rsd, osp, equivariance_error, error[0] if error else None)
        return OrbitStatistics(*statistics, sizes, order, inputs=len(law.mean), draws=law.draws, time=t)

    @abstractmethod
    def _orbit_question(self, x: Numbers, y: Targets | None) -> tuple[AnyModel, np.ndarray, np.ndarray | None]:
        """(the ensemble whose outputs are measured, x, the true targets or None), checked."""
