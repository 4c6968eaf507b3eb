"""Cost of a kernel before it is computed: work counted literally, time from a calibration, memory as planned.

element-layers = pairs of inputs × Σ over fibres and layers of positions; a symmetric problem has N(N+1)/2 pairs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from equitangents.errors import InvalidArgumentError
from equitangents.formatting import foreseen, memory_size
from equitangents.kernels.cost.calibration import layer_rate, product_rate, uncertainty
from equitangents.kernels.engines import Engine, choose
from equitangents.kernels.fields.part import Part
from equitangents.kernels.fields.size import result_bytes
from equitangents.kernels.plans.counting import Work, count
from equitangents.kernels.program import Program
from equitangents.kernels.runs.programs import check_memory, choice_of, notes_of
from equitangents.precision import is_traced, working_dtype
from equitangents.validation import check_whole

logger = logging.getLogger("equitangents")

_ANNOUNCED = 10.0  # seconds from which a run is announced
_is_part: ContextVar[bool] = ContextVar("_is_part", default=False)


class CostedKernel(Protocol):
    """A network or orbit average with `kernel_cost`."""

    def kernel_cost(
        self, input_shape: tuple[int, ...], n1: int, n2: int | None = None, dtype: npt.DTypeLike = "float32"
    ) -> KernelCost:
        """The cost of the kernel between n1 and n2 inputs of `input_shape`; n2 None: of n1 inputs with themselves."""


@dataclass(frozen=True)
class KernelCost:
    """Cost of one kernel matrix.

    `seconds` is expected on this machine, now, within a factor of `uncertainty`, without compiling; `element_layers`
    counts positions × fibres × layers × pairs (a layer is a window mean with the nonlinearity after it, NNGP and NTK
    together), `multiply_adds` the first inner products of all pairs; `memory` is the peak beyond the inputs, of which
    `output_bytes` are the two matrices. On rotation groups `fibres` are relative rotations, `field_size` the points of
    the sphere at each of them, and `resolution` the nodes in cos β that are assumed.

    >>> import equitangents as et
    >>> net = et.nn.Sequential(et.nn.Conv(1, 3), et.nn.Relu(), et.nn.GlobalAvgPool(), et.nn.Dense(1))
    >>> cost = net.kernel_cost((8, 8, 3), 100)
    >>> cost.fibres, cost.field_size, cost.layers, cost.pairs, cost.element_layers
    (64, 64, 1, 5050, 20684800)
    """

    fibres: int
    field_size: int
    layers: int
    pairs: int
    element_layers: int
    multiply_adds: int
    seconds: float
    uncertainty: float
    output_bytes: int
    working_bytes: int
    engine: str
    form: str
    dtype: str
    notes: tuple[str, ...] = ()
    resolution: int | None = None

    @property
    def memory(self) -> int:
        """Bytes of peak memory beyond the inputs."""
        return self.output_bytes + self.working_bytes

    def __str__(self) -> str:
        along = f"{_plural(self.fibres, 'fibre')} of {_plural(self.field_size, 'position')}"
        if self.form == "pairs":
            along = f"all {self.fibres}² pairs of positions"
        elif self.form == "rotations":
            along = _plural(self.fibres, "relative rotation")
            along += f" of {self.field_size:,} points of the sphere" if self.field_size > 1 else ""
        text = (
            f"{self.pairs:,} pairs of inputs in {self.dtype} by the {self.engine} engine: {along}, "
            f"{_plural(self.layers, 'layer')}; {self.element_layers:.3g} element-layers and {self.multiply_adds:.3g} "
            f"multiply-adds; {foreseen(self.seconds, self.uncertainty)}; at most "
            f"{memory_size(self.memory)} beyond the inputs, {memory_size(self.output_bytes)} of them the results."
        )
        return text + "".join(f" {note[0].upper()}{note[1:]}." for note in self.notes)


@dataclass(frozen=True)
class Asked:
    """Kernels between `rows` and `columns` inputs in precision `dtype`; `pairs` of them are computed.

    `part`: of a kernel field, or None.
    """

    rows: int
    columns: int
    pairs: int
    dtype: str
    part: Part | None

    @property
    def itemsize(self) -> int:
        """Bytes of a number."""
        return np.dtype(self.dtype).itemsize

    @property
    def result_bytes(self) -> int:
        """Bytes of NNGP and NTK, with one number for each pair or those of the part of a field."""
        numbers = 1 if self.part is None else self.part.layout.numbers
        return numbers * result_bytes(self.rows, self.columns, self.itemsize)


def asked(n1: int, n2: int | None, dtype: npt.DTypeLike, part: Part | None = None) -> Asked:
    """Checked request; n2 None: n1 inputs with themselves, half of the pairs if these are mirrored."""
    n1 = check_whole("n1", n1, 1)
    n2 = None if n2 is None else check_whole("n2", n2, 1)
    columns = n1 if n2 is None else n2
    mirrors = part is None or part.mirrors
    pairs = n1 * (n1 + 1) // 2 if n2 is None and mirrors else n1 * columns
    return Asked(n1, columns, pairs, check_dtype(dtype), part)


def kernel_cost(
    program: Program,
    channels: int,
    n1: int,
    n2: int | None = None,
    dtype: npt.DTypeLike = "float32",
    engine: str | None = None,
    part: Part | None = None,
) -> KernelCost:
    """The cost of the kernels of `program` between n1 and n2 inputs (None: n1 with themselves, at half the cost).

    With `part` that of its kernel field at these pairs of positions.
    The first call for a kind of layer times small programs, for a fraction of a second (longer where an engine has to
    compile them first); later ones remember.
    """
    wanted = asked(n1, n2, dtype, part)
    choice, steps = choice_of(program, engine, np.dtype(wanted.dtype), part)
    chosen = choice.engine
    working = chosen.working_bytes(
        program, channels, wanted.rows, wanted.columns, wanted.itemsize, *(() if part is None else (part,))
    )
    work = count(steps)
    computed_in = chosen.computed_in(program, channels, wanted.dtype)
    seconds, factor = forecast(work, channels, wanted.pairs, chosen, computed_in)
    return KernelCost(
        fibres=work.fibres,
        field_size=work.field,
        layers=work.depth,
        pairs=wanted.pairs,
        element_layers=wanted.pairs * work.element_layers,
        multiply_adds=wanted.pairs * work.products * channels,
        seconds=seconds,
        uncertainty=factor,
        output_bytes=wanted.result_bytes,
        working_bytes=working,
        engine=chosen.name,
        form=steps.form,
        dtype=wanted.dtype,
        notes=notes_of(choice, steps, part),
    )


@contextlib.contextmanager
def as_part() -> Iterator[None]:
    """Context in which kernels, parts of a longer run, are not announced."""
    token = _is_part.set(True)
    try:
        yield
    finally:
        _is_part.reset(token)


def announce(program: Program, x1: Any, x2: Any = None, engine: str | None = None) -> None:
    """Log how long the kernels of x1 and x2 (None: x1 with itself) will take, if that is long."""
    if _is_part.get() or not logger.isEnabledFor(logging.INFO) or any(is_traced(x) for x in (x1, x2)):
        return
    dtype = working_dtype(x1, x2)
    chosen, _ = choose(program, engine, dtype)
    work, channels, n1, n2 = count(chosen.steps(program)), x1.shape[-1], len(x1), len(x1 if x2 is None else x2)
    pairs = n1 * (n1 + 1) // 2 if x2 is None else n1 * n2
    if pairs * (work.element_layers + work.products * channels / 8) < chosen.quick_work:
        return
    check_memory(program, chosen, x1, x2, dtype)  # what cannot run is not announced
    seconds, factor = forecast(work, channels, pairs, chosen, chosen.computed_in(program, channels, dtype.name))
    if seconds > _ANNOUNCED:
        logger.info("kernels of %d × %d inputs by the %s engine: %s", n1, n2, chosen.name, foreseen(seconds, factor))


def forecast(work: Work, channels: int, pairs: int, engine: Engine, dtype: str) -> tuple[float, float]:
    """(seconds, the factor within which they are known)."""
    product = product_rate(engine, dtype)
    seconds = pairs * work.products * channels * product.seconds
    spreads = [product.spread]
    for kind, elements in work.layers:
        rate = layer_rate(engine, dtype, kind)
        seconds += pairs * elements * rate.seconds
        spreads.append(rate.spread)
    return seconds, uncertainty(spreads)


def repeated(runs: list[tuple[KernelCost, float]], extra_bytes: int) -> KernelCost:
    """The cost of several runs, one after another, whose results are added up while `extra_bytes` are held.

    At the peak there are the sum, one run's results, and what is made of both.
    """
    first = runs[0][0]
    total = {
        name: round(sum(getattr(cost, name) * times for cost, times in runs))
        for name in ("pairs", "element_layers", "multiply_adds")
    }
    return replace(
        first,
        **total,
        seconds=sum(cost.seconds * times for cost, times in runs),
        uncertainty=max(cost.uncertainty for cost, _ in runs),
        working_bytes=first.output_bytes + max(cost.memory for cost, _ in runs) + extra_bytes,
    )


def check_dtype(dtype: npt.DTypeLike) -> str:
    """The name of a precision in which kernels are computed."""
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = repr(dtype)
    if name not in ("float32", "float64"):
        raise InvalidArgumentError("dtype", dtype, "'float32' or 'float64'")
    return name


def _plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
