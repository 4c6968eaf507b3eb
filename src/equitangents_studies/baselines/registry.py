"""Baselines by name: those of the package, and "module:Name" for your own.

To add one to the package, add an entry to `KINDS`, which makes it from a `BaselineProblem`.
"""

from __future__ import annotations

import os
import pkgutil
import sys

from equitangents import nn
from equitangents.errors import InvalidArgumentError
from equitangents.groups import WallpaperGroup
from equitangents_studies.baselines.baseline import BaselineProblem, Entry
from equitangents_studies.baselines.networks import (
    B_STD,
    W_STD,
    AveragedBaseline,
    Canonicalised,
    KernelMachine,
    TrainedNetworks,
    cnn,
    count_parameters,
)
from equitangents_studies.baselines.rotated_filters import RotatedFilters, rotated_filters

_SCORER_CHANNELS = 4
_SIDE = 7  # images are averaged over blocks down to about this size, since the cost grows as its fourth power
_POINT_GROUPS = {"C2": (2, False), "C4": (4, False), "D4": (4, True)}


def group_convolutional(problem: BaselineProblem) -> RotatedFilters:
    """A group-convolutional network of about as many parameters as the plain one; C8 and C16 have steerable filters."""
    return rotated_filters(problem, count_parameters(cnn(problem), problem.shape))


def _canonicalised(problem: BaselineProblem) -> Canonicalised:
    """A small network rotates the image, a plain one classifies it; both are trained together.

    The scorer: patches of 2×2, ReLU, a dense layer with one output.
    """
    scorer = nn.Sequential(
        nn.Conv(_SCORER_CHANNELS, (2, 2), stride=2, padding="zero", W_std=W_STD, b_std=B_STD),
        nn.Relu(),
        nn.Flatten(),
        nn.Dense(1, W_std=1.0),
    )
    return Canonicalised(problem.group, scorer, cnn(problem))


def _without_grid(problem: BaselineProblem) -> str:
    """Why the group is unavailable: a grid of pixels allows rotations by 90° only."""
    if problem.group in _POINT_GROUPS:
        return ""
    return f"a grid of pixels has no group-convolutional kernel for {problem.group}; it has for C2, C4 and D4"


def _invariant_kernel(problem: BaselineProblem) -> KernelMachine:
    """The kernel of infinitely wide Lift, GroupConv and GroupPool over a wallpaper group.

    Trained on the first `kernel_images` images, averaged over blocks of pixels.
    """
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


KINDS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        # the reference, trained on upright images: it does not use the group
        Entry("plain", "one plain network", lambda p: TrainedNetworks(cnn(p), p)),
        # every image is moved by a random element whenever it is seen
        Entry("augmented", "one augmented network", lambda p: TrainedNetworks(cnn(p), p, augmented=True)),
        # each member has as many parameters as the single network
        Entry(
            "ensemble",
            "augmented ensemble",
            lambda p: TrainedNetworks(cnn(p), p, members=p.members, augmented=True),
        ),
        # invariance is built in, images are not moved in training
        Entry("gcnn", "group-convolutional network", lambda p: TrainedNetworks(group_convolutional(p), p)),
        # what resampling takes from invariance can be learnt of moved images
        Entry(
            "gcnn-augmented",
            "group-convolutional network, on rotated images",
            lambda p: TrainedNetworks(group_convolutional(p), p, augmented=True),
        ),
        Entry(
            "gcnn-ensemble",
            "group-convolutional ensemble",
            lambda p: TrainedNetworks(group_convolutional(p), p, members=p.group_members),
        ),
        Entry("canonicalisation", "learned canonicalisation", lambda p: TrainedNetworks(_canonicalised(p), p)),
        Entry(
            "canonicalisation-augmented",
            "learned canonicalisation, on rotated images",
            lambda p: TrainedNetworks(_canonicalised(p), p, augmented=True),
        ),
        # f̄(x) = (1/|G|) Σ_g f(ρ(g)x), f one augmented network
        Entry(
            "test-time",
            "orbit average at test time",
            lambda p: AveragedBaseline(TrainedNetworks(cnn(p), p, augmented=True), p),
        ),
        # the plain network's architecture in closed form, on the first `kernel_images` images in all orientations
        Entry("infinite", "infinitely wide augmented networks", lambda p: KernelMachine(cnn(p), p, augmented=True)),
        Entry("invariant-kernel", "invariant kernel", _invariant_kernel, _without_grid),
    )
}


def names() -> tuple[str, ...]:
    """Names of the baselines that come with the package."""
    return tuple(KINDS)


def find(name: str) -> Entry:
    """The baseline called `name`, or `Name` of an importable module for "module:Name".

    Raises InvalidArgumentError that names the part that cannot be found.
    """
    if name in KINDS:
        return KINDS[name]
    if ":" not in name:
        raise InvalidArgumentError("baseline", name, [*names(), "your own as module:Name"])
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgumentError("baseline", name, "module:Name that can be imported", str(error)) from error
    if not callable(found):
        raise InvalidArgumentError("baseline", name, "a class or function that makes one")
    return Entry(name, name.partition(":")[2], found)
