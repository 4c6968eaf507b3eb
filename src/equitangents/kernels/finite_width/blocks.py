"""A network as alternating linear blocks and nonlinearities, each block read off its own layers.

A block is one layer with weights, and the pools, flattenings and means before and after it. It maps features φ of n
channels to preactivations z_i(o) = n^{-1/2} Σ_s Σ_j W_ij,s Σ_p R_s[o, p] φ_j(p) + bias: a slot s for each weight that
channels share. What it does to kernels follows: K'(o, o') = Σ_s (R_s K R_sᵀ)(o, o') + B(o, o').
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from equitangents import precision
from equitangents.errors import NetworkError

_PROBED = 64 << 20  # numbers of a probe's output held at once


@dataclass(frozen=True)
class LinearBlock:
    """`slots`: R, (slots, P_out, P_in); `bias`: B, (P_out, P_out); `width`: n, the channels that it reads."""

    slots: np.ndarray
    bias: np.ndarray
    width: int

    def __call__(self, field: np.ndarray, *, with_bias: bool = False) -> np.ndarray:
        """Σ_s R_s X R_sᵀ of a field over pairs of positions, (..., P_in, P_in); with the bias's kernel if asked."""
        out = sum(r @ field @ r.T for r in self.slots)
        return out + self.bias if with_bias else np.asarray(out)

    def reads(self, pairs: np.ndarray) -> np.ndarray:
        """The pairs of positions, (Q, 2), that some of `pairs` of outputs read, with (p, p), (q, q), (q, p) of each."""
        seen = np.zeros((self.slots.shape[2],) * 2, bool)
        reached = [np.flatnonzero(row) for row in self.slots.reshape(-1, self.slots.shape[2])]
        outputs = self.slots.shape[1]
        for s in range(len(self.slots)):
            for first, second in pairs:
                seen[np.ix_(reached[s * outputs + first], reached[s * outputs + second])] = True
        seen |= seen.T
        touched = seen.any(0)
        np.fill_diagonal(seen, touched)
        return np.argwhere(seen)

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
    """`given`: layers that are functions of the input alone; then blocks, with a nonlinearity between each two."""

    given: tuple[Any, ...]
    given_signals: tuple[Any, ...]
    linear: tuple[LinearBlock, ...]
    nonlinearities: tuple[Any, ...]
    outputs: int

    @cached_property
    def pairs(self) -> tuple[np.ndarray, ...]:
        """Before each block and after the last, the pairs of positions that the network's output reads."""
        found = [np.array([[0, 0]])]
        for block in reversed(self.linear):
            found.append(block.reads(found[-1]))
        return tuple(reversed(found))

    def features(self, x: np.ndarray) -> np.ndarray:
        """What goes into the first block, (N, P, C), in float64."""
        with precision.scope(np.float64):
            y: Any = jnp.asarray(x, np.float64)
            for layer, signal in zip(self.given, self.given_signals, strict=True):
                y = layer.apply((), y, signal)
            return np.asarray(y).reshape((len(y), -1, y.shape[-1]))


def blocks_of(net: Any, input_shape: tuple[int, ...]) -> Blocks:
    """The network's blocks; NetworkError names a layer whose law at finite width is not known here."""
    layers, signals = net.layers, net.signals(input_shape)
    begin = 0
    while begin < len(layers) and signals[begin + 1].given and not _trained(layers[begin], signals[begin]):
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
    linear = tuple(
        _block([layers[i] for i in g], [signals[i] for i in g], signals[g[-1] + 1] if g else None) for g in groups
    )
    if signals[-1].positions.count != 1:
        raise NetworkError(
            f"the network ends on {signals[-1].positions}: finite_width takes networks that end on one vector of outputs"
        )
    return Blocks(tuple(layers[:begin]), tuple(signals[:begin]), linear, tuple(between), signals[-1].channels)


def _is_flat(layer: Any, before: Any, after: Any) -> bool:
    return before.positions.count > 1 and after.positions.count == 1 and after.channels > before.channels


def _trained(layer: Any, signal: Any) -> bool:
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
            f"finite_width does not know {layer!r} ({why}); it takes dense, convolutional, locally connected and "
            "group-convolutional layers in NTK parametrisation, pools, Flatten and nonlinearities: use "
            "kernels.monte_carlo for this network"
        )


def _block(layers: Sequence[Any], signals: Sequence[Any], after: Any) -> LinearBlock:
    trained = [i for i, (layer, s) in enumerate(zip(layers, signals, strict=True)) if _trained(layer, s)]
    if len(trained) != 1:
        held = ", ".join(map(repr, layers)) or "no layer"
        raise NetworkError(
            f"finite_width needs one layer with weights between two nonlinearities, before the first and after the "
            f"last; there it finds {held}"
        )
    chosen = trained[0]
    one = [replace(signals[0], channels=1)]
    kept = [replace(layer, channels=1) if i == chosen else layer for i, layer in enumerate(layers)]
    for layer, signal in zip(kept, signals, strict=True):
        one.append(replace(layer.signal(one[-1]), gaussian=signal.gaussian, given=signal.given))
    layer, signal = kept[chosen], one[chosen]
    with precision.scope(np.float64):
        shapes = jax.eval_shape(lambda key: layer.init(key, signal, jnp.dtype("float64")), jax.random.key(0))
        zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)

        def run(params: Any, x: Any) -> Any:
            for i, (step, into) in enumerate(zip(kept, one, strict=False)):
                x = step.apply(params if i == chosen else (), x, into)
            return x.reshape((len(x), -1))

        count = signals[0].positions.count
        unit = jnp.eye(count).reshape((count, *signals[0].positions.shape, 1))
        slots = _responses(lambda w: run({**zero, "w": w}, unit), zero["w"])  # (slots, P_in, P_out)
        if "b" in zero:
            nothing = jnp.zeros_like(unit[:1])
            raised = _responses(lambda b: run({**zero, "b": b}, nothing), zero["b"])[:, 0]
            bias = raised.T @ raised
        else:
            bias = np.zeros((slots.shape[2],) * 2)
    slots = slots.transpose(0, 2, 1)
    return LinearBlock(np.ascontiguousarray(slots[slots.any((1, 2))]), bias, signals[0].channels)


def _responses(output: Any, like: Any) -> np.ndarray:
    """The output for each weight set to one and all others to zero, (weights, *output)."""
    run = jax.jit(jax.vmap(lambda w: output(w.reshape(like.shape))))
    size = jax.eval_shape(run, jax.ShapeDtypeStruct((1, like.size), like.dtype)).size
    step = max(1, _PROBED // size)
    unit = jnp.eye(like.size)
    return np.concatenate([np.asarray(run(unit[i : i + step])) for i in range(0, like.size, step)])
