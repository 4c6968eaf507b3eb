"""Which initial laws a group preserves, by windows; means of ensembles that follow."""

import jax
import numpy as np
import pytest

import equitangents as et
from equitangents.errors import InvalidTypeError, NetworkError, ShapeError
from equitangents.nn.admissible import mean_law

N = et.nn

ROT = et.actions.image_rotations(4)
P4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4))
SHIFTS = et.actions.permutations(et.groups.cyclic(6), np.array([[(x + g) % 6 for x in range(6)] for g in range(6)]))
TURN = et.actions.linear(et.groups.cyclic(4), [np.linalg.matrix_power([[0.0, -1.0], [1.0, 0.0]], g) for g in range(4)])
FULL = N.Sequential(
    N.Lift(SHIFTS, 4, window="full"), N.Relu(), N.GroupConv(4, window="full"), N.Relu(), N.GroupPool(), N.Dense(1)
)


def ending(*layers):
    return N.Sequential(*layers, N.Relu(), N.Flatten(), N.Dense(2))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("net", "action", "shape"),
    [
        (N.Sequential(N.Dense(8), N.Relu(), N.Dense(1)), TURN, (2,)),
        (N.Sequential(N.Flatten(), N.Dense(8), N.Relu(), N.Dense(1)), "D4", (4, 4, 2)),
        (ending(N.Conv(4, 3)), "C4", (6, 6, 1)),
        (ending(N.Conv(4, 2)), "C4", (6, 6, 1)),  # carried to windows one pixel further on the torus
        (ending(N.Conv(4, 3, padding="zero")), "D4", (6, 6, 1)),
        (ending(N.Conv(4, 3, stride=2, padding="zero")), "C4", (5, 5, 1)),
        (ending(N.Conv(4, 3), N.AvgPool(2), N.Relu(), N.LocallyConnected(4, 3, padding="zero")), "C4", (6, 6, 1)),
        (ending(N.Conv(4, 3)), SHIFTS, (6, 1)),
        (ending(N.LocallyConnected(4, 3)), SHIFTS, (6, 1)),
        (ending(N.Lift(P4, 4, window=(3, 3))), et.actions.image_rotations(4), (4, 4, 1)),
        (FULL, SHIFTS, (6, 1)),
        (N.Sequential(N.Conv(4, 3), N.Relu(), N.Conv(2, 3), N.GlobalAvgPool()), "C4", (4, 4, 1)),
    ],
)
def test_windows_that_elements_carry_to_one_another(net, action, shape):
    found = N.is_admissible(net, action, shape)
    assert found.admissible
    assert found.layer is None


@pytest.mark.parametrize(
    ("net", "action", "shape", "layer"),
    [
        (ending(N.Conv(4, (3, 1))), "C4", (6, 6, 1), "layers[0]"),
        (ending(N.Conv(4, 3), N.Relu(), N.Conv(4, (1, 2), padding="zero")), "C4", (6, 6, 1), "layers[2]"),
        (ending(N.Conv(4, 3, stride=2, padding="zero")), "C4", (6, 6, 1), "layers[0]"),
        (ending(N.Conv(4, 3, padding="zero")), SHIFTS, (6, 1), "layers[0]"),
        (
            N.Sequential(N.Conv(4, 3), N.Relu(), N.AvgPool((2, 1)), N.Flatten(), N.Dense(1)),
            "C4",
            (4, 4, 1),
            "layers[4]",
        ),
    ],
)
def test_a_layer_that_breaks_the_symmetry_is_named(net, action, shape, layer):
    found = N.is_admissible(net, action, shape)
    assert not found.admissible
    assert found.layer.startswith(layer)
    assert "does not carry" in found.reason


@pytest.mark.slow
def test_admissible_networks_have_equivariant_means_at_width_four(rng):
    """The mean over 4,000 initial networks of f(x)² is that at the turned image, and with a 3 × 1 window it is not."""
    x = np.tile(rng.standard_normal((1, 4, 1, 1)), (1, 1, 4, 1)).astype(np.float32)  # stripes
    both = np.concatenate([x, np.rot90(x, axes=(1, 2))])
    for window, expected in ((3, True), ((3, 1), False)):
        net = ending(N.Conv(4, window, padding="zero"), N.Relu(), N.Conv(4, window, padding="zero"))
        keys = jax.random.split(jax.random.key(3), 4000)
        of_one = lambda key, n=net: n.apply(n.init(key, (4, 4, 1)), both)[:, 0] ** 2
        square = np.asarray(jax.jit(jax.vmap(of_one))(keys))
        difference = square[:, 0] - square[:, 1]
        seen = abs(difference.mean()) / (difference.std() / np.sqrt(len(keys)))
        assert bool(seen < 4) is expected
        assert bool(N.is_admissible(net, "C4", (4, 4, 1))) is expected


def test_layers_without_windows_are_refused():
    for layers in ([N.Residual(N.Relu(), N.Conv(4, 3))], [N.LayerNorm(positions=(0,))]):
        with pytest.raises(NetworkError, match="layers with windows"):
            N.is_admissible(N.Sequential(N.Conv(4, 3), *layers, N.Relu(), N.Flatten(), N.Dense(2)), "C4", (4, 4, 1))
    whole = N.Sequential(N.Conv(3, 3), N.LayerNorm(positions=True), N.Relu(), N.Flatten(), N.Dense(2))
    assert N.is_admissible(whole, "C4", (4, 4, 1))


def test_resampled_actions_and_things_that_are_none():
    assert "resamples" in N.is_admissible(ending(N.Conv(4, 3)), et.actions.image_rotations(8), (6, 6, 1)).reason
    with pytest.raises(InvalidTypeError, match="action"):
        N.is_admissible(ending(N.Conv(4, 3)), 3, (6, 6, 1))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "shape", [6, (6.5, 6, 1), (6, 6, 1.0), (True, 6, 1), "661", (), (6, 0, 1), (6, -6, 1), (6, 6, np.nan)]
)
def test_shapes_of_inputs_are_whole_numbers(shape):
    """Wherever a shape is asked for: it was rounded down."""
    net = ending(N.Conv(4, 3))
    calls = (
        lambda: N.is_admissible(net, "C4", shape),
        lambda: et.DeepEnsemble(net, input_shape=shape).fit(np.ones((2, 36)), np.ones(2)),
        lambda: net.signals(shape),
        lambda: net.lower(shape),
        lambda: net.output_shape(shape),
        lambda: net.init(jax.random.key(0), shape),
        lambda: net.kernel_cost(shape, 4),
    )
    for call in calls:
        with pytest.raises((InvalidTypeError, ShapeError), match="input_shape is"):
            call()
    assert N.is_admissible(net, "C4", [np.int64(6), 6, 1])


def net(window):
    return N.Sequential(N.Conv(4, window), N.Relu(), N.Flatten(), N.Dense(1))


def images(rng):
    x = rng.standard_normal((6, 4, 4, 1))
    return x, rng.standard_normal(6), rng.standard_normal((3, 4, 4, 1))


@pytest.mark.parametrize(("window", "equivariant"), [(3, True), ((3, 1), False)])
def test_the_infinite_mean_is_equivariant_exactly_where_the_law_says_so(rng, window, equivariant):
    x, y, new = images(rng)
    law = mean_law(net(window), ROT, new, "gd")
    assert (law.at_width, law.in_limit) == (equivariant, equivariant)
    model = et.InfiniteEnsemble(net(window), augmentation=ROT, time=np.inf).fit(x, y)
    error = et.metrics.equivariance_error(model.predict, ROT, new).mean
    assert bool(error < 1e-9) is equivariant
    assert bool(error > 1e-2) is not equivariant


def test_where_layers_do_not_tell_the_kernel_does_of_the_limit(rng):
    branched = N.Sequential(N.Conv(4, 3), N.Residual(N.Relu(), N.Conv(4, 3)), N.Relu(), N.Flatten(), N.Dense(1))
    law = mean_law(branched, ROT, images(rng)[2], "gd")
    assert (law.at_width, law.in_limit, law.equivariant) == (None, True, True)


def test_where_nothing_is_known_nothing_is_said(rng):
    uneven = N.Sequential(N.Conv(4, 3), N.Residual(N.Relu(), N.Conv(4, (1, 3))), N.Relu(), N.Flatten(), N.Dense(1))
    assert mean_law(uneven, ROT, images(rng)[2], "gd") is None


def test_optimizers_that_treat_weights_one_by_one_mind_mixed_channels(rng):
    mlp, x = N.Sequential(N.Dense(4), N.Relu(), N.Dense(1)), rng.standard_normal((5, 2))
    assert mean_law(mlp, TURN, x, "gd").at_width
    assert mean_law(mlp, TURN, x, "adam") is None
    assert mean_law(net(3), ROT, images(rng)[2], "adam").at_width


@pytest.mark.slow
def test_plans_say_it(rng):
    x, y, new = images(rng)
    for window in (3, (3, 1)):
        deep = et.DeepEnsemble(net(window), 3, augmentation=ROT, epochs=1).fit(x, y)
        plan = et.plan_ensemble(deep, ROT, new, draws=10)
        assert plan.equivariant is (window == 3)
        assert (plan.mean_law.at_width, plan.mean_law.in_limit) == (window == 3, window == 3)
    plain = et.DeepEnsemble(net(3), 3, epochs=1).fit(x, y)
    assert et.plan_ensemble(plain, ROT, new, draws=10).mean_law is None
