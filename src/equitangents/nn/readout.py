"""Equivariant outputs: from signals on a group to a representation ρ of it.

y(f) = W_std/√n Σ_i ∫ ρ(g) v_i N_i(f)(g) dg + b_std · P b, with v_i ~ N(0, 1) in ℝ^d for each of n features and
P = ∫ ρ(g) dg. These are all the linear maps with y(ρ_reg(h) f) = ρ(h) y(f).
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
        representation: An irrep of the group over the real numbers, a list of irreps (their direct sum: independent
            blocks), a `groups.Representation`, or orthogonal matrices (order, d, d). An irrep of SO(2), O(2), SO(3) or
            O(3) will do for a finite group of rotations, one of the point group for a wallpaper group, whose
            translations then change nothing. The trivial one gives what GroupPool and Dense(1) give.
        W_std: Standard deviation of the weights.
        b_std: Standard deviation of the bias, along what no element of the group moves.
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
        """A plain vector of d outputs, which are not alike."""
        self.matrices(signal)
        return Signal(Grid(()), self.channels, uneven=True)

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """(N, positions, n) to (N, d)."""
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
        """Nothing: the kernels of the layers before it are projected, see `projected`."""
        raise NetworkError("a Readout is the last layer of a network, not part of another layer")

    def projected(self, flat: Program[Any], moves: GroupMoves | Sphere, signal: Signal) -> Program[EquivariantOutputs]:
        """The program of a network with this last layer, into which `signal` goes.

        `flat` is that of the network which ends in Flatten and Dense(1), `moves` says how its group moves positions.
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
