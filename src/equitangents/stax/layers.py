"""Layers under neural-tangents' names: each is a layer of `equitangents.nn`, or a sequence of them.

Arguments are neural-tangents': settings, windows, axes; those without a counterpart raise NotImplementedError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import jax
import numpy as np

from equitangents import nn
from equitangents._types import ArrayLike, Tree
from equitangents.errors import InvalidArgumentError
from equitangents.nn.layer import Layer
from equitangents.stax import own_layers
from equitangents.stax.missing import only
from equitangents.stax.tree import Axes, Pattern
from equitangents.stax.triples import StaxLayer, triple

__all__ = [
    "ABRelu",
    "Abs",
    "Aggregate",
    "AggregateImplementation",
    "AttentionMechanism",
    "AvgPool",
    "Conv",
    "ConvLocal",
    "Cos",
    "Dense",
    "Dropout",
    "Elementwise",
    "ElementwiseNumerical",
    "Erf",
    "Exp",
    "ExpNormalized",
    "FanInConcat",
    "FanInSum",
    "FanOut",
    "Flatten",
    "Gabor",
    "Gaussian",
    "Gelu",
    "GlobalAvgPool",
    "GlobalSelfAttention",
    "GlobalSumPool",
    "Hermite",
    "Identity",
    "LayerNorm",
    "LeakyRelu",
    "Monomial",
    "Polynomial",
    "PositionalEmbedding",
    "Rbf",
    "RectifiedMonomial",
    "Relu",
    "Sigmoid_like",
    "Sign",
    "Sin",
    "SumPool",
]

_PADDINGS = {"SAME": "zero", "VALID": "valid", "CIRCULAR": "circular"}


AttentionMechanism = Enum(
    "AttentionMechanism", {"SOFTMAX": "SOFTMAX", "IDENTITY": "IDENTITY", "ABS": "ABS", "RELU": "RELU"}
)
"""Function of attention logits."""
PositionalEmbedding = Enum("PositionalEmbedding", {"NONE": "NONE", "SUM": "SUM", "CONCAT": "CONCAT"})
"""Positional embedding of attention; only NONE (positions as channels of the input)."""
AggregateImplementation = Enum("AggregateImplementation", {"DENSE": "DENSE", "SPARSE": "SPARSE"})
"""Form of graphs: weights of all pairs of nodes, DENSE, or lists of edges, SPARSE."""


def axes(batch_axis: int, channel_axis: int) -> Axes | None:
    """The axes of inputs; None for the default (batch first, channels last)."""
    return None if (batch_axis, channel_axis) == (0, -1) else (batch_axis, channel_axis)


def weights(
    channels: int, W_std: float, b_std: float | None, parametrisation: str, s: Sequence[int]
) -> tuple[int, dict[str, Any]]:
    """Channels and weights of a layer; b_std None: no bias; 0.0: a trained bias that starts at 0."""
    how = parametrisation.lower()
    settings = {"W_std": W_std, "b_std": b_std or 0.0, "parametrisation": how}
    if how != "standard":
        return channels, settings
    return channels * s[1], {**settings, "bias": b_std is not None, "width_scale": float(s[0])}


def padded(padding: str) -> str:
    """Name of a padding in `nn`."""
    name = str(padding).rsplit(".", maxsplit=1)[-1].upper()
    only("padding", name, *_PADDINGS, instead=f"use one of {', '.join(_PADDINGS)}")
    return _PADDINGS[name]


def windows(
    window: Sequence[int], strides: Sequence[int] | None, numbers: Sequence[str | None] | None
) -> tuple[tuple[int, ...], tuple[int, ...], Axes | None, Axes | None]:
    """(window, strides, axes of the input, axes of the output), with dimensions in the order of the input."""
    window = tuple(window)
    strides = (1,) * len(window) if strides is None else tuple(strides)
    if numbers is None:
        return window, strides, None, None
    read, filters, written = numbers
    assert read is not None
    written = read if written is None else written
    grid = [c for c in read if c not in "NC"]
    order = grid if filters is None else [c for c in filters if c not in "IO"]
    if [c for c in written if c not in "NC"] != grid:
        raise NotImplementedError(
            f"dimension_numbers={tuple(numbers)!r} are not here: outputs have the dimensions of positions in the order "
            "of the inputs; move the axes of the inputs, (N, *positions, channels)"
        )
    found = [(spec.index("N"), spec.index("C")) for spec in (read, written)]
    usual = [axes(n, -1 if c == len(read) - 1 else c) for n, c in found]
    at = [order.index(c) for c in grid]
    both = usual if usual[0] == usual[1] is None else found
    return tuple(window[i] for i in at), tuple(strides[i] for i in at), both[0], both[1]


def pooled_axes(before: Axes | None) -> Axes | None:
    """The axes after pooling over all positions."""
    if before is None:
        return None
    batch, channel = before
    first = channel is not None and 0 <= channel < batch
    return (1, 0) if first else (0, -1)


def mean_pool(window: Sequence[int], strides: Sequence[int] | None, padding: str) -> nn.AvgPool:
    """A pool with default stride 1."""
    window = tuple(window)
    return nn.AvgPool(window, (1,) * len(window) if strides is None else tuple(strides), padded(padding))


_SIGMOID = 2.4020563531719796  # 0.5 erf(x / _SIGMOID) + 0.5 is near to the logistic sigmoid


def Dense(
    out_dim: int,
    W_std: float = 1.0,
    b_std: float | None = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> StaxLayer:
    """`nn.Dense`: the same matrix at each position. In standard parametrisation b_std=0.0 is a trained bias."""
    channels, how = weights(out_dim, W_std, b_std, parameterization, s)
    return triple("Dense", nn.Dense(channels, **how), before=axes(batch_axis, channel_axis))


def Conv(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    W_std: float = 1.0,
    b_std: float | None = None,
    dimension_numbers: Sequence[str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> StaxLayer:
    """`nn.Conv`: padding "SAME" is `nn`'s "zero", "CIRCULAR" its "circular", "VALID" its "valid".

    A window without dimensions is a `Dense`.
    """
    channels, how = weights(out_chan, W_std, b_std, parameterization, s)
    window, stride, before, after = windows(filter_shape, strides, dimension_numbers)
    layer = nn.Conv(channels, window, stride, padded(padding), **how) if window else nn.Dense(channels, **how)
    return triple("Conv", layer, before=before, after=after)


def ConvLocal(
    out_chan: int,
    filter_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    W_std: float = 1.0,
    b_std: float | None = None,
    dimension_numbers: Sequence[str] | None = None,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> StaxLayer:
    """`nn.LocallyConnected`: independent weights at every position."""
    channels, how = weights(out_chan, W_std, b_std, parameterization, s)
    window, stride, before, after = windows(filter_shape, strides, dimension_numbers)
    layer = nn.LocallyConnected(channels, window, stride, padded(padding), **how)
    return triple("ConvLocal", layer, before=before, after=after)


def AvgPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    normalize_edges: bool = False,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> StaxLayer:
    """`nn.AvgPool` with default stride 1 (in `nn` the window).

    normalize_edges=True divides by the number of the window's positions inside the grid, at borders of "SAME" padding.
    """
    pool = mean_pool(window_shape, strides, padding)
    inner = normalize_edges and pool.padding == "zero"
    return triple("AvgPool", own_layers.InnerPool(pool) if inner else pool, before=axes(batch_axis, channel_axis))


def SumPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> StaxLayer:
    """`nn.AvgPool` times the window's size (`nn.Scale`); `nn.SumPool` if windows do not overlap."""
    pool, before = mean_pool(window_shape, strides, padding), axes(batch_axis, channel_axis)
    if pool.stride == pool.window and pool.padding == "valid":
        return triple("SumPool", nn.SumPool(pool.window), before=before)
    return triple("SumPool", pool, nn.Scale(float(math.prod(window_shape))), before=before)


def GlobalAvgPool(batch_axis: int = 0, channel_axis: int = -1) -> StaxLayer:
    """`nn.GlobalAvgPool`: the mean over all positions."""
    before = axes(batch_axis, channel_axis)
    return triple("GlobalAvgPool", nn.GlobalAvgPool(), before=before, after=pooled_axes(before))


def GlobalSumPool(batch_axis: int = 0, channel_axis: int = -1) -> StaxLayer:
    """`nn.GlobalSumPool`: the sum over all positions."""
    before = axes(batch_axis, channel_axis)
    return triple("GlobalSumPool", nn.GlobalSumPool(), before=before, after=pooled_axes(before))


def Flatten(batch_axis: int = 0, batch_axis_out: int = 0) -> StaxLayer:
    """`nn.Flatten`: the channels of all positions in one vector."""
    if batch_axis_out not in (0, 1, -1, -2):
        raise InvalidArgumentError("batch_axis_out", batch_axis_out, "0 or 1, since what comes out has two axes")
    after = (1, 0) if batch_axis_out % 2 else (0, -1)
    usual = batch_axis == 0 and after == (0, -1)
    before = None if usual else (batch_axis, None)
    return triple("Flatten", nn.Flatten(), before=before, after=None if usual else after)


def Identity() -> StaxLayer:
    """`nn.Identity`: a layer that changes nothing."""
    return triple("Identity", nn.Identity())


def Aggregate(
    aggregate_axis: int | tuple[int, ...] | None = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    to_dense: Callable[[Tree], ArrayLike] | None = None,
    implementation: str = "DENSE",
) -> StaxLayer:
    """`nn.Aggregate`: pass the graphs as `pattern=`, weights (N, tails, heads) of the edges of each input.

    Without a pattern it is the identity. Nodes are all positions (on grids a pattern is (N, H, W, H, W)), or with
    `aggregate_axis` the positions along these axes, for each place along the others. The pattern is passed through
    `to_dense`; with implementation="SPARSE" it is a list of edges, integers (N, edges, dimensions, 2), in which edges
    with a negative number are ignored.
    """
    along = None if aggregate_axis is None else tuple(np.atleast_1d(aggregate_axis).tolist())
    sparse = AggregateImplementation(implementation) is AggregateImplementation.SPARSE
    reader = Pattern(along, batch_axis, channel_axis, to_dense, sparse)
    return triple("Aggregate", nn.Aggregate(), before=axes(batch_axis, channel_axis), pattern=reader)


def GlobalSelfAttention(
    n_chan_out: int,
    n_chan_key: int,
    n_chan_val: int,
    n_heads: int,
    linear_scaling: bool = True,
    W_key_std: float = 1.0,
    W_value_std: float = 1.0,
    W_query_std: float = 1.0,
    W_out_std: float = 1.0,
    b_std: float | None = None,
    attention_mechanism: str | AttentionMechanism = "SOFTMAX",
    pos_emb_type: str = "NONE",
    batch_axis: int = 0,
    channel_axis: int = -1,
    **keywords: object,
) -> StaxLayer:
    """`nn.Attention`: linear scaling with tied keys and queries, or root scaling for the mechanism "IDENTITY"."""
    only("pos_emb_type", pos_emb_type, "NONE", instead="give positions as channels of the input")
    unread = ("pos_emb_p_norm", "pos_emb_decay_fn", "n_chan_pos_emb", "W_pos_emb_std", "val_pos_emb")
    if keywords and not set(keywords) <= set(unread):
        raise NotImplementedError(f"GlobalSelfAttention does not take {', '.join(keywords)}; see nn.Attention")
    return triple(
        "GlobalSelfAttention",
        nn.Attention(
            n_chan_out,
            heads=n_heads,
            key_channels=n_chan_key,
            value_channels=n_chan_val,
            scaling="linear" if linear_scaling else "root",
            mechanism=str(getattr(attention_mechanism, "name", attention_mechanism)).lower(),
            W_query_std=W_query_std,
            W_key_std=W_key_std,
            W_value_std=W_value_std,
            W_out_std=W_out_std,
            b_std=b_std or 0.0,
        ),
        before=axes(batch_axis, channel_axis),
    )


def LayerNorm(
    axis: int | Sequence[int] = -1, eps: float = 1e-12, batch_axis: int = 0, channel_axis: int = -1
) -> StaxLayer:
    """`nn.LayerNorm` over the channels, and over the position dimensions in `axis`.

    axis=-1: channels; axis=(1, 2, 3): channels and all positions of images; axis=(1, 3): channels and rows.
    """
    wanted = (axis,) if isinstance(axis, int) else tuple(axis)
    usual = wanted == (-1,) and channel_axis == -1
    layer = nn.LayerNorm(eps=eps) if usual else own_layers.NormOverAxes(wanted, eps, batch_axis, channel_axis)
    return triple("LayerNorm", layer, before=axes(batch_axis, channel_axis))


def Dropout(rate: float, mode: str = "train") -> StaxLayer:
    """`nn.Dropout`, whose `rate` is the fraction dropped; here, as in neural-tangents, it is the fraction kept."""
    return triple("Dropout", nn.Dropout(1.0 - rate, mode))


def FanOut(num: int) -> StaxLayer:
    """`nn.Parallel` of identities: the signal `num` times."""
    return triple("FanOut", nn.Parallel(*(nn.Identity() for _ in range(num))))


def FanInSum() -> StaxLayer:
    """`nn.Sum`; raises for branches that are not independent, where neural-tangents adds their kernels."""
    return triple("FanInSum", nn.Sum())


def FanInConcat(axis: int = -1) -> StaxLayer:
    """`nn.Concatenate`: the concatenated channels of branches; `axis` must be the channels' axis, the last."""
    return triple("FanInConcat", nn.Concatenate() if axis == -1 else own_layers.JoinOverAxis(axis))


def Relu(do_stabilize: bool = False) -> StaxLayer:
    """`nn.Relu`; `do_stabilize` has no effect."""
    return triple("Relu", nn.Relu())


def LeakyRelu(alpha: float, do_stabilize: bool = False) -> StaxLayer:
    """`nn.LeakyRelu`: slope alpha for negative numbers."""
    return triple("LeakyRelu", nn.LeakyRelu(alpha))


def ABRelu(a: float, b: float, do_stabilize: bool = False) -> StaxLayer:
    """a·min(x, 0) + b·max(x, 0): `nn.LeakyRelu` times b, of -x if b is 0 or so small that a/b might overflow."""
    if abs(b) > 1e-6 * abs(a):
        return triple("ABRelu", *_times(1.0, nn.LeakyRelu(a / b), b))
    return triple("ABRelu", nn.Scale(-1.0), nn.LeakyRelu(b / a) if b else nn.Relu(), nn.Scale(-a))


def Abs(do_stabilize: bool = False) -> StaxLayer:
    """`nn.Abs`: the absolute value."""
    return triple("Abs", nn.Abs())


def Erf(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> StaxLayer:
    """a·erf(b x) + c: `nn.Erf`, with `nn.Scale` before and after, and the constant c."""
    if not c:
        return triple("Erf", *_times(b, nn.Erf(), a))
    return triple("Erf", *_times(b, own_layers.Raised(nn.Erf(), c / a), a)) if a else triple("Erf", nn.Polynomial((c,)))


def Sigmoid_like() -> StaxLayer:
    """0.5 erf(x/2.402) + 0.5, close to the logistic sigmoid, which is `nn.Elementwise(jax.nn.sigmoid)`."""
    return triple("Sigmoid_like", *_times(1 / _SIGMOID, own_layers.Raised(nn.Erf(), 1.0), 0.5))


def Gelu(approximate: bool = False) -> StaxLayer:
    """`nn.Gelu`, exact; approximate=True uses `nn.Elementwise`."""
    if approximate:
        return triple("Gelu", nn.Elementwise(lambda x: jax.nn.gelu(x, approximate=True)))
    return triple("Gelu", nn.Gelu())


def Sin(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> StaxLayer:
    """a·sin(b x + c): `nn.Sin`, with `nn.Scale` before and after, and the phase c."""
    return triple("Sin", *_times(b, own_layers.Wave(c) if c else nn.Sin(), a))


def Cos(a: float = 1.0, b: float = 1.0, c: float = 0.0) -> StaxLayer:
    """a·cos(b x + c): `nn.Cos`, with `nn.Scale` before and after, and the phase c."""
    if c:
        return triple("Cos", *_times(b, own_layers.Wave(c + math.pi / 2), a))
    return triple("Cos", *_times(b, nn.Cos(), a))


def Rbf(gamma: float = 1.0) -> StaxLayer:
    """`nn.Rbf`: the kernel exp(-gamma |x - x'|²)."""
    return triple("Rbf", nn.Rbf(gamma))


def Sign() -> StaxLayer:
    """`nn.Sign`: only the NNGP. "ntk" raises NetworkError, where neural-tangents returns zeros."""
    return triple("Sign", nn.Sign())


def Exp(a: float = 1, b: float = 1) -> StaxLayer:
    """The exponential a·exp(b x): `nn.Exp`."""
    return triple("Exp", nn.Exp(a, b))


def Gaussian(a: float = 1, b: float = -1) -> StaxLayer:
    """The Gaussian bump a·exp(b x²): `nn.Gaussian`."""
    return triple("Gaussian", nn.Gaussian(a, b))


def ExpNormalized(gamma: float = 1, shift: float = -1, do_clip: bool = False) -> StaxLayer:
    """`nn.Exponential` with the kernel √(q q') exp(gamma (cos θ + shift)); it also has a finite-width form."""
    layers: tuple[Layer, ...] = (nn.Exponential(gamma),)
    if shift != -1:
        layers += (nn.Scale(math.exp(gamma * (shift + 1) / 2)),)
    return triple("ExpNormalized", *layers)


def Hermite(degree: int) -> StaxLayer:
    """`nn.Hermite`, exact for every variance.

    neural-tangents' kernel is K^degree for all variances, which is correct only for variance 1.
    """
    return triple("Hermite", nn.Hermite(degree))


def Monomial(degree: int) -> StaxLayer:
    """`nn.Monomial`: x to the power `degree`."""
    return triple("Monomial", nn.Monomial(degree))


def Polynomial(coef: Sequence[float]) -> StaxLayer:
    """`nn.Polynomial`: coefficients from the lowest power on."""
    return triple("Polynomial", nn.Polynomial(tuple(float(c) for c in coef)))


def Elementwise(
    fn: Callable[[jax.Array], jax.Array] | None = None, nngp_fn: object = None, d_nngp_fn: object = None
) -> StaxLayer:
    """`nn.Elementwise`: the kernel of any smooth function, to a tolerance; for a closed form derive a class in `nn`."""
    if fn is None or nngp_fn is not None or d_nngp_fn is not None:
        raise NotImplementedError(
            "Elementwise takes only a function fn, and integrates its dual; a dual in closed form is the property "
            "`dual` of a class derived from equitangents.nn.Nonlinearity"
        )
    return triple("Elementwise", nn.Elementwise(fn))


def ElementwiseNumerical(
    fn: Callable[[jax.Array], jax.Array], deg: int, df: object = None, do_backprop: bool = False
) -> StaxLayer:
    """`nn.Elementwise`: integrals to its tolerance, 1e-6; neural-tangents' number of nodes `deg` has no effect."""
    return triple("ElementwiseNumerical", nn.Elementwise(fn))


def Gabor() -> StaxLayer:
    """exp(-x²) sin(x), a sine with a Gaussian envelope."""
    return triple("Gabor", own_layers.Gabor())


def RectifiedMonomial(degree: int) -> StaxLayer:
    """max(x, 0) to the power `degree`: `nn.RectifiedMonomial`; degree 1 is `nn.Relu`, degree 0 `nn.Heaviside`.

    neural-tangents' kernels are NaN between an input and itself; here they are finite.
    """
    return triple(
        "RectifiedMonomial", nn.RectifiedMonomial(degree) if degree > 1 else nn.Relu() if degree else nn.Heaviside()
    )


def _times(before: float, phi: Layer, after: float) -> tuple[Layer, ...]:
    """φ with scales before and after it, except scales of 1."""
    first = () if before == 1 else (nn.Scale(before),)
    last = () if after == 1 else (nn.Scale(after),)
    return (*first, phi, *last)
