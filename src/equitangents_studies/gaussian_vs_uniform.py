"""Networks whose first layer is drawn from a Gaussian or a uniform law of the same variance.

The law of Gaussian weights is invariant under rotations of what the layer sees, that of uniform ones only under
permutations: FCN with uniform weights is symmetric under P(3d) but not under O(3d). The deviation has a closed form: a
response h = (σ_w/√n) Σ w_i x_i + σ_b b of the first layer to n coordinates has the excess kurtosis

    κ(x) = −(6/5) σ_w⁴ Σ x_i⁴ / n² / (σ_w² Σ x_i² / n + σ_b²)²,

where −6/5 is that of a uniform weight. Rotations change κ, permutations do not; both values are of order 1/n. We
measure accuracies on images moved by either group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from equitangents import nn
from equitangents.report import palette
from equitangents.statistics import Estimate, exactly, t_interval
from equitangents_studies.common.system_runs import SystemSettings, asked_images
from equitangents_studies.data import Dataset
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.framework.claims import Claim, Records, claim, exact, identity, proved, theirs, to_rounding
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
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
from equitangents_studies.systems import (
    ARCHITECTURES,
    System,
    UniformFirst,
    algorithmic_symmetry,
    architecture,
    inference,
    rotate,
)
from equitangents_studies.systems.architectures import B_STD, W_STD

LAWS = ("gaussian", "uniform")
GROUPS = ("I", "P(3d)", "O(3d)")
FIGURE = "Figure S5"
MARGIN = 2.0
LEAST = 1e-9  # a change of κ above rounding
COUPLED = (("gaussian", "P(3d)"), ("gaussian", "O(3d)"), ("uniform", "P(3d)"))


@dataclass(frozen=True)
class UniformSettings(SystemSettings):
    """`networks` of `depth` hidden layers, FCN of `width` and others of `channels` channels, trained by NN+ on
    `train_images` of `pixels` × `pixels` for at most `epochs`, `members` networks for each law and group; `test_images`
    are classified. Coupled networks are FCN of `narrow` channels.
    """

    networks: tuple[str, ...] = ("FCN", "VEC")
    depth: int = 2
    width: int = 64
    channels: int = 4
    members: int = 8
    epochs: int = 60
    narrow: int = 4


PRESETS = presets(
    UniformSettings(),
    desk="networks=FCN train_images=2000 test_images=1000 pixels=16 depth=3 width=256 members=10",
    desk_others="desk networks=LCN,VEC,GAP pixels=8 channels=16",
    paper="data=cifar10 networks=FCN,LCN,VEC,GAP train_images=45000 test_images=10000 pixels=32 depth=8 width=1024 "
    "channels=128 members=5 epochs=900",
)


class UniformResults(Results):
    """Test accuracies; largest differences of coupled networks; κ of uniform weights on moved images, by image side."""

    scores: Keyed[np.ndarray] = by("network first_layer group", "member")
    equal: Keyed[float] = by("coupled")
    kurtosis: Keyed[np.ndarray] = by("pixels", "group image")


def check_settings(settings: UniformSettings, data_dir: Path | None) -> None:
    """Require enough members for an interval and enough samples for a p-value below the level."""
    at_least(settings, train_images=20, test_images=2, pixels=2, depth=1, width=1, epochs=1, narrow=1, channels=1)
    check_some("networks", settings.networks, ARCHITECTURES)
    check(len(settings.networks) >= 1, "networks", settings.networks, "one network or more")
    check(settings.members >= 5, "members", settings.members, "at least 5, for an interval")
    asked_images(settings, data_dir)


def measure(settings: UniformSettings, folder: RunFolder) -> UniformResults:
    """Accuracies for each network, law and group, then the tests of symmetry."""
    images = asked_images(settings, folder.data_dir)
    found = measured(
        folder,
        Stages(
            "accuracy-{network}-{first_layer}",
            "{network}, first layer {first_layer}",
            partial(_scores, settings, images),
        ),
        Stages("symmetry", "Coupled networks", partial(_symmetry, settings)),
        Stages("kurtosis", "Laws of the first layer", partial(_kurtosis, settings, folder.data_dir)),
        levels={
            "network": settings.networks,
            "first_layer": LAWS,
            "group": GROUPS,
            "coupled": COUPLED,
            "pixels": sides(settings),
        },
    )
    return UniformResults.read(found)


def sides(settings: UniformSettings) -> list[int]:
    """Image sides at which κ is computed: 1, 2, 4, … and the networks' side."""
    smaller = [2**i for i in range(settings.pixels.bit_length()) if 2**i < settings.pixels]
    return [*smaller, settings.pixels]


def _first_layer(law: str, net: nn.Sequential) -> nn.Sequential | UniformFirst:
    return net if law == "gaussian" else UniformFirst(net)


def _scores(settings: UniformSettings, images: Dataset, name: str, law: str, task: Task) -> Arrays:
    """(groups, members): accuracies on test images, all images moved by one element of each group."""
    width = settings.width if name == "FCN" else settings.channels
    net = _first_layer(law, architecture(name, settings.depth, width))
    learning = inference("NN+", members=settings.members, epochs=settings.epochs)
    scores = []
    for i, group in enumerate(GROUPS):
        fitted = System(group, net, learning, settings.seed).fit(images.train_x, images.train_y)
        scores.append(fitted.member_scores(images.test_x, images.test_y))
        task.step(i + 1, len(GROUPS))
    return {"scores": np.stack(scores)}


def _symmetry(settings: UniformSettings, task: Task) -> Arrays:
    """Differences of coupled networks; small, on generated textures."""
    learning = inference("NN", members=2, epochs=20)
    net = architecture("FCN", 1, settings.narrow)
    system = lambda law: System("I", _first_layer(law, net), learning, settings.seed)
    equal = []
    for i, (law, group) in enumerate(COUPLED):
        equal.append(algorithmic_symmetry(system(law), group, seed=settings.seed).number)
        task.step(i + 1, len(COUPLED))
    return {"equal": np.array(equal)}


def _kurtosis(settings: UniformSettings, data_dir: Path | None, task: Task) -> Arrays:
    """κ (sides, groups, test images) of test images averaged down to every side and moved by every group."""
    found = []
    for i, pixels in enumerate(sides(settings)):
        x = asked_images(replace(settings, pixels=pixels), data_dir).test_x
        found.append([excess_kurtosis(rotate(x, group, seed=settings.seed)) for group in GROUPS])
        task.step(i + 1, len(sides(settings)))
    return {"kurtosis": np.array(found)}


def excess_kurtosis(x: np.ndarray) -> np.ndarray:
    """κ of the first layer's responses to images x (N, …) with uniform weights, (N,); with Gaussian ones it is 0.

    >>> import numpy as np
    >>> excess_kurtosis(np.ones((1, 1, 1, 3))).round(3)
    array([-0.396])
    """
    flat = np.asarray(x, np.float64).reshape(len(x), -1)
    n = flat.shape[1]
    variance = W_STD**2 * (flat**2).sum(axis=1) / n + B_STD**2
    return np.asarray(-1.2 * W_STD**4 * (flat**4).sum(axis=1) / n**2 / variance**2)


def difference(a: np.ndarray, b: np.ndarray) -> Estimate:
    """Mean of a minus mean of b, network by network (equal seeds), in percentage points."""
    return t_interval(100 * (a - b), bounds=(-100, 100))


def moved(results: UniformResults, side: int, group: str) -> float:
    """Mean over test images of the change of κ when the image moves."""
    kurtosis = results.kurtosis[side]
    return float(np.abs(kurtosis[GROUPS.index(group)] - kurtosis[0]).mean())


def claims(settings: UniformSettings, results: UniformResults) -> Sequence[Claim]:
    """Which symmetries remain, in closed form and in coupled networks, and their effect on accuracy."""
    named = lambda law, group: f"{law} first layer, {group}"
    scores = results.scores
    between = Records.over(
        lambda net, group: difference(scores[net, "gaussian", group], scores[net, "uniform", group]),
        lambda net, group: f"{net}, images moved by {group}",
        net=settings.networks,
        group=GROUPS,
    )
    every = lambda law: np.mean([scores[net, law, group] for net in settings.networks for group in GROUPS], axis=0)
    mean = difference(every("gaussian"), every("uniform"))
    count = lambda side: f"{3 * side**2:,} coordinates ({side}×{side} pixels)"
    kappa = {count(side): exactly(moved(results, side, "O(3d)")) for side in results.kurtosis}
    return [
        to_rounding(
            "Coupled networks stay equal under O(3d) with a Gaussian first layer, under P(3d) with either",
            {named(*pair): exactly(value) for pair, value in results.equal.items()},
            measure="Largest difference of trained outputs, relative to the largest, in float64.",
            by=proved(THEIRS, f"Theorem 4.1 and {FIGURE}", "equal"),
        ),
        exact(
            "A uniform first layer is not symmetric under O(3d): a rotation changes the law of its responses",
            kappa,
            measure="Mean change of the excess kurtosis of a response when a test image is rotated, in closed form.",
            at_least=LEAST, by=theirs(THEIRS, FIGURE, "symmetric only under permutations"),
        ),
        claim(
            f"Accuracies with either law differ by at most {MARGIN:g} percentage points",
            between,
            measure="Test accuracy with a Gaussian first layer minus that with a uniform one, networks of equal seeds.",
            covers="networks", at_least=-MARGIN, at_most=MARGIN, unit="percentage points",
            by=theirs(THEIRS, FIGURE, "no visible difference; the margin is ours"),
            aggregate=("the mean over networks and groups", mean),
        ),
        exact(
            "A permutation of the coordinates does not change the law of a uniform first layer’s responses",
            {count(side): exactly(moved(results, side, "P(3d)")) for side in results.kurtosis},
            measure="Mean change of the excess kurtosis of a response when a test image’s coordinates are permuted.",
            at_most=LEAST, by=identity("the closed form sums over coordinates"),
        ),
    ]  # fmt: skip


def present(settings: UniformSettings, results: UniformResults, folder: RunFolder) -> list[Shown]:
    """Accuracies by network, group and law."""
    with drawing.panels(
        folder,
        "accuracy",
        ylabel="test accuracy, %",
        caption=(
            "Mean test accuracy of networks with 95 % intervals over networks, first layer drawn from a "
            "Gaussian or a uniform law."
        ),
        alt="Accuracy by network, group and law of the first layer",
        titles=settings.networks,
        sharey=True,
    ) as drawn:
        place = np.arange(len(GROUPS))
        for net, axes in zip(settings.networks, drawn.axes, strict=True):
            for i, (law, colour) in enumerate(zip(LAWS, (palette.BLUE, palette.VERMILLION), strict=True)):
                values = [t_interval(100 * results.scores[net, law, group], bounds=(0, 100)) for group in GROUPS]
                drawing.estimates(axes, place + 0.06 * (i - 0.5), values, colour.light, label=law, fmt="o")
            axes.set_xticks(place, GROUPS)
    return [drawn.figure]


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
