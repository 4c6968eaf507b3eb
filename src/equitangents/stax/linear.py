"""Linear layers under their names in neural-tangents, with its defaults."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from equitangents import nn
from equitangents.errors import InvalidArgumentError
from equitangents.stax.arguments import axes, only, setting
from equitangents.stax.enumerations import AggregateImplementation, AttentionMechanism
from equitangents.stax.layers import StaxLayer, triple
from equitangents.stax.nodes import Axes
from equitangents.stax.own_layers import InnerPool, NormOverAxes
from equitangents.stax.patterns import Pattern

_PADDINGS = {"SAME": "zero", "VALID": "valid", "CIRCULAR": "circular"}


def Dense(
    out_dim: int,
    W_std: float = 1.0,
    b_std: float | None = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    parameterization: str = "ntk",
    s: tuple[int, int] = (1, 1),
) -> StaxLayer:
    """`nn.Dense`: a matrix at each position. In standard parametrisation b_std=0.0 is a bias that is trained."""
    channels, weights = _weights(out_dim, W_std, b_std, parameterization, s)
    return triple("Dense", nn.Dense(channels, **weights), before=axes(batch_axis, channel_axis))


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
    """`nn.Conv`: padding "SAME" is our "zero", "CIRCULAR" our "circular", "VALID" our "valid".

    A window of no dimensions is a `Dense`.
    """
    channels, weights = _weights(out_chan, W_std, b_std, parameterization, s)
    window, stride, before, after = _windows(filter_shape, strides, dimension_numbers)
    layer = nn.Conv(channels, window, stride, _padding(padding), **weights) if window else nn.Dense(channels, **weights)
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
    """`nn.LocallyConnected`: weights of its own at every position."""
    channels, weights = _weights(out_chan, W_std, b_std, parameterization, s)
    window, stride, before, after = _windows(filter_shape, strides, dimension_numbers)
    layer = nn.LocallyConnected(channels, window, stride, _padding(padding), **weights)
    return triple("ConvLocal", layer, before=before, after=after)


def AvgPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    normalize_edges: bool = False,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> StaxLayer:
    """`nn.AvgPool`, whose stride is the window unless said otherwise; here it is 1.

    normalize_edges=True divides at the borders of "SAME" padding by how many positions of a window lie on the grid.
    """
    pool = _mean_pool(window_shape, strides, padding)
    inner = normalize_edges and pool.padding == "zero"
    return triple("AvgPool", InnerPool(pool) if inner else pool, before=axes(batch_axis, channel_axis))


def SumPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> StaxLayer:
    """`nn.AvgPool` times the size of the window, by `nn.Scale`; blocks of `nn.SumPool` where these do not overlap."""
    pool, before = _mean_pool(window_shape, strides, padding), axes(batch_axis, channel_axis)
    if pool.stride == pool.window and pool.padding == "valid":
        return triple("SumPool", nn.SumPool(pool.window), before=before)
    return triple("SumPool", pool, nn.Scale(float(math.prod(window_shape))), before=before)


def GlobalAvgPool(batch_axis: int = 0, channel_axis: int = -1) -> StaxLayer:
    """`nn.GlobalAvgPool`: the mean over all positions."""
    before = axes(batch_axis, channel_axis)
    return triple("GlobalAvgPool", nn.GlobalAvgPool(), before=before, after=_order(before))


def GlobalSumPool(batch_axis: int = 0, channel_axis: int = -1) -> StaxLayer:
    """`nn.GlobalSumPool`: the sum over all positions."""
    before = axes(batch_axis, channel_axis)
    return triple("GlobalSumPool", nn.GlobalSumPool(), before=before, after=_order(before))


def Flatten(batch_axis: int = 0, batch_axis_out: int = 0) -> StaxLayer:
    """`nn.Flatten`: all positions' channels side by side."""
    if batch_axis_out not in (0, 1, -1, -2):
        raise InvalidArgumentError(
            f"batch_axis_out is {batch_axis_out}; expected 0 or 1, since what comes out has two axes"
        )
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
    to_dense: Callable[[Any], Any] | None = None,
    implementation: str = "DENSE",
) -> StaxLayer:
    """`nn.Aggregate`: give the graphs as `pattern=`, weights (N, tails, heads) of the edges of each input.

    Without a pattern it changes nothing. Nodes are all positions, on grids a pattern is (N, H, W, H, W); with
    `aggregate_axis` those along some axes, for each place along the others. The pattern is what `to_dense` makes of
    it; with implementation="SPARSE" it is a list of edges, whole numbers (N, edges, dimensions, 2), of which those with
    a negative number count for nothing.
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
    """`nn.Attention`: linear scaling with tied keys and queries, or root scaling where attention is "IDENTITY"."""
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
            mechanism=setting(attention_mechanism).lower(),
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
    """`nn.LayerNorm` over the channels, and over as many dimensions of positions as `axis` names.

    axis=-1 are channels, axis=(1, 2, 3) channels and all positions of images, axis=(1, 3) channels and rows.
    """
    wanted = (axis,) if isinstance(axis, int) else tuple(axis)
    usual = wanted == (-1,) and channel_axis == -1
    layer = nn.LayerNorm(eps=eps) if usual else NormOverAxes(wanted, eps, batch_axis, channel_axis)
    return triple("LayerNorm", layer, before=axes(batch_axis, channel_axis))


def Dropout(rate: float, mode: str = "train") -> StaxLayer:
    """`nn.Dropout`: here as there `rate` is the share that is kept, whereas `nn.Dropout` takes the share dropped."""
    return triple("Dropout", nn.Dropout(1.0 - rate, mode))


def _weights(
    channels: int, W_std: float, b_std: float | None, parametrisation: str, s: Sequence[int]
) -> tuple[int, dict[str, Any]]:
    """Channels of a layer, and what its weights are: None is no bias, and 0.0 one that starts at 0."""
    how = parametrisation.lower()
    given = {"W_std": W_std, "b_std": b_std or 0.0, "parametrisation": how}
    if how != "standard":
        return channels, given
    return channels * s[1], {**given, "bias": b_std is not None, "width_scale": float(s[0])}


def _padding(padding: str) -> str:
    name = str(padding).rsplit(".", maxsplit=1)[-1].upper()
    only("padding", name, *_PADDINGS, instead=f"use one of {', '.join(_PADDINGS)}")
    return _PADDINGS[name]


def _windows(
    window: Sequence[int], strides: Sequence[int] | None, numbers: Sequence[str | None] | None
) -> tuple[tuple[int, ...], Any, Axes | None, Axes | None]:
    """(window, strides, axes of the input, axes of the output): dimensions in the order that the input has them in."""
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


def _order(before: Axes | None) -> Axes | None:
    """The axes after all positions are gone."""
    if before is None:
        return None
    batch, channel = before
    first = channel is not None and 0 <= channel < batch
    return (1, 0) if first else (0, -1)


def _mean_pool(window: Sequence[int], strides: Sequence[int] | None, padding: str) -> nn.AvgPool:
    window = tuple(window)
    return nn.AvgPool(window, (1,) * len(window) if strides is None else tuple(strides), _padding(padding))
