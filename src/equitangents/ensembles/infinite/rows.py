"""What the rows of a training problem are: inputs, arrays (N, …), or points of output fields.

The problems are the same for both. What differs is how equal rows are told, how kernels are averaged over a group, and
where the training kernel is read: in memory, in a store, or computed anew in each pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from equitangents._types import AnyAction, DataRows, FileName, KernelName
from equitangents.ensembles.fields.kernel import FieldKernel, FieldMatrix, PointAverage, PointKernel
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.ensembles.fields.store import FieldStore
from equitangents.inference.augmented import orbit_digests, row_digests
from equitangents.inference.data_orbits import DataOrbits, find_orbits
from equitangents.kernels import KernelFunction, orbit_average
from equitangents.kernels.random_features import FeatureMap
from equitangents.scale import GramStore
from equitangents.solvers.matrices import KernelMatrix, SymmetricMatrix, as_matrix

_SAME_VARIANCE = 1e-5  # relative; inputs on one orbit agree to rounding, in float32 at worst


class InputRows:
    """Rows that are inputs."""

    def digests(self, x: DataRows) -> list[bytes]:
        """Equal for rows that are equal."""
        return row_digests(x)

    def orbit_labels(self, action: AnyAction, x: DataRows, variances: np.ndarray) -> list[bytes]:
        """Equal for rows on one orbit; orbits are compared only where `variances`, which they share, are equal."""
        labels = [i.to_bytes(8, "little") for i in range(len(x))]
        order = np.argsort(variances)
        near = np.diff(variances[order]) <= _SAME_VARIANCE * float(variances.max())
        alike = np.sort(order[np.append(near, False) | np.append(False, near)])
        if len(alike):
            for i, digest in zip(alike, orbit_digests(action, x[alike]), strict=True):
                labels[i] = b"orbit" + digest
        return labels

    def data_orbits(self, action: AnyAction, x: DataRows) -> DataOrbits:
        """The orbits of rows under an exact action."""
        return find_orbits(action, x)

    def averaged(self, kernel: KernelFunction, action: AnyAction) -> KernelFunction:
        """The kernel's mean over one orbit, (1/|G|) Σ_g Θ(z, g z′); it is invariant."""
        return orbit_average(kernel, action)

    def blocks(self, x: DataRows, numbers: int) -> Iterator[DataRows]:
        """Rows in parts of at most `numbers`."""
        return (x[start : start + numbers] for start in range(0, len(x), numbers))

    def matrix(self, kernel: KernelFunction, x: DataRows, field: str) -> KernelMatrix:
        """The kernel of rows with themselves, its tiles computed whenever they are needed."""
        return KernelMatrix(kernel, x, field)

    def stored(self, store: FileName, kernel: KernelFunction, x: DataRows) -> GramStore | FieldStore:
        """The store in a folder with the kernels of rows, of which all that was missing is computed."""
        return GramStore(store, kernel, x).compute()

    def read(self, stored: GramStore | FieldStore, field: str) -> SymmetricMatrix:
        """One kernel of a store as solvers read it."""
        return as_matrix(stored, field)


class PointRows(InputRows):
    """Rows that are points of fields."""

    def digests(self, x: FieldPoints) -> list[bytes]:
        """Equal for points at one position of equal signals."""
        return x.digests()

    def orbit_labels(self, action: AnyAction, x: FieldPoints, variances: np.ndarray) -> list[bytes]:
        """Equal for points on one orbit."""
        return [int(o).to_bytes(8, "little") for o in action.data_orbits(x).orbit]

    def data_orbits(self, action: AnyAction, x: FieldPoints) -> DataOrbits:
        """The orbits of points, from those of their signals."""
        return action.data_orbits(x)

    def averaged(self, kernel: KernelFunction, action: AnyAction) -> KernelFunction:
        """The kernel's mean over one orbit of points."""
        return cast(KernelFunction, PointAverage(cast(PointKernel, kernel), action))

    def blocks(self, x: FieldPoints, numbers: int) -> Iterator[FieldPoints]:
        """Points in whole signals, of which fewer numbers make no less work."""
        return (x[part] for part in x.blocks(max(numbers, x.count)))

    def matrix(self, kernel: KernelFunction, x: FieldPoints, field: str) -> KernelMatrix:
        """The kernel of points with themselves, in tiles of whole signals."""
        return FieldMatrix(cast(PointKernel, kernel), x, field)

    def stored(self, store: FileName, kernel: KernelFunction, x: FieldPoints) -> FieldStore:
        """The store of the kernels of points."""
        return FieldStore(store, cast(PointKernel, kernel), x).compute()

    def read(self, stored: GramStore | FieldStore, field: str) -> SymmetricMatrix:
        """One of its two arrays."""
        return as_matrix(getattr(stored, field))


_INPUTS, _POINTS = InputRows(), PointRows()


def rows_of(x: DataRows) -> InputRows:
    """What the rows x of a problem are."""
    return _POINTS if isinstance(x, FieldPoints) else _INPUTS


def applied(
    kernel: KernelFunction, x: DataRows, inputs: DataRows, field: str, weights: Sequence[np.ndarray], entries: int
) -> np.ndarray:
    """Θ(x, inputs) W for each W (n, k), (len(weights), M, k) in float64, `entries` of the kernel at a time."""
    if isinstance(kernel, FieldKernel):
        return kernel.applied(x, inputs, field, list(weights))
    parts = []
    for rows in rows_of(x).blocks(x, max(1, entries // len(inputs))):
        cross = np.asarray(getattr(kernel.kernel(rows, inputs), field), np.float64)
        parts.append(np.stack([cross @ each for each in weights]))
    return np.concatenate(parts, axis=1)


def applied_features(kernel: FeatureMap, x: DataRows, field: KernelName, weights: Sequence[np.ndarray]) -> np.ndarray:
    """φ(x) W for each W (m, k), (len(weights), M, k) in float64."""
    features = np.asarray(kernel.transform(x, field), np.float64)
    return np.stack([features @ each for each in weights])


def compact(
    kernel: KernelFunction, field: KernelName, inputs: DataRows, weights: np.ndarray
) -> tuple[DataRows, np.ndarray]:
    """Inputs and weights (n, k) that Θ(x, inputs) is multiplied with, as few numbers as they can be.

    Of a kernel of features these are weights (m, k) of features, and one input stands for all.
    """
    if not isinstance(kernel, FeatureMap):
        return inputs, weights
    return inputs[:1], np.asarray(kernel.transform(inputs, field), np.float64).T @ weights
