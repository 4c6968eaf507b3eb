"""What networks refuse, and what they say; layers on rotations, and how their windows are given."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents import nn
from equitangents.errors import EquitangentsError, InvalidTypeError, NetworkError, ShapeError

P4 = et.groups.wallpaper(rotations=4, reflections=False, shape=(4, 4))
C3 = et.groups.cyclic(3)
IMAGE = (4, 4, 2)
SO3 = et.groups.so3(2)
SHAPE = (4, 3)


@pytest.mark.parametrize(
    ("layers", "shape", "message"),
    [
        ((nn.GroupConv(3),), IMAGE, "put a Lift before it"),
        ((nn.Conv(3, (3, 3)), nn.GroupPool()), IMAGE, "put a Lift before it"),
        ((nn.Lift(P4, 3), nn.Conv(3, (3, 3))), IMAGE, "grid of 1 to 3 dimensions"),
        ((nn.Lift(P4, 3), nn.Lift(P4, 3)), IMAGE, "signal is on the group"),
        ((nn.Lift(P4, 3, (5, 3)),), IMAGE, "window is"),
        ((nn.Lift(P4, 3, (3, 3), weights=[1, 2]),), IMAGE, "weights has length 2; expected 9"),
        ((nn.Lift(P4, 3, [0, 0]),), IMAGE, "twice"),
        ((nn.Lift(P4, 3, [16]),), IMAGE, "expected 0 to 15"),
        ((nn.Lift(P4, 3),), (5, 5, 2), "(5, 5)"),
        ((nn.Lift(P4, 3), nn.GroupConv(3, (3, 3), rotations=[4])), IMAGE, "rotations is (4, 0); expected (0 to 3, "),
        ((nn.Lift(P4, 3), nn.GroupConv(3, [1], rotations=[0])), IMAGE, "box window"),
        ((nn.Lift(et.actions.permutations(C3, C3.table), 3, (3, 3)),), (3, 1), "no grid"),
        ((nn.Conv(3, (3, 3, 3)),), IMAGE, "one size for each dimension"),
        ((nn.Conv(3, (5, 3), padding="valid"),), IMAGE, "at most the grid's sizes"),
        ((nn.AvgPool((5, 1)),), IMAGE, "at most the grid's sizes"),
        ((nn.Dense(3), nn.GlobalAvgPool(), nn.AvgPool(2)), IMAGE, "grid of 1 to 3"),
        ((nn.Dense(3), nn.Relu(), nn.Relu()), (5,), "Gaussian field"),
        ((nn.Conv(3, (3, 3)), nn.Flatten(), nn.Relu()), IMAGE, "before Flatten"),
        ((nn.Residual(nn.Dense(3)),), (5,), "equal shapes"),
        ((nn.Residual(nn.Relu()),), (5,), "a linear layer (Dense, Conv, ...)"),
        ((nn.Dense(5), nn.Residual(nn.Relu())), (5,), "a residual block needs a layer with weights"),
        ((nn.Dense(5), nn.Residual(nn.Parallel(nn.Relu()), nn.Sum())), (5,), "block needs a layer with weights"),
        ((nn.Dense(5), nn.Residual(nn.Residual(nn.Dense(5)))), (5,), "weights that all of its branch goes through"),
        ((nn.Parallel(nn.Identity(), nn.Residual(nn.Dense(5))), nn.Sum()), (5,), "come from the same weights"),
        ((nn.Residual(nn.Parallel([nn.Dense(1), nn.Relu()], nn.Dense(1)), nn.Concatenate()),), (2,), "Concatenate or"),
        ((nn.SphereLift(SO3, 3),), (5, 3), "a square number"),
        ((nn.SphereLift(SO3, 3),), (2, 2, 3), "harmonic coefficients (N, B², C)"),
        ((nn.SphereLift(SO3, 3),), (9, 3), "bandlimit 3; expected 1 to 2"),
        ((nn.SphereLift(SO3, 3), nn.GroupConv(3, (3, 3))), SHAPE, "'full' on SO(3)"),
        ((nn.SphereLift(SO3, 3), nn.GroupConv(3, weights=[1.0])), SHAPE, "leave rotations and weights out"),
        ((nn.SphereLift(SO3, 3), nn.GroupPool([0])), SHAPE, "expected None"),
        ((nn.SphereLift(SO3, 3), nn.GlobalAvgPool()), SHAPE, "grid"),
        ((nn.SphereLift(SO3, 3), nn.Conv(3, (3,))), SHAPE, "grid"),
        ((nn.SphereLift(SO3, 3), nn.SphereLift(SO3, 3)), SHAPE, "harmonic coefficients (N, B², C)"),
    ],
)
def test_layers_that_cannot_follow_are_named(layers, shape, message):
    with pytest.raises(NetworkError) as error:
        nn.Sequential(*layers).init(jax.random.key(0), shape)
    assert message in str(error.value)
    assert "layer " in str(error.value)


def test_a_network_that_ends_on_positions_has_no_kernel():
    with pytest.raises(NetworkError, match="Flatten"):
        nn.Sequential(nn.Conv(3, (3, 3))).kernel(np.zeros((2, *IMAGE)))


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Dense(0), "channels"),
        (lambda: nn.Dense(2.5), "channels"),
        (lambda: nn.Dense(2, W_std=-1), "W_std"),
        (lambda: nn.Dense(2, b_std=float("nan")), "b_std"),
        (lambda: nn.Conv(2, (0, 3)), "window"),
        (lambda: nn.Conv(2, (3, 3), padding="same"), "padding"),
        (lambda: nn.Conv(2, (3, 3), stride=0), "stride"),
        (lambda: nn.Lift(C3, 2), "expected a wallpaper or translation group"),
        (lambda: nn.Lift(P4, 2, window="all"), "window"),
        (lambda: nn.Lift(P4, 2, weights=[-1.0]), "weights"),
        (lambda: nn.GroupConv(2, (3, 3), rotations="no"), "rotations"),
        (lambda: nn.Sequential(), "expected at least one layer"),
        (lambda: nn.Sequential(nn.Dense), "layers[0]"),
        (lambda: nn.Elementwise(3), "fn"),
        (lambda: nn.Elementwise(lambda x: (x > 0) * 1.0), "tolerance"),
        (lambda: nn.Elementwise(np.tanh), "such as jax.numpy.tanh"),
        (lambda: nn.Elementwise(math.tanh), "such as jax.numpy.tanh"),
        (lambda: nn.Elementwise(jnp.sum), "gives values of shape (); expected (2, 2); a function of JAX"),
        (lambda: nn.Elementwise(jnp.log), "no finite value or derivative at -2"),
        (lambda: nn.Dense(1, W_std=np.ones(2)), "W_std is array([1., 1.]); expected a number from 0"),
        (lambda: nn.Dense(1, b_std=jnp.ones(1)), "b_std is Array([1.], dtype=float32); expected a number"),
        (lambda: nn.SphereLift("so3", 3), "onto is"),
        (lambda: nn.SphereLift(et.groups.cyclic(3), 3), "onto is"),
        (lambda: nn.SphereLift(et.groups.from_matrices([[[1.0]], [[-1.0]]]), 3), "orthogonal"),
        (lambda: nn.SphereLift(SO3, 3, tolerance=0.0), "tolerance"),
        (lambda: nn.SphereLift(SO3, 3, resolution=0), "resolution"),
        (lambda: nn.GroupConv(3, window=lambda t: 1 + t), "'full'"),
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
        nn.Sequential(nn.Dense(2)).kernel(x1, x2)
    assert message in str(error.value)


BRANCHED = nn.Sequential(nn.Conv(3, (3, 3)), nn.Residual(nn.Relu(), nn.Conv(3, (3, 3))), nn.Flatten(), nn.Dense(1))


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("net", "shape", "other", "layer"),
    [
        (nn.Sequential(nn.Dense(3), nn.Relu(), nn.Dense(1)), (4,), (5,), "params[0]"),
        (nn.Sequential(nn.Conv(3, (3, 3)), nn.Flatten(), nn.Dense(1)), IMAGE, (5, 4, 2), "params[2]"),
        (BRANCHED, IMAGE, (4, 4, 3), "params[0]"),
        (nn.Sequential(nn.Dense(3), nn.Dropout(0.5), nn.Dense(1)), (4,), (5,), "params[0]"),
    ],
)
def test_inputs_of_another_shape_than_the_parameters_name_the_layer(net, shape, other, layer):
    params, x, key = net.init(jax.random.key(0), shape), np.ones((2, *other)), jax.random.key(1)
    calls = [lambda: net.apply(params, x, key=key), lambda: jax.jit(net.apply)(params, x, key=key)]
    if net.layers[1] != nn.Dropout(0.5):
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
    net = nn.Sequential(nn.Dense(3), nn.Dense(1))
    params = net.init(jax.random.key(0), (4,))
    with pytest.raises(ShapeError, match=r"params\[0\] has shapes"):
        net.apply((wrong, params[1]), np.ones((2, 4)))


@pytest.mark.parametrize("key", [0, None, np.random.default_rng(0), np.zeros(2), jax.random.split(jax.random.key(0))])
def test_what_is_no_key_is_refused(key):
    net, x = nn.Sequential(nn.Dense(2), nn.Dropout(0.5), nn.Dense(1)), np.ones((2, 3))
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
    net, keys = nn.Sequential(nn.Dense(2)), jax.random.split(make(0), 3)
    many = jax.vmap(lambda key: net.init(key, (4,)))(keys)
    np.testing.assert_array_equal(many[0]["w"][1], net.init(keys[1], (4,))[0]["w"])


def test_networks_are_values():
    def build():
        return nn.Sequential(nn.Lift(P4, 3, (3, 3)), nn.GroupConv(3, [0, 1]), nn.Residual(nn.Dense(3)), nn.GroupPool())

    assert build() == build()
    assert len({build(), build()}) == 1
    assert build() != nn.Sequential(nn.Dense(1))
    assert "GroupConv" in repr(build())


def test_what_has_no_kernel_says_so():
    x = np.ones((2, *SHAPE))
    with pytest.raises(NetworkError, match=r"output is the group SO.*; expected one position; end the network with"):
        nn.Sequential(nn.SphereLift(SO3, 3), nn.Erf()).kernel(x)
    G = et.groups.octahedral()
    net = nn.Sequential(
        nn.SphereLift(G, 3), nn.Erf(), nn.GroupPool(G.generated_subgroup([1])), nn.Flatten(), nn.Dense(1)
    )
    with pytest.raises(NetworkError, match="subgroup of the rotations"):
        net.kernel(x)
    with pytest.raises(NetworkError, match=r"output is the group SO.*; use kernel"):
        nn.Sequential(nn.SphereLift(SO3, 3), nn.Erf()).kernel_field(x)


def test_residual_blocks_on_rotations():
    x = np.random.default_rng(0).normal(size=(2, *SHAPE))
    flat = nn.Sequential(
        nn.SphereLift(SO3, 8), nn.Residual(nn.Erf(), nn.GroupConv(8)), nn.Erf(), nn.Flatten(), nn.Dense(1)
    )
    mlp = nn.Sequential(nn.Dense(8), nn.Residual(nn.Erf(), nn.Dense(8)), nn.Erf(), nn.Dense(1))
    vectors = x.reshape(2, -1) / np.sqrt(np.pi)  # mean square Σ c²/(12π), that of the signal
    assert np.allclose(flat.kernel(x).ntk, mlp.kernel(vectors).ntk, rtol=1e-12)
    assert jax.jit(lambda x: flat.apply(flat.init(jax.random.key(0), SHAPE), x))(x).shape == (2, 1)
