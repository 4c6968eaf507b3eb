"""Do the supports of filters decide whether augmented ensembles of finite networks are equivariant in the mean?

CNNs with windows that quarter turns carry to one another, and with windows that they do not, train on all turned
copies. Asked is how often the ensemble of M members predicts the same for all turns, and what is left of a member's
violation in the mean of infinitely many: nothing for the former at every width. The infinitely wide ensembles stand
beside them. The same is asked where training is random: in mini-batches of a random order, with dropout, and with batch
normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equitangents import actions, nn
from equitangents.extending import Network, check_installed
from equitangents.report import Figure, Table, palette, with_interval
from equitangents.statistics import Estimate, bootstrap, exactly, shared_level, surviving_share
from equitangents_studies.common.images import Chosen, Images, load_images
from equitangents_studies.common.infinite import gradient_descent, orbit_means
from equitangents_studies.common.networks import hidden
from equitangents_studies.common.orbits import deviations, relative_std, same_predictions
from equitangents_studies.common.scores import Trained, disjoint_scores, powers_of_two
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import EXACT, Claim, claim, identity, ours, proved, table, theirs
from equitangents_studies.framework.measured import Keyed, Measured, Part, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check_some, presets
from equitangents_studies.framework.works import BEYOND_THE_LIMIT as THEIRS
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE

GROUP = "C4"
SUPPORTS: dict[str, tuple[int, int]] = {"3×3": (3, 3), "3×2": (3, 2), "3×1": (3, 1)}
SYMMETRIC, *ASYMMETRIC = SUPPORTS
LEFT, ROUNDING = 0.02, 1e-8
RANDOM = {
    "mini-batches": "in mini-batches of a random order",
    "dropout": "with dropout",
    "batch-normalisation": "with batch normalisation",
}
_BATCH, _DROPOUT = 32, 0.2
_RATES = {"dropout": 0.05, "batch-normalisation": 0.002}  # of Flax's networks, below what is stable


@dataclass(frozen=True)
class Settings(Chosen):
    """For every support of filters `members` CNNs of
    `hidden_layers` layers of `channels` train for `steps` on all turned copies of `train_images`; `rate` is a fraction
    of the largest stable learning rate of infinite width, and `draws` infinitely wide ensembles are drawn of each size.
    `random`: of "mini-batches", "dropout" and "batch-normalisation", ways in which as many CNNs with filters of 3×3
    train besides, for a third as many epochs in batches of 32; the last two need Flax.
    """

    foreign: tuple[str, ...] = ("photographs",)
    train_images: int | None = 50
    test_images: int | None = 100
    foreign_images: int = 100
    channels: int = 8
    hidden_layers: int = 2
    members: int = 128
    steps: int = 60
    rate: float = 0.25
    output_std: float = 0.2
    draws: int = 400
    random: tuple[str, ...] = ("mini-batches",)


PRESETS = presets(
    Settings(),
    desk="pixels=10 members=1000 data=mnist foreign=cifar10 foreign_images=200 "
    "random=mini-batches,dropout,batch-normalisation",
    paper="train_images=500 test_images=1000 foreign_images=1000 channels=16 members=1000 steps=1000 data=mnist "
    "foreign=cifar10 random=mini-batches,dropout,batch-normalisation",
)


class Results(Measured):
    """`outputs` of networks, `limit` the mean of infinitely wide ones, `expected` their ensembles' agreement, mean and
    95 % range.
    """

    images: Images
    action: actions.Action
    sizes: tuple[int, ...]
    outputs: Keyed[np.ndarray] = by("support inputs", "member element image class", of="members.{inputs}")
    randomly: Keyed[np.ndarray] = by("random inputs", "member element image class", of="random.{inputs}")
    limit: Keyed[np.ndarray] = by("support inputs", "element image class", of="limit-{inputs}")
    expected: Keyed[np.ndarray] = by("support inputs", "size end", of="expected-{inputs}")

    def agreement(self, support: str, name: str, members: int) -> Trained:
        """Orbit same predictions of disjoint ensembles of `members`, and what infinite width expects of them."""
        labels = lambda groups: same_predictions(self.action, groups.mean(axis=1).argmax(axis=-1))
        expected, low, high = map(float, self.expected[support, name][self.sizes.index(members)])
        return Trained(disjoint_scores(self.outputs[support, name], members, labels), expected, low, high)

    def of_all(self, support: str, name: str) -> np.ndarray:
        """Orbit same predictions of the ensemble of all members, input by input."""
        return same_predictions(self.action, self.outputs[support, name].mean(axis=0).argmax(axis=-1))

    def left(self, support: str, name: str, level: float) -> Estimate:
        """(E d)² / E d², d a member's violation f(ρ(g)x) − f(x): what infinitely many members leave of it."""
        return self._left(self.outputs[support, name], level)

    def left_randomly(self, random: str, name: str, level: float) -> Estimate:
        """(E d)² / E d² over members whose training is random: what infinitely many of them leave of the violation."""
        return self._left(self.randomly[random, name], level)

    def _left(self, outputs: np.ndarray, level: float) -> Estimate:
        d = deviations(self.action, np.moveaxis(outputs, -1, 1).astype(np.float64))
        return surviving_share(d.reshape(len(d), -1), confidence=level)


def _relative_std(y: np.ndarray) -> float:
    return float(relative_std(np.moveaxis(y, -1, -2).reshape(len(y), -1)))


def network(settings: Settings, outputs: int, support: str, channels: int) -> nn.Sequential:
    """Convolutions on a torus with one support of filters, then all positions into one dense layer."""
    layers = hidden(settings.hidden_layers, lambda: nn.Conv(channels, SUPPORTS[support], W_std=2**0.5, b_std=0.1))
    return nn.Sequential(*layers, nn.Flatten(), nn.Dense(outputs, W_std=settings.output_std))


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Members enough for intervals, and images that are there."""
    at_least(settings, channels=1, hidden_layers=1, members=5, steps=1, draws=20, train_images=2)
    check_some("random", settings.random, RANDOM)
    if set(settings.random) - {"mini-batches"}:
        check_installed("flax", "studies", "the study admissible")
    load_images(settings, data_dir)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """For every support infinite width in closed form, then the networks."""
    images = load_images(settings, folder.data_dir)
    action = actions.as_action("group", GROUP, (1, *images.train_x.shape[1:]))
    sizes = tuple(powers_of_two(settings.members))
    levels = {"support": SUPPORTS, "inputs": tuple(images.sets), "size": sizes, "random": settings.random}
    wide = Part("infinite-{support}", "Infinite width, {support}", partial(_wide, settings, images, action, sizes))
    found = measured(folder, wide, levels=levels)
    rates = found.by("support", "rate")
    title = f"Training {settings.members} CNNs with filters of {{support}}"
    train = partial(_trained, settings, folder, images, action, rates)
    parts = [Part("members-{support}", title, train)]
    title, train = (
        f"Training {settings.members} CNNs: {{random}}",
        partial(_noisy, settings, folder, images, action, rates),
    )
    parts.append(Part("random-{random}", title, train))
    found |= measured(folder, *parts, levels=levels)
    return Results.read(found, images=images, action=action, sizes=sizes)


def _trained(
    settings: Settings, folder: RunFolder, images: Images, action: actions.Action, rates: Mapping[str, float],
    support: str, task: Task,
) -> Arrays:  # fmt: skip
    net = network(settings, images.classes, support, settings.channels)
    where = folder.checkpoints(f"members-{support}")
    return _members(settings, where, images, action, net, task, settings.steps, learning_rate=rates[support])


def _noisy(
    settings: Settings, folder: RunFolder, images: Images, action: actions.Action, rates: Mapping[str, float],
    random: str, task: Task,
) -> Arrays:  # fmt: skip
    """CNNs with filters of 3×3 whose training is random, by stochastic gradient descent."""
    net: Network = network(settings, images.classes, SYMMETRIC, settings.channels)
    rate = rates[SYMMETRIC]
    if random != "mini-batches":
        from equitangents_studies.common.noisy_cnn import NoisyCNN

        dropout = _DROPOUT if random == "dropout" else 0.0
        net = NoisyCNN(settings.channels, settings.hidden_layers, images.classes, dropout, not dropout)
        rate = _RATES[random]
    how = {"optimizer": "sgd", "batch_size": _BATCH, "learning_rate": rate}
    where = folder.checkpoints(f"random-{random}")
    return _members(settings, where, images, action, net, task, max(1, settings.steps // 3), **how)


def _members(
    settings: Settings,
    checkpoints: Path,
    images: Images,
    action: actions.Action,
    net: Network,
    task: Task,
    epochs: int,
    **how: Any,
) -> Arrays:
    return train_to_last(
        checkpoints,
        net,
        images.train_x,
        images.targets,
        task,
        augmentation=action,
        members=settings.members,
        record=images.sets,
        record_at=[epochs],
        orbits=action,
        keep=lambda recorded: {name: y[0].astype(np.float32) for name, y in recorded.items()},
        seed=settings.seed,
        **how,
    )


def _wide(
    settings: Settings, images: Images, action: actions.Action, sizes: Sequence[int], support: str, task: Task
) -> Arrays:
    x, time = images.train_x.astype(np.float64), float(settings.steps)
    net = network(settings, images.classes, support, 1)
    model = gradient_descent(net, x, images.targets, settings.rate, augmentation=action)
    arrays: Arrays = {"rate": np.array(model.learning_rate)}
    for i, (name, inputs) in enumerate(images.sets.items()):
        at = inputs.astype(np.float64)
        arrays[f"limit-{name}"] = orbit_means(model, action, at, np.array([time]))[0]
        found = model.orbit_statistics(action, at, list(sizes), time=time, draws=settings.draws, seed=settings.seed)
        arrays[f"expected-{name}"] = np.column_stack([found.osp.expected, found.osp.interval])
        task.step(i + 1, len(images.sets))
    return arrays


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """The source's comparison first, then what is left in the mean, then the identity behind both."""
    names, order = tuple(results.images.sets), results.action.group.order
    of = lambda support, name: f"{support}, {results.images.titles[name]}"
    level = shared_level(len(names))
    others = lambda name: np.mean([results.of_all(support, name) for support in ASYMMETRIC], axis=0)
    lead = {
        results.images.titles[n]: bootstrap(
            results.of_all(SYMMETRIC, n) - others(n), confidence=level, bounds=(1 - order, order - 1)
        )
        for n in names
    }
    kept, broken = ({of(s, n): results.left(s, n, level) for n in names} for s in (SYMMETRIC, ASYMMETRIC[-1]))
    randomly = {of(how, n): results.left_randomly(how, n, level) for how in settings.random for n in names}
    limits = {of(SYMMETRIC, n): exactly(_relative_std(results.limit[SYMMETRIC, n])) for n in names}
    members = f"{settings.members:,} networks of {settings.channels} channels"
    return [
        claim(
            "Ensembles with filters that quarter turns carry to one another predict the same over orbits more often",
            lead,
            measure=f"Orbit same predictions, of {order}, of the ensemble of all {members} with filters of 3×3 minus "
            "the mean of those with filters of 3×2 and 3×1, on the same inputs.",
            covers="inputs",
            at_least=0,
            by=theirs(
                f"{THEIRS}: 1,000 members, symmetric and asymmetric filters; the shapes of the asymmetric ones are "
                "ours",
                "experiments",
                "0.06 on MNIST (3.97 less 3.91), 0.21 on grey CIFAR-10 (3.86 less 3.65)",
            ),
        ),
        claim(
            f"Infinitely many networks with filters of 3×3 leave at most {100 * LEFT:g} % of a member’s violation",
            kept,
            measure="(E d)² / E d², with d = f(ρ(g)x) − f(x) of one trained network and E over networks; without bias.",
            covers="members",
            at_most=LEFT,
            by=proved(f"{THEIRS}: exactly 0 at every width; the bound is our choice", "theorem on finite width", "0"),
        ),
        *([_random_claim(settings, randomly)] if randomly else []),
        claim(
            f"Infinitely many networks with filters of {ASYMMETRIC[-1]} leave part of a member’s violation",
            broken,
            measure=f"The same share, with filters of {ASYMMETRIC[-1]}.",
            covers="members",
            at_least=1e-6,
            by=ours("theory: neither the initial law nor the kernel is invariant; the share is our question"),
        ),
        claim(
            "The mean of infinitely wide networks with filters of 3×3 is equivariant",
            limits,
            measure="Relative orbit standard deviation of the mean, in float64.",
            covers=EXACT,
            at_most=ROUNDING,
            by=identity("stated in arXiv 2403.03103 and an identity of the kernel"),
        ),
    ]


def _random_claim(settings: Settings, left: Mapping[str, Estimate]) -> Claim:
    ways = [RANDOM[random] for random in settings.random]
    said = ways[0] if len(ways) == 1 else f"{', '.join(ways[:-1])} or {ways[-1]}"
    return claim(
        f"Infinitely many networks with filters of 3×3 that train {said} leave at most {100 * LEFT:g} %",
        left,
        measure="The same share, of networks whose training is random.",
        covers="members",
        at_most=LEFT,
        by=ours(f"{THEIRS}: 0 in stochastic settings; dropout, batch normalisation and the bound are our choice"),
    )


_STATED = {"test": ("3.97", "3.91"), "cifar10": ("3.86", "3.65")}  # the source's, trained on MNIST
_COLOURS = (palette.BLUE, palette.ORANGE, palette.VERMILLION)


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Agreement against members, and the violation at finite and infinite width."""
    return [_agreement(results, folder), _beside(settings, results)]


def _agreement(results: Results, folder: RunFolder) -> Figure:
    order = results.action.group.order
    with drawing.panels(
        folder,
        "agreement-over-members",
        titles=[drawing.heading(title) for title in results.images.titles.values()],
        xlabel="members averaged, M",
        ylabel=f"orbit same predictions, of {order}",
        size=(7.4, 3.4),
        sharey=True,
        caption="Disjoint ensembles of M members, means, by the support of filters; dotted: what is expected of "
        "infinitely wide networks.",
        alt="Orbit same predictions against members, by support",
    ) as drawn:
        for axes, name in zip(drawn, results.images.titles, strict=True):
            for support, colour in zip(SUPPORTS, _COLOURS, strict=True):
                scores = [results.agreement(support, name, m).scores.mean() for m in results.sizes]
                axes.plot(results.sizes, scores, "o-", ms=3.5, color=colour.light, label=support)
                wide = results.expected[support, name][:, 0]
                axes.plot(results.sizes, wide, color=colour.light, lw=1.2, ls=(0, (2, 2)))
            axes.set_ylim(1, order * 1.005)
            drawing.logarithmic(axes, "x", results.sizes, base=2)
    return drawn.figure


def _beside(settings: Settings, results: Results) -> Table:
    """Orbit same predictions of all members, and the source's where the data are."""
    order, nothing, rows = results.action.group.order, ("", ""), []
    for name, title in results.images.titles.items():
        symmetric = results.of_all(SYMMETRIC, name)
        others = np.mean([results.of_all(support, name) for support in ASYMMETRIC], axis=0)
        found = [bootstrap(scores, bounds=(1, order)) for scores in (symmetric, others)]
        ours = [with_interval(e.value, e.interval) for e in found]
        stated = _STATED.get(name, nothing) if settings.data == "mnist" else nothing
        rows.append([title, *(cell for pair in zip(ours, stated, strict=True) for cell in pair)])
    header = ["inputs", SYMMETRIC, "the source’s symmetric", " and ".join(ASYMMETRIC), "the source’s asymmetric"]
    return table(
        f"Orbit same predictions, of {order}, of the ensemble of all {settings.members:,} networks, with 95 % "
        "intervals over inputs. The source’s are of 1,000 networks, and of asymmetric filters of other shapes.",
        header,
        rows,
    )


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (THEIRS, EMERGENT_EQUIVARIANCE), check_settings)
