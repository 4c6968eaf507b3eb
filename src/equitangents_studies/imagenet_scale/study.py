"""ResNets and MLP-Mixers on an image folder: errors against training size, images as they are and moved by O(3)^d.

Random rotations of the channels at every position take from a convolutional network what is alike at all positions.
It then has to learn with fewer symmetries in common with the data: the source finds a cusp of the learning curve where
the training set is about as large as the dimension of the group, and another exponent beyond it. Images are read from
files as they are needed; every training keeps checkpoints, and goes on from them with the same numbers.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents_studies.data.class_folders import ImageFolder
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task
from equitangents_studies.framework.works import SYNERGY_AND_SYMMETRY
from equitangents_studies.imagenet_scale.claims import claims
from equitangents_studies.imagenet_scale.settings import (
    PERMUTED,
    PRESETS,
    Results,
    Settings,
    check_settings,
    opened,
    place,
    sizes_of,
    source_of,
    write_out,
)
from equitangents_studies.systems import transformation

_SHOWN = 3  # images on the page


def measure(settings: Settings, folder: RunFolder) -> Results:
    """One stage for every training: network, group, size and run."""
    s, source = settings, source_of(settings, folder.data_dir)
    generated = folder.checkpoints("images")
    if source in ("textures", "cifar10"):
        write_out(s, folder.data_dir, generated)
        images = opened(s, generated)
    else:
        images = opened(s, place(s, folder.data_dir))
    shown = _first_images(s, images, folder)
    sizes = sizes_of(s, len(images.train))

    cells = [(n, g, size) for n in s.networks for g in s.groups for size in sizes]
    cells += [(n, PERMUTED, sizes[-1]) for n in s.networks if s.permuted]
    work: dict[Any, Stage] = {}
    for network, group, size in cells:
        for run in range(s.runs):
            name, title = (
                f"{network}-{_plain(group)}-{size}-{run}",
                f"{network}, {group}, {size:,} images, run {run + 1}",
            )
            kept = folder.checkpoints(name)
            work[network, group, size, run] = Stage(
                name, title, partial(_trained, s, kept, images, network, group, size, run)
            )
    found = folder.stages(work)
    of = lambda *cell: np.stack([found[*cell, run]["right"] for run in range(s.runs)])
    right = {(n, g): np.stack([of(n, g, size) for size in sizes]) for n in s.networks for g in s.groups}
    permuted = {n: of(n, PERMUTED, sizes[-1]) for n in s.networks if s.permuted}
    shutil.rmtree(generated, ignore_errors=True)
    name = source if source in ("textures", "cifar10") else images.path.name
    return Results(name, len(images.class_names), sizes, right, permuted, shown)


def _plain(group: str) -> str:
    """A group's name as part of a file's."""
    return "".join(c for c in group if c.isalnum())


def _first_images(s: Settings, images: ImageFolder, folder: RunFolder) -> np.ndarray:
    """A few test images; raises where a resumed run finds other files than it began with."""

    def compute(task: Task) -> Arrays:
        first = [int(np.argmax(images.test.labels == label)) for label in np.unique(images.test.labels)[:_SHOWN]]
        return {"digest": np.array(images.digest), "shown": images.test.read(np.array(first), s.pixels)}

    found = folder.stage("files", "Listing of the images", compute)
    if str(found["digest"]) != images.digest:
        raise InvalidArgumentError(f"the files in {images.path} are not those that this run began with; start it anew")
    return found["shown"]


def _trained(
    s: Settings,
    checkpoints: Path,
    images: ImageFolder,
    network: str,
    group: str,
    size: int,
    run: int,
    task: Task,
) -> Arrays:
    """Which test images a network classifies rightly after training on `size` images; τ is drawn anew in every run."""
    from equitangents_studies.imagenet_scale import networks, training  # which need Flax

    recipe = training.Recipe(
        pixels=s.pixels, batch=s.batch, steps=max(s.fewest_steps, -(-s.epochs * size // s.batch)), rate=s.rate,
        decay=s.decay, augment=s.augment, every=s.every, seed=s.seed + run,
    )  # fmt: skip
    order = np.random.default_rng([s.seed, run]).permutation(len(images.train))  # the same for all sizes: nested
    tau = transformation(group, (s.pixels, s.pixels, 3), seed=s.seed + run)
    module = networks.network(network, len(images.class_names), shrink=s.shrink, patch=s.patch)
    state = training.train(module, images.train[order[:size]], tau, recipe, checkpoints, task)
    return {"right": training.right(module, state, images.test, tau, recipe)}


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY,), check_settings)
