"""Templates turned by known group elements: digits or letters on rings by C_n, signals on the sphere by SO(3).

The target is the element itself: on C_n the signal on the group that is 1 at the element and 0 elsewhere, less its
mean; on SO(3) the rotation's matrix. Both move by left multiplication where the input is turned further.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from equitangents import actions, groups, nn, sphere
from equitangents_studies import data
from equitangents_studies.common import networks
from equitangents_studies.common.images import standardise
from equitangents_studies.common.moving_outputs.kernels import STD, PairKernel, Symmetry
from equitangents_studies.common.moving_outputs.problem import PLAIN, RIGHT, WRONG

LETTERS = "letters"
_CLASSES = {"digits": (2, 3, 4, 5, 7), LETTERS: (0, 4, 5, 6, 9, 10, 15, 17)}  # that no turn takes to one another
_DECAY = 0.7  # of a template's amplitudes from one degree to the next


def upright(name: str, data_dir: Path | None) -> Float[np.ndarray, "n height width channels"]:
    """All upright images of a set: of digits 2, 3, 4, 5 and 7, of letters A, E, F, G, J, K, P and R."""
    x, y = data.letters(16) if name == LETTERS else data.load(name, data_dir).pooled
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


_FEATURES = 8  # kernels do not depend on it


def mlp(hidden_layers: int, width: int = _FEATURES, outputs: int = 1) -> nn.Sequential:
    """Dense layers on all numbers of an input; turning both inputs leaves its kernel alone."""
    hidden = networks.hidden(hidden_layers, lambda: nn.Dense(width, **STD))
    return nn.Sequential(nn.Flatten(), *hidden, nn.Dense(outputs, **STD))


def ends_on_group(order: int, rings: int, angles: int, hidden_layers: int) -> nn.Sequential:
    """A network with C_n built in: lifted, convolved over the group, an output at every element."""
    places = np.arange(rings * angles).reshape(rings, angles)
    table = np.stack([np.roll(places, -g * angles // order, axis=1).ravel() for g in range(order)])
    lift = nn.Lift(actions.permutations(groups.cyclic(order), table), _FEATURES, "full", **STD)
    hidden: list[Any] = [lift, nn.Relu()]
    for _ in range(hidden_layers - 1):
        hidden += [nn.GroupConv(_FEATURES, "full", **STD), nn.Relu()]
    return nn.Sequential(*hidden, nn.Dense(1, **STD))


def ends_in_vectors(bandlimit: int, accuracy: float, hidden_layers: int) -> nn.Sequential:
    """A network with SO(3) built in: lifted to rotations, and read out as a vector."""
    so3 = groups.so3(bandlimit)
    hidden: list[Any] = [nn.SphereLift(so3, _FEATURES, tolerance=accuracy, **STD), nn.Relu()]
    for _ in range(hidden_layers - 1):
        hidden += [nn.GroupConv(_FEATURES, **STD), nn.Relu()]
    return nn.Sequential(*hidden, nn.Readout(so3.irreps(2)[1], **STD))


def pair_kernel(net: nn.Sequential) -> PairKernel:
    """The NTK of a network without positions as one between pairs of positions."""
    return lambda a, b: np.asarray(net.kernel(a, b).ntk)[:, None, :, None]


def plane_symmetries(order: int) -> dict[str, Symmetry]:
    """Nothing, C_n on signals on C_n, every second turn, and turns that are counted backwards."""
    turns, elements = actions.ring_rotations(order), np.arange(order)
    forwards = actions.labels(turns.group, (elements[:, None] + elements) % order)
    backwards = actions.labels(turns.group, (elements - elements[:, None]) % order)
    half = tuple(range(0, order, 2))
    return {
        PLAIN: Symmetry("nothing built in", turns),
        RIGHT: Symmetry(f"C{order}", turns, forwards, fibre=order),
        "subgroup": Symmetry(f"C{order // 2}", turns, forwards, half, fibre=order),
        WRONG: Symmetry(f"C{order} counted backwards", turns, backwards, fibre=order),
    }


def coefficient_rotations(group: groups.MatrixGroup, bandlimit: int) -> actions.Action:
    """A finite group of rotations on coefficients (N, B²)."""
    matrices = [np.asarray(sphere.rotate(np.eye(bandlimit**2)[..., None], R))[..., 0].T for R in group.matrices]
    return actions.linear(group, np.stack(matrices))


def space_symmetries(bandlimit: int, accuracy: float, hidden_layers: int) -> dict[str, Symmetry]:
    """Nothing, the 24 rotations of a cube, all rotations, and the 24 with vectors that stay as they are."""
    cube = groups.octahedral()
    turns, vectors = coefficient_rotations(cube, bandlimit), actions.rotations(cube)
    net, axes = ends_in_vectors(bandlimit, accuracy, hidden_layers), [2, 0, 1]  # of harmonics of degree 1: y, z, x
    scale = (4 * np.pi) ** 0.5 / bandlimit  # a lift takes means over the sphere, the MLP over coefficients

    def whole(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        found = np.moveaxis(np.asarray(net.kernel(scale * a[..., None], scale * b[..., None]).ntk, np.float64), 2, 1)
        return found[:, axes][..., axes]

    return {
        PLAIN: Symmetry("nothing built in", turns),
        RIGHT: Symmetry("O", turns, vectors, fibre=3),
        "whole": Symmetry("SO(3)", turns, vectors, fibre=3, whole=whole),
        WRONG: Symmetry("O, vectors left as they are", turns, actions.trivial(cube), fibre=3),
    }
