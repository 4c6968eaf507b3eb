"""Stages of a study by several workers, to the bits of one process; those of a worker that dies are computed again.

A worker computes its stages with as many threads of linear algebra as this process: another number would change last
digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import scipy.linalg  # noqa: F401  whose threads are counted
from threadpoolctl import threadpool_info, threadpool_limits

from equitangents import __version__
from equitangents.errors import StoreError
from equitangents.extending import ExecutorLike, executors
from equitangents_studies.framework.progress import Progress, Task
from equitangents_studies.framework.stages import Arrays, Stage

Keep = Callable[[str, Arrays], None]


@dataclass(frozen=True)
class Done:
    """What a worker computed, by the stages' names."""

    arrays: dict[str, Arrays]


def spread_stages(progress: Progress, stages: Sequence[Stage], keep: Keep) -> dict[str, Arrays]:
    """The arrays of stages, by name, from the workers of `progress.executor`; `keep(name, arrays)` for each, at once.

    Left out are ensembles where there are more workers than stages: better share the members of each.
    """
    executor = progress.executor
    if executor is None:
        return {}
    if executors.workers_of(executor) > len(stages):
        stages = [stage for stage in stages if not stage.ensemble]
    return _spread(progress, executor, stages, keep) if stages else {}


def _spread(progress: Progress, executor: ExecutorLike, stages: Sequence[Stage], keep: Keep) -> dict[str, Arrays]:
    titles = {stage.name: stage.title for stage in stages}
    there: dict[str, Arrays] = {}
    with progress.task(f"{len(stages)} stages, shared among workers") as task:

        def report(done: Done) -> None:
            for name, arrays in done.arrays.items():
                keep(name, arrays)
                there[name] = arrays
                progress.say(f"{titles[name]}: done, {len(there)} of {len(stages)}")
            task.step(len(there), len(stages))

        tasks = executors.Tasks(
            partial(_compute, __version__, _threads()),
            lambda stage: stage.name in there,
            report,
            task="study",
            items="stages",
            item="stage",
            kept="stages that are complete are kept",
            remedy="run fewer workers",
        )
        executors.distribute(executor, tasks, stages)
    return there


def _compute(version: str, threads: int, stages: Sequence[Stage]) -> Done:
    if version != __version__:
        raise StoreError("worker", __version__, version, "install one version everywhere", verb="has equitangents")
    with threadpool_limits(threads, user_api="blas"):
        arrays = {stage.name: stage.compute(Task()) for stage in stages}
    return Done(arrays)


def _threads() -> int:
    """How many threads the linear algebra of this process uses."""
    found = [int(library["num_threads"]) for library in threadpool_info() if library["user_api"] == "blas"]
    return max(found, default=1)
