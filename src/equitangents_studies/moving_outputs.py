"""Outputs that move with their inputs: masks and images, flows on a grid, the group element that turned a template.

A preset chooses the task: "desk" is that of masks, "flows-desk" that of flows, "turns-desk" that of turned templates.

Beside the equivariant kernel augmentation is explicit: N|H| inputs and targets, the network's own kernel, at times t by
μ_t = B Θ⁻¹ (1 − e^{−Θt/N}) Y; and finite networks are trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from equitangents import groups, nn, sphere
from equitangents.actions import Action
from equitangents.report import palette
from equitangents.statistics import Estimate, bootstrap, exactly, second_moment_share, shared_level, t_interval
from equitangents_studies import data
from equitangents_studies.common import networks
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.common.moved_kernels import (
    PairKernel,
    Symmetry,
    learnt,
    moved_copies,
    moved_kernels,
    moved_targets,
    unit,
    without_negative,
)
from equitangents_studies.common.moving_tasks import (
    PLAIN,
    PRESETS,
    RIGHT,
    STD,
    WRONG,
    MovingTask,
    Settings,
    check_settings,
    ends_on_group,
    ends_on_positions,
    field_kernel,
    mask_draw,
    mask_symmetries,
    mlp,
    pair_kernel,
    plane_draw,
    plane_symmetries,
    space_draw,
    space_symmetries,
    tasks,
)
from equitangents_studies.common.scores import exp_of
from equitangents_studies.common.training import train_to_last
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import Claim, after, claim, exact, ours, table, theirs, to_rounding
from equitangents_studies.framework.study import Arrays, RunFolder, Shown, Stage, Study, Task
from equitangents_studies.framework.works import BEYOND_THE_LIMIT, EMERGENT_EQUIVARIANCE, EQUIVARIANT_KERNELS
from equitangents_studies.systems.sample_efficiency import log_factor_at_end

SETS = ("training", "test", "off the data")
MODELS = ("equivariant", "augmented", "plain")
_OURS = ours("our question")
_SKETCHED = theirs(EQUIVARIANT_KERNELS, "review", "equal")  # the derivation is ours (docs/theory.md)
_LEFT = 10.0  # per cent
_SEEN = 0.01
_MOST_ROWS = 2400  # of the kernel of all moved copies, which is solved as it stands
_RATE = 0.3  # of the largest learning rate at which descent in the limit of infinite width is stable
_SMALL = 4  # pixels of images on which group convolutions are computed
_CHECKED = 3  # inputs whose kernels are compared
_TURNS = 6  # random rotations


def moved_kernel(p: MovingTask, s: Symmetry, x1: np.ndarray, x2: np.ndarray) -> Float[np.ndarray, "rows columns"]:
    """Θ_H of one symmetry."""
    return moved_kernels(p.kernel, {"": s}, x1, x2, p.positions)[""]


def few_of(p: MovingTask) -> dict[str, np.ndarray]:
    """A few training inputs of the first draw, test inputs, and inputs unlike both."""
    x, _, test, _ = p.draw(0)
    few = p.settings.few
    return dict(zip(SETS, (x[:few], test[:few], p.foreign[:few]), strict=True))


def scores_of_a_draw(p: MovingTask, k: int, task: Task) -> Arrays:
    """`score_name` (sizes,) of every score and symmetry; `apart` (sizes,), how far training on all moved copies under
    the right symmetry is from its kernel, relative to the largest output, where they are not too many, as `explicit`
    (sizes,) says.
    """
    x, y, test, target = p.draw(k)
    grams = moved_kernels(p.kernel, p.symmetries, x, x, p.positions, lambda a, b: task.step(a / b, 4))
    cross = moved_kernels(p.kernel, p.symmetries, test, x, p.positions, lambda a, b: task.step(1 + a / b, 4))
    found: Arrays = {f"{score}_{name}": np.zeros(len(p.sizes)) for name in p.symmetries for score in p.scores}
    copies = len(p.symmetries[RIGHT].chosen) * math.prod(p.positions)
    found["explicit"] = np.asarray(p.sizes) * copies <= _MOST_ROWS
    found["apart"] = np.full(len(p.sizes), np.nan)
    for i, (name, symmetry) in enumerate(p.symmetries.items(), 1):
        if symmetry.whole is not None:
            grams[name] = without_negative(grams[name])
        each = len(grams[name]) // len(x)
        for j, size in enumerate(p.sizes):
            K, B = grams[name][: size * each, : size * each], cross[name][:, : size * each]
            predicted = learnt(K, B, y[:size], p.ridge * unit(K)).reshape(target.shape)
            for score, of in p.scores.items():
                found[f"{score}_{name}"][j] = of(predicted, target)
            if name == RIGHT and found["explicit"][j]:
                other = by_augmentation(p, x[:size], y[:size], test, p.ridge * unit(K))
                found["apart"][j] = largest_difference(other.reshape(target.shape), predicted)
        task.step(2 + 2 * i / len(p.symmetries), 4)
    return found


def by_augmentation(
    p: MovingTask, x: np.ndarray, y: np.ndarray, test: np.ndarray, ridge: float
) -> Float[np.ndarray, "rows outputs"]:
    """What the plain kernel predicts of `test` after training on all copies of x with their targets.

    The ridge is that of the mean over copies: |G| times as large for their sum.
    """
    symmetry = p.symmetries[RIGHT]
    bare, copies = Symmetry("", symmetry.inputs), moved_copies(symmetry, x)
    K, B = (moved_kernel(p, bare, a, copies) for a in (copies, test))
    return learnt(K, B, moved_targets(symmetry, y, p.positions), ridge * len(symmetry.chosen))


def over_time(p: MovingTask) -> dict[str, Float[np.ndarray, "sets times"]]:
    """`error_model`: relative equivariance errors; `apart`: largest differences of augmented and equivariant means,
    after training on the few training inputs of `few_of`.

    Times are in units of N/λ_max of the equivariant kernel. An error is the root mean square of f(ρ(g)x) − ρ(g)f(x)
    over all g but the identity, relative to that of f; a difference is relative to the largest output of its set.
    """
    symmetry, sets, units = p.symmetries[RIGHT], few_of(p), p.settings.units
    bare, shape, x = Symmetry("", symmetry.inputs), (*p.positions, symmetry.fibre), sets["training"]
    y = p.draw(0)[1][: len(x)].reshape(len(x), *shape, -1)[..., 0]
    trained = {
        "equivariant": (symmetry, x, y),
        "augmented": (bare, moved_copies(symmetry, x), moved_targets(symmetry, y, p.positions)),
        "plain": (bare, x, y),
    }
    means: dict[str, dict[str, np.ndarray]] = {}
    fastest = math.nan
    for name, (built_in, seen, targets) in trained.items():
        K = moved_kernel(p, built_in, seen, seen)
        values, vectors = np.linalg.eigh((K + K.T) / 2)
        fastest = float(values[-1]) if name == "equivariant" else fastest
        rates = values / fastest * (len(x) / len(seen))
        projected = vectors.T @ targets.reshape(len(K), -1)
        means[name] = {}
        for key, z in sets.items():
            B = moved_kernel(p, built_in, moved_copies(symmetry, z), seen) @ vectors
            found = np.stack([B @ (grown(values, rates, t)[:, None] * projected) for t in units])
            means[name][key] = found.reshape(len(units), len(symmetry.chosen), len(z), *shape)
    arrays = {f"error_{n}": np.array([[_error(symmetry, m) for m in means[n][key]] for key in sets]) for n in MODELS}
    pairs = {key: zip(means["augmented"][key], means["equivariant"][key], strict=True) for key in sets}
    return arrays | {"apart": np.array([[largest_difference(a, b) for a, b in pairs[key]] for key in sets])}


def grown(values: np.ndarray, rates: np.ndarray, time: float) -> np.ndarray:
    """(1 − e^{−rate·time})/λ."""
    return -np.expm1(-rates * time) / values if np.isfinite(time) else 1 / values


def _still_and_others(symmetry: Symmetry) -> tuple[int, list[int]]:
    """The places of the identity and of all other elements."""
    at = symmetry.chosen.index(symmetry.inputs.group.identity)
    return at, [i for i in range(len(symmetry.chosen)) if i != at]


def _error(symmetry: Symmetry, mean: Float[np.ndarray, "order n ..."]) -> float:
    """Relative root mean square of f(ρ(g)x) − ρ(g) f(x)."""
    assert symmetry.outputs is not None
    at, others = _still_and_others(symmetry)
    expected = np.stack([np.asarray(symmetry.outputs(g, mean[at])) for g in symmetry.chosen])
    return float(np.sqrt(((mean - expected)[others] ** 2).mean() / (mean[at] ** 2).mean()))


def train(folder: RunFolder, p: MovingTask) -> dict[str, np.ndarray]:
    """A stage of the run: full-batch gradient descent on all copies of the first inputs of the first draw, recorded on
    the orbits of the few inputs of every set: by set, f(ρ(g)x) − ρ(g)f(x), all g but the identity, (steps, members,
    values).
    """
    assert p.net is not None
    symmetry, sets, s = p.symmetries[RIGHT], few_of(p), p.settings
    x, y = (z[: s.trained] for z in p.draw(0)[:2])
    K = moved_kernel(p, symmetry, x, x)
    largest = 2 * len(x) / float(np.linalg.eigvalsh((K + K.T) / 2)[-1])
    name = f"{p.name}-trained"
    compute = partial(
        train_to_last,
        folder.checkpoints(name),
        p.net,
        x,
        y,
        record={key: moved_copies(symmetry, z) for key, z in sets.items()},
        record_at=s.steps,
        keep=partial(deviations, p),
        augmentation=symmetry.inputs,
        label_action=symmetry.outputs,
        members=s.members,
        learning_rate=_RATE * largest,
        dtype="float64",
        seed=s.seed,
    )
    return folder.stage(name, f"{p.name}: {s.members} networks", compute)


def deviations(p: MovingTask, recorded: Arrays) -> Arrays:
    """f(ρ(g)x) − ρ(g)f(x) by set, from outputs of networks (steps, members, copies, …) on orbits."""
    symmetry = p.symmetries[RIGHT]
    elements, (at, others) = len(symmetry.chosen), _still_and_others(symmetry)
    found: Arrays = {}
    for key, outputs in recorded.items():
        f = np.asarray(outputs, np.float64)
        f = f.reshape(*f.shape[:2], elements, -1, *f.shape[3:])
        first = f[:, :, at]
        moved = moved_targets(symmetry, first.reshape(-1, *first.shape[3:]), p.positions)
        off = f - np.moveaxis(moved.reshape(elements, *first.shape), 0, 2)
        found[key] = off[:, :, others].reshape(*f.shape[:2], -1)
    return found


@dataclass(frozen=True, eq=False)
class Learning:
    """`scores[score][symmetry]` (draws, sizes); `errors[model]` and `apart` (sets, times), as `over_time` has them;
    `trained` as `train` has them.

    `augmented` (draws, sizes) are relative differences of predictions after training on all moved copies, at
    the sizes where `explicit` is true.
    """

    sizes: tuple[int, ...]
    titles: Mapping[str, str]
    scores: Mapping[str, Mapping[str, np.ndarray]]
    explicit: np.ndarray
    augmented: np.ndarray
    errors: Mapping[str, np.ndarray]
    apart: np.ndarray
    trained: Mapping[str, np.ndarray] | None = None

    def excess(self, symmetry: str, level: float = 0.95) -> Estimate:
        """Mean squared error over that of the plain kernel, with the largest training set; interval over draws."""
        squared = self.scores["squared"]
        pairs = np.stack([squared[symmetry][:, -1], squared[PLAIN][:, -1]], axis=1)
        return exp_of(bootstrap(pairs, lambda means: np.log(means[:, 0] / means[:, 1]), confidence=level))

    def saved(self, symmetry: str, level: float = 0.95) -> Estimate:
        """How many times as many inputs the plain kernel needs for the smallest squared error that both reach.

        Of mean errors over draws, sizes interpolated on logarithms; with the bootstrap's interval of its logarithm
        over draws. No more than the largest over the smallest size can be measured.
        """
        squared, n = self.scores["squared"], np.asarray(self.sizes, np.float64)
        logs = lambda means: np.array([log_factor_at_end(n, first, second) for first, second in means])
        most = math.log(n[-1] / n[0])
        pairs = np.stack([squared[PLAIN], squared[symmetry]], axis=1)
        return exp_of(bootstrap(pairs, logs, confidence=level, bounds=(-most, most)))


def measure_learning(p: MovingTask, folder: RunFolder) -> Learning:
    """A stage for every draw, one for training time, and one for networks of finite width."""
    count = p.settings.draws
    work = {
        k: Stage(f"{p.name}-{k}", f"{p.name}: draw {k + 1} of {count}", partial(scores_of_a_draw, p, k))
        for k in range(count)
    }
    title = f"{p.name}: equivariance over training time"
    found = folder.stages({**work, count: Stage(f"{p.name}-times", title, lambda task: over_time(p))})
    draws, time = [found[k] for k in range(count)], found[count]
    return Learning(
        sizes=p.sizes,
        titles={name: s.title for name, s in p.symmetries.items()},
        scores={
            score: {name: np.stack([d[f"{score}_{name}"] for d in draws]) for name in p.symmetries}
            for score in p.scores
        },
        explicit=draws[0]["explicit"],
        augmented=np.stack([d["apart"] for d in draws]),
        errors={model: time[f"error_{model}"] for model in MODELS},
        apart=time["apart"],
        trained=None if p.net is None else train(folder, p),
    )


@dataclass(frozen=True, eq=False)
class Results:
    """Learning of each task by the label of its numbers, and relative errors of identities by name."""

    learnings: Mapping[str, Learning]
    checks: Mapping[str, float]


def measure(s: Settings, folder: RunFolder) -> Results:
    """Learning, stage by stage, and what each task checks besides."""
    learnings = {label: measure_learning(p, folder) for label, p in tasks(s, folder.data_dir).items()}
    checks: dict[str, float] = {}
    checked: dict[str, dict[str, tuple[str, Callable[[Settings], dict[str, float]]]]] = {
        "masks": {"convolutions": ("Group convolutions", convolutions), "covariance": ("Moved images", covariance)},
        "turns": {
            "group": ("The network that ends on the group", partial(on_the_group, folder)),
            "rotated": ("Random rotations", rotated),
        },
    }
    for name, (title, compute) in checked.get(s.task, {}).items():
        found = folder.stage(name, title, partial(_as_arrays, s, compute))
        checks |= {key: float(value) for key, value in found.items()}
    return Results(learnings, checks)


def _as_arrays(s: Settings, compute: Callable[[Settings], dict[str, float]], task: Task) -> Arrays:
    return {key: np.array(value) for key, value in compute(s).items()}


def covariance(s: Settings) -> dict[str, float]:
    """`unmoved` of the NNGP and the NTK of a few images and as much noise."""
    net, x = ends_on_positions(s, outputs=1), mask_draw(s, 0)[0]
    off = data.gaussian_noise(s.few, x.shape[1:], seed=s.seed).astype(np.float64)
    both = np.concatenate([x[: s.few], off])
    of = lambda kind: lambda a, b: np.asarray(getattr(net.kernel_field(a, b), kind))
    return {kind.upper(): unmoved(of(kind), mask_symmetries()[RIGHT].inputs, both) for kind in ("nngp", "ntk")}


def unmoved(kernel: PairKernel, action: Action, x: Float[np.ndarray, "n height width channels"]) -> float:
    """max |Θ(ρ(g)x, ρ(g)x′) − ρ(g) Θ(x, x′) ρ(g)ᵀ| over all g and pairs of positions, relative to max |Θ|.

    ρ(g) moves positions (H, W), on which the kernel (N, HW, N, HW) lies.
    """
    still = kernel(x, x)
    move = lambda g, fields: np.asarray(action(g, fields.reshape(-1, *x.shape[1:3], 1))).reshape(fields.shape)
    worst = []
    for g in action.group.elements:
        copies = np.asarray(action(g, x))
        rows = move(g, still)  # the last axis, then the second
        both = move(g, np.ascontiguousarray(rows.transpose(0, 3, 2, 1))).transpose(0, 3, 2, 1)
        worst.append(np.abs(kernel(copies, copies) - both).max())
    return float(np.max(worst) / np.abs(still).max())


def convolutions(s: Settings) -> dict[str, float]:
    """p4 convolutions averaged over orientations at each pixel, against the moved mean of the CNN's kernel."""
    p4, count = groups.wallpaper(4, False, (_SMALL, _SMALL)), _SMALL**2
    layers = networks.hidden(s.hidden_layers - 1, lambda: nn.GroupConv(s.channels, (3, 3), **STD))
    net = nn.Sequential(nn.Lift(p4, s.channels, (3, 3), **STD), nn.Relu(), *layers, nn.Dense(1, **STD))
    x = np.random.default_rng(s.seed).standard_normal((2, _SMALL, _SMALL, 1))
    field = np.asarray(net.kernel_field(x).ntk)
    place = np.array([np.ravel_multi_index(p4.element(g)[2], (_SMALL, _SMALL)) for g in p4.elements])
    average = np.zeros((count, p4.order))
    average[place, np.arange(p4.order)] = 1 / 4
    mean = np.einsum("pg,ngmh,qh->npmq", average, field, average).reshape(2 * count, 2 * count)
    plain = field_kernel(ends_on_positions(s, outputs=1))
    moved = moved_kernels(plain, {"": mask_symmetries()[RIGHT]}, x, x, (_SMALL, _SMALL))[""]
    return {"convolutions": largest_difference(mean, moved)}


def on_the_group(folder: RunFolder, s: Settings) -> dict[str, float]:
    """Largest relative difference of the kernel of group convolutions from |G| times the moved mean of the MLP's."""
    x = plane_draw(s, folder.data_dir, 0)[0][:_CHECKED]
    field = np.asarray(ends_on_group(s).kernel_field(x.reshape(len(x), -1, x.shape[-1])).ntk)
    symmetry = plane_symmetries(s.order)[RIGHT]
    moved = moved_kernels(pair_kernel(mlp(s.hidden_layers)), {"": symmetry}, x, x, ())[""].reshape(field.shape)
    return {"on the group": largest_difference(field / s.order, moved)}


def rotated(s: Settings) -> dict[str, float]:
    """Relative error of f(Rx) against R f(x) over random R by the title of each symmetry, of kernels trained on the
    first draw's largest set.
    """
    x, y, test, _ = space_draw(s, 0)
    test, found = test[:_CHECKED], {}
    turns = Rotation.random(_TURNS, np.random.default_rng((s.seed, 1))).as_matrix()
    copies = np.concatenate([np.asarray(sphere.rotate(test[..., None], R))[..., 0] for R in (np.eye(3), *turns)])
    some = {k: v for k, v in space_symmetries(s.bandlimit, s.accuracy, s.hidden_layers).items() if k != WRONG}
    kernel = pair_kernel(mlp(s.hidden_layers))
    grams, cross = (moved_kernels(kernel, some, a, x, ()) for a in (x, copies))
    for name, symmetry in some.items():
        K = grams[name] if symmetry.whole is None else without_negative(grams[name])
        mean = learnt(K, cross[name], y, s.space_ridge * unit(K)).reshape(-1, len(test), 3, 3)
        expected = turns[:, None] @ mean[0]
        found[symmetry.title] = float(np.sqrt(((mean[1:] - expected) ** 2).mean() / (mean[0] ** 2).mean()))
    return found


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Inputs saved, a wrong group, augmentation and architecture at every time, and the checks of the task."""
    learnings, noun = results.learnings, "flows" if settings.task == "flows" else "images"
    found = [*saving_claims(learnings, noun), *time_claims(learnings, noun, settings.units)]
    found += [trained_claim(settings, k.trained, noun) for k in learnings.values() if k.trained is not None]
    if settings.task == "turns":
        return [*found, *_turn_claims(settings, results.checks)]
    return [*found, *_mask_claims(results.checks)] if settings.task == "masks" else found


def saving_claims(learnings: Mapping[str, Learning], noun: str) -> list[Claim]:
    """Whether the right group saves training inputs (`noun`) and the wrong one none."""
    level = shared_level(len(learnings))
    covers = f"draws of training and test {noun}"
    return [
        claim(
            f"With the right group built in, fewer training {noun} give the same error",
            {f"{name}{k.titles[RIGHT]}": k.saved(RIGHT, level) for name, k in learnings.items()},
            measure=f"Number of {noun} with which the plain kernel is trained at most, over that with which the kernel "
            "with the group built in has the same squared error, interpolated between sizes; the other way round where "
            "the plain kernel is better.",
            covers=covers,
            at_least=1,
            by=_OURS,
        ),
        claim(
            f"A wrong group does not lower the error of the largest training set of {noun}",
            {f"{name}{k.titles[WRONG]}": k.excess(WRONG, level) for name, k in learnings.items()},
            measure="Squared error with the wrong group built in over that of the plain kernel.",
            covers=covers,
            at_least=1,
            by=_OURS,
        ),
    ]


def time_claims(learnings: Mapping[str, Learning], noun: str, units: Sequence[float]) -> list[Claim]:
    """Augmentation and equivariant kernel alike at every time; both equivariant, the plain one not; on and off data."""
    times = ", ".join("∞" if math.isinf(t) else f"{t:g}" for t in units)
    numbers = lambda of, label="": {
        f"{label}{name}{key}": exactly(float(of(k)[i])) for name, k in learnings.items() for i, key in enumerate(SETS)
    }
    explicit = {name: k for name, k in learnings.items() if k.explicit.any()}
    at_the_end = {
        f"{name}growing training sets": exactly(float(k.augmented[:, k.explicit].max())) for name, k in explicit.items()
    }
    most = max((size for k in explicit.values() for size in np.array(k.sizes)[k.explicit].tolist()), default=0)
    worst = lambda model: numbers(lambda k: k.errors[model].max(axis=1), f"{model}, ")
    return [
        to_rounding(
            "Networks trained on all moved copies, targets moved along, have the mean of the equivariant ones at every "
            "time, on the data and off them",
            {**numbers(lambda k: k.apart.max(axis=1)), **at_the_end},
            measure="Largest difference of means relative to the largest output, over elements, outputs and times "
            f"({times}, in units of N/λ_max), and at the end of training sets of up to {most} {noun}; infinite width, "
            "the copies are trained on explicitly.",
            by=_SKETCHED,
        ),
        to_rounding(
            "Both are equivariant at every time, on the data and off them",
            {**worst("augmented"), **worst("equivariant")},
            measure="Root mean square of f(ρ(g)x) − ρ(g)f(x), all g but the identity, relative to that of f; the "
            f"largest over times ({times}).",
            by=theirs(EQUIVARIANT_KERNELS, "review", "0"),
        ),
        exact(
            "Without augmentation the mean is not equivariant, on the data or off them",
            numbers(lambda k: k.errors["plain"].min(axis=1)),
            measure=f"The same of the plain ensemble; the smallest over times ({times}).",
            at_least=_SEEN,
            by=ours("our control; the bound is our choice"),
        ),
    ]


def trained_claim(s: Settings, off: Mapping[str, np.ndarray], noun: str) -> Claim:
    """Whether the mean of finite networks that trained on all moved copies is equivariant."""
    level = shared_level(len(SETS) * len(s.steps))
    numbers = {
        f"{name}, {after(step)}": second_moment_share(off[name][i], off[name][i], confidence=level).times(100)
        for name in SETS
        for i, step in enumerate(s.steps)
    }
    return claim(
        "Averaging finite networks trained on all moved copies removes their equivariance error at every time, on "
        f"the data and off them: at most {_LEFT:g} % of its square is left",
        numbers,
        measure="Squared mean over networks of f(ρ(g)x) − ρ(g)f(x), over its mean square, free of the bias of "
        f"finitely many networks; {s.members} networks trained on {s.trained} {noun}.",
        covers="members",
        at_most=_LEFT,
        unit="%",
        by=theirs(BEYOND_THE_LIMIT, f"abstract of {BEYOND_THE_LIMIT}", "equivariant in the mean at any width"),
    )


def _mask_claims(checks: Mapping[str, float]) -> list[Claim]:
    return [
        exact(
            "The kernels move with the images: Θ(ρ(g)x, ρ(g)x′) = ρ(g) Θ(x, x′) ρ(g)ᵀ, on all pairs of pixels",
            {kind: exactly(checks[kind]) for kind in ("NNGP", "NTK")},
            measure="Largest difference relative to the largest entry, over all g and pixels, of images and of noise.",
            at_most=1e-10,
            by=theirs(EMERGENT_EQUIVARIANCE, "arXiv 2403.03103, how kernels transform", "equal"),
        ),
        exact(
            "Group convolutions, averaged over orientations at each pixel, have the moved mean of the CNN’s kernel",
            {"NTK": exactly(checks["convolutions"])},
            measure="Largest difference relative to the largest entry, p4 on 4×4 pixels.",
            at_most=1e-10,
            by=_SKETCHED,
        ),
    ]


def _turn_claims(s: Settings, checks: Mapping[str, float]) -> list[Claim]:
    some, every = checks["O"], checks["SO(3)"]
    return [
        exact(
            "The network that ends on the group has |G| times the moved mean of the MLP’s kernel",
            {"NTK": exactly(checks["on the group"])},
            measure="Largest difference relative to the largest entry, between all elements of C_n.",
            at_most=1e-10,
            by=_SKETCHED,
        ),
        exact(
            "With SO(3) built in, vectors turn better with the signal under any rotation than with the cube’s 24 "
            "rotations",
            {"SO(3) over O": exactly(every / some)},
            measure=f"Root mean square of f(Rx) − R f(x) over {_TURNS} random rotations, relative to that "
            f"of f, after training, with SO(3) built in over that with the 24 rotations of a cube, {every:.2g} over "
            f"{some:.2g}: rotations are sampled to {s.accuracy:g} of the kernel, and small eigenvalues enlarge that.",
            at_most=1,
            by=_OURS,
        ),
    ]


_COLOURS = (palette.INK, palette.BLUE, palette.GREEN, palette.VERMILLION)
_SCORES = {  # title, and the largest value there is
    "dice": ("Dice score", 1),
    "divergence": ("Divergence of predictions", 1),
    "wrong": ("Share of wrong elements", 1),
    "degrees": ("Median error in degrees", 180),
    "squared": ("Relative squared error", math.inf),
}


def present(settings: Settings, results: Results, folder: RunFolder) -> list[Shown]:
    """Of every task scores against training sets: a panel for each, a curve for each symmetry; and a table."""
    shown: list[Shown] = []
    for label, learning in results.learnings.items():
        noun = "signals" if label == "rotations, " else "flows" if settings.task == "flows" else "images"
        scores = [score for score in _SCORES if score in learning.scores]
        means = {
            score: {
                symmetry: [t_interval(column, bounds=(0, _SCORES[score][1])) for column in values.T]
                for symmetry, values in learning.scores[score].items()
            }
            for score in scores
        }
        with drawing.panels(
            folder,
            label.rstrip(", ") or "learning",
            titles=[_SCORES[score][0] for score in scores],
            xlabel=f"training {noun}",
            caption=(
                "Scores on inputs not trained on, of kernels with nothing built in, with the right group or "
                "part of it, and with a wrong one: means over draws with 95 % intervals over draws."
            ),
            alt="Scores against the number of training inputs",
        ) as drawn:
            for axes, score in zip(drawn, scores, strict=True):
                curves = {title: means[score][symmetry] for symmetry, title in learning.titles.items()}
                drawing.curves(axes, learning.sizes, curves, _COLOURS, apart=1.03)
                drawing.logarithmic(axes, "both" if score == "squared" else "x", learning.sizes, base=2, fine=True)
        columns = means[scores[0]].values()
        rows = [[f"{n:,}", *estimates] for n, *estimates in zip(learning.sizes, *columns, strict=True)]
        rows.append(
            [f"{noun} saved, factor", *("" if k in (PLAIN, WRONG) else learning.saved(k) for k in learning.titles)]
        )
        caption = (
            f"{_SCORES[scores[0]][0]}; in brackets 95 % intervals over draws. Last row: how many times as many {noun} "
            "the plain kernel needs for the same squared error; more than "
            f"{learning.sizes[-1] / learning.sizes[0]:g} cannot be measured."
        )
        shown += [drawn.figure, table(caption, [f"training {noun}", *learning.titles.values()], rows)]
    return shown


STUDY: Study[Settings, Results] = Study(
    PRESETS, measure, claims, (EQUIVARIANT_KERNELS, EMERGENT_EQUIVARIANCE), check_settings
)
