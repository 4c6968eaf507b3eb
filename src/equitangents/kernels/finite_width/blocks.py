"""A network as alternating linear blocks and nonlinearities.

A block is one layer with weights, and the pools, flattenings and means before and after it. It maps features φ of n
channels to preactivations z_i(o) = n^{-1/2} Σ_s Σ_j W_ij,s Σ_p R_s[o, p] φ_j(p) + bias: a slot s for each weight that
channels share. What it does to kernels follows: K'(o, o') = Σ_s (R_s K R_sᵀ)(o, o') + B(o, o').
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from equitangents import precision
from equitangents._types import Params
from equitangents.errors import NetworkError

_PROBED = 64 << 20  # numbers of a probe's output held at once


@dataclass(frozen=True)
class LinearBlock:
    """`slots`: R, (slots, P_out, P_in); `bias`: B, (P_out, P_out); `width`: n, the channels that it reads.

    Slots that are zero throughout are left out: with W_std = 0 there is none, and the block makes its bias alone.
    """

    slots: np.ndarray
    bias: np.ndarray
    width: int

    def __call__(self, field: np.ndarray, *, with_bias: bool = False) -> np.ndarray:
        """Σ_s R_s X R_sᵀ of a field over pairs of positions, (..., P_in, P_in); with the bias's kernel if asked."""
        out = np.zeros((*field.shape[:-2], *self.bias.shape))
        for r in self.slots:
            out += r @ field @ r.T
        return out + self.bias if with_bias else out

    def reads(self, pairs: np.ndarray) -> np.ndarray:
        """Pairs of positions that pairs of outputs read, both as masks (P, P); closed under (p, p), (q, q), (q, p)."""
        seen = np.zeros((self.slots.shape[2],) * 2, bool)
        for r in self.slots != 0:
            seen |= (r.T.astype(np.float32) @ pairs.astype(np.float32) @ r.astype(np.float32)) > 0
        seen |= seen.T
        np.fill_diagonal(seen, seen.any(0))
        seen[0, 0] |= not seen.any()  # weights that are all zero read nothing; one pair stays, with no effect
        return seen

    def on_pairs(self, outputs: np.ndarray, inputs: np.ndarray) -> sparse.csr_matrix:
        """The map from fields on the pairs `inputs` to fields on the pairs `outputs`, (Q_out, Q_in)."""
        out = sparse.csr_matrix((len(outputs), len(inputs)))
        for r in self.slots:
            left = sparse.csr_matrix(r)[outputs[:, 0]][:, inputs[:, 0]]
            right = sparse.csr_matrix(r)[outputs[:, 1]][:, inputs[:, 1]]
            out = out + left.multiply(right)
        return out.tocsr()


@dataclass(frozen=True)
class Blocks:
    """`given`: layers without weights; then blocks, with a nonlinearity between each two.

    ends: positions of the outputs, whose pairs are all read.
    """

    given: tuple[Any, ...]
    given_signals: tuple[Any, ...]
    linear: tuple[LinearBlock, ...]
    nonlinearities: tuple[Any, ...]
    outputs: int
    ends: int = 1

    @cached_property
    def pairs(self) -> tuple[np.ndarray, ...]:
        """Before each block and after the last, the pairs of positions that the network's output reads."""
        return tuple(np.argwhere(seen) for seen in self._masks)

    @cached_property
    def most_pairs(self) -> int:
        """The largest number of pairs of positions after any block."""
        return max(int(np.count_nonzero(seen)) for seen in self._masks[1:])

    @cached_property
    def _masks(self) -> tuple[np.ndarray, ...]:
        found = [np.ones((self.ends, self.ends), bool)]
        for block in reversed(self.linear):
            found.append(block.reads(found[-1]))
        return tuple(reversed(found))

    def features(self, x: np.ndarray) -> np.ndarray:
        """Input of the first block, (N, P, C), in float64."""
        with precision.scope(np.float64):
            y: jax.Array = jnp.asarray(x, np.float64)
            for layer, signal in zip(self.given, self.given_signals, strict=True):
                y = layer.apply((), y, signal)
            return np.asarray(y).reshape((len(y), -1, y.shape[-1]))


def blocks_of(net: Any, input_shape: tuple[int, ...]) -> Blocks:
    """The network's blocks; NetworkError names a layer whose law at finite width is not known here."""
    layers, signals = net.layers, net.signals(input_shape)
    begin = 0
    while begin < len(layers) and signals[begin + 1].given and not has_weights(layers[begin], signals[begin]):
        begin += 1
    if begin and _is_flat(layers[begin - 1], signals[begin - 1], signals[begin]):
        begin -= 1  # the first block flattens
    groups: list[list[int]] = [[]]
    between: list[Any] = []
    for i in range(begin, len(layers)):
        layer = layers[i]
        _check_known(layer)
        if getattr(layer, "dual", None) is not None:
            between.append(layer)
            groups.append([])
        elif type(layer).__name__ != "Identity":
            groups[-1].append(i)
    for group in groups:
        if sum(has_weights(layers[i], signals[i]) for i in group) != 1:
            held = ", ".join(repr(layers[i]) for i in group) or "no layer"
            raise NetworkError(
                "finite_width needs one layer with weights before the first nonlinearity, after the last, and between "
                f"two; in one of these places it finds {held}"
            )
    linear = tuple(linear_block([layers[i] for i in g], [signals[i] for i in g]) for g in groups)
    if signals[-1].positions.count != 1:
        raise NetworkError("output", signals[-1].positions, "a plain vector, for finite_width")
    return Blocks(tuple(layers[:begin]), tuple(signals[:begin]), linear, tuple(between), signals[-1].channels)


def _is_flat(layer: Any, before: Any, after: Any) -> bool:
    return before.positions.count > 1 and after.positions.count == 1 and after.channels > before.channels


def has_weights(layer: Any, signal: Any) -> bool:
    """Whether a layer has parameters."""
    shapes = jax.eval_shape(lambda key: layer.init(key, signal, jnp.dtype("float32")), jax.random.key(0))
    return bool(jax.tree.leaves(shapes))


def _check_known(layer: Any) -> None:
    why = None
    if layer.inner or layer.joins:
        why = "branches"
    elif layer.needs_structure or layer.steers or layer.is_last:
        why = "it needs more than a signal on positions"
    elif type(layer).__name__ in {"LayerNorm", "Dropout", "Attention", "Aggregate"}:
        why = "its law is another"
    elif getattr(layer, "parametrisation", "ntk") != "ntk":
        why = "the standard parametrisation"
    if why:
        raise NetworkError(
            "layer",
            layer,
            "dense, (group-)convolutional and locally connected layers in NTK parametrisation, pools, Flatten, φ",
            f"use kernels.monte_carlo for this network: {why}",
        )


def linear_block(layers: Sequence[Any], signals: Sequence[Any]) -> LinearBlock:
    """The block of linear layers, of which at most one has weights; `signals[i]` goes into layer i."""
    trained = [i for i, (layer, s) in enumerate(zip(layers, signals, strict=True)) if has_weights(layer, s)]
    chosen = trained[0] if trained else None
    one = [replace(signals[0], channels=1)]
    kept = [replace(layer, channels=1) if i == chosen else layer for i, layer in enumerate(layers)]
    for layer, signal in zip(kept, signals, strict=True):
        one.append(replace(layer.signal(one[-1]), gaussian=signal.gaussian, given=signal.given))
    with precision.scope(np.float64):

        def run(params: Params, x: jax.Array) -> jax.Array:
            for i, (step, into) in enumerate(zip(kept, one, strict=False)):
                x = step.apply(params if i == chosen else (), x, into)
            return x.reshape((len(x), -1))

        count = signals[0].positions.count
        unit = jnp.eye(count).reshape((count, *signals[0].positions.shape, 1))
        if chosen is None:
            slots = np.asarray(run((), unit))[None]
            bias = np.zeros((slots.shape[2],) * 2)
        else:
            slots, bias = _slots_and_bias(kept[chosen], one[chosen], run, unit)
    slots = slots.transpose(0, 2, 1)
    return LinearBlock(np.ascontiguousarray(slots[slots.any((1, 2))]), bias, signals[0].channels)


def _slots_and_bias(
    layer: Any, signal: Any, run: Callable[[Params, jax.Array], jax.Array], unit: jax.Array
) -> tuple[np.ndarray, np.ndarray]:
    """R of each weight, (slots, P_in, P_out), and the bias's kernel, (P_out, P_out)."""
    shapes = jax.eval_shape(lambda key: layer.init(key, signal, jnp.dtype("float64")), jax.random.key(0))
    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    slots = _responses(lambda w: run({**zero, "w": w}, unit), zero["w"])
    if "b" not in zero:
        return slots, np.zeros((slots.shape[2],) * 2)
    raised = _responses(lambda b: run({**zero, "b": b}, jnp.zeros_like(unit[:1])), zero["b"])[:, 0]
    return slots, raised.T @ raised


def _responses(output: Callable[[jax.Array], jax.Array], like: jax.Array) -> np.ndarray:
    """The output for each weight set to one and all others to zero, (weights, *output)."""
    run = jax.jit(jax.vmap(lambda w: output(w.reshape(like.shape))))
    size = jax.eval_shape(run, jax.ShapeDtypeStruct((1, like.size), like.dtype)).size
    step = max(1, _PROBED // size)
    unit = jnp.eye(like.size)
    return np.concatenate([np.asarray(run(unit[i : i + step])) for i in range(0, like.size, step)])
