"""What each method would take for one matrix, and which of them `solver="auto"` is.

How fast this machine is, is measured once a process in some hundredths of a second.
"""

from __future__ import annotations

import math
import time as clock
from dataclasses import dataclass
from functools import cache

import numpy as np

from equitangents.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError
from equitangents.formatting import duration, memory_size
from equitangents.memory import check_memory, default_memory_limit
from equitangents.solvers.cholesky import Cholesky
from equitangents.solvers.eigh import Eigh
from equitangents.solvers.finite_time import Lanczos
from equitangents.solvers.low_rank import Nystrom
from equitangents.solvers.matrices import SymmetricMatrix
from equitangents.solvers.method import Method, Task
from equitangents.solvers.out_of_core import OutOfCore
from equitangents.solvers.pcg import PCG
from equitangents.validation import check_choice, check_whole

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (Eigh, Cholesky, OutOfCore, Lanczos, PCG, Nystrom)
}
SOLVERS = ("auto", *METHODS)
DECOMPOSED = 3000  # samples up to which "auto" decomposes: seconds, and every time, ridge and left-out sample
_SIDE = 384  # of the matrices whose product is timed
_UNKNOWN_PRODUCT = 1e-9  # seconds an entry, where there is no matrix to measure


@dataclass(frozen=True)
class Plan:
    """What a method is expected to take: bytes of memory and of disk, seconds on this machine, and whether it fits.

    reason: why it is what "auto" takes, or that it was asked for.
    """

    method: Method
    memory: int
    disk: int
    seconds: float
    fits: bool
    precision: str
    reason: str = "asked for"

    @property
    def solver(self) -> str:
        """The name by which `solver=` asks for this method."""
        return self.method.name

    def __str__(self) -> str:
        text = f"{self.solver} in {self.precision}: {memory_size(self.memory)} of memory"
        if self.disk:
            text += f", {memory_size(self.disk)} of disk"
        return f"{text}, about {duration(self.seconds)}{'' if self.fits else '; does not fit'}"


def as_method(solver: str | Method) -> Method | None:
    """A solver's name or settings as a method; None for "auto"."""
    if isinstance(solver, Method):
        return solver
    if not isinstance(solver, str):
        raise InvalidTypeError("solver", solver, "a name or settings such as solvers.PCG(rank=500)")
    if solver not in SOLVERS:
        raise InvalidArgumentError("solver", solver, list(SOLVERS))
    return None if solver == "auto" else METHODS[solver]()


def plan_of(method: Method, task: Task, product: float | None, reason: str = "asked for") -> Plan:
    """What a method takes; `product`: seconds of one product with Θ, None where there is no matrix yet."""
    cost = method.cost(task)
    passed = task.size**2 / 2
    each = _UNKNOWN_PRODUCT * passed if product is None else product
    seconds = cost.flops / flops_a_second(cost.precision) + each * (cost.products + cost.entries / passed)
    return Plan(method, int(cost.memory), int(cost.disk), seconds, cost.memory <= task.limit, cost.precision, reason)


def choose(task: Task, time: float, ridge: float, has_folder: bool, product: float | None, has_blocks: bool) -> Plan:
    """The plan of "auto": what is exact and fits, the quickest kind first; MemoryLimitError where nothing does."""
    n, limit = task.size, memory_size(task.limit)
    candidates: list[tuple[Method, str]] = []
    if has_blocks and n <= DECOMPOSED:
        served = f"{n} rows, at most {DECOMPOSED}, where one decomposition serves every time"
        candidates.append((Eigh(), served))
    if not math.isinf(time):
        candidates.append((Lanczos(), f"{n} rows and a finite time, which takes products alone"))
    else:
        if has_blocks:
            candidates.append((Cholesky(), f"{n} rows, and one array of them fits into {limit}"))
        if ridge == 0 and has_folder:
            sure = f"{n} rows do not fit into {limit}, and without a ridge a factor on disk is sure"
            candidates.append((OutOfCore(), sure))
        kept = "neither a decomposition nor a factor fits"
        if not has_blocks:
            kept = "the matrix is known by its products alone"
        krylov = PCG() if has_blocks else PCG(preconditioner="nystrom")
        candidates.append((krylov, f"{n} rows: {kept} into {limit}"))
    refused: list[Plan] = []
    for method, reason in candidates:
        plan = plan_of(method, task, product, f"auto: {reason}")
        if plan.fits:
            return plan
        refused.append(plan)
    raise too_large(refused[-1], task, time)


def too_large(plan: Plan, task: Task, time: float) -> MemoryLimitError:
    """The error for a plan that does not fit, which names what would."""
    others = [] if not math.isinf(time) else [Cholesky(), Cholesky(precision="float32"), OutOfCore()]
    fitting = []
    for method in (*others, PCG(rank=50), Nystrom(rank=min(task.size, 500))):
        if method != plan.method and (other := plan_of(method, task, None)).fits:
            fitting.append(f"solver={_written(method)} ({memory_size(other.memory)})")
    remedy = f"take {' or '.join(fitting)}, train on fewer samples" if fitting else "train on fewer samples"
    return MemoryLimitError(
        f"the dense problem of {task.size} samples needs about {memory_size(plan.memory)} by solver {plan.solver!r}, "
        f"the limit is {memory_size(task.limit)}; {remedy}, or raise memory_limit (bytes)"
    )


def plan(
    size: int,
    outputs: int = 1,
    *,
    solver: str | Method = "cholesky",
    precision: str = "float32",
    in_memory: bool = True,
    memory_limit: int | None = None,
) -> Plan:
    """What solving a matrix of `size` rows takes, before there is one; its own bytes count where it is in memory.

    Args:
        size: N.
        outputs: right-hand sides.
        solver: a name, or settings such as `Cholesky(precision="float32")`; "auto" at time inf.
        precision: that of the entries; Cholesky works in it, unless told otherwise.
        in_memory: whether the entries are an array, which may be overwritten; False: a store, or tiles computed anew.
        memory_limit: bytes; None: half of the memory there is.

    >>> plan(50_000, solver="cholesky", precision="float32").memory < 16e9
    True
    """
    check_whole("size", size, 1)
    check_whole("outputs", outputs, 1)
    check_choice("precision", precision, ("float32", "float64"))
    check_memory(f"the dense problem of {size} samples", 0, memory_limit, "")  # that it is a limit
    limit = default_memory_limit() if memory_limit is None else memory_limit
    itemsize = 8 if precision == "float64" else 4
    task = Task(size, outputs, itemsize, in_memory, in_memory, 1024, limit)
    method = as_method(solver)
    if isinstance(method, Cholesky) and method.precision is None:
        method = Cholesky(precision=precision, tolerance=method.tolerance)
    own = itemsize * size**2 if in_memory else 0
    found = choose(task, math.inf, 1.0, False, None, True) if method is None else plan_of(method, task, None)
    memory = found.memory + own
    return Plan(found.method, memory, found.disk, found.seconds, memory <= limit, found.precision, found.reason)


def _written(method: Method) -> str:
    """How a method is asked for: by name, or by those of its settings that are not as by default."""
    plain = type(method)()
    settings = {name: value for name, value in vars(method).items() if value != getattr(plain, name)}
    if not settings:
        return repr(method.name)
    return f"solvers.{type(method).__name__}({', '.join(f'{name}={value!r}' for name, value in settings.items())})"


@cache
def flops_a_second(precision: str) -> float:
    """Floating-point operations of matrix products in a second, on as many threads as NumPy uses."""
    a = np.full((_SIDE, _SIDE), 1 / _SIDE, precision)
    a @ a
    best = float("inf")
    for _ in range(3):
        start = clock.perf_counter()
        a @ a
        best = min(best, clock.perf_counter() - start)
    return 2 * _SIDE**3 / best


def seconds_of_product(matrix: SymmetricMatrix, vectors: int) -> float:
    """Seconds that a product with so many vectors takes, from one tile, or from what memory gives."""
    n = matrix.size
    multiplying = 2 * n * n * vectors / flops_a_second("float64")
    if matrix.in_memory or not matrix.has_blocks:
        return multiplying + n * n * matrix.dtype.itemsize / 5e9
    probe = slice(0, min(n, matrix.probe))
    other = slice(n - probe.stop, n)
    matrix.block(probe, other)
    start = clock.perf_counter()
    matrix.block(probe, other)
    return multiplying + (clock.perf_counter() - start) * n * n / 2 / probe.stop**2
