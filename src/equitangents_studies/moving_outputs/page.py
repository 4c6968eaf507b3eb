"""How learning of outputs that move is shown: scores against training sets, equivariance over time, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equitangents.report import Figure, Table, palette
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, Shown, columns, drawing, table
from equitangents_studies.moving_outputs import fields, turns
from equitangents_studies.moving_outputs.kernels import (
    MODELS,
    PLAIN,
    RIGHT,
    SETS,
    SHOWN,
    WRONG,
    CommonSettings,
    Trained,
)
from equitangents_studies.moving_outputs.study import Learning, Results

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


def trained_figure(folder: RunFolder, steps: Sequence[int], trained: Trained) -> Figure:
    """A panel for each set: errors of single finite networks, and of their mean."""
    with drawing.panels(
        folder,
        "trained",
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


def present(settings: CommonSettings, results: Results, folder: RunFolder) -> Presentation:
    """Of every task scores and equivariance over time; then what is learnt, in pictures."""
    noun = "flows" if isinstance(settings, fields.FlowSettings) else "images"
    shown: list[Shown] = []
    for label, learning in results.learnings.items():
        name, what = (label.rstrip(", "), "signals" if label.startswith("rotations") else noun)
        titles = {score: title for score, title in _TITLES.items() if score in learning.scores}
        shown += [
            scores_figure(folder, name or "learning", learning, titles, what),
            scores_table(learning, titles, what),
            times_figure(folder, f"{name}-times" if name else "times", learning),
        ]
        if learning.trained is not None:
            shown.append(trained_figure(folder, settings.steps, learning.trained))
    learning = next(iter(results.learnings.values()))
    if isinstance(settings, turns.TurnSettings):
        shown.append(_images(settings, folder))
    elif isinstance(settings, fields.MaskSettings):
        shown.append(_masks(settings, learning, folder))
    elif isinstance(settings, fields.FlowSettings):
        shown.append(_flows(settings, learning, folder))
    tasks = {label.rstrip(", ") or noun: learning for label, learning in results.learnings.items()}
    if isinstance(settings, turns.TurnSettings):
        tables = {name: score_columns({name: learning}) for name, learning in tasks.items()}
    else:
        tables = {"scores": score_columns(tasks)}
    return Presentation(tables, shown)


def _masks(settings: fields.MaskSettings, learning: Learning, folder: RunFolder) -> Figure:
    middle = (len(learning.sizes) - 1) // 2
    _, _, x, y = fields.draw_masks(settings, 0)
    count = min(SHOWN, len(x), len(learning.shown[PLAIN][middle]))
    rows = (
        ("image", x),
        ("mask", y),
        ("plain", learning.shown[PLAIN][middle]),
        ("C4 built in", learning.shown[RIGHT][middle]),
    )
    with drawing.panels(
        folder,
        "masks",
        titles=[""] * (len(rows) * count),
        rows=len(rows),
        size=(1.5 * count + 1.2, 6.0),
        caption=(
            "Images not trained on, their masks, and what the plain and the C4 kernel predict after the "
            "middle training size; first draw. Dark is −1, ground, and light is 1."
        ),
        alt="Images, masks and predictions",
    ) as drawn:
        for i, (name, shown) in enumerate(rows):
            for j in range(count):
                axes, image = drawn[i * count + j], np.asarray(shown[j])[..., :3]
                low, high = (image.min(), image.max()) if name == "image" else (-1.0, 1.0)
                grey = np.clip((image - low) / (high - low if high > low else 1), 0, 1)
                axes.imshow(grey.squeeze(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
                axes.set_xticks([])
                axes.set_yticks([])
            drawn[i * count].set_ylabel(name)
    return drawn.figure


_MOST_ARROWS = 10  # along an axis


def _flows(settings: fields.FlowSettings, learning: Learning, folder: RunFolder) -> Figure:
    middle = (len(learning.sizes) - 1) // 2
    _, _, x, y = fields.draw_flows(settings, 0)
    drawn_fields = (
        ("velocity", x, palette.INK),
        ("its change", y, palette.GREEN),
        ("plain", learning.shown[PLAIN][middle], palette.VERMILLION),
        ("C4 built in", learning.shown[RIGHT][middle], palette.BLUE),
    )
    count, every = min(SHOWN, len(x), 3), -(-x.shape[1] // _MOST_ARROWS)
    with drawing.panels(
        folder,
        "flows",
        titles=[name for name, *_ in drawn_fields] + [""] * (len(drawn_fields) * (count - 1)),
        rows=count,
        size=(8.6, 2.3 * count),
        caption=(
            "Flows not trained on, how they change, and what the plain and the C4 kernel predict after "
            "the middle training size; first draw. Changes have one scale in each row."
        ),
        alt="Velocities, their changes and predictions",
    ) as drawn:
        for j in range(count):
            largest = float(np.sqrt((y[j] ** 2).sum(axis=-1).max()))
            speed = float(np.sqrt((x[j] ** 2).sum(axis=-1).max()))
            for i, (_, shown, colour) in enumerate(drawn_fields):
                axes, field = drawn[j * len(drawn_fields) + i], np.asarray(shown[j])[::every, ::every]
                scale = speed if i == 0 else largest
                # columns to the right, rows downwards
                axes.quiver(
                    field[..., 1],
                    -field[..., 0],
                    color=colour.light,
                    angles="uv",
                    scale_units="xy",
                    scale=scale,
                    pivot="mid",
                )
                axes.set_xlim(-1, field.shape[1])
                axes.set_ylim(-1, field.shape[0])
                axes.set_aspect("equal")
                axes.invert_yaxis()
                axes.set_xticks([])
                axes.set_yticks([])
    return drawn.figure


_IMAGES = 6
_FINE = 8  # straight pieces of each arc


def _images(settings: turns.TurnSettings, folder: RunFolder) -> Figure:
    x, y, _, _ = turns.plane_draw(settings, folder.data_dir, 0)
    count = min(_IMAGES, len(x))
    elements = y[:count].argmax(axis=1)
    with drawing.panels(
        folder,
        "images",
        titles=[f"element {g}" for g in elements],
        size=(8.6, 1.9),
        caption=(
            "Training images of the first draw on their rings, drawn as discs, with the group elements "
            "that turned them."
        ),
        alt="Turned images",
        subplot_kw={"projection": "polar"},
    ) as drawn:
        rings, angles = x.shape[1:3]
        edges = np.linspace(0, 2 * np.pi, _FINE * angles + 1) - np.pi / angles
        for drawn_on, image in zip(drawn, x, strict=False):
            axes: Any = drawn_on  # polar ones
            axes.set_theta_zero_location("S")  # angle 0 points down the rows
            axes.pcolormesh(
                edges, np.arange(rings + 1), np.repeat(image[..., 0], _FINE, axis=1), cmap="gray", rasterized=True
            )
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(visible=False)
    return drawn.figure


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
