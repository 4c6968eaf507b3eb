"""Groups of real matrices, multiplied as matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
from jaxtyping import Float

from equitangents.errors import InvalidArgumentError, InvalidTypeError, NotFiniteError, ShapeError
from equitangents.groups.group import TableGroup, check_table_order, read_only
from equitangents.groups.rotations_of_space import rotation_angle

TOLERANCE = 1e-8  # entries that differ by less, relative to the largest, are one number


@final
class MatrixGroup(TableGroup):
    """A finite group of real d×d matrices; made by `from_matrices`, `octahedral`, ..."""

    matrices: Float[np.ndarray, "order d d"]

    def __init__(self, name: str, matrices: np.ndarray, table: np.ndarray):
        super().__init__(name, table)
        vars(self).update(matrices=read_only(matrices))

    def angle(self, g: int) -> float | None:
        """Rotation angle in degrees if the matrix of g is a rotation of the plane or of space, else None."""
        if self.matrices.shape[1] not in (2, 3) or not self._is_orthogonal:
            return None
        return rotation_angle(self.matrices[g])

    @property
    def rotates_space(self) -> bool:
        """Whether the matrices are 3×3 and orthogonal."""
        return self.matrices.shape[1] == 3 and self._is_orthogonal

    @cached_property
    def _is_orthogonal(self) -> bool:
        M = self.matrices
        return bool(np.allclose(M @ np.swapaxes(M, 1, 2), np.eye(M.shape[1]), atol=TOLERANCE))

    def named(self, name: str) -> MatrixGroup:
        """A copy of this group with another name."""
        return MatrixGroup(name, self.matrices, self.table)

    def _structure(self) -> tuple[Any, ...]:
        return ("matrices", self.matrices.shape, self.matrices.tobytes())


def from_matrices(matrices: npt.ArrayLike, name: str = "matrix group") -> MatrixGroup:
    """The group of a list of real matrices (n, d, d) closed under products, numbered in the list's order.

    Matrices are equal if their entries agree to 1e-8 of the largest. Raises InvalidArgumentError with the witness if
    one is singular or occurs twice, or a product is missing.

    >>> from_matrices([[[1.0]], [[-1.0]]]).order
    2
    """
    M = check_matrix_list("matrices", matrices)
    check_table_order(len(M), name)
    find = _finder(M)
    for i, m in enumerate(M):
        first = int(find(m[None])[0])
        if first != i:
            raise InvalidArgumentError(
                "matrices", first, "a matrix that is not in the list yet", verb="repeats that at", at=i
            )
    table = np.empty((len(M), len(M)), np.int32)
    for a in range(len(M)):
        table[a] = find(M[a] @ M)
        missing = np.flatnonzero(table[a] < 0)
        if len(missing):
            raise InvalidArgumentError(
                "matrices",
                (a, int(missing[0])),
                "a closed list",
                verb="lacks the product of",
            )
    return MatrixGroup(name, M, table)


def check_matrix_list(name: str, matrices: object) -> Float[np.ndarray, "n d d"]:
    """`matrices` as a new float64 array (n, d, d) of invertible matrices, or an error that names `name`."""
    try:
        M = np.array(matrices)
    except ValueError:
        raise ShapeError(name, "entries of unequal shape", "matrices (n, d, d)", verb="has") from None
    if M.ndim != 3 or M.shape[1] != M.shape[2] or M.size == 0:
        raise ShapeError(name, M.shape, "(n, d, d)")
    if M.dtype.kind not in "iuf":
        raise InvalidTypeError(name, M.dtype, "real numbers", verb="has dtype")
    M = M.astype(np.float64)
    if not np.isfinite(M).all():
        raise NotFiniteError(name, tuple(map(int, np.argwhere(~np.isfinite(M))[0])))
    singular = np.flatnonzero(np.linalg.matrix_rank(M) < M.shape[1])
    if len(singular):
        raise InvalidArgumentError(name, M[singular[0]].tolist(), "an invertible matrix", at=int(singular[0]))
    return M


def _finder(M: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function from matrices (k, d, d) to the index of each in M; −1 for matrices that M does not contain."""
    from scipy.spatial import KDTree  # loaded for groups of matrices alone: others need NumPy

    tree, tolerance = KDTree(M.reshape(len(M), -1)), TOLERANCE * max(1.0, float(np.abs(M).max()))

    def find(m: np.ndarray) -> np.ndarray:
        near = tree.query_ball_point(m.reshape(len(m), -1), tolerance, p=np.inf)
        return np.array([min(at, default=-1) for at in near], np.int32)

    return find
