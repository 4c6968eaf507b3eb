"""SO(3) and O(3) on vectors and point clouds: an action of infinitely many elements, of which some are tried.

ρ(R) x = R x for every rotation R. Means over the group are quadratures: ∫ f(R) dR ≈ Σ_i w_i f(R_i) over the nodes of
`groups.so3(bandlimit)`, exact for what is a polynomial of degree below 2·bandlimit - 1 in the entries of R.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from equitangents import precision
from equitangents._types import ArrayLike
from equitangents.actions.action import check_orbit, scope_of
from equitangents.actions.last_axis import TOLERANCE, check_last_axis, multiply
from equitangents.errors import InvalidArgumentError, InvalidTypeError, ShapeError
from equitangents.groups import RotationGroup

_RANKS = (2, 3)


@final
@dataclass(frozen=True)
class ContinuousRotations:
    """SO(3) or O(3) on vectors (N, 3) and point clouds (N, P, 3); made by `rotations(so3(bandlimit))`.

    `action(g, x)` applies an element of the group: a matrix (3, 3), or the number of a node of the group's quadrature;
    `action.orbit(x)` goes through the nodes. It is no `Action`: those are of finite groups, and whatever sums over all
    elements exactly takes those alone.
    """

    group: RotationGroup

    name = "rotations of 3-vectors"
    exact = True
    """ρ(R) ρ(S) = ρ(RS) holds to rounding."""

    @property
    def weights(self) -> Float[np.ndarray, " order"]:
        """How much each node counts in a mean over the group; they sum to 1."""
        return self.group.weights

    def __call__(self, g: Any, x: Any) -> Any:
        """ρ(g) x for signals x (N, 3) or (N, P, 3); g is a matrix (3, 3) of the group, or a node's number."""
        if not precision.is_traced(g):
            g = np.asarray(g)
            g = self.matrices_of(g[None] if g.ndim in (0, 2) else g)[0]
        elif g.shape != (3, 3):
            raise ShapeError(f"g has shape {g.shape}; expected a matrix (3, 3)")
        x = self._check_signals(x)
        with scope_of(x):
            return multiply("...j,ij->...i", x, g)

    def orbit(self, x: Any, elements: Any = None) -> Any:
        """ρ(g) x for all nodes of the quadrature, or for those of `elements`, along a new first axis: (nodes, N, ...).

        elements: numbers of nodes (k,), or matrices (k, 3, 3) of the group.
        """
        matrices = self.group.matrices if elements is None else self.matrices_of(elements)
        x = self._check_signals(x)
        check_orbit(len(matrices), x)
        with scope_of(x):
            return multiply("...j,gij->g...i", x, matrices)

    def matrices_of(self, elements: Any, name: str = "g") -> Float[np.ndarray, "k 3 3"]:
        """Elements as matrices: given as such (k, 3, 3), and checked, or as numbers of nodes (k,)."""
        given = np.asarray(elements)
        if given.dtype.kind in "iu" and given.ndim == 1:
            outside = given[(given < 0) | (given >= self.group.order)]
            if outside.size:
                raise InvalidArgumentError(
                    f"{name} is {outside[0]}; expected a matrix (3, 3), or a node of {self.group!r}, "
                    f"0 to {self.group.order - 1}"
                )
            return self.group.matrices[given]
        if given.shape[1:] != (3, 3):
            raise ShapeError(f"{name} has shape {given.shape}; expected matrices (3, 3), or numbers of nodes")
        return check_rotations(name, given, self.group.reflections)

    def verify(self, x: Any) -> None:
        """Check that x fits; that ρ is an action is known of matrices."""
        self._check_signals(x)

    def _check_signals(self, x: Any) -> ArrayLike:
        return check_last_axis(x, _RANKS, 3, self.name)

    def __copy__(self) -> ContinuousRotations:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ContinuousRotations:
        return self

    def __repr__(self) -> str:
        return f"<action {self.name} of {self.group.name}, {self.group.order} nodes>"


def check_rotations(name: str, matrices: Any, reflections: bool) -> Float[np.ndarray, "k 3 3"]:
    """`matrices` (k, 3, 3) in float64 if they are orthogonal, and of determinant 1 unless there are `reflections`."""
    M = np.asarray(matrices, np.float64)
    single = np.asarray(matrices).dtype == np.float32
    error = np.abs(M @ np.swapaxes(M, 1, 2) - np.eye(3)).max(axis=(1, 2)) if len(M) else np.zeros(0)
    wrong = ~(error <= (1e-5 if single else TOLERANCE))
    if wrong.any():
        raise InvalidArgumentError(f"{name} holds a matrix that is not orthogonal:\n{M[wrong][0]}")
    if not reflections and (np.linalg.det(M) < 0).any():
        raise InvalidArgumentError(f"{name} holds a reflection, of determinant -1; groups.o3(bandlimit) has those")
    return M


def check_finite_group(name: str, action: Any, what: str) -> None:
    """Raise InvalidTypeError, which names what can be done, if `action` is of infinitely many elements."""
    if isinstance(action, ContinuousRotations):
        raise InvalidTypeError(
            f"{name} is of {action.group.name}, which has infinitely many elements, and {what} needs a finite group: "
            "take a finite subgroup, such as actions.rotations(groups.icosahedral())"
        )
