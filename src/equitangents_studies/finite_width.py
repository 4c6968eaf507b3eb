"""Size of the violation of a finite ensemble, split by cause.

The mean square change over orbits of a mean of M members of width n is B(n) + A(n)/M. The finite number of members
leaves A(∞)/M, finite width A(n) − A(∞) and B(n) − B(∞), and incomplete augmentation B(∞), which is 0 after complete
augmentation. For group-convolutional networks all parts are 0 at any width: they are invariant by architecture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from jaxtyping import Float

from equitangents import actions, nn
from equitangents.report import palette
from equitangents.statistics import (
    Estimate,
    bias_fraction,
    bootstrap,
    exactly,
    excess_exponent,
    no_interval,
    power_law,
    shared_level,
    squared_mean,
)
from equitangents_studies.common import networks
from equitangents_studies.common.ensembles import train_to_last
from equitangents_studies.common.images import Chosen, is_own, load_images
from equitangents_studies.common.infinite import gradient_descent, predicted_parts, squares_of_means
from equitangents_studies.common.ising_lattice import energy_task
from equitangents_studies.common.orbits import deviations
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.claims import Claim, Records, after, claim, exact, identity, ours, proved
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets

KINDS = ("complete", "partial")
TITLES = {"complete": ", all four rotations", "partial": ", only 0° and 180°", "none": ""}
_AUGMENTED = {"complete": actions.image_rotations(4), "partial": actions.image_rotations(2)}
ARCHITECTURES = {"mlp": KINDS, "cnn": KINDS, "gcnn": ("none",)}
NOUNS = {"mlp": "MLPs", "cnn": "CNNs", "gcnn": "group-convolutional networks"}


@dataclass(frozen=True)
class FiniteWidthSettings:
    """`tasks` are "ising" (energies of hot spins on a torus) and data sets (odd or even class, ±1, on images averaged
    down to `pixels`), under rotations by 90°: `complete` augmentation shows all four, `partial` those by 0° and 180°.

    `widths` and `members` are those of MLPs, `channels` and `cnn_members` of CNNs, `group_channels` and `group_members`
    of group-convolutional networks, which see no rotated copies. `sizes` are numbers of members M, powers of 2; `rate`
    is a fraction of the largest stable learning rate. Sizes are our choice.
    """

    tasks: tuple[str, ...] = ("ising", "digits")
    lattice: int = 4
    train_spins: int = 12
    test_spins: int = 24
    pixels: int = 8
    train_images: int = 12
    test_images: int = 24
    widths: tuple[int, ...] = (16, 32, 64, 128, 256)
    channels: tuple[int, ...] = (4, 8, 16)
    group_channels: tuple[int, ...] = (4, 16)
    hidden_layers: int = 2
    members: int = 512
    cnn_members: int = 96
    group_members: int = 8
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    steps: tuple[int, ...] = (1, 10, 50)
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0

    def widths_of(self, architecture: str) -> list[int]:
        """Widths or channels, in order."""
        of = {"mlp": self.widths, "cnn": self.channels, "gcnn": self.group_channels}
        return sorted(of[architecture])

    def members_of(self, architecture: str) -> int:
        """Number of networks of each width."""
        return {"mlp": self.members, "cnn": self.cnn_members, "gcnn": self.group_members}[architecture]

    def sizes_of(self, architecture: str) -> tuple[int, ...]:
        """Ensemble sizes M that allow as many disjoint ensembles as MLPs have of the largest size."""
        batches = self.members // max(self.sizes)
        return tuple(m for m in self.sizes if self.members_of(architecture) // m >= batches)


PRESETS = presets(
    FiniteWidthSettings(),
    desk="tasks=ising,fashion_mnist lattice=6 train_spins=24 test_spins=48 train_images=24 test_images=48 "
    "widths=16,32,64,128,256,512 channels=4,8,16,32 group_channels=4,8,16 members=1024 cnn_members=384 "
    "group_members=16 steps=1,10,100",
    paper="tasks=ising,fashion_mnist lattice=8 train_spins=64 test_spins=128 pixels=14 train_images=64 "
    "test_images=128 widths=16,32,64,128,256,512,1024 channels=8,16,32,64,128 group_channels=4,8,16,32 members=2048 "
    "cnn_members=1024 group_members=32 sizes=1,2,4,8,16,32,64,128 steps=1,10,100,1000",
)


def width_name(architecture: str, width: int) -> str:
    """Label of a width: "width 16" for an MLP, "16 channels" for convolutional networks."""
    return f"width {width}" if architecture == "mlp" else f"{width} channels"


ISING = "ising"


@dataclass(frozen=True, eq=False)
class ImageProblem:
    """Training images with targets that rotations do not change, and test images."""

    title: str
    train: Float[np.ndarray, "n size size 1"]
    y: Float[np.ndarray, " n"]
    test: Float[np.ndarray, "m size size 1"]


def load_problem(settings: FiniteWidthSettings, name: str, data_dir: Path | None) -> ImageProblem:
    """The problem of one task. Raises DataNotFoundError or InvalidArgumentError for missing or wrong images."""
    if name == ISING:
        arrays = energy_task(settings.lattice, settings.train_spins, settings.test_spins, settings.seed)
        return ImageProblem("Ising energies", *arrays)
    s = settings
    images = load_images(Chosen(name, (), s.train_images, s.test_images, 0, s.pixels, s.seed), data_dir)
    wide = lambda x: x.astype(np.float64)
    return ImageProblem(
        images.titles["test"], wide(images.train_x), np.where(images.train_y % 2, 1.0, -1.0), wide(images.sets["test"])
    )


class FiniteWidthResults(Results):
    """`titles` of tasks; `fluctuation` A and `bias` B at infinite width; `changes` f(gx) − f(x) of members."""

    titles: dict[str, str]
    steps: np.ndarray
    fluctuation: Keyed[np.ndarray] = by("architecture task kind", "step")
    bias: Keyed[np.ndarray] = by("architecture task kind", "step")
    changes: Keyed[np.ndarray] = by("architecture task kind width", "step member value")

    def tasks(self, architecture: str) -> tuple[str, ...]:
        """The tasks of one architecture."""
        return tuple(dict.fromkeys(task for name, task, _ in self.fluctuation if name == architecture))

    def changes_of(self, *at: str | int, time: int) -> Float[np.ndarray, "members values"]:
        """f(gx) − f(x) of every member of an (architecture, task, kind, width)."""
        return self.changes[at][time].astype(np.float64)

    def excess(self, architecture: str, task: str, width: int, time: int) -> Float[np.ndarray, " members"]:
        """A(n)/A(∞) − 1 after complete augmentation, one sample a member.

        A(n) is the mean square change of members minus the square of their expected change.
        """
        d = self.changes_of(architecture, task, "complete", width, time=time)
        fluctuations = (d**2).mean(axis=1) - squared_mean(d).value
        return fluctuations / self.fluctuation[architecture, task, "complete"][time] - 1

    def label(self, architecture: str, task: str, width: int, t: int) -> str:
        """Label of a number."""
        return f"{self.titles[task]}, {width_name(architecture, width)}, {self.when(t)}"

    def when(self, time: int) -> str:
        """A recorded time."""
        return after(int(self.steps[time]))


def check_settings(settings: FiniteWidthSettings, data_dir: Path | None) -> None:
    """Require enough members for batches of the largest size, enough widths for a rate, and available images."""
    largest, tasks = max(settings.sizes), settings.tasks
    at_least(settings, lattice=3, pixels=4, hidden_layers=1, group_members=1)
    check(all(largest % m == 0 for m in settings.sizes), "sizes", settings.sizes, "divisors of the largest")
    check(settings.members >= 3 * largest, "members", settings.members, f"at least 3 times the largest size, {largest}")
    enough = len(settings.sizes_of("cnn")) >= 2
    check(enough, "cnn_members", settings.cnn_members, "enough for as many ensembles of two sizes as MLPs have")
    for name in ("widths", "channels"):
        value = getattr(settings, name)
        check(len(set(value)) == len(value) >= 3, name, value, "at least three different widths")
    check(len(settings.group_channels) >= 1, "group_channels", settings.group_channels, "a list of at least one width")
    distinct = len(tasks) == len(set(tasks)) >= 1 and not any(map(is_own, tasks))
    check(distinct, "tasks", tasks, 'a list of "ising" and known data sets, without repetitions')
    for name in tasks:
        load_problem(settings, name, data_dir)


def measure(settings: FiniteWidthSettings, folder: RunFolder) -> FiniteWidthResults:
    """Closed forms for all kinds of augmentation, then an ensemble per architecture, task, kind and width."""
    problems = {name: load_problem(settings, name, folder.data_dir) for name in settings.tasks}
    keys = [(a, task, kind) for task in problems for a, kinds in ARCHITECTURES.items() for kind in kinds]
    title = lambda a, task, kind: f"Infinite width, {NOUNS[a]}, {problems[task].title}{TITLES[kind]}"
    closed = measured(
        folder,
        Stages("infinite-{architecture}-{task}-{kind}", title, partial(_infinite, settings, problems)),
        levels={"architecture task kind": keys, "step": recorded_steps(settings)},
    )
    rates = closed.by("architecture task kind", "rate")
    trained = measured(
        folder,
        Stages(
            "trained-{architecture}-{task}-{kind}-{width}",
            lambda a, task, kind, width: (
                f"Training {settings.members_of(a)} {NOUNS[a]}, {width_name(a, width)}, {problems[task].title}"
                f"{TITLES[kind]}"
            ),
            partial(_ensemble, settings, folder, problems, rates),
        ),
        levels={"architecture task kind width": [(*key, n) for key in keys for n in settings.widths_of(key[0])]},
    )
    titles = {name: problem.title for name, problem in problems.items()}
    return FiniteWidthResults.read(closed | trained, titles=titles, steps=recorded_steps(settings))


def recorded_steps(settings: FiniteWidthSettings) -> np.ndarray:
    """Training steps at which changes are recorded."""
    return np.array(sorted(set(settings.steps)))


def network(settings: FiniteWidthSettings, architecture: str, width: int, problem: ImageProblem) -> nn.Sequential:
    """An MLP, a CNN on the torus with a dense readout of all positions, or a p4 network with global pooling."""
    scales: dict[str, Any] = {"W_std": settings.W_std, "b_std": settings.b_std}
    if architecture == "mlp":
        return networks.mlp(width, settings.hidden_layers, flatten=True, **scales)
    if architecture == "cnn":
        return networks.cnn(width, settings.hidden_layers, pooled=False, **scales)
    return networks.wallpaper_gcnn(problem.train.shape[1], width, settings.hidden_layers, **scales)


def _infinite(
    settings: FiniteWidthSettings,
    problems: Mapping[str, ImageProblem],
    architecture: str,
    task: str,
    kind: str,
    progress: Task,
) -> Arrays:
    problem = problems[task]
    net = network(settings, architecture, 1, problem)
    model = gradient_descent(net, problem.train, problem.y, settings.rate, augmentation=_AUGMENTED.get(kind))
    a, b = predicted_parts(model, actions.image_rotations(4), problem.test, recorded_steps(settings))
    return {"fluctuation": a, "bias": b, "rate": np.array(model.learning_rate)}


def _ensemble(
    settings: FiniteWidthSettings, folder: RunFolder, problems: Mapping[str, ImageProblem], rates: Keyed[float],
    architecture: str, task: str, kind: str, width: int, progress: Task,
) -> Arrays:  # fmt: skip
    """`changes` of every member of a trained ensemble."""
    action, problem = actions.image_rotations(4), problems[task]
    changes = lambda y: deviations(action, y[..., 0]).reshape(*y.shape[:2], -1)
    return train_to_last(
        folder.checkpoints(f"trained-{architecture}-{task}-{kind}-{width}"),
        network(settings, architecture, width, problem),
        problem.train,
        problem.y,
        progress,
        augmentation=_AUGMENTED.get(kind),
        members=settings.members_of(architecture),
        learning_rate=rates[architecture, task, kind],
        record={"test": problem.test},
        record_at=recorded_steps(settings),
        orbits=action,
        keep=lambda recorded: {"changes": changes(recorded["test"])},
        seed=_seed(settings, architecture, task, width, kind),
    )


def _seed(settings: FiniteWidthSettings, architecture: str, task: str, width: int, kind: str) -> int:
    """A seed for each ensemble; for MLPs on energies it depends only on width and kind."""
    entropy = [settings.seed, width, (*KINDS, "none").index(kind)]
    if (architecture, task) != ("mlp", ISING):
        entropy += [1 + list(ARCHITECTURES).index(architecture), *task.encode()]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


OPEN = "open question of arXiv 2403.03103"
EXACT_AT_ANY_WIDTH = "arXiv 2410.01452; the bound is our choice"
_inverse = partial(claim, covers="members", at_least=-1.25, at_most=-0.75)  # around the exponent −1 of theory
_ROUNDING = 1e-5  # single precision
_EXPONENTS = np.linspace(-3.0, -0.25, 551)  # that are tried; at 0 the second power would be the first of theory


def claims(settings: FiniteWidthSettings, results: FiniteWidthResults) -> Sequence[Claim]:
    """Six claims per architecture; one for group-convolutional networks."""
    of_ensembles = [one for name in ("mlp", "cnn") for one in architecture_claims(settings, results, name)]
    return [*of_ensembles, group_claim(settings, results)]


def leading_exponent(widths: np.ndarray, means: np.ndarray, errors: np.ndarray, level: float = 0.95) -> Estimate:
    """The exponent a of means = c n^a + c' n^(a−1), given the means' standard errors.

    Weighted least squares; the interval holds all a whose χ² exceeds the minimum by less than the χ² quantile of one
    degree of freedom. NaN if this holds for all a tried.
    """

    def misfit(a: float) -> float:
        powers = np.stack([widths**a, widths ** (a - 1)], axis=1) / errors[:, None]
        powers /= np.linalg.norm(powers, axis=0)
        factors = np.linalg.lstsq(powers, means / errors)[0]
        return float(((powers @ factors - means / errors) ** 2).sum())

    found = np.array([misfit(a) for a in _EXPONENTS])
    within = _EXPONENTS[found <= found.min() + scipy.stats.chi2.ppf(level, 1)]
    if within[0] == _EXPONENTS[0] or within[-1] == _EXPONENTS[-1]:
        return no_interval(np.nan, level)
    return Estimate(float(_EXPONENTS[found.argmin()]), float(within[0]), float(within[-1]), level)


def group_claim(settings: FiniteWidthSettings, results: FiniteWidthResults) -> Claim:
    """Exact at any width."""
    of = lambda task, width, t: float(np.abs(results.changes["gcnn", task, "none", width][t]).max())
    return exact(
        "Group-convolutional networks are invariant at every width, to rounding, without rotated copies and without "
        "averaging",
        Records.over(
            lambda **at: exactly(of(**at)),
            partial(results.label, "gcnn"),
            task=results.tasks("gcnn"),
            width=settings.widths_of("gcnn"),
            t=range(len(results.steps)),
        ),
        measure="Largest change of a prediction when its input is rotated, of any network and any test input, in units "
        "of the targets’ size.",
        at_most=_ROUNDING,
        by=identity("construction: lifting, convolutions on the group and the mean over it", stated="0"),
    )


def architecture_claims(settings: FiniteWidthSettings, results: FiniteWidthResults, architecture: str) -> list[Claim]:
    """No bias after complete augmentation, exponents in members and width, and the parts that theory gives."""
    tasks, times, widths = results.tasks(architecture), range(len(results.steps)), settings.widths_of(architecture)
    wide, middle, nouns, when = widths[-1], len(results.steps) // 2, NOUNS[architecture], results.when
    sizes = settings.sizes_of(architecture)
    chosen = tuple(m for m in sizes if settings.members_of(architecture) // m >= 32) or (min(sizes),)
    each, each_task = shared_level(len(tasks) * len(widths) * len(times)), shared_level(len(tasks))
    everywhere = {"task": tasks, "width": widths, "t": times}
    label, later = partial(results.label, architecture), lambda task: f"{results.titles[task]}, {when(middle)}"
    changes = lambda task, kind, width, t: results.changes_of(architecture, task, kind, width, time=t)
    excess = lambda task: [results.excess(architecture, task, width, middle) for width in widths]

    def left(task: str, width: int, t: int) -> Estimate:
        return bias_fraction(changes(task, "complete", width, t), confidence=each).times(100)

    def exponent(task: str, width: int, t: int) -> Estimate:
        squares = squares_of_means(changes(task, "complete", width, t), sizes)
        return power_law(np.array(sizes), squares, confidence=each)

    def leading(task: str) -> Estimate:
        means, errors = (np.array([of(s) for s in excess(task)]) for of in (np.mean, scipy.stats.sem))
        return leading_exponent(np.array(widths, float), means, errors, each_task)

    def total(task: str, kind: str, t: int, m: int) -> Estimate:
        squares = squares_of_means(changes(task, kind, wide, t), chosen)[:, chosen.index(m)]
        expected = results.fluctuation[architecture, task, kind][t] / m + results.bias[architecture, task, kind][t]
        level = shared_level(len(tasks) * len(KINDS) * len(times) * len(chosen))
        return bootstrap(squares, confidence=level).times(1 / expected)

    def remaining(pair: tuple[str, int]) -> Estimate:
        task, t = pair
        found = squared_mean(changes(task, "partial", wide, t), confidence=shared_level(len(tasks) * len(times)))
        scale = results.bias[architecture, task, "partial"][t]
        return found.times(1 / scale) if scale > 0 else no_interval(np.nan, found.confidence)

    half = lambda of, task: of[architecture, task, "partial"]
    every = [(task, t) for task in tasks for t in times]
    seen = [(task, t) for task, t in every if half(results.bias, task)[t] > half(results.fluctuation, task)[t] / 10]
    at_width = width_name(architecture, wide)
    return [
        claim(
            f"After complete augmentation at most 3 % of the mean square change of {nouns} survives averaging, at "
            "every width",
            Records.over(left, label, **everywhere),
            measure="Share of the members’ mean square change that averaging over infinitely many members would leave "
            "(unbiased, so it may come out negative).",
            covers="members",
            at_most=3,
            unit="%",
            by=proved(EXACT_AT_ANY_WIDTH, "arXiv 2410.01452, main theorem", "0"),
        ),
        claim(
            f"The violation of {nouns} falls as one over the square root of the number of members, at every width",
            Records.over(exponent, label, **everywhere),
            measure="Exponent of the root mean square change of M members against M, complete augmentation.",
            covers="disjoint batches of members",
            at_least=-0.6,
            at_most=-0.4,
            by=ours("theory of independent members; the bounds are our choice", stated="−1/2"),
        ),
        _inverse(
            f"Finite width’s effect on the violation of {nouns} falls as the inverse of the width",
            Records.over(
                lambda task: excess_exponent(np.array(widths), excess(task), confidence=each_task), later, task=tasks
            ),
            measure=f"Exponent of A(n)/A(∞) − 1 against width n {when(middle)}, complete augmentation; not a number "
            "where A(n) cannot be distinguished from A(∞) at some width.",
            by=ours(f"{OPEN}; theory of very wide networks has −1; the bounds are our choice", stated="−1"),
        ),
        claim(
            f"Of {nouns} at {at_width} incomplete augmentation leaves what the closed form says, to within a factor of "
            "1.25",
            Records.over(remaining, lambda pair: f"{results.titles[pair[0]]}, {when(pair[1])}", pair=seen or every),
            measure="B(n)/B(∞): mean square change of the mean of infinitely many members over the closed form’s, "
            "rotations by 180° only.",
            covers="members",
            at_least=0.8,
            at_most=1.25,
            by=ours(OPEN + "; the bounds are our choice"),
        ),
        claim(
            f"Of M {nouns} at {at_width} the mean square violation is A(∞)/M + B(∞), to within a third",
            Records.over(
                total,
                lambda task, kind, t, m: f"{results.titles[task]}{TITLES[kind]}, M = {m}, {when(t)}",
                task=tasks,
                kind=KINDS,
                t=times,
                m=chosen,
            ),
            measure="Mean square change of means of M members over that of the closed form.",
            covers="disjoint batches of members",
            at_least=0.75,
            at_most=1.33,
            by=ours(OPEN + "; the bounds are our choice"),
        ),
        order_claim({later(task): leading(task) for task in tasks}, nouns, when(middle)),
    ]


def order_claim(fits: Mapping[str, Estimate], nouns: str, when: str) -> Claim:
    """Whether the leading order of theory holds once the next order is subtracted."""
    return _inverse(
        f"Once the next order is taken out, finite width’s effect on the violation of {nouns} falls as the inverse of "
        "the width",
        fits,
        measure=f"Exponent a of A(n)/A(∞) − 1 = c nᵃ + c′ nᵃ⁻¹ {when}, complete augmentation.",
        by=ours(f"{OPEN}; theory of very wide networks has orders −1, −2, …; the bounds are our choice", stated="−1"),
    )


_COLOURS = {"mlp": palette.BLUE, "cnn": palette.ORANGE, "gcnn": palette.GREEN}


def present(settings: FiniteWidthSettings, results: FiniteWidthResults, folder: RunFolder) -> list[Shown]:
    """Single networks of every architecture."""
    last = len(results.steps) - 1
    with drawing.panels(
        folder,
        "architectures",
        titles=list(results.titles.values()),
        xlabel="width, or channels",
        ylabel="change of one network",
        sharey=True,
        caption=(
            "Single networks, before any averaging: root mean square change of their predictions under "
            "rotations, after the last step, with 95 % intervals over networks. MLPs and CNNs train on all "
            "four rotations; group-convolutional networks train on none, and change only by rounding."
        ),
        alt="Violation of single networks against width, by architecture",
    ) as drawn:
        for axes, task in zip(drawn, results.titles, strict=True):
            for name in NOUNS:
                widths = settings.widths_of(name)
                kind = ARCHITECTURES[name][0]
                squares = [(results.changes_of(name, task, kind, n, time=last) ** 2).mean(axis=1) for n in widths]
                values = [bootstrap(one[:, None], lambda means: np.sqrt(means[:, 0])) for one in squares]
                drawing.estimates(axes, widths, values, _COLOURS[name].light, label=NOUNS[name])
            drawing.logarithmic(axes, "both", sorted({*settings.widths, *settings.group_channels}), base=2)
    return [drawn.figure]


STUDY = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
