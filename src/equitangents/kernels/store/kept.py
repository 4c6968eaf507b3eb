"""A network whose kernels are kept: large matrices in tiles, so that what is complete survives, and grows."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from equitangents._types import ArrayLike
from equitangents.actions.group_action import GroupAction
from equitangents.errors import InvalidTypeError
from equitangents.kernels.engines import engine_name
from equitangents.kernels.fields.size import check_result
from equitangents.kernels.program import Program
from equitangents.kernels.result import KernelFunction, Kernels
from equitangents.kernels.store.folder import KernelStore
from equitangents.kernels.store.key import kernel_key
from equitangents.precision import is_traced, working_dtype
from equitangents.tiles.grid import Grid

logger = logging.getLogger("equitangents")


@runtime_checkable
class LoweredNetwork(KernelFunction, Protocol):
    """A network of equitangents.nn: it lowers to a program."""

    @property
    def layers(self) -> tuple[Any, ...]:
        """The layers, first to last."""

    def lower(self, input_shape: tuple[int, ...]) -> tuple[int, Program[Any]]:
        """Number of leading layers before the program, and the program."""

    def lowered(self, x: ArrayLike) -> tuple[ArrayLike, Program[Any]]:
        """The inputs that the program reads, and the program."""

    def kernel_diagonal(self, x: ArrayLike) -> Kernels:
        """The kernel of every input with itself."""


@dataclass(frozen=True)
class KeptKernel:
    """The kernel of `net`, read from `store` where it was computed before; it takes the network's place.

    Matrices are kept in tiles of `tile` × `tile` inputs, those of a symmetric matrix once: a computation that was
    killed goes on from its last tile, and one on more inputs reads the tiles of those that it shares, from the first
    on. The log says how many tiles were read and how many computed.
    """

    net: LoweredNetwork
    store: KernelStore = field(default_factory=KernelStore)
    tile: int = 250

    def __post_init__(self) -> None:
        if not hasattr(self.net, "lowered"):
            raise InvalidTypeError("net", self.net, "a network of equitangents.nn")

    @property
    def draws_noise(self) -> bool:
        """Whether the network draws noise, so that an input differs from an equal one."""
        return bool(getattr(self.net, "draws_noise", False))

    def invariant_under(self, action: GroupAction, input_shape: tuple[int, ...]) -> bool:
        """Whether the network's kernels are known to be."""
        says = getattr(self.net, "invariant_under", None)
        return says is not None and bool(says(action, input_shape))

    def kernel(
        self, x1: ArrayLike, x2: ArrayLike | None = None, step: Callable[[int, int], None] = lambda done, total: None
    ) -> Kernels:
        """NNGP and NTK, (N1, N2), as `net.kernel` gives them; `step(done, total)` after every tile.

        Inputs whose values are not known (inside a JAX program) are computed and not kept.
        """
        if is_traced(x1) or is_traced(x2) or not len(x1) or (x2 is not None and not len(x2)):
            return self.net.kernel(x1, x2)
        dtype = working_dtype(x1, x2)
        check_result(x1, x2, dtype, 0)
        one = np.asarray(x1, dtype)
        other = None if x2 is None else np.asarray(x2, dtype)
        kernels = self._tiles(one, other, step)
        if any(isinstance(x, jax.Array) for x in (x1, x2)):
            kernels = replace(kernels, nngp=jnp.asarray(kernels.nngp), ntk=jnp.asarray(kernels.ntk))
        return kernels

    def kernel_diagonal(self, x: ArrayLike) -> Kernels:
        """NNGP and NTK of every input with itself; too cheap to be kept."""
        return self.net.kernel_diagonal(x)

    def _tiles(self, x1: np.ndarray, x2: np.ndarray | None, step: Callable[[int, int], None]) -> Kernels:
        columns = x1 if x2 is None else x2
        grid = Grid((len(x1),), None if x2 is None else (len(x2),), self.tile)
        nngp, ntk = np.empty((2, len(x1), len(columns)), x1.dtype)
        read, last, notes, tiles = 0, Kernels(nngp, ntk), dict[str, None](), grid.tiles()
        for done, tile in enumerate(tiles, 1):
            rows, across = grid.spans(tile)
            last, known = self.one_tile(x1[rows], None if grid.halved(tile) else columns[across])
            read += known
            notes |= dict.fromkeys(last.notes)
            nngp[rows, across], ntk[rows, across] = last.nngp, last.ntk
            if grid.mirror(tile) is not None:
                nngp[across, rows], ntk[across, rows] = last.nngp.T, last.ntk.T
            step(done, len(tiles))
        self.report(read, len(tiles))
        return replace(last, nngp=nngp, ntk=ntk, notes=tuple(notes))

    def one_tile(self, x1: np.ndarray, x2: np.ndarray | None) -> tuple[Kernels, bool]:
        """(the kernels of inputs few enough to be kept in one file, whether they were read)."""
        given, program = self.net.lowered(x1)
        other = None if x2 is None else self.net.lowered(x2)[0]
        key = kernel_key(program, np.asarray(given), None if other is None else np.asarray(other), engine_name())
        return self.store.fetch(key, lambda: self.net.kernel(x1, x2))

    def report(self, read: int, total: int) -> None:
        """Say in the log how many tiles were read, and how many computed."""
        if read:
            logger.info("kernels: %d of %d tiles were read from %s and not computed", read, total, self.store.folder)
        if read < total:
            logger.info("kernels: %d of %d tiles were computed and kept in %s", total - read, total, self.store.folder)

    def slices(self, count: int) -> list[slice]:
        """The tiles along one side."""
        return [slice(start, min(start + self.tile, count)) for start in range(0, count, self.tile)]
