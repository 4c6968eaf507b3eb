"""What a readout in a representation ρ does to kernels, as data.

y(f) = ∫ ρ(g) v N(f)(g) dg with v ~ N(0, 1), independent for every feature. As N(f)(g) = N(ρ_reg(g⁻¹)f)(e), the
kernels of y are those of the network that ends in Flatten, moved and weighed by ρ:

    K(f, f') = ∫ ρ(q) k(f, ρ_reg(q) f') dq,   Θ likewise.
"""

from __future__ import annotations

from dataclasses import dataclass

from equitangents.groups import MatrixGroup
from equitangents.groups.representations import Representation
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.program import FrozenArray, Positions
from equitangents.kernels.rotations.program import Accuracy, Sphere
from equitangents.kernels.structured.program import StructuredPositions


@dataclass(frozen=True)
class PositionMoves:
    """A finite group that moves positions: element q takes x, (P, C), to x[sources[q]], and is ρ(q) = matrices[q]."""

    sources: FrozenArray  # int32 (|G|, P)
    matrices: FrozenArray  # float64 (|G|, d, d)
    inverses: FrozenArray  # int32 (|G|,)


@dataclass(frozen=True)
class RotationMoves:
    """Rotations of signals on the sphere, sampled as finely as `accuracy` asks for."""

    group: RotationGroup | MatrixGroup
    bandlimit: int
    representation: Representation
    accuracy: Accuracy


@dataclass(frozen=True)
class Turning:
    """The space of d outputs that turn by a representation: kernels K(x, x') between all pairs are (N1, N2, d, d).

    The operations, on the space `flat`, give the kernels k of numbers; `constant` (d, d) is what the bias adds, the
    projection onto what no element moves.
    """

    flat: Positions | Sphere | StructuredPositions
    moves: PositionMoves | RotationMoves
    constant: FrozenArray

    @property
    def dimension(self) -> int:
        """d, the number of outputs."""
        return self.constant.array.shape[0]
