"""Beyond plain averaging: which ensembles are invariant, in expectation and as they grow.

With augmented data the law of a trained network is invariant, f(g·) ~ f, as long as everything random in its training
is. Then so is the expectation. An ensemble of M independent members approaches it as 1/√M; other ensembles need not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from equitangents import actions, ensembles
from equitangents.report import palette
from equitangents.statistics import Estimate, bias_fraction, bootstrap, exactly, power_law, shared_level
from equitangents_studies.common.ensembles import train_to_last
from equitangents_studies.common.infinite import largest_difference, squares_of_means
from equitangents_studies.common.ising_lattice import energy_task
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import deviations, orbit_batch
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.claims import Claim, Records, claim, exact, ours, proved
from equitangents_studies.framework.study import Arrays, NamedStage, RunFolder, Shown, Study, Task, check, presets

INDEPENDENT = {
    "plain": "plain averaging",
    "nngp": "Bayesian posterior (last layer)",
    "ntk": "random prior (NTK posterior)",
    "bagged": "bagging of inputs",
    "bagged-copies": "bagging of augmented copies",
}
CONTROL = {"unaugmented": "plain averaging, not augmented"}
TITLES = {**INDEPENDENT, **CONTROL}
CLOSED = {"posterior": "Bayesian posterior", "random-prior": "random prior"}


@dataclass(frozen=True)
class OtherEnsemblesSettings:
    """Ising energies on a torus under rotations by 90°; the data contain all four, except for the control.

    `noise` is the variance of the posteriors' noise; `members` are independent ones of each kind.
    """

    lattice: int = 4
    train_spins: int = 12
    test_spins: int = 24
    width: int = 128
    hidden_layers: int = 2
    members: int = 256
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16)
    steps: int = 100
    noise: float = 0.05
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0


PRESETS = presets(
    OtherEnsemblesSettings(),
    desk="lattice=6 train_spins=16 test_spins=32 members=1024 sizes=1,2,4,8,16,32",
    paper="lattice=8 train_spins=64 test_spins=64 width=512 members=2048 sizes=1,2,4,8,16,32,64 steps=300",
)


@dataclass(frozen=True, eq=False)
class OtherEnsemblesResults:
    """`closed[kind]` is the largest relative change of (mean, covariance) over orbits, in closed form; `changes[kind]`
    (M, values) are f(gx) − f(x) of independent members.
    """

    closed: dict[str, np.ndarray]
    changes: dict[str, np.ndarray]


def squares(settings: OtherEnsemblesSettings, results: OtherEnsemblesResults, kind: str) -> np.ndarray:
    """Mean square change of ensembles of every size of `sizes`, one row per independent batch."""
    return squares_of_means(results.changes[kind].astype(np.float64), settings.sizes)


def share(results: OtherEnsemblesResults, kind: str, level: float = 0.95) -> Estimate:
    """Share of the mean square change that remains in the limit of infinitely many independent members."""
    return bias_fraction(results.changes[kind].astype(np.float64), confidence=level)


def exponent(
    settings: OtherEnsemblesSettings, results: OtherEnsemblesResults, kind: str, level: float = 0.95
) -> Estimate:
    """The exponent of the root mean square change against the size of one ensemble."""
    return power_law(np.array(settings.sizes), squares(settings, results, kind), confidence=level)


_FEW = 8  # test inputs of the closed forms
_SEEDS = {  # added to the seed of the settings
    **{kind: i for i, kind in enumerate(INDEPENDENT)},
    **dict.fromkeys(CONTROL, 7),
}


@dataclass(frozen=True)
class CopyBootstrap(ensembles.Variation):
    """Bagging of the augmented data: N|G| of the N|G| pairs (g, i), drawn with replacement for every member."""

    def rows(self, key: jax.Array, samples: int, copies: int) -> np.ndarray:
        """Indices of the drawn pairs."""
        drawn = jax.random.randint(key, (samples * copies,), 0, samples * copies, dtype="int32")
        return np.asarray(drawn, np.int32)


def check_settings(settings: OtherEnsemblesSettings, data_dir: Path | None) -> None:
    """Require sizes that divide each other and enough members; the study reads no data."""
    largest = max(settings.sizes)
    check(len(settings.sizes) >= 3, "sizes", settings.sizes, "at least three")
    check(all(largest % m == 0 for m in settings.sizes), "sizes", settings.sizes, "divisors of the largest")
    enough = f"at least 3 times the largest size, {largest}"
    check(settings.members >= 3 * largest, "members", settings.members, enough)


def measure(settings: OtherEnsemblesSettings, folder: RunFolder) -> OtherEnsemblesResults:
    """Closed forms, and ensembles of independent members."""
    problem = _EnsembleProblem(settings)
    found = folder.stages(
        {
            "closed-forms": NamedStage("closed-forms", "Closed forms", partial(_closed, problem)),
            **{kind: _trained(problem, folder, kind) for kind in TITLES},
        }
    )
    changes = {kind: found[kind]["changes"] for kind in TITLES}
    return OtherEnsemblesResults(found["closed-forms"], changes)


class _EnsembleProblem:
    """Training and test spins, the group, the network, the learning rate and the training time."""

    def __init__(self, settings: OtherEnsemblesSettings) -> None:
        s = self.settings = settings
        self.train, self.y, self.test = energy_task(s.lattice, s.train_spins, s.test_spins, s.seed)
        self.few = self.test[:_FEW]
        self.action = actions.image_rotations(4)
        self.net = mlp(s.width, s.hidden_layers, W_std=s.W_std, b_std=s.b_std, flatten=True)

    @cached_property
    def plain(self) -> ensembles.InfiniteEnsemble:
        """The infinitely wide ensemble whose only randomness is its initialisation."""
        return ensembles.InfiniteEnsemble(self.net, augmentation=self.action, time=0.0).fit(self.train, self.y)

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.settings.rate * float(self.plain.max_learning_rate_)

    def changes(self, outputs: np.ndarray) -> np.ndarray:
        """f(gx) − f(x) from outputs (times, members, |G|, n): (times, members, values)."""
        found = deviations(self.action, outputs)
        return found.reshape(*found.shape[:2], -1)


def _closed(problem: _EnsembleProblem, task: Task) -> Arrays:
    """Largest change over orbits of mean and covariance, at the end of training."""
    s, net, action = problem.settings, problem.net, problem.action
    k = net.kernel(problem.train)
    ridge = lambda kernel: s.noise / float(np.mean(np.diagonal(np.asarray(kernel))))
    posterior = lambda net, kernel: ensembles.InfiniteEnsemble(
        net, augmentation=action, kernel="nngp", ridge=ridge(kernel)
    )
    models: dict[str, Any] = {
        "posterior": posterior(net, k.nngp),
        "random-prior": posterior(ensembles.TangentPrior(net), k.ntk),
    }
    fitted = {kind: model.fit(problem.train, problem.y) for kind, model in models.items()}
    arrays: Arrays = {}
    for i, (kind, model) in enumerate(fitted.items()):
        mean, covariance = model.predict(orbit_batch(action, problem.few), return_cov=True)
        orbit = mean.reshape(action.group.order, -1)
        same = np.einsum("gigj->gij", covariance.reshape(orbit.shape * 2))
        arrays[kind] = np.array([largest_difference(orbit, orbit[:1]), largest_difference(same, same[:1])])
        task.step(i + 1, len(fitted))
    return arrays


def _trained(problem: _EnsembleProblem, folder: RunFolder, kind: str) -> NamedStage:
    """Independent members after training."""
    s = problem.settings
    variations: dict[str, ensembles.Variation] = {
        "nngp": ensembles.NNGPPosterior(s.noise),
        "ntk": ensembles.NTKPosterior(s.noise),
        "bagged": ensembles.Bootstrap(),
        "bagged-copies": CopyBootstrap(),
    }
    options: dict[str, Any] = {"members": s.members, "learning_rate": problem.rate, "record_at": [s.steps]}

    def changes(recorded: Arrays) -> Arrays:
        return {"changes": problem.changes(recorded["test"][..., 0])[0]}

    train = partial(
        train_to_last,
        folder.checkpoints(kind),
        problem.net,
        problem.train,
        problem.y,
        augmentation=None if kind in CONTROL else problem.action,
        record={"test": problem.test},
        orbits=problem.action,
        keep=changes,
        variation=variations.get(kind),
        seed=s.seed + _SEEDS[kind],
        **options,
    )
    return NamedStage(kind, f"Training: {TITLES[kind]}", train)


OPEN = f"open question of {EMERGENT_EQUIVARIANCE}"


def claims(settings: OtherEnsemblesSettings, results: OtherEnsemblesResults) -> Sequence[Claim]:
    """The source's claims about plain averages; expectations, closed forms and growth of the other kinds."""
    s, kinds = settings, tuple(INDEPENDENT)
    title = lambda kind: TITLES[kind]
    of_members = partial(claim, covers="members", unit="%")

    def shares(*kinds: str) -> Records:
        level = shared_level(len(kinds))
        return Records.over(lambda kind: share(results, kind, level).times(100), title, kind=kinds)

    def exponents(*kinds: str) -> Records:
        level = shared_level(len(kinds))
        return Records.over(lambda kind: exponent(s, results, kind, level), title, kind=kinds)

    return [
        exact(
            "Bayesian posteriors and random priors are invariant at infinite width",
            Records.over(
                lambda kind, of: exactly(results.closed[kind][("mean", "covariance").index(of)]),
                lambda kind, of: f"{CLOSED[kind]}, {of}",
                kind=tuple(CLOSED),
                of=("mean", "covariance"),
            ),
            measure="Largest change over orbits of the mean, and of Σ(gx, gx′), relative to the largest entry.",
            at_most=1e-8,
            by=ours(OPEN),
        ),
        of_members(
            "The expectation over all that is random is invariant for every kind of ensemble, to within 4 % of one "
            "member’s mean square change",
            shares(*kinds),
            measure="Share of the mean square change of one member that averaging over infinitely many independent "
            "ones would leave (unbiased, so it may come out negative).",
            at_most=4,
            by=ours(OPEN + "; the bound is our choice"),
        ),
        claim(
            "The change of an ensemble falls about as one over the square root of the number of independent members",
            exponents(*kinds),
            measure="Exponent of the root mean square change of M members against M.",
            covers="batches of members",
            at_least=-0.6,
            at_most=-0.4,
            by=ours("expected of independent members; the bounds are our choice", stated="−1/2 (theory)"),
        ),
        of_members(
            "The mean of infinitely many plainly trained, augmented networks is invariant, to within 2 % of one’s mean "
            "square change",
            shares("plain"),
            measure="Share of the mean square change of one member that averaging over infinitely many of them would "
            "leave (unbiased, so it may come out negative).",
            at_most=2,
            by=proved(f"{EMERGENT_EQUIVARIANCE}; the bound is our choice", "theorem of emergent equivariance", "0 %"),
        ),
        of_members(
            "Without augmentation the mean of infinitely many networks is not invariant: more than 2 % of one’s mean "
            "square change survives",
            shares(*CONTROL),
            measure="The same share, of networks that saw every configuration in one orientation.",
            at_least=2,
            by=ours("our control; the bound is that of augmented networks"),
        ),
    ]


_COLOURS = (
    palette.INK,
    palette.BLUE,
    palette.PURPLE,
    palette.GREEN,
    palette.SKY,
    palette.VERMILLION,
)


def present(settings: OtherEnsemblesSettings, results: OtherEnsemblesResults, folder: RunFolder) -> list[Shown]:
    """The change of ensembles of every kind against their size, with 1/√M for comparison."""
    sizes = np.array(settings.sizes, dtype=float)
    with drawing.panels(
        folder,
        "change-against-size",
        size=(8.6, 4.2),
        xlabel="members",
        ylabel="change under rotations",
        caption="Root mean square change of an ensemble’s prediction under rotations by 90°, 180° and 270°, in units "
        "of the energies’ standard deviation, against its size, with 95 % intervals over independent ensembles. "
        "Dotted: one over the square root of the size, for comparison.",
        alt="Change under rotations against the size of ensembles",
    ) as drawn:
        axes = drawn[0]
        for k, (kind, label) in enumerate(TITLES.items()):
            values = [bootstrap(column, np.sqrt) for column in squares(settings, results, kind).T]
            drawing.estimates(axes, sizes * 1.012 ** (k - 3), values, _COLOURS[k].light, label=label)
        start = np.sqrt(squares(settings, results, "plain")[:, 0].mean())
        drawing.power(axes, sizes, 0.8 * start, -0.5, label="∝ 1/√size")
        drawing.logarithmic(axes, "both", settings.sizes, base=2, fine=True)
        drawn.legend(columns=3)
    return [drawn.figure]


STUDY = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
