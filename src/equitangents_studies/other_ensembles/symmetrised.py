"""Posteriors of fully connected networks that a group leaves as they are, and three ways to come to one.

T_g moves weights so that f(x; T_g ω) = f(ρ(g)⁻¹x; ω): those of the first layer with the inputs that they read, and
hidden units either not at all or in blocks of |G|, by k → g⁻¹k. If T_g q = q for all g, E_q f is invariant.

averaged    the geometric mean of all T_g q, units unmoved: 1/σ̄² = mean 1/σ_g², μ̄ = σ̄² mean μ_g/σ_g²
projected   means of T_g μ and of T_g log σ, units moved in blocks: the nearest weights of a group-convolutional network
expanded    a network of width n/|G| before training, each unit in all |G| orientations

Source: Dong, Flinth & Gerken 2026, arXiv 2606.26273, whose networks are convolutional.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from equitangents import nn
from equitangents.actions import Action
from equitangents.extending import ArrayLike, DType, Params
from equitangents_studies.baselines.variational import Posterior

Change = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True, eq=False)
class Symmetry:
    """How a group acts on the parameters of networks `nn.Flatten(), nn.Dense(n), …, nn.Dense(outputs)` for one signal.

    `input_shape` is (*positions, channels); the action permutes its numbers.
    """

    action: Action
    input_shape: tuple[int, ...]

    @cached_property
    def places(self) -> Int[np.ndarray, "order inputs"]:
        """Where ρ(g)x reads x: (ρ(g)x)_p = x_{places[g, p]}."""
        numbers = np.arange(np.prod(self.input_shape), dtype=np.float64).reshape((1, *self.input_shape))
        orbit = [np.asarray(self.action(g, numbers)).ravel() for g in range(self.order)]
        return np.stack(orbit).astype(np.int32)

    @property
    def order(self) -> int:
        """|G|."""
        return int(self.action.group.order)

    def moved(self, params: Params, g: int, *, units: bool) -> Params:
        """T_g of parameters; `units`: whether hidden units are moved in blocks, |G| neighbours each."""
        G = self.action.group
        block = np.array([G.compose(G.inverse(g), k) for k in range(G.order)])

        def order(n: int) -> np.ndarray:
            return np.arange(n).reshape(-1, G.order)[:, block].ravel() if units else np.arange(n)

        return _by_layer(
            params,
            first=lambda w: w[self.places[g]],
            inputs=lambda w: w[order(len(w))],
            outputs=lambda a: a[..., order(a.shape[-1])],
        )

    @property
    def ways(self) -> dict[str, Callable[[Posterior], Posterior]]:
        """What makes a posterior symmetric, by name."""
        return {"averaged": self.averaged, "projected": self.projected}

    def averaged(self, q: Posterior) -> Posterior:
        """The normalised geometric mean of all T_g q, units unmoved."""
        means = [self.moved(q["mean"], g, units=False) for g in range(self.order)]
        precisions = [
            jax.tree.map(lambda s: jnp.exp(-2 * s), self.moved(q["log_scale"], g, units=False))
            for g in range(self.order)
        ]
        precision = _mean(precisions)
        weighted = _mean([jax.tree.map(jnp.multiply, m, p) for m, p in zip(means, precisions, strict=True)])
        return {
            "mean": jax.tree.map(jnp.divide, weighted, precision),
            "log_scale": jax.tree.map(lambda p: -0.5 * jnp.log(p), precision),
        }

    def projected(self, q: Posterior) -> Posterior:
        """Means of T_g μ and T_g log σ over the group, units moved: fixed points of every T_g."""
        mean, log_scale = (
            _mean([self.moved(part, g, units=True) for g in range(self.order)]) for part in (q["mean"], q["log_scale"])
        )
        return {"mean": mean, "log_scale": log_scale}

    def expanded(self, params: Params) -> Params:
        """Parameters of width |G|n from those of width n, fixed points of every T_g.

        First layer: unit (c, k) reads in orientation k what unit c reads. Then every block is the weights of before,
        and the last layer's are divided by √|G|: with the fan-in's factor 1/√|G| it is a mean over blocks.
        """
        G = self.order

        def turned(w: jax.Array) -> jax.Array:
            units = np.arange(w.shape[1])
            return w[self.places[units % G].T, units]

        return _by_layer(
            params,
            first=turned,
            inputs=lambda w: jnp.repeat(w, G, axis=0),
            outputs=lambda a: jnp.repeat(a, G, axis=-1),
            last=lambda w: w / G**0.5,
        )


def _by_layer(
    params: Params, first: Change, inputs: Change, outputs: Change, last: Change = lambda w: w
) -> tuple[Params, ...]:
    """`outputs` of all layers that have parameters but the last, then `inputs` of the weights, `first` of the first."""
    filled = [i for i, layer in enumerate(params) if layer]
    changed = list(params)
    for i in filled:
        layer = params[i] if i == filled[-1] else {name: outputs(a) for name, a in params[i].items()}
        w = (first if i == filled[0] else inputs)(layer["w"])
        changed[i] = {**layer, "w": last(w) if i == filled[-1] else w}
    return tuple(changed)


def _mean(trees: list[Params]) -> Params:
    return jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *trees)


@dataclass(frozen=True, eq=False)
class Expanded:
    """`wide`, which starts as `narrow` in all orientations: `narrow` has 1/|G| of its hidden units."""

    narrow: nn.Sequential
    wide: nn.Sequential
    symmetry: Symmetry

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: DType = "float32") -> Params:
        """Parameters of `wide` that the group leaves as they are."""
        return self.symmetry.expanded(self.narrow.init(key, input_shape, dtype))

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """Outputs (N, outputs) of `wide`."""
        return self.wide.apply(params, x)
