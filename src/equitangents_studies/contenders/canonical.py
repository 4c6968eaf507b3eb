"""Learned canonicalisation (Kaba et al. 2023, arXiv 2211.06489): a small network chooses how the image is turned back.

s(g) = h(ρ(g)⁻¹x) scores every element; g* = argmax s; f(x) = c(ρ(g*)⁻¹x). Since s(ρ(k)x)(g) = s(x)(k⁻¹g), the turned
image c sees is the same for the whole orbit. Gradients reach h straight through the argmax: those of softmax(s).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import actions, nn
from equitangents.extending import ArrayLike, DType, Params


@dataclass(frozen=True)
class Canonicalised:
    """`scorer` has one output, the score of the orientation it is shown; `classifier` sees the chosen one."""

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

    def _turned_back(self, x: Any) -> Any:
        """ρ(g)⁻¹x for every g: (|G|, N, H, W, C)."""
        action = actions.as_action("group", self.group, x.shape)
        inverse = np.array([int(action.group.inverse(g)) for g in range(action.group.order)])
        return action.orbit(x)[inverse]
