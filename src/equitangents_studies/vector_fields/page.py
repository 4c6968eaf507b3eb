"""How the learning of flows is shown: errors and divergence, equivariance over time, flows and their predictions."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, palette
from equitangents_studies.common.moving_outputs import page as shared
from equitangents_studies.common.moving_outputs.claims import headline
from equitangents_studies.common.moving_outputs.growing_sets import SHOWN
from equitangents_studies.common.moving_outputs.results import PLAIN, RIGHT
from equitangents_studies.framework.page import Presentation, RunFolder, drawing, section
from equitangents_studies.vector_fields.study import VISCOSITY, Results, Settings, draw

_TITLES = {"squared": "Relative squared error", "divergence": "Divergence of predictions"}
_MOST_ARROWS = 10  # along an axis


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    s, learning = settings, results.learning
    said = (
        f"Vortices are sums of waves with |k|² = {s.waves}, with random amplitudes and phases; a uniform stream of "
        f"speed up to {s.stream:g} carries them along. They solve the Navier–Stokes equations exactly, with viscosity "
        f"{VISCOSITY:g} on a torus of side 2π. Inputs are the velocities, targets their change in a time of "
        f"{s.time:g}, which is free of divergence; the speed of the stream enters the target in a nonlinear way."
    )
    kernels = (
        f"The network is a CNN of {s.hidden_layers} hidden layers, 3×3 windows, ReLU, that ends on every grid point. "
        "With a group built in its kernel is the mean over turned copies of one flow, Θ(x, ρ(g)x′) ρ(g), where ρ(g) "
        "turns grid and vectors. The wrong group turns the grid of the targets and leaves their vectors."
    )
    divergence = "Divergence: root mean square, relative to that of all derivatives of the predicted field; 0 is right."
    few = (
        f"Trained are {s.few} flows in all orientations with the plain kernel, the same flows with the equivariant "
        "kernel, and with the plain kernel alone. Off the data means noise."
    )
    sections, tables = shared.fields_page(folder, learning, _TITLES, "flows", "flows", [said, kernels, divergence], few)
    sections.append(section("Flows", _flows(settings, results, folder)))
    facts = {
        "Flows": f"{s.pixels}×{s.pixels} grid points, two components",
        "Targets": f"up to {2 * s.sizes[-1] * s.pixels**2:,} numbers to train on",
    }
    found = headline({"": learning}, "flows", "vectors turn with the grid")
    return Presentation(tables, sections, facts, *found)


def _flows(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    learning = results.learning
    middle = (len(learning.sizes) - 1) // 2
    _, _, x, y = draw(settings, 0)
    fields = (
        ("velocity", x, palette.INK),
        ("its change", y, palette.GREEN),
        ("plain", learning.shown[PLAIN][middle], palette.VERMILLION),
        ("C4 built in", learning.shown[RIGHT][middle], palette.BLUE),
    )
    count, every = min(SHOWN, len(x), 3), -(-x.shape[1] // _MOST_ARROWS)
    left_out = f" One grid point in {every**2} is shown." if every > 1 else ""
    with drawing.panels(
        folder,
        "flows",
        titles=[name for name, *_ in fields] + [""] * (len(fields) * (count - 1)),
        rows=count,
        size=(8.6, 2.3 * count),
        caption="Flows not trained on, how they change, and what the plain and the C4 kernel predict after "
        f"{learning.sizes[middle]} training flows; first draw. Changes have one scale in each row.{left_out}",
        alt="Velocities, their changes and predictions",
    ) as drawn:
        for j in range(count):
            largest = float(np.sqrt((y[j] ** 2).sum(axis=-1).max()))
            speed = float(np.sqrt((x[j] ** 2).sum(axis=-1).max()))
            for i, (_, shown, colour) in enumerate(fields):
                axes, field = drawn[j * len(fields) + i], np.asarray(shown[j])[::every, ::every]
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
