"""Random features of the kernels of infinitely wide networks: linear in the number of inputs."""

from equitangents.kernels.random_features.features import FeatureMap, RandomFeatures, random_features

__all__ = ["FeatureMap", "RandomFeatures", "random_features"]
