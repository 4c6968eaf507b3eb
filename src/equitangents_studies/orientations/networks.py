"""Networks and symmetries of the orientations: an MLP, and the same with C_n or SO(3) built in."""

from __future__ import annotations

from typing import Any

import numpy as np

from equitangents import actions, groups, nn, sphere
from equitangents_studies.common.moving_outputs.kernels import STD, PairKernel, Symmetry
from equitangents_studies.common.moving_outputs.results import PLAIN, RIGHT, WRONG

_FEATURES = 8  # kernels do not depend on it


def mlp(hidden_layers: int, width: int = _FEATURES, outputs: int = 1) -> nn.Sequential:
    """Dense layers on all numbers of an input; turning both inputs leaves its kernel alone."""
    hidden = [layer for _ in range(hidden_layers) for layer in (nn.Dense(width, **STD), nn.Relu())]
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
