"""Groups that are no symmetry of the data although they are as large as one: conjugates by a random permutation."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents.actions import Action, from_function
from equitangents.errors import ShapeError
from equitangents.extending import check_whole


def scrambled(action: Action, shape: tuple[int, ...], seed: int = 0) -> Action:
    """ρ′(g) = π⁻¹ ρ(g) π on signals (N, *shape), with a random permutation π of the positions.

    Channels stay together; of vectors (N, features) the features are permuted. To an MLP this group looks as the right
    one does; the data know nothing of it.

    >>> from equitangents.actions import image_rotations
    >>> scrambled(image_rotations(4), (8, 8, 1))
    <action turns by 90° of images, positions scrambled of C4>
    """
    places = shape[:-1] if len(shape) > 1 else shape
    pi = np.random.default_rng(check_whole("seed", seed, 0)).permutation(int(np.prod(places)))
    back = np.argsort(pi)

    def permuted(x: np.ndarray, order: np.ndarray) -> np.ndarray:
        flat = x.reshape(len(x), len(pi), -1)
        return flat[:, order].reshape(x.shape)

    def moved(g: int, x: Any) -> Any:
        if x.shape[1:] != shape:
            raise ShapeError(f"x has shape {x.shape}; positions were scrambled for (N, {', '.join(map(str, shape))})")
        return permuted(np.asarray(action(g, permuted(np.asarray(x), pi))), back)

    return from_function(action.group, moved, exact=action.exact, name=f"{action.name}, positions scrambled")


def moved_at_random(action: Action, x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Every input moved by a random element of its own, so that the group is a symmetry of the data.

    >>> from equitangents.actions import image_rotations
    >>> moved_at_random(image_rotations(4), np.zeros((3, 8, 8, 1))).shape
    (3, 8, 8, 1)
    """
    drawn = np.random.default_rng(check_whole("seed", seed, 0)).integers(action.group.order, size=len(x))
    moved = np.array(x)
    for g in np.unique(drawn):
        moved[drawn == g] = np.asarray(action(int(g), x[drawn == g]))
    return moved
