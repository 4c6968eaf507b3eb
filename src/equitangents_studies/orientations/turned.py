"""Templates turned by known group elements: digits or letters on rings by C_n, signals on the sphere by SO(3).

The target is the element itself: on C_n the signal on the group that is 1 at the element and 0 elsewhere, less its
mean; on SO(3) the rotation's matrix. Both move by left multiplication where the input is turned further.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from equitangents import actions, sphere
from equitangents_studies import data
from equitangents_studies.common.images import standardise

LETTERS = "letters"
_CLASSES = {"digits": (2, 3, 4, 5, 7), LETTERS: (0, 4, 5, 6, 9, 10, 15, 17)}  # that no turn takes to one another
_DECAY = 0.7  # of a template's amplitudes from one degree to the next


def upright(name: str, data_dir: Path | None) -> Float[np.ndarray, "n height width channels"]:
    """All upright images of a set: of digits 2, 3, 4, 5 and 7, of letters A, E, F, G, J, K, P and R."""
    if name == LETTERS:
        x, y = data.letters(16)
    else:
        source = data.load(name, data_dir)
        x, y = np.concatenate([source.train_x, source.test_x]), np.concatenate([source.train_y, source.test_y])
    known = _CLASSES.get("digits" if name == "mnist" else name)
    return x if known is None else x[np.isin(y, known)]


def turned_rings(
    images: Float[np.ndarray, "n height width channels"], order: int, rings: int, angles: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "n rings angles channels"], Float[np.ndarray, "n order"]]:
    """Images on rings, each turned by a random element of C_n, and the elements as signals on the group."""
    x = standardise(actions.to_rings(images, rings, angles)).astype(np.float64)
    elements = rng.integers(order, size=len(x))
    turned = np.asarray(actions.ring_rotations(order).act_each(elements, x))
    return turned, np.eye(order)[elements] - 1 / order


def template(bandlimit: int, seed: tuple[int, ...]) -> Float[np.ndarray, " harmonics"]:
    """A random signal on the sphere of norm 1 without a symmetry, in real spherical harmonics."""
    c = np.random.default_rng(seed).standard_normal(bandlimit**2) * _DECAY ** sphere.degrees(bandlimit)
    c[0] = 0
    found: np.ndarray = c / np.linalg.norm(c)
    return found


def turned_signals(
    count: int, bandlimit: int, noise: float, seed: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "n harmonics"], Float[np.ndarray, "n 3 3"]]:
    """One template with other noise each time, turned by random rotations, and the rotations.

    The noise has the template's spectrum and `noise` times its norm in expectation.
    """
    of = template(bandlimit, (seed,))
    spread = _DECAY ** sphere.degrees(bandlimit)
    spread[0] = 0
    spread *= noise / np.linalg.norm(spread)
    R = Rotation.random(count, rng).as_matrix()
    x = of + spread * rng.standard_normal((count, bandlimit**2))
    turned = np.stack([np.asarray(sphere.rotate(c[None, :, None], r))[0, :, 0] for c, r in zip(x, R, strict=True)])
    return turned * bandlimit, R  # entries of order 1


def nearest_rotations(M: Float[np.ndarray, "n 3 3"]) -> Float[np.ndarray, "n 3 3"]:
    """The rotation closest to each matrix: U diag(1, 1, ±1) Vᵀ of its singular value decomposition (Procrustes)."""
    U, _, V = np.linalg.svd(M)
    U[:, :, -1] *= np.linalg.det(U @ V)[:, None]
    found: np.ndarray = U @ V
    return found


def angles_between(a: Float[np.ndarray, "n 3 3"], b: Float[np.ndarray, "n 3 3"]) -> Float[np.ndarray, " n"]:
    """By how many degrees rotations differ."""
    found: np.ndarray = np.degrees(Rotation.from_matrix(a @ np.swapaxes(b, 1, 2)).magnitude())
    return found
