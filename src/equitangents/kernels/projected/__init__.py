"""Kernels of outputs that turn with the input: kernels of numbers, projected onto a representation."""

from equitangents.kernels.projected.program import PositionMoves, ProjectedProgram, RotationMoves

__all__ = ["PositionMoves", "ProjectedProgram", "RotationMoves"]
