"""Law: a script written for neural-tangents' stax gives the kernels and functions of the same network of nn."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import equitangents as et
from equitangents import nn, stax
from equitangents.errors import InvalidArgumentError, InvalidTypeError

X = np.random.default_rng(1).normal(size=(4, 5, 2))


def same(kernel_fn, net, x=X, **keywords):
    found, expected = kernel_fn(x, None, **keywords), net.kernel(x)
    assert np.array_equal(found.nngp, expected.nngp)
    assert np.array_equal(found.ntk, expected.ntk)


@pytest.mark.slow
def test_a_residual_network_is_that_of_nn():
    conv = {"padding": "SAME", "W_std": 1.3, "b_std": 0.2}
    main = stax.serial(stax.Conv(4, (3,), **conv), stax.Relu())
    joined = stax.FanOut(2), stax.parallel(main, stax.Identity()), stax.FanInSum()
    init_fn, apply_fn, kernel_fn = stax.serial(main, *joined, stax.Flatten(), stax.Dense(3))
    c = {"padding": "zero", "W_std": 1.3, "b_std": 0.2}
    net = nn.Sequential(
        nn.Conv(4, 3, **c), nn.Relu(), nn.Residual(nn.Conv(4, 3, **c), nn.Relu()), nn.Flatten(), nn.Dense(3)
    )
    kernels = kernel_fn(X, None)
    expected = net.kernel(X)
    assert np.array_equal(kernels.ntk, expected.ntk)
    assert np.array_equal(kernel_fn(X, X[:2], "nngp"), expected.nngp[:, :2])
    assert np.allclose(kernels.cov1, np.diag(expected.nngp), rtol=1e-14)
    assert kernels.cov2 is None
    assert set(kernel_fn(X, None, ("nngp", "ntk"))._fields) == {"nngp", "ntk"}
    shape, params = init_fn(jax.random.key(0), (-1, 5, 2))
    y = apply_fn(params, X.astype(np.float32))
    assert (shape, y.shape) == ((-1, 3), (4, 3))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 2 * 3 * 4 + 4 + 4 * 3 * 4 + 4 + 20 * 3


def test_layers_taken_apart_and_repeated_still_join():
    init_fn, apply_fn, kernel_fn = stax.repeat(stax.serial(stax.Dense(8, 1.2, 0.1), stax.Erf()), 2)
    _, _, whole = stax.serial((init_fn, apply_fn, kernel_fn), stax.Dense(1))
    net = nn.Sequential(*(nn.Dense(8, 1.2, 0.1), nn.Erf()) * 2, nn.Dense(1))
    same(whole, net, X[:, 0])


def test_pools_overlap_unless_strides_say_otherwise():
    theirs = stax.AvgPool((2,)), stax.SumPool((2,), padding="SAME")
    _, _, kernel_fn = stax.serial(stax.Dense(4), stax.Relu(), *theirs, stax.Flatten(), stax.Dense(1))
    pools = nn.AvgPool(2, 1), nn.AvgPool(2, 1, "zero"), nn.Scale(2.0)
    same(kernel_fn, nn.Sequential(nn.Dense(4), nn.Relu(), *pools, nn.Flatten(), nn.Dense(1)))


def test_dropout_takes_the_share_that_is_kept():
    _, _, kernel_fn = stax.serial(stax.Dense(4), stax.Relu(), stax.Dropout(0.75), stax.Dense(1))
    same(kernel_fn, nn.Sequential(nn.Dense(4), nn.Relu(), nn.Dropout(0.25), nn.Dense(1)), X[:, 0])


@pytest.mark.slow
def test_inputs_given_twice_are_one_set_and_their_negatives_another():
    _, _, kernel_fn = stax.serial(stax.Dense(4), stax.Relu(), stax.Dropout(0.5, mode="train"), stax.Dense(1))
    x = X[:, 0]
    one, twice, opposite = kernel_fn(x), kernel_fn(x, x.copy()), kernel_fn(x, -x)
    assert (one.x1_is_x2, twice.x1_is_x2, opposite.x1_is_x2) == (True, True, False)
    assert np.allclose(one.nngp, twice.nngp, rtol=1e-6)


@pytest.mark.parametrize(
    ("axes", "order"),
    [
        ({"batch_axis": 1, "channel_axis": 0}, (2, 0, 1)),
        ({"batch_axis": 1}, (1, 0, 2)),
        ({"channel_axis": -2}, (0, 2, 1)),
    ],
)
def test_outputs_have_the_axes_of_inputs(axes, order):
    usual, turned = stax.Dense(3), stax.Dense(3, **axes)
    x = X.transpose(order)
    _, params = turned.init_fn(jax.random.key(0), x.shape)
    assert np.allclose(turned.apply_fn(params, x), usual.apply_fn(params, X).transpose(order), atol=1e-6)


def test_layers_read_the_axes_that_the_one_before_gives_and_branches_those_of_their_input():
    gone = stax.parallel(*(pool(channel_axis=1) for pool in (stax.GlobalAvgPool, stax.GlobalSumPool)))
    triple = stax.serial(stax.Dense(4, channel_axis=1), stax.Relu(), stax.FanOut(2), gone, stax.FanInConcat())
    _, params = triple.init_fn(jax.random.key(0), (4, 2, 5))
    found = triple.apply_fn(params, X.transpose(0, 2, 1))
    mean = np.maximum(X @ params[0]["w"] / 2**0.5, 0).mean(axis=1)
    assert np.allclose(found, np.concatenate([mean, 5 * mean], axis=1), atol=1e-5)
    with pytest.raises(InvalidArgumentError, match="channel_axis"):
        stax.serial(stax.Dense(4, channel_axis=1), stax.Relu(), stax.Dense(3, batch_axis=1)).kernel_fn(X)


def test_masks_and_graphs_come_as_arguments():
    x, graphs = X.copy(), np.random.default_rng(2).integers(0, 2, (4, 5, 5)).astype(float)
    x[1, 3:] = 100.0
    mask = ~(x == 100.0).all(-1)
    _, _, kernel_fn = stax.serial(stax.Aggregate(), stax.Dense(4), stax.GlobalSumPool(), stax.Dense(1))
    net = nn.Sequential(nn.Aggregate(), nn.Dense(4), nn.GlobalSumPool(), nn.Dense(1))
    same(kernel_fn, net, et.Graphs(x, graphs, mask))
    tails_first = graphs.mT, (1 - graphs).mT
    found = kernel_fn(x, None, "ntk", mask_constant=100.0, pattern=tails_first[0])
    assert np.array_equal(found, net.kernel(et.Graphs(x, graphs, mask)).ntk)
    others = 1 - graphs
    found = kernel_fn(x, X, "ntk", mask_constant=100.0, pattern=tails_first)
    everywhere = np.ones(X.shape[:-1], bool)
    expected = net.kernel(et.Graphs(x, graphs, mask), et.Graphs(X, others, everywhere)).ntk
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "own"),
    [
        (lambda: stax.ConvTranspose(3, (2,)), "Aggregate"),
        (lambda: stax.Conv(3, (2, 2), dimension_numbers=("NHWC", "HWIO", "NWHC")), "positions, channels"),
        (lambda: stax.serial(stax.Dense(3), stax.LayerNorm((0, -1))).kernel_fn(X[:, 0]), "batch"),
        (lambda: stax.serial((None, None, None)), "nn.Layer"),
        (lambda: stax.layer(lambda: None), "nn.Layer"),
        (lambda: stax.Slice[:, 1:], "Aggregate"),
        (lambda: stax.MaxPool((2,)), "AvgPool"),
        (lambda: stax.GlobalSelfAttention(3, 3, 3, 2, pos_emb_type="SUM"), "channels of the input"),
        (lambda: et.utils.x1_is_x2(X), "equitangents.utils"),
        (lambda: et.experimental.empirical_ntk_fn_tf, "torch.ModuleKernel"),
    ],
)
def test_what_is_not_there_names_our_own_way(make, own):
    with pytest.raises(NotImplementedError, match=own):
        make()


def test_attention_takes_the_name_of_a_mechanism_and_the_enumeration_that_has_it():
    made = [
        stax.GlobalSelfAttention(3, 3, 3, 2, attention_mechanism=m, pos_emb_type=stax.PositionalEmbedding.NONE.name)
        for m in ("RELU", stax.AttentionMechanism.RELU, stax.AttentionMechanism.RELU.name)
    ]
    networks = {stax.serial(layer, stax.Flatten()).kernel_fn.network for layer in made}
    assert networks == {
        nn.Sequential(nn.Attention(3, heads=2, key_channels=3, value_channels=3, mechanism="relu"), nn.Flatten())
    }


SCALED = {
    "Erf": (stax.Erf(2.0, 0.5), lambda x: 2 * jax.lax.erf(0.5 * x)),
    "ABRelu": (stax.ABRelu(-0.5, 2.0), lambda x: np.minimum(x, 0) * -0.5 + 2 * np.maximum(x, 0)),
    "ABRelu, one-sided": (stax.ABRelu(3.0, 0.0), lambda x: 3 * np.minimum(x, 0)),
    "Cos": (stax.Cos(2.0, 0.5), lambda x: 2 * np.cos(0.5 * x)),
    "Cos with a phase": (stax.Cos(2.0, 0.5, 0.3), lambda x: 2 * np.cos(0.5 * x + 0.3)),
    "Sigmoid_like": (stax.Sigmoid_like(), lambda x: 0.5 * jax.lax.erf(x / 2.4020563531719796) + 0.5),
    "Gabor": (stax.Gabor(), lambda x: np.exp(-x * x) * np.sin(x)),
}


@pytest.mark.parametrize("name", SCALED)
def test_nonlinearities_with_scales_are_the_functions_that_they_name(name):
    layer, function = SCALED[name]
    x = np.linspace(-2, 2, 7, dtype=np.float32)[:, None]
    _, params = layer.init_fn(jax.random.key(0), (-1, 1))
    assert np.allclose(layer.apply_fn(params, x), function(x), atol=1e-6)


@pytest.mark.parametrize("phi", [stax.Relu, stax.Erf])
def test_a_jitted_kernel_fn_is_one_call_of_the_engine(phi):
    """Whatever the inputs' norms, which are known only when it runs: nothing else is there to compile."""
    conv = {"padding": "SAME", "W_std": 1.4, "b_std": 0.1}
    kernel_fn = stax.serial(stax.Conv(8, (3,), **conv), phi(), stax.Flatten(), stax.Dense(1, 1.4, 0.1))[2]
    text = jax.jit(kernel_fn, static_argnames="get").lower(X.astype(np.float32), None, get="ntk").as_text()
    assert text.count("stablehlo.custom_call") == 1
    assert "stablehlo.case" not in text
    assert "stablehlo.while" not in text


IMAGES = np.random.default_rng(0).normal(size=(3, 4, 4, 2))
REQUIRED = {"out_dim": 2, "out_chan": 2, "filter_shape": (2, 2), "window_shape": (2, 2), "alpha": 0.5, "a": 0.5,
            "b": 0.25, "rate": 0.5, "num": 2, "degree": 2, "coef": (0.5, 0.25), "n_chan_out": 2, "n_chan_key": 2,
            "n_chan_val": 2, "n_heads": 2, "deg": 9, "fn": jnp.tanh}  # fmt: skip
NOT = ("n", "batch_axis", "channel_axis", "axis", "batch_axis_out", "aggregate_axis")
LAYERS = [name for name in stax.__all__ if name[0].isupper() and not isinstance(getattr(stax, name), type)]


def arguments(name):
    """A layer's numbers, each where it has a default or needs a value."""
    given = {}
    for p in inspect.signature(getattr(stax, name)).parameters.values():
        needed = p.default is p.empty or p.name == "fn"
        value = REQUIRED.get(p.name) if needed else 0.5 if p.name == "b_std" else p.default
        if value is not None and p.kind is not p.VAR_KEYWORD and p.name not in NOT:
            given[p.name] = value
    return given


def turned(value, kind):
    return kind(value) if type(value) in (int, float) else value


@pytest.mark.quick(2)
@pytest.mark.parametrize("kind", [jnp.asarray, np.asarray, np.float64], ids=["jax", "numpy", "scalar"])
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_of_stax_takes_numbers_as_arrays(name, kind):
    given = arguments(name)
    if kind is np.float64:
        found = {k: kind(v) if type(v) is float else v for k, v in given.items()}
    else:
        found = {k: turned(v, kind) for k, v in given.items()}
    plain, arrays = getattr(stax, name)(**given)[2], getattr(stax, name)(**found)[2]
    same = plain.node.leaves[0].own, arrays.node.leaves[0].own
    hash(same[1])
    if name not in ("Elementwise", "ElementwiseNumerical"):
        assert repr(same[0]) == repr(same[1]) or kind is jnp.asarray  # in single precision where JAX has that alone


def test_kernels_are_those_of_plain_numbers():
    make = lambda w, b: stax.serial(stax.Conv(4, (2, 2), W_std=w, b_std=b), stax.Relu(), stax.Flatten(),
                                    stax.Dense(1, W_std=w))  # fmt: skip
    w = jnp.sqrt(2.0)
    ours, theirs = (make(*a)[2](IMAGES, None, "ntk") for a in ((w, np.asarray(0.5)), (float(w), 0.5)))
    np.testing.assert_array_equal(ours, theirs)


def test_layers_of_nn_are_equal_however_their_numbers_came():
    assert nn.Dense(np.int64(3), W_std=np.asarray(1.5)) == nn.Dense(3, W_std=1.5)
    assert nn.Conv(3, (np.asarray(2), np.int32(2)), W_std=np.float64(2)) == nn.Conv(3, (2, 2), W_std=2.0)
    with pytest.raises(InvalidTypeError, match="W_std"):
        jax.jit(lambda w: nn.Dense(3, W_std=w) and w)(1.0)
    with pytest.raises(InvalidTypeError, match="W_std"):
        nn.Dense(3, W_std=np.ones(2))
