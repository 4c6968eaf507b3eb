"""Loads the compiled engine, and runs described plans: on NumPy arrays directly, inside JAX programs as a custom call.

The build installs the library in `_native` in the package's folders.
"""

from __future__ import annotations

import ctypes
import logging
import math
import os
import sys
import threading
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.errors import InvalidArgumentError, MemoryLimitError
from equitangents.formatting import memory_size
from equitangents.kernels.engines.codes import FieldKind
from equitangents.kernels.engines.cpu.activations import at_any_norms, has_tables
from equitangents.kernels.engines.cpu.descriptor import Description, RotationPlan, describe
from equitangents.kernels.plans import OffsetPlan
from equitangents.kernels.result import READOUT, Part
from equitangents.kernels.scales import Law, check_representable, limits
from equitangents.memory import threads

logger = logging.getLogger("equitangents")


def native_folders() -> tuple[Path, ...]:
    """The folders `_native`, one per location of the package (an editable install has two)."""
    return tuple(Path(root) / "_native" for root in sys.modules["equitangents"].__path__)


_NAMES = ("libequitangents.so", "libequitangents.dylib")
INSTRUCTIONS = "EQUITANGENTS_INSTRUCTIONS"  # the best instruction set to use, by name
TARGETS = {"float32": ("eqt_kernel_float", "eqt_ffi_float"), "float64": ("eqt_kernel_double", "eqt_ffi_double")}


@cache
def _loaded() -> tuple[ctypes.CDLL | None, str | None]:
    """(the library, None), or (None, why it cannot be loaded)."""
    places = native_folders()
    found = [place / name for place in places for name in _NAMES if (place / name).exists()]
    if not found:
        return None, f"it was not built (no library in {', '.join(map(str, places))})"
    try:
        library = ctypes.CDLL(str(found[0]))
        library.eqt_instruction_set_name.restype = ctypes.c_char_p
        _limit(library)
        return library, None
    except (OSError, AttributeError) as error:
        return None, f"its library cannot be loaded: {error}"


def _limit(library: ctypes.CDLL) -> None:
    """Limit instruction sets to EQUITANGENTS_INSTRUCTIONS, if set."""
    wanted, names = os.environ.get(INSTRUCTIONS), _names(library)
    if wanted is None:
        return
    if wanted not in names:
        raise InvalidArgumentError(INSTRUCTIONS, wanted, list(names), "those of this processor")
    library.eqt_limit_instruction_sets(names.index(wanted))


def why_unavailable() -> str | None:
    """Why the engine cannot run on this machine, or None if it can."""
    return _loaded()[1] or _refused()


@cache
def _refused() -> str | None:
    """Why JAX rejects the library's calls (warned once), as for newer headers; None if it accepts them."""
    try:
        for dtype in TARGETS:
            registered(dtype)
    except Exception as error:  # JAX's own, of no stated class
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        why = f"JAX cannot register its calls, build it for the installed JAX: {reason}"
        logger.warning("the CPU engine is not used: %s", why)
        return why
    return None


def library() -> ctypes.CDLL:
    """The loaded library; call only if `why_unavailable()` is None."""
    if why := why_unavailable():
        raise RuntimeError(f"the CPU engine is not available: {why}")
    return _library()


def _library() -> ctypes.CDLL:
    """The loaded library, even before it is known whether JAX accepts its calls."""
    found, why = _loaded()
    if found is None:
        raise RuntimeError(f"the CPU engine is not available: {why}")
    return found


def instruction_sets() -> tuple[str, ...]:
    """The names of the variants that this processor can run, the best one last."""
    return _names(library())


def _names(library: ctypes.CDLL) -> tuple[str, ...]:
    names = (library.eqt_instruction_set_name(i) for i in range(library.eqt_best_instruction_set() + 1))
    return tuple(name.decode() for name in names)


def description() -> str:
    """Description of the engine: instruction set and threads."""
    return f"{instruction_sets()[-1]}, {threads()} threads"


@cache
def registered(dtype: str) -> str:
    """The name under which the engine's custom call is registered in JAX for `dtype`."""
    name = f"equitangents_{TARGETS[dtype][1]}"
    handler: Any = getattr(_library(), TARGETS[dtype][1])
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
    return name


_Message = ctypes.c_char * 256
_WATCH_FROM = 2e8  # numbers to compute from which a thread watches for Ctrl-C
_CANCELLED = 1
_KINDS = {"readout": FieldKind.NONE, "all": FieldKind.ALL, "same": FieldKind.SAME}
_VECTOR = 64  # bytes, at most, and of a cache line
_BLOCKS: list[np.ndarray] = []  # bytes of the latest results
_MOST_BLOCKS = 4  # two results, as a loop holds one while the next is computed
_LOCK = threading.Lock()
_MOST_LISTED = 64  # pairs that may be computed as a list
_LISTED_FROM = 1e4, 16  # numbers of a pair, and of each number of an input, from which a list pays
_NO_MEMORY = "the CPU engine found no memory"
_REMEDY = "compute fewer inputs at a time, or by fewer threads (OMP_NUM_THREADS)"


class Arrays(ctypes.Structure):
    """Where the arrays of a description lie, which must outlive it."""

    _fields_ = [(name + end, kind) for name in ("code", "reals", "tables") for end, kind in (
        ("", ctypes.c_void_p), ("_size", ctypes.c_int64))]  # fmt: skip

    @classmethod
    def of(cls, d: Description) -> Arrays:
        """Addresses and lengths of what a description holds."""
        return cls(*(v for a in (d.code, d.reals, d.tables) for v in (a.ctypes.data, a.size)))


@lru_cache(maxsize=64)
def _described(plan: OffsetPlan, channels: int) -> tuple[Arrays, Description, int]:
    """(pointers to the description of a plan, that description, number of values per pair)."""
    description = describe(plan, channels)
    return Arrays.of(description), description, _work_of_pair(plan, channels)


class _Problem(ctypes.Structure):
    """`eqt::Problem` of `native/src/engine.hpp`."""

    _fields_ = [
        ("x1", ctypes.c_void_p), ("n1", ctypes.c_int64), ("x2", ctypes.c_void_p), ("n2", ctypes.c_int64),
        ("nngp", ctypes.c_void_p), ("ntk", ctypes.c_void_p), ("threads", ctypes.c_int), ("cancel", ctypes.c_void_p),
        ("listed", ctypes.c_bool), ("instructions", ctypes.c_int),
        ("field", ctypes.c_int32), ("field_numbers", ctypes.c_int64), ("targets", ctypes.c_void_p),
        ("odd", ctypes.c_void_p), ("bytes", ctypes.c_void_p),
    ]  # fmt: skip


def kernels(
    plan: OffsetPlan, x1: np.ndarray, x2: np.ndarray | None, instruction_set: int = -1
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK) between x1, (N1, *positions, C), and x2 (None: x1 with itself, at half the cost).

    `instruction_set` numbers one of `library.instruction_sets()`; -1 is the best.
    """
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    if _lists_pairs(plan, x1, x2 is None, n2):
        return _by_pairs(plan, x1, x2, instruction_set)
    return _run(plan, x1, x2, (n1, n2), instruction_set)


def _lists_pairs(plan: OffsetPlan, x1: np.ndarray, symmetric: bool, n2: int) -> bool:
    """Whether a list of pairs fills at most half as many vectors as separate vectors per first input."""
    n1 = len(x1)
    if not 1 < n1 * n2 <= _MOST_LISTED or isinstance(plan, RotationPlan):
        return False
    least, each = _LISTED_FROM
    if _work_of_pair(plan, x1.shape[-1]) < max(least, each * x1[0].size):
        return False
    lanes = _VECTOR // x1.dtype.itemsize
    pairs = n1 * (n1 + 1) // 2 if symmetric else n1 * n2
    return 2 * -(-pairs // lanes) <= n1 * -(-n2 // lanes)


def _by_pairs(
    plan: OffsetPlan, x1: np.ndarray, x2: np.ndarray | None, instruction_set: int
) -> tuple[np.ndarray, np.ndarray]:
    """`kernels` with one pair per vector lane; for x1 with itself only pairs i <= j."""
    shape = (len(x1), len(x1 if x2 is None else x2))
    i, j = np.triu_indices(len(x1)) if x2 is None else (index.ravel() for index in np.indices(shape))
    found = results(shape, x1.dtype)
    for values, of_pairs in zip(
        found, _run(plan, x1[i], (x1 if x2 is None else x2)[j], i.shape, instruction_set), strict=True
    ):
        values[i, j] = of_pairs
        if x2 is None:
            values[j, i] = of_pairs
    return found


def listed(
    plan: OffsetPlan, x1: np.ndarray, x2: np.ndarray | None = None, part: Part = READOUT
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK), each (N, *tail), of every input of x1, (N, *positions, C), with the input of the same number in x2.

    x2 None: with itself.
    """
    return _run(plan, x1, x2, (len(x1),), -1, part)


def _run(
    plan: OffsetPlan,
    x1: np.ndarray,
    x2: np.ndarray | None,
    shape: tuple[int, ...],
    instruction_set: int,
    part: Part = READOUT,
) -> tuple[np.ndarray, np.ndarray]:
    x1 = np.ascontiguousarray(x1)
    x2 = None if x2 is None else np.ascontiguousarray(x2)
    size = (shape[0], part.count, *shape[1:], part.count) if part.crossed else shape + part.tail
    nngp, ntk = results(size, x1.dtype)
    if nngp.size == 0:
        return nngp, ntk
    arrays, _description, work_of_pair = _described(plan, x1.shape[-1])
    cancel, odd = ctypes.c_int32(0), ctypes.c_int32(0)
    problem = _Problem(
        x1=x1.ctypes.data,
        n1=shape[0],
        x2=None if x2 is None else x2.ctypes.data,
        n2=shape[-1],
        nngp=nngp.ctypes.data,
        ntk=ntk.ctypes.data,
        threads=threads(),
        cancel=ctypes.addressof(cancel),
        listed=len(shape) == 1,
        instructions=instruction_set,
        field=_KINDS[part.kind],
        field_numbers=0 if part is READOUT else part.numbers,
        odd=ctypes.addressof(odd),
    )
    called(_function(x1.dtype.itemsize), arrays, problem, cancel, math.prod(shape) * work_of_pair)
    if odd.value and not has_tables(plan):
        check_representable(x1.dtype, (nngp, ntk), (x1,) if x2 is None else (x1, x2))
    return nngp, ntk


def results(shape: tuple[int, ...], dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Uninitialised arrays for the NNGP and the NTK; raises MemoryLimitError if they do not fit."""
    try:
        return _array(shape, dtype), _array(shape, dtype)
    except MemoryError:
        size = memory_size(2 * math.prod(shape) * dtype.itemsize)
        raise MemoryLimitError(f"{_NO_MEMORY} for the {size} of its results; {_REMEDY}") from None


def _array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array aligned to a cache line, if possible in the memory of an earlier, released result.

    Clearing new memory by the operating system takes a fifth of the time of two layers. 1 to 32 MiB are kept for reuse.
    """
    size = math.prod(shape) * dtype.itemsize + _VECTOR
    with _LOCK:
        kept = range(len(_BLOCKS))
        i = next((i for i in kept if size <= _BLOCKS[i].size <= 1.25 * size and _holders(_BLOCKS, i) == _NOBODY), None)
        block = np.empty(size, np.uint8) if i is None else _BLOCKS[i]
        if i is None and 1 << 20 <= size <= 32 << 20:
            _BLOCKS[:] = [block, *_BLOCKS][:_MOST_BLOCKS]
    return np.ndarray(shape, dtype, block, -block.ctypes.data % _VECTOR)


def _holders(blocks: list[np.ndarray], i: int) -> int:
    return sys.getrefcount(blocks[i])


_NOBODY = _holders([np.empty(0, np.uint8)], 0)  # but the list


def working_bytes(plan: OffsetPlan, channels: int, n1: int, n2: int, itemsize: int, part: Part = READOUT) -> int:
    """Bytes of a run for N1 × N2 pairs in addition to inputs and results, including its description."""
    return _held(plan, channels, n1, n2, itemsize, part, threads())


@lru_cache(maxsize=256)
def _held(plan: OffsetPlan, channels: int, n1: int, n2: int, itemsize: int, part: Part, n: int) -> int:
    arrays, described, _ = _described(plan, channels)
    held, kind = ctypes.c_int64(0), _KINDS[part.kind]
    problem = _Problem(
        n1=n1, n2=n2, threads=n, instructions=-1, field=kind, field_numbers=0 if part is READOUT else part.numbers
    )
    problem.bytes = ctypes.addressof(held)
    called(_function(itemsize), arrays, problem, ctypes.c_int32(0), 0)
    return held.value + 2 * described.reals.nbytes + described.tables.nbytes  # the engine has its own doubles


def _function(itemsize: int) -> Any:
    return getattr(library(), TARGETS["float32" if itemsize == 4 else "float64"][0])


def called(function: Any, description: Arrays, problem: ctypes.Structure, cancel: ctypes.c_int32, work: float) -> None:
    """Run a function of the library; Ctrl-C stops it, through `cancel`.

    Raises MemoryLimitError if memory runs out. If threads cannot be started, fewer threads are used.
    """
    message = _Message()
    arguments = ctypes.byref(description), ctypes.byref(problem), message, len(message)
    status = function(*arguments) if work < _WATCH_FROM else _interruptible(lambda: int(function(*arguments)), cancel)
    if status == _CANCELLED:
        raise KeyboardInterrupt
    if status != 0:
        text = message.value.decode()
        if text == "out of memory":
            raise MemoryLimitError(f"{_NO_MEMORY} in addition to its inputs and results; {_REMEDY}")
        raise RuntimeError(f"the CPU engine failed: {text}")


@lru_cache(maxsize=256)
def _work_of_pair(plan: OffsetPlan, channels: int) -> int:
    """Approximate number of values computed per pair of inputs."""
    positions = plan.positions
    return sum(len(s.offsets.array) * (positions * (len(s.steps) + channels) + 1) for s in plan.stages)


def _interruptible(call: Any, cancel: ctypes.c_int32) -> int:
    """call() in another thread, so that Ctrl-C reaches this one and stops it; in this one if threads cannot start."""
    status: list[int] = []
    worker = threading.Thread(target=lambda: status.append(call()), daemon=True)
    try:
        worker.start()
    except (RuntimeError, MemoryError):  # Ctrl-C then waits for the call to end
        return int(call())
    try:
        while worker.is_alive():
            worker.join(0.2)
    except BaseException:
        cancel.value = 1
        worker.join()
        raise
    return status[0]


def traced(plan: OffsetPlan, law: Law, x1: ArrayLike, x2: Any | None = None, listed: bool = False) -> tuple[Any, Any]:
    """As `kernels`, or as `listed`, for traced JAX arrays of any norms; not differentiable."""
    size = (len(x1),) if listed else (len(x1), len(x1 if x2 is None else x2))
    shape, channels = jax.ShapeDtypeStruct(size, x1.dtype), x1.shape[-1]
    call = jax.ffi.ffi_call(registered(x1.dtype.name), (shape, shape), vmap_method="sequential")
    plans = [describe(plan, channels)] + ([] if law.homogeneous else [describe(at_any_norms(plan), channels)])
    arrays = [jnp.asarray(a, jnp.int32) for d in plans for a in (d.code, d.reals, d.tables)]
    none = [jnp.zeros(0, jnp.int32)] * (6 - len(arrays))
    settings = {"threads": np.int64(threads()), "symmetric": x2 is None, "listed": listed}
    norms = {"vanishes": law.vanishes, "limits": np.array(limits(law, x1.dtype))}
    nngp, ntk = call(*arrays, *none, x1, x1 if x2 is None else x2, **settings, **norms)
    return nngp, ntk


def field_kernels(
    plan: OffsetPlan, part: Part, x1: np.ndarray, x2: np.ndarray | None, instruction_set: int = -1
) -> tuple[np.ndarray, np.ndarray]:
    """(NNGP, NTK), each (N1, N2, *tail), between x1, (N1, *positions, C), and x2 (None: x1, at half the cost)."""
    shape = len(x1), len(x1 if x2 is None else x2)
    nngp, ntk = (part.public(values) for values in _run(plan, x1, x2, shape, instruction_set, part))
    if x2 is None:
        for values in (nngp, ntk):
            _complete(values, part.crossed)
    return nngp, ntk


def _complete(values: np.ndarray, crossed: bool) -> None:
    """Fill in the pairs i > j of (N, N, *tail), and make diagonal entries exactly symmetric."""
    for i in range(len(values)):
        later = values[i, i + 1 :]
        values[i + 1 :, i] = later.swapaxes(1, 2) if crossed else later
        if crossed:
            values[i, i] = (values[i, i] + values[i, i].T) / 2
