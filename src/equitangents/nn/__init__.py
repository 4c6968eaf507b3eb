"""Networks: layer specifications with three meanings (finite parameters, finite function, infinite-width kernel)."""

from equitangents.nn.conv import Conv
from equitangents.nn.dense import Dense
from equitangents.nn.group_conv import GroupConv
from equitangents.nn.group_pool import GroupPool
from equitangents.nn.layer import Layer
from equitangents.nn.lift import Lift
from equitangents.nn.locally_connected import LocallyConnected
from equitangents.nn.nonlinearities import (
    Abs,
    Cos,
    Elementwise,
    Erf,
    Gelu,
    Identity,
    LeakyRelu,
    Nonlinearity,
    Relu,
    Sin,
)
from equitangents.nn.pooling import AvgPool, Flatten, GlobalAvgPool
from equitangents.nn.residual import Residual
from equitangents.nn.sequential import Sequential
from equitangents.nn.sphere_lift import SphereLift
from equitangents.nn.zonal_window import ZonalWindow

__all__ = [
    "Abs",
    "AvgPool",
    "Conv",
    "Cos",
    "Dense",
    "Elementwise",
    "Erf",
    "Flatten",
    "Gelu",
    "GlobalAvgPool",
    "GroupConv",
    "GroupPool",
    "Identity",
    "Layer",
    "LeakyRelu",
    "Lift",
    "LocallyConnected",
    "Nonlinearity",
    "Relu",
    "Residual",
    "Sequential",
    "Sin",
    "SphereLift",
    "ZonalWindow",
]
