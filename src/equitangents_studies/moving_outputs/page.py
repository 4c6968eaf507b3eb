"""How learning of outputs that move is shown: scores against training sets, equivariance over time, tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents.statistics import exactly, shared_level
from equitangents_studies.framework.claims import Claim, after, claim, exact, ours, theirs, to_rounding
from equitangents_studies.framework.page import Columns, RunFolder, Shown, columns, drawing, table
from equitangents_studies.framework.works import BEYOND_THE_LIMIT as EMERGENT
from equitangents_studies.framework.works import EQUIVARIANT_KERNELS as THEIRS
from equitangents_studies.moving_outputs.kernels import PLAIN, RIGHT, SETS, WRONG
from equitangents_studies.moving_outputs.learning import MODELS, Learning, every_time

OURS = "our question"
REVIEW = "review"  # equivariant outputs are sketched there; the derivation is ours (docs/theory.md)
_LEFT = 10.0  # per cent
_SEEN = 0.01


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
            by=ours(OURS),
        ),
        claim(
            f"A wrong group does not lower the error of the largest training set of {noun}",
            wrong,
            measure="Squared error with the wrong group built in over that of the plain kernel.",
            covers=covers,
            at_least=1,
            by=ours(OURS),
        ),
    ]


def time_claims(learnings: Mapping[str, Learning], noun: str) -> list[Claim]:
    """Augmentation and equivariant kernel alike at every time; both equivariant, the plain one not; on and off data."""
    some = next(iter(learnings.values()))
    times = every_time(some.units)
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
            by=theirs(THEIRS, REVIEW, "equal"),
        ),
        to_rounding(
            "Both are equivariant at every time, on the data and off them",
            both,
            measure="Root mean square of f(ρ(g)x) − ρ(g)f(x), all g but the identity, relative to that of f; the "
            f"largest over times ({times}).",
            by=theirs(THEIRS, REVIEW, "0"),
        ),
        exact(
            "Without augmentation the mean is not equivariant, on the data or off them",
            plain,
            measure=f"The same of the plain ensemble; the smallest over times ({times}).",
            at_least=_SEEN,
            by=ours("our control; the bound is our choice"),
        ),
    ]


def trained_claim(learning: Learning, noun: str) -> list[Claim]:
    """Whether the mean of finite networks that trained on all moved copies is equivariant; none without networks."""
    trained = learning.trained
    if trained is None:
        return []
    steps = trained.training.steps
    level = shared_level(len(SETS) * len(steps))
    numbers = {
        f"{name}, {after(step)}": trained.share(name, i, level).times(100)
        for name in SETS
        for i, step in enumerate(steps)
    }
    t = trained.training
    return [
        claim(
            "Averaging finite networks trained on all moved copies removes their equivariance error at every time, on "
            f"the data and off them: at most {_LEFT:g} % of its square is left",
            numbers,
            measure="Squared mean over networks of f(ρ(g)x) − ρ(g)f(x), over its mean square, free of the bias of "
            f"finitely many networks; {t.members} networks trained on {t.inputs} {noun}.",
            covers="members",
            at_most=_LEFT,
            unit="%",
            by=theirs(EMERGENT, f"abstract of {EMERGENT}", "equivariant in the mean at any width"),
        )
    ]


_COLOURS = (palette.INK, palette.BLUE, palette.GREEN, palette.VERMILLION)
_MODEL_COLOURS = dict(zip(MODELS, (palette.VERMILLION, palette.BLUE, palette.INK), strict=True))
_EXACT = 1e-17  # errors of 0 are drawn here


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


def times_figure(folder: RunFolder, name: str, learning: Learning) -> Figure:
    """A panel for each set, a curve for each model."""
    with drawing.panels(
        folder,
        name,
        titles=[drawing.heading(set_name) for set_name in SETS],
        ylabel="equivariance error",
        sharey=True,
        caption="Relative distance of f(ρ(g)x) from ρ(g)f(x) over training time, in units of N/λ_max, on training "
        "inputs, test inputs and inputs unlike both: trained on all moved copies, equivariant by architecture, and "
        "neither. Infinite width.",
        alt="Equivariance errors over training time",
    ) as drawn:
        for i, axes in enumerate(drawn):
            for model, look in zip(MODELS, ("o-", "s--", "o-"), strict=True):
                values = np.maximum(learning.errors[model][i], _EXACT)
                colour = _MODEL_COLOURS[model].light
                axes.plot(drawing.places(learning.units), values, look, color=colour, lw=1.2, ms=4, label=model)
            drawing.logarithmic(axes, "y")
            drawing.time_ticks(axes, learning.units)
    return drawn.figure


def trained_figures(folder: RunFolder, name: str, learning: Learning) -> list[Figure]:
    """A panel for each set: errors of single finite networks, of their mean, and of infinitely many."""
    trained = learning.trained
    if trained is None:
        return []
    steps = trained.training.steps
    with drawing.panels(
        folder,
        name,
        titles=[drawing.heading(set_name) for set_name in SETS],
        xlabel="training step",
        ylabel="equivariance error",
        sharey=True,
        caption=(
            "Finite networks trained on all moved copies: distance of f(ρ(g)x) from ρ(g)f(x) in single "
            "networks (root mean square) and in their mean, relative to outputs of these."
        ),
        alt="Equivariance errors of finite networks over training steps",
    ) as drawn:
        for axes, set_name in zip(drawn, SETS, strict=True):
            errors = np.array([trained.errors(set_name, i) for i in range(len(steps))])
            for values, colour, label in zip(
                errors.T, (palette.MEMBER, palette.VERMILLION), ("single networks", "their mean"), strict=True
            ):
                axes.plot(range(len(steps)), values, "o-", color=colour.light, lw=1.2, ms=4, label=label)
            axes.set_xticks(range(len(steps)), [f"{step:,}" for step in steps])
            axes.set_ylim(0, 1.08 * max(trained.errors(n, i)[0] for n in SETS for i in range(len(steps))))
    return [drawn.figure]


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


def fields_page(
    folder: RunFolder, learning: Learning, titles: Mapping[str, str], noun: str, task: str
) -> tuple[list[Figure | Table], dict[str, Columns]]:
    """(figures and tables shown, tables) of fields; `task` names the tables' rows."""
    shown: list[Shown] = [
        scores_figure(folder, "learning", learning, titles, noun),
        scores_table(learning, titles, noun),
        times_figure(folder, "times", learning),
        *trained_figures(folder, "trained", learning),
    ]
    one = {task: learning}
    tables = {"scores": score_columns(one), "factors": factor_columns(one), "times": time_columns(one)}
    return shown, tables


def score_columns(learnings: Mapping[str, Learning]) -> Columns:
    """One row for each task, symmetry, draw and size."""
    some = next(iter(learnings.values()))
    rows = [
        (name, k.titles[symmetry], draw, size, *(k.scores[score][symmetry][draw, j] for score in some.scores))
        for name, k in learnings.items()
        for symmetry in k.titles
        for draw in range(len(k.scores["squared"][symmetry]))
        for j, size in enumerate(k.sizes)
    ]
    return columns(("task", "built_in", "draw", "training_size", *some.scores), rows)


def factor_columns(learnings: Mapping[str, Learning]) -> Columns:
    """One row for each task and symmetry but the plain one: inputs saved, and errors of the largest training set."""
    rows = [
        (name, k.titles[symmetry], saved, error)
        for name, k in learnings.items()
        for symmetry in k.titles
        if symmetry != PLAIN
        for saved, error in ((k.saved(symmetry), k.excess(symmetry)),)
    ]
    names = ("inputs_saved", "low", "high", "error_over_plain", "error_low", "error_high")
    return columns(("task", "built_in", *names), rows)


def time_columns(learnings: Mapping[str, Learning]) -> Columns:
    """One row for each task, set and time."""
    rows = [
        (name, set_name, unit, *(k.errors[model][i, t] for model in MODELS), k.apart[i, t])
        for name, k in learnings.items()
        for i, set_name in enumerate(SETS)
        for t, unit in enumerate(k.units)
    ]
    return columns(("task", "inputs", "time", *(f"error_{m}" for m in MODELS), "augmented_from_equivariant"), rows)
