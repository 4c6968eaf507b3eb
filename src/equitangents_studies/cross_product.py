"""Two vectors to their cross product: labels rotate with the inputs, under finite subgroups of SO(3).

MLPs learn (a, b) ↦ a × b from pairs shown in all orientations of the tetrahedron, octahedron or icosahedron, labels
rotated alike. Claimed: E f(gx) = ρ_Y(g) E f(x) and Cov(f(gx), f(gx′)) = ρ_Y(g) Cov(f(x), f(x′)) ρ_Y(g)ᵀ at all times,
on and off the data; single members are not equivariant.

The permutation shift of arXiv 2403.03103, measured too: rotating a fully augmented training set X only permutes it,
ρ(g)X = Π(g)X, so that kernels with Θ(ρ(g)x, ρ(g)x′) = Θ(x, x′) have Π(g)F = FΠ(g) for every F made of Θ, K and their
inverses on X; the mean and the covariance of the infinitely wide ensemble are such F between kernels to X.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import special_ortho_group

from equitangents import actions, groups, nn
from equitangents.ensembles import InfiniteEnsemble
from equitangents.groups import Group, MatrixGroup
from equitangents.report import palette
from equitangents.statistics import Estimate, bias_fraction, bootstrap, exactly, shared_level, t_interval
from equitangents_studies.common.ensembles import train_to_last
from equitangents_studies.common.infinite import gradient_descent, orbit_means
from equitangents_studies.common.networks import mlp
from equitangents_studies.common.orbits import orbit_batch
from equitangents_studies.common.rotation_bound import covering_angle, gradients_on_chords, to_nearest
from equitangents_studies.common.scores import largest
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import EMERGENT_EQUIVARIANCE as THEIRS
from equitangents_studies.framework.claims import Claim, Records, after, claim, exact, ours, proved, theirs, to_rounding
from equitangents_studies.framework.measured import Keyed, Results, Stages, by, measured
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Study, Task, at_least, check, presets

SETS = ("training", "test", "far")
SOLIDS = {"T": groups.tetrahedral, "O": groups.octahedral, "I": groups.icosahedral}
TITLES = {"none": "no augmentation", "T": "tetrahedral", "O": "octahedral", "I": "icosahedral"}


@dataclass(frozen=True)
class ProductSettings:
    """`groups` are solved at infinite width, `trained_groups` trained too: T, O or I. Vectors have independent normal
    components, those of the far set `stretch` times as large. `rotations` random rotations test between the group's;
    the largest gradient is searched at `points` places on the chord to each. `rate` is a fraction of the largest stable
    learning rate. Sizes are our choice.
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


PRESETS = presets(
    ProductSettings(),
    desk="trained_groups=T,O,I train_pairs=24 test_pairs=24 members=400 width=128 steps=0,1,3,10,30,100,300",
    paper="trained_groups=T,O,I train_pairs=64 test_pairs=64 members=1000 width=512 steps=0,1,3,10,30,100,300,1000",
)


def check_settings(settings: ProductSettings, data_dir: Path | None) -> None:
    """Require known groups, and enough members and pairs for an interval; the study reads no data."""
    for name, chosen in (("groups", settings.groups), ("trained_groups", settings.trained_groups)):
        check(set(chosen) <= set(SOLIDS) and len(chosen) > 0, name, chosen, "some of T, O, I")
    check(set(settings.trained_groups) <= set(settings.groups), "trained_groups", settings.trained_groups, "in groups")
    at_least(settings, members=3, train_pairs=2, test_pairs=2)


FUNCTIONS = ("(1 − ηΘ/N)^t", "Θ⁻¹(1 − (1 − ηΘ/N)^t)", "Θ⁻¹K", "K⁻¹Θ", "ΘK⁻¹Θ⁻¹", "middle of Σ_t")


def functions_of_kernels(
    ntk: Float[np.ndarray, "n n"], nngp: Float[np.ndarray, "n n"], rate: float, step: int
) -> dict[str, Float[np.ndarray, "n n"]]:
    """Six functions F(Θ, Θ⁻¹, K, K⁻¹) after `step` steps of gradient descent."""
    one = np.eye(len(ntk))
    decay = np.linalg.matrix_power(one - rate / len(ntk) * ntk, step)
    learnt = np.linalg.solve(ntk, one - decay)
    mixed = ntk @ np.linalg.solve(nngp, np.linalg.inv(ntk))
    found = (decay, learnt, np.linalg.solve(ntk, nngp), np.linalg.solve(nngp, ntk), mixed, learnt @ nngp @ learnt.T)
    return dict(zip(FUNCTIONS, found, strict=True))


def shifts(group: Group, inputs: int) -> Int[np.ndarray, "order order_n"]:
    """Π(g) for every g, as the new index of each of the |G|·N inputs of an `orbit_batch`."""
    return (np.asarray(group.table)[:, :, None] * inputs + np.arange(inputs)).reshape(group.order, -1)


def largest_change(
    matrices: Mapping[str, Float[np.ndarray, "n n"]], permutations: Int[np.ndarray, "count n"]
) -> Float[np.ndarray, " matrices"]:
    """max |ΠFΠᵀ − F| / max |F| over permutations, for every F; 0 if F = 0."""
    off = lambda f: np.max([np.abs(f[np.ix_(p, p)] - f).max() for p in permutations])
    size = lambda f: np.abs(f).max() or 1.0
    return np.array([off(f) / size(f) for f in matrices.values()])


class ProductResults(Results):
    """`outputs` of members rotated back: ρ_Y(g)⁻¹ f(gx), the same for all g if f is equivariant; `mean_error` and
    `covariance_error`, largest relative violation in closed form; `between`, mean square violation under random
    rotations; `worst`, the largest violation of those rotations, and `bound`, κ (C(x) + |μ(x)|), both relative to the
    root mean square of μ. `shift`: the `largest_change` of functions of the kernels under the group's permutations of
    the training set; `shuffled`: under another permutation.
    """

    times: np.ndarray
    outputs: Keyed[np.ndarray] = by("trained inputs", "step member element pair axis", of="ensemble.{inputs}")
    mean_error: Keyed[np.ndarray] = by("group", "step inputs")
    covariance_error: Keyed[np.ndarray] = by("group", "step inputs")
    between: Keyed[np.ndarray] = by("group", "step pair")
    bound: Keyed[np.ndarray] = by("group", "step pair")
    worst: Keyed[np.ndarray] = by("group", "step pair")
    shift: Keyed[np.ndarray] = by("moved", "function")
    shuffled: Keyed[np.ndarray] = by("moved", "function")


def mean_share(results: ProductResults, name: str, key: str, time: int, level: float = 0.95) -> Estimate:
    """Share of the members' mean square violation that remains for infinitely many members."""
    y = results.outputs[name, key][time].astype(np.float64)
    return bias_fraction((y[:, 1:] - y[:, :1]).reshape(len(y), -1), confidence=level)


def covariance_share(results: ProductResults, name: str, key: str, time: int, level: float = 0.95) -> Estimate:
    """Share of the second moments' mean square violation that remains for infinitely many members.

    Second moments are f(gx) f(gx′)ᵀ, rotated back, for x′ = x and for x′ the next input.
    """
    y = results.outputs[name, key][time].astype(np.float64)
    parts = []
    for shift in (0, 1):
        moments = np.einsum("mgni,mgnj->mgnij", y, np.roll(y, shift, axis=2))
        parts.append((moments[:, 1:] - moments[:, :1]).reshape(len(y), -1))
    return bias_fraction(np.concatenate(parts, axis=1), confidence=level)


def member_violations(results: ProductResults, name: str, key: str, time: int) -> np.ndarray:
    """Root mean square violation of every member, relative to its outputs, (M,)."""
    y = results.outputs[name, key][time].astype(np.float64)
    off = ((y[:, 1:] - y[:, :1]) ** 2).sum(axis=-1).mean(axis=(1, 2))
    return np.sqrt(off / (y**2).sum(axis=-1).mean(axis=(1, 2)))


def gain(results: ProductResults, finer: str, coarser: str, level: float = 0.95) -> Estimate:
    """Violation under random rotations with the group `finer` over that with `coarser`, at the last step."""
    both = np.stack([results.between[finer][-1], results.between[coarser][-1]], axis=1)
    return bootstrap(both, lambda m: np.sqrt(m[:, 0] / m[:, 1]), confidence=level)


def pair_action(group: groups.Group) -> actions.Action:
    """G rotates both vectors of (a, b): (N, 6)."""
    single = actions.rotations(group)
    return actions.direct_sum(single, single)


def cross_products(x: Float[np.ndarray, "n 6"]) -> Float[np.ndarray, "n 3"]:
    """A × b."""
    return np.cross(x[:, :3], x[:, 3:])


def _pairs(settings: ProductSettings) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(settings.seed)
    train, test, far = (rng.normal(size=(n, 6)) for n in (settings.train_pairs, *[settings.test_pairs] * 2))
    return {"training": train, "test": test, "far": settings.stretch * far}


def measure(settings: ProductSettings, folder: RunFolder) -> ProductResults:
    """Closed form for every group and without augmentation, then ensembles."""
    steps, solved, trained_on = _steps(settings), settings.groups, settings.trained_groups
    levels = {"group": ("none", *solved), "moved": solved, "trained": trained_on, "step": steps, "inputs": SETS}
    closed = Stages("infinite-{group}", lambda name: f"Infinite width, {TITLES[name]}", partial(_infinite, settings))
    found = measured(folder, closed, levels=levels)
    rates = found.by("group", "rate")
    moved = Stages("shift-{moved}", lambda name: f"Permutation shift, {TITLES[name]}", partial(_shift, settings, rates))
    title = lambda name: f"Training {settings.members} members, {TITLES[name]}"
    trained = Stages("ensemble-{trained}", title, partial(_trained, settings, folder, rates))
    found |= measured(folder, moved, trained, levels=levels)
    return ProductResults.read(found, times=steps)


def _network(settings: ProductSettings, width: int) -> nn.Sequential:
    return mlp(width, settings.hidden_layers, 3, W_std=settings.W_std, b_std=settings.b_std)


def _steps(settings: ProductSettings) -> np.ndarray:
    return np.array(sorted({0, *settings.steps}))


def _actions(name: str) -> tuple[actions.Action, actions.Action]:
    """Actions on pairs and on labels; "none" has those of the tetrahedral group, to measure the violation."""
    group = SOLIDS["T" if name == "none" else name]()
    return pair_action(group), actions.rotations(group)


def rotated_back(label_action: actions.Action, y: Float[np.ndarray, "... order n 3"]) -> np.ndarray:
    """ρ_Y(g)⁻¹ y_g: the same for every g where y is equivariant."""
    return np.einsum("gji,...gnj->...gni", np.asarray(label_action.matrices), y)


def _infinite(settings: ProductSettings, name: str, task: Task) -> Arrays:
    inputs, outputs = _actions(name)
    sets, times = _pairs(settings), _steps(settings)
    options: dict[str, Any] = {} if name == "none" else {"augmentation": inputs, "label_action": outputs}
    model = gradient_descent(
        _network(settings, 1), sets["training"], cross_products(sets["training"]), settings.rate, **options
    )
    mean_error, covariance_error = np.zeros((2, len(times), len(SETS)))
    for s, key in enumerate(SETS):
        means = rotated_back(outputs, orbit_means(model, inputs, sets[key], times))
        scale = np.abs(means).max(axis=(1, 2, 3))
        off = np.abs(means - means[:, :1]).max(axis=(1, 2, 3))
        mean_error[:, s] = np.divide(off, scale, where=scale > 0, out=np.zeros_like(off))
        few = sets[key][:6]
        _, covariance = model.predict(orbit_batch(inputs, few), time=times, return_cov=True)
        blocks = covariance.reshape(len(times), inputs.group.order, len(few), inputs.group.order, len(few))
        same = np.einsum("tgigj->tgij", blocks)  # Σ(gx, gx′): a multiple of the unit matrix between outputs
        covariance_error[:, s] = np.abs(same - same[:, :1]).max(axis=(1, 2, 3)) / np.abs(same).max(axis=(1, 2, 3))
        task.step(s + 1, len(SETS))
    return {
        "rate": np.array(model.learning_rate),
        "mean_error": mean_error,
        "covariance_error": covariance_error,
        **_between(settings, model, cast(MatrixGroup, inputs.group), sets["test"], times),
    }


def _between(
    settings: ProductSettings, model: InfiniteEnsemble, group: MatrixGroup, x: np.ndarray, times: np.ndarray
) -> Arrays:
    """Mean square relative to μ's, largest, and bound of |μ(Rx) − R μ(x)| under random rotations, (T, N)."""
    rotations = special_ortho_group.rvs(3, size=settings.rotations, random_state=settings.seed)
    predict = lambda z: model.predict(z, time=times)
    rotate = lambda R: np.einsum("rij,nkj->rnki", R, x.reshape(len(x), 2, 3)).reshape(-1, 6)
    mean = predict(x)
    found = predict(rotate(rotations)).reshape(len(times), settings.rotations, *mean.shape[1:])
    off = ((found - np.einsum("rij,tnj->trni", rotations, mean)) ** 2).sum(axis=-1)
    size = (mean**2).sum(axis=-1)
    whole = np.maximum(size.mean(axis=1), np.finfo(float).tiny)[:, None]  # 0 at initialisation
    # μ is equivariant under the group, so that the chord from b x to R x is as good as that from x to b⁻¹R x
    near = rotate(to_nearest(group.matrices, rotations))
    gradients = gradients_on_chords(predict, np.tile(x, (settings.rotations, 1)), near, settings.points)
    largest = gradients.reshape(len(times), settings.rotations, len(x)).max(axis=1)
    kappa = 2 * np.sin(covering_angle(group.matrices) / 2)
    return {
        "between": off.mean(axis=1) / whole,
        "worst": np.sqrt(off.max(axis=1) / whole),
        "bound": kappa * (np.linalg.norm(x, axis=1) * largest + np.sqrt(size)) / np.sqrt(whole),
    }


def _shift(settings: ProductSettings, rates: Mapping[str, float], name: str, task: Task) -> Arrays:
    """max |ΠFΠᵀ − F| / max |F| of functions of the kernels on the augmented pairs after the last step, for the group's
    permutations Π, and for a permutation that belongs to no rotation.
    """
    inputs, _ = _actions(name)
    x = _pairs(settings)["training"]
    kernels = _network(settings, 1).kernel(orbit_batch(inputs, x))
    ntk, nngp = (np.asarray(k, dtype=np.float64) for k in (kernels.ntk, kernels.nngp))
    matrices = functions_of_kernels(ntk, nngp, rates[name], int(_steps(settings)[-1]))
    task.step(1, 2)
    shuffled = np.random.default_rng(settings.seed).permutation(len(ntk))[None]
    moved = {"shift": shifts(inputs.group, len(x)), "shuffled": shuffled}
    return {key: largest_change(matrices, permutations) for key, permutations in moved.items()}


def _trained(settings: ProductSettings, folder: RunFolder, rates: Mapping[str, float], name: str, task: Task) -> Arrays:
    inputs, outputs = _actions(name)
    sets = _pairs(settings)
    recorded = train_to_last(
        folder.checkpoints(f"ensemble-{name}"),
        _network(settings, settings.width),
        sets["training"],
        cross_products(sets["training"]),
        task,
        augmentation=inputs,
        label_action=outputs,
        members=settings.members,
        learning_rate=rates[name],
        record={key: x[: settings.test_pairs] for key, x in sets.items()},
        record_at=_steps(settings),
        orbits=inputs,
        seed=settings.seed,
    )
    return {key: rotated_back(outputs, y).astype(np.float32) for key, y in recorded.items()}


_BOUND_OURS = f"{THEIRS}; the bound is our choice"
_THEOREM = "theorem of emergent equivariance"
_EXPERIMENT = "experiments, cross product"


def claims(settings: ProductSettings, results: ProductResults) -> Sequence[Claim]:
    """Closed form, ensembles, rotations between those of the group, and controls."""
    return [
        *_closed_form(settings, results),
        *_trained_claims(settings, results),
        _bound(settings, results),
        *_ours(settings, results),
    ]


def _label(name: str, step: int, pairs: str) -> str:
    return f"{TITLES[name]}, {after(step)}, {pairs} pairs"


def _exact(results: ProductResults, table: dict[str, np.ndarray], names: Sequence[str], first: int = 0) -> Records:
    """Closed-form violations by group, step (from `first` on) and set."""
    steps = tuple(map(int, results.times))
    of = lambda name, step, pairs: exactly(table[name][steps.index(step), SETS.index(pairs)])
    return Records.over(of, _label, name=names, step=[t for t in steps if t >= first], pairs=SETS)


def _functions(settings: ProductSettings, table: dict[str, np.ndarray]) -> Records:
    """The permutation shift of each function of the kernels, by group."""
    of = lambda function, name: exactly(table[name][FUNCTIONS.index(function)])
    label = lambda function, name: f"{function}, {TITLES[name]}"
    return Records.over(of, label, function=FUNCTIONS, name=settings.groups)


def _closed_form(settings: ProductSettings, results: ProductResults) -> list[Claim]:
    return [
        to_rounding(
            "At infinite width the mean is equivariant, at every time, on and off the data",
            _exact(results, results.mean_error, settings.groups),
            measure="Largest change of ρ(g)⁻¹μ(gx) over the group, relative to the largest prediction.",
            by=proved(THEIRS, _THEOREM, "exactly equivariant"),
        ),
        to_rounding(
            "At infinite width the covariance Σ_t is equivariant, at every time, on and off the data",
            _exact(results, results.covariance_error, settings.groups),
            measure="Largest change of Σ(gx, gx′) over the group, relative to the largest entry; outputs are "
            "independent and alike, so that Σ is a multiple of the unit matrix between them.",
            by=proved(THEIRS, "review: the distribution is equivariant, by μ_t and Σ_t", "exactly equivariant"),
        ),
        to_rounding(
            "The group’s permutations of the training set commute with functions of the kernels",
            _functions(settings, results.shift),
            measure="Largest entry of Π(g)FΠ(g)ᵀ − F over the group, relative to F’s, for F of Θ, K and their inverses "
            "on the augmented pairs, after the last step; Π(g) permutes them as the rotation g does.",
            by=proved(THEIRS, "lemma on the permutation shift", "Π(g)F = FΠ(g)"),
        ),
    ]


def _trained_claims(settings: ProductSettings, results: ProductResults) -> list[Claim]:
    steps, names = tuple(map(int, results.times)), settings.trained_groups
    cells = [(name, pairs, time) for name in names for pairs in SETS for time in range(len(steps))]
    level = shared_level(len(cells))

    def each(number: Callable[..., Estimate]) -> Records:
        of = lambda name, step, pairs: number(results, name, pairs, steps.index(step))
        return Records.over(of, _label, name=names, step=steps, pairs=SETS)

    single = t_interval(np.mean([member_violations(results, *cell) for cell in cells], axis=0))
    share = "averaging over infinitely many members would leave (unbiased, so it may come out negative)."
    return [
        claim(
            "Single members are not equivariant: they violate it by more than 1 % of their outputs",
            each(lambda *cell: t_interval(member_violations(*cell))),
            aggregate=("the mean over groups, steps and pairs", single),
            measure="Root mean square violation of a member, relative to its outputs; mean over members.",
            covers="members",
            at_least=0.01,
            by=theirs(_BOUND_OURS, _EXPERIMENT),
        ),
        claim(
            "The mean of infinitely many members is equivariant, at initialisation and at every later step, to within "
            "3 % of one member’s violation",
            each(lambda of, name, pairs, time: mean_share(of, name, pairs, time, level).times(100)),
            measure="Share of the members’ mean square violation that " + share,
            covers="members",
            at_most=3,
            unit="%",
            by=proved(_BOUND_OURS, f"{_EXPERIMENT}; {_THEOREM}", "0 %"),
        ),
        claim(
            "The covariance of infinitely many members is equivariant, at initialisation and at every later step, to "
            "within 3 % of one member’s violation",
            each(lambda of, name, pairs, time: covariance_share(of, name, pairs, time, level).times(100)),
            measure="For products of outputs f(gx) f(gx′)ᵀ, whose mean is the second moment: share of their mean "
            "square violation that " + share,
            covers="members",
            at_most=3,
            unit="%",
            by=theirs(_BOUND_OURS, "review: the distribution is equivariant", "0 %"),
        ),
    ]


def _bound(settings: ProductSettings, results: ProductResults) -> Claim:
    late = [i for i, step in enumerate(results.times) if step > 0]
    level = shared_level(len(settings.groups) * len(late))
    bounded = Records.over(
        lambda name, time: largest(results.worst[name][time] / results.bound[name][time], level),
        lambda name, time: f"{TITLES[name]}, {after(int(results.times[time]))}",
        name=settings.groups,
        time=late,
    )
    return claim(
        "Under any rotation the violation is at most κ (C(x) + |μ(x)|)",
        bounded,
        measure=f"Violation of the closed-form mean under the worst of {settings.rotations} random rotations over "
        f"the bound, for the worst of {settings.test_pairs} test pairs. κ follows from the group; the largest "
        f"gradient in C(x) is computed at {settings.points} places on the way to each rotation. The interval "
        "reaches from the largest that was seen to where that of a further pair may lie.",
        covers="test pairs",
        at_most=1,
        by=proved(THEIRS, "Lemma 6.2, with labels that rotate with the inputs"),
    )


def _ours(settings: ProductSettings, results: ProductResults) -> list[Claim]:
    ladder = [("none", settings.groups[0]), *zip(settings.groups, settings.groups[1:], strict=False)]
    gains = {
        f"{TITLES[finer]} over {TITLES[coarser]}": gain(results, finer, coarser, shared_level(len(ladder)))
        for coarser, finer in ladder
    }
    unaugmented = _exact(results, results.covariance_error, ("none",), first=1)
    return [
        claim(
            "With every larger group the mean comes closer to equivariance under all rotations",
            gains,
            measure="Root mean square violation of the infinitely wide ensemble under random rotations of test pairs "
            "after the last step, divided by that of the next smaller group.",
            covers="test pairs",
            at_most=1,
            by=ours("expected: the group’s own rotations come closer to any rotation the more there are"),
        ),
        exact(
            "Without augmentation Σ_t is not equivariant",
            unaugmented,
            measure="Largest change of Σ(gx, gx′) over the tetrahedral group, relative to the largest entry, of the "
            "ensemble that saw every pair in one orientation.",
            at_least=1e-3,
            by=ours("our control"),
        ),
        exact(
            "A permutation that no rotation makes does not commute with the kernels",
            _functions(settings, results.shuffled),
            measure="The same number as of the permutation shift, for one random permutation of the augmented pairs.",
            at_least=1e-3,
            by=ours("our control"),
        ),
    ]


def present(settings: ProductSettings, results: ProductResults, folder: RunFolder) -> list[Shown]:
    """Violations of members and their mean."""
    name = settings.trained_groups[-1]
    place, shown = drawing.places(results.times), min(25, settings.members)
    with drawing.panels(
        folder,
        "members-and-mean",
        titles=[f"{key.capitalize()} pairs" for key in SETS],
        ylabel="relative violation",
        sharey=True,
        caption=(
            "Root mean square change of ρ(g)⁻¹f(gx) over the first group, relative to the members’ "
            "outputs: some members (grey), their mean (blue), and the root mean square of the members "
            "divided by the square root of their number (dotted)."
        ),
        alt="Violation of equivariance over training",
    ) as drawn:
        for axes, key in zip(drawn, SETS, strict=True):
            y = results.outputs[name, key].astype(np.float64)  # (steps, members, elements, pairs, axes)
            size = np.sqrt((y**2).sum(axis=-1).mean(axis=(1, 2, 3)))
            off = lambda z: np.sqrt(((z[..., 1:, :, :] - z[..., :1, :, :]) ** 2).sum(axis=-1).mean(axis=(-1, -2)))
            single, mean = off(y) / size[:, None], off(y.mean(axis=1)) / size
            axes.plot(place, single[:, :shown], color=palette.MEMBER.light, lw=0.5, alpha=0.6)
            axes.plot([], [], color=palette.MEMBER.light, lw=0.8, label="members")
            axes.plot(place, mean, "o-", color=palette.BLUE.light, label=f"mean of {settings.members}")
            expected = np.sqrt((single**2).mean(axis=1) / settings.members)
            axes.plot(place, expected, color=palette.INK.light, lw=1, ls=(0, (2, 2)), label="expected of sampling")
            drawing.time_ticks(axes, results.times, "step")
        drawing.logarithmic(drawn[0], "y", fine=True)
    return [drawn.figure]


STUDY = Study(PRESETS, measure, claims, (THEIRS,), check_settings)
