"""Flows from few examples: what a symmetry that turns the vectors with the grid is worth.

Vortices that a uniform stream carries along are exact solutions of the Navier–Stokes equations; learnt is how
velocities change in a given time. Kernels on pairs of grid points: of a CNN that ends on positions, with C4 built in
(vectors turn with the grid), with C2 alone, and with a wrong group that turns the grid and leaves the vectors.

Exact solutions of the Navier–Stokes equations on a torus: vortices that a uniform stream carries along.

Let v = ∇⊥ψ, ψ a sum of waves that all have the length |k|² = q. Then (v·∇)v is a gradient, and
u(x, t) = U + e^{−νqt} v(x − Ut) solves ∂u/∂t + (u·∇)u = −∇p + νΔu, ∇·u = 0 (Taylor 1923, in a moving frame).
Turns and reflections of the plane carry solutions to solutions, and so does the map from u(·, 0) to u(·, T).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from equitangents import actions, nn
from equitangents.report import Figure, palette
from equitangents_studies.framework.claims import Claim
from equitangents_studies.framework.page import Presentation, drawing
from equitangents_studies.framework.study import RunFolder, at_least, check, presets
from equitangents_studies.moving_outputs import page as shared
from equitangents_studies.moving_outputs.kernels import (
    PLAIN,
    RIGHT,
    SHOWN,
    WRONG,
    Problem,
    Score,
    Sets,
    Symmetry,
    Training,
    ends_on_positions,
)
from equitangents_studies.moving_outputs.learning import Learning, check_asked, check_sizes, measure_learning
from equitangents_studies.moving_outputs.page import saving_claims, time_claims, trained_claim

VISCOSITY = 0.3


class Flows(NamedTuple):
    """Velocities (N, H, W, 2), components along rows and columns: `before`, and `after` the time asked for."""

    before: Float[np.ndarray, "n height width 2"]
    after: Float[np.ndarray, "n height width 2"]


def waves(q: int) -> Float[np.ndarray, "waves 2"]:
    """The wave vectors with |k|² = q, one of each pair ±k.

    >>> waves(5).astype(int).tolist()
    [[1, -2], [1, 2], [2, -1], [2, 1]]
    """
    most = int(q**0.5)
    every = [(a, b) for a in range(most + 1) for b in range(-most, most + 1) if a * a + b * b == q]
    return np.array([k for k in every if k[0] > 0 or k[1] > 0], float).reshape(-1, 2)


def flows(count: int, pixels: int, q: int, time: float, stream: float, seed: tuple[int, ...]) -> Flows:
    """`count` flows on a torus of side 2π, on a grid of `pixels` × `pixels`.

    Amplitudes of waves are Gaussian, so that a vortex turns at about unit speed; streams are uniform over the disc of
    radius `stream`.
    """
    rng = np.random.default_rng(seed)
    k = waves(q)
    amplitudes = rng.standard_normal((count, len(k))) / np.sqrt(len(k) / 2)
    phases = rng.uniform(0, 2 * np.pi, (count, len(k)))
    angle, speed = rng.uniform(0, 2 * np.pi, count), stream * np.sqrt(rng.uniform(0, 1, count))
    U = speed[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    return Flows(velocity(U, k, amplitudes, phases, pixels, 0.0), velocity(U, k, amplitudes, phases, pixels, time))


def velocity(
    U: Float[np.ndarray, "n 2"],
    k: Float[np.ndarray, "waves 2"],
    amplitudes: Float[np.ndarray, "n waves"],
    phases: Float[np.ndarray, "n waves"],
    pixels: int,
    time: float,
) -> Float[np.ndarray, "n pixels pixels 2"]:
    """u(x, time) on the grid, for streams U and waves k."""
    x = np.indices((pixels, pixels)) * 2 * np.pi / pixels
    angle = np.einsum("wa,aij->wij", k, x)[None] + (phases - time * U @ k.T)[:, :, None, None]
    q = float((k[0] ** 2).sum())
    across = np.stack([k[:, 1], -k[:, 0]], axis=-1) / np.sqrt(q)  # perpendicular to k: free of divergence
    v = np.einsum("nwij,wa->nija", amplitudes[:, :, None, None] * np.cos(angle), across)
    found: np.ndarray = U[:, None, None] + np.exp(-VISCOSITY * q * time) * v
    return found


@dataclass(frozen=True)
class Settings:
    """Flows on a grid of `pixels` × `pixels` points, waves with |k|² = `waves`, streams up to `stream`, in a `time`. In
    each of `draws` draws, training sets of `sizes` flows and `test` further ones. `few` flows are trained on in all
    orientations, at times in `units`. `ridge`: relative to the kernel's mean diagonal. `members` networks of
    `channels` channels are trained on `trained` flows and recorded after `steps`.
    """

    pixels: int = 8
    waves: int = 5
    time: float = 0.4
    stream: float = 1.5
    sizes: tuple[int, ...] = (1, 2, 4, 8, 16)
    test: int = 12
    draws: int = 6
    hidden_layers: int = 2
    ridge: float = 1e-4
    few: int = 2
    units: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0, float("inf"))
    members: int = 64
    channels: int = 8
    trained: int = 4
    steps: tuple[int, ...] = (1, 10, 100)
    seed: int = 0


PRESETS = presets(
    Settings(),
    desk="pixels=12 sizes=1,2,4,8,16,32 test=24 draws=20 hidden_layers=3 few=3 channels=16 trained=8 members=192 "
    "steps=1,10,100,300",
    paper="pixels=16 sizes=1,2,4,8,16,32,64 test=50 draws=20 hidden_layers=4 few=4 channels=64 trained=16 "
    "members=100 steps=1,10,100,1000",
)


@dataclass(frozen=True, eq=False)
class Results:
    """Learning of the change of velocities."""

    learning: Learning


def network(settings: Settings) -> nn.Sequential:
    """A CNN that ends on every grid point; turns carry its windows to windows."""
    return ends_on_positions(settings.hidden_layers, settings.channels, outputs=2)


def turning_fields() -> actions.Action:
    """C4 on fields of vectors (N, H, W, 2), components along rows and columns: both grid and vectors turn."""
    turns = actions.image_rotations(4)
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])  # a step down the rows becomes one along the columns
    return actions.tensor_product(
        turns, actions.channels(turns.group, np.stack([np.linalg.matrix_power(quarter, k) for k in range(4)]))
    )


def symmetries() -> dict[str, Symmetry]:
    """Nothing, C4, its half turns, and C4 that turns the grid of targets but not their vectors."""
    fields, still = turning_fields(), actions.image_rotations(4)
    return {
        PLAIN: Symmetry("nothing built in", fields),
        RIGHT: Symmetry("C4", fields, fields, fibre=2),
        "subgroup": Symmetry("C2", fields, fields, (0, 2), fibre=2),
        WRONG: Symmetry("C4, vectors left as they are", fields, still),
    }


def check_settings(settings: Settings, data_dir: Path | None) -> None:
    """Waves that exist and that the grid resolves, and sizes that increase."""
    s = settings
    at_least(s, pixels=4, waves=1, test=1, draws=2, hidden_layers=1, few=1, stream=0)
    check(len(waves(s.waves)) > 0, "waves", s.waves, "a sum of two squares: 1, 2, 4, 5, 8, 9, 10, …")
    check(4 * s.waves < s.pixels**2, "waves", s.waves, f"below {s.pixels**2 / 4:g}, which the grid resolves")
    check(s.time > 0, "time", s.time, "positive")
    check_sizes("sizes", s.sizes)
    check_asked(s, s.sizes[-1:], "flows")


def draw(settings: Settings, k: int) -> Sets:
    """Velocities of a draw, and how they change in the time."""
    s, n = settings, settings.sizes[-1]
    found = flows(n + s.test, s.pixels, s.waves, s.time, s.stream, (s.seed, k))
    x, y = found.before, found.after - found.before
    return x[:n], y[:n], x[n:], y[n:]


def squared(predicted: np.ndarray, target: np.ndarray) -> float:
    """Mean squared error relative to the mean square of the change."""
    return float(((predicted - target) ** 2).mean() / (target**2).mean())


def divergence(predicted: np.ndarray, target: np.ndarray) -> float:
    """Root mean square of the predicted change's divergence relative to that of its gradient, on the torus."""
    h, w = predicted.shape[1:3]
    k = [np.fft.fftfreq(n, 1 / n) * (np.abs(np.fft.fftfreq(n, 1 / n)) < n / 2) for n in (h, w)]
    spectrum = np.fft.fft2(predicted, axes=(1, 2))
    along = np.stack(np.meshgrid(*k, indexing="ij"), axis=-1)
    free = np.abs((along * spectrum).sum(axis=-1)) ** 2
    whole = (along**2).sum(axis=-1) * (np.abs(spectrum) ** 2).sum(axis=-1)
    return float(np.sqrt(free.sum() / whole.sum()))


def problem(settings: Settings) -> Problem:
    """The task, as kernels see it."""
    s, net = settings, network(settings)
    rng = np.random.default_rng((s.seed, 2**31))
    return Problem(
        name="flows",
        kernel=lambda a, b: np.asarray(net.kernel_field(a, b).ntk),
        symmetries=symmetries(),
        positions=(s.pixels, s.pixels),
        draw=partial(draw, s),
        foreign=rng.standard_normal((s.few, s.pixels, s.pixels, 2)),
        sizes=s.sizes,
        draws=s.draws,
        ridge=s.ridge,
        scores={"squared": Score(squared), "divergence": Score(divergence, 1)},
        few=s.few,
        units=s.units,
        training=Training(net, s.members, s.trained, s.steps, s.seed),
    )


def measure(settings: Settings, folder: RunFolder) -> Results:
    """Learning, stage by stage."""
    return Results(measure_learning(problem(settings), folder))


def claims(settings: Settings, results: Results) -> Sequence[Claim]:
    """Flows saved, a wrong group, augmentation and architecture at every time."""
    one = {"": results.learning}
    return [
        *saving_claims(one, "flows"),
        *time_claims(one, "flows"),
        *trained_claim(results.learning, "flows"),
    ]


_TITLES = {"squared": "Relative squared error", "divergence": "Divergence of predictions"}
_MOST_ARROWS = 10  # along an axis


def present(settings: Settings, results: Results, folder: RunFolder) -> Presentation:
    """Tables and figures."""
    learning = results.learning
    shown, tables = shared.fields_page(folder, learning, _TITLES, "flows", "flows")
    shown += [_flows(settings, results, folder)]
    return Presentation(tables, shown)


def _flows(settings: Settings, results: Results, folder: RunFolder) -> Figure:
    learning = results.learning
    middle = (len(learning.sizes) - 1) // 2
    _, _, x, y = draw(settings, 0)
    fields = (
        ("velocity", x, palette.INK),
        ("its change", y, palette.GREEN),
        ("plain", learning.shown[PLAIN][middle], palette.VERMILLION),
        ("C4 built in", learning.shown[RIGHT][middle], palette.BLUE),
    )
    count, every = min(SHOWN, len(x), 3), -(-x.shape[1] // _MOST_ARROWS)
    with drawing.panels(
        folder,
        "flows",
        titles=[name for name, *_ in fields] + [""] * (len(fields) * (count - 1)),
        rows=count,
        size=(8.6, 2.3 * count),
        caption=(
            "Flows not trained on, how they change, and what the plain and the C4 kernel predict after "
            "the middle training size; first draw. Changes have one scale in each row."
        ),
        alt="Velocities, their changes and predictions",
    ) as drawn:
        for j in range(count):
            largest = float(np.sqrt((y[j] ** 2).sum(axis=-1).max()))
            speed = float(np.sqrt((x[j] ** 2).sum(axis=-1).max()))
            for i, (_, shown, colour) in enumerate(fields):
                axes, field = drawn[j * len(fields) + i], np.asarray(shown[j])[::every, ::every]
                scale = speed if i == 0 else largest
                # columns to the right, rows downwards
                axes.quiver(
                    field[..., 1],
                    -field[..., 0],
                    color=colour.light,
                    angles="uv",
                    scale_units="xy",
                    scale=scale,
                    pivot="mid",
                )
                axes.set_xlim(-1, field.shape[1])
                axes.set_ylim(-1, field.shape[0])
                axes.set_aspect("equal")
                axes.invert_yaxis()
                axes.set_xticks([])
                axes.set_yticks([])
    return drawn.figure
