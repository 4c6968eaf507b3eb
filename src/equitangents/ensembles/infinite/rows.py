"""What the rows of a training problem are: inputs, arrays (N, …), or points of output fields; which of them are equal.

The problems are the same for both; what differs is how equal rows are told, and how kernels are averaged over a group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents.actions import Action
from equitangents.ensembles.fields.action import PointAction
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.inference.augmented import orbit_digests, row_digests
from equitangents.inference.data_orbits import DataOrbits, find_orbits
from equitangents.kernels import Kernels, orbit_average
from equitangents.kernels.result import NngpKernels

_SAME_VARIANCE = 1e-5  # relative; inputs on one orbit agree to rounding, in float32 at worst


def digests(x: Any) -> list[bytes]:
    """Equal for rows that are equal."""
    return x.digests() if isinstance(x, FieldPoints) else row_digests(x)


def orbit_labels(action: Action, x: Any, variances: np.ndarray) -> list[bytes]:
    """Equal for rows on one orbit; orbits are compared only where `variances`, which they share, are equal."""
    if isinstance(action, PointAction):
        return [int(o).to_bytes(8, "little") for o in action.data_orbits(x).orbit]
    labels = [i.to_bytes(8, "little") for i in range(len(x))]
    order = np.argsort(variances)
    near = np.diff(variances[order]) <= _SAME_VARIANCE * float(variances.max())
    alike = np.sort(order[np.append(near, False) | np.append(False, near)])
    if len(alike):
        for i, digest in zip(alike, orbit_digests(action, x[alike]), strict=True):
            labels[i] = b"orbit" + digest
    return labels


def data_orbits(action: Action, x: Any) -> DataOrbits:
    """The orbits of rows under an exact action."""
    return action.data_orbits(x) if isinstance(action, PointAction) else find_orbits(action, x)


def averaged(kernel: Any, action: Action) -> Any:
    """The kernel's mean over one orbit, (1/|G|) Σ_g Θ(z, g z′); it is invariant."""
    return PointAverage(kernel, action) if isinstance(action, PointAction) else orbit_average(kernel, action)


def blocks(x: Any, numbers: int) -> Iterator[Any]:
    """Rows in parts of at most `numbers`; points in whole signals, of which fewer numbers make no less work."""
    if isinstance(x, FieldPoints):
        return (x[part] for part in x.blocks(max(numbers, x.count)))
    return (x[start : start + numbers] for start in range(0, len(x), numbers))


@dataclass(frozen=True)
class PointAverage:
    """The kernel of points averaged over one orbit of an action under which it is invariant."""

    base: Any
    action: PointAction

    def kernel(self, a: FieldPoints, b: FieldPoints | None = None) -> Any:
        """(1/|G|) Σ_g Θ(a, g b), NNGP and NTK; of points with themselves made exactly symmetric."""
        other = a if b is None else b
        order = self.action.group.order
        terms = (self.base.kernel(a, self.action(g, other)) for g in range(order))
        first = next(terms)
        alone = isinstance(first, NngpKernels)
        total = [np.asarray(first.nngp)] if alone else [np.asarray(first.nngp), np.asarray(first.ntk)]
        for k in terms:
            total[0] = total[0] + k.nngp
            if not alone:
                total[1] = total[1] + k.ntk
        means = [t / order for t in total]
        if b is None:
            means = [(m + m.T) / 2 for m in means]
        return NngpKernels(means[0], first.reason) if alone else Kernels(means[0], means[1])

    def kernel_diagonal(self, a: FieldPoints) -> Any:
        """The averaged kernel of every point with itself."""
        parts = [self.kernel(a[part]) for part in a.blocks(max(256, a.count))]
        pick = lambda name: np.concatenate([np.diagonal(getattr(k, name)) for k in parts])
        if isinstance(parts[0], NngpKernels):
            return NngpKernels(pick("nngp"), parts[0].reason)
        return Kernels(pick("nngp"), pick("ntk"))
