"""Where solvers read the training kernel: in memory, in a store, or computed anew in each pass.

Kernels are dear: NTK and NNGP are held together where both take little of the memory, the one that trains alone where
it takes up to two fifths, and only what is larger is computed whenever it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from equitangents._types import FileName
from equitangents.ensembles.fields.matrix import matrix_of
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.ensembles.fields.store import FieldStore
from equitangents.kernels import KernelFunction, Kernels
from equitangents.scale import GramStore
from equitangents.solvers.matrices import ArrayMatrix, SymmetricMatrix, as_matrix

_BOTH, _ONE = 0.25, 0.4  # of the limit: a factor in the same precision fits beside them


@dataclass(frozen=True)
class TrainingMatrices:
    """The kernel that trains, K(X, X), the bytes that they take in memory, and the kernels if both are held."""

    trained: SymmetricMatrix
    prior: SymmetricMatrix
    bytes: int = 0
    kernels: Kernels | None = None


def training_matrices(
    kernel: KernelFunction, x: Any, field: str, store: FileName | None, limit: int, *, whole: bool
) -> TrainingMatrices:
    """For inputs x; `whole`: whether all entries are needed, not only some columns."""
    if store is not None:
        kept = kept_kernels(store, kernel, x)
        if isinstance(kept, FieldStore):
            return TrainingMatrices(as_matrix(getattr(kept, field)), as_matrix(kept.nngp))
        return TrainingMatrices(as_matrix(kept, field), as_matrix(kept, "nngp"))
    trained, prior = matrix_of(kernel, x, field), matrix_of(kernel, x, "nngp")
    one = trained.dtype.itemsize * len(x) ** 2
    if whole and 2 * one <= _BOTH * limit:
        kernels = kernel.kernel(x)
        own = ArrayMatrix(np.asarray(getattr(kernels, field)), trained.words)
        return TrainingMatrices(own, ArrayMatrix(np.asarray(kernels.nngp), prior.words), 2 * one, kernels)
    if whole and one <= _ONE * limit:
        return TrainingMatrices(ArrayMatrix(trained.assembled(), trained.words), prior, one)
    return TrainingMatrices(trained, prior)


def kept_kernels(store: FileName, kernel: KernelFunction, x: Any) -> GramStore | FieldStore:
    """The store in a folder with the kernels of inputs or points x, of which all that was missing is computed."""
    return (FieldStore if isinstance(x, FieldPoints) else GramStore)(store, kernel, x).compute()
