"""From MLPs to group-convolutional networks: data augmentation of the one is architecture of the other.

With full windows Θ^GCNN(f, f′) = (1/|G|) Σ_g Θ^MLP(f, ρ(g) f′). Claimed: the mean of an augmented ensemble of MLPs is
that of an ensemble of group-convolutional networks that see no augmentation, at all times, on and off the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import actions
from equitangents.ensembles import InfiniteEnsemble
from equitangents.inference import augment_inputs
from equitangents_studies.common import networks
from equitangents_studies.common.augmented_pairs import KINDS, AugmentedPair
from equitangents_studies.common.infinite import largest_difference, unit_times
from equitangents_studies.framework.citations import EQUIVARIANT_KERNELS
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check
from equitangents_studies.mlp_to_gcnn.claims import claims
from equitangents_studies.mlp_to_gcnn.frozen_kernels import FrozenKernel, SymmetrisedKernel, draw
from equitangents_studies.mlp_to_gcnn.pairs import GROUPS, convolutional_pair, dense_pair, gcnn
from equitangents_studies.mlp_to_gcnn.results import Results, recorded_steps
from equitangents_studies.mlp_to_gcnn.settings import PRESETS, SETS, Settings

_NAMES = dict(zip(KINDS, ("mlp", "gcnn"), strict=True))
_PAIRS = {"5.2": dense_pair, "5.3": convolutional_pair}
_LATE = 100.0  # kernels of narrow networks may be singular, so that training has no end


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """A group that acts on digits, networks enough for intervals; the images ship with dependencies."""
    check(settings.group in GROUPS, "group", settings.group, "C4 or D4")
    at_least(settings, hidden_layers=1, draws=3, members=3)
    check(len(set(settings.widths)) >= 2, "widths", settings.widths, "at least two different widths")
    at_least(settings, depth_images=2, depth_width=1)
    for name in ("depths", "frozen_depths"):
        depths = getattr(settings, name)
        check(len(depths) >= 1 and min(depths) >= 1, name, depths, "a list of numbers of hidden layers, at least 1")


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Infinite width, then finite kernels with the same and with independent weights, then trained networks."""
    pair, steps, trained_widths = dense_pair(settings), recorded_steps(settings), sorted(settings.trained_widths)
    title = "Infinite width, explicit augmentation"
    infinite = folder.stage("infinite", title, lambda task: pair.infinite(settings.times))

    def frozen(name: str, weights: str, compute: Callable[..., Arrays]) -> list[np.ndarray]:
        title, work = f"Frozen kernels, {weights} weights, width ", partial(compute, settings, pair)
        found = folder.stages({w: Stage(f"{name}-{w}", f"{title}{w}", partial(work, w)) for w in settings.widths})
        return [found[w][name] for w in settings.widths]

    def training(kind: str, width: int) -> Stage:
        name = _NAMES[kind]
        title = f"Training {settings.members} networks of width {width}: {name}"
        options: dict[str, Any] = {"members": settings.members, "fraction": settings.rate, "seed": settings.seed}
        return pair.training(folder, f"trained-{name}-{width}", title, kind=kind, width=width, steps=steps, **options)

    by_depth, frozen_by_depth = _by_depth(settings, folder)
    exact, squares = frozen("same-weights", "same", _exact), frozen("independent", "independent", _drawn)
    trained = folder.stages({(w, kind): training(kind, w) for w in trained_widths for kind in KINDS})
    outputs = {w: {kind: trained[w, kind] for kind in KINDS} for w in trained_widths}
    apart = lambda w, name: np.subtract(*(outputs[w][kind][name] for kind in KINDS))
    return Results(
        times=np.array(settings.times),
        exact=np.stack(exact),
        squares=np.stack(squares, axis=1),
        differences={w: {name: apart(w, name) for name in SETS} for w in trained_widths},
        outputs={w: outputs[w][KINDS[0]] for w in trained_widths},
        by_depth=by_depth,
        frozen_by_depth=frozen_by_depth,
        **infinite,
    )


def _by_depth(settings: Settings, folder: RunFolder) -> tuple[dict[str, dict[int, Arrays]], dict[int, np.ndarray]]:
    """Both theorems at infinite width at every depth, and the first for frozen kernels of the same weights."""
    deep = lambda depth: replace(settings, hidden_layers=depth)

    def infinite(theorem: str, depth: int) -> Stage:
        title = f"Infinite width, theorem {theorem}, depth {depth}"
        solve = lambda task: _PAIRS[theorem](deep(depth)).infinite(settings.times)
        return Stage(f"theorem-{theorem}-depth-{depth}", title, solve)

    def frozen(depth: int) -> Stage:
        work = partial(_exact, deep(depth), dense_pair(deep(depth)), settings.depth_width)
        title = f"Frozen kernels, same weights, width {settings.depth_width}, depth {depth}"
        return Stage(f"same-weights-depth-{depth}", title, work)

    depths, frozen_depths = sorted(set(settings.depths)), sorted(set(settings.frozen_depths))
    work = {(theorem, depth): infinite(theorem, depth) for theorem in _PAIRS for depth in depths}
    found = folder.stages(work | {("frozen", depth): frozen(depth) for depth in frozen_depths})
    theorems = {theorem: {depth: found[theorem, depth] for depth in depths} for theorem in _PAIRS}
    return theorems, {depth: found["frozen", depth]["same-weights"] for depth in frozen_depths}


def _exact(settings: Settings, pair: AugmentedPair, width: int, task: Task) -> Arrays:
    """One network: its symmetrised kernel on augmented data, its orbit mean's kernel on the data; (times, sets)."""
    net, action, x = pair.plain(width), pair.action, pair.sets["training"]
    params = draw(net, (64, 1), settings.seed, width)
    pooled = FrozenKernel(gcnn(settings, action, width, [action.group.identity]), networks.same_weights(params))

    def means(kernel: Any, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        model = InfiniteEnsemble(kernel, time=0.0).fit(x, y)
        times = unit_times(model, settings.times)
        return [model.predict(pair.sets[name], time=times) for name in SETS]

    copies = np.asarray(augment_inputs(action, x)), np.tile(pair.y, action.group.order)
    augmented = means(SymmetrisedKernel(net, params, action), *copies)
    task.step(1, 2)
    pairs = list(zip(augmented, means(pooled, x, pair.y), strict=True))
    times = range(len(settings.times))
    return {"same-weights": np.array([[largest_difference(a[t], b[t]) for a, b in pairs] for t in times])}


def _drawn(settings: Settings, pair: AugmentedPair, width: int, task: Task) -> Arrays:
    """Independent networks of either kind: squared distance of late predictions by frozen kernels, test images."""
    squares = np.empty(settings.draws)
    net, equivariant = pair.plain(width), pair.equivariant(width)

    def mean(kernel: Any, augmentation: actions.Action | None) -> np.ndarray:
        model = InfiniteEnsemble(kernel, augmentation=augmentation, time=0.0).fit(pair.sets["training"], pair.y)
        return model.predict(pair.sets["test"], time=float(unit_times(model, [_LATE])[0]))

    for i in range(settings.draws):
        symmetrised = SymmetrisedKernel(net, draw(net, (64, 1), settings.seed + 1, i), pair.action)
        invariant = FrozenKernel(equivariant, draw(equivariant, (64, 1), settings.seed + 2, i))
        squares[i] = ((mean(symmetrised, pair.action) - mean(invariant, None)) ** 2).mean()
        task.step(i + 1, settings.draws)
    return {"independent": squares}


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EQUIVARIANT_KERNELS,), check_settings)
