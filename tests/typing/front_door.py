"""What a type checker sees of a user's file: right uses pass, and each wrong one is an error.

The ten main tasks, one function each. `make lint` checks this file; an error that is no longer seen leaves an ignore
without use, which is an error itself, and a result that became `Any` fails its `assert_type`.
"""

from pathlib import Path
from typing import assert_type

import jax
import numpy as np

import equitangents as et
from equitangents.audit import AuditReport
from equitangents.kernels import Kernels

net = et.nn.Sequential(et.nn.Flatten(), et.nn.Dense(8), et.nn.Relu(), et.nn.Dense(2))
x, y, classes = np.zeros((4, 4, 4, 1)), np.zeros(4), np.array([0, 1, 1, 0])
turns = et.actions.image_rotations(4)


def networks_and_their_kernels() -> None:
    """One specification: parameters, outputs, kernels."""
    assert_type(net.apply(net.init(jax.random.key(0), (4, 4, 1)), x), jax.Array)
    assert_type(net.kernel(x), Kernels)
    plane = et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4))
    et.nn.Sequential(et.nn.Lift(plane, 4, window=(3, 3)), et.nn.Relu(), et.nn.GroupConv(4, window="full"))
    et.nn.Sequential(et.nn.PointCloud("SO(3)", "2x0+1x1"), et.nn.SteerableDense("1x1"))


def infinite_ensembles() -> None:
    """Trained in closed form, for any time."""
    infinite = et.InfiniteEnsemble(net, augmentation=turns, kernel="ntk", ridge=1e-3).fit(x, y)
    assert_type(infinite.predict(x), np.ndarray)
    mean, std = infinite.predict(x, return_std=True)
    assert_type(infinite.predict(x, 0.5), np.ndarray)
    assert_type(infinite.sample(x, 10, key=0), np.ndarray)
    print(mean.shape, std.shape, infinite.orbit_statistics(turns, x, members=[1, 10]).rsd)


def deep_ensembles() -> None:
    """Many members, trained together."""
    deep = et.DeepEnsemble(net, members=2, epochs=1, augmentation=turns, seed=0).fit(x, y)
    mean, std = deep.predict(x, return_std=True)
    assert_type(deep.predict_members(x), np.ndarray)
    print(mean.shape, std.shape)


def classifiers() -> None:
    """Labels and probabilities."""
    infinite = et.InfiniteEnsembleClassifier(net, augmentation=turns).fit(x, classes)
    deep = et.DeepEnsembleClassifier(net, members=2, epochs=1).fit(x, classes)
    assert_type(infinite.predict_proba(x), np.ndarray)
    print(infinite.score(x, classes), deep.predict(x), deep.predict_proba(x))


def tuning() -> None:
    """A grid of settings, by leave-one-out."""
    tuning = et.InfiniteEnsemble(net).tune({"ridge": [1e-3, 1e-2]}, x, y)
    assert_type(tuning.best, et.InfiniteEnsemble)
    print(tuning.candidates[0].score)


def audits() -> None:
    """How equivariant is a model?"""
    f = et.InfiniteEnsemble(net).fit(x, y).predict
    report = et.audit(f, turns, x, output_action=et.audit.Labels([1, 0]), tolerance=0.1)
    assert_type(report, AuditReport)
    verdict: str = report.verdict
    assert_type(et.metrics.orbit_same_predictions(f, turns, x).mean, float)
    et.testing.assert_equivariant(f, turns, x)
    print(verdict, report.summary())


def plans() -> None:
    """How many members does it take?"""
    infinite = et.InfiniteEnsemble(net, augmentation=turns).fit(x, y)
    assert_type(et.plan_ensemble(infinite, turns, x, target=0.01).members, int | None)


def large_kernels(folder: Path) -> None:
    """Tiles on disk, by any number of workers."""
    store = et.scale.GramStore(folder, net, x, tile=2).compute(progress=False)
    assert_type(store, et.scale.GramStore)
    assert_type(store.shape, tuple[int, int])
    et.InfiniteEnsemble(net, solver="pcg", store=folder).fit(x, y)


def averages_over_orbits() -> None:
    """The invariant kernel of any network and any action."""
    average = et.kernels.orbit_average(net, turns)
    assert_type(average.kernel(x), Kernels)
    et.InfiniteEnsemble(average).fit(x, y)


def kernels_of_finite_networks() -> None:
    """Of one network, of many, and to first order in 1/width."""
    params = net.init(jax.random.key(0), (4, 4, 1))
    print(et.kernels.empirical(net, params, x, x).shape)
    print(
        et.kernels.monte_carlo(net, x, key=jax.random.key(0), samples=10).ntk.shape,
        et.kernels.finite_width(net, x).ntk_std,
    )


def beside_the_library() -> None:
    """Studies, data sets, baselines and learning systems."""
    print(et.studies.registry["toy"].presets, et.data.digits(), et.baselines.names())
    print(et.systems.rotate(x, "P(3d)").shape)


def wrong() -> None:
    """None of these passes."""
    et.InfinteEnsemble(net)  # type: ignore[attr-defined]
    et.InfiniteEnsemble(net, kernel="nntk")  # type: ignore[arg-type]
    et.DeepEnsemble(net, member=2)  # type: ignore[call-arg]
    print(et.audit(net, "C4", x).verdit)  # type: ignore[attr-defined]
    et.audit(net, "C4", x, tolerence=1)  # type: ignore[call-arg]
    et.systems.learning_curves(net, x, y)  # type: ignore[attr-defined]
    et.kernels.orbit_averages(net, turns)  # type: ignore[attr-defined]
    et.metrics.Measure  # type: ignore[attr-defined]
    et.nn.GroupConv(4, window=3.5)  # type: ignore[arg-type]
    et.InfiniteEnsemble(net).tune({"ridge": [1.0]}, x, y, criterium="evidence")  # type: ignore[call-arg]
    et.plan_ensemble(net, turns, x, target="1 %")  # type: ignore[arg-type]
    et.scale.GramStore(Path("k"), net, x, tiles=2)  # type: ignore[call-arg]
