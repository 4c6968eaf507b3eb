"""Layers on steerable features: points, equivariant convolutions, nonlinearities that respect the group, pooling."""

from equitangents.nn.steerable.linear import SteerableConv, SteerableDense
from equitangents.nn.steerable.nonlinearity import FourierNonlinearity, GatedNonlinearity, SteerableNonlinearity
from equitangents.nn.steerable.norm import NormNonlinearity
from equitangents.nn.steerable.points import PlaneImage, PointCloud
from equitangents.nn.steerable.pool import SteerablePool

__all__ = [
    "FourierNonlinearity",
    "GatedNonlinearity",
    "NormNonlinearity",
    "PlaneImage",
    "PointCloud",
    "SteerableConv",
    "SteerableDense",
    "SteerableNonlinearity",
    "SteerablePool",
]
