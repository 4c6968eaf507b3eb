"""Outputs that move with their inputs: masks and images, flows on a grid, the group element that rotated a template.

The preset chooses the task: masks ("desk"), flows ("flows-desk") or rotated templates ("rotations-desk").

The equivariant kernel is compared with explicit augmentation, N|H| inputs and targets and the network's own kernel, at
times t by μ_t = B Θ⁻¹ (1 − e^{−Θt/N}) Y, and with trained finite networks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from equitangents.report import palette
from equitangents.statistics import Estimate, bootstrap, exactly, second_moment_share, shared_level, t_interval
from equitangents_studies.common.ensembles import train_to_last
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.common.scores import exp_of
from equitangents_studies.framework import drawing
from equitangents_studies.framework.catalogue import BEYOND_THE_LIMIT, EQUIVARIANT_KERNELS
from equitangents_studies.framework.claims import Claim, after, claim, exact, ours, table, theirs, to_rounding
from equitangents_studies.framework.study import Arrays, NamedStage, RunFolder, Shown, Study, Task
from equitangents_studies.moving_outputs.kernels import (
    Symmetry,
    learnt,
    moved_copies,
    moved_kernels,
    moved_targets,
    unit,
)
from equitangents_studies.moving_outputs.tasks import (
    PLAIN,
    PRESETS,
    RIGHT,
    WRONG,
    MovingSettings,
    MovingTask,
    check_settings,
    moving_task,
)
from equitangents_studies.systems.sample_efficiency import log_factor_at_end

SETS = ("training", "test", "off the data")
MODELS = ("equivariant", "augmented", "plain")
_OURS = ours("our question")
_SKETCHED = theirs(EQUIVARIANT_KERNELS, "review", "equal")  # the derivation is ours (docs/theory.md)
_LEFT = 10.0  # per cent
_SEEN = 0.01
_RATE = 0.3  # of the largest learning rate at which descent in the limit of infinite width is stable


def moved_kernel(p: MovingTask, s: Symmetry, x1: np.ndarray, x2: np.ndarray) -> Float[np.ndarray, "rows columns"]:
    """Θ_H of one symmetry."""
    return moved_kernels(p.kernel, {"": s}, x1, x2, p.positions)[""]


def few_of(p: MovingTask) -> dict[str, np.ndarray]:
    """A few training inputs of the first draw, test inputs, and foreign inputs."""
    x, _, test, _ = p.draw(0)
    few = p.settings.few
    return dict(zip(SETS, (x[:few], test[:few], p.foreign[:few]), strict=True))


def scores_of_a_draw(p: MovingTask, k: int, task: Task) -> Arrays:
    """`score_name` (sizes,) of every score and symmetry."""
    x, y, test, target = p.draw(k)
    sizes = p.settings.sizes
    grams = moved_kernels(p.kernel, p.symmetries, x, x, p.positions, lambda a, b: task.step(a / b, 4))
    cross = moved_kernels(p.kernel, p.symmetries, test, x, p.positions, lambda a, b: task.step(1 + a / b, 4))
    found: Arrays = {f"{score}_{name}": np.zeros(len(sizes)) for name in p.symmetries for score in p.scores}
    for i, name in enumerate(p.symmetries, 1):
        each = len(grams[name]) // len(x)
        for j, size in enumerate(sizes):
            K, B = grams[name][: size * each, : size * each], cross[name][:, : size * each]
            predicted = learnt(K, B, y[:size], p.settings.ridge * unit(K)).reshape(target.shape)
            for score, of in p.scores.items():
                found[f"{score}_{name}"][j] = of(predicted, target)
        task.step(2 + 2 * i / len(p.symmetries), 4)
    return found


def over_time(p: MovingTask) -> dict[str, Float[np.ndarray, "sets times"]]:
    """`error_model`: relative equivariance errors; `difference`: largest differences of augmented and equivariant
    means, after training on the few training inputs of `few_of`.

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
    return arrays | {"difference": np.array([[largest_difference(a, b) for a, b in pairs[key]] for key in sets])}


def grown(values: np.ndarray, rates: np.ndarray, time: float) -> np.ndarray:
    """(1 − e^{−rate·time})/λ."""
    return -np.expm1(-rates * time) / values if np.isfinite(time) else 1 / values


def _still_and_others(symmetry: Symmetry) -> tuple[int, list[int]]:
    """Index of the identity, and indices of all other elements."""
    at = symmetry.chosen.index(symmetry.inputs.group.identity)
    return at, [i for i in range(len(symmetry.chosen)) if i != at]


def _error(symmetry: Symmetry, mean: Float[np.ndarray, "order n ..."]) -> float:
    """Relative root mean square of f(ρ(g)x) − ρ(g) f(x)."""
    assert symmetry.outputs is not None
    at, others = _still_and_others(symmetry)
    expected = np.stack([np.asarray(symmetry.outputs(g, mean[at])) for g in symmetry.chosen])
    return float(np.sqrt(((mean - expected)[others] ** 2).mean() / (mean[at] ** 2).mean()))


def train(folder: RunFolder, p: MovingTask) -> dict[str, np.ndarray]:
    """Train networks by full-batch gradient descent on all copies of the first inputs of the first draw, in one stage.

    Return f(ρ(g)x) − ρ(g)f(x) by set for all g but the identity, (steps, members, values), on the inputs of `few_of`.
    """
    symmetry, sets, s = p.symmetries[RIGHT], few_of(p), p.settings
    x, y = (z[: s.trained] for z in p.draw(0)[:2])
    K = moved_kernel(p, symmetry, x, x)
    largest = 2 * len(x) / float(np.linalg.eigvalsh((K + K.T) / 2)[-1])
    name = f"{s.task}-trained"
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
    return folder.stage(name, f"{s.task}: {s.members} networks", compute)


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
    """`scores[score][symmetry]` (draws, sizes); `errors[model]` and `difference` (sets, times), as `over_time` has
    them; `trained` as `train` has them.
    """

    sizes: tuple[int, ...]
    titles: Mapping[str, str]
    scores: Mapping[str, Mapping[str, np.ndarray]]
    errors: Mapping[str, np.ndarray]
    difference: np.ndarray
    trained: Mapping[str, np.ndarray]

    def excess(self, symmetry: str) -> Estimate:
        """Mean squared error over that of the plain kernel, with the largest training set; interval over draws."""
        squared = self.scores["squared"]
        pairs = np.stack([squared[symmetry][:, -1], squared[PLAIN][:, -1]], axis=1)
        return exp_of(bootstrap(pairs, lambda means: np.log(means[:, 0] / means[:, 1])))

    def saved(self, symmetry: str) -> Estimate:
        """Sample-efficiency ratio: inputs that the plain kernel needs over those of `symmetry`, at equal squared error.

        The error is the smallest that both reach, a mean over draws; sizes are interpolated on logarithms. The
        bootstrap interval is over draws. The ratio is at most the largest size over the smallest.
        """
        squared, n = self.scores["squared"], np.asarray(self.sizes, np.float64)
        logs = lambda means: np.array([log_factor_at_end(n, first, second) for first, second in means])
        most = math.log(n[-1] / n[0])
        pairs = np.stack([squared[PLAIN], squared[symmetry]], axis=1)
        return exp_of(bootstrap(pairs, logs, bounds=(-most, most)))


def measure(s: MovingSettings, folder: RunFolder) -> Learning:
    """Run one stage for every draw, one for training time, and one for networks of finite width."""
    p = moving_task(s, folder.data_dir)
    work = {
        k: NamedStage(f"{s.task}-{k}", f"{s.task}: draw {k + 1} of {s.draws}", partial(scores_of_a_draw, p, k))
        for k in range(s.draws)
    }
    title = f"{s.task}: equivariance over training time"
    found = folder.stages({**work, s.draws: NamedStage(f"{s.task}-times", title, lambda task: over_time(p))})
    draws, time = [found[k] for k in range(s.draws)], found[s.draws]
    return Learning(
        sizes=s.sizes,
        titles={name: s.title for name, s in p.symmetries.items()},
        scores={
            score: {name: np.stack([d[f"{score}_{name}"] for d in draws]) for name in p.symmetries}
            for score in p.scores
        },
        errors={model: time[f"error_{model}"] for model in MODELS},
        difference=time["difference"],
        trained=train(folder, p),
    )


def claims(settings: MovingSettings, found: Learning) -> Sequence[Claim]:
    """Inputs saved, a wrong group, augmentation and architecture at every time."""
    noun = _noun(settings)
    return [
        *saving_claims(found, noun),
        *time_claims(found, settings.units),
        trained_claim(settings, found.trained, noun),
    ]


def _noun(settings: MovingSettings) -> str:
    return "flows" if settings.task == "flows" else "images"


def saving_claims(found: Learning, noun: str) -> list[Claim]:
    """Whether the right group saves training inputs (called `noun`) and the wrong one does not."""
    draws = f"draws of training and test {noun}"
    return [
        claim(
            f"With the right group built in, fewer training {noun} give the same error",
            {found.titles[RIGHT]: found.saved(RIGHT)},
            measure=f"Number of {noun} with which the plain kernel is trained at most, over that with which the kernel "
            "with the group built in has the same squared error, interpolated between sizes; the other way round where "
            "the plain kernel is better.",
            covers=draws,
            at_least=1,
            by=_OURS,
        ),
        claim(
            f"A wrong group does not lower the error of the largest training set of {noun}",
            {found.titles[WRONG]: found.excess(WRONG)},
            measure="Squared error with the wrong group built in over that of the plain kernel.",
            covers=draws,
            at_least=1,
            by=_OURS,
        ),
    ]


def time_claims(found: Learning, units: Sequence[float]) -> list[Claim]:
    """Augmentation equals the equivariant kernel at every time, on and off the data; the plain kernel does not."""
    times = ", ".join("∞" if math.isinf(t) else f"{t:g}" for t in units)
    numbers = lambda values, label="": {f"{label}{key}": exactly(float(v)) for key, v in zip(SETS, values, strict=True)}
    worst = lambda model: numbers(found.errors[model].max(axis=1), f"{model}, ")
    return [
        to_rounding(
            "Networks trained on all moved copies, targets moved along, have the mean of the equivariant ones at every "
            "time, on the data and off them",
            numbers(found.difference.max(axis=1)),
            measure="Largest difference of means relative to the largest output, over elements, outputs and times "
            f"({times}, in units of N/λ_max); infinite width, the copies are trained on explicitly.",
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
            numbers(found.errors["plain"].min(axis=1)),
            measure=f"The same of the plain ensemble; the smallest over times ({times}).",
            at_least=_SEEN,
            by=ours("our control; the bound is our choice"),
        ),
    ]


def trained_claim(s: MovingSettings, off: Mapping[str, np.ndarray], noun: str) -> Claim:
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


_COLOURS = (palette.INK, palette.BLUE, palette.GREEN, palette.VERMILLION)
_SCORES = {  # title, and the largest value there is
    "dice": ("Dice score", 1),
    "divergence": ("Divergence of predictions", 1),
    "wrong": ("Share of wrong elements", 1),
    "squared": ("Relative squared error", math.inf),
}


def present(settings: MovingSettings, found: Learning, folder: RunFolder) -> list[Shown]:
    """Scores against training-set size, one panel per score and one curve per symmetry; and a table."""
    noun, scores = _noun(settings), [score for score in _SCORES if score in found.scores]
    means = {
        score: {
            symmetry: [t_interval(column, bounds=(0, _SCORES[score][1])) for column in values.T]
            for symmetry, values in found.scores[score].items()
        }
        for score in scores
    }
    with drawing.panels(
        folder,
        "learning",
        titles=[_SCORES[score][0] for score in scores],
        xlabel=f"training {noun}",
        caption="Scores on inputs not trained on, of kernels with nothing built in, with the right group or part of "
        "it, and with a wrong one: means over draws with 95 % intervals over draws.",
        alt="Scores against the number of training inputs",
    ) as drawn:
        for axes, score in zip(drawn, scores, strict=True):
            curves = {title: means[score][symmetry] for symmetry, title in found.titles.items()}
            drawing.curves(axes, found.sizes, curves, _COLOURS, offset=1.03)
            drawing.logarithmic(axes, "both" if score == "squared" else "x", found.sizes, base=2, fine=True)
    columns = means[scores[0]].values()
    rows = [[f"{n:,}", *estimates] for n, *estimates in zip(found.sizes, *columns, strict=True)]
    rows.append([f"{noun} saved, factor", *("" if k in (PLAIN, WRONG) else found.saved(k) for k in found.titles)])
    caption = (
        f"{_SCORES[scores[0]][0]}; in brackets 95 % intervals over draws. Last row: how many times as many {noun} "
        "the plain kernel needs for the same squared error; more than "
        f"{found.sizes[-1] / found.sizes[0]:g} cannot be measured."
    )
    return [drawn.figure, table(caption, [f"training {noun}", *found.titles.values()], rows)]


STUDY = Study(PRESETS, measure, claims, (EQUIVARIANT_KERNELS,), check_settings)
