"""Infinite-width kernels by literal sums over all pairs of positions: slow, and plain to read.

A network is a list of tuples, read from left to right:

    ("dense", W, b)                                  at every position
    ("conv", window, stride, padding, W, b)          on a grid; padding "circular", "zero" or "valid"
    ("local", window, stride, padding, W, b)         the same with weights of its own at every position
    ("lift", action_table, window, weights, W, b)    action_table[g, x] = g·x; window: positions; weights or None
    ("group_conv", table, window, weights, W, b)     table[g, h] = gh; window: elements; weights or None
    ("phi", name) or ("phi", "leaky_relu", slope)
    ("avg_pool", window)                             over blocks; or
    ("avg_pool", window, stride, padding)            over windows as of "conv"
    ("global_pool",), ("coset_pool", labels)         labels[g]: which coset g lies in
    ("flatten",)
    ("residual", [layers])                           adds its input to what the layers make of it

The state holds, for all inputs i, j and positions p, q, the second moments K[i,p,j,q] of one channel, the tangent
kernel T[i,p,j,q], the squared distances D = E(N_i(p) − N_j(q))² (carried along for their own sake: they are exact
where two fields are nearly equal) and the means m[i,p] (not zero after a nonlinearity).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from oracles import literal_duals


@dataclass
class Fields:
    K: np.ndarray
    T: np.ndarray
    D: np.ndarray
    m: np.ndarray
    grid: tuple[int, ...]
    gaussian: bool

    @property
    def variance(self):
        return np.einsum("ipip->ip", self.K)


def kernels(layers, x):
    """(NNGP, NTK), each (n, n), of the network's output for the inputs x of shape (n, *positions, channels)."""
    fields = run(layers, start(x))
    if fields.K.shape[1] != 1:
        raise ValueError("the network does not end in one position: flatten or pool it")
    return fields.K[:, 0, :, 0], fields.T[:, 0, :, 0]


def cross_kernels(layers, x1, x2):
    """The blocks (12) of the kernels of x1 stacked on x2."""
    K, T = kernels(layers, np.concatenate([x1, x2]))
    return K[: len(x1), len(x1) :], T[: len(x1), len(x1) :]


def start(x):
    x = np.asarray(x, dtype=np.float64)
    n, grid, channels = len(x), x.shape[1:-1], x.shape[-1]
    f = x.reshape(n, -1, channels)
    K = np.einsum("ipc,jqc->ipjq", f, f) / channels
    D = np.mean((f[:, :, None, None] - f[None, None]) ** 2, axis=-1)
    return Fields(K, np.zeros_like(K), D, f.mean(-1), grid, gaussian=False)


def run(layers, fields):
    for kind, *arguments in layers:
        fields = RULES[kind](fields, *arguments)
    return fields


# Linear layers --------------------------------------------------------------------------------------------------


def with_zero(fields):
    """One more position, holding zeros: its distance from another position is that position's variance."""
    n, P = fields.K.shape[:2]
    K, T, D = (np.zeros((n, P + 1, n, P + 1)) for _ in range(3))
    K[:, :P, :, :P], T[:, :P, :, :P], D[:, :P, :, :P] = fields.K, fields.T, fields.D
    D[:, :P, :, P] = fields.variance[:, :, None]
    D[:, P, :, :P] = fields.variance[None]
    return replace(fields, K=K, T=T, D=D, m=np.pad(fields.m, ((0, 0), (0, 1))))


def read(fields, reads, weights, W, b, grid, shared=True):
    """The layer N(p) = W Σ_u √v_u κ_u f(reads[p, u]) + b; reads −1 is a zero. Not `shared`: κ and b depend on p."""
    n = len(fields.K)
    padded = with_zero(fields)
    K, T, D = padded.K, padded.T, padded.D

    def mean(A):
        return sum(v * A[:, at][:, :, :, at] for v, at in zip(weights, reads.T, strict=True))

    K_new = W**2 * mean(K) + b**2
    T_new = K_new + W**2 * mean(T)
    D_new = W**2 * mean(D)
    if not shared:
        same = np.eye(len(reads), dtype=bool)[None, :, None, :]
        variance = np.einsum("ipip->ip", K_new)
        D_new = np.where(same, D_new, variance[:, :, None, None] + variance[None, None])
        K_new, T_new = np.where(same, K_new, 0.0), np.where(same, T_new, 0.0)
    return Fields(K_new, T_new, D_new, np.zeros((n, len(reads))), grid, gaussian=True)


def grid_reads(grid, window, stride, padding):
    """(output grid, reads): which input positions every output position reads, in the order of the window."""
    outputs, starts = [], []
    for n, w, s in zip(grid, window, stride, strict=True):
        if padding == "valid":
            outputs.append((n - w) // s + 1)
            starts.append(0)
        else:
            outputs.append(-(-n // s))
            total = max((outputs[-1] - 1) * s + w - n, 0)
            starts.append(-(total // 2))
    reads = []
    for out in itertools.product(*map(range, outputs)):
        row = []
        for tap in itertools.product(*map(range, window)):
            at = [o * s + lo + u for o, s, lo, u in zip(out, stride, starts, tap, strict=True)]
            if padding == "circular":
                at = [i % n for i, n in zip(at, grid, strict=True)]
            inside = all(0 <= i < n for i, n in zip(at, grid, strict=True))
            row.append(int(np.ravel_multi_index(at, grid)) if inside else -1)
        reads.append(row)
    return tuple(outputs), np.array(reads)


def dense(fields, W, b):
    P = fields.K.shape[1]
    return read(fields, np.arange(P)[:, None], [1.0], W, b, fields.grid)


def conv(fields, window, stride, padding, W, b, shared=True):
    grid, reads = grid_reads(fields.grid, window, stride, padding)
    return read(fields, reads, np.full(reads.shape[1], 1 / reads.shape[1]), W, b, grid, shared)


def local(fields, window, stride, padding, W, b):
    return conv(fields, window, stride, padding, W, b, shared=False)


def group_layer(fields, table, window, weights, W, b):
    """Lifting (table[g, x] = g·x, window of positions) and group convolution (table[g, h] = gh, window of elements)."""
    weights = np.full(len(window), 1 / len(window)) if weights is None else np.asarray(weights)
    reads = np.asarray(table)[:, list(window)]
    return read(fields, reads, weights, W, b, (len(table),))


# Everything else ------------------------------------------------------------------------------------------------


def phi(fields, name, slope=0.0):
    if not fields.gaussian:
        raise ValueError("a nonlinearity needs a Gaussian field: put a linear layer before it")
    a = fields.variance[:, :, None, None]
    b = fields.variance[None, None]
    value, derivative, distance = literal_duals.dual(name, a, b, fields.K, fields.D, slope)
    mean = literal_duals.mean(name, fields.variance, slope)
    return Fields(value, fields.T * derivative, distance, mean, fields.grid, gaussian=False)


def pool(fields, sets, grid):
    """Averages over sets of positions, one output position a set; position −1 is a zero."""
    size = len(sets)
    n = len(fields.m)
    fields = with_zero(fields)

    def mean(A):
        out = np.empty((n, size, n, size))
        for p, q in itertools.product(range(size), repeat=2):
            out[:, p, :, q] = A[:, sets[p]][:, :, :, sets[q]].mean(axis=(1, 3))
        return out

    within = np.einsum("ipip->ip", mean(fields.D))  # twice what averaging takes from the variance
    D = np.maximum(mean(fields.D) - within[:, :, None, None] / 2 - within[None, None] / 2, 0.0)
    m = np.stack([fields.m[:, s].mean(1) for s in sets], axis=1)
    return Fields(mean(fields.K), mean(fields.T), D, m, grid, fields.gaussian)


def avg_pool(fields, window, stride=None, padding="valid"):
    grid, sets = grid_reads(fields.grid, window, window if stride is None else stride, padding)
    return pool(fields, sets, grid)


def global_pool(fields):
    return pool(fields, [np.arange(fields.K.shape[1])], ())


def coset_pool(fields, labels):
    labels = np.asarray(labels)
    return pool(fields, [np.flatnonzero(labels == k) for k in range(labels.max() + 1)], (int(labels.max()) + 1,))


def flatten(fields):
    def diagonal(A):
        return np.einsum("ipjp->ij", A)[:, None, :, None] / A.shape[1]

    m = fields.m.mean(1, keepdims=True)
    return Fields(diagonal(fields.K), diagonal(fields.T), diagonal(fields.D), m, (), gaussian=False)


def residual(fields, layers):
    if not any(kind in LINEAR for kind, *_ in layers):
        raise ValueError("a residual branch without weights of its own is not independent of its input")
    branch = run(layers, fields)
    if branch.K.shape != fields.K.shape:
        raise ValueError("a residual branch must keep the positions")
    # Given the input, one channel of the branch is independent of the same channel of the input: their products have
    # the product of the means for a mean. The tangent kernels add up: the cross term falls like the width's root.
    f, g = fields.m[:, :, None, None], branch.m[:, :, None, None]
    f_, g_ = fields.m[None, None], branch.m[None, None]
    return replace(
        fields,
        K=fields.K + branch.K + f * g_ + g * f_,
        T=fields.T + branch.T,
        D=fields.D + branch.D + 2 * (f - f_) * (g - g_),
        m=fields.m + branch.m,
        gaussian=fields.gaussian and branch.gaussian,
    )


LINEAR = ("dense", "conv", "local", "lift", "group_conv")
RULES = {
    "dense": dense,
    "conv": conv,
    "local": local,
    "lift": group_layer,
    "group_conv": group_layer,
    "phi": phi,
    "avg_pool": avg_pool,
    "global_pool": global_pool,
    "coset_pool": coset_pool,
    "flatten": flatten,
    "residual": residual,
}
