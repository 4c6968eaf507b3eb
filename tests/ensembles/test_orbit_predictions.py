"""Trained ensembles of M networks on orbits, beside what theory expects of them."""

import numpy as np
import pytest

from equitangents import DeepEnsemble, InfiniteEnsemble, actions, nn
from equitangents.ensembles.orbits import OrbitMeasures, orbit_batch

ROT = actions.image_rotations(4)


def net(width):
    return nn.Sequential(nn.Flatten(), nn.Dense(width, W_std=1.4, b_std=0.3), nn.Relu(), nn.Dense(3))


def scores(width, pool, ensembles, sizes, steps):
    """How far the mean over `ensembles` disjoint ensembles is from the prediction, in standard errors.

    Relative stds are compared on the log scale, where they are nearly normal.
    """
    rng = np.random.default_rng(2)
    x, new = rng.normal(size=(12, 3, 3, 1)), rng.normal(size=(10, 3, 3, 1))
    y = np.stack([np.sin(x.sum(axis=(1, 2, 3))), x[:, 1, 1, 0], np.ones(12)], axis=1)
    limit = InfiniteEnsemble(net(1), ROT, time=0.0, dynamics="discrete").fit(x, y)
    rate = limit.max_learning_rate_ / 2
    limit.set_params(learning_rate=rate, time=float(steps[-1])).fit(x, y)
    model = DeepEnsemble(net(width), pool, ROT, optimizer="gd", learning_rate=rate, epochs=steps[-1], seed=5)
    model.fit(x, y, record={"orbits": orbit_batch(ROT, new)}, record_at=steps)
    outputs = model.recorded_["orbits"].astype(float).reshape(len(steps), pool, len(new), 4, 3)
    measures, found = OrbitMeasures(ROT.group.identity), []
    for at, step in enumerate(steps):
        predicted = limit.orbit_statistics(ROT, new, sizes, float(step), draws=4000)
        for j, m in enumerate(sizes):
            trained = outputs[at][: ensembles * m].reshape(ensembles, m, *outputs.shape[2:]).mean(axis=1)
            for name, change in (("rsd", np.log), ("osp", np.asarray)):
                measured = change(measures.of(name, trained).mean(axis=1))
                expected = change(getattr(predicted, name).of_ensembles[j])
                error = np.sqrt(measured.var(ddof=1) / ensembles + expected.var() / 4000)
                found.append((measured.mean() - expected.mean()) / error)
    return np.array(found)


@pytest.mark.slow
def test_ensembles_of_wide_networks_are_as_equivariant_as_predicted():
    found = scores(256, pool=120, ensembles=24, sizes=[1, 5], steps=[2, 20])
    assert np.all(abs(found) < 4.5)
