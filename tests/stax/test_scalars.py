"""Numbers of NumPy and JAX as arguments of layers: they are those of Python."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import nn, stax
from equitangents.errors import InvalidTypeError

X = np.random.default_rng(0).normal(size=(3, 4, 4, 2))
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
    same = plain.node.leaves[0].layers, arrays.node.leaves[0].layers
    hash(same[1])
    if name not in ("Elementwise", "ElementwiseNumerical"):
        assert repr(same[0]) == repr(same[1]) or kind is jnp.asarray  # in single precision where JAX has that alone


def test_kernels_are_those_of_plain_numbers():
    make = lambda w, b: stax.serial(stax.Conv(4, (2, 2), W_std=w, b_std=b), stax.Relu(), stax.Flatten(),
                                    stax.Dense(1, W_std=w))  # fmt: skip
    w = jnp.sqrt(2.0)
    ours, theirs = (make(*a)[2](X, None, "ntk") for a in ((w, np.asarray(0.5)), (float(w), 0.5)))
    np.testing.assert_array_equal(ours, theirs)


def test_layers_of_nn_are_equal_however_their_numbers_came():
    assert nn.Dense(np.int64(3), W_std=np.asarray(1.5)) == nn.Dense(3, W_std=1.5)
    assert nn.Conv(3, (np.asarray(2), np.int32(2)), W_std=np.float64(2)) == nn.Conv(3, (2, 2), W_std=2.0)
    with pytest.raises(InvalidTypeError, match="W_std"):
        jax.jit(lambda w: nn.Dense(3, W_std=w) and w)(1.0)
    with pytest.raises(InvalidTypeError, match="W_std"):
        nn.Dense(3, W_std=np.ones(2))
