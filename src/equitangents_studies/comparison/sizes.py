"""Many small networks or one equivariant one, at equal cost, over sizes of training sets and difficulties of tasks.

Each cell, a task with so many training images, is a comparison of its own: one group-convolutional network against
augmented ensembles of small networks that cost no more. All networks take the same number of steps, whatever the size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from equitangents.statistics import Estimate, shared_level, t_interval
from equitangents_studies.common.images import load_images
from equitangents_studies.common.scores import table_mean
from equitangents_studies.comparison import settings as comparison
from equitangents_studies.comparison.settings import Results
from equitangents_studies.comparison.study import check_settings as check_cell
from equitangents_studies.comparison.study import measure as measure_cell
from equitangents_studies.framework.claims import Claim, Records, claim, in_words, ours
from equitangents_studies.framework.stages import Part
from equitangents_studies.framework.study import RunFolder, Study, at_least, check, presets
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE

_OURS = "ours: the question of cost at several sizes and difficulties, which the source leaves open"
_SHARE = 0.95  # of |G|
Cell = tuple[str, int]


@dataclass(frozen=True)
class Settings:
    """`tasks` are data sets with the pixels they are averaged to, "mnist:14"; other tasks' images are foreign, too.

    `sizes` are numbers of training images; all networks take about `steps` steps, and everything else is as in
    `comparison`.
    """

    tasks: tuple[str, ...] = ("digits:8", "digits:4")
    sizes: tuple[int, ...] = (50, 200, 800)
    foreign: tuple[str, ...] = ("photographs", "noise")
    group: Literal["C2", "C4", "C8", "C16", "D4"] = "C4"
    repetitions: int = 3
    test_images: int | None = 300
    foreign_images: int = 100
    channels: tuple[int, ...] = (8, 16)
    steps: int = 400
    batch: int = 32
    learning_rate: float = 0.02
    shrink: tuple[int, ...] = (1, 2)
    most_members: int = 32
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="tasks=mnist:14,fashion_mnist:14 sizes=100,1000,10000 foreign=cifar10,noise repetitions=5 test_images=1000 "
    "foreign_images=400 channels=12,16 steps=3000 shrink=1,2,4 most_members=64",
    paper="tasks=mnist:28,fashion_mnist:28 sizes=100,1000,10000,60000 foreign=cifar10,noise repetitions=5 "
    "test_images=none foreign_images=5000 channels=32,64,64 steps=14000 batch=128 shrink=1,2,4 most_members=256",
)


@dataclass(frozen=True, eq=False)
class SizesResults:
    """The comparison of every (task, size)."""

    cells: dict[Cell, Results]

    @property
    def shrinks(self) -> list[int]:
        """Factors of channels of which every cell has an ensemble."""
        return [k for k in next(iter(self.cells.values())).curves if all(k in r.curves for r in self.cells.values())]

    def largest(self, cell: Cell, shrink: int) -> dict[str, np.ndarray]:
        """What the largest affordable ensemble of small networks answers."""
        return {name: labels[-1] for name, labels in self.cells[cell].curves[shrink].labels.items()}

    def gain(self, cell: Cell, shrink: int, level: float, measure: str = "rotated") -> Estimate:
        """The group-convolutional network’s score minus the ensemble’s, paired."""
        results = self.cells[cell]
        return results.difference(results.labels["gcnn"], self.largest(cell, shrink), measure, level)

    def gains(self, cell: Cell, shrink: int) -> np.ndarray:
        """The gain in every repetition and for every test image."""
        results = self.cells[cell]
        score = lambda labels: results.score(labels, "rotated")
        return score(results.labels["gcnn"]) - score(self.largest(cell, shrink))

    def mean_gain(self) -> Estimate:
        """The mean gain over all cells and ensembles, each with the same weight, over repetitions."""
        each = [self.gains(cell, shrink).mean(axis=-1) for cell in self.cells for shrink in self.shrinks]
        return t_interval(np.mean(each, axis=0), bounds=(-1.0, 1.0))


def task_of(text: str) -> tuple[str, int | None]:
    """Data set and pixels of "mnist:14"; None where there is no number."""
    name, colon, pixels = text.rpartition(":")
    return (name, int(pixels)) if colon and pixels.isdigit() else (text, None)


def cell_settings(settings: Settings, task: str, size: int) -> comparison.Settings:
    """The comparison of one cell."""
    data, pixels = task_of(task)
    others = [task_of(other)[0] for other in settings.tasks]
    per_epoch = -(-size // settings.batch)
    return comparison.Settings(
        data=data,
        foreign=tuple(dict.fromkeys([name for name in others if name != data] + list(settings.foreign))),
        group=settings.group,
        pixels=pixels,
        contenders=("gcnn",),
        repetitions=settings.repetitions,
        train_images=size,
        test_images=settings.test_images,
        foreign_images=settings.foreign_images,
        channels=settings.channels,
        epochs=max(1, round(settings.steps / per_epoch)),
        batch=settings.batch,
        learning_rate=settings.learning_rate,
        kernel_images=2,
        shrink=settings.shrink,
        most_members=settings.most_members,
        seed=settings.seed,
    )


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Tasks and sizes to compare, and each comparison by itself."""
    at_least(settings, steps=1, batch=1)
    for name in ("tasks", "sizes", "shrink"):
        value = getattr(settings, name)
        check(len(value) == len(set(value)) >= 1, name, value, "a list without repetitions, of at least one")
    check(
        len(settings.sizes) >= 2 and min(settings.sizes) >= 2,
        "sizes",
        settings.sizes,
        "at least two, of 2 images or more",
    )
    for task in settings.tasks:
        check_cell(cell_settings(settings, task, max(settings.sizes)), data_dir)
        few = load_images(cell_settings(settings, task, min(settings.sizes)), data_dir)
        complete = len(np.unique(few.train_y)) == few.classes
        check(complete, "sizes", settings.sizes, f"numbers of images that hold all {few.classes} classes of {task}")


def measure(settings: Settings, folder: RunFolder) -> SizesResults:
    """A comparison for every task and size, in stages of its own."""
    return SizesResults(
        {
            (task, size): measure_cell(
                cell_settings(settings, task, size),
                Part(folder, f"{''.join(c if c.isalnum() else '_' for c in task)}-{size}", f"{task}, {size:,} images"),
            )
            for task in settings.tasks
            for size in sorted(settings.sizes)
        }
    )


def words(results: SizesResults, cell: Cell, shrink: int) -> str:
    """Which ensemble and where, for sentences."""
    curve = results.cells[cell].curves[shrink]
    networks = f"{curve.sizes[-1]} networks of {' and '.join(map(str, curve.channels))} channels"
    return f"{title(results, cell[0])}, {cell[1]:,} images, {networks}"


def title(results: SizesResults, task: str) -> str:
    """What a task is called: its data and how many pixels its images have."""
    first = next(r for (name, _), r in results.cells.items() if name == task)
    return f"{first.images.titles['test']} {first.problem.shape[0]}×{first.problem.shape[1]}"


def claims(settings: Settings, results: SizesResults) -> Sequence[Claim]:
    """Where ensembles of the same cost are ahead, whether more data closes the gap, and how invariant ensembles are."""
    cells, shrinks, sizes = tuple(results.cells), results.shrinks, sorted(settings.sizes)
    order = next(iter(results.cells.values())).order
    over, level = comparison.covers(cell_settings(settings, *cells[0])), shared_level(len(cells) * len(shrinks))
    told = lambda cell, shrink: words(results, cell, shrink)
    gains = Records.over(lambda cell, shrink: results.gain(cell, shrink, level), told, cell=cells, shrink=shrinks)
    ahead = [label for label, e in gains.labelled().items() if e.high < 0]
    mean = results.mean_gain()
    led = f"{in_words(mean.times(100))} percentage points on average"
    exceptions = f" Ensembles are ahead at {'; '.join(ahead)}." if ahead else ""
    each = shared_level(len(settings.tasks) * len(shrinks))

    def closing(task: str, shrink: int) -> Estimate:
        few, many = (results.gains((task, size), shrink) for size in (sizes[0], sizes[-1]))
        return table_mean(few - many, (-2.0, 2.0), each)

    def outside(cell: Cell, shrink: int) -> Estimate:
        return results.cells[cell].estimate(results.largest(cell, shrink), "outside", level)

    return [
        claim(
            "Over all sizes and difficulties one group-convolutional network is at least as accurate on rotated images "
            "as augmented ensembles of small networks of no more cost",
            gains,
            aggregate=(f"the mean over {len(gains.rows)} sizes, difficulties and kinds of small networks", mean),
            by=ours(_OURS),
            measure="Accuracy over the orbits of the test images: the group-convolutional network minus the largest "
            "ensemble that takes no more multiplications and as many steps.",
            covers=(over, settings.repetitions),
            at_least=0,
            holds=f"With this budget build the symmetry in: its lead is {led}." + exceptions,
            fails=f"With this budget average small networks: the lead of the equivariant network is {led}.{exceptions}",
            undecided="Ensembles of small networks and one equivariant network of the same cost are not told apart in "
            f"accuracy: choose by invariance. The latter’s lead is {led}.{exceptions}",
        ),
        claim(
            "What the group-convolutional network is ahead by shrinks as the training set grows",
            Records.over(
                closing,
                lambda task, shrink: f"{title(results, task)}, channels divided by {shrink}",
                task=settings.tasks,
                shrink=shrinks,
            ),
            measure=f"The lead in accuracy with {sizes[0]:,} training images minus that with {sizes[-1]:,}, paired "
            "over test images.",
            covers=over,
            at_least=0,
            by=ours(_OURS),
            holds="Built-in symmetry matters most where data are few.",
            fails="For at least one task the lead of built-in symmetry grows with the data: small networks do not "
            "catch up.",
            undecided="Whether more data make up for built-in symmetry is not decided for every task.",
        ),
        claim(
            f"Ensembles of that cost give {100 * _SHARE:g} % of the orientations of foreign images the same class, at "
            "every size and difficulty",
            Records.over(outside, told, cell=cells, shrink=shrinks),
            measure=f"Orbit same predictions out of distribution of the largest affordable ensemble, of {order}.",
            covers=over,
            at_least=_SHARE * order,
            by=ours("ours; the group-convolutional network’s are exact where the group moves pixels to pixels"),
            holds="Ensembles at this cost are nearly invariant, whatever the data.",
            fails="At this cost ensembles are not invariant off the data: where all orientations must give one class, "
            "build the symmetry in or pay for more members.",
            undecided="Whether ensembles of this cost are nearly invariant off the data is not decided.",
        ),
    ]


STUDY: Study[Settings, SizesResults] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
