"""Inference: how a model comes from an architecture and data.

NTK    all layers of infinitely wide networks trained for a time (inf: kernel regression)
NNGP   the last layer alone: at time inf the Bayesian posterior's mean
NN     finite networks by stochastic gradient descent, η = c · 2/λ_max, c = 1
NN+    c = 8 and an L² penalty, λ = 1e-7

λ_max is the largest eigenvalue of the finite tangent kernel J Jᵀ/N between all outputs at the member's initialisation.
It does not carry the 1/K of the loss (1/2KN) Σ |f − y|²: that loss has the curvature λ_max/K, so momentum m is stable
on a quadratic for c < (1 + m) K, which c = 8 is for 10 classes and m = 0.9 (19), but would not be with the 1/K (1.9).

Source: Xiao & Pennington 2022, arXiv 2207.04612; it does not say whether λ_max carries 1/K.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, final

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from equitangents.ensembles import InfiniteEnsemble
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.extending import FiniteNetwork, Params, check_whole
from equitangents.kernels import KernelFunction
from equitangents_studies.systems.conventions import check_choice
from equitangents_studies.systems.coupling import coupled
from equitangents_studies.systems.descent import Labelled, Steps, Trained, member_outputs, prepare, train
from equitangents_studies.systems.tangent_spectrum import largest_eigenvalue
from equitangents_studies.systems.transformations import Transformation

INFERENCES = ("NTK", "NNGP", "NN", "NN+")


class Model(Protocol):
    """What inference makes: outputs for inputs."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The mean over members, or over infinitely many networks: (N, K)."""

    def predict_members(self, x: np.ndarray) -> np.ndarray:
        """Every member's outputs, (members, N, K)."""


@final
@dataclass(frozen=True)
class KernelInference:
    """Infinitely wide networks in closed form, as `InfiniteEnsemble`: `kernel`, `time`, `ridge`.

    Kernels are computed in the precision of the inputs.
    """

    name: str = "NTK"
    kernel: Literal["ntk", "nngp"] = "ntk"
    time: float = math.inf
    ridge: float = 0.0

    finite = False

    def fit(
        self, net: KernelFunction, x: np.ndarray, y: np.ndarray, index: np.ndarray | None, *, seed: int
    ) -> KernelModel:
        """The model of inputs x (N, …) and targets y (N, K); nothing here is random."""
        if not callable(getattr(net, "kernel", None)):
            raise NetworkError(f"the network {net!r} has no kernel of infinite width; {self.name} needs one")
        return KernelModel(InfiniteEnsemble(net, kernel=self.kernel, time=self.time, ridge=self.ridge).fit(x, y))


@final
@dataclass(frozen=True, eq=False)
class KernelModel:
    """A fitted ensemble of infinite width."""

    ensemble: InfiniteEnsemble

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The mean over members or over the process."""
        return self.ensemble.predict(x)

    def predict_members(self, x: np.ndarray) -> np.ndarray:
        """There are infinitely many."""
        raise InvalidArgumentError("a model of infinite width has no members to list; predict gives their mean")


@final
@dataclass(frozen=True)
class GradientInference:
    """Finite networks by stochastic gradient descent with momentum; the module says what η and λ are.

    Args:
        name: what reports call it.
        c: η in units of 2/λ_max.
        weight_decay: λ of the penalty (λ/p) Σ |θ|^p.
        power: p.
        momentum: m.
        batch_size: samples a step.
        epochs: at most so many.
        members: independent networks, member i a function of (seed, i).
        learning_rate: η itself; None: c · 2/λ_max, measured for every member at its initialisation.
        eigenvalue_inputs: the training inputs that λ_max is measured on, the first so many; None: all.
        stop_at: training accuracy at which a member stops; None: it never does.
        dtype: "float32" or "float64".
    """

    name: str = "NN"
    c: float = 1.0
    weight_decay: float = 0.0
    power: float = 2.0
    momentum: float = 0.9
    batch_size: int = 40
    epochs: int = 200
    members: int = 1
    learning_rate: float | None = None
    eigenvalue_inputs: int | None = 256
    stop_at: float | None = 1.0
    dtype: str = "float32"

    finite = True

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "members"):
            check_whole(name, getattr(self, name), 1)
        if self.eigenvalue_inputs is not None:
            check_whole("eigenvalue_inputs", self.eigenvalue_inputs, 1)
        _check(self.c > 0 and math.isfinite(self.c), "c", self.c, "a finite number above 0")
        _check(self.weight_decay >= 0, "weight_decay", self.weight_decay, "a number, at least 0")
        _check(self.power >= 1, "power", self.power, "a number, at least 1")
        _check(0 <= self.momentum < 1, "momentum", self.momentum, "a number from 0 to below 1")
        _check(self.learning_rate is None or self.learning_rate > 0, "learning_rate", self.learning_rate, "above 0")
        _check(self.stop_at is None or 0 < self.stop_at <= 1, "stop_at", self.stop_at, "None, or above 0 up to 1")
        check_choice("dtype", self.dtype, ("float32", "float64"))

    def fit(
        self,
        net: FiniteNetwork,
        x: np.ndarray,
        y: np.ndarray,
        index: np.ndarray | None,
        *,
        seed: int,
        coupling: Transformation | None = None,
        watch: Labelled | None = None,
    ) -> NetworkModel:
        """Members trained on x (N, …), targets y (N, K), classes `index` (N,).

        `coupling`: start from the coupled initialisation of this transformation. `watch`: inputs and classes whose
        accuracy is noted after every epoch.
        """
        steps = Steps(
            self.momentum, self.batch_size, self.epochs, self.weight_decay, self.power, self.stop_at, self.dtype
        )
        recipe, plan = prepare(net, x, y, steps)
        self._warn_if_unstable(y.shape[1])
        trained = train(
            recipe,
            plan,
            x,
            y,
            index,
            steps,
            members=self.members,
            seed=seed,
            prepared=(lambda params: params) if coupling is None else lambda params: coupled(net, params, coupling),
            rates=partial(self._rates, net, x[: self.eigenvalue_inputs]),
            watch=watch,
        )
        if not np.isfinite(trained.losses).all():
            bad = int((~np.isfinite(trained.losses)).sum())
            warnings.warn(
                f"training diverged for {bad} of {self.members} members; lower c, which is {self.c}",
                ConvergenceWarning,
                stacklevel=3,
            )
        return NetworkModel(net, trained, self.dtype)

    def learning_rates(self, net: FiniteNetwork, params: Params, x: np.ndarray) -> np.ndarray:
        """η of members, given their stacked initial parameters and the training inputs."""
        return self._rates(net, x[: self.eigenvalue_inputs], params, range(len(jax.tree.leaves(params)[0])))

    def _rates(self, net: FiniteNetwork, x: np.ndarray, params: Params, ids: Sequence[int]) -> np.ndarray:
        if self.learning_rate is not None:
            return np.full(len(ids), self.learning_rate)
        of = lambda i: largest_eigenvalue(net, jax.tree.map(lambda a: a[i], params), x).value
        return np.array([self.c * 2 / of(i) for i in range(len(ids))])

    def _warn_if_unstable(self, outputs: int) -> None:
        bound = (1 + self.momentum) * outputs
        if self.learning_rate is None and self.c >= bound:
            warnings.warn(
                f"c is {self.c}; with momentum {self.momentum} and {outputs} outputs full-batch descent on a quadratic "
                f"is stable below (1 + momentum) · outputs = {bound:g}: training may diverge",
                ConvergenceWarning,
                stacklevel=4,
            )


@final
@dataclass(frozen=True, eq=False)
class NetworkModel:
    """Members of finite width, trained."""

    net: Any
    trained: Trained
    dtype: str

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The mean over members."""
        return self.predict_members(x).mean(axis=0, dtype=np.float64)

    def predict_members(self, x: np.ndarray) -> np.ndarray:
        """Outputs of all members one by one."""
        return member_outputs(self.net, self.trained.params, np.asarray(x), self.dtype)


Inference = KernelInference | GradientInference


def inference(name: str, **settings: Any) -> Inference:
    """One of "NTK", "NNGP", "NN" and "NN+", with `settings` of KernelInference or GradientInference.

    >>> inference("NN+", members=8).c, inference("NN+").weight_decay, inference("NNGP").kernel
    (8.0, 1e-07, 'nngp')
    """
    known: dict[str, Inference] = {
        "NTK": KernelInference(),
        "NNGP": KernelInference("NNGP", "nngp"),
        "NN": GradientInference(),
        "NN+": GradientInference("NN+", c=8.0, weight_decay=1e-7),
    }
    if not isinstance(name, str):
        raise InvalidTypeError(f"name is {name!r}; expected one of {', '.join(known)}")
    if name not in known:
        raise InvalidArgumentError(f"name is {name!r}; expected one of {', '.join(known)}")
    unknown = [key for key in settings if key not in vars(known[name]) or key == "name"]
    if unknown:
        takes = ", ".join(key for key in vars(known[name]) if key != "name")
        raise InvalidArgumentError(f"{name} has no setting {unknown[0]!r}; it takes {takes}")
    return replace(known[name], **settings)


def _check(holds: bool, name: str, value: Any, wanted: str) -> None:
    if not holds:
        raise InvalidArgumentError(f"{name} is {value!r}; expected {wanted}")
