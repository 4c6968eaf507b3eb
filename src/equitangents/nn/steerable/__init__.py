"""Layers on steerable features: first layers, equivariant maps, nonlinearities that respect the group, pooling."""

from equitangents.nn.steerable.inputs import FeatureVector, PlaneImage, PointCloud, SphereSignal
from equitangents.nn.steerable.linear import PointFeatures, SteerableConv, SteerableDense, SteerablePool
from equitangents.nn.steerable.nonlinearity import (
    FourierNonlinearity,
    GatedNonlinearity,
    NormNonlinearity,
    SteerableNonlinearity,
)

__all__ = [
    "FeatureVector",
    "FourierNonlinearity",
    "GatedNonlinearity",
    "NormNonlinearity",
    "PlaneImage",
    "PointCloud",
    "PointFeatures",
    "SphereSignal",
    "SteerableConv",
    "SteerableDense",
    "SteerableNonlinearity",
    "SteerablePool",
]
