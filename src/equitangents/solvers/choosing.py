"""What each method would take for one matrix, and which of them `solver="auto"` is."""

from __future__ import annotations

import math
from dataclasses import replace

from equitangents.errors import InvalidArgumentError, InvalidTypeError, MemoryLimitError
from equitangents.formatting import memory_size
from equitangents.memory import check_memory, default_memory_limit
from equitangents.solvers.cholesky import Cholesky
from equitangents.solvers.lanczos import Lanczos
from equitangents.solvers.low_rank import Nystrom
from equitangents.solvers.method import Method, Plan, Task
from equitangents.solvers.out_of_core import OutOfCore
from equitangents.solvers.pcg import PCG
from equitangents.solvers.spectral import Eigh
from equitangents.validation import check_choice, check_whole

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (Eigh, Cholesky, OutOfCore, Lanczos, PCG, Nystrom)
}
SOLVERS = ("auto", *METHODS)
DECOMPOSED = 3000  # samples up to which "auto" decomposes: seconds, and every time, ridge and left-out sample


def as_method(solver: str | Method) -> Method | None:
    """A solver's name or settings as a method; None for "auto"."""
    if isinstance(solver, Method):
        return solver
    if not isinstance(solver, str):
        raise InvalidTypeError("solver", solver, "a name or settings such as solvers.PCG(rank=500)")
    if solver not in SOLVERS:
        raise InvalidArgumentError("solver", solver, list(SOLVERS))
    return None if solver == "auto" else METHODS[solver]()


def choose(task: Task, time: float, ridge: float, has_folder: bool) -> Plan:
    """The plan of "auto": what is exact and fits, the quickest kind first; MemoryLimitError where nothing does."""
    candidates: list[tuple[Method, str]] = []
    if task.size <= DECOMPOSED:
        candidates.append((Eigh(), "auto: one decomposition serves every time"))
    if not math.isinf(time):
        candidates.append((Lanczos(), "auto: a finite time takes products alone"))
    else:
        candidates.append((Cholesky(), "auto: a factor fits into memory"))
        if ridge == 0 and has_folder:
            candidates.append((OutOfCore(), "auto: without a ridge a factor on disk is sure"))
        candidates.append((PCG(), "auto: no factor fits into memory"))
    for method, reason in candidates:
        plan = replace(method.plan(task), reason=reason)
        if plan.fits:
            return plan
    raise too_large(plan, task)


def too_large(plan: Plan, task: Task) -> MemoryLimitError:
    """The error for a plan that does not fit."""
    return MemoryLimitError(
        f"the dense problem of {task.size} samples needs about {memory_size(plan.memory)} by solver {plan.solver!r}, "
        f"the limit is {memory_size(task.limit)}; take another solver (solvers.plan says what each needs), train on "
        "fewer samples, or raise memory_limit (bytes)"
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
        precision: that of the entries; Cholesky works in it by default.
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
    found = choose(task, math.inf, 1.0, False) if method is None else method.plan(task)
    return replace(found, memory=found.memory + own, fits=found.memory + own <= limit)
