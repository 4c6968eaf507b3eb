"""Infinitely wide convolutional networks with augmentation, in closed form."""

from __future__ import annotations

from equitangents_studies.contenders.kernel_machine import KernelMachine
from equitangents_studies.contenders.networks import cnn
from equitangents_studies.contenders.problem import Problem

TITLE = "infinitely wide augmented networks"


def make(problem: Problem) -> KernelMachine:
    """The plain network's architecture; trained on the first `kernel_images` images in all orientations."""
    return KernelMachine(cnn(problem), problem, augmented=True)
