"""The two pairs of networks that the theorems join, on digits that say whether they are odd."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from equitangents import actions, nn
from equitangents_studies import data
from equitangents_studies.common import networks
from equitangents_studies.common.augmented_pairs import AugmentedPair
from equitangents_studies.common.images import standardise
from equitangents_studies.common.orbits import SQUARE_GROUPS
from equitangents_studies.mlp_to_gcnn.settings import Settings

GROUPS = SQUARE_GROUPS


def image_action(settings: Settings) -> actions.Action:
    """The group on the 64 pixels of a digit, (N, 64, 1)."""
    images = GROUPS[settings.group]()
    table = images.position_table((8, 8))
    assert table is not None
    return actions.permutations(images.group, table)


def gcnn(settings: Settings, action: actions.Action, width: int, window: Any = "full") -> nn.Sequential:
    """The group-convolutional network; `window` is that of the convolutions on the group."""
    return networks.gcnn(
        action, width, settings.hidden_layers, window=window, W_std=settings.W_std, b_std=settings.b_std
    )


def plain(settings: Settings, width: int) -> nn.Sequential:
    """The MLP."""
    return networks.mlp(width, settings.hidden_layers, W_std=settings.W_std, b_std=settings.b_std, flatten=True)


def _data(settings: Settings) -> tuple[dict[str, np.ndarray], np.ndarray]:
    source = data.digits().subset(settings.train_images, settings.test_images, seed=settings.seed)
    shape, n = (8, 8, 1), settings.foreign_images
    images = {
        "training": source.train_x,
        "test": source.test_x,
        "photographs": data.photo_patches(n, shape, seed=settings.seed),
        "noise": data.gaussian_noise(n, shape, seed=settings.seed),
    }
    sets = {name: standardise(x).reshape(len(x), 64, 1).astype(np.float64) for name, x in images.items()}
    return sets, np.where(source.train_y % 2, 1.0, -1.0)


def dense_pair(settings: Settings) -> AugmentedPair:
    """MLPs that see all copies, and group-convolutional networks with full windows that see none (Theorem 5.2)."""
    sets, y = _data(settings)
    action = image_action(settings)
    return AugmentedPair(partial(plain, settings), partial(gcnn, settings, action), action, sets, y)


def convolutional_pair(settings: Settings) -> AugmentedPair:
    """CNNs with 3×3 windows that see all copies, and networks on p4 or p4m that see none (Theorem 5.3)."""
    sets, y = _data(settings)
    few = settings.depth_images
    scales: dict[str, Any] = {"W_std": settings.W_std, "b_std": settings.b_std}
    return AugmentedPair(
        lambda width: networks.cnn(width, settings.hidden_layers, **scales),
        lambda width: networks.wallpaper_gcnn(
            8, width, settings.hidden_layers, reflections=settings.group == "D4", **scales
        ),
        GROUPS[settings.group](),
        {name: x[:few].reshape(-1, 8, 8, 1) for name, x in sets.items()},
        y[:few],
    )
