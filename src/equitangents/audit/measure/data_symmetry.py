"""Whether the data have the symmetry: is p(x) the distribution of ρ(g)x with random g?

Half of the inputs are compared with the other half, moved by random elements, in their leading principal components.
Squared maximum mean discrepancy with a Gaussian kernel of the median distance, its p-value by permutations (Gretton et
al. 2012). Where the group resamples, the half that stays is turned forth and back, so that blur gives nothing away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from equitangents.audit.adapters.model import as_real
from equitangents.audit.contract.trees import Inputs
from equitangents.audit.measure.judge import NO_GROUP, Measured
from equitangents.audit.measure.task import AuditTask, flattened
from equitangents.audit.report.sections import DataSection

_INPUTS = 600
_NUMBERS = 2**24  # in all of them
_COMPONENTS = 20
_PERMUTATIONS = 500
_FEWEST = 40
LEVEL = 0.05


def data_symmetry(m: Measured) -> DataSection | str:
    """The two-sample test, or why there is none."""
    task, x = m.task, m.task.x
    if not m.group:
        return NO_GROUP
    if x.n < 8:
        return f"there are {x.n} inputs; the test needs at least 8"
    rng = np.random.default_rng(task.seed)
    rows = rng.permutation(x.n)[: _affordable(task)]
    first, second = np.array_split(rows, 2)
    still, moved = _features(task, x.subset(first), rng, stay=True), _features(task, x.subset(second), rng, stay=False)
    a, b = _components(still, moved)
    statistic, p = _kernel_test(a, b, rng)
    symmetric = None if len(rows) < _FEWEST and p > LEVEL else bool(p > LEVEL)
    return DataSection(statistic, p, len(rows), symmetric)


def _affordable(task: AuditTask) -> int:
    """How many inputs are compared: fewer if each is large."""
    numbers = _moved(task, task.x.subset(np.arange(1)).leaves).shape[1]
    return int(np.clip(_NUMBERS // numbers, _FEWEST, _INPUTS))


def _features(task: AuditTask, x: Inputs, rng: np.random.Generator, stay: bool) -> np.ndarray:
    """Inputs, each moved by an element of its own, or forth and back; only what the group moves, flattened."""
    group, contract = task.contract.group, task.contract
    elements = [group.identity, *task.elements] if contract.is_complete else task.elements
    drawn = rng.integers(len(elements), size=x.n)
    leaves = [np.array(a) if action is not None else a for action, a in zip(contract.inputs, x.leaves, strict=True)]
    for k in np.unique(drawn):
        rows = np.flatnonzero(drawn == k)
        g = elements[k]
        if stay and contract.inputs.moves_exactly(g):
            continue
        moved = contract.move(g, x.subset(rows))
        if stay:
            moved = contract.move(group.inverse(g), moved)
        for i, action in enumerate(contract.inputs):
            if action is not None:
                leaves[i][rows] = moved.leaves[i]
    return _moved(task, leaves)


def _components(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leading principal components of both together."""
    both = np.concatenate([a, b])
    both = both - both.mean(axis=0)
    if both.shape[1] > _COMPONENTS:
        least = max(len(both) - _COMPONENTS, 0)
        values, vectors = scipy.linalg.eigh(both @ both.T, subset_by_index=(least, len(both) - 1))
        both = vectors * np.sqrt(np.maximum(values, 0.0))
    return both[: len(a)], both[len(a) :]


def _kernel_test(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    both = np.concatenate([a, b])
    squares = cdist(both, both, "sqeuclidean")
    # Coordinates of equal inputs differ by rounding: up to that, distances are 0.
    apart = squares > (len(both) * np.finfo(np.float64).eps) ** 2 * float((both**2).sum(axis=1).max())
    K = np.exp(-squares / max(float(np.median(squares[apart])) if apart.any() else 1.0, 1e-300))
    np.fill_diagonal(K, 0.0)
    sign = np.concatenate([np.full(len(a), 1 / len(a)), np.full(len(b), -1 / len(b))])
    statistic = float(sign @ K @ sign)
    permuted = np.array([rng.permutation(sign) for _ in range(_PERMUTATIONS)])
    null = np.einsum("pi,ij,pj->p", permuted, K, permuted, optimize=True)
    return statistic, float((1 + (null >= statistic).sum()) / (1 + _PERMUTATIONS))


def _moved(task: AuditTask, leaves: Sequence[Any]) -> np.ndarray:
    """Only what the group moves, flattened."""
    return flattened([as_real(np.asarray(a)) for a in task.contract.inputs.moved(leaves)])
