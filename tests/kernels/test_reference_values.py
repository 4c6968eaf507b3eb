"""A few numbers of an established library (neural-tangents 0.6.5, float64), which the kernels must meet.

Inputs: rng = default_rng(0); x1, then x2, standard normal. ReLU networks of three hidden layers; every layer with the
same W_std and b_std. That library's NTK of an input with itself loses half the digits, so those are held to 1e-7.
"""

from __future__ import annotations

import numpy as np
import pytest

import equitangents as et

n = et.nn
ROOT2 = 2**0.5


def mlp():
    scale = {"W_std": 1.5, "b_std": 0.1}
    return n.Sequential(*(x for _ in range(3) for x in (n.Dense(8, **scale), n.Relu())), n.Dense(1, **scale))


def cnn(padding, readout):
    scale = {"W_std": ROOT2, "b_std": 0.1}
    layers = [x for _ in range(3) for x in (n.Conv(8, (3, 3), padding=padding, **scale), n.Relu())]
    return n.Sequential(*layers, readout, n.Dense(1, **scale))


IMAGES = ((4, 8, 8, 3), (3, 8, 8, 3))

# network, shapes of x1 and x2, then for the NNGP and the NTK: (x1[0], x2[:3]); (x1[0], x1[1]), (x1[1], x1[2]); and
# (x1[0], x1[0]).
VALUES = {
    "mlp": (
        mlp,
        ((7, 12), (5, 12)),
        ([1.6429600042179449, 1.2500261691589227, 1.24159300333538], [1.3553591626285197, 1.1406526359748734]),
        ([3.6655252511333254, 2.116537040931751, 1.8629264056614503], [2.291206960991951, 1.9720811321646787]),
        (1.6382552582984236, 6.487864713999031),
    ),
    "cnn, circular, flattened": (
        lambda: cnn("circular", n.Flatten()),
        IMAGES,
        ([1.0865268477048164, 1.254760865246412, 1.1835232583505424], [1.250831328842843, 1.371505104031276]),
        ([2.066360683392905, 2.350940684368905, 1.9681306618406398], [2.2069397835574502, 2.6427407176304847]),
        (1.89729212379431, 7.529168494292664),
    ),
    "cnn, zero padding, pooled": (
        lambda: cnn("zero", n.GlobalAvgPool()),
        IMAGES,
        ([0.603487651079052, 0.7316707249596108, 0.7158034691468617], [0.7435315502709734, 0.7742354227076077]),
        ([1.0142014642154806, 1.2444210072142965, 1.1945820550792015], [1.2253844641584815, 1.2840029851658024]),
        (0.6956382658214674, 1.214618712918825),
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_an_established_library(name):
    make, shapes, nngp, ntk, own = VALUES[name]
    rng = np.random.default_rng(0)
    x1, x2 = (rng.standard_normal(shape) for shape in shapes)
    net = make()
    cross, symmetric = net.kernel(x1[:1], x2[:3]), net.kernel(x1[:3])
    for kernel, expected in ((cross.nngp, nngp[0]), (cross.ntk, ntk[0])):
        np.testing.assert_allclose(kernel[0], expected, rtol=1e-11)
    for kernel, expected in ((symmetric.nngp, nngp[1]), (symmetric.ntk, ntk[1])):
        np.testing.assert_allclose([kernel[0, 1], kernel[1, 2]], expected, rtol=1e-11)
    np.testing.assert_allclose(symmetric.nngp[0, 0], own[0], rtol=1e-11)
    np.testing.assert_allclose(symmetric.ntk[0, 0], own[1], rtol=1e-11 if "pooled" in name else 1e-7)
