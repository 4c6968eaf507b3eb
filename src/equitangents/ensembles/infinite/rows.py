"""What the rows of a training problem are: inputs, arrays (N, …), or points of output fields.

The problems are the same for both. What differs is how equal rows are recognised, how kernels are averaged over a
group, and where the training kernel is read: in memory, in a store, or computed anew in each pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from equitangents._types import AnyAction, DataRows, FileName, KernelName
from equitangents.ensembles.fields.kernel import FieldKernel, PointAverage, PointKernel
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.ensembles.fields.store import field_store
from equitangents.inference.augmented import row_digests
from equitangents.inference.data_orbits import find_orbits
from equitangents.kernels import KernelFunction, orbit_average
from equitangents.scale import GramStore
from equitangents.solvers.matrices import KernelMatrix

_SAME_VARIANCE = 1e-5  # relative; inputs on one orbit agree to rounding, in float32 at worst


def equal_rows(x: DataRows) -> list[bytes]:
    """A digest of every row, the same for rows that are equal."""
    return x.digests() if isinstance(x, FieldPoints) else row_digests(x)


def equal_orbits(action: AnyAction, x: DataRows, variances: np.ndarray) -> list[bytes]:
    """A digest of every row's orbit; orbits are compared only where `variances`, which they share, are equal."""
    if isinstance(x, FieldPoints):
        return [int(o).to_bytes(8, "little") for o in action.data_orbits(x).orbit]
    labels = [i.to_bytes(8, "little") for i in range(len(x))]
    order = np.argsort(variances)
    near = np.diff(variances[order]) <= _SAME_VARIANCE * float(variances.max())
    alike = np.sort(order[np.append(near, False) | np.append(False, near)])
    if len(alike):
        for i, orbit in zip(alike, find_orbits(action, x[alike]).orbit, strict=True):
            labels[i] = b"orbit" + int(orbit).to_bytes(8, "little")
    return labels


def averaged(kernel: KernelFunction, action: AnyAction) -> KernelFunction:
    """The kernel's mean over one orbit, (1/|G|) Σ_g Θ(z, g z′); it is invariant."""
    if isinstance(kernel, FieldKernel):
        return cast(KernelFunction, PointAverage(kernel, action))
    return orbit_average(kernel, action)


def row_blocks(x: DataRows, numbers: int) -> Iterator[DataRows]:
    """Rows in parts of at most `numbers`; points in whole signals, of which fewer numbers make no less work."""
    if isinstance(x, FieldPoints):
        return (x[part] for part in x.blocks(max(numbers, x.count)))
    return (x[start : start + numbers] for start in range(0, len(x), numbers))


def stored(store: FileName, kernel: KernelFunction, x: DataRows) -> GramStore:
    """The store in a folder with the kernels of rows, of which all that was missing is computed."""
    if isinstance(x, FieldPoints):
        return field_store(store, cast(PointKernel, kernel), x).compute()
    return GramStore(store, kernel, x).compute()


def kernel_diagonal(kernel: KernelFunction, x: DataRows, field: KernelName) -> np.ndarray:
    """The kernel of every input with itself, (N,), in float64."""
    return KernelMatrix(kernel, x, field).diagonal()
