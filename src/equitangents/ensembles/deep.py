"""Ensembles of finite networks trained together by JAX: their parameters. What they predict: `ensembles.finite`."""

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
    """Finite networks trained together by JAX; DeepEnsemble says what the parameters are."""

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
        """The network as it is trained."""
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
    """Finite networks trained together, following scikit-learn's conventions.

    Args:
        net: a network with `init(key, input_shape, dtype)` and `apply(params, x)`, e.g. `equitangents.nn.Sequential`; a
            pair of such functions; a Flax linen module; or a function that makes a Flax nnx module (rngs -> module) or
            an Equinox module (key -> module). Batch statistics and dropout: the guide on architectures of your own.
        members: how many are trained. Member i is a function of (seed, i) alone: its initial parameters are
            `net.init(init_key, …)` and its data come in the order that order_key draws, with `init_key, order_key =
            jax.random.split(jax.random.fold_in(jax.random.key(seed), i))`.
        augmentation: the `Action` ρ_X of data augmentation, the name of a group ("C4": `actions.as_action`), some of an
            action's elements (`equitangents.actions.subset`), or None.
        label_action: the `Action` ρ_Y of the same group on targets (N, outputs); None: labels are invariant. Of fields
            it acts on (N, *positions, outputs); None: values are invariant, and go with their positions.
        augmentation_mode: "full", every epoch visits all N|G| pairs (ρ_X(g) x_i, ρ_Y(g) y_i); "random", each sample
            once, moved by an element drawn anew for every member, epoch and sample.
        optimizer: "gd", full-batch gradient descent, whose k-th epoch is gradient-flow time k at this learning rate;
            "sgd", "momentum", "adam"; or an `optax.GradientTransformation`, which takes neither learning_rate nor
            momentum from here.
        learning_rate: η of the loss L = (1/2N) Σ_i |f(x_i) − y_i|² ("mse"), N the samples of a batch; not divided by
            the number of outputs.
        epochs: passes over the data; with "gd" one step each. 0 leaves the members at initialisation.
        batch_size: samples a step; None: all for "gd", else 32. The last batch of an epoch may be smaller.
        momentum: of "momentum".
        loss: "mse", or "cross_entropy" for targets that are probabilities and outputs that are logits; None: "mse" for
            regression, "cross_entropy" for classification.
        variation: what sets members apart besides initial parameters and order: None, nothing;
            `ZeroOutput()`, training and predicting f(x; θ) − f(x; θ_0), zero at initialisation; `Bootstrap()`, bagging;
            `NTKPosterior(noise)` or `NNGPPosterior(noise)`, members that sample a posterior.
        seed: whole number.
        input_shape: (*positions, channels) if x may come flattened, (N, prod(input_shape)).
        dtype: "float32" or "float64", whatever JAX's flag says.
        members_per_chunk: members that share a call, always as many (surplus ones are dropped); None: as many as stay
            in a core's cache, or fit on the device.
        memory_limit: bytes that training may take; None: half of the memory there is, or all of the device's.
        checkpoint_dir: the folder where training is saved on the way, to go on from there with `fit(resume=True)`;
            None: nowhere.
        checkpoint_every: epochs between checkpoints; the last epoch always has one.
        progress: True shows long runs on stderr; a function is called as progress(epochs done, all epochs, seconds
            left), or of parts of the members where they are trained in parts; False: they log to "equitangents".
        standardise: train on (x − m)/s, with the training set's mean m and deviation s of each channel, and predict so;
            as in `InfiniteEnsemble`.

    Attributes:
        params_: parameters stacked over members; `jax.tree.map(lambda a: a[i], params_)` are those of member i.
        params0_: what a `variation` subtracts by, of `ZeroOutput` the initial parameters, or None.
        history_: (epochs, members), each member's mean loss over an epoch's samples, before the step that uses them.
        recorded_, recorded_epochs_: what `fit(record=…)` kept.
        n_features_in_, sample_shape_, n_outputs_, positions_: what x and y were.
        standardisation_: `shift`, `scale` and `how` they were taken, where `standardise`; None else.

    On one machine a resumed run is bit for bit the uninterrupted one, and the members of a small ensemble are bit for
    bit the first of a large one (on a GPU: with the same members_per_chunk). Another members_per_chunk leaves initial
    parameters and the order of data as they are; what is computed from them may differ by rounding. Results are NumPy
    arrays of type `dtype`.

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
    """`DeepEnsemble` on labels; parameters as there; `loss` None is "cross_entropy".

    The network's last layer makes one output a class. `label_action` acts on the targets (N, K), columns in the order
    of `classes_`: with "cross_entropy" it must permute classes. Of networks that end on positions labels are
    (N, *positions), and losses sums over positions.

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
