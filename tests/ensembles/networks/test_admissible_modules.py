"""Which modules of Flax and Equinox have an initial law that rotations preserve, by sampled modules."""

import equinox as eqx
import flax.linen
import jax
import pytest
from flax import nnx

from equitangents import DeepEnsemble
from equitangents.errors import InvalidTypeError
from equitangents.nn import is_admissible

SHAPE = (4, 4, 1)


class Linen(flax.linen.Module):
    window: tuple[int, int]

    @flax.linen.compact
    def __call__(self, x):
        x = flax.linen.relu(flax.linen.Conv(8, self.window, padding="CIRCULAR")(x))
        return flax.linen.Dense(8)(x.mean((1, 2)))


def linen(window):
    return Linen(window)


def nnx_module(window):
    class Nnx(nnx.Module):
        def __init__(self, rngs):
            self.conv = nnx.Conv(1, 8, window, padding="CIRCULAR", rngs=rngs)
            self.last = nnx.Linear(8, 8, rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.relu(self.conv(x)).mean((1, 2)))

    return Nnx


def equinox(window):
    def make(key):
        first, last = jax.random.split(key)
        layers = [
            eqx.nn.Conv2d(1, 8, window, padding="SAME", padding_mode="CIRCULAR", key=first),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(lambda x: x.mean((1, 2))),
            eqx.nn.Linear(8, 8, key=last),
        ]
        return eqx.nn.Sequential(layers)

    return make


@pytest.mark.slow
@pytest.mark.parametrize("library", [linen, nnx_module, equinox])
def test_square_windows_are_turned_into_themselves_and_flat_ones_are_not(library):
    square = DeepEnsemble(library((3, 3))).is_admissible("C4", SHAPE, members=512)
    assert square.admissible
    assert not square.exact
    assert "would have been seen" in square.reason
    flat = DeepEnsemble(library((4, 1)), augmentation="C4", input_shape=SHAPE).is_admissible(members=512)
    assert not flat.admissible
    assert "standard errors" in flat.reason


def test_a_linen_module_by_itself_is_refused_although_it_has_init_and_apply():
    with pytest.raises(InvalidTypeError, match="DeepEnsemble"):
        is_admissible(linen((3, 3)), "C4", SHAPE)
