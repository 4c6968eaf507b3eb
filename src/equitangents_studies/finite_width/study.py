"""How large the violation of a finite ensemble is, and which part of it comes from what.

The mean square change over orbits of a mean of M members of width n is B(n) + A(n)/M. The finite number of members
leaves A(∞)/M, finite width A(n) − A(∞) and B(n) − B(∞), and incomplete augmentation B(∞), which is 0 if it is complete.
Of group-convolutional networks all parts are 0 at any width: they are invariant by architecture.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import actions, nn
from equitangents_studies.common import networks
from equitangents_studies.common.images import is_own
from equitangents_studies.common.infinite import gradient_descent, predicted_parts
from equitangents_studies.common.orbits import deviations
from equitangents_studies.common.training import train_to_last
from equitangents_studies.finite_width.claims import claims
from equitangents_studies.finite_width.settings import (
    ARCHITECTURES,
    ISING,
    KINDS,
    NOUNS,
    PRESETS,
    TITLES,
    Cell,
    Problem,
    Results,
    Settings,
    load_problem,
    width_name,
)
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE

_NETWORKS: tuple[tuple[str, tuple[str | None, ...]], ...] = (
    *((a, tuple(KINDS)) for a in ARCHITECTURES),
    ("gcnn", (None,)),
)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Members enough for batches of the largest size, widths enough for a rate, and images that are there."""
    largest, tasks = max(settings.sizes), settings.tasks
    at_least(settings, lattice=3, pixels=4, hidden_layers=1, group_members=1)
    check(all(largest % m == 0 for m in settings.sizes), "sizes", settings.sizes, "divisors of the largest")
    check(settings.members >= 3 * largest, "members", settings.members, f"at least 3 times the largest size, {largest}")
    enough = len(settings.sizes_of("cnn")) >= 2
    check(enough, "cnn_members", settings.cnn_members, "enough for as many ensembles of two sizes as MLPs have")
    for name in ("widths", "channels"):
        value = getattr(settings, name)
        check(len(set(value)) >= 3, name, value, "at least three different widths")
    check(len(settings.group_channels) >= 1, "group_channels", settings.group_channels, "a list of at least one width")
    distinct = len(tasks) == len(set(tasks)) >= 1 and not any(map(is_own, tasks))
    check(distinct, "tasks", tasks, 'a list of "ising" and known data sets, without repetitions')
    for name in tasks:
        load_problem(settings, name, data_dir)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Task by task: closed form for both kinds of augmentation, then an ensemble per architecture, width and kind."""
    problems = {name: load_problem(settings, name, folder.data_dir) for name in settings.tasks}
    closed = folder.stages(
        {
            (architecture, name, kind): _closed(settings, architecture, name, problem, kind)
            for name, problem in problems.items()
            for architecture, kinds in _NETWORKS
            for kind in kinds
        }
    )
    trained = folder.stages(
        {
            (*key, width): _ensemble(settings, folder, *key, problems[key[1]], width, float(found["rate"]))
            for key, found in closed.items()
            for width in settings.widths_of(key[0])
        }
    )

    def changes(architecture: str, name: str, kind: str | None) -> dict[int, np.ndarray]:
        found = {
            width: trained[architecture, name, kind, width]["changes"] for width in settings.widths_of(architecture)
        }
        return {width: y.reshape(*y.shape[:2], -1) for width, y in found.items()}

    def cell(architecture: str, name: str) -> Cell:
        by_kind = lambda key: {kind: closed[architecture, name, kind][key] for kind in KINDS}
        every = {kind: changes(architecture, name, kind) for kind in KINDS}
        return Cell(recorded_steps(settings), by_kind("fluctuation"), by_kind("bias"), every)

    cells = {(architecture, name): cell(architecture, name) for name in problems for architecture in ARCHITECTURES}
    group = {name: changes("gcnn", name, None) for name in problems}
    return Results({name: problem.title for name, problem in problems.items()}, cells, group)


def _closed(settings: Settings, architecture: str, name: str, problem: Problem, kind: str | None) -> Stage:
    """Infinite width; group-convolutional networks, of no kind, see no turned copy."""
    said = f", {TITLES[kind]}" if kind else ""
    return Stage(
        "-".join(filter(None, (name, architecture, "infinite", kind))),
        f"Infinite width, {NOUNS[architecture]}, {problem.title}{said}",
        partial(_infinite, settings, architecture, problem, _augmentation(kind) if kind else None),
    )


def recorded_steps(settings: Settings) -> np.ndarray:
    """When changes are recorded."""
    return np.array(sorted(set(settings.steps)))


def network(settings: Settings, architecture: str, width: int, problem: Problem) -> nn.Sequential:
    """An MLP, a CNN on the torus that is flattened at the end, or a p4 network that is pooled at the end."""
    scales: dict[str, Any] = {"W_std": settings.W_std, "b_std": settings.b_std}
    if architecture == "mlp":
        return networks.mlp(width, settings.hidden_layers, flatten=True, **scales)
    if architecture == "cnn":
        return networks.cnn(width, settings.hidden_layers, pooled=False, **scales)
    return networks.wallpaper_gcnn(problem.train.shape[1], width, settings.hidden_layers, **scales)


def _augmentation(kind: str) -> actions.Action:
    return actions.image_rotations(4 if kind == "complete" else 2)


def _infinite(
    settings: Settings, architecture: str, problem: Problem, augmentation: actions.Action | None, task: Task
) -> Arrays:
    net = network(settings, architecture, 1, problem)
    model = gradient_descent(net, problem.train, problem.y, settings.rate, augmentation=augmentation)
    a, b = predicted_parts(model, actions.image_rotations(4), problem.test, recorded_steps(settings))
    return {"fluctuation": a, "bias": b, "rate": np.array(model.learning_rate)}


def _ensemble(
    settings: Settings,
    folder: RunFolder,
    architecture: str,
    name: str,
    kind: str | None,
    problem: Problem,
    width: int,
    rate: float,
) -> Stage:
    """`changes` of every member of a trained ensemble, (T, M, |G|, n)."""
    action, members = actions.image_rotations(4), settings.members_of(architecture)
    said = f", {TITLES[kind]}" if kind else ""
    stage = "-".join(filter(None, (name, architecture, kind, str(width))))
    train = partial(
        train_to_last,
        folder.checkpoints(stage),
        network(settings, architecture, width, problem),
        problem.train,
        problem.y,
        augmentation=_augmentation(kind) if kind else None,
        members=members,
        learning_rate=rate,
        record={"test": problem.test},
        record_at=recorded_steps(settings),
        orbits=action,
        keep=lambda recorded: {"changes": deviations(action, recorded["test"][..., 0])},
        seed=_seed(settings, architecture, name, width, kind),
    )
    title = f"Training {members} {NOUNS[architecture]}, {width_name(architecture, width)}, {problem.title}{said}"
    return Stage(stage, title, train)


def _seed(settings: Settings, architecture: str, name: str, width: int, kind: str | None) -> int:
    """A seed for each ensemble; that of MLPs on energies depends on width and kind alone."""
    entropy = [settings.seed, width, KINDS.index(kind) if kind else len(KINDS)]
    if (architecture, name) != ("mlp", ISING):
        entropy += [1 + [*ARCHITECTURES, "gcnn"].index(architecture), *name.encode()]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
