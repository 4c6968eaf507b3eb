"""Kernels of networks with branches, masks, graphs, attention and dropout by literal sums, in NumPy.

`Fields` holds K[i, p, j, q] and Θ[i, p, j, q] of all inputs and positions, the means m[i, p] and the mask[i, p]. Every
function below is one row of the table in docs/theory.md; none knows the package.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from oracles import literal_duals


@dataclass(frozen=True)
class Fields:
    K: np.ndarray
    T: np.ndarray
    m: np.ndarray
    mask: np.ndarray

    @property
    def q(self):
        n, p = self.m.shape
        return np.array([[self.K[i, a, i, a] for a in range(p)] for i in range(n)])

    def cleared(self):
        both = self.mask[:, :, None, None] & self.mask[None, None]
        return replace(self, K=self.K * both, T=self.T * both, m=self.m * self.mask)


def start(x, mask=None):
    """Inputs (N, P, C); positions in one axis."""
    n, p, c = x.shape
    mask = np.ones((n, p), bool) if mask is None else mask
    x = x * mask[:, :, None]
    return Fields(np.einsum("ipc,jqc->ipjq", x, x) / c, np.zeros((n, p, n, p)), x.mean(-1), mask)


def dense(f, W, b, standard=None):
    """`standard`: the number of inputs of the layer, in the standard parametrisation."""
    K = W**2 * f.K + b**2
    T = (K if standard is None else standard * f.K + (b > 0)) + W**2 * f.T
    return replace(f, K=K, T=T, m=0 * f.m).cleared()


def conv(f, window, W, b, standard=None):
    """A centred window on a line, zeros outside."""
    p = f.m.shape[1]
    K, T = np.zeros_like(f.K), np.zeros_like(f.T)
    for a, c, u in itertools.product(range(p), range(p), range(window)):
        s, t = a + u - (window - 1) // 2, c + u - (window - 1) // 2
        if 0 <= s < p and 0 <= t < p:
            K[:, a, :, c] += f.K[:, s, :, t] / window
            T[:, a, :, c] += f.T[:, s, :, t] / window
    return dense(replace(f, K=K, T=T), W, b, None if standard is None else standard * window)


def phi(f, name):
    a, b = f.q[:, :, None, None], f.q[None, None]
    # Fields that are parallel or opposite to rounding are so: of their distance a kink takes the root.
    root = np.sqrt(a * b)
    alike = np.abs(np.abs(f.K) - root) <= 1e-14 * root
    D = np.where(alike, (np.sqrt(a) - np.sign(f.K) * np.sqrt(b)) ** 2, np.maximum(a + b - 2 * f.K, 0))
    K, slope, _ = literal_duals.dual(name, a, b, f.K, D)
    return replace(f, K=K, T=f.T * slope, m=literal_duals.mean(name, f.q) + 0 * f.m).cleared()


def add(*fields):
    K = sum(f.K for f in fields)
    for f, g in itertools.permutations(fields, 2):
        K = K + f.m[:, :, None, None] * g.m[None, None]
    return replace(fields[0], K=K, T=sum(f.T for f in fields), m=sum(f.m for f in fields))


def concatenate(fields, channels):
    shares = np.array(channels) / sum(channels)
    K, T = (sum(s * getattr(f, name) for s, f in zip(shares, fields, strict=True)) for name in "KT")
    return replace(fields[0], K=K, T=T, m=sum(s * f.m for s, f in zip(shares, fields, strict=True)))


def times(f, c):
    return replace(f, K=c**2 * f.K, T=c**2 * f.T, m=c * f.m)


def mix(f, A):
    """A[i]: (positions_out, positions), one for each input."""
    n = len(A)
    K, T = (
        np.array([[A[i] @ v[i, :, j] @ A[j].T for j in range(n)] for i in range(n)]).transpose(0, 2, 1, 3)
        for v in (f.K, f.T)
    )
    m = np.array([A[i] @ f.m[i] for i in range(n)])
    return Fields(K, T, m, np.ones(m.shape, bool))


def pool(f, total=False):
    """The mean (or sum) over the positions that exist."""
    weights = f.mask.astype(float)
    return mix(f, (weights if total else weights / weights.sum(1, keepdims=True))[:, None])


def flatten(f):
    n, p = f.m.shape
    K, T = (np.einsum("ipjp->ij", v).reshape(n, 1, n, 1) / p for v in (f.K, f.T))
    return Fields(K, T, f.m.mean(1, keepdims=True), np.ones((n, 1), bool))


def layer_norm(f, positions=False):
    if positions:
        count = f.mask.sum(1, keepdims=True)
        mu = (f.m * f.mask).sum(1, keepdims=True) / count
        sigma = np.sqrt((f.q * f.mask).sum(1, keepdims=True) / count - mu**2) + 0 * f.m
        mu = mu + 0 * f.m
    else:
        mu, sigma = f.m, np.sqrt(np.where(f.mask, f.q - f.m**2, 1.0))
    first, second = mu[:, :, None, None], mu[None, None]
    scale = sigma[:, :, None, None] * sigma[None, None]
    K = f.K - first * f.m[None, None] - f.m[:, :, None, None] * second + first * second
    return replace(f, K=K / scale, T=f.T / scale, m=(f.m - mu) / sigma).cleared()


def attention(f, logit, value_var, b_var, mechanism=None):
    """`mechanism` None: softmax over the positions that exist."""
    n, p = f.m.shape
    A = np.zeros((n, p, p))
    for i, a in itertools.product(range(n), range(p)):
        logits = logit * f.K[i, a, i]
        row = np.exp(logits - logits.max()) * f.mask[i] if mechanism is None else mechanism(logits) * f.mask[i]
        A[i, a] = row / row.sum() if mechanism is None else row
    g = mix(f, A)
    K = value_var * g.K
    return Fields(K + b_var, 2 * K + value_var * g.T + b_var, 0 * f.m, f.mask).cleared()


def root_attention(f, logit, value_var, b_var):
    """Logits divided by the root of their number of channels, without a nonlinearity."""
    n, p = f.m.shape
    K, T = np.zeros_like(f.K), np.zeros_like(f.T)
    for i, a, j, c in itertools.product(range(n), range(p), range(n), range(p)):
        for r, s in itertools.product(range(p), range(p)):
            k, l = f.K[i, a, j, c], f.K[i, r, j, s]
            K[i, a, j, c] += logit**2 * value_var * k * l * l
            T[i, a, j, c] += logit**2 * value_var * (f.T[i, a, j, c] * l * l + 2 * k * l * f.T[i, r, j, s])
    return Fields(K + b_var, 4 * K + T + b_var, 0 * f.m, f.mask)


def dropout(f, keep):
    n, p = f.m.shape
    K, T = f.K.copy(), f.T.copy()
    for i, a in itertools.product(range(n), range(p)):
        K[i, a, i, a] /= keep
        T[i, a, i, a] /= keep
    return replace(f, K=K, T=T)
