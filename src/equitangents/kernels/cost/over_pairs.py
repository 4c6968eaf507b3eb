"""Cost of kernels over all pairs of positions, for structured and steerable programs.

Structured: one operation over all pairs is one layer; sums over positions with weights of each input's own,
K' = A K A'ᵀ, are counted as multiply-adds, of K and of Θ. Steerable: products of filters, and values of duals.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from equitangents.kernels.branches import flat
from equitangents.kernels.cost.calibration import layer_rate, product_rate, uncertainty
from equitangents.kernels.cost.forecast import KernelCost, asked
from equitangents.kernels.duals import PiecewiseLinear
from equitangents.kernels.engines import REFERENCE
from equitangents.kernels.fields.part import Part
from equitangents.kernels.plans.counting import LayerKind
from equitangents.kernels.runs.steerable import WHY, outputs
from equitangents.kernels.runs.steerable import working_bytes as bytes_of_pairs
from equitangents.kernels.runs.structured import choice_of, positions, working_bytes
from equitangents.kernels.steerable.program import SteerableProgram
from equitangents.kernels.structured.program import StructuredProgram

_UNSURE = 3.0  # operations differ in what they take, and are all taken for one kind of layer


def structured_cost(
    program: StructuredProgram,
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: DTypeLike = "float32",
    engine: str | None = None,
    part: Part | None = None,
) -> KernelCost:
    """The cost between n1 and n2 inputs (None: n1 with themselves, at half the cost); always in double precision.

    Kernel fields are run by the reference engine, one pair of inputs like a pooled kernel.
    """
    chosen, notes = choice_of(program, engine, part=part)
    chosen = chosen if part is None else REFERENCE
    wanted = asked(n1, n2, dtype)
    layers = sum(map(_is_layer, flat(program.ops)))
    field = positions(program)
    elements = wanted.pairs * layers * field**2
    products = wanted.pairs * (int(np.prod(program.shape, dtype=np.int64)) ** 2 * channels + _mixing(program))
    kind = LayerKind((3,), activation=PiecewiseLinear(0.0), pairs=chosen.over_all_pairs)
    layer, product = layer_rate(chosen, "float64", kind), product_rate(chosen, "float64")
    return KernelCost(
        fibres=field,
        field_size=field,
        layers=layers,
        pairs=wanted.pairs,
        element_layers=elements,
        multiply_adds=products,
        seconds=elements * layer.seconds + products * product.seconds,
        uncertainty=_UNSURE * uncertainty([layer.spread, product.spread]),
        output_bytes=replace(wanted, part=part).result_bytes,
        working_bytes=working_bytes(program, chosen, channels, wanted.rows, wanted.columns, wanted.itemsize),
        engine=chosen.name,
        form="pairs",
        dtype=wanted.dtype,
        notes=notes,
    )


def _is_layer(op: Any) -> bool:
    return op.affine is None and not (op.is_branching and op.is_open)


def _mixing(program: StructuredProgram) -> int:
    """Multiply-adds of a pair of inputs in sums over positions: of two products, of K and of Θ."""
    found, before = 0, int(np.prod(program.shape, dtype=np.int64))
    for op in flat(program.ops):
        found += op.products(before)
        before = op.positions_after(before)
    return found


_UNSURE_OF_DUALS = 5.0  # values of duals are taken for as many products each
_PRODUCTS = 50


def steerable_cost(
    program: SteerableProgram,
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: DTypeLike = "float32",
    engine: str | None = None,
    part: Part | None = None,
) -> KernelCost:
    """The cost between n1 and n2 inputs (None: n1 with themselves, at half the cost); always in double precision."""
    wanted = asked(n1, n2, dtype)
    alone = wanted.rows + (0 if n2 is None else wanted.columns)  # each input with itself, for its variances
    runs = wanted.pairs + alone
    points, ops = program.space.count, [op for op in flat(program.ops) if not op.held]
    products = sum(op.products(points) for op in ops)
    duals = [op.values(program.space.features.space) for op in ops if op.needs_variances]
    values = sum(duals) * points**2
    of_pairs = outputs(program) ** 2 if part is None else part.layout.numbers
    rate = product_rate(REFERENCE, "float64")
    return KernelCost(
        fibres=points,
        field_size=points,
        layers=len(duals),
        pairs=wanted.pairs,
        element_layers=runs * values,
        multiply_adds=runs * products,
        seconds=runs * (products + _PRODUCTS * values) * rate.seconds,
        uncertainty=_UNSURE_OF_DUALS * uncertainty([rate.spread]),
        output_bytes=of_pairs * wanted.result_bytes,
        working_bytes=bytes_of_pairs(program, points),
        engine=REFERENCE.name,
        form="pairs",
        dtype=wanted.dtype,
        notes=(WHY,),
    )
