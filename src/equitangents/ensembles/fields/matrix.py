"""The kernel of points as a matrix of which solvers ask blocks, columns and products, in tiles of whole signals."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from equitangents.ensembles.fields.kernel import FieldKernel, picked
from equitangents.ensembles.fields.points import FieldPoints
from equitangents.solvers import KernelMatrix
from equitangents.solvers.matrices import spans

_LANDMARKS = 8192  # points from which landmarks are drawn, 256 MB of their kernel in float32
_ROWS = 256  # of a field that are brought to float64 at once
_TILE = 4096  # points: whole signals, so that no field is computed for a part of it, and enough pairs for all cores


class FieldMatrix(KernelMatrix):
    """Kernel of points with themselves, computed whenever it is asked for; a product computes every field once."""

    def __init__(self, kernel: Any, x: FieldPoints, field: str) -> None:
        side = max(1, _TILE // x.count) * x.count
        super().__init__(kernel, x, field, tile=side)
        self.probe = self.strip = min(len(x), x.count)
        self.words = f"the {field.upper()} of {self.size} outputs ({x.count} positions each)"

    def landmark_rows(self, count: int, rng: np.random.Generator) -> np.ndarray | None:
        """Points of random signals, at least twice as many as `count`: a field is computed for all its positions."""
        images = np.unique(self.x.image)
        wanted = -(-max(_LANDMARKS, 2 * count) // self.x.count)
        if wanted >= len(images):
            return None
        return np.flatnonzero(np.isin(self.x.image, rng.choice(images, wanted, replace=False)))

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """A V in float64; one field is computed for each pair of signals, and nothing else of its size is made."""
        if not isinstance(self.kernel, FieldKernel):
            return super().product(vectors)
        total = np.zeros(vectors.shape)
        for rows, columns, field in self.kernel.blocks(self.x, None):
            entries = picked(getattr(field, self.field), self.x, self.x, rows, columns)
            for part in spans(len(rows), _ROWS):
                some = entries[part].astype(np.float64)
                total[rows[part]] += some @ vectors[columns]
                if rows is not columns:
                    total[columns] += some.T @ vectors[rows[part]]
        return self.checked(total)

    def fingerprint(self) -> str:
        """A hash of signals and points, and of some entries in place of the network."""
        digest = hashlib.sha256()
        for array in (np.asarray(self.x.signals), self.x.image, self.x.position, self.diagonal()):
            digest.update(np.ascontiguousarray(array).tobytes())
        some = np.linspace(0, self.size - 1, min(self.size, 64)).astype(int)
        digest.update(np.ascontiguousarray(self.rectangle(some, some)).tobytes())
        return digest.hexdigest()


def matrix_of(kernel: Any, x: Any, field: str) -> KernelMatrix:
    """The kernel of inputs, or of points, with themselves, its tiles computed whenever they are needed."""
    return FieldMatrix(kernel, x, field) if isinstance(x, FieldPoints) else KernelMatrix(kernel, x, field)
