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
from scipy.spatial.transform import Rotation

from equitangents import sphere
from equitangents.report import Figure, Table, format_number
from equitangents.statistics import exactly
from equitangents_studies import data
from equitangents_studies.common.infinite import largest_difference
from equitangents_studies.common.moving_outputs import page as shared
from equitangents_studies.common.moving_outputs.claims import (
    REVIEW,
    THEIRS,
    headline,
    saving_claims,
    time_claims,
    trained_claim,
)
from equitangents_studies.common.moving_outputs.growing_sets import learnt, unit, without_negative
from equitangents_studies.common.moving_outputs.kernels import as_columns, moved_kernels
from equitangents_studies.common.moving_outputs.problem import RIGHT, WRONG, Problem, Score, Sets, Training
from equitangents_studies.common.moving_outputs.results import Learning, check_asked, check_sizes, measure_learning
from equitangents_studies.framework.claims import Claim, exact, ours, theirs
from equitangents_studies.framework.page import Presentation, drawing, section
from equitangents_studies.framework.study import Arrays, RunFolder, Stage, Study, Task, at_least, check, presets
from equitangents_studies.framework.works import EMERGENT_EQUIVARIANCE, EQUIVARIANT_KERNELS
from equitangents_studies.orientations.turned import (
    LETTERS,
    angles_between,
    ends_on_group,
    mlp,
    nearest_rotations,
    pair_kernel,
    plane_symmetries,
    space_symmetries,
    turned_rings,
    turned_signals,
    upright,
)

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
        *saving_claims(both, "images", "it turned the template"),
        *time_claims(both, "images"),
        *trained_claim(results.plane, "images"),
        exact(
            "The network that ends on the group has |G| times the moved mean of the MLP’s kernel",
            {"NTK": exactly(results.on_the_group)},
            measure="Largest difference relative to the largest entry, between all elements of C_n.",
            at_most=1e-10,
            by=theirs(THEIRS, REVIEW, "equal"),
            holds="Targets on a group cost one kernel of the MLP for each element, not one for each pair of them.",
            fails="The moved mean is not the kernel of group convolutions here: compute that one directly.",
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
            holds=f"For targets that any rotation turns, build in all of SO(3): the error is {every:.2g}, with the 24 "
            f"rotations {some:.2g}.",
            fails=f"The mean over rotations is too coarse for these signals (error {every:.2g}): lower `accuracy`.",
        ),
    ]


_PLANE = {"wrong": "Share of wrong elements", "squared": "Relative squared error"}
_SPACE = {"degrees": "Median error in degrees", "squared": "Relative squared error"}
_IMAGES = 6
_FINE = 8  # straight pieces of each arc


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables, figures and words."""
    s = settings
    both = {f"C{s.order}": results.plane, "SO(3)": results.space}
    plane = (
        f"Upright images of {s.data.replace('_', ' ')} are read along {s.rings} rings of {s.angles} samples, where "
        f"C{s.order} acts exactly, and turned by a random element. The target is a signal on the group: 1 at the "
        "element, 0 elsewhere, less its mean. The element with the largest output is predicted."
    )
    space = (
        f"One template on the sphere ({s.bandlimit**2} harmonics) gets other noise each time, {s.noise:g} of its norm, "
        "and a random rotation. The target is the rotation’s matrix; the rotation that is closest to the output "
        "(Procrustes) is predicted. A guess is off by 126.5° in the mean."
    )
    kernels = (
        f"The plain network is an MLP of {s.hidden_layers} hidden layers, ReLU. With a finite group built in its "
        "kernel is the mean over turned copies of one input, Θ(x, ρ(g)x′) ρ(g), where ρ(g) moves targets; with SO(3) "
        "it is that of a network that lifts the signal to rotations and is read out as a vector."
    )
    sections = [
        section(
            f"Elements of C{s.order}",
            plane,
            kernels,
            *shared.trained_words(results.plane, _PLANE, "images"),
            shared.scores_figure(folder, "turns", results.plane, _PLANE, "images"),
            shared.scores_table(results.plane, _PLANE, "images"),
            shared.times_figure(folder, "turns-times", results.plane),
            *shared.trained_figures(folder, "trained", results.plane),
            _images(settings, folder),
        ),
        section(
            "Elements of SO(3)",
            space,
            shared.scores_figure(folder, "rotations", results.space, _SPACE, "signals"),
            shared.scores_table(results.space, _SPACE, "signals"),
            shared.times_figure(folder, "rotations-times", results.space),
            Table(
                "Error under random rotations after training, relative to the output.",
                ["built in", "error"],
                [[name, format_number(value)] for name, value in results.turned.items()],
            ),
        ),
    ]
    tables = {
        "turns": shared.score_columns({f"C{s.order}": results.plane}),
        "rotations": shared.score_columns({"SO(3)": results.space}),
        "factors": shared.factor_columns(both),
        "times": shared.time_columns(both),
    }
    facts = {
        "Targets": f"signals on C{s.order}, and rotation matrices",
        "Training sets": f"up to {s.sizes[-1]:,} images and {s.space_sizes[-1]:,} signals, {s.draws} draws",
    }
    said = headline(
        {"turns, ": results.plane, "rotations, ": results.space}, "images", "outputs turn with their inputs"
    )
    return Presentation(tables, sections, facts, *said)


def _images(settings: Settings, folder: RunFolder) -> Figure:
    x, y, _, _ = plane_draw(settings, folder.data_dir, 0)
    count = min(_IMAGES, len(x))
    elements = y[:count].argmax(axis=1)
    with drawing.panels(
        folder,
        "images",
        titles=[f"element {g}" for g in elements],
        size=(8.6, 1.9),
        caption=f"Training images of the first draw on their rings, drawn as discs, with the elements of "
        f"C{settings.order} that turned them.",
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


STUDY: Study[Settings, Results] = Study(
    PRESETS, measure, claims, (EQUIVARIANT_KERNELS, EMERGENT_EQUIVARIANCE), check_settings
)
