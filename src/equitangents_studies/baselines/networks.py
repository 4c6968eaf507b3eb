"""The plain convolutional network of the comparison, one that turns images first, and how large networks are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import actions, nn
from equitangents.extending import ArrayLike, DType, Params
from equitangents_studies.baselines.baseline import Problem

W_STD, B_STD, LAST_STD = 2**0.5, 0.1, 0.5


class Network(Protocol):
    """What ensembles train: parameters from a key, and outputs from parameters."""

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: DType = "float32") -> Params:
        """Random parameters, a pytree."""

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """What the network makes of images x, (N, classes)."""


def cnn(problem: Problem, channels: tuple[int, ...] | None = None) -> nn.Sequential:
    """Patches of 2×2, then 3×3 convolutions, then all positions into one dense layer.

    Quarter turns and reflections carry windows to windows: none of the images' orientations is built in.
    """
    first, *others = problem.channels if channels is None else channels
    layers: list[nn.Layer] = [nn.Conv(first, (2, 2), stride=2, padding="zero", W_std=W_STD, b_std=B_STD), nn.Relu()]
    for width in others:
        layers += [nn.Conv(width, (3, 3), padding="zero", W_std=W_STD, b_std=B_STD), nn.Relu()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dense(problem.classes, W_std=LAST_STD))


def count_parameters(net: Network, shape: tuple[int, ...]) -> int:
    """How many numbers are learnt; nothing is drawn."""
    params = jax.eval_shape(lambda key: net.init(key, shape, "float32"), jax.random.key(0))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def count_multiplications(net: Network, shape: tuple[int, ...]) -> int:
    """Multiplications in matrix products and convolutions, for every further image that is predicted."""
    params = jax.eval_shape(lambda key: net.init(key, shape, "float32"), jax.random.key(0))
    counts = [
        _count(jax.make_jaxpr(net.apply)(params, jax.ShapeDtypeStruct((images, *shape), np.float32)).jaxpr)
        for images in (1, 2)
    ]
    return counts[1] - counts[0]


def _count(program: Any) -> int:
    total = 0
    for equation in program.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            total += math.prod(equation.outvars[0].aval.shape) * math.prod(left[i] for i in contracted)
        elif equation.primitive.name == "conv_general_dilated":
            kernel, numbers = equation.invars[1].aval.shape, equation.params["dimension_numbers"]
            per_output = math.prod(kernel) // kernel[numbers.rhs_spec[0]]
            total += math.prod(equation.outvars[0].aval.shape) * per_output
        repeats = equation.params.get("length", 1) if equation.primitive.name == "scan" else 1
        total += repeats * sum(_count(inner) for inner in _inner(equation.params))
    return total


def _inner(params: Mapping[str, Any]) -> list[Any]:
    """Programs inside an instruction: bodies of loops, functions that are called."""
    values = [v for value in params.values() for v in (value if isinstance(value, tuple | list) else (value,))]
    programs = [getattr(value, "jaxpr", value) for value in values]
    return [program for program in programs if hasattr(program, "eqns")]


@dataclass(frozen=True)
class Canonicalised:
    """Learned canonicalisation (Kaba et al. 2023, arXiv 2211.06489): a small network chooses how x is turned back.

    s(g) = h(ρ(g)⁻¹x) scores every element; g* = argmax s; f(x) = c(ρ(g*)⁻¹x). Since s(ρ(k)x)(g) = s(x)(k⁻¹g), the
    turned image c sees is the same for the whole orbit. Gradients reach h straight through the argmax: those of
    softmax(s). `scorer`, h, has one output, the score of the orientation it is shown; `classifier`, c, sees the chosen
    one.
    """

    group: str
    scorer: nn.Sequential
    classifier: nn.Sequential

    def init(self, key: jax.Array, input_shape: tuple[int, ...], dtype: DType = "float32") -> Params:
        """Random parameters of scorer and classifier, in a pair."""
        first, second = jax.random.split(key)
        return self.scorer.init(first, input_shape, dtype), self.classifier.init(second, input_shape, dtype)

    def apply(self, params: Params, x: ArrayLike) -> jax.Array:
        """(N, H, W, C) to (N, classes)."""
        scorer, classifier = params
        x = jnp.asarray(x, jax.tree.leaves(params)[0].dtype)
        orbit = self._turned_back(x)
        scores = self.scorer.apply(scorer, orbit.reshape((-1, *x.shape[1:]))).reshape(orbit.shape[:2])
        soft = jax.nn.softmax(scores, axis=0)
        hard = jax.nn.one_hot(jnp.argmax(scores, axis=0), len(scores), axis=0, dtype=soft.dtype)
        weights = hard + soft - jax.lax.stop_gradient(soft)
        return self.classifier.apply(classifier, jnp.einsum("gn,gnhwc->nhwc", weights, orbit))

    def _turned_back(self, x: jax.Array) -> jax.Array:
        """ρ(g)⁻¹x for every g: (|G|, N, H, W, C)."""
        action = actions.as_action("group", self.group, x.shape)
        inverse = np.array([int(action.group.inverse(g)) for g in range(action.group.order)])
        return action.orbit(x)[inverse]
