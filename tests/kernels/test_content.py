"""Kernels are known by the content of all that they depend on: equal for equal content, and for nothing else."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from equitangents import nn
from equitangents.errors import InvalidTypeError
from equitangents.kernels.program import described

X = np.random.default_rng(0).normal(size=(7, 3))


def program(*layers, shape=(3,)):
    return nn.Sequential(*layers, nn.Dense(1)).lower(shape)[1]


def windows(size):
    return program(nn.Conv(1, size, padding="circular"), nn.Relu(), nn.Flatten(), shape=(4, 4, 1))


def test_texts_differ_with_all_that_kernels_depend_on():
    last_bit = X.copy()
    last_bit[3, 1] = np.nextafter(last_bit[3, 1], 9)
    things = [
        X, last_bit, X.astype(np.float32), X[:6], (X, None), (X, X), 0.1, np.nextafter(0.1, 1), "0.1",
        program(nn.Dense(1, W_std=1.5), nn.Relu()), program(nn.Dense(1, W_std=1.5 + 1e-15), nn.Relu()),
        program(nn.Dense(1, W_std=1.5), nn.LeakyRelu(0.1)), windows(1), windows(3),
    ]  # fmt: skip
    assert len({described(thing) for thing in things}) == len(things)
    wide = program(nn.Dense(64, W_std=1.5), nn.Relu())
    assert described(wide) == described(program(nn.Dense(1, W_std=1.5), nn.Relu())), "kernels do not see widths"


def test_a_function_of_the_users_has_no_description_by_content():
    with pytest.raises(InvalidTypeError, match="compute it without a store"):
        described(program(nn.Dense(1), nn.Elementwise(jnp.tanh)))


conv = lambda size=3: nn.Conv(4, size, padding="zero", b_std=0.5)
END = nn.Flatten(), nn.Dense(1)
WITH_BRANCHES = {
    "residual": (conv(), nn.Residual(nn.Relu(), conv()), *END),
    "summed": (conv(), nn.Relu(), nn.Parallel([conv(), nn.Relu()], conv(1)), nn.Sum(), *END),
    "side by side": (conv(), nn.Relu(), nn.Parallel([conv(), nn.Relu()], conv(1)), nn.Concatenate(), *END),
    "handed on": (
        conv(), nn.Relu(), nn.Parallel([conv(), nn.Relu()], nn.Identity()), nn.Parallel(nn.Dropout(0.25), conv()),
        nn.Concatenate(), *END,
    ),
    "attention in one": (conv(), nn.Relu(), nn.Parallel(nn.Attention(4), conv()), nn.Sum(), nn.Relu(), *END),
    "of features": (
        nn.PointCloud("SO(2)", "1x0+1x1"), nn.SteerableConv("2x0+1x1"),
        nn.Parallel(nn.SteerableDense("2x0+1x1"), nn.Identity()), nn.Sum(), nn.SteerablePool(),
        nn.SteerableDense("1x0"),
    ),
}  # fmt: skip


class TestWhatIsDescribed:
    def test_is_of_every_space_and_nothing_else_has_the_same(self):
        nets = {name: nn.Sequential(*layers) for name, layers in WITH_BRANCHES.items()}
        shapes = {name: (5, 5) if name == "of features" else (5, 2) for name in nets}
        texts = {described(net.lower(shapes[name])[1]) for name, net in nets.items()}
        assert len(texts) == len(nets)
        again = [described(nn.Sequential(*layers).lower(shapes[name])[1]) for name, layers in WITH_BRANCHES.items()]
        assert set(again) == texts
