"""Random networks of every kind that compiled engines run."""

from __future__ import annotations

from hypothesis import strategies as st

from equitangents.nn import (
    Abs,
    AvgPool,
    Conv,
    Cos,
    Dense,
    Erf,
    Flatten,
    Gaussian,
    Gelu,
    GlobalAvgPool,
    Identity,
    LeakyRelu,
    Rbf,
    RectifiedMonomial,
    Relu,
    Sequential,
    Sin,
)

NONLINEARITIES = (Relu(), LeakyRelu(0.2), Abs(), Erf(), Gelu(), Sin(), Cos(), Identity())
MORE = (*NONLINEARITIES, Rbf(0.5), Gaussian(), RectifiedMonomial(2))  # that the CPU engine runs
CHANNELS = st.sampled_from([1, 2, 3, 5, 6])


@st.composite
def grid_networks(draw, largest, nonlinearities=NONLINEARITIES):
    """(network, shape of an image) on grids of one to three dimensions d, of sides up to `largest[d]`."""
    d = draw(st.integers(1, 3))
    shape = tuple(draw(st.lists(st.integers(1, largest[d]), min_size=d, max_size=d)))
    padding = draw(st.sampled_from(["circular", "zero"]))
    layers, sides = [], shape
    for _ in range(draw(st.integers(1, 3))):
        window = tuple(draw(st.integers(1, min(5, n))) for n in sides)
        divisors = [[s for s in (1, 2, 3) if n % s == 0] if padding == "circular" else [1, 2] for n in sides]
        stride = tuple(draw(st.sampled_from(choices)) for choices in divisors)
        weights = {"W_std": draw(st.sampled_from([0.7, 1.5])), "b_std": draw(st.sampled_from([0.0, 0.3]))}
        layers += [Conv(1, window, stride=stride, padding=padding, **weights)]
        layers += [draw(st.sampled_from(nonlinearities))]
        sides = tuple(-(-n // s) for n, s in zip(sides, stride, strict=True))
    readout = draw(st.sampled_from(["flatten", "pool", "blocks"]))
    if readout == "blocks" and min(sides) >= 2:
        layers += [AvgPool(2), Flatten()]
    else:
        layers += [Flatten() if readout == "flatten" else GlobalAvgPool()]
    layers += [Dense(1, b_std=0.1)]
    if draw(st.booleans()):
        layers += [draw(st.sampled_from(nonlinearities)), Dense(1)]
    return Sequential(*layers), (*shape, draw(CHANNELS))
