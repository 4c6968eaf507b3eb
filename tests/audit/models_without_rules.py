"""Models whose outputs follow no rule under the group: random networks, each with weights and inputs of its own."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

Case = tuple[str, Callable[[np.ndarray], np.ndarray], np.ndarray]


def case(seed: int) -> Case:
    """(group, model, inputs) of one of many kinds, by its number."""
    rng = np.random.default_rng(seed)
    kind = seed % 8
    n = int(rng.choice([20, 40, 100]))
    outputs = int(rng.integers(1, 11))
    if kind < 5:
        side = int(rng.choice([4, 5, 6, 8]))
        x = rng.normal(size=(n, side, side, 1))
        group = str(rng.choice(["C2", "C4", "D4"]))
        net = _mlp(rng, side * side, outputs, depth=1 + kind % 3)
        if kind == 3:  # probabilities
            return group, lambda x: _softmax(3 * net(x)), x
        if kind == 4:  # a large constant, and class numbers of every other such case
            offset = 3 * rng.normal(size=outputs)
            if seed % 16 < 8 and outputs > 1:
                return group, lambda x: net(x).argmax(axis=1), x
            return group, lambda x: net(x) + offset, x
        return group, net, x
    points = int(rng.integers(3, 6))
    x = rng.normal(size=(n, points, 3))
    group = ["SO3", "O3", "octahedral"][kind - 5]
    outputs = int(rng.choice([1, 3, 4, 6, 9]))
    return group, _mlp(rng, 3 * points, outputs, depth=2), x


def _mlp(rng: np.random.Generator, inputs: int, outputs: int, depth: int) -> Callable[[np.ndarray], np.ndarray]:
    widths = [inputs, *([32] * depth), outputs]
    pairs = pairwise(widths)
    layers = [(rng.normal(size=(a, b)) * np.sqrt(2 / a), 0.3 * rng.normal(size=b)) for a, b in pairs]
    nonlinear = [np.tanh, lambda h: np.maximum(h, 0)][int(rng.integers(2))]

    def net(x: np.ndarray) -> np.ndarray:
        h = x.reshape(len(x), -1)
        for i, (W, b) in enumerate(layers):
            h = h @ W + b
            h = nonlinear(h) if i + 1 < len(layers) else h
        return h

    return net


def _softmax(h: np.ndarray) -> np.ndarray:
    e = np.exp(h - h.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
