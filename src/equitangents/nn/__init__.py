"""Networks: layer specifications with three meanings (parameters, finite-width function, infinite-width kernel)."""

from equitangents.nn.admissible import Admissible, is_admissible
from equitangents.nn.attention import Aggregate, Attention
from equitangents.nn.branches import Concatenate, Parallel, Residual, Sum
from equitangents.nn.conv import Conv, Dense, Flatten, LocallyConnected
from equitangents.nn.group_conv import GroupConv, Lift
from equitangents.nn.layer import Layer, Nonlinearity
from equitangents.nn.nonlinearities import (
    Abs,
    Cos,
    Elementwise,
    Erf,
    Exp,
    Exponential,
    Gaussian,
    Gelu,
    Heaviside,
    Hermite,
    Identity,
    LeakyRelu,
    Monomial,
    Polynomial,
    Rbf,
    RectifiedMonomial,
    Relu,
    Sign,
    Sin,
)
from equitangents.nn.pooling import AvgPool, GlobalAvgPool, GlobalSumPool, GroupPool, SumPool
from equitangents.nn.readout import Readout
from equitangents.nn.rescaling import Dropout, LayerNorm, Scale
from equitangents.nn.sequential import Sequential
from equitangents.nn.sphere_lift import SphereLift
from equitangents.nn.steerable.inputs import FeatureVector, PlaneImage, PointCloud, SphereSignal
from equitangents.nn.steerable.linear import PointFeatures, SteerableConv, SteerableDense, SteerablePool
from equitangents.nn.steerable.nonlinearity import FourierNonlinearity, GatedNonlinearity, NormNonlinearity

__all__ = [
    "Abs",
    "Admissible",
    "Aggregate",
    "Attention",
    "AvgPool",
    "Concatenate",
    "Conv",
    "Cos",
    "Dense",
    "Dropout",
    "Elementwise",
    "Erf",
    "Exp",
    "Exponential",
    "FeatureVector",
    "Flatten",
    "FourierNonlinearity",
    "GatedNonlinearity",
    "Gaussian",
    "Gelu",
    "GlobalAvgPool",
    "GlobalSumPool",
    "GroupConv",
    "GroupPool",
    "Heaviside",
    "Hermite",
    "Identity",
    "Layer",
    "LayerNorm",
    "LeakyRelu",
    "Lift",
    "LocallyConnected",
    "Monomial",
    "Nonlinearity",
    "NormNonlinearity",
    "Parallel",
    "PlaneImage",
    "PointCloud",
    "PointFeatures",
    "Polynomial",
    "Rbf",
    "Readout",
    "RectifiedMonomial",
    "Relu",
    "Residual",
    "Scale",
    "Sequential",
    "Sign",
    "Sin",
    "SphereLift",
    "SphereSignal",
    "SteerableConv",
    "SteerableDense",
    "SteerablePool",
    "Sum",
    "SumPool",
    "is_admissible",
]
