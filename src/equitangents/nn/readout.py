"""Equivariant outputs: linear maps from signals on a group to one of its representations ρ.

y(f) = W_std/√n Σ_i ∫ ρ(g) v_i N_i(f)(g) dg + b_std · P b, with v_i ~ N(0, 1) in ℝ^d for each of n features and
P = ∫ ρ(g) dg. All linear maps with y(ρ_reg(h) f) = ρ(h) y(f) have this form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import Params
from equitangents.errors import InvalidArgumentError, NetworkError
from equitangents.groups import Group
from equitangents.groups.representations import Representation, RepresentationLike, as_representation
from equitangents.kernels.operations import FrozenArray
from equitangents.kernels.program import GroupMoves, Program
from equitangents.kernels.projected import EquivariantOutputs, PositionMoves, RotationMoves
from equitangents.kernels.rotations import Sphere
from equitangents.nn.layer import Grid, LinearLayer, OnGroup, Signal


@dataclass(frozen=True)
class Readout(LinearLayer):
    """The last layer of a network on a group: d equivariant outputs, y(gx) = ρ(g) y(x).

    K'(f,f') = W_std² ∫∫ ρ(g) ρ(g')ᵀ K(g,g') dg dg' + b_std² P, (d, d) for each pair of inputs, and Θ' = K' + the same
    integral of Θ times W_std². So `net.kernel(x1, x2).ntk` is (N1, N2, d, d), with K(gx, g'x') = ρ(g) K(x, x') ρ(g')ᵀ.

    Args:
        representation: A real irrep of the group, a list of irreps (their direct sum: independent blocks), a
            `groups.Representation`, or orthogonal matrices (order, d, d). A finite group of rotations also takes irreps
            of SO(2), O(2), SO(3) and O(3), a wallpaper group those of its point group, with trivial translations. The
            trivial irrep gives the outputs of GroupPool and Dense(1).
        W_std: Standard deviation of the weights.
        b_std: Standard deviation of the bias, which acts on the invariant subspace.
    """

    is_last: ClassVar[bool] = True  # layers after it would mix equivariant outputs
    representation: RepresentationLike
    W_std: float = 1.0
    b_std: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "representation", as_representation("representation", self.representation))
        super().__post_init__()

    @property
    def channels(self) -> int:  # type: ignore[override]
        """d, the number of outputs."""
        return self._outputs.dimension

    @property
    def _outputs(self) -> Representation:
        assert isinstance(self.representation, Representation)
        return self.representation

    def matrices(self, signal: Signal) -> np.ndarray:
        """ρ at every position of a signal on a group, (positions, d, d)."""
        positions = signal.positions
        if not isinstance(positions, OnGroup):
            remedy = "put a Lift or SphereLift before it, and no pool between"
            raise NetworkError("signal", positions, "a signal on a group", remedy, verb="is on")
        try:
            return self._outputs.at(positions.group)
        except InvalidArgumentError as error:
            raise NetworkError(str(error)) from None

    def signal(self, signal: Signal) -> Signal:
        """A plain vector of d outputs with different distributions."""
        self.matrices(signal)
        return Signal(Grid(()), self.channels, uneven=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """The outputs (N, d) of a signal (N, positions, n)."""
        rho = self.matrices(signal)
        weights = signal.positions.weights
        weights = np.full(len(rho), 1 / len(rho)) if weights is None else weights
        turns = jnp.asarray(rho * weights[:, None, None], x.dtype)
        features = self.scales.multiply({"w": params["w"]}, x)
        y = jnp.einsum("gab,ngb->na", turns, features, precision="highest")
        if "b" not in params:
            return y
        return y + self.b_std * (turns.sum(axis=0) @ params["b"])

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """No operations: `projected` projects the kernels of the layers before."""
        raise NetworkError("a Readout is the last layer of a network, not part of another layer")

    def projected(self, flat: Program[Any], moves: GroupMoves | Sphere, signal: Signal) -> Program[EquivariantOutputs]:
        """The program of a network with this last layer, whose input is `signal`.

        `flat`: the program with Flatten and Dense(1) instead of this layer; `moves`: how the group moves positions.
        """
        rho = self.matrices(signal)
        mean = np.average(rho, axis=0, weights=signal.positions.weights)
        constant = FrozenArray(self.b_std**2 * np.where(np.abs(mean) > 1e-12, mean, 0.0))
        space = EquivariantOutputs(flat.space, self._moves(moves, rho, signal), constant)
        return Program(space, flat.ops)

    def _moves(self, moves: GroupMoves | Sphere, rho: np.ndarray, signal: Signal) -> PositionMoves | RotationMoves:
        if isinstance(moves, GroupMoves):
            group = getattr(signal.positions, "group", None)
            assert isinstance(group, Group)
            sources = moves.points.array[group.inverses]
            return PositionMoves(FrozenArray(sources), FrozenArray(rho))
        return RotationMoves(moves.group, moves.bandlimit, self._outputs, moves.accuracy)
