"""From MLPs to group-convolutional networks: augmented data equal a symmetric architecture.

With full windows Θ^GCNN(f, f′) = (1/|G|) Σ_g Θ^MLP(f, ρ(g) f′). Claimed: the mean of an augmented ensemble of MLPs is
that of an ensemble of group-convolutional networks that see no augmentation, at all times, on and off the data.

Networks of finite width are trained by their kernels at initialisation, frozen, from zero output:

of one network θ      Θ_θ(x, x′) = Σ_μ ∂_μ f(x) ∂_μ f(x′)
symmetrised           (1/|G|) Σ_h Θ_θ(ρ(h)x, ρ(h)x′): the mean over the |G| networks x ↦ f(ρ(h)x; θ), as likely as θ
A network that starts at zero output has no prior variance: `.nngp` is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents import actions, kernels, nn
from equitangents.actions import Action
from equitangents.ensembles import InfiniteEnsemble
from equitangents.extending import ArrayLike, Params
from equitangents.inference import augment_inputs
from equitangents.kernels import Kernels
from equitangents.report import palette
from equitangents.statistics import Estimate, exactly, power_law, second_moment_share, shared_level
from equitangents_studies import data
from equitangents_studies.common import networks
from equitangents_studies.common.augmented_pairs import KINDS, AugmentedPair
from equitangents_studies.common.images import standardise
from equitangents_studies.common.infinite import largest_difference, unit_times
from equitangents_studies.common.orbits import SQUARE_GROUPS as GROUPS
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.framework.claims import Claim, Records, claim, exact, ours, proved, theirs, to_rounding
from equitangents_studies.framework.drawing import name_of
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets

NETWORKS = ("mlp", "gcnn")
SETS = ("training", "test", "photographs", "noise")


@dataclass(frozen=True)
class MlpToGcnnSettings:
    """`group` acts on the 8×8 digits of scikit-learn; `times` are in units of N/(η λ_max); `widths` are those of
    finite networks, `draws` how many of each; the widest `trained_widths` train for `steps` of gradient descent.
    The theorems are shown at all `depths` (hidden layers): for MLPs on all images, for CNNs on `depth_images` of each
    set, and for frozen kernels of one network of `depth_width` at `frozen_depths`. Sizes and times are our choice.
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
    depths: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
    depth_images: int = 8
    frozen_depths: tuple[int, ...] = (1, 3, 6)
    depth_width: int = 16
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0


PRESETS = presets(
    MlpToGcnnSettings(),
    desk="draws=16 members=200",
    paper="train_images=400 test_images=300 foreign_images=300 widths=16,32,64,128,256,512 draws=30 "
    "trained_widths=64,256,1024 members=500 steps=0,1,10,100,1000 depth_images=40 frozen_depths=1,2,3,4,5,6 "
    "depth_width=64",
)


def check_settings(settings: MlpToGcnnSettings, data_dir: Path | None) -> None:
    """Require a group that acts on digits and enough networks for intervals; the images ship with dependencies."""
    check(settings.group in GROUPS, "group", settings.group, "C4 or D4")
    at_least(settings, hidden_layers=1, draws=3, members=3)
    check(len(set(settings.widths)) >= 2, "widths", settings.widths, "at least two different widths")
    at_least(settings, depth_images=2, depth_width=1)
    for name in ("depths", "frozen_depths"):
        depths = getattr(settings, name)
        check(len(depths) >= 1 and min(depths) >= 1, name, depths, "a list of numbers of hidden layers, at least 1")


class MlpToGcnnResults(Results):
    """Distances between the two ensembles' predictions.

    `kernel_distance` is that of the NNGP and the NTK, `distance` and `without_augmentation` are those at infinite
    width; `exact` is that of frozen kernels with the same weights, `squares` the squared distance of frozen kernels of
    independent networks late in training on test images; `outputs` of trained networks. Fields that begin with `deep`
    are for every depth; `deep_exact` is `exact` at some depths.
    """

    times: np.ndarray
    kernel_distance: np.ndarray = by("", "kernel", of="infinite.kernel_distance")
    distance: np.ndarray = by("", "time inputs", of="infinite.distance")
    without_augmentation: np.ndarray = by("", "time inputs", of="infinite.without_augmentation")
    exact: np.ndarray = by("", "width time inputs", of="same-weights.same-weights")
    squares: np.ndarray = by("", "draw width", of="independent")
    outputs: Keyed[np.ndarray] = by("network trained inputs", "step member value", of="trained.{inputs}")
    deep_distance: Keyed[np.ndarray] = by("theorem depth", "time inputs", of="theorem.distance")
    deep_kernels: Keyed[np.ndarray] = by("theorem depth", "kernel", of="theorem.kernel_distance")
    deep_exact: Keyed[np.ndarray] = by("frozen", "time inputs", of="same-weights-depth.same-weights")

    def trained(self, width: int, step: int, name: str, level: float = 0.95) -> Estimate:
        """(E f^MLP − E f^GCNN)² over E (f^MLP)², for independent members that start at zero output."""
        plain, equivariant = (self.outputs[network, width, name][step] for network in NETWORKS)
        return second_moment_share(plain - equivariant, plain, confidence=level)


def recorded_steps(settings: MlpToGcnnSettings) -> list[int]:
    """Training steps at which networks are recorded, including 0."""
    return sorted({0, *settings.steps})


def trained_shares(
    settings: MlpToGcnnSettings, results: MlpToGcnnResults, widths: Sequence[int], level: float = 0.95
) -> Records:
    """Unbiased squared distance of the means of trained networks, as a share of the mean square prediction."""
    steps = recorded_steps(settings)
    return Records.over(
        lambda width, inputs, step: results.trained(width, steps.index(step), inputs, level),
        lambda width, inputs, step: f"after {step} steps, {inputs}",
        width=widths,
        inputs=SETS,
        step=[step for step in steps if step > 0],
    )


@dataclass(frozen=True, eq=False)
class FrozenKernel:
    """The empirical kernel of `net` with `params`."""

    net: nn.Sequential
    params: Params

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """Θ_θ in the precision of the parameters."""
        ntk = np.asarray(kernels.empirical(self.net, self.params, np.asarray(x1), x2), np.float64)
        return Kernels(nngp=np.zeros_like(ntk), ntk=ntk)


@dataclass(frozen=True, eq=False)
class SymmetrisedKernel:
    """The mean of the empirical kernels of the networks x ↦ f(ρ(h)x; θ), h ∈ G: invariant under `action`."""

    net: nn.Sequential
    params: Params
    action: Action

    def kernel(self, x1: ArrayLike, x2: ArrayLike | None = None) -> Kernels:
        """(1/|G|) Σ_h Θ_θ(ρ(h)x1, ρ(h)x2)."""
        x2 = x1 if x2 is None else x2
        one = FrozenKernel(self.net, self.params)
        order = self.action.group.order
        ntk = np.asarray(sum(one.kernel(self.action(h, x1), self.action(h, x2)).ntk for h in range(order)) / order)
        return Kernels(nngp=np.zeros_like(ntk), ntk=ntk)


def draw(net: nn.Sequential, shape: tuple[int, ...], seed: int, index: int) -> Params:
    """Parameters of network `index`, in float64."""
    return net.init(jax.random.fold_in(jax.random.key(seed), index), shape, "float64")


def image_action(settings: MlpToGcnnSettings) -> actions.Action:
    """The group on the 64 pixels of a digit, (N, 64, 1)."""
    images = GROUPS[settings.group]()
    table = images.position_table((8, 8))
    assert table is not None
    return actions.permutations(images.group, table)


def gcnn(settings: MlpToGcnnSettings, action: actions.Action, width: int, window: Any = "full") -> nn.Sequential:
    """The group-convolutional network with `window` on the group."""
    return networks.gcnn(
        action, width, settings.hidden_layers, window=window, W_std=settings.W_std, b_std=settings.b_std
    )


def plain(settings: MlpToGcnnSettings, width: int) -> nn.Sequential:
    """The MLP."""
    return networks.mlp(width, settings.hidden_layers, W_std=settings.W_std, b_std=settings.b_std, flatten=True)


def _data(settings: MlpToGcnnSettings) -> tuple[dict[str, np.ndarray], np.ndarray]:
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


def dense_pair(settings: MlpToGcnnSettings) -> AugmentedPair:
    """MLPs that see all copies, and group-convolutional networks with full windows that see none (Theorem 5.2)."""
    sets, y = _data(settings)
    action = image_action(settings)
    return AugmentedPair(partial(plain, settings), partial(gcnn, settings, action), action, sets, y)


def convolutional_pair(settings: MlpToGcnnSettings) -> AugmentedPair:
    """CNNs with 3×3 windows that see all copies, and networks on p4 or p4m that see none (Theorem 5.3)."""
    sets, y = _data(settings)
    few = settings.depth_images
    scales: dict[str, Any] = {"W_std": settings.W_std, "b_std": settings.b_std}
    return AugmentedPair(
        lambda width: networks.cnn(width, settings.hidden_layers, **scales),
        lambda width: networks.wallpaper_gcnn(
            8, width, settings.hidden_layers, reflections=settings.group == "D4", **scales
        ),
        GROUPS[settings.group](),
        {name: x[:few].reshape(-1, 8, 8, 1) for name, x in sets.items()},
        y[:few],
    )


_PAIRS = {"5.2": dense_pair, "5.3": convolutional_pair}  # by theorem

_LATE = 100.0  # kernels of narrow networks may be singular, so that training has no end


def measure(settings: MlpToGcnnSettings, folder: RunFolder) -> MlpToGcnnResults:
    """Infinite width at every depth; finite kernels with equal and with independent weights; trained networks."""
    pair, weights = dense_pair(settings), "Frozen kernels, {} weights, width "

    def deep(theorem: str, depth: int, task: Task) -> Arrays:
        return _PAIRS[theorem](replace(settings, hidden_layers=depth)).infinite(settings.times)

    def frozen(depth: int, task: Task) -> Arrays:
        at = replace(settings, hidden_layers=depth)
        return _exact(at, dense_pair(at), settings.depth_width, task)

    def training(name: str, width: int, task: Task) -> Arrays:
        checkpoints, kind = folder.checkpoints(f"trained-{name}-{width}"), KINDS[NETWORKS.index(name)]
        options: dict[str, Any] = {"members": settings.members, "fraction": settings.rate, "seed": settings.seed}
        return pair.training(checkpoints, kind, width, task, steps=recorded_steps(settings), **options)

    same, independent = (weights.format(which) for which in ("same", "independent"))
    found = measured(
        folder,
        Stages("infinite", "Infinite width, explicit augmentation", lambda task: pair.infinite(settings.times)),
        Stages("theorem-{theorem}-depth-{depth}", "Infinite width, theorem {theorem}, depth {depth}", deep),
        Stages("same-weights-depth-{frozen}", f"{same}{settings.depth_width}, depth {{frozen}}", frozen),
        Stages("same-weights-{width}", f"{same}{{width}}", partial(_exact, settings, pair)),
        Stages("independent-{width}", f"{independent}{{width}}", partial(_drawn, settings, pair)),
        Stages(
            "trained-{network}-{trained}",
            lambda name, width: f"Training {settings.members} networks of width {width}: {name}",
            training,
        ),
        levels={
            "theorem": tuple(_PAIRS),
            "depth": sorted(set(settings.depths)),
            "frozen": sorted(set(settings.frozen_depths)),
            "width": settings.widths,
            "network": NETWORKS,
            "trained": sorted(settings.trained_widths),
            "inputs": SETS,
            "step": recorded_steps(settings),
            "time": settings.times,
        },
    )
    return MlpToGcnnResults.read(found, times=np.array(settings.times))


def _exact(settings: MlpToGcnnSettings, pair: AugmentedPair, width: int, task: Task) -> Arrays:
    """Difference of a network's symmetrised kernel on augmented data from its orbit mean's kernel, (times, sets)."""
    net, action, x = pair.plain(width), pair.action, pair.sets["training"]
    params = draw(net, (64, 1), settings.seed, width)
    pooled = FrozenKernel(gcnn(settings, action, width, [action.group.identity]), networks.same_weights(params))

    def means(kernel: Any, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        model = InfiniteEnsemble(kernel, time=0.0).fit(x, y)
        times = unit_times(model, settings.times)
        return [model.predict(pair.sets[name], time=times) for name in SETS]

    copies = np.asarray(augment_inputs(action, x)), np.tile(pair.y, action.group.order)
    augmented = means(SymmetrisedKernel(net, params, action), *copies)
    task.step(1, 2)
    pairs = list(zip(augmented, means(pooled, x, pair.y), strict=True))
    times = range(len(settings.times))
    return {"same-weights": np.array([[largest_difference(a[t], b[t]) for a, b in pairs] for t in times])}


def _drawn(settings: MlpToGcnnSettings, pair: AugmentedPair, width: int, task: Task) -> Arrays:
    """Squared distance of late predictions on test images by frozen kernels of independent networks of both kinds."""
    squares = np.empty(settings.draws)
    net, equivariant = pair.plain(width), pair.equivariant(width)

    def mean(kernel: Any, augmentation: actions.Action | None) -> np.ndarray:
        model = InfiniteEnsemble(kernel, augmentation=augmentation, time=0.0).fit(pair.sets["training"], pair.y)
        return model.predict(pair.sets["test"], time=float(unit_times(model, [_LATE])[0]))

    for i in range(settings.draws):
        symmetrised = SymmetrisedKernel(net, draw(net, (64, 1), settings.seed + 1, i), pair.action)
        invariant = FrozenKernel(equivariant, draw(equivariant, (64, 1), settings.seed + 2, i))
        squares[i] = ((mean(symmetrised, pair.action) - mean(invariant, None)) ** 2).mean()
        task.step(i + 1, settings.draws)
    return {"independent": squares}


def claims(settings: MlpToGcnnSettings, results: MlpToGcnnResults) -> Sequence[Claim]:
    """The theorem at infinite width, its counterpart for frozen kernels, and its approach by trained networks."""
    wide, last, times = max(settings.trained_widths), max(settings.steps), range(len(results.times))
    steps = len([step for step in recorded_steps(settings) if step > 0])

    def at_infinite_width(table: np.ndarray, sets: Sequence[str]) -> Mapping[str, Estimate]:
        of = lambda t, name: exactly(float(table[t, SETS.index(name)]))
        label = lambda t, name: f"{name_of(results.times[t])}, {name}"
        return Records.over(of, label, t=times, name=sets).labelled()

    theorem, control = (
        at_infinite_width(results.distance, SETS),
        at_infinite_width(results.without_augmentation, ["test"]),
    )
    kernels = {f"{k} itself": exactly(v) for k, v in zip(("NNGP", "NTK"), results.kernel_distance, strict=True)}
    rate = power_law(np.array(settings.widths), results.squares, seed=settings.seed)
    shares = trained_shares(settings, results, [wide], shared_level(steps * len(SETS))).times(100)
    distance = "Largest difference of the two mean predictions relative to the largest prediction."
    return [
        to_rounding(
            "At infinite width augmented MLPs and group-convolutional networks have the same mean, to rounding, at all "
            "times, on and off the data",
            {**theorem, **kernels},
            measure=distance + " The augmented data are trained on explicitly.",
            by=proved(THEIRS, "Theorem 5.2", "equal"),
        ),
        exact(
            "Without augmentation the means of MLPs and of group-convolutional networks at infinite width differ on "
            "the test images, by more than 1 % of the largest prediction",
            control,
            measure=distance,
            at_least=0.01,
            by=ours("our control"),
        ),
        to_rounding(
            "Frozen kernels of an augmented MLP and of the group-convolutional network with its weights predict the "
            "same, to rounding",
            {
                f"width {width}": exactly(float(table.max()))
                for width, table in zip(settings.widths, results.exact, strict=True)
            },
            measure=distance + " Worst of all times and inputs, one network of every width. The MLP’s kernel is "
            "averaged over the group’s copies of its weights; the group-convolutional network has the window {e} on "
            "the group. Both start at zero output.",
            by=theirs(THEIRS, "review", "equal for single networks that start at zero output"),
        ),
        claim(
            "With independent weights the predictions from frozen kernels of augmented MLPs and of group-convolutional "
            "networks approach one another as one over the square root of the width",
            {"late in training, test": rate},
            measure="Exponent of the root mean square difference of predictions on test images against width; full "
            "windows on the group.",
            covers="draws of networks",
            at_least=-0.7,
            at_most=-0.3,
            by=ours("theory of kernels that fluctuate as 1/√width; the bounds are our choice", stated="−1/2"),
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
            by=ours("the theorem says 0 in the limit of width; the bound is our choice"),
        ),
        *by_depth_claims(settings, results),
    ]


def by_depth_claims(settings: MlpToGcnnSettings, results: MlpToGcnnResults) -> list[Claim]:
    """Both theorems at every depth that was solved, and frozen kernels of the same weights."""
    when = [name_of(time) for time in results.times]
    depths = lambda layers: f"{layers} hidden layer{'' if layers == 1 else 's'}"
    made = []
    for theorem, plain, windows in (("5.2", "MLPs", "full"), ("5.3", "CNNs", "3×3")):
        solved = [depth for name, depth in results.deep_distance if name == theorem]
        over = f"{min(solved)} to {max(solved)}" if len(solved) > 1 else str(min(solved))
        means = {
            f"{depths(depth)}, {when[t]}, {SETS[s]}": exactly(value)
            for depth in solved
            for (t, s), value in np.ndenumerate(results.deep_distance[theorem, depth])
        }
        kernels = {
            f"{depths(depth)}, {name} itself": exactly(value)
            for depth in solved
            for name, value in zip(("NNGP", "NTK"), results.deep_kernels[theorem, depth], strict=True)
        }
        made.append(
            to_rounding(
                f"At infinite width augmented {plain} and group-convolutional networks with {windows} windows have the "
                f"same mean and kernel, to rounding, with {over} hidden layers",
                {**means, **kernels},
                measure="Largest difference of the mean predictions relative to the largest prediction, at all times, "
                "on and off the data, and of the kernel from the orbit mean of the other; augmented data are trained "
                "on explicitly.",
                by=proved(THEIRS, f"Theorem {theorem}", "equal, at any depth"),
            )
        )
    if results.deep_exact:
        worst = {depths(depth): exactly(float(table.max())) for depth, table in results.deep_exact.items()}
        made.append(
            to_rounding(
                f"Frozen kernels of one augmented MLP of width {settings.depth_width} and of the group-convolutional "
                "network with its weights predict the same, to rounding, at several depths",
                worst,
                measure="Largest difference of the predictions relative to the largest one, worst of all times and "
                "inputs; otherwise as for the widths.",
                by=theirs(THEIRS, "review", "equal, at any depth"),
            )
        )
    return made


_COLOURS = dict(zip(SETS, (palette.BLUE, palette.GREEN, palette.ORANGE, palette.PURPLE), strict=True))


def present(settings: MlpToGcnnSettings, results: MlpToGcnnResults, folder: RunFolder) -> list[Shown]:
    """Distances in time."""
    place = drawing.places(results.times)
    with drawing.panels(
        folder,
        "difference-over-time",
        titles=("Infinite width", "Frozen kernels, worst of all widths"),
        ylabel="largest relative difference",
        sharey=True,
        caption="Largest difference between the mean predictions of augmented MLPs and of group-convolutional "
        "networks, relative to the largest prediction, over training time (in units of the fastest direction’s decay). "
        "Left in closed form, for MLPs without augmentation as well; right for the frozen kernels of single finite "
        "networks. At time ∞ all networks fit the labels and agree on training images.",
        alt="Difference of mean predictions against training time",
    ) as drawn:
        left, right = drawn
        for s, name in enumerate(SETS):
            colour = _COLOURS[name].light
            left.plot(place, results.without_augmentation[:, s], "o--", color=colour, lw=1)
            left.plot(place, results.distance[:, s], "o-", color=colour, label=name)
            right.plot(place, results.exact[:, :, s].max(axis=0), "o-", color=colour)
        left.plot([], [], "o--", color=palette.INK.light, lw=1, label="without augmentation")
        for axes in drawn:
            drawing.time_ticks(axes, results.times)
        drawing.logarithmic(left, "y")
    return [drawn.figure]


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
