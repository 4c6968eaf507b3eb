"""What nonlinearities are, and second moments of their kernels, against formulas."""

import math

import numpy as np
import pytest

from equitangents import nn

X = np.linspace(-3, 3, 13)


@pytest.mark.parametrize(
    ("layer", "function"),
    [
        (nn.Relu(), lambda u: max(u, 0.0)),
        (nn.LeakyRelu(0.2), lambda u: u if u > 0 else 0.2 * u),
        (nn.Abs(), abs),
        (nn.Erf(), math.erf),
        (nn.Gelu(), lambda u: u * (1 + math.erf(u / math.sqrt(2))) / 2),
        (nn.Sin(), math.sin),
        (nn.Cos(), math.cos),
    ],
    ids=["relu", "leaky", "abs", "erf", "gelu", "sin", "cos"],
)
def test_nonlinearities_are_their_formulas(layer, function):
    np.testing.assert_allclose(layer.function(X), [function(float(u)) for u in X], rtol=1e-5, atol=1e-6)
