"""Kernels between inputs of very different norm, of networks that powers of two cannot be taken out of.

By the reference engine in double precision: with biases but homogeneous nonlinearities as the distance of the scaled
fields, whose biases are scaled too; of other networks as the covariance itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.kernels.engines.reference import tile as reference
from equitangents.kernels.engines.reference.carry import COVARIANCE, Distance
from equitangents.kernels.engines.reference.fields import field_tables, field_tile
from equitangents.kernels.fields.plan import FieldPlan
from equitangents.kernels.plans.plan import FibrePlan, PairPlan
from equitangents.kernels.program import Affine, Program
from equitangents.kernels.units import with_affine, with_biases

P = TypeVar("P")


def _without_scales(program: P) -> tuple[P, tuple[tuple[float, float], ...]]:
    """A plan with all scales of weights and biases at 1, and these: plans that differ in them share a program."""
    scales: list[tuple[float, float]] = []

    def bare(op: Affine) -> Affine:
        scales.append((op.W_var, op.b_var))
        return replace(op, W_var=1.0, b_var=1.0)

    return with_affine(program, bare), tuple(scales)


def _with_scales(program: P, scales: tuple[tuple[Any, Any], ...]) -> P:
    """The plan that `_without_scales` took apart."""
    left = iter(scales)

    def dressed(op: Affine) -> Affine:
        weight, bias = next(left)
        return replace(op, W_var=weight, b_var=bias)

    return with_affine(program, dressed)


def kernels(
    steps: FibrePlan | PairPlan,
    tables: dict[str, ArrayLike],
    x1: np.ndarray,
    x2: np.ndarray,
    sides: tuple[int, int],
    scales: tuple[float, float] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK), (N1, N2), of inputs that were multiplied by `scales` (None: the covariance is carried).

    In tiles of `sides`; x1 and x2 are (N, *positions, C), in float64, and so are the results.
    """
    rows, columns = sides
    nngp, ntk = np.empty((len(x1), len(x2))), np.empty((len(x1), len(x2)))
    bare, of_layers = _without_scales(steps)
    with precision.scope(np.float64):
        arrays = jax.device_put(tables)
        for i in range(0, len(x1), rows):
            for j in range(0, len(x2), columns):
                a, b = _filled(x1[i : i + rows], rows), _filled(x2[j : j + columns], columns)
                here = slice(i, i + rows), slice(j, j + columns)
                for out, values in zip((nngp, ntk), tile(bare, of_layers, arrays, a, b, scales), strict=True):
                    part = out[here]
                    part[...] = np.asarray(values)[: part.shape[0], : part.shape[1]]
    return nngp, ntk


def _filled(x: np.ndarray, size: int) -> jax.Array:
    """(positions, size, C), the last inputs zeros."""
    block = np.zeros((size, *x.shape[1:]), x.dtype)
    block[: len(x)] = x
    return jnp.asarray(block.reshape((size, -1, x.shape[-1])).swapaxes(0, 1))


@partial(jax.jit, static_argnums=0)
def tile(
    bare: FibrePlan | PairPlan,
    of_layers: tuple[tuple[Any, Any], ...],
    tables: dict[str, ArrayLike],
    a: ArrayLike,
    b: ArrayLike,
    scales: tuple[float | jax.Array, float | jax.Array] | None,
) -> tuple[jax.Array, jax.Array]:
    """(NNGP, NTK), (N1, N2), of inputs (positions, N, C); `of_layers` are the (W_var, b_var) that `bare` lacks."""
    steps = _with_scales(bare, of_layers)
    (p1, p2), carry = _prepared(steps, tables, (a, b), scales)
    return reference.tile(steps, tables, a, p1, b, p2, carry)


def field_kernels(
    plan: FieldPlan, program: Program, x1: np.ndarray, x2: np.ndarray, scales: tuple[float, float] | None
) -> tuple[np.ndarray, np.ndarray]:
    """As `kernels`, of a part of a field: (N1, N2, *tail), one first input after another."""
    layout = plan.part.layout
    nngp, ntk = (layout.zeros((len(x1), len(x2)), np.float64) for _ in range(2))
    with precision.scope(np.float64):
        arrays = jax.device_put(field_tables(plan, program))
        for i, a in enumerate(x1):
            for j, b in enumerate(x2):
                found = _field_tile(plan, arrays, _filled(a[None], 1), _filled(b[None], 1), scales)
                for out, value in zip((nngp, ntk), found, strict=True):
                    out[i, j] = np.asarray(value)[0, 0]
    return nngp, ntk


@partial(jax.jit, static_argnums=0)
def _field_tile(
    plan: FieldPlan,
    tables: dict[str, ArrayLike],
    a: ArrayLike,
    b: ArrayLike,
    scales: tuple[float | jax.Array, float | jax.Array] | None,
) -> tuple[jax.Array, jax.Array]:
    (p1, p2), carry = _prepared(plan.steps, tables, (a, b), scales)
    return field_tile(plan, tables, a, p1, b, p2, carry)


def _prepared(
    steps: Any,
    tables: dict[str, ArrayLike],
    inputs: tuple[Any, Any],
    scales: tuple[float | jax.Array, float | jax.Array] | None,
) -> Any:
    """(what is known of each of two sets of inputs alone, what is carried between them)."""
    if scales is None:
        return [reference.prepare(steps, tables, x) for x in inputs], COVARIANCE
    scaled = (with_biases(steps, s) for s in scales)
    return [reference.prepare(own, tables, x) for own, x in zip(scaled, inputs, strict=True)], Distance(scales)
