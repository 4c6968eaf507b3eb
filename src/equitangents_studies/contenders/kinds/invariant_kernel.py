"""The kernel of infinitely wide group-convolutional networks: Lift, GroupConv and GroupPool over a wallpaper group."""

from __future__ import annotations

from equitangents import nn
from equitangents.groups import WallpaperGroup
from equitangents_studies.contenders.kernel_machine import KernelMachine
from equitangents_studies.contenders.networks import B_STD, W_STD
from equitangents_studies.contenders.problem import Problem

TITLE = "invariant kernel"
_SIDE = 7  # images are averaged over blocks down to about this size, since the cost grows as its fourth power
_POINT_GROUPS = {"C2": (2, False), "C4": (4, False), "D4": (4, True)}


def unavailable(problem: Problem) -> str:
    """Why not: grids of pixels have quarter turns at most."""
    if problem.group in _POINT_GROUPS:
        return ""
    return f"a grid of pixels has no group-convolutional kernel for {problem.group}; it has for C2, C4 and D4"


def make(problem: Problem) -> KernelMachine:
    """Trained on the first `kernel_images` images, averaged over blocks of pixels."""
    height, width, _ = problem.shape
    block = max(
        b for b in range(1, height + 1) if height % b == 0 and width % b == 0 and height // b >= min(_SIDE, height)
    )
    group = WallpaperGroup(*_POINT_GROUPS[problem.group], (height // block, width // block))
    net = nn.Sequential(
        *([nn.AvgPool(block)] if block > 1 else []),
        nn.Lift(group, 1, (3, 3), W_std=W_STD, b_std=B_STD),
        nn.Relu(),
        nn.GroupConv(1, (3, 3), W_std=W_STD, b_std=B_STD),
        nn.Relu(),
        nn.GroupPool(),
        nn.Dense(problem.classes),
    )
    return KernelMachine(net, problem, augmented=False)
