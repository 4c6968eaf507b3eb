"""Law: augmenting data whose labels turn gives the mean of the network whose outputs turn, at every time and input.

Θ^{g,g'}(f, f') = (1/vol G) ∫ dh Θ_aug^{hg,g'}(ρ_reg(h) f, f') (theory, "Equivariant outputs").
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import equitangents as et

n = et.nn
TIMES = np.array([0.3, 5.0, 100.0])


def flat(*layers):
    return n.Sequential(n.Flatten(), *layers, n.Dense(1))


def on_points(group, table, seed):
    """(action, ordinary network, network on the group without its readout, inputs) for a group that permutes points."""
    action = et.actions.permutations(group, table)
    first, second = dict(W_std=1.3, b_std=0.2), dict(b_std=0.1)
    ordinary = flat(n.Dense(8, **first), n.Relu(), n.Dense(8, **second), n.Erf())
    lifted = (n.Lift(action, 8, **first), n.Relu(), n.GroupConv(8, **second), n.Erf())
    return action, ordinary, lifted, np.random.default_rng(seed).normal(size=(6, table.shape[1], 2))


def octahedral(seed=0):
    """The rotations of a cube on its six faces."""
    group = et.groups.octahedral()
    faces = np.concatenate([np.eye(3), -np.eye(3)])
    table = np.array([[int(np.argmax(faces @ (R @ x))) for x in faces] for R in group.matrices])
    return on_points(group, table, seed)


def on_images(group, seed=0):
    """Convolutions and windows that keep the group, on 4 × 4 images."""
    reflections = group.order == 8
    plane = et.groups.wallpaper(rotations=4, reflections=reflections, shape=(4, 4))
    action = et.actions.image_dihedral(4) if reflections else et.actions.image_rotations(4)
    ordinary = n.Sequential(n.Conv(8, (3, 3), b_std=0.2), n.Relu(), n.GlobalAvgPool(), n.Dense(1))
    lifted = (n.Lift(plane, 8, window=(3, 3), b_std=0.2), n.Relu())
    return action, ordinary, lifted, 2 * np.random.default_rng(seed).normal(size=(6, 4, 4, 1))


def on_itself(group, seed=0):
    return on_points(group, group.table, seed)


C4, D4, S3 = et.groups.cyclic(4), et.groups.dihedral(4), et.groups.symmetric(3)
CASES = {
    "C4, images": lambda: on_images(C4),
    "D4, images": lambda: on_images(D4),
    "C4, MLP": lambda: on_itself(C4),
    "D4, MLP": lambda: on_itself(D4),
    "S3, MLP": lambda: on_itself(S3),
    "O, MLP": octahedral,
}
OFTEN = {"D4, images", "S3, MLP"}
EACH = [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in CASES]


def literal_means(net, action, rho, x, y, at, times):
    """μ_t of all |G|N copies (gx_i, ρ(g)y_i), d independent outputs, by a literal eigendecomposition."""
    order = action.group.order
    moved = np.asarray(action.orbit(x)).reshape(-1, *x.shape[1:])
    targets = np.einsum("gab,nb->gna", rho, y).reshape(len(moved), -1)
    values, vectors = np.linalg.eigh(net.kernel(moved, moved).ntk)
    cross = net.kernel(at, moved).ntk @ vectors
    means = []
    for t in times:
        kept, rate = values > 1e-13 * values[-1], t / (order * len(x))
        response = np.where(kept, -np.expm1(-values * rate) / np.where(kept, values, 1), rate)
        means.append(cross @ (response[:, None] * (vectors.T @ targets)))
    return np.stack(means)


def check(action, ordinary, lifted, x, irrep):
    group, rng = action.group, np.random.default_rng(1)
    rho = et.groups.direct_sum(irrep).at(group)
    y = rng.normal(size=(4, rho.shape[1]))
    expected = literal_means(ordinary, action, rho, x[:4], y, x, TIMES)
    assert np.abs(expected).max() > 0.05
    equivariant = et.InfiniteEnsemble(n.Sequential(*lifted, n.Readout(irrep))).fit(x[:4], y)
    np.testing.assert_allclose(equivariant.predict(x, time=TIMES), expected, rtol=0, atol=1e-9)
    turned = et.actions.represented(group, irrep)
    augmented = et.InfiniteEnsemble(ordinary, augmentation=action, label_action=turned).fit(x[:4], y)
    np.testing.assert_allclose(augmented.predict(x, time=TIMES), expected, rtol=0, atol=1e-9)


@pytest.mark.quick(1)
@pytest.mark.parametrize("case", EACH)
def test_augmented_training_has_the_mean_of_the_equivariant_network(case):
    action, ordinary, lifted, x = CASES[case]()
    check(action, ordinary, lifted, x, action.group.irreps("real")[-1])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_for_every_irrep_and_their_sum(case):
    action, ordinary, lifted, x = CASES[case]()
    for irrep in [*action.group.irreps("real"), et.groups.direct_sum(*action.group.irreps("real"))]:
        check(action, ordinary, lifted, x, irrep)


@pytest.mark.slow
@pytest.mark.parametrize("group", [S3, D4], ids=lambda g: g.name)
def test_the_kernel_of_signals_on_a_group_is_the_mean_of_the_augmented_networks(group):
    """Θ^{g,g'} = (1/|G|) Σ_h Θ_aug^{hg,g'}(ρ_reg(h)f, f'), Θ_aug^{g,g'} = δ_gg' Θ: each output has its weights."""
    action, ordinary, lifted, x = on_itself(group)
    net = n.Sequential(*lifted, n.Readout(et.groups.regular(group)))
    order = group.order
    literal = np.zeros((6, 6, order, order))
    for g, h in itertools.product(range(order), repeat=2):
        # Θ_aug^{hg,g'} vanishes but for g' = hg
        literal[:, :, g, group.compose(h, g)] += ordinary.kernel(np.asarray(action(h, x)), x).ntk / order
    np.testing.assert_allclose(net.kernel(x, x).ntk, literal, rtol=0, atol=1e-13)
