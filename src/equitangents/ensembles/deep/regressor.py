"""Regression by an ensemble of finite networks, trained together from independent initialisations.

f̄(x) = (1/M) Σ_i f(x; θ_i), member i a function of (seed, i) alone.
"""

from __future__ import annotations

from typing import Any

from equitangents.ensembles.deep.base import DeepEnsembleBase
from equitangents.ensembles.deep.predictions import Regression
from equitangents.ensembles.scores import FieldRegressorMixin


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
        training: `Training(optimizer, learning_rate, epochs, batch_size, momentum, loss)`, how every member is trained;
            None: `Training()`.
        variation: what sets members apart besides initial parameters and order: None, nothing; `Bootstrap()`,
            bagging; `NTKPosterior(noise)` or `NNGPPosterior(noise)`, members that sample a posterior.
        zero_output: train and predict f(x; θ) − f(x; θ_0), which is zero at initialisation.
        seed: whole number.
        input_shape: (*positions, channels) if X may come flattened, (N, prod(input_shape)).
        dtype: "float32" or "float64", whatever JAX's flag says.
        members_per_chunk: members that share a call, always as many (surplus ones are dropped); None: as many as stay
            in a core's cache, or fit on the device.
        memory_limit: bytes that training may take; None: half of the memory there is, or all of the device's.
        checkpoints: `Checkpoints(folder, every)`, where training is saved on the way; None: nowhere.
        callback: `callback(epoch, state)` after every epoch, with `state` a `TrainingState`; a resumed run does not
            repeat the calls of epochs before its checkpoint.
        progress: show a progress bar; otherwise long runs log to "equitangents".
        executor: who trains: None, this process; a number of processes of this machine; an executor of
            `concurrent.futures`; a `dask.distributed.Client`, or the address of a Dask scheduler. Chunks of members are
            handed out, those of a worker that dies are trained again, and the result is that of one machine, bit for
            bit. It is not saved with the ensemble.
        standardise: train on (x − m)/s, with the training set's mean m and deviation s of each channel, and predict so;
            as in `InfiniteEnsemble`.
        **entries: the entries of `training` and `checkpoints` by themselves, `DeepEnsemble(net, epochs=20)`: optimizer,
            learning_rate, epochs, batch_size, momentum, loss, checkpoint_dir (`folder`), checkpoint_every (`every`).
            They are also attributes and parameters of `set_params`.

    Attributes:
        params_: parameters stacked over members; `jax.tree.map(lambda a: a[i], params_)` are those of member i.
        params0_: those at initialisation if zero_output, what a `variation` subtracts by, or None.
        history_: (epochs, members), each member's mean loss over an epoch's samples, before the step that uses them.
        recorded_, recorded_epochs_: what `fit(record=…)` kept.
        n_features_in_, sample_shape_, n_outputs_, positions_: what X and y were.
        standardisation_: `shift`, `scale` and `how` they were taken, where `standardise`; None else.

    On one machine a resumed run is bit for bit the uninterrupted one, and the members of a small ensemble are bit for
    bit the first of a large one (on a GPU: with the same members_per_chunk). Another members_per_chunk leaves initial
    parameters and the order of data as they are; what is computed from them may differ by rounding. Results are NumPy
    arrays of type `dtype`.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(64), et.nn.Relu(), et.nn.Dense(1))
    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), np.array([1.0, 2.0, 3.0])
    >>> training = et.ensembles.Training(optimizer="gd", learning_rate=1.0, epochs=200)
    >>> model = et.DeepEnsemble(net, members=4, training=training).fit(x, y)
    >>> mean, std = model.predict(x, return_std=True)
    >>> mean.shape, std.shape, model.predict_members(x).shape
    ((3,), (3,), (4, 3, 1))
    """

    _default_loss = "mse"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
