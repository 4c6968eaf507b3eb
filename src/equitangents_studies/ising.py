"""Energies of the two-dimensional Ising model, learned by MLP ensembles of growing width and by infinitely wide ones.

H = −J Σ⟨ij⟩ s_i s_j is invariant under rotations of the lattice by 90°. Claimed: with full augmentation the ensemble's
mean converges to the NTK's as the width grows, and the relative orbit standard deviation of M members falls as
GP(μ_t, Σ_t/M) predicts, on training, test and foreign spins, over training time.

We measure the distance between predictions of members and in closed form on whole orbits, and the relative orbit
standard deviation ‖std_g f‖ / ‖mean_g f‖, norms over the inputs of a set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import numpy as np

from equitangents import actions, nn
from equitangents.ensembles import InfiniteEnsemble, orbit_law
from equitangents.report import palette
from equitangents.statistics import (
    Estimate,
    excess_exponent,
    log_ratio,
    quotient_of_squared_means,
    second_moment_share,
    shared_level,
    t_interval,
)
from equitangents_studies.common import networks
from equitangents_studies.common.ensembles import train_to_last
from equitangents_studies.common.infinite import gradient_descent
from equitangents_studies.common.ising_lattice import energy, hot_spins, thermal_spins
from equitangents_studies.common.orbits import relative_std
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE as THEIRS
from equitangents_studies.framework.claims import Claim, Records, after, claim, ours, theirs
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets

SETS = ("training", "test", "foreign")
EVERY = 64  # up to this M a prediction is made for every M, beyond on a logarithmic scale


@dataclass(frozen=True)
class IsingSettings:
    """Training and test spins are independent (infinite temperature); foreign ones have `temperature`, in units of J.

    Near the critical 2.27 foreign spins are strongly aligned. `steps` are the times that are recorded; `groups` are
    ensemble sizes M; `members_at_once` bounds memory; `rate` is a fraction of the largest stable learning rate.
    Lattice size and sample counts are our choice.
    """

    lattice: int = 6
    coupling: float = 1.0
    train_spins: int = 24
    test_spins: int = 32
    temperature: float = 2.5
    widths: tuple[int, ...] = (64, 128, 256, 512)
    hidden_layers: int = 2
    members: int = 128
    members_at_once: int = 128
    groups: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    steps: tuple[int, ...] = (0, 1, 3, 10, 30, 100)
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.1
    gp_samples: int = 1000
    seed: int = 0


PRESETS = presets(
    IsingSettings(),
    desk="train_spins=32 widths=64,128,256,512,1024 members=768 members_at_once=96 gp_samples=2000",
    paper="lattice=8 train_spins=128 test_spins=128 widths=128,256,512,1024,2048 members=1000 members_at_once=125 "
    "groups=1,2,5,10,20,50,100 steps=0,1,2,5,10,20,50,100,200,500,1000 gp_samples=5000",
)


def check_settings(settings: IsingSettings, data_dir: Path | None) -> None:
    """Require the sizes that the statistics need; the study reads no data."""
    at_least(settings, lattice=3, members_at_once=3)
    check(settings.coupling != 0, "coupling", settings.coupling, "different from 0")
    groups, widths = settings.groups, settings.widths
    check(max(groups, default=0) <= settings.members, "groups", groups, "at most the number of members each")
    check(min(groups, default=0) == 1, "groups", groups, "with 1, which the others are compared with")
    check(len(set(widths)) == len(widths) >= 2, "widths", widths, "at least two different widths")
    check(max(settings.steps, default=0) > 0, "steps", settings.steps, "beyond 0")


def predicted_sizes(settings: IsingSettings) -> np.ndarray:
    """Every M up to 64, then about eight per doubling up to the largest of `groups`; all `groups` are included."""
    largest = max(settings.groups)
    beyond: Sequence[float] | np.ndarray = (
        np.round(np.geomspace(EVERY, largest, max(2, int(8 * np.log2(largest / EVERY))))) if largest > EVERY else []
    )
    return np.unique([*range(1, min(largest, EVERY) + 1), *map(int, beyond), *settings.groups])


def three_times(settings: IsingSettings) -> list[int]:
    """The first, a middle and the last recorded step of training."""
    trained = sorted(t for t in set(settings.steps) if t > 0)
    return sorted({trained[0], trained[len(trained) // 2], trained[-1]})


class IsingResults(Results):
    """Predicted energies, in units of their standard deviation, on orbits, by set of spins.

    `mean` is μ_t; `predicted` holds the relative orbit std of ensembles of each size of `groups` drawn
    from GP(μ_t, Σ_t/M), `curve` its 2.5 %, 50 % and 97.5 % quantiles for every M of `predicted_sizes`.
    """

    times: np.ndarray
    mean: Keyed[np.ndarray] = by("spins", "step element configuration", of="mean_{spins}")
    predicted: Keyed[np.ndarray] = by("spins", "step size draw", of="predicted_{spins}")
    members: Keyed[np.ndarray] = by("width spins", "step member element configuration")
    curve: Keyed[np.ndarray] = by("spins", "step members quantile", of="curve_{spins}")

    def at(self, step: int) -> int:
        """The index of a training step."""
        return int(np.flatnonzero(self.times == step)[0])

    def errors(self, width: int, name: str, time: int) -> np.ndarray:
        """f_m − μ on every point of every orbit: (M, |G|·N)."""
        outputs = self.members[width, name][time]
        return (outputs.astype(np.float64) - self.mean[name][time]).reshape(len(outputs), -1)


def measured_std(results: IsingResults, width: int, name: str, time: int, size: int) -> np.ndarray:
    """Relative orbit std of the mean of each disjoint group of `size` members."""
    y = results.members[width, name][time].astype(np.float64)
    groups = y[: len(y) // size * size].reshape(-1, size, *y.shape[1:]).mean(axis=1)
    return relative_std(groups)


def std_ratio(settings: IsingSettings, results: IsingResults, width: int, name: str, time: int, size: int) -> Estimate:
    """Measured over predicted relative orbit std of ensembles of `size`: geometric means over groups and draws."""
    measured = measured_std(results, width, name, time, size)
    predicted = results.predicted[name][time, settings.groups.index(size)]
    return log_ratio(measured, predicted)


def std_by_block(settings: IsingSettings, results: IsingResults, width: int, name: str, time: int) -> np.ndarray:
    """Mean log of the relative orbit std of ensembles of M within each block of max(M) members: (blocks, groups)."""
    y, largest = results.members[width, name][time].astype(np.float64), max(settings.groups)
    y = y[: len(y) // largest * largest].reshape(-1, largest, *y.shape[1:])

    def of(m: int) -> np.ndarray:
        parts = y[:, : largest // m * m].reshape(len(y), -1, m, *y.shape[2:]).mean(axis=2)
        return np.log(relative_std(parts)).mean(axis=1)

    return np.stack([of(m) for m in settings.groups], axis=1)


def overall_ratio(settings: IsingSettings, results: IsingResults, width: int, steps: Sequence[int]) -> Estimate:
    """`std_ratio`'s geometric mean over steps, sets and all M; the interval is over blocks of members."""
    cells = [(name, results.at(step)) for name in SETS for step in steps]
    measured = np.mean([std_by_block(settings, results, width, *cell).mean(axis=1) for cell in cells], axis=0)
    with np.errstate(divide="ignore"):  # a standard deviation of 0 has no ratio: NaN
        predicted = np.mean([np.log(results.predicted[name][time]).mean(axis=0) for name, time in cells], axis=0)
    return log_ratio(np.exp(measured), np.exp(predicted))


def falls(settings: IsingSettings, results: IsingResults, width: int, names: Sequence[str]) -> tuple[Estimate, float]:
    """Orbit standard deviation of the largest ensembles over that of single members after the last step, geometric mean
    over sets, with its interval over blocks of members; and the same ratio in closed form.
    """
    most, one = settings.groups.index(max(settings.groups)), settings.groups.index(min(settings.groups))
    change = lambda logs: logs[..., most] - logs[..., one]
    found = t_interval(np.mean([change(std_by_block(settings, results, width, name, -1)) for name in names], axis=0))
    predicted = [change(np.log(results.predicted[name][-1]).mean(axis=-1)) for name in names]
    value, low, high = (float(np.exp(end)) for end in (found.value, found.low, found.high))
    measured = Estimate(value, low, high, found.confidence)
    return measured, float(np.exp(np.mean(predicted)))


def share_left(results: IsingResults, width: int, time: int) -> Estimate:
    """Squared distance of the ensemble's mean to μ over the mean square prediction of one network, mean over sets."""
    outputs = {name: results.members[width, name][time].astype(np.float64) for name in SETS}
    sizes = {name: np.sqrt((y**2).mean()) for name, y in outputs.items()}
    joined = lambda of: np.concatenate([of(name) / sizes[name] for name in SETS], axis=1)
    errors = joined(lambda name: results.errors(width, name, time))
    return second_moment_share(errors, joined(lambda name: outputs[name].reshape(len(outputs[name]), -1)))


def distance_exponent(settings: IsingSettings, results: IsingResults, name: str) -> Estimate:
    """Exponent of the distance between the ensemble's mean and μ against width, after the last step.

    Weighted least squares on logarithms. Member m, at distance d_m from μ, contributes 2 d_m · (mean of the others' d)
    − U to the unbiased squared distance U of M members: mean and standard deviation are those of U (Hoeffding 1948).
    """
    widths, parts = sorted(settings.widths), []
    for width in widths:
        d = results.errors(width, name, -1)
        products = (d @ d.sum(axis=0) - (d**2).sum(axis=1)) / ((len(d) - 1) * d.shape[1])
        parts.append(2 * products - products.mean())
    return excess_exponent(np.array(widths, dtype=float), parts).times(0.5)


QUANTILES = (0.025, 0.5, 0.975)


def network(settings: IsingSettings, width: int) -> nn.Sequential:
    """The MLP that reads all spins at once."""
    return networks.mlp(width, settings.hidden_layers, W_std=settings.W_std, b_std=settings.b_std, flatten=True)


def _spins(settings: IsingSettings) -> dict[str, np.ndarray]:
    """Spins of every set as images (N, L, L, 1)."""
    rng = np.random.default_rng(settings.seed)
    size = settings.lattice
    return {
        "training": hot_spins(settings.train_spins, size, rng)[..., None],
        "test": hot_spins(settings.test_spins, size, rng)[..., None],
        "foreign": thermal_spins(settings.test_spins, size, settings.temperature, rng)[..., None],
    }


def targets(settings: IsingSettings, spins: np.ndarray) -> np.ndarray:
    """Energies in units of their standard deviation √2 |J| L at infinite temperature."""
    return energy(spins[..., 0], settings.coupling) / (np.sqrt(2) * abs(settings.coupling) * settings.lattice)


def measure(settings: IsingSettings, folder: RunFolder) -> IsingResults:
    """Solve the closed form and train an ensemble per width, at the same steps of full-batch gradient descent."""
    spins, times = _spins(settings), np.array(sorted({0, *settings.steps}))
    firsts = range(0, settings.members, settings.members_at_once)
    levels = {"width": sorted(settings.widths), "first": firsts, "spins": SETS, "step": times, "size": settings.groups}
    closed = Stages("infinite", "Infinite width, closed form", partial(_infinite, settings, spins, times))
    found = measured(folder, closed, levels=levels)
    rate = float(found.stage("infinite")["learning_rate"])
    title = lambda width, first: f"Training {_count(settings, first)} members of width {width}"
    train = partial(_members, settings, folder, spins, times, rate)
    trained = measured(folder, Stages("width-{width}-from-{first}", title, train), levels=levels)
    parts: dict[tuple[int, str], list[np.ndarray]] = {}
    for at, outputs in trained.arrays("{spins}"):
        parts.setdefault((at["width"], at["spins"]), []).append(outputs[..., 0])
    members = {key: np.concatenate(each, axis=1) for key, each in parts.items()}
    return IsingResults.read(found, times=times, members=members)


def _infinite(settings: IsingSettings, spins: dict[str, np.ndarray], times: np.ndarray, task: Task) -> Arrays:
    action, net = actions.image_rotations(4), network(settings, max(settings.widths))
    y = targets(settings, spins["training"])
    model = gradient_descent(net, spins["training"], y, settings.rate, augmentation=action)
    arrays: Arrays = {"learning_rate": np.array(float(model.learning_rate))}
    for i, name in enumerate(SETS):
        found = [_predicted_std(settings, action, model, spins[name], int(t)) for t in times]
        for k, key in enumerate(("mean", "predicted", "curve")):
            arrays[f"{key}_{name}"] = np.stack([parts[k] for parts in found])
        task.step(i + 1, len(SETS))
    return arrays


def _predicted_std(
    settings: IsingSettings, action: actions.Action, model: InfiniteEnsemble, x: np.ndarray, time: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """μ_t (|G|, N), relative orbit std of draws from GP(μ, Σ/M) for `groups`, and quantiles for every M."""
    key = jax.random.fold_in(jax.random.key(settings.seed + 1), time)
    law = orbit_law(model, action, x, draws=settings.gp_samples, key=key, time=float(time))
    stds = {int(m): relative_std(np.swapaxes(law.ensembles(int(m))[..., 0], 1, 2)) for m in predicted_sizes(settings)}
    quantiles = np.stack([np.quantile(values, QUANTILES) for values in stds.values()])
    return law.mean[..., 0].T, np.stack([stds[m] for m in settings.groups]), quantiles


def _count(settings: IsingSettings, first: int) -> int:
    """Number of members that train together, starting with member `first`."""
    return min(settings.members_at_once, settings.members - first)


def _members(
    settings: IsingSettings, folder: RunFolder, spins: dict[str, np.ndarray], times: np.ndarray, rate: float,
    width: int, first: int, task: Task,
) -> Arrays:  # fmt: skip
    """Outputs of some members by set of spins, (T, members, |G|, N, 1)."""
    action = actions.image_rotations(4)
    return train_to_last(
        folder.checkpoints(f"width-{width}-from-{first}"),
        network(settings, width),
        spins["training"],
        targets(settings, spins["training"]),
        task,
        augmentation=action,
        members=_count(settings, first),
        learning_rate=rate,
        record=spins,
        record_at=times,
        orbits=action,
        seed=int(np.random.SeedSequence((settings.seed, width, first)).generate_state(1)[0]),
    )


_WIDTHS = "experiments, Ising model: mean predictions against the NTK’s"
_SPREAD = "experiments, Ising model: relative orbit standard deviation"
_ENOUGH = 30  # disjoint groups of M members that an interval for M needs


def claims(settings: IsingSettings, results: IsingResults) -> Sequence[Claim]:
    """The source's four claims, and the rate at which the means approach each other."""
    return [*_means(settings, results), *_orbit_stds(settings, results), _rate(settings, results)]


def _means(settings: IsingSettings, results: IsingResults) -> list[Claim]:
    narrow, wide = min(settings.widths), max(settings.widths)
    trained = [t for t in settings.steps if t > 0]
    late = trained[-2:]

    def decrease(step: int, name: str) -> Estimate:
        of = lambda width: results.errors(width, name, results.at(step))
        return quotient_of_squared_means(of(wide), of(narrow), confidence=shared_level(len(late)))

    def left(step: int, name: str) -> Estimate:
        outputs = results.members[wide, name][results.at(step)].reshape(settings.members, -1)
        return second_moment_share(results.errors(wide, name, results.at(step)), outputs).times(100)

    return [
        claim(
            "The ensemble’s mean approaches the NTK’s as the width grows",
            Records.over(decrease, label=_label, step=late, name=("training",)),
            measure=f"Squared distance between the two means at width {wide}, divided by that at width {narrow}; free "
            "of the bias that a finite number of members brings.",
            covers="members",
            at_most=0.5,
            by=theirs(f"{THEIRS}; the bound is our choice", _WIDTHS),
        ),
        claim(
            f"At width {wide} the ensemble’s mean is the NTK’s, to within 5 % of the mean square prediction",
            Records.over(left, label=_label, step=trained, name=SETS),
            aggregate=("the mean over sets after the last step", share_left(results, wide, -1).times(100)),
            measure="Squared distance between the two means as a share of the mean square prediction of one network; "
            "free of the bias that a finite number of members brings, so it may come out negative.",
            covers="members",
            at_most=5,
            unit="%",
            by=theirs(f"{THEIRS}; the bound is our choice", _WIDTHS),
        ),
    ]


def _orbit_stds(settings: IsingSettings, results: IsingResults) -> list[Claim]:
    wide, most = max(settings.widths), max(settings.groups)
    trained = [t for t in settings.steps if t > 0]
    sizes = [m for m in settings.groups if settings.members // m >= _ENOUGH] or [min(settings.groups)]

    def ratio(step: int, name: str, size: int) -> Estimate:
        return std_ratio(settings, results, wide, name, results.at(step), size)

    ratios = Records.over(ratio, label=_label, step=trained, name=SETS, size=sizes)
    fall, predicted = falls(settings, results, wide, SETS)
    of_sets = {f"{name} spins": falls(settings, results, wide, (name,))[0] for name in SETS}
    return [
        claim(
            "The orbit standard deviation of M members is that of GP(μ, Σ/M), to within a tenth",
            ratios,
            aggregate=("the geometric mean over M, steps and sets", overall_ratio(settings, results, wide, trained)),
            measure=f"Relative orbit standard deviation at width {wide}, measured over predicted; the mean over M = "
            f"{', '.join(map(str, settings.groups))}, the family for M up to {max(sizes)}.",
            covers=f"blocks of {most} members",
            at_least=0.9,
            at_most=1.1,
            by=theirs(f"{THEIRS}; the bounds are our choice", _SPREAD, "1"),
        ),
        claim(
            f"The mean of {most} members varies at least 30 % less over orbits than one, in and out of distribution",
            of_sets,
            aggregate=("the geometric mean over sets", fall),
            measure=f"Relative orbit standard deviation of means of {most} members of width {wide} over that of single "
            f"ones, after the last step; GP(μ, Σ/M) has {predicted:.3f}.",
            covers=f"blocks of {most} members",
            at_most=0.7,
            by=theirs(f"{THEIRS}; the bound is our choice", _SPREAD),
        ),
    ]


def _rate(settings: IsingSettings, results: IsingResults) -> Claim:
    found = distance_exponent(settings, results, "training")
    return claim(
        "The distance of the ensemble’s mean to the NTK’s falls as one over the width, the exponent to within a tenth",
        {"": found},
        measure="Exponent of the distance of the two means on the training spins after the last step against width, by "
        "weighted least squares on logarithms.",
        covers="members",
        at_least=-1.1,
        at_most=-0.9,
        by=ours("the first correction in 1/width has exponent −1; the source states no rate", stated="−1 (theory)"),
    )


def _label(step: int, name: str, size: int | None = None) -> str:
    return ("" if size is None else f"M = {size}, ") + f"{after(step)}, {name} spins"


def present(settings: IsingSettings, results: IsingResults, folder: RunFolder) -> list[Shown]:
    """Orbit standard deviation against ensemble size."""
    wide, sizes = max(settings.widths), predicted_sizes(settings)
    with drawing.panels(
        folder,
        "deviation-for-every-size",
        titles=[f"{name.capitalize()} spins" for name in SETS],
        xlabel="members averaged, M",
        ylabel="relative orbit standard deviation",
        size=(8.6, 3.5),
        sharey=True,
        caption=(
            "Relative orbit standard deviation against the number of members. Lines: median over "
            "ensembles drawn from GP(μ, Σ/M), for every M; bands: central 95 % of them. Dashes: disjoint "
            "groups of the widest trained members, dots their medians."
        ),
        alt="Relative orbit standard deviation against members",
    ) as drawn:
        for name, axes in zip(SETS, drawn, strict=True):
            for step, colour in drawing.shades_of(three_times(settings)):
                low, middle, high = results.curve[name][results.at(step)].T
                axes.fill_between(sizes, low, high, color=colour, alpha=0.22, lw=0)
                axes.plot(sizes, middle, color=colour, lw=1.4, label=f"step {step:,}")
                for m in settings.groups:
                    stds = measured_std(results, wide, name, results.at(step), m)
                    axes.plot(np.full(len(stds), m), stds, "_", color=colour, ms=4, alpha=0.35)
                    axes.plot(m, np.median(stds), "o", color=colour, ms=4, mec=palette.INK.light, mew=0.6)
            drawing.logarithmic(axes, ticks=settings.groups, base=2)
    return [drawn.figure]


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
