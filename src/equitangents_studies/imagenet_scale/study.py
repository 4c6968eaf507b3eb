"""ResNets and MLP-Mixers on an image folder: errors against training size, upright images and images moved by O(3)^d.

Random rotations of the channels at every position destroy what a convolutional network shares between positions. It
then has fewer symmetries in common with the data: the source finds a cusp of the learning curve where the training set
is about as large as the dimension of the group, and another exponent beyond it. Images are read from files when they
are needed; training resumes from checkpoints to the same numbers.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from equitangents.errors import InvalidArgumentError
from equitangents.extending import require
from equitangents.report import Figure, Table, palette
from equitangents.statistics import FEWEST, Estimate, no_interval, shared_level, t_interval
from equitangents_studies import data
from equitangents_studies.common.images import stands_for
from equitangents_studies.common.scores import covered, table_mean
from equitangents_studies.data import open_image_folder
from equitangents_studies.data.class_folders import ImageFolder
from equitangents_studies.data.folder import data_folder
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import SYNERGY_AND_SYMMETRY
from equitangents_studies.framework.claims import Claim, claim, table, theirs
from equitangents_studies.framework.measured import Stages, measured
from equitangents_studies.framework.study import (
    Arrays,
    RunFolder,
    Shown,
    Study,
    Task,
    at_least,
    check,
    check_some,
    presets,
)
from equitangents_studies.systems import fit_power_law, textures, transformation
from equitangents_studies.systems.power_laws import PowerLaw

KNOWN = ("ResNet-18", "ResNet-34", "ResNet-50", "ResNet-101", "Mixer-S", "Mixer-B")
GROUPS = ("I", "O(3)xI", "O(3)^d")
_GENERATED = ("auto", "textures", "cifar10")
_CLASSES, _TINT = 4, 0.2  # of generated textures


@dataclass(frozen=True)
class ScaleSettings:
    """`data` is an image folder (a path; relative ones are also looked for in the data folder), with one folder of JPEG
    or PNG files a class, or "textures" (generated), "cifar10", or "auto": CIFAR-10 where the data folder has it, else
    textures. These two are written out as a folder of `images` files and read like any other. Images are read when
    needed and resized to `pixels` × `pixels`.

    `networks` (widths divided by `shrink`; Mixers with patches of `patch` pixels a side) learn nested sets of
    m·2^(−i/2) images, i = 0 to `halvings` − 1, m being `largest` or the whole training set (0), in `runs` runs. Images
    are moved by a random element of each of `groups`, and for i = 0 also of P(3d) if `permuted`.

    Trained for `epochs`, at least `fewest_steps`, in batches of `batch`; `rate` is the learning rate, `decay` the L2
    penalty; `augment` crops and mirrors training images, before they are moved. Checkpoints are written every `every`
    steps. A folder without test images holds out a share of `test_share`; `test_images` of the test images (0: all) are
    classified.
    """

    data: str = "auto"
    images: int = 3300
    pixels: int = 8
    networks: tuple[str, ...] = ("ResNet-18", "Mixer-S")
    shrink: int = 16
    patch: int = 4
    groups: tuple[str, ...] = ("I", "O(3)^d")
    permuted: bool = True
    halvings: int = 12
    largest: int = 0
    runs: int = 2
    batch: int = 32
    epochs: int = 10
    fewest_steps: int = 80
    rate: float = 0.05
    decay: float = 5e-4
    augment: bool = False
    every: int = 100
    test_share: float = 0.3
    test_images: int = 0
    seed: int = 0


PRESETS = presets(
    ScaleSettings(),
    desk="images=10000 pixels=16 networks=ResNet-18,ResNet-34,Mixer-S shrink=8 batch=64 fewest_steps=200 "
    "test_share=0.2",
    paper="data=imagenet pixels=224 networks=ResNet-34,ResNet-50,ResNet-101,Mixer-B shrink=1 patch=16 runs=3 "
    "batch=1024 epochs=150 fewest_steps=1000 rate=0.4 decay=1e-4 augment=True every=1000 test_share=0.04",
)


def check_settings(settings: ScaleSettings, data_dir: Path | None) -> None:
    """Require Flax, known networks and groups, and enough images for a cusp."""
    s = settings
    require("flax", "studies", "the study imagenet-scale")
    at_least(s, images=20, pixels=2, shrink=1, patch=1, halvings=5, largest=0, runs=1, batch=2, epochs=1, every=1)
    at_least(s, fewest_steps=1, test_images=0)
    check_some("networks", s.networks, KNOWN)
    check(len(s.networks) >= 1, "networks", s.networks, "one network or more")
    check("I" in s.groups and set(s.groups) <= set(GROUPS), "groups", s.groups, f"“I” and of {', '.join(GROUPS)}")
    check(0 < s.test_share < 1, "test_share", s.test_share, "between 0 and 1")
    check(s.rate > 0, "rate", s.rate, "positive")
    check(s.decay >= 0, "decay", s.decay, "0 or positive")
    if any(name.startswith("Mixer") for name in s.networks):
        check(s.pixels % s.patch == 0, "patch", s.patch, f"a divisor of pixels = {s.pixels}")
    name = stands_for(s.data, data_dir)
    if name in _GENERATED:
        count = s.images
        if name == "cifar10":
            most = len(data.load(name, data_dir).train_x)
            check(count <= most, "images", count, f"at most {most:,}, which CIFAR-10 has to train on")
        count -= round(s.test_share * count)
    else:
        path = place(s, data_dir)
        check(path.is_dir(), "data", s.data, "an image folder, “auto”, “textures” or “cifar10”")
        count = len(opened(s, path).train)
    check(s.largest <= count, "largest", s.largest, f"at most {count:,}, which there are to train on")
    least = 2 ** ((s.halvings - 1) / 2) * 2
    check((s.largest or count) >= least, "halvings", s.halvings, f"so few that {s.largest or count:,} images do")


def place(settings: ScaleSettings, data_dir: Path | None) -> Path:
    """Your own image folder, named by `data`."""
    path = Path(settings.data).expanduser()
    inside = data_folder(data_dir)
    if not path.is_dir() and inside is not None and (inside / path).is_dir():
        return inside / path
    return path


def opened(settings: ScaleSettings, folder: Path) -> ImageFolder:
    """The files of an image folder, with at most the requested number of test images."""
    found = open_image_folder(folder, test_fraction=settings.test_share, seed=settings.seed)
    if not 0 < settings.test_images < len(found.test):
        return found
    rows = np.random.default_rng(settings.seed).permutation(len(found.test))[: settings.test_images]
    return ImageFolder(found.path, found.train, found.test[np.sort(rows)], found.class_names)


def write_out(settings: ScaleSettings, data_dir: Path | None, folder: Path) -> None:
    """Generated textures, or images of CIFAR-10, as PNG files below `folder`, one folder a class."""
    from PIL import Image

    s = settings
    if stands_for(s.data, data_dir) == "textures":
        drawn = textures(s.images, (s.pixels, s.pixels, 3), _CLASSES, tint=_TINT, seed=s.seed)
        x, labels = np.clip(128 + 48 * drawn.x, 0, 255), drawn.labels
        names = tuple(f"texture-{k}" for k in range(_CLASSES))
    else:
        source = data.load("cifar10", data_dir)
        rows = np.random.default_rng(s.seed).permutation(len(source.train_x))[: s.images]
        x, labels = 255 * data.resize(source.train_x[rows], (s.pixels, s.pixels)), source.train_y[rows]
        names = source.class_names
    for i, (image, label) in enumerate(zip(np.rint(x).astype(np.uint8), labels.tolist(), strict=True)):
        path = folder / names[label] / f"{i:06d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)


def sizes_of(settings: ScaleSettings, count: int) -> tuple[int, ...]:
    """m·2^(−i/2), increasing, of a training set of `count` images."""
    m = settings.largest or count
    return tuple(sorted({round(m * 2 ** (-i / 2)) for i in range(settings.halvings)}))


PERMUTED = "P(3d)"
_GROUPED = 300  # images from which on they are resampled in as many groups
Key = tuple[str, str]
"""(network, group that moved the images)"""


@dataclass(frozen=True, eq=False)
class ScaleResults:
    """`right[network, group]` (sizes, runs, test images), which test images are classified correctly, and
    `permuted[network]` (runs, test images) with all coordinates permuted and the largest training set; `sizes` of
    training sets.
    """

    sizes: tuple[int, ...]
    right: dict[Key, np.ndarray]
    permuted: dict[str, np.ndarray]

    @property
    def test_images(self) -> int:
        """Number of test images."""
        return int(next(iter(self.right.values())).shape[2])

    def errors(self, key: Key) -> np.ndarray:
        """Classification errors (sizes, runs); 0 errors count as half an image."""
        return np.maximum(1 - self.right[key].mean(axis=2), 0.5 / self.test_images)

    @cached_property
    def laws(self) -> dict[Key, PowerLaw]:
        """For every network and group two power laws joined at a cusp."""
        return {key: fit_power_law(self.sizes, _of(self.errors(key)), 2) for key in self.right}

    def lost(self, network: str, group: str, level: float = 0.95) -> Estimate:
        """Accuracy on upright minus moved images, largest training set, percentage points."""
        clean, moved = self.right[network, "I"][-1], self.right[network, group][-1]
        return mean_over_images(100.0 * clean - 100.0 * moved, (-100, 100), level)


def mean_over_images(table: np.ndarray, bounds: tuple[float, float], level: float = 0.95) -> Estimate:
    """Mean of a table (runs, images); for many images the interval is over means of random groups of images."""
    count = table.shape[1]
    if count <= _GROUPED:
        return table_mean(table, bounds, level)
    order = np.random.default_rng(0).permutation(count)
    groups = np.stack([table[:, rows].mean(axis=1) for rows in np.array_split(order, _GROUPED)], axis=1)
    found = table_mean(groups, bounds, level)
    return Estimate(float(table.mean()), found.low, found.high, level)


def _of(errors: np.ndarray) -> np.ndarray:
    """A single repetition as a vector: errors are then estimated from the scatter about the fit."""
    return errors[:, 0] if errors.shape[1] == 1 else errors


def measure(settings: ScaleSettings, folder: RunFolder) -> ScaleResults:
    """One stage for every training: network, group, size and run."""
    s, source = settings, stands_for(settings.data, folder.data_dir)
    generated = folder.checkpoints("images")
    if source in ("textures", "cifar10"):
        write_out(s, folder.data_dir, generated)
        images = opened(s, generated)
    else:
        images = opened(s, place(s, folder.data_dir))
    _check_files(images, folder)
    sizes = sizes_of(s, len(images.train))

    cells = [(n, g, size) for n in s.networks for g in s.groups for size in sizes]
    cells += [(n, PERMUTED, sizes[-1]) for n in s.networks if s.permuted]
    part = Stages(
        "{network}-{group}-{size}-{run}",
        lambda network, group, size, run: f"{network}, {group}, {size:,} images, run {run + 1}",
        partial(_trained, s, folder, images),
    )
    found = measured(folder, part, levels={"network group size": cells, "run": range(s.runs)})
    runs = found.by("network group size", "right", "run image")
    right = {(n, g): np.stack([runs[n, g, size] for size in sizes]) for n in s.networks for g in s.groups}
    permuted = {n: runs[n, PERMUTED, sizes[-1]] for n in s.networks if s.permuted}
    shutil.rmtree(generated, ignore_errors=True)
    return ScaleResults(sizes, right, permuted)


def _check_files(images: ImageFolder, folder: RunFolder) -> None:
    """Raise InvalidArgumentError if a resumed run finds other files."""
    found = folder.stage("files", "Listing of the images", lambda task: {"digest": np.array(images.digest)})
    if str(found["digest"]) != images.digest:
        raise InvalidArgumentError("data", str(images.path), "the files that the run began with", "start the run again")


def _trained(
    s: ScaleSettings,
    folder: RunFolder,
    images: ImageFolder,
    network: str,
    group: str,
    size: int,
    run: int,
    task: Task,
) -> Arrays:
    """Whether each test image is classified correctly after training on `size` images; every run draws its own τ."""
    from equitangents_studies.imagenet_scale import training  # which needs Flax

    recipe = training.NetworkRecipe(
        pixels=s.pixels, batch=s.batch, steps=max(s.fewest_steps, -(-s.epochs * size // s.batch)), rate=s.rate,
        decay=s.decay, augment=s.augment, every=s.every, seed=s.seed + run,
    )  # fmt: skip
    order = np.random.default_rng([s.seed, run]).permutation(len(images.train))  # the same for all sizes: nested
    tau = transformation(group, (s.pixels, s.pixels, 3), seed=s.seed + run)
    checkpoints = folder.checkpoints(f"{network}-{group}-{size}-{run}")
    module = training.network(network, len(images.class_names), shrink=s.shrink, patch=s.patch)
    state = training.train(module, images.train[order[:size]], tau, recipe, checkpoints, task)
    return {"right": training.right(module, state, images.test, tau, recipe)}


def dimension(settings: ScaleSettings, key: Key) -> int:
    """The dimension of the spurious group that sets the cusp: O(3)^d of rotated images, O(3p²) of a Mixer’s patches."""
    if key[1] == "O(3)^d":
        return 3 * settings.pixels**2
    size = 3 * settings.patch**2
    return size * (size - 1) // 2


CUSPS = "near 2·10⁵ images of ImageNet, for all but ResNet-101 on upright images"  # in the source


def claims(settings: ScaleSettings, results: ScaleResults) -> Sequence[Claim]:
    """Accuracy lost to rotations, and growth of exponents."""
    found = []
    if "O(3)^d" in settings.groups:
        level = shared_level(len(settings.networks))
        found.append(
            claim(
                "Rotations of the channels at every position lower the accuracy of every network",
                {n: results.lost(n, "O(3)^d", level) for n in settings.networks},
                measure=f"Accuracy on upright minus that on rotated images, {results.sizes[-1]:,} training images.",
                covers=covered(settings.runs, "runs"),
                at_least=0,
                unit="percentage points",
                by=theirs(SYNERGY_AND_SYMMETRY, "Figure 5, right", "about 10 (ResNet-18) to 6 (ResNet-200)"),
            )
        )
    found.append(
        claim(
            "Exponents grow at a cusp",
            {f"{n}, {g}": law.grows.difference for (n, g), law in results.laws.items()},
            measure="Exponent beyond the cusp minus that before it, of the share of wrong classes.",
            covers="scatter of the sizes about the fit" if settings.runs == 1 else "runs, and scatter about the fit",
            at_least=0,
            by=theirs(SYNERGY_AND_SYMMETRY, "Figure 5", CUSPS),
        )
    )
    return found


_COLOURS = {
    "ResNet-18": palette.BLUE, "ResNet-34": palette.GREEN, "ResNet-50": palette.PURPLE, "ResNet-101": palette.INK,
    "Mixer-S": palette.VERMILLION, "Mixer-B": palette.ORANGE,
}  # fmt: skip
_TITLES = {
    "I": "upright images",
    "O(3)xI": "one rotation of the channels",
    "O(3)^d": "channels rotated at every position",
}


def present(settings: ScaleSettings, results: ScaleResults, folder: RunFolder) -> list[Shown]:
    """Learning curves, their power laws, and accuracies with permuted coordinates."""
    permuted = [_permuted_page(results)] if results.permuted else []
    return [_curves(settings, results, folder), _laws(results), *permuted]


def _curves(settings: ScaleSettings, results: ScaleResults, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "curves",
        titles=[_TITLES[g] for g in settings.groups],
        xlabel="training images",
        ylabel="share of wrong classes",
        sharey=True,
        caption="Errors on images not trained on: dots, means over runs (with 95 % intervals from 5 runs on); lines, "
        "two power laws joined at a cusp. Dotted: the dimension of O(3)^d; dashed: that of the rotations of patches.",
        alt="Share of wrong classes against training images",
    ) as drawn:
        for axes, group in zip(drawn, settings.groups, strict=True):
            for network in settings.networks:
                colour = _COLOURS[network].light
                rows = results.errors((network, group))
                several = settings.runs >= FEWEST
                means = [t_interval(row, bounds=(0, 1)) if several else no_interval(row.mean()) for row in rows]
                drawing.estimates(axes, results.sizes, means, colour, label=network, fmt="o")
                fine = np.geomspace(results.sizes[0], results.sizes[-1], 60)
                axes.plot(fine, results.laws[network, group].curve(fine), color=colour, lw=1)
            if group == "O(3)^d":
                axes.axvline(dimension(settings, ("ResNet", group)), color=palette.MUTED.light, lw=0.8, ls=":")
            if group == "I" and any(n.startswith("Mixer") for n in settings.networks):
                axes.axvline(dimension(settings, ("Mixer", group)), color=palette.MUTED.light, lw=0.8, ls="--")
            drawing.logarithmic(axes, "both", results.sizes[:: max(1, len(results.sizes) // 4)])
    return drawn.figure


def _laws(results: ScaleResults) -> Table:
    rows = [
        [", ".join(key), *law.exponents, law.cusp, law.grows.difference, law.grows.verdict]
        for key, law in results.laws.items()
    ]
    header = ["", "exponent before", "beyond", "cusp", "growth", "does it grow?"]
    return table("Fitted power laws; in brackets 95 % intervals.", header, rows)


def _permuted_page(results: ScaleResults) -> Table:
    rows = [[n, mean_over_images(100.0 * right, (0, 100))] for n, right in results.permuted.items()]
    return table("Accuracy in per cent; in brackets 95 % intervals.", ["", PERMUTED], rows)


STUDY = Study(PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY,), check_settings)
