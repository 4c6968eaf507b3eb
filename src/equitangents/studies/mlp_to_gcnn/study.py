"""From MLPs to group-convolutional networks: data augmentation of the one is architecture of the other.

With full windows Θ^GCNN(f, f′) = (1/|G|) Σ_g Θ^MLP(f, ρ(g) f′). Claimed: the mean of an augmented ensemble of MLPs is
that of an ensemble of group-convolutional networks that see no augmentation, at all times, on and off the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from equitangents import actions, data, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.inference import augment_inputs
from equitangents.kernels import orbit_average
from equitangents.report.verdict import Verdict
from equitangents.statistics import Estimate, exactly, power_law, second_moment_share, shared_level
from equitangents.studies.common.frozen_kernels import FrozenKernel, SymmetrisedKernel, draw
from equitangents.studies.common.images import standardise
from equitangents.studies.common.infinite import largest_difference, unit_times
from equitangents.studies.common.networks import mlp
from equitangents.studies.common.training import train_recorded
from equitangents.studies.framework.citations import EQUIVARIANT_KERNELS
from equitangents.studies.framework.compatibility import Presentation, Study, judge
from equitangents.studies.framework.drawing import name_of
from equitangents.studies.framework.folder import Arrays, RunFolder
from equitangents.studies.framework.progress import Task
from equitangents.studies.framework.settings import check

STATED = "stated in arXiv 2406.06504"
SETS = ("training", "test", "photographs", "noise")
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
    turns = {"C4": actions.image_rotations(4), "D4": actions.image_dihedral(4)}
    check(settings.group in turns, "group", settings.group, "C4 or D4")
    images = turns[settings.group]
    table = images.position_table((8, 8))
    assert table is not None
    return actions.permutations(images.group, table)


def gcnn(settings: Settings, action: actions.Action, width: int, window: Any = "full") -> nn.Sequential:
    """Lift, group convolutions, group pooling: `window` is that of the convolutions on the group."""
    scale = {"W_std": settings.W_std, "b_std": settings.b_std}
    layers: list[nn.Layer] = [nn.Lift(action, width, "full", **scale), nn.Relu()]
    for _ in range(settings.hidden_layers - 1):
        layers += [nn.GroupConv(width, window, **scale), nn.Relu()]
    return nn.Sequential(*layers, nn.GroupPool(), nn.Dense(1, W_std=settings.W_std))


def plain(settings: Settings, width: int) -> nn.Sequential:
    """The MLP."""
    return mlp(width, settings.hidden_layers, W_std=settings.W_std, b_std=settings.b_std, flatten=True)


def same_weights(settings: Settings, params: Any) -> Any:
    """Parameters of the MLP in the places of a `gcnn` whose convolutions have the window {e}: it is the MLP's mean
    over the orbit, (1/|G|) Σ_g f(ρ(g)x; θ).
    """
    lift, dense, last = params[1], params[3:-1:2], params[-1]
    lifted = {**lift, "w": lift["w"][:, None, :]}
    convolutions = [part for p in dense for part in ({**p, "w": p["w"][None]}, ())]
    return (lifted, (), *convolutions, (), last)


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


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Infinite width, then finite kernels with the same and with independent weights, then trained networks."""
    check(settings.hidden_layers >= 1, "hidden_layers", settings.hidden_layers, "at least 1")
    check(settings.draws >= 3, "draws", settings.draws, "at least 3")
    check(len(set(settings.widths)) >= 2, "widths", settings.widths, "at least two different widths")
    check(settings.members >= 3, "members", settings.members, "at least 3")
    infinite = folder.stage("infinite", "Infinite width, explicit augmentation", lambda task: _infinite(settings))
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
                f"trained-{kind}-{width}",
                f"Training {settings.members} networks of width {width}: {kind}",
                partial(_train, settings, folder, kind, width),
            )
            for kind in ("mlp", "gcnn")
        ]
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


def _infinite(settings: Settings) -> Arrays:
    sets, y = _data(settings)
    action = image_action(settings)
    x, order = sets["training"], action.group.order
    dense, equivariant = plain(settings, 1), gcnn(settings, action, 1)
    # augmented by hand: no shortcut that rests on the theorem
    augmented = InfiniteEnsemble(dense).fit(augment_inputs(action, x), np.tile(y, order))
    convolutional = InfiniteEnsemble(equivariant).fit(x, y)
    bare = InfiniteEnsemble(dense).fit(x, y)
    times = unit_times(convolutional, settings.times)
    a, b = equivariant.kernel(x, sets["noise"]), orbit_average(dense, action).kernel(x, sets["noise"])
    predicted = {
        key: {name: model.predict(sets[name], time=times) for name in SETS}
        for key, model in (("augmented", augmented), ("convolutional", convolutional), ("bare", bare))
    }
    distance = lambda key: np.array(
        [
            [largest_difference(predicted[key][s][t], predicted["convolutional"][s][t]) for s in SETS]
            for t in range(len(times))
        ]
    )
    std = [model.predict(sets["test"], time=times, return_std=True)[1] for model in (augmented, convolutional)]
    return {
        "kernel_distance": np.array([largest_difference(a.nngp, b.nngp), largest_difference(a.ntk, b.ntk)]),
        "distance": distance("augmented"),
        "without_augmentation": distance("bare"),
        "std_ratio": np.median(std[0] / std[1], axis=1),
    }


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
    pooled = FrozenKernel(gcnn(settings, action, width, [action.group.identity]), same_weights(settings, params))
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


def _train(settings: Settings, folder: RunFolder, kind: str, width: int, task: Task) -> Arrays:
    """Members' outputs on every set, less those at initialisation: (steps, members, N)."""
    sets, y = _data(settings)
    action = image_action(settings)
    net = plain(settings, width) if kind == "mlp" else gcnn(settings, action, width)
    infinite = InfiniteEnsemble(gcnn(settings, action, 1), time=0.0).fit(sets["training"], y)
    steps = sorted({0, *settings.steps})
    recorded = train_recorded(
        net,
        sets["training"],
        y,
        augmentation=action if kind == "mlp" else None,
        members=settings.members,
        optimizer="gd",
        learning_rate=settings.rate * float(infinite.max_learning_rate_),
        epochs=steps[-1],
        record=sets,
        record_at=steps,
        checkpoints=folder.checkpoints(f"trained-{kind}-{width}"),
        task=task,
        seed=settings.seed + (kind == "gcnn"),
        zero_output=True,
    )
    return {name: recorded[name][..., 0].astype(np.float64) for name in SETS}


def claims(settings: Settings, results: Results) -> Sequence[Verdict]:
    """The theorem at infinite width, its counterpart for frozen kernels, and how trained networks approach it."""
    cells = [(t, s) for t in range(len(results.times)) for s in range(len(SETS))]
    label = lambda t, s: f"{name_of(results.times[t])}, {SETS[s]}"
    theorem = {label(t, s): exactly(results.distance[t, s]) for t, s in cells}
    theorem |= {f"{k} itself": exactly(v) for k, v in zip(("NNGP", "NTK"), results.kernel_distance, strict=True)}
    control = {label(t, s): exactly(results.without_augmentation[t, s]) for t, s in cells if SETS[s] == "test"}
    frozen = {
        f"width {width}, {label(t, s)}": exactly(results.exact[w, t, s])
        for w, width in enumerate(settings.widths)
        for t, s in cells
    }
    wide, last = max(settings.trained_widths), max(settings.steps)
    steps = [i for i, step in enumerate(sorted({0, *settings.steps})) if step > 0]
    level = shared_level(len(steps) * len(SETS))
    shares = {
        f"after {sorted({0, *settings.steps})[i]} steps, {name}": results.trained(wide, i, name, level).times(100)
        for i in steps
        for name in SETS
    }
    distance = "Largest difference of the two mean predictions relative to the largest prediction."
    return [
        judge(
            "At infinite width the augmented MLPs’ mean is the group-convolutional networks’, at all times, on and off "
            "the data",
            theorem,
            measure=distance + " The augmented data are trained on explicitly.",
            at_most=1e-8,
            source=STATED + ", Theorem 5.2",
        ),
        judge(
            "Without augmentation the two differ",
            control,
            measure=distance,
            at_least=0.01,
            source="our control",
        ),
        judge(
            "Frozen kernels of finite networks that start at zero output obey it too, at every width",
            frozen,
            measure=distance + " The MLP’s kernel is averaged over the group’s copies of its weights; the "
            "group-convolutional network has the same weights and the window {e} on the group.",
            at_most=1e-8,
            source=STATED + " in review",
        ),
        judge(
            "Frozen kernels with full windows and independent weights approach it as the square root of the width",
            {"": power_law(np.array(settings.widths), results.squares, seed=settings.seed)},
            measure="Exponent of the root mean square difference of predictions on test images against width.",
            at_least=-0.7,
            at_most=-0.3,
            source="expected of kernels that fluctuate as 1/√width; the bounds are our choice",
        ),
        judge(
            f"Trained networks of width {wide} that start at zero output have the same mean, up to step {last}",
            shares,
            measure="Squared distance of the two means as a share of the mean square prediction of one MLP; free of "
            "the bias that a finite number of members brings, so it may come out negative.",
            at_most=5,
            unit="%",
            source=STATED + " in review; the bound is our choice",
        ),
    ]


def _present(settings: Settings, results: Results, verdicts: Sequence[Verdict], folder: RunFolder) -> Presentation:
    from equitangents.studies.mlp_to_gcnn.page import present  # which imports from here

    return present(settings, results, verdicts, folder)


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, _present, (EQUIVARIANT_KERNELS,))
