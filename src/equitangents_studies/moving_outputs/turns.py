"""Which group element turned a template? Learnt from few images, with targets that live on the group.

On C_n: digits or letters on rings, and a network that ends on the group. On SO(3): signals on the sphere, a network
with vectors as outputs (three of them, the columns of a matrix), and the rotation that is closest to the matrix.
Kernels are those of an MLP, of the networks with the group or a part of it built in, and with a wrong group.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from equitangents import actions, groups, nn, sphere
from equitangents_studies import data
from equitangents_studies.common import networks
from equitangents_studies.common.images import standardise
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Task, at_least, check, presets
from equitangents_studies.moving_outputs.kernels import (
    PLAIN,
    RIGHT,
    STD,
    WRONG,
    CommonSettings,
    PairKernel,
    Problem,
    Score,
    Sets,
    Symmetry,
    as_columns,
    check_common,
    learnt,
    moved_kernels,
    squared,
    unit,
    without_negative,
)


@dataclass(frozen=True)
class TurnSettings(CommonSettings):
    """C_`order` on `rings` × `angles` samples of images of `data` ("digits", "letters", or a data set); rotations of
    signals of `bandlimit` on the sphere with relative `noise`, means over SO(3) to `accuracy`, in training sets of
    `space_sizes` with `space_ridge`. Networks have `width` neurons.
    """

    data: str = "digits"
    order: int = 8
    rings: int = 4
    angles: int = 16
    bandlimit: int = 4
    noise: float = 0.3
    accuracy: float = 1e-3
    space_ridge: float = 3e-2
    space_sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128)
    width: int = 64
    sizes: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    test: int = 50
    draws: int = 8
    ridge: float = 1e-3
    few: int = 3
    trained: int = 16


TURNS = presets(
    TurnSettings(),
    desk="order=16 angles=32 accuracy=5e-4 sizes=4,8,16,32,64,128,256 test=100 draws=12 "
    "space_sizes=2,4,8,16,32,64,128,256 width=128 steps=1,10,100,1000",
    paper="data=mnist order=32 rings=8 angles=64 bandlimit=8 sizes=4,8,16,32,64,128,256,512 "
    "space_sizes=2,4,8,16,32,64,128,256,512 test=500 draws=20 hidden_layers=3 members=100 width=512 "
    "steps=1,10,100,1000",
)


def check_turns(s: TurnSettings, data_dir: Path | None) -> None:
    """Rings that the group turns exactly, and images enough."""
    at_least(s, order=2, rings=1, bandlimit=2, noise=0)
    check(s.order % 2 == 0, "order", s.order, "even, so that every second turn is a subgroup")
    check(s.angles % s.order == 0, "angles", s.angles, f"a multiple of the order, {s.order}")
    check(s.space_ridge > 0, "space_ridge", s.space_ridge, "positive")
    check(0 < s.accuracy < 1, "accuracy", s.accuracy, "between 0 and 1")
    known = (LETTERS, *data.names())
    check(s.data in known, "data", s.data, list(known))
    check_common(s, len(upright(s.data, data_dir)), space_sizes=s.space_sizes)


LETTERS = "letters"
_CLASSES = {"digits": (2, 3, 4, 5, 7), LETTERS: (0, 4, 5, 6, 9, 10, 15, 17)}  # that no turn takes to one another
_DECAY = 0.7  # of a template's amplitudes from one degree to the next


@lru_cache(maxsize=2)
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
    turn, turned = actions.ring_rotations(order), np.empty_like(x)
    for g in np.unique(elements):
        turned[elements == g] = turn(int(g), x[elements == g])
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
    moved = np.stack([np.roll(places, -g * angles // order, axis=1).ravel() for g in range(order)])
    lift = nn.Lift(actions.permutations(groups.cyclic(order), moved), _FEATURES, "full", **STD)
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


def plane_draw(settings: TurnSettings, data_dir: Path | None, k: int) -> Sets:
    """Turned images of a draw, and their elements."""
    s, rng = settings, np.random.default_rng((settings.seed, k))
    images = upright(s.data, data_dir)
    chosen = images[rng.permutation(len(images))[: s.sizes[-1] + s.test]]
    x, y = turned_rings(chosen, s.order, s.rings, s.angles, rng)
    n = s.sizes[-1]
    return x[:n], y[:n], x[n:], y[n:]


def space_draw(settings: TurnSettings, k: int) -> Sets:
    """Turned signals of a draw, and their rotations."""
    s, n = settings, settings.space_sizes[-1]
    x, R = turned_signals(n + s.test, s.bandlimit, s.noise, s.seed, np.random.default_rng((s.seed, k)))
    return x[:n], R[:n], x[n:], R[n:]


def wrong_element(predicted: np.ndarray, target: np.ndarray) -> float:
    """Share of inputs whose element is not the one with the largest output."""
    return float((predicted.argmax(axis=-1) != target.argmax(axis=-1)).mean())


def degrees_off(predicted: np.ndarray, target: np.ndarray) -> float:
    """The median over inputs of the angle between the closest rotation and the right one, in degrees."""
    return float(np.median(angles_between(nearest_rotations(predicted), target)))


def problems(s: TurnSettings, data_dir: Path | None) -> dict[str, Problem]:
    """The tasks on C_n and on SO(3): which element turned an image, which rotation a signal."""
    kernel, rng = pair_kernel(mlp(s.hidden_layers)), np.random.default_rng((s.seed, 2**31))
    plane = Problem(
        name="turns",
        settings=s,
        kernel=kernel,
        symmetries=plane_symmetries(s.order),
        positions=(),
        draw=partial(plane_draw, s, data_dir),
        foreign=rng.standard_normal((s.few, s.rings, s.angles, upright(s.data, data_dir).shape[-1])),
        sizes=s.sizes,
        ridge=s.ridge,
        scores={"squared": Score(squared), "wrong": Score(wrong_element, 1)},
        net=mlp(s.hidden_layers, s.width, s.order),
    )
    space = Problem(
        name="rotations",
        settings=s,
        kernel=kernel,
        symmetries=space_symmetries(s.bandlimit, s.accuracy, s.hidden_layers),
        positions=(),
        draw=partial(space_draw, s),
        foreign=rng.standard_normal((s.few, s.bandlimit**2)),
        sizes=s.space_sizes,
        ridge=s.space_ridge,
        scores={"squared": Score(squared), "degrees": Score(degrees_off, 180)},
    )
    return {"turns, ": plane, "rotations, ": space}


SOME_TURNS = 6
_CHECKED = 3  # inputs whose kernels are compared


def turn_checks(s: TurnSettings, folder: RunFolder) -> dict[str, float]:
    """How far the network that ends "on the group" is from the moved mean, and by the title of each symmetry relative
    equivariance errors under random rotations after training.
    """
    on_the_group = partial(_on_the_group, s, folder.data_dir)
    found = folder.stages(
        {
            "group": Stage("group", "The network that ends on the group", on_the_group),
            "rotated": Stage("rotated", "Random rotations", partial(_rotated, s)),
        }
    )
    turned = found["rotated"]
    errors = dict(zip(turned["models"].tolist(), turned["errors"].tolist(), strict=True))
    return {"on the group": float(found["group"]["difference"]), **errors}


def _on_the_group(s: TurnSettings, data_dir: Path | None, task: Task) -> Arrays:
    """Largest relative difference of the kernel of group convolutions from |G| times the moved mean of the MLP's."""
    x = plane_draw(s, data_dir, 0)[0][:_CHECKED]
    flat = x.reshape(len(x), -1, x.shape[-1])
    field = np.asarray(ends_on_group(s.order, s.rings, s.angles, s.hidden_layers).kernel_field(flat).ntk)
    symmetry = plane_symmetries(s.order)[RIGHT]
    moved = moved_kernels(pair_kernel(mlp(s.hidden_layers)), {"": symmetry}, x, x, ())[""].reshape(field.shape)
    task.step(1, 1)
    return {"difference": np.array(largest_difference(field / s.order, moved))}


def _rotated(s: TurnSettings, task: Task) -> Arrays:
    """Relative error of f(Rx) against R f(x) over random R, of kernels trained on the first draw's largest set."""
    x, y, test, _ = space_draw(s, 0)
    test, found = test[:_CHECKED], {}
    turns = Rotation.random(SOME_TURNS, np.random.default_rng((s.seed, 1))).as_matrix()
    copies = np.concatenate([np.asarray(sphere.rotate(test[..., None], R))[..., 0] for R in (np.eye(3), *turns)])
    some = {k: v for k, v in space_symmetries(s.bandlimit, s.accuracy, s.hidden_layers).items() if k != WRONG}
    kernel = pair_kernel(mlp(s.hidden_layers))
    grams, cross = (moved_kernels(kernel, some, a, x, ()) for a in (x, copies))
    for name, symmetry in some.items():
        K = grams[name] if symmetry.whole is None else without_negative(grams[name])
        mean = learnt(K, cross[name], as_columns(y, len(K)), s.space_ridge * unit(K)).reshape(-1, len(test), 3, 3)
        expected = turns[:, None] @ mean[0]
        found[symmetry.title] = float(np.sqrt(((mean[1:] - expected) ** 2).mean() / (mean[0] ** 2).mean()))
    task.step(1, 1)
    return {"models": np.array(list(found)), "errors": np.array(list(found.values()))}
