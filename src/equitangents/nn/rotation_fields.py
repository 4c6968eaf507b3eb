"""Kernel fields of networks that end on rotations, between the points at which the group is sampled.

N(f)(R) = N(ρ(R⁻¹)f)(1): the kernel between R and R' is that between the turned signals at 1. Behind a full window it
depends on the relative rotation alone, and the network that ends in Flatten has it.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents.errors import NetworkError
from equitangents.kernels.dispatch import compute
from equitangents.kernels.fields.part import Part
from equitangents.kernels.fields.result import KernelField
from equitangents.kernels.rotations import RotationFibres, RotationProgram
from equitangents.nn.layer import Layer
from equitangents.nn.lowering import count_given, program_of
from equitangents.nn.pooling import Flatten
from equitangents.nn.signal import OnGroup, OnRotations, Signal
from equitangents.sphere import rotate


def ends_on_rotations(layers: tuple[Layer, ...], signals: tuple[Signal, ...]) -> bool:
    """Whether a network lifts signals on the sphere, and its output has a value at every rotation."""
    if not isinstance(signals[-1].positions, OnGroup | OnRotations):
        return False
    return any(isinstance(layer.fibres(s), RotationFibres) for layer, s in zip(layers, signals, strict=False))


def rotation_field(
    layers: tuple[Layer, ...], signals: tuple[Signal, ...], x1: Any, x2: Any, part: Part, engine: str | None
) -> KernelField:
    """The field between rotations of x1 and of x2 (None: x1), of signals (N, B², C) with no layers before the lift."""
    given, program = _flattened(layers, signals)
    if given:
        raise NetworkError("the first layer is to be the SphereLift")
    positions = signals[-1].positions
    assert isinstance(positions, OnGroup | OnRotations)
    turns = np.asarray(positions.group.matrices, np.float64)  # type: ignore[union-attr]
    a = _turned_back(x1, turns)
    found = compute(program, a, None if x2 is None else _turned_back(x2, turns), engine)
    n1, n2, count = len(x1), len(x1 if x2 is None else x2), len(turns)
    first, second = part.positions()

    def at(values: Any) -> Any:
        field = values.reshape(n1, count, n2, count)
        if part.kind == "all":
            return field
        picked = field[:, first, :, second]  # (M, N1, N2)
        return picked.transpose(1, 2, 0)

    nngp, ntk = at(found.nngp), at(found.ntk)
    memory = 2 * found.nngp.size * found.nngp.dtype.itemsize
    return KernelField(
        nngp,
        ntk,
        positions=part.kind,
        grid=(count,),
        engine=found.engine,
        form="rotations",
        notes=found.notes,
        memory=memory,
    )


def rotation_field_of_each(
    layers: tuple[Layer, ...], signals: tuple[Signal, ...], x: Any, part: Part, engine: str | None
) -> KernelField:
    """The field of each signal with itself, one after another."""
    parts = [rotation_field(layers, signals, x[i : i + 1], None, part, engine) for i in range(len(x))]
    join = jnp.concatenate if precision.is_traced(parts[0].ntk) else np.concatenate

    def joined(values: list[Any]) -> Any:
        return join([v[:, :, 0] if part.kind == "all" else v[:, 0] for v in values])

    first = parts[0]
    return KernelField(
        joined([p.nngp for p in parts]),
        joined([p.ntk for p in parts]),
        positions=part.kind,
        memory=sum(p.memory for p in parts),
        grid=first.grid,
        engine=first.engine,
        form=first.form,
        notes=first.notes,
    )


def _flattened(layers: tuple[Layer, ...], signals: tuple[Signal, ...]) -> tuple[int, RotationProgram]:
    """(leading layers that are functions of the input, the program of the network that ends in Flatten)."""
    flatten = Flatten()
    whole = (*layers, flatten), (*signals, flatten.signal(signals[-1]))
    given = count_given(*whole)
    program = program_of(whole[0][given:], whole[1][given:])
    assert isinstance(program, RotationProgram)
    if program.sphere and not getattr(program.sphere[-1], "is_full", False):
        raise NetworkError(
            "the kernel between rotations is there for networks with at least one full window, after which it depends "
            "on the relative rotation alone"
        )
    return given, program


def _turned_back(x: Any, turns: np.ndarray) -> Any:
    """ρ(R⁻¹) f for every signal and rotation, (N·rotations, B², C)."""
    moved = rotate(x, turns.swapaxes(1, 2).astype(x.dtype))
    return moved.swapaxes(0, 1).reshape((-1, *x.shape[1:]))
