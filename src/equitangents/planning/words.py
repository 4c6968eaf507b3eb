"""What is planned for, in words: the network, the group, the data."""

from __future__ import annotations

import numpy as np

from equitangents import nn
from equitangents.groups.group_maps import GroupMap


def of_network(net: object, *, infinite: bool) -> str:
    """The layers with their widths, which mean nothing where the network is infinitely wide.

    >>> of_network(nn.Sequential(nn.Flatten(), nn.Dense(32), nn.Relu(), nn.Dense(1)), infinite=False)
    'Flatten, Dense 32, Relu, Dense 1'
    """
    if not isinstance(net, nn.Sequential):
        return getattr(net, "__name__", type(net).__name__)
    layers = []
    for layer in net.layers:
        channels = getattr(layer, "channels", None)
        layers.append(type(layer).__name__ + (f" {channels}" if channels is not None and not infinite else ""))
    return ", ".join(layers) + (", infinitely wide" if infinite else "")


def of_group(action: GroupMap) -> str:
    """The group and how it acts.

    >>> from equitangents import actions
    >>> of_group(actions.image_rotations(4))
    'C4, turns by 90° of images'
    """
    name = getattr(action, "name", None)
    return action.group.name if name is None else f"{action.group.name}, {name}"


def of_data(name: str | None, samples: int | None, x: np.ndarray) -> str:
    """What the networks are trained on.

    >>> of_data("digits", 60, np.zeros((10, 8, 8, 1)))
    'digits, 60 training samples of 8×8×1'
    """
    shape = "×".join(map(str, x.shape[1:]))
    count = "training samples" if samples is None else f"{samples:,} training sample{'s' if samples != 1 else ''}"
    return ("" if name is None else f"{name}, ") + f"{count} of {shape}"
