"""Residual blocks: x + layers(x)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax

from equitangents._types import DType, Params
from equitangents.errors import NetworkError
from equitangents.groups import Group
from equitangents.kernels.branches import residual
from equitangents.kernels.program import Op
from equitangents.nn.chain import apply_layers, chain, init_layers, run_layers, why_no_ntk
from equitangents.nn.folding import fold_layers
from equitangents.nn.layer import Layer
from equitangents.nn.lowering import lowered
from equitangents.nn.sequential import Sequential
from equitangents.nn.signal import Signal
from equitangents.nn.steerable.signal import check_passed_on, check_summands, shape_of, summed
from equitangents.nn.structure import Structure


class Residual(Layer):
    """x + layers(x).

    K' = K + K_branch, Θ' = Θ + Θ_branch; where input and branch both end in a nonlinearity of non-zero mean,
    m(p) = E[φ], K' gains m_x(p) m_branch(p') + m_branch(p) m_x(p'). Of steerable features one of the two has to be
    linear, the branch ends in the features that it starts from, and coordinates stay as they are.
    """

    def __init__(self, *layers: Layer) -> None:
        self._body = Sequential(*layers)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the branch."""
        return self._body.layers

    def signals(self, signal: Signal) -> tuple[Signal, ...]:
        """Input signals of each layer of the branch, and its output signal."""
        # Nothing in the branch is a function of the input alone: the sum reads the input, too.
        return chain(self.layers, replace(signal, given=False))

    @property
    def inner(self) -> tuple[tuple[Layer, ...], ...]:  # type: ignore[override]
        """The layers of its only branch."""
        return (self.layers,)

    def with_inner(self, inner: Sequence[Sequence[Layer]]) -> Residual:
        """This block with other layers in its branch."""
        (layers,) = inner
        return Residual(*layers)

    @property
    def steers(self) -> bool:  # type: ignore[override]
        """Whether its layers read steerable features."""
        return any(layer.steers for layer in self.layers)

    @property
    def no_ntk(self) -> str | None:  # type: ignore[override]
        """Why a layer inside has no NTK; None if all have."""
        return why_no_ntk(self.layers)

    def __repr__(self) -> str:
        return f"Residual({', '.join(map(repr, self.layers))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Residual) and self._body == other._body

    def __hash__(self) -> int:
        return hash((Residual, self._body))

    def signal(self, signal: Signal) -> Signal:
        """The signal that comes in; Gaussian if both summands are."""
        check_passed_on(signal)
        out = self.signals(signal)[-1]
        if not any(layer.has_weights for layer in self.layers):
            # Without weights of its own the branch is not independent of its input.
            raise NetworkError("a residual block needs a layer with weights")
        if (out.positions, out.channels) != (signal.positions, signal.channels):
            raise NetworkError(
                "branch", shape_of(out), shape_of(signal), "a residual sum needs equal shapes", verb="gives shape"
            )
        check_summands((signal, out))
        return replace(out, gaussian=out.gaussian and signal.gaussian)

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """A tuple with one entry a layer of the branch."""
        return init_layers(self.layers, key, self.signals(signal), dtype)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The input plus the branch's output."""
        return summed((x, apply_layers(self.layers, params, x, self.signals(signal))), signal)

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """The input plus the branch's output, with masks, graphs and keys."""
        y, after = run_layers(self.layers, params, x, self.signals(signal), structure)
        return after.after(summed((x, y), signal), structure.mask)

    def lower(self, signal: Signal) -> tuple[Op, ...]:
        """One operation that holds those of the branch."""
        return (residual(lowered(self.layers, self.signals(signal), masked=False)),)

    def lower_masked(self, signal: Signal) -> tuple[Op, ...]:
        """One operation that holds the branch, with windows of smaller inputs."""
        return (residual(lowered(self.layers, self.signals(signal), masked=True)),)

    def fold(self, signal: Signal, group: Group) -> tuple[Op, ...] | None:
        """A branch, if all of its layers fold."""
        inner = fold_layers(self.layers, self.signals(signal), group)
        return None if inner is None else (residual(inner),)
