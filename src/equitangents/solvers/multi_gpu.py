"""Cholesky over all GPUs of one machine: jaxmg's `potrs`, by NVIDIA's cuSOLVERMg, in float64.

Each GPU holds some rows of Θ + δ, filled up by an identity to whole tiles. What comes back is used if its residual,
computed in float64 by this process from the entries themselves, is that of a Cholesky factorisation. This adapter has
run with a stand-in for `potrs` alone, on processors: no machine with two GPUs was at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from equitangents.errors import EquitangentsError, InvalidArgumentError, MemoryLimitError, MissingLibraryError
from equitangents.formatting import memory_size
from equitangents.solvers.definiteness import check_positive, lost_in_factor
from equitangents.solvers.finite_time import AtTheEnd
from equitangents.solvers.lanczos import extremes
from equitangents.solvers.method import TOLERANCE, Answer, Cost, Method, Prepared, Task, check_iterations
from equitangents.solvers.system import System, are_solved
from equitangents.validation import check_whole

_FEWEST = 2  # GPUs
_STEPS = 30  # of Lanczos, for the eigenvalues of the report
_WORKSPACE = 4  # rows of tiles that a GPU holds beside its part of the matrix


@dataclass(frozen=True)
class MultiGPU(Method):
    """Cholesky on all GPUs of this machine, for matrices that no single one of them holds.

    Needs two GPUs, Linux and `pip install 'equitangents[multi-gpu]'`. Every solution at time inf factors anew. "auto"
    never takes it; forecasts of time are those of this machine's processors.

    tile: columns that one GPU factors at once. tolerance: of the relative residual.
    """

    tile: int = 512
    tolerance: float = TOLERANCE

    name: ClassVar[str] = "multi-gpu"

    def __post_init__(self) -> None:
        check_whole("tile", self.tile, 1)
        check_iterations(self.tolerance, 1)

    def cost(self, task: Task) -> Cost:
        """N³/3 operations, and in the memory of this machine one GPU's rows at a time."""
        count = max(_FEWEST, len(gpus()))
        rows = 8 * _filled(task.size, count, self.tile) ** 2 // count
        vectors = 8 * task.size * (6 * task.outputs + _STEPS + 4)
        buffers = 0 if task.in_memory else 3 * 8 * task.tile**2
        products = 1 + _STEPS
        return Cost(rows + vectors + buffers, task.size**3 / 3, products, task.size**2)

    def device_memory(self, size: int, outputs: int, count: int) -> int:
        """Bytes that each of `count` GPUs needs: its rows, tiles to work on, and the targets."""
        filled = _filled(size, count, self.tile)
        return 8 * (filled**2 // count + _WORKSPACE * self.tile * filled + 2 * outputs * filled)

    def prepare(self, system: System, limit: int, consumed: bool) -> Prepared:
        """Refuse where there are too few GPUs, or jaxmg is missing; matrices go to the GPUs when they are solved."""
        found = gpus()
        if len(found) < _FEWEST:
            there = "one, which 'cholesky' does not use either" if found else "none"
            raise InvalidArgumentError(
                f"solver is 'multi-gpu', which takes two or more GPUs of this process, and JAX sees {there}; take "
                "'cholesky', 'out-of-core' or 'pcg'"
            )
        if jax.process_count() > 1:
            raise InvalidArgumentError("solver is 'multi-gpu', for the GPUs of one process, and JAX runs several here")
        return _OnGPUs(self, system, limit, found, potrs())


def gpus() -> list[jax.Device]:
    """The GPUs that JAX sees from this process."""
    try:
        return list(jax.local_devices(backend="gpu"))
    except RuntimeError:  # a JAX without them
        return []


def potrs() -> Callable[..., Any]:
    """The one function of jaxmg that is used; MissingLibraryError without it."""
    try:
        import jaxmg
    except ImportError:
        raise MissingLibraryError(
            "solver is 'multi-gpu', which needs the package jaxmg, and that is not installed: pip install "
            "'equitangents[multi-gpu]' (in a checkout '.[multi-gpu]')"
        ) from None
    if version("jaxmg").partition(".")[0] != "0":
        raise MissingLibraryError(
            f"solver is 'multi-gpu', which needs jaxmg before 1.0, and {version('jaxmg')} is installed, which takes a "
            "process for each GPU; pip install 'equitangents[multi-gpu]' (in a checkout '.[multi-gpu]')"
        )
    return jaxmg.potrs


class _OnGPUs(AtTheEnd):
    def __init__(
        self, method: MultiGPU, system: System, limit: int, found: list[jax.Device], potrs: Callable[..., Any]
    ) -> None:
        super().__init__(system, method.tolerance, limit)
        self._method, self._gpus, self._potrs = method, found, potrs

    def solved(self, targets: np.ndarray) -> Answer:
        """(Θ + δ)⁻¹ Y by the GPUs."""
        system, tolerance = self.system, self.tolerance
        self._check_room(targets.shape[1])
        smallest, largest = extremes(system, _STEPS)
        check_positive(system, smallest, largest)
        solution, status = self._solved(targets)
        if status or not np.isfinite(solution).all():
            raise lost_in_factor(system, "float64", "breaks down", smallest)
        residual = _residual(system, targets, solution, tolerance, largest)
        notes = (
            f"{len(self._gpus)} GPUs, by jaxmg and cuSOLVERMg; its residual was computed by this machine's processors",
            "the smallest eigenvalue is estimated from inside of the spectrum",
        )
        return Answer(solution, residual, smallest, largest, "float64", notes=notes)

    def _solved(self, targets: np.ndarray) -> tuple[np.ndarray, int]:
        """What `potrs` makes of the rows on all GPUs, and its status, which is 0 where all is well."""
        size, tile = self.system.size, self._method.tile
        filled = _filled(size, len(self._gpus), tile)
        right = np.zeros((filled, targets.shape[1]))
        right[:size] = targets
        mesh = Mesh(np.array(self._gpus), ("gpus",))
        rows = PartitionSpec("gpus", None)
        before = jax.config.read("jax_enable_x64")
        try:
            with jax.enable_x64(True):
                each = filled // len(self._gpus)
                parts = [  # one after another: this machine holds one of them at a time
                    jax.device_put(self._rows(k * each, each, filled), gpu).block_until_ready()
                    for k, gpu in enumerate(self._gpus)
                ]
                spread = NamedSharding(mesh, rows)
                matrix = jax.make_array_from_single_device_arrays((filled, filled), spread, parts)
                columns = jax.device_put(right, NamedSharding(mesh, PartitionSpec(None, None)))
                found, status = self._potrs(matrix, columns, T_A=tile, mesh=mesh, in_specs=(rows,), return_status=True)
                return np.asarray(found, np.float64)[:size], int(status)
        finally:
            jax.config.update("jax_enable_x64", before)  # which jaxmg sets for good

    def _rows(self, first: int, count: int, filled: int) -> np.ndarray:
        """Some rows of Θ + δ with what fills them up: the mean diagonal on the diagonal."""
        system = self.system
        end = min(first + count, system.size)
        part = np.zeros((count, filled))
        if first < end:
            part[: end - first, : system.size] = system.matrix.block(slice(first, end), slice(None))
        at = np.arange(first, first + count)
        part[at - first, at] += np.where(at < system.size, system.delta, abs(system.unit) or 1.0)
        return part

    def _check_room(self, outputs: int) -> None:
        """Raise MemoryLimitError where a GPU says that it has less memory than its part takes."""
        needed = self._method.device_memory(self.system.size, outputs, len(self._gpus))
        for gpu in self._gpus:
            free = (gpu.memory_stats() or {}).get("bytes_limit")
            if free is not None and needed > free:
                raise MemoryLimitError(
                    f"{self.system.size} rows take about {memory_size(needed)} on each of {len(self._gpus)} GPUs, and "
                    f"{gpu} has {memory_size(free)}; take more GPUs, solver='out-of-core' or 'pcg'"
                )


def _residual(system: System, targets: np.ndarray, solution: np.ndarray, tolerance: float, largest: float) -> float:
    """The largest relative residual; EquitangentsError for one that no Cholesky factorisation leaves."""
    residuals = system.left(targets, solution)
    if not are_solved(residuals, targets, solution, tolerance, largest):
        raise EquitangentsError(
            f"what the GPUs returned has a relative residual of {np.max(residuals):.1e}, above {tolerance:g}, and is "
            "not used; take solver='cholesky', 'out-of-core' or 'pcg'"
        )
    return float(np.max(residuals))


def _filled(size: int, count: int, tile: int) -> int:
    """The next size that gives each of `count` GPUs the same number of whole tiles."""
    return -(-size // (count * tile)) * count * tile
