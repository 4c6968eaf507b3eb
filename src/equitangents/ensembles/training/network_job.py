"""Members that JAX trains: networks of one architecture, mapped over, chunk by chunk in threads.

Trained members give f_i(x) − b_i(x), with a baseline b_i where the members' variation has one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from equitangents.ensembles.networks import as_network, is_batchwise
from equitangents.ensembles.training.plan import (
    CACHE_BYTES,
    Plan,
    Workers,
    check_room,
    make_plan,
    on_cpu,
    peak_bytes,
    tree_bytes,
    worker_count,
    working_bytes,
)
from equitangents.ensembles.training.recipe import (
    Batches,
    Members,
    Own,
    Recipe,
    flat,
    init_members,
    member_shapes,
    run_epochs,
)
from equitangents.ensembles.training.run import Job
from equitangents.ensembles.training.settings import Augmented, array_digest, resolve_batch_size, variation_of
from equitangents.ensembles.training.variations import PLAIN, Variation, variation_key
from equitangents.errors import NetworkError
from equitangents.nn.compiled_windows import compiled_windows

Shapes = tuple[tuple[tuple[int, ...], str], ...]
_FEWEST_ROWS = 16
_DEVICE_BYTES = 2**30
_ROWS = 1024  # evaluated by all members before the next
_ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True)
class NetworkJob(Job):
    """What a run computes by JAX: members `first` to `first + members − 1`, trained by `recipe` on x, y (augmented).

    `copies` is how many transformed copies of each sample x and y hold, running slowest.
    """

    recipe: Recipe
    x: np.ndarray
    y: np.ndarray
    first: int
    members: int
    seed: int
    dtype: str
    plan: Plan
    copies: int = 1
    fingerprint: dict[str, str] = field(default_factory=dict)

    stacks_state = True
    in_pieces = False
    workers = Workers

    def groups(self) -> list[range]:
        """Chunk k is always members kc, …, kc + c − 1, whether all of them are wanted or not."""
        chunk = self.plan.chunk
        begins = range(self.first // chunk * chunk, self.first + self.members, chunk)
        return [range(begin, begin + chunk) for begin in begins]

    def begin(self, ids: range) -> NetworkChunk:
        """The chunk of some members, before training."""
        return NetworkChunk(self, ids)

    @cached_property
    def arrays(self) -> tuple[jax.Array, jax.Array]:
        """x and y on the device."""
        with precision.scope(self.dtype):
            return jnp.asarray(self.x, self.dtype), jnp.asarray(self.y, self.dtype)

    @property
    def input_shape(self) -> InputShape:
        """The shape of one sample, without the batch axis."""
        return tuple(self.x.shape[1:])


def job_of(estimator: Any, data: Augmented, first: int, members: int) -> NetworkJob:
    """Members `first` to `first + members − 1` of an estimator on augmented data, all checked; nothing is trained.

    Raises NetworkError where the outputs are not those of the targets, MemoryLimitError.
    """
    recipe, x, y, dtype = _recipe(estimator, data), data.x, data.y, estimator.dtype
    with precision.scope(dtype):
        shapes = member_shapes(recipe, x.shape[1:], dtype)
        _check_outputs(recipe, shapes.params, jax.ShapeDtypeStruct((1, *x.shape[1:]), dtype), data.targets.shape[1:])
        plan = make_plan(recipe, shapes, x, y, members, estimator.members_per_chunk)
        job = NetworkJob(recipe, x, y, first, members, int(estimator.seed), dtype, plan, data.transformed)
        remedy = "train fewer, then extend"
        check_room(f"training {members} members", _bytes(job, shapes), estimator.memory_limit, remedy)
    settings = {
        "seed": job.seed,
        "variation": repr(recipe.variation),
        "loss": recipe.loss,
        "batch size": recipe.batches.batch_size,
        "augmentation_mode": estimator.augmentation_mode if estimator.augmentation is not None else None,
    }
    fingerprint = {
        "JAX": jax.__version__,
        **{name: json.dumps(value) for name, value in settings.items()},
        "network, optimizer or their settings": program_digest(job),
        "X (after augmentation)": array_digest(job.x),
        "y (after augmentation)": array_digest(job.y),
    }
    return replace(job, fingerprint=fingerprint)


def _recipe(estimator: Any, data: Augmented) -> Recipe:
    """How every member is trained: what does not differ between members."""
    net, loss, targets, input_shape = as_network(estimator.net), estimator._loss, data.targets, data.x.shape[1:]
    batch_size = resolve_batch_size(estimator.optimizer, estimator.batch_size, data.samples)
    variation = variation_of(estimator)
    variation.check(net, loss)
    shuffle = batch_size < data.samples
    batches = Batches(data.samples, batch_size, batch_size, data.copies, shuffle, variation.gathers)
    classes = targets.shape[-1] if targets.ndim > 2 else None
    batchwise = is_batchwise(net, input_shape, estimator.dtype)
    rate, momentum = float(estimator.learning_rate), float(estimator.momentum)
    return Recipe(net, loss, estimator.optimizer, rate, momentum, batches, variation, batchwise, classes)


def _check_outputs(recipe: Recipe, params: Params, x: jax.ShapeDtypeStruct, wanted: tuple[int, ...]) -> None:
    shape = jax.eval_shape(recipe.net.apply, params, x).shape
    if len(shape) == 2 and len(wanted) == 1 and shape[1] != wanted[0]:
        remedy = "end it with Dense of as many outputs or classes as y has"
        raise NetworkError("net", shape[1], wanted[0], remedy, verb="gives outputs,")
    if shape[1:] != wanted:
        remedy = "end it on the positions of y, or with Flatten or a pool and Dense"
        raise NetworkError("net", shape, (*shape[:1], *wanted), remedy, verb="gives outputs of shape")


def _bytes(job: NetworkJob, shapes: Members) -> int:
    """Bytes of data, of all members' parameters and optimiser states and a copy of them, and of what is at work."""
    params = tree_bytes(shapes.params)
    each = 2 * (params + tree_bytes(shapes.optimizer_state))
    if job.recipe.variation.has_baseline:
        each += 4 * params + job.y.nbytes
    chunk = job.plan.chunk
    members = -(-job.members // chunk) * chunk
    at_once = min(members, chunk * worker_count())
    working = working_bytes(job.recipe, shapes.params, job.x, job.y, job.plan.rows)
    return job.x.nbytes + members * each + at_once * working


def program_digest(job: NetworkJob) -> str:
    """A digest of the arithmetic of training: network, loss, optimiser and batches, with all their constants."""
    with precision.scope(job.dtype):
        shapes = member_shapes(job.recipe, job.input_shape, job.dtype)
        one = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype), shapes)
        data = (jax.ShapeDtypeStruct(a.shape, job.dtype) for a in (job.x, job.y))
        step = lambda members, x, y: run_epochs(job.recipe, *members, Own(), x, y, np.int32(0), np.int32(1))
        program = jax.make_jaxpr(step)(one, *data)
    text = _ADDRESS.sub("", str(program))
    return hashlib.sha256((text + array_digest(*_constants(program))).encode()).hexdigest()[:16]


def _constants(program: ClosedJaxpr | Jaxpr) -> Iterator[ArrayLike]:
    """The constants of a program and of the programs that its steps hold, which its text leaves out."""
    for constant in program.consts if isinstance(program, ClosedJaxpr) else ():
        is_key = jax.dtypes.issubdtype(constant.dtype, jax.dtypes.prng_key)
        yield jax.random.key_data(constant) if is_key else constant
    is_program = lambda value: isinstance(value, ClosedJaxpr | Jaxpr)
    for step in program.eqns:
        for value in jax.tree.leaves(list(step.params.values()), is_leaf=is_program):
            if is_program(value):
                yield from _constants(value)


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
    """Members 0 to `members` − 1 trained by an optimiser of optax on the mean square.

    x (N, …), y (N, outputs); in batches that are shuffled in every epoch, unless one holds all.
    """
    size = min(batch_size, len(x))
    recipe = Recipe(net, "mse", rule, 1.0, 0.0, Batches(len(x), size, size, shuffle=size < len(x)))
    with precision.scope(dtype):
        plan = make_plan(recipe, member_shapes(recipe, x.shape[1:], dtype), x, y, 1, None)
    return NetworkJob(recipe, x.astype(dtype), y.astype(dtype), 0, members, seed, dtype, plan)


@partial(jax.jit, static_argnames=("variation", "net", "input_shape", "dtype"))
def _start_member(
    variation: Variation, net: FiniteNetwork, input_shape: InputShape, dtype: str, key: jax.Array, params: Params
) -> Tree:
    return variation.start(key, net, params, input_shape, dtype)


def _apart(stacked: Tree, count: int) -> list[Tree]:
    return [jax.tree.map(lambda a, k=k: a[k], stacked) for k in range(count)]


class NetworkChunk:
    """Members that share a call."""

    def __init__(self, job: NetworkJob, ids: range) -> None:
        self._job = job
        # as many rows of a batch at once as the plan says
        self._recipe = replace(job.recipe, batches=replace(job.recipe.batches, rows=job.plan.rows))
        with precision.scope(job.dtype):  # the scope belongs to a thread
            self._state = init_members(job.recipe, job.input_shape, job.dtype, job.seed, ids)
            keys = [variation_key(job.seed, i) for i in ids]
            starts = [
                _start_member(job.recipe.variation, job.recipe.net, job.input_shape, job.dtype, key, params)
                for key, params in zip(keys, _apart(self._state.params, len(ids)), strict=True)
            ]
            self.start: Tree = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
            self._own = self._drawn(keys)

    def _drawn(self, keys: Sequence[jax.Array]) -> Own:
        """What the members have of their own in training."""
        job, variation, net = self._job, self._job.recipe.variation, self._job.recipe.net
        offsets: np.ndarray | None = None
        if variation.has_baseline:
            size = rows_at_once(net, self._state.params, job.x, job.dtype)
            offsets = evaluate(partial(baselines, net, variation, self.start), job.x, job.dtype, size)
        disturbances = [d for key in keys if (d := variation.disturbance(key, job.y.shape, job.dtype)) is not None]
        if disturbances:
            offsets = np.stack(disturbances) + (0 if offsets is None else offsets)
        samples = len(job.x) // job.copies
        rows = [r for key in keys if (r := variation.rows(key, samples, job.copies)) is not None]
        return Own(
            None if offsets is None else jnp.asarray(offsets, job.dtype),
            jnp.asarray(np.stack(rows)) if rows else None,
        )

    def restore(self, params: Sequence[ArrayLike], state: Sequence[ArrayLike]) -> None:
        """Go on from these leaves of parameters and of optimiser states."""
        fresh = self._state
        with precision.scope(self._job.dtype):
            self._state = Members(
                fresh.keys,
                jax.tree.unflatten(jax.tree.structure(fresh.params), [jnp.array(leaf) for leaf in params]),
                jax.tree.unflatten(jax.tree.structure(fresh.optimizer_state), [jnp.array(leaf) for leaf in state]),
            )

    def advance(self, first: int, count: int) -> np.ndarray:
        """Train for the epochs first, …, first + count − 1; losses (count, members)."""
        with precision.scope(self._job.dtype):
            state = self._state
            params, optimizer_state, losses = run_epochs(
                self._recipe,
                state.keys,
                state.params,
                state.optimizer_state,
                self._own,
                *self._job.arrays,
                np.int32(first),
                np.int32(count),
            )
            self._state = Members(state.keys, params, optimizer_state)
            return np.array(losses)[:count]

    def outputs(self, x: np.ndarray) -> np.ndarray:
        """Outputs (members, N, outputs)."""
        recipe = self._job.recipe
        return member_outputs(recipe.net, self._state.params, x, self._job.dtype, recipe.variation, self.start)

    def params(self) -> Params:
        """Parameters stacked over members."""
        return self._state.params

    def state(self) -> list[jax.Array]:
        """What else the members go on from: leaves of the optimisers' states, stacked over members."""
        return jax.tree.leaves(self._state.optimizer_state)


def ensemble_outputs(estimator: Any, x: np.ndarray) -> Iterator[np.ndarray]:
    """Outputs of all members of a fitted estimator for one block of rows after another.

    In the chunks of training: so a member's outputs too do not depend on how many members there are.
    """
    chunk, count, net = estimator._chunk, estimator.history_.shape[1], as_network(estimator.net)
    begins = range(0, count, chunk)
    some = lambda tree, begin: jax.tree.map(lambda a: filled_up(a[begin : begin + chunk], chunk), tree)
    size = rows_at_once(net, some(estimator.params_, 0), x, estimator.dtype)
    step = -(-_ROWS // size) * size

    def part(begin: int, rows: np.ndarray) -> np.ndarray:
        params, start = some(estimator.params_, begin), some(estimator.params0_, begin)
        return evaluate(partial(outputs, net, estimator._variation, params, start), rows, estimator.dtype, size)

    with Workers() as workers:
        for first in range(0, len(x), step):
            rows = x[first : first + step]
            parts = workers.map(partial(part, rows=rows), begins, first_alone=first == 0)
            yield np.concatenate(parts)[:count]


def member_outputs(
    net: FiniteNetwork, params: Params, x: np.ndarray, dtype: str, variation: Variation = PLAIN, start: Tree = None
) -> np.ndarray:
    """Outputs (members, N, outputs) of stacked members, as many rows of x at a time as stay within bounds.

    `start`: what their baselines depend on, where the variation has some.
    """
    with precision.scope(dtype):
        params = jax.tree.map(jnp.asarray, params)
    size = rows_at_once(net, params, x, dtype)
    return evaluate(partial(outputs, net, variation, params, start), x, dtype, size)


@partial(jax.jit, static_argnames=("net", "variation"))
def outputs(net: FiniteNetwork, variation: Variation, params: Params, start: Tree, x: jax.Array) -> jax.Array:
    """Outputs (members, N, outputs) of stacked members, less their baselines; of fields all numbers in a row."""

    def one(params: Params, start: Tree) -> jax.Array:
        with compiled_windows():
            y = flat(net.apply(params, x))
        return y - flat(variation.baseline(net, start, x)) if variation.has_baseline else y

    return jax.vmap(one)(params, start)


@partial(jax.jit, static_argnames=("net", "variation"))
def baselines(net: FiniteNetwork, variation: Variation, start: Tree, x: jax.Array) -> jax.Array:
    """What is subtracted from the outputs of stacked members, (members, N, outputs)."""
    return jax.vmap(lambda start: flat(variation.baseline(net, start, x)))(start)


def evaluate(fn: Callable[[jax.Array], jax.Array], x: np.ndarray, dtype: str, size: int) -> np.ndarray:
    """fn on all of x, `size` rows at a time: (members, N, outputs).

    All blocks have one shape, so that they share one compiled program; the last is filled up with copies of its last
    row.
    """
    parts = []
    with precision.scope(dtype):
        for begin in range(0, len(x), size):
            rows = x[begin : begin + size]
            parts.append(np.asarray(fn(jnp.asarray(filled_up(rows, size), dtype)))[:, : len(rows)])
    return np.concatenate(parts, axis=1)


def filled_up(a: np.ndarray, length: int) -> np.ndarray:
    """The rows of a, and copies of the last up to `length`."""
    return a if len(a) == length else np.concatenate([a, np.repeat(a[-1:], length - len(a), axis=0)])


def rows_at_once(net: FiniteNetwork, params: Params, x: np.ndarray, dtype: str) -> int:
    """Rows of x whose evaluation by stacked members stays within bounds: in the cache, or on the device."""
    leaves, structure = jax.tree.flatten(params)
    shapes = tuple((leaf.shape, np.dtype(leaf.dtype).name) for leaf in leaves)
    return min(len(x), _rows_at_once(net, structure, shapes, x.shape[1:], dtype))


@lru_cache(maxsize=128)
def _rows_at_once(
    net: FiniteNetwork, structure: jax.tree_util.PyTreeDef, shapes: Shapes, input_shape: tuple[int, ...], dtype: str
) -> int:
    target = 2 * CACHE_BYTES if on_cpu() else _DEVICE_BYTES

    def peak(rows: int) -> int:
        x = jax.ShapeDtypeStruct((rows, *input_shape), dtype)
        return peak_bytes(lambda p, x: outputs(net, PLAIN, p, None, x), params, x)

    with precision.scope(dtype):
        params = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*shape) for shape in shapes])
        each = (peak(2 * _FEWEST_ROWS) - peak(_FEWEST_ROWS)) // _FEWEST_ROWS
    return max(_FEWEST_ROWS, target // max(each, 1))
