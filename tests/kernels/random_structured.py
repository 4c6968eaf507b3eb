"""Random networks on inputs with missing positions and graphs: with their literal sums, or on grids for two engines."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import equitangents as et
from equitangents import nn
from oracles import literal_structured as ls

POSITIONS = 5
NONLINEARITIES = {"relu": nn.Relu(), "erf": nn.Erf(), "cos": nn.Cos(), "gelu": nn.Gelu(), "abs": nn.Abs()}
NORMED = (nn.Relu(), nn.Erf(), nn.Cos(), nn.Gelu(), nn.LeakyRelu(0.2), nn.Sin(), nn.Gaussian(), nn.Rbf(0.4))


def weights(W_std, b_std):
    return {"W_std": W_std, "b_std": b_std}


@st.composite
def lines(draw):
    """(network, inputs, its kernels by literal sums) on lines of five positions, some of them missing, with graphs.

    Or all there and without graphs: most networks then run by pair offset.
    """
    rng, share = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.sampled_from([0.5, 0.8, 1.0, 1.0]))
    x, mask = rng.standard_normal((4, POSITIONS, 3)), rng.random((4, POSITIONS)) < share
    mask[np.arange(4), rng.integers(0, POSITIONS, 4)] = True
    graphs = rng.integers(0, 2, (4, POSITIONS, POSITIONS)) * rng.standard_normal((4, POSITIONS, POSITIONS))
    literal = ls.start(x, mask)
    layers = []
    for layer, law in (*(draw(blocks(graphs, mask)) for _ in range(draw(st.integers(1, 3)))), draw(ends())):
        layers += layer
        literal = law(literal)
    inputs = x if share == 1 else et.Graphs(np.where(mask[..., None], x, np.nan), graphs, mask)
    return nn.Sequential(*layers), inputs, literal


def _linear(draw):
    W, b = draw(st.sampled_from([0.8, 1.3])), draw(st.sampled_from([0.0, 0.3]))
    if draw(st.booleans()):
        return nn.Dense(4, **weights(W, b)), lambda f: ls.dense(f, W, b)
    window = draw(st.integers(2, 3))
    return nn.Conv(4, window, padding="zero", **weights(W, b)), lambda f: ls.conv(f, window, W, b)


@st.composite
def blocks(draw, graphs, mask):
    """(layers that begin and end on a Gaussian field or after a nonlinearity, what they do to kernels)."""
    linear, of_linear = _linear(draw)
    second, of_second = _linear(draw)
    name = draw(st.sampled_from(list(NONLINEARITIES)))
    curve = NONLINEARITIES[name]

    def hidden(f):
        return ls.phi(of_linear(f), name)

    kinds = ["plain", "attention", "normalised", "residual", "sum", "joined", "dropout", "graph"]
    kind = draw(st.sampled_from(kinds[:-1] if mask.all() else kinds))
    A = graphs * (mask[:, :, None] & mask[:, None])
    if kind == "graph":
        return [linear, curve, nn.Aggregate()], lambda f: ls.replace(ls.mix(hidden(f), A), mask=mask)
    if kind == "attention":
        how = draw(st.sampled_from(["softmax", "abs"]))
        attend = nn.Attention(4, mechanism=how, W_key_std=0.7, b_std=0.2)
        function = None if how == "softmax" else np.abs
        return [linear, curve, attend], lambda f: ls.attention(hidden(f), 0.7, 1.0, 0.04, function)
    if kind == "normalised":
        scaled = nn.LayerNorm(positions=draw(st.booleans()), eps=0.0)
        if draw(st.booleans()):  # of means that are not zero
            return (
                [nn.Dense(4, b_std=0.3), curve, scaled],
                lambda f: ls.layer_norm(ls.phi(ls.dense(f, 1.0, 0.3), name), scaled.positions),
            )
        return (
            [nn.Dense(4, b_std=0.3), scaled, curve],
            lambda f: ls.phi(ls.layer_norm(ls.dense(f, 1.0, 0.3), scaled.positions), name),
        )
    if kind == "residual":
        # Both summands have means.
        return (
            [linear, curve, nn.Residual(second, curve)],
            lambda f: ls.add(hidden(f), ls.phi(of_second(hidden(f)), name)),
        )
    if kind == "sum":
        return (
            [linear, curve, nn.Parallel([second, curve], [nn.Scale(0.5)], nn.Dense(4)), nn.Sum()],
            lambda f: ls.add(
                ls.phi(of_second(hidden(f)), name), ls.times(hidden(f), 0.5), ls.dense(hidden(f), 1.0, 0.0)
            ),
        )
    if kind == "joined":
        wide = nn.Parallel([second, nn.Relu()], nn.Identity()), nn.Concatenate()
        return (
            [linear, curve, *wide],
            lambda f: ls.concatenate([ls.phi(of_second(hidden(f)), "relu"), hidden(f)], [4, 4]),
        )
    if kind == "dropout":
        return [linear, curve, nn.Dropout(0.25)], lambda f: ls.dropout(hidden(f), 0.75)
    return [linear, curve], hidden


@st.composite
def ends(draw):
    """A readout and dense layers."""
    readout, law = draw(
        st.sampled_from(
            [
                (nn.GlobalAvgPool(), ls.pool),
                (nn.GlobalSumPool(), lambda f: ls.pool(f, total=True)),
                (nn.Flatten(), ls.flatten),
            ]
        )
    )
    if draw(st.booleans()):
        return [readout, nn.Dense(1, b_std=0.1)], lambda f: ls.dense(law(f), 1.0, 0.1)
    # After a pool the distance of parallel inputs is a difference of larger numbers, of which a kink takes the root.
    return (
        [readout, nn.Dense(4), nn.Erf(), nn.Dense(1)],
        lambda f: ls.dense(ls.phi(ls.dense(law(f), 1.0, 0.0), "erf"), 1.0, 0.0),
    )


@st.composite
def grids(draw):
    """(network, inputs, others) on grids of one to three dimensions with missing positions, for two engines."""
    d = draw(st.integers(1, 3))
    shape = tuple(draw(st.lists(st.integers(2, {1: 8, 2: 4, 3: 3}[d]), min_size=d, max_size=d)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    padding = draw(st.sampled_from(["circular", "zero", "valid"]))
    sides = shape

    def conv(stride=1):
        window = tuple(draw(st.integers(1, min(3, n))) for n in sides)
        return nn.Conv(1, window, stride=stride, padding=padding, W_std=1.2, b_std=draw(st.sampled_from([0.0, 0.3])))

    def curve():
        return draw(st.sampled_from(NORMED))

    layers = []
    for _ in range(draw(st.integers(1, 2))):
        stride = 2 if draw(st.booleans()) and all(n % 2 == 0 for n in sides) else 1
        layers += [conv(stride), curve()]
        sides = nn.Sequential(*layers).output_shape((*shape, 2))[:-1]
        if padding != "valid" and draw(st.booleans()):
            layers += [nn.Residual(conv(), curve())]
        if draw(st.booleans()) and all(n % 2 == 0 for n in sides):
            layers += [nn.AvgPool(2) if draw(st.booleans()) else nn.SumPool(2)]
            sides = tuple(n // 2 for n in sides)
        layers += [draw(st.sampled_from([nn.Dense(1), nn.Attention(1, b_std=0.2), nn.Dropout(0.5)]))]
        if isinstance(layers[-1], nn.Dense) and draw(st.booleans()):
            layers += [nn.LayerNorm(positions=True, eps=0.1)]
    layers += [nn.Dense(1), draw(st.sampled_from([nn.Flatten(), nn.GlobalAvgPool(), nn.GlobalSumPool()]))]
    layers += [nn.Dense(1), curve(), nn.Dense(1)] if draw(st.booleans()) else [nn.Dense(1)]

    def inputs(n):
        return et.Masked(
            rng.standard_normal((n, *shape, 2)),
            rng.random((n, *shape)) < draw(st.sampled_from([0.4, 0.8])),
            "neural-tangents",
        )

    return nn.Sequential(*layers), inputs(draw(st.integers(1, 11))), inputs(draw(st.integers(1, 19)))
