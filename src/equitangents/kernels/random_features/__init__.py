"""Random features of the kernels of infinitely wide networks: linear in the number of inputs."""

from equitangents.kernels.random_features.features import RandomFeatures, random_features

__all__ = ["RandomFeatures", "random_features"]
