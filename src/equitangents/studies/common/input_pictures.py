"""A small figure of the inputs as the networks see them: brought to size, standardised, in their orientations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from equitangents.actions import Action
from equitangents.report import Figure
from equitangents.studies.framework.folder import RunFolder
from equitangents.studies.framework.panels import panels

_ACROSS = 8


def input_pictures(
    folder: RunFolder, action: Action, sets: Mapping[str, np.ndarray], titles: Mapping[str, str], name: str = "inputs"
) -> Figure:
    """The first image of every set under at most eight elements of the group, the identity first."""
    order = int(action.group.order)
    shown = sorted({round(k * order / _ACROSS) for k in range(_ACROSS)}) if order > _ACROSS else list(range(order))
    with panels(
        folder,
        name,
        titles=[f"element {g}" if g else titles[name] for name in sets for g in shown],
        rows=len(sets),
        size=(8.6, 1.5 * len(sets) + 0.3),
        caption="First image of each set and that image under elements of the group, as the networks see it.",
        alt="Images of every set in several orientations",
    ) as drawn:
        axes = iter(drawn)
        for x in sets.values():
            for g in shown:
                panel = next(axes)
                panel.imshow(visible(np.asarray(action(g, x[:1]))[0]), cmap="gray", interpolation="nearest")
                panel.axis("off")
                panel.title.set_fontsize(7)
    return drawn.figure


def visible(image: np.ndarray) -> np.ndarray:
    """A standardised image in shades from its darkest to its brightest value: grey (H, W), or colour (H, W, 3)."""
    low, high = float(image.min()), float(image.max())
    shades = (image - low) / (high - low if high > low else 1.0)
    return shades if image.shape[-1] == 3 else shades[..., 0]


def corners(action: Action) -> list[str]:
    """What fills the places that turn in from outside of the image, where an action has such places."""
    if action.exact:
        return []
    return ["What turns in from outside of the image is 0, its mean grey value, whatever its border is."]
