"""Linear layers under their names in neural-tangents, with its defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence

from equitangents import nn
from equitangents.stax.arguments import channel_last, only, setting
from equitangents.stax.enumerations import AttentionMechanism
from equitangents.stax.layers import StaxLayer, triple

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
    """`nn.Dense`: a matrix at each position."""
    channel_last(batch_axis, channel_axis)
    only("s", tuple(s), (1, 1), instead="write the widths into out_dim")
    return triple(nn.Dense(out_dim, W_std, b_std or 0.0, parameterization.lower()))


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
    """`nn.Conv`: padding "SAME" is our "zero", "CIRCULAR" our "circular", "VALID" our "valid"."""
    _check_convolution(dimension_numbers, s)
    window, stride = tuple(filter_shape), 1 if strides is None else tuple(strides)
    return triple(
        nn.Conv(
            out_chan, window, stride, _padding(padding), W_std, b_std or 0.0, parametrisation=parameterization.lower()
        )
    )


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
    _check_convolution(dimension_numbers, s)
    only("parameterization", parameterization.lower(), "ntk", instead="nn.LocallyConnected has the NTK parametrisation")
    window, stride = tuple(filter_shape), 1 if strides is None else tuple(strides)
    return triple(nn.LocallyConnected(out_chan, window, stride, _padding(padding), W_std, b_std or 0.0))


def AvgPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    normalize_edges: bool = False,
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> StaxLayer:
    """`nn.AvgPool`, whose stride is the window unless said otherwise; here it is 1."""
    channel_last(batch_axis, channel_axis)
    if normalize_edges and _padding(padding) == "zero":
        raise NotImplementedError(
            "normalize_edges=True is not here: means divide by the whole window; use nn.Aggregate"
        )
    return triple(_mean_pool(window_shape, strides, padding))


def SumPool(
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: str = "VALID",
    batch_axis: int = 0,
    channel_axis: int = -1,
) -> StaxLayer:
    """`nn.AvgPool` times the size of the window, by `nn.Scale`; blocks of `nn.SumPool` where these do not overlap."""
    channel_last(batch_axis, channel_axis)
    pool = _mean_pool(window_shape, strides, padding)
    if pool.stride == pool.window and pool.padding == "valid":
        return triple(nn.SumPool(pool.window))
    return triple(pool, nn.Scale(float(math.prod(window_shape))))


def GlobalAvgPool(batch_axis: int = 0, channel_axis: int = -1) -> StaxLayer:
    """`nn.GlobalAvgPool`: the mean over all positions."""
    channel_last(batch_axis, channel_axis)
    return triple(nn.GlobalAvgPool())


def GlobalSumPool(batch_axis: int = 0, channel_axis: int = -1) -> StaxLayer:
    """`nn.GlobalSumPool`: the sum over all positions."""
    channel_last(batch_axis, channel_axis)
    return triple(nn.GlobalSumPool())


def Flatten(batch_axis: int = 0, batch_axis_out: int = 0) -> StaxLayer:
    """`nn.Flatten`: all positions' channels side by side."""
    only("batch_axis", batch_axis, 0, instead="move the batch to the first axis")
    only("batch_axis_out", batch_axis_out, 0, instead="move the batch to the first axis")
    return triple(nn.Flatten())


def Identity() -> StaxLayer:
    """`nn.Identity`: a layer that changes nothing."""
    return triple(nn.Identity())


def Aggregate(
    aggregate_axis: int | tuple[int, ...] | None = None,
    batch_axis: int = 0,
    channel_axis: int = -1,
    to_dense: object = None,
    implementation: str = "DENSE",
) -> StaxLayer:
    """`nn.Aggregate`: give the graphs as `pattern=`, an adjacency matrix (N, nodes, nodes) of each input."""
    channel_last(batch_axis, channel_axis)
    only("to_dense", to_dense, None, instead="give dense adjacency matrices, (N, nodes, nodes)")
    only("implementation", implementation, "DENSE", instead="give dense adjacency matrices, (N, nodes, nodes)")
    if aggregate_axis is not None and aggregate_axis not in (1, (1,)):
        raise NotImplementedError("aggregate_axis must be the axis of nodes, 1: inputs are (N, nodes, channels)")
    return triple(nn.Aggregate())


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
    **keywords: object,
) -> StaxLayer:
    """`nn.Attention`: linear scaling with tied keys and queries, or root scaling where attention is "IDENTITY"."""
    only("pos_emb_type", pos_emb_type, "NONE", instead="give positions as channels of the input")
    if keywords:
        raise NotImplementedError(f"GlobalSelfAttention does not take {', '.join(keywords)}; see nn.Attention")
    return triple(
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
        )
    )


def LayerNorm(
    axis: int | Sequence[int] = -1, eps: float = 1e-12, batch_axis: int = 0, channel_axis: int = -1
) -> StaxLayer:
    """`nn.LayerNorm`: over channels (axis=-1), or over channels and all positions, as axis=(1, 2, 3) of images."""
    channel_last(batch_axis, channel_axis)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if axes == (-1,):
        return triple(nn.LayerNorm(eps=eps))
    if -1 in axes or len(axes) > 1:
        return triple(nn.LayerNorm(positions=True, eps=eps))
    raise NotImplementedError(f"axis={axis!r} is not here; use nn.LayerNorm() or nn.LayerNorm(positions=True)")


def Dropout(rate: float, mode: str = "train") -> StaxLayer:
    """`nn.Dropout`: here as there `rate` is the share that is kept, whereas `nn.Dropout` takes the share dropped."""
    return triple(nn.Dropout(1.0 - rate, mode))


def _padding(padding: str) -> str:
    name = str(padding).rsplit(".", maxsplit=1)[-1].upper()
    only("padding", name, *_PADDINGS, instead=f"use one of {', '.join(_PADDINGS)}")
    return _PADDINGS[name]


def _check_convolution(dimension_numbers: Sequence[str] | None, s: Sequence[int]) -> None:
    if dimension_numbers is not None and tuple(dimension_numbers) not in (
        ("NHWC", "HWIO", "NHWC"), ("NHC", "HIO", "NHC"), ("NWC", "WIO", "NWC"),
    ):  # fmt: skip
        raise NotImplementedError(
            f"dimension_numbers={dimension_numbers!r} are not here; move the axes: inputs are (N, *positions, channels)"
        )
    only("s", tuple(s), (1, 1), instead="write the widths into out_chan")


def _mean_pool(window: Sequence[int], strides: Sequence[int] | None, padding: str) -> nn.AvgPool:
    window = tuple(window)
    return nn.AvgPool(window, (1,) * len(window) if strides is None else tuple(strides), _padding(padding))
