"""Means and standard deviations of the kernels of networks of finite width, to first order in 1/width."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equitangents._types import ArrayLike, Network
from equitangents.errors import InvalidArgumentError, InvalidTypeError
from equitangents.kernels.finite_width.recursion import Blocks, blocks_of, statistics
from equitangents.memory import check_fits, default_memory_limit
from equitangents.validation import check_array, check_whole

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
