"""Outputs that move with their inputs: masks and images, flows on a grid, the group element that turned a template.

A preset chooses the task: "desk" is that of masks, "flows-desk" that of flows, "turns-desk" that of turned templates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from equitangents.report import Figure, Table, palette
from equitangents.statistics import Estimate, bootstrap, exactly, second_moment_share, shared_level, t_interval
from equitangents_studies.common.scores import exp_of
from equitangents_studies.framework import drawing
from equitangents_studies.framework.claims import Claim, after, claim, exact, ours, table, theirs, to_rounding
from equitangents_studies.framework.study import RunFolder, Shown, Stage, Study
from equitangents_studies.framework.works import BEYOND_THE_LIMIT, EMERGENT_EQUIVARIANCE, EQUIVARIANT_KERNELS
from equitangents_studies.moving_outputs import fields, turns
from equitangents_studies.moving_outputs.kernels import (
    MODELS,
    PLAIN,
    RIGHT,
    SETS,
    WRONG,
    CommonSettings,
    Problem,
    over_time,
    scores_of_a_draw,
    train,
)
from equitangents_studies.systems.exchange import log_factor_at_end

PRESETS: dict[str, Any] = {
    **fields.MASKS,
    **{f"flows-{name}": settings for name, settings in fields.FLOWS.items()},
    **{f"turns-{name}": settings for name, settings in turns.TURNS.items()},
}
_CHECKS: dict[type, Callable[[Any, Path | None], None]] = {
    fields.MaskSettings: fields.check_masks,
    fields.FlowSettings: fields.check_flows,
    turns.TurnSettings: turns.check_turns,
}
_OURS = ours("our question")
_SKETCHED = theirs(EQUIVARIANT_KERNELS, "review", "equal")  # the derivation is ours (docs/theory.md)
_LEFT = 10.0  # per cent
_SEEN = 0.01


def check_settings(settings: CommonSettings, data_dir: Path | None) -> None:
    """As the task does."""
    _CHECKS[type(settings)](settings, data_dir)


def inputs_saved(
    sizes: Sequence[int],
    without: Float[np.ndarray, "draws sizes"],
    with_group: Float[np.ndarray, "draws sizes"],
    level: float = 0.95,
) -> Estimate:
    """How many times as many inputs the first kernel needs as the second for the smallest error that both reach.

    Of mean errors over draws, sizes interpolated on logarithms; with the bootstrap's interval of its logarithm
    over draws. No more than the largest over the smallest size can be measured.
    """
    n = np.asarray(sizes, np.float64)
    logs = lambda means: np.array([log_factor_at_end(n, first, second) for first, second in means])
    most = math.log(n[-1] / n[0])
    found = bootstrap(np.stack([without, with_group], axis=1), logs, confidence=level, bounds=(-most, most))
    return exp_of(found)


@dataclass(frozen=True, eq=False)
class Learning:
    """`scores[score][symmetry]` (draws, sizes), none above `most[score]`; `errors[model]` and `apart` (sets, times), as
    `over_time` has them; `trained` as `train` has them.

    `augmented` (draws, sizes) are relative differences of predictions after training on all moved copies, at
    the sizes where `explicit` is true.
    """

    sizes: tuple[int, ...]
    titles: Mapping[str, str]
    units: tuple[float, ...]
    scores: Mapping[str, Mapping[str, np.ndarray]]
    most: Mapping[str, float]
    explicit: np.ndarray
    augmented: np.ndarray
    errors: Mapping[str, np.ndarray]
    apart: np.ndarray
    trained: Mapping[str, np.ndarray] | None = None

    def mean(self, score: str, symmetry: str, size: int) -> Estimate:
        """A score's mean over draws at the given place in the sizes."""
        return t_interval(self.scores[score][symmetry][:, size], bounds=(0, self.most[score]))

    def excess(self, symmetry: str, level: float = 0.95) -> Estimate:
        """Mean squared error over that of the plain kernel, with the largest training set; interval over draws."""
        squared = self.scores["squared"]
        pairs = np.stack([squared[symmetry][:, -1], squared[PLAIN][:, -1]], axis=1)
        found = bootstrap(pairs, lambda means: np.log(means[:, 0] / means[:, 1]), confidence=level)
        return exp_of(found)

    def saved(self, symmetry: str, level: float = 0.95) -> Estimate:
        """How many times as many inputs the plain kernel needs for the same squared error."""
        squared = self.scores["squared"]
        return inputs_saved(self.sizes, squared[PLAIN], squared[symmetry], level)


def measure_learning(p: Problem, folder: RunFolder) -> Learning:
    """A stage for every draw, one for training time, and one for networks of finite width."""
    count = p.settings.draws
    work: dict[int | str, Stage] = {
        k: Stage(f"{p.name}-{k}", f"{p.name}: draw {k + 1} of {count}", partial(scores_of_a_draw, p, k))
        for k in range(count)
    }
    title = f"{p.name}: equivariance over training time"
    work["times"] = Stage(f"{p.name}-times", title, lambda task: over_time(p))
    found = folder.stages(work)
    draws, time = [found[k] for k in range(count)], found["times"]
    return Learning(
        sizes=p.sizes,
        titles={name: s.title for name, s in p.symmetries.items()},
        units=p.settings.units,
        scores={
            score: {name: np.stack([d[f"{score}_{name}"] for d in draws]) for name in p.symmetries}
            for score in p.scores
        },
        most={name: score.most for name, score in p.scores.items()},
        explicit=draws[0]["explicit"],
        augmented=np.stack([d["apart"] for d in draws]),
        errors={model: time[f"error_{model}"] for model in MODELS},
        apart=time["apart"],
        trained=None if p.net is None else train(folder, p, p.net),
    )


@dataclass(frozen=True, eq=False)
class Results:
    """Learning of each task by the label of its numbers, and relative errors of identities by name."""

    learnings: Mapping[str, Learning]
    checks: Mapping[str, float]


def measure(settings: CommonSettings, folder: RunFolder) -> Results:
    """Learning, stage by stage, and what each task checks besides."""
    if isinstance(settings, turns.TurnSettings):
        problems = turns.problems(settings, folder.data_dir)
        learnings = {label: measure_learning(p, folder) for label, p in problems.items()}
        return Results(learnings, turns.turn_checks(settings, folder))
    if isinstance(settings, fields.MaskSettings):
        return Results({"": measure_learning(fields.masks(settings), folder)}, fields.mask_checks(settings, folder))
    assert isinstance(settings, fields.FlowSettings)
    return Results({"": measure_learning(fields.changes_of_flows(settings), folder)}, {})


def claims(settings: CommonSettings, results: Results) -> Sequence[Claim]:
    """Inputs saved, a wrong group, augmentation and architecture at every time, and the checks of the task."""
    learnings = results.learnings
    noun = "flows" if isinstance(settings, fields.FlowSettings) else "images"
    found = [*saving_claims(learnings, noun), *time_claims(learnings, noun)]
    for learning in learnings.values():
        if learning.trained is not None:
            found.append(trained_claim(settings, learning.trained, noun))
    if isinstance(settings, turns.TurnSettings):
        return [*found, *_turn_claims(settings, results.checks)]
    return [*found, *_mask_claims(results.checks)] if isinstance(settings, fields.MaskSettings) else found


def saving_claims(learnings: Mapping[str, Learning], noun: str) -> list[Claim]:
    """Whether the right group saves training inputs (`noun`) and the wrong one none."""
    level = shared_level(len(learnings))
    right = {f"{name}{k.titles[RIGHT]}": k.saved(RIGHT, level) for name, k in learnings.items()}
    wrong = {f"{name}{k.titles[WRONG]}": k.excess(WRONG, level) for name, k in learnings.items()}
    how = (
        f"Number of {noun} with which the plain kernel is trained at most, over that with which the kernel with the "
        "group built in has the same squared error, interpolated between sizes; the other way round where the plain "
        "kernel is better."
    )
    covers = f"draws of training and test {noun}"
    return [
        claim(
            f"With the right group built in, fewer training {noun} give the same error",
            right,
            measure=how,
            covers=covers,
            at_least=1,
            by=_OURS,
        ),
        claim(
            f"A wrong group does not lower the error of the largest training set of {noun}",
            wrong,
            measure="Squared error with the wrong group built in over that of the plain kernel.",
            covers=covers,
            at_least=1,
            by=_OURS,
        ),
    ]


def time_claims(learnings: Mapping[str, Learning], noun: str) -> list[Claim]:
    """Augmentation and equivariant kernel alike at every time; both equivariant, the plain one not; on and off data."""
    some = next(iter(learnings.values()))
    times = ", ".join("∞" if math.isinf(t) else f"{t:g}" for t in some.units)
    numbers = lambda of: {
        f"{name}{set_name}": exactly(float(of(k)[i]))
        for name, k in learnings.items()
        for i, set_name in enumerate(SETS)
    }
    grown = {
        f"{name}growing training sets": exactly(float(k.augmented[:, k.explicit].max()))
        for name, k in learnings.items()
        if k.explicit.any()
    }
    done = [size for k in learnings.values() for size in np.array(k.sizes)[k.explicit].tolist()]
    most = max(done, default=0)
    both = {
        f"{model}, {label}": e
        for model in ("augmented", "equivariant")
        for label, e in numbers(lambda k, model=model: k.errors[model].max(axis=1)).items()
    }
    trained = lambda k: k.errors["plain"].min(axis=1)
    plain = numbers(trained)
    return [
        to_rounding(
            "Networks trained on all moved copies, targets moved along, have the mean of the equivariant ones at every "
            "time, on the data and off them",
            {**numbers(lambda k: k.apart.max(axis=1)), **grown},
            measure="Largest difference of means relative to the largest output, over elements, outputs and times "
            f"({times}, in units of N/λ_max), and at the end of training sets of up to {most} {noun}; infinite width, "
            "the copies are trained on explicitly.",
            by=_SKETCHED,
        ),
        to_rounding(
            "Both are equivariant at every time, on the data and off them",
            both,
            measure="Root mean square of f(ρ(g)x) − ρ(g)f(x), all g but the identity, relative to that of f; the "
            f"largest over times ({times}).",
            by=theirs(EQUIVARIANT_KERNELS, "review", "0"),
        ),
        exact(
            "Without augmentation the mean is not equivariant, on the data or off them",
            plain,
            measure=f"The same of the plain ensemble; the smallest over times ({times}).",
            at_least=_SEEN,
            by=ours("our control; the bound is our choice"),
        ),
    ]


def trained_claim(settings: CommonSettings, off: Mapping[str, np.ndarray], noun: str) -> Claim:
    """Whether the mean of finite networks that trained on all moved copies is equivariant."""
    s = settings
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
            {kind: exactly(float(checks[kind])) for kind in ("NNGP", "NTK")},
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


def _turn_claims(s: turns.TurnSettings, checks: Mapping[str, float]) -> list[Claim]:
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
            measure=f"Root mean square of f(Rx) − R f(x) over {turns.SOME_TURNS} random rotations, relative to that "
            f"of f, after training, with SO(3) built in over that with the 24 rotations of a cube, {every:.2g} over "
            f"{some:.2g}: rotations are sampled to {s.accuracy:g} of the kernel, and small eigenvalues enlarge that.",
            at_most=1,
            by=_OURS,
        ),
    ]


_COLOURS = (palette.INK, palette.BLUE, palette.GREEN, palette.VERMILLION)


def scores_figure(folder: RunFolder, name: str, learning: Learning, titles: Mapping[str, str], noun: str) -> Figure:
    """A panel for each score in `titles`, a curve for each symmetry."""
    with drawing.panels(
        folder,
        name,
        titles=tuple(titles.values()),
        xlabel=f"training {noun}",
        caption=(
            "Scores on inputs not trained on, of kernels with nothing built in, with the right group or "
            "part of it, and with a wrong one: means over draws with 95 % intervals over draws."
        ),
        alt="Scores against the number of training inputs",
    ) as drawn:
        for axes, score in zip(drawn, titles, strict=True):
            values = {
                title: [learning.mean(score, symmetry, j) for j in range(len(learning.sizes))]
                for symmetry, title in learning.titles.items()
            }
            drawing.curves(axes, learning.sizes, values, _COLOURS, apart=1.03)
            drawing.logarithmic(axes, "both" if score == "squared" else "x", learning.sizes, base=2, fine=True)
    return drawn.figure


def scores_table(learning: Learning, titles: Mapping[str, str], noun: str) -> Table:
    """A row for each training size, a column for each symmetry, of the first score; then the factors."""
    (score, title), *_ = titles.items()
    rows: list[list[object]] = [
        [f"{size:,}", *(learning.mean(score, symmetry, j) for symmetry in learning.titles)]
        for j, size in enumerate(learning.sizes)
    ]
    factors = [learning.saved(symmetry) if symmetry not in (PLAIN, WRONG) else "" for symmetry in learning.titles]
    rows.append([f"{noun} saved, factor", *factors])
    caption = (
        f"{title}; in brackets 95 % intervals over draws. Last row: how many times as many {noun} the plain kernel "
        f"needs for the same squared error; more than {learning.sizes[-1] / learning.sizes[0]:g} cannot be measured."
    )
    return table(caption, [f"training {noun}", *learning.titles.values()], rows)


_TITLES = {
    "dice": "Dice score",
    "divergence": "Divergence of predictions",
    "wrong": "Share of wrong elements",
    "degrees": "Median error in degrees",
    "squared": "Relative squared error",
}


def present(settings: CommonSettings, results: Results, folder: RunFolder) -> list[Shown]:
    """Of every task scores against training sets."""
    noun = "flows" if isinstance(settings, fields.FlowSettings) else "images"
    shown: list[Shown] = []
    for label, learning in results.learnings.items():
        name, what = (label.rstrip(", "), "signals" if label.startswith("rotations") else noun)
        titles = {score: title for score, title in _TITLES.items() if score in learning.scores}
        figure = scores_figure(folder, name or "learning", learning, titles, what)
        shown += [figure, scores_table(learning, titles, what)]
    return shown


STUDY: Study[Any, Any] = Study(PRESETS, measure, claims, (EQUIVARIANT_KERNELS, EMERGENT_EQUIVARIANCE), check_settings)
