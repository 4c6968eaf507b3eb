"""Groups, actions on inputs and labels, and the comparison with the explicit problem of N|G| samples."""

import numpy as np
from hypothesis import strategies as st

from equitangents import actions, groups
from oracles import literal_augmentation
from oracles.literal_network import LiteralNetwork

mlp = LiteralNetwork.relu_mlp(1)
TIMES = (0.0, 0.1, 1.0, 100.0, np.inf)
seeds = st.integers(0, 10**6)


def regular(group):
    """Permutation matrices of g·h on functions of h."""
    M = np.zeros((group.order, group.order, group.order))
    for g in group:
        M[g, group.table[g], range(group.order)] = 1
    return M


def on_regular(group):
    return actions.linear(group, regular(group))


C8, D4, Q8, S4, O = groups.cyclic(8), groups.dihedral(4), groups.quaternion(), groups.symmetric(4), groups.octahedral()
four_classes = actions.labels(S4, np.array([S4.element(g) for g in S4]))
CASES = {  # action on inputs, shape of one input, action on labels
    "C8": (on_regular(C8), (8,), on_regular(C8)),
    "D4": (actions.image_dihedral(4), (3, 3, 1), on_regular(D4)),
    "Q8": (on_regular(Q8), (8,), on_regular(Q8)),
    "S4": (on_regular(S4), (24,), four_classes),
    "O": (actions.rotations(O), (4, 3), actions.rotations(O)),
}


def data(name, seed, n=3, m=2):
    _, shape, label_action = CASES[name]
    rng = np.random.default_rng(seed)
    outputs = label_action.matrices.shape[1]
    return rng.normal(size=(n, *shape)), rng.normal(size=(n, outputs)), rng.normal(size=(m, *shape))


def check(model, action, x, labels, x_test, *, atol=1e-11, orbits=True, **how):
    """Mean, std, covariance and the covariance of orbits against the literal problem."""
    mean, covariance = literal_augmentation.explicit(mlp, action, x, labels, x_test, **how)
    found, found_covariance = model.predict(x_test, return_cov=True)
    scale = max(1e-300, np.abs(mean).max())
    np.testing.assert_allclose(found / scale, mean / scale, atol=atol)
    size = np.abs(covariance).max() if how["time"] else np.abs(mlp.kernel(x_test).nngp).max()
    np.testing.assert_allclose(found_covariance / size, covariance / size, atol=atol)
    std = model.predict(x_test, return_std=True)[1]
    np.testing.assert_allclose(std**2 / size, np.diag(covariance) / size, atol=atol)
    if not orbits:
        return
    mean, _ = on_orbits(model, action, x_test)
    np.testing.assert_allclose(model.predict_orbit_means(x_test) / scale, mean / scale, atol=atol)


def on_orbits(model, action, x):
    """Means (M, |G|, outputs) and the covariance between all points of the orbits, by `predict` at each."""
    points, shape = np.moveaxis(action.orbit(x), 0, 1).reshape(-1, *x.shape[1:]), (len(x), action.group.order)
    mean, covariance = model.predict(points, return_cov=True)
    return mean.reshape(*shape, -1), covariance.reshape(*shape, *shape)
