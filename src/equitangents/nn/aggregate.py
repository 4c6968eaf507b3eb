"""Message passing: each position gets a weighted sum over others, by the input's graph or by a given matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from equitangents._types import Params
from equitangents.errors import NetworkError, ShapeError
from equitangents.kernels.operation import FrozenArray
from equitangents.kernels.structured import Mix
from equitangents.nn.layer import ParameterFree
from equitangents.nn.signal import Grid, Signal
from equitangents.nn.structure import Structure
from equitangents.validation import check_array


class Aggregate(ParameterFree):
    """y(p) = Σ_r A(p, r) x(r): K' = A K A'ᵀ, Θ' = A Θ A'ᵀ.

    `Aggregate()` takes A of each input: the network reads `Graphs(x, adjacency, mask)`. `Aggregate(matrix)` takes the
    same matrix, (positions_out, positions), for all inputs. Relabelling the nodes of an input changes nothing after a
    pool over them.
    """

    def __init__(self, matrix: npt.ArrayLike | None = None) -> None:
        self._matrix: FrozenArray | None = None
        if matrix is not None:
            self._matrix = FrozenArray(np.asarray(check_array("matrix", matrix, rank=2), np.float64))

    def __repr__(self) -> str:
        return "Aggregate()" if self._matrix is None else f"Aggregate({self._matrix!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aggregate) and self._matrix == other._matrix

    def __hash__(self) -> int:
        return hash((Aggregate, self._matrix))

    @property
    def needs_structure(self) -> bool:  # type: ignore[override]
        """Graphs come with the inputs, unless a matrix is given."""
        return self._matrix is None

    def signal(self, signal: Signal) -> Signal:
        """As many positions as come in, or as the matrix has rows; a Gaussian field stays one."""
        positions = signal.positions
        if not signal.axes:
            raise NetworkError("signal", positions, "positions of a grid (N, *grid, channels)", verb="is on")
        if self._matrix is None:
            return replace(signal, given=False)
        rows, columns = self._matrix.array.shape
        if columns != positions.count:
            raise ShapeError("matrix", self._matrix.array.shape, "as many columns as the signal has positions")
        return signal if rows == columns else replace(signal, positions=Grid((rows,)))

    def apply(self, params: Params, x: jax.Array, signal: Signal) -> jax.Array:
        """Weighted sums over positions, by the matrix."""
        return self.run(params, x, signal, Structure())[0]

    def run(self, params: Params, x: jax.Array, signal: Signal, structure: Structure) -> tuple[jax.Array, Structure]:
        """Weighted sums over positions, by the matrix or by each input's graph."""
        flat = x.reshape((x.shape[0], -1, x.shape[-1]))
        if self._matrix is None:
            if structure.graphs is None:
                raise NetworkError(
                    "Aggregate() reads the graphs of its inputs: give Graphs(x, adjacency) in place of x"
                )
            y = jnp.einsum("npr,nrc->npc", structure.graphs.astype(x.dtype), flat, precision="highest")
        else:
            y = jnp.einsum("pr,nrc->npc", jnp.asarray(self._matrix.array, x.dtype), flat, precision="highest")
        y = y.reshape((x.shape[0], *self.signal(signal).positions.shape, x.shape[-1]))
        return structure.after(y, structure.mask if y.shape == x.shape else None)

    def lower(self, signal: Signal) -> tuple[Any, ...]:
        """One operation, with the matrix if there is one."""
        return (Mix(self._matrix),)
