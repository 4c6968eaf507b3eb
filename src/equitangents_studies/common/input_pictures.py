"""The inputs as the networks see them, in a small figure, and why foreign ones are foreign."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from equitangents.actions import Action
from equitangents.report import Figure
from equitangents_studies.framework import drawing
from equitangents_studies.framework.folder import RunFolder

_ACROSS = 8


def input_pictures(
    folder: RunFolder, action: Action, sets: Mapping[str, np.ndarray], titles: Mapping[str, str], name: str = "inputs"
) -> Figure:
    """The first image of every set under at most eight elements of the group, the identity first."""
    order = int(action.group.order)
    shown = sorted({round(k * order / _ACROSS) for k in range(_ACROSS)}) if order > _ACROSS else list(range(order))
    return picture_grid(
        folder,
        name,
        [[np.asarray(action(g, x[:1]))[0] for g in shown] for x in sets.values()],
        [_turn(action, g) if g else titles[name] for name in sets for g in shown],
        size=(8.6, 1.5 * len(sets) + 0.3),
        caption="First image of each set and that image under elements of the group, as the networks see it.",
        alt="Images of every set in several orientations",
        fontsize=8,  # "Fashion-MNIST" fits above one of eight images
    )


def _turn(action: Action, g: int) -> str:
    """The angle by which g turns, or what its group calls it."""
    degrees = action.angle(g)
    return f"element {action.group.label(g)}" if degrees is None else f"{degrees:g}°"


def picture_grid(
    folder: RunFolder,
    name: str,
    rows: Sequence[Iterable[np.ndarray]],
    titles: Sequence[str],
    *,
    size: tuple[float, float],
    caption: str,
    alt: str,
    fontsize: float | None = None,
) -> Figure:
    """A figure of images (H, W, channels), a panel each, row by row; titles beyond the first row may be left out."""
    shown = [image for row in rows for image in row]
    every = [*titles, *[""] * (len(shown) - len(titles))]
    with drawing.panels(folder, name, titles=every, rows=len(rows), size=size, caption=caption, alt=alt) as drawn:
        for axes, title, image in zip(drawn, every, shown, strict=True):
            axes.imshow(visible(image), cmap="gray", interpolation="nearest")
            axes.axis("off")
            if fontsize is not None:
                axes.set_title(title, fontsize=fontsize)
    return drawn.figure


def visible(image: np.ndarray) -> np.ndarray:
    """A standardised image in shades from its darkest to its brightest value: grey (H, W), or colour (H, W, 3)."""
    low, high = float(image.min()), float(image.max())
    shades = (image - low) / (high - low if high > low else 1.0)
    return shades if image.shape[-1] == 3 else shades[..., 0]
