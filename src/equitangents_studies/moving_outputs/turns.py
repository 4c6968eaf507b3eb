"""Which group element turned a template? Learnt from few images, with targets that live on the group.

On C_n: digits or letters on rings, and a network that ends on the group. On SO(3): signals on the sphere, a network
with vectors as outputs (three of them, the columns of a matrix), and the rotation that is closest to the matrix.
Kernels are those of an MLP, of the networks with the group or a part of it built in, and with a wrong group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from equitangents import actions, groups, nn, sphere
from equitangents.report import Figure, format_number
from equitangents.statistics import exactly
from equitangents_studies import data
from equitangents_studies.common import networks
from equitangents_studies.common.images import standardise
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.framework.claims import Claim, exact, ours, theirs
from equitangents_studies.framework.page import Presentation, Shown, drawing, table
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Task, at_least, check, presets
from equitangents_studies.moving_outputs import page as shared
from equitangents_studies.moving_outputs.kernels import (
    PLAIN,
    RIGHT,
    STD,
    WRONG,
    PairKernel,
    Problem,
    Score,
    Sets,
    Symmetry,
    Training,
    as_columns,
    learnt,
    moved_kernels,
    unit,
    without_negative,
)
from equitangents_studies.moving_outputs.learning import Learning, check_asked, check_sizes, measure_learning
from equitangents_studies.moving_outputs.page import REVIEW, THEIRS, saving_claims, time_claims, trained_claim

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


_SOME_TURNS = 6
_CHECKED = 3  # inputs whose kernels are compared


@dataclass(frozen=True)
class Settings:
    """C_`order` on `rings` × `angles` samples of images of `data` ("digits", "letters", or a data set); rotations of
    signals of `bandlimit` on the sphere with relative `noise`, means over SO(3) to `accuracy`. In each of `draws` draws
    training sets of `sizes` images (of `space_sizes` signals) and `test` further ones. `few` inputs are trained on in
    all orientations, at times in `units`. `ridge`, for signals `space_ridge`: relative to the mean diagonal.
    `members` networks of `width` are trained on `trained` images and recorded after `steps`.
    """

    data: str = "digits"
    order: int = 8
    rings: int = 4
    angles: int = 16
    bandlimit: int = 4
    noise: float = 0.3
    accuracy: float = 1e-3
    space_ridge: float = 3e-2
    sizes: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
    space_sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128)
    test: int = 50
    draws: int = 8
    hidden_layers: int = 2
    ridge: float = 1e-3
    few: int = 3
    units: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0, float("inf"))
    members: int = 64
    width: int = 64
    trained: int = 16
    steps: tuple[int, ...] = (1, 10, 100)
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="order=16 angles=32 accuracy=5e-4 sizes=4,8,16,32,64,128,256 test=100 draws=12 "
    "space_sizes=2,4,8,16,32,64,128,256 width=128 steps=1,10,100,1000",
    paper="data=mnist order=32 rings=8 angles=64 bandlimit=8 sizes=4,8,16,32,64,128,256,512 "
    "space_sizes=2,4,8,16,32,64,128,256,512 test=500 draws=20 hidden_layers=3 members=100 width=512 "
    "steps=1,10,100,1000",
)


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


@lru_cache(maxsize=2)
def _upright(name: str, data_dir: Path | None) -> np.ndarray:
    return upright(name, data_dir)


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Rings that the group turns exactly, images enough, sizes that increase."""
    s = settings
    at_least(s, order=2, rings=1, bandlimit=2, noise=0, test=1, draws=2, hidden_layers=1, few=1)
    check(s.order % 2 == 0, "order", s.order, "even, so that every second turn is a subgroup")
    check(s.angles % s.order == 0, "angles", s.angles, f"a multiple of the order, {s.order}")
    check(s.space_ridge > 0, "space_ridge", s.space_ridge, "positive")
    check(0 < s.accuracy < 1, "accuracy", s.accuracy, "between 0 and 1")
    check_sizes("sizes", s.sizes)
    check_sizes("space_sizes", s.space_sizes)
    check_asked(s, (s.sizes[-1], s.space_sizes[-1]), "inputs")
    known = (LETTERS, *data.names())
    check(s.data in known, "data", s.data, list(known))
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
    s, n = settings, settings.space_sizes[-1]
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
    s, kernel = settings, pair_kernel(mlp(settings.hidden_layers))
    rng = np.random.default_rng((s.seed, 2**31))
    channels = _upright(s.data, data_dir).shape[-1]
    shared: dict[str, Any] = {
        "draws": s.draws, "few": s.few, "units": s.units, "positions": ()
    }  # fmt: skip
    plane = Problem(
        name="turns",
        kernel=kernel,
        sizes=s.sizes,
        ridge=s.ridge,
        symmetries=plane_symmetries(s.order),
        draw=partial(plane_draw, s, data_dir),
        foreign=rng.standard_normal((s.few, s.rings, s.angles, channels)),
        scores={"squared": Score(squared), "wrong": Score(wrong_element, 1)},
        training=Training(mlp(s.hidden_layers, s.width, s.order), s.members, s.trained, s.steps, s.seed),
        **shared,
    )
    space = Problem(
        name="rotations",
        kernel=kernel,
        sizes=s.space_sizes,
        ridge=s.space_ridge,
        symmetries=space_symmetries(s.bandlimit, s.accuracy, s.hidden_layers),
        draw=partial(space_draw, s),
        foreign=rng.standard_normal((s.few, s.bandlimit**2)),
        scores={"squared": Score(squared), "degrees": Score(degrees_off, 180)},
        **shared,
    )
    return plane, space


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Both tasks, stage by stage, the kernel on the group, and random rotations."""
    plane, space = (measure_learning(p, folder) for p in problems(settings, folder.data_dir))
    data_dir = folder.data_dir
    found = folder.stages(
        {
            "group": Stage("group", "The network that ends on the group", partial(_on_the_group, settings, data_dir)),
            "rotated": Stage("rotated", "Random rotations", partial(_rotated, settings)),
        }
    )
    group, turned = found["group"], found["rotated"]
    errors = dict(zip(turned["models"].tolist(), turned["errors"].tolist(), strict=True))
    return Results(plane, space, float(group["difference"]), errors)


def _on_the_group(settings: Settings, data_dir: Path | None, task: Task) -> Arrays:
    """Largest relative difference of the kernel of group convolutions from |G| times the moved mean of the MLP's."""
    x = plane_draw(settings, data_dir, 0)[0][:_CHECKED]
    s = settings
    flat = x.reshape(len(x), -1, x.shape[-1])
    field = np.asarray(ends_on_group(s.order, s.rings, s.angles, s.hidden_layers).kernel_field(flat).ntk)
    symmetry = plane_symmetries(settings.order)[RIGHT]
    moved = moved_kernels(pair_kernel(mlp(settings.hidden_layers)), {"": symmetry}, x, x, ())[""].reshape(field.shape)
    task.step(1, 1)
    return {"difference": np.array(largest_difference(field / settings.order, moved))}


def _rotated(settings: Settings, task: Task) -> Arrays:
    """Relative error of f(Rx) against R f(x) over random R, of kernels trained on the first draw's largest set."""
    s = settings
    x, y, test, _ = space_draw(s, 0)
    test, found = test[:_CHECKED], {}
    turns = Rotation.random(_SOME_TURNS, np.random.default_rng((s.seed, 1))).as_matrix()
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


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Inputs saved, wrong groups, augmentation and architecture, the network on the group, and all rotations."""
    both = {"turns, ": results.plane, "rotations, ": results.space}
    some, every = (results.turned[title] for title in ("O", "SO(3)"))
    return [
        *saving_claims(both, "images"),
        *time_claims(both, "images"),
        *trained_claim(results.plane, "images"),
        exact(
            "The network that ends on the group has |G| times the moved mean of the MLP’s kernel",
            {"NTK": exactly(results.on_the_group)},
            measure="Largest difference relative to the largest entry, between all elements of C_n.",
            at_most=1e-10,
            by=theirs(THEIRS, REVIEW, "equal"),
        ),
        exact(
            "With SO(3) built in, vectors turn better with the signal under any rotation than with the cube’s 24 "
            "rotations",
            {"SO(3) over O": exactly(every / some)},
            measure=f"Root mean square of f(Rx) − R f(x) over {_SOME_TURNS} random rotations, relative to that of f, "
            f"after training, with SO(3) built in over that with the 24 rotations of a cube, {every:.2g} over "
            f"{some:.2g}: rotations are sampled to {settings.accuracy:g} of the kernel, and small "
            "eigenvalues enlarge that.",
            at_most=1,
            by=ours("our question"),
        ),
    ]


_PLANE = {"wrong": "Share of wrong elements", "squared": "Relative squared error"}
_SPACE = {"degrees": "Median error in degrees", "squared": "Relative squared error"}
_IMAGES = 6
_FINE = 8  # straight pieces of each arc


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    s = settings
    both = {f"C{s.order}": results.plane, "SO(3)": results.space}
    shown: list[Shown] = [
        shared.scores_figure(folder, "turns", results.plane, _PLANE, "images"),
        shared.scores_table(results.plane, _PLANE, "images"),
        shared.times_figure(folder, "turns-times", results.plane),
        *shared.trained_figures(folder, "trained", results.plane),
        _images(settings, folder),
        shared.scores_figure(folder, "rotations", results.space, _SPACE, "signals"),
        shared.scores_table(results.space, _SPACE, "signals"),
        shared.times_figure(folder, "rotations-times", results.space),
        table(
            "Error under random rotations after training, relative to the output.",
            ["built in", "error"],
            [[name, format_number(value)] for name, value in results.turned.items()],
        ),
    ]
    tables = {
        "turns": shared.score_columns({f"C{s.order}": results.plane}),
        "rotations": shared.score_columns({"SO(3)": results.space}),
        "factors": shared.factor_columns(both),
        "times": shared.time_columns(both),
    }
    return Presentation(tables, shown)


def _images(settings: Settings, folder: RunFolder) -> Figure:
    x, y, _, _ = plane_draw(settings, folder.data_dir, 0)
    count = min(_IMAGES, len(x))
    elements = y[:count].argmax(axis=1)
    with drawing.panels(
        folder,
        "images",
        titles=[f"element {g}" for g in elements],
        size=(8.6, 1.9),
        caption=(
            "Training images of the first draw on their rings, drawn as discs, with the group elements "
            "that turned them."
        ),
        alt="Turned images",
        subplot_kw={"projection": "polar"},
    ) as drawn:
        rings, angles = x.shape[1:3]
        edges = np.linspace(0, 2 * np.pi, _FINE * angles + 1) - np.pi / angles
        for drawn_on, image in zip(drawn, x, strict=False):
            axes: Any = drawn_on  # polar ones
            axes.set_theta_zero_location("S")  # angle 0 points down the rows
            axes.pcolormesh(
                edges, np.arange(rings + 1), np.repeat(image[..., 0], _FINE, axis=1), cmap="gray", rasterized=True
            )
            axes.set_xticks([])
            axes.set_yticks([])
            axes.grid(visible=False)
    return drawn.figure
