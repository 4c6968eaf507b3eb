"""Kernels of infinite width on pools of images: every image is tested once, after training on the other folds.

The kernel of a pool is computed once for each group, tile by tile; a run that is killed goes on from its last tile.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.fft
from jaxtyping import Float

from equitangents.kernels import KeptKernel, KernelStore
from equitangents.statistics import Estimate, t_interval
from equitangents_studies.common.system_runs import relative
from equitangents_studies.framework.study import Arrays
from equitangents_studies.systems import ARCHITECTURES, architecture, fit_power_law, rotate
from equitangents_studies.systems.data_groups import NAMES as GROUPS
from equitangents_studies.systems.data_groups import data_group, expected_symmetry
from equitangents_studies.systems.grams import PoolKernel
from equitangents_studies.systems.power_laws import PowerLaw

ORDER = "I ⊂ O(3)⊗I ⊂ O(3)^d ⊂ O(3d) and I ⊂ P(3d) ⊂ O(3d)"
_SHAPE = (8, 8, 3)  # inclusions are the same for all


def within(one: str, other: str) -> bool:
    """Whether `one` is a subgroup of `other`, and another group.

    >>> within("P(3d)", "O(3d)"), within("O(3)^d", "P(3d)")
    (True, False)
    """
    return one != other and data_group(other, _SHAPE).holds(data_group(one, _SHAPE))


def own_group(architecture: str, inference: str) -> str:
    """The largest of the groups, permutations left out, under which Theorem 4.1 says that the algorithm is symmetric.

    >>> own_group("VEC", "NTK"), own_group("VEC", "NN+")
    ('O(3)^d', 'O(3)xI')
    """
    held = [g for g in GROUPS if g != "P(3d)" and expected_symmetry(architecture, g, _SHAPE, finite=inference != "NTK")]
    return held[-1]


def by_data(groups: Sequence[str] = GROUPS) -> Pairs:
    """Pairs of places in `groups`, the smaller group first."""
    return [(i, j) for i, a in enumerate(groups) for j, b in enumerate(groups) if within(a, b)]


def by_model(inference: str, architectures: Sequence[str] = ARCHITECTURES) -> Pairs:
    """Pairs of places in `architectures`, that of the smaller group first."""
    return by_data([own_group(name, inference) for name in architectures])


def spurious(architecture: str, group: str) -> bool:
    """Whether a trained network on data moved by the group has to do without neighbourhoods."""
    return any(within("O(3)xI", g) or g == "P(3d)" for g in (own_group(architecture, "NN"), group))


Pairs = Sequence[tuple[int, int]]
LEAST = 1e-12
"""Smallest p-value of many repetitions, of which Fourier transforms tell no smaller ones."""
_FEW = 40


@dataclass(frozen=True)
class RankTest:
    """`p_value`: of falling along the order; `reverse`: of rising. `falling` and `rising` of `comparisons` do so."""

    p_value: float
    reverse: float
    falling: int
    rising: int
    comparisons: int


def rank_test(systems: Sequence[tuple[Float[np.ndarray, "repetitions places"], Pairs]]) -> RankTest:
    """The test of several systems with the same places, each with pairs (below, above) of its order.

    Values that are not numbers are compared with nothing; places with equal values count neither way.

    >>> found = rank_test([(np.array([[3.0, 2, 1], [3, 2, 1]]), [(0, 1), (0, 2), (1, 2)])])
    >>> found.falling, round(found.p_value * 36, 9)
    (6, 1.0)
    """
    repetitions, places = systems[0][0].shape
    signs = []
    for values, _ in systems:
        difference = np.asarray(values, np.float64)[:, :, None] - np.asarray(values, np.float64)[:, None, :]
        signs.append(np.where(np.isfinite(difference), np.sign(difference), 0).astype(np.int8))
    kinds, times = np.unique(np.stack(signs, axis=1), axis=0, return_counts=True)  # repetitions that are alike, once
    orders = np.array(list(itertools.permutations(range(places))))
    reach = sum(len(pairs) for _, pairs in systems)
    laws = []
    falling = rising = 0
    for kind, count in zip(kinds, times.tolist(), strict=True):
        sums = np.zeros(len(orders), int)
        for sign, (_, pairs) in zip(kind, systems, strict=True):
            for low, high in pairs:
                sums += sign[orders[:, low], orders[:, high]]
                falling += count * int(sign[low, high] > 0)
                rising += count * int(sign[low, high] < 0)
        laws.append(np.bincount(sums + reach, minlength=2 * reach + 1) / len(orders))
    law = _sum_of(laws, times.tolist())
    at = falling - rising + repetitions * reach
    tail = lambda part: float(min(max(part.sum(), LEAST if repetitions > _FEW else 0.0), 1.0))
    return RankTest(tail(law[at:]), tail(law[: at + 1]), falling, rising, repetitions * reach)


def _sum_of(laws: list[np.ndarray], times: list[int]) -> np.ndarray:
    """The law of the sum of independent numbers, of each law so many: for many of them by Fourier transforms."""
    if sum(times) <= _FEW:
        law = np.ones(1)
        for one, count in zip(laws, times, strict=True):
            for _ in range(count):
                law = np.convolve(law, one)
        return law
    length = sum(times) * (len(laws[0]) - 1) + 1
    size = scipy.fft.next_fast_len(length)
    product = np.ones(size // 2 + 1, complex)
    for one, count in zip(laws, times, strict=True):
        product *= np.fft.rfft(one, size) ** count
    return np.fft.irfft(product, size)[:length]


POOLED = ("GAP", "LAP4", "LAP8")  # whose kernels need all pairs of positions
_TILE, _POOLED_TILE, _DISK = 500, 50, 10**11


@dataclass(frozen=True, eq=False)
class Pool:
    """`errors` (sizes, folds), shares of wrong classes on the images as they are; `moved` (groups,) those of the first
    fold with the most training images; `equal` (groups,): how far kernels of moved images are from those of the images
    as they are, and `outputs` (groups,) predictions, relative to the largest.
    """

    groups: tuple[str, ...]
    sizes: np.ndarray
    errors: np.ndarray
    moved: np.ndarray
    equal: np.ndarray
    outputs: np.ndarray

    @property
    def most(self) -> int:
        """Images of the largest training sets."""
        return int(self.sizes[-1])

    @property
    def accuracies(self) -> np.ndarray:
        """Accuracies in percent after the largest training set, (folds,)."""
        return 100 - 100 * self.errors[-1]

    def law(self) -> PowerLaw | None:
        """The error as power laws, their number chosen by BIC; none where some size has no error."""
        return fit_power_law(self.sizes, self.errors, "auto") if (self.errors.mean(axis=1) > 0).all() else None

    def size_for(self, errors: np.ndarray) -> np.ndarray:
        """Training sizes at which each fold errs as much, between those measured; the ends where it never does."""
        logs = np.log(self.sizes)
        found = []
        for fold, error in enumerate(errors):
            falling = np.minimum.accumulate(self.errors[:, fold])[::-1]
            found.append(np.exp(np.interp(error, falling, logs[::-1])))
        return np.array(found)


def share(pool: Pool, level: float = 0.95) -> Estimate:
    """Accuracy in percent after the largest training set, with Student’s interval over folds."""
    return t_interval(pool.accuracies, level, (0, 100))


def lead(better: Pool, worse: Pool, level: float = 0.95) -> Estimate:
    """Accuracy minus accuracy after the largest training sets, the same images in every fold, percentage points."""
    return t_interval(better.accuracies - worse.accuracies, level, (-100, 100))


def extra(better: Pool, worse: Pool) -> Estimate:
    """How many images more the worse pool needs for the error of its largest training sets."""
    return t_interval(worse.most - better.size_for(worse.errors[-1]))


def folds_of(count: int, folds: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training images in random order, test images) of every fold; all test parts are as large."""
    order = np.random.default_rng((seed, count)).permutation(count)
    size = count // folds
    found = []
    for k in range(folds):
        test = order[k * size : (k + 1) * size]
        rest = np.setdiff1d(order, test)
        found.append((np.random.default_rng((seed, count, k)).permutation(rest), test))
    return found


def measure_pool(
    name: str,
    depth: int,
    x: np.ndarray,
    y: np.ndarray,
    groups: Sequence[str],
    sizes: np.ndarray,
    folds: int,
    ridge: float,
    seed: int,
    kept: Path,
    step: Callable[[float, float], None],
) -> Arrays:
    """The arrays of a `Pool` of the images x with the classes y; `groups` begin with "I". Tiles are in `kept`."""
    tile = _POOLED_TILE if name in POOLED else _TILE
    net = KeptKernel(architecture(name, depth), KernelStore(kept, _DISK), tile)
    targets = np.eye(int(y.max()) + 1)[y] - 1 / (int(y.max()) + 1)
    splits = folds_of(len(x), folds, seed)
    errors: list[np.ndarray] = []
    found: dict[str, list[float]] = {"moved": [], "equal": [], "outputs": []}
    first: tuple[np.ndarray, np.ndarray] | None = None
    for i, group in enumerate(groups):
        at = lambda done, total, i=i: step(i + 0.9 * done / total, len(groups))
        moved = np.asarray(rotate(x, group, seed=seed), x.dtype)
        K = PoolKernel(np.array(net.kernel(moved, step=at).ntk))  # a copy: the NNGP may go
        last = np.zeros(())
        for k, (order, test) in enumerate(splits if i == 0 else splits[:1]):
            outputs = K.curve(targets, order, test, sizes, ridge)
            if i == 0:
                errors.append(_wrong(outputs, y[test]))
            last = outputs[-1] if k == 0 else last
        first = (K.matrix, last) if first is None else first
        found["moved"].append(_wrong(last[None], y[splits[0][1]])[0])
        found["equal"].append(_relative(K.matrix, first[0]))
        found["outputs"].append(relative(last, first[1]))
        step(i + 1, len(groups))
    return {key: np.array(values) for key, values in found.items()} | {"errors": np.stack(errors, axis=1)}


def pool_of(arrays: Arrays, groups: Sequence[str], sizes: np.ndarray) -> Pool:
    """The arrays of a stage as a `Pool`."""
    return Pool(tuple(groups), sizes, **{key: arrays[key] for key in ("errors", "moved", "equal", "outputs")})


def _wrong(outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The share of inputs that outputs (sizes, inputs, classes) classify wrongly; what is not finite is wrong."""
    right = (outputs.argmax(axis=2) == labels) & np.isfinite(outputs).all(axis=2)
    return np.asarray(1 - right.mean(axis=1))


def _relative(K: np.ndarray, first: np.ndarray) -> float:
    """The largest difference relative to the largest entry, some rows at a time; NaN where anything is not finite."""
    rows = range(0, len(K), _TILE)
    worst = np.max([_difference(K[a : a + _TILE], first[a : a + _TILE]) for a in rows])
    return float(worst / np.max([np.max(np.abs(first[a : a + _TILE])) for a in rows]))


def _difference(K: np.ndarray, first: np.ndarray) -> float:
    """The largest difference; NaN where anything is not finite."""
    difference = np.max(np.abs(K.astype(np.float64) - first))
    return float(difference) if np.isfinite(K).all() else float("nan")
