"""How many relative rotations, and points of the sphere at each of them, a program runs at, by its resolution."""

from __future__ import annotations

from equitangents.kernels.rotations.program import RotationProgram


def nodes(program: RotationProgram, resolution: int) -> int:
    """Relative rotations at which the recursion runs."""
    if program.readout == "flatten":
        return 1
    if not resolution:
        return program.group.order
    return resolution * (2 * resolution - 1) ** 2 * (2 if getattr(program.group, "reflections", False) else 1)


def field_points(program: RotationProgram, resolution: int) -> int:
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
