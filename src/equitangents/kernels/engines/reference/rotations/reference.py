"""Programs on rotations as the reference engine runs them: in tiles of pairs, by JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.kernels.engines.protocol import Pair, RotationRules
from equitangents.kernels.engines.reference.rotations import measured, tiling
from equitangents.kernels.engines.reference.rotations.fields import BATCH
from equitangents.kernels.rotations.program import RotationSections, Zonal, field_points, nodes, sphere_resolution
from equitangents.kernels.threads import threads

_FIELDS = 12  # fields alive at once, at most


class TiledRotations(RotationRules):
    """Every program on rotations, in pure JAX."""

    differentiable = True

    def obstacle(self, program: RotationSections) -> str | None:
        return None

    def kernels(self, program: RotationSections, resolution: int, x1: np.ndarray, x2: np.ndarray | None) -> Pair:
        return tiling.blocks(program, resolution, x1, x2)

    def listed(
        self, program: RotationSections, resolution: int, x1: np.ndarray, x2: np.ndarray, first: Any, second: Any
    ) -> Pair:
        return tiling.listed(program, resolution, x1, x2, first, second)

    def traced(self, program: RotationSections, resolution: int, x1: Any, x2: Any = None) -> Pair:
        return traced(program, resolution, x1, x2)

    def traced_listed(
        self, program: RotationSections, resolution: int, x1: Any, x2: Any, first: Any, second: Any
    ) -> Pair:
        return tiling.traced(program, resolution, x1, x2, first, second)

    def sample_values(self, program: RotationSections, r: int, x: np.ndarray) -> Pair:
        return measured.sample_values(program, r, x)

    def products_on_sphere(self, program: RotationSections, resolution: int, channels: int) -> int:
        points = field_points(program, resolution)
        s = sphere_resolution(program.bandlimit, resolution)
        windows = [min(op.coefficients.array.size, s) for op in program.sphere if isinstance(op, Zonal)]
        return int(points * (program.bandlimit**2 * channels + sum(4 * n * n for n in windows)))

    def working_bytes(
        self, program: RotationSections, resolution: int, channels: int, n1: int, n2: int | None, itemsize: int
    ) -> int:
        """Bytes held beyond inputs and results: the signals in tiles, the quadrature, and a tile for every thread."""
        B, rows, columns = program.bandlimit, *tiling.tile_shape(program, resolution, n1, n2, itemsize)
        sides = (-(-n1 // rows) * rows + (0 if n2 is None else -(-n2 // columns) * columns)) * B * B * channels
        pairs, rotations, points = rows * columns, nodes(program, resolution), field_points(program, resolution)
        if program.sphere:
            s = sphere_resolution(B, resolution)
            samples = points * s * s + 10 * rotations
            batch = min(BATCH, rotations)
            tile = points * (batch * (s * s + pairs * (channels + _FIELDS)) + 2 * channels * pairs)
        elif program.readout == "flatten":
            samples, tile = 0, pairs * (B * B * channels + _FIELDS)
        elif not resolution:
            samples = rotations * B**3 * 4 // 3
            tile = pairs * (2 * B**3 + 64 * _FIELDS)
        else:
            ring, rings, side = (2 * resolution - 1) ** 2, rotations // (2 * resolution - 1) ** 2, 2 * B - 1
            samples = rings * side**2 * 2 * (B - 1) + rotations
            tile = pairs * (2 * side**2 * (rings + 2 * B) + ring * _FIELDS)
        return (sides + samples + threads() * tile) * itemsize

    def piece(
        self, program: RotationSections, resolution: int, n1: int, n2: int | None, itemsize: int
    ) -> tuple[int, int]:
        return tiling.tile_shape(program, resolution, n1, n2, itemsize)

    def pieces(self, n1: int, n2: int | None, rows: int, columns: int) -> float:
        """Tiles of the kernel matrix that each thread computes."""
        down, across = -(-n1 // rows), -(-(n2 or n1) // columns)
        count = down * (down + 1) // 2 if n2 is None else down * across
        return -(-count // threads())


def traced(program: RotationSections, resolution: int, x1: Any, x2: Any = None) -> tuple[Any, Any]:
    """(NNGP, NTK) of all pairs inside a JAX program."""
    other = x1 if x2 is None else x2
    i, j = np.divmod(np.arange(len(x1) * len(other)), len(other))
    values = tiling.traced(program, resolution, x1, other, i, j)
    nngp, ntk = (v.reshape(len(x1), len(other)) for v in values)
    return nngp, ntk
