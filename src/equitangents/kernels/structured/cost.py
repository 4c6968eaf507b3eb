"""What kernels of structured programs take: one operation over all pairs of positions is one layer."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from equitangents.kernels.calibration import layer_rate, product_rate, uncertainty
from equitangents.kernels.cost import KernelCost, asked
from equitangents.kernels.counting import LayerKind
from equitangents.kernels.duals import PiecewiseLinear
from equitangents.kernels.engines import REFERENCE
from equitangents.kernels.program import Affine
from equitangents.kernels.structured.program import Split, StructuredProgram, flat
from equitangents.kernels.structured.run import positions, why_not, working_bytes

_KIND = LayerKind((3,), activation=PiecewiseLinear(0.0), pairs=True)
_UNSURE = 3.0  # operations differ in what they take, and are all taken for one kind of layer


def kernel_cost(
    program: StructuredProgram,
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: DTypeLike = "float32",
    engine: str | None = None,
) -> KernelCost:
    """The cost between n1 and n2 inputs (None: n1 with themselves, at half the cost); always in double precision."""
    wanted = asked(n1, n2, dtype)
    layers = sum(not isinstance(op, Affine | Split) for op in flat(program.ops))
    field = positions(program)
    elements, products = wanted.pairs * layers * field**2, wanted.pairs * int(np.prod(program.shape)) ** 2 * channels
    layer, product = layer_rate(REFERENCE, "float64", _KIND), product_rate(REFERENCE, "float64")
    return KernelCost(
        fibres=field,
        field_size=field,
        layers=layers,
        pairs=wanted.pairs,
        element_layers=elements,
        multiply_adds=products,
        seconds=elements * layer.seconds + products * product.seconds,
        uncertainty=_UNSURE * uncertainty([layer.spread, product.spread]),
        output_bytes=wanted.result_bytes,
        working_bytes=working_bytes(program),
        engine=REFERENCE.name,
        form="pairs",
        dtype=wanted.dtype,
        notes=(f"the reference engine alone: {why_not(program)}",),
    )
