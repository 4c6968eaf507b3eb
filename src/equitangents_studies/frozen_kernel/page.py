"""How the study of tangent kernels in training is shown: movement against width, over training, and its exponents."""

from __future__ import annotations

import numpy as np

from equitangents.report import Figure, palette
from equitangents_studies.framework.page import Columns, Presentation, RunFolder, drawing, in_words, section
from equitangents_studies.frozen_kernel.study import NAMES, PARAMETRISATIONS, TITLES, Results, Settings, exponents

_COLOURS = dict(zip(PARAMETRISATIONS, (palette.BLUE, palette.GREEN, palette.VERMILLION), strict=True))


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    steps = [int(step) for step in results.steps]
    slopes = exponents(settings, results, PARAMETRISATIONS, settings.nonlinearities, steps)
    sections = [
        section(
            "When kernels freeze",
            "Training a wide network is kernel regression with its tangent kernel Θ, as long as Θ stays what it "
            "was at initialisation. In NTK parametrisation theory bounds its movement by O(1/√n) at all times, for "
            "nonlinearities that are Lipschitz and twice differentiable with a bounded second derivative. "
            f"{NAMES[settings.smooth]} is; ReLU is not, since its derivative jumps at 0, so that of ReLU the "
            "theorem says nothing, and only the measurement counts. Perturbation theory expects 1/n of networks "
            "whose bound is 1/√n.",
            "The three parametrisations are the same networks. Standard parametrisation, that of most libraries, "
            "has the weights themselves as parameters; its stable learning rates fall as 1/n, and first layers and "
            "biases then learn ever less. With a mean-field output scale the output is divided by √n, so that "
            "hidden features must move to fit the labels, at every width. Each network learns at "
            f"{settings.rate:g} of the largest stable rate of its own kernel at initialisation, so that a step is "
            "as much training in all of them.",
            _against_width(settings, results, folder),
            _over_training(settings, results, folder),
        ),
        section(
            "Exponents",
            "Fitted to the geometric mean over networks, at all widths at once, by least squares on logarithms. "
            "A bound of −1/2 in the limit of width says nothing about the narrowest. With the "
            "mean-field scale features take some steps to move: its claims are about the last one.",
            _exponents(settings, results, folder),
        ),
    ]
    low, high = (f"{end:.2g}" for end in (_final(results).min(), _final(results).max()))
    facts = {
        "Kernel": f"of {settings.kernel_images} training and {settings.kernel_images} test images",
        "Networks": f"{settings.networks} of every kind and width, {settings.hidden_layers} hidden layers, one output",
        "Training": f"{settings.train_images} images, odd or even class, full-batch gradient descent",
        "Training loss at the end": f"{low} to {high}, means over networks of a kind and width",
    }
    tables = {"movement": movement_table(results), "exponents": slopes.table("exponent")}
    return Presentation(tables, sections, facts, *headline(settings, results))


def headline(settings: Settings, results: Results) -> tuple[str, str]:
    """What was found, and our numbers beside the source's."""
    narrow, wide, last = int(results.widths[0]), int(results.widths[-1]), int(results.steps[-1])
    kind = (settings.smooth, "ntk")
    moved = [100 * results.size(kind, width, last).value for width in (narrow, wide)]
    title = (
        f"In {last:,} steps the tangent kernel moves by {moved[0]:.2g} % of its size at width {narrow} and by "
        f"{moved[1]:.2g} % at width {wide}"
    )
    said = (
        "Theory bounds the movement of tangent kernels in training by the width to the power −1/2 and expects −1; with "
        f"{NAMES[settings.smooth]} it falls as the width to the power {in_words(results.exponent(kind, last))} after "
        f"{last:,} steps, from {moved[0]:.2g} % of the kernel’s size at width {narrow} to {moved[1]:.2g} % at {wide}."
    )
    return title, said


def _final(results: Results) -> np.ndarray:
    return np.array([loss[:, :, -1].mean(axis=1) for loss in results.loss.values()])


def movement_table(results: Results) -> Columns:
    """How far every network's kernel has moved at every recorded step, its loss and its learning rate."""
    loss = results.movement.alike({kind: losses[:, :, 1:] for kind, losses in results.loss.items()})
    moved = results.movement.items()
    rate = results.movement.alike({k: np.broadcast_to(results.rate[k][..., None], m.shape) for k, m in moved})
    return results.movement.table("relative_movement", training_loss=loss, learning_rate=rate)


def _against_width(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    last, widths = int(results.steps[-1]), results.widths
    with drawing.panels(
        folder,
        "movement-against-width",
        titles=[TITLES[p].capitalize() if p != "ntk" else TITLES[p] for p in PARAMETRISATIONS],
        xlabel="width n",
        ylabel="‖Θₜ − Θ₀‖ / ‖Θ₀‖",
        sharey=True,
        caption=f"How far the tangent kernel has moved after {last:,} steps, relative to its size at initialisation: "
        f"geometric mean over {settings.networks} networks, with 95 % intervals over networks. Dotted: 1/√n and 1/n.",
        alt="Relative movement of the tangent kernel against width",
    ) as drawn:
        for axes, parametrisation in zip(drawn, PARAMETRISATIONS, strict=True):
            values = {
                NAMES[phi]: [results.size((phi, parametrisation), int(w), last) for w in widths]
                for phi in settings.nonlinearities
            }
            drawing.curves(axes, widths, values, (palette.BLUE, palette.ORANGE), apart=1.05)
            if parametrisation != "mean-field":
                first = results.size((settings.smooth, parametrisation), int(widths[0]), last).value
                drawing.power(axes, widths, first, -0.5, label="∝ 1/√n, ∝ 1/n")
                drawing.power(axes, widths, first, -1)
            drawing.logarithmic(axes, "both", widths, base=2)
    return drawn.figure


def _over_training(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    pairs = [(phi, p) for phi in settings.nonlinearities for p in PARAMETRISATIONS]
    with drawing.panels(
        folder,
        "movement-over-training",
        titles=[f"{NAMES[phi]}, {TITLES[p]}" for phi, p in pairs],
        rows=2,
        size=(8.6, 5.4),
        xlabel="training step",
        ylabel="‖Θₜ − Θ₀‖ / ‖Θ₀‖",
        sharey=True,
        sharex=True,
        caption="The same over training, for every width. Geometric means over networks, with 95 % intervals.",
        alt="Relative movement of the tangent kernel over training",
    ) as drawn:
        for axes, kind in zip(drawn, pairs, strict=True):
            for width, colour in drawing.shades_of(results.widths.tolist()):
                values = [results.size(kind, width, int(step)) for step in results.steps]
                drawing.estimates(axes, results.steps, values, colour, label=f"width {width}")
            drawing.logarithmic(axes, "both")
    return drawn.figure


def _exponents(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    with drawing.panels(
        folder,
        "exponents",
        titles=[NAMES[phi] for phi in settings.nonlinearities],
        xlabel="training step",
        ylabel="exponent of the width",
        sharey=True,
        caption="Exponents of the movement against width, with 95 % intervals over networks. Lines: 0 (no width "
        "freezes the kernel), −1/2 (the theorem’s bound) and −1 (perturbation theory).",
        alt="Exponent of the movement against width over training",
    ) as drawn:
        for axes, phi in zip(drawn, settings.nonlinearities, strict=True):
            values = {
                TITLES[p]: [results.exponent((phi, p), int(step)) for step in results.steps] for p in PARAMETRISATIONS
            }
            drawing.curves(axes, results.steps, values, _COLOURS.values(), apart=1.12)
            for level in (0, -0.5, -1):
                axes.axhline(level, color=palette.INK.light, lw=0.8, ls=(0, (2, 2)))
            drawing.logarithmic(axes, "x")
    return drawn.figure
