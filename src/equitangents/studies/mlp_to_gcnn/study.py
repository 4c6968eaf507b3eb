"""From MLPs to group-convolutional networks: data augmentation of the one is architecture of the other.

With full windows Θ^GCNN(f, f′) = (1/|G|) Σ_g Θ^MLP(f, ρ(g) f′). Claimed: the mean of an augmented ensemble of MLPs is
that of an ensemble of group-convolutional networks that see no augmentation, at all times, on and off the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import actions, data, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.inference import augment_inputs
from equitangents.statistics import (
    Estimate,
    bootstrap,
    exactly,
    power_law,
    second_moment_share,
    shared_level,
)
from equitangents.studies.common import networks
from equitangents.studies.common.augmented_pairs import KINDS, AugmentedPair
from equitangents.studies.common.frozen_kernels import FrozenKernel, SymmetrisedKernel, draw
from equitangents.studies.common.images import standardise
from equitangents.studies.common.infinite import largest_difference, unit_times
from equitangents.studies.framework.citations import EQUIVARIANT_KERNELS
from equitangents.studies.framework.claims import EXACT, Claim, Records, claim
from equitangents.studies.framework.drawing import name_of
from equitangents.studies.framework.study import Arrays, RunFolder, Study, Task, at_least, check

STATED = "stated in arXiv 2406.06504"
SETS = ("training", "test", "photographs", "noise")
_GROUPS: dict[str, Callable[[], actions.Action]] = {
    "C4": partial(actions.image_rotations, 4),
    "D4": partial(actions.image_dihedral, 4),
}
_LATE = 100.0  # kernels of narrow networks may be singular, so that training has no end


@dataclass(frozen=True)
class Settings:
    """`group` acts on the 8×8 digits of scikit-learn; `times` are in units of N/(η λ_max); `widths` are those of
    finite networks, `draws` how many of each; the widest `trained_widths` train for `steps` of gradient descent.
    Sizes and times are our choice.
    """

    group: str = "D4"
    train_images: int = 40
    test_images: int = 40
    foreign_images: int = 20
    hidden_layers: int = 2
    times: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, float("inf"))
    widths: tuple[int, ...] = (8, 16, 32, 64, 128)
    draws: int = 8
    trained_widths: tuple[int, ...] = (16, 128)
    members: int = 64
    steps: tuple[int, ...] = (0, 1, 10, 100)
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "paper": Settings(
        train_images=400,
        test_images=300,
        foreign_images=300,
        widths=(16, 32, 64, 128, 256, 512),
        draws=30,
        trained_widths=(64, 256, 1024),
        members=500,
        steps=(0, 1, 10, 100, 1000),
    ),
}


@dataclass(frozen=True, eq=False)
class Results:
    """Distances between the two ensembles' predictions, and what they are distances of.

    `kernel_distance` (2,) is that of the NNGP and the NTK; `distance` and `without_augmentation` are (times, sets), at
    infinite width; `exact` (widths, times, sets) is that of frozen kernels with the same weights, `squares` (draws,
    widths) the squared distance of frozen kernels of independent networks late in training on test images;
    `trained[width]` (steps, sets) share of the mean square, as Estimates.
    """

    times: np.ndarray
    kernel_distance: np.ndarray
    distance: np.ndarray
    without_augmentation: np.ndarray
    std_ratio: np.ndarray
    exact: np.ndarray
    squares: np.ndarray
    differences: dict[int, dict[str, np.ndarray]]
    outputs: dict[int, dict[str, np.ndarray]]

    def trained(self, width: int, step: int, name: str, level: float = 0.95) -> Estimate:
        """(E f^MLP − E f^GCNN)² over E (f^MLP)², members independent and training at zero output."""
        return second_moment_share(self.differences[width][name][step], self.outputs[width][name][step], level=level)


def image_action(settings: Settings) -> actions.Action:
    """The group on the 64 pixels of a digit, (N, 64, 1)."""
    images = _GROUPS[settings.group]()
    table = images.position_table((8, 8))
    assert table is not None
    return actions.permutations(images.group, table)


def gcnn(settings: Settings, action: actions.Action, width: int, window: Any = "full") -> nn.Sequential:
    """The group-convolutional network; `window` is that of the convolutions on the group."""
    return networks.gcnn(
        action, width, settings.hidden_layers, window=window, W_std=settings.W_std, b_std=settings.b_std
    )


def plain(settings: Settings, width: int) -> nn.Sequential:
    """The MLP."""
    return networks.mlp(width, settings.hidden_layers, W_std=settings.W_std, b_std=settings.b_std, flatten=True)


def _data(settings: Settings) -> tuple[dict[str, np.ndarray], np.ndarray]:
    source = data.digits().subset(settings.train_images, settings.test_images, seed=settings.seed)
    shape, n = (8, 8, 1), settings.foreign_images
    images = {
        "training": source.train_x,
        "test": source.test_x,
        "photographs": data.photo_patches(n, shape, seed=settings.seed),
        "noise": data.gaussian_noise(n, shape, seed=settings.seed),
    }
    sets = {name: standardise(x).reshape(len(x), 64, 1).astype(np.float64) for name, x in images.items()}
    return sets, np.where(source.train_y % 2, 1.0, -1.0)


def _pair(settings: Settings) -> AugmentedPair:
    sets, y = _data(settings)
    action = image_action(settings)
    return AugmentedPair(partial(plain, settings), partial(gcnn, settings, action), action, sets, y)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """A group that acts on digits, networks enough for intervals; the images ship with dependencies."""
    check(settings.group in _GROUPS, "group", settings.group, "C4 or D4")
    at_least(settings, hidden_layers=1, draws=3, members=3)
    check(len(set(settings.widths)) >= 2, "widths", settings.widths, "at least two different widths")


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Infinite width, then finite kernels with the same and with independent weights, then trained networks."""
    pair = _pair(settings)
    infinite = folder.stage(
        "infinite", "Infinite width, explicit augmentation", lambda task: pair.infinite(settings.times)
    )
    exact = [
        folder.stage(f"same-weights-{w}", f"Frozen kernels, same weights, width {w}", partial(_exact, settings, w))
        for w in settings.widths
    ]
    drawn = [
        folder.stage(
            f"independent-{w}", f"Frozen kernels, independent weights, width {w}", partial(_drawn, settings, w)
        )
        for w in settings.widths
    ]
    differences, outputs = {}, {}
    for width in sorted(settings.trained_widths):
        both = [
            folder.stage(
                f"trained-{name}-{width}",
                f"Training {settings.members} networks of width {width}: {name}",
                partial(
                    pair.train, folder, f"trained-{name}-{width}", kind=kind, width=width, members=settings.members,
                    fraction=settings.rate, steps=recorded_steps(settings), seed=settings.seed,
                ),
            )
            for kind, name in zip(KINDS, ("mlp", "gcnn"), strict=True)
        ]  # fmt: skip
        differences[width] = {name: both[0][name] - both[1][name] for name in SETS}
        outputs[width] = {name: both[0][name] for name in SETS}
    return Results(
        times=np.array(settings.times),
        exact=np.stack([part["exact"] for part in exact]),
        squares=np.stack([part["squares"] for part in drawn], axis=1),
        differences=differences,
        outputs=outputs,
        **infinite,
    )


def recorded_steps(settings: Settings) -> list[int]:
    """When trained networks are recorded, initialisation included."""
    return sorted({0, *settings.steps})


def _frozen_means(kernel: Any, x: np.ndarray, y: np.ndarray, settings: Settings, tests: Sequence[np.ndarray]) -> Any:
    model = InfiniteEnsemble(kernel, time=0.0).fit(x, y)
    return [model.predict(test, time=unit_times(model, settings.times)) for test in tests]


def _exact(settings: Settings, width: int, task: Task) -> Arrays:
    """One network: its symmetrised kernel on augmented data, its orbit mean's kernel on the data; (times, sets)."""
    sets, y = _data(settings)
    action = image_action(settings)
    x, tests = sets["training"], [sets[name] for name in SETS]
    net = plain(settings, width)
    params = draw(net, (64, 1), settings.seed, width)
    symmetrised = SymmetrisedKernel(net, params, action)
    pooled = FrozenKernel(gcnn(settings, action, width, [action.group.identity]), networks.same_weights(params))
    augmented = _frozen_means(symmetrised, augment_inputs(action, x), np.tile(y, action.group.order), settings, tests)
    task.step(1, 2)
    convolutional = _frozen_means(pooled, x, y, settings, tests)
    pairs = list(zip(augmented, convolutional, strict=True))
    return {"exact": np.array([[largest_difference(a[t], b[t]) for a, b in pairs] for t in range(len(settings.times))])}


def _drawn(settings: Settings, width: int, task: Task) -> Arrays:
    """Independent networks of either kind: squared distance of late predictions by frozen kernels, test images."""
    sets, y = _data(settings)
    action = image_action(settings)
    x, test = sets["training"], sets["test"]
    squares = np.empty(settings.draws)
    net, equivariant = plain(settings, width), gcnn(settings, action, width)
    for i in range(settings.draws):
        symmetrised = SymmetrisedKernel(net, draw(net, (64, 1), settings.seed + 1, i), action)
        invariant = FrozenKernel(equivariant, draw(equivariant, (64, 1), settings.seed + 2, i))
        means = []
        for kernel, augmentation in ((symmetrised, action), (invariant, None)):
            model = InfiniteEnsemble(kernel, augmentation=augmentation, time=0.0).fit(x, y)
            means.append(model.predict(test, time=float(unit_times(model, [_LATE])[0])))
        squares[i] = ((means[0] - means[1]) ** 2).mean()
        task.step(i + 1, settings.draws)
    return {"squares": squares}


def trained_shares(settings: Settings, results: Results, widths: Sequence[int], level: float = 0.95) -> Records:
    """Unbiased squared distance of the means of trained networks, as a share of the mean square prediction."""
    steps = recorded_steps(settings)
    return Records.over(
        lambda width, inputs, step: results.trained(width, steps.index(step), inputs, level),
        width=widths,
        inputs=SETS,
        step=[step for step in steps if step > 0],
    )


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The theorem at infinite width, its counterpart for frozen kernels, and how trained networks approach it."""
    wide, last, times = max(settings.trained_widths), max(settings.steps), range(len(results.times))
    when = [name_of(time) for time in results.times]
    sets = range(len(SETS))
    steps = len([step for step in recorded_steps(settings) if step > 0])

    words = lambda t, s: f"{when[t]}, {SETS[s]}"
    theorem = Records.over(lambda t, s: exactly(float(results.distance[t, s])), words, t=times, s=sets).labelled()
    kernels = {f"{k} itself": exactly(v) for k, v in zip(("NNGP", "NTK"), results.kernel_distance, strict=True)}
    control = Records.over(
        lambda t, s: exactly(float(results.without_augmentation[t, s])), words, t=times, s=[SETS.index("test")]
    )
    rate = power_law(np.array(settings.widths), results.squares, seed=settings.seed)
    trained = trained_shares(settings, results, [wide], shared_level(steps * len(SETS)))
    shares = {
        f"after {step} steps, {name}": e.times(100)
        for (_, name, step), e in zip(trained.rows, trained.estimates, strict=True)
    }
    largest = max(e.value for e in shares.values())
    distance = "Largest difference of the two mean predictions relative to the largest prediction."
    return [
        claim(
            "At infinite width augmented MLPs and group-convolutional networks have the same mean, to rounding, at all "
            "times, on and off the data",
            {**theorem, **kernels},
            measure=distance + " The augmented data are trained on explicitly.",
            covers=EXACT,
            at_most=1e-8,
            source=STATED + ", Theorem 5.2",
            stated="equal",
            holds="If only the mean of very wide networks matters, choose by cost: an MLP that sees every "
            "rotation, or a group-convolutional network that sees one.",
            fails="Do not put a group-convolutional network in the place of an augmented MLP: here their means "
            "differ even at infinite width.",
        ),
        claim(
            "Without augmentation the means of MLPs and of group-convolutional networks at infinite width differ on "
            "the test images, by more than 1 % of the largest prediction",
            control,
            measure=distance,
            covers=EXACT,
            at_least=0.01,
            source="our control",
            holds="Augmentation matters on these data: an MLP that does without it predicts something else.",
            fails="On these data augmentation hardly matters at some time, so that equal means say little: try "
            "other data.",
        ),
        claim(
            "Frozen kernels of an augmented MLP and of the group-convolutional network with its weights predict the "
            "same, to rounding",
            {"worst of all times and inputs": bootstrap(results.exact.max(axis=(1, 2)))},
            measure=distance + " Worst of all times and inputs, mean over networks, one of every width. The MLP’s "
            "kernel is averaged over the group’s copies of its weights; the group-convolutional network has the window "
            "{e} on the group. Both start at zero output.",
            covers="networks",
            at_most=1e-8,
            source=STATED + " in review",
            stated="equal",
            holds="Augmentation and architecture can be exchanged at finite width too, for networks that start at "
            "zero output and stay close to their initialisation.",
            fails="Augmentation and architecture cannot be exchanged for these finite networks, even with the "
            "same weights.",
            undecided="Whether augmentation and architecture can be exchanged at finite width is not decided: take "
            "more widths, at least five.",
        ),
        claim(
            "With independent weights the predictions from frozen kernels of augmented MLPs and of group-convolutional "
            "networks approach one another as the square root of the width",
            {"late in training, test": rate},
            measure="Exponent of the root mean square difference of predictions on test images against width; full "
            "windows on the group.",
            covers="draws of networks",
            at_least=-0.7,
            at_most=-0.3,
            source="theory of kernels that fluctuate as 1/√width; the bounds are our choice",
            stated="−1/2",
            holds="Four times the width roughly halves the difference between one network of each kind.",
            fails="Four times the width does not roughly halve the difference between one network of each kind: "
            "measure it at the width that is to be used.",
            undecided="How fast the difference between one network of each kind falls with the width is not "
            "decided: more draws would tell.",
        ),
        claim(
            f"Trained MLPs and group-convolutional networks of width {wide} that start at zero output have the same "
            f"mean up to step {last}, to within 5 % of the mean square prediction",
            shares,
            measure="Squared distance of the two means as a share of the mean square prediction of one MLP; free of "
            "the bias that a finite number of members brings, so it may come out negative.",
            covers="members",
            at_most=5,
            unit="%",
            source=STATED + " in review; the bound is our choice",
            stated="0 in the limit of width",
            holds=f"At width {wide} an ensemble of either kind can stand in for the mean of the other: the "
            f"largest estimate of the squared distance is {largest:.1f} %.",
            fails=f"At width {wide} the choice between augmentation and architecture changes the mean: the largest "
            f"estimate of the squared distance is {largest:.1f} %.",
            undecided=f"Whether either kind can stand in for the other at width {wide} is not decided: more "
            "members would tell.",
        ),
    ]


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EQUIVARIANT_KERNELS,), check_settings)
