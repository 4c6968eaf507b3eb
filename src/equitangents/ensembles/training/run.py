"""A training run: chunks of members moved from epoch to epoch together, with what was measured on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equitangents import precision
from equitangents._protocols import FiniteNetwork
from equitangents._types import InputShape, Params
from equitangents.ensembles.training.evaluation import baselines, evaluate, outputs, rows_at_once
from equitangents.ensembles.training.plan import Plan, Workers
from equitangents.ensembles.training.recipe import (
    SEGMENT,
    Members,
    Own,
    Recipe,
    init_members,
    member_shapes,
    run_epochs,
)
from equitangents.ensembles.training.variations import Variation, variation_key


@dataclass(frozen=True)
class Job:
    """What a run computes: members `first` to `first + members − 1`, trained by `recipe` on x, y (augmented).

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

    @property
    def input_shape(self) -> InputShape:
        """The shape of one sample, without the batch axis."""
        return tuple(self.x.shape[1:])

    def in_blocks(self, rows: int) -> Job:
        """The same job, computing at most `rows` rows of a batch at once."""
        recipe = replace(self.recipe, batches=replace(self.recipe.batches, rows=rows))
        return replace(self, recipe=recipe)

    def member_shapes(self) -> Members:
        """Shapes of one member's parameters and optimiser state."""
        return member_shapes(self.recipe, self.input_shape, self.dtype)

    def init(self, ids: Sequence[int]) -> Members:
        """The members `ids` before training."""
        return init_members(self.recipe, self.input_shape, self.dtype, self.seed, ids)

    def start(self, ids: Sequence[int], params: Params) -> Any:
        """What the baselines of the members `ids` depend on, stacked, given their stacked initial parameters."""
        variation, net = self.recipe.variation, self.recipe.net
        starts = [
            _start_member(variation, net, self.input_shape, self.dtype, variation_key(self.seed, i), part)
            for i, part in zip(ids, _unstacked(params, len(ids)), strict=True)
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)

    def own(self, ids: Sequence[int], params: Params, start: Any) -> Own:
        """What the members `ids` have of their own in training, given initial parameters and what baselines need."""
        variation, net = self.recipe.variation, self.recipe.net
        keys = [variation_key(self.seed, i) for i in ids]
        offsets: Any = None
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


@partial(jax.jit, static_argnames=("variation", "net", "input_shape", "dtype"))
def _start_member(
    variation: Variation, net: FiniteNetwork, input_shape: InputShape, dtype: str, key: jax.Array, params: Params
) -> Any:
    return variation.start(key, net, params, input_shape, dtype)


def _unstacked(tree: Any, count: int) -> list[Any]:
    return [jax.tree.map(lambda a, i=i: a[i], tree) for i in range(count)]


@dataclass
class Snapshot:
    """All that a run needs to go on: parameters and optimiser state of all chunks, and what was measured so far."""

    epoch: int
    params: list[np.ndarray]
    optimizer_state: list[np.ndarray]
    history: np.ndarray
    recorded_epochs: list[int]
    recorded: dict[str, np.ndarray]


@dataclass
class _Chunk:
    """Members that share a call."""

    state: Members
    start: Any
    own: Own
    losses: np.ndarray | None = None  # of the last call, (epochs, members)


class Run:
    """Members of a job at one epoch."""

    def __init__(
        self,
        job: Job,
        plan: Plan,
        workers: Workers,
        *,
        record: Mapping[str, np.ndarray] | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        self.job = job
        self._plan = plan
        self._workers = workers
        self._record = dict(record or {})
        self.torn = False
        """Whether a second interrupt left chunks at different epochs, so that nothing here can be saved."""
        self._history: list[np.ndarray] = [] if snapshot is None else list(snapshot.history)
        self._records: list[tuple[int, dict[str, np.ndarray]]] = []
        if snapshot is not None:
            for i, epoch in enumerate(snapshot.recorded_epochs):
                self._records.append((epoch, {name: snapshot.recorded[name][i] for name in self._record}))
        with precision.scope(job.dtype):
            self._x, self._y = jnp.asarray(job.x, job.dtype), jnp.asarray(job.y, job.dtype)
        self._seen: set[tuple[int, ...]] = set()
        begins = range(job.first // plan.chunk * plan.chunk, job.first + job.members, plan.chunk)
        self._wanted = slice(job.first - begins.start, job.first - begins.start + job.members)
        self._chunks = workers.map(
            lambda begin: self._begin(begin, begin - begins.start, snapshot), begins, first_alone=True
        )
        self._compiled = False

    def advance(self, count: int) -> None:
        """Train all members for `count` ≤ SEGMENT more epochs; an interrupt is raised once all of them have."""
        assert 1 <= count <= SEGMENT
        if not self._compiled:
            self._advance(self._chunks[0], 0)  # once for all chunks
            self._compiled = True
        for chunk in self._chunks:
            chunk.losses = None
        try:
            self._workers.map(lambda chunk: self._advance(chunk, count), self._chunks)
        finally:
            losses = [chunk.losses for chunk in self._chunks if chunk.losses is not None]
            self.torn = len(losses) < len(self._chunks)
            if not self.torn:
                self._history.extend(np.concatenate(losses, axis=1)[:, self._wanted])

    def record(self) -> None:
        """Keep all members' outputs on the recorded sets at this epoch."""
        self._records.append((self.epoch, {name: self.predict_members(x) for name, x in self._record.items()}))

    def predict_members(self, x: np.ndarray) -> np.ndarray:
        """Outputs (members, N, outputs)."""
        net, variation, dtype = self.job.recipe.net, self.job.recipe.variation, self.job.dtype
        size = rows_at_once(net, self._chunks[0].state.params, x, dtype)
        parts = self._workers.map(
            lambda chunk: evaluate(partial(outputs, net, variation, chunk.state.params, chunk.start), x, dtype, size),
            self._chunks,
            first_alone=x.shape not in self._seen,
        )
        self._seen.add(x.shape)
        return np.concatenate(parts)[self._wanted]

    @property
    def chunk(self) -> int:
        """Members that share a call."""
        return self._plan.chunk

    @property
    def epoch(self) -> int:
        """How many epochs have been trained."""
        return len(self._history)

    @property
    def losses(self) -> np.ndarray:
        """Each member's loss over the last epoch, (members,)."""
        return self._history[-1]

    @property
    def recorded_epochs(self) -> list[int]:
        """The epochs at which outputs were recorded."""
        return [epoch for epoch, _ in self._records]

    @property
    def history(self) -> np.ndarray:
        """The loss of every member after every epoch, (epochs, members)."""
        return np.array(self._history, dtype=self.job.dtype).reshape(-1, self.job.members)

    @property
    def recorded(self) -> dict[str, np.ndarray]:
        """Recorded outputs by name, each (recorded epochs, members, N, outputs)."""
        if not self._records:
            return {}
        return {name: np.stack([outputs[name] for _, outputs in self._records]) for name in self._record}

    def params(self) -> Params:
        """Parameters stacked over members, as NumPy."""
        return self._cut(self._stacked(lambda chunk: chunk.state.params))

    def start(self) -> Any:
        """What the members' baselines depend on, stacked; None if they have none."""
        return self._cut(self._stacked(lambda chunk: chunk.start)) if self.job.recipe.variation.has_baseline else None

    def snapshot(self) -> Snapshot:
        """A copy of everything that changes."""
        return Snapshot(
            self.epoch,
            jax.tree.leaves(self._stacked(lambda chunk: chunk.state.params)),
            jax.tree.leaves(self._stacked(lambda chunk: chunk.state.optimizer_state)),
            self.history,
            self.recorded_epochs,
            self.recorded,
        )

    def _begin(self, begin: int, place: int, snapshot: Snapshot | None) -> _Chunk:
        """The chunk from member `begin` on, whose state is from `place` on in a snapshot."""
        job = self.job
        with precision.scope(job.dtype):
            ids = range(begin, begin + self._plan.chunk)
            state = job.init(ids)
            start = job.start(ids, state.params)
            own = job.own(ids, state.params, start)
            if snapshot is not None:
                mine = slice(place, place + self._plan.chunk)
                params = [jnp.array(leaf[mine]) for leaf in snapshot.params]
                optimizer_state = [jnp.array(leaf[mine]) for leaf in snapshot.optimizer_state]
                state = Members(
                    state.keys,
                    jax.tree.unflatten(jax.tree.structure(state.params), params),
                    jax.tree.unflatten(jax.tree.structure(state.optimizer_state), optimizer_state),
                )
            return _Chunk(state, start, own)

    def _advance(self, chunk: _Chunk, count: int) -> None:
        with precision.scope(self.job.dtype):  # the scope belongs to a thread
            state = chunk.state
            params, optimizer_state, losses = run_epochs(
                self.job.recipe,
                state.keys,
                state.params,
                state.optimizer_state,
                chunk.own,
                self._x,
                self._y,
                np.int32(self.epoch),
                np.int32(count),
            )
            chunk.state = Members(state.keys, params, optimizer_state)
            chunk.losses = np.array(losses)[:count]

    def _stacked(self, part: Callable[[_Chunk], Any]) -> Any:
        # concatenating copies; the buffers themselves are given away at the next step
        parts = [part(chunk) for chunk in self._chunks]
        return jax.tree.map(lambda *leaves: np.concatenate([np.asarray(a) for a in leaves]), *parts)

    def _cut(self, stacked: Any) -> Any:
        return jax.tree.map(lambda a: a[self._wanted], stacked)
