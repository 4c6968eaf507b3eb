"""Runs networks of all kinds by the emulated GPU engine, compiled with whatever $CXX adds, and prints how many."""

import numpy as np

import equitangents as et
from equitangents.nn import (
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    Gelu,
    GlobalAvgPool,
    GroupConv,
    GroupPool,
    Lift,
    LocallyConnected,
    Relu,
    Residual,
    Sequential,
)

GROUP = et.groups.wallpaper(rotations=4, reflections=True, shape=(3, 3))
ZERO = {"padding": "zero", "b_std": 0.1}
CASES = (
    (
        (Conv(1, 3), Relu(), Conv(1, (2, 5), stride=(1, 2)), Relu(), GlobalAvgPool(), Dense(1), Relu(), Dense(1)),
        (6, 8, 2),
    ),
    ((Conv(1, 3, **ZERO), Relu(), Residual(Conv(1, (2, 3), **ZERO), Gelu()), GlobalAvgPool(), Dense(1)), (5, 9, 2)),
    (
        (Conv(1, 3, stride=2, **ZERO), Gelu(), Conv(1, 2, padding="valid"), Erf(), AvgPool(2), Flatten(), Dense(1)),
        (9, 10, 2),
    ),
    ((LocallyConnected(1, 3, **ZERO), Relu(), Conv(1, 2, **ZERO), Flatten(), Dense(1)), (5, 4, 2)),
    ((Conv(1, (3, 1, 2), **ZERO), Relu(), GlobalAvgPool(), Dense(1)), (3, 2, 4, 2)),
    ((Lift(GROUP, 1, window=(2, 3)), Relu(), GroupConv(1, window="full"), Erf(), GroupPool(), Dense(1)), (3, 3, 2)),
    ((Lift(GROUP, 1, window=(3, 3)), Relu(), GroupConv(1, window=(3, 3)), Erf(), GroupPool(), Dense(1)), (3, 3, 2)),
)

done = 0
for layers, shape in CASES:
    net = Sequential(*layers)
    for dtype in (np.float32, np.float64):
        x = np.random.default_rng(0).standard_normal((3, *shape)).astype(dtype)
        found, exact = net.kernel(x, engine="gpu"), net.kernel(x, engine="cpu")
        np.testing.assert_allclose(found.ntk, exact.ntk, rtol=1e-5 if dtype == np.float32 else 1e-11)
        done += 1
print(done)
