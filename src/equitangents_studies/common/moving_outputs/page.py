"""How learning of outputs that move is shown: scores against training sets, equivariance over time, tables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from equitangents.report import Figure, Section, Table, format_number, palette
from equitangents_studies.common.moving_outputs.problem import PLAIN, SETS, WRONG
from equitangents_studies.common.moving_outputs.results import Learning
from equitangents_studies.common.moving_outputs.trained import MODELS
from equitangents_studies.framework.page import Columns, RunFolder, columns, drawing, section, table

_COLOURS = (palette.INK, palette.BLUE, palette.GREEN, palette.VERMILLION)
_MODEL_COLOURS = dict(zip(MODELS, (palette.VERMILLION, palette.BLUE, palette.INK), strict=True))
_EXACT = 1e-17  # errors of 0 are drawn here


def scores_figure(folder: RunFolder, name: str, learning: Learning, titles: Mapping[str, str], noun: str) -> Figure:
    """A panel for each score in `titles`, a curve for each symmetry."""
    draws = len(next(iter(learning.scores["squared"].values())))
    with drawing.panels(
        folder,
        name,
        titles=tuple(titles.values()),
        xlabel=f"training {noun}",
        caption=f"Scores on {noun} not trained on, of kernels with nothing built in, with the right group or part of "
        f"it, and with a wrong one: means over {draws} draws with 95 % intervals over draws.",
        alt=f"Scores against the number of training {noun}",
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
        caption=f"{trained.training.members} finite networks trained on all moved copies: distance of f(ρ(g)x) "
        "from ρ(g)f(x) in single networks (root mean square) and in their mean, relative to outputs of these.",
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


def trained_words(learning: Learning, titles: Mapping[str, str], noun: str) -> list[str]:
    """A paragraph on finite networks: how they were trained, and how good their mean is."""
    trained = learning.trained
    if trained is None:
        return []
    t = trained.training
    scores = ", ".join(f"{title.lower()} {format_number(trained.scores[score])}" for score, title in titles.items())
    return [
        f"{t.members} networks of finite width are trained on all copies of {t.inputs} {noun} of the first draw by "
        f"gradient descent; after {t.steps[-1]:,} steps their mean has: {scores}."
    ]


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
    folder: RunFolder, learning: Learning, titles: Mapping[str, str], noun: str, task: str, said: list[str], few: str
) -> tuple[list[Section], dict[str, Columns]]:
    """(sections on growing training sets and on training time, tables) of a study of fields.

    `said` introduces the first section, `few` says what is trained on in the second; `task` names the tables' rows.
    """
    sections = [
        section(
            "Growing training sets",
            *(said),
            scores_figure(folder, "learning", learning, titles, noun),
            scores_table(learning, titles, noun),
        ),
        section(
            "Equivariance over training time",
            few,
            *trained_words(learning, titles, noun),
            times_figure(folder, "times", learning),
            *trained_figures(folder, "trained", learning),
        ),
    ]
    one = {task: learning}
    tables = {"scores": score_columns(one), "factors": factor_columns(one), "times": time_columns(one)}
    return sections, tables


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
