"""Members that JAX trains and evaluates: from an estimator's parameters to a `NetworkJob`, and to outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import jax
import numpy as np

from equitangents import precision
from equitangents._protocols import FiniteNetwork
from equitangents._types import AnyModel, InputShape, Network, Params, Targets, Tree
from equitangents.actions.kinds import ActionLike, as_action
from equitangents.actions.subset import augmenting_elements
from equitangents.ensembles.estimator import check_network
from equitangents.ensembles.fields.targets import Positions, output_positions
from equitangents.ensembles.networks import ForeignNetwork, as_network, traits
from equitangents.ensembles.training.batches import Batches
from equitangents.ensembles.training.descent import Penalty, check_optimizer, resolve_batch_size
from equitangents.ensembles.training.jobs import Ensemble, Prepared, Task, check_room, variation_of
from equitangents.ensembles.training.network_job import (
    NetworkJob,
    evaluate,
    filled_up,
    job_fingerprint,
    outputs,
    rows_at_once,
)
from equitangents.ensembles.training.plan import Plan, Workers, make_plan, tree_bytes, worker_count, working_bytes
from equitangents.ensembles.training.recipe import Members, Recipe
from equitangents.ensembles.training.settings import check_settings
from equitangents.ensembles.training.variations import Variation
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.nn import Admissible, Sequential, is_admissible
from equitangents.validation import check_number

_ROWS = 1024  # evaluated by all members before the next


class JaxBackend:
    """Networks with init and apply, or of Flax and Equinox, mapped over members (`training.jobs.Backend`)."""

    def check_settings(self, estimator: Ensemble) -> None:
        """Raise for parameters that cannot be."""
        as_network(estimator.net)
        check_settings(estimator)
        check_optimizer(estimator.optimizer)
        name = "equivariance_penalty"
        check_number(name, estimator.equivariance_penalty, "a finite number ≥ −1", lambda v: v >= -1)

    def check_inputs(self, estimator: Ensemble, x: np.ndarray) -> None:
        """Raise for inputs that the network does not take."""
        check_network(as_network(estimator.net), x)

    def prepared(self, estimator: Ensemble, task: Task) -> Prepared:
        """The job, its plan, and a fingerprint of its arithmetic and data."""
        data, members = task.data, task.members
        recipe = _recipe(estimator, as_network(estimator.net), task)
        job = NetworkJob(recipe, data.x, data.y, task.first, members, int(estimator.seed), estimator.dtype, task.copies)
        with precision.scope(estimator.dtype):
            shapes = job.member_shapes()
            _check_outputs(job, shapes.params, task.targets.shape[1:])
            plan = make_plan(recipe, shapes, data.x, data.y, members, estimator.members_per_chunk)
            needed = _bytes(job, shapes, plan)
            check_room(f"training {members} members", needed, estimator.memory_limit, "train fewer, then extend")
        settings = {
            "seed": job.seed,
            "zero_output": bool(estimator.zero_output),
            "variation": repr(recipe.variation),
            "loss": task.loss,
            "batch size": recipe.batches.batch_size,
            "augmentation_mode": estimator.augmentation_mode if estimator.augmentation is not None else None,
        }
        if recipe.penalty is not None:
            settings["equivariance_penalty"] = recipe.penalty.weight
        return Prepared(job, plan, job_fingerprint(job, settings), recipe.variation)

    def outputs(self, estimator: Ensemble, x: np.ndarray) -> Iterator[np.ndarray]:
        """Outputs of all members for one block of rows after another.

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

    def member(self, estimator: Ensemble, i: int) -> AnyModel:
        """A module of Flax or Equinox with what it needs to predict, or (net, params)."""
        net, params = as_network(estimator.net), jax.tree.map(lambda a: a[i], estimator.params_)
        return net.member(params) if isinstance(net, ForeignNetwork) else (net, params)

    def ends_on(self, estimator: Ensemble, x: np.ndarray, y: Targets) -> Positions | None:
        """The positions that networks of this package end on, or those of y."""
        net = as_network(estimator.net)
        if isinstance(net, Sequential) or np.ndim(y) < 3:
            positions = output_positions(net, x, y)
            return None if positions is None or positions.turning else positions
        return Positions(np.shape(y)[1:-1])

    def variables(self, estimator: Ensemble) -> Tree:
        """Shapes of a member's variables."""
        net: Network = as_network(estimator.net)
        return jax.eval_shape(lambda: net.init(jax.random.key(0), estimator.sample_shape_, estimator.dtype))

    def is_admissible(self, estimator: Ensemble, action: ActionLike, shape: InputShape, members: int) -> Admissible:
        """By the windows of networks of this package, by sampled networks of others, modules among them."""
        return is_admissible(as_network(estimator.net), action, shape, members=members, seed=int(estimator.seed))


def _recipe(estimator: Ensemble, net: FiniteNetwork, task: Task) -> Recipe:
    """How every member is trained: what does not differ between members."""
    data, targets = task.data, task.targets
    batch_size = resolve_batch_size(estimator.optimizer, estimator.batch_size, data.samples)
    variation = variation_of(estimator)
    variation.check(net, task.loss)
    shuffle = batch_size < data.samples
    batches = Batches(data.samples, batch_size, batch_size, data.copies, shuffle, variation.gathers)
    classes = targets.shape[-1] if targets.ndim > 2 else None
    kind = traits(net, task.input_shape, estimator.dtype)
    rate, momentum = float(estimator.learning_rate), float(estimator.momentum)
    penalty = _penalty(estimator, task, variation)
    if penalty is not None:  # a batch is of whole orbits, and counts as many rows
        orbits = max(1, batch_size // task.copies)
        batches = replace(
            batches, samples=len(targets), batch_size=orbits, rows=orbits, copies=task.copies, orbits=True
        )
    return Recipe(net, task.loss, estimator.optimizer, rate, momentum, batches, variation, kind, classes, penalty)


def _penalty(estimator: Ensemble, task: Task, variation: Variation) -> Penalty | None:
    """The penalty on orbits, None where it has no weight; raises where there are none, or it would not mean them."""
    name, weight = "equivariance_penalty", float(estimator.equivariance_penalty)
    if weight == 0:
        return None
    if estimator.augmentation is None or estimator.augmentation_mode != "full":
        raise InvalidArgumentError(
            name,
            weight,
            "0 unless all copies of a sample are compared",
            'give augmentation=action, augmentation_mode="full"',
        )
    if task.loss != "mse" and weight < 0:
        raise InvalidArgumentError(name, weight, "at least 0 unless the loss is 'mse'")
    if task.targets.ndim > 2:
        raise InvalidArgumentError(name, weight, "0 for targets that are fields")
    if variation.disturbs:
        raise InvalidArgumentError(name, weight, "0 with a variation that disturbs every copy's targets")
    action = as_action("augmentation", estimator.augmentation, (len(task.targets), *task.input_shape))
    return Penalty.of(weight, estimator.label_action, augmenting_elements(action), task.targets.shape[1])


def _check_outputs(job: NetworkJob, params: Params, wanted: tuple[int, ...]) -> None:
    x = jax.ShapeDtypeStruct((1, *job.input_shape), job.dtype)
    shape = jax.eval_shape(job.recipe.net.apply, params, x).shape
    if len(wanted) > 1 and shape[1:] != wanted:
        raise NetworkError(
            "net",
            shape,
            (*shape[:1], *wanted),
            "end it on the positions of y, with as many channels",
            verb="gives outputs of shape",
        )
    if len(wanted) == 1 and len(shape) != 2:
        raise NetworkError(
            "net",
            shape,
            "(N, outputs)",
            "end it with Flatten, GlobalAvgPool or GroupPool, and Dense",
            verb="gives outputs of shape",
        )
    if len(wanted) == 1 and shape[1] != job.y.shape[1]:
        raise NetworkError(
            "net",
            shape[1],
            job.y.shape[1],
            "end it with Dense of as many outputs or classes as y has",
            verb="gives outputs,",
        )


def _bytes(job: NetworkJob, shapes: Members, plan: Plan) -> int:
    """Bytes of data, of all members' parameters and optimiser states and a copy of them, and of what is at work."""
    params = tree_bytes(shapes.params)
    each = 2 * (params + tree_bytes(shapes.optimizer_state))
    if job.recipe.variation.has_baseline:
        each += 4 * params + job.y.nbytes
    members = -(-job.members // plan.chunk) * plan.chunk
    at_once = min(members, plan.chunk * worker_count())
    working = working_bytes(job.recipe, shapes.params, job.x, job.y, plan.rows)
    return job.x.nbytes + members * each + at_once * working
