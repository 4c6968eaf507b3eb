"""Members trained by JAX: networks of one architecture, mapped with `vmap`, chunk by chunk in threads.

Trained members compute f_i(x) − b_i(x), with a baseline b_i if the members' variation has one.

Chunk k always holds members kc, …, kc + c − 1, including unwanted ones: each member is trained at one place of one
program, so that its bits do not depend on the number of members. On a CPU a chunk's working memory should fit in a
core's cache, and every core has its own chunks: large networks one per chunk, small ones two or four. On a GPU larger
chunks are faster, up to its memory.

Working memory of a JAX function is computed from its jaxpr, without compiling or allocating: a value lives from the
equation that makes it to the last that reads it, and the peak is that of the sum over the program. XLA fuses and
reuses more, so that this is an upper estimate.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.extend.core import ClosedJaxpr, Jaxpr

from equitangents import precision
from equitangents._aliases import FiniteNetwork
from equitangents._types import ArrayLike, InputShape, Params, Tree
from equitangents.ensembles.networks import ForeignNetwork, is_batchwise
from equitangents.ensembles.training.recipe import (
    Batches,
    Members,
    Own,
    Recipe,
    batch_gradient,
    flat,
    init_members,
    loss_and_gradient,
    member_shapes,
    rule_of,
    run_epochs,
)
from equitangents.ensembles.training.run import Augmented, Job, array_digest, resolve_batch_size
from equitangents.ensembles.training.variations import PLAIN, Variation, variation_key
from equitangents.errors import InvalidTypeError, NetworkError
from equitangents.memory import check_memory
from equitangents.nn.compiled_windows import compiled_windows

Shaped = np.ndarray | jax.Array | jax.ShapeDtypeStruct
CACHE_BYTES = 2 * 2**20
"""Working memory that a core keeps close."""
_FEWEST_TRAINED, _FEWEST_EVALUATED = 8, 16  # rows at once
_TINY = 64  # that many in the cache
_DEVICE_BYTES = 2**30
_ROWS = 1024  # evaluated by all members before the next
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class Workers:
    """A pool of threads; JAX releases the interpreter's lock during computation."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(worker_count())

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def map(self, fn: Callable[[Any], Any], items: Sequence[Any], *, first_alone: bool = False) -> list[Any]:
        """[fn(item) for item in items], in order. An interrupt is raised only after all of them are done.

        `first_alone`: the others wait for the first, so that functions are compiled only once.
        """
        found: list[Any] = []
        for some in (items[:1], items[1:]) if first_alone else (items,):
            futures: list[Future[Any]] = []
            try:
                futures.extend(self._pool.submit(fn, item) for item in some)
                wait(futures)
            finally:  # after an interrupt, too
                wait(futures)
            found += [future.result() for future in futures]
        return found


@dataclass(frozen=True)
class NetworkJob(Job):
    """A JAX training job: members trained by a `Recipe` on x, y (augmented), `rows` of a batch at once.

    `copies`: number of transformed copies of each sample in x and y, the slowest index.
    """

    x: np.ndarray
    y: np.ndarray
    copies: int = 1

    in_pieces = False
    workers = Workers

    def groups(self) -> list[range]:
        """The members of every chunk: kc, …, kc + c − 1 for chunk k, including unwanted ones."""
        begins = range(self.first // self.chunk * self.chunk, self.first + self.members, self.chunk)
        return [range(begin, begin + self.chunk) for begin in begins]

    def begin(self, ids: range) -> NetworkChunk:
        """A chunk of these members, before training."""
        return NetworkChunk(self, ids)

    @cached_property
    def arrays(self) -> tuple[jax.Array, jax.Array]:
        """x and y on the device."""
        with precision.scope(self.dtype):
            return jnp.asarray(self.x, self.dtype), jnp.asarray(self.y, self.dtype)


def job_of(estimator: Any, data: Augmented, first: int, members: int) -> NetworkJob:
    """Untrained members `first` to `first + members − 1` of an estimator on augmented data, checked.

    Raises InvalidTypeError if `variation` is none, NetworkError if outputs do not match the targets, MemoryLimitError.
    """
    p, x, y, dtype = estimator, data.x, data.y, estimator.dtype
    net, loss, input_shape, outputs = p._network, p._loss, data.x.shape[1:], data.targets.shape[1:]
    size = resolve_batch_size(p.optimizer, p.batch_size, data.samples)
    variation = PLAIN
    if p.variation is not None:
        variation = p.variation
        if not isinstance(variation, Variation):
            expected = "None, or ZeroOutput(), Bootstrap(), NTKPosterior() or NNGPPosterior() of equitangents.ensembles"
            raise InvalidTypeError("variation", variation, expected)
        variation.check(net, loss)
    batches = Batches(data.samples, size, size, data.copies, size < data.samples)
    batchwise = isinstance(net, ForeignNetwork) and is_batchwise(net, input_shape, dtype)
    classes = outputs[-1] if len(outputs) > 1 else None
    named = isinstance(p.optimizer, str)
    rule = rule_of(p.optimizer, float(p.learning_rate), float(p.momentum)) if named else p.optimizer
    recipe = Recipe(net, loss, rule, batches, variation, batchwise, classes)
    with precision.scope(dtype):
        shapes = member_shapes(recipe, input_shape, dtype)
        _check_outputs(net, shapes.params, jax.ShapeDtypeStruct((1, *input_shape), dtype), outputs)
        plan = make_plan(recipe, shapes, x, y, members, p.members_per_chunk)
        copies = len(x) // len(data.targets)
        job = NetworkJob(recipe, first, members, int(p.seed), dtype, *plan, x, y, copies)
        check_room(f"training {members} members", _bytes(job, shapes), p.memory_limit, "train fewer, then extend")
    settings = {
        "seed": job.seed,
        "variation": repr(variation),
        "loss": loss,
        "batch size": size,
        "augmentation_mode": p.augmentation_mode if p.augmentation is not None else None,
    }
    fingerprint = {
        "JAX": jax.__version__,
        **{name: json.dumps(value) for name, value in settings.items()},
        "network, optimizer or their settings": _program_digest(job, shapes),
        "X (after augmentation)": array_digest(x),
        "y (after augmentation)": array_digest(y),
    }
    return replace(job, fingerprint=fingerprint)


def _check_outputs(net: FiniteNetwork, params: Params, x: jax.ShapeDtypeStruct, wanted: tuple[int, ...]) -> None:
    shape = jax.eval_shape(net.apply, params, x).shape
    if len(shape) == 2 and len(wanted) == 1 and shape[1] != wanted[0]:
        remedy = "end it with Dense of as many outputs or classes as y has"
        raise NetworkError("net", shape[1], wanted[0], remedy, verb="gives outputs,")
    if shape[1:] != wanted:
        remedy = "end it on the positions of y, or with Flatten or a pool and Dense"
        raise NetworkError("net", shape, (*shape[:1], *wanted), remedy, verb="gives outputs of shape")


def planned_job(
    net: FiniteNetwork,
    rule: optax.GradientTransformation,
    x: np.ndarray,
    y: np.ndarray,
    *,
    batch_size: int,
    members: int,
    seed: int,
    dtype: str,
) -> NetworkJob:
    """Members 0 to `members` − 1 trained with an optax optimiser on the mean squared error.

    x (N, …), y (N, outputs); batches are shuffled in every epoch, unless one holds all samples.
    """
    size = min(batch_size, len(x))
    recipe = Recipe(net, "mse", rule, Batches(len(x), size, size, shuffle=size < len(x)))
    with precision.scope(dtype):
        plan = make_plan(recipe, member_shapes(recipe, x.shape[1:], dtype), x, y, 1, None)
    return NetworkJob(recipe, 0, members, seed, dtype, *plan, x.astype(dtype), y.astype(dtype))


def make_plan(
    recipe: Recipe, member: Members, x: Shaped, y: Shaped, members: int, members_per_chunk: int | None
) -> tuple[int, int]:
    """(members per call, the maximum number of rows at once) for members of shapes `member` on data x, y.

    On a CPU it depends neither on `members` nor on the number of cores.
    """
    params, rows = member.params, recipe.batches.batch_size
    target = CACHE_BYTES if on_cpu() else device_bytes() // 8
    if not recipe.batchwise:  # so few that one member's gradient takes `target` bytes twice or is mostly parameters
        least = max(2 * target, 4 * tree_bytes(params))
        while rows > _FEWEST_TRAINED and working_bytes(recipe, params, x, y, rows) > least:
            rows = -(-rows // 2)
    if members_per_chunk is not None:
        return members_per_chunk, rows
    if on_cpu() and isinstance(recipe.net, ForeignNetwork):
        some = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
        if "conv_general_dilated" in str(jax.make_jaxpr(recipe.net.apply)(params, some)):
            return 1, rows  # XLA's convolutions take longer on a CPU for all members at once than one by one
    fit = target // max(1, working_bytes(recipe, params, x, y, rows))
    if not on_cpu():
        return max(1, min(members, fit)), rows
    return 1 if fit < 2 else 2 if fit < _TINY else 4, rows  # more only help where networks are tiny


def working_bytes(recipe: Recipe, params: Params, x: Shaped, y: Shaped, rows: int) -> int:
    """Bytes for one member's gradient on `rows` rows, in addition to its parameters and optimiser state."""
    batch = replace(recipe, batches=Batches(rows, rows, rows, shuffle=False))
    shapes = (jax.ShapeDtypeStruct((rows, *a.shape[1:]), a.dtype) for a in (x, y))

    def gradient(params: Params, x: jax.Array, y: jax.Array) -> Tree:
        if recipe.batchwise:
            return batch_gradient(recipe, params, None, x, y, jax.random.key(0))
        return loss_and_gradient(batch, params, Own(), None, x, y)

    return peak_bytes(gradient, params, *shapes)


def _bytes(job: NetworkJob, shapes: Members) -> int:
    """Bytes of the data, of all members' parameters and optimiser states, twice, and of working memory."""
    params = tree_bytes(shapes.params)
    each = 2 * (params + tree_bytes(shapes.optimizer_state))
    if job.recipe.variation.has_baseline:
        each += 4 * params + job.y.nbytes
    members = -(-job.members // job.chunk) * job.chunk
    at_once = min(members, job.chunk * worker_count())
    return job.x.nbytes + members * each + at_once * working_bytes(job.recipe, shapes.params, job.x, job.y, job.rows)


def on_cpu() -> bool:
    """Whether JAX computes on the CPU."""
    return jax.default_backend() == "cpu"


def worker_count() -> int:
    """Number of threads that compute: the cores available to this process, or 1 with an accelerator."""
    if not on_cpu():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def device_bytes() -> int:
    """Memory of the computing device, if it is not the CPU."""
    statistics = jax.local_devices()[0].memory_stats() or {}
    return int(statistics.get("bytes_limit", 8 * 2**30))


def check_room(task: str, needed: int, limit: int | None, remedy: str) -> None:
    """Raise MemoryLimitError if `needed` bytes exceed `limit` (None: the memory of the host or the device)."""
    if limit is None and not on_cpu():
        limit = device_bytes()
    check_memory(task, needed, limit, remedy)


def tree_bytes(tree: Tree) -> int:
    """Total bytes of all arrays (or shapes) in a pytree."""
    return sum(_size(leaf) for leaf in jax.tree.leaves(tree))


def peak_bytes(fn: Callable[..., Any], *args: Any) -> int:
    """Peak bytes alive in `fn(*args)`, without its arguments; `args` may be jax.ShapeDtypeStruct.

    >>> import jax, jax.numpy as jnp
    >>> x = jax.ShapeDtypeStruct((1000,), jnp.float32)
    >>> peak_bytes(lambda x: jnp.sin(jnp.cos(x)), x)
    8000
    """
    return _peak(jax.make_jaxpr(fn)(*args))


def _peak(program: ClosedJaxpr | Jaxpr) -> int:
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    reads = [*(equation.invars for equation in jaxpr.eqns), jaxpr.outvars]
    last = {v: i for i, read in enumerate(reads) for v in read if not hasattr(v, "val")}  # literals have a value
    change, needed = np.zeros(len(reads) + 1, np.int64), []
    for i, equation in enumerate(jaxpr.eqns):
        needed.append(max([sum(_size(v.aval) for v in equation.outvars), *map(_peak, _programs(equation))]))
        for v in equation.outvars:
            if v in last:
                change[i + 1] += _size(v.aval)
                change[last[v] + 1] -= _size(v.aval)
    return int((np.cumsum(change)[: len(needed)] + needed).max(initial=0))


def _programs(equation: Any) -> list[ClosedJaxpr | Jaxpr]:
    """The jaxprs inside an equation."""
    is_program = lambda value: isinstance(value, ClosedJaxpr | Jaxpr)
    return list(filter(is_program, jax.tree.leaves(list(equation.params.values()), is_leaf=is_program)))


def _size(aval: Any) -> int:
    shape, dtype = getattr(aval, "shape", ()), getattr(aval, "dtype", None)
    return math.prod(shape) * getattr(dtype, "itemsize", 4)


def _program_digest(job: NetworkJob, shapes: Members) -> str:
    """A digest of the arithmetic of training: network, loss, optimiser and batches, with all their constants."""
    with precision.scope(job.dtype):
        one = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype), shapes)
        data = (jax.ShapeDtypeStruct(a.shape, job.dtype) for a in (job.x, job.y))
        step = lambda members, x, y: run_epochs(job.recipe, members, Own(), x, y, np.int32(0), np.int32(1))
        program = jax.make_jaxpr(step)(one, *data)
    text = _ADDRESS.sub("", str(program))
    return hashlib.sha256((text + array_digest(*_constants(program))).encode()).hexdigest()[:16]


def _constants(program: ClosedJaxpr | Jaxpr) -> Iterator[ArrayLike]:
    """The constants of a jaxpr and of the jaxprs inside it, which its text omits."""
    for constant in program.consts if isinstance(program, ClosedJaxpr) else ():
        is_key = jax.dtypes.issubdtype(constant.dtype, jax.dtypes.prng_key)
        yield jax.random.key_data(constant) if is_key else constant
    for inner in (inner for step in program.eqns for inner in _programs(step)):
        yield from _constants(inner)


class NetworkChunk:
    """Members trained in one call."""

    def __init__(self, job: NetworkJob, ids: range) -> None:
        recipe = job.recipe
        self._job, self._own = job, Own()
        self.start: Tree = None
        self._recipe = replace(recipe, batches=replace(recipe.batches, rows=job.rows))
        with precision.scope(job.dtype):  # the scope belongs to a thread
            self._members = init_members(recipe, job.x.shape[1:], job.dtype, job.seed, ids)
            if recipe.variation != PLAIN:
                self._vary([variation_key(job.seed, i) for i in ids])

    def _vary(self, keys: Sequence[jax.Array]) -> None:
        """Draw the members' individual data."""
        job, variation, net = self._job, self._job.recipe.variation, self._job.recipe.net
        one = lambda k: jax.tree.map(lambda a: a[k], self._members.params)
        starts = [_start(variation, net, job.x.shape[1:], job.dtype, key, one(k)) for k, key in enumerate(keys)]
        self.start = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
        offsets: np.ndarray | None = None
        if variation.has_baseline:
            size = _rows_at_once(net, len(keys), job.x, job.dtype)
            offsets = _evaluated(partial(_baselines, net, variation, self.start), job.x, job.dtype, size)
        disturbances = [d for key in keys if (d := variation.disturbance(key, job.y.shape, job.dtype)) is not None]
        if disturbances:
            offsets = np.stack(disturbances) + (0 if offsets is None else offsets)
        samples = len(job.x) // job.copies
        rows = [r for key in keys if (r := variation.rows(key, samples, job.copies)) is not None]
        self._own = Own(
            None if offsets is None else jnp.asarray(offsets, job.dtype),
            jnp.asarray(np.stack(rows)) if rows else None,
        )

    def restore(self, params: Sequence[ArrayLike], state: Sequence[ArrayLike]) -> None:
        """Continue from these leaves of parameters and of optimiser states."""
        fresh = self._members
        filled = lambda tree, leaves: jax.tree.unflatten(jax.tree.structure(tree), [jnp.array(leaf) for leaf in leaves])
        with precision.scope(self._job.dtype):
            self._members = Members(fresh.keys, filled(fresh.params, params), filled(fresh.optimizer_state, state))

    def advance(self, first: int, count: int) -> np.ndarray:
        """Train for the epochs first, …, first + count − 1; losses (count, members)."""
        with precision.scope(self._job.dtype):
            epochs = np.int32(first), np.int32(count)
            self._members, losses = run_epochs(self._recipe, self._members, self._own, *self._job.arrays, *epochs)
            return np.array(losses)[:count]

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Outputs (members, N, outputs)."""
        recipe = self._job.recipe
        return member_outputs(recipe.net, self._members.params, x, self._job.dtype, recipe.variation, self.start)

    def params(self) -> Params:
        """Parameters stacked over members."""
        return self._members.params

    def state(self) -> list[jax.Array]:
        """The rest of the members' state: leaves of the optimisers' states, stacked over members."""
        return jax.tree.leaves(self._members.optimizer_state)


@partial(jax.jit, static_argnames=("variation", "net", "input_shape", "dtype"))
def _start(
    variation: Variation, net: FiniteNetwork, input_shape: InputShape, dtype: str, key: jax.Array, params: Params
) -> Tree:
    return variation.start(key, net, params, input_shape, dtype)


def ensemble_outputs(estimator: Any, x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield outputs of all members of a fitted estimator for successive blocks of rows.

    Uses the chunks of training, so that a member's outputs do not depend on the number of members either.
    """
    chunk, count, net = estimator._chunk, estimator.history_.shape[1], estimator._network
    size = _rows_at_once(net, chunk, x, estimator.dtype)
    step = -(-_ROWS // size) * size

    def part(begin: int, rows: np.ndarray) -> np.ndarray:
        some = lambda tree: jax.tree.map(lambda a: _filled_up(a[begin : begin + chunk], chunk), tree)
        params, start = some(estimator.params_), some(estimator.params0_)
        return member_outputs(net, params, rows, estimator.dtype, estimator._variation, start, size)

    with Workers() as workers:
        for first in range(0, len(x), step):
            rows = x[first : first + step]
            parts = workers.map(partial(part, rows=rows), range(0, count, chunk), first_alone=first == 0)
            yield np.concatenate(parts)[:count]


def member_outputs(
    net: FiniteNetwork,
    params: Params,
    x: np.ndarray,
    dtype: str,
    variation: Variation = PLAIN,
    start: Tree = None,
    size: int | None = None,
) -> np.ndarray:
    """Outputs (members, N, outputs) of stacked members, `size` rows of x at a time; None: a size within memory bounds.

    `start`: the parameters of their baselines, if the variation has one.
    """
    if size is None:
        size = _rows_at_once(net, len(jax.tree.leaves(params)[0]), x, dtype)
    with precision.scope(dtype):
        params = jax.tree.map(jnp.asarray, params)
    return _evaluated(partial(_outputs, net, variation, params, start), x, dtype, size)


@partial(jax.jit, static_argnames=("net", "variation"))
def _outputs(net: FiniteNetwork, variation: Variation, params: Params, start: Tree, x: jax.Array) -> jax.Array:
    """Outputs (members, N, outputs) of stacked members, minus their baselines; for fields all values in a row."""

    def one(params: Params, start: Tree) -> jax.Array:
        with compiled_windows():
            y = flat(net.apply(params, x))
        return y - flat(variation.baseline(net, start, x)) if variation.has_baseline else y

    return jax.vmap(one)(params, start)


@partial(jax.jit, static_argnames=("net", "variation"))
def _baselines(net: FiniteNetwork, variation: Variation, start: Tree, x: jax.Array) -> jax.Array:
    """The baselines of stacked members, (members, N, outputs), to be subtracted from outputs."""
    return jax.vmap(lambda start: flat(variation.baseline(net, start, x)))(start)


def _evaluated(fn: Callable[[jax.Array], jax.Array], x: np.ndarray, dtype: str, size: int) -> np.ndarray:
    """fn on all of x, `size` rows at a time: (members, N, outputs).

    All blocks have one shape, so that they share one compiled program; the last is padded with copies of its last
    row.
    """
    parts = []
    with precision.scope(dtype):
        for begin in range(0, len(x), size):
            rows = x[begin : begin + size]
            parts.append(np.asarray(fn(jnp.asarray(_filled_up(rows, size), dtype)))[:, : len(rows)])
    return np.concatenate(parts, axis=1)


def _filled_up(a: np.ndarray, length: int) -> np.ndarray:
    """The rows of a, padded with copies of the last to `length`."""
    return a if len(a) == length else np.concatenate([a, np.repeat(a[-1:], length - len(a), axis=0)])


def _rows_at_once(net: FiniteNetwork, members: int, x: np.ndarray, dtype: str) -> int:
    """Number of rows of x that stacked members can evaluate within bounds: in the cache, or on the device."""
    return min(len(x), _rows_within(net, members, x.shape[1:], dtype))


@lru_cache(maxsize=128)
def _rows_within(net: FiniteNetwork, members: int, input_shape: InputShape, dtype: str) -> int:
    target = 2 * CACHE_BYTES if on_cpu() else _DEVICE_BYTES

    def peak(rows: int) -> int:
        x = jax.ShapeDtypeStruct((rows, *input_shape), dtype)
        return peak_bytes(lambda p, x: _outputs(net, PLAIN, p, None, x), params, x)

    with precision.scope(dtype):
        init = lambda key: net.init(key, input_shape, dtype)
        stacked = lambda a: jax.ShapeDtypeStruct((members, *a.shape), a.dtype)
        params = jax.tree.map(stacked, jax.eval_shape(init, jax.random.key(0)))
        each = (peak(2 * _FEWEST_EVALUATED) - peak(_FEWEST_EVALUATED)) // _FEWEST_EVALUATED
    return max(_FEWEST_EVALUATED, target // max(each, 1))
