"""Does infinite width predict the orbit same predictions of trained ensembles, for every size and width?

CNNs of growing width train by full-batch gradient descent on all rotated copies, the infinitely wide one on the same
images for as many steps in closed form. Claimed: the difference of their orbit same predictions shrinks with width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from equitangents import actions, nn
from equitangents.report import Figure, palette
from equitangents.statistics import Estimate, excess_exponent, shared_level
from equitangents_studies.baselines.networks import patch_cnn
from equitangents_studies.common.ensembles import train_to_last
from equitangents_studies.common.images import Chosen, Images, load_images
from equitangents_studies.common.infinite import gradient_descent
from equitangents_studies.common.orbits import same_predictions
from equitangents_studies.common.scores import (
    COVERS,
    SEVERAL,
    TrainedScores,
    disjoint_scores,
    mean_estimate,
    powers_of_two,
)
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE as THEIRS
from equitangents_studies.framework.claims import Claim, Records, after, claim, ours, theirs
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets

_PLACE = "experiments, stated in the limit of width"
_ORDER = (-1.25, -0.75)  # around the exponent −1 of perturbation theory


@dataclass(frozen=True)
class AgreementSettings(Chosen):
    """`widths` are channels of each of `hidden_layers` layers; `members` networks of each width make ensembles of 1, 2,
    4, …; `rate` is a fraction of the largest stable learning rate of infinite width, and `draws` ensembles are drawn
    from GP(μ, Σ/M). Ensembles of the widest networks may differ from infinite width by `tolerance`, a share of |G|.
    """

    group: Literal["C2", "C4", "D4"] = "C4"
    train_images: int | None = 50
    test_images: int | None = 100
    foreign_images: int = 100
    widths: tuple[int, ...] = (4, 8, 16, 32, 64)
    hidden_layers: int = 2
    members: int = 64
    steps: tuple[int, ...] = (10, 60)
    rate: float = 0.25
    output_std: float = 0.2
    draws: int = 1000
    tolerance: float = 0.05


PRESETS = presets(
    AgreementSettings(),
    desk="data=fashion_mnist foreign=mnist,cifar10,noise pixels=14 train_images=100 members=96 steps=10,100",
    paper="data=fashion_mnist foreign=mnist,cifar10,noise train_images=500 test_images=200 foreign_images=200 "
    "widths=16,32,64,128,256 hidden_layers=3 members=256 steps=10,100,1000",
)


class AgreementResults(Results):
    """`outputs` of networks, and the `predicted` agreement: mean and 95 % range."""

    images: Images
    action: actions.Action
    steps: tuple[int, ...]
    sizes: tuple[int, ...]
    outputs: Keyed[np.ndarray] = by("width inputs", "step member element image class", of="width.{inputs}")
    predicted: Keyed[np.ndarray] = by("inputs", "step size end", of="infinite.{inputs}")

    @property
    def widths(self) -> list[int]:
        """Channels of the networks, in increasing order."""
        return sorted({width for width, _ in self.outputs})

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest possible orbit same predictions."""
        return 1.0, float(self.action.group.order)

    def trained(self, width: int, name: str, step: int, members: int) -> TrainedScores:
        """Scores of ensembles of `members` networks of `width` after `step`, and the prediction."""
        t, m = self.steps.index(step), self.sizes.index(members)
        labels = lambda groups: same_predictions(self.action, groups.mean(axis=1).argmax(axis=-1))
        expected, low, high = map(float, self.predicted[name][t, m])
        return TrainedScores(disjoint_scores(self.outputs[width, name][t], members, labels), expected, low, high)

    def exponent(self, name: str, step: int, level: float = 0.95) -> Estimate:
        """a of |trained − expected| ∝ width^a, for single networks."""
        each = [self.trained(width, name, step, 1) for width in self.widths]
        return excess_exponent(np.array(self.widths, float), [t.scores - t.expected for t in each], confidence=level)


def network(settings: AgreementSettings, outputs: int, width: int) -> nn.Sequential:
    """Patches of 2×2, then 3×3 convolutions, all of one width."""
    return patch_cnn([width] * settings.hidden_layers, outputs, output_std=settings.output_std)


def check_settings(settings: AgreementSettings, data_dir: Path | None) -> None:
    """Require enough widths for an exponent, enough members for intervals, and available images."""
    at_least(settings, hidden_layers=1, members=5, draws=20, train_images=2)
    widths, steps = settings.widths, settings.steps
    check(len(set(widths)) == len(widths) >= 2, "widths", widths, "at least two different widths")
    check(len(steps) >= 1 and min(steps) >= 1, "steps", steps, "positive")
    check(0 < settings.tolerance < 1, "tolerance", settings.tolerance, "between 0 and 1")
    load_images(settings, data_dir)


def measure(settings: AgreementSettings, folder: RunFolder) -> AgreementResults:
    """Infinite width in closed form; then the networks, a stage for each width."""
    images = load_images(settings, folder.data_dir)
    action = actions.as_action("group", settings.group, (1, *images.train_x.shape[1:]))
    steps, sizes = tuple(sorted(set(settings.steps))), tuple(powers_of_two(settings.members))
    levels = {"width": sorted(settings.widths), "inputs": tuple(images.sets), "step": steps, "size": sizes}
    infinite = partial(_infinite, settings, images, action, steps, sizes)
    found = measured(folder, Stages("infinite", "Infinite width, closed form", infinite), levels=levels)
    train = partial(_trained, settings, folder, images, action, float(found.stage("infinite")["rate"]))
    title = f"Training {settings.members} CNNs of {{width}} channels"
    found |= measured(folder, Stages("width-{width}", title, train), levels=levels)
    return AgreementResults.read(found, images=images, action=action, steps=steps, sizes=sizes)


def _trained(
    settings: AgreementSettings,
    folder: RunFolder,
    images: Images,
    action: actions.Action,
    rate: float,
    width: int,
    task: Task,
) -> Arrays:
    return train_to_last(
        folder.checkpoints(f"width-{width}"),
        network(settings, images.classes, width),
        images.train_x,
        images.targets,
        task,
        augmentation=action,
        members=settings.members,
        learning_rate=rate,
        record=images.sets,
        record_at=sorted(set(settings.steps)),
        orbits=action,
        keep=lambda recorded: {name: y.astype(np.float32) for name, y in recorded.items()},
        seed=int(np.random.SeedSequence((settings.seed, width)).generate_state(1)[0]),
    )


def _infinite(
    settings: AgreementSettings,
    images: Images,
    action: actions.Action,
    steps: Sequence[int],
    sizes: Sequence[int],
    task: Task,
) -> Arrays:
    net = network(settings, images.classes, 1)
    x = images.train_x.astype(np.float64)
    model = gradient_descent(net, x, images.targets, settings.rate, augmentation=action)
    arrays: Arrays = {"rate": np.array(model.learning_rate)}
    for i, (name, inputs) in enumerate(images.sets.items()):
        rows = []
        for step in steps:
            found = model.orbit_statistics(
                action,
                inputs.astype(np.float64),
                list(sizes),
                time=float(step),
                draws=settings.draws,
                seed=settings.seed,
            ).osp
            rows.append(np.column_stack([found.expected, found.interval]))
        arrays[name] = np.stack(rows)
        task.step(i + 1, len(images.sets))
    return arrays


def _towards(results: AgreementResults, name: str, step: int, members: int, level: float) -> Estimate:
    """Size of the difference from the prediction at the smallest width minus that at the largest; independent ones."""
    ends = [
        results.trained(width, name, step, members).difference(results.bounds, level)
        for width in (results.widths[0], results.widths[-1])
    ]
    value = abs(ends[0].value) - abs(ends[1].value)
    arms = [(e.value - e.low, e.high - e.value)[:: 1 if e.value >= 0 else -1] for e in ends]
    return Estimate(
        value,
        value - float(np.hypot(arms[0][0], arms[1][1])),
        value + float(np.hypot(arms[0][1], arms[1][0])),
        level,
    )


def claims(settings: AgreementSettings, results: AgreementResults) -> Sequence[Claim]:
    """The difference shrinks with width, for single networks and ensembles; its exponent and remaining size."""
    names, order = tuple(results.images.sets), results.action.group.order
    last, widths = results.steps[-1], results.widths
    several = [m for m in results.sizes if settings.members // m >= SEVERAL] or [1]
    title = lambda name: results.images.titles[name]
    of_sizes = lambda name, m: f"{title(name)}, M = {m}"
    least, when = settings.tolerance * order, after(last)
    measure = f"Orbit same predictions, of {order}, of trained ensembles minus those that GP(μ, Σ/M) expects, {when}"
    exponents = Records.over(
        lambda name: results.exponent(name, last, shared_level(len(names))), lambda name: title(name), name=names
    )
    one = shared_level(len(names) * len(several))
    nearer = Records.over(lambda name, m: _towards(results, name, last, m, one), of_sizes, name=names, m=several)
    closer = mean_estimate([_towards(results, name, last, m, 0.95) for name in names for m in several])
    each = shared_level(len(names) * len(results.sizes))
    left = Records.over(
        lambda name, m: results.trained(widths[-1], name, last, m).difference(results.bounds, each),
        of_sizes,
        name=names,
        m=results.sizes,
    )
    every = mean_estimate([results.exponent(name, last) for name in names])
    of_slope = partial(
        claim,
        measure=f"Exponent a in |difference| ∝ width^a of single networks, widths {widths[0]} to {widths[-1]}, by "
        f"weighted least squares; trained minus expected {when}, on the same inputs.",
        covers="members",
        aggregate=(f"the mean over {len(names)} sets of inputs", every),
    )
    return [
        of_slope(
            "The orbit same predictions of single trained networks approach those of infinite width as the width grows",
            exponents,
            at_most=0,
            by=theirs(THEIRS, _PLACE),
        ),
        claim(
            f"Ensembles of {widths[-1]} channels are nearer to what theory expects than those of {widths[0]}",
            nearer,
            measure=f"{measure}: the narrowest networks’ difference less the widest’s, counted towards 0.",
            covers="ensembles of M networks",
            at_least=0,
            aggregate=(f"the mean over sets of inputs and M = {', '.join(map(str, several))}", closer),
            by=theirs(THEIRS, _PLACE),
        ),
        of_slope(
            "The difference of single trained networks from infinite width falls as the inverse of the width",
            exponents,
            at_least=_ORDER[0],
            at_most=_ORDER[1],
            by=ours(
                "theory: the leading order of expansions in the inverse width; the bounds are our choice", stated="−1"
            ),
        ),
        claim(
            f"Trained ensembles of {widths[-1]} channels agree with themselves as often as theory expects, whatever "
            f"their size, to within {100 * settings.tolerance:g} % of the group’s elements",
            left,
            measure=f"{measure}, for networks of {widths[-1]} channels.",
            covers=COVERS,
            at_least=-least,
            at_most=least,
            by=ours("ours: whether this width suffices to plan with"),
        ),
    ]


def present(settings: AgreementSettings, results: AgreementResults, folder: RunFolder) -> list[Shown]:
    """Trained and expected agreement, and the fall of their difference with width."""
    return [_over_members(results, folder)]


def _over_members(results: AgreementResults, folder: RunFolder) -> Figure:
    order, last = results.action.group.order, results.steps[-1]
    with drawing.panels(
        folder,
        "agreement-over-members",
        titles=[drawing.heading(title) for title in results.images.titles.values()],
        xlabel="members averaged, M",
        ylabel=f"orbit same predictions, of {order}",
        size=(8.6, 3.4),
        sharey=True,
        caption=(
            "Disjoint trained ensembles of M members after the last step, means with 95 % intervals where"
            " there are several, by width; dotted: what GP(μ, Σ/M) expects, with the range of 95 % of "
            "infinitely wide ensembles."
        ),
        alt="Orbit same predictions against members, trained and expected",
    ) as drawn:
        for axes, name in zip(drawn, results.images.titles, strict=True):
            expected = results.predicted[name][-1]
            axes.fill_between(
                results.sizes, expected[:, 1], expected[:, 2], color=palette.MUTED.light, alpha=0.25, lw=0
            )
            axes.plot(
                results.sizes, expected[:, 0], color=palette.INK.light, lw=1.4, ls=(0, (2, 2)), label="infinite width"
            )
            for width, colour in drawing.shades_of(results.widths):
                found = [results.trained(width, name, last, m) for m in results.sizes]
                sizes = [m for m, t in zip(results.sizes, found, strict=True) if len(t.scores) >= SEVERAL]
                axes.plot(
                    results.sizes,
                    [t.scores.mean() for t in found],
                    "o-",
                    ms=3.5,
                    color=colour,
                    label=f"{width} channels",
                )
                ends = [t.difference(results.bounds) for t in found[: len(sizes)]]
                low, high = (
                    [getattr(e, end) + t.expected for e, t in zip(ends, found, strict=False)] for end in ("low", "high")
                )
                axes.fill_between(sizes, low, high, color=colour, alpha=0.2, lw=0)
            axes.set_ylim(1, order * 1.005)
            drawing.logarithmic(axes, "x", results.sizes, base=2)
    return drawn.figure


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
