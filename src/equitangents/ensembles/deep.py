"""Ensembles of finite networks trained jointly by JAX: their parameters. Predictions are in `ensembles.finite`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax
import numpy as np
import optax

from equitangents._types import AnyModel, FileName, Network, Targets, Tree
from equitangents.actions.action import GroupAction
from equitangents.actions.kinds import ActionLike
from equitangents.ensembles.estimator import FieldClassifierMixin, FieldRegressorMixin, check_network
from equitangents.ensembles.fields import OutputPositions, output_positions
from equitangents.ensembles.finite import OPTIMIZERS, Classification, FiniteEnsemble, Regression
from equitangents.ensembles.networks import ForeignNetwork, as_network
from equitangents.ensembles.training.network_job import NetworkJob, ensemble_outputs, job_of
from equitangents.ensembles.training.run import Augmented
from equitangents.ensembles.training.variations import Variation
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.nn import Sequential
from equitangents.progress import ProgressCallback


@dataclass(eq=False, repr=False)
class DeepEnsembleBase(FiniteEnsemble):
    """Finite networks trained jointly by JAX; parameters as in DeepEnsemble."""

    net: Network
    members: int = 10
    augmentation: ActionLike | None = None
    label_action: GroupAction | None = None
    augmentation_mode: str = "full"
    _: KW_ONLY
    optimizer: str | optax.GradientTransformation = "sgd"
    learning_rate: float = 0.1
    epochs: int = 100
    batch_size: int | None = None
    momentum: float = 0.9
    loss: str | None = None
    variation: Variation | None = None
    seed: int = 0
    input_shape: tuple[int, ...] | None = None
    dtype: str = "float32"
    members_per_chunk: int | None = None
    memory_limit: int | None = None
    checkpoint_dir: FileName | None = None
    checkpoint_every: int = 10
    progress: bool | ProgressCallback = False
    standardise: bool = False

    @property
    def _network(self) -> Any:
        """The network in the form that is trained."""
        return self.net if isinstance(self.net, Sequential) else as_network(self.net)

    def _check_settings(self) -> None:
        _ = self._network
        super()._check_settings()
        optimizer = self.optimizer
        if not (isinstance(optimizer, optax.GradientTransformation) or optimizer in OPTIMIZERS):
            kind = InvalidArgumentError if isinstance(optimizer, str) else InvalidTypeError
            raise kind("optimizer", optimizer, [*OPTIMIZERS, "an optax.GradientTransformation"])

    def _check_net(self, x: np.ndarray) -> None:
        check_network(self._network, x)

    def _job(self, data: Augmented, first: int, members: int) -> NetworkJob:
        return job_of(self, data, first, members)

    def _member_outputs(self, x: np.ndarray) -> Iterator[np.ndarray]:
        return ensemble_outputs(self, x)

    def _member(self, i: int) -> AnyModel:
        net, params = self._network, jax.tree.map(lambda a: a[i], self.params_)
        return net.member(params) if isinstance(net, ForeignNetwork) else (net, params)

    def _ends_on(self, x: np.ndarray, y: Targets) -> OutputPositions | None:
        if isinstance(self.net, Sequential) or np.ndim(y) < 3:
            positions = output_positions(self._network, x, y)
            return None if positions is None or positions.equivariant else positions
        return super()._ends_on(x, y)

    def _variables(self) -> Tree:
        return jax.eval_shape(lambda: self._network.init(jax.random.key(0), self.sample_shape_, self.dtype))


class DeepEnsemble(FieldRegressorMixin, Regression, DeepEnsembleBase):
    """Finite networks trained jointly, following scikit-learn's conventions.

    Args:
        net: a network with `init(key, input_shape, dtype)` and `apply(params, x)`, e.g. `equitangents.nn.Sequential`; a
            pair of such functions; a Flax linen module; or a function that makes a Flax nnx module (rngs -> module) or
            an Equinox module (key -> module). For batch statistics and dropout see the guide "Your own architectures".
        members: number of members. Member i is a function only of (seed, i): its initial parameters are
            `net.init(init_key, …)` and its data come in the order that order_key draws, with `init_key, order_key =
            jax.random.split(jax.random.fold_in(jax.random.key(seed), i))`.
        augmentation: the `Action` ρ_X of data augmentation, the name of a group ("C4": `actions.as_action`), some of an
            action's elements (`equitangents.actions.subset`), or None.
        label_action: the `Action` ρ_Y of the same group on targets (N, outputs); None: labels are invariant. For fields
            it acts on (N, *positions, outputs); None: values are invariant and move with their positions.
        augmentation_mode: "full", every epoch visits all N|G| pairs (ρ_X(g) x_i, ρ_Y(g) y_i); "random", each sample
            once, transformed by a new random element for every member, epoch and sample.
        optimizer: "gd", full-batch gradient descent, whose k-th epoch is gradient-flow time k at this learning rate;
            "sgd", "momentum", "adam"; or an `optax.GradientTransformation`, which ignores learning_rate and momentum.
        learning_rate: η of the loss L = (1/2N) Σ_i |f(x_i) − y_i|² ("mse"), N the samples of a batch; not divided by
            the number of outputs.
        epochs: passes over the data; with "gd" one step each. 0 leaves the members at initialisation.
        batch_size: samples per step; None: all for "gd", else 32. The last batch of an epoch may be smaller.
        momentum: for optimizer "momentum".
        loss: "mse", or "cross_entropy" for targets that are probabilities and outputs that are logits; None: "mse" for
            regression, "cross_entropy" for classification.
        variation: how members differ in addition to initial parameters and data order: None, not at all;
            `ZeroOutput()`, training and predicting f(x; θ) − f(x; θ_0), zero at initialisation; `Bootstrap()`, bagging;
            `NTKPosterior(noise)` or `NNGPPosterior(noise)`, members that sample a posterior.
        seed: an integer.
        input_shape: (*positions, channels) if x may come flattened, (N, prod(input_shape)).
        dtype: "float32" or "float64", whatever JAX's flag is.
        members_per_chunk: members per call, always equally many (surplus ones are dropped); None: as many as stay
            in a core's cache, or fit on the device.
        memory_limit: bytes that training may take; None: half of the available memory, or all of the device's.
        checkpoint_dir: the folder for checkpoints, from which `fit(resume=True)` continues; None: no checkpoints.
        checkpoint_every: epochs between checkpoints; the last epoch always has one.
        progress: True shows long runs on stderr; a function is called as progress(epochs done, all epochs, seconds
            left), counting parts if members are trained in parts; False: they log to "equitangents".
        standardise: train and predict on the standardised inputs (x − m)/s, with the training set's mean m and standard
            deviation s of each channel, as in `InfiniteEnsemble`.

    Attributes:
        params_: parameters stacked over members; `jax.tree.map(lambda a: a[i], params_)` are those of member i.
        params0_: parameters of a `variation`'s baseline, e.g. the initial ones for `ZeroOutput`, or None.
        history_: (epochs, members), each member's mean loss over an epoch's samples, before the step that uses them.
        recorded_, recorded_epochs_: outputs and epochs recorded by `fit(record=…)`.
        n_features_in_, sample_shape_, n_outputs_, positions_: shapes of x and y in `fit`.
        standardisation_: `shift`, `scale`, and `how` they were computed, with `standardise`; else None.

    On one machine a resumed run equals the uninterrupted one bit for bit, and the members of a small ensemble equal the
    first members of a large one (on a GPU: with the same members_per_chunk). Another members_per_chunk changes neither
    initial parameters nor the order of data; computed values may differ by rounding. Results are NumPy arrays of
    type `dtype`.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(64), et.nn.Relu(), et.nn.Dense(1))
    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array([1.0, 2.0, 3.0])
    >>> model = et.DeepEnsemble(net, members=4, optimizer="gd", learning_rate=1.0, epochs=200).fit(x, y)
    >>> mean, std = model.predict(x, return_std=True)
    >>> mean.shape, std.shape, model.predict_members(x).shape
    ((3,), (3,), (4, 3, 1))
    """

    _default_loss = "mse"


class DeepEnsembleClassifier(FieldClassifierMixin, Classification, DeepEnsembleBase):
    """`DeepEnsemble` on labels, with the same parameters; `loss` None is "cross_entropy".

    The network's last layer has one output per class. `label_action` acts on the targets (N, K), columns in the order
    of `classes_`: with "cross_entropy" it must permute classes. For networks that end on positions, labels are
    (N, *positions), and losses are sums over positions.

    Attributes:
        classes_: the K distinct labels, sorted, of any type.
        params_, history_, recorded_, …: as there; recorded are outputs, not probabilities.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(64), et.nn.Relu(), et.nn.Dense(2))
    >>> x = np.array([[1.0, 0.0], [0.9, 0.2], [-1.0, 0.0], [-0.8, 0.1]])
    >>> model = et.DeepEnsembleClassifier(net, members=4, learning_rate=1.0).fit(x, ["cat", "cat", "dog", "dog"])
    >>> model.predict([[1.0, 0.1]]).tolist()
    ['cat']
    """

    _default_loss = "cross_entropy"
