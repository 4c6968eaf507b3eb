"""Mean-field Gaussian variational inference: a posterior q over a network's parameters ω in their place.

    q(ω) = Π_i N(ω_i; μ_i, σ_i²),   prior p(ω) = Π_i N(ω_i; 0, 1),   KL(q ‖ p) = Σ_i ½(μ_i² + σ_i² − 1) − log σ_i
    −ELBO = E_q[−log p(y | f(x; ω))] + KL(q ‖ p);   each step of training draws one ω = μ + σε for its whole batch.

In NTK parametrisation the prior is the law of networks at initialisation. Sources: Graves 2011, Practical variational
inference for neural networks; Blundell et al. 2015, arXiv 1505.05424; of augmented data arXiv 2606.26273.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from equitangents.ensembles import Variables, Variation
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.extending import ArrayLike, DType, FiniteNetwork, Params, standard_normal


class Posterior(TypedDict):
    """μ and log σ, each a tree like the network's parameters."""

    mean: Params
    log_scale: Params


@dataclass(frozen=True)
class MeanField:
    """A network whose parameters are those of q. An ensemble of them needs `variation=MeanFieldPosterior(noise)` too.

    μ starts as `net` does, and σ as `scale`. In training each step draws weights of its own. In prediction a member is
    one draw from its q, the same at each call: it keeps the ε of its own that it starts with.

    >>> import numpy as np, equitangents as et
    >>> from equitangents_studies.baselines.variational import MeanField, MeanFieldPosterior
    >>> net = MeanField(et.nn.Sequential(et.nn.Dense(8), et.nn.Relu(), et.nn.Dense(1)))
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> model = et.DeepEnsemble(net, members=3, epochs=5, variation=MeanFieldPosterior(noise=0.1))
    >>> model.fit(x, x[:, 0]).predict_members(x).shape
    (3, 3, 1)
    """

    net: FiniteNetwork
    scale: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf:
            raise InvalidArgumentError("scale", self.scale, "a finite number > 0")

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: DType = "float32") -> Variables:
        """q around what `net` draws, and the member's own ε, which is not trained."""
        mean_key, noise_key = jax.random.split(key)
        mean = self.net.init(mean_key, input_shape, dtype)
        log_scale = jax.tree.map(lambda m: jnp.full_like(m, np.log(self.scale)), mean)
        return Variables({"mean": mean, "log_scale": log_scale}, standard_noise(noise_key, mean))

    def apply(self, params: Params, x: ArrayLike, train: bool = False, key: jax.Array | None = None) -> Params:
        """Outputs (N, outputs) of the member's draw, given (q, ε); in training (those of a new draw, ε as it was)."""
        q, noise = params
        if not train or key is None:
            return self.net.apply(drawn(q, noise), x)
        return self.net.apply(drawn(q, standard_noise(key, noise)), x), noise


@dataclass(frozen=True)
class MeanFieldPosterior(Variation):
    """Members that approximate the posterior of a network's parameters: KL(q ‖ p) is added to the loss of `MeanField`.

    With the loss "mse" L = (1/2N) Σ_i |f(x_i; ω) − y_i|² and noise of variance σ² on the targets, −ELBO is N/σ² times
    E_q[L] + (σ²/N) KL. With "cross_entropy" it is N times E_q[L] + KL/N: `noise` is 1 there, and less is a colder
    posterior. N counts every augmented copy, as those of other posteriors do.
    """

    noise: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.noise < np.inf:
            raise InvalidArgumentError("noise", self.noise, "a finite number > 0")

    def check(self, net: FiniteNetwork, loss: str) -> None:
        """The network must be a `MeanField`."""
        if not isinstance(getattr(getattr(net, "initialise", None), "__self__", None), MeanField):
            raise NetworkError("net", net, "a MeanField(net)")

    def transformation(self, base: optax.GradientTransformation, rows: int) -> optax.GradientTransformation:
        """The gradient of (noise/N) KL, then `base`."""
        return optax.chain(towards_prior(self.noise / rows), base)


def divergence(q: Posterior) -> jax.Array:
    """KL(q ‖ p) = Σ ½(μ² + σ² − 1) − log σ."""
    each = jax.tree.map(lambda m, s: (0.5 * (m**2 + jnp.exp(2 * s) - 1) - s).sum(), q["mean"], q["log_scale"])
    return jax.tree.reduce(jnp.add, each)


def towards_prior(rate: float) -> optax.GradientTransformation:
    """Adds rate · ∇KL to gradients: rate · μ to those of μ, rate · (σ² − 1) to those of log σ."""

    def update(gradient: Posterior, state: Params, q: Posterior | None = None) -> tuple[Posterior, Params]:
        assert q is not None
        more = jax.grad(divergence)(q)
        return jax.tree.map(lambda g, m: g + rate * m, gradient, more), state

    return optax.GradientTransformation(lambda q: optax.EmptyState(), update)


def standard_noise(key: jax.Array, like: Params) -> Params:
    """Independent standard normal numbers in the shape of a tree."""
    leaves, structure = jax.tree.flatten(like)
    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(
        structure, [standard_normal(k, a.shape, a.dtype) for k, a in zip(keys, leaves, strict=True)]
    )


def drawn(q: Posterior, noise: Params) -> Params:
    """ω = μ + σε."""
    return jax.tree.map(lambda m, s, e: m + jnp.exp(s) * e, q["mean"], q["log_scale"], noise)


@partial(jax.jit, static_argnames=("net", "count"))
def outputs_of_draws(
    net: FiniteNetwork, q: Posterior, key: jax.Array, x: jax.Array, count: int
) -> Float[jax.Array, "count n outputs"]:
    """Outputs of `count` networks drawn from q, on all of x."""
    draw = lambda key: net.apply(drawn(q, standard_noise(key, q["mean"])), x)
    return jax.lax.map(draw, jax.random.split(key, count))  # one after another: a draw's weights stay in the cache
