"""Learned canonicalisation: a small network turns the image, a plain one classifies it; both are trained together."""

from __future__ import annotations

from equitangents import nn
from equitangents_studies.contenders.canonical import Canonicalised
from equitangents_studies.contenders.networks import B_STD, W_STD, cnn
from equitangents_studies.contenders.problem import Problem
from equitangents_studies.contenders.trained import TrainedNetworks

TITLE = "learned canonicalisation"
_CHANNELS = 4


def make(problem: Problem) -> TrainedNetworks:
    """The scorer: patches of 2×2, ReLU, a dense layer with one output. The images are not moved in training."""
    scorer = nn.Sequential(
        nn.Conv(_CHANNELS, (2, 2), stride=2, padding="zero", W_std=W_STD, b_std=B_STD),
        nn.Relu(),
        nn.Flatten(),
        nn.Dense(1, W_std=1.0),
    )
    return TrainedNetworks(Canonicalised(problem.group, scorer, cnn(problem)), problem)
