"""Variations: differences between an ensemble's members besides initial parameters and data order.

zero output     predict f(x; θ) − f(x; θ_0)
bootstrap       train each member on N samples drawn with replacement (bagging)
NTK posterior   predict f(x; θ) + δ(x), δ a random function that is not trained, and add noise to the targets
NNGP posterior  train only the last layer, and add noise to the targets
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from equitangents import precision
from equitangents._aliases import FiniteNetwork
from equitangents._types import ArrayLike, InputShape, Params, Tree
from equitangents.actions.action import GroupAction
from equitangents.errors import NetworkError
from equitangents.kernels import KernelFunction, Kernels
from equitangents.kernels.invariance import draws_noise, known_invariant
from equitangents.kernels.rotations import sampled_for
from equitangents.nn import Dense
from equitangents.precision import standard_normal
from equitangents.validation import check_number

_TAG = 0x7661_7269  # folded into a member's initial key, so that what is drawn here is drawn nowhere else


@dataclass(frozen=True)
class Variation:
    """How members differ; this base class adds no difference. Immutable and hashable."""

    has_baseline: ClassVar[bool] = False
    """Whether a function of the member's own is subtracted from its outputs, in training and in prediction."""

    def check(self, net: FiniteNetwork, loss: str) -> None:
        """Raise unless the variation applies to this network and loss."""

    def start(self, key: jax.Array, net: FiniteNetwork, params: Params, input_shape: InputShape, dtype: str) -> Params:
        """Parameters of a member's baseline, from its initial parameters."""
        return None

    def baseline(self, net: FiniteNetwork, start: Params, x: jax.Array) -> jax.Array:
        """The baseline subtracted from a member's outputs, (N, outputs)."""
        raise NotImplementedError

    def rows(self, key: jax.Array, samples: int, copies: int) -> np.ndarray | None:
        """The member's training rows among `copies` · `samples`, the copy being the slowest index; None: all."""
        return None

    def disturbance(self, key: jax.Array, shape: tuple[int, ...], dtype: str) -> np.ndarray | None:
        """Noise added to a member's targets, or None."""
        return None

    def transformation(self, base: optax.GradientTransformation, rows: int) -> optax.GradientTransformation:
        """The optimiser `base`, modified for the variation's loss on `rows` rows of data."""
        return base


PLAIN = Variation()
"""Members differ in nothing else."""


@dataclass(frozen=True)
class ZeroOutput(Variation):
    """f(x; θ) − f(x; θ_0), zero at initialisation."""

    has_baseline: ClassVar[bool] = True

    def start(self, key: jax.Array, net: FiniteNetwork, params: Params, input_shape: InputShape, dtype: str) -> Params:
        """A copy of the initial parameters."""
        return jax.tree.map(jnp.copy, params)

    def baseline(self, net: FiniteNetwork, start: Params, x: jax.Array) -> jax.Array:
        """The outputs at initialisation, f(x; θ_0)."""
        return net.apply(start, x)


@dataclass(frozen=True)
class Bootstrap(Variation):
    """Bagging: every member trains on N of the N samples, drawn with replacement, with all their transformed copies.

    The mean over members is as equivariant as that of plain members, since each resample is augmented in full.
    Source: Breiman 1996, Bagging predictors.

    >>> import numpy as np, equitangents as et
    >>> net = et.nn.Sequential(et.nn.Dense(32), et.nn.Relu(), et.nn.Dense(1))
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> model = et.DeepEnsemble(net, members=3, epochs=5, variation=et.ensembles.Bootstrap())
    >>> model.fit(x, x[:, 0]).predict(x).shape
    (3,)
    """

    def rows(self, key: jax.Array, samples: int, copies: int) -> np.ndarray:
        """The drawn samples' rows in every copy."""
        drawn = np.asarray(jax.random.randint(key, (samples,), 0, samples, dtype="int32"))
        return (samples * np.arange(copies)[:, None] + drawn).ravel().astype(np.int32)


@dataclass(frozen=True)
class _Posterior(Variation):
    """Randomised maximum a posteriori: noisy targets, and weight decay towards the initial parameters.

    Training minimises (1/2N) Σ_i |f(x_i) − y_i − ε_i|² + (σ²/2N) |θ − θ_0|², ε_i ~ N(0, σ²), σ² = `noise`.
    """

    noise: float = 0.0

    def __post_init__(self) -> None:
        check_number("noise", self.noise, "a finite number ≥ 0", lambda v: v >= 0)

    def check(self, net: FiniteNetwork, loss: str) -> None:
        """Raise unless the loss is "mse" (else the posterior is not Gaussian) and the last layer a linear readout."""
        if loss != "mse":
            raise NetworkError("loss", loss, "'mse', of whose posterior the variation samples")
        layers = getattr(net, "layers", ())
        if not layers or not isinstance(layers[-1], Dense):
            raise NetworkError("net", net, "a network that ends with Dense, for the variation")

    def disturbance(self, key: jax.Array, shape: tuple[int, ...], dtype: str) -> np.ndarray | None:
        """The noise ε."""
        if self.noise == 0:
            return None
        with precision.scope(dtype):
            return math.sqrt(self.noise) * np.asarray(standard_normal(jax.random.fold_in(key, 1), shape, dtype))

    def transformation(self, base: optax.GradientTransformation, rows: int) -> optax.GradientTransformation:
        """Weight decay towards the initial parameters, σ²/N per unit of learning rate, then `base`."""
        return optax.chain(decay_to_start(self.noise / rows), base) if self.noise else base


@dataclass(frozen=True)
class NTKPosterior(_Posterior):
    """Members that sample the posterior of a Gaussian process whose prior covariance is the NTK Θ.

    A member predicts f(x; θ) + δ(x), δ(x) = Σ_{l<L} ∂f(x; θ_0)/∂θ_l · θ̃_l with θ̃ drawn once and not trained: at
    initialisation its covariance is K + (Θ − K) = Θ. All layers are trained. At infinite width and time inf a member is
    exactly a draw from N(ΘA⁻¹y, Θ − ΘA⁻¹Θ), A = Θ + σ²; `TangentPrior(net)` with kernel="nngp" is the closed form,
    at every time.

    Args:
        noise: σ² ≥ 0, the noise variance of (augmented) targets; divided by the mean diagonal of Θ it is a `ridge`.

    Source: He, Lakshminarayanan & Teh 2020, Bayesian Deep Ensembles via the Neural Tangent Kernel, arXiv 2007.05864.
    """

    has_baseline: ClassVar[bool] = True

    def start(self, key: jax.Array, net: FiniteNetwork, params: Params, input_shape: InputShape, dtype: str) -> Params:
        """(θ_0, θ̃), with θ̃ zero in the last layer."""
        direction = net.init(jax.random.fold_in(key, 0), input_shape, dtype)
        direction = (*direction[:-1], jax.tree.map(jnp.zeros_like, direction[-1]))
        return jax.tree.map(jnp.copy, params), direction

    def baseline(self, net: FiniteNetwork, start: Params, x: jax.Array) -> jax.Array:
        """Minus the untrained random function: −δ(x)."""
        params, direction = start
        return -jax.jvp(lambda p: net.apply(p, x), (params,), (direction,))[1]


@dataclass(frozen=True)
class NNGPPosterior(_Posterior):
    """Members that sample the posterior of a Gaussian process whose prior covariance is the NNGP kernel K.

    Only the last layer is trained. At infinite width and time inf a member is exactly a draw from
    N(KA⁻¹y, K − KA⁻¹K), A = K + σ²: Bayesian inference over networks, of which `InfiniteEnsemble(kernel="nngp")` is
    the closed form, at every time.

    Args:
        noise: σ² ≥ 0, the noise variance of (augmented) targets; divided by the mean diagonal of K it is a `ridge`.

    Sources: Matthews et al. 2017, Sample-then-optimize posterior sampling; Osband, Aslanides & Cassirer 2018 (arXiv
    1806.03335); Lee et al. 2018 (arXiv 1711.00165).
    """

    def transformation(self, base: optax.GradientTransformation, rows: int) -> optax.GradientTransformation:
        """`base` with gradients and weight decay only in the last layer."""
        frozen = optax.stateless(lambda updates, _: (*jax.tree.map(jnp.zeros_like, updates[:-1]), updates[-1]))
        return optax.chain(frozen, super().transformation(base, rows), frozen)


@dataclass(frozen=True)
class TangentPrior:
    """The kernels of `net` with the NNGP kernel replaced by the NTK Θ; `.kernel` as for a network.

    `InfiniteEnsemble(TangentPrior(net), kernel="nngp", ridge=r)` is the distribution of members with
    `variation=NTKPosterior(noise)`, for r = noise / (mean diagonal of Θ on the training data).
    """

    net: KernelFunction

    @property
    def draws_noise(self) -> bool:
        """Whether the network draws independent noise per input (dropout)."""
        return draws_noise(self.net)

    @property
    def samples_rotations(self) -> bool:
        """Whether kernels may sample rotations at a resolution chosen from the inputs of each call."""
        return bool(getattr(self.net, "samples_rotations", False))

    def sampled_for(self, x: ArrayLike) -> TangentPrior:
        """This prior with its sampling of rotations fixed at the resolution for inputs x."""
        return TangentPrior(sampled_for(self.net, lambda: x))

    def invariant_under(self, action: GroupAction, input_shape: tuple[int, ...]) -> bool:
        """Whether the network's kernels are known to be invariant under the action."""
        return known_invariant(self.net, action, input_shape)

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """(Θ, Θ), (N1, N2) each."""
        k = self.net.kernel(x1, x2)
        return replace(k, nngp=k.ntk)


def variation_key(seed: int, member: int) -> jax.Array:
    """The random key of a member's variation."""
    init_key, _ = jax.random.split(jax.random.fold_in(jax.random.key(seed), member))
    return jax.random.fold_in(init_key, _TAG)


def decay_to_start(rate: float) -> optax.GradientTransformation:
    """A transformation that adds rate · (θ − θ_0) to gradients."""

    def update(gradient: Params, start: Tree, params: Params = None) -> tuple[Params, Tree]:
        return jax.tree.map(lambda g, p, s: g + rate * (p - s), gradient, params, start), start

    return optax.GradientTransformation(lambda params: jax.tree.map(jnp.copy, params), update)
