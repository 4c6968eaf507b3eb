"""Layers on steerable features: first layers, equivariant maps, nonlinearities that respect the group, pooling."""

from equitangents.nn.steerable.linear import SteerableConv, SteerableDense
from equitangents.nn.steerable.nonlinearity import FourierNonlinearity, GatedNonlinearity, SteerableNonlinearity
from equitangents.nn.steerable.norm import NormNonlinearity
from equitangents.nn.steerable.points import PlaneImage, PointCloud
from equitangents.nn.steerable.pool import SteerablePool
from equitangents.nn.steerable.readouts import PointFeatures
from equitangents.nn.steerable.whole import FeatureVector, SphereSignal

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
