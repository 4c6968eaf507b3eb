"""Two vectors to their cross product: labels that turn with the inputs, under finite subgroups of SO(3).

MLPs learn (a, b) ↦ a × b from pairs shown in all orientations of the tetrahedron, octahedron or icosahedron, labels
turned alike. Claimed: E f(gx) = ρ_Y(g) E f(x) and Cov(f(gx), f(gx′)) = ρ_Y(g) Cov(f(x), f(x′)) ρ_Y(g)ᵀ at all times, on
and off the data; single members are not equivariant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float
from scipy.stats import special_ortho_group

from equitangents import actions, groups
from equitangents.groups import MatrixGroup
from equitangents.statistics import Estimate, bootstrap, exactly, shared_level, surviving_share
from equitangents_studies.common.infinite import gradient_descent, orbit_means
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import orbit_batch
from equitangents_studies.common.rotation_bound import covering_angle, gradients_on_chords, to_nearest
from equitangents_studies.common.training import ensemble_stage
from equitangents_studies.common.worst import largest
from equitangents_studies.framework.citations import EMERGENT_EQUIVARIANCE
from equitangents_studies.framework.claims import EXACT, Claim, Records, after, claim
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check

STATED = "stated in arXiv 2403.03103"
SETS = ("training", "test", "far")
SOLIDS = {"T": groups.tetrahedral, "O": groups.octahedral, "I": groups.icosahedral}
TITLES = {"none": "no augmentation", "T": "tetrahedral", "O": "octahedral", "I": "icosahedral"}


@dataclass(frozen=True)
class Settings:
    """`groups` are solved at infinite width, `trained_groups` trained too: T, O or I. Vectors have independent normal
    components, those of the far set `stretch` times as large. `rotations` random ones test what lies between the
    group's, and `points` places on the way to each are searched for the largest gradient. `rate` is a fraction of the
    largest stable learning rate. Sizes are our choice.
    """

    groups: tuple[str, ...] = ("T", "O", "I")
    trained_groups: tuple[str, ...] = ("T", "O")
    train_pairs: int = 16
    test_pairs: int = 12
    stretch: float = 3.0
    rotations: int = 64
    points: int = 4
    members: int = 300
    width: int = 64
    hidden_layers: int = 2
    steps: tuple[int, ...] = (0, 1, 3, 10, 30, 100)
    rate: float = 0.5
    W_std: float = 2**0.5
    b_std: float = 0.3
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(
        trained_groups=("T", "O", "I"), train_pairs=24, test_pairs=24, width=128, steps=(0, 1, 3, 10, 30, 100, 300)
    ),
    "paper": Settings(
        trained_groups=("T", "O", "I"),
        train_pairs=64,
        test_pairs=64,
        members=1000,
        width=512,
        steps=(0, 1, 3, 10, 30, 100, 300, 1000),
    ),
}


@dataclass(frozen=True, eq=False)
class Results:
    """By group: `outputs[group][set]` (T, M, |G|, N, 3) of members, turned back: ρ_Y(g)⁻¹ f(gx), equal over g where f
    is equivariant; `mean_error[group]` and `covariance_error[group]` (T, sets), largest relative violation in closed
    form; `between[group]` (T, N), mean square violation under random rotations; `truth_error[group]` (T,);
    `worst[group]` (T, N), the largest violation of those rotations, and `bound[group]` (T, N), κ (C(x) + |μ(x)|), both
    relative to the root mean square of μ.
    """

    times: np.ndarray
    outputs: dict[str, dict[str, np.ndarray]]
    mean_error: dict[str, np.ndarray]
    covariance_error: dict[str, np.ndarray]
    between: dict[str, np.ndarray]
    truth_error: dict[str, np.ndarray]
    bound: dict[str, np.ndarray]
    worst: dict[str, np.ndarray]


def pair_action(group: groups.Group) -> actions.Action:
    """Both vectors of (a, b) turn alike: (N, 6)."""
    single = actions.rotations(group)
    return actions.direct_sum(single, single)


def cross_products(x: Float[np.ndarray, "n 6"]) -> Float[np.ndarray, "n 3"]:
    """A × b."""
    return np.cross(x[:, :3], x[:, 3:])


def _pairs(settings: Settings) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(settings.seed)
    train, test, far = (rng.normal(size=(n, 6)) for n in (settings.train_pairs, *[settings.test_pairs] * 2))
    return {"training": train, "test": test, "far": settings.stretch * far}


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Groups that are known, members and pairs enough for an interval; the study reads no data."""
    for name, chosen in (("groups", settings.groups), ("trained_groups", settings.trained_groups)):
        check(set(chosen) <= set(SOLIDS) and len(chosen) > 0, name, chosen, "some of T, O, I")
    check(set(settings.trained_groups) <= set(settings.groups), "trained_groups", settings.trained_groups, "in groups")
    at_least(settings, members=3, train_pairs=2, test_pairs=2)


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Closed form for every group and without augmentation, then ensembles."""
    closed = folder.stages(
        {
            name: Stage(f"infinite-{name}", f"Infinite width, {TITLES[name]}", partial(_infinite, settings, name))
            for name in ("none", *settings.groups)
        }
    )
    rates = {name: float(closed[name]["rate"]) for name in settings.trained_groups}
    outputs = folder.stages({name: _trained(settings, folder, name, rate) for name, rate in rates.items()})
    keys = ("mean_error", "covariance_error", "between", "truth_error", "bound", "worst")
    tables = {key: {name: arrays[key] for name, arrays in closed.items()} for key in keys}
    return Results(times=_steps(settings), outputs=outputs, **tables)


def _steps(settings: Settings) -> np.ndarray:
    return np.array(sorted({0, *settings.steps}))


def _actions(name: str) -> tuple[actions.Action, actions.Action]:
    """On pairs and on labels; without augmentation the violation is that of the tetrahedral group."""
    group = SOLIDS["T" if name == "none" else name]()
    return pair_action(group), actions.rotations(group)


def turned_back(label_action: actions.Action, y: Float[np.ndarray, "... order n 3"]) -> np.ndarray:
    """ρ_Y(g)⁻¹ y_g: the same for every g where y is equivariant."""
    return np.einsum("gji,...gnj->...gni", np.asarray(label_action.matrices), y)


def _infinite(settings: Settings, name: str, task: Task) -> Arrays:
    inputs, outputs = _actions(name)
    sets, times = _pairs(settings), _steps(settings)
    options: dict[str, Any] = {} if name == "none" else {"augmentation": inputs, "label_action": outputs}
    net = mlp(1, settings.hidden_layers, 3, W_std=settings.W_std, b_std=settings.b_std)
    model = gradient_descent(net, sets["training"], cross_products(sets["training"]), settings.rate, **options)
    mean_error, covariance_error = np.zeros((2, len(times), len(SETS)))
    for s, key in enumerate(SETS):
        means = turned_back(outputs, orbit_means(model, inputs, sets[key], times))
        scale = np.abs(means).max(axis=(1, 2, 3))
        off = np.abs(means - means[:, :1]).max(axis=(1, 2, 3))
        mean_error[:, s] = np.divide(off, scale, where=scale > 0, out=np.zeros_like(off))
        few = sets[key][:6]
        _, covariance = model.predict(orbit_batch(inputs, few), time=times, return_cov=True)
        blocks = covariance.reshape(len(times), inputs.group.order, len(few), inputs.group.order, len(few))
        same = np.einsum("tgigj->tgij", blocks)  # Σ(gx, gx′): a multiple of the unit matrix between outputs
        covariance_error[:, s] = np.abs(same - same[:, :1]).max(axis=(1, 2, 3)) / np.abs(same).max(axis=(1, 2, 3))
        task.step(s + 1, len(SETS))
    mean = model.predict(sets["test"], time=times)
    truth = cross_products(sets["test"])
    return {
        "rate": np.array(model.learning_rate),
        "mean_error": mean_error,
        "covariance_error": covariance_error,
        **_between(settings, model, cast(MatrixGroup, inputs.group), sets["test"], times),
        "truth_error": np.sqrt(((mean - truth) ** 2).sum(axis=(1, 2)) / (truth**2).sum()),
    }


def _between(settings: Settings, model: Any, group: MatrixGroup, x: np.ndarray, times: np.ndarray) -> Arrays:
    """|μ(Rx) − R μ(x)| under random rotations, its mean square relative to μ's, its largest, and the bound, (T, N)."""
    rotations = special_ortho_group.rvs(3, size=settings.rotations, random_state=settings.seed)
    predict = lambda z: model.predict(z, time=times)
    turn = lambda turns: np.einsum("rij,nkj->rnki", turns, x.reshape(len(x), 2, 3)).reshape(-1, 6)
    mean = predict(x)
    found = predict(turn(rotations)).reshape(len(times), settings.rotations, *mean.shape[1:])
    off = ((found - np.einsum("rij,tnj->trni", rotations, mean)) ** 2).sum(axis=-1)
    size = (mean**2).sum(axis=-1)
    whole = np.maximum(size.mean(axis=1), np.finfo(float).tiny)[:, None]  # 0 at initialisation
    # μ is equivariant under the group, so that the chord from b x to R x is as good as that from x to b⁻¹R x
    near = turn(to_nearest(group.matrices, rotations))
    gradients = gradients_on_chords(predict, np.tile(x, (settings.rotations, 1)), near, settings.points)
    largest = gradients.reshape(len(times), settings.rotations, len(x)).max(axis=1)
    kappa = 2 * np.sin(covering_angle(group.matrices) / 2)
    return {
        "between": off.mean(axis=1) / whole,
        "worst": np.sqrt(off.max(axis=1) / whole),
        "bound": kappa * (np.linalg.norm(x, axis=1) * largest + np.sqrt(size)) / np.sqrt(whole),
    }


def _trained(settings: Settings, folder: RunFolder, name: str, rate: float) -> Stage:
    inputs, outputs = _actions(name)
    sets = _pairs(settings)
    return ensemble_stage(
        folder,
        f"ensemble-{name}",
        f"Training {settings.members} members, {TITLES[name]}",
        mlp(settings.width, settings.hidden_layers, 3, W_std=settings.W_std, b_std=settings.b_std),
        sets["training"],
        cross_products(sets["training"]),
        augmentation=inputs,
        label_action=outputs,
        members=settings.members,
        learning_rate=rate,
        record={key: x[: settings.test_pairs] for key, x in sets.items()},
        record_at=_steps(settings),
        orbits=inputs,
        keep=lambda recorded: {key: turned_back(outputs, y).astype(np.float32) for key, y in recorded.items()},
        seed=settings.seed,
    )


def mean_share(results: Results, name: str, key: str, time: int, level: float = 0.95) -> Estimate:
    """Share of the members' mean square violation that averaging infinitely many would leave."""
    y = results.outputs[name][key][time].astype(np.float64)
    return surviving_share((y[:, 1:] - y[:, :1]).reshape(len(y), -1), confidence=level)


def covariance_share(results: Results, name: str, key: str, time: int, level: float = 0.95) -> Estimate:
    """Share of the second moments' mean square violation that averaging infinitely many would leave.

    They are f(gx) f(gx′)ᵀ, turned back, x′ = x and x′ the next input.
    """
    y = results.outputs[name][key][time].astype(np.float64)
    parts = []
    for shift in (0, 1):
        moments = np.einsum("mgni,mgnj->mgnij", y, np.roll(y, shift, axis=2))
        parts.append((moments[:, 1:] - moments[:, :1]).reshape(len(y), -1))
    return surviving_share(np.concatenate(parts, axis=1), confidence=level)


def member_violation(results: Results, name: str, key: str, time: int, level: float = 0.95) -> Estimate:
    """Root mean square violation of the most nearly equivariant member, relative to its outputs; over inputs."""
    y = results.outputs[name][key][time].astype(np.float64)
    off = ((y[:, 1:] - y[:, :1]) ** 2).sum(axis=-1).mean(axis=1)
    size = (y**2).sum(axis=-1).mean(axis=1)
    ratio = lambda m: np.sqrt((m[:, : len(y)] / m[:, len(y) :]).min(axis=1))
    return bootstrap(np.concatenate([off, size]).T, ratio, confidence=level)


def gain(results: Results, finer: str, coarser: str, level: float = 0.95) -> Estimate:
    """Violation under random rotations after augmentation with one group over that with another, at the last step."""
    both = np.stack([results.between[finer][-1], results.between[coarser][-1]], axis=1)
    return bootstrap(both, lambda m: np.sqrt(m[:, 0] / m[:, 1]), confidence=level)


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Closed form first, then ensembles, then what lies between the group's rotations."""
    steps = tuple(map(int, results.times))
    words = lambda name, step, pairs: f"{TITLES[name]}, {after(step)}, {pairs} pairs"
    level = shared_level(len(settings.trained_groups) * len(steps) * len(SETS))

    def infinite(table: dict[str, np.ndarray]) -> Records:
        of = lambda name, step, pairs: exactly(table[name][steps.index(step), SETS.index(pairs)])
        return Records.over(of, words, name=settings.groups, step=steps, pairs=SETS)

    def trained(number: Callable[..., Estimate], factor: float = 1.0) -> Records:
        of = lambda name, step, pairs: number(results, name, pairs, steps.index(step), level).times(factor)
        return Records.over(of, words, name=settings.trained_groups, step=steps, pairs=SETS)

    def share_of_bound(name: str, step: int) -> Estimate:
        at = steps.index(step)
        return largest(
            results.worst[name][at] / results.bound[name][at], shared_level(len(settings.groups) * len(late))
        )

    late = [t for t in steps if t > 0]
    bounded = Records.over(
        share_of_bound, lambda name, step: f"{TITLES[name]}, {after(step)}", name=settings.groups, step=late
    )
    ladder = [("none", settings.groups[0]), *zip(settings.groups, settings.groups[1:], strict=False)]
    gains = {
        f"{TITLES[finer]} over {TITLES[coarser]}": gain(results, finer, coarser, shared_level(len(ladder)))
        for coarser, finer in ladder
    }
    less = "the ratio of violations is " + ", ".join(f"{e.value:.3g} ({name})" for name, e in gains.items())
    single = trained(member_violation)
    share = "averaging over ever more members would leave (unbiased, so it may come out negative)."
    seen = f"{100 * bounded.values.max():.3g} % of it"
    return [
        claim(
            "At infinite width the mean is equivariant, at every time, on and off the data",
            infinite(results.mean_error),
            measure="Largest change of ρ(g)⁻¹μ(gx) over the group, relative to the largest prediction.",
            covers=EXACT,
            at_most=1e-8,
            source=STATED,
            stated="exactly equivariant",
            holds="Augmented with a whole group, the infinitely wide ensemble needs no equivariant architecture.",
            fails="Do not rely on augmentation for equivariance: even the closed form does not turn with its inputs.",
        ),
        claim(
            "At infinite width the covariance is equivariant, at every time, on and off the data",
            infinite(results.covariance_error),
            measure="Largest change of Σ(gx, gx′) over the group, relative to the largest entry; outputs are "
            "independent and alike, so that Σ is a multiple of the unit matrix between them.",
            covers=EXACT,
            at_most=1e-8,
            source=STATED,
            stated="exactly equivariant",
            holds="Error bars of the infinitely wide ensemble are the same for all orientations in the group.",
            fails="Do not compare error bars of the closed form between orientations of an input.",
        ),
        claim(
            "Single members are not equivariant: each violates it by at least 1 % of its outputs",
            single,
            measure="Root mean square violation of the most nearly equivariant member, relative to its outputs.",
            covers="pairs",
            at_least=0.01,
            source=STATED + "; the bound is our choice",
            holds="Do not use one network alone where orientation must not matter: the smallest violation of any "
            f"member at any step is {100 * single.values.min():.3g} % of its outputs.",
            fails="Some single network is equivariant to within 1 %: one may be enough where that is small enough.",
            undecided="Whether every single network is off by 1 % is not decided: measure the one to be used.",
        ),
        claim(
            "The mean of ever more members is equivariant, at initialisation and at every later step, to within 3 % of "
            "one member’s violation",
            trained(mean_share, 100),
            measure="Share of the members’ mean square violation that " + share,
            covers="members",
            at_most=3,
            unit="%",
            source=STATED + "; the bound is our choice",
            stated="0 %",
            holds="More members bring the mean closer to equivariance: M of them leave about 1/M of one member’s mean "
            "square violation, down to 3 % at least.",
            fails="Members alone do not bring equivariance: take wider networks or an equivariant architecture.",
            undecided="Whether more members leave less than 3 % is not decided: train more to tell.",
        ),
        claim(
            "The covariance of ever more members is equivariant, at initialisation and at every later step, to within "
            "3 % of one member’s violation",
            trained(covariance_share, 100),
            measure="For products of outputs f(gx) f(gx′)ᵀ, whose mean is the second moment: share of their mean "
            "square violation that " + share,
            covers="members",
            at_most=3,
            unit="%",
            source=STATED + " in review; the bound is our choice",
            stated="0 %",
            holds="The spread of many members can serve as an error bar in every orientation of the group.",
            fails="Do not compare the spread of members between orientations.",
            undecided="Whether the spread of members is the same in every orientation is not decided to within "
            "3 %: train more to tell.",
        ),
        claim(
            "With every larger group the mean comes closer to equivariance under all rotations",
            gains,
            measure="Root mean square violation of the infinitely wide ensemble under random rotations of test pairs "
            "after the last step, divided by that of the next smaller group.",
            covers="test pairs",
            at_most=1,
            source="expected; the group’s own rotations come closer to any rotation the more there are",
            holds=f"Where all rotations matter, augment with the largest group you can afford: {less}.",
            fails=f"A larger group does not always bring the mean closer to all rotations: {less}.",
            undecided=f"Whether every larger group helps is not decided: {less}.",
        ),
        claim(
            "Under any rotation the violation is at most κ (C(x) + |μ(x)|)",
            bounded,
            measure=f"Violation of the closed-form mean under the worst of {settings.rotations} random rotations over "
            f"the bound, for the worst of {settings.test_pairs} test pairs. κ follows from the group; the largest "
            f"gradient in C(x) is computed at {settings.points} places on the way to each rotation. The interval "
            "reaches from the largest that was seen to where that of a further pair may lie.",
            covers="test pairs",
            at_most=1,
            source=STATED + ", Lemma 6.2, with labels that turn along",
            holds=f"The bound is safe to choose a group by: the largest violation seen is {seen}.",
            fails=f"Do not rely on the bound: some violation is {seen}; search gradients at more places.",
            undecided=f"Whether further pairs keep to the bound is not decided: the largest seen is {seen}.",
        ),
    ]


STUDY: Study[Settings, Results] = Study(PRESETS, measure, claims, (EMERGENT_EQUIVARIANCE,), check_settings)
