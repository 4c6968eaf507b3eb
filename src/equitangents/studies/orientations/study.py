"""Which group element turned a template? Learnt from few images, with targets that live on the group.

On C_n: digits or letters on rings, and a network that ends on the group. On SO(3): signals on the sphere, a network with
vectors as outputs (three of them, the columns of a matrix), and the rotation that is closest to the matrix. Kernels are
those of an MLP, of the networks with the group or a part of it built in, and with a wrong group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from equitangents import actions, data, groups, nn, sphere
from equitangents.statistics import exactly
from equitangents.studies.common.moving_outputs.claims import THEOREM, saving_claims, time_claims
from equitangents.studies.common.moving_outputs.growing_sets import Sets, learnt
from equitangents.studies.common.moving_outputs.kernels import Symmetry, as_columns, moved_kernels
from equitangents.studies.common.moving_outputs.results import PLAIN, RIGHT, WRONG, Learning, Problem, measure_learning
from equitangents.studies.framework.citations import EMERGENT_EQUIVARIANCE, EQUIVARIANT_KERNELS
from equitangents.studies.framework.claims import EXACT, Claim, claim
from equitangents.studies.framework.study import Arrays, RunFolder, Study, Task, at_least, check
from equitangents.studies.orientations.turned import (
    LETTERS,
    angles_between,
    nearest_rotations,
    turned_rings,
    turned_signals,
    upright,
)

_FEATURES = 8  # kernels do not depend on it
_STD: dict[str, Any] = {"W_std": 2**0.5, "b_std": 0.1}
_SOME_TURNS = 6
_CHECKED = 3  # inputs whose kernels are compared


@dataclass(frozen=True)
class Settings:
    """C_`order` on `rings` × `angles` samples of images of `data` ("digits", "letters", or a data set); rotations of
    signals of `bandlimit` on the sphere with relative `noise`. In each of `draws` draws, training sets of `sizes` inputs
    and `test` further ones. `few` inputs are trained on in all orientations, at times in `units`. `ridge`: relative.
    """

    data: str = "digits"
    order: int = 8
    rings: int = 4
    angles: int = 16
    bandlimit: int = 4
    noise: float = 0.5
    accuracy: float = 1e-3
    sizes: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    test: int = 100
    draws: int = 6
    hidden_layers: int = 2
    ridge: float = 1e-3
    few: int = 3
    units: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0, float("inf"))
    seed: int = 0


PRESETS = {
    "quick": Settings(),
    "desk": Settings(order=16, angles=32, bandlimit=5, sizes=(4, 8, 16, 32, 64, 128, 256), test=200, draws=12),
    "paper": Settings(
        data="mnist", order=32, rings=8, angles=64, bandlimit=8, sizes=(4, 8, 16, 32, 64, 128, 256, 512), test=500,
        draws=20, hidden_layers=3,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Results:
    """Learning of elements of C_n and of SO(3), and how kernels and predictions agree with what theory says.

    `on_the_group` is how far the kernel of the network that ends on C_n is from the moved mean; `turned` (models,) are
    relative equivariance errors under random rotations after training.
    """

    plane: Learning
    space: Learning
    on_the_group: float
    turned: dict[str, float]


def mlp(settings: Settings) -> nn.Sequential:
    """Dense layers on all numbers of an input; turns of rings, and rotations of coefficients, leave its kernel alone."""
    hidden = [layer for _ in range(settings.hidden_layers) for layer in (nn.Dense(_FEATURES, **_STD), nn.Relu())]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Dense(1, **_STD))


def ends_on_group(settings: Settings) -> nn.Sequential:
    """The same with C_n built in: lifted, convolved over the group, an output at every element."""
    s = settings
    shift = np.arange(s.rings * s.angles).reshape(s.rings, s.angles)
    table = np.stack([np.roll(shift, -g * s.angles // s.order, axis=1).ravel() for g in range(s.order)])
    lift = nn.Lift(actions.permutations(groups.cyclic(s.order), table), _FEATURES, "full", **_STD)
    hidden: list[Any] = [lift, nn.Relu()]
    for _ in range(s.hidden_layers - 1):
        hidden += [nn.GroupConv(_FEATURES, "full", **_STD), nn.Relu()]
    return nn.Sequential(*hidden, nn.Dense(1, **_STD))


def ends_in_vectors(settings: Settings) -> nn.Sequential:
    """The same with SO(3) built in: lifted to rotations, and read out as a vector."""
    s = settings
    so3 = groups.so3(s.bandlimit)
    hidden: list[Any] = [nn.SphereLift(so3, _FEATURES, tolerance=s.accuracy, **_STD), nn.Relu()]
    for _ in range(s.hidden_layers - 1):
        hidden += [nn.GroupConv(_FEATURES, **_STD), nn.Relu()]
    return nn.Sequential(*hidden, nn.Readout(so3.irreps(2)[1], **_STD))


def pair_kernel(net: nn.Sequential) -> Any:
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


def coefficient_rotations(group: Any, bandlimit: int) -> actions.Action:
    """A finite group of rotations on coefficients (N, B²)."""
    matrices = [np.asarray(sphere.rotate(np.eye(bandlimit**2)[..., None], R))[..., 0].T for R in group.matrices]
    return actions.linear(group, np.stack(matrices))


def space_symmetries(settings: Settings) -> dict[str, Symmetry]:
    """Nothing, the 24 rotations of a cube, all rotations, and the 24 with vectors that stay as they are."""
    cube = groups.octahedral()
    turns, vectors = coefficient_rotations(cube, settings.bandlimit), actions.rotations(cube)
    net, axes = ends_in_vectors(settings), [2, 0, 1]  # of harmonics of degree 1: y, z, x
    scale = (4 * np.pi) ** 0.5 / settings.bandlimit  # a lift takes means over the sphere, the MLP over coefficients

    def whole(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        found = np.moveaxis(np.asarray(net.kernel(scale * a[..., None], scale * b[..., None]).ntk, np.float64), 2, 1)
        return found[:, axes][..., axes]

    return {
        PLAIN: Symmetry("nothing built in", turns),
        RIGHT: Symmetry("O", turns, vectors, fibre=3),
        "whole": Symmetry("SO(3)", turns, vectors, fibre=3, whole=whole),
        WRONG: Symmetry("O, vectors left as they are", turns, actions.trivial(cube), fibre=3),
    }


@lru_cache(maxsize=2)
def _upright(name: str, data_dir: Path | None) -> np.ndarray:
    return upright(name, data_dir)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Rings that the group turns exactly, images enough, sizes that increase."""
    s = settings
    at_least(s, order=2, rings=1, bandlimit=2, noise=0, test=1, draws=2, hidden_layers=1, few=1)
    check(s.order % 2 == 0, "order", s.order, "even, so that every second turn is a subgroup")
    check(s.angles % s.order == 0, "angles", s.angles, f"a multiple of the order, {s.order}")
    check(s.ridge > 0, "ridge", s.ridge, "positive")
    check(0 < s.accuracy < 1, "accuracy", s.accuracy, "between 0 and 1")
    check(list(s.sizes) == sorted(set(s.sizes)) and len(s.sizes) >= 2, "sizes", s.sizes, "two or more, increasing")
    check(min(s.sizes) >= 1, "sizes", s.sizes, "at least 1 each")
    check(s.few <= min(s.sizes[-1], s.test), "few", s.few, f"at most {min(s.sizes[-1], s.test)}, inputs of a draw")
    check(len(s.units) >= 1 and min(s.units) > 0, "units", s.units, "positive times")
    known = (LETTERS, *data.names())
    check(s.data in known, "data", repr(s.data), f"one of {', '.join(known)}")
    held, needed = len(_upright(s.data, data_dir)), s.sizes[-1] + s.test
    check(needed <= held, "sizes", s.sizes, f"so few that they and {s.test} test images are at most {held}")


def plane_draw(settings: Settings, data_dir: Path | None, k: int) -> Sets:
    """Turned images of a draw, and their elements."""
    s, rng = settings, np.random.default_rng((settings.seed, k))
    images = _upright(s.data, data_dir)
    chosen = images[rng.permutation(len(images))[: s.sizes[-1] + s.test]]
    x, y = turned_rings(chosen, s.order, s.rings, s.angles, rng)
    n = s.sizes[-1]
    return x[:n], y[:n], x[n:], y[n:]


def space_draw(settings: Settings, k: int) -> Sets:
    """Turned signals of a draw, and their rotations."""
    s, n = settings, settings.sizes[-1]
    x, R = turned_signals(n + s.test, s.bandlimit, s.noise, s.seed, np.random.default_rng((s.seed, k)))
    return x[:n], R[:n], x[n:], R[n:]


def squared(predicted: np.ndarray, target: np.ndarray) -> float:
    """Mean squared error relative to the mean square of the targets."""
    return float(((predicted - target) ** 2).mean() / (target**2).mean())


def wrong_element(predicted: np.ndarray, target: np.ndarray) -> float:
    """Share of inputs whose element is not the one with the largest output."""
    return float((predicted.argmax(axis=-1) != target.argmax(axis=-1)).mean())


def degrees_off(predicted: np.ndarray, target: np.ndarray) -> float:
    """The median over inputs of the angle between the closest rotation and the right one, in degrees."""
    return float(np.median(angles_between(nearest_rotations(predicted), target)))


def problems(settings: Settings, data_dir: Path | None) -> tuple[Problem, Problem]:
    """The tasks on C_n and on SO(3), as kernels see them."""
    s, kernel = settings, pair_kernel(mlp(settings))
    rng = np.random.default_rng((s.seed, 2**31))
    channels = _upright(s.data, data_dir).shape[-1]
    shared: dict[str, Any] = {
        "sizes": s.sizes, "draws": s.draws, "ridge": s.ridge, "few": s.few, "units": s.units, "positions": ()
    }  # fmt: skip
    plane = Problem(
        name="turns",
        kernel=kernel,
        symmetries=plane_symmetries(s.order),
        draw=partial(plane_draw, s, data_dir),
        foreign=rng.standard_normal((s.few, s.rings, s.angles, channels)),
        scores={"squared": squared, "wrong": wrong_element},
        **shared,
    )
    space = Problem(
        name="rotations",
        kernel=kernel,
        symmetries=space_symmetries(s),
        draw=partial(space_draw, s),
        foreign=rng.standard_normal((s.few, s.bandlimit**2)),
        scores={"squared": squared, "degrees": degrees_off},
        **shared,
    )
    return plane, space


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Both tasks, stage by stage, the kernel on the group, and random rotations."""
    plane, space = (measure_learning(p, folder) for p in problems(settings, folder.data_dir))
    data_dir = folder.data_dir
    group = folder.stage("group", "The network that ends on the group", partial(_on_the_group, settings, data_dir))
    turned = folder.stage("rotated", "Random rotations", partial(_rotated, settings))
    errors = dict(zip(turned["models"].tolist(), turned["errors"].tolist(), strict=True))
    return Results(plane, space, float(group["difference"]), errors)


def _on_the_group(settings: Settings, data_dir: Path | None, task: Task) -> Arrays:
    """Largest relative difference of the kernel of group convolutions from |G| times the moved mean of the MLP's."""
    x = plane_draw(settings, data_dir, 0)[0][:_CHECKED]
    field = np.asarray(ends_on_group(settings).kernel_field(x).ntk)
    symmetry = plane_symmetries(settings.order)[RIGHT]
    moved = moved_kernels(pair_kernel(mlp(settings)), {"": symmetry}, x, x, ())[""].reshape(field.shape)
    task.step(1, 1)
    return {"difference": np.array(np.abs(field / settings.order - moved).max() / np.abs(moved).max())}


def _rotated(settings: Settings, task: Task) -> Arrays:
    """Relative error of f(Rx) against R f(x) over random R, of kernels trained on the first draw's largest set."""
    s = settings
    x, y, test, _ = space_draw(s, 0)
    test, found = test[:_CHECKED], {}
    turns = Rotation.random(_SOME_TURNS, np.random.default_rng((s.seed, 1))).as_matrix()
    copies = np.concatenate([np.asarray(sphere.rotate(test[..., None], R))[..., 0] for R in (np.eye(3), *turns)])
    some = {k: v for k, v in space_symmetries(s).items() if k != WRONG}
    kernel = pair_kernel(mlp(s))
    grams, cross = (moved_kernels(kernel, some, a, x, ()) for a in (x, copies))
    for name, symmetry in some.items():
        K = grams[name]
        mean = learnt(K, cross[name], as_columns(y, len(K)), s.ridge).reshape(-1, len(test), 3, 3)
        expected = turns[:, None] @ mean[0]
        found[symmetry.title] = float(np.sqrt(((mean[1:] - expected) ** 2).mean() / (mean[0] ** 2).mean()))
    task.step(1, 1)
    return {"models": np.array(list(found)), "errors": np.array(list(found.values()))}


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Inputs saved, wrong groups, augmentation and architecture, the network on the group, and all rotations."""
    both = {"turns, ": results.plane, "rotations, ": results.space}
    some, every = (results.turned[title] for title in ("O", "SO(3)"))
    return [
        *saving_claims(both, "images", "it turned the template"),
        *time_claims(both, "images"),
        claim(
            "The network that ends on the group has |G| times the moved mean of the MLP’s kernel",
            {"NTK": exactly(results.on_the_group)},
            measure="Largest difference relative to the largest entry, between all elements of C_n.",
            covers=EXACT,
            at_most=1e-10,
            source=THEOREM,
            stated="equal",
            holds="Targets on a group cost one kernel of the MLP for each element, not one for each pair of them.",
            fails="The moved mean is not the kernel of group convolutions here: compute that one directly.",
        ),
        claim(
            "Vectors read out from SO(3) turn with the signal under any rotation, to the accuracy of its mean over rotations",
            {"SO(3)": exactly(every)},
            measure=f"Root mean square of f(Rx) − R f(x) over {_SOME_TURNS} random rotations, relative to that of f, after "
            f"training; the mean over rotations is accurate to {settings.accuracy:g}. With the 24 rotations of a cube "
            f"built in it is {some:.2g}.",
            covers=EXACT,
            at_most=10 * settings.accuracy,
            source=THEOREM,
            stated="0",
            holds=f"For targets that any rotation turns, build in all of SO(3): the 24 rotations leave {some:.2g}.",
            fails=f"The mean over rotations is too coarse for these signals (error {every:.2g}): lower `accuracy`.",
        ),
    ]


STUDY: Study[Settings, Results] = Study(
    PRESETS, measure, claims, (EQUIVARIANT_KERNELS, EMERGENT_EQUIVARIANCE), check_settings
)
