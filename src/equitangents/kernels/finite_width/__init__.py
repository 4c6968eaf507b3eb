"""Kernels of networks of finite width, to first order in 1/width: means and standard deviations over networks."""

from equitangents.kernels.finite_width.first_order import FiniteWidth, finite_width

__all__ = ["FiniteWidth", "finite_width"]
