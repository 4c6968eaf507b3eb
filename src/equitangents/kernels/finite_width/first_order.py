"""Means and standard deviations of the kernels of networks of finite width, to first order in 1/width.

A network as alternating linear blocks and nonlinearities.

A block is one layer with weights, and the pools, flattenings and means before and after it. It maps features φ of n
channels to preactivations z_i(o) = n^{-1/2} Σ_s Σ_j W_ij,s Σ_p R_s[o, p] φ_j(p) + bias: a slot s for each weight that
channels share. What it does to kernels follows: K'(o, o') = Σ_s (R_s K R_sᵀ)(o, o') + B(o, o').

The recursion of first-order statistics, layer by layer (theory: Roberts, Yaida & Hanin 2022, chapters 4 and 8).

Sites are (input, position); a pair of sites I = (a, b, q) stands for inputs a, b ∈ {0, 1} at the pair of positions
(p, p') = pairs[q]. With Ĝ the covariance of preactivations given all layers before, Θ̂_ij the tangent kernel between
channels i and j, to first order in 1/width, which all of the following contain:

    V_IJ = Cov(Ĝ_I, Ĝ_J)                    K₁ = E Ĝ - K,  Θ₁ = E Θ̂_ii - Θ
    D_IJ = E[z_i(a) z_i(b) ΔΘ̂_jj(J)]         F_IJ = E[z_i(a) z_j(b) ΔΘ̂_ij(a', b')]     for I = (a, a'), J = (b, b')
    A_IJ = E[ΔΘ̂_ii(I) ΔΘ̂_jj(J)]              B_IJ = E[ΔΘ̂_ij(a, b) ΔΘ̂_ij(a', b')]       for I = (a, a'), J = (b, b')

for channels i ≠ j. A linear block acts on both pairs alike; between, sums over channels add 1/n times the covariances
of one channel's products, and changes of the covariance go through the derivatives of F and G.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from equitangents._types import ArrayLike, Network
from equitangents.errors import InvalidArgumentError, InvalidTypeError, NetworkError
from equitangents.kernels.engines.reference.windows import window_averages
from equitangents.kernels.finite_width.gaussian import Jet, Law, many_sites, two_sites
from equitangents.kernels.operations import Box, Decouple, Flatten, Pool, Table, WindowPool
from equitangents.kernels.structured import BlockSums, Times
from equitangents.memory import check_fits, default_memory_limit
from equitangents.validation import check_array, check_whole


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
    """Blocks with a nonlinearity between each two."""

    linear: tuple[LinearBlock, ...]
    nonlinearities: tuple[Any, ...]
    outputs: int

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
        found = [np.ones((1, 1), bool)]
        for block in reversed(self.linear):
            found.append(block.reads(found[-1]))
        return tuple(reversed(found))


def blocks_of(net: Any, input_shape: tuple[int, ...]) -> Blocks:
    """The network's blocks; NetworkError names a layer whose law at finite width is not known here."""
    layers, signals = net.layers, net.signals(input_shape)
    groups: list[list[int]] = [[]]
    between: list[Any] = []
    for i in range(net.lower(input_shape)[0], len(layers)):
        if getattr(layers[i], "dual", None) is not None:
            between.append(layers[i])
            groups.append([])
        else:
            groups[-1].append(i)
    linear = []
    for group in groups:
        held = [layers[i] for i in group]
        if sum(layer.has_weights for layer in held) != 1:
            raise NetworkError(
                "layers",
                held or "none",
                "one layer with weights before the first nonlinearity, after the last, and between two",
                verb="between nonlinearities are",
            )
        linear.append(linear_block(held, [signals[i] for i in group]))
        ops = [op for i in group for op in layers[i].lower(signals[i])]
        at = next(i for i, op in enumerate(ops) if op.affine is not None)
        if any(op.has_rates for op in ops) or any(op.is_diagonal for op in ops[at:]):  # outputs of unlike laws
            raise NetworkError("layers", held, _KNOWN, _REMEDY, verb="are")
    return Blocks(tuple(linear), tuple(between), signals[-1].channels)


_KNOWN = (
    "dense, convolutional, locally connected and group-convolutional layers in NTK parametrisation, pools, "
    "nonlinearities, and Flatten before weights"
)
_REMEDY = "use kernels.monte_carlo for this network"


def linear_block(layers: Sequence[Any], signals: Sequence[Any]) -> LinearBlock:
    """The block of linear layers; `signals[i]` goes into layer i. NetworkError for a layer of other operations."""
    count = signals[0].positions.count
    slots, bias = np.eye(count)[None], np.zeros((count, count))
    for layer, signal in zip(layers, signals, strict=True):
        for op in layer.lower(signal):
            if op.affine is not None:
                slots, bias = slots * op.W_var**0.5, op.W_var * bias + op.b_var
            elif isinstance(op, Decouple):  # weights of each position by themselves
                each = np.eye(len(bias))
                slots = (each[:, None, :, None] * slots).reshape((-1, *slots.shape[1:]))
                bias = bias * each
            elif (rule := _MAPS.get(type(op))) is not None:
                maps = rule(op, len(bias))
                slots = (maps[:, None] @ slots).reshape((-1, maps.shape[1], count))
                bias = (maps @ bias @ maps.mT).sum(axis=0)
            else:
                raise NetworkError("layer", layer, _KNOWN, _REMEDY)
    return LinearBlock(np.ascontiguousarray(slots[slots.any((1, 2))]), bias, signals[0].channels)


def _windows(index: np.ndarray, weights: np.ndarray, positions: int) -> np.ndarray:
    """√w_s at the position that each window reads as its s-th, (slots, windows, positions); -1 reads nothing."""
    return np.stack([w**0.5 * (i[:, None] == np.arange(positions)) for i, w in zip(index.T, weights, strict=True)])


def _members(op: Any) -> np.ndarray:
    return np.asarray(op.labels.array == np.arange(op.blocks)[:, None], float)


_MAPS: dict[type, Callable[[Any, int], np.ndarray]] = {  # R of an operation on so many positions, without weights
    Box: lambda op, n: _windows(op.table, np.full(op.table.shape[1], 1 / op.table.shape[1]), n),
    Table: lambda op, n: _windows(op.index.array, op.weights.array, n),
    Pool: lambda op, n: (_members(op) / _members(op).sum(axis=1, keepdims=True))[None],
    BlockSums: lambda op, n: _members(op)[None],
    WindowPool: lambda op, n: window_averages(op.box)[None],
    Flatten: lambda op, n: np.eye(n)[:, None] / n**0.5,
    Times: lambda op, n: op.factor * np.eye(n)[None],
}


_CHUNK = 1 << 22  # numbers of products of one set of draws held at once


@dataclass
class State:
    """`kernel`, `tangent`: (B, 2, 2, P, P); corrections (B, 4Q); tensors (B, 4Q, 4Q)."""

    kernel: np.ndarray
    tangent: np.ndarray
    nngp: np.ndarray
    ntk: np.ndarray
    v: np.ndarray
    d: np.ndarray
    f: np.ndarray
    a: np.ndarray
    b: np.ndarray


@dataclass(frozen=True)
class _Pairs:
    """Index arrays of all pairs of sites (4Q,): inputs, positions, and where (a, a, p, p) and (b, b, p', p') stand."""

    left: np.ndarray
    right: np.ndarray
    p: np.ndarray
    q: np.ndarray
    first: np.ndarray
    second: np.ndarray
    mirrored: np.ndarray

    @classmethod
    def of(cls, pairs: np.ndarray) -> _Pairs:
        count = len(pairs)
        where = {(int(p), int(q)): i for i, (p, q) in enumerate(pairs)}
        at = lambda a, b, p, q: (2 * a + b) * count + where[int(p), int(q)]
        rows = [(a, b, int(p), int(q)) for a in (0, 1) for b in (0, 1) for p, q in pairs]
        first = np.array([at(a, a, p, p) for a, _, p, _ in rows])
        second = np.array([at(b, b, q, q) for _, b, _, q in rows])
        left, right, p_at, q_at = np.array(rows).T
        return cls(left, right, p_at, q_at, first, second, np.array([at(b, a, q, p) for a, b, p, q in rows]))

    def entries(self, field: np.ndarray) -> np.ndarray:
        """A field (B, 2, 2, P, P) at these pairs, (B, 4Q)."""
        return np.asarray(field[:, self.left, self.right, self.p, self.q])


def statistics(blocks: Blocks, features: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """K₁, Θ₁ and the variances of K̂ and Θ̂ over networks, (4, B), between two inputs with features (B, 2, P, C)."""
    initial = np.einsum("bipc,bjqc->bijpq", features, features, optimize=True) / features.shape[-1]
    pairs = [_Pairs.of(p) for p in blocks.pairs]
    state = _after_first(blocks.linear[0], initial, blocks.pairs[1])
    for i, layer in enumerate(blocks.nonlinearities):
        block = blocks.linear[i + 1]
        onward = block.on_pairs(blocks.pairs[i + 2], blocks.pairs[i + 1])
        state = _next(state, Law(layer), block, onward, pairs[i + 1], draws, seed + i)
    last = 1  # inputs 0 and 1: the second of (0, 0), (0, 1), (1, 0), (1, 1)
    own = (state.b[:, 0, 3] + state.b[:, 1, 2]) / blocks.outputs
    return np.stack([state.nngp[:, last], state.ntk[:, last], state.v[:, last, last], state.a[:, last, last] + own])


def _after_first(block: LinearBlock, initial: np.ndarray, pairs: np.ndarray) -> State:
    """After a linear map of given inputs nothing is random but the preactivations themselves."""
    kernel = block(initial, with_bias=True)
    size = 4 * len(pairs)
    tensor = lambda: np.zeros((len(initial), size, size))
    vector = lambda: np.zeros((len(initial), size))
    return State(kernel, kernel, vector(), vector(), tensor(), tensor(), tensor(), tensor(), tensor())


def _next(
    state: State, law: Law, block: LinearBlock, onward: sparse.csr_matrix, pairs: _Pairs, draws: int, seed: int
) -> State:
    """Through a nonlinearity and the linear block after it."""
    k, t = pairs.entries(state.kernel), pairs.entries(state.tangent)
    q1, q2 = k[:, pairs.first], k[:, pairs.second]
    jet = _Local(law.jet(k, q1, q2), pairs)
    f1 = jet.jet.g
    means = _Products(law, state.kernel, pairs, draws, seed)
    n = block.width
    out = lambda tensor: _both(onward, tensor)
    tangents = t[:, :, None] * t[:, None, :]

    v = out(means.ff_cov / n + jet.by_f(jet.by_f(state.v).mT).mT)
    crossed = jet.by_f(jet.by_g(state.v).mT)  # rows: φφ, columns: φ'φ'
    d_only = out((means.fg_cov / n + crossed) * t[:, None, :] + jet.by_f(state.d) * f1[:, None, :])
    a_inner = (means.gg_cov / n + jet.by_g(jet.by_g(state.v).mT).mT) * tangents
    turned = t[:, :, None] * jet.by_g(state.d) * f1[:, None, :]
    a_inner += turned + turned.mT + f1[:, :, None] * f1[:, None, :] * state.a
    between_seconds = _between(state.tangent, pairs.right, pairs.q)
    f = out(means.hh / n * between_seconds + jet.by_slope(jet.by_slope(state.f).mT).mT)
    between_firsts = _between(state.tangent, pairs.left, pairs.p)
    b = out(means.gg / n * between_firsts * between_seconds + f1[:, :, None] * f1[:, None, :] * state.b)

    nngp = _one(onward, jet.by_f(state.nngp[..., None])[..., 0] + jet.curvature_f(state.v))
    moved = jet.by_g(state.nngp[..., None])[..., 0] + jet.curvature_g(state.v)
    ntk = nngp + _one(onward, f1 * state.ntk + t * moved + jet.with_own(state.d, state.f))

    own = np.einsum("biipp->bip", state.kernel)
    f_all, g_all = law.kernels(state.kernel, *np.broadcast_arrays(own[:, :, None, :, None], own[:, None, :, None, :]))
    kernel = block(f_all, with_bias=True)
    tangent = kernel + block(g_all * state.tangent)
    return State(kernel, tangent, nngp, ntk, v, v + d_only, f, v + d_only + d_only.mT + out(a_inner), b)


def _between(tangent: np.ndarray, inputs: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Θ between one site of each pair and the same site of each other pair, (B, 4Q, 4Q)."""
    return np.asarray(tangent[:, inputs[:, None], inputs, positions[:, None], positions])


def _both(onward: sparse.csr_matrix, tensor: np.ndarray) -> np.ndarray:
    """A linear block on both pairs of a tensor, (B, 4Q, 4Q) to (B, 4Q', 4Q')."""
    return _rows(onward, _rows(onward, tensor).mT).mT


def _rows(onward: sparse.csr_matrix, tensor: np.ndarray) -> np.ndarray:
    batch, size, others = tensor.shape
    count = size // 4
    parts = tensor.reshape((4 * batch, count, others))
    return np.stack([onward @ part for part in parts]).reshape((batch, 4 * onward.shape[0], others))


def _one(onward: sparse.csr_matrix, vector: np.ndarray) -> np.ndarray:
    return _rows(onward, vector[..., None])[..., 0]


@dataclass(frozen=True)
class _Local:
    """A jet at all pairs of sites, (B, 4Q), as linear maps of fields over them."""

    jet: Jet
    pairs: _Pairs

    def by_f(self, tensor: np.ndarray) -> np.ndarray:
        """Derivative of F along `tensor` on its first pair, (B, 4Q, ...)."""
        return self._moved(self.jet.f_by, tensor)

    def by_g(self, tensor: np.ndarray) -> np.ndarray:
        """Derivative of G along `tensor`, likewise."""
        return self._moved(self.jet.g_by, tensor)

    def _moved(self, by: np.ndarray, tensor: np.ndarray) -> np.ndarray:
        k, q1, q2 = by[..., None]
        return k * tensor + q1 * tensor[:, self.pairs.first] + q2 * tensor[:, self.pairs.second]

    def by_slope(self, tensor: np.ndarray) -> np.ndarray:
        """Σ_e E[∂_e(φ(a) φ'(b))] times the tensor at (e, b)."""
        return self.jet.g[..., None] * tensor + 2 * self.jet.f_by[2][..., None] * tensor[:, self.pairs.second]

    def curvature_f(self, v: np.ndarray) -> np.ndarray:
        """½ F'' : V at each pair, (B, 4Q)."""
        return self._curvature(self.jet.f_by_by, v)

    def curvature_g(self, v: np.ndarray) -> np.ndarray:
        """½ G'' : V at each pair."""
        return self._curvature(self.jet.g_by_by, v)

    def _curvature(self, by_by: np.ndarray, v: np.ndarray) -> np.ndarray:
        own = np.arange(v.shape[1])
        at = (own, self.pairs.first, self.pairs.second)
        return np.asarray(sum(by_by[i, j] * v[:, at[i], at[j]] for i in range(3) for j in range(3)) / 2)

    def with_own(self, d: np.ndarray, f: np.ndarray) -> np.ndarray:
        """½ Σ_ef E[∂_e∂_f(φ'(a)φ'(b))] M_ef, with M_ef = E[z_i(e) z_i(f) ΔΘ̂_ii(a, b)] of one channel i."""
        own = np.arange(d.shape[1])
        first, second, mirrored = self.pairs.first, self.pairs.second, self.pairs.mirrored
        # E[z(e) z(f) ΔΘ̂_ii(a, b)] = D_(e f)(a b) + F_(e a)(f b) + F_(e b)(f a)
        crossed = d[:, own, own] + (f[:, first, second] + f[:, own, mirrored])  # e = a, f = b
        left = d[:, first, own] + 2 * f[:, first, own]  # e = f = a: (a a)(a b) and (a b)(a a)
        right = d[:, second, own] + 2 * f[:, mirrored, second]  # e = f = b: (b a)(b b)
        k, q1, q2 = self.jet.g_by
        return np.asarray(k * crossed + q1 * left + q2 * right)


class _Products:
    """Second moments of products of two values of one channel, over all pairs of pairs of sites, (B, 4Q, 4Q).

    `ff_cov`, `fg_cov`, `gg_cov`: covariances of φφ and φ'φ'; `gg`, `hh`: means of φ'φ' φ'φ' and of φφ' φφ'.
    """

    def __init__(self, law: Law, kernel: np.ndarray, pairs: _Pairs, draws: int, seed: int) -> None:
        batch, _, _, positions, _ = kernel.shape
        size = len(pairs.p)
        self.ff_cov, self.fg_cov, self.gg_cov, self.gg, self.hh = (np.empty((batch, size, size)) for _ in range(5))
        if positions == 1:
            values, weights = two_sites(law, kernel[..., 0, 0])
            for i in range(batch):
                self._fill(i, law, values[i][:, :, None], weights[i], pairs)
            return
        for i in range(batch):
            covariance = kernel[i].transpose(0, 2, 1, 3).reshape((2 * positions,) * 2)
            values = many_sites(covariance, draws, seed).reshape((draws, 2, positions))
            self._fill(i, law, values, np.full(draws, 1 / draws), pairs)

    def _fill(self, i: int, law: Law, z: np.ndarray, weights: np.ndarray, pairs: _Pairs) -> None:
        size = len(pairs.p)
        totals = [np.zeros((size, size)) for _ in range(4)]
        means = np.zeros((2, size))
        step = max(1, _CHUNK // size)
        for start in range(0, len(z), step):
            part, w = z[start : start + step], weights[start : start + step, None]
            f, g = law.value(part), law.slope(part)
            ff = f[:, pairs.left, pairs.p] * f[:, pairs.right, pairs.q]
            gg = g[:, pairs.left, pairs.p] * g[:, pairs.right, pairs.q]
            fg = f[:, pairs.left, pairs.p] * g[:, pairs.right, pairs.q]
            for total, (one, two) in zip(totals, ((ff, ff), (ff, gg), (gg, gg), (fg, fg)), strict=True):
                total += (w * one).T @ two
            means += np.stack([(w * ff).sum(0), (w * gg).sum(0)])
        f_mean, g_mean = means
        self.ff_cov[i] = totals[0] - np.outer(f_mean, f_mean)
        self.fg_cov[i] = totals[1] - np.outer(f_mean, g_mean)
        self.gg[i], self.hh[i] = totals[2], totals[3]
        self.gg_cov[i] = totals[2] - np.outer(g_mean, g_mean)


_TENSORS = 24  # of (4Q)² numbers that one step holds at once
_REPEATS = 4  # independent scramblings, from which the draws' own error is known


@dataclass(frozen=True)
class FiniteWidth:
    """Kernels of random networks of the net's own widths, all (N1, N2), to first order in 1/width.

    nngp: E K̂ = K + K₁, of the covariance K̂ of outputs given all layers but the last (the kernel of the last features).
    ntk: E Θ̂ = Θ + Θ₁, of the tangent kernel averaged over outputs, as `kernels.empirical` computes it.
    nngp_std, ntk_std: the standard deviations of K̂ and Θ̂ over networks.
    nngp_correction, ntk_correction: K₁ and Θ₁ alone.
    draws: quasi-random draws that expectations of four values took; None where they are exact (networks without
    positions). draws_error: then the largest standard error of the four results that draws leave, relative to the
    largest kernel value; 0 where they are exact.
    """

    nngp: np.ndarray
    ntk: np.ndarray
    nngp_std: np.ndarray
    ntk_std: np.ndarray
    nngp_correction: np.ndarray
    ntk_correction: np.ndarray
    draws: int | None
    draws_error: float


def finite_width(
    net: Network, x1: ArrayLike, x2: ArrayLike | None = None, *, draws: int = 16384, seed: int = 0
) -> FiniteWidth:
    """Mean and standard deviation of kernels of random networks with the widths of `net`, to first order in 1/width.

    ```python
    net = nn.Sequential(nn.Dense(64, W_std=2**0.5), nn.Relu(), nn.Dense(64, W_std=2**0.5), nn.Relu(), nn.Dense(1))
    k = kernels.finite_width(net, x)
    k.ntk, k.ntk_std            # E Θ̂ and its standard deviation over networks of 64 channels
    ```
    Takes dense, convolutional, locally connected and group-convolutional layers in NTK parametrisation with pools,
    `Flatten` and piecewise linear or smooth nonlinearities between; each layer counts with its own number of channels.
    Without positions, expectations are quadratures exact to rounding (512 nodes a pair of inputs with kinks, 1,600 and
    more without); with positions they are means over `draws` (a power of two, at least 4) quasi-random draws from
    `seed`, and cost O(draws · Q²) a pair of inputs, where Q is how many pairs of positions the readout needs: all
    positions once for `Flatten`, all pairs of positions for pools. Means of scale-invariant nonlinearities have no
    correction on the diagonal. What is left out is of second order, (depth/width)².

    Errors: InvalidTypeError where net is no `Sequential`; NetworkError names a layer whose law is not known;
    MemoryLimitError where Q² does not fit.
    Source: Roberts, Yaida & Hanin 2022; arXiv 2508.11522 for MLPs.
    """
    if not (hasattr(net, "layers") and hasattr(net, "signals")):
        raise InvalidTypeError("net", net, "nn.Sequential")
    first = check_array("x1", x1, min_rank=2)
    second = first if x2 is None else check_array("x2", x2, min_rank=2)
    wanted = f"a power of two, at least {_REPEATS}"
    if check_whole("draws", draws, _REPEATS, wanted=wanted).bit_count() != 1:
        raise InvalidArgumentError("draws", draws, wanted)
    check_whole("seed", seed, 0)
    blocks = blocks_of(net, tuple(np.shape(first)[1:]))
    features = [_features(net, x) for x in (first, second)]
    pairs = _pairs(len(first), len(second), symmetric=x2 is None)
    exact = features[0].shape[1] == 1 and all(block.slots.shape[1:] == (1, 1) for block in blocks.linear)
    repeats = 1 if exact else _REPEATS
    step = _at_once(blocks, len(pairs), draws // repeats)
    limit = net.kernel(np.asarray(first, np.float64), None if x2 is None else np.asarray(second, np.float64))
    found = np.empty((repeats, 4, len(pairs)))
    for start in range(0, len(pairs), step):
        rows = pairs[start : start + step]
        both = np.stack([features[0][rows[:, 0]], features[1][rows[:, 1]]], axis=1)
        for repeat in range(repeats):
            found[repeat, :, start : start + step] = statistics(blocks, both, draws // repeats, seed + 1000 * repeat)
    mean = found.mean(0)
    values = np.stack([mean[0], mean[1], *np.sqrt(np.maximum(mean[2:], 0))])
    fields = [_field(v, pairs, (len(first), len(second)), symmetric=x2 is None) for v in values]
    nngp, ntk = np.asarray(limit.nngp), np.asarray(limit.ntk)
    error = 0.0 if exact else _error(found, max(float(np.max(np.abs(ntk))), np.finfo(float).tiny))
    return FiniteWidth(
        nngp + fields[0], ntk + fields[1], fields[2], fields[3], fields[0], fields[1], None if exact else draws, error
    )


def _features(net: Network, x: ArrayLike) -> np.ndarray:
    """What the first layer with weights reads, (N, P, C), in float64."""
    given = np.asarray(net.lowered(np.asarray(x, np.float64))[0], np.float64)
    return given.reshape((len(given), -1, given.shape[-1]))


def _pairs(n1: int, n2: int, *, symmetric: bool) -> np.ndarray:
    if symmetric:
        return np.stack(np.triu_indices(n1), axis=1)
    return np.stack(np.meshgrid(np.arange(n1), np.arange(n2), indexing="ij"), axis=-1).reshape((-1, 2))


def _field(values: np.ndarray, pairs: np.ndarray, shape: tuple[int, int], *, symmetric: bool) -> np.ndarray:
    out = np.empty(shape)
    out[pairs[:, 0], pairs[:, 1]] = values
    if symmetric:
        out[pairs[:, 1], pairs[:, 0]] = values
    return out


def _error(found: np.ndarray, scale: float) -> float:
    """The largest standard error of means and of standard deviations over scramblings, relative to `scale`."""
    values = np.concatenate([found[:, :2], np.sqrt(np.maximum(found[:, 2:], 0))], axis=1)
    return float(np.max(values.std(0, ddof=1)) / np.sqrt(len(values)) / scale)


def _at_once(blocks: Blocks, pairs: int, draws: int) -> int:
    """How many pairs of inputs fit together; MemoryLimitError if not even one does."""
    sites = 4 * blocks.most_pairs
    positions = max(block.slots.shape[2] for block in blocks.linear)
    nodes = 2304 if positions == 1 else draws
    one = 8 * (_TENSORS * sites**2 + 16 * positions**2 + 12 * nodes * min(sites, 2 * positions) + 200 * nodes)
    check_fits(
        f"first-order statistics of one pair of inputs, whose readout needs {sites // 4} pairs of positions",
        one,
        "use Flatten in place of a pool, fewer positions, or kernels.monte_carlo",
    )
    return int(max(1, min(pairs, default_memory_limit() // 4 // one)))
