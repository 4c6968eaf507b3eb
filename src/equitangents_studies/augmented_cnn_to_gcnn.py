"""From augmented CNNs to group-convolutional networks: the distance of their means against members, width and time.

With all rotations in the window Θ^GCNN(x, x′) = (1/|G|) Σ_g Θ^CNN(x, ρ(g)x′). The squared distance of the means of M
members of width n is D²(n) + A(n)/M. Claimed: it falls as 1/M to D², and D falls with n, at all times, on and off the
data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from equitangents import nn
from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, bootstrap, exactly, excess_exponent, shared_level, t_interval
from equitangents_studies.common import networks
from equitangents_studies.common.augmented_pairs import KINDS, AugmentedPair, distance_share
from equitangents_studies.common.images import Chosen, Images, load_images
from equitangents_studies.common.infinite import squares_of_means
from equitangents_studies.common.orbits import SQUARE_GROUPS
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.framework.claims import Claim, Records, claim, exact, ours, proved, theirs, to_rounding
from equitangents_studies.framework.drawing import name_of
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets

BATCHES = 16  # members in the largest ensembles whose means are compared
_LEFT = 1.0  # % of the mean square prediction
_WITHIN = 5.0  # % of the mean square prediction


@dataclass(frozen=True)
class CnnToGcnnSettings(Chosen):
    """`members` of each kind and of each of `widths` (channels) train by full-batch gradient descent
    and are recorded after `steps`; `rate` is a fraction of the largest stable learning rate at infinite width (at 0.1
    single networks of 4 channels diverge); `times` are those at infinite width, in units of N/(η λ_max). Sizes are our
    choice.
    """

    group: Literal["C4", "D4"] = "C4"
    pixels: int | None = 8
    train_images: int = 20
    test_images: int = 20
    foreign_images: int = 16
    hidden_layers: int = 2
    widths: tuple[int, ...] = (8, 16)
    members: int = 64
    steps: tuple[int, ...] = (1, 5, 30)
    rate: float = 0.1
    times: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, float("inf"))


PRESETS = presets(
    CnnToGcnnSettings(),
    desk="data=mnist foreign=cifar10,noise test_images=60 foreign_images=40 widths=8,16,32 members=400 "
    "steps=1,3,10,30,100",
    paper="data=cifar10 foreign=mnist,noise pixels=16 train_images=256 test_images=500 foreign_images=200 "
    "widths=16,32,64,128 members=1000 steps=1,10,100,1000",
)


class CnnToGcnnResults(Results):
    """`distance`, `without_augmentation`, `kernel_distance` of `AugmentedPair.infinite`; `outputs` of trained networks.

    `sizes` are powers of 2 that allow at least 16 disjoint ensembles.
    """

    images: Images
    sets: tuple[str, ...]
    steps: tuple[int, ...]
    distance: np.ndarray = by("", "time inputs")
    without_augmentation: np.ndarray = by("", "time inputs")
    kernel_distance: np.ndarray = by("", "kernel")
    outputs: Keyed[np.ndarray] = by("kind width inputs", "step member value", of="{inputs}")

    @property
    def widths(self) -> list[int]:
        """Channels of the networks, in increasing order."""
        return sorted({width for _, width, _ in self.outputs})

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Ensemble sizes M at which the means are compared."""
        members = self.outputs[KINDS[0], self.widths[0], "test"].shape[1]
        return tuple(2**k for k in range((members // BATCHES).bit_length()))

    def title(self, name: str) -> str:
        """A set's title within a statement."""
        return "training images" if name == "training" else self.images.titles[name]

    def difference(self, width: int, name: str, step: int) -> np.ndarray:
        """f_CNN − f_GCNN, member by member, (members, values); the two kinds are independent."""
        at = self.steps.index(step)
        return self.outputs[KINDS[0], width, name][at] - self.outputs[KINDS[1], width, name][at]

    def unit(self, width: int, name: str, step: int) -> float:
        """The mean square prediction of one augmented CNN."""
        return float((self.outputs[KINDS[0], width, name][self.steps.index(step)] ** 2).mean())

    def squares(self, width: int, name: str, step: int) -> np.ndarray:
        """Squared distances of means of M members, (batches, sizes), as shares of the mean square prediction."""
        return squares_of_means(self.difference(width, name, step), self.sizes) / self.unit(width, name, step)

    def limits(self, width: int, name: str, step: int) -> np.ndarray:
        """Unbiased D² from each batch of members, over the mean square prediction.

        The squared distance S_M of means of M members has E S_M = D² + V/M, so D² = (M S_M − S_1)/(M − 1).
        """
        squares, most = self.squares(width, name, step), self.sizes[-1]
        found: np.ndarray = (most * squares[:, -1] - squares[:, 0]) / (most - 1)
        return found

    def everywhere(self, of: Callable[[int, str, int], np.ndarray]) -> np.ndarray:
        """The mean over widths and sets, after the last step."""
        return np.mean([of(w, name, self.steps[-1]) for w in self.widths for name in self.sets], axis=0)

    def mean_limit(self) -> Estimate:
        """Mean of D² over widths and sets after the last step; interval over batches of members."""
        return t_interval(self.everywhere(self.limits))

    def mean_exponent(self) -> Estimate:
        """Exponent of √(distance² − D²) against M, from squares averaged over widths and sets, after the last step."""
        above = self.everywhere(self.squares) - self.mean_limit().value
        return _half(excess_exponent(np.array(self.sizes, float), list(above.T)))

    def share(self, width: int, name: str, step: int, level: float = 0.95) -> Estimate:
        """D² as a share of the mean square prediction, from all members."""
        at = self.steps.index(step)
        a, b = (self.outputs[kind, width, name][at] for kind in KINDS)
        return distance_share(a, b, level)

    def members_exponent(self, width: int, name: str, step: int, level: float = 0.95) -> Estimate:
        """The exponent of √(distance² − D²) against M."""
        above = self.squares(width, name, step) - self.share(width, name, step).value
        return _half(excess_exponent(np.array(self.sizes, float), list(above.T), confidence=level))


def _half(e: Estimate) -> Estimate:
    """The exponent of the square root, given the exponent of the square."""
    return Estimate(e.value / 2, e.low / 2, e.high / 2, e.confidence)


def cnn(settings: CnnToGcnnSettings, outputs: int, width: int) -> nn.Sequential:
    """3×3 convolutions on a torus, mean over positions."""
    return networks.cnn(width, settings.hidden_layers, outputs)


def gcnn(settings: CnnToGcnnSettings, outputs: int, side: int, width: int) -> nn.Sequential:
    """Lift and group convolutions with 3×3 windows and all rotations (p4, p4m), mean over the group."""
    return networks.wallpaper_gcnn(side, width, settings.hidden_layers, outputs, reflections=settings.group == "D4")


def check_settings(settings: CnnToGcnnSettings, data_dir: Path | None) -> None:
    """Require enough widths and members for exponents, and available images."""
    at_least(settings, hidden_layers=1, members=3 * BATCHES, train_images=2)
    widths = settings.widths
    check(len(set(widths)) == len(widths) >= 2, "widths", widths, "at least two different widths")
    check(len(settings.steps) >= 1 and min(settings.steps) >= 1, "steps", settings.steps, "positive")
    images = load_images(settings, data_dir)
    check(images.train_x.shape[1] >= 4, "pixels", images.train_x.shape[1], "at least 4")


def _pair(settings: CnnToGcnnSettings, images: Images) -> AugmentedPair:
    side, outputs = images.train_x.shape[1], images.classes
    sets = {"training": images.train_x, **images.sets}
    return AugmentedPair(
        partial(cnn, settings, outputs),
        partial(gcnn, settings, outputs, side),
        SQUARE_GROUPS[settings.group](),
        {name: x.astype(np.float64) for name, x in sets.items()},
        images.targets,
    )


def measure(settings: CnnToGcnnSettings, folder: RunFolder) -> CnnToGcnnResults:
    """Infinite width in closed form; then both kinds of networks, width by width."""
    images = load_images(settings, folder.data_dir)
    pair = _pair(settings, images)
    steps, widths, sets = (0, *sorted(set(settings.steps))), sorted(settings.widths), tuple(pair.sets)
    nouns = dict(zip(KINDS, ("augmented CNNs", "group-convolutional networks"), strict=True))

    def train(kind: str, width: int, task: Task) -> Arrays:
        how: dict[str, Any] = {"members": settings.members, "fraction": settings.rate, "seed": settings.seed}
        return pair.training(folder.checkpoints(f"{kind}-{width}"), kind, width, task, steps=steps, **how)

    title = lambda kind, width: f"Training {settings.members} {nouns[kind]} of {width} channels"
    found = measured(
        folder,
        Stages("infinite", "Infinite width, explicit augmentation", lambda task: pair.infinite(settings.times)),
        Stages("{kind}-{width}", title, train),
        levels={"kind": KINDS, "width": widths, "inputs": sets, "step": steps, "time": settings.times},
    )
    return CnnToGcnnResults.read(found, images=images, sets=sets, steps=steps)


def shares(
    settings: CnnToGcnnSettings, results: CnnToGcnnResults, widths: Sequence[int], level: float = 0.95
) -> Records:
    """The limit D² in per cent of the mean square prediction, by width, set and step."""
    return Records.over(
        lambda width, inputs, step: results.share(width, inputs, step, level).times(100),
        lambda width, inputs, step: f"{width} channels, {results.title(inputs)}, after {step} steps",
        width=widths,
        inputs=results.sets,
        step=results.steps[1:],
    )


def claims(settings: CnnToGcnnSettings, results: CnnToGcnnResults) -> Sequence[Claim]:
    """The theorem at infinite width, the fall with members and width, and the distance at the largest width."""
    last, widest, names = results.steps[-1], max(settings.widths), results.sets
    when = [name_of(time) for time in settings.times]
    theorem = Records.over(
        lambda t, s: exactly(float(results.distance[t, s])),
        lambda t, s: f"{when[t]}, {results.title(names[s])}",
        t=range(len(when)),
        s=range(len(names)),
    ).labelled()
    kernels = {f"{k} itself": exactly(v) for k, v in zip(("NNGP", "NTK"), results.kernel_distance, strict=True)}
    in_members = Records.over(
        lambda width, inputs: results.members_exponent(
            width, inputs, last, shared_level(len(settings.widths) * len(names))
        ),
        lambda width, inputs: f"{width} channels, {results.title(inputs)}",
        width=settings.widths,
        inputs=names,
    )
    left = Records.over(
        lambda width, inputs: t_interval(
            100 * results.limits(width, inputs, last), shared_level(len(settings.widths) * len(names))
        ),
        lambda width, inputs: f"{width} channels, {results.title(inputs)}",
        width=settings.widths,
        inputs=names,
    )
    near = shares(settings, results, [widest], shared_level(len(names) * (len(results.steps) - 1)))
    distance = "Largest difference of the two mean predictions relative to the largest prediction."
    return [
        to_rounding(
            "At infinite width augmented CNNs and group-convolutional networks have the same mean, to rounding, at all "
            "times, on and off the data",
            {**theorem, **kernels},
            measure=distance + " The augmented images are trained on explicitly.",
            by=proved(THEIRS, "Theorem 5.3", "equal"),
        ),
        exact(
            "Without augmentation the means of CNNs and of group-convolutional networks at infinite width differ on "
            "the test images, by more than 1 % of the largest prediction",
            {when[t]: exactly(float(results.without_augmentation[t, names.index("test")])) for t in range(len(when))},
            measure=distance,
            at_least=0.01,
            by=ours("our control"),
        ),
        claim(
            "The distance of the means of M members falls as 1/√M, to a limit",
            in_members,
            aggregate=("of all widths and inputs together", results.mean_exponent()),
            measure="Exponent of √(distance² − limit²) against M, for M = "
            f"{results.sizes[0]} to {results.sizes[-1]}, after {last} steps; the limit is estimated without bias.",
            covers="batches of members",
            at_least=-0.6,
            at_most=-0.4,
            by=theirs(
                THEIRS, "figure of the distance against the ensemble’s size", "they approach one another; theory: −1/2"
            ),
        ),
        claim(
            "The means of infinitely many members are equal: their remaining squared distance is at most "
            f"{_LEFT:g} % of the mean square prediction",
            left,
            aggregate=("the mean over widths and inputs", results.mean_limit().times(100)),
            measure="Squared distance of the means of infinitely many members as a share of the mean square prediction "
            f"of one CNN, after {last} steps; free of the bias of finitely many, so it may come out negative.",
            covers="batches of members",
            at_most=_LEFT,
            unit="%",
            by=theirs(THEIRS, "figure of the distance against the ensemble’s size", "they approach one another"),
        ),
        claim(
            f"With {widest} channels the squared distance of the means is within {_WITHIN:g} % of the mean square "
            "prediction, at all recorded times, on and off the data",
            near,
            measure="Squared distance of the means of infinitely many members as a share of the mean square prediction "
            "of one CNN; free of the bias of finitely many, so it may come out negative.",
            covers="members",
            at_most=_WITHIN,
            unit="%",
            by=ours("our question: how near at every time; the bound is our choice"),
        ),
    ]


_COLOURS = (palette.BLUE, palette.GREEN, palette.ORANGE, palette.PURPLE, palette.VERMILLION, palette.INK)


def present(settings: CnnToGcnnSettings, results: CnnToGcnnResults, folder: RunFolder) -> list[Shown]:
    """The distance against members and width, and its limit."""
    limits = shares(settings, results, sorted(settings.widths))
    return [_members(settings, results, limits, folder)]


def _members(settings: CnnToGcnnSettings, results: CnnToGcnnResults, limits: Records, folder: RunFolder) -> Figure:
    last, widths = results.steps[-1], sorted(settings.widths)
    with drawing.panels(
        folder,
        "members-and-width",
        titles=(f"{drawing.heading(results.title('test'))}, step {last}", f"Limit, step {last}"),
        caption="Left: distance of the means of M augmented CNNs and M group-convolutional networks, as a share of the "
        "root mean square prediction, by channels, with 95 % intervals over batches of members; dashes: the limit, "
        "where it is positive. Right: the limit against channels, squared, with 95 % intervals over members.",
        alt="Distance of means against members and width",
    ) as drawn:
        left, right = drawn
        for width, shade in drawing.shades_of(widths):
            squares = results.squares(width, "test", last)
            shares = [bootstrap(column, np.sqrt).times(100) for column in squares.T]
            drawing.estimates(left, results.sizes, shares, shade, label=f"{width} channels")
            level = results.share(width, "test", last).value
            if level > 0:
                left.axhline(100 * level**0.5, color=shade, lw=0.8, ls=(0, (3, 3)))
        top = 100 * float(np.sqrt(results.squares(widths[0], "test", last)[:, 0].mean()))
        drawing.power(left, results.sizes, top, -0.5, label="∝ 1/√M")
        drawing.logarithmic(left, "both", results.sizes, base=2, fine=True)
        left.set_xlabel("members M")
        left.set_ylabel("distance of means, %")
        values = {results.title(name): limits.where(inputs=name, step=last).estimates for name in results.sets}
        drawing.curves(right, widths, values, _COLOURS, offset=1.05, lw=1)
        right.axhline(0, color=palette.INK.light, lw=0.8)
        drawing.logarithmic(right, "x", widths)
        right.set_xlabel("channels")
        right.set_ylabel("squared distance, %")
        drawn.legend(left, right, columns=5)
    return drawn.figure


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
