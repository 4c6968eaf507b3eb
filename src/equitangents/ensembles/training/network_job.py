"""Members that JAX trains: networks of one architecture, mapped over, chunk by chunk in threads.

Trained members give f_i(x) − b_i(x), with a baseline b_i where the members' variation has one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.extend.core import ClosedJaxpr, Jaxpr

from equitangents import precision
from equitangents._protocols import FiniteNetwork
from equitangents._types import ArrayLike, InputShape, Params, Tree
from equitangents.ensembles.training.batches import Batches
from equitangents.ensembles.training.checkpoints import array_digest
from equitangents.ensembles.training.plan import CACHE_BYTES, Workers, make_plan, on_cpu, peak_bytes
from equitangents.ensembles.training.recipe import Members, Own, Recipe, flat, init_members, member_shapes, run_epochs
from equitangents.ensembles.training.run import Job
from equitangents.ensembles.training.variations import PLAIN, Variation, variation_key
from equitangents.nn.compiled_windows import compiled_windows

Shapes = tuple[tuple[tuple[int, ...], str], ...]
_FEWEST_ROWS = 16
_DEVICE_BYTES = 2**30
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
    copies: int = 1

    stacks_state = True
    in_pieces = False

    @property
    def has_baseline(self) -> bool:
        """Whether something is subtracted from a member's outputs."""
        return self.recipe.variation.has_baseline

    @property
    def numbers(self) -> int:
        """How many numbers the outputs at an input are."""
        return int(self.y.shape[1])

    def groups(self, chunk: int) -> list[range]:
        """Chunk k is always members kc, …, kc + c − 1, whether all of them are wanted or not."""
        begins = range(self.first // chunk * chunk, self.first + self.members, chunk)
        return [range(begin, begin + chunk) for begin in begins]

    def workers(self) -> Workers:
        """Threads that train and evaluate chunks."""
        return Workers()

    def beginner(self) -> Callable[[range], NetworkChunk]:
        """A function that makes the chunk of some members, before training."""
        with precision.scope(self.dtype):
            x, y = jnp.asarray(self.x, self.dtype), jnp.asarray(self.y, self.dtype)
        return lambda ids: NetworkChunk(self, ids, x, y)

    @property
    def input_shape(self) -> InputShape:
        """The shape of one sample, without the batch axis."""
        return tuple(self.x.shape[1:])

    def in_blocks(self, rows: int) -> NetworkJob:
        """This job, computing at most `rows` rows of a batch at once."""
        recipe = replace(self.recipe, batches=replace(self.recipe.batches, rows=rows))
        return replace(self, recipe=recipe)

    def member_shapes(self) -> Members:
        """Shapes of one member's parameters and optimiser state."""
        return member_shapes(self.recipe, self.input_shape, self.dtype)

    def init(self, ids: Sequence[int]) -> Members:
        """The members `ids` before training."""
        return init_members(self.recipe, self.input_shape, self.dtype, self.seed, ids)

    def start(self, ids: Sequence[int], params: Params) -> Tree:
        """What the baselines of the members `ids` depend on, stacked, given their stacked initial parameters."""
        variation, net = self.recipe.variation, self.recipe.net
        member = lambda k: jax.tree.map(lambda a: a[k], params)
        starts = [
            _start_member(variation, net, self.input_shape, self.dtype, variation_key(self.seed, i), member(k))
            for k, i in enumerate(ids)
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)

    def own(self, ids: Sequence[int], params: Params, start: Tree) -> Own:
        """What the members `ids` have of their own in training, given initial parameters and what baselines need."""
        variation, net = self.recipe.variation, self.recipe.net
        keys = [variation_key(self.seed, i) for i in ids]
        offsets: np.ndarray | None = None
        if variation.has_baseline:
            size = rows_at_once(net, params, self.x, self.dtype)
            offsets = evaluate(partial(baselines, net, variation, start), self.x, self.dtype, size)
        disturbances = [d for key in keys if (d := variation.disturbance(key, self.y.shape, self.dtype)) is not None]
        if disturbances:
            offsets = np.stack(disturbances) + (0 if offsets is None else offsets)
        samples = len(self.x) // self.copies
        rows = [r for key in keys if (r := variation.rows(key, samples, self.copies)) is not None]
        return Own(
            None if offsets is None else jnp.asarray(offsets, self.dtype),
            jnp.asarray(np.stack(rows)) if rows else None,
        )


def program_digest(job: NetworkJob) -> str:
    """A digest of the arithmetic of training: network, loss, optimiser and batches, with all their constants."""
    with precision.scope(job.dtype):
        one = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype), job.member_shapes())
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


def job_fingerprint(job: NetworkJob, settings: dict[str, Any]) -> dict[str, str]:
    """What the run depends on, by name: settings as they are, the rest as digests."""
    return {
        "JAX": jax.__version__,
        **{name: json.dumps(value) for name, value in settings.items()},
        "network, optimizer or their settings": program_digest(job),
        "X (after augmentation)": array_digest(job.x),
        "y (after augmentation)": array_digest(job.y),
    }


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
) -> tuple[NetworkJob, int]:
    """Members 0 to `members` − 1 trained by an optimiser of optax on the mean square, and how many share a call.

    x (N, …), y (N, outputs); in batches that are shuffled in every epoch, unless one holds all.
    """
    size = min(batch_size, len(x))
    recipe = Recipe(net, "mse", rule, 1.0, 0.0, Batches(len(x), size, size, shuffle=size < len(x)))
    job = NetworkJob(recipe, x.astype(dtype), y.astype(dtype), 0, members, seed, dtype)
    with precision.scope(dtype):
        plan = make_plan(recipe, job.member_shapes(), x, y, 1, None)
    return job.in_blocks(plan.rows), plan.chunk


@partial(jax.jit, static_argnames=("variation", "net", "input_shape", "dtype"))
def _start_member(
    variation: Variation, net: FiniteNetwork, input_shape: InputShape, dtype: str, key: jax.Array, params: Params
) -> Tree:
    return variation.start(key, net, params, input_shape, dtype)


class NetworkChunk:
    """Members that share a call."""

    def __init__(self, job: NetworkJob, ids: range, x: jax.Array, y: jax.Array) -> None:
        self._job, self._data = job, (x, y)
        with precision.scope(job.dtype):  # the scope belongs to a thread
            self._state = job.init(ids)
            self.start = job.start(ids, self._state.params)
            self._own = job.own(ids, self._state.params, self.start)

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
                self._job.recipe,
                state.keys,
                state.params,
                state.optimizer_state,
                self._own,
                *self._data,
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
