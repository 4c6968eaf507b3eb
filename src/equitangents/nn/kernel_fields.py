"""Kernel fields of networks: what `Sequential.kernel_field` and its like ask of a network's layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Protocol

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from numpy.typing import DTypeLike

from equitangents.kernels.cost.forecast import KernelCost
from equitangents.kernels.dispatch import compute, compute_diagonal, kernel_cost
from equitangents.kernels.fields.part import Part, part_of
from equitangents.kernels.result import KernelField, NngpKernelField
from equitangents.kernels.steerable.program import Points
from equitangents.kernels.store.key import described
from equitangents.nn.chain import why_no_ntk
from equitangents.nn.layer import Layer
from equitangents.nn.lowering import ends_on_rotations, lower_between_rotations, lower_field
from equitangents.nn.signal import Signal
from equitangents.structured import is_structured

PositionPairs = Literal["all", "same"] | npt.ArrayLike
"""All pairs of positions, each with itself, or a list of pairs (M, 2)."""


class _Network(Protocol):
    @property
    def layers(self) -> tuple[Layer, ...]: ...

    def signals(self, input_shape: tuple[int, ...]) -> tuple[Signal, ...]: ...

    def after_given(self, count: int, x: Any) -> Any: ...

    def kernel(self, x1: Any, x2: Any, engine: str | None) -> Any: ...

    def kernel_diagonal(self, x: Any, engine: str | None) -> Any: ...


def field_between(net: _Network, x1: Any, x2: Any, positions: Any, engine: str | None) -> KernelField:
    """`Sequential.kernel_field` of inputs that are checked."""
    given, program, part, alone = _asked(net, x1, positions)
    if alone:
        return _of_one_position(net.kernel(x1, x2, engine), net, x1, part)
    after = net.after_given(given, x1), None if x2 is None else net.after_given(given, x2)
    return _named(net, compute(program, *after, engine, part), x1)


def field_of_each(net: _Network, x: Any, positions: Any, engine: str | None) -> KernelField:
    """`Sequential.kernel_field_diagonal` of inputs that are checked."""
    given, program, part, alone = _asked(net, x, positions)
    if alone:
        return _of_one_position(net.kernel_diagonal(x, engine), net, x, part)
    return _named(net, compute_diagonal(program, net.after_given(given, x), engine, part), x)


def cost_of_field(
    net: _Network,
    shape: tuple[int, ...],
    n1: int,
    n2: int | None,
    positions: Any,
    dtype: DTypeLike,
    engine: str | None,
) -> KernelCost:
    """`Sequential.kernel_field_cost` of inputs of a shape that is checked."""
    signals = net.signals(shape)
    given, program = lower_field(net.layers, signals)
    part = part_of(positions, signals[-1].positions.count)
    return kernel_cost(program, signals[given].channels, n1, n2, dtype, engine, part)


def described_field(net: _Network, shape: tuple[int, ...]) -> str:
    """A text that is equal for networks with equal kernel fields on inputs of `shape`, and for no others."""
    given, program = lower_field(net.layers, net.signals(shape))
    probe = np.random.default_rng(0).normal(size=(2, *shape))
    return f"{described(np.asarray(net.after_given(given, probe)))}{described(program)}"


def _asked(net: _Network, x: Any, positions: Any) -> tuple[int, Any, Part, bool]:
    """(layers that are functions of the input, the program of the rest, pairs of positions, whether there is one)."""
    signals = net.signals(x.shape[1:])
    part = part_of(positions, signals[-1].positions.count)
    if ends_on_rotations(net.layers, signals):
        return *lower_between_rotations(net.layers, signals), part, False
    given, program = lower_field(net.layers, signals, x.convention if is_structured(x) else None)
    return given, program, part, part.count == 1 and not isinstance(program.space, Points)


def _of_one_position(kernels: Any, net: _Network, x: Any, part: Part) -> Any:
    """Kernels of a network with one output position as a field of the shape that was asked for."""
    tail = part.layout.tail

    def field(values: Any) -> Any:
        spread = np.broadcast_to if isinstance(values, np.ndarray) else jnp.broadcast_to
        one = spread(values.reshape(values.shape + (1,) * len(tail)), values.shape + tail)
        return part.layout.public(one) if values.ndim == 2 else one

    nngp = field(kernels.nngp)
    ntk = field(kernels.ntk) if why_no_ntk(net.layers) is None else nngp
    memory = 2 * nngp.size * nngp.dtype.itemsize
    facts = {"engine": kernels.engine, "form": kernels.form, "notes": kernels.notes}
    return _named(net, KernelField(nngp, ntk, positions=part.kind, memory=memory, **facts), x)


def _named(net: _Network, found: KernelField, x: Any) -> Any:
    """The field with the shape of its grid; the NNGP alone where there is nothing else."""
    found = replace(found, grid=net.signals(x.shape[1:])[-1].positions.shape)
    reason = why_no_ntk(net.layers)
    return found if reason is None else NngpKernelField.of(found, reason)
