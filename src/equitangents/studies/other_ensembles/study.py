"""Beyond plain averaging: which ensembles are invariant, in expectation and as they grow.

With augmented data the law of a trained network is invariant, f(g·) ~ f, as long as everything random in its training
is. Then so is the expectation. Whether one ensemble comes close to it is another question: independent members do as
1/√M, members of one run need not.
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
from equitangents.statistics import (
    Estimate,
    bootstrap,
    exactly,
    power_law,
    shared_level,
    surviving_share,
)
from equitangents.studies.common.dependent_ensembles import boosted, nested_means
from equitangents.studies.common.infinite import largest_difference, unit_times
from equitangents.studies.common.ising_lattice import energy_task
from equitangents.studies.common.networks import mlp
from equitangents.studies.common.orbit_spread import squares_of_means
from equitangents.studies.common.orbits import by_element, deviations, orbit_batch
from equitangents.studies.common.training import ensemble_stage
from equitangents.studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents.studies.framework.claims import EXACT, Claim, Records, claim
from equitangents.studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check

OPEN = "open question of arXiv 2403.03103"
INDEPENDENT = {
    "plain": "plain averaging",
    "nngp": "Bayesian posterior (last layer)",
    "ntk": "random prior (NTK posterior)",
    "bagged": "bagging of inputs",
    "bagged-copies": "bagging of augmented copies",
}
ONE_RUN = {"snapshots": "snapshots of one run", "boosted": "boosting"}
TITLES = {**INDEPENDENT, **ONE_RUN}
BAGGED = {kind: TITLES[kind] for kind in ("bagged", "bagged-copies")}
CLOSED = {"posterior": "Bayesian posterior", "random-prior": "random prior", **BAGGED}
DRAWS = 10  # independent sets of resampled copies
_FEW = 8  # test inputs of the closed forms


@dataclass(frozen=True)
class Settings:
    """Energies of the Ising model on a torus under turns by 90°, all four in the data.

    `noise` is the variance of the posteriors' noise; `sizes` are numbers of members, snapshots or stages; `members` are
    independent ones of each kind, `runs` those of snapshots and of boosting; snapshots are taken every `every` epochs
    of stochastic gradient descent; a boosting stage takes `stage_steps` of full-batch descent, with `shrinkage`.
    """

    lattice: int = 4
    train_spins: int = 12
    test_spins: int = 24
    width: int = 128
    hidden_layers: int = 2
    members: int = 256
    runs: int = 128
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16)
    steps: int = 100
    noise: float = 0.05
    every: int = 10
    batch: int = 8
    stage_steps: int = 10
    shrinkage: float = 0.5
    rate: float = 0.5
    resamples: int = 40
    W_std: float = 2**0.5
    b_std: float = 0.1
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "paper": Settings(
        lattice=8,
        train_spins=64,
        test_spins=64,
        width=512,
        members=2048,
        runs=512,
        sizes=(1, 2, 4, 8, 16, 32, 64),
        steps=300,
        resamples=200,
    ),
}


@dataclass(frozen=True)
class CopyBootstrap(ensembles.Variation):
    """Bagging of the augmented data: N|G| of the N|G| pairs (g, i), drawn with replacement for every member."""

    gathers = True

    def rows(self, key: jax.Array, samples: int, copies: int) -> np.ndarray:
        """Any rows."""
        drawn = jax.random.randint(key, (samples * copies,), 0, samples * copies, dtype="int32")
        return np.asarray(drawn, np.int32)


@dataclass(frozen=True, eq=False)
class Results:
    """`closed[kind]` is the largest relative change of (mean, covariance) over orbits, in closed form; `changes[kind]`
    are f(gx) − f(x): (M, values) of independent members, (sizes or stages, runs, values) of the kinds of one run.
    `broken` is that of the mean for `DRAWS` independent sets of resampled copies.
    """

    closed: dict[str, np.ndarray]
    changes: dict[str, np.ndarray]
    broken: np.ndarray


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Sizes that fit into one another, and enough members and runs; the study reads no data."""
    largest = max(settings.sizes)
    check(len(settings.sizes) >= 3, "sizes", settings.sizes, "at least three")
    check(all(largest % m == 0 for m in settings.sizes), "sizes", settings.sizes, "divisors of the largest")
    check(settings.members >= 3 * largest, "members", settings.members, f"at least 3 times the largest size, {largest}")
    at_least(settings, runs=3, resamples=2)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Closed forms, then ensembles of independent members, then those of one run."""
    problem = _Problem(settings)
    trained = (*INDEPENDENT, "snapshots")
    found = folder.stages(
        {
            "closed-forms": Stage("closed-forms", "Closed forms", partial(_closed, problem)),
            "copies": Stage("copies", "Bagging of augmented copies", partial(_copies, problem)),
            **{kind: _trained(problem, folder, kind) for kind in trained},
            "boosted": Stage("boosted", "Training: boosting", partial(_boosted, problem)),
        }
    )
    changes = {kind: found[kind]["changes"] for kind in (*trained, "boosted")}
    return Results(closed=found["closed-forms"], changes=changes, broken=found["copies"]["changes"])


class _Problem:
    """Spins to learn from and to test on, the group, the network, and how fast and how long it trains."""

    def __init__(self, settings: Settings) -> None:
        s = self.settings = settings
        self.train, self.y, self.test = energy_task(s.lattice, s.train_spins, s.test_spins, s.seed)
        self.few = self.test[:_FEW]
        self.action = actions.image_rotations(4)
        self.net = mlp(s.width, s.hidden_layers, W_std=s.W_std, b_std=s.b_std, flatten=True)

    @cached_property
    def plain(self) -> ensembles.InfiniteEnsemble:
        """The infinitely wide ensemble, which nothing but its initialisation makes random."""
        return ensembles.InfiniteEnsemble(self.net, augmentation=self.action, time=0.0).fit(self.train, self.y)

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.settings.rate * float(self.plain.max_learning_rate_)

    @property
    def late(self) -> float:
        """The time of the infinitely wide ensemble that corresponds to the end of training."""
        return float(unit_times(self.plain, [self.settings.steps])[0])

    def bagged_copies(self, seed: int) -> ensembles.BaggedInfiniteEnsemble:
        """Over resamples of the augmented copies: each is incomplete, and so is the mean over finitely many."""
        model = ensembles.InfiniteEnsemble(self.net, time=self.late)
        bagged = ensembles.BaggedInfiniteEnsemble(model, resamples=self.settings.resamples, seed=seed)
        return bagged.fit(orbit_batch(self.action, self.train), np.tile(self.y, self.action.group.order))

    def changes(self, outputs: np.ndarray) -> np.ndarray:
        """f(gx) − f(x) from outputs (times, members, |G|, n): (times, members, values)."""
        found = deviations(self.action, outputs)
        return found.reshape(*found.shape[:2], -1)


def _closed(problem: _Problem, task: Task) -> Arrays:
    """Largest change over orbits of mean and covariance, at the end of training (bagging: at a late time)."""
    s, net, action = problem.settings, problem.net, problem.action
    k = net.kernel(problem.train)
    ridge = lambda kernel: s.noise / float(np.mean(np.diagonal(np.asarray(kernel))))
    posterior = lambda net, kernel: ensembles.InfiniteEnsemble(
        net, augmentation=action, kernel="nngp", ridge=ridge(kernel)
    )
    late = ensembles.InfiniteEnsemble(net, augmentation=action, time=problem.late)
    models: dict[str, Any] = {
        "posterior": posterior(net, k.nngp),
        "random-prior": posterior(ensembles.tangent_prior(net), k.ntk),
        "bagged": ensembles.BaggedInfiniteEnsemble(late, resamples=s.resamples, seed=s.seed),
    }
    fitted = {kind: model.fit(problem.train, problem.y) for kind, model in models.items()}
    fitted["bagged-copies"] = problem.bagged_copies(s.seed)
    arrays: Arrays = {}
    for i, (kind, model) in enumerate(fitted.items()):
        mean, covariance = model.predict(orbit_batch(action, problem.few), return_cov=True)
        orbit = mean.reshape(action.group.order, -1)
        same = np.einsum("gigj->gij", covariance.reshape(orbit.shape * 2))
        arrays[kind] = np.array([largest_difference(orbit, orbit[:1]), largest_difference(same, same[:1])])
        task.step(i + 1, len(fitted))
    return arrays


def _copies(problem: _Problem, task: Task) -> Arrays:
    """Largest relative change of the mean over orbits, for independent sets of resamples."""
    changes = []
    for draw in range(DRAWS):
        seed = int(np.random.SeedSequence((problem.settings.seed, draw)).generate_state(1)[0])
        mean = problem.bagged_copies(seed).predict(orbit_batch(problem.action, problem.few))
        orbit = mean.reshape(problem.action.group.order, -1)
        changes.append(largest_difference(orbit, orbit[:1]))
        task.step(draw + 1, DRAWS)
    return {"changes": np.array(changes)}


def _trained(problem: _Problem, folder: RunFolder, kind: str) -> Stage:
    """Independent members after training, or the snapshots of every run."""
    s, rate = problem.settings, problem.rate
    variations: dict[str, ensembles.Variation] = {
        "nngp": ensembles.NNGPPosterior(s.noise),
        "ntk": ensembles.NTKPosterior(s.noise),
        "bagged": ensembles.Bootstrap(),
        "bagged-copies": CopyBootstrap(),
    }
    options: dict[str, Any] = {"members": s.members, "learning_rate": rate, "record_at": [s.steps]}
    if kind == "snapshots":
        taken = s.every * np.arange(1, max(s.sizes) + 1)
        options = {"members": s.runs, "learning_rate": 0.5 * rate, "record_at": taken}
        options |= {"optimizer": "sgd", "batch_size": s.batch}

    def changes(recorded: Arrays) -> Arrays:
        found = problem.changes(recorded["test"][..., 0])
        return {"changes": found if kind == "snapshots" else found[0]}

    return ensemble_stage(
        folder,
        kind,
        f"Training: {TITLES[kind]}",
        problem.net,
        problem.train,
        problem.y,
        augmentation=problem.action,
        record={"test": problem.test},
        orbits=problem.action,
        keep=changes,
        variation=variations.get(kind),
        seed=s.seed + list(TITLES).index(kind),
        **options,
    )


def _boosted(problem: _Problem, task: Task) -> Arrays:
    s, action = problem.settings, problem.action
    outputs = boosted(
        problem.net,
        orbit_batch(action, problem.train),
        np.tile(problem.y, action.group.order),
        orbit_batch(action, problem.test),
        runs=s.runs,
        stages=max(s.sizes),
        shrinkage=s.shrinkage,
        rate=problem.rate,
        steps=s.stage_steps,
        seed=s.seed,
        task=task,
    )
    return {"changes": problem.changes(by_element(action, outputs[..., None])[..., 0])}


def squares(settings: Settings, results: Results, kind: str) -> np.ndarray:
    """Mean square change of ensembles of every size of `sizes`, one row per independent batch or run."""
    changes = results.changes[kind].astype(np.float64)
    if kind == "boosted":
        return (changes[np.array(settings.sizes) - 1] ** 2).mean(axis=-1).T
    if kind == "snapshots":
        return nested_means(changes, settings.sizes)
    return squares_of_means(changes, settings.sizes)


def share(results: Results, kind: str, level: float = 0.95) -> Estimate:
    """Share of the mean square change that averaging ever more independent members or runs would leave."""
    changes = results.changes[kind].astype(np.float64)
    if kind == "snapshots":
        changes = changes.mean(axis=0)
    elif kind == "boosted":
        changes = changes[-1]
    return surviving_share(changes, level=level)


def exponent(settings: Settings, results: Results, kind: str, level: float = 0.95) -> Estimate:
    """Of the root mean square change against the size of one ensemble."""
    return power_law(np.array(settings.sizes), squares(settings, results, kind), level=level)


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Closed forms, expectations, and what growing an ensemble does."""
    closed = Records.over(
        lambda kind, of: exactly(results.closed[kind][("mean", "covariance").index(of)]),
        lambda kind, of: f"{CLOSED[kind]}, {of}",
        kind=("posterior", "random-prior", "bagged"),
        of=("mean", "covariance"),
    )
    title = lambda kind: TITLES[kind]
    all_kinds, several = shared_level(len(TITLES)), shared_level(len(INDEPENDENT))
    shares = Records.over(lambda kind: share(results, kind, all_kinds), title, kind=tuple(TITLES))
    exponents = Records.over(lambda kind: exponent(settings, results, kind, several), title, kind=tuple(INDEPENDENT))
    broken = bootstrap(100 * results.broken)
    return [
        claim(
            "Bayesian posteriors, random priors and bagging of inputs are invariant at infinite width",
            closed,
            measure="Largest change over orbits of the mean, and of Σ(gx, gx′), relative to the largest entry. Bagging "
            f"of inputs: over the {settings.resamples} resamples drawn, each with all its copies.",
            covers=EXACT,
            at_most=1e-8,
            source=OPEN,
            holds="Choose among Bayesian posteriors, random priors and bagging of inputs by their error bars: in "
            "closed form none of them costs invariance.",
            fails="Some closed form that should be invariant is not: check it before relying on its symmetry.",
        ),
        claim(
            "Bagging of augmented copies is not invariant over finitely many resamples, not even at infinite width",
            {"": broken},
            measure=f"Largest relative change over orbits of the closed-form mean over {settings.resamples} resamples, "
            f"mean over {DRAWS} independent sets of them.",
            covers="sets of resamples",
            at_least=0.1,
            unit="%",
            source="expected; the bound is our choice",
            holds="To bag and stay invariant, resample inputs and keep all copies of each: resampled copies change "
            f"the mean by {broken.value:.2g} % over an orbit.",
            fails=f"Resampled copies change the mean by {broken.value:.2g} % only: they may be good enough.",
            undecided="Whether resampled copies change the mean by 0.1 % or more is not decided; resampled inputs "
            "with all their copies are the safer choice.",
        ),
        claim(
            "The expectation over all that is random is invariant for every kind of ensemble, to within 4 % of one "
            "member’s or run’s mean square change",
            shares.times(100),
            measure="Share of the mean square change of one member (or run) that averaging over ever more independent "
            "ones would leave (unbiased, so it may come out negative).",
            covers="members or runs",
            at_most=4,
            unit="%",
            source=OPEN + "; the bound is our choice",
            holds="Every kind of ensemble tried becomes invariant, to within 4 % at least, by averaging "
            "independent members or runs.",
            fails="Some kind of ensemble does not become invariant however many independent members or runs are "
            "averaged: see its share left in expectation below.",
            undecided="Whether every kind becomes invariant by averaging independent members or runs is not "
            "decided to within 4 %: train more of them to tell.",
        ),
        claim(
            "The change of an ensemble falls about as one over the square root of the number of independent members",
            exponents,
            measure="Exponent of the root mean square change of M members against M.",
            covers="batches of members",
            at_least=-0.6,
            at_most=-0.4,
            source="expected of independent members; the bounds are our choice",
            stated="−1/2",
            holds="Four times as many independent members about halve the change under rotations, whatever kind "
            "of ensemble they form.",
            fails="Not every ensemble of independent members gains as the square root of their number: measure the "
            "kind that is to be used.",
            undecided="How fast every kind of independent members gains is not measured well enough to plan their "
            "number: train more.",
        ),
        _one_run(settings, results, "snapshots", "snapshots"),
        _one_run(settings, results, "boosted", "boosting stages"),
    ]


def _one_run(settings: Settings, results: Results, kind: str, parts: str) -> Claim:
    """Whether growing an ensemble within one run leaves its violation where it is."""
    found = exponent(settings, results, kind)
    power = f"{found.value:.3f}".replace("-", "−")
    return claim(
        f"More {parts} of one run do not bring invariance: the change falls more slowly than their number to the power "
        "−0.2",
        {"": found},
        measure=f"Exponent of the root mean square change against the number of {parts} of one run.",
        covers="runs",
        at_least=-0.2,
        source=OPEN + "; the bound is our choice",
        holds=f"For invariance, average independent runs: with more {parts} of one, the change goes as their "
        f"number to the power {power}.",
        fails=f"More {parts} of one run do reduce the change, as their number to the power {power}: they can stand in "
        "for some independent runs.",
        undecided=f"Whether more {parts} of one run help is not decided; independent runs are the safer choice.",
    )


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
