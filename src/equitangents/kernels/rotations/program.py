"""Programs of networks on rotation groups.

Lifted to rotations R, R', the kernel of two signals on the sphere depends on the relative rotation Q = R'R⁻¹ and, under
windows narrower than the sphere, on the point y = Rn to which R takes the pole n: a field on the sphere for each Q.
Averages over windows keep Q, nonlinearities act at each (Q, y), pooling averages over all. Source: arXiv 2406.06504.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from equitangents.errors import NetworkError
from equitangents.groups import MatrixGroup
from equitangents.groups.rotation_group import RotationGroup
from equitangents.kernels.operation import FrozenArray, HashedOnce, Operation
from equitangents.kernels.operations import Affine, Dual, Flatten
from equitangents.kernels.program import Op, Parallel, Program


@dataclass(frozen=True)
class Zonal(Operation):
    """Mean over a zonal window: multiplies degree l of a field on the sphere by coefficients[l]; just 1 is the mean."""

    is_window: ClassVar[bool] = True
    coefficients: FrozenArray  # float64 (degrees,), the first of them 1

    @property
    def is_total(self) -> bool:
        """Whether only the mean over the sphere is left."""
        return self.coefficients.array.size == 1


FULL = Zonal(FrozenArray(np.ones(1)))


@dataclass(frozen=True)
class HaarMean(Operation):
    """Average over the group: the mean over all relative rotations Q and all points y."""

    is_pool: ClassVar[bool] = True


@dataclass(frozen=True)
class Accuracy:
    """Sampling of integrals over rotations: to an error of `tolerance`, or at `resolution` if it is set."""

    tolerance: float
    resolution: int | None = None


SphereOp = Zonal | Affine | Dual
RotationOp = Op | Zonal | HaarMean


@dataclass(frozen=True)
class Sphere:
    """The space of signals of `bandlimit` on the sphere, lifted to a group of rotations, and the accuracy wanted.

    Its programs begin with operations on the sphere, up to a mean over it if there is one; then come those on
    rotations, one `HaarMean` or `Flatten`, and those on vectors.
    """

    on_rotations: ClassVar[bool] = True
    bandlimit: int
    group: RotationGroup | MatrixGroup
    accuracy: Accuracy

    def program(self, shape: tuple[int, ...], ops: tuple[Any, ...]) -> Program[Sphere]:
        """The program of the lowered layers `ops`; raises NetworkError for those without a rule on rotations."""
        end = next((i for i, op in enumerate(ops) if op.is_pool), len(ops))
        if end == len(ops):
            raise NetworkError(
                "the network ends on rotations, so its kernel is a field; end it with GroupPool or Flatten"
            )
        if any(op.has_rates for op in ops):
            raise NetworkError("after a SphereLift layers have the NTK parametrisation alone")
        before, readout, after = ops[:end], ops[end], ops[end + 1 :]
        full = next(i for i, op in enumerate((*before, FULL)) if op.is_total)
        sphere: tuple[Any, ...]
        if full == 0:
            sphere, field = (), before
        elif full < end:
            sphere, field = before[: full + 1], before[full + 1 :]
        else:
            sphere, field = before, ()
        if readout.positions_after(1) != 1:
            raise NetworkError("pooling over a subgroup of the rotations has no kernel here; use GroupPool()")
        # Behind a full window K depends on Q alone, which right translations keep: further windows change nothing.
        found = (
            *_checked(sphere, (Zonal, Affine, Dual)),
            *_checked(_without_windows(field), (Affine, Dual, Parallel)),
            Flatten() if readout.is_diagonal else HaarMean(),
            *_checked(_without_windows(after), (Affine, Dual, Parallel)),
        )
        return Program(self, found)


@dataclass(frozen=True)
class RotationSections(HashedOnce):
    """A program on the sphere as it runs: `sphere` on fields over the sphere, for each relative rotation Q; `field` at
    each Q alone; `vector` after the readout.

    `sphere` is empty or ends with a mean over the sphere, unless the readout takes that mean.
    """

    bandlimit: int
    group: RotationGroup | MatrixGroup
    sphere: tuple[SphereOp, ...]
    field: tuple[Op, ...]
    readout: Literal["pool", "flatten"]
    vector: tuple[Op, ...]
    accuracy: Accuracy

    __hash__ = HashedOnce.__hash__

    @property
    def is_sampled(self) -> bool:
        """Whether anything is left to a quadrature that is not exact."""
        sampled = self.readout == "pool" and isinstance(self.group, RotationGroup)
        return sampled or any(op.nonlinearity is not None for op in self.sphere)


@lru_cache(maxsize=256)
def sections(program: Program[Sphere]) -> RotationSections:
    """The three parts of a program on the sphere."""
    space, ops = program.space, program.ops
    end = next(i for i, op in enumerate(ops) if op.is_pool)
    windows = [i for i, op in enumerate(ops[:end]) if op.is_window]
    start = next((i + 1 for i in windows if ops[i].is_total), end if windows else 0)
    return RotationSections(
        bandlimit=space.bandlimit,
        group=space.group,
        sphere=ops[:start],
        field=ops[start:end],
        readout="flatten" if ops[end].is_diagonal else "pool",
        vector=ops[end + 1 :],
        accuracy=space.accuracy,
    )


def _without_windows(ops: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(op.with_held(_without_windows) for op in ops if not (op.is_window or op.is_pool))


def _checked(ops: tuple[Any, ...], known: tuple[type, ...]) -> tuple[Any, ...]:
    for op in ops:
        if not isinstance(op, known):
            raise NetworkError(
                "operation", type(op), "one with a rule on rotations with windows narrower than the sphere", verb="is"
            )
    return ops


def nodes(program: RotationSections, resolution: int) -> int:
    """Relative rotations at which the recursion runs."""
    if program.readout == "flatten":
        return 1
    if not resolution:
        return program.group.order
    return resolution * (2 * resolution - 1) ** 2 * (2 if getattr(program.group, "reflections", False) else 1)


def field_points(program: RotationSections, resolution: int) -> int:
    """Points of the sphere that a field has at each of them."""
    if not program.sphere:
        return 1
    s = sphere_resolution(program.bandlimit, resolution)
    return s * (2 * s - 1)


def sphere_resolution(bandlimit: int, resolution: int) -> int:
    """Degrees that the sphere's grid resolves: a product of signals at least, and more at every finer resolution.

    Else two resolutions would share a grid on the sphere, and their difference would not show its error.
    """
    return 2 * bandlimit - 1 + max(0, resolution - (bandlimit + 1) // 2)
