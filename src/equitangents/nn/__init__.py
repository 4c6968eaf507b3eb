"""Networks: layer specifications with three meanings (finite parameters, finite function, infinite-width kernel)."""

from equitangents.nn.admissible import Admissible, is_admissible
from equitangents.nn.aggregate import Aggregate
from equitangents.nn.attention import Attention
from equitangents.nn.conv import Conv, LocallyConnected
from equitangents.nn.dense import Dense
from equitangents.nn.dropout import Dropout
from equitangents.nn.exponentials import Exp, Exponential, Gaussian, Rbf
from equitangents.nn.group_conv import GroupConv
from equitangents.nn.group_pool import GroupPool
from equitangents.nn.layer import Layer
from equitangents.nn.layer_norm import LayerNorm
from equitangents.nn.lift import Lift
from equitangents.nn.nonlinearities import (
    Abs,
    Cos,
    Elementwise,
    Erf,
    Gelu,
    Heaviside,
    Identity,
    LeakyRelu,
    Nonlinearity,
    Relu,
    Sign,
    Sin,
)
from equitangents.nn.parallel import Concatenate, Parallel, Sum
from equitangents.nn.polynomials import Hermite, Monomial, Polynomial, RectifiedMonomial
from equitangents.nn.pooling import AvgPool, Flatten, GlobalAvgPool, GlobalSumPool, SumPool
from equitangents.nn.readout import Readout
from equitangents.nn.refused import BatchNorm as BatchNorm
from equitangents.nn.refused import MaxPool as MaxPool
from equitangents.nn.residual import Residual
from equitangents.nn.scale import Scale
from equitangents.nn.sequential import Sequential
from equitangents.nn.sphere_lift import SphereLift
from equitangents.nn.steerable import (
    FeatureVector,
    FourierNonlinearity,
    GatedNonlinearity,
    NormNonlinearity,
    PlaneImage,
    PointCloud,
    PointFeatures,
    SphereSignal,
    SteerableConv,
    SteerableDense,
    SteerablePool,
)

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
