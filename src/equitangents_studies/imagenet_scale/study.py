"""ResNets and MLP-Mixers on an image folder: errors against training size, images as they are and moved by O(3)^d.

Random rotations of the channels at every position take from a convolutional network what is alike at all positions.
It then has to learn with fewer symmetries in common with the data: the source finds a cusp of the learning curve where
the training set is about as large as the dimension of the group, and another exponent beyond it. Images are read from
files as they are needed; every training keeps checkpoints, and goes on from them with the same numbers.
"""

from __future__ import annotations

import shutil
from functools import partial

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents_studies.data.class_folders import ImageFolder
from equitangents_studies.framework.measured import Part, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Study, Task
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
    part = Part(
        "{network}-{group}-{size}-{run}",
        lambda network, group, size, run: f"{network}, {group}, {size:,} images, run {run + 1}",
        partial(_trained, s, folder, images),
        file=_plain,
    )
    found = measured(folder, part, levels={"network group size": cells, "run": range(s.runs)})
    runs = found.by("network group size", "right", "run image")
    right = {(n, g): np.stack([runs[n, g, size] for size in sizes]) for n in s.networks for g in s.groups}
    permuted = {n: runs[n, PERMUTED, sizes[-1]] for n in s.networks if s.permuted}
    shutil.rmtree(generated, ignore_errors=True)
    name = source if source in ("textures", "cifar10") else images.path.name
    return Results(name, len(images.class_names), sizes, right, permuted, shown)


def _plain(name: str) -> str:
    """Names of groups as parts of a file's name."""
    return "".join(c for c in name if c.isalnum() or c == "-")


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
    folder: RunFolder,
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
    checkpoints = folder.checkpoints(_plain(f"{network}-{group}-{size}-{run}"))
    module = networks.network(network, len(images.class_names), shrink=s.shrink, patch=s.patch)
    state = training.train(module, images.train[order[:size]], tau, recipe, checkpoints, task)
    return {"right": training.right(module, state, images.test, tau, recipe)}


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY,), check_settings)
