"""One small network in three libraries, with batch statistics and dropout, and its training written out by hand."""

import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from equitangents.ensembles.training.recipe import NOISE

WIDTH, RATE = 5, 0.3


class Linen(flax.linen.Module):
    outputs: int = 2
    rate: float = RATE

    @flax.linen.compact
    def __call__(self, x, train: bool):
        x = flax.linen.Dense(WIDTH)(x.reshape(len(x), -1))
        x = flax.linen.relu(flax.linen.BatchNorm(use_running_average=not train, momentum=0.8)(x))
        return flax.linen.Dense(self.outputs)(flax.linen.Dropout(self.rate)(x, deterministic=not train))


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(3, WIDTH, rngs=rngs)
        self.norm = nnx.BatchNorm(WIDTH, momentum=0.8, rngs=rngs)
        self.dropout = nnx.Dropout(RATE, rngs=rngs)
        self.last = nnx.Linear(WIDTH, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.norm(self.first(x)))))


class Equinox(eqx.Module):
    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    dropout: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __init__(self, key):
        first, last = jax.random.split(key)
        self.first = eqx.nn.Linear(3, WIDTH, key=first)
        self.norm = eqx.nn.BatchNorm(WIDTH, axis_name="examples", momentum=0.8, mode="batch")
        self.dropout = eqx.nn.Dropout(RATE)
        self.last = eqx.nn.Linear(WIDTH, 2, key=last)

    def __call__(self, x, state, *, key=None):
        x, state = self.norm(self.first(x), state)
        return self.last(self.dropout(jax.nn.relu(x), key=key)), state


def make_equinox(key):
    return eqx.nn.make_with_state(Equinox)(key)


def batches(seed, member, samples, size, epochs):
    """(rows, key) of every step of a member's training."""
    _, order_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), member))
    for epoch in range(epochs):
        epoch_key = jax.random.fold_in(order_key, epoch)
        order = np.asarray(jax.random.permutation(jax.random.split(epoch_key)[0], samples))
        noise = jax.random.fold_in(epoch_key, NOISE)
        for step, begin in enumerate(range(0, samples, size)):
            yield order[begin : begin + size], jax.random.fold_in(noise, step)


def init_key(seed, member):
    return jax.random.split(jax.random.fold_in(jax.random.key(seed), member))[0]


def loss(outputs, y):
    return 0.5 * ((outputs - y) ** 2).sum(axis=1).mean()


def linen_alone(x, y, x_new, key, steps, rate):
    """(predictions, running mean) of the linen network trained by plain optax."""
    module, optimiser = Linen(), optax.sgd(rate)
    variables = module.init(key, x[:1], train=False)
    params, stats = variables["params"], variables["batch_stats"]
    state = optimiser.init(params)

    @jax.jit
    def step(params, stats, state, x, y, key):
        def objective(params):
            out, changed = module.apply(
                {"params": params, "batch_stats": stats}, x, train=True, rngs={"dropout": key}, mutable=["batch_stats"]
            )
            return loss(out, y), changed["batch_stats"]

        gradient, stats = jax.grad(objective, has_aux=True)(params)
        updates, state = optimiser.update(gradient, state)
        return optax.apply_updates(params, updates), stats, state

    for rows, step_key in steps:
        params, stats, state = step(params, stats, state, x[rows], y[rows], step_key)
    outputs = module.apply({"params": params, "batch_stats": stats}, x_new, train=False)
    return outputs, stats["BatchNorm_0"]["mean"]


def nnx_alone(x, y, x_new, key, steps, rate):
    """The same in nnx, by its own optimiser."""
    model = Nnx(rngs=nnx.Rngs(key))
    optimiser = nnx.Optimizer(model, optax.sgd(rate), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimiser, x, y, key):
        nnx.reseed(model, default=key)
        optimiser.update(model, nnx.grad(lambda model: loss(model(x), y))(model))

    model.train()
    for rows, step_key in steps:
        step(model, optimiser, x[rows], y[rows], step_key)
    model.eval()
    return model(x_new), model.norm.mean[...]


def equinox_alone(x, y, x_new, key, steps, rate):
    """The same in Equinox."""
    model, state = make_equinox(key)
    optimiser = optax.sgd(rate)
    moments = optimiser.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model, state, moments, x, y, key):
        def objective(model):
            keys = jax.random.split(key, len(x))
            call = lambda x, state, key: model(x, state, key=key)
            out, after = jax.vmap(call, (0, None, 0), (0, None), axis_name="examples")(x, state, keys)
            return loss(out, y), after

        gradient, state = eqx.filter_grad(objective, has_aux=True)(model)
        updates, moments = optimiser.update(gradient, moments)
        return eqx.apply_updates(model, updates), state, moments

    for rows, step_key in steps:
        model, state, moments = step(model, state, moments, x[rows], y[rows], step_key)
    call = jax.vmap(eqx.nn.inference_mode(model), (0, None), (0, None), axis_name="examples")
    return call(jnp.asarray(x_new), state)[0], state.get(model.norm.batch_state_index)[0]


NETWORKS = {"linen": (Linen(), linen_alone), "nnx": (Nnx, nnx_alone), "equinox": (make_equinox, equinox_alone)}
MEANS = {
    "linen": lambda params: params["batch_stats"]["BatchNorm_0"]["mean"],
    "nnx": lambda params: params["state"]["norm.mean"],
    "equinox": lambda params: next(a for a in params["state"].values() if a.ndim == 2),
}


def _equinox_outputs(member, x):
    module, state = member
    return jax.vmap(module, (0, None), (0, None), axis_name="examples")(jnp.asarray(x), state)[0]


# what a member that was given back says, in inference
OUTPUTS = {
    "linen": lambda member, x: member[0].apply(member[1], x, train=False),
    "nnx": lambda member, x: member(x),
    "equinox": _equinox_outputs,
}
