"""Which learning algorithm is symmetric under which group: six architectures, five groups, infinite and finite width.

An algorithm is symmetric if predictions do not change when training and test inputs are moved together. Theorem 4.1 of
the source: FCN is symmetric under O(3d), LCN and infinitely wide VEC under O(3)^d, VEC of finite width, GAP and LAP
under O(3)xI.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, bootstrap, exactly
from equitangents_studies.common.system_runs import SystemSettings, asked_images, predicted
from equitangents_studies.data import Dataset
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import SYNERGY_AND_SYMMETRY as THEIRS
from equitangents_studies.framework.claims import P_VALUE, Claim, claim, exact, identity, proved, to_rounding
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets
from equitangents_studies.systems import ARCHITECTURES, System, algorithmic_symmetry, architecture, transformation
from equitangents_studies.systems.descent import GradientInference
from equitangents_studies.systems.embeddings import embed
from equitangents_studies.systems.symmetry_tests import false_alarm_rate, relative
from equitangents_studies.systems.transformations import NAMES as GROUPS
from equitangents_studies.systems.transformations import expected_symmetry, sample_data

CHAIN = (("GAP", "VEC"), ("VEC", "LCN"), ("LCN", "VEC"), ("VEC", "FCN"))
"""Pairs of Theorem 3.1: from LCN of n channels, VEC has dn."""
EMBEDDED_WIDTH, _EMBEDDED_PIXELS = 4, 4
POOLED = ("GAP", "LAP4", "LAP8")
LEVEL = 0.01


@dataclass(frozen=True)
class GroupsSettings(SystemSettings):
    """Kernels of `depth` hidden layers: `train_images` images for FCN, LCN and
    VEC, `pooled_images` for GAP and LAP, `test_images` to predict, averaged down to `pixels` × `pixels`; `ridge`
    relative to the mean diagonal. Networks of `finite_depth` layers of `width` channels (FCN 8 times as many), trained
    for `epochs`, `members` in each sample, on generated textures; `cases` of the two-sample test where laws are equal.
    """

    pooled_images: int = 80
    test_images: int = 100
    depth: int = 8
    ridge: float = 1e-6
    finite_depth: int = 1
    width: int = 2
    members: int = 24
    epochs: int = 20
    cases: int = 40


PRESETS = presets(
    GroupsSettings(),
    desk="train_images=2000 pooled_images=400 test_images=500 pixels=16 finite_depth=2 width=4 members=48 epochs=40 "
    "cases=200",
    paper="data=cifar10 train_images=10000 pooled_images=10000 test_images=10000 pixels=32 finite_depth=8 width=32 "
    "members=64 epochs=200 cases=200",
)


class GroupsResults(Results):
    """`kernels` and `predictions` are largest differences relative to the largest value, `right` says whether each test
    image is classified correctly; at finite width the `numbers` of the tests. `rate` of alarms of the two-sample test
    among `cases`, with its interval. `embedded` by pairs of CHAIN: largest differences of outputs.
    """

    kernels: Keyed[float] = by("architecture group")
    predictions: Keyed[float] = by("architecture group")
    right: Keyed[np.ndarray] = by("architecture group", "image")
    numbers: Keyed[float] = by("architecture group")
    rate: np.ndarray = by("", "end")
    embedded: Keyed[float] = by("pair", of="differences")

    @property
    def alarms(self) -> Estimate:
        """`rate` as an estimate."""
        return Estimate(*self.rate.tolist())


def check_settings(settings: GroupsSettings, data_dir: Path | None) -> None:
    """Require an image side divisible by 8, and samples large enough for a p-value below the level."""
    at_least(settings, train_images=20, pooled_images=20, test_images=5, pixels=8, depth=1, finite_depth=1, width=1)
    at_least(settings, members=6, epochs=1, cases=1, ridge=0)
    check(settings.pooled_images <= settings.train_images, "pooled_images", settings.pooled_images,
          f"at most train_images, {settings.train_images}")  # fmt: skip
    asked_images(settings, data_dir)


def measure(settings: GroupsSettings, folder: RunFolder) -> GroupsResults:
    """Kernels of every architecture on data moved by every group, then networks, then the alarms of the test."""
    images = asked_images(settings, folder.data_dir)
    found = measured(
        folder,
        Stages("alarms", "False alarms of the two-sample test", partial(_alarms, settings)),
        Stages("embedded", "Theorem 3.1", partial(_embedded, settings)),
        Stages("infinite-{architecture}", "{architecture}, infinite width", partial(_infinite, settings, images)),
        Stages("finite-{architecture}", "{architecture}, finite width", partial(_finite, settings)),
        levels={"architecture": ARCHITECTURES, "group": GROUPS, "pair": CHAIN},
    )
    return GroupsResults.read(found)


def _infinite(settings: GroupsSettings, images: Dataset, name: str, task: Task) -> Arrays:
    """Kernels and predictions on moved data, and on the original data."""
    count = settings.pooled_images if name in POOLED else settings.train_images
    x = images.train_x[:count]
    net, shape = architecture(name, settings.depth), images.train_x.shape[1:]
    targets = images.targets[:count]
    found: dict[str, list[Any]] = {"kernels": [], "predictions": [], "right": []}
    first: tuple[np.ndarray, np.ndarray] | None = None
    for i, group in enumerate(GROUPS):
        tau = transformation(group, shape, seed=settings.seed)
        moved, test = tau(x), tau(images.test_x)
        K = np.concatenate([net.kernel(moved).ntk, net.kernel(test, moved).ntk])
        outputs = predicted(K[:count], K[count:], targets, settings.ridge)
        first = (K, outputs) if first is None else first
        found["kernels"].append(relative(K, first[0]))
        found["predictions"].append(relative(outputs, first[1]))
        found["right"].append(outputs.argmax(axis=1) == images.test_y)
        task.step(i + 1, len(GROUPS))
    return {key: np.array(values) for key, values in found.items()}


def _finite(settings: GroupsSettings, name: str, task: Task) -> Arrays:
    """Test coupled networks if the coupling exists, else two samples of networks."""
    width = settings.width * (8 if name == "FCN" else 1)
    learning = GradientInference(members=2, epochs=settings.epochs, dtype="float64")
    system = System("I", architecture(name, settings.finite_depth, width), learning, settings.seed)
    few = sample_data()
    numbers = []
    for i, group in enumerate(GROUPS):
        result = algorithmic_symmetry(
            system, group, few.x, few.y, few.x_test, seed=settings.seed, members=settings.members, level=LEVEL
        )
        numbers.append(result.number)
        task.step(i + 1, len(GROUPS))
    return {"numbers": np.array(numbers)}


def _embedded(settings: GroupsSettings, task: Task) -> Arrays:
    """Largest relative differences between networks and their embeddings in larger ones, by pairs of CHAIN."""
    shape = (_EMBEDDED_PIXELS, _EMBEDDED_PIXELS, 3)
    x = np.random.default_rng(settings.seed).normal(size=(20, *shape))
    differences = []
    for i, (name, target) in enumerate(CHAIN):
        net = architecture(name, settings.finite_depth, EMBEDDED_WIDTH)
        params = net.init(jax.random.key(settings.seed), shape, "float64")
        larger = embed(net, params, target, shape)
        here, there = (np.asarray(one.apply(weights, x)) for one, weights in ((net, params), larger))
        differences.append(relative(there, here))
        task.step(i + 1, len(CHAIN))
    return {"differences": np.array(differences)}


def _alarms(settings: GroupsSettings, task: Task) -> Arrays:
    """The rate of rejections of a symmetric algorithm, FCN under O(3d), at level 0.05, with its interval."""
    system = System("I", architecture("FCN", 1, 8), GradientInference(epochs=5, eigenvalue_inputs=8), 0)
    rate = false_alarm_rate(system, "O(3d)", cases=settings.cases, members=6, level=0.05, seed=settings.seed)
    return {"rate": np.array([rate.value, rate.low, rate.high])}


def entries(expected: bool, *, finite: bool) -> list[tuple[str, str]]:
    """Pairs (architecture, group) that are symmetric by Theorem 4.1 (`expected`), or not."""
    shape = (8, 8, 3)
    return [(a, g) for a in ARCHITECTURES for g in GROUPS if expected_symmetry(a, g, shape, finite=finite) == expected]


def accuracy(right: np.ndarray, level: float = 0.95) -> Estimate:
    """Accuracy on test images, with an interval over images."""
    return bootstrap(right.astype(float), confidence=level, bounds=(0, 1))


def p_value(number: float) -> Estimate:
    """A p-value as an estimate for a claim: above the level it decides nothing."""
    return exactly(number) if number <= LEVEL else Estimate(number, math.nan, math.nan)


def _named(
    pairs: Sequence[tuple[str, str]], values: Keyed[float], estimate: Callable[[float], Estimate]
) -> dict[str, Estimate]:
    return {f"{a} under {g}": estimate(values[a, g]) for a, g in pairs}


def claims(settings: GroupsSettings, results: GroupsResults) -> Sequence[Claim]:
    """Theorem 4.1 in both directions at infinite and finite width, the test's false alarms, and accuracies."""
    equal, other = (entries(expected, finite=False) for expected in (True, False))
    moves = [pair for pair in equal if pair[1] != "I"]
    coupled = [pair for pair in entries(True, finite=True) if pair[1] != "I"]
    different = [pair for pair in entries(False, finite=True) if pair[1] == "O(3)^d"]
    return [
        exact(
            "GAP ⊆ VEC ⊆ LCN ⊆ VEC of dn channels ⊆ FCN: each holds every function of the one before",
            {f"{a} in {b}": exactly(value) for (a, b), value in results.embedded.items()},
            measure=f"Largest difference of outputs of random networks of {EMBEDDED_WIDTH} channels and of the larger "
            "architecture with the weights of Theorem 3.1, relative to the largest output, in float64.",
            at_most=1e-12, by=proved(THEIRS, "Theorem 3.1", "equal"),
        ),
        exact(
            "At infinite width kernels stay, to rounding, under every group that Theorem 4.1 names",
            _named(moves, results.kernels, exactly),
            measure="Largest difference of NTKs of moved and unmoved images, training and test, relative to the "
            "largest entry, in float32.",
            at_most=1e-5, by=proved(THEIRS, "Theorem 4.1", "equal"),
        ),
        exact(
            "At infinite width predictions change under every other group",
            _named(other, results.predictions, exactly),
            measure="Largest change of a prediction when all inputs are moved, relative to the largest prediction.",
            at_least=1e-3, by=proved(THEIRS, "Theorem 4.1", "not equal"),
        ),
        to_rounding(
            "At finite width coupled networks stay equal through training, to rounding",
            _named(coupled, results.numbers, exactly),
            measure="Largest difference of trained outputs, relative to the largest, in float64.",
            by=proved(THEIRS, "Theorem 4.1", "equal in law"),
        ),
        claim(
            "At finite width VEC, GAP and LAP have another law on data moved by O(3)^d",
            _named(different, results.numbers, p_value),
            measure=f"p-value of the energy distance between {settings.members} networks trained on moved data and as "
            "many on the original data.",
            covers=P_VALUE, at_most=LEVEL, by=proved(THEIRS, "Theorem 4.1", "another law"),
        ),
        claim(
            "Where laws are equal, the two-sample test rejects at most twice as often as its level of 0.05 says",
            {f"{settings.cases} cases": results.alarms},
            measure="Share of cases of FCN under O(3d) that are rejected at level 0.05.",
            covers="cases", at_most=0.1, by=identity("our test of the test"),
        ),
    ]  # fmt: skip


_COLOURS = {"FCN": palette.VERMILLION, "VEC": palette.BLUE, "GAP": palette.GREEN}


def present(settings: GroupsSettings, results: GroupsResults, folder: RunFolder) -> list[Shown]:
    """Accuracy lost to the moves."""
    return [_accuracies(results, folder)]


def _accuracies(results: GroupsResults, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "accuracy",
        titles=("",),
        ylabel="accuracy",
        caption=(
            "Accuracy of infinitely wide networks on test images, all images moved by one random element "
            "of each group, with 95 % intervals over test images. Networks that pool have fewer training "
            "images than FCN and VEC."
        ),
        alt="Accuracy by group",
    ) as drawn:
        place = np.arange(len(GROUPS))
        for i, (name, colour) in enumerate(_COLOURS.items()):
            values = [accuracy(results.right[name, group]) for group in GROUPS]
            drawing.estimates(drawn[0], place + 0.06 * (i - 1), values, colour.light, label=name, fmt="o")
        drawn[0].set_xticks(place, GROUPS)
    return drawn.figure


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
