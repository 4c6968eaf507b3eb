"""What kernels of steerable programs take: products of filters counted literally, and values of duals."""

from __future__ import annotations

from numpy.typing import DTypeLike

from equitangents.kernels.cost.calibration import product_rate, uncertainty
from equitangents.kernels.cost.forecast import KernelCost, asked
from equitangents.kernels.engines import REFERENCE
from equitangents.kernels.fields.part import Part
from equitangents.kernels.program import flat
from equitangents.kernels.runs.steerable import WHY, outputs, working_bytes
from equitangents.kernels.steerable.linear import filter_kernels
from equitangents.kernels.steerable.program import Filter, Nonlinear, Norm, Sampled, SteerableProgram
from equitangents.steerable import samples

_UNSURE = 5.0  # values of duals are taken for as many products each
_PRODUCTS = 50


def kernel_cost(
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
    ops = tuple(flat(program.ops))
    nonlinear = [op for op in ops if isinstance(op, Nonlinear)]
    products = sum(_products(op, program.points) for op in ops if isinstance(op, Filter))
    values = sum(_values(op, program) for op in nonlinear)
    of_pairs = outputs(program) ** 2 if part is None else part.layout.numbers
    rate = product_rate(REFERENCE, "float64")
    return KernelCost(
        fibres=program.points,
        field_size=program.points,
        layers=len(nonlinear),
        pairs=wanted.pairs,
        element_layers=runs * values,
        multiply_adds=runs * products,
        seconds=runs * (products + _PRODUCTS * values) * rate.seconds,
        uncertainty=_UNSURE * uncertainty([rate.spread]),
        output_bytes=of_pairs * wanted.result_bytes,
        working_bytes=working_bytes(program, program.points),
        engine=REFERENCE.name,
        form="pairs",
        dtype=wanted.dtype,
        notes=(WHY,),
    )


def _products(op: Filter, points: int) -> int:
    """Multiplications of Σ κ K κ'ᵀ and Σ κ Θ κ'ᵀ for one pair of inputs."""
    total = 0
    for (out, into), kernels in filter_kernels(op.into, op.out, op.max_frequency).items():
        a, b, count = out.dimension, into.dimension, len(kernels) * len(op.radii)
        total += 2 * count * points**3 * (a * b * b + a * a * b)
    return total


def _values(op: Nonlinear, program: SteerableProgram) -> int:
    """Values of duals for one pair of inputs."""
    each = 2
    if isinstance(op, Sampled):
        each = len(samples(program.features.space, op.resolution, 0).points) ** 2
    elif isinstance(op, Norm):
        each = len(op.rates) ** 2
    return each * program.points**2
