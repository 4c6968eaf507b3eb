"""How members are spread: how many are trained in one call, how many rows at once, and in how many threads.

Chunk k is always members kc, …, kc + c − 1, all of them, whether they are wanted or not: so a member is trained by one
program in one place of it, and its bits cannot depend on how many members there are.

On a CPU a chunk's working memory should stay in a core's cache, and every core takes chunks of its own: larger
networks go alone, smaller ones in twos or fours. On a GPU more at once are faster, up to its memory.

Working memory is that of a JAX function by its jaxpr alone, nothing is compiled or allocated: values live from the
equation that makes them to the last that reads them, and the peak is that of their sum over the program. XLA fuses and
reuses more, so this is an upper estimate.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from equitangents._types import Params, Tree
from equitangents.ensembles.networks import ForeignNetwork
from equitangents.ensembles.training.recipe import Batches, Members, Own, Recipe, batch_gradient, loss_and_gradient
from equitangents.memory import check_memory

Shaped = np.ndarray | jax.Array | jax.ShapeDtypeStruct
CACHE_BYTES = 2 * 2**20
"""Working memory that a core keeps close."""
_FEWEST_ROWS = 8
_TINY = 64  # that many in the cache


@dataclass(frozen=True)
class Plan:
    """`chunk` members a call, and at most `rows` rows of a batch at once."""

    chunk: int
    rows: int


def make_plan(
    recipe: Recipe, member: Members, x: Shaped, y: Shaped, members: int, members_per_chunk: int | None
) -> Plan:
    """A plan for `members` members, each of the shapes `member` (parameters and optimiser state), on data x, y.

    On a CPU it does not depend on `members`, nor on the number of cores.
    """
    target = CACHE_BYTES if on_cpu() else device_bytes() // 8
    rows = recipe.batches.batch_size if recipe.batchwise else _rows_at_once(recipe, member.params, x, y, 2 * target)
    if members_per_chunk is not None:
        return Plan(members_per_chunk, rows)
    if on_cpu() and isinstance(recipe.net, ForeignNetwork) and _convolves(recipe, member.params, x):
        return Plan(1, rows)
    fit = target // max(1, working_bytes(recipe, member.params, x, y, rows))
    if not on_cpu():
        return Plan(max(1, min(members, fit)), rows)
    return Plan(1 if fit < 2 else 2 if fit < _TINY else 4, rows)  # more only help where networks are tiny


def working_bytes(recipe: Recipe, params: Params, x: Shaped, y: Shaped, rows: int) -> int:
    """Bytes that one member's gradient of `rows` rows takes, apart from its parameters and optimiser state."""
    batch = replace(recipe, batches=Batches(rows, rows, rows, shuffle=False))
    shapes = (jax.ShapeDtypeStruct((rows, *a.shape[1:]), a.dtype) for a in (x, y))

    def gradient(params: Params, x: jax.Array, y: jax.Array) -> Tree:
        if recipe.batchwise:
            return batch_gradient(recipe, params, None, x, y, jax.random.key(0))
        return loss_and_gradient(batch, params, Own(), None, x, y)

    return peak_bytes(gradient, params, *shapes)


def _convolves(recipe: Recipe, params: Params, x: Shaped) -> bool:
    """Whether the network has convolutions of XLA's, which take longer on a CPU for members at once than in turn."""
    some = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
    return "conv_general_dilated" in str(jax.make_jaxpr(recipe.net.apply)(params, some))


def _rows_at_once(recipe: Recipe, params: Params, x: Shaped, y: Shaped, target: int) -> int:
    """All rows of a batch, or so few that one member's gradient takes `target` bytes or is mostly parameters."""
    rows = recipe.batches.batch_size
    least = max(target, 4 * tree_bytes(params))
    while rows > _FEWEST_ROWS and working_bytes(recipe, params, x, y, rows) > least:
        rows = -(-rows // 2)
    return rows


def on_cpu() -> bool:
    """Whether JAX computes on the CPU."""
    return jax.default_backend() == "cpu"


def worker_count() -> int:
    """Threads that compute at a time: the cores that this process may use, or 1 where a device does the work."""
    if not on_cpu():
        return 1
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # a platform that does not tell
        return os.cpu_count() or 1


def device_bytes() -> int:
    """Memory of the device that computes, where it is not the CPU."""
    statistics = jax.local_devices()[0].memory_stats() or {}
    return int(statistics.get("bytes_limit", 8 * 2**30))


def check_room(task: str, needed: int, limit: int | None, remedy: str) -> None:
    """Raise MemoryLimitError if `needed` bytes exceed `limit` (None: what the host or the device has to offer)."""
    if limit is None and not on_cpu():
        limit = device_bytes()
    check_memory(task, needed, limit, remedy)


class Workers:
    """A pool of threads; JAX releases the interpreter's lock while it computes."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(worker_count())

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def map(self, fn: Callable[[Any], Any], items: Sequence[Any], *, first_alone: bool = False) -> list[Any]:
        """[fn(item) for item in items], in order. An interrupt is raised only when all of them are done.

        `first_alone`: the others wait for the first, so that what it compiles is compiled once.
        """
        count = 1 if first_alone else len(items)
        done = self._map(fn, items[:count])
        return done + self._map(fn, items[count:])

    def _map(self, fn: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        futures: list[Future[Any]] = []
        try:
            futures.extend(self._pool.submit(fn, item) for item in items)
            wait(futures)
        finally:  # after an interrupt, too
            wait(futures)
        return [future.result() for future in futures]


def peak_bytes(fn: Callable[..., Any], *args: Any) -> int:
    """Bytes alive at once in `fn(*args)`, without its arguments; `args` may be jax.ShapeDtypeStruct.

    >>> import jax, jax.numpy as jnp
    >>> x = jax.ShapeDtypeStruct((1000,), jnp.float32)
    >>> peak_bytes(lambda x: jnp.sin(jnp.cos(x)), x)
    8000
    """
    return _peak(jax.make_jaxpr(fn)(*args).jaxpr)


def tree_bytes(tree: Tree) -> int:
    """Bytes of all arrays (or shapes) in a pytree."""
    return sum(_bytes(leaf) for leaf in jax.tree.leaves(tree))


def _peak(jaxpr: Any) -> int:
    last_read: dict[Any, int] = {}
    for i, equation in enumerate(jaxpr.eqns):
        for v in equation.invars:
            if _is_variable(v):
                last_read[v] = i
    for v in jaxpr.outvars:
        if _is_variable(v):
            last_read[v] = len(jaxpr.eqns)
    alive: dict[Any, int] = {}
    live = peak = 0
    for i, equation in enumerate(jaxpr.eqns):
        inside = max((_peak(sub) for sub in _sub_jaxprs(equation.params)), default=0)
        made = sum(_bytes(v.aval) for v in equation.outvars)
        peak = max(peak, live + max(made, inside))
        for v in equation.outvars:
            if v in last_read:
                alive[v] = _bytes(v.aval)
                live += alive[v]
        for v in {v for v in equation.invars if _is_variable(v)}:
            if last_read[v] == i and v in alive:
                live -= alive.pop(v)
    return peak


def _is_variable(v: Any) -> bool:
    return not hasattr(v, "val")  # a literal has a value


def _sub_jaxprs(params: dict[str, Any]) -> list[Any]:
    found = []
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            item = getattr(item, "jaxpr", item)
            if hasattr(item, "eqns"):
                found.append(item)
    return found


def _bytes(aval: Any) -> int:
    shape, dtype = getattr(aval, "shape", ()), getattr(aval, "dtype", None)
    return math.prod(shape) * getattr(dtype, "itemsize", 4)
