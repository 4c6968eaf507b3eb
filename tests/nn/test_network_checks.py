"""What networks refuse, and what they say."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents.errors import EquitangentsError, InvalidTypeError, NetworkError, ShapeError
from equitangents.nn import (
    AvgPool,
    Conv,
    Dense,
    Dropout,
    Elementwise,
    Flatten,
    GlobalAvgPool,
    GroupConv,
    GroupPool,
    Lift,
    Parallel,
    Relu,
    Residual,
    Sequential,
    Sum,
)

P4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4))
C3 = et.groups.cyclic(3)
IMAGE = (4, 4, 2)


@pytest.mark.parametrize(
    ("layers", "shape", "message"),
    [
        ((GroupConv(3),), IMAGE, "put a Lift before it"),
        ((Conv(3, (3, 3)), GroupPool()), IMAGE, "put a Lift before it"),
        ((Lift(P4, 3), Conv(3, (3, 3))), IMAGE, "grid of 1 to 3 dimensions"),
        ((Lift(P4, 3), Lift(P4, 3)), IMAGE, "signal is on the group"),
        ((Lift(P4, 3, (5, 3)),), IMAGE, "window is"),
        ((Lift(P4, 3, (3, 3), weights=[1, 2]),), IMAGE, "weights has length 2; expected 9"),
        ((Lift(P4, 3, [0, 0]),), IMAGE, "twice"),
        ((Lift(P4, 3, [16]),), IMAGE, "expected 0 to 15"),
        ((Lift(P4, 3),), (5, 5, 2), "(5, 5)"),
        ((Lift(P4, 3), GroupConv(3, (3, 3), rotations=[4])), IMAGE, "rotations is (4, 0); expected (0 to 3, "),
        ((Lift(P4, 3), GroupConv(3, [1], rotations=[0])), IMAGE, "box window"),
        ((Lift(et.actions.permutations(C3, C3.table), 3, (3, 3)),), (3, 1), "no grid"),
        ((Conv(3, (3, 3, 3)),), IMAGE, "one size for each dimension"),
        ((Conv(3, (5, 3), padding="valid"),), IMAGE, "at most the grid's sizes"),
        ((AvgPool((5, 1)),), IMAGE, "at most the grid's sizes"),
        ((Dense(3), GlobalAvgPool(), AvgPool(2)), IMAGE, "grid of 1 to 3"),
        ((Dense(3), Relu(), Relu()), (5,), "Gaussian field"),
        ((Conv(3, (3, 3)), Flatten(), Relu()), IMAGE, "before Flatten"),
        ((Residual(Dense(3)),), (5,), "equal shapes"),
        ((Residual(Relu()),), (5,), "a linear layer (Dense, Conv, ...)"),
        ((Dense(5), Residual(Relu())), (5,), "a residual block needs a layer with weights"),
        ((Dense(5), Residual(Parallel(Relu()), Sum())), (5,), "a residual block needs a layer with weights"),
    ],
)
def test_layers_that_cannot_follow_are_named(layers, shape, message):
    with pytest.raises(NetworkError) as error:
        Sequential(*layers).init(jax.random.key(0), shape)
    assert message in str(error.value)
    assert "layer " in str(error.value)


def test_a_network_that_ends_on_positions_has_no_kernel():
    with pytest.raises(NetworkError, match="Flatten"):
        Sequential(Conv(3, (3, 3))).kernel(np.zeros((2, *IMAGE)))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dense(0), "channels"),
        (lambda: Dense(2.5), "channels"),
        (lambda: Dense(2, W_std=-1), "W_std"),
        (lambda: Dense(2, b_std=float("nan")), "b_std"),
        (lambda: Conv(2, (0, 3)), "window"),
        (lambda: Conv(2, (3, 3), padding="same"), "padding"),
        (lambda: Conv(2, (3, 3), stride=0), "stride"),
        (lambda: Lift(C3, 2), "expected a wallpaper or translation group"),
        (lambda: Lift(P4, 2, window="all"), "window"),
        (lambda: Lift(P4, 2, weights=[-1.0]), "weights"),
        (lambda: GroupConv(2, (3, 3), rotations="no"), "rotations"),
        (lambda: Sequential(), "at least one layer"),
        (lambda: Sequential(Dense), "layers[0]"),
        (lambda: Elementwise(3), "fn"),
        (lambda: Elementwise(lambda x: (x > 0) * 1.0), "tolerance"),
        (lambda: Elementwise(np.tanh), "such as jax.numpy.tanh"),
        (lambda: Elementwise(math.tanh), "such as jax.numpy.tanh"),
        (lambda: Elementwise(jnp.sum), "gives values of shape (); expected (2, 2); a function of JAX"),
        (lambda: Elementwise(jnp.log), "no finite value or derivative at -2"),
        (lambda: Dense(1, W_std=np.ones(2)), "W_std is array([1., 1.]); expected a number"),
        (lambda: Dense(1, b_std=jnp.ones(1)), "b_std is Array([1.], dtype=float32); expected a number"),
    ],
)
def test_bad_specifications_are_refused_when_written(make, message):
    with pytest.raises(EquitangentsError) as error:
        make()
    assert message in str(error.value)
    assert isinstance(error.value, ValueError | TypeError)


@pytest.mark.parametrize(
    ("x1", "x2", "message"),
    [
        (np.ones(3), None, "x1 has rank 1"),
        (np.ones((0, 3)), None, "x1 is empty"),
        (np.full((2, 3), np.inf), None, "index (0, 0)"),
        (np.ones((2, 3)), np.ones((2, 4)), "x2 has shape (2, 4)"),
        (np.array([["a", "b"]]), None, "dtype"),
        (np.ones((2, 3)) * 1j, None, "complex"),
    ],
)
def test_bad_inputs_are_refused_before_anything_is_computed(x1, x2, message):
    with pytest.raises(EquitangentsError) as error:
        Sequential(Dense(2)).kernel(x1, x2)
    assert message in str(error.value)


BRANCHED = Sequential(Conv(3, (3, 3)), Residual(Relu(), Conv(3, (3, 3))), Flatten(), Dense(1))


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("net", "shape", "other", "layer"),
    [
        (Sequential(Dense(3), Relu(), Dense(1)), (4,), (5,), "params[0]"),
        (Sequential(Conv(3, (3, 3)), Flatten(), Dense(1)), IMAGE, (5, 4, 2), "params[2]"),
        (BRANCHED, IMAGE, (4, 4, 3), "params[0]"),
        (Sequential(Dense(3), Dropout(0.5), Dense(1)), (4,), (5,), "params[0]"),
    ],
)
def test_inputs_of_another_shape_than_the_parameters_name_the_layer(net, shape, other, layer):
    params, x, key = net.init(jax.random.key(0), shape), np.ones((2, *other)), jax.random.key(1)
    calls = [lambda: net.apply(params, x, key=key), lambda: jax.jit(net.apply)(params, x, key=key)]
    if net.layers[1] != Dropout(0.5):
        calls += [lambda: net.apply(params, x), lambda: et.kernels.empirical(net, params, x)]
    for call in calls:
        with pytest.raises(ShapeError) as error:
            call()
        assert str(error.value).startswith(layer)
        assert " has shapes {'w': " in str(error.value)


def test_parameters_of_another_branch_name_the_layer():
    params = list(BRANCHED.init(jax.random.key(0), IMAGE))
    params[1] = ((), {"w": np.ones((5, 3))})
    with pytest.raises(ShapeError, match=r"params\[1\] has shapes \(\(\), {'w': \(5, 3\)}\)"):
        BRANCHED.apply(tuple(params), np.ones((2, *IMAGE)))


@pytest.mark.parametrize("wrong", [{"v": np.ones((4, 3))}, (), None, {}])
def test_parameters_by_other_names_name_the_layer(wrong):
    net = Sequential(Dense(3), Dense(1))
    params = net.init(jax.random.key(0), (4,))
    with pytest.raises(ShapeError, match=r"params\[0\] has shapes"):
        net.apply((wrong, params[1]), np.ones((2, 4)))


@pytest.mark.parametrize("key", [0, None, np.random.default_rng(0), np.zeros(2), jax.random.split(jax.random.key(0))])
def test_what_is_no_key_is_refused(key):
    net, x = Sequential(Dense(2), Dropout(0.5), Dense(1)), np.ones((2, 3))
    calls = [lambda: net.init(key, (3,)), lambda: et.kernels.monte_carlo(net, x, key=key, samples=2)]
    if key is not None:
        params = net.init(jax.random.key(0), (3,))
        calls.append(lambda: net.apply(params, x, key=key))
    for call in calls:
        with pytest.raises(InvalidTypeError, match=r"(?s)^key is .*; expected a key, e\.g\. jax"):
            call()


@pytest.mark.slow
@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_keys_of_both_kinds_are_taken_inside_jax_programs_too(make):
    net, keys = Sequential(Dense(2)), jax.random.split(make(0), 3)
    many = jax.vmap(lambda key: net.init(key, (4,)))(keys)
    np.testing.assert_array_equal(many[0]["w"][1], net.init(keys[1], (4,))[0]["w"])


def test_engines_are_chosen_by_name():
    net = Sequential(Dense(2))
    assert net.kernel(np.ones((2, 3)), engine="reference").engine == "reference"
    with pytest.raises(EquitangentsError, match="engine is 'quantum'"):
        net.kernel(np.ones((2, 3)), engine="quantum")


def test_networks_are_values():
    def build():
        return Sequential(Lift(P4, 3, (3, 3)), Relu(), GroupConv(3, [0, 1]), Residual(Dense(3)), GroupPool(), Dense(1))

    assert build() == build()
    assert len({build(), build()}) == 1
    assert build() != Sequential(Dense(1))
    assert "GroupConv" in repr(build())
