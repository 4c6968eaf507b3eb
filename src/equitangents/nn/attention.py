"""Weighted sums over positions: by the input's graph, by a fixed matrix, or by self-attention among all positions.

Attention has the two scalings under which an infinite-width limit is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from equitangents._types import ArrayLike, DType, Params
from equitangents.errors import NetworkError, ShapeError
from equitangents.kernels.operations import FrozenArray
from equitangents.kernels.structured import Attend, Mix
from equitangents.nn.layer import ByRun, Grid, ParameterFree, Signal, Structure, check_scale
from equitangents.precision import standard_normal
from equitangents.validation import check_array, check_choice, check_whole


@dataclass(frozen=True)
class Aggregate(ByRun, ParameterFree):
    """y(p) = Σ_r A(p, r) x(r): K' = A K A'ᵀ, Θ' = A Θ A'ᵀ.

    `Aggregate()` uses each input's adjacency matrix A: the network reads `Graphs(x, adjacency, mask)`.
    `Aggregate(matrix)` uses the same matrix, (positions_out, positions), for all inputs. If a pool over nodes follows,
    the output does not depend on the numbering of the nodes.
    """

    matrix: npt.ArrayLike | FrozenArray | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.matrix, FrozenArray | None):
            matrix = np.asarray(check_array("matrix", self.matrix, rank=2), np.float64)
            object.__setattr__(self, "matrix", FrozenArray(matrix))

    @property
    def _matrix(self) -> FrozenArray | None:
        assert isinstance(self.matrix, FrozenArray | None)
        return self.matrix

    def signal(self, signal: Signal) -> Signal:
        """A signal on the input's positions, or on one per row of the matrix; a Gaussian field stays Gaussian."""
        positions = signal.positions
        if not signal.axes:
            raise NetworkError("signal", positions, "positions of a grid (N, *grid, channels)", verb="is on")
        if self._matrix is None:
            return replace(signal, deterministic=False)
        rows, columns = self._matrix.array.shape
        if columns != positions.count:
            raise ShapeError("matrix", self._matrix.array.shape, "as many columns as the signal has positions")
        return signal if rows == columns else replace(signal, positions=Grid((rows,)))

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        flat = x.reshape((x.shape[0], -1, x.shape[-1]))
        if self._matrix is None:
            if structure.graphs is None:
                raise NetworkError(
                    "Aggregate() reads the graphs of its inputs: give Graphs(x, adjacency) in place of x"
                )
            y = jnp.einsum("npr,nrc->npc", structure.graphs.astype(x.dtype), flat, precision="highest")
        else:
            y = jnp.einsum("pr,nrc->npc", jnp.asarray(self._matrix.array, x.dtype), flat, precision="highest")
        y = y.reshape((x.shape[0], *self.signal(signal).positions.shape, x.shape[-1]))
        return structure.after(y, structure.mask if y.shape == x.shape else None)

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        return (Mix(self._matrix),)


_MECHANISMS = ("softmax", "identity", "relu", "abs")


@dataclass(frozen=True)
class Attention(ByRun):
    """Global self-attention: the concatenated heads A V, times W_out; A = softmax of the logits over positions.

    `scaling="linear"`: logits are (key channels)⁻¹ Q Kᵀ with tied W_query = W_key. As channels and heads grow they
    become c K(f, f), c = W_query_std W_key_std, and with s = W_value_std W_out_std
    K' = s² A K A'ᵀ + b_std², Θ' = 2 s² A K A'ᵀ + s² A Θ A'ᵀ + b_std².
    `scaling="root"`: logits are (key channels)^(-1/2) Q Kᵀ with untied weights. They stay random, and a closed-form
    limit is known only for `mechanism="identity"`: K' = s² c² K Σ_{r,r'} K(r, r')² + b_std².
    `mechanism`: "softmax", "identity", "relu" or "abs". Source: Hron et al. 2020, Infinite attention.
    """

    channels: int
    heads: int = 8
    key_channels: int | None = None
    value_channels: int | None = None
    scaling: str = "linear"
    mechanism: str = "softmax"
    W_query_std: float = 1.0
    W_key_std: float = 1.0
    W_value_std: float = 1.0
    W_out_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        for name in ("channels", "heads"):
            check_whole(name, getattr(self, name), 1)
        for name in ("key_channels", "value_channels"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1)
        for name in ("W_query_std", "W_key_std", "W_value_std", "W_out_std", "b_std"):
            check_scale(name, getattr(self, name))
        check_choice("scaling", self.scaling, ("linear", "root"))
        check_choice("mechanism", self.mechanism, _MECHANISMS)

    def signal(self, signal: Signal) -> Signal:
        if not signal.axes:
            raise NetworkError("signal", signal.positions, "positions of a grid (N, *grid, channels)", verb="is on")
        return replace(signal, channels=self.channels, gaussian=True, deterministic=False, uneven=False)

    def init(self, key: jax.Array, signal: Signal, dtype: DType) -> Params:
        """key (heads, n, key channels), value (heads, n, value channels), out, and, if used, query and b."""
        keys, n = jax.random.split(key, 5), signal.channels
        wide, deep = self.key_channels or self.channels, self.value_channels or self.channels
        params = {
            "key": standard_normal(keys[0], (self.heads, n, wide), dtype),
            "value": standard_normal(keys[1], (self.heads, n, deep), dtype),
            "out": standard_normal(keys[2], (self.heads * deep, self.channels), dtype),
        }
        if self.scaling == "root":
            params["query"] = standard_normal(keys[3], (self.heads, n, wide), dtype)
        if self.b_std:
            params["b"] = standard_normal(keys[4], (self.channels,), dtype)
        return params

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """The concatenated outputs of all heads, times W_out; attention among existing positions."""
        mask = structure.mask
        shape, flat = x.shape, x.reshape((x.shape[0], -1, x.shape[-1]))
        keys = jnp.einsum("npc,hcd->hnpd", flat, params["key"])
        queries = jnp.einsum("npc,hcd->hnpd", flat, params.get("query", params["key"]))
        values = jnp.einsum("npc,hcd->hnpd", flat, params["value"])
        wide = keys.shape[-1] if self.scaling == "linear" else keys.shape[-1] ** 0.5
        logits = jnp.einsum("hnpd,hnrd->hnpr", queries, keys)
        logits = logits * (self.W_query_std * self.W_key_std / (wide * shape[-1]))
        valid = None if mask is None else mask.reshape((1, shape[0], 1, -1))
        heads = jnp.einsum("hnpr,hnrd->nphd", self._weights(logits, valid), values)
        heads = heads.reshape((*heads.shape[:2], -1))
        scale = self.W_value_std * self.W_out_std / (heads.shape[-1] * shape[-1]) ** 0.5
        y = scale * (heads @ params["out"])
        y = y + self.b_std * params["b"] if "b" in params else y
        return structure.after(y.reshape((*shape[:-1], self.channels)), mask)

    def _weights(self, logits: jax.Array, valid: ArrayLike | None) -> jax.Array:
        if self.mechanism == "softmax":
            if valid is None:
                return jax.nn.softmax(logits, axis=-1)
            powers = jnp.where(valid, jnp.exp(logits - jnp.max(jnp.where(valid, logits, -1e30), -1, keepdims=True)), 0)
            total = powers.sum(axis=-1, keepdims=True)
            return powers / jnp.where(total > 0, total, 1)
        how = {"identity": lambda v: v, "relu": jax.nn.relu, "abs": jnp.abs}[self.mechanism]
        return how(logits) if valid is None else jnp.where(valid, how(logits), 0)

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        if self.scaling == "root" and self.mechanism != "identity":
            raise NetworkError(
                "mechanism",
                self.mechanism,
                "'identity' with scaling='root', whose logits stay random at infinite width",
                "use scaling='linear'",
            )
        return (
            Attend(
                self.mechanism,
                self.scaling == "linear",
                self.W_query_std * self.W_key_std,
                (self.W_value_std * self.W_out_std) ** 2,
                self.b_std**2,
            ),
        )
