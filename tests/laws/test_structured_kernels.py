"""Law: kernels of networks with branches, masks, graphs, attention and dropout are the literal sums."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import equitangents as et
from oracles import literal_structured as ls

N = et.nn
RNG = np.random.default_rng(5)
X = RNG.normal(size=(4, 5, 2))
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 1, 1, 1, 0]], bool)
GRAPHS = RNG.normal(size=(4, 5, 5))


def conv(window=3, channels=4, **k):
    return N.Conv(channels, window, padding="zero", W_std=1.3, b_std=0.2, **k)


def literal_conv(f, window=3):
    return ls.conv(f, window, 1.3, 0.2)


def end(f):
    return ls.dense(f, 1.1, 0.3)


LAST = N.Dense(1, W_std=1.1, b_std=0.3)


def parallel_case():
    """Branches in branches: a sum around weights, signals handed on, a concatenation at the end."""
    net = N.Sequential(
        conv(),
        N.Relu(),
        N.Parallel([N.Parallel([conv(), N.Relu()], N.Scale(-0.7)), N.Sum()], N.Scale(0.5), conv(1)),
        N.Parallel(N.LayerNorm(eps=0.0), [conv(channels=6), N.Relu()], N.Dropout(0.25)),
        N.Concatenate(),
        N.Flatten(),
        LAST,
    )
    f = ls.phi(literal_conv(ls.start(X)), "relu")
    u = ls.add(ls.phi(literal_conv(f), "relu"), ls.times(f, -0.7))
    v, w = ls.times(f, 0.5), literal_conv(f, 1)
    parts = [ls.layer_norm(u), ls.phi(literal_conv(v), "relu"), ls.dropout(w, 0.75)]
    return net, X, end(ls.flatten(ls.concatenate(parts, [4, 6, 4])))


def graph_case():
    """Message passing over each input's own graph, nodes missing."""
    net = N.Sequential(
        N.Aggregate(), N.Dense(4, W_std=1.3, b_std=0.2), N.Relu(), N.Aggregate(), N.GlobalSumPool(), LAST
    )
    A = GRAPHS * (MASK[:, :, None] & MASK[:, None])
    f = ls.phi(ls.dense(ls.replace(ls.mix(ls.start(X, MASK), A), mask=MASK), 1.3, 0.2), "relu")
    return net, et.Graphs(X, GRAPHS, MASK), end(ls.pool(ls.replace(ls.mix(f, A), mask=MASK), total=True))


def root_case():
    """Attention whose logits stay random, without softmax; a matrix for all inputs; normalised means."""
    net = N.Sequential(
        conv(),
        N.Relu(),
        N.LayerNorm(eps=0.0),
        N.Attention(4, scaling="root", mechanism="identity", W_key_std=0.5, b_std=0.3),
        N.Aggregate(GRAPHS[0, :3]),
        N.SumPool(3),
        N.Flatten(),
        LAST,
    )
    f = ls.root_attention(ls.layer_norm(ls.phi(literal_conv(ls.start(X)), "relu")), 0.5, 1.0, 0.09)
    return net, X, end(ls.pool(ls.mix(f, np.stack([GRAPHS[0, :3]] * 4)), total=True))


def stages_case():
    """Two signals, each with a branch of its own, of which one hands on: no residual sum."""
    net = N.Sequential(
        N.Dense(4, W_std=1.2),
        N.Parallel(N.Dense(4), conv()),
        N.Parallel(conv(), N.Identity()),
        N.Sum(),
        N.Flatten(),
        LAST,
    )
    f = ls.dense(ls.start(X), 1.2, 0.0)
    return net, X, end(ls.flatten(ls.add(literal_conv(ls.dense(f, 1.0, 0.0)), literal_conv(f))))


def weighted_case():
    """A weighted sum before a nonlinearity."""
    net = N.Sequential(N.Dense(4), N.Parallel(conv(), N.Scale(0.5)), N.Sum(), N.Relu(), N.Flatten(), LAST)
    f = ls.dense(ls.start(X), 1.0, 0.0)
    return net, X, end(ls.flatten(ls.phi(ls.add(literal_conv(f), ls.times(f, 0.5)), "relu")))


CASES = {f.__name__: f for f in (parallel_case, graph_case, root_case, stages_case, weighted_case)}


@pytest.mark.quick(1)
@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("name", CASES)
def test_structured_kernels_are_the_literal_sums(name, engine):
    net, x, expected = CASES[name]()
    kernel = net.kernel(x, engine=engine)
    for found, literal in ((kernel.nngp, expected.K), (kernel.ntk, expected.T)):
        literal = literal[:, 0, :, 0]
        scale = np.sqrt(np.outer(np.diag(literal), np.diag(literal)))
        assert np.max(np.abs(found - literal) / scale) <= 1e-12


def test_the_standard_parametrisation_weighs_each_layer_by_its_inputs():
    standard = {"W_std": 1.3, "b_std": 0.2, "parametrisation": "standard"}
    net = N.Sequential(
        N.Conv(4, 3, padding="zero", **standard), N.Relu(), N.Dense(6, **standard), N.Flatten(), N.Dense(1, **standard)
    )
    f = ls.phi(ls.conv(ls.start(X), 3, 1.3, 0.2, standard=2), "relu")
    f = ls.dense(ls.flatten(ls.dense(f, 1.3, 0.2, standard=4)), 1.3, 0.2, standard=30)
    for engine in ("cpu", "reference"):
        kernel = net.kernel(X, engine=engine)
        for found, literal in ((kernel.nngp, f.K), (kernel.ntk, f.T)):
            assert np.max(np.abs(found / literal[:, 0, :, 0] - 1)) <= 1e-12


def test_missing_positions_are_as_if_they_were_not_there():
    """A masked line is the shorter line itself, whatever stands at missing positions."""
    net = N.Sequential(
        conv(), N.Relu(), N.Attention(4), N.LayerNorm(positions=True), conv(), N.Erf(), N.GlobalAvgPool(), LAST
    )
    x = X.copy()
    x[:, 3:] = np.nan
    short, padded = net.kernel(X[:, :3]), net.kernel(et.Masked(x, np.arange(5) < 3 + np.zeros((4, 1))))
    assert np.max(np.abs(padded.nngp / short.nngp - 1)) <= 1e-12
    assert np.max(np.abs(padded.ntk / short.ntk - 1)) <= 1e-12
    params, apply = net.init(jax.random.key(0), (5, 2)), jax.jit(net.apply)
    y = apply(params, et.Masked(x, np.arange(5) < 3 + np.zeros((4, 1))))
    assert np.allclose(y, apply(params, X[:, :3]), atol=1e-5)


def test_masks_that_miss_no_position_change_nothing():
    net = N.Sequential(conv(), N.Relu(), N.GlobalAvgPool(), LAST)
    whole, plain = et.Masked(X, np.ones(X.shape[:-1], bool)), net.kernel(X)
    for found, expected in (
        (net.kernel(whole), plain),
        (net.kernel(whole, whole[:2]), net.kernel(X, X[:2])),
        (net.kernel_diagonal(whole), net.kernel_diagonal(X)),
    ):
        assert found.engine == expected.engine == plain.engine
        np.testing.assert_array_equal(found.ntk, expected.ntk)


def test_relabelled_nodes_are_the_same_graph():
    net = graph_case()[0]
    order = np.array([RNG.permutation(5) for _ in range(4)])
    rows = np.arange(4)[:, None]
    moved = et.Graphs(X[rows, order], GRAPHS[rows[:, :, None], order[:, :, None], order[:, None]], MASK[rows, order])
    same, other = net.kernel(et.Graphs(X, GRAPHS, MASK)), net.kernel(moved)
    assert np.max(np.abs(other.ntk - same.ntk)) <= 1e-12 * np.max(np.abs(same.ntk))
    params, apply = net.init(jax.random.key(0), (5, 2)), jax.jit(net.apply)
    assert np.allclose(apply(params, et.Graphs(X, GRAPHS, MASK)), apply(params, moved), atol=1e-4)


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ((conv(), N.Parallel(N.Identity(), N.Scale(2.0)), N.Sum(), N.Flatten()), "same weights"),
        ((conv(), N.Parallel(conv(), conv()), N.Relu(), N.Flatten()), "Sum or Concatenate"),
        ((conv(), N.Parallel(conv(), conv(channels=3)), N.Sum(), N.Flatten()), "equal shapes"),
        ((conv(), N.Sum(), N.Flatten()), "Parallel"),
        ((N.Residual(N.Relu(), conv(channels=2)), N.Flatten()), "Gaussian field before it"),
        ((conv(), N.Attention(4, scaling="root"), N.Flatten()), "stay random"),
        ((N.Aggregate(), N.Dense(2), N.Flatten()), "Graphs"),
    ],
)
def test_networks_without_a_kernel_are_refused_with_the_reason(layers, says):
    with pytest.raises(et.errors.NetworkError, match=says):
        N.Sequential(*layers).kernel(X)


@pytest.mark.slow
def test_structured_kernels_keep_precision_norms_and_traces():
    """Diagonals, single precision, compiled programs, and inputs of very different norm agree with the whole matrix."""
    net = N.Sequential(N.Dense(3, W_std=1.2), N.LayerNorm(positions=True, eps=0.0), N.Relu(), N.Flatten(), N.Dense(1))
    whole = net.kernel(X)
    assert np.max(np.abs(net.kernel_diagonal(X).ntk / np.diag(whole.ntk) - 1)) <= 1e-12
    single = net.kernel(X.astype(np.float32))
    assert single.ntk.dtype == np.float32
    assert np.max(np.abs(single.ntk / whole.ntk - 1)) <= 2e-6
    traced = jax.jit(lambda x: net.kernel(x).ntk)(X.astype(np.float32))
    assert np.max(np.abs(traced / whole.ntk - 1)) <= 1e-5
    scale = np.array([1.0, 1e-6, 1e5, 1.0])[:, None, None]
    far = net.kernel(scale * X)  # normalised: kernels do not see the scale
    assert np.max(np.abs(far.nngp / whole.nngp - 1)) <= 1e-12
    assert np.max(np.abs(far.ntk[0, 3] / whole.ntk[0, 3] - 1)) <= 1e-12
