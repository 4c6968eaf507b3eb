"""Kernels of networks of finite width, to first order in 1/width: their means and their spread over networks."""

from equitangents.kernels.finite_width.compute import FiniteWidth, finite_width

__all__ = ["FiniteWidth", "finite_width"]
