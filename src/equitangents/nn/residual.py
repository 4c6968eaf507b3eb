"""Residual blocks: x + layers(x)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax

from equitangents.errors import NetworkError
from equitangents.kernels.program import Branch, Op
from equitangents.nn.layer import Layer
from equitangents.nn.sequential import Sequential, chain
from equitangents.nn.signal import Signal


class Residual(Layer):
    """The input plus what `layers` make of it.

    K' = K + K_branch, Θ' = Θ + Θ_branch; where input and branch both end in a nonlinearity of non-zero mean,
    m(p) = E[φ], K' gains m_x(p) m_branch(p') + m_branch(p) m_x(p').
    """

    def __init__(self, *layers: Layer) -> None:
        self._body = Sequential(*layers)

    def __repr__(self) -> str:
        return f"Residual({', '.join(map(repr, self._body.layers))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Residual) and self._body == other._body

    def __hash__(self) -> int:
        return hash((Residual, self._body))

    def signal(self, signal: Signal) -> Signal:
        """The same signal; Gaussian if both summands are."""
        out = chain(self._body.layers, signal)[-1]
        if out.given:
            raise NetworkError("a residual block needs a layer with weights")
        if (out.positions, out.channels) != (signal.positions, signal.channels):
            raise NetworkError(
                f"the branch turns {signal.array_shape} into {out.array_shape}; a residual sum needs equal shapes"
            )
        return replace(out, gaussian=out.gaussian and signal.gaussian)

    def init(self, key: jax.Array, signal: Signal, dtype: Any) -> Any:
        """A tuple with one entry a layer of the branch."""
        signals = chain(self._body.layers, signal)
        keys = jax.random.split(key, len(self._body.layers))
        return tuple(la.init(k, s, dtype) for la, k, s in zip(self._body.layers, keys, signals, strict=False))

    def apply(self, params: Any, x: Any, signal: Signal) -> Any:
        """X + branch(x)."""
        y = x
        for layer, p, s in zip(self._body.layers, params, chain(self._body.layers, signal), strict=False):
            y = layer.apply(p, y, s)
        return x + y

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """A branch."""
        signals = chain(self._body.layers, signal)
        return (Branch(tuple(op for la, s in zip(self._body.layers, signals, strict=False) for op in la.lower(s))),)
