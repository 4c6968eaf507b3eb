"""Fully connected networks whose first layer is drawn from a Gaussian or a uniform law of the same variance.

Gaussian weights keep their law under O(3d), uniform ones under permutations alone: so the algorithm with uniform
weights is symmetric under P(3d) and need not be under O(3d). Measured is whether that can be seen, in the law of
outputs and in accuracies on images moved by either group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from equitangents.statistics import Estimate, bootstrap, exactly, shared_level
from equitangents_studies.common.system_images import SystemImages, asked_images
from equitangents_studies.framework.citations import SYNERGY_AND_SYMMETRY
from equitangents_studies.framework.claims import EXACT, P_VALUE, Claim, Records, claim
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check
from equitangents_studies.systems import System, algorithmic_symmetry, architecture, inference

LAWS = ("gaussian", "uniform")
GROUPS = ("I", "P(3d)", "O(3d)")
LEVEL, MARGIN = 0.01, 2.0
COUPLED = (("gaussian", "P(3d)"), ("gaussian", "O(3d)"), ("uniform", "P(3d)"))


@dataclass(frozen=True)
class Settings:
    """`data` as in `symmetry-groups`. FCN of `depth` hidden layers and `width` channels, trained by NN+ on
    `train_images` of `pixels` × `pixels` for at most `epochs`, `members` networks for each law and group; `test_images`
    are classified. The two-sample test compares `sampled` networks of `narrow` channels with as many.
    """

    data: str = "auto"
    train_images: int = 300
    test_images: int = 300
    pixels: int = 8
    depth: int = 2
    width: int = 64
    members: int = 8
    epochs: int = 60
    narrow: int = 4
    sampled: int = 32
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(train_images=2000, test_images=1000, pixels=16, depth=3, width=256, members=10, sampled=100),
    "paper": Settings(
        data="cifar10", train_images=45000, test_images=10000, pixels=32, depth=8, width=1024, members=5, epochs=900,
        sampled=200,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Results:
    """`source` names the data. `scores[law, group]` (members,), test accuracies; `equal[law, group]`, largest
    differences of coupled networks; `p_value` of uniform networks under O(3d).
    """

    source: str
    scores: dict[tuple[str, str], np.ndarray]
    equal: dict[tuple[str, str], float]
    p_value: float


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Members enough for an interval, samples enough for a p-value below the level."""
    at_least(settings, train_images=20, test_images=2, pixels=2, depth=1, width=1, epochs=1, narrow=1)
    check(settings.members >= 5, "members", settings.members, "at least 5, for an interval")
    check(settings.sampled >= 6, "sampled", settings.sampled, "at least 6")
    asked_images(settings, data_dir)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Accuracies for each law and group, then the tests of symmetry."""
    images = asked_images(settings, folder.data_dir)
    scores: dict[tuple[str, str], np.ndarray] = {}
    work = {
        law: Stage(f"accuracy-{law}", f"First layer {law}", partial(_scores, law, settings, images)) for law in LAWS
    }
    work["symmetry"] = Stage("symmetry", "Coupled and independent networks", partial(_symmetry, settings))
    found = folder.stages(work)
    for law in LAWS:
        scores |= {(law, group): found[law]["scores"][i] for i, group in enumerate(GROUPS)}
    tests = found["symmetry"]
    equal = dict(zip(COUPLED, tests["equal"].tolist(), strict=True))
    return Results(images.name, scores, equal, float(tests["p_value"]))


def _scores(law: str, settings: Settings, images: SystemImages, task: Task) -> Arrays:
    """(groups, members): accuracies on test images, all images moved by one element of each group."""
    net = architecture("FCN", settings.depth, settings.width, first_layer=law)
    learning = inference("NN+", members=settings.members, epochs=settings.epochs)
    scores = []
    for i, group in enumerate(GROUPS):
        fitted = System(group, net, learning, settings.seed).fit(images.train_x, images.train_y)
        scores.append(fitted.member_scores(images.test_x, images.test_y))
        task.step(i + 1, len(GROUPS))
    return {"scores": np.stack(scores)}


def _symmetry(settings: Settings, task: Task) -> Arrays:
    """Differences of coupled networks, and the test where there is no coupling; small, on generated textures."""
    learning = inference("NN", members=2, epochs=20)
    system = lambda law: System("I", architecture("FCN", 1, settings.narrow, first_layer=law), learning, settings.seed)
    equal = []
    for i, (law, group) in enumerate(COUPLED):
        equal.append(algorithmic_symmetry(system(law), group, method="coupled", seed=settings.seed).number)
        task.step(i + 1, len(COUPLED) + 1)
    apart = algorithmic_symmetry(
        system("uniform"), "O(3d)", method="two-sample", members=settings.sampled, seed=settings.seed, level=LEVEL
    )
    return {"equal": np.array(equal), "p_value": np.array(apart.number)}


def mean_score(scores: np.ndarray, level: float = 0.95) -> Estimate:
    """The mean accuracy in percent, with an interval over members."""
    return bootstrap(100 * scores, confidence=level, bounds=(0, 100))


def difference(a: np.ndarray, b: np.ndarray, level: float) -> Estimate:
    """Mean of a minus mean of b, member by member (equal seeds), in percentage points."""
    return bootstrap(100 * (a - b), confidence=level, bounds=(-100, 100))


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """What is equal by construction, whether the other symmetry is broken visibly, and what accuracy makes of it."""
    named = lambda law, group: f"{law} first layer, {group}"
    scores, level = results.scores, shared_level(len(GROUPS))
    between_laws = Records.over(
        lambda group: difference(scores["gaussian", group], scores["uniform", group], level),
        lambda group: f"images moved by {group}",
        group=GROUPS,
    )
    p = results.p_value
    return [
        claim(
            "Coupled networks stay equal under O(3d) with a Gaussian first layer, under P(3d) with either",
            {named(*pair): exactly(value) for pair, value in results.equal.items()},
            measure="Largest difference of trained outputs, relative to the largest, in float64.",
            covers=EXACT, at_most=1e-8, source="stated in arXiv 2207.04612",
            holds="These algorithms have the same law on moved data.",
            fails="Coupled networks come apart: the construction fails here.",
        ),
        claim(
            "With a uniform first layer outputs have another law on data moved by O(3d)",
            {f"{settings.sampled} networks": exactly(p) if p <= LEVEL else Estimate(p, math.nan, math.nan)},
            measure=f"p-value of the energy distance between {settings.sampled} networks trained on moved data and as "
            "many on data as they are.",
            covers=P_VALUE, at_most=LEVEL, source="stated in arXiv 2207.04612: permutations alone are left",
            holds="The uniform law takes the algorithm's symmetry under rotations away, visibly.",
            fails="",
            undecided="If uniform weights break the symmetry under rotations, these networks are too few to show it.",
        ),
        claim(
            f"Accuracies with either law differ by at most {MARGIN:g} percentage points, whatever moves the images",
            between_laws,
            measure="Test accuracy with a Gaussian first layer minus that with a uniform one, mean over networks.",
            covers="members", at_least=-MARGIN, at_most=MARGIN, unit="percentage points",
            source="figure S5 of arXiv 2207.04612; the bounds are our choice",
            holds=f"On these images either law will do: accuracies differ by at most {MARGIN:g} percentage points.",
            fails="The law of the first layer changes accuracy: tell which one was used.",
            undecided="More networks or more images would tell whether the law of the first layer matters.",
        ),
    ]  # fmt: skip


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (SYNERGY_AND_SYMMETRY,), check_settings)
